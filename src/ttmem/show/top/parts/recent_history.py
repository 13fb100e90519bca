# SPDX-License-Identifier: Apache-2.0
"""Charts of the last minutes of the selected chip, in the room that a view has left."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ttmem.show.top.dashboard_state import Model
from ttmem.show.top.parts.chip_chart import METRICS, ChipPainter, Drawing, Quantity
from ttmem.show.top.parts.chip_history import NAMES, values_of
from ttmem.show.top.parts.history_loader import HistoryLoader
from ttmem.show.top.parts.rows import Characters, Row, Size

if TYPE_CHECKING:
    from ttmem.model.schema import ChipRow

MEMORY = METRICS["memory"]
L1 = MEMORY[1:]
SENSORS = (*METRICS["temperature"], *METRICS["power"])
_WINDOW_SECONDS = 300  # that are drawn
_STEP_SECONDS = 2  # after which they are drawn anew: a wide chart takes time
_SPARKS_ROWS, _CHART_ROWS = 3, 8  # that lines need, and a chart
_SEPARATE_CHARTS_ROWS = 9  # from which on each quantity has a chart to itself
_MOST_CHARTS = 12  # charts of chips that were chosen before


class RecentHistory:
    """Asks the server for what was before, once, if there is room to draw it."""

    def __init__(self) -> None:
        self._histories = HistoryLoader()
        self._kept: dict[tuple[str, str], Any] = {}
        self._drawn = False
        self._look: object = None
        self._rows: list[Row] = []

    def wants(self, model: Model) -> list[str]:
        chip = model.chip()
        return self._histories.wants(model, [chip], _WINDOW_SECONDS) if self._drawn and chip is not None else []

    def rows(self, model: Model, quantities: Sequence[Quantity], room: Size, signs: Characters) -> list[Row]:
        """A blank row and a chart, or lines, or nothing; of what is known of the chip."""
        chip, size = model.chip(), Size(room.width, room.height - 1)
        self._drawn = chip is not None and size.height >= _SPARKS_ROWS
        if chip is None or not self._drawn:
            return []
        until = model.until // _STEP_SECONDS * _STEP_SECONDS
        # The words beside the lines say what the tables above say, at the same moment.
        look = (chip["chip"], quantities, size, signs, until, chip["board"], values_of(chip))
        if look != self._look:
            self._look, self._rows = look, self._made(model, chip, quantities, size, signs, until)
        return self._rows

    def _made(
        self, model: Model, chip: ChipRow, quantities: Sequence[Quantity], size: Size, signs: Characters, until: float
    ) -> list[Row]:
        now = dict(zip(NAMES, values_of(chip)))
        if all(now[quantity.name] is None for quantity in quantities):
            quantities = tuple(quantity for quantity in SENSORS if now[quantity.name] is not None)
            if not quantities:
                return []
        if len(self._kept) > _MOST_CHARTS:
            self._kept.clear()
        pen = ChipPainter(model, signs, Drawing(until, _WINDOW_SECONDS), self._kept)
        if size.height < _CHART_ROWS:
            return [[], *pen.sparks(chip, quantities, size)]
        if size.height >= _SEPARATE_CHARTS_ROWS * len(quantities):
            return [[], *pen.zoom(chip, quantities, size)]
        return [[], *pen.chart(chip, quantities if quantities == MEMORY else quantities[:1], size)]

# SPDX-License-Identifier: Apache-2.0
"""Charts of the last minutes of the selected chip, in the free space of a view."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ttmem.show.top.dashboard_state import Model, TimeSpan
from ttmem.show.top.parts.chip_chart import METRICS, ChipPainter, Drawing, Quantity
from ttmem.show.top.parts.chip_history import NAMES, values_of
from ttmem.show.top.parts.history_loader import HistoryLoader
from ttmem.show.top.parts.rows import Characters, Row, Size

if TYPE_CHECKING:
    from ttmem.model.schema import ChipRow

MEMORY = METRICS["memory"]
L1 = MEMORY[1:]
SENSORS = (*METRICS["temperature"], *METRICS["power"])
_WINDOW_SECONDS = 300  # length of the charts
_STEP_SECONDS = 2  # redraw interval, because a wide chart takes time
_SPARKS_ROWS, _CHART_ROWS = 3, 8  # minimum height of sparks and of a chart
_SEPARATE_CHARTS_ROWS = 9  # minimum height per quantity for separate charts
_MOST_CHARTS = 12  # cached charts of earlier selected chips


class RecentHistory:
    """Requests the earlier history from the server once, if there is room to draw it."""

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
        """A blank row and a chart or sparks of the selected chip; nothing if there is no room."""
        chip, size = model.chip(), Size(room.width, room.height - 1)
        self._drawn = chip is not None and size.height >= _SPARKS_ROWS
        if chip is None or not self._drawn:
            return []
        span = model.span(None if model.playback is not None else _WINDOW_SECONDS)
        if span.origin is None:
            span = span._replace(until=span.until // _STEP_SECONDS * _STEP_SECONDS)
        # Includes the current values, so that texts beside curves always agree with the tables above.
        look = (chip["chip"], quantities, size, signs, span, chip["board"], values_of(chip), model.past.version)
        if look != self._look:
            self._look, self._rows = look, self._made(model, chip, quantities, size, signs, span)
        return self._rows

    def _made(
        self, model: Model, chip: ChipRow, quantities: Sequence[Quantity], size: Size, signs: Characters, span: TimeSpan
    ) -> list[Row]:
        now = dict(zip(NAMES, values_of(chip)))
        if all(now[quantity.name] is None for quantity in quantities):
            quantities = tuple(quantity for quantity in SENSORS if now[quantity.name] is not None)
            if not quantities:
                return []
        if len(self._kept) > _MOST_CHARTS:
            self._kept.clear()
        drawing = Drawing(span.until, span.window, cursor=span.cursor, origin=span.origin)
        pen = ChipPainter(model, signs, drawing, self._kept)
        if size.height < _CHART_ROWS:
            return [[], *pen.sparks(chip, quantities, size)]
        if size.height >= _SEPARATE_CHARTS_ROWS * len(quantities):
            return [[], *pen.zoom(chip, quantities, size)]
        return [[], *pen.chart(chip, quantities if quantities == MEMORY else quantities[:1], size)]

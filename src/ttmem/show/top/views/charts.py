# SPDX-License-Identifier: Apache-2.0
"""View 2: charts of how full each chip was, in a grid that adapts to the number of chips."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ttmem.show.top.dashboard_state import Model
from ttmem.show.top.parts.chip_chart import METRICS, ChipPainter, Quantity
from ttmem.show.top.parts.history_loader import HistoryLoader
from ttmem.show.top.parts.rows import Characters, Row, Size, fitted, width_of

WINDOWS_SECONDS = (30, 60, 300, 900, 3600, 21600, 86400)
_WINDOW_WORDS = ("30 seconds", "minute", "5 minutes", "15 minutes", "hour", "6 hours", "24 hours")
_FEW_CHIPS = 4  # so few may have their phases drawn in the grid
_CHART = Size(24, 6)  # least size of a chart with a title; below that there are only rows
_SPARK_COLUMNS = 15
_PHASES = "/phases"


class Grid(NamedTuple):
    """How tiles lie on the screen."""

    across: int
    down: int  # rows of tiles that are seen
    tile: Size
    charts: bool  # or rows of sparks


class _Tile(NamedTuple):
    x: int
    y: int
    size: Size
    chip_id: str


def grid(count: int, size: Size, lines: int) -> Grid:
    """The largest tiles with which all chips are seen; if that cannot be, as many as there is room for."""
    best: tuple[float, Grid] | None = None
    for across in range(1, count + 1):
        down = -(-count // across)
        tile = Size((size.width + 1) // across - 1, size.height // down)
        if tile.width >= _CHART.width and tile.height >= _CHART.height:
            worth = min(tile.width / 3.2, tile.height)
            if best is None or worth > best[0]:
                best = worth, Grid(across, down, tile, True)
    if best is not None:
        return best[1]
    high = 1 + lines
    down = max(1, size.height // high)
    across = max(1, min(-(-count // down), (size.width + 1) // (_SPARK_COLUMNS + 1)))
    needed = -(-count // across)
    down = min(down, needed)
    return Grid(across, down, Size((size.width + 1) // across - 1, high), False)


class Charts:
    """
    >>> Charts().name
    'Charts'
    """

    name = "Charts"
    keys: tuple[tuple[str, str], ...] = (
        ("w W", "a longer or shorter window, from 30 s to 24 h"),
        ("m M", "memory, temperature, power, clock"),
        ("enter z", "the chosen chip alone, or all chips"),
        ("p", "the highest values on and off"),
        ("left right", "choose a chip"),
    )
    kept = ("window", "metric", "peaks")

    def __init__(self) -> None:
        self.window = 300
        self.metric = "memory"
        self.peaks = True
        self.zoomed = False
        self._top = 0  # first row of tiles that is seen
        self._tiles: list[_Tile] = []
        self._kept: dict[tuple[str, str], Any] = {}
        self._histories = HistoryLoader()
        self._phases_time = 0.0

    # -- what it asks for ----------------------------------------------------------------------------------------

    def wants(self, model: Model) -> list[str]:
        """The server's history of one chip after another, each once; and phases where they are drawn."""
        out = [_PHASES] if self.zoomed or len(model.chips) <= _FEW_CHIPS else []
        answer = model.answers.get(_PHASES)
        if answer is not None and answer.data is not None and answer.time != self._phases_time:
            self._phases_time = answer.time
            model.past.take_phases(answer.data, model.past.newest)
        chips = sorted(model.chips, key=lambda chip: chip["chip"] != model.selected)
        return [*out, *self._histories.wants(model, chips, self._window())]

    # -- keys and clicks -----------------------------------------------------------------------------------------

    def press(self, key: str, model: Model) -> bool:
        if key in ("w", "W", "upper_w"):
            at = WINDOWS_SECONDS.index(self._window()) + (1 if key == "w" else -1)
            self.window = WINDOWS_SECONDS[max(0, min(len(WINDOWS_SECONDS) - 1, at))]
        elif key in ("m", "M", "upper_m"):
            names = list(METRICS)
            self.metric = names[(names.index(self._metric()) + (1 if key == "m" else -1)) % len(names)]
        elif key in ("enter", "z"):
            self.zoomed = not self.zoomed
        elif key == "escape" and self.zoomed:
            self.zoomed = False
        elif key == "p":
            self.peaks = not self.peaks
        elif key in ("left", "right"):
            model.choose(1 if key == "right" else -1)
        else:
            return False
        return True

    def click(self, x: int, y: int, model: Model) -> bool:
        for tile in self._tiles:
            if tile.x <= x < tile.x + tile.size.width and tile.y <= y < tile.y + tile.size.height:
                self.zoomed = not self.zoomed if model.selected == tile.chip_id else self.zoomed
                model.selected = tile.chip_id
                return True
        return False

    def _window(self) -> int:
        return self.window if self.window in WINDOWS_SECONDS else 300  # a file of settings may say anything

    def _metric(self) -> str:
        return self.metric if self.metric in METRICS else "memory"

    # -- drawing -------------------------------------------------------------------------------------------------

    def rows(self, model: Model, size: Size, signs: Characters) -> list[Row]:
        self._tiles = []
        if model.snapshot is None:
            return [[("looking at the machine...", "dim")]][: size.height]
        if not model.chips:
            return [fitted([("No chip is known, so there is nothing to draw.", "dim")], size.width)][: size.height]
        if len(self._kept) > 8 * len(model.chips):
            self._kept.clear()  # of chips that are gone
        pen = ChipPainter(model, signs, model.until, self._window(), self.peaks, self._kept)
        chip = model.chip()
        quantities = METRICS[self._metric()]
        words = f"{self._metric()}, last {_WINDOW_WORDS[WINDOWS_SECONDS.index(self._window())]}"
        out = [_head(quantities, words, self.peaks, size.width, signs)]
        inner = Size(size.width, size.height - 1)
        if inner.height < 2 or size.width < _SPARK_COLUMNS:
            return [fitted(row, size.width) for row in out][: size.height]
        if self.zoomed and chip is not None:
            out += pen.zoom(chip, quantities, inner)
            self._tiles = [_Tile(0, 1, inner, chip["chip"])]
        else:
            out += self._grid(model, pen, quantities, inner)
        return out[: size.height]

    def _grid(self, model: Model, pen: ChipPainter, quantities: Sequence[Quantity], size: Size) -> list[Row]:
        chips = model.chips
        form = grid(len(chips), size, len(quantities))
        place = next((number for number, chip in enumerate(chips) if chip["chip"] == model.selected), 0) // form.across
        last = -(-len(chips) // form.across) - form.down
        self._top = max(0, min(self._top, last, place), place - form.down + 1)
        out: list[Row] = []
        for row in range(self._top, self._top + form.down):
            some = chips[row * form.across : (row + 1) * form.across]
            drawn = []
            for number, chip in enumerate(some):
                drawn.append(pen.tile(chip, quantities, form.tile, form.charts, len(chips) <= _FEW_CHIPS))
                x, y = number * (form.tile.width + 1), 1 + (row - self._top) * form.tile.height
                self._tiles.append(_Tile(x, y, form.tile, chip["chip"]))
            for parts in zip(*drawn):
                line: Row = []
                for part in parts:
                    line += [*part, (" ", "")]
                out.append(line[:-1])
        return out


def _head(quantities: Sequence[Quantity], words: str, peaks: bool, width: int, signs: Characters) -> Row:
    """What is drawn, and of which time."""
    row: Row = [(f"{words[:1].upper()}{words[1:]}", "title")]
    if len(quantities) > 1:
        for quantity in quantities:
            row += [("  ", ""), (quantity.sign if signs.ascii else "━━", quantity.style), (f" {quantity.title}", "")]
    if peaks:
        row += [("  ", ""), (".." if signs.ascii else "┈┈", "peak"), (" peak", "")]
    keys: Row = [("w", "key"), ("/", "dim"), ("W", "key"), (" window  ", "dim"), ("m", "key"), (" metric  ", "dim")]
    keys += [("z", "key"), (" zoom  ", "dim"), ("p", "key"), (" peaks", "dim")]
    room = width - width_of(row) - width_of(keys)
    return fitted([*row, (" " * room, ""), *keys] if room >= 2 else row, width)

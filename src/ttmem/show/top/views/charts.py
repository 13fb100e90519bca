# SPDX-License-Identifier: Apache-2.0
"""View 2: charts of how full each chip was, in a grid that adapts to the number of chips."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ttmem.show.top.dashboard_state import Model
from ttmem.show.top.parts.chip_chart import METRICS, ChipPainter, Drawing, Quantity
from ttmem.show.top.parts.history_loader import HistoryLoader
from ttmem.show.top.parts.rows import Characters, Row, Size, fitted, width_of
from ttmem.show.top.parts.time_axis import duration, moment
from ttmem.show.top.parts.value_axis import RANGES

AUTOMATIC = 0  # window: as long as there is something to draw
WINDOWS_SECONDS = (30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 43200, 86400)
_FEW_CHIPS = 4  # so few may have their phases drawn in the grid
_SEVERAL_CHIPS = 8  # more than these are many
_CHART = Size(24, 6)  # least size of a chart with a title; below that there are only rows
_SPARK_COLUMNS = 15
_JUMP_CELLS = 10  # that the cursor moves with shift
_DEFAULT_SECONDS = 300  # the automatic window if nothing is known; and what the server is asked for at least
_CURSOR_STEPS = {"left": -1, "right": 1, "shift+left": -_JUMP_CELLS, "shift+right": _JUMP_CELLS}
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
    left: int  # first column of its lines, from x on
    cells: int  # that those have


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
        ("w W a", "window: longer, shorter, automatic (since the first use)"),
        ("r", "range of the axis: automatic, 0 to peak, 0 to capacity"),
        ("left, right", "cursor; shift: ten cells; escape removes it; or click"),
        ("m M", "memory, DRAM, L1, temperature, power, clock"),
        ("enter, z", "the chosen chip alone, or all chips; or click its name"),
        ("p", "peaks (dotted, highest in the window) on and off"),
        ("up, down", "choose a chip"),
    )
    kept = ("window", "range", "metric", "peaks")

    def __init__(self) -> None:
        self.window = AUTOMATIC
        self.range = "auto"
        self.metric = "memory"
        self.peaks = True
        self.zoomed = False
        self._cursor: float | None = None  # seconds since 1970
        self._drawn: Drawing | None = None
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
        return [*out, *self._histories.wants(model, chips, max(self._window(model), _DEFAULT_SECONDS))]

    # -- keys and clicks -----------------------------------------------------------------------------------------

    def press(self, key: str, model: Model) -> bool:
        if key in ("w", "W", "upper_w"):
            at = WINDOWS_SECONDS.index(self._window(model)) + (1 if key == "w" else -1)
            self.window = WINDOWS_SECONDS[max(0, min(len(WINDOWS_SECONDS) - 1, at))]
        elif key == "a":
            self.window = AUTOMATIC
        elif key == "r":
            modes = list(RANGES)
            self.range = modes[(modes.index(self._range()) + 1) % len(modes)]
        elif key in ("m", "M", "upper_m"):
            names = list(METRICS)
            self.metric = names[(names.index(self._metric()) + (1 if key == "m" else -1)) % len(names)]
        elif key in ("enter", "z"):
            self.zoomed = not self.zoomed
        elif key == "escape" and self._cursor is not None:
            self._cursor = None
        elif key == "escape" and self.zoomed:
            self.zoomed = False
        elif key == "p":
            self.peaks = not self.peaks
        elif key in _CURSOR_STEPS:
            self._move_cursor(_CURSOR_STEPS[key])
        else:
            return False
        return True

    def click(self, x: int, y: int, model: Model) -> bool:
        for tile in self._tiles:
            if tile.x <= x < tile.x + tile.size.width and tile.y <= y < tile.y + tile.size.height:
                cell = x - tile.x - tile.left
                if y == tile.y:
                    self.zoomed = not self.zoomed if model.selected == tile.chip_id else self.zoomed
                elif 0 <= cell < tile.cells and self._drawn is not None:
                    self._cursor = self._drawn.moment(cell, tile.cells)
                model.selected = tile.chip_id
                return True
        return False

    def _move_cursor(self, step: int) -> None:
        """By so many cells; at first it is in the newest."""
        if self._drawn is None or not self._tiles or (cells := self._tiles[0].cells) < 1:
            return
        cell = cells - 1 if self._cursor is None else self._drawn.cell(self._cursor, cells) + step
        self._cursor = self._drawn.moment(max(0, min(cells - 1, cell)), cells)

    def _window(self, model: Model) -> int:
        """How many seconds are drawn."""
        if self.window in WINDOWS_SECONDS:
            return self.window
        chip = model.chip()
        chips = [chip] if self.zoomed and chip is not None else model.chips
        chip_ids = [one["chip"] for one in chips]
        began = model.past.began(chip_ids, ("dram", "l1"))
        began = model.past.began(chip_ids, ("temperature_c",)) if began is None else began
        # The server may have seen more than this dashboard: since when, its processes tell.
        wanted = set(chip_ids)
        seen = [
            process["seen"]
            for process in model.processes
            if process["seen"] and any(share["chip"] in wanted for share in process["chips"])
        ]
        if began is None and not seen:
            return _DEFAULT_SECONDS
        span = model.until - min(found for found in (began, *seen) if found is not None)
        if len(chips) > _SEVERAL_CHIPS:  # in a short window all of many small charts would change at each refresh
            span = max(span, _DEFAULT_SECONDS)
        return next((window for window in WINDOWS_SECONDS if window >= span), WINDOWS_SECONDS[-1])

    def _range(self) -> str:
        return self.range if self.range in RANGES else "auto"  # a file of settings may say anything

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
        window = self._window(model)
        self._drawn = drawing = Drawing(model.until, window, self.peaks, self._range(), self._cursor)
        pen = ChipPainter(model, signs, drawing, self._kept)
        chip = model.chip()
        quantities = METRICS[self._metric()]
        out: list[Row] = [[]]
        inner = Size(size.width, size.height - 1)
        if inner.height < 2 or size.width < _SPARK_COLUMNS:
            return [self._head(quantities, drawing, size.width, signs)][: size.height]
        if self.zoomed and chip is not None:
            out += pen.zoom(chip, quantities, inner)
            self._tiles = [_Tile(0, 1, inner, chip["chip"], *pen.place(quantities, inner, True))]
        else:
            out += self._grid(model, pen, quantities, inner)
        out[0] = self._head(quantities, drawing, size.width, signs)
        return out[: size.height]

    def _grid(self, model: Model, pen: ChipPainter, quantities: Sequence[Quantity], size: Size) -> list[Row]:
        chips = model.chips
        form = grid(len(chips), size, len(quantities))
        place = next((number for number, chip in enumerate(chips) if chip["chip"] == model.selected), 0) // form.across
        last = -(-len(chips) // form.across) - form.down
        self._top = max(0, min(self._top, last, place), place - form.down + 1)
        place_of_lines = pen.place(quantities, form.tile, form.charts)
        out: list[Row] = []
        for row in range(self._top, self._top + form.down):
            some = chips[row * form.across : (row + 1) * form.across]
            drawn = []
            for number, chip in enumerate(some):
                drawn.append(pen.tile(chip, quantities, form.tile, form.charts, len(chips) <= _FEW_CHIPS))
                x, y = number * (form.tile.width + 1), 1 + (row - self._top) * form.tile.height
                self._tiles.append(_Tile(x, y, form.tile, chip["chip"], *place_of_lines))
            for parts in zip(*drawn):
                line: Row = []
                for part in parts:
                    line += [*part, (" ", "")]
                out.append(line[:-1])
        return out

    def _head(self, quantities: Sequence[Quantity], drawing: Drawing, width: int, signs: Characters) -> Row:
        """What is drawn and of which time, then the cursor's time, or as many keys as there is room for."""
        words = f"{self._metric()}, last {_window_words(drawing.window)}"
        title = (f"{words[:1].upper()}{words[1:]}", "title")
        automatic: Row = [] if self.window in WINDOWS_SECONDS else [(" (automatic)", "dim")]
        legend: Row = []
        for quantity in quantities if len(quantities) > 1 else ():
            sign = quantity.sign if signs.ascii else "━━"
            legend += [("  ", ""), (sign, quantity.style), (f" {quantity.title}", "")]
        if drawing.cursor is not None and self._tiles and self._tiles[0].cells > 0:
            since, until = drawing.cell_times(self._tiles[0].cells)
            ago = duration(max(0.0, drawing.until - until))
            there: Row = [("  cursor ", "dim"), (moment(since, until), "bold"), (f", {ago} ago", "")]
            heads = ([title, *automatic, *legend, *there], [title, *legend, *there], [title, *there])
            return fitted(next((head for head in heads if width_of(head) <= width), heads[-1]), width)
        row: Row = [title, *automatic, *legend]
        mode = RANGES[drawing.range].replace("capacity", "limit" if quantities[0].unit else "capacity")
        pieces: list[Row] = [[("  ", ""), ("r", "key"), (f" range: {mode}", "dim")]]
        for key, what in (
            ("w W a", "window"),
            ("m", "metric"),
            ("left right", "cursor"),
            ("z", "zoom"),
            ("p", "peaks"),
        ):
            pieces.append([("  ", ""), (key, "key"), (f" {what}", "dim")])
        keys: Row = []
        for piece in pieces:
            if width_of(row) + width_of(keys) + width_of(piece) <= width:
                keys += piece
        return fitted([*row, (" " * (width - width_of(row) - width_of(keys)), ""), *keys], width)


def _window_words(seconds: int) -> str:
    """
    >>> [_window_words(seconds) for seconds in (30, 60, 600, 3600, 86400)]
    ['30 seconds', 'minute', '10 minutes', 'hour', '24 hours']
    """
    size, unit = next((size, unit) for size, unit in ((3600, "hour"), (60, "minute"), (1, "second")) if seconds >= size)
    return unit if seconds == size else f"{seconds // size} {unit}s"

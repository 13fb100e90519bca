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

AUTOMATIC = 0  # the window covers all known data
WINDOWS_SECONDS = (30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 43200, 86400)
_FEW_CHIPS = 4  # up to this number, the grid shows phases
_SEVERAL_CHIPS = 8  # more than this are many
_CHART = Size(24, 6)  # minimum size of a chart with a title; smaller tiles have sparks
_SPARK_COLUMNS = 15
_JUMP_CELLS = 10  # step of the cursor with shift
_DEFAULT_SECONDS = 300  # automatic window without data, and minimum window of requests
_CURSOR_STEPS = {"left": -1, "right": 1, "shift+left": -_JUMP_CELLS, "shift+right": _JUMP_CELLS}
_PHASES = "/phases"
_MOST_ZOOM = 7


class Grid(NamedTuple):
    """The arrangement of tiles on the screen."""

    across: int
    down: int  # visible rows of tiles
    tile: Size
    charts: bool  # otherwise sparks


class _Tile(NamedTuple):
    x: int
    y: int
    size: Size
    chip_id: str
    left: int  # first column of its curves, relative to x
    cells: int  # width of its curves


def grid(count: int, size: Size, lines: int) -> Grid:
    """The largest tiles with which all chips fit; else sparks, for as many chips as fit."""
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
        self._top = 0  # first visible row of tiles
        self._tiles: list[_Tile] = []
        self._kept: dict[tuple[str, str], Any] = {}
        self._histories = HistoryLoader()
        self._phases_time = 0.0
        self._zoom = 0  # of a recording, a part of 1 / 2 ** _zoom is drawn

    # -- requests ------------------------------------------------------------------------------------------------

    def wants(self, model: Model) -> list[str]:
        """The history of each chip, one after another, each once; and phases if they are drawn."""
        if model.playback is not None:
            return []  # the feed has all of its history
        out = [_PHASES] if self.zoomed or len(model.chips) <= _FEW_CHIPS else []
        answer = model.answers.get(_PHASES)
        if answer is not None and answer.data is not None and answer.time != self._phases_time:
            self._phases_time = answer.time
            model.past.take_phases(answer.data, model.past.newest)
        chips = sorted(model.chips, key=lambda chip: chip["chip"] != model.selected)
        return [*out, *self._histories.wants(model, chips, max(self._window(model), _DEFAULT_SECONDS))]

    # -- keys and clicks -----------------------------------------------------------------------------------------

    def press(self, key: str, model: Model) -> bool:
        if model.playback is not None and key in ("w", "W", "upper_w", "a"):
            self._zoom = 0 if key == "a" else max(0, min(_MOST_ZOOM, self._zoom + (-1 if key == "w" else 1)))
        elif model.playback is not None and key in _CURSOR_STEPS:
            return False  # the cursor is the moment
        elif key in ("w", "W", "upper_w"):
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
                elif 0 <= cell < tile.cells and self._drawn is not None and model.playback is not None:
                    model.playback.go(self._drawn.moment(cell, tile.cells))
                elif 0 <= cell < tile.cells and self._drawn is not None:
                    self._cursor = self._drawn.moment(cell, tile.cells)
                model.selected = tile.chip_id
                return True
        return False

    def _move_cursor(self, step: int) -> None:
        """Move the cursor by ``step`` cells; it starts at the newest."""
        if self._drawn is None or not self._tiles or (cells := self._tiles[0].cells) < 1:
            return
        cell = cells - 1 if self._cursor is None else self._drawn.cell(self._cursor, cells) + step
        self._cursor = self._drawn.moment(max(0, min(cells - 1, cell)), cells)

    def _window(self, model: Model) -> int:
        """The length of the window in seconds."""
        if self.window in WINDOWS_SECONDS:
            return self.window
        chip = model.chip()
        chips = [chip] if self.zoomed and chip is not None else model.chips
        chip_ids = [one["chip"] for one in chips]
        began = model.past.began(chip_ids, ("dram", "l1"))
        began = model.past.began(chip_ids, ("temperature_c",)) if began is None else began
        # The server may have older data, since it first saw the processes.
        wanted = set(chip_ids)
        seen = [
            process["seen"]
            for process in model.processes
            if process["seen"] and any(share["chip"] in wanted for share in process["chips"])
        ]
        if began is None and not seen:
            return _DEFAULT_SECONDS
        span = model.until - min(found for found in (began, *seen) if found is not None)
        if len(chips) > _SEVERAL_CHIPS:  # in a short window, many small charts would all change at each refresh
            span = max(span, _DEFAULT_SECONDS)
        return next((window for window in WINDOWS_SECONDS if window >= span), WINDOWS_SECONDS[-1])

    def _range(self) -> str:
        return self.range if self.range in RANGES else "auto"  # the file of settings may contain anything

    def _metric(self) -> str:
        return self.metric if self.metric in METRICS else "memory"

    # -- drawing -------------------------------------------------------------------------------------------------

    def rows(self, model: Model, size: Size, signs: Characters) -> list[Row]:
        self._tiles = []
        if model.snapshot is None:
            return [[("Waiting for the first snapshot.", "dim")]][: size.height]
        if not model.chips:
            return [fitted([("No chip is known, so there is nothing to draw.", "dim")], size.width)][: size.height]
        if len(self._kept) > 8 * len(model.chips):
            self._kept.clear()  # drop charts of chips that are gone
        if model.playback is None:
            drawing = Drawing(model.until, self._window(model), self.peaks, self._range(), self._cursor)
        else:
            span = model.span(model.playback.length / 2**self._zoom if self._zoom else None)
            drawing = Drawing(span.until, span.window, self.peaks, self._range(), span.cursor, span.origin)
        self._drawn = drawing
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
        """The metric and the window, then the cursor's time, or as many keys as fit."""
        if drawing.origin is None:
            words = f"{self._metric()}, last {_window_words(round(drawing.window))}"
        else:
            words = f"{self._metric()}, {f'{drawing.window:.3g} s' if self._zoom else 'the whole recording'}"
        title = (f"{words[:1].upper()}{words[1:]}", "title")
        known = self.window in WINDOWS_SECONDS or drawing.origin is not None
        automatic: Row = [] if known else [(" (automatic)", "dim")]
        legend: Row = []
        for quantity in quantities if len(quantities) > 1 else ():
            sign = quantity.sign if signs.ascii else "━━"
            legend += [("  ", ""), (sign, quantity.style), (f" {quantity.title}", "")]
        if drawing.origin is None and drawing.cursor is not None and self._tiles and self._tiles[0].cells > 0:
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
            ("left right", "cursor" if drawing.origin is None else "moment"),
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

# SPDX-License-Identifier: Apache-2.0
"""The chart of one chip in the charts view: its name and values above its lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ttmem.show.chip_table import Names, percent, share, short_size
from ttmem.show.text import Style
from ttmem.show.top.dashboard_state import Model
from ttmem.show.top.parts import plot
from ttmem.show.top.parts.chip_history import NAMES, ColumnCache, Columns, Range, values_of
from ttmem.show.top.parts.rows import Characters, Row, Size, fitted, width_of
from ttmem.show.top.parts.time_axis import phase_bars
from ttmem.show.top.parts.value_axis import Scale, nice, scale

if TYPE_CHECKING:
    from typing import Literal

    from ttmem.model.schema import ChipRow

    Limit = Literal["temperature_max_c", "power_max_w", "aiclk_max_mhz"]

_MOST_MARKS = 8  # per phase: marks at every step would hide the curves
_WORDY_COLUMNS = (9, 22, 30)  # minimum widths for longer texts of a value
_NARROW_COLUMNS, _WIDE_COLUMNS = 5, 7  # width of a value beside a spark, without and with a unit
_STACK_ROWS = 10  # minimum height of a tile with a chart for each quantity
_LEAST_PERCENT, _LEAST_READING = 0.01, 1.0  # minimum step between two labels of an axis
_PERCENTS = Scale(0.0, 100.0, 1.0, "%", 0)


class Quantity(NamedTuple):
    """A quantity that is drawn: its name in the history, its title, its colour, its character in ASCII."""

    name: str
    title: str
    style: str
    sign: str
    unit: str = ""


_DRAM, _L1 = Quantity("dram", "DRAM", "dram", "*"), Quantity("l1", "L1", "l1", "+")
_PARTS = {
    _DRAM: (Quantity("trace", "trace", "trace", "t"),),
    # Without kernels: the history has the sum over all cached programs, which may exceed L1.
    _L1: (Quantity("cb", "CB", "cb", "c"), Quantity("buffers", "buffers", "l1_small", "b")),
}
METRICS = {
    "memory": (_DRAM, _L1),
    "DRAM": (_DRAM,),
    "L1": (_L1,),
    "temperature": (Quantity("temperature_c", "temperature", "temperature", "*", "°C"),),
    "power": (Quantity("power_w", "power", "power", "*", "W"),),
    "clock": (Quantity("aiclk_mhz", "AI clock", "clock", "*", "MHz"),),
}
_LIMITS: dict[str, Limit] = {
    "temperature_c": "temperature_max_c",
    "power_w": "power_max_w",
    "aiclk_mhz": "aiclk_max_mhz",
}


_Value = tuple[Quantity, "float | None", "float | None", "Range | None"]  # current value, peak, range at the cursor


class Drawing(NamedTuple):
    """The user's settings for all charts of a screen."""

    until: float  # seconds since 1970
    window: float  # seconds
    peaks: bool = True
    range: str = "auto"  # one of value_axis.RANGES
    cursor: float | None = None  # seconds since 1970
    origin: float | None = None  # the start of a recording; then the cursor is at the moment that is shown

    def cell(self, time: float, cells: int) -> int:
        """The cell that contains a time; the first or the last if the time is outside the window."""
        width = self.window / cells
        return max(0, min(cells - 1, int(time // width) - int(self.until // width) - 1 + cells))

    def moment(self, cell: int, cells: int) -> float:
        """The time in the middle of a cell, in seconds since 1970; ``cells`` is the number of cells in the window."""
        width = self.window / cells
        return (int(self.until // width) + 1 - cells + cell + 0.5) * width

    def cell_times(self, cells: int) -> tuple[float, float]:
        """Start and end of the cell of the cursor."""
        half = self.window / cells / 2
        middle = self.moment(self.cell(self.cursor or self.until, cells), cells)
        return middle - half, middle + half


class ChipPainter:
    """Draws the charts of chips for one update of the screen."""

    def __init__(self, model: Model, signs: Characters, drawing: Drawing, kept: dict[tuple[str, str], Any]) -> None:
        self.kept = kept  # cells and charts of earlier updates
        self.past, self.signs = model.past, signs
        self._drawing = drawing
        self.until, self.window, self.peaks, self.range, self.cursor, self.origin = drawing
        self.selected = model.selected
        self.style = Style(ascii=signs.ascii)
        self.names = Names(model.chips, self.style, model.numbers)

    def tile(self, chip: ChipRow, quantities: Sequence[Quantity], size: Size, charts: bool, phases: bool) -> list[Row]:
        """A chip in a grid: its name and current use, above a chart or a few rows."""
        return self.chart(chip, quantities, size, phases) if charts else self.sparks(chip, quantities, size)

    def chart(self, chip: ChipRow, quantities: Sequence[Quantity], size: Size, phases: bool = True) -> list[Row]:
        """All quantities in one chart; or a chart for each, if their axes differ and there is room."""
        together = self.range == "capacity" and _known(chip, quantities)
        if len(quantities) == 2 and size.height >= _STACK_ROWS and not together:
            upper, lower = Size(size.width, size.height // 2), Size(size.width, size.height - size.height // 2)
            return [
                *self._titled(chip, quantities[:1], (), upper, phases, times=False),
                *self._titled(chip, quantities[1:], (), lower, phases, named=False),
            ]
        return self._titled(chip, quantities, (), size, phases)

    def zoom(self, chip: ChipRow, quantities: Sequence[Quantity], size: Size) -> list[Row]:
        """A chip alone: a chart for each quantity with its parts, and its phases."""
        strip = self._strip(chip, size) if size.height >= 14 else []
        height = size.height - len(strip)
        out: list[Row] = []
        for number, quantity in enumerate(quantities):
            high = (height - len(out)) // (len(quantities) - number)
            out += self._titled(chip, (quantity,), _PARTS.get(quantity, ()), Size(size.width, high), True)
        return [*strip, *out]

    def place(self, quantities: Sequence[Quantity], size: Size, charts: bool) -> tuple[int, int]:
        """The first column of the curves in a tile of this size, and their width."""
        if charts:
            return plot.plot_width(size.width, size.height - 1)[:2]
        letters = 2 if len(quantities) > 1 else 0
        return letters, size.width - letters - (_WIDE_COLUMNS if quantities[0].unit else _NARROW_COLUMNS)

    # -- inside --------------------------------------------------------------------------------------------------

    def _columns(self, chip: ChipRow, name: str, count: int) -> Columns:
        """The columns for this number of cells, and one column before them."""
        across = plot.dots(self.signs)[0]
        width = self.window / (count * across)
        end = (int(self.until // (width * across)) + 1) * across
        return self.past.columns(chip["chip"], name, width, end - count * across - 1, end)

    def _kept(self, chip: ChipRow, name: str) -> ColumnCache[Any]:
        found: ColumnCache[Any] = self.kept.setdefault((chip["chip"], name), ColumnCache())
        return found

    def _same(self, chip: ChipRow, name: str, look: object, make: Callable[[], list[Row]]) -> list[Row]:
        """The earlier rows if ``look``, which they depend on, has not changed; else new ones."""
        before = self.kept.get((chip["chip"], name))
        if before is None or before[0] != look:
            before = self.kept[chip["chip"], name] = (look, make())
        rows: list[Row] = before[1]
        return rows

    def _cell(self, count: int) -> int | None:
        """The cell of the cursor; ``count`` is the number of cells."""
        return None if self.cursor is None or count < 1 else self._drawing.cell(self.cursor, count)

    def _at(self, columns: Columns, cell: int | None) -> Range | None:
        """Lowest and highest value in a cell."""
        if cell is None:
            return None
        across = plot.dots(self.signs)[0]
        found = [one for one in columns.ranges[1 + cell * across : 1 + (cell + 1) * across] if one is not None]
        return (min(low for low, _ in found), max(high for _, high in found)) if found else None

    def _scale(self, chip: ChipRow, curves: list[tuple[Quantity, float | None, Columns]], axis: bool) -> Scale:
        """The axis for all of these curves. A chart without a visible axis begins at 0."""
        mode = self.range if axis or self.range != "auto" else "capacity"
        together = len(curves) > 1
        lows, highs = [], []
        for quantity, now, columns in curves:
            part = 100.0 / (_capacity(chip, quantity.name) or 1) if together else 1.0
            ends = (plot.lowest_of(columns), plot.peak_of(columns), now)
            known = [value * part for value in ends if value is not None]
            lows += known[:1]
            highs.append(max(known, default=0.0))
        high = max(highs)
        full = _PERCENTS if together else _full(chip, curves[0][0].name, high)
        least = _LEAST_PERCENT if together else _LEAST_READING
        return scale(mode, min(lows, default=high), high, full, least)

    def _titled(
        self,
        chip: ChipRow,
        quantities: Sequence[Quantity],
        parts: Sequence[Quantity],
        size: Size,
        phases: bool,
        *,
        times: bool = True,
        named: bool = True,
    ) -> list[Row]:
        axis, inner, _ = plot.plot_width(size.width, size.height - 1)
        cell = self._cell(inner)
        now = dict(zip(NAMES, values_of(chip)))
        found = [(one, now[one.name], self._columns(chip, one.name, inner)) for one in (*parts, *quantities)]
        main = found[len(parts) :]
        if len(main) > 1 and not _known(chip, quantities):
            main = main[:1]  # a common axis needs both capacities
        scale = self._scale(chip, main, bool(axis))
        drawn, values, limit = [], [], None
        for quantity, value, columns in found:
            peak = plot.peak_of(columns)
            if quantity in parts and peak is None:
                continue  # not reported
            if peak is not None and value is not None and self.origin is None:
                peak = max(peak, value)  # the newest column may be a little older than the value
            whole = (_capacity(chip, quantity.name) or 1) / 100 if len(main) > 1 else 1.0
            bottom, top = scale.bottom * whole, scale.top * whole
            values.append((quantity, value, peak, self._at(columns, cell)))
            if quantity in quantities and (quantity, value, columns) not in main:
                continue
            name = f"{quantity.title} " if len(main) > 1 else ""
            peak_label = "" if peak is None else f"{name}peak {_precise(quantity, peak, scale, whole, self.signs)}"
            label = _label(quantity, value, None if quantity in parts else scale, whole, self.signs)
            label = label if self.origin is None else ""  # a curve of a recording does not end at the moment
            dashed = peak if self.peaks and quantity in quantities else None
            drawn.append(
                plot.Curve(columns, top, quantity.style, quantity.sign, label, dashed, peak_label, bottom=bottom)
            )
        columns = main[0][2]
        if (reading := quantities[0].name) in _LIMITS and (most := _limit(chip, reading)) is not None:
            part = (most - scale.bottom) / (scale.top - scale.bottom)
            limit = part if 0 <= part <= 1 else None
        begun = self.past.phases(chip["chip"], self.until - self.window) if phases else []
        counts = Counter(phase.path for phase in begun)
        marks = [
            int(phase.since // columns.width) - columns.first - 1
            for phase in begun
            if counts[phase.path] <= _MOST_MARKS
        ]
        frame = plot.Frame(
            self.until - self.window, self.until, scale.label, limit, marks, scale.from_zero, times, cell, self.origin
        )  # fmt: skip
        look = (plot.look(drawn, size.width, size.height - 1, self.signs, frame), scale)

        def make() -> list[Row]:
            cells = self._kept(chip, quantities[0].name)
            return plot.chart(drawn, size.width, size.height - 1, self.signs, frame, cells)

        rows = self._same(chip, f"{quantities[0].name} chart", look, make)
        at_cursor = cell is not None and self.origin is None
        shown = values if at_cursor else [one for one in values if one[0] in quantities]
        return [self._title(chip, shown[::-1] if parts else shown, size.width, named, at_cursor), *rows]

    def _title(self, chip: ChipRow, values: list[_Value], width: int, named: bool, at_cursor: bool) -> Row:
        """The chip's name, then its values in as much detail as fits."""
        chip_id = chip["chip"]
        name = self.style.clean(f"{self.names.full(chip_id)} {chip['board'] or ''}".strip()) if named else ""
        short = self.style.cut(self.style.clean(self.names.short(chip_id)), max(4, width // 2)) if named else ""
        look = self._look(chip) if named else ""
        room = (width - len(name)) // len(values)
        most = 3 if at_cursor else sum(room >= least for least in _WORDY_COLUMNS)
        for wordy in range(most, -1, -1):
            texts: Row = []
            for quantity, now, peak, there in values:
                if at_cursor:
                    words = _cursor_text(quantity, there, wordy, self.signs)
                else:
                    words = _value_text(chip, quantity, now, peak if self.peaks else None, wordy, self.signs)
                texts += [("  ", ""), *words]
            for head in (name, short):
                room = width - width_of([(head, "")]) - width_of(texts)
                if room >= 0:
                    return [(head, look), (" " * room, ""), *texts] if head else [(" " * room, ""), *texts]
        return fitted([(short, look)], width)

    def sparks(self, chip: ChipRow, quantities: Sequence[Quantity], size: Size) -> list[Row]:
        """The chip in a few rows, each a filled curve."""
        now = dict(zip(NAMES, values_of(chip)))
        name = self.style.cut(self.style.clean(self.names.full(chip["chip"])), size.width)
        letters, count = self.place(quantities, size, charts=False)
        cell = self._cell(count)
        drawn = [(quantity, now[quantity.name], self._columns(chip, quantity.name, count)) for quantity in quantities]

        def make() -> list[Row]:
            sizes = [f"  {short_size(used)}/{short_size(capacity)}" for used, capacity in _sizes(chip, quantities, now)]
            room = size.width - width_of([(name, ""), *((text, "") for text in sizes)])
            head: Row = [(name, self._look(chip))]
            if room >= 0:
                head += [(" " * room, ""), *((text, "dim") for text in sizes)]
            return [fitted(head, size.width), *(self._spark(chip, *one, count, letters, cell) for one in drawn)]

        # At most updates, most of many chips have not changed.
        lines = [(value, _reference(chip, one.name), plot.newest(columns)) for one, value, columns in drawn]
        look = (name, self._look(chip), quantities, size, self.signs, lines, self.range, cell)
        return self._same(chip, "sparks", look, make)

    def _spark(
        self,
        chip: ChipRow,
        quantity: Quantity,
        value: float | None,
        columns: Columns,
        count: int,
        letters: int,
        cell: int | None,
    ) -> Row:
        top = self._scale(chip, [(quantity, value, columns)], axis=False).top
        if cell is not None and self.origin is None:
            there = self._at(columns, cell)
            value = None if there is None else there[1]
        capacity = _capacity(chip, quantity.name)
        text = _number(quantity, value, self.signs) if quantity.unit else _short(value, capacity)
        words = _WIDE_COLUMNS if quantity.unit else _NARROW_COLUMNS
        line = plot.spark(columns, top, count, self.signs, self._kept(chip, f"{quantity.name} spark"))
        row: Row = [(line, quantity.style)]
        return [
            *([(f"{quantity.title[0]} ", quantity.style)] if letters else []),
            *(row if cell is None else plot.with_cursor(row, cell, "|" if self.signs.ascii else "│")),
            (f"{text:>{words}}"[:words], _alarm(chip, quantity, value)),
        ]

    def _look(self, chip: ChipRow) -> str:
        return "bold select" if chip["chip"] == self.selected else "bold"

    def _strip(self, chip: ChipRow, size: Size) -> list[Row]:
        """The phases of the chip's processes as bars: outer phases in the first row, nested ones below."""
        axis, inner, ends = plot.plot_width(size.width, size.height // 2)
        columns = self._columns(chip, "dram", inner)
        since = (columns.first + 1) * columns.width
        found = self.past.phases(chip["chip"], since)
        out: list[Row] = []
        for depth in (0, 1):
            here = [phase for phase in found if (phase.path or "").count("/") == depth]
            if here:
                text = phase_bars(here, since, self.until, self.window / inner, inner, self.style)
                head = "phases" if not out else ""
                out.append([(f"{head:<{axis}}"[:axis], "dim"), (text, "mark"), (" " * ends, "")])
        return out


def _capacity(chip: ChipRow, name: str) -> int | None:
    memory = chip["memory"]
    return (memory["dram"]["capacity"] if name in ("dram", "trace") else memory["l1"]["capacity"]) or None


def _sizes(
    chip: ChipRow, quantities: Sequence[Quantity], now: dict[str, float | None]
) -> list[tuple[int | None, int | None]]:
    used = [(now[one.name], _capacity(chip, one.name)) for one in quantities if not one.unit]
    return [(None if size is None else int(size), capacity) for size, capacity in used]


def _known(chip: ChipRow, quantities: Sequence[Quantity]) -> bool:
    """Whether the capacities of all quantities are known, so that they can share an axis in percent."""
    return all(not quantity.unit and _capacity(chip, quantity.name) for quantity in quantities)


def _limit(chip: ChipRow, name: str) -> float | None:
    now = chip["telemetry"]
    return None if now is None else now.get(_LIMITS[name]) or None


def _reference(chip: ChipRow, name: str) -> float | None:
    """The value that counts as 100 %: the limit of a reading, the capacity of a memory."""
    return _limit(chip, name) if name in _LIMITS else _capacity(chip, name)


def _full(chip: ChipRow, name: str, most: float) -> Scale:
    """The axis from 0 to the capacity of a memory, or beyond the limit of a reading."""
    if name in _LIMITS:
        return Scale(0.0, nice(1.1 * max(most, _limit(chip, name) or 0.0)), 1.0, "", 0)
    top = _capacity(chip, name) or 1 << max(10, int(most).bit_length())
    return Scale(0.0, float(top), 1.0, "", None)


def _short(value: float | None, capacity: int | None) -> str:
    """A size in percent of the capacity; in bytes if the capacity is not known."""
    if value is None:
        return "-"
    return percent(share(int(value), capacity)) if capacity else short_size(int(value))


def _precise(quantity: Quantity, value: float, scale: Scale, whole: float, signs: Characters) -> str:
    """A value beside an axis, with one digit more than the labels of the axis."""
    if quantity.unit:
        return _number(quantity, value, signs)
    if whole == 1.0:
        return scale.precise(value)
    return percent(min(1.0, value / whole / 100)) if scale.top == 100 else scale.precise(value / whole)


def _label(quantity: Quantity, value: float | None, scale: Scale | None, whole: float, signs: Characters) -> str:
    """The label at the end of a curve. A reading has its own chart, whose title has its name."""
    if quantity.unit:
        return _number(quantity, value, signs)
    if value is None or scale is None or value < scale.bottom * whole:
        return f"{quantity.title} {short_size(None if value is None else int(value))}"
    return f"{quantity.title} {_precise(quantity, value, scale, whole, signs)}"


def _fine_size(size: int, unit: str) -> str:
    """A size with three decimals, to show small changes.

    >>> _fine_size(9 * 2**30 + 2**20, " iB"), _fine_size(9 * 2**30 + 2**20, ""), _fine_size(17, "")
    ('9.001 GiB', '9.001G', '17')
    """
    if size < 1024:
        return f"{size} B" if unit else str(size)
    power = min(5, (size.bit_length() - 1) // 10)
    return f"{size / 1024**power:.3f}{unit[:1]}{'BKMGTP'[power]}{unit[1:]}"


def _cursor_text(quantity: Quantity, found: Range | None, wordy: int, signs: Characters) -> Row:
    """The value of a quantity at the cursor, or its lowest and highest value, as precisely as fits."""
    row: Row = [(quantity.title if wordy else quantity.title[:1], quantity.style), (" ", "")]
    if found is None:
        return [*row, ("-", "")]
    if quantity.unit:
        low, high = (_number(quantity, value, signs) for value in found)
        return [*row, (low if low == high else f"{low} to {high}", "bold")]
    low, high = (_fine_size(int(value), " iB" if wordy >= 2 else "") for value in found)
    row.append((high if low == high or not wordy else f"{low} to {high}", "bold"))
    if wordy == 3:
        exact = f"{found[1]:,.0f} B" if found[0] == found[1] else f"{found[0]:,.0f} to {found[1]:,.0f} B"
        row.append((f" ({exact})", ""))
    return row


def _number(quantity: Quantity, value: float | None, signs: Characters) -> str:
    unit = "C" if signs.ascii and quantity.unit == "°C" else quantity.unit
    gap = "" if quantity.unit == "°C" else " "
    return "-" if value is None else f"{value:.0f}{gap}{unit}"


def _value_text(
    chip: ChipRow, quantity: Quantity, now: float | None, peak: float | None, wordy: int, signs: Characters
) -> Row:
    """A value with its percentage, its size and its peak; fewer of them if ``wordy`` is lower."""
    alarm = _alarm(chip, quantity, now)
    row: Row = [(quantity.title if wordy else quantity.title[:1], quantity.style), (" ", "")]
    if quantity.unit:
        limit = _limit(chip, quantity.name)
        row.append((_number(quantity, now, signs), alarm))
        if wordy >= 2 and limit is not None:
            row.append((f" of {_number(quantity, limit, signs)}", "dim"))
        top = _number(quantity, peak, signs)
    else:
        capacity = _capacity(chip, quantity.name)
        used = None if now is None else int(now)
        size = f"{short_size(used)}/{short_size(capacity)}"
        row.append((percent(share(used, capacity)) if capacity else short_size(used), alarm))
        if wordy >= 2 and capacity:
            row.append((f" of {short_size(capacity)}" if used is None else f" {size}", ""))
        top = "-" if peak is None else percent(share(int(peak), capacity)) if capacity else short_size(int(peak))
    if wordy >= 3 and peak is not None:
        row.append((f" peak {top}", "peak"))
    return row


def _alarm(chip: ChipRow, quantity: Quantity, value: float | None) -> str:
    """The style of a value near its limit, as for bars."""
    name = quantity.name
    if name == "aiclk_mhz" or value is None:
        return ""
    reference = _reference(chip, name)
    warn, bad = (0.9, 1.0) if name in _LIMITS else (0.75, 0.9)
    part = None if not reference else value / reference
    return "" if part is None else "bad" if part >= bad else "warn" if part >= warn else ""

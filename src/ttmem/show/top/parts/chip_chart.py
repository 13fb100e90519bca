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
from ttmem.show.top.parts.chip_history import NAMES, ColumnCache, Columns, values_of
from ttmem.show.top.parts.rows import Characters, Row, Size, fitted, width_of
from ttmem.show.top.parts.time_axis import phase_bars

if TYPE_CHECKING:
    from typing import Literal

    from ttmem.model.schema import ChipRow

    Limit = Literal["temperature_max_c", "power_max_w", "aiclk_max_mhz"]

_MOST_MARKS = 8  # of a phase: one that begins at every step would hide the lines
_WORDY_COLUMNS = (9, 22, 30)  # cells from which on it is worth trying to say more of a value
_NARROW_COLUMNS, _WIDE_COLUMNS = 5, 7  # cells of a value beside a spark: as a part or a size, and with a unit


class Quantity(NamedTuple):
    """Something that is drawn: its name in the past, what it is called, its colour, its sign in ASCII."""

    name: str
    title: str
    style: str
    sign: str
    unit: str = ""


_DRAM, _L1 = Quantity("dram", "DRAM", "dram", "*"), Quantity("l1", "L1", "l1", "+")
_PARTS = {
    _DRAM: (Quantity("trace", "trace", "trace", "t"),),
    # Not kernels: the past has those of all cached programs, more than are in L1 at once, and more than the whole.
    _L1: (Quantity("cb", "CB", "cb", "c"), Quantity("buffers", "buffers", "l1_small", "b")),
}
METRICS = {
    "memory": (_DRAM, _L1),
    "temperature": (Quantity("temperature_c", "temperature", "temperature", "*", "°C"),),
    "power": (Quantity("power_w", "power", "power", "*", "W"),),
    "clock": (Quantity("aiclk_mhz", "AI clock", "clock", "*", "MHz"),),
}
_LIMITS: dict[str, Limit] = {
    "temperature_c": "temperature_max_c",
    "power_w": "power_max_w",
    "aiclk_mhz": "aiclk_max_mhz",
}


class ChipPainter:
    """Draws chips at one moment."""

    def __init__(
        self, model: Model, signs: Characters, until: float, window: int, peaks: bool, kept: dict[tuple[str, str], Any]
    ) -> None:
        self.kept = kept  # cells and charts that were drawn before
        self.past, self.signs, self.until, self.window, self.peaks = model.past, signs, until, window, peaks
        self.selected = model.selected
        self.style = Style(ascii=signs.ascii)
        self.names = Names(model.chips, self.style, model.numbers)

    def tile(self, chip: ChipRow, quantities: Sequence[Quantity], size: Size, charts: bool, phases: bool) -> list[Row]:
        """A chip in a grid: its name and what is used now, above a chart or a few rows."""
        return self.chart(chip, quantities, size, phases) if charts else self.sparks(chip, quantities, size)

    def chart(self, chip: ChipRow, quantities: Sequence[Quantity], size: Size, phases: bool = True) -> list[Row]:
        """All quantities in one chart."""
        return self._titled(chip, quantities, (), size, _percents if _known(chip, quantities) else None, phases)

    def zoom(self, chip: ChipRow, quantities: Sequence[Quantity], size: Size) -> list[Row]:
        """A chip alone: a chart for each quantity with its parts, and its phases."""
        strip = self._strip(chip, size) if size.height >= 14 else []
        height = size.height - len(strip)
        out: list[Row] = []
        for number, quantity in enumerate(quantities):
            high = (height - len(out)) // (len(quantities) - number)
            out += self._titled(chip, (quantity,), _PARTS.get(quantity, ()), Size(size.width, high), None, True)
        return [*strip, *out]

    # -- inside --------------------------------------------------------------------------------------------------

    def _columns(self, chip: ChipRow, name: str, count: int) -> Columns:
        """What is drawn in so many cells, and the column before."""
        across = plot.dots(self.signs)[0]
        width = self.window / (count * across)
        end = (int(self.until // (width * across)) + 1) * across
        return self.past.columns(chip["chip"], name, width, end - count * across - 1, end)

    def _kept(self, chip: ChipRow, name: str) -> ColumnCache[Any]:
        found: ColumnCache[Any] = self.kept.setdefault((chip["chip"], name), ColumnCache())
        return found

    def _same(self, chip: ChipRow, name: str, look: object, make: Callable[[], list[Row]]) -> list[Row]:
        """What was drawn before, as long as all that it depends on is the same."""
        before = self.kept.get((chip["chip"], name))
        if before is None or before[0] != look:
            before = self.kept[chip["chip"], name] = (look, make())
        rows: list[Row] = before[1]
        return rows

    def _titled(
        self,
        chip: ChipRow,
        quantities: Sequence[Quantity],
        parts: Sequence[Quantity],
        size: Size,
        axis: Callable[[float], str] | None,
        phases: bool,
    ) -> list[Row]:
        inner = plot.plot_width(size.width, size.height - 1)[1]
        now = dict(zip(NAMES, values_of(chip)))
        drawn, values, limit = [], [], None
        for quantity in (*parts, *quantities):
            columns = self._columns(chip, quantity.name, inner)
            peak = plot.peak_of(columns)
            top, limit = _top(chip, quantity.name, now[quantity.name], columns)
            if quantity in parts and peak is None:
                continue  # nobody has told of it
            label = _label(quantity, now[quantity.name], top, axis is not None, self.signs)
            dashed = peak if self.peaks and quantity in quantities else None
            drawn.append(plot.Curve(columns, top, quantity.style, quantity.sign, label, dashed))
            if quantity in quantities:
                values.append((quantity, now[quantity.name], peak))
        scale = axis or (lambda part: _axis(quantities[0], part * drawn[-1].top))
        begun = self.past.phases(chip["chip"], self.until - self.window) if phases else []
        times = Counter(phase.path for phase in begun)
        marks = [
            int(phase.since // columns.width) - columns.first - 1 for phase in begun if times[phase.path] <= _MOST_MARKS
        ]
        frame = plot.Frame(self.until - self.window, self.until, scale, limit, marks)
        look = (plot.look(drawn, size.width, size.height - 1, self.signs, frame), axis is None)

        def make() -> list[Row]:
            cells = self._kept(chip, quantities[0].name)
            return plot.chart(drawn, size.width, size.height - 1, self.signs, frame, cells)

        rows = self._same(chip, f"{quantities[0].name} chart", look, make)
        return [self._title(chip, values, size.width), *rows]

    def _title(self, chip: ChipRow, values: list[tuple[Quantity, float | None, float | None]], width: int) -> Row:
        """The chip's name, then as many words on its values as there is room for."""
        chip_id = chip["chip"]
        name = self.style.clean(f"{self.names.full(chip_id)} {chip['board'] or ''}".strip())
        short = self.style.cut(self.style.clean(self.names.short(chip_id)), max(4, width // 2))
        look = self._look(chip)
        room = (width - len(name)) // len(values)
        for wordy in range(sum(room >= least for least in _WORDY_COLUMNS), -1, -1):
            texts: Row = []
            for quantity, now, peak in values:
                texts += [
                    ("  ", ""),
                    *_value_text(chip, quantity, now, peak if self.peaks else None, wordy, self.signs),
                ]
            for head in (name, short):
                room = width - width_of([(head, "")]) - width_of(texts)
                if room >= 0:
                    return [(head, look), (" " * room, ""), *texts]
        return fitted([(short, look)], width)

    def sparks(self, chip: ChipRow, quantities: Sequence[Quantity], size: Size) -> list[Row]:
        """The chip in a few rows, each a line filled down to the ground."""
        now = dict(zip(NAMES, values_of(chip)))
        name = self.style.cut(self.style.clean(self.names.full(chip["chip"])), size.width)
        letters = 2 if len(quantities) > 1 else 0
        count = size.width - letters - (_WIDE_COLUMNS if quantities[0].unit else _NARROW_COLUMNS)
        drawn = [(quantity, now[quantity.name], self._columns(chip, quantity.name, count)) for quantity in quantities]

        def make() -> list[Row]:
            sizes = [f"  {short_size(used)}/{short_size(capacity)}" for used, capacity in _sizes(chip, quantities, now)]
            room = size.width - width_of([(name, ""), *((text, "") for text in sizes)])
            head: Row = [(name, self._look(chip))]
            if room >= 0:
                head += [(" " * room, ""), *((text, "dim") for text in sizes)]
            return [fitted(head, size.width), *(self._spark(chip, *one, count, letters) for one in drawn)]

        # Of many chips most have nothing new at most ticks.
        lines = [(value, _reference(chip, one.name), plot.newest(columns)) for one, value, columns in drawn]
        return self._same(chip, "sparks", (name, self._look(chip), quantities, size, self.signs, lines), make)

    def _spark(
        self, chip: ChipRow, quantity: Quantity, value: float | None, columns: Columns, count: int, letters: int
    ) -> Row:
        top, _ = _top(chip, quantity.name, value, columns)
        known = quantity.unit or _capacity(chip, quantity.name) is not None
        text = _number(quantity, value, self.signs) if quantity.unit else _short(quantity, value, top, bool(known))
        words = _WIDE_COLUMNS if quantity.unit else _NARROW_COLUMNS
        line = plot.spark(columns, top, count, self.signs, self._kept(chip, f"{quantity.name} spark"))
        return [
            *([(f"{quantity.title[0]} ", quantity.style)] if letters else []),
            (line, quantity.style),
            (f"{text:>{words}}"[:words], _alarm(chip, quantity, value)),
        ]

    def _look(self, chip: ChipRow) -> str:
        return "bold select" if chip["chip"] == self.selected else "bold"

    def _strip(self, chip: ChipRow, size: Size) -> list[Row]:
        """The phases of the chip's processes as bars: those on top in the first row, those within them below."""
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
    """Have both memories a size, so that one axis in percent does for both?"""
    return all(not quantity.unit and _capacity(chip, quantity.name) for quantity in quantities)


def _limit(chip: ChipRow, name: str) -> float | None:
    now = chip["telemetry"]
    return None if now is None else now.get(_LIMITS[name]) or None


def _reference(chip: ChipRow, name: str) -> float | None:
    """The value that counts as 100 %: the limit of a reading, the capacity of a memory."""
    return _limit(chip, name) if name in _LIMITS else _capacity(chip, name)


def _top(chip: ChipRow, name: str, now: float | None, columns: Columns) -> tuple[float, float | None]:
    """The value at the top of the axis, and the part of it at which there is a limit below the top."""
    if name not in _LIMITS and (capacity := _capacity(chip, name)) is not None:
        return float(capacity), None
    most = max(now or 0.0, plot.peak_of(columns) or 0.0)
    if name not in _LIMITS:
        return float(1 << max(10, int(most).bit_length())), None
    limit = _limit(chip, name)
    top = plot.nice(1.1 * max(most, limit or 0.0))
    return top, None if limit is None else limit / top


def _percents(part: float) -> str:
    return f"{100 * part:.0f}%"


def _axis(quantity: Quantity, value: float) -> str:
    return f"{value:.0f}" if quantity.unit else short_size(int(value))


def _short(quantity: Quantity, value: float | None, top: float, as_percent: bool) -> str:
    if value is None:
        return "-"
    return percent(share(int(value), int(top))) if as_percent else short_size(int(value))


def _label(quantity: Quantity, value: float | None, top: float, as_percent: bool, signs: Characters) -> str:
    """What stands at the end of a line; of what has a unit there is one line alone, and the title names it."""
    if quantity.unit:
        return _number(quantity, value, signs)
    return f"{quantity.title} {_short(quantity, value, top, as_percent)}"


def _number(quantity: Quantity, value: float | None, signs: Characters) -> str:
    unit = "C" if signs.ascii and quantity.unit == "°C" else quantity.unit
    gap = "" if quantity.unit == "°C" else " "
    return "-" if value is None else f"{value:.0f}{gap}{unit}"


def _value_text(
    chip: ChipRow, quantity: Quantity, now: float | None, peak: float | None, wordy: int, signs: Characters
) -> Row:
    """A value in words: with its part of the whole, its size and the highest, or less of that."""
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
            row.append((f" {size}", ""))
        top = "-" if peak is None else percent(share(int(peak), capacity)) if capacity else short_size(int(peak))
    if wordy >= 3 and peak is not None:
        row.append((f" peak {top}", "peak"))
    return row


def _alarm(chip: ChipRow, quantity: Quantity, value: float | None) -> str:
    """The style that warns, as bars do."""
    name = quantity.name
    if name == "aiclk_mhz" or value is None:
        return ""
    reference = _reference(chip, name)
    warn, bad = (0.9, 1.0) if name in _LIMITS else (0.75, 0.9)
    part = None if not reference else value / reference
    return "" if part is None else "bad" if part >= bad else "warn" if part >= warn else ""

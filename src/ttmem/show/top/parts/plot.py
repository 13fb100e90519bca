# SPDX-License-Identifier: Apache-2.0
"""Lines over time in the cells of a terminal: braille dots, half blocks or ASCII.

A cell has 2 x 4, 1 x 2 or 1 x 1 dots. A column of dots is an interval of time; its dots reach from the lowest to the
highest value in it, and are joined to the column before. Columns without a value stay empty.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import NamedTuple

from ttmem.show.text import fit
from ttmem.show.top.parts.chip_history import ColumnCache, Columns, Range
from ttmem.show.top.parts.rows import Characters, Row
from ttmem.show.top.parts.time_axis import times

_DOTS = {"braille": (2, 4), "block": (1, 2), "ascii": (1, 1)}  # columns and rows per cell
# The bits of a braille character, from the bottom up, left and right column.
_LEFT, _RIGHT = (0x40, 0x04, 0x02, 0x01), (0x80, 0x20, 0x10, 0x08)
_BLOCKS = " ▄▀█"
_EIGHTHS = " ▁▂▃▄▅▆▇█"
_SHADES = " .:-=+*#@"
_LOW, _HIGH = itemgetter(0), itemgetter(1)
_RUN = re.compile(r"(.)\1*", re.DOTALL)
_UNDER = "~"  # code for the style of what is drawn below the curves
_AXIS_COLUMNS, _ENDS_COLUMNS = 8, 14
NOT_ZERO = "not 0"  # printed below an axis that does not begin at 0


class Curve(NamedTuple):
    """A curve: a range for each column of dots, and the values at both ends of the axis.

    The first range is before the window, because each column is joined to the one before it.
    """

    columns: Columns
    top: float
    style: str
    sign: str  # in ASCII
    label: str = ""  # at its end
    peak: float | None = None  # its highest value, if a peak line is drawn
    peak_label: str = ""  # beside the peak line
    bottom: float = 0.0


class Frame(NamedTuple):
    """The axes and marks around the curves."""

    since: float
    until: float
    axis: Callable[[float], str]  # the label of a position on the axis, from 0 to 1
    limit: float | None = None  # position of the limit on the axis
    marks: Sequence[int] = ()  # columns of dots at which phases began
    from_zero: bool = True  # whether the axis begins at 0
    times: bool = True  # with a time axis, if there is room
    cursor: int | None = None  # cell of the cursor
    origin: float | None = None  # times are after this one


class PeakLine(NamedTuple):
    """A dotted line at the height of a curve's highest dot."""

    row: int
    dot: int  # in that row, from the bottom
    begin: int  # first cell
    style: str
    label: str  # inside the line; empty if the label is elsewhere


def dots(signs: Characters) -> tuple[int, int]:
    """The number of columns and rows of dots in a cell."""
    return _DOTS[signs.charts]


def plot_width(width: int, height: int) -> tuple[int, int, int]:
    """The widths of the axis, the curves and the labels at their ends in a chart of this size."""
    axis = _AXIS_COLUMNS if width >= 30 and height >= 4 else 0
    ends = _ENDS_COLUMNS if width >= 60 and height >= 6 else 0
    return axis, width - axis - ends, ends


Cells = tuple[str, str]  # a column of cells from the top down: characters, and codes of their curves
Under = tuple[str, str, int]  # a row of characters behind the curves: character, style, first cell


def newest(columns: Columns) -> tuple[int, int, int, list[Range | None]]:
    """What may have changed in columns: their numbers, which are complete, and the incomplete ones."""
    first, final, ranges = columns.first, columns.final, columns.ranges
    return first, columns.version, final, ranges[max(0, min(final - first, len(ranges)) - 1) :]


def look(lines: Sequence[Curve], width: int, height: int, signs: Characters, frame: Frame) -> Hashable:
    """All that a chart depends on: an equal value means an equal chart."""
    _, inner, _ = plot_width(width, height)
    count = height * dots(signs)[1]

    def dots_of(line: Curve) -> Hashable:
        *complete, tail = newest(line.columns)
        moving = tuple([here and (_dot(here[0], line, count), _dot(here[1], line, count)) for here in tail])
        peak = None if line.peak is None else (_dot(line.peak, line, count), line.peak_label)
        return *complete, moving, peak, line.bottom, line.top, line.style, line.label

    axis = times(frame.since, frame.until, inner, frame.origin)
    around = (frame.limit, tuple(frame.marks), frame.from_zero, frame.times, frame.cursor)
    return width, height, signs, axis, around, tuple(map(dots_of, lines))


def chart(
    lines: Sequence[Curve],
    width: int,
    height: int,
    signs: Characters,
    frame: Frame,
    kept: ColumnCache[Cells] | None = None,
) -> list[Row]:
    """A chart of exactly this size. The curves must have as many columns as `plot_width` leaves for them."""
    axis, inner, ends = plot_width(width, height)
    below = 1 if height >= 4 and frame.times else 0
    high = height - below
    peaks = peak_lines(lines, high, signs, inside=not ends)
    drawn = draw(lines, inner, high, signs, _limit(high, signs, frame), frame.marks, kept, peaks, frame.cursor)
    ticks = _ticks(high, frame.axis) if axis else {}
    labels = _ends(lines, high, peaks, signs) if ends else {}
    warning = axis and not frame.from_zero
    out: list[Row] = []
    for place, row in enumerate(drawn):
        if axis:
            bar = ("+" if signs.ascii else "┤") if place in ticks else "|" if signs.ascii else "│"
            row.insert(0, (f"{ticks.get(place, ''):>{_AXIS_COLUMNS - 1}}{bar}", "dim"))
        if ends:
            text, style = labels.get(place, ("", ""))
            row.append((f" {text:<{ends - 1}}", style))
        out.append(row)
    if below:
        corner = (f"{NOT_ZERO:>{axis - 1}} ", "warn") if warning else (" " * axis, "")
        out.append([corner, (times(frame.since, frame.until, inner, frame.origin), "dim"), (" " * ends, "")])
    elif warning:
        place = high - 2 if high >= 3 and high - 2 not in ticks else high - 1
        bar = "|" if signs.ascii else "│"
        out[place][0] = (f"{NOT_ZERO:>{_AXIS_COLUMNS - 1}}{bar}", "warn")
    return out


def draw(
    lines: Sequence[Curve],
    width: int,
    height: int,
    signs: Characters,
    unders: dict[int, Under] | None = None,
    marks: Iterable[int] = (),
    kept: ColumnCache[Cells] | None = None,
    peaks: Sequence[PeakLine] = (),
    cursor: int | None = None,
) -> list[Row]:
    """The curves alone; later ones cover earlier ones. ``unders`` are visible where no curve is."""
    made = _made(lines, width, height, signs, kept or ColumnCache())
    at = {column // dots(signs)[0] for column in marks}
    names = {" ": "", "!": "mark", **{chr(97 + number): line.style for number, line in enumerate(lines)}}
    names |= {chr(65 + number): peak.style for number, peak in enumerate(peaks)}
    out = []
    texts, codes = zip(*made) if made else ((), ())
    for place, (text, code) in enumerate(zip(map("".join, zip(*texts)), map("".join, zip(*codes)))):
        for number, peak in enumerate(peaks):
            if peak.row == place:
                text, code = _with_peak(text, code, peak, chr(65 + number), signs)
        if unders and place in unders:
            under, names[_UNDER], begin = unders[place]
            drawn = "".join([under if c == " " else t for t, c in zip(text[begin:], code[begin:])])
            text, code = text[:begin] + drawn, code[:begin] + code[begin:].replace(" ", _UNDER)
        for x in at:
            if 0 <= x < len(code) and code[x] in (" ", _UNDER):
                text = f"{text[:x]}{':' if signs.ascii else '┊'}{text[x + 1 :]}"
                code = f"{code[:x]}!{code[x + 1 :]}"
        row = [(text[run.start() : run.end()], names[run[1]]) for run in _RUN.finditer(code)]
        out.append(row if cursor is None else with_cursor(row, cursor, "|" if signs.ascii else "│"))
    return out


def _with_peak(text: str, code: str, peak: PeakLine, letter: str, signs: Characters) -> tuple[str, str]:
    """A row with the dots of a peak line. They are added to the cells of curves, so that no curve hides the line."""
    before, cells, owners = text[: peak.begin], text[peak.begin :], code[peak.begin :]
    if signs.charts == "braille":
        bit = _LEFT[peak.dot]
        cells = "".join([chr((0x2800 if sign == " " else ord(sign)) | bit) for sign in cells])
        owners = owners.replace(" ", letter)
    else:  # in every second cell, so that it does not look like a curve
        new, whose = [], []
        for x, (sign, owner) in enumerate(zip(cells, owners)):
            free = owner == " "
            if x % 2 == 0 and (free or signs.charts == "block"):
                sign = "." if signs.ascii else _BLOCKS[_BLOCKS.index(sign) | 1 << peak.dot]
            new.append(sign)
            whose.append(letter if free and (x % 2 == 0) else owner)
        cells, owners = "".join(new), "".join(whose)
    text, code = before + cells, code[: peak.begin] + owners
    wanted = len(peak.label) + 2
    place = code.replace(" ", letter).find(letter * wanted, peak.begin)
    if peak.label and place >= 0:
        text = f"{text[:place]} {peak.label} {text[place + wanted :]}"
        code = code[:place] + letter * wanted + code[place + wanted :]
    return text, code


def with_cursor(row: Row, cursor: int, sign: str) -> Row:
    """A row with one cell highlighted."""
    out: Row = []
    x = 0
    for text, name in row:
        at = cursor - x
        if 0 <= at < len(text):
            middle = text[at] if text[at] != " " else sign
            pieces = ((text[:at], name), (middle, f"{name} select".lstrip()), (text[at + 1 :], name))
            out += [piece for piece in pieces if piece[0]]
        else:
            out.append((text, name))
        x += len(text)
    return out


def _made(lines: Sequence[Curve], width: int, height: int, signs: Characters, kept: ColumnCache[Cells]) -> list[Cells]:
    """The cells column by column."""
    if not lines or height < 1:
        return [_cells(max(0, height), signs.charts, (), ())] * width
    across, up = dots(signs)
    count, first = height * up, lines[0].columns.first + 1
    looks = tuple([line.sign for line in lines]) if signs.ascii else ()

    def make(cell: int) -> Cells:
        at = cell * across - first + 1
        spans = [_span(line, at + part, count) for line in lines for part in range(across)]
        return _cells(height, signs.charts, looks, tuple(spans))

    final = min([line.columns.final for line in lines]) // across
    ends = [(line.bottom, line.top, line.style, line.columns.version) for line in lines]
    look = (height, signs, ends, lines[0].columns.width)
    made = kept.get(look, first // across, first // across + width, final, make)
    # The first column is not joined to the one before the window: the curve could exceed its peak line there.
    edge = [_span(line, 1 + part, count, joined=part > 0) for line in lines for part in range(across)]
    return [_cells(height, signs.charts, looks, tuple(edge)), *made[1:]]


def _span(line: Curve, at: int, count: int, joined: bool = True) -> tuple[int, int] | None:
    """The lowest and the highest dot of a column, joined to the column before; None if it is below the axis."""
    ranges = line.columns.ranges
    here = ranges[at]
    if here is None or here[1] < line.bottom:
        return None
    low, high = _dot(here[0], line, count), _dot(here[1], line, count)
    if joined and (before := ranges[at - 1]) is not None:
        if (up := _dot(before[1], line, count)) < low - 1:
            low = up + 1
        elif (down := _dot(before[0], line, count)) > high + 1:
            high = down - 1
    return low, high


def _dot(value: float, line: Curve, count: int) -> int:
    return max(0, min(count - 1, int((value - line.bottom) / (line.top - line.bottom) * count)))


@lru_cache(maxsize=8192)
def _cells(height: int, charts: str, looks: tuple[str, ...], spans: tuple[tuple[int, int] | None, ...]) -> Cells:
    """A column of cells; the code of a cell is the letter of its curve (a, b, ...) or a space."""
    across, up = _DOTS[charts]
    bits, texts, codes = [0] * height, [" "] * height, [" "] * height
    for number, span in enumerate(spans):
        if span is not None:
            line, part = divmod(number, across)
            weights = (_LEFT, _RIGHT)[part] if charts == "braille" else (1, 2)
            for dot in range(span[0], span[1] + 1):
                row = height - 1 - dot // up
                bits[row] |= weights[dot % up]
                codes[row] = chr(97 + line)
                if looks:
                    texts[row] = looks[line]
    if charts == "braille":
        texts = [chr(0x2800 + bit) if bit else " " for bit in bits]
    elif charts == "block":
        texts = [_BLOCKS[bit] for bit in bits]
    return "".join(texts), "".join(codes)


def spark(columns: Columns, top: float, width: int, signs: Characters, kept: ColumnCache[str] | None = None) -> str:
    """A filled curve in one row: the highest value of each column."""
    across = dots(signs)[0]
    levels, ranges, first = 4 if across == 2 else 8, columns.ranges, columns.first + 1

    def level(at: int) -> int:
        # Every value has at least one dot, also 0. Only a gap is empty.
        here = ranges[at]
        return 0 if here is None else max(1, min(levels, round(here[1] / top * levels)))

    def make(cell: int) -> str:
        at = cell * across - first + 1
        if across == 2:
            return _FILLED[level(at), level(at + 1)]
        return (_SHADES if signs.ascii else _EIGHTHS)[level(at)]

    look = (signs, top, columns.version, columns.width)
    made = (kept or ColumnCache()).get(look, first // across, first // across + width, columns.final // across, make)
    return "".join(made)


_FILLED = {
    (left, right): chr(0x2800 + sum(_LEFT[:left]) + sum(_RIGHT[:right])) if left or right else " "
    for left in range(5)
    for right in range(5)
}


def place_of(part: float, height: int, signs: Characters) -> int:
    """The row of a position on the axis."""
    count = height * dots(signs)[1]
    return height - 1 - max(0, min(count - 1, int(part * count))) // dots(signs)[1]


def peak_of(columns: Columns) -> float | None:
    """The highest value in the window."""
    return max(map(_HIGH, filter(None, columns.ranges[1:])), default=None)


def lowest_of(columns: Columns) -> float | None:
    """The lowest value in the window."""
    return min(map(_LOW, filter(None, columns.ranges[1:])), default=None)


def _limit(height: int, signs: Characters, frame: Frame) -> dict[int, Under]:
    """A row of dashes at the limit."""
    if frame.limit is None:
        return {}
    return {place_of(frame.limit, height, signs): ("-" if signs.ascii else "╌", "bad", 0)}


def peak_lines(lines: Sequence[Curve], height: int, signs: Characters, *, inside: bool) -> list[PeakLine]:
    """The peak line of each curve, starting where the curve starts."""
    out = []
    across, up = dots(signs)
    for line in lines:
        if line.peak and line.peak >= line.bottom and height >= 1:
            begin = next((at for at, here in enumerate(line.columns.ranges[1:]) if here is not None), 0)
            dot = _dot(line.peak, line, height * up)
            label = line.peak_label if inside else ""
            out.append(PeakLine(height - 1 - dot // up, dot % up, begin // across, line.style, label))
    return out


@lru_cache(maxsize=16)
def _ticks(height: int, label: Callable[[float], str]) -> dict[int, str]:
    """Texts beside the axis, each in the row in which a curve with that value is drawn."""
    count = next((count for count in (4, 2) if height > 2 * count), 1)
    rows = {part: height - 1 - min(height - 1, part * height // count) for part in range(count + 1)}
    return {row: label(part / count)[: _AXIS_COLUMNS - 1] for part, row in rows.items()}


def _ends(
    lines: Sequence[Curve], height: int, peaks: Sequence[PeakLine], signs: Characters
) -> dict[int, tuple[str, str]]:
    """The labels beside the peak lines and the curves, each as near to its value as possible."""
    out: dict[int, tuple[str, str]] = {}
    texts = [line.peak_label for line in lines if line.peak and line.peak >= line.bottom]
    for peak, text in zip(peaks, texts):
        _place_label(out, peak.row, text, peak.style, height)
    for line in lines:
        last = next((column for column in reversed(line.columns.ranges) if column is not None), None)
        if last is not None and line.label:
            below = last[1] < line.bottom
            arrow = ("v " if signs.ascii else "↓ ") if below else ""
            part = 0.0 if below else (last[1] - line.bottom) / (line.top - line.bottom)
            _place_label(out, place_of(part, height, signs), arrow + line.label, line.style, height)
    return out


def _place_label(out: dict[int, tuple[str, str]], wanted: int, text: str, style: str, height: int) -> None:
    """Place a label in the wanted row or the nearest free one; of two, the lower one."""
    if len(out) < height:
        row = min((row for row in range(height) if row not in out), key=lambda row: (abs(row - wanted), -row))
        out[row] = (fit(text, _ENDS_COLUMNS - 1), style)

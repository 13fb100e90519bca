# SPDX-License-Identifier: Apache-2.0
"""Lines over time in the cells of a terminal: braille dots, half blocks or ASCII.

A cell has 2 x 4, 1 x 2 or 1 x 1 dots. A column of dots is a stretch of time; its dots reach from the lowest to the
highest value in it, and on to the column before if that did not touch: the value had to pass there. Columns without a
value stay empty.
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

_DOTS = {"braille": (2, 4), "block": (1, 2), "ascii": (1, 1)}  # of a cell: columns, rows
# The bits of a braille sign, from the bottom up, left column and right.
_LEFT, _RIGHT = (0x40, 0x04, 0x02, 0x01), (0x80, 0x20, 0x10, 0x08)
_BLOCKS = " ▄▀█"
_EIGHTHS = " ▁▂▃▄▅▆▇█"
_SHADES = " .:-=+*#@"
_HIGH = itemgetter(1)
_RUN = re.compile(r"(.)\1*", re.DOTALL)
_UNDER = "~"  # stands for the style of what lies under the lines
_AXIS_COLUMNS, _ENDS_COLUMNS = 6, 14
_NICE = (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)


class Curve(NamedTuple):
    """What is drawn: a range for each column of dots, and the value at the top of the axis.

    The first range lies before the window: it says from where the line comes.
    """

    columns: Columns
    top: float
    style: str
    sign: str  # in ASCII
    label: str = ""  # at its end
    peak: float | None = None  # where it was highest, if a line is to be drawn there


class Frame(NamedTuple):
    """What is around the lines."""

    since: float
    until: float
    axis: Callable[[float], str]  # what a part of the axis is, from 0 to 1
    limit: float | None = None  # part of the axis at which a line is drawn
    marks: Sequence[int] = ()  # columns of dots at which something began


def dots(signs: Characters) -> tuple[int, int]:
    """How many columns and rows of dots a cell has."""
    return _DOTS[signs.charts]


def nice(value: float) -> float:
    """The next value up that is good for the end of an axis.

    >>> nice(82.5), nice(176), nice(0)
    (100.0, 200.0, 1.0)
    """
    if value <= 0:
        return 1.0
    power = 10.0 ** len(str(int(value))) / 10
    return next(step * power for step in _NICE if step * power >= value)


def plot_width(width: int, height: int) -> tuple[int, int, int]:
    """Of a chart so wide: cells of its axis, of the lines, of what stands at their ends."""
    axis = _AXIS_COLUMNS if width >= 30 and height >= 4 else 0
    ends = _ENDS_COLUMNS if width >= 60 and height >= 6 else 0
    return axis, width - axis - ends, ends


Cells = tuple[str, str]  # a column of cells from the top down, and whose each is
Under = tuple[str, str, int]  # a row of signs below the lines: sign, style, the first cell


def newest(columns: Columns) -> tuple[int, int, int, list[Range | None]]:
    """What may differ from the columns of a moment ago: which there are, which are complete, and the others."""
    first, final, ranges = columns.first, columns.final, columns.ranges
    return first, columns.version, final, ranges[max(0, min(final - first, len(ranges)) - 1) :]


def look(lines: Sequence[Curve], width: int, height: int, signs: Characters, frame: Frame) -> Hashable:
    """What a chart depends on: it is drawn the same as before if this is the same."""
    _, inner, _ = plot_width(width, height)
    count = height * dots(signs)[1]

    def dots_of(line: Curve) -> Hashable:
        *complete, tail = newest(line.columns)
        moving = tuple([here and (_dot(here[0], line.top, count), _dot(here[1], line.top, count)) for here in tail])
        peak = None if line.peak is None else _dot(line.peak, line.top, count)
        return *complete, moving, peak, line.top, line.style, line.label

    axis = times(frame.since, frame.until, inner)
    return width, height, signs, axis, frame.limit, tuple(frame.marks), tuple(map(dots_of, lines))


def chart(
    lines: Sequence[Curve],
    width: int,
    height: int,
    signs: Characters,
    frame: Frame,
    kept: ColumnCache[Cells] | None = None,
) -> list[Row]:
    """Lines with what is around them, exactly so large. The lines must have the columns that `plot_width` leaves."""
    axis, inner, ends = plot_width(width, height)
    below = 1 if height >= 5 else 0
    high = height - below
    drawn = draw(lines, inner, high, signs, _unders(lines, high, signs, frame), frame.marks, kept)
    ticks = _ticks(high, frame.axis) if axis else {}
    labels = _ends(lines, high) if ends else {}
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
        out.append([(" " * axis, ""), (times(frame.since, frame.until, inner), "dim"), (" " * ends, "")])
    return out


def draw(
    lines: Sequence[Curve],
    width: int,
    height: int,
    signs: Characters,
    unders: dict[int, Under] | None = None,
    marks: Iterable[int] = (),
    kept: ColumnCache[Cells] | None = None,
) -> list[Row]:
    """The lines alone; later ones lie over earlier ones. ``unders`` show where no line is."""
    made = _made(lines, width, height, signs, kept or ColumnCache())
    at = {column // dots(signs)[0] for column in marks}
    names = {" ": "", "!": "mark", **{chr(97 + number): line.style for number, line in enumerate(lines)}}
    out = []
    texts, codes = zip(*made) if made else ((), ())
    for place, (text, code) in enumerate(zip(map("".join, zip(*texts)), map("".join, zip(*codes)))):
        if unders and place in unders:
            under, names[_UNDER], begin = unders[place]
            drawn = "".join([under if c == " " else t for t, c in zip(text[begin:], code[begin:])])
            text, code = text[:begin] + drawn, code[:begin] + code[begin:].replace(" ", _UNDER)
        for x in at:
            if 0 <= x < len(code) and code[x] in (" ", _UNDER):
                text = f"{text[:x]}{':' if signs.ascii else '┊'}{text[x + 1 :]}"
                code = f"{code[:x]}!{code[x + 1 :]}"
        out.append([(text[run.start() : run.end()], names[run[1]]) for run in _RUN.finditer(code)])
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
    tops = [(line.top, line.style, line.columns.version) for line in lines]
    look = (height, signs, tops, lines[0].columns.width)
    return kept.get(look, first // across, first // across + width, final, make)


def _span(line: Curve, at: int, count: int) -> tuple[int, int] | None:
    """The lowest and the highest dot of a column, joined to the column before."""
    ranges = line.columns.ranges
    if (here := ranges[at]) is None:
        return None
    low, high = _dot(here[0], line.top, count), _dot(here[1], line.top, count)
    if (before := ranges[at - 1]) is not None:
        if (up := _dot(before[1], line.top, count)) < low - 1:
            low = up + 1
        elif (down := _dot(before[0], line.top, count)) > high + 1:
            high = down - 1
    return low, high


def _dot(value: float, top: float, count: int) -> int:
    return max(0, min(count - 1, int(value / top * count)))


@lru_cache(maxsize=8192)
def _cells(height: int, charts: str, looks: tuple[str, ...], spans: tuple[tuple[int, int] | None, ...]) -> Cells:
    """A column of cells; it is a's, b's, ... of the lines, or nobody's."""
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
    """A line in one row, filled down to the ground: the highest value of each column."""
    across = dots(signs)[0]
    levels, ranges, first = 4 if across == 2 else 8, columns.ranges, columns.first + 1

    def level(at: int) -> int:
        # What is more than nothing is never drawn as nothing; what is nothing is a dot on the ground, and no gap.
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
    """The row in which a part of the axis lies."""
    count = height * dots(signs)[1]
    return height - 1 - max(0, min(count - 1, int(part * count))) // dots(signs)[1]


def peak_of(columns: Columns) -> float | None:
    """The highest value in the window."""
    return max(map(_HIGH, filter(None, columns.ranges[1:])), default=None)


def _unders(lines: Sequence[Curve], height: int, signs: Characters, frame: Frame) -> dict[int, Under]:
    """Rows of dashes: where the limit is, and where each line was highest, from where there is something of it."""
    out: dict[int, Under] = {}
    for line in lines:
        if line.peak and height >= 4:
            begin = next((at for at, here in enumerate(line.columns.ranges[1:]) if here is not None), 0)
            sign = "." if signs.ascii else "┈"
            out[place_of(line.peak / line.top, height, signs)] = (sign, "peak", begin // dots(signs)[0])
    if frame.limit is not None:
        out[place_of(frame.limit, height, signs)] = ("-" if signs.ascii else "╌", "bad", 0)
    return out


@lru_cache(maxsize=16)
def _ticks(height: int, label: Callable[[float], str]) -> dict[int, str]:
    """Texts beside the axis by row, evenly spaced."""
    count = next((count for count in (4, 2) if height > 2 * count), 1)
    return {
        round((height - 1) * (1 - part / count)): label(part / count)[: _AXIS_COLUMNS - 1] for part in range(count + 1)
    }


def _ends(lines: Sequence[Curve], height: int) -> dict[int, tuple[str, str]]:
    """What stands at the end of each line, as near to its last value as there is room."""
    out: dict[int, tuple[str, str]] = {}
    for line in lines:
        last = next((column for column in reversed(line.columns.ranges) if column is not None), None)
        if last is not None and line.label and len(out) < height:
            wanted = place_of(last[1] / line.top, height, Characters("ascii"))
            row = min((row for row in range(height) if row not in out), key=lambda row: (abs(row - wanted), row))
            out[row] = (fit(line.label, _ENDS_COLUMNS - 1), line.style)
    return out

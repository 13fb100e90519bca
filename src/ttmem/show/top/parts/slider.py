# SPDX-License-Identifier: Apache-2.0
"""The time line of a recording: where the moment is in it, its peaks, phases and failed allocations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ttmem.documents.common_text import local_time
from ttmem.documents.recorded_moments import offset_text
from ttmem.show.text import Style
from ttmem.show.top.parts.rows import Characters, Row, Span, fitted, width_of

if TYPE_CHECKING:
    from ttmem.show.top.playback import Playback

# From the least to the most important: of several in one cell, the last one is drawn.
_SIGNS = {"phase": ("╿", "|", "mark"), "peak": ("▲", "^", "peak"), "failure": ("✖", "x", "bad")}
_LINE, _POSITION, _TARGET = ("━", "="), ("●", "O"), ("○", "o")
_REST = ("─", "-")
_HINTS = (
    (", .", "event"), ("[ ]", "phase"), ("{ }", "peak"), ("n N", "failure"), ("< >", "speed"),
    ("@", "moment"),
)  # fmt: skip


def length_text(seconds: float) -> str:
    """
    >>> length_text(12.5), length_text(0.0004), length_text(4000)
    ('12.500s', '0.000400s', '4000.0s')
    """
    return f"{seconds:.6f}s" if seconds < 1 else f"{seconds:.3f}s" if seconds < 1000 else f"{seconds:.1f}s"


def speed_text(speed: float) -> str:
    """
    >>> speed_text(1.0), speed_text(0.25), speed_text(1000.0)
    ('1x', '0.25x', '1000x')
    """
    return f"{speed:g}x"


def _room(playback: Playback, width: int) -> tuple[int, int]:
    """The first column of the line, and its cells."""
    left = 3 + len(speed_text(playback.speed)) + 1
    right = len(length_text(playback.length)) + 2
    return left, max(1, width - left - right)


def time_at(playback: Playback, x: int, width: int) -> float | None:
    """The time at a column of the line; None beside it."""
    left, count = _room(playback, width)
    if not left - 1 <= x <= left + count:
        return None
    place = max(0, min(count - 1, x - left))
    return playback.begin + playback.length * place / max(1, count - 1)


def slider_row(playback: Playback, width: int, signs: Characters) -> Row:
    """The line with its marks."""
    count = _room(playback, width)[1]
    playback.cells = count
    ascii = int(signs.ascii)
    here, wanted = _cell(playback, playback.position.time, count), _cell(playback, playback.target, count)
    line: list[Span] = [(_LINE[ascii], "bar") if number < here else (_REST[ascii], "track") for number in range(count)]
    order = list(_SIGNS)
    for mark in sorted(playback.marks, key=lambda mark: order.index(mark.kind)):
        sign = _SIGNS[mark.kind]
        line[_cell(playback, mark.time, count)] = (sign[ascii], sign[2])
    if wanted != here:
        line[wanted] = (_TARGET[ascii], "warn")
    marked = line[here][0] if line[here][1] not in ("bar", "track", "warn") else _POSITION[ascii]
    line[here] = (marked, "title")
    state: Span = (" > " if signs.ascii else " ▶ ", "good") if playback.playing else (" = " if ascii else " ■ ", "dim")
    row: Row = [state, (f"{speed_text(playback.speed)} ", "bold" if playback.speed != 1 else "dim")]
    for text, style in line:  # neighbours of one style are one span
        if row and row[-1][1] == style:
            row[-1] = (row[-1][0] + text, style)
        else:
            row.append((text, style))
    return fitted([*row, (f" {length_text(playback.length)} ", "dim")], width)


def _cell(playback: Playback, time: float, count: int) -> int:
    part = (time - playback.begin) / playback.length if playback.length > 0 else 0.0
    return max(0, min(count - 1, round(part * (count - 1))))


def moment_row(playback: Playback, width: int, signs: Characters) -> Row:
    """The moment in numbers and words, and keys if there is room."""
    style = Style(width, ascii=signs.ascii)
    row: Row = [(f" {offset_text(playback.position.time, playback.begin)}", "bold")]
    row.append((f" of {length_text(playback.length)}", "dim"))
    if playback.slow and playback.target != playback.position.time:
        row.append((f"  loading {offset_text(playback.target, playback.begin)}...", "warn"))
    elif playback.slow:
        row.append(("  loading...", "warn"))
    elif playback.position.words:
        words = playback.position.words
        row.append((f"  {style.cut(words, max(10, width - width_of(row) - 3))}", "key"))
    more: list[Row] = [[(f"  {local_time(playback.position.time, 3)}", "")]]
    if playback.progress < 1:
        more.append([(f"  reading the history: {playback.progress:.0%}", "dim")])
    more.append([(f"  {style.clean(playback.name)}", "dim")])
    for part in more:
        if width_of(row) + width_of(part) <= width:
            row += part
    keys: Row = []
    for key, what in _HINTS:
        hint: Row = [("  ", ""), (key, "key"), (f" {what}", "dim")]
        if width_of(row) + width_of(keys) + width_of(hint) < width:
            keys += hint
    return fitted([*row, (" " * (width - width_of(row) - width_of(keys)), ""), *keys], width)

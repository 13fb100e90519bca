# SPDX-License-Identifier: Apache-2.0
"""Text for terminals: width in columns, cutting, wrapping, colours, and tables that drop columns to fit."""

from __future__ import annotations

import os

from ttmem.model.printable import printable_data

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, TextIO

    Cell = tuple[str, str]  # text, colour

RED, YELLOW, GREEN, DIM, BOLD, NONE = "31", "33", "32", "2", "1", ""
OPTIONAL_RANK = 10  # from this rank on, a column is shown only if nothing else is cut
_PIPE_COLUMNS = 100
_ARROW, _ASCII_ARROW = "→", "->"  # texts of a comparison have it, too
# Characters that take one cell each: ASCII and our own symbols. Most text has only these and needs no lookup.
_NARROW = (
    frozenset(map(chr, range(32, 127)))
    | frozenset(map(chr, range(0x2800, 0x2900)))  # braille
    | frozenset("█▉▊▋▌▍▎▏░▒▓─°…▀▄▁▂▃▅▆▇│├┤┊┈╌━╞═╡▲▾▴·≥→")
)


class Style:
    """Width, colour or not, block characters or plain ASCII.

    >>> Style(width=60, ascii=True).bar(0.5, 10)[0]
    '#####.....'
    """

    __slots__ = ("ascii", "colour", "width")

    def __init__(self, width: int = _PIPE_COLUMNS, colour: bool = False, ascii: bool = False) -> None:
        self.width, self.colour, self.ascii = width, colour, ascii

    def paint(self, text: str, colour: str) -> str:
        return f"\x1b[{colour}m{text}\x1b[0m" if self.colour and colour and text else text

    def bar(self, share: float | None, width: int) -> Cell:
        """A bar and its colour, which warns if it is nearly full."""
        if share is None:
            return "", NONE
        full = round(max(0.0, min(1.0, share)) * width)
        on, off = ("#", ".") if self.ascii else ("█", "░")
        return on * full + off * (width - full), RED if share >= 0.9 else YELLOW if share >= 0.75 else GREEN

    @property
    def degree(self) -> str:
        return "C" if self.ascii else "°C"

    @property
    def arrow(self) -> str:
        return _ASCII_ARROW if self.ascii else _ARROW

    def cut(self, text: str, width: int) -> str:
        """As much as fits, with a mark if it was cut."""
        if cells(text) <= width:
            return text
        return fit(text, width - 1) + ("~" if self.ascii else "…") if width > 0 else ""

    def clean(self, value: Any) -> Any:
        """Escape control characters of a text or document (see ``printable``), and non-ASCII in ASCII mode."""
        cleaned = printable_data(value)
        return _ascii(cleaned) if self.ascii else cleaned


def _ascii(value: Any) -> Any:
    if isinstance(value, str):
        return value if value.isascii() else value.replace(_ARROW, _ASCII_ARROW).encode("ascii", "replace").decode()
    if isinstance(value, dict):
        return {_ascii(key): _ascii(inner) for key, inner in value.items()}
    return [_ascii(inner) for inner in value] if isinstance(value, list) else value


def style_of(stream: TextIO, *, ascii: bool = False, colour: bool = True) -> Style:
    """The style that a stream supports, according to the environment."""
    env = os.environ
    terminal = stream.isatty()
    colour = colour and terminal and not env.get("NO_COLOR") and env.get("TERM") != "dumb"
    return Style(columns(stream), colour, ascii or not _utf8(stream))


def columns(stream: TextIO) -> int:
    """The width of a line."""
    chosen = os.environ.get("COLUMNS", "")
    if chosen.isdecimal() and int(chosen) > 0:
        return int(chosen)
    try:
        return os.get_terminal_size(stream.fileno()).columns or _PIPE_COLUMNS
    except (OSError, ValueError):
        return _PIPE_COLUMNS


def _utf8(stream: TextIO) -> bool:
    env = os.environ
    name = env.get("LC_ALL") or env.get("LC_CTYPE") or env.get("LANG") or "UTF-8"
    if name == "C.UTF-8" and env.get("LC_CTYPE") == name and env.get("LANG") in ("C", "POSIX"):
        return False  # Python itself set this LC_CTYPE; the user's locale is C
    encoding_is_utf8 = (stream.encoding or "").lower().replace("-", "") == "utf8"
    return encoding_is_utf8 and name.lower().replace("-", "").endswith("utf8")


def cells(text: str) -> int:
    """The number of terminal cells of a text.

    >>> cells("abc"), cells("模型"), cells("█…")
    (3, 4, 2)
    """
    return len(text) if text.isascii() or _NARROW.issuperset(text) else sum(map(_cell, text))


def _cell(character: str) -> int:
    if character in _NARROW:
        return 1
    from unicodedata import category, east_asian_width

    return 0 if category(character) in ("Mn", "Me") else 2 if east_asian_width(character) in "WF" else 1


def fit(text: str, width: int) -> str:
    """As much of a text as fits into a number of cells."""
    if text.isascii() or _NARROW.issuperset(text):
        return text[: max(0, width)]
    for index, character in enumerate(text):
        width -= _cell(character)
        if width < 0:
            return text[:index]
    return text


def fit_line(line: str, width: int) -> str:
    """As much of a line as fits; colour codes take no room and are kept."""
    if len(line) <= width and line.isascii():
        return line
    kept = []
    for number, piece in enumerate(line.split("\x1b[")):
        colour, found, text = piece.partition("m") if number else ("", "", piece)
        shown = fit(text, width)
        width -= cells(shown)
        kept.append(f"\x1b[{colour}{found}{shown}" if number else shown)
    return "".join(kept)


def one_line(text: str) -> str:
    """Joins lines whose newlines ``clean`` has escaped.

    >>> one_line("no dram.\\\\nno l1.")
    'no dram.; no l1.'
    """
    return "; ".join(filter(None, text.split("\\n")))


def wrap(text: str, style: Style, indent: str = "", first: str | None = None) -> list[str]:
    """A sentence in lines, broken between words; ``first`` is the indent of the first line."""
    lines, line, started = [], indent if first is None else first, False
    for word in text.split():
        if started and cells(line) + 1 + cells(word) > style.width:
            lines.append(line)
            line, started = indent, False
        line += f" {word}" if started else word
        started = True
        if cells(line) > style.width:
            line = style.cut(line, style.width)
    return [*lines, line] if started else lines


class Column:
    """A column of a table: its cells, its minimum width, and its rank.

    ``cells`` are texts, pairs of text and colour, or functions of the width that give such a pair (bars). The column
    with the lowest ``rank`` gets room first; those of rank 0 and below always stay.
    """

    __slots__ = ("cells", "gap", "high", "low", "rank", "right", "title")

    def __init__(
        self,
        title: str,
        cells_: Sequence[str | Cell | Callable[[int], Cell]],
        rank: int,
        *,
        low: int | None = None,
        high: int | None = None,
        right: bool = False,
        gap: int = 1,
    ) -> None:
        self.title, self.cells, self.rank, self.right, self.gap = title, cells_, rank, right, gap
        widths = [cells(text) for cell in cells_ if (text := _text(cell)) is not None]
        natural = max([cells(title), *widths])
        self.high = natural if high is None else high if not widths else min(high, natural)
        self.low = self.high if low is None else min(low, self.high)


def _text(cell: Any) -> str | None:
    return cell if isinstance(cell, str) else cell[0] if isinstance(cell, tuple) else None


def table(found: list[Column], style: Style) -> list[str]:
    """A line of titles and a line for each row, within the width."""
    widths: dict[int, int] = {}
    ranked = sorted(enumerate(found), key=lambda item: item[1].rank)

    def left() -> int:
        return style.width + 1 - sum(width + found[place].gap for place, width in widths.items())

    def admit(columns_: list[tuple[int, Column]]) -> None:
        for place, column in columns_:
            if column.rank <= 0 or column.low + column.gap <= left():
                widths[place] = column.low

    def grow(bars: bool) -> None:
        for place, column in ranked:
            if place in widths and callable(column.cells[0]) is bars:
                widths[place] += max(0, min(column.high - widths[place], left()))

    # Complete texts first, then optional columns, then longer bars.
    admit([item for item in ranked if item[1].rank < OPTIONAL_RANK])
    grow(bars=False)
    admit([item for item in ranked if item[1].rank >= OPTIONAL_RANK])
    grow(bars=False)
    grow(bars=True)
    shown = [(column, widths[place]) for place, column in enumerate(found) if place in widths]
    lines = [_line([(column.title, BOLD) for column, _ in shown], shown, style)]
    for row in zip(*(column.cells for column, _ in shown)):
        cells_ = []
        for (_, width), cell in zip(shown, row):
            made = cell if isinstance(cell, (str, tuple)) else cell(width)
            cells_.append((made, NONE) if isinstance(made, str) else made)
        lines.append(_line(cells_, shown, style))
    return lines


def _line(cells_: list[Cell], shown: list[tuple[Column, int]], style: Style) -> str:
    line, owed = "", 0
    for (text, colour), (column, width) in zip(cells_, shown):
        room = width - cells(text)
        if room < 0:
            text = style.cut(text, width)
            room = width - cells(text)
        before, after = (room, 0) if column.right else (0, room)
        line += " " * (owed + before) + style.paint(text, colour) if text else ""
        owed = after + column.gap if text else owed + room + column.gap
    return line

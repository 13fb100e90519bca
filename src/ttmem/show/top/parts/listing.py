# SPDX-License-Identifier: Apache-2.0
"""What all lists share: columns that fit, the selected row, scrolling, sort marks, an input line."""

from __future__ import annotations

import unicodedata
from collections.abc import Hashable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from ttmem.documents.leak_words import age_text
from ttmem.show.text import OPTIONAL_RANK, Style, cells, fit
from ttmem.show.top.parts.rows import Characters, Row, Size, Span

if TYPE_CHECKING:
    from ttmem.show.top.dashboard_state import Model

WIDE_COLUMNS = 132  # from this width on, sizes have their full units, as in `ttmem smi`
# Textual's names of characters that differ from Unicode's, or have an underscore for a hyphen.
_KEYS = {
    **{"slash": "/", "backslash": "\\", "at": "@", "minus": "-", "plus": "+", "underscore": "_"},
    **{"less_than_sign": "<", "greater_than_sign": ">"},
}


class Column(NamedTuple):
    """A column: its minimum and maximum width, and its rank.

    The lowest rank gets room first, and rank 0 always. Ranks from OPTIONAL_RANK on are shown only if nothing else is
    cut.
    """

    name: str
    title: str
    low: int
    high: int
    rank: int
    right: bool = False
    down: bool = False  # whether the largest comes first when sorted by it


class Placed(NamedTuple):
    """A column that fits, with its place."""

    column: Column
    x: int
    width: int


def arrange(columns: Sequence[Column], width: int) -> list[Placed]:
    """The columns that fit, in their order.

    >>> arrange([Column("a", "A", 4, 9, 1), Column("b", "B", 3, 3, 0), Column("c", "C", 9, 9, 2)], 12)[0].width
    8
    """
    left, widths = width + 1, {}
    ranked = sorted(columns, key=lambda column: column.rank)
    for needed in (True, False):
        group = [column for column in ranked if (column.rank < OPTIONAL_RANK) is needed]
        for column in group:
            if column.rank <= 0 or column.low < left:
                widths[column.name] = column.low
                left -= column.low + 1
        for column in group:
            if column.name in widths and left > 0:
                more = min(column.high - column.low, left)
                widths[column.name] += more
                left -= more
    last = next((column.name for column in reversed(columns) if column.name in widths), None)
    if last is not None:
        widths[last] += max(0, left)
    out, x = [], 0
    for column in columns:
        if column.name in widths:
            out.append(Placed(column, x, widths[column.name]))
            x += widths[column.name] + 1
    return out


def heading(placed: Sequence[Placed], width: int, signs: Characters, sorted_by: str = "", down: bool = False) -> Row:
    """The titles; the sorted column has a mark."""
    mark = ("v" if down else "^") if signs.ascii else ("▾" if down else "▴")
    titles = [(one.column.title + (mark if one.column.name == sorted_by else ""), "head") for one in placed]
    return line(titles, placed, width, Style(ascii=signs.ascii), "head")


def line(spans: Sequence[Span], placed: Sequence[Placed], width: int, style: Style, fill: str = "") -> Row:
    """A row with a text for each column, exactly as wide as given; adjacent texts of one style become one span."""
    row: Row = []
    pending, current = "", fill
    for (text, name), (column, _, room) in zip(spans, placed):
        if len(text) <= room and text.isascii():
            text = text.rjust(room) if column.right else text.ljust(room)
        else:
            text = style.cut(text, room)
            blank = " " * (room - cells(text))
            text = blank + text if column.right else text + blank
        if name != current:
            if pending:
                row.append((pending, current))
            pending, current = "", name
        pending += text + " "
    used = placed[-1].x + placed[-1].width if placed else 0
    if used > width:  # even the columns of rank 0 do not fit
        row.append((pending, current))
        return clipped(row, width)
    row.append((pending[:-1], current))
    if used < width:
        row.append((" " * (width - used), fill))
    return row


def clipped(row: Row, width: int) -> Row:
    """As much of a row as fits."""
    out: Row = []
    for text, name in row:
        text = fit(text, width)
        width -= cells(text)
        if text:
            out.append((text, name))
    return out


def chosen(row: Row) -> Row:
    """The selected row, in one colour."""
    return [("".join(text for text, _ in row), "select")]


def finished(rows: list[Row], size: Size) -> list[Row]:
    """The rows, cut to the size."""
    return [clipped(row, size.width) for row in rows[: max(0, size.height)]]


class Cursor:
    """The selected entry of a list, and the visible part of the list.

    After the user has moved it, it stays on its entry when the order changes; before that it is on the first entry.
    """

    def __init__(self) -> None:
        self.place = self.top = self.total = 0
        self.height = 1
        self.key: Hashable = None
        self.moved = False

    def look(self, keys: Sequence[Hashable], height: int, first: int = 0, total: int | None = None) -> range:
        """The visible part of a list, as indices. ``keys`` are the known entries, beginning at this index."""
        self.total = first + len(keys) if total is None else total
        self.height = max(1, height)
        if self.key is not None and self.key in keys:
            self.place = first + keys.index(self.key)
        self.place = max(0, min(self.place, self.total - 1)) if self.moved else 0
        if first <= self.place < first + len(keys):
            self.key = keys[self.place - first] if self.moved else None
        self.top = min(max(self.top, self.place - self.height + 1), self.place)
        self.top = max(0, min(self.top, self.total - self.height))
        return range(self.top, min(self.top + self.height, self.total))

    def go(self, place: int) -> None:
        self.place, self.key, self.moved = max(0, min(place, self.total - 1)), None, True

    def press(self, key: str) -> bool:
        steps = {"up": -1, "k": -1, "down": 1, "j": 1, "pageup": -self.height, "pagedown": self.height}
        if key in steps:
            self.go(self.place + steps[key])
        elif key == "end":
            self.go(self.total - 1)
        elif key == "home":
            self.place, self.key, self.moved = 0, None, False
        else:
            return False
        return True


class Prompt:
    """A line that the user is typing."""

    def __init__(self, title: str, text: str = "", help: str = "enter keeps it, escape clears it") -> None:
        self.title, self.text, self.help = title, text, help

    def press(self, key: str) -> bool | None:
        """Handle a key; returns None while the input continues, then whether the text was accepted."""
        if key == "enter":
            return True
        if key == "escape":
            return False
        if key == "backspace":
            self.text = self.text[:-1]
        elif key == "ctrl+u":
            self.text = ""
        elif len(self.text) < 200:
            self.text += character(key)
        return None

    def row(self, width: int, style: Style) -> Row:
        shown = str(style.clean(self.text)) or ""
        room = max(8, width - cells(self.title) - 2)
        while cells(shown) > room:  # show the end, where the user types
            shown = shown[1:]
        return [(f"{self.title} ", "key"), (shown, "bold"), (" ", "select"), (f"  {self.help}", "dim")]


def character(key: str) -> str:
    """The character that a key types, by Textual's name for it; empty if it types none.

    >>> character("a"), character("full_stop"), character("slash"), character("pageup"), character("tab")
    ('a', '.', '/', '', '')
    """
    if len(key) == 1:
        return key if key.isprintable() else ""
    if key in _KEYS:
        return _KEYS[key]
    try:
        found = unicodedata.lookup(key.replace("_", " ").upper())
    except KeyError:
        return ""
    return found if len(found) == 1 and found.isprintable() else ""


def rule(title: str, width: int, signs: Characters) -> Row:
    """The line between a list and the details of the selected row."""
    bar = "-" if signs.ascii else "─"
    return [(bar * 2 + " ", "dim"), (title, "title"), (" " + bar * max(0, width - cells(title) - 4), "dim")]


def counted(count: int, one: str, several: str) -> str:
    """
    >>> counted(1, "allocation", "allocations"), counted(4711, "allocation", "allocations")
    ('1 allocation', '4,711 allocations')
    """
    return f"{count:,} {one if count == 1 else several}"


def age(seconds: float | None) -> str:
    """
    >>> age(150), age(None), age(-1)
    ('2 min', '-', '-')
    """
    return "-" if seconds is None or seconds < 0 else age_text(seconds)


def time_of(model: Model) -> float | None:
    """When the snapshot was made, in seconds since 1970."""
    if model.snapshot is None:
        return None
    try:
        return datetime.fromisoformat(model.snapshot["time"].replace("Z", "+00:00")).timestamp()
    except (KeyError, ValueError):
        return None


def no_server(model: Model) -> str | None:
    """Why there is no server, and what to do; None if there is one."""
    if model.answering:
        return None
    sources = [] if model.snapshot is None else model.snapshot["sources"]
    details = (source["detail"] for source in sources if source["name"] == "server")
    return next((text for text in details if text), None) or model.trouble or "start a server with `ttmem serve`"

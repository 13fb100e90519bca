# SPDX-License-Identifier: Apache-2.0
"""Rows of a screen as spans: each a text and the name of a style, which themes turn into colours."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from ttmem.show.text import BOLD, DIM, GREEN, RED, YELLOW, Style, cells, fit

if TYPE_CHECKING:
    from ttmem.show.top.dashboard_state import Model

Span = tuple[str, str]  # text, style
Row = list[Span]

# The names of styles. Several, separated by spaces, such as "warn select", are combined. Those from "dram" on are the
# colours of kinds and of lines in charts, the same in every view. HEAT are background colours, from cold to hot.
STYLES = (
    *("", "dim", "bold", "title", "head", "select", "key", "good", "warn", "bad", "bar", "track", "mark", "peak"),
    *("dram", "trace", "l1", "l1_small", "cb", "dfb", "scratchpad", "kernel", "firmware", "host", "free"),
    *("temperature", "power", "clock"),
    *(HEAT := ("heat0", "heat1", "heat2", "heat3", "heat4", "heat5")),
)
_EIGHTHS = ("", *"▏▎▍▌▋▊▉")
_NAMES = {RED: "bad", YELLOW: "warn", GREEN: "good", DIM: "dim", BOLD: "bold"}


class Size(NamedTuple):
    """The cells of a view."""

    width: int
    height: int


class Characters(NamedTuple):
    """The characters that may be used: braille dots, block elements, or only ASCII."""

    charts: str = "braille"  # "block", "ascii"

    @property
    def ascii(self) -> bool:
        return self.charts == "ascii"


class FineBars(Style):
    """Bars that end in eighths of a cell, if such characters may be used.

    >>> FineBars(60).bar(0.28, 5)
    ('█▍░░░', '32')
    """

    __slots__ = ()

    def bar(self, share: float | None, width: int) -> tuple[str, str]:
        text, colour = super().bar(share, width)
        if share is None or self.ascii:
            return text, colour
        eighths = round(max(0.0, min(1.0, share)) * width * 8)
        # A part is never drawn as empty or full.
        eighths = max(1, min(8 * width - 1, eighths)) if 0 < share < 1 else eighths
        full = "█" * (eighths // 8) + _EIGHTHS[eighths % 8]
        return full + "░" * (width - len(full)), colour


class View(Protocol):
    """One of the six views. It stores the user's choices (scroll, sort, filter) and nothing else.

    An optional attribute ``kept`` has the names of attributes that are stored between runs. Their values are texts,
    numbers or booleans.
    If a view is empty without a server, its attribute ``needs_server`` is true.
    If it keeps answers, its method ``forget`` drops them: another moment of a recording is shown.
    """

    @property
    def name(self) -> str: ...

    @property
    def keys(self) -> tuple[tuple[str, str], ...]:
        """For the help: keys and their effects."""

    def wants(self, model: Model) -> list[str]:
        """Paths of the API to request at each tick while the view is shown; the answers are in the model.

        "/events" is a stream. Its answer has "events", the newest at the end; "lost", the number of events that this
        reader missed; and "since", the start of the stream.
        """

    def rows(self, model: Model, size: Size, signs: Characters) -> list[Row]:
        """The rows to show, within the size. Must be pure and fast: it is called at each tick."""

    def press(self, key: str, model: Model) -> bool:
        """Handle a key by Textual's name; False if the view does not use it, and the application may.

        The view gets every key first (except Ctrl-C), so that a view with text input gets all keys. The mouse wheel is
        "up" and "down".
        """

    def click(self, x: int, y: int, model: Model) -> bool:
        """Handle a click on a cell of the last ``rows``; a double click is two clicks."""


def width_of(row: Row) -> int:
    """
    >>> width_of([("DRAM", "bold"), (" 3", "")])
    6
    """
    return sum(len(text) if text.isascii() else cells(text) for text, _ in row)


def text_of(row: Row) -> str:
    """
    >>> text_of([("DRAM", "bold"), (" 3", "")])
    'DRAM 3'
    """
    return "".join(text for text, _ in row)


def fitted(row: Row, width: int, style: str = "") -> Row:
    """A row of exactly this width: cut, or padded with spaces of a style."""
    out: Row = []
    for text, name in row:
        taken = len(text) if text.isascii() else cells(text)
        if taken > width:
            text = fit(text, width)
            taken = cells(text)
        width -= taken
        if text:
            out.append((text, name))
    if width > 0 and out and out[-1][1] == style:
        out[-1] = (out[-1][0] + " " * width, style)  # one span less to draw
        return out
    return [*out, (" " * width, style)] if width > 0 else out


def shortened(text: str, width: int, style: Style) -> str:
    """Cut a text to a width, but not inside a number: half a pid is another pid.

    >>> [shortened("of pid 4711 python", width, Style()) for width in (18, 12, 10)]
    ['of pid 4711 python', 'of pid 4711…', 'of pid …']
    """
    cut = style.cut(text, width)
    kept = cut[:-1]
    if cut == text or not kept[-1:].isdecimal() or not text[len(kept)].isdecimal():
        return cut
    return kept.rstrip("0123456789") + cut[-1]


def within(rows: list[Row], size: Size) -> list[Row]:
    """The rows, cut to the size."""
    return [row if width_of(row) <= size.width else fitted(row, size.width) for row in rows[: size.height]]


def over(row: Row, style: str) -> Row:
    """A row with another style combined with its own."""
    return [(text, f"{name} {style}".lstrip()) for text, name in row]


def spans(line: str) -> Row:
    """A line of the text screens, with its colours, as a row; the empty part of a bar gets the style "track".

    >>> spans("\\x1b[31m██░░\\x1b[0m 50%")
    [('██', 'bad'), ('░░', 'track'), (' 50%', '')]
    """
    if "\x1b" not in line:
        return [(line, "")] if line else []
    first, *pieces = line.split("\x1b[")
    row: Row = [(first, "")] if first else []
    for piece in pieces:
        code, _, text = piece.partition("m")
        if text:
            name = _NAMES.get(code, "")
            full = text.rstrip("░") if text[-1] == "░" else text.rstrip(".") if not text.strip("#.") else text
            row += [(part, style) for part, style in ((full, name), (text[len(full) :], "track")) if part]
    return row

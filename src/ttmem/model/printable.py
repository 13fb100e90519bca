# SPDX-License-Identifier: Apache-2.0
"""Makes untrusted text safe to print: control and invisible characters become visible escapes.

Names, tags, command lines and paths come from workloads, files and servers. Every screen, log and text answer passes
them through here before they are printed. JSON does not need this: ``json.dumps`` escapes such characters itself.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_NO_TEXT = {int, float, bool, type(None)}
_LONE_BYTES = range(0xDC80, 0xDD00)  # how Python decodes bytes of file names and arguments that are not UTF-8


def printable(text: str) -> str:
    """The text on one line, without effect on a terminal. Two different names stay different.

    It escapes all control characters (also newlines, tabs, C1 and DEL), marks that change the direction of text,
    invisible characters, and separators other than the space.

    >>> printable("weights"), printable("a\\x1b[2J\\n"), printable("\\u202eb"), printable("\\udc9b")
    ('weights', 'a\\\\x1b[2J\\\\n', '\\\\u202eb', '\\\\x9b')
    """
    return text if text.isprintable() else "".join(c if c.isprintable() else _escaped(c) for c in text)


def printable_bytes(raw: bytes) -> str:
    """The same for bytes that should be UTF-8.

    >>> printable_bytes(b"n150"), printable_bytes(b"\\x1b[2J\\xff")
    ('n150', '\\\\x1b[2J\\\\xff')
    """
    return printable(raw.decode("utf-8", "surrogateescape"))


def printable_lines(text: str) -> str:
    """The same for each line of a text; its newlines are kept.

    >>> printable_lines("two\\nlines\\r")
    'two\\nlines\\\\r'
    """
    return text if text.isprintable() else "\n".join(map(printable, text.split("\n")))


def printable_data(value: Any) -> Any:
    """The same for every text in a document, names of fields included.

    >>> printable_data({"tag\\r": ["a\\tb", 1, None]})
    {'tag\\\\r': ['a\\\\tb', 1, None]}
    """
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, dict):
        return {
            # Most values are numbers and most texts are printable: those need no further call.
            (key if key.isprintable() else printable(key)): inner if type(inner) in _NO_TEXT else printable_data(inner)
            for key, inner in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [inner if type(inner) in _NO_TEXT else printable_data(inner) for inner in value]
    return value


def _escaped(character: str) -> str:
    code = ord(character)
    if code in _LONE_BYTES:
        return f"\\x{code - 0xDC00:02x}"
    return character.encode("unicode_escape").decode("ascii")

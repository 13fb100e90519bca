# SPDX-License-Identifier: Apache-2.0
"""Text that would act on a terminal, documents with it in each of their fields, and what printed text may contain.

for field, document in poisoned(snapshot):
    assert_printable(render(document), field)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

# Links, the clipboard, the title, a clear screen, a colour that ttmem does not use, C1, DEL, line ends, marks that
# change the direction of text, an invisible mark, half a surrogate pair, and the markup of Rich.
HOSTILE = (
    "\x1b]8;;http://evil\x07a\x1b]52;c;AAAA\x1b\\\x1b]0;t\x07\x1b[2J\x1b[35m\x9b31m\x7f\x00\x08\r\nFORGED\u2028\u2029\x85"
    "\u202e\u2066\u200f\u200b\ufeff\udc9b\ud800\t[bold red]x[/][link=http://evil]y[/link]"
)
_OUR_COLOURS = re.compile(r"\x1b\[(?:7;)?(?:[0-2]|3[123])m")


def unprintable(text: str) -> list[str]:
    """Characters that a terminal would interpret or not show, except for newlines and the colours of ttmem."""
    return [c for c in _OUR_COLOURS.sub("", text) if not c.isprintable() and c != "\n"]


def assert_printable(text: str, what: object = "") -> None:
    assert not unprintable(text), (what, unprintable(text)[:5])
    assert not any(line.startswith("FORGED") for line in text.split("\n")), (what, "a value wrote a line of its own")


def fields(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The places of texts in a document; all entries of a list are one place."""
    if isinstance(value, str):
        yield path
    elif isinstance(value, dict):
        yield (*path, "{}")
        for key, inner in value.items():
            yield from fields(inner, (*path, key))
    elif isinstance(value, (list, tuple)):
        names = getattr(value, "_fields", None)
        for number, inner in enumerate(value):
            yield from fields(inner, (*path, names[number] if names else "[]"))


def put(value: Any, path: tuple[str, ...]) -> Any:
    """A document with the hostile text after every text of one place, or in an additional name of an object."""
    if not path:
        return value + HOSTILE if isinstance(value, str) else value
    first, rest = path[0], path[1:]
    if isinstance(value, dict):
        if first == "{}":
            return {**value, HOSTILE: next(iter(value.values()))} if value else value
        return {key: put(inner, rest) if key == first else inner for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        names = getattr(value, "_fields", None)
        if names:
            return type(value)(*(put(inner, rest) if name == first else inner for name, inner in zip(names, value)))
        return type(value)(put(inner, rest) for inner in value) if first == "[]" else value
    return value


def poisoned(document: Any) -> Iterator[tuple[str, Any]]:
    """A version of the document for each of its places."""
    for path in dict.fromkeys(fields(document)):
        yield ".".join(path), put(document, path)


def everywhere(value: Any, but: frozenset[str] = frozenset(), name: str = "") -> Any:
    """A document with the hostile text after every text, except in the fields with these names."""
    if isinstance(value, str):
        return value if name in but else value + HOSTILE
    if isinstance(value, dict):
        return {key: everywhere(inner, but, key) for key, inner in value.items()}
    if isinstance(value, list):
        return [everywhere(inner, but, name) for inner in value]
    if isinstance(value, tuple):
        names = getattr(value, "_fields", None)
        if names:
            return type(value)(*(everywhere(inner, but, one) for one, inner in zip(names, value)))
        return tuple(everywhere(inner, but, name) for inner in value)
    return value

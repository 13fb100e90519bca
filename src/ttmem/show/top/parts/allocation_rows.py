# SPDX-License-Identifier: Apache-2.0
"""The rows of the list of live things, and what is said of the one that was chosen."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any

from ttmem.model.units import human
from ttmem.show.chip_table import Names, short_size
from ttmem.show.text import Style
from ttmem.show.top.parts.event_list import kind_style
from ttmem.show.top.parts.listing import WIDE, Column, Placed, age, line
from ttmem.show.top.parts.rows import Row, Span

Json = dict[str, Any]

_LEGEND = {
    "x": "x not counted, see below",
    "=": "= inside an L1 buffer, adds nothing",
    "~": "~ estimated",
}


def columns(wide: bool, chip: int, kind: int) -> tuple[Column, ...]:
    """``chip`` and ``kind`` are how wide the names of those are."""
    size = 11 if wide else 6
    return (
        Column("pid", "PID", 7, 7, 0, right=True),
        Column("chip", "CHIP", max(4, chip), max(4, chip), 0),
        Column("kind", "KIND", max(8, kind), max(8, kind), 0),
        Column("size", "SIZE", size, size, 0, right=True),
        Column("reserved", "RESERVED", max(9, size), max(9, size), 10, right=True),
        Column("address", "ADDRESS", 12, 18, 3, right=True),
        Column("age", "AGE", 7, 7, 1, right=True),
        Column("refs", "REFS", 4, 6, 4, right=True),
        Column("program", "PROGRAM", 8, 8, 5, right=True),
        Column("layout", "LAYOUT", 11, 14, 12),
        Column("cores", "CORES", 5, 24, 11),
        Column("confidence", "KNOWN", 9, 9, 13),
        Column("tag", "TAG", 12, 28, 2),
    )


def key(thing: Json) -> Hashable:
    """What makes it this thing, and no other that is in its place after it."""
    return thing["pid"], thing["chip"], thing["device"], thing["kind"], thing["id"], thing["source"], thing["since"]


class Writer:
    """Turns things into rows, and remembers which marks have to be explained."""

    def __init__(self, placed: list[Placed], names: Names, now: float | None, style: Style) -> None:
        self._placed, self._names, self._now, self._style = placed, names, now, style
        self._size = human if style.width >= WIDE else short_size
        self._marks: set[str] = set()

    def legend(self) -> str:
        return "   ".join(text for mark, text in _LEGEND.items() if mark in self._marks)

    def row(self, thing: Json) -> Row:
        style = "" if thing["counted"] else "dim"
        spans: list[Span] = []
        for one in self._placed:
            name = one.column.name
            own = kind_style(thing["kind"]) if name == "kind" and not style else style
            spans.append((self._text(name, thing), own))
        return line(spans, self._placed, self._style.width, self._style)

    def _text(self, name: str, thing: Json) -> str:
        if name == "size":
            mark = "x" if not thing["counted"] else "=" if thing["shared"] else " "
            mark = "~" if mark == " " and thing["confidence"] == "estimated" else mark
            self._marks.add(mark)
            return self._size(thing["size"]) + mark
        if name == "reserved":
            return self._size(thing["reserved"])
        if name == "chip":
            return self._names.short(thing["chip"])
        if name == "address":
            return str(thing["id"])
        if name == "age":
            return age(None if self._now is None else max(0.0, self._now - thing["since"]))
        if name == "cores":
            return str(self._style.clean(cores(thing)))
        value = thing.get(name)
        return "-" if value is None else str(self._style.clean(str(value)))


def cores(thing: Json) -> str:
    """How many cores, or which."""
    core = thing["core"]
    if core is not None:
        return f"{core['x']},{core['y']}"
    return str(thing.get("core_count") or thing["cores"] or "-")


def title(thing: Json, processes: list[Json]) -> str:
    name = next((process["name"] for process in processes if process["pid"] == thing["pid"]), None)
    return f"{thing['kind']} {thing['id']} of pid {thing['pid'] or '?'}{f' {name}' if name else ''}"


def details(thing: Json, names: Names) -> Iterator[str]:
    """Sentences on one thing, the most important first."""
    words = [f"{thing['size']:,} bytes"]
    if thing["reserved"] is not None:
        words.append(f"{thing['reserved']:,} reserved by the allocator")
    words.append(f"chip {names.short(thing['chip'])}, which the process calls device {thing['device']}")
    words.append(f"{thing['confidence']}, by {thing['source']}")
    yield "; ".join(words)
    if not thing["counted"]:
        yield "Not counted: a stronger source is believed about this kind, or the resync it was told in has not ended."
    if thing["shared"]:
        yield "It lies inside an L1 buffer and adds nothing."
    if thing["tag"]:
        yield f"Tag: {thing['tag']}"
    made = [f"at {thing['line']}"] if thing.get("line") else []
    made += [f"of the shape {thing['shape']}"] if thing.get("shape") else []
    if made:
        yield f"Made {', '.join(made)}"
    core = thing["core"]
    if core is not None:
        yield f"Written to core {core['x']},{core['y']} at {core['address']:#x}: {core['what']}"
    elif thing["cores"]:
        yield f"Cores: {thing['cores']}"

# SPDX-License-Identifier: Apache-2.0
"""The rows of the list of live allocations, and the details of the selected one."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import TYPE_CHECKING

from ttmem.model.units import human
from ttmem.show.chip_table import Names, short_size
from ttmem.show.text import Style
from ttmem.show.top.parts.event_list import kind_style
from ttmem.show.top.parts.listing import WIDE_COLUMNS, Column, Placed, age, line
from ttmem.show.top.parts.rows import Row, Span

if TYPE_CHECKING:
    from ttmem.model.schema import AllocationRow, ProcessRow

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


def key(allocation: AllocationRow) -> Hashable:
    """What makes it this allocation, and no other that is in its place after it."""
    return (
        allocation["pid"],
        allocation["chip"],
        allocation["device"],
        allocation["kind"],
        allocation["id"],
        allocation["source"],
        allocation["since"],
    )


class Writer:
    """Turns allocations into rows, and remembers which marks have to be explained."""

    def __init__(self, placed: list[Placed], names: Names, now: float | None, style: Style) -> None:
        self._placed, self._names, self._now, self._style = placed, names, now, style
        self._size = human if style.width >= WIDE_COLUMNS else short_size
        self._marks: set[str] = set()

    def legend(self) -> str:
        return "   ".join(text for mark, text in _LEGEND.items() if mark in self._marks)

    def row(self, allocation: AllocationRow) -> Row:
        style = "" if allocation["counted"] else "dim"
        spans: list[Span] = []
        for one in self._placed:
            name = one.column.name
            own = kind_style(allocation["kind"]) if name == "kind" and not style else style
            spans.append((self._text(name, allocation), own))
        return line(spans, self._placed, self._style.width, self._style)

    def _text(self, name: str, allocation: AllocationRow) -> str:
        if name == "size":
            mark = "x" if not allocation["counted"] else "=" if allocation["shared"] else " "
            mark = "~" if mark == " " and allocation["confidence"] == "estimated" else mark
            self._marks.add(mark)
            return self._size(allocation["size"]) + mark
        if name == "reserved":
            return self._size(allocation["reserved"])
        if name == "chip":
            return self._names.short(allocation["chip"])
        if name == "address":
            return str(allocation["id"])
        if name == "age":
            return age(None if self._now is None else max(0.0, self._now - allocation["since"]))
        if name == "cores":
            return str(self._style.clean(cores(allocation)))
        value = allocation.get(name)
        return "-" if value is None else str(self._style.clean(str(value)))


def cores(allocation: AllocationRow) -> str:
    """How many cores, or which."""
    core = allocation["core"]
    if core is not None:
        return f"{core['x']},{core['y']}"
    return str(allocation.get("core_count") or allocation["cores"] or "-")


def title(allocation: AllocationRow, processes: list[ProcessRow]) -> str:
    name = next((process["name"] for process in processes if process["pid"] == allocation["pid"]), None)
    return f"{allocation['kind']} {allocation['id']} of pid {allocation['pid'] or '?'}{f' {name}' if name else ''}"


def details(allocation: AllocationRow, names: Names) -> Iterator[str]:
    """Sentences on one allocation, the most important first."""
    words = [f"{allocation['size']:,} bytes"]
    if allocation["reserved"] is not None:
        words.append(f"{allocation['reserved']:,} reserved by the allocator")
    words.append(f"chip {names.short(allocation['chip'])}, which the process calls device {allocation['device']}")
    words.append(f"{allocation['confidence']}, by {allocation['source']}")
    yield "; ".join(words)
    if not allocation["counted"]:
        yield "Not counted: a stronger source is believed about this kind, or the resync it was told in has not ended."
    if allocation["shared"]:
        yield "It lies inside an L1 buffer and adds nothing."
    if allocation["tag"]:
        yield f"Tag: {allocation['tag']}"
    made = [f"at {allocation['line']}"] if allocation.get("line") else []
    made += [f"of the shape {allocation['shape']}"] if allocation.get("shape") else []
    if made:
        yield f"Made {', '.join(made)}"
    core = allocation["core"]
    if core is not None:
        yield f"Written to core {core['x']},{core['y']} at {core['address']:#x}: {core['what']}"
    elif allocation["cores"]:
        yield f"Cores: {allocation['cores']}"

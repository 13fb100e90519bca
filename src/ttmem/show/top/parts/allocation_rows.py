# SPDX-License-Identifier: Apache-2.0
"""The rows of the list of live allocations, and the details of the selected one."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal

from ttmem.documents.common_text import short_line
from ttmem.model.kinds import BREAKDOWN_POOLS, KERNEL_KINDS, BreakdownPool
from ttmem.model.stack_frames import folded
from ttmem.model.units import human
from ttmem.show.chip_table import Names, short_size
from ttmem.show.text import Style, cells, wrap
from ttmem.show.top.parts.event_list import kind_style
from ttmem.show.top.parts.listing import WIDE_COLUMNS, Column, Placed, age, line
from ttmem.show.top.parts.rows import Row, Span

if TYPE_CHECKING:
    from ttmem.model.schema import AllocationRow, ProcessRow

_ON_CORES = {kind.label for kind in BREAKDOWN_POOLS[BreakdownPool.L1_BUFFERS]}
_WITHOUT_ADDRESS = {kind.label for kind in KERNEL_KINDS}
_SELDOM: tuple[Literal["reserved", "program", "layout", "line", "shape"], ...] = (
    *("reserved", "program", "layout", "line", "shape"),
)
_LEGEND = {
    "x": "x not counted, see below",
    "=": "= inside an L1 buffer, adds nothing",
    "~": "~ estimated",
}


def columns(wide: bool, chip: int, allocations: Sequence[AllocationRow]) -> list[Column]:
    """``chip`` is how wide the names of chips are. What none of these has gets no column."""
    size = 11 if wide else 6
    kind = max((len(allocation["kind"]) for allocation in allocations), default=0)
    made = max((cells(made_by(allocation) or "") for allocation in allocations), default=0)
    line = max((cells(short_line(allocation["line"]) or "") for allocation in allocations), default=0)
    shape = max((cells(allocation["shape"] or "") for allocation in allocations), default=0)
    found = (
        Column("pid", "PID", 7, 7, 0, right=True),
        Column("chip", "CHIP", max(4, chip), max(4, chip), 0),
        Column("kind", "KIND", max(8, kind), max(8, kind), 0),
        Column("size", "SIZE", size, size, 0, right=True),
        Column("reserved", "RESERVED", max(9, size), max(9, size), 10, right=True),
        Column("address", "ADDRESS", 12, 18, 3, right=True),
        Column("age", "AGE", 7, 7, 2, right=True),
        Column("refs", "REFS", 4, 6, 11, right=True),
        Column("program", "PROGRAM", 8, 8, 6, right=True),
        Column("layout", "LAYOUT", 11, 14, 13),
        Column("cores", "CORES", 5, 24, 12),
        Column("confidence", "KNOWN", 9, 9, 14),
        Column("tag", "OPERATION", 12, max(12, min(made, 28)), 1),
        Column("line", "LINE", max(12, min(line, 26)), max(12, min(line, 40)), 1),
        Column("shape", "SHAPE", 16, max(16, min(shape, 40)), 5),
    )
    absent: set[str] = {name for name in _SELDOM if not any(allocation[name] for allocation in allocations)}
    absent |= set() if any(allocation["refs"] > 1 for allocation in allocations) else {"refs"}
    absent |= set() if any(cores(allocation) != "-" for allocation in allocations) else {"cores"}
    return [column for column in found if column.name not in absent]


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
            return address(allocation)
        if name == "age":
            return age(None if self._now is None else max(0.0, self._now - allocation["since"]))
        if name == "cores":
            return str(self._style.clean(cores(allocation)))
        if name == "tag":
            return str(self._style.clean(made_by(allocation) or "-"))
        if name == "line":
            return str(self._style.clean(short_line(allocation["line"]) or "-"))
        value = allocation.get(name)
        return "-" if value is None else str(self._style.clean(str(value)))


def cores(allocation: AllocationRow) -> str:
    """How many cores, or which."""
    core = allocation["core"]
    if core is not None:
        return f"{core['x']},{core['y']}"
    return str(allocation.get("core_count") or allocation["cores"] or "-")


def address(allocation: AllocationRow) -> str:
    """Hexadecimal, on the core of a write to one core. The id of a kernel is no address."""
    core = allocation["core"]
    if core is not None:
        return f"{core['address']:#x}"
    return "-" if allocation["kind"] in _WITHOUT_ADDRESS else str(allocation["id"])


def made_by(allocation: AllocationRow) -> str | None:
    """The operation, and the allocation's own name if it has one, as kernels have."""
    operation, tag = allocation["operation"], allocation["tag"]
    return tag or operation if operation is None or tag in (None, operation) else f"{operation}: {tag}"


def title(allocation: AllocationRow, processes: list[ProcessRow]) -> str:
    name = next((process["name"] for process in processes if process["pid"] == allocation["pid"]), None)
    return f"{allocation['kind']} {allocation['id']} of pid {allocation['pid'] or '?'}{f' {name}' if name else ''}"


def details(allocation: AllocationRow, names: Names, style: Style, room: int) -> list[Row]:
    """What is known of one allocation, in at most so many rows."""
    sentences = (wrap(style.clean(text), style, "  ", " ") for text in _sentences(allocation, names))
    lines = [row for rows in sentences for row in rows]
    stack = folded(allocation["stack"] or ([allocation["line"]] if allocation["line"] else []))
    lines += [
        style.cut(f" {'' if number else 'Stack:':7}{style.clean(frame)}", style.width)
        for number, frame in enumerate(stack)
    ]
    more = len(lines) - room
    rows: list[Row] = [[(text, "")] for text in lines]
    return rows if more <= 0 else [*rows[: room - 1], [(f" and {more + 1} more lines", "dim")]]


def _sentences(allocation: AllocationRow, names: Names) -> Iterator[str]:
    """The most important first."""
    words = [f"{allocation['size']:,} bytes{_over_cores(allocation)}"]
    if allocation["reserved"] is not None:
        words.append(f"{allocation['reserved']:,} reserved by the allocator")
    words.append(f"chip {names.short(allocation['chip'])}, which the process calls device {allocation['device']}")
    words.append(f"{allocation['confidence']}, by {allocation['source']}")
    yield "; ".join(words)
    if not allocation["counted"]:
        yield "Not counted: a stronger source is believed about this kind, or the resync it was told in has not ended."
    if allocation["shared"]:
        yield "It lies inside an L1 buffer and adds nothing."
    tag, operation = allocation["tag"], allocation["operation"]
    named = {"Operation": operation, "Name": tag if tag != operation else None, "Shape": allocation["shape"]}
    if any(named.values()):
        yield "; ".join(f"{word}: {text}" for word, text in named.items() if text)
    core = allocation["core"]
    if core is not None:
        yield f"Written to core {core['x']},{core['y']} at {core['address']:#x}: {core['what']}"
    elif allocation["cores"]:
        yield f"Cores: {allocation['cores']}"


def _over_cores(allocation: AllocationRow) -> str:
    """Over what a size on several cores is a sum, and what of it is on each, if that is the same."""
    count, size = allocation["core_count"], allocation["size"]
    if count is None or count < 2:
        return " over all cores" if allocation["kind"] in _ON_CORES and allocation["core"] is None else ""
    each = f", {size // count:,} on each" if allocation["cores"] and size % count == 0 else ""
    return f" over {count} cores{each}"

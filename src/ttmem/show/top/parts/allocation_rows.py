# SPDX-License-Identifier: Apache-2.0
"""The rows of the list of live allocations, and the details of the selected one."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal

from ttmem.documents.common_text import short_line
from ttmem.model.kinds import BREAKDOWN_POOLS, KERNEL_KINDS, BreakdownPool
from ttmem.model.stack_frames import folded
from ttmem.model.units import human
from ttmem.show.chip_table import Names, ranges, short_size
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
_CHIP_COLUMNS = 16  # at least, for the chips of an allocation that has as many
_WIDE_CHIP_COLUMNS = 24
_LEGEND = {
    "+": "+ also on other chips",
    "x": "x not counted, see below",
    "=": "= inside an L1 buffer, adds nothing",
    "~": "~ estimated",
}


def columns(wide: bool, names: Names, allocations: Sequence[AllocationRow]) -> list[Column]:
    """The columns for these allocations, without empty ones."""
    several = any(len(allocation["chips"]) > 1 for allocation in allocations)
    size = 11 if wide else 9 if several else 6
    where = {(tuple(allocation["chips"]), bool(allocation["other_chips"])) for allocation in allocations}
    chip = max(5, *(cells(names.several(chips)) + mark for chips, mark in where), 0)
    kind = max((len(allocation["kind"]) for allocation in allocations), default=0)
    made = max((cells(made_by(allocation) or "") for allocation in allocations), default=0)
    line = max((cells(short_line(allocation["line"]) or "") for allocation in allocations), default=0)
    shape = max((cells(allocation["shape"] or "") for allocation in allocations), default=0)
    found = (
        Column("pid", "PID", 7, 7, 0, right=True),
        Column("chips", "CHIPS", min(_CHIP_COLUMNS, chip), min(_WIDE_CHIP_COLUMNS, chip), 0),
        Column("kind", "KIND", max(8, kind), max(8, kind), 0),
        Column("size", "PER CHIP" if several else "SIZE", size, size, 0, right=True),
        Column("reserved", "RESERVED", max(9, size), max(9, size), 10, right=True),
        Column("address", "ADDRESS", 12, 18, 3, right=True),
        Column("age", "AGE", 7, 7, 2, right=True),
        Column("refs", "REFS", 4, 6, 11, right=True),
        Column("program", "PROGRAM", 8, 8, 6, right=True),
        Column("layout", "LAYOUT", 11, 14, 13),
        Column("cores", "CORES", 5, 24, 12),
        Column("confidence", "ACCURACY", 9, 9, 14),
        Column("tag", "OPERATION", 12, max(12, min(made, 28)), 1),
        Column("line", "LINE", max(12, min(line, 26)), max(12, min(line, 40)), 1),
        Column("shape", "SHAPE", 16, max(16, min(shape, 40)), 5),
    )
    absent: set[str] = {name for name in _SELDOM if not any(allocation[name] for allocation in allocations)}
    absent |= set() if any(allocation["refs"] > 1 for allocation in allocations) else {"refs"}
    absent |= set() if any(cores(allocation) != "-" for allocation in allocations) else {"cores"}
    return [column for column in found if column.name not in absent]


def key(allocation: AllocationRow) -> Hashable:
    """Identifies an allocation, so that a later one with the same address differs."""
    return (
        allocation["pid"],
        tuple(allocation["chips"]),
        tuple(allocation["devices"]),
        allocation["kind"],
        allocation["id"],
        allocation["source"],
        allocation["since"],
    )


class Writer:
    """Turns allocations into rows, and collects the marks for the legend."""

    def __init__(self, placed: list[Placed], names: Names, now: float | None, style: Style) -> None:
        self._placed, self._names, self._now, self._style = placed, names, now, style
        self._size = human if style.width >= WIDE_COLUMNS else short_size
        self._marks: set[str] = set()
        self._chips: dict[tuple[str, ...], str] = {}  # few: there is one entry for each mesh

    def legend(self) -> str:
        return "   ".join(text for mark, text in _LEGEND.items() if mark in self._marks)

    def row(self, allocation: AllocationRow) -> Row:
        style = "" if len(allocation["not_counted"]) < len(allocation["chips"]) else "dim"
        spans: list[Span] = []
        for one in self._placed:
            name = one.column.name
            own = kind_style(allocation["kind"]) if name == "kind" and not style else style
            spans.append((self._text(name, allocation), own))
        return line(spans, self._placed, self._style.width, self._style)

    def _text(self, name: str, allocation: AllocationRow) -> str:
        if name == "size":
            mark = "x" if allocation["not_counted"] else "=" if allocation["shared"] else " "
            mark = "~" if mark == " " and allocation["confidence"] == "estimated" else mark
            self._marks.add(mark)
            return self._size(allocation["size"]) + mark
        if name == "reserved":
            return self._size(allocation["reserved"])
        if name == "chips":
            return self._where(allocation)
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

    def _where(self, allocation: AllocationRow) -> str:
        chips = tuple(allocation["chips"])
        if chips not in self._chips:
            self._chips[chips] = self._names.several(chips)
        if not allocation["other_chips"]:
            return self._chips[chips]
        self._marks.add("+")
        return f"{self._chips[chips]}+"


def cores(allocation: AllocationRow) -> str:
    """The number of cores, or the core."""
    core = allocation["core"]
    if core is not None:
        return f"{core['x']},{core['y']}"
    return str(allocation.get("core_count") or allocation["cores"] or "-")


def address(allocation: AllocationRow) -> str:
    """The address in hexadecimal; for a write to one core, its address there. The id of a kernel is not an address."""
    core = allocation["core"]
    if core is not None:
        return f"{core['address']:#x}"
    return "-" if allocation["kind"] in _WITHOUT_ADDRESS else str(allocation["id"])


def made_by(allocation: AllocationRow) -> str | None:
    """The operation, and the allocation's own name if it has one (kernels do)."""
    operation, tag = allocation["operation"], allocation["tag"]
    return tag or operation if operation is None or tag in (None, operation) else f"{operation}: {tag}"


def title(allocation: AllocationRow, processes: list[ProcessRow]) -> str:
    name = next((process["name"] for process in processes if process["pid"] == allocation["pid"]), None)
    return f"{allocation['kind']} {allocation['id']} of pid {allocation['pid'] or '?'}{f' {name}' if name else ''}"


def details(allocation: AllocationRow, names: Names, style: Style, room: int) -> list[Row]:
    """The details of one allocation, in at most ``room`` rows."""
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
    """Sentences on an allocation, the most important first."""
    chips, devices = allocation["chips"], allocation["devices"]
    several = len(chips) > 1
    each = " on each chip" if several else ""
    words = [f"{allocation['size']:,} bytes{_over_cores(allocation)}{each}"]
    if allocation["reserved"] is not None:
        words.append(f"{allocation['reserved']:,} reserved by the allocator{each}")
    if several:
        words.append(f"{allocation['size'] * len(chips):,} on all {names.counted(chips)}")
    else:
        words.append(names.counted(chips))
    words[-1] += f", which the process calls device{'s' if several else ''} {ranges(devices)}"
    words += [names.also_on(allocation["other_chips"])] if allocation["other_chips"] else []
    words.append(f"{allocation['confidence']}, by {allocation['source']}")
    yield "; ".join(words)
    if allocation["not_counted"]:
        without = allocation["not_counted"]
        where = "" if len(without) == len(chips) else f" on {names.counted(without)}"
        yield (
            f"Not counted{where}: a source with priority reports this kind, or the resync that reported it has not "
            "ended."
        )
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
    """The number of cores that a size is summed over, and the size on each if all are equal."""
    count, size = allocation["core_count"], allocation["size"]
    if count is None or count < 2:
        return " over all cores" if allocation["kind"] in _ON_CORES and allocation["core"] is None else ""
    each = f", {size // count:,} on each" if allocation["cores"] and size % count == 0 else ""
    return f" over {count} cores{each}"

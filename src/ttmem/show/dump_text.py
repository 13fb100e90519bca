# SPDX-License-Identifier: Apache-2.0
"""A dump as text: for each chip, and for the chips of each mesh, a table of each kind of memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Literal, NamedTuple, cast

from ttmem.documents.common_text import anomaly_line, chip_numbers, local_time, short_line
from ttmem.documents.leak_words import age_text
from ttmem.model.kinds import BREAKDOWN_POOLS, KIND_BY_LABEL, KINDS, BreakdownPool
from ttmem.model.uncertain_reasons import meanings_text
from ttmem.model.units import human
from ttmem.show.chip_table import Names
from ttmem.show.kind_table import KIND_WORDS
from ttmem.show.text import BOLD, DIM, YELLOW, Column, Style, cells, table, wrap

if TYPE_CHECKING:
    from ttmem.model.schema import AllocationRow, Dump, DumpKind, Snapshot

_WITHOUT_ADDRESS = ("kernel", "fabric_kernel", "dispatch_kernel")  # their ids are numbers of the source's own
_ON_CORES = (BreakdownPool.L1_BUFFERS, BreakdownPool.PROGRAMS, BreakdownPool.SYSTEM)
_INDENT = "  "
_CHIPS: tuple[Literal["chips", "other_chips"], ...] = ("chips", "other_chips")


class _Memory(NamedTuple):
    """One kind of memory on one chip, or on each chip of a mesh. Sizes are those on one chip."""

    kind: str
    allocations: int
    size: int
    reserved: int | None
    largest: list[AllocationRow]

    def alike(self) -> tuple[object, ...]:
        """What two chips must have in common to be shown once, if sources report them one by one."""
        rows = [(row["pid"], row["id"], row["size"], row["program"], _made(row)) for row in self.largest]
        return (self.kind, self.allocations, self.size, self.reserved, *rows)


class _Where(NamedTuple):
    """The chips of some allocations, in the order of the screen, and chips that they are also on."""

    chips: tuple[str, ...]
    others: tuple[str, ...] = ()
    mesh: bool = False  # whether each allocation is on all these chips


def render(dump: Dump, snapshot: Snapshot, style: Style, top: int) -> str:
    """The screen; ``top`` is how many allocations of each kind are listed."""
    dump, snapshot = style.clean(dump), style.clean(snapshot)
    names = Names(snapshot["chips"], style, chip_numbers(snapshot))
    lines = [style.paint(line, BOLD) for line in _head(dump, style)]
    lines.append(style.paint(("-" if style.ascii else "─") * style.width, DIM))
    if not dump["groups"]:
        lines.append("Nothing is allocated." if not dump["uncertain"] else "Nothing is known to be allocated.")
    now = _seconds(dump["time"])
    for where, memories in _groups(dump, top, names):
        lines += (style.paint(line, BOLD) for line in wrap(_title(where, names), style, "  ", ""))
        for memory in memories:
            lines += _memory(memory, len(where.chips), now, style)
        lines.append("")
    if not dump["groups"]:
        lines.append("")
    lines += _footer(dump, top, style)
    return "\n".join(line.rstrip() for line in lines)


def _head(dump: Dump, style: Style) -> list[str]:
    chips = len({chip for group in dump["groups"] for chip in group["chips"]})
    allocations = f"{dump['total']:,} live allocation{'' if dump['total'] == 1 else 's'}"
    where = f" on {chips} chip{'' if chips == 1 else 's'}" if chips else ""
    shown = local_time(dump["time"])
    line = f"{allocations}{where}   {shown}"
    return [line] if cells(line) <= style.width else [*wrap(f"{allocations}{where}", style), shown]


def _seconds(time: str) -> float | None:
    try:
        return datetime.fromisoformat(time.replace("Z", "+00:00")).timestamp()
    except ValueError:
        return None


def _groups(dump: Dump, top: int, names: Names) -> Iterator[tuple[_Where, list[_Memory]]]:
    """The memory of each mesh, and of chips that have the same memory of some kinds; most chips first."""
    found: dict[_Where, list[_Memory]] = {}
    for kind in KINDS:
        alike: dict[tuple[object, ...], tuple[list[str], _Memory]] = {}
        for where, entries in _of_kind(dump, kind.label, names).items():
            memory = _merged(kind.label, entries, top)
            if where.mesh:
                found.setdefault(where, []).append(memory)
            else:
                alike.setdefault((where.others, *memory.alike()), ([], memory))[0].extend(where.chips)
        for (others, *_), (chips, memory) in alike.items():
            where = _Where(tuple(sorted(chips, key=names.order)), cast("tuple[str, ...]", others))
            found.setdefault(where, []).append(memory)
    for where in sorted(found, key=lambda where: (-len(where.chips), -len(where.others), names.order(where.chips[0]))):
        yield where, found[where]


def _of_kind(dump: Dump, kind: str, names: Names) -> dict[_Where, list[DumpKind]]:
    """By chips; processes may number the same chips differently."""
    found: dict[_Where, list[DumpKind]] = {}
    for group in dump["groups"]:
        chips, others = (tuple(sorted(group[which], key=names.order)) for which in _CHIPS)
        for entry in group["kinds"]:
            if entry["kind"] == kind:
                found.setdefault(_Where(chips, others, len(chips) > 1), []).append(entry)
    return found


def _merged(kind: str, entries: Sequence[DumpKind], top: int) -> _Memory:
    reserved = [entry["reserved"] for entry in entries]
    rows = sorted((row for entry in entries for row in entry["allocations"]), key=lambda row: -row["size"])
    return _Memory(
        kind,
        sum(entry["count"] for entry in entries),
        sum(entry["per_chip"] for entry in entries),
        None if None in reserved else sum(size for size in reserved if size is not None) // entries[0]["chips"],
        rows[:top],
    )


def _title(where: _Where, names: Names) -> str:
    """The chips; for several, how the sizes below are meant."""
    also = f", {names.also_on(where.others)}" if where.others else ""
    if where.mesh:
        title = names.set_title(where.chips)
        return f"mesh of {title}{also}: sizes are those on each of {len(where.chips)} chips"
    return f"{names.group_title(where.chips)}{also}"


def _memory(memory: _Memory, chips: int, now: float | None, style: Style) -> Iterator[str]:
    """A title with the sums, and a table of the largest allocations."""
    yield from (style.paint(line, "") for line in wrap(_sums(memory, chips), style, _INDENT * 2, _INDENT))
    inner = Style(style.width - 2 * len(_INDENT), style.colour, style.ascii)
    if memory.largest:
        columns = [column for column in _columns(memory, now) if not _blank(column)]
        yield from (2 * _INDENT + line for line in table(columns, inner))
        left = memory.allocations - len(memory.largest)
        if left:
            size = memory.size - sum(_added(row) for row in memory.largest)
            yield f"{2 * _INDENT}and {left:,} more, {human(size)}"


def _sums(memory: _Memory, chips: int) -> str:
    each = f" on each chip, {human(memory.size * chips)} on all {chips}" if chips > 1 else ""
    pool = next(pool for pool, kinds in BREAKDOWN_POOLS.items() if KIND_BY_LABEL[memory.kind] in kinds)
    cores = ", sum over all cores" if pool in _ON_CORES else ""
    on_each = " on each chip" if chips > 1 else ""
    taken = f", {human(memory.reserved)} reserved by the allocator{on_each}" if memory.reserved is not None else ""
    exact = f" ({memory.size:,} B)" if memory.size >= 1024 else ""
    programs = " of cached programs" if pool is BreakdownPool.PROGRAMS else ""
    name = f"{KIND_WORDS[memory.kind]}{programs}"
    return f"{name}: {memory.allocations:,}, {human(memory.size)}{exact}{each}{cores}{taken}"


def _columns(memory: _Memory, now: float | None) -> Iterable[Column]:
    rows, with_address = memory.largest, memory.kind not in _WITHOUT_ADDRESS
    yield Column("SIZE", [human(row["size"]) for row in rows], 0, right=True, low=9, gap=2)
    yield Column("RESERVED", [human(row["reserved"]) for row in rows], 10, right=True, gap=2)
    yield Column("PER CORE", [_per_core(row) for row in rows], 5, right=True, gap=2)
    yield Column("CORES", [str(row["core_count"] or "-") for row in rows], 6, right=True, gap=2)
    yield Column("NOC CORE", [_noc_core(row) for row in rows], 0, right=True, gap=2)
    if with_address:
        yield Column("ADDRESS", [_address(row) for row in rows], 0, right=True, gap=2)
    yield Column("PID", [str(row["pid"] or "-") for row in rows], 1, right=True, gap=2)
    yield Column("AGE", [_age(row, now) for row in rows], 4, right=True, gap=2)
    yield Column("PROGRAM", [str(row["program"] or "-") for row in rows], 11, right=True, gap=2)
    yield Column("REFS", [str(row["refs"]) if row["refs"] > 1 else "-" for row in rows], 8, right=True, gap=2)
    yield Column("OPERATION", [row["operation"] or "-" for row in rows], 1, low=24, gap=2)
    yield Column("LINE", [short_line(row["line"]) or "-" for row in rows], 2, low=40, gap=2)
    yield Column("NAME" if with_address else "KERNEL", [_name(row, with_address) for row in rows], 3, low=12, gap=2)
    yield Column("SHAPE", [row["shape"] or "-" for row in rows], 4, low=16, gap=2)
    yield Column("NOTE", [_note(row) for row in rows], 3, gap=2)


def _blank(column: Column) -> bool:
    return all(cell in ("", "-") for cell in column.cells)


def _made(row: AllocationRow) -> tuple[object, ...]:
    return row["operation"], row["tag"], row["shape"], row["line"], row["cores"]


def _added(row: AllocationRow) -> int:
    return 0 if row["shared"] else row["size"]


def _per_core(row: AllocationRow) -> str:
    """Exact, or nothing: the pages of a sharded buffer may be spread unevenly."""
    cores = row["core_count"]
    return human(row["size"] // cores) if cores and row["cores"] and row["size"] % cores == 0 else "-"


def _noc_core(row: AllocationRow) -> str:
    """The core of an allocation that is on one core only, by its coordinates on the network of the chip."""
    core = row["core"]
    return "-" if core is None else f"{core['x']},{core['y']}"


def _address(row: AllocationRow) -> str:
    core = row["core"]
    return row["id"] if core is None else f"{core['address']:#x}"


def _age(row: AllocationRow, now: float | None) -> str:
    return "-" if now is None else age_text(max(0.0, now - row["since"]))


def _name(row: AllocationRow, with_address: bool) -> str:
    """Its own name if it has one; else the number by which its source knows a kernel."""
    tag = row["tag"]
    return ("-" if with_address else row["id"]) if tag is None or tag == row["operation"] else tag


def _note(row: AllocationRow) -> str:
    words = ["inside an L1 buffer, adds nothing"] if row["shared"] else []
    words += ["address of the first core"] if row["per_core"] else []
    words += [row["core"]["what"]] if row["core"] is not None and row["core"]["what"] != row["operation"] else []
    words += ["estimated"] if row["confidence"] == "estimated" else []
    return "; ".join(words) or "-"


def _footer(dump: Dump, top: int, style: Style) -> Iterator[str]:
    entries = [entry for group in dump["groups"] for entry in group["kinds"]]
    if any(KIND_BY_LABEL[entry["kind"]] in BREAKDOWN_POOLS[BreakdownPool.PROGRAMS] for entry in entries):
        yield from wrap(
            "Cached programs use L1 in turn: not all of their memory is in use at one time.", style, "  ", ""
        )
    if any(entry["count"] > top for entry in entries):
        yield from wrap(
            "--top N lists more of each kind; --by groups them by operation, line or shape.", style, "  ", ""
        )
    bad = any(dump["anomalies"].values())
    yield from (style.paint(line, YELLOW if bad else "") for line in wrap(anomaly_line(dump["anomalies"]), style))
    if dump["uncertain"]:
        doubt = f"uncertain: the agent counted {meanings_text(dump['uncertain'])}"
        yield from (style.paint(line, YELLOW) for line in wrap(doubt, style, "  ", ""))

# SPDX-License-Identifier: Apache-2.0
"""Reads the graph that ttnn captures around an operation: buffers allocated and freed, programs made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from ttmem.model.core_sets import mask_of, parse_ranges
from ttmem.model.kinds import BUFFER_KINDS, Kind

Node = Mapping[str, Any]

_PARTS = {
    "circular_buffer_allocate": (Kind.CB, "globally_allocated"),
    "dataflow_buffer_allocate": (Kind.DFB, "borrows_memory"),
    "scratchpad_allocate": (Kind.SCRATCHPAD, None),
}
_core_mask = lru_cache(maxsize=256)(lambda text: mask_of(parse_ranges(text)))


class GraphBuffer(NamedTuple):
    """A buffer that was allocated or freed, on all chips of a mesh."""

    came: bool
    mesh: int
    kind: Kind
    address: int
    size: int
    per_bank: int


class GraphPart(NamedTuple):
    """A part of a program in L1: ``size`` bytes on each of its cores, of a chip or, in a virtual run, of a mesh."""

    device: int
    kind: Kind
    address: int
    size: int
    cores: int
    shared: bool

    @property
    def total(self) -> int:
        return self.size * self.cores.bit_count()


class GraphProgram(NamedTuple):
    """What a device operation executed: one program for all chips it ran on, or several, each with its parts."""

    name: str
    mesh: int
    cached: bool
    groups: list[list[GraphPart]]  # in a real run, all parts are in the first group
    chips: list[int]

    @property
    def parts(self) -> list[GraphPart]:
        return [part for group in self.groups for part in group]


def read(nodes: Iterable[Node]) -> Iterator[GraphBuffer | GraphProgram]:
    """The events in their order. A program follows the end of its operation, even if that failed.

    In a real run, the graph has the circular buffers of a program only when it is made, and never its other parts. In a
    virtual run it has all parts, without addresses.
    """
    functions: list[GraphProgram | None] = []
    for node in nodes:
        what, params = node["node_type"], node["params"] or {}
        if what == "function_start":
            hit = params.get("program_cache_hit")
            functions.append(None if hit is None else GraphProgram(str(params["name"]), -1, _true(hit), [], []))
        elif what == "function_end":
            ended = functions.pop() if functions else None
            if ended is not None and ended.groups:
                yield ended
        elif what in ("buffer_allocate", "buffer_deallocate"):
            kind = BUFFER_KINDS[int(params["buffer_type"])]
            sizes = int(params["address"]), int(params["size"]), int(params["max_size_per_bank"])
            yield GraphBuffer(what == "buffer_allocate", int(params["device_id"]), kind, *sizes)
        else:
            at = next((n for n in range(len(functions) - 1, -1, -1) if functions[n] is not None), None)
            if at is not None:
                functions[at] = _with(functions[at], what, params)
    yield from (program for program in reversed(functions) if program is not None and program.groups)


def _with(program: GraphProgram | None, what: str, params: Mapping[str, Any]) -> GraphProgram | None:
    """The program with the contents of one more node."""
    if program is None:
        return None
    if what == "circular_buffer_deallocate_all":  # occurs before each program
        program.groups.append([])
        return program._replace(mesh=int(params["device_id"]))
    if what == "program_execution":
        program.chips.append(int(params["physical_device_id"]))
    elif what in _PARTS and program.groups:
        kind, shared = _PARTS[what]
        program.groups[-1].append(
            GraphPart(
                *(int(params["device_id"]), kind, int(params["address"]), int(params["size"])),
                *(_core_mask(str(params["core_range_set"])), shared is not None and _true(params[shared])),
            )
        )
    return program


def _true(value: object) -> bool:
    """A truth value; some versions write numbers and truth values as strings."""
    return value not in (False, 0, "0", "false")


def pairs(
    real: Sequence[GraphProgram], virtual: Sequence[GraphProgram]
) -> list[tuple[GraphProgram, GraphProgram | None]]:
    """Each program of a real run with the same program of a virtual run, if the match is certain.

    A virtual run may omit a program, for instance a move to the current place of the data. So programs with the same
    name are matched only if both runs have the same number of them.
    """
    ours, theirs = Counter(p.name for p in real), Counter(p.name for p in virtual)
    waiting = {name: iter([p for p in virtual if p.name == name]) for name in ours if ours[name] == theirs[name]}
    return [(p, next(waiting[p.name]) if p.name in waiting else None) for p in real]


def hidden_parts(made: GraphProgram, virtual: GraphProgram | None, base: int, unit: int) -> list[GraphPart] | None:
    """Parts of a program on each of its chips that only a virtual run shows. None if unknown.

    These are its dataflow buffers and scratchpads. If its chips have separate programs, those are made on other
    threads, where a capture does not even see their circular buffers. It is not known which program belongs to which
    chip, so they must be equal.
    """
    if virtual is None or virtual.mesh != made.mesh:
        return None
    first, *others = virtual.groups
    if any(group != first for group in others):
        return None
    if not made.parts and others:
        return placed((), first, base, unit)
    circular = Counter(part[3:] for part in first if part.kind is Kind.CB)
    by_chip = {part.device: [p for p in made.parts if p.device == part.device] for part in made.parts}
    if any(Counter(part[3:] for part in parts) != circular for parts in by_chip.values() or ([],)):
        return None
    on_one_chip = next(iter(by_chip.values()), [])
    return placed(on_one_chip, [part for part in first if part.kind is not Kind.CB], base, unit)


def placed(known: Sequence[GraphPart], parts: Sequence[GraphPart], base: int, unit: int) -> list[GraphPart]:
    """The parts that occupy memory of their own, with their addresses.

    ttnn does not report addresses. It places the parts of a program one after the other from the base, each above all
    earlier parts on its cores, at a multiple of the unit, which is the alignment of DRAM.
    """
    taken = [(part.cores, part.address + part.size) for part in known if not part.shared]
    placed = []
    for part in parts:
        if not part.shared:
            top = max((end for cores, end in taken if cores & part.cores), default=base)
            address = -(-top // unit) * unit
            taken.append((part.cores, address + part.size))
            placed.append(part._replace(address=address))
    return placed

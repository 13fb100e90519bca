# SPDX-License-Identifier: Apache-2.0
"""The map of the physical L1 of every core of a chip: what is used, what is free, and the owners of the used parts.

    0        map end        base                          floor              L1 size - S   L1 size
    | firmware | kernel ring | CB, DFB, scratchpads -> free <- L1 buffers | L1_SMALL |

L1 buffers have the same address on every core (lock step), so they are united once for all cores. The part that grows
up from the base belongs to the program that ran last on a core. Ranges are united: bytes of two allocations count once,
and as an overlap. An allocation without a reported address is counted as unplaced; its address is never guessed. A
buffer with a different address on each core may be anywhere, so with it no range is known to be free.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator
from heapq import merge
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from ttmem.account.allocations import Allocation, Program
from ttmem.account.entities import Chip
from ttmem.account.totals import NOT_YET
from ttmem.l1.headroom import GROWING_UP, ProgramExtent, end_of
from ttmem.model.address_ranges import AddressRanges, Span, union
from ttmem.model.core_sets import ROW
from ttmem.model.geometry import Geometry
from ttmem.model.kinds import KINDS, Kind

if TYPE_CHECKING:
    from ttmem.model.schema import PhysicalL1

# Reasons why an allocation has no place in the map.
NO_ADDRESS = "no address in L1 was reported"
PER_CORE = "written to one core, which is named in NOC coordinates"
NO_SIZE = "the bytes on each core were not reported"
OWN_ADDRESSES = "its address differs between cores, and only the first is known"
NO_CORES = "the cores were not reported"
NO_LAUNCH = "no launch was seen, so it is not known which program is resident"

_SLICE_ALLOCATIONS = 1000
_OVERLAPS_LISTED = 8  # overlaps for which both sides are listed
_BUFFER, _PART = 1, 2
_ROLES = [_BUFFER if kind in (Kind.L1, Kind.L1_SMALL) else _PART if kind in GROWING_UP else 0 for kind in KINDS]

# Start, end, and index of the allocation, 64 bits each. One number sorts like the three, and the garbage collector
# does not visit it. There may be a hundred thousand, and visiting them would block the server.
Range = int
_LOW = (1 << 64) - 1


def parted(one: Range) -> tuple[int, int, int]:
    """Start, end and number of the allocation.

    >>> parted(0x20000 << 128 | 0x20400 << 64 | 7)
    (131072, 132096, 7)
    """
    return one >> 128, one >> 64 & _LOW, one & _LOW


class Core(NamedTuple):
    """One core. ``headroom`` is None if the extent of the program that ran last, or the floor, is not known."""

    x: int
    y: int
    used: int
    free: int
    unknown: int  # neither used nor free: something of unknown size may be there
    largest_free: int
    overlap: int  # bytes of several allocations, counted for each but the first
    headroom: int | None
    top: Allocation | None  # the part of the program that ran last that ends highest
    program: Program | None
    worst: ProgramExtent | None  # the cached program that reaches highest on this core

    @property
    def end(self) -> int | None:
        return None if self.top is None else end_of(self.top)


class _Column(NamedTuple):
    """What cores with the same parts of programs have in common."""

    used: int
    unknown: int
    largest_free: int
    overlap: int
    top: Allocation | None


class L1Map:
    """The map of the L1 of a chip, built by a ``CoreMapBuilder``."""

    def __init__(self, chip: Chip, geometry: Geometry) -> None:
        self.chip = chip
        self.geometry = geometry
        self.known = bool(chip.covered)  # else no process has reported on this chip
        self.cores: list[Core] = []
        self.floor = geometry.l1_size  # the lowest L1 buffer, on whichever cores it has data
        self.holder: Allocation | None = None
        self.floor_known = True  # else the address of some L1 buffer is not known
        self.free_known = True  # else some buffer may be anywhere
        self.allocations: list[Allocation] = []  # all with a place in the map
        self.buffers: list[Range] = []  # of known size, in order, the same on every core
        self.parts: dict[int, list[Range]] = {}  # of the programs that ran last, by their cores
        self.shared: dict[int, list[Range]] = {}  # their circular buffers that lie inside L1 buffers
        self.unsized: list[Range] = []  # of unknown size, in order
        self.buffer_bytes = 0  # the sum of their sizes on a core
        self.used = AddressRanges()  # occupied on every core by buffers and the fixed part
        self.free = AddressRanges()  # below the region of L1_SMALL
        self.small_free = AddressRanges()  # in that region
        self.unknown = AddressRanges()  # where a buffer of unknown size begins
        self.overlaps: list[tuple[Allocation, Allocation]] = []  # the first few
        self.unplaced: Counter[str] = Counter()  # allocations by the reason why they have no place
        self.unplaced_bytes: Counter[str] = Counter()
        self.program_unknown: str | None = None  # why the extent of the programs is not known

    @property
    def small_start(self) -> int:
        return self.geometry.l1_size - self.geometry.l1_small_size

    def core(self, x: int, y: int) -> Core | None:
        return next((core for core in self.cores if (core.x, core.y) == (x, y)), None)

    def doubtful(self, worst: ProgramExtent | None) -> Span:
        """The range that an incompletely known program may occupy."""
        base = self.geometry.l1_base
        if self.program_unknown is None:
            return base, base
        if self.program_unknown is NO_LAUNCH:
            return base, base if worst is None else max(base, min(worst.end, self.geometry.l1_size))
        return base, max(base, self.floor)

    @property
    def total_used(self) -> int | None:
        return sum(core.used for core in self.cores) if self.known else None

    @property
    def max_core(self) -> int | None:
        return max((core.used for core in self.cores), default=None) if self.known else None

    @property
    def headroom_min(self) -> int | None:
        """The least headroom of a core, for the programs that ran last."""
        return min((c.headroom for c in self.cores if c.headroom is not None), default=None) if self.known else None


class CoreMapBuilder:
    """Builds the map from the live allocations of a chip; adding and building can be done in slices.

    Call ``add`` for each allocation, iterate over ``finish()``, then use ``map``.
    """

    def __init__(self, chip: Chip, geometry: Geometry) -> None:
        self.map = L1Map(chip, geometry)
        self._resident = {(p.holding, p.ident): mask for p, mask in chip.resident_programs()}
        self._runs: list[list[Range]] = [[]]  # each is sorted when it is full
        self._worst: dict[int, tuple[int, Allocation]] = {}  # by cores: the highest end of any program

    def add(self, allocation: Allocation) -> None:
        """Add a live allocation; those of other chips and kinds are ignored."""
        role = _ROLES[allocation.kind]
        if not role or not allocation.refs or allocation.born == NOT_YET:
            return
        holding = allocation.holding
        leaf = holding.leaves[allocation.kind]
        if leaf is None or self.map.chip not in leaf.chips:
            return
        if role == _BUFFER:
            self._buffer(allocation)
        else:
            self._part(allocation)

    def _buffer(self, allocation: Allocation) -> None:
        found, address = self.map, allocation.address
        if allocation.extra is not None and allocation.extra.per_core:
            found.floor_known = found.free_known = False
            return self._cannot(allocation, OWN_ADDRESSES)
        if not 0 < address < found.geometry.l1_size:
            why = PER_CORE if address > 0xFFFFFFFF else NO_ADDRESS
            if allocation.kind is Kind.L1 and why is NO_ADDRESS:
                found.floor_known = False
            return self._cannot(allocation, why)
        if allocation.kind is Kind.L1 and address < found.floor:
            found.floor, found.holder = address, allocation
        size = on_each_core(allocation, found.geometry.cores)
        if size is None:
            self._cannot(allocation, NO_SIZE)
        run = self._runs[-1]
        run.append(self._range(address, address + (size or 0), allocation))
        if len(run) == _SLICE_ALLOCATIONS:
            run.sort()
            self._runs.append([])

    def _part(self, allocation: Allocation) -> None:
        found, extra = self.map, allocation.extra
        mask = self._resident.get((allocation.holding, allocation.program), 0)
        if extra is not None and extra.shared:
            if extra.cores & mask:
                end = allocation.address + allocation.size // extra.cores.bit_count()
                found.shared.setdefault(extra.cores & mask, []).append(self._range(allocation.address, end, allocation))
            return
        top = end_of(allocation)
        if extra is None or top is None or not 0 < allocation.address < found.geometry.l1_size:
            self._cannot(allocation, NO_CORES if top is None else NO_ADDRESS)
            if mask or not found.chip.launched:
                found.program_unknown = NO_CORES
            return
        if top > self._worst.get(extra.cores, (0, allocation))[0]:
            self._worst[extra.cores] = top, allocation
        if extra.cores & mask:
            found.parts.setdefault(extra.cores & mask, []).append(self._range(allocation.address, top, allocation))
        elif not found.chip.launched:
            found.program_unknown = found.program_unknown or NO_LAUNCH
            self._cannot(allocation, NO_LAUNCH)

    def _range(self, start: int, end: int, allocation: Allocation) -> Range:
        allocations, size = self.map.allocations, self.map.geometry.l1_size
        allocations.append(allocation)
        return min(start, size) << 128 | min(end, size) << 64 | len(allocations) - 1

    def _cannot(self, allocation: Allocation, why: str) -> None:
        self.map.unplaced[why] += 1
        self.map.unplaced_bytes[why] += allocation.size

    # -- building the map ---------------------------------------------------------------------------------------

    def finish(self) -> Iterator[None]:
        """Build the map; yields between pieces of work."""
        yield from self._unite()
        yield from self._divide()
        columns: dict[tuple[int, ...], _Column] = {}
        geometry = self.map.geometry
        for y in range(geometry.grid_y):
            for x in range(geometry.grid_x):
                yield from self._add_core(x, y, columns)
            yield

    def _unite(self) -> Iterator[None]:
        """Unite all buffers and the part of L1 that is never free."""
        found = self.map
        self._runs[-1].sort()
        start, end, owner = 0, found.geometry.l1_base, -1
        for count, item in enumerate(merge(*self._runs), 1):
            if not count % _SLICE_ALLOCATIONS:
                yield
            left, right, number = parted(item)
            if left == right:
                found.unsized.append(item)
                continue
            found.buffers.append(item)
            found.buffer_bytes += right - left
            if left > end:
                found.used.add(start, end)
                start, end, owner = left, right, number
            else:
                if left < end and owner >= 0 and len(found.overlaps) < _OVERLAPS_LISTED:
                    found.overlaps.append((found.allocations[owner], found.allocations[number]))
                if right > end:
                    end, owner = right, number
        found.used.add(start, end)

    def _divide(self) -> Iterator[None]:
        """The gaps are free, unless a buffer of unknown size begins there."""
        found, size, small = self.map, self.map.geometry.l1_size, self.map.small_start
        begins = chain((parted(item)[0] for item in found.unsized), [size])
        begin, last = next(begins), 0
        for count, (start, end) in enumerate(chain(found.used.inside(0, size), [(size, size)]), 1):
            pieces = (found.free, last, min(start, small)), (found.small_free, max(last, small), start)
            for free, left, right in pieces:
                if left < right:
                    while begin < left:
                        begin = next(begins)
                    known = min(begin, right) if found.free_known or free is found.small_free else left
                    free.add(left, known)
                    found.unknown.add(max(left, known), right)
            last = end
            if not count % _SLICE_ALLOCATIONS:
                yield

    def _add_core(self, x: int, y: int, columns: dict[tuple[int, ...], _Column]) -> Iterator[None]:
        found, bit = self.map, 1 << (y * ROW + x)
        worst = self._worst_on(bit)
        here = tuple(cores for cores in found.parts if cores & bit)
        doubtful = found.doubtful(worst)
        key = (*here, *doubtful)
        column = columns.get(key)
        if column is None:
            column = columns[key] = yield from self._column(here, doubtful)
        program = next((program for program, mask in reversed(found.chip.resident_programs()) if mask & bit), None)
        if column.top is not None:
            program = column.top.holding.programs.get(column.top.program, program)
        end = found.geometry.l1_base if column.top is None else end_of(column.top) or 0
        free = found.geometry.l1_size - column.used - column.unknown
        headroom = None if found.program_unknown or not found.floor_known else found.floor - end
        found.cores.append(
            Core(x, y, column.used, free, column.unknown, column.largest_free, column.overlap, headroom, column.top,
                 program, worst)
        )  # fmt: skip

    def _worst_on(self, bit: int) -> ProgramExtent | None:
        highest = max((found for cores, found in self._worst.items() if cores & bit), default=None)
        if highest is None:
            return None
        end, allocation = highest
        program = allocation.holding.programs.get(allocation.program)
        return (
            None
            if program is None
            else ProgramExtent(program, end, self.map.floor - end if self.map.floor_known else None)
        )

    def _column(self, here: tuple[int, ...], doubtful: Span) -> Generator[None, None, _Column]:
        """The union of buffers and parts of programs on these cores."""
        found = self.map
        parts = [*map(parted, sorted(part for cores in here for part in found.parts[cores]))]
        taken = union((start, end) for start, end, _ in parts)
        new = guessed = 0
        for count, span in enumerate(taken, 1):
            new += found.free.covered(*span) + found.small_free.covered(*span)
            guessed += found.unknown.covered(*span)
            if not count % _SLICE_ALLOCATIONS:
                yield
        used = found.used.total + new + guessed
        blocked = AddressRanges(union(sorted([*taken, doubtful])))
        open_ = found.free.covered(*doubtful) - sum(
            found.free.covered(*span) for span in AddressRanges(taken).inside(*doubtful)
        )
        if len(taken) > _SLICE_ALLOCATIONS:
            yield
        sizes = found.geometry.l1_base + found.buffer_bytes + sum(end - start for start, end, _ in parts)
        top = max(parts, key=lambda part: part[1], default=None)
        return _Column(
            used,
            found.unknown.total - guessed + open_,
            found.free.largest_without(blocked),
            sizes - used,
            None if top is None else found.allocations[top[2]],
        )


def on_each_core(allocation: Allocation, banks: int) -> int | None:
    """Bytes of a buffer in every bank; None if not reported, or if its address differs between cores.

    An allocator in lock step reserves the same bytes in all banks, and the data must fit into the banks it is in.
    """
    extra = allocation.extra
    if extra is None or extra.per_core or not extra.reserved or extra.reserved % banks:
        return None
    size = extra.reserved // banks
    return None if extra.core_count and size * extra.core_count < allocation.size else size


def complete_map(chip: Chip, geometry: Geometry) -> L1Map:
    """The map of a chip, built at once, for an account that does not change."""
    builder = CoreMapBuilder(chip, geometry)
    for holding in chip.holdings:
        for allocation in holding.allocations():
            builder.add(allocation)
    for _ in builder.finish():
        pass
    return builder.map


def numbers(chip: Chip) -> PhysicalL1 | None:
    """The numbers of the snapshot for a chip, computed at once, for an account that does not change.

    None if unknown.
    """
    if not chip.covered or chip.geometry is None:
        return None
    found = complete_map(chip, chip.geometry)
    return {
        "used": found.total_used,
        "max_core": found.max_core,
        "headroom_min": found.headroom_min,
        "age_s": 0.0,
    }

# SPDX-License-Identifier: Apache-2.0
"""The map of every core's L1, compared with a map that is built byte by byte."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ttmem.account.ledger import Ledger
from ttmem.documents.chip_memory import memory
from ttmem.l1.core_map import (
    NO_ADDRESS,
    NO_CORES,
    NO_LAUNCH,
    NO_SIZE,
    OWN_ADDRESSES,
    PER_CORE,
    Core,
    CoreMapBuilder,
    L1Map,
    parted,
)
from ttmem.l1.core_segments import Segment, has_data, segments
from ttmem.l1.headroom import FloorFinder, Headroom
from ttmem.model.address_ranges import AddressRanges, union
from ttmem.model.core_sets import CoreRange, core_id, mask_of
from ttmem.model.events import Allocated, DeviceOpened, Extra, Freed, ProgramCompiled, ProgramDestroyed, ProgramRun
from ttmem.model.geometry import BOARDS, Arch, Geometry
from ttmem.model.identity import ChipInfo, ProcessInfo
from ttmem.model.kinds import Confidence, Kind

SMALL = Geometry(Arch.WORMHOLE_B0, 3, 2, 2048, 256, 96, 12, 1 << 30, l1_small_size=128, live=True)
N150 = BOARDS["n150"]._replace(live=True)
GRID = mask_of([CoreRange(0, 0, 7, 7)])


class Account:
    """A ledger with one chip, and its map."""

    def __init__(self, geometry: Geometry, *sources: tuple[str, Confidence]) -> None:
        self.geometry = geometry
        self.ledger = Ledger()
        self.sources = [
            self.ledger.source(0.0, ProcessInfo(pid, 1), name, confidence)
            for pid, (name, confidence) in enumerate(sources or (("agent", Confidence.EXACT),), 1)
        ]
        for source in self.sources:
            self.ledger.apply(0.0, source, DeviceOpened(0, ChipInfo("77", geometry=geometry)))

    def apply(self, *events: Any, source: int = 0) -> None:
        for event in events:
            self.ledger.apply(1.0, self.sources[source], event)

    def buffer(self, address: int, on_each: int, kind: Kind = Kind.L1, **extra: Any) -> None:
        reserved = on_each * self.geometry.cores
        size = extra.pop("size", reserved)
        self.apply(Allocated(0, kind, address, size, extra=Extra(reserved, **extra)))

    def part(self, program: int, address: int, on_each: int, cores: int, kind: Kind = Kind.CB, **extra: Any) -> None:
        size = on_each * cores.bit_count()
        self.apply(Allocated(0, kind, address, size, program, extra=Extra(cores=cores, **extra)))

    def map(self) -> L1Map:
        survey = CoreMapBuilder(self.ledger.chips["77"], self.geometry)
        for allocation in self.ledger.allocations():
            survey.add(allocation)
        for _ in survey.finish():
            pass
        return survey.map

    def core(self, x: int = 0, y: int = 0) -> Core:
        found = self.map().core(x, y)
        assert found is not None
        return found

    def segments(self, x: int = 0, y: int = 0) -> list[Segment]:
        found = self.map()
        core = found.core(x, y)
        assert core is not None
        return [*segments(found, core)]


def shape(found: list[Segment]) -> list[tuple[int, int, str]]:
    return [segment[:3] for segment in found]


# -- plain cases ------------------------------------------------------------------------------------------------------


def test_a_core_with_a_program_and_buffers() -> None:
    account = Account(N150._replace(l1_small_size=32768))
    account.buffer(1400000, 2048, tag="weights")
    account.buffer(1440000, 4096, tag="cache")
    account.buffer(1499136 - 64, 64, Kind.L1_SMALL)
    account.part(5, 105824, 24 * 2048, GRID)
    account.part(6, 105824, 48 * 2048, GRID)
    account.apply(ProgramCompiled(0, 5, 9000, 1, "matmul"), ProgramRun(0, 5, GRID))
    core, end = account.core(3, 2), 105824 + 24 * 2048
    assert (core.end, core.headroom) == (end, 1400000 - end)
    assert core.used == end + 2048 + 4096 + 64
    assert core.used + core.free == 1499136
    assert (core.largest_free, core.overlap, core.unknown) == (1400000 - end, 0, 0)
    assert core.program is not None
    assert core.program.tag == "matmul"
    assert core.worst is not None
    assert (core.worst.program.ident, core.worst.headroom) == (6, 1400000 - 105824 - 48 * 2048)
    found = account.map()
    assert found.holder is not None
    assert found.holder.extra is not None
    assert (found.floor, found.holder.extra.tag) == (1400000, "weights")
    assert (found.total_used, found.max_core) == (64 * core.used, core.used)
    assert found.headroom_min == core.headroom
    assert shape(account.segments(3, 2)) == [
        (0, 35168, "firmware"),
        (35168, 105824, "ring"),
        (105824, end, "cb"),
        (end, 1400000, "free"),
        (1400000, 1402048, "l1"),
        (1402048, 1440000, "free"),
        (1440000, 1444096, "l1"),
        (1444096, 1466368, "free"),
        (1466368, 1499072, "small_free"),
        (1499072, 1499136, "l1_small"),
    ]


def test_an_open_chip_with_nothing_on_it() -> None:
    account = Account(N150)
    account.buffer(1400000, 2048)
    account.apply(Freed(0, Kind.L1, 1400000))
    core, found = account.core(), account.map()
    assert (core.used, core.headroom, core.end, core.program, core.worst) == (
        105824,
        1499136 - 105824,
        None,
        None,
        None,
    )
    assert (found.floor, found.holder) == (1499136, None)


def test_of_a_chip_that_nobody_speaks_of_nothing_is_known() -> None:
    account = Account(N150)
    found = account.map()
    assert (found.total_used, found.max_core, found.headroom_min) == (None, None, None)
    assert len(found.cores) == 64


def test_each_core_has_the_program_that_ran_last_there() -> None:
    upper, lower = mask_of([CoreRange(0, 0, 7, 3)]), mask_of([CoreRange(0, 4, 7, 7)])
    account = Account(N150)
    account.part(1, 105824, 1000, GRID)
    account.part(2, 105824, 3000, upper)
    account.apply(ProgramRun(0, 1, GRID), ProgramRun(0, 2, upper))
    found = account.map()
    for core in found.cores:
        bit = 1 << (64 * core.y + core.x)
        assert core.end == 105824 + (3000 if bit & upper else 1000)
        assert core.program is not None
        assert core.program.ident == (2 if bit & upper else 1)
        assert bool(bit & upper) != bool(bit & lower)
    assert found.headroom_min == 1499136 - 105824 - 3000
    account.apply(ProgramDestroyed(0, 2))
    found = account.map()
    assert {core.end for core in found.cores if core.y < 4} == {None}
    assert found.headroom_min == 1499136 - 105824 - 1000


def test_a_circular_buffer_in_a_tensor_takes_nothing_more() -> None:
    account = Account(N150)
    account.buffer(1400000, 8192)
    account.part(1, 1400000, 4096, GRID, shared=True, tag="in place")
    account.apply(ProgramRun(0, 1, GRID))
    core, found = account.core(), account.segments()
    assert (core.used, core.overlap, core.end) == (105824 + 8192, 0, None)
    (buffer,) = [segment for segment in found if segment.kind == "l1"]
    assert [allocation.extra.tag for allocation in buffer.inside if allocation.extra] == ["in place"]


def test_two_allocators_that_hand_out_one_address() -> None:
    account = Account(N150)
    account.buffer(1400000, 4096, allocator=1, tag="mesh")
    account.buffer(1402048, 4096, allocator=2, tag="submesh")
    core, found = account.core(), account.map()
    assert (core.used, core.overlap) == (105824 + 4096 + 2048, 2048)
    tags = [tuple(t.extra.tag for t in pair if t.extra) for pair in found.overlaps]
    assert tags == [("mesh", "submesh")]
    both = [segment for segment in account.segments() if len(segment.allocations) == 2]
    assert shape(both) == [(1402048, 1404096, "l1")]


def test_circular_buffers_over_a_buffer_overlap_and_have_negative_headroom() -> None:
    account = Account(N150)
    account.buffer(110000, 4096)
    account.part(1, 105824, 6000, GRID)
    account.apply(ProgramRun(0, 1, GRID))
    core = account.core()
    assert (core.headroom, core.overlap) == (110000 - 111824, 111824 - 110000)
    assert core.used == 110000 + 4096


# -- unknown values ---------------------------------------------------------------------------------------------------


def test_a_buffer_of_unknown_extent_is_the_floor_and_the_rest_is_unknown() -> None:
    account = Account(N150, ("legacy", Confidence.REPORTED))
    account.apply(Allocated(0, Kind.L1, 1400000, 64 * 2048), Allocated(0, Kind.L1, 1450000, 64))
    core, found = account.core(), account.map()
    assert (core.used, core.unknown) == (105824, 1499136 - 1400000)
    assert core.largest_free == core.headroom == 1400000 - 105824
    assert (found.unplaced[NO_SIZE], found.unplaced_bytes[NO_SIZE]) == (2, 64 * 2048 + 64)
    *_, last = account.segments()
    assert (last.start, last.end, last.kind) == (1400000, 1499136, "unknown")
    assert [allocation.address for allocation in last.allocations] == [1400000, 1450000]


def test_what_has_no_place_is_counted_as_such() -> None:
    account = Account(N150, ("legacy", Confidence.REPORTED))
    account.apply(
        Allocated(0, Kind.L1, core_id(5, 3, 0x20000), 100),
        Allocated(0, Kind.L1, 7_000_000, 10),
        Allocated(0, Kind.L1, 0, 1),
        Allocated(0, Kind.L1, core_id(5, 3, 0x100), 50),  # into the firmware, which is there anyway
    )
    found = account.map()
    assert found.unplaced == {PER_CORE: 1, NO_ADDRESS: 2}
    assert found.unplaced_bytes == {PER_CORE: 100, NO_ADDRESS: 11}
    assert (found.floor, account.core().used) == (1499136, 105824)


def test_without_cores_it_is_not_known_how_high_programs_reach() -> None:
    account = Account(N150, ("legacy", Confidence.REPORTED))
    account.apply(Allocated(0, Kind.CB, 105824, 6400))
    core, found = account.core(), account.map()
    assert (core.headroom, core.worst, core.unknown) == (None, None, 1499136 - 105824)
    assert (found.unplaced[NO_CORES], found.headroom_min) == (1, None)


def test_without_a_launch_it_is_not_known_which_program_is_in_place() -> None:
    account = Account(N150)
    account.part(1, 105824, 1000, GRID)
    account.part(2, 105824, 3000, 1)
    first, other = account.core(), account.core(1, 0)
    assert (first.headroom, first.unknown, other.unknown) == (None, 3000, 1000)
    assert first.worst is not None
    assert first.worst.headroom == 1499136 - 105824 - 3000
    assert account.map().unplaced[NO_LAUNCH] == 2
    assert shape(account.segments())[2] == (105824, 108824, "unknown")


def test_a_buffer_with_a_place_of_its_own_on_each_core_is_not_taken_for_one_in_lock_step() -> None:
    account = Account(N150)
    size = 4 * 64 * 64 * 2
    account.apply(Allocated(0, Kind.L1, 1400000, size, extra=Extra(size, core_count=4, layout=2)))
    assert account.map().unplaced[NO_SIZE] == 1


def test_beside_a_buffer_with_an_address_of_its_own_on_each_core_nothing_is_known_to_be_free() -> None:
    account = Account(SMALL)
    account.buffer(1500, 100)
    account.apply(
        Allocated(0, Kind.L1, 1800, 128, extra=Extra(128, core_count=2, per_core=True), ident=1),
        Allocated(0, Kind.L1, 1800, 192, extra=Extra(192, core_count=6, per_core=True), ident=2),
    )
    found, chip = account.map(), account.ledger.chips["77"]
    assert dict(found.unplaced) == {OWN_ADDRESSES: 2}
    assert found.unplaced_bytes == {OWN_ADDRESSES: 320}
    assert found.headroom_min is None
    assert floor_finder(account).floor is None
    assert {(core.used, core.free, core.unknown) for core in found.cores} == {(356, 128, 2048 - 356 - 128)}
    assert memory(chip, SMALL)["l1"]["bank_free"] is None
    account.apply(Freed(0, Kind.L1, 1800, ident=1), Freed(0, Kind.L1, 1800, ident=2))
    assert {(core.used, core.free, core.unknown) for core in account.map().cores} == {(356, 2048 - 356, 0)}
    assert memory(chip, SMALL)["l1"]["bank_free"] == 2048 - 256 - 128 - 100


def test_what_a_stronger_source_tells_counts_once() -> None:
    account = Account(N150)
    weak = account.ledger.source(0.0, ProcessInfo(1, 1), "client", Confidence.REPORTED)
    account.buffer(1400000, 2048)
    account.ledger.apply(1.0, weak, Allocated(0, Kind.L1, 1400000, 64 * 2048, extra=Extra(64 * 2048)))
    core, found = account.core(), account.map()
    assert (core.used, core.overlap, found.overlaps) == (105824 + 2048, 0, [])


def test_where_a_sharded_buffer_has_its_data() -> None:
    account = Account(N150)
    account.buffer(1400000, 2048, cores=1, core_count=1, size=2048, layout=2)
    account.buffer(1410000, 2048, core_count=4, size=4 * 2048, layout=2)
    account.buffer(1420000, 2048, layout=0)
    account.buffer(1430000, 2048, layout=0, size=2048)
    found = account.map()
    answers = []
    for x in (0, 1):
        core = found.core(x, 0)
        assert core is not None
        answers.append([has_data(found.allocations[number], core, 64) for _, _, number in map(parted, found.buffers)])
    assert answers == [[True, None, True, None], [False, None, True, None]]


def floor_finder(account: Account) -> Headroom:
    finder = FloorFinder(account.ledger.chips["77"])
    for allocation in account.ledger.allocations():
        finder.add(allocation)
    return finder.result()


def test_headroom_agrees_with_the_floor_finder() -> None:
    account = Account(N150)
    account.buffer(1400000, 2048)
    account.part(5, 105824, 24 * 2048, GRID)
    account.part(6, 105824, 48 * 2048, GRID)
    account.apply(ProgramRun(0, 5, GRID))
    headroom, core = floor_finder(account), account.core()
    assert headroom.launched[0].headroom == core.headroom
    assert headroom.worst == core.worst


def test_of_a_program_counts_what_is_still_in_place() -> None:
    """It had the least headroom on one core, where another program has run since."""
    account = Account(N150)
    account.part(5, 105824, 4096, GRID & ~1)
    account.part(5, 105824, 900000, 1)
    account.part(6, 105824, 2048, 1)
    account.apply(ProgramRun(0, 5, GRID), ProgramRun(0, 6, 1))
    headroom = floor_finder(account)
    assert min(reach.headroom or 0 for reach in headroom.launched) == account.map().headroom_min == 1389216
    assert headroom.worst == account.core().worst


@pytest.mark.parametrize("address", [0, 7_000_000])
def test_a_buffer_without_a_place_may_be_the_lowest(address: int) -> None:
    account = Account(N150)
    account.buffer(1400000, 2048)
    account.part(5, 105824, 4096, GRID)
    account.apply(ProgramRun(0, 5, GRID), Allocated(0, Kind.L1, address, 64))
    headroom = floor_finder(account)
    assert (headroom.floor, headroom.holder, headroom.launched[0].headroom) == (None, None, None)
    assert account.map().headroom_min is None


# -- any case ---------------------------------------------------------------------------------------------------------


class Placed(NamedTuple):
    """A buffer: bytes on each core, or None if unknown."""

    address: int
    on_each: int | None
    small: bool


class Part(NamedTuple):
    program: int
    address: int
    on_each: int
    cores: int
    kind: Kind


def masks() -> st.SearchStrategy[int]:
    return st.sets(st.tuples(st.integers(0, 2), st.integers(0, 1)), min_size=1).map(
        lambda cores: sum(1 << (64 * y + x) for x, y in cores)
    )


addresses = st.integers(1, SMALL.l1_size - 1)
placed = st.builds(Placed, addresses, st.none() | st.integers(1, 600), st.booleans())
parts = st.builds(
    Part, st.integers(1, 3), st.integers(SMALL.l1_base, SMALL.l1_size - 1) | st.just(256), st.integers(1, 900), masks(),
    st.sampled_from([Kind.CB, Kind.DFB, Kind.SCRATCHPAD]),
)  # fmt: skip
runs = st.lists(st.tuples(st.integers(1, 3), masks()), max_size=4)


def painted(buffers: list[Placed], on_core: list[Part]) -> tuple[list[int], list[bool]]:
    """The number of allocations on each byte, and whether a buffer of unknown extent may be there."""
    counts = [1] * SMALL.l1_base + [0] * (SMALL.l1_size - SMALL.l1_base)
    for address, on_each, _ in buffers:
        for byte in range(address, min(SMALL.l1_size, address + (on_each or 0))):
            counts[byte] += 1
    unknown, may = [], False
    begins = {address for address, on_each, _ in buffers if on_each is None}
    for byte in range(SMALL.l1_size):
        may = (may or byte in begins) and not counts[byte]
        may = may and (byte != SMALL.l1_size - SMALL.l1_small_size or byte in begins)
        unknown.append(may)
    for part in on_core:
        for byte in range(part.address, min(SMALL.l1_size, part.address + part.on_each)):
            counts[byte] += 1
            unknown[byte] = False
    return counts, unknown


@settings(max_examples=100)
@given(st.lists(placed, max_size=8), st.lists(parts, max_size=6), runs)
def test_every_core_is_as_if_painted(
    buffers: list[Placed], programs: list[Part], launches: list[tuple[int, int]]
) -> None:
    account = Account(SMALL)
    for number, one in enumerate(buffers):  # each has its own allocator, so they may have any address
        extra = Extra(None if one.on_each is None else 6 * one.on_each, allocator=number)
        kind = Kind.L1_SMALL if one.small else Kind.L1
        account.apply(Allocated(0, kind, one.address, 6 * (one.on_each or 1), extra=extra))
    kept: dict[tuple[int, Kind, int, int], Part] = {}
    for part in programs:
        account.part(part.program, part.address, part.on_each, part.cores, part.kind)
        kept[part.program, part.kind, part.address, part.cores] = part  # the same place again replaces the buffer
    account.apply(*(ProgramRun(0, program, cores) for program, cores in [*launches, (9, 0)]))
    if not (buffers or programs or launches):
        account.buffer(1000, 0)
    found = account.map()
    floor = min([one.address for one in buffers if not one.small] + [SMALL.l1_size])
    assert found.floor == floor
    for y in range(2):
        for x in range(3):
            bit = 1 << (64 * y + x)
            last = next((program for program, cores in reversed(launches) if cores & bit), None)
            here = [part for part in kept.values() if part.program == last and part.cores & bit]
            counts, unknown = painted(buffers, here)
            core = found.core(x, y)
            assert core is not None
            used = sum(count > 0 for count in counts)
            assert (core.used, core.unknown) == (used, sum(unknown))
            assert core.free == SMALL.l1_size - used - sum(unknown)
            clipped = sum(min(SMALL.l1_size, b.address + (b.on_each or 0)) - b.address for b in buffers)
            clipped += sum(min(SMALL.l1_size, p.address + p.on_each) - p.address for p in here)
            assert core.overlap == SMALL.l1_base + clipped - used
            end = max((part.address + part.on_each for part in here), default=None)
            assert core.headroom == floor - (SMALL.l1_base if end is None else end)
            ends = [part.address + part.on_each for part in kept.values() if part.cores & bit]
            assert (core.worst.end if core.worst else None) == max(ends, default=None)
            free = [not counts[byte] and not unknown[byte] for byte in range(SMALL.l1_size - SMALL.l1_small_size)]
            runs_of_free = "".join("1" if is_free else "0" for is_free in free).split("0")
            assert core.largest_free == max(map(len, runs_of_free))
            check_segments(found, core, counts, unknown)


def check_segments(found: L1Map, core: Core, counts: list[int], unknown: list[bool]) -> None:
    listed = [*segments(found, core)]
    assert listed[0].start == 0
    assert listed[-1].end == SMALL.l1_size
    assert all(one.end == two.start for one, two in pairwise(listed))
    for segment in listed:
        assert segment.start < segment.end
        fixed = segment.kind in ("firmware", "ring")
        for byte in range(segment.start, segment.end):
            if segment.kind == "unknown":
                assert unknown[byte]
            elif segment.kind in ("free", "small_free"):
                assert not counts[byte]
                assert not unknown[byte]
                assert (byte >= SMALL.l1_size - SMALL.l1_small_size) == (segment.kind == "small_free")
            elif not fixed:
                assert counts[byte] == len(segment.allocations)


@settings(max_examples=200)
@given(
    st.lists(st.tuples(st.integers(0, 300), st.integers(1, 9)), max_size=80),
    st.lists(st.tuples(st.integers(0, 300), st.integers(1, 30)), max_size=5),
    st.tuples(st.integers(0, 300), st.integers(0, 300)),
)
def test_spans(found: list[tuple[int, int]], cut: list[tuple[int, int]], window: tuple[int, int]) -> None:
    spans, taken = (AddressRanges(union(sorted((at, at + size) for at, size in some))) for some in (found, cut))
    mine = {byte for at, size in found for byte in range(at, at + size)}
    gone = {byte for at, size in cut for byte in range(at, at + size)}
    start, end = window
    assert spans.total == len(mine)
    assert spans.covered(start, end) == len(mine & set(range(start, end)))
    assert {byte for left, right in spans.inside(start, end) for byte in range(left, right)} == mine & set(
        range(start, end)
    )
    line = "".join("1" if byte in mine - gone else "0" for byte in range(340))
    assert spans.largest_without(taken) == max(map(len, line.split("0")))


def test_the_largest_piece_may_be_none_of_the_longest_spans() -> None:
    spans = AddressRanges((20 * number, 20 * number + (11 if number < 40 else 10)) for number in range(50))
    assert spans.largest_without(AddressRanges([(0, 800)])) == 10

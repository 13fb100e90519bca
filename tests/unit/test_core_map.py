# SPDX-License-Identifier: Apache-2.0
"""The map of every core's L1: plain cases, and what is not known. test_core_map_properties has any case."""

from __future__ import annotations

import pytest

from tests.l1_accounts import GRID, N150, SMALL, Account
from ttmem.documents.chip_memory import memory
from ttmem.l1.core_map import (
    NO_ADDRESS,
    NO_CORES,
    NO_LAUNCH,
    NO_SIZE,
    OWN_ADDRESSES,
    PER_CORE,
    parted,
)
from ttmem.l1.core_segments import Segment, has_data
from ttmem.l1.headroom import FloorFinder, Headroom
from ttmem.model.core_sets import CoreRange, core_id, mask_of
from ttmem.model.events import Allocated, Extra, Freed, ProgramCompiled, ProgramDestroyed, ProgramRun
from ttmem.model.identity import ProcessInfo
from ttmem.model.kinds import Confidence, Kind


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

# SPDX-License-Identifier: Apache-2.0
"""Which buffers to free, compared with the simulator's allocator and with all other choices."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from ttmem.analyze import minimal_frees as blockers
from ttmem.analyze.hold_reasons import Cause
from ttmem.analyze.process_layout import Bank, Block
from ttmem.model.kinds import Kind
from ttmem.sim.free_list import FreeList

LAW = settings(max_examples=100)

BASE, SIZE, UNIT = 1024, 64 * 40, 64


def bank_of(lists: FreeList, kind: Kind, system: frozenset[int] = frozenset()) -> Bank:
    blocks = [
        Block(kind, address, size, size, cause=Cause.SYSTEM if address in system else Cause.HELD)
        for address, size in lists.live().items()
    ]
    return Bank(kind, BASE, SIZE, 64, UNIT, tuple(blocks))


@st.composite
def banks(draw: st.DrawFn) -> tuple[FreeList, Bank]:
    """A bank after some buffers have come and gone."""
    kind = draw(st.sampled_from([Kind.L1, Kind.DRAM]))
    lists = FreeList(BASE, SIZE, UNIT)
    for size, gone in draw(st.lists(st.tuples(st.integers(1, 64 * 9), st.booleans()), max_size=14)):
        lists.allocate(size, bottom_up=kind is Kind.DRAM)
        live = list(lists.live())
        if gone and live:
            lists.free(draw(st.sampled_from(live)))
    return lists, bank_of(lists, kind)


@LAW
@given(banks())
def test_what_is_free_is_what_the_allocator_says(both: tuple[FreeList, Bank]) -> None:
    lists, bank = both
    said = lists.statistics()
    assert (bank.size, bank.allocated, bank.free, bank.largest) == said


@LAW
@given(banks(), st.integers(1, SIZE))
def test_where_the_next_one_goes(both: tuple[FreeList, Bank], size: int) -> None:
    lists, bank = both
    assert bank.place(size) == lists.allocate(size, bottom_up=bank.kind is Kind.DRAM)


def freed(lists: FreeList, kind: Kind, blocks: tuple[Block, ...]) -> FreeList:
    """Another list with the same buffers except these."""
    copy = FreeList(BASE, SIZE, UNIT)
    for address, size in lists.live().items():
        if address not in {block.address for block in blocks}:
            assert copy.allocate_at(address, size) == address
    return copy


@LAW
@given(banks(), st.integers(1, SIZE + 200))
def test_freeing_them_makes_room_and_nothing_less_does(both: tuple[FreeList, Bank], size: int) -> None:
    lists, bank = both
    if bank.largest >= bank.takes(size):
        return
    room = blockers.room_for(bank, size)
    if room is None:
        assert bank.takes(size) > SIZE
        return
    bottom_up = bank.kind is Kind.DRAM
    after = freed(lists, bank.kind, room.blocks)
    assert after.statistics().largest >= room.gap >= bank.takes(size)
    assert after.allocate(size, bottom_up=bottom_up) is not None
    # No smaller number of buffers is enough, adjacent or not, and no choice of the same number has fewer bytes.
    if len(bank.blocks) <= 9:
        for count in range(len(room.blocks) + 1):
            for choice in combinations(bank.blocks, count):
                if freed(lists, bank.kind, choice).allocate(size, bottom_up=bottom_up) is not None:
                    assert count == len(room.blocks)
                    assert sum(b.per_bank for b in choice) >= sum(b.per_bank for b in room.blocks)


@LAW
@given(banks(), st.integers(1, SIZE + 200))
def test_the_largest_tensor_and_what_else_must_go_with_it(both: tuple[FreeList, Bank], size: int) -> None:
    lists, bank = both
    room = blockers.room_with_largest(bank, size)
    if room is None:
        assert not bank.blocks or bank.takes(size) > SIZE
        return
    largest = max(block.per_bank for block in bank.blocks)
    assert largest in [block.per_bank for block in room.blocks]
    after = freed(lists, bank.kind, room.blocks)
    assert after.statistics().largest >= room.gap >= bank.takes(size)
    # A single buffer is preferred, if it is enough.
    alone = max(bank.blocks, key=lambda block: block.per_bank)
    if freed(lists, bank.kind, (alone,)).statistics().largest >= bank.takes(size) > bank.largest:
        assert room.blocks == (alone,)


@LAW
@given(banks(), st.data())
def test_what_is_the_runtimes_own_stays_if_it_can(both: tuple[FreeList, Bank], data: st.DataObject) -> None:
    lists, bank = both
    if not bank.blocks:
        return
    system = frozenset(data.draw(st.sets(st.sampled_from([block.address for block in bank.blocks]))))
    marked = bank_of(lists, bank.kind, system)
    size = data.draw(st.integers(1, SIZE))
    if marked.largest >= marked.takes(size):
        return
    room = blockers.room_for(marked, size)
    assert room is not None
    if any(block.cause is Cause.SYSTEM for block in room.blocks):
        tensors = tuple(block for block in marked.blocks if block.cause is Cause.HELD)
        assert freed(lists, bank.kind, tensors).statistics().largest < marked.takes(size)


@LAW
@given(banks(), st.data())
def test_made_anew(both: tuple[FreeList, Bank], data: st.DataObject) -> None:
    lists, bank = both
    if not bank.blocks:
        return
    gone = tuple(data.draw(st.lists(st.sampled_from(bank.blocks), unique=True, min_size=1)))
    moved = blockers.made_anew(bank, gone)
    after = freed(lists, bank.kind, gone)
    real = []
    for block in sorted(gone, key=lambda one: -one.per_bank):
        address = after.allocate(block.per_bank, bottom_up=bank.kind is Kind.DRAM)
        if address is None:
            assert moved is None
            return
        real.append((block, address))
    assert moved == real


@LAW
@given(banks(), st.integers(BASE, BASE + SIZE))
def test_the_floor(both: tuple[FreeList, Bank], end: int) -> None:
    lists, bank = both
    gone = blockers.below(bank, end)
    after = freed(lists, bank.kind, gone)
    lowest = after.lowest()
    assert lowest is None or lowest >= end
    assert blockers.floor_without(bank, gone) == (bank.end if lowest is None else lowest)
    for block in gone:  # none of them may stay
        left = freed(lists, bank.kind, tuple(other for other in gone if other is not block)).lowest()
        assert left is not None
        assert left < end


def a_bank(*sizes: int, system: tuple[int, ...] = ()) -> Bank:
    """Blocks of this many units from the base up, then a gap of one unit."""
    lists = FreeList(BASE, UNIT * (sum(sizes) + 1), UNIT)
    addresses = [lists.allocate(size * UNIT, bottom_up=True) for size in sizes]
    marked = frozenset(address for place in system if (address := addresses[place]) is not None)
    return bank_of(lists, Kind.DRAM, marked)._replace(size=UNIT * (sum(sizes) + 1))


def sizes_of(room: blockers.FreedSpace | None) -> list[int]:
    assert room is not None
    return [block.per_bank // UNIT for block in room.blocks]


def test_one_buffer_rather_than_two_smaller_ones() -> None:
    assert sizes_of(blockers.room_for(a_bank(6, 3, 2), 6 * UNIT)) == [6]
    assert sizes_of(blockers.room_for(a_bank(5, 3, 2), 6 * UNIT)) == [3, 2]


def test_the_smaller_of_two() -> None:
    assert sizes_of(blockers.room_for(a_bank(8, 6, 9), 6 * UNIT)) == [6]


def test_a_larger_tensor_rather_than_the_runtimes_own() -> None:
    assert sizes_of(blockers.room_for(a_bank(8, 6, 9, system=(1,)), 6 * UNIT)) == [8]
    assert sizes_of(blockers.room_for(a_bank(2, 6, 2, system=(1,)), 6 * UNIT)) == [6]

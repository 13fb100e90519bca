# SPDX-License-Identifier: Apache-2.0
"""Extremes of the sizes of a run, compared with a model that examines everything each time."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from ttmem.account.bank_fragmentation import BankFragmentation, FreeSpace
from ttmem.account.size_extremes import Sizes
from ttmem.sim.free_list import FreeList

L1, L1_SMALL = 1, 3


@settings(max_examples=200)
@given(st.integers(0, 2**32))
def test_the_least_room_is_that_of_all_launches(seed: int) -> None:
    dice = random.Random(seed)
    sizes = Sizes()
    live: dict[int, int] = {}  # step by address
    ends: dict[int, int] = {}  # end by program
    least = None
    for step in range(60):
        act = dice.randrange(5)
        address = 1000 * dice.randrange(20, 40)
        program = dice.randrange(1, 6)
        if act == 0 and address not in live:
            live[address] = step
            sizes.took(L1, address, 32, step)
        elif act == 1 and live:
            gone = dice.choice(sorted(live))
            del live[gone]
            sizes.gave_back(L1, gone)
        elif act == 2:
            end = dice.randrange(100, 15000)
            ends[program] = max(end, ends.get(program, 0))
            sizes.placed(program, end)
        elif act == 3:
            ends.pop(program, None)
            sizes.destroyed(program)
        else:
            sizes.ran(program)
            if live and program in ends:
                room = min(live) - ends[program]
                if least is None or room < least[0]:
                    least = (room, live[min(live)])
    found = sizes.least
    assert (None if found is None else (found.room, found.holder)) == least


def test_what_is_freed_leaves_nothing_behind() -> None:
    """A long run frees millions of buffers above one that stays."""
    sizes = Sizes()
    sizes.took(L1, 1000, 32, 1)
    for number in range(1000):
        sizes.took(L1, 2000 + number % 3, 32, 2)
        sizes.gave_back(L1, 2000 + number % 3)
        sizes.ran(1)
    assert sum(len(kept) for kept in vars(sizes).values() if hasattr(kept, "__len__")) < 20


def test_the_lowest_small_buffer_counts_also_when_it_is_gone() -> None:
    sizes = Sizes()
    for address in (900, 700, 800):
        sizes.took(L1_SMALL, address, 32, 0)
        sizes.gave_back(L1_SMALL, address)
    assert sizes.lowest_small == 700


def test_the_largest_ring_and_each_program_once() -> None:
    sizes = Sizes()
    for program, ring, name in ((1, 100, 11), (2, 300, 12), (2, 250, 12), (3, 50, 13)):
        sizes.compiled(program, ring, name)
    assert sizes.ring == (300, 12)
    assert sizes.programs == 3


@settings(max_examples=200)
@given(st.integers(0, 2**32), st.booleans())
def test_the_worst_that_a_request_met(seed: int, bottom_up: bool) -> None:
    """Compared with the statistics of tt-metal's free list before each request."""
    dice = random.Random(seed)
    blocks, scatter = FreeList(1024, 32 * 200, 32), BankFragmentation(1024, 32 * 200)
    worst = 0
    for _ in range(120):
        live = sorted(blocks.live())
        if live and dice.random() < 0.45:
            gone = dice.choice(live)
            blocks.free(gone)
            scatter.gave_back(gone)
            continue
        now = blocks.statistics()
        worst = max(worst, now.free - now.largest)
        size = 32 * dice.randrange(1, 30)
        address = blocks.allocate(size, bottom_up=bottom_up)
        if address is None:
            scatter.asked()
        else:
            scatter.took(address, size)
    assert (scatter.worst.beside, scatter.exact) == (worst, True)


def test_what_is_given_back_when_nobody_asks_any_more_is_not_scattered() -> None:
    scatter = BankFragmentation(0, 1000)
    for address in range(0, 1000, 100):
        scatter.took(address, 100)
    for address in range(0, 1000, 200):
        scatter.gave_back(address)
    assert scatter.worst.beside == 0
    scatter.took(0, 100)
    assert scatter.worst == FreeSpace(500, 100)


def test_too_many_blocks_to_look_at_each_time() -> None:
    """Every second one of many is freed, with a request after each: each state is worse than the one before."""
    many = 4000
    scatter = BankFragmentation(0, 100 * many)
    for number in range(many):
        scatter.took(100 * number, 100)
    for number in range(0, many, 2):
        scatter.gave_back(100 * number)
        scatter.asked()
    assert not scatter.exact
    assert 0 < scatter.worst.beside <= 100 * (many // 2 - 1)


def test_opened_again_with_the_same_sizes() -> None:
    first, second, both = Sizes(), Sizes(), Sizes()
    for sizes, address, room in ((first, 700, 50), (second, 900, 20)):
        sizes.numbers = (0,)
        sizes.has_bank(L1, 0, 1000)
        sizes.took(L1_SMALL, address, 32, 0)
        sizes.compiled(1, room, room)
        sizes.took(L1, address, 32, 7)
        sizes.placed(1, address - room)
        sizes.ran(1)
        sizes.refused("")
        both.merge(sizes)
    assert (both.lowest_small, both.programs, both.ring, both.numbers) == (700, 2, (50, 50), (0,))
    assert both.least == second.least
    assert both.scatters[L1].worst == first.scatters[L1].worst


def test_beside_buffers_with_an_address_of_their_own_on_each_core_no_room_is_known() -> None:
    sizes, other = Sizes(), Sizes()
    for one in (sizes, other):
        one.has_bank(L1, 0, 5000)
        one.took(L1, 1000, 32, 1)
        one.placed(1, 500)
        one.ran(1)
    before = sizes.least
    assert before is not None
    sizes.took_per_core()
    sizes.ran(1)
    assert (sizes.least, sizes.scatters) == (None, {})
    other.merge(sizes)
    assert (other.least, other.scatters) == (None, {})

# SPDX-License-Identifier: Apache-2.0
"""What a run's sizes came closest to, beside a model that looks at everything each time."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from ttmem.wire.sizes import Sizes

L1, L1_SMALL = 1, 3


@settings(max_examples=200)
@given(st.integers(0, 2**32))
def test_the_least_room_is_that_of_all_launches(seed: int) -> None:
    dice = random.Random(seed)
    sizes, live, ends = Sizes(), {}, {}
    least = None
    for step in range(60):
        act = dice.randrange(5)
        address = 1000 * dice.randrange(20, 40)
        program = dice.randrange(1, 6)
        if act == 0 and address not in live:
            live[address] = step
            sizes.took(L1, address, step)
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
    sizes.took(L1, 1000, 1)
    for number in range(1000):
        sizes.took(L1, 2000 + number % 3, 2)
        sizes.gave_back(L1, 2000 + number % 3)
        sizes.ran(1)
    assert sum(len(kept) for kept in vars(sizes).values() if hasattr(kept, "__len__")) < 20


def test_the_lowest_small_buffer_counts_also_when_it_is_gone() -> None:
    sizes = Sizes()
    for address in (900, 700, 800):
        sizes.took(L1_SMALL, address, 0)
        sizes.gave_back(L1_SMALL, address)
    assert sizes.lowest_small == 700


def test_the_largest_ring_and_each_program_once() -> None:
    sizes = Sizes()
    for program, ring, name in ((1, 100, 11), (2, 300, 12), (2, 250, 12), (3, 50, 13)):
        sizes.compiled(program, ring, name)
    assert sizes.ring == (300, 12)
    assert sizes.programs == 3


def test_the_worst_gap_is_by_its_share() -> None:
    sizes = Sizes()
    for free, largest in ((1000, 900), (100, 40), (10_000, 5000), (0, 0)):
        sizes.audited(0, free, largest, free)
    assert (sizes.gaps[0].free, sizes.gaps[0].largest) == (100, 40)

# SPDX-License-Identifier: Apache-2.0
"""The use of a bank, compared with a simple implementation."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ttmem.fit.bank_use import BankUse

BASE, SIZE, STEP = 64, 640, 32
Change = tuple[bool, int, int]


def largest_free(blocks: dict[int, int]) -> int:
    free = [not any(start <= at < start + size for start, size in blocks.items()) for at in range(BASE, BASE + SIZE)]
    longest = run = 0
    for one in free:
        run = run + 1 if one else 0
        longest = max(longest, run)
    return longest


@given(st.lists(st.tuples(st.booleans(), st.integers(0, SIZE // STEP - 1), st.integers(1, 6)), max_size=40))
def test_it_has_the_peak_and_the_smallest_largest_block(changes: list[Change]) -> None:
    bank = BankUse(BASE, SIZE)
    blocks: dict[int, int] = {}
    peak, least = 0, SIZE
    for takes, slot, units in changes:
        address, size = BASE + slot * STEP, units * STEP
        if not takes:
            bank.gave_back(address)
            blocks.pop(address, None)
        elif address + size <= BASE + SIZE and not any(
            start < address + size and address < start + taken for start, taken in blocks.items()
        ):
            bank.took(address, size)
            blocks[address] = size
            peak = max(peak, sum(blocks.values()))
            least = min(least, largest_free(blocks))
        assert bank.largest == largest_free(blocks)
    assert (bank.peak, bank.least_largest, bank.used) == (peak, least, sum(blocks.values()))


def test_a_block_that_is_reported_again_counts_once() -> None:
    bank = BankUse(0, 100)
    bank.took(0, 20)
    bank.took(0, 40)
    assert (bank.used, bank.peak, bank.largest) == (40, 40, 60)

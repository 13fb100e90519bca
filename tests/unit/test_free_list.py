# SPDX-License-Identifier: Apache-2.0
"""The simulated free list: its properties, and a comparison with a simple one that searches a string."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttmem.sim.errors import SimError
from ttmem.sim.free_list import Block, FreeList, Statistics

BASE, UNIT, UNITS = 4096 + 32, 32, 160


class Picture:
    """A bank as a row of letters, one for each unit. First fit is the first or last row of enough dots."""

    def __init__(self) -> None:
        self.row = "." * UNITS
        self.live: dict[int, int] = {}

    def allocate(self, per_bank: int, bottom_up: bool) -> int | None:
        wanted = "." * max(1, (per_bank + UNIT - 1) // UNIT)
        return self._fill(self.row.find(wanted) if bottom_up else self.row.rfind(wanted), len(wanted))

    def allocate_at(self, address: int, per_bank: int) -> int | None:
        at, units = (address - BASE) // UNIT, max(1, (per_bank + UNIT - 1) // UNIT)
        return self._fill(at if at >= 0 and self.row[at : at + units] == "." * units else -1, units)

    def free(self, address: int) -> bool:
        units = self.live.pop(address, 0) // UNIT
        self._write((address - BASE) // UNIT, "." * units)
        return units > 0

    def statistics(self) -> Statistics:
        free = [len(run) * UNIT for run in self.row.replace("-", "#").split("#")]
        shown = len(self.row.lstrip("-")) * UNIT
        return Statistics(shown, sum(self.live.values()), sum(free), max(free))

    def shrink(self, units: int) -> bool:
        hidden = self.row.count("-")
        if self.row[hidden : hidden + units] != "." * units:
            return False
        self._write(hidden, "-" * units)
        return True

    def reset(self) -> None:
        self.row = self.row.replace("-", ".")

    def _fill(self, at: int, units: int) -> int | None:
        if at < 0:
            return None
        self._write(at, "#" * units)
        self.live[BASE + at * UNIT] = units * UNIT
        return BASE + at * UNIT

    def _write(self, at: int, letters: str) -> None:
        self.row = self.row[:at] + letters + self.row[at + len(letters) :]


def check_laws(bank: FreeList) -> None:
    """Blocks cover the bank without a gap or an overlap, their links are correct, and no two free ones are adjacent."""
    blocks = bank.blocks()
    chain = sorted(blocks, key=lambda block: block.address)
    statistics = bank.statistics()
    assert sum(block.size for block in chain) == statistics.size
    for before, after in pairwise(chain):
        assert before.address + before.size == after.address
        assert (before.following, after.previous) == (after.ident, before.ident)
        assert before.used or after.used
    assert chain[0].previous is chain[-1].following is None
    assert [block.ident for block in blocks] == sorted({block.ident for block in blocks})
    assert not {block.ident for block in blocks} & set(bank.spare_ids())
    assert all(block.size % UNIT == block.address % UNIT == 0 for block in chain if block.used)
    assert statistics.allocated + statistics.free == statistics.size
    in_classes = [ident for idents in bank.free_classes() for ident in idents]
    assert sorted(in_classes) == [block.ident for block in blocks if not block.used]
    assert bank.live() == {block.address + BASE: block.size for block in chain if block.used}
    assert bank.lowest() == min(bank.live(), default=None)


sizes = st.integers(0, 40 * UNIT)
steps = st.one_of(
    st.tuples(st.just("allocate"), sizes, st.booleans()),
    st.tuples(st.just("allocate_at"), st.integers(-2, UNITS), sizes),
    st.tuples(st.just("free"), st.integers(0, 30)),
    st.tuples(st.just("free_nothing"), st.integers(0, UNITS * UNIT)),
    st.tuples(st.just("shrink"), st.integers(1, 30)),
    st.tuples(st.just("reset")),
)


@given(st.lists(steps, max_size=60))
def test_it_finds_the_same_places_as_the_picture(program: list[tuple[Any, ...]]) -> None:
    bank, snapshot = FreeList(BASE, UNITS * UNIT, UNIT), Picture()
    for what, *values in program:
        before = bank.blocks()
        if what == "allocate":
            found = bank.allocate(values[0], bottom_up=values[1])
            assert found == snapshot.allocate(*values)
            assert found is not None or bank.blocks() == before
        elif what == "allocate_at":
            found = bank.allocate_at(BASE + values[0] * UNIT, values[1])
            assert found == snapshot.allocate_at(BASE + values[0] * UNIT, values[1])
            assert found is not None or bank.blocks() == before
        elif what == "free" and snapshot.live:
            address = sorted(snapshot.live)[values[0] % len(snapshot.live)]
            assert bank.free(address) is snapshot.free(address) is True
        elif what == "free_nothing" and BASE + values[0] not in snapshot.live:
            assert bank.free(BASE + values[0]) is False
            assert bank.blocks() == before
        elif what == "shrink" and len(snapshot.row.lstrip("-")) > values[0]:
            if snapshot.shrink(values[0]):
                bank.shrink(values[0] * UNIT)
            else:
                with pytest.raises(SimError, match="cuts into allocated block"):
                    bank.shrink(values[0] * UNIT)
                assert bank.blocks() == before
        elif what == "reset":
            bank.reset()
            snapshot.reset()
        assert bank.live() == dict(sorted(snapshot.live.items()))
        assert bank.statistics() == snapshot.statistics()
        check_laws(bank)


@given(st.lists(st.tuples(sizes, st.booleans()), min_size=1, max_size=20), st.randoms(use_true_random=False))
def test_frees_in_any_order_leave_one_block(requests: list[tuple[int, bool]], order: random.Random) -> None:
    bank = FreeList(BASE, UNITS * UNIT, UNIT)
    addresses = [bank.allocate(size, bottom_up=up) for size, up in requests]
    live = [address for address in addresses if address is not None]
    order.shuffle(live)
    for address in live:
        assert bank.free(address)
    (block,) = bank.blocks()
    assert (block.address, block.size, block.used) == (0, UNITS * UNIT, False)
    assert bank.statistics() == Statistics(UNITS * UNIT, 0, UNITS * UNIT, UNITS * UNIT)


def test_the_used_part_keeps_the_id_and_the_last_released_id_is_used_first() -> None:
    bank = FreeList(0, 320, 32)
    low, high = bank.allocate(64, bottom_up=True), bank.allocate(64, bottom_up=False)
    middle = bank.allocate(32, bottom_up=True)
    assert (low, high, middle) == (0, 256, 64)
    assert bank.blocks() == [
        Block(0, 0, 64, True, None, 2),
        Block(1, 256, 64, True, 3, None),
        Block(2, 64, 32, True, 0, 3),
        Block(3, 96, 160, False, 2, 1),
    ]
    bank.free(64)  # upper neighbour 3 is merged into 2
    bank.free(0)  # 0 takes 2 in
    assert bank.spare_ids() == [3, 2]
    assert bank.allocate_at(128, 32) == 128
    assert bank.blocks() == [
        Block(0, 128, 32, True, 2, 3),
        Block(1, 256, 64, True, 3, None),
        Block(2, 0, 128, False, None, 0),
        Block(3, 160, 96, False, 0, 1),
    ]


def test_a_search_does_not_prefer_the_best_fit() -> None:
    bank = FreeList(0, 1 << 20, 32)
    holes = [bank.allocate(size, bottom_up=True) for size in (65536, 32, 2048, 32, 4096, 32)]
    for address in holes[::2]:
        assert address is not None
        bank.free(address)
    assert bank.allocate(2048, bottom_up=True) == 0
    assert bank.allocate(2048, bottom_up=False) == (1 << 20) - 2048


def test_shrinking_hides_the_bottom_until_it_is_reset() -> None:
    bank = FreeList(1000, 320, 32)
    bank.shrink(64)
    assert bank.statistics() == Statistics(256, 0, 256, 256)
    assert bank.allocate(32, bottom_up=True) == 1064
    bank.reset()
    assert bank.statistics() == Statistics(320, 32, 288, 224)
    assert bank.allocate(64, bottom_up=True) == 1000
    with pytest.raises(SimError, match="Shrink size 16 cuts into allocated block at address 0"):
        bank.shrink(16)
    with pytest.raises(SimError, match="Shrink size 321 must be smaller than max size 320"):
        bank.shrink(321)


def test_all_of_a_bank_can_be_hidden() -> None:
    bank = FreeList(0, 320, 32)
    bank.shrink(320)
    assert bank.blocks() == []
    assert bank.statistics() == Statistics(0, 0, 0, 0)
    assert bank.lowest() is None
    assert bank.allocate(32, bottom_up=True) is None
    bank.reset()
    assert bank.allocate(320, bottom_up=False) == 0


def test_an_empty_bank_has_one_block_of_nothing() -> None:
    bank = FreeList(0, 0, 32)
    assert bank.blocks() == [Block(0, 0, 0, False, None, None)]
    assert bank.allocate(1, bottom_up=True) is None
    assert bank.statistics() == Statistics(0, 0, 0, 0)


def test_size_classes() -> None:
    """Powers of two from 1 KiB. All sizes below the first are one class, and so are all above the last."""
    assert len(FreeList(0, 32768, 32).free_classes()) == 6
    assert len(FreeList(0, 32, 32).free_classes()) == 2
    assert len(FreeList(0, 1 << 32, 32).free_classes()) == 18
    bank = FreeList(0, 8192, 32)
    first = bank.allocate(32, bottom_up=True)
    bank.allocate(3072, bottom_up=True)
    assert first == 0
    bank.free(first)
    assert bank.free_classes() == [[0], [], [2], []]

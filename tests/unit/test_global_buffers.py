# SPDX-License-Identifier: Apache-2.0
"""Global circular buffers: which buffer is their own, and what makes room for data and configuration."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ttmem.analyze.failure_types import OutOfMemory
from ttmem.analyze.global_buffers import GlobalCircularBuffer, configuration_bytes, largest_data, requested, room_for
from ttmem.analyze.process_layout import Bank, Block
from ttmem.model.kinds import Kind

BANK = Bank(Kind.L1, 0x10000, 1 << 20, 64, 32)


def block(address: int, per_bank: int, born: int, cores: int = 64, **more: Any) -> Block:
    return Block(Kind.L1, address, per_bank * cores, per_bank, 1, born=born, **more)


def failed(per_bank: int, cores: int = 7) -> OutOfMemory:
    return OutOfMemory(Kind.L1, per_bank * cores, cores, per_bank, global_circular=True)


def test_its_own_data_is_the_newest_buffer_of_the_same_line() -> None:
    tensor = block(BANK.base, 4096, born=1, tag="ttnn.zeros", line="model.py:3 main")
    data = block(BANK.base + 4096, 8192, born=2, cores=7, line="model.py:9 main")
    bank = BANK._replace(blocks=(tensor, data))
    page = failed(configuration_bytes(6))
    assert requested(page, bank, "model.py:9 main") == (8192, 272, data)
    assert requested(page, bank, "model.py:8 main").own is None  # another one is being created
    assert requested(page, bank._replace(blocks=(tensor,)), "model.py:3 main").own is None  # an operation created it
    assert requested(failed(300), bank, "model.py:9 main").own is None  # larger than any configuration for 7 cores
    assert requested(failed(272, cores=5), bank, "model.py:9 main").own is None
    assert requested(page, None, None).own is None


def free_list(sizes: list[int], gone: list[bool]) -> Bank:
    """A bank with these buffers from the top down. Some of them were freed."""
    bank: Bank | None = BANK
    for size in sizes:
        assert bank is not None
        bank = bank.with_new(size) or bank
    assert bank is not None
    return bank._replace(blocks=tuple(one for one, free in zip(bank.blocks, gone + [False] * 99) if not free))


def fits(bank: Bank, data: int, page: int) -> bool:
    after = bank.with_new(data)
    return after is not None and after.place(page) is not None


banks = st.builds(
    free_list,
    st.lists(st.integers(1, 10).map(lambda size: size * 65536 // 4), min_size=1, max_size=12),
    st.lists(st.booleans(), max_size=12),
)


@given(banks, st.integers(1, 1 << 19), st.integers(1, 63))
def test_what_is_advised_fits_and_a_step_more_does_not(bank: Bank, data: int, receivers: int) -> None:
    buffer = GlobalCircularBuffer(data, configuration_bytes(receivers))
    largest = largest_data(bank, buffer)
    assert largest % bank.unit == 0
    if largest:
        assert fits(bank, largest, buffer.configuration)
    assert not fits(bank, largest + bank.unit, buffer.configuration)
    if not fits(bank, data, buffer.configuration):
        room = room_for(bank, buffer)
        assert room is not None
        assert fits(bank.without(room.blocks), data, buffer.configuration)

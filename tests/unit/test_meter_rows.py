# SPDX-License-Identifier: Apache-2.0
"""Rows of meters as bytes: packed and unpacked again, refused if they are none, and copied in bounded time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.ring_memory import RingMemory
from ttmem.wire.agent_ring import GAUGES, METERS, Ring
from ttmem.wire.meter_rows import copy_rows, unpacked_rows
from ttmem.wire.ring_meters import decoded, measured

ALL = len(GAUGES)


@pytest.fixture
def memory() -> Iterator[RingMemory]:
    made = RingMemory(meters=METERS, windows=3, phases=2)
    made.put_chip(0, number=7)
    made.put_meter(ALL, chips=1, gauge=1, used=20, reserved=24, high=30, reserved_high=32, peak=28, ever=90)
    made.put(meters_turn=2, window=4)
    for number, first, last in ((2, 11, 20), (3, 21, 30), (4, 31, 0)):
        made.put_window(number % 3, {ALL: (number, 29)}, number=number, first=first, last=last)
    made.put_phase(1, {ALL: (5, 6)}, began=9, ident=2, time=900, name=made.blob(b"decode"))
    yield made
    made.close()


@pytest.fixture
def ring(memory: RingMemory) -> Iterator[Ring]:
    made = memory.open()
    yield made
    made.close()


@pytest.mark.parametrize("after", [0, 20, 30])
def test_packed_rows_mean_the_same(ring: Ring, after: int) -> None:
    rows, phases_began = unpacked_rows(copy_rows(ring, after, phases=True).packed(12))
    assert phases_began == 12
    assert decoded(ring, rows) == measured(ring, after)
    assert len(rows.windows) == 3 - after // 15
    assert len(rows.phases) == 1


def test_bytes_that_are_no_rows(ring: Ring) -> None:
    raw = copy_rows(ring, 0, phases=True).packed(0)
    huge = (METERS + 1).to_bytes(4, "little")
    for wrong in (b"", raw[:23], raw[:-1], raw + b"\0", huge + raw[4:], b"\xff" * len(raw)):
        with pytest.raises(ValueError, match=r"rows of"):
            unpacked_rows(wrong)


def test_a_writer_that_is_always_amid_a_change(memory: RingMemory, ring: Ring) -> None:
    """The more there is to copy, the fewer times it is copied."""
    memory.put(meters_turn=3)
    looks = {}
    for meters in (ALL + 1, METERS):
        memory.put(meters_used=meters)
        copied = 0
        copy = Ring.copy

        def counted(at: int, length: int) -> bytes:
            nonlocal copied
            copied += at == ring.meters_at
            return copy(ring, at, length)  # noqa: B023 - called at once

        ring.copy = counted  # type: ignore[method-assign]
        assert copy_rows(ring, 0, phases=True).meter_count == meters
        looks[meters] = copied
    assert looks[ALL + 1] == 100
    assert looks[METERS] < 100

# SPDX-License-Identifier: Apache-2.0
"""Which allocations are temporary."""

from __future__ import annotations

from tests.unit.test_moments import recording
from ttmem.model.events import Allocated, DeviceOpened, Event, Freed
from ttmem.model.identity import ChipInfo
from ttmem.model.kinds import Kind
from ttmem.statistics.temporary import temporary


def sizes(*story: Event) -> list[int]:
    """The sizes of the temporary ones of some events, of which each has a time of its own."""
    events: list[tuple[float, Event]] = [(0.0, DeviceOpened(0, ChipInfo("77")))]
    events += [(float(number), event) for number, event in enumerate(story, 1)]
    table = recording(events).lifetimes().allocations
    return sorted(table.size[temporary(table)].tolist())


def made(size: int, kind: Kind = Kind.DRAM, program: int = 0) -> Allocated:
    return Allocated(0, kind, 0x1000 * size, size, program)


def freed(size: int, kind: Kind = Kind.DRAM) -> Freed:
    return Freed(0, kind, 0x1000 * size, size)


def test_freed_at_once() -> None:
    assert sizes(made(1), freed(1)) == [1]


def test_one_further_allocation_may_come_between() -> None:
    assert sizes(made(1), made(2), freed(1)) == [1]
    assert sizes(made(1), made(2), made(3), freed(1)) == []
    assert sizes(made(1), made(2), freed(2), made(3), freed(1), freed(3)) == [2, 3]


def test_parts_of_programs_neither_count_nor_are_temporary() -> None:
    parts = [made(size, Kind.CB, 7) for size in (4, 5, 6)]
    gone = Freed(0, Kind.CB, 0x6000, 6, 7)
    assert sizes(made(1, Kind.L1), *parts, gone, freed(1, Kind.L1)) == [1]


def test_what_is_not_freed_is_not_temporary() -> None:
    assert sizes(made(1)) == []

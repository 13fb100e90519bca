# SPDX-License-Identifier: Apache-2.0
"""Every allocation of a recording as a row of a table: what it is, where it is, when it began and how it ended.

The table answers questions about all moments at once. Its columns are arrays of numpy, so that millions of rows take
seconds. For the account at one moment, `Recording.at` is the authority; a test compares the two.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import IntEnum
from math import floor, ulp
from typing import NamedTuple

import numpy as np

from ttmem.model.kinds import Kind
from ttmem.recording.event_entries import SourceName
from ttmem.recording.record_arrays import Array

SYSTEM = 128  # flag: allocated by the runtime for itself
NEVER = int(np.iinfo(np.int64).max)  # the end of an allocation that is live when the recording ends


class End(IntEnum):
    """How an allocation ended."""

    LIVE = 0  # it is live at the end of the recording
    FREED = 1
    DEVICE_CLOSED = 2  # freed because its device was closed
    PROGRAM_DESTROYED = 3
    PROCESS_EXITED = 4
    REPLACED = 5  # another allocation took its place: its free was missed
    LOST = 6  # freed among records that were lost: its end is the end of the gap


class Site(NamedTuple):
    """What made an allocation, as far as it is known."""

    op: str | None
    shape: str | None
    stack: str | None
    part: str | None = None  # which part of a program it is


class BankRegion(NamedTuple):
    """The addresses that an allocator gives out for one kind, in each bank."""

    base: int
    size: int
    banks: int


class Allocator(NamedTuple):
    """One allocator: that of a mesh while it was open."""

    chips: tuple[str, ...]
    regions: dict[Kind, BankRegion]
    banks: tuple[int, ...]  # number of banks by kind


@dataclass(frozen=True)
class Columns:
    """One array for each property of an allocation; all have the same length."""

    source: Array  # index
    chips: Array  # index of its chip set
    allocator: Array  # index, -1 if unknown
    site: Array  # index
    kind: Array
    flags: Array  # of the record: `BINARY`, `KEPT` and others of wire.agent_ring; `SYSTEM`
    program: Array  # the program that it is a part of, 0 for none
    address: Array
    size: Array  # bytes on each of its chips
    counted: Array  # bytes that it adds to the totals of each chip: 0 if it is inside another allocation
    reserved: Array  # bytes that the allocator reserved for it on each chip; -1 if unknown
    per_bank: Array  # of these, in each bank
    begin: Array  # nanoseconds since the start of the recording
    end: Array  # the same; NEVER if it is live at the end
    ended_by: Array  # an `End`


@dataclass(frozen=True)
class AllocationTable(Columns):
    """All allocations of a recording, in the order in which they began."""

    start: float  # wall time of the start of the recording
    length: int  # of the recording, in nanoseconds
    sources: list[SourceName]
    chip_sets: list[tuple[str, ...]]
    allocators: list[Allocator]
    sites: list[Site]

    def __len__(self) -> int:
        return len(self.begin)

    @property
    def all_chips(self) -> list[str]:
        return sorted({chip for chips in self.chip_sets for chip in chips})

    def at(self, time: float) -> int:
        """A wall time in the units of the table. As a float it is less precise, so that is added."""
        since = time - self.start
        return floor((since + ulp(time)) * 1e9) if -1.0 < since < 1e9 else (-1 if since < 0 else NEVER - 1)

    def on_chip(self, chip: str) -> Array:
        """Which rows are on a chip."""
        here = np.array([chip in chips for chips in self.chip_sets], dtype=bool)
        return here[self.chips] if len(here) else np.zeros(len(self), dtype=bool)

    def of_kinds(self, *kinds: Kind) -> Array:
        return np.isin(self.kind, np.array(kinds, dtype=np.uint8))

    def live_at(self, nanoseconds: int) -> Array:
        """Which rows were live after all events up to a time."""
        return (self.begin <= nanoseconds) & (self.end > nanoseconds)

    def where(self, mask: Array) -> AllocationTable:
        """The table with some of its rows."""
        chosen = {one.name: getattr(self, one.name)[mask] for one in fields(Columns)}
        return AllocationTable(
            **chosen, start=self.start, length=self.length, sources=self.sources, chip_sets=self.chip_sets,
            allocators=self.allocators, sites=self.sites,
        )  # fmt: skip


class ProgramTable(NamedTuple):
    """Every program that was compiled."""

    source: Array
    program: Array
    site: Array
    ring: Array  # bytes of the kernel ring
    chips: Array
    begin: Array
    end: Array

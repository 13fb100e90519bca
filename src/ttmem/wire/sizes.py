# SPDX-License-Identifier: Apache-2.0
"""What a run's sizes came closest to: kept while an agent's records are folded, for advice when it has ended.

All figures are of one bank or core, and of one allocator: the chips of a mesh are in lock step.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import NamedTuple

_L1, _L1_SMALL = 1, 3


class Least(NamedTuple):
    """The least room there was between a program that was launched and the lowest L1 buffer."""

    room: int
    program: int  # blob with its operation
    holder: int  # blob of the buffer


class Gap(NamedTuple):
    """A kind of memory when the largest free block was the smallest part of what was free."""

    free: int
    largest: int
    time: int  # the agent's clock, nanoseconds


class Sizes:
    """Of one allocator."""

    def __init__(self) -> None:
        self.numbers: tuple[int, ...] = ()  # Metal's, of the chips that it rules
        self.unit: int | None = None  # what sizes in a bank are rounded up to
        self.lowest_small: int | None = None
        self.ring = (0, 0)  # the most bytes of the kernel ring a program took, and the blob with its operation
        self.programs = 0
        self.least: Least | None = None
        self.gaps: dict[int, Gap] = {}  # by BufferType
        self._floor: list[int] = []  # heap of addresses of L1 buffers, each once; the freed ones go when met
        self._queued: set[int] = set()  # what is in it
        self._live: dict[int, int] = {}  # address -> blob
        self._ends: dict[int, int] = {}  # program -> where its circular buffers and the like end on a core
        self._names: dict[int, int] = {}

    def took(self, kind: int, address: int, name: int) -> None:
        """A buffer of L1 or L1_SMALL."""
        if kind == _L1:
            self._live[address] = name
            if address not in self._queued:
                self._queued.add(address)
                heappush(self._floor, address)
        elif self.lowest_small is None or address < self.lowest_small:
            self.lowest_small = address

    def gave_back(self, kind: int, address: int) -> None:
        if kind == _L1:
            self._live.pop(address, None)

    def compiled(self, program: int, ring: int, name: int) -> None:
        self.programs += program not in self._names
        self._names[program] = name
        if ring > self.ring[0]:
            self.ring = ring, name

    def placed(self, program: int, end: int) -> None:
        if end > self._ends.get(program, 0):
            self._ends[program] = end

    def ran(self, program: int) -> None:
        end = self._ends.get(program)
        while self._floor and self._floor[0] not in self._live:
            self._queued.remove(heappop(self._floor))
        if end is None or not self._floor:
            return
        address = self._floor[0]
        if self.least is None or address - end < self.least.room:
            self.least = Least(address - end, self._names.get(program, 0), self._live[address])

    def destroyed(self, program: int) -> None:
        self._ends.pop(program, None)
        self._names.pop(program, None)

    def audited(self, kind: int, free: int, largest: int, time: int) -> None:
        worst = self.gaps.get(kind)
        if free > 0 and (worst is None or largest * worst.free < worst.largest * free):
            self.gaps[kind] = Gap(free, largest, time)

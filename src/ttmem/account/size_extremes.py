# SPDX-License-Identifier: Apache-2.0
"""The extreme sizes of a run: least headroom, largest kernel ring, lowest L1_SMALL address.

They are updated while records are applied. All values are for one bank or core of one allocator. The chips of a mesh
have the same values, because they allocate in lock step.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import NamedTuple

from ttmem.account.bank_fragmentation import BankFragmentation
from ttmem.model.geometry import Geometry

_L1, _L1_SMALL = 1, 3


class LeastHeadroom(NamedTuple):
    """The smallest distance between the end of a launched program and the lowest L1 buffer."""

    room: int
    program: int  # number of the blob with its operation
    holder: int  # number of the blob of the buffer


class Sizes:
    """The extreme sizes of one allocator."""

    def __init__(self, geometry: Geometry | None = None, unit: int | None = None, complete: bool = True) -> None:
        self.geometry = geometry  # when the device was opened; a later open may use other sizes
        self.unit = unit  # sizes in a bank are rounded up to a multiple of it
        self.complete = complete  # False: some allocations were not reported, as in a forked child
        self.numbers: tuple[int, ...] = ()  # tt-metal's device numbers of its chips
        self.lowest_small: int | None = None
        self.more_small = self.more_trace = False  # whether a request exceeded L1_SMALL, the trace region
        self.ring = (0, 0)  # most bytes of the kernel ring that a program took, and the blob with its operation
        self.programs = 0
        self.least: LeastHeadroom | None = None
        self.l1_known = True  # False: L1 differs between cores, because of buffers with per-core addresses
        self.scatters: dict[int, BankFragmentation] = {}  # by tt-metal's BufferType
        self._floor: list[int] = []  # heap of L1 buffer addresses, each once; freed ones are removed at the top only
        self._queued: set[int] = set()  # the addresses in `_floor`
        self._live: dict[int, int] = {}  # address of an L1 buffer -> blob
        self._ends: dict[int, int] = {}  # program -> end of its circular buffers and other parts on a core
        self._names: dict[int, int] = {}  # program -> blob with its operation

    def has_bank(self, kind: int, base: int, size: int) -> None:
        """Track fragmentation of this bank."""
        self.scatters[kind] = BankFragmentation(base, size)

    def took_per_core(self) -> None:
        """A buffer with a different address on each core was allocated, so free L1 differs between cores."""
        self.l1_known = False
        self.least = None
        self.scatters.pop(_L1, None)

    def took(self, kind: int, address: int, per_bank: int, name: int) -> None:
        """A buffer was allocated."""
        scatter = self.scatters.get(kind)
        if scatter is not None:
            scatter.took(address, per_bank)
        if kind == _L1:
            self._live[address] = name
            if address not in self._queued:
                self._queued.add(address)
                heappush(self._floor, address)
        elif kind == _L1_SMALL and (self.lowest_small is None or address < self.lowest_small):
            self.lowest_small = address

    def refused(self, text: str) -> None:
        """A request failed. The text of tt-metal's error contains its kind."""
        self.more_small |= "L1_SMALL buffer" in text
        self.more_trace |= "is allocated for trace region" in text or "TRACE buffer" in text
        for scatter in self.scatters.values():
            scatter.asked()

    def gave_back(self, kind: int, address: int) -> None:
        scatter = self.scatters.get(kind)
        if scatter is not None:
            scatter.gave_back(address)
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
        if end is None or not self._floor or not self.l1_known:
            return
        address = self._floor[0]
        if self.least is None or address - end < self.least.room:
            self.least = LeastHeadroom(address - end, self._names.get(program, 0), self._live[address])

    def destroyed(self, program: int) -> None:
        self._ends.pop(program, None)
        self._names.pop(program, None)

    def merge(self, other: Sizes) -> None:
        """Keep the extremes of both. Used if the same chips were opened again with the same sizes."""
        self.numbers = self.numbers or other.numbers
        self.programs += other.programs
        self.more_small |= other.more_small
        self.more_trace |= other.more_trace
        self.ring = max(self.ring, other.ring)
        self.lowest_small = min(
            (one for one in (self.lowest_small, other.lowest_small) if one is not None), default=None
        )
        self.least = min((one for one in (self.least, other.least) if one is not None), default=None)
        for kind, scatter in other.scatters.items():
            self.scatters.setdefault(kind, BankFragmentation(0, 0)).merge(scatter)
        if not (self.l1_known and other.l1_known):
            self.took_per_core()

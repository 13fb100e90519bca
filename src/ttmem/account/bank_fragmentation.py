# SPDX-License-Identifier: Apache-2.0
"""The worst fragmentation of a bank at any request for memory, from its allocations and frees.

The worst moment is the one at which most bytes were free beside the largest piece. Buffers that are freed one by one
when a program ends leave many small pieces, which matter to nobody: so only requests count. To look at every block at
each request would cost far more than the request. So one free piece is remembered, as a lower bound of the largest. The
blocks are looked at only while the bytes beside this piece are more than the worst so far.
"""

from __future__ import annotations

from typing import NamedTuple

_FIRST_CREDIT, _CREDIT = 1_000_000, 32  # blocks that may be looked at: from the start, and more for each request


class FreeSpace(NamedTuple):
    """What was free in a bank, and the largest piece of it."""

    free: int
    largest: int

    @property
    def beside(self) -> int:
        return self.free - self.largest


class BankFragmentation:
    """Of one bank, which stands for all of its kind.

    >>> bank = BankFragmentation(0, 100)
    >>> for address in (0, 20, 40): bank.took(address, 20)
    >>> for address in (0, 20): bank.gave_back(address)
    >>> bank.took(0, 30)
    >>> bank.worst, bank.exact
    (FreeSpace(free=80, largest=40), True)
    """

    __slots__ = ("_base", "_beside", "_credit", "_end", "_ends", "_free", "_high", "_low", "exact", "worst")

    def __init__(self, base: int, size: int) -> None:
        self.worst = FreeSpace(size, size)
        self._beside = 0  # of that
        self.exact = True  # or were there too many blocks to look at them each time it mattered
        self._base, self._end = base, base + size
        self._ends: dict[int, int] = {}  # of each block, by its address
        self._free = size
        self._low, self._high = base, base + size  # a piece that is free, often the largest
        self._credit = _FIRST_CREDIT

    def took(self, address: int, size: int) -> None:
        """A request was met there."""
        self._credit += _CREDIT  # as in asked, for nearly every event
        if self._free - self._high + self._low > self._beside:
            self._look()
        ends = self._ends
        if address in ends:
            self.gave_back(address)
        end = ends[address] = address + size
        self._free -= size
        if address < self._high and end > self._low:
            if address - self._low >= self._high - end:
                self._high = address
            else:
                self._low = end

    def asked(self) -> None:
        """There is a request, and the bank is as it is now."""
        self._credit += _CREDIT
        if self._free - self._high + self._low > self._beside:
            self._look()

    def gave_back(self, address: int) -> None:
        end = self._ends.pop(address, None)
        if end is None:
            return
        self._free += end - address
        if end == self._low:
            self._low = address
        elif address == self._high:
            self._high = end

    def merge(self, other: BankFragmentation) -> None:
        """The worst of both."""
        self.exact = self.exact and other.exact
        self.worst = max(other.worst, self.worst, key=lambda gap: gap.beside)
        self._beside = self.worst.beside

    def _look(self) -> None:
        """Finds the largest piece."""
        if self._credit < len(self._ends):
            self.exact = False
            return
        self._credit -= len(self._ends)
        last = self._base
        low = high = last
        for address, end in sorted(self._ends.items()):
            if address - last > high - low:
                low, high = last, address
            last = max(last, end)
        if self._end - last > high - low:
            low, high = last, self._end
        self._low, self._high = low, high
        now = FreeSpace(self._free, high - low)
        if now.beside > self._beside:
            self.worst, self._beside = now, now.beside

# SPDX-License-Identifier: Apache-2.0
"""The worst fragmentation of a bank at any request for memory, from its allocations and frees.

The worst moment is the one at which the most bytes were free outside the largest free piece. Only requests are
considered: buffers that are freed one by one at the end of a program leave many small pieces, which do no harm.

A search through all blocks at each request would cost far more than the request itself. Therefore one free piece is
tracked, and its size is a lower bound for the largest piece. All blocks are searched only if the free bytes outside
this piece exceed the worst value so far.
"""

from __future__ import annotations

from typing import NamedTuple

_FIRST_CREDIT, _CREDIT = 1_000_000, 32  # blocks that may be searched: at the start, and added by each request


class FreeSpace(NamedTuple):
    """The free bytes of a bank, and the largest free piece."""

    free: int
    largest: int

    @property
    def beside(self) -> int:
        """Free bytes outside the largest piece."""
        return self.free - self.largest


class BankFragmentation:
    """The worst fragmentation of one bank. All banks of a kind have the same blocks.

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
        self._beside = 0  # `worst.beside`
        self.exact = True  # False if the search was skipped at least once because there were too many blocks
        self._base, self._end = base, base + size
        self._ends: dict[int, int] = {}  # address of a block -> its end
        self._free = size
        self._low, self._high = base, base + size  # the tracked free piece, often the largest
        self._credit = _FIRST_CREDIT

    def took(self, address: int, size: int) -> None:
        """A request got the block at this address."""
        self._credit += _CREDIT  # a copy of `asked`, inlined because nearly all events are of this type
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
        """A request was made. Consider the current state of the bank."""
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
        """Keep the worst of both banks."""
        self.exact = self.exact and other.exact
        self.worst = max(other.worst, self.worst, key=lambda gap: gap.beside)
        self._beside = self.worst.beside

    def _look(self) -> None:
        """Find the largest free piece, and update the worst value."""
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

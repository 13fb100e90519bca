# SPDX-License-Identifier: Apache-2.0
"""How full one bank became: most bytes in use, and the smallest size that the largest free block ever had."""

from __future__ import annotations

from bisect import bisect_left, bisect_right


class BankUse:
    """The free blocks of one bank. All banks of a kind have the same blocks.

    >>> bank = BankUse(0, 100)
    >>> for address in (0, 20, 40): bank.took(address, 20)
    >>> bank.gave_back(20)
    >>> bank.peak, bank.largest, bank.least_largest
    (60, 40, 40)
    """

    __slots__ = ("_blocks", "_ends", "_starts", "_used", "least_largest", "peak", "size")

    def __init__(self, base: int, size: int) -> None:
        self.size = size
        self.peak = 0
        self.least_largest = size
        self._used = 0
        self._blocks: dict[int, int] = {}  # address -> end
        self._starts = [base]  # of the free blocks, ascending; few, because neighbours are merged
        self._ends = [base + size]

    @property
    def used(self) -> int:
        return self._used

    @property
    def largest(self) -> int:
        """The largest free block now."""
        return max((end - start for start, end in zip(self._starts, self._ends)), default=0)

    def took(self, address: int, size: int) -> None:
        """A buffer was allocated."""
        if address in self._blocks:
            self.gave_back(address)
        end = self._blocks[address] = address + size
        self._used += size
        self.peak = max(self.peak, self._used)
        place = bisect_right(self._starts, address) - 1
        if place >= 0 and self._ends[place] >= end:  # otherwise the report contradicts an earlier one
            start, old_end = self._starts[place], self._ends[place]
            rest = [(start, address), (end, old_end)]
            self._starts[place : place + 1] = [low for low, high in rest if high > low]
            self._ends[place : place + 1] = [high for low, high in rest if high > low]
        self.least_largest = min(self.least_largest, self.largest)

    def gave_back(self, address: int) -> None:
        """A buffer was freed."""
        end = self._blocks.pop(address, None)
        if end is None:
            return
        self._used -= end - address
        place = bisect_left(self._starts, address)
        if place < len(self._starts) and self._starts[place] == end:
            end = self._ends[place]
            del self._starts[place], self._ends[place]
        if place > 0 and self._ends[place - 1] == address:
            self._ends[place - 1] = end
        else:
            self._starts.insert(place, address)
            self._ends.insert(place, end)

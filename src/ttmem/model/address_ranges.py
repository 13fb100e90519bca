# SPDX-License-Identifier: Apache-2.0
"""A sorted set of address ranges without overlaps, with queries for how much of another range they cover."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from heapq import heappush, heappushpop

Span = tuple[int, int]  # start, end

_LARGE = 32  # this many of the longest ranges are kept in a heap


class AddressRanges:
    """There may be many ranges, so a query must cost only as much as the ranges that it touches.

    >>> ranges = AddressRanges([(0, 10), (20, 30)])
    >>> ranges.total, ranges.covered(5, 25), list(ranges.inside(5, 25))
    (20, 10, [(5, 10), (20, 25)])
    """

    __slots__ = ("_before", "_ends", "_large", "_starts", "total")

    def __init__(self, found: Iterable[Span] = ()) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._before: list[int] = []  # for each range, the bytes in all ranges before it
        self._large: list[tuple[int, int, int]] = []  # length, start, end: a heap
        self.total = 0
        for start, end in found:
            self.add(start, end)

    def add(self, start: int, end: int) -> None:
        """Add a range above all others. An empty range is ignored."""
        if start >= end:
            return
        self._starts.append(start)
        self._ends.append(end)
        self._before.append(self.total)
        self.total += end - start
        if len(self._large) < _LARGE:
            heappush(self._large, (end - start, start, end))
        elif end - start > self._large[0][0]:
            heappushpop(self._large, (end - start, start, end))

    def covered(self, start: int, end: int) -> int:
        """Number of bytes of a range that these ranges cover."""
        return self._below(end) - self._below(start) if start < end else 0

    def _below(self, address: int) -> int:
        place = bisect_right(self._starts, address) - 1
        return self._before[place] + min(address, self._ends[place]) - self._starts[place] if place >= 0 else 0

    def inside(self, start: int, end: int) -> Iterator[Span]:
        """The parts of these ranges that lie in the given range."""
        place = bisect_right(self._ends, start)
        while place < len(self._starts) and self._starts[place] < end:
            yield max(start, self._starts[place]), min(end, self._ends[place])
            place += 1

    def largest_without(self, taken: AddressRanges) -> int:
        """The longest piece that remains when other ranges are cut out."""
        best = 0
        for length, start, end in sorted(self._large, reverse=True):
            if length <= best:
                return best
            best = max(best, _longest_piece(start, end, taken))
        if len(self._large) < len(self._starts):  # the ranges outside the heap are shorter, but may be uncut
            for start, end in zip(self._starts, self._ends):
                if end - start > best:
                    best = max(best, _longest_piece(start, end, taken))
        return best


def _longest_piece(start: int, end: int, taken: AddressRanges) -> int:
    best = 0
    for left, right in taken.inside(start, end):
        best = max(best, left - start)
        start = right
    return max(best, end - start)


def union(found: Iterable[Span]) -> list[Span]:
    """Ranges in the order of their starts. Ranges that touch or overlap are merged.

    >>> union([(0, 4), (2, 6), (8, 9)])
    [(0, 6), (8, 9)]
    """
    out: list[Span] = []
    for start, end in found:
        if out and start <= out[-1][1]:
            out[-1] = out[-1][0], max(out[-1][1], end)
        else:
            out.append((start, end))
    return out

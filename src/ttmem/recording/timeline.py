# SPDX-License-Identifier: Apache-2.0
"""Memory over time: the sum of some allocations after each event, and free space in an allocator's banks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from ttmem.model.kinds import Kind
from ttmem.recording.allocation_table import NEVER, AllocationTable, BankRegion
from ttmem.recording.record_arrays import Array


class Timeline(NamedTuple):
    """A sum after each event that changed it. Before the first event it is 0."""

    time: Array  # nanoseconds since the start of the recording
    value: Array

    @property
    def peak(self) -> tuple[int, int]:
        """The highest value and the first time that it was reached; (0, 0) if there is none."""
        if not len(self.value):
            return 0, 0
        place = int(np.argmax(self.value))
        return int(self.value[place]), int(self.time[place])

    def at(self, times: Array) -> Array:
        """The values at some times."""
        return np.concatenate([[0], self.value])[np.searchsorted(self.time, times, "right")]

    def buckets(self, edges: Array) -> tuple[Array, Array, Array]:
        """Lowest, highest and last value between each two edges. Both are exact, however wide a bucket is."""
        value = np.concatenate([[0], self.value])
        places = np.searchsorted(self.time, edges, "left")
        first, last = places[:-1], places[1:]
        # The value at the start of a bucket belongs to it: reduceat from the event before it.
        cuts = np.stack([first, last + 1], axis=1).reshape(-1)
        padded = np.append(value, value[-1])
        low = np.minimum.reduceat(padded, cuts)[::2]
        high = np.maximum.reduceat(padded, cuts)[::2]
        return low, high, value[last]


def timeline(table: AllocationTable, rows: Array, amount: Array) -> Timeline:
    """The sum of ``amount`` over the live ones of some rows of a table, which ascend.

    Millions of rows: each array is large. Begins ascend with the rows, so only the ends are sorted, and put in between.
    """
    rows = np.flatnonzero(rows) if rows.dtype == bool else rows
    ended = rows[table.end[rows] != NEVER]
    ended = ended[np.argsort(table.end[ended], kind="stable")]
    ends = table.end[ended]
    places = np.searchsorted(table.begin[rows], ends, "right")
    places += np.arange(len(places))
    is_begin = np.ones(len(rows) + len(ended), bool)
    is_begin[places] = False
    times, values = np.empty(len(is_begin), np.int64), np.empty(len(is_begin), np.int64)
    times[places] = ends
    del ends
    values[places] = -amount[ended]
    del places, ended
    times[is_begin] = table.begin[rows]
    values[is_begin] = amount[rows]
    np.cumsum(values, out=values)
    if not len(times):
        return Timeline(times, values)
    last = np.append(times[1:] != times[:-1], True)  # events of one time happen at once
    return Timeline(times, values) if last.all() else Timeline(times[last], values[last])


class FreeSpace(NamedTuple):
    """Free bytes in each bank of an allocator, and the largest block of them, at some moments."""

    time: Array
    free: Array
    largest: Array


def free_space(
    table: AllocationTable, allocator: int, kind: Kind, times: Array, rows: Array | None = None
) -> FreeSpace:
    """The free space in an allocator's banks for one kind at some times, which ascend.

    ``rows`` are those of that allocator and kind, if they are known already.
    """
    region = table.allocators[allocator].regions[kind]
    if rows is None:
        rows = np.flatnonzero((table.allocator == allocator) & (table.kind == kind))
    free, largest = np.empty(len(times), np.int64), np.empty(len(times), np.int64)
    for place, live in enumerate(_live_sets(table, rows, times)):
        free[place], largest[place] = _free_in(region, table.address[live].astype(np.int64), table.per_bank[live])
    return FreeSpace(times, free, largest)


def _live_sets(table: AllocationTable, rows: Array, times: Iterable[int]) -> Iterator[Array]:
    """Which of the rows are live at each time. The next set is made from the one before."""
    begin, end = table.begin[rows], table.end[rows]
    live, done = np.zeros(0, np.int64), 0
    for time in times:
        until = int(np.searchsorted(begin, time, "right"))
        candidates = np.concatenate([live, np.arange(done, until)])
        live, done = candidates[end[candidates] > time], until
        yield rows[live]


def _free_in(region: BankRegion, address: Array, size: Array) -> tuple[int, int]:
    """Free bytes and the largest free block of a bank in which these blocks are taken."""
    order = np.argsort(address)
    start, stop = address[order], (address + size)[order]
    starts = np.append(start, region.base + region.size)
    stops = np.maximum.accumulate(np.insert(stop, 0, region.base))
    gaps = np.maximum(starts - stops, 0)
    return int(gaps.sum()), int(gaps.max())

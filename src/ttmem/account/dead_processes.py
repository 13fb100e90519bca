# SPDX-License-Identifier: Apache-2.0
"""Allocations of dead processes and closed devices, kept for snapshots and peaks."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from heapq import nlargest
from itertools import chain as join

from ttmem.account import launches
from ttmem.account.allocations import Allocation, Holding
from ttmem.account.totals import KEPT, Peak, keep_largest


class DeadAllocations:
    """Allocations that were all freed at once, at ``died``. Their tables are kept as they are and emptied in slices."""

    __slots__ = ("died", "largest_kept", "peaks", "tables")

    def __init__(self, holding: Holding, died: int) -> None:
        self.died = died
        self.tables = [table for table in holding.tables() if table]
        self.largest_kept: list[tuple[int, int, Allocation]] = []
        self.peaks: dict[Peak, int] = {}  # peaks that include these allocations, each with a bit mask of kinds

    def __len__(self) -> int:
        return sum(map(len, self.tables))

    def expect(self, peak: Peak, kind: int) -> bool:
        """Note that a peak includes the allocations of this kind. Returns True for a peak that was not noted before."""
        known = self.peaks.get(peak, 0)
        self.peaks[peak] = known | 1 << kind
        return not known

    def allocations_of(self, peak: Peak) -> Iterator[Allocation]:
        """The allocations that a peak includes."""
        kinds = self.peaks[peak]
        return (allocation for allocation in self.allocations() if kinds >> allocation.kind & 1)

    def allocations(self) -> Iterator[Allocation]:
        return join.from_iterable(table.values() for table in self.tables)

    def largest(self, count: int = KEPT) -> list[Allocation]:
        candidates = join(((t.size, t.born, t) for t in self.allocations()), self.largest_kept)
        return [item[2] for item in nlargest(count, candidates)]

    def close(self) -> None:
        """All tables are empty: remove the references to this object from the peaks."""
        for peak in self.peaks:
            if self in peak.dead_allocations:
                peak.dead_allocations.remove(self)

    def thin(self, limit: int) -> int:
        """Drop up to ``limit`` allocations, and keep the largest ones, which peaks and snapshots show."""
        done = 0
        # A peak that was reached after the death does not include these allocations.
        peaks = [(peak, kinds) for peak, kinds in self.peaks.items() if peak.seq < self.died]
        while self.tables and done < limit:
            table = self.tables[-1]
            while table and done < limit:
                allocation = table.popitem()[1]
                done += 1
                keep_largest(self.largest_kept, allocation)
                for peak, kinds in peaks:
                    if kinds >> allocation.kind & 1:
                        peak.leave(allocation)
            if not table:
                self.tables.pop()
        return done


class DeadProcesses:
    """Allocations of dead processes and closed devices. Above the cap, the oldest ones are dropped first."""

    def __init__(self, cap: int) -> None:
        self._cap = cap
        self._kept: deque[DeadAllocations] = deque()
        self._allocations = 0

    def __len__(self) -> int:
        return len(self._kept)

    def keep(self, holding: Holding, seq: int, *, exited: bool) -> DeadAllocations:
        """Free everything in a holding at once. The own totals of an exited process stay as they were at its exit.

        The programs of an exited process have left the cores before.
        """
        dead = DeadAllocations(holding, seq)
        if not exited:
            launches.leave(holding)
        if len(dead):
            for kind, leaf in enumerate(holding.leaves):
                if leaf is None:
                    continue
                for total in leaf.chain:
                    total.keep(dead, kind)
                for total in leaf.chain[leaf.own if exited else 1 :]:
                    total.drop(leaf)
                leaf.buried(dead, kind)
            self._kept.append(dead)
            self._allocations += len(dead)
        if not exited:
            holding.source.process.count -= len(dead)
            holding.clear()
        return dead

    def thin(self, limit: int) -> bool:
        """Drop at most ``limit`` allocations above the cap. Returns True if more are left to drop."""
        while self._kept and self._allocations > self._cap and limit > 0:
            done = self._kept[0].thin(limit)
            self._allocations -= done
            limit -= done
            if not self._kept[0].tables:
                self._kept.popleft().close()
        return self._allocations > self._cap

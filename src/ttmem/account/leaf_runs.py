# SPDX-License-Identifier: Apache-2.0
"""Runs: many allocations and frees of a leaf, added to the totals of its chain at once.

All totals of a chain change alike, unless one of them reaches a new high or an allocation is freed that was part of a
peak. Until then it is enough to sum up the changes, which takes a third of the time. The totals of a chain are not read
while it has a run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ttmem.account.totals import NOT_YET, Total

if TYPE_CHECKING:
    from ttmem.account.allocations import Allocation


class Run:
    """The changes of one leaf since the run began. Each allocation is plain: its reserved size is unknown."""

    __slots__ = ("_count", "_leaf", "_room", "_used", "_watch")

    def __init__(self, leaf: Total) -> None:
        self._leaf = leaf
        self._used = 0
        self._count = 0
        self._room = min([total.high - total.used for total in leaf.chain])  # with more, a total reaches a new high
        self._watch = max([total.watch for total in leaf.chain])  # an allocation with a later birth is in no peak

    def add(self, size: int, seq: int, time: float) -> None:
        """The same as `Total.add` of the leaf."""
        used = self._used + size
        if used > self._room:
            self.end()
            self._leaf.add(size, seq, time)
        else:
            self._used = used
            self._count += 1

    def remove(self, allocation: Allocation) -> None:
        """The same as `Total.remove` of the leaf."""
        if allocation.born <= self._watch:
            self.end()
            self._leaf.remove(allocation, allocation.size)
        else:
            self._used -= allocation.size
            self._count -= 1

    def end(self) -> None:
        """Add the changes to the chain. Further ones are added one by one, because more highs are likely to follow."""
        if self._count or self._used:
            for total in self._leaf.chain:
                total.used += self._used
                total.unknown += self._count
        self._used = self._count = 0
        self._room, self._watch = -1, NOT_YET


class Runs:
    """The runs of some leaves at the same time. No total is in the chains of two of them."""

    def __init__(self) -> None:
        self._runs: list[Run] = []
        self._totals: set[Total] = set()

    def begin(self, leaf: Total) -> Run:
        """The run of a leaf that has none yet."""
        run = Run(leaf)
        self._runs.append(run)
        if leaf.all_chips is not None or not self._totals.isdisjoint(leaf.chain):
            self.end()
        self._totals.update(leaf.chain)
        return run

    def end(self) -> None:
        for run in self._runs:
            run.end()

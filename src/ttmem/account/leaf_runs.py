# SPDX-License-Identifier: Apache-2.0
"""Runs: many allocations and frees of a leaf, added to the totals of its chain at once.

All totals of a chain change alike, unless one of them reaches a new high or an allocation is freed that was part of a
peak. Until then it is enough to sum up the changes, which takes a third of the time. The totals of a chain are not read
while it has a run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ttmem.model.kinds import Kind

if TYPE_CHECKING:
    from ttmem.account.allocations import Holding
    from ttmem.account.totals import Total


class LeafRun:
    """The sums of one leaf. The caller changes them, and the tables of the holding, as long as the limits allow it.

    The limits: ``used`` is at most ``room``, ``reserved`` at most ``reserved_room``, and what is freed was born after
    ``watch``.
    """

    __slots__ = ("buffers", "chain", "holding", "kind", "known", "reserved", "reserved_room", "room", "unknown", "used",
                 "watch")  # fmt: skip

    def __init__(self, holding: Holding, kind: Kind, leaf: Total) -> None:
        self.holding = holding
        self.buffers = holding.buffers
        self.kind = kind
        self.chain = chain = leaf.chain
        self.used = 0
        self.reserved = 0
        self.known = 0  # number of allocations whose reserved size is known
        self.unknown = 0  # number of the others
        self.room = min([total.high - total.used for total in chain])  # with more, a total reaches a new high
        self.reserved_room = min([total.reserved_high - total.reserved for total in chain])
        self.watch = max([total.watch for total in chain])  # an allocation with a later birth is in no peak


class LeafRuns:
    """The runs of some leaves at the same time. No total is in the chains of two of them."""

    def __init__(self) -> None:
        self._runs: list[LeafRun] = []
        self._totals: set[Total] = set()

    def begin(self, run: LeafRun) -> bool:
        """Whether the leaf can have a run: not if another run changes the same totals."""
        if not self._totals.isdisjoint(run.chain) or run.chain[0].all_chips is not None:
            return False
        self._runs.append(run)
        self._totals.update(run.chain)
        return True

    def end(self) -> None:
        """Add the sums to the totals."""
        for run in self._runs:
            used, reserved, known, unknown = run.used, run.reserved, run.known, run.unknown
            for total in run.chain:
                total.used += used
                total.reserved += reserved
                total.known += known
                total.unknown += unknown

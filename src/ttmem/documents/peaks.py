# SPDX-License-Identifier: Apache-2.0
"""Finds the allocations that were live at the peak of each pool and kind, of the chips or of one process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from ttmem.account.allocations import Allocation
from ttmem.account.entities import Chip, Process
from ttmem.account.ledger import Ledger
from ttmem.account.live_set import counts
from ttmem.account.totals import Peak, Total, keep_largest
from ttmem.documents.snapshot import allocation, in_order
from ttmem.model.kinds import KINDS, POOL_OF, Kind, Pool

if TYPE_CHECKING:
    from ttmem.model.schema import PeakRow, TotalName

SCHEMA: Final = "ttmem.peaks/1"
_KINDS_OF = {pool: [kind for kind in KINDS if POOL_OF[kind] is pool] for pool in Pool}

_Heap = list[tuple[int, int, Allocation]]


class PeakFinder:
    """Finds the allocations of each peak in one pass over the live allocations, which may be done in slices.

    The peaks are those of the chips, or of one process on its chips, living or exited.
    """

    def __init__(self, ledger: Ledger, *, recent: bool = False, process: Process | None = None) -> None:
        self._process = process
        self._corners: list[tuple[TotalName, Peak, _Heap]] = []
        self._by_kind: dict[tuple[str, Kind], list[tuple[Peak, _Heap]]] = {}
        if process is not None:
            self._look_at_process(process, recent)
            return
        for chip in in_order(ledger.chips.values()):  # also those that no process uses any more
            for pool in Pool:
                name: TotalName = {"chip": chip.id, "pool": pool.label}
                self._corner(chip, name, chip.pools[pool], _KINDS_OF[pool], recent)
            for kind in KINDS:
                self._corner(chip, {"chip": chip.id, "kind": kind.label}, chip.kinds[kind], [kind], recent)

    def _look_at_process(self, process: Process, recent: bool) -> None:
        for share in process.shares.values():
            for pool in Pool:
                name: TotalName = {"chip": share.chip.id, "pool": pool.label}
                self._corner(share.chip, name, share.pools[pool], _KINDS_OF[pool], recent)
        for holding in process.holdings():
            for kind, leaf in zip(KINDS, holding.leaves):
                if leaf is not None and leaf.counts:
                    name = {"chip": holding.chip.id, "kind": kind.label, "device": holding.number}
                    self._corner(holding.chip, name, leaf, [kind], recent)

    def _corner(self, chip: Chip, name: TotalName, total: Total, kinds: list[Kind], recent: bool) -> None:
        peak = total.recent if recent else total.peak
        if peak.value:
            heap: _Heap = []
            self._corners.append((name, peak, heap))
            for kind in kinds:
                self._by_kind.setdefault((chip.id, kind), []).append((peak, heap))

    def add(self, item: Allocation) -> None:
        """Add a live allocation."""
        if counts(item) and self._process in (None, item.holding.source.process):
            for peak, heap in self._by_kind.get((item.holding.chip.id, item.kind), ()):
                if item.born <= peak.seq:
                    keep_largest(heap, item)

    def results(self, may_see: Callable[[int | None], bool] = lambda user_id: True) -> Iterator[PeakRow]:
        """Each peak: bytes, time, and its largest allocations."""
        for name, peak, heap in self._corners:
            largest = [
                allocation(item, see_tag=may_see(item.holding.source.process.info.user_id))
                for item in peak.largest(item for _, _, item in heap)
            ]
            yield {**name, "bytes": peak.value, "time": peak.time, "largest": largest}


def peaks(ledger: Ledger, *, recent: bool = False) -> list[PeakRow]:
    """The peak of each pool and kind of each chip, with the largest allocations live then."""
    finder = PeakFinder(ledger, recent=recent)
    for item in ledger.allocations():
        finder.add(item)
    return [*finder.results()]

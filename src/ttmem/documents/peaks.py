# SPDX-License-Identifier: Apache-2.0
"""Finds the allocations that were live at the peak of each pool and kind, of the chips or of one process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final

from ttmem.account.allocations import Allocation
from ttmem.account.entities import Chip, Process
from ttmem.account.ledger import Ledger
from ttmem.account.live_set import counted_chips
from ttmem.account.totals import Peak, Total, keep_largest
from ttmem.documents.snapshot import allocation, in_order
from ttmem.model.kinds import KINDS, KINDS_OF, Kind, Pool

if TYPE_CHECKING:
    from ttmem.model.schema import PeakRow, TotalName

SCHEMA: Final = "ttmem.peaks/1"

_Heap = list[tuple[int, int, Allocation]]


class PeakFinder:
    """Finds the allocations of each peak in one pass over the live allocations, which may be done in slices.

    The peaks are those of the chips, or of one process on its chips, living or exited.
    """

    def __init__(self, ledger: Ledger, *, recent: bool = False, process: Process | None = None) -> None:
        self._process = process
        self._corners: list[tuple[TotalName, Chip, Peak]] = []
        self._heaps: dict[Peak, _Heap] = {}  # chips that share a total share its peak
        self._by_kind: dict[tuple[Chip, Kind], list[tuple[Peak, _Heap]]] = {}
        self._recent = recent
        if process is not None:
            self._look_at_process(process)
            return
        for chip in in_order(ledger.chips.values()):  # also those that no process uses any more
            for pool in Pool:
                name: TotalName = {"chip": chip.id, "pool": pool.label}
                self._corner(chip, name, chip.pools[pool], KINDS_OF[pool])
            for kind in KINDS:
                self._corner(chip, {"chip": chip.id, "kind": kind.label}, chip.kinds[kind], [kind])

    def _look_at_process(self, process: Process) -> None:
        for share in process.shares.values():
            for pool in Pool:
                name: TotalName = {"chip": share.chip.id, "pool": pool.label}
                self._corner(share.chip, name, share.pools[pool], KINDS_OF[pool])
        for source in process.sources.values():
            for (number, kind), total in sorted(source.totals.items(), key=lambda item: item[0]):
                chip = process.numbers[number]
                if process.shares[chip.id].voices[kind] is source:
                    self._corner(chip, {"chip": chip.id, "kind": kind.label, "device": number}, total, [kind])

    def _corner(self, chip: Chip, name: TotalName, total: Total, kinds: Iterable[Kind]) -> None:
        peak = total.recent if self._recent else total.peak
        if peak.value:
            self._corners.append((name, chip, peak))
            if peak not in self._heaps:
                heap = self._heaps[peak] = []
                for kind in kinds:
                    self._by_kind.setdefault((chip, kind), []).append((peak, heap))

    def add(self, item: Allocation) -> None:
        """Add a live allocation."""
        if self._process not in (None, item.holding.source.process):
            return
        done: set[Peak] = set()
        for chip in counted_chips(item):
            for peak, heap in self._by_kind.get((chip, item.kind), ()):
                if item.born <= peak.seq and peak not in done:
                    done.add(peak)
                    keep_largest(heap, item)

    def results(self, may_see: Callable[[int | None], bool] = lambda user_id: True) -> Iterator[PeakRow]:
        """Each peak: bytes, time, and its largest allocations."""
        largest: dict[Peak, list[Allocation]] = {}
        for name, chip, peak in self._corners:
            if peak not in largest:
                largest[peak] = peak.largest(item for _, _, item in self._heaps[peak])
            rows = [
                allocation(item, chip, see_tag=may_see(item.holding.source.process.info.user_id))
                for item in largest[peak]
            ]
            yield {**name, "bytes": peak.value, "time": peak.time, "largest": rows}


def peaks(ledger: Ledger, *, recent: bool = False) -> list[PeakRow]:
    """The peak of each pool and kind of each chip, with the largest allocations live then."""
    finder = PeakFinder(ledger, recent=recent)
    for item in ledger.allocations():
        finder.add(item)
    return [*finder.results()]

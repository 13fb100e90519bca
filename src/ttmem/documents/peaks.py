# SPDX-License-Identifier: Apache-2.0
"""Finds the allocations that were live at the peak of each pool and kind, of the chips or of one process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from ttmem.account.allocations import Allocation
from ttmem.account.entities import Chip, Process
from ttmem.account.ledger import Ledger
from ttmem.account.totals import Peak, Total, keep_largest
from ttmem.analyze.chip_sums import CountedChips
from ttmem.documents.snapshot import allocation, in_order
from ttmem.model.kinds import KINDS, KINDS_OF, Kind, Pool

if TYPE_CHECKING:
    from ttmem.model.schema import PeakName, PeakRow

SCHEMA: Final = "ttmem.peaks/1"

_Heap = list[tuple[int, int, Allocation]]


class _Corner(NamedTuple):
    """A total of one chip; of a process, ``device`` is its number of the chip."""

    name: tuple[str, str]  # "pool" or "kind", and its label
    chip: Chip
    device: int | None
    peak: Peak


class PeakFinder:
    """Finds the allocations of each peak in one pass over the live allocations, which may be done in slices.

    The peaks are those of the chips, or of one process on its chips, living or exited.
    """

    def __init__(self, ledger: Ledger, *, recent: bool = False, process: Process | None = None) -> None:
        self._process = process
        self._corners: list[_Corner] = []
        self._heaps: dict[Peak, _Heap] = {}  # chips that share a total share its peak
        self._by_kind: dict[tuple[Chip, Kind], list[tuple[Peak, _Heap]]] = {}
        self._counted = CountedChips()
        self._known: dict[tuple[Total, tuple[Chip, ...]], list[tuple[Peak, _Heap]]] = {}
        self._recent = recent
        if process is not None:
            self._look_at_process(process)
            return
        for chip in in_order(ledger.chips.values()):  # also those that no process uses any more
            for pool in Pool:
                self._corner(("pool", pool.label), chip, None, chip.pools[pool], KINDS_OF[pool])
            for kind in KINDS:
                self._corner(("kind", kind.label), chip, None, chip.kinds[kind], [kind])

    def _look_at_process(self, process: Process) -> None:
        for share in process.shares.values():
            for pool in Pool:
                self._corner(("pool", pool.label), share.chip, None, share.pools[pool], KINDS_OF[pool])
        for source in process.sources.values():
            for (number, kind), total in sorted(source.totals.items(), key=lambda item: item[0]):
                chip = process.numbers[number]
                if process.shares[chip.id].voices[kind] is source:
                    self._corner(("kind", kind.label), chip, number, total, [kind])

    def _corner(
        self, name: tuple[str, str], chip: Chip, device: int | None, total: Total, kinds: Iterable[Kind]
    ) -> None:
        peak = total.recent if self._recent else total.peak
        if peak.at_most:  # otherwise nothing was ever there
            self._corners.append(_Corner(name, chip, device, peak))
            if peak not in self._heaps:
                heap = self._heaps[peak] = []
                for kind in kinds:
                    self._by_kind.setdefault((chip, kind), []).append((peak, heap))

    def add(self, item: Allocation) -> None:
        """Add a live allocation."""
        if self._process not in (None, item.holding.source.process):
            return
        leaf, chips = item.holding.leaves[item.kind], self._counted.of(item).chips
        if leaf is None or not chips:
            return
        peaks = self._known.get((leaf, chips))
        if peaks is None:  # chips that share a peak have it once
            found = {peak: heap for chip in chips for peak, heap in self._by_kind.get((chip, item.kind), ())}
            peaks = self._known[leaf, chips] = list(found.items())
        for peak, heap in peaks:
            if item.born <= peak.seq:
                keep_largest(heap, item)

    def results(self, may_see: Callable[[int | None], bool] = lambda user_id: True) -> Iterator[PeakRow]:
        """Each peak: bytes on one chip, time, and its largest allocations.

        Chips whose totals reached the same value at the same time with the same allocations are in one row.
        """
        largest: dict[Peak, tuple[Allocation, ...]] = {}
        rows: dict[tuple[object, ...], list[_Corner]] = {}
        for corner in self._corners:
            peak = corner.peak
            if peak not in largest:
                largest[peak] = tuple(peak.largest(item for _, _, item in self._heaps[peak]))
            key = (corner.name, peak.value, peak.at_most, peak.time, *map(id, largest[peak]))
            rows.setdefault(key, []).append(corner)
        for corners in rows.values():
            first, chips = corners[0], tuple(corner.chip for corner in corners)
            yield {
                **_name(first.name, corners),
                "per_chip": first.peak.value,
                "at_most": first.peak.limit,
                "time": first.peak.time if first.peak.value else None,
                "largest": [
                    allocation(item, chips, see_tag=may_see(item.holding.source.process.info.user_id))
                    for item in largest[first.peak]
                ],
            }


def _name(name: tuple[str, str], corners: list[_Corner]) -> PeakName:
    chips = [corner.chip.id for corner in corners]
    if name[0] == "pool":
        return {"chips": chips, "pool": name[1]}
    devices = [corner.device for corner in corners if corner.device is not None]
    return {"chips": chips, "kind": name[1], "devices": devices} if devices else {"chips": chips, "kind": name[1]}


def peaks(ledger: Ledger, *, recent: bool = False) -> list[PeakRow]:
    """The peaks of each pool and kind of all chips, with the largest allocations live then."""
    finder = PeakFinder(ledger, recent=recent)
    for item in ledger.allocations():
        finder.add(item)
    return [*finder.results()]

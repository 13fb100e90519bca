# SPDX-License-Identifier: Apache-2.0
"""Running totals with their peaks, and what was live at a peak, without a scan per event.

An allocation was live at a peak when ``born <= peak.seq < died``. Those still live are found by asking the ledger. Of
those freed since the peak only the largest are kept. The allocations of a process that exited since are kept, and
searched on request.
"""

from __future__ import annotations

from heapq import heappush, heappushpop, nlargest
from itertools import chain as join
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ttmem.account.allocations import Allocation
    from ttmem.account.dead_processes import DeadAllocations
    from ttmem.account.entities import Chip

KEPT = 20
NOT_YET = 1 << 63  # the birth of an allocation that does not count yet: later than any peak


def keep_largest(heap: list[tuple[int, int, Allocation]], allocation: Allocation) -> None:
    """Add an allocation to a heap of the KEPT largest."""
    if len(heap) < KEPT:
        heappush(heap, (allocation.size, allocation.born, allocation))
    elif allocation.size > heap[0][0]:
        heappushpop(heap, (allocation.size, allocation.born, allocation))


class Peak:
    """The highest value of a total, when it was reached, and the largest allocations of it that were freed since."""

    __slots__ = ("dead_allocations", "gone", "seq", "time", "value")

    def __init__(self, value: int = 0, seq: int = 0, time: float = 0.0) -> None:
        self.value = value
        self.seq = seq
        self.time = time
        self.gone: list[tuple[int, int, Allocation]] = []
        self.dead_allocations: list[DeadAllocations] = []

    def reach(self, value: int, seq: int, time: float) -> None:
        self.value = value
        self.seq = seq
        self.time = time
        if self.gone:
            self.gone = []
        if self.dead_allocations:
            self.dead_allocations = []

    def copy(self) -> Peak:
        """The same peak of another total; dead processes' allocations that were part of it know both."""
        twin = Peak(self.value, self.seq, self.time)
        twin.gone = self.gone.copy()
        twin.dead_allocations = self.dead_allocations.copy()
        for dead in self.dead_allocations:
            dead.peaks[twin] = dead.peaks[self]
        return twin

    def leave(self, allocation: Allocation) -> None:
        """An allocation is about to go; remember it if it was part of the peak."""
        if allocation.born <= self.seq:
            keep_largest(self.gone, allocation)

    def largest(self, live: Iterable[Allocation], count: int = KEPT) -> list[Allocation]:
        """The largest allocations of the peak; ``live`` are those that this total counts now."""
        seq = self.seq
        dead_held = (allocation for dead in self.dead_allocations for allocation in dead.allocations_of(self))
        past = join(live, dead_held)
        candidates = join(
            ((t.size, t.born, t) for t in past if t.born <= seq),
            self.gone,
        )
        return [item[2] for item in nlargest(count, candidates)]


class PeakContents(Peak):
    """A peak that remembers everything that was live at it: as much as was live then, and never more."""

    __slots__ = ("all_gone",)

    def __init__(self) -> None:
        super().__init__()
        self.all_gone: list[Allocation] = []

    def reach(self, value: int, seq: int, time: float) -> None:
        super().reach(value, seq, time)
        self.all_gone = []

    def leave(self, allocation: Allocation) -> None:
        if allocation.born <= self.seq:
            self.all_gone.append(allocation)

    def allocations(self, live: Iterable[Allocation]) -> list[Allocation]:
        """All that was live at the peak, given what is live now."""
        dead_held = (allocation for dead in self.dead_allocations for allocation in dead.allocations_of(self))
        return [allocation for allocation in join(live, dead_held) if allocation.born <= self.seq] + self.all_gone


class Total:
    """Bytes and number of live allocations in one corner of the account, and every larger corner it is part of.

    Three high-water marks, each at most the next: ``high`` since somebody last lowered it, ``recent`` since a reset,
    ``peak`` since the start. So one comparison per event decides whether any of them moves. Samples lower a chip's
    ``high``, phases a process's; what it was before a reset is kept for them.

    What one source of one process holds of one kind on one device or mesh is a *leaf*: allocations are added to it and
    removed from it, and all totals of its ``chain`` follow. The totals of a chain are of one class on purpose: the
    interpreter finds an attribute fast where it found it last time.

    Chips on which the same leaves count share the totals above them (see `shared_totals`).
    """

    __slots__ = (
        "chain",
        "chips",
        "high",
        "high_before",
        "known",
        "own",
        "peak",
        "recent",
        "reserved",
        "reserved_peak",
        "since",
        "unknown",
        "used",
        "watch",
    )

    def __init__(self, since: int = 0, peak: Peak | None = None) -> None:
        self.used = 0
        self.reserved = 0  # of those allocations whose reserved size is known
        self.known = 0  # how many those are
        self.unknown = 0  # and how many the others
        self.reserved_peak = 0
        self.high = 0
        self.high_before = 0  # what high was in this sample before it was lowered
        self.peak = peak or Peak()
        self.recent = Peak()
        self.watch = 0  # recent.seq; an allocation born later was part of no peak
        self.since = since  # of a leaf: when its source first spoke of this kind
        self.chain: tuple[Total, ...] = ()  # of a leaf: itself and the larger ones
        self.own = 0  # of a leaf: how many of its chain are its process's
        self.chips: frozenset[Chip] = frozenset()  # of a leaf: where it counts; of others: the chips that share it

    @property
    def count(self) -> int:
        return self.known + self.unknown

    @property
    def counts(self) -> bool:
        """Is a leaf part of any chip's totals, or set aside because a stronger source reports the same (rule 12)?"""
        return bool(self.chips)

    def add(self, size: int, seq: int, time: float) -> None:
        for total in self.chain:
            total.used = used = total.used + size
            total.unknown += 1
            if used > total.high:
                total.rise(used, seq, time)

    def add_taken(self, size: int, reserved: int, seq: int, time: float) -> None:
        """The same for an allocation of which it is known what the allocator took."""
        for total in self.chain:
            total.used = used = total.used + size
            total.known += 1
            total.reserved = taken = total.reserved + reserved
            if taken > total.reserved_peak:
                total.reserved_peak = taken
            if used > total.high:
                total.rise(used, seq, time)

    def remove(self, allocation: Allocation, size: int) -> None:
        born = allocation.born
        for total in self.chain:
            total.used -= size
            total.unknown -= 1
            if born <= total.watch:
                total.leave(allocation)

    def remove_taken(self, allocation: Allocation, size: int, reserved: int) -> None:
        born = allocation.born
        for total in self.chain:
            total.used -= size
            total.known -= 1
            total.reserved -= reserved
            if born <= total.watch:
                total.leave(allocation)

    def rise(self, used: int, seq: int, time: float) -> None:
        self.high = used
        if used > self.recent.value:
            self.watch = seq
            self.recent.reach(used, seq, time)
            if used > self.peak.value:
                self.peak.reach(used, seq, time)

    def leave(self, allocation: Allocation) -> None:
        self.recent.leave(allocation)
        self.peak.leave(allocation)

    def keep(self, dead: DeadAllocations, kind: int) -> None:
        """Many allocations of a kind go at once; they are looked through later, if ever."""
        for peak in (self.recent, self.peak):
            if peak.value and dead.expect(peak, kind):
                peak.dead_allocations.append(dead)

    def reset_recent(self, seq: int, time: float) -> None:
        self.recent = Peak(self.used, seq, time)
        self.watch = seq
        self._lower()

    def take_high(self) -> int:
        """The highest value since the last call; starts the next sample."""
        self._lower()
        high, self.high_before = self.high_before, 0
        return high

    def _lower(self) -> None:
        high, self.high = self.high, self.used
        if high > self.high_before:
            self.high_before = high

    def copy(self) -> Total:
        """A total that is what this one is, and was what this one was."""
        twin = Total(self.since, self.peak.copy())
        twin.recent = self.recent.copy()
        twin.used, twin.reserved, twin.known, twin.unknown = self.used, self.reserved, self.known, self.unknown
        twin.reserved_peak, twin.high, twin.high_before = self.reserved_peak, self.high, self.high_before
        twin.watch = self.watch
        return twin

    def recounted(self, before: int, seq: int, time: float) -> None:
        """Of a leaf: it counts on other chips now; on ``before`` of them until now."""

    def stops(self, allocation: Allocation) -> None:
        """Of a leaf: an allocation counts nowhere for a moment or for good, but is still live."""

    def arrived(self, used: int, seq: int, time: float) -> None:
        """Of a leaf: so many bytes were added to all totals of its chain at once."""

    def buried(self, dead: DeadAllocations, kind: int) -> None:
        """Of a leaf: all its allocations went at once, and were removed from its chain."""

    def merge(self, other: Total) -> None:
        """Count another total's allocations here too, as when a chip's name becomes known; peaks are the caller's."""
        self.reserved += other.reserved
        self.known += other.known
        self.unknown += other.unknown
        self.reserved_peak = max(self.reserved_peak, self.reserved)
        self.used += other.used

    def drop(self, other: Total) -> None:
        """Stop counting another total's allocations here."""
        self.used -= other.used
        self.reserved -= other.reserved
        self.known -= other.known
        self.unknown -= other.unknown

    @property
    def reserved_bytes(self) -> int | None:
        """What the allocator took, None unless it is known of every live allocation."""
        return None if self.unknown else self.reserved


class TotalWithContents:
    """A total that can say everything that was live at its peak, also what it does not count (see ``beside``)."""

    def __init__(self) -> None:
        self.peak = PeakContents()
        self.total = Total(peak=self.peak)
        self.beside = _CompanionTotal(self.total)

    def allocations(self, live: Iterable[Allocation]) -> list[Allocation]:
        """All that was live at the peak, given what is live now."""
        return self.peak.allocations(live)


class LeafOfAllChips(Total):
    """A leaf that counts in a total over all chips as well: there once for each of its chips."""

    __slots__ = ("_all",)

    def __init__(self, since: int, all_chips: Total) -> None:
        super().__init__(since)
        self._all = all_chips

    def add(self, size: int, seq: int, time: float) -> None:
        super().add(size, seq, time)
        self._grow(size * len(self.chips), seq, time)

    def add_taken(self, size: int, reserved: int, seq: int, time: float) -> None:
        super().add_taken(size, reserved, seq, time)
        self._grow(size * len(self.chips), seq, time)

    def remove(self, allocation: Allocation, size: int) -> None:
        super().remove(allocation, size)
        self._shrink(allocation, size)

    def remove_taken(self, allocation: Allocation, size: int, reserved: int) -> None:
        super().remove_taken(allocation, size, reserved)
        self._shrink(allocation, size)

    def recounted(self, before: int, seq: int, time: float) -> None:
        self._grow(self.used * (len(self.chips) - before), seq, time)

    def arrived(self, used: int, seq: int, time: float) -> None:
        self._grow(used * len(self.chips), seq, time)

    def buried(self, dead: DeadAllocations, kind: int) -> None:
        if self.chips:
            self._all.keep(dead, kind)
            self._all.used -= self.used * len(self.chips)

    def stops(self, allocation: Allocation) -> None:
        if self.chips:
            self._all.leave(allocation)

    def _grow(self, size: int, seq: int, time: float) -> None:
        total = self._all
        total.used += size
        if total.used > total.high:
            total.rise(total.used, seq, time)

    def _shrink(self, allocation: Allocation, size: int) -> None:
        if self.chips:
            self._all.used -= size * len(self.chips)
            if allocation.born <= self._all.watch:
                self._all.leave(allocation)


class _CompanionTotal(Total):
    """Counts for itself, but what leaves it is remembered with another total's peak."""

    __slots__ = ("_other",)

    def __init__(self, other: Total) -> None:
        super().__init__()
        self._other = other
        self.watch = 1 << 62  # whether an allocation was part of the peak is for that peak to say

    def rise(self, used: int, seq: int, time: float) -> None:
        self.high = used

    def leave(self, allocation: Allocation) -> None:
        self._other.peak.leave(allocation)

    def keep(self, dead: DeadAllocations, kind: int) -> None:
        self._other.keep(dead, kind)

# SPDX-License-Identifier: Apache-2.0
"""Totals with their peaks, and the allocations that were live at a peak, without a scan per event.

An allocation was live at a peak if ``born <= peak.seq < died``. Allocations that are still live are found in the
ledger. Of those that were freed since the peak, only the largest are kept. The allocations of a process that exited
since the peak are kept, and searched on request.
"""

from __future__ import annotations

from heapq import heappush, heappushpop, nlargest
from itertools import chain as join
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ttmem.account.allocations import Allocation
    from ttmem.account.dead_processes import DeadAllocations
    from ttmem.account.entities import Chip, Source

KEPT = 20
_IN_GAP = 1 << 62  # a high that no total reaches
NOT_YET = 1 << 63  # birth of an allocation that does not count yet; it is later than any peak


def keep_largest(heap: list[tuple[int, int, Allocation]], allocation: Allocation) -> None:
    """Add an allocation to a heap of the KEPT largest."""
    if len(heap) < KEPT:
        heappush(heap, (allocation.size, allocation.born, allocation))
    elif allocation.size > heap[0][0]:
        heappushpop(heap, (allocation.size, allocation.born, allocation))


class Bounds(NamedTuple):
    """How high something was. Both are equal if that is known exactly."""

    at_least: int
    at_most: int

    def beside(self, other: Bounds) -> Bounds:
        """Together with something that was as high as this, perhaps at another time."""
        return Bounds(max(self.at_least, other.at_least), self.at_most + other.at_most)


class HighBounds(NamedTuple):
    """How high a total was: requested bytes since the last reset and since the start, and reserved bytes."""

    recent: Bounds
    ever: Bounds
    reserved: Bounds

    def beside(self, other: HighBounds) -> HighBounds:
        return HighBounds(*(mine.beside(its) for mine, its in zip(self, other)))

    @property
    def upper(self) -> HighBounds:
        """The same without lower limits."""
        return HighBounds(*(Bounds(0, bounds.at_most) for bounds in self))


NOBODY = HighBounds(Bounds(0, 0), Bounds(0, 0), Bounds(0, 0))


class Peak:
    """The highest value of a total, its time, and the largest allocations of it that were freed since."""

    __slots__ = ("bound", "dead_allocations", "gone", "seq", "time", "value")

    def __init__(self, value: int = 0, seq: int = 0, time: float | None = 0.0) -> None:
        self.value = value
        self.bound = 0  # the peak may have been as high as this, among lost records; see `missed_peaks`
        self.seq = seq
        self.time = time  # None: it was among lost records
        self.gone: list[tuple[int, int, Allocation]] = []
        self.dead_allocations: list[DeadAllocations] = []

    def reach(self, value: int, seq: int, time: float | None) -> None:
        self.value = value
        self.seq = seq
        self.time = time
        if self.gone:
            self.gone = []
        if self.dead_allocations:
            self.dead_allocations = []

    @property
    def bounds(self) -> Bounds:
        return Bounds(self.value, self.at_most)

    @property
    def at_most(self) -> int:
        """The highest that the peak can have been; ``value`` if that is exact."""
        return max(self.value, self.bound)

    @property
    def limit(self) -> int | None:
        """The highest that the peak can have been, if ``value`` is only a lower limit; None if it is exact."""
        return self.bound if self.bound > self.value else None

    def miss(self, at_least: int, at_most: int) -> None:
        """The total was as high as this among lost records. What was live then is not known."""
        if at_least > self.value:
            self.reach(at_least, 0, None)
        self.bound = max(self.bound, at_most)

    def copy(self) -> Peak:
        """The same peak for a copy of the total. It is also registered with the dead allocations that it includes."""
        twin = Peak(self.value, self.seq, self.time)
        twin.bound = self.bound
        twin.gone = self.gone.copy()
        twin.dead_allocations = self.dead_allocations.copy()
        for dead in self.dead_allocations:
            dead.peaks[twin] = dead.peaks[self]
        return twin

    def leave(self, allocation: Allocation) -> None:
        """An allocation is about to be removed. Keep it if it was part of the peak."""
        if allocation.born <= self.seq:
            keep_largest(self.gone, allocation)

    def largest(self, live: Iterable[Allocation], count: int = KEPT) -> list[Allocation]:
        """The largest allocations of the peak. ``live`` are the allocations that the total counts now."""
        seq = self.seq
        dead_held = (allocation for dead in self.dead_allocations for allocation in dead.allocations_of(self))
        past = join(live, dead_held)
        candidates = join(
            ((t.size, t.born, t) for t in past if t.born <= seq),
            self.gone,
        )
        return [item[2] for item in nlargest(count, candidates)]


class PeakContents(Peak):
    """A peak that keeps all allocations that were live at it. It never keeps more than these."""

    __slots__ = ("all_gone",)

    def __init__(self) -> None:
        super().__init__()
        self.all_gone: list[Allocation] = []

    def reach(self, value: int, seq: int, time: float | None) -> None:
        super().reach(value, seq, time)
        self.all_gone = []

    def leave(self, allocation: Allocation) -> None:
        if allocation.born <= self.seq:
            self.all_gone.append(allocation)

    def allocations(self, live: Iterable[Allocation]) -> list[Allocation]:
        """All allocations of the peak. ``live`` are the allocations that are live now."""
        dead_held = (allocation for dead in self.dead_allocations for allocation in dead.allocations_of(self))
        return [allocation for allocation in join(live, dead_held) if allocation.born <= self.seq] + self.all_gone


class Total:
    """Bytes and number of some live allocations, such as those of one kind on a chip.

    It has three maxima, each at most the next: ``high`` since it was last lowered, ``recent`` since the last reset,
    ``peak`` since the start. So one comparison per event decides whether any of them changes. The sampler lowers the
    ``high`` of chips, phases lower that of processes. A reset of the peaks also lowers ``high``; ``high_before`` then
    keeps its value for the sampler.

    A *leaf* is the total of what one source of one process holds of one kind on one device or mesh. Allocations are
    added to a leaf and removed from it, which changes all totals of its ``chain``: the leaf itself and the larger
    totals that include it. All totals of a chain have the same class, because the interpreter accesses attributes
    faster if the class does not change.

    Chips on which the same leaves count share the totals above these leaves (see `shared_totals`).
    """

    __slots__ = (
        "all_chips",
        "chain",
        "chips",
        "gaps",
        "high",
        "high_before",
        "known",
        "left",
        "own",
        "peak",
        "recent",
        "reserved",
        "reserved_bound",
        "reserved_high",
        "reserved_peak",
        "since",
        "unknown",
        "used",
        "watch",
    )

    def __init__(self, since: int = 0, peak: Peak | None = None, all_chips: Total | None = None) -> None:
        self.used = 0
        self.reserved = 0  # bytes of the allocations whose reserved size is known
        self.known = 0  # number of these allocations
        self.unknown = 0  # number of the other allocations
        self.reserved_peak = 0
        self.reserved_high = 0  # what ``reserved`` must exceed to raise the peak: the peak, except in a gap
        self.reserved_bound = 0  # it may have been as high as this, among lost records
        self.high = 0
        self.high_before = 0  # maximum of the current sample before a reset lowered ``high``
        self.gaps: frozenset[Source] = frozenset()  # sources in this total whose records are not read at the moment
        self.left = NOBODY  # what processes held that exited during the gap
        self.peak = peak or Peak()
        self.recent = Peak()
        self.watch = 0  # an allocation with a later birth was part of no peak
        self.since = since  # leaf only: sequence number of the first report of this kind
        self.chain: tuple[Total, ...] = ()  # leaf only: itself and the totals that include it
        self.all_chips = all_chips  # leaf only: a total over all chips, in which it counts once for each of its chips
        self.own = 0  # leaf only: the number of totals in its chain that belong to its process
        self.chips: frozenset[Chip] = frozenset()  # leaf: where it counts; other totals: the chips that share it

    @property
    def count(self) -> int:
        return self.known + self.unknown

    @property
    def counts(self) -> bool:
        """Whether a leaf counts on any chip, and is not set aside for a source with a higher confidence (rule 12)."""
        return bool(self.chips)

    def add(self, size: int, seq: int, time: float) -> None:
        for total in self.chain:
            total.used = used = total.used + size
            total.unknown += 1
            if used > total.high:
                total.rise(used, seq, time)
        if self.all_chips is not None:
            self._grow(self.all_chips, size * len(self.chips), seq, time)

    def add_taken(self, size: int, reserved: int, seq: int, time: float) -> None:
        """The same for an allocation whose reserved size is known."""
        for total in self.chain:
            total.used = used = total.used + size
            total.known += 1
            total.reserved = taken = total.reserved + reserved
            if taken > total.reserved_high:
                total.reserved_peak = total.reserved_high = taken
            if used > total.high:
                total.rise(used, seq, time)
        if self.all_chips is not None:
            self._grow(self.all_chips, size * len(self.chips), seq, time)

    def remove(self, allocation: Allocation, size: int) -> None:
        born = allocation.born
        for total in self.chain:
            total.used -= size
            total.unknown -= 1
            if born <= total.watch:
                total.leave(allocation)
        if self.all_chips is not None:
            self._shrink(self.all_chips, allocation, size)

    def remove_taken(self, allocation: Allocation, size: int, reserved: int) -> None:
        born = allocation.born
        for total in self.chain:
            total.used -= size
            total.known -= 1
            total.reserved -= reserved
            if born <= total.watch:
                total.leave(allocation)
        if self.all_chips is not None:
            self._shrink(self.all_chips, allocation, size)

    @staticmethod
    def _grow(all_chips: Total, size: int, seq: int, time: float) -> None:
        all_chips.used = used = all_chips.used + size
        if used > all_chips.high:
            all_chips.rise(used, seq, time)

    def _shrink(self, all_chips: Total, allocation: Allocation, size: int) -> None:
        if self.chips:
            all_chips.used -= size * len(self.chips)
            if allocation.born <= all_chips.watch:
                all_chips.leave(allocation)

    def rise(self, used: int, seq: int, time: float) -> None:
        self.high = used
        if used > self.recent.value:
            self.watch = seq
            self.recent.reach(used, seq, time)
            if used > self.peak.value:
                self.peak.reach(used, seq, time)

    @property
    def highs(self) -> HighBounds:
        reserved = Bounds(self.reserved_peak, max(self.reserved_peak, self.reserved_bound))
        return HighBounds(self.recent.bounds, self.peak.bounds, reserved)

    def highs_since(self, seq: int) -> HighBounds:
        """The same; the lower limits are values that it had since this event."""
        recent, ever, reserved = self.highs
        if self.recent.seq < seq:
            recent = recent._replace(at_least=min(recent.at_least, self.used))
        if self.peak.seq < seq:
            ever = ever._replace(at_least=max(recent.at_least, self.used))
        if seq:
            reserved = reserved._replace(at_least=self.reserved)
        return HighBounds(recent, ever, reserved)

    @property
    def reserved_peak_exact(self) -> bool:
        return self.reserved_bound <= self.reserved_peak

    def miss(self, highs: HighBounds, sample: int, *, reset: bool) -> None:
        """The total was at least and at most as high as this among lost records.

        ``sample`` is a value that it had there. ``reset``: the peaks were reset there, so nothing else is known since.
        """
        if reset:
            self.recent.bound = 0
        self.recent.miss(*highs.recent)
        self.peak.miss(*highs.ever)
        self.watch = max(self.recent.seq, self.peak.seq)
        self.high_before = max(self.high_before, sample)
        self._raise_reserved(highs.reserved.at_least)
        self.reserved_bound = max(self.reserved_bound, highs.reserved.at_most)

    def _raise_reserved(self, value: int) -> None:
        self.reserved_peak = max(self.reserved_peak, value)
        if not self.gaps:
            self.reserved_high = self.reserved_peak

    def leave(self, allocation: Allocation) -> None:
        self.recent.leave(allocation)
        self.peak.leave(allocation)

    def keep(self, dead: DeadAllocations, kind: int) -> None:
        """Many allocations of a kind are freed at once. Keep them for the peaks, and search them only on request."""
        for peak in (self.recent, self.peak):
            if peak.value and dead.expect(peak, kind):
                peak.dead_allocations.append(dead)

    def begin_gap(self, source: Source) -> None:
        """Do not raise peaks until the source is caught up: its part of the sum is of an earlier time."""
        self._lower()
        if not self.gaps:
            self.left = NOBODY
        self.gaps |= {source}
        source.held_back.append(self)
        self.high = self.reserved_high = _IN_GAP

    def left_in_gap(self, highs: HighBounds) -> None:
        """Something that is part of this total during a gap is part of it no longer. It was as high as this."""
        self.left = self.left.beside(highs)

    def end_gap(self, source: Source, seq: int, time: float, *, apart: bool) -> None:
        """``apart``: the value of now is no peak, because its parts are of different times."""
        self.gaps -= {source}
        if self.gaps:
            return
        self._raise_reserved(0 if apart else self.reserved)
        if self.high == _IN_GAP:
            self.high = self.used if apart else 0
            if self.used > self.high:
                self.rise(self.used, seq, time)

    def reset_recent(self, seq: int, time: float, *, known: bool = True) -> None:
        """``known``: what is live now is known. Otherwise the peak since the reset has limits when it is caught up."""
        self.left = self.left._replace(recent=NOBODY.recent)
        if known and not self.gaps:
            self._lower()
            self.recent = Peak(self.used, seq, time)
            self.watch = seq
        else:
            self.forget_recent(seq)

    def forget_recent(self, seq: int) -> None:
        """What it held since the last reset is not known. Its peak since then has limits when it is caught up."""
        self._lower()
        self.recent = Peak(0, 0, None)
        self.recent.bound = self.peak.at_most
        if not self.gaps:
            self.high = 0
        self.watch = seq

    def take_high(self) -> int:
        """The highest value since the last call. Starts the next sample."""
        self._lower()
        high, self.high_before = self.high_before, 0
        return max(high, self.used) if self.gaps else high

    def _lower(self) -> None:
        if self.gaps:
            return
        high, self.high = self.high, self.used
        if high > self.high_before:
            self.high_before = high

    def copy(self) -> Total:
        """A total with the same values and the same peaks."""
        twin = Total(self.since, self.peak.copy())
        twin.recent = self.recent.copy()
        twin.used, twin.reserved, twin.known, twin.unknown = self.used, self.reserved, self.known, self.unknown
        twin.reserved_peak, twin.reserved_bound = self.reserved_peak, self.reserved_bound
        twin.reserved_high = self.reserved_high
        twin.high, twin.high_before = self.high, self.high_before
        twin.watch = self.watch
        twin.gaps, twin.left = self.gaps, self.left
        for source in self.gaps:
            source.held_back.append(twin)
        return twin

    def recounted(self, before: int, seq: int, time: float) -> None:
        """Leaf only: the chips on which it counts have changed. It counted on ``before`` chips until now."""
        if self.all_chips is not None:
            self._grow(self.all_chips, self.used * (len(self.chips) - before), seq, time)

    def stops(self, allocation: Allocation) -> None:
        """Leaf only: an allocation stops counting, for a moment or forever, although it is still live."""
        if self.all_chips is not None and self.chips:
            self.all_chips.leave(allocation)

    def arrived(self, used: int, seq: int, time: float) -> None:
        """Leaf only: ``used`` bytes were added to all totals of its chain at once."""
        if self.all_chips is not None:
            self._grow(self.all_chips, used * len(self.chips), seq, time)

    def buried(self, dead: DeadAllocations, kind: int) -> None:
        """Leaf only: all its allocations were freed at once, and subtracted from its chain."""
        if self.all_chips is not None and self.chips:
            self.all_chips.keep(dead, kind)
            self.all_chips.used -= self.used * len(self.chips)

    def merge(self, other: Total) -> None:
        """Add the allocations of another total, for example when a device turns out to be this chip.

        The caller updates the peaks.
        """
        self.reserved += other.reserved
        self.known += other.known
        self.unknown += other.unknown
        if not self.gaps:
            self._raise_reserved(self.reserved)
        self.used += other.used

    def drop(self, other: Total) -> None:
        """Subtract the allocations of another total."""
        self.used -= other.used
        self.reserved -= other.reserved
        self.known -= other.known
        self.unknown -= other.unknown

    @property
    def reserved_bytes(self) -> int | None:
        """Bytes that the allocator reserved; None if unknown for any live allocation."""
        return None if self.unknown else self.reserved


class TotalWithContents:
    """A total that can list all allocations that were live at its peak.

    These include allocations that the total does not count. They are counted in ``beside``.
    """

    def __init__(self) -> None:
        self.peak = PeakContents()
        self.total = Total(peak=self.peak)
        self.beside = _CompanionTotal(self.total)

    def allocations(self, live: Iterable[Allocation]) -> list[Allocation]:
        """All allocations of the peak. ``live`` are the allocations that are live now."""
        return self.peak.allocations(live)


class _CompanionTotal(Total):
    """A separate total. Allocations that are removed from it are kept in the peak of another total."""

    __slots__ = ("_other",)

    def __init__(self, other: Total) -> None:
        super().__init__()
        self._other = other
        self.watch = 1 << 62  # `leave` is called for every counted allocation: the other peak decides which it includes

    def rise(self, used: int, seq: int, time: float) -> None:
        self.high = used

    def leave(self, allocation: Allocation) -> None:
        self._other.peak.leave(allocation)

    def keep(self, dead: DeadAllocations, kind: int) -> None:
        self._other.keep(dead, kind)

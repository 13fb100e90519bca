# SPDX-License-Identifier: Apache-2.0
"""Peaks and phases of a source whose records were lost, from the meters that its process kept itself (rule 17).

The events of a catch-up correct what is held now, but not how high it was in between. The meters of the process are
exact for the process: they hold the highest value since its start, and of each stretch of records. On a chip that
several processes used meanwhile, the highest sum is not known, only limits of it.
"""

from __future__ import annotations

from collections import Counter

from ttmem.account.arbitration import new_leaf
from ttmem.account.entities import Chip, Source
from ttmem.account.process_events import end_phase
from ttmem.account.process_totals import ProcessTotals, total_of
from ttmem.account.state import AccountState
from ttmem.account.totals import NOBODY, Bounds, HighBounds, Total
from ttmem.model.events import MAX_SIZE, CaughtUp, GapBegan, MissedHigh
from ttmem.model.kinds import KIND_BY_LABEL, KINDS_OF, POOL_GAUGES, POOL_OF, Kind, Pool

_NOTHING = MissedHigh((), "", 0, 0, 0, 0, 0, 0)
_UNKNOWN = MissedHigh((), "", 0, MAX_SIZE, 0, MAX_SIZE, 0, 0)  # no chip has so much memory


def gap_began(state: AccountState, time: float, source: Source, event: GapBegan) -> None:
    """Until the source is caught up, sums with what others hold are of no moment, so they are no peaks."""
    source.in_gap = True
    leaves = (leaf for holding in source.holdings.values() for leaf in holding.leaves)
    for total in {total for leaf in leaves if leaf is not None for total in leaf.chain[leaf.own :]}:
        total.begin_gap(source)
    if event.reset:
        _reset_unseen(state, source)


def _reset_unseen(state: AccountState, source: Source) -> None:
    """What the account has of the source is from before the last reset of the peaks, so it is not a peak since then."""
    source.reset_in_gap = True
    source.process.phases.turn()
    own = {leaf for holding in source.holdings.values() for leaf in holding.leaves if leaf is not None}
    own.update(source.totals.values())
    for share in source.process.shares.values():
        own.update(share.pools[POOL_OF[kind]] for kind in Kind if share.voices[kind] is source)
    for total in own.union(source.held_back):
        total.forget_recent(state.seq)


def caught_up(state: AccountState, time: float, source: Source, event: CaughtUp) -> None:
    process = source.process
    event = event._replace(reset=event.reset or source.reset_in_gap)
    source.in_gap = source.reset_in_gap = False
    _give_own_totals(state, time, source, event)  # during the gap, so that copies of totals are held back as well
    held_back, source.held_back = source.held_back, []
    for total in held_back:
        total.end_gap(source, state.seq, time, apart=event.apart)
    if not event.first:
        state.anomaly(process, "resynced")
    _CatchUp(state, source, event, set(held_back)).raise_peaks()
    _phases(state, time, source, event)


def _give_own_totals(state: AccountState, time: float, source: Source, event: CaughtUp) -> None:
    """Give the devices of each meter totals of its kind that they share with no others.

    What was allocated and freed among the lost records may have been the first of its kind, or the first that lay on
    some of the devices only.
    """
    if event.unmetered:
        _give_totals_of_all_kinds(state, time, source)
    devices_of: dict[Kind, Counter[Total | None]] = {}  # the number of devices that share each total of a kind
    for high in event.highs:
        if not high.ever or high.gauge not in KIND_BY_LABEL:
            continue
        kind = KIND_BY_LABEL[high.gauge]
        known = {source.totals.get((number, kind)) for number in high.numbers}
        if None not in known:
            if kind not in devices_of:
                devices_of[kind] = Counter(source.totals.get((number, kind)) for number in source.process.numbers)
            if sum(devices_of[kind][total] for total in known) == len(high.numbers):
                continue
        holding = state.holding(source, high.numbers)
        if holding is not None and holding.leaves[kind] is None:
            new_leaf(holding, kind, state.seq, time)
            devices_of.pop(kind, None)


def _give_totals_of_all_kinds(state: AccountState, time: float, source: Source) -> None:
    """Any kind may have been among the lost records, on any device."""
    for kind in sorted(source.covered):
        devices = [*source.holdings.values()] + [state.holding(source, number) for number in source.process.numbers]
        for holding in devices:
            if holding is not None and any((number, kind) not in source.totals for number in holding.numbers):
                new_leaf(holding, kind, state.seq, time)


class _CatchUp:
    """Raises the peaks of a process, and of the chips that it uses, to those among the lost records."""

    def __init__(self, state: AccountState, source: Source, event: CaughtUp, held_back: set[Total]) -> None:
        """``held_back`` are the totals of chips that raised no peaks during the gap."""
        self._state = state
        self._source = source
        self._event = event
        self._held_back = held_back
        self._unmetered = _UNKNOWN if event.unmetered else _NOTHING
        self._totals = ProcessTotals()
        self._done: set[Total] = set()  # chips share totals
        self._own: dict[Total, tuple[HighBounds, int]] = {}

    def raise_peaks(self) -> None:
        source, process = self._source, self._source.process
        by_number = {(number, high.gauge): high for high in self._event.highs for number in high.numbers}
        numbers_of: dict[Chip, list[int]] = {}  # more than one only if a process contradicts itself
        for number, chip in process.numbers.items():
            numbers_of.setdefault(chip, []).append(number)
        for chip, numbers in numbers_of.items():
            share = process.shares.get(chip.id)
            if share is None:
                continue
            for kind in Kind:
                if share.voices[kind] is source:
                    found = {
                        source.totals[number, kind]: by_number.get((number, kind.label), self._unmetered)
                        for number in numbers
                        if (number, kind) in source.totals
                    }
                    self._raise(chip, found, kind)
            for pool in Pool:
                voices = {share.voices[kind] for kind in KINDS_OF[pool]} - {None}
                if source in voices:
                    # Those of other sources of the process are at most those of the whole process.
                    others = NOBODY if voices == {source} else share.pools[pool].highs.upper
                    high = _together([self._of_pool(by_number, number, pool) for number in numbers])
                    self._raise(chip, {share.pools[pool]: high}, pool, others)

    def _raise(
        self, chip: Chip, own: dict[Total, MissedHigh], which: Kind | Pool, other_sources: HighBounds = NOBODY
    ) -> None:
        """Raise the peaks of totals of the process, and of the chip's total that they are part of."""
        of_chip, reset = total_of(chip, which), self._event.reset
        if not own or (of_chip in self._done and own.keys() <= self._done):
            return
        highs = {total: self._highs_of(total, high, other_sources) for total, high in own.items()}
        if of_chip not in self._done:
            self._done.add(of_chip)
            together, sample = self._others(chip, which, of_chip), 0
            for own_highs, own_sample in highs.values():
                together, sample = together.beside(own_highs), max(sample, own_sample)
            of_chip.miss(together, sample, reset=reset)
        for total, (own_highs, sample) in highs.items():
            if total not in self._done:
                self._done.add(total)
                total.miss(own_highs, sample, reset=reset)

    def _highs_of(self, own: Total, high: MissedHigh, other_sources: HighBounds) -> tuple[HighBounds, int]:
        """How high a total of the process was among the lost records, and a value that it had there.

        Found before its peak is raised, and once: chips that share it may have other totals of their own.
        """
        if own not in self._own:
            ever = _since_start(own, high)
            reserved = Bounds(high.reserved_ever, MAX_SIZE if high is _UNKNOWN else high.reserved_ever)
            recent = _since_reset(own, high) if self._event.reset else ever
            # Records before the first look may be hours old: what was highest then is no value of now.
            sample = own.used if self._event.first else ever.at_least
            self._own[own] = HighBounds(recent, ever, reserved).beside(other_sources), sample
        return self._own[own]

    def _others(self, chip: Chip, which: Kind | Pool, of_chip: Total) -> HighBounds:
        """What other processes held there among the lost records.

        At least the highest value of one of them; at most the sum of the highest values of all.
        """
        found = of_chip.left if of_chip in self._held_back else NOBODY
        for other in self._state.processes.values():
            if other is not self._source.process:
                for highs in self._totals.highs_on(other, chip, which):
                    found = found.beside(highs)
        if chip.left is not None and chip.left >= self._event.since:
            # The highest value of a process that left before the gap is not kept, but is part of the chip's peak.
            found = HighBounds(
                *(mine._replace(at_most=max(mine.at_most, its.at_most)) for mine, its in zip(found, of_chip.highs))
            )
        return found

    def _of_pool(self, highs: dict[tuple[int, str], MissedHigh], number: int, pool: Pool) -> MissedHigh:
        gauge = POOL_GAUGES.get(pool)
        if gauge is not None:
            return highs.get((number, gauge), self._unmetered)
        kinds = [high for kind in KINDS_OF[pool] if (high := highs.get((number, kind.label))) and high.ever]
        return _together(kinds) if kinds else self._unmetered


def _together(highs: list[MissedHigh]) -> MissedHigh:
    """The high of a sum that has no meter: at least as high as one of its parts, at most as their sum."""
    if len(highs) == 1:
        return highs[0]
    if _UNKNOWN in highs:
        return _UNKNOWN
    return MissedHigh(
        highs[0].numbers,
        "",
        max(high.at_least for high in highs),
        sum(high.at_most for high in highs),
        max(high.reset_at_least for high in highs),
        sum(high.reset_at_most for high in highs),
        max(high.ever for high in highs),
        0,
    )


def _since_start(own: Total, high: MissedHigh) -> Bounds:
    """A value above every value that was seen must have been among the lost records. Otherwise none there was above."""
    seen = own.peak.value
    if not high.gauge:  # the sum of several meters is only an upper limit
        at_least = high.ever if high.ever > seen else min(high.at_least, seen)
        return Bounds(at_least, max(at_least, high.at_most))
    if high.ever > seen:
        return Bounds(high.ever, high.ever)
    return Bounds(min(high.at_least, seen), min(high.at_most, seen))


def _since_reset(own: Total, high: MissedHigh) -> Bounds:
    """The peaks were reset among the lost records. It is not known whether the highest value was before or after."""
    return Bounds(max(high.reset_at_least, own.used), max(high.reset_at_most, own.used))


def _phases(state: AccountState, time: float, source: Source, event: CaughtUp) -> None:
    """Phases that are open keep their begin and have their peak. Those that ended meanwhile ended unseen.

    The peaks of phases that other sources of the process report are not known.
    """
    phases = source.process.phases
    for (other, _), phase in phases.open.items():
        phase.gap = phase.gap or other is not source
    still_open = {phase.ident for phase in event.phases}
    for other, ident in reversed(list(phases.open)):
        if other is source and ident not in still_open:
            end_phase(state, time, source, ident, seen=False)
    resumed = sum((source, phase.ident) not in phases.open for phase in event.phases)
    phases.missed += max(0, event.missed_phases - resumed)
    phases.resume(source, event, state.limits.open_phases)

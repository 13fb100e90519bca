# SPDX-License-Identifier: Apache-2.0
"""Peaks and phases of a source whose records were lost, from the meters that its process kept itself (rule 17).

The events of a catch-up correct what is held now, but not how high it was in between. The meters of the process are
exact for the process: they hold the highest value since its start, and of each stretch of records. On a chip that
several processes used meanwhile, the highest sum is not known, only limits of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ttmem.account.arbitration import new_leaf
from ttmem.account.entities import Chip, Process, Source
from ttmem.account.process_events import end_phase
from ttmem.account.state import AccountState
from ttmem.account.totals import Total
from ttmem.model.events import CaughtUp, GapBegan, MissedHigh
from ttmem.model.kinds import KIND_BY_LABEL, KINDS_OF, POOL_GAUGES, Kind, Pool

_NOTHING = MissedHigh((), "", 0, 0, 0, 0)


class _Missed(NamedTuple):
    """How high a process was among the lost records. Both are equal if that is known exactly."""

    at_least: int
    at_most: int


def gap_began(state: AccountState, time: float, source: Source, event: GapBegan) -> None:
    """Until the source is caught up, sums with what others hold are of no moment, so they are no peaks."""
    leaves = (leaf for holding in source.holdings.values() for leaf in holding.leaves)
    for total in {total for leaf in leaves if leaf is not None for total in leaf.chain[leaf.own :]}:
        total.begin_gap(source)


def caught_up(state: AccountState, time: float, source: Source, event: CaughtUp) -> None:
    process = source.process
    held_back, source.held_back = source.held_back, []
    for total in held_back:
        total.end_gap(source, state.seq, time)
    if not event.first:
        state.anomaly(process, "resynced")
    for high in event.highs:
        if high.ever and high.gauge in KIND_BY_LABEL:
            _own_totals(state, time, source, high.numbers, KIND_BY_LABEL[high.gauge])
    by_number = {(number, high.gauge): high for high in event.highs for number in high.numbers}
    done: set[Total] = set()  # chips share totals
    for number, chip in process.numbers.items():
        share = process.shares.get(chip.id)
        if share is None:
            continue
        for kind in Kind:
            if share.voices[kind] is source:
                high = by_number.get((number, kind.label), _NOTHING)
                own = source.totals.get((number, kind))
                if own is not None:
                    _apply(state, event, process, chip, own, high, kind, done)
        for pool in Pool:
            voices = {share.voices[kind] for kind in KINDS_OF[pool]} - {None}
            if source in voices:
                high = _of_pool(by_number, number, pool)
                others = 0 if voices == {source} else share.pools[pool].peak.at_most
                _apply(state, event, process, chip, share.pools[pool], high, pool, done, others)
    _phases(state, time, source, event)


def _own_totals(state: AccountState, time: float, source: Source, numbers: tuple[int, ...], kind: Kind) -> None:
    """Give these devices totals of a kind that they share with no others.

    What was allocated and freed among the lost records may have been the first of its kind, or the first that lay on
    some of the devices only.
    """
    known = {source.totals.get((number, kind)) for number in numbers}
    sharing = {number for (number, which), total in source.totals.items() if which is kind and total in known}
    if None not in known and sharing <= set(numbers):
        return
    holding = state.holding(source, numbers)
    if holding is not None and holding.leaves[kind] is None:
        new_leaf(holding, kind, state.seq, time)


def _of_pool(highs: dict[tuple[int, str], MissedHigh], number: int, pool: Pool) -> MissedHigh:
    """The high of a pool. A pool without a meter was at least as high as one of its kinds, at most as their sum."""
    gauge = POOL_GAUGES.get(pool)
    if gauge is not None:
        return highs.get((number, gauge), _NOTHING)
    kinds = [highs.get((number, kind.label), _NOTHING) for kind in KINDS_OF[pool]]
    used = [high for high in kinds if high.ever]
    if len(used) < 2:
        return used[0] if used else _NOTHING
    at_least, at_most = max(high.at_least for high in used), sum(high.at_most for high in used)
    return MissedHigh((number,), "", at_least, at_most, max(high.ever for high in used), 0)


def _apply(
    state: AccountState,
    event: CaughtUp,
    process: Process,
    chip: Chip,
    own: Total,
    high: MissedHigh,
    which: Kind | Pool,
    done: set[Total],
    other_sources: int = 0,
) -> None:
    """Raise the peaks of a process's total, and of the chip's total that it is part of."""
    missed = _missed(own, high)
    of_chip = chip.kinds[which] if isinstance(which, Kind) else chip.pools[which]
    if of_chip not in done:
        done.add(of_chip)
        recent, ever = _others(state, process, chip, which, of_chip, event.since)
        at_most = missed.at_most + other_sources
        of_chip.miss(missed.at_least, at_most + recent, at_most + ever)
        if not (recent or ever or other_sources):
            of_chip.reserved_peak = max(of_chip.reserved_peak, high.reserved_ever)
    if own not in done:
        done.add(own)
        own.miss(missed.at_least, missed.at_most + other_sources, missed.at_most + other_sources)
        own.reserved_peak = max(own.reserved_peak, high.reserved_ever)


def _missed(own: Total, high: MissedHigh) -> _Missed:
    """A value above every value that was seen must have been among the lost records. Otherwise none there was above."""
    seen = own.peak.value
    if high.ever > seen:
        return _Missed(high.ever, high.ever)
    return _Missed(min(high.at_least, seen), min(high.at_most, seen))


def _others(
    state: AccountState, process: Process, chip: Chip, which: Kind | Pool, of_chip: Total, since: float
) -> tuple[int, int]:
    """The most that other processes can have held there among the lost records: since a reset, since the start."""
    if chip.left is not None and chip.left >= since:  # the peaks of a process that left are not kept for each chip
        return of_chip.recent.at_most, of_chip.peak.at_most
    recent = ever = 0
    for other in state.processes.values():
        if other is not process:
            for total in _totals(other, chip, which):
                recent += total.recent.at_most
                ever += total.peak.at_most
    return recent, ever


def _totals(process: Process, chip: Chip, which: Kind | Pool) -> Iterator[Total]:
    share = process.shares.get(chip.id)
    if share is None:
        return
    if isinstance(which, Pool):
        yield share.pools[which]
        return
    for source in process.sources.values():
        for (number, kind), total in source.totals.items():
            if kind is which and process.numbers[number] is chip and share.voices[kind] is source:
                yield total


def _phases(state: AccountState, time: float, source: Source, event: CaughtUp) -> None:
    """Phases that are open keep their begin and have their peak. Those that ended meanwhile ended unseen."""
    phases = source.process.phases
    still_open = {phase.ident for phase in event.phases}
    for other, ident in reversed(list(phases.open)):
        if other is source and ident not in still_open:
            end_phase(state, time, source, ident, seen=False)
    resumed = sum((source, phase.ident) not in phases.open for phase in event.phases)
    phases.missed += max(0, event.missed_phases - resumed)
    for phase in event.phases:
        phases.resume(source, phase, state.limits.open_phases)

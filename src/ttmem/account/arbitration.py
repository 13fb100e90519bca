# SPDX-License-Identifier: Apache-2.0
"""Decides which source counts for a kind of memory (rule 12), and in which totals of which chips.

A leaf is the total of one source for one kind on one device or mesh (see `totals`). On each of its chips, it counts in
the totals of its process and of the chip if its source has the highest confidence for that kind. Otherwise it is set
aside there: its allocations are kept, but they are part of no total of that chip.

Allocations that start counting on a chip were not part of earlier peaks there. They therefore get a new birth, after
they were saved in the peaks that they were part of. When allocations stop counting in a total, they are saved in its
peaks as well.
"""

from __future__ import annotations

from ttmem.account import launches
from ttmem.account.allocations import Holding
from ttmem.account.entities import Chip, Process, Share, Source
from ttmem.account.shared_totals import join_devices, link, separate
from ttmem.account.totals import NOT_YET, Total
from ttmem.model.kinds import BUFFER_KINDS, KINDS, KINDS_OF, Kind, Pool

_ALLOCATED = frozenset(BUFFER_KINDS) - {Kind.HOST}  # kinds that the allocators of a chip allocate


def new_leaf(holding: Holding, kind: Kind, seq: int, time: float) -> Total:
    """Create the total for a kind that the holding reports for the first time."""
    all_chips = holding.chip.all_chips
    if all_chips is None:
        leaf = Total(seq)
    else:
        leaf = Total(seq, all_chips=all_chips.total if kind in _ALLOCATED else all_chips.beside)
    leaf.chain = (leaf,)
    join_devices(holding, kind, leaf)
    holding.leaves[kind] = leaf
    link(holding, kind, leaf)
    process = holding.source.process
    change = _Reassignment(process, seq, time)
    for chip in holding.chips:
        change.settle(chip, kind, holding.source, new=holding)
    change.finish()
    if change.unseated:
        process.phases.other_totals()
    else:
        process.phases.more_totals()
    return leaf


def rehome(process: Process, number: int, chip: Chip, seq: int, time: float) -> None:
    """Move everything on device ``number`` of a process to the chip that the device turned out to be."""
    moving = [holding for holding in process.holdings() if number in holding.numbers]
    if not moving:
        return
    old = moving[0].chips[moving[0].numbers.index(number)]
    # A process may report one chip for several numbers: a mesh may stay on the old chip, or be on the new one already.
    leaving = [holding for holding in moving if holding.chips.count(old) == 1]
    entering = [holding for holding in moving if chip not in holding.chips]
    change = _Reassignment(process, seq, time)
    # Sources that counted on the old chip first, then in the order of their first reports.
    order = [
        (old not in leaf.chips, leaf.since, kind, holding.source)
        for holding in moving
        for kind, leaf in zip(KINDS, holding.leaves)
        if leaf is not None
    ]
    order.sort(key=lambda entry: entry[:2])
    for holding in leaving:
        for kind in KINDS:
            change.set_aside(holding, kind, old)
    launches.move(leaving, entering, old, chip, seq)
    for holding in moving:
        holding.former[old] = number
        holding.chips = tuple(chip if n == number else c for n, c in zip(holding.numbers, holding.chips))
        chip.covered |= holding.source.covered
    old.holdings = [holding for holding in old.holdings if old in holding.chips]
    chip.holdings += entering
    for kind, source in dict.fromkeys(entry[2:] for entry in order):  # once each: a source may have thousands of meshes
        change.settle(chip, kind, source)
    for kind in KINDS:
        change.resettle(old, kind)
    change.finish()
    share = process.shares.get(old.id)
    if share is not None:
        if any(old in holding.chips for holding in process.holdings()):
            _lower_unused(share)
        else:
            del process.shares[old.id]
            share.leave()
    process.phases.other_totals()


def _lower_unused(share: Share) -> None:
    """Start new maxima of pools of which nothing is left: phases read no such total until something counts in it."""
    for pool, total in zip(Pool, share.pools):
        if not total.gaps and not any(share.voices[kind] for kind in KINDS_OF[pool]):
            total.high = total.used


class _Reassignment:
    """Collects changes of where leaves count, and applies them together in `finish`.

    Peaks are updated only after the move, so intermediate states are never recorded.
    """

    def __init__(self, process: Process, seq: int, time: float) -> None:
        self._process = process
        self._seq = seq
        self._time = time
        self._chips: dict[Total, tuple[Holding, Kind, set[Chip]]] = {}  # the chips on which each leaf will count
        self.unseated = False  # whether any leaf stops counting on a chip

    def settle(self, chip: Chip, kind: Kind, source: Source, new: Holding | None = None) -> None:
        """A source reports a kind on a chip: it counts unless an earlier source has at least the same confidence.

        ``new`` is the holding of which this is the first report, if that is all that changes.
        """
        share = self._process.shares.get(chip.id)
        if share is None:
            share = self._process.shares[chip.id] = Share(chip, self._process.nothing)
        voice = share.voices[kind]
        if voice is None or voice.confidence < source.confidence:
            share.voices[kind] = source
        elif new is not None:  # the others count as before
            self._count(new, kind, chip, share)
            return
        for holding in chip.holdings:
            if holding.source.process is self._process:
                self._count(holding, kind, chip, share)

    def _count(self, holding: Holding, kind: Kind, chip: Chip, share: Share) -> None:
        """Count what a holding has of a kind on a chip, or set it aside there."""
        leaf = holding.leaves[kind]
        if leaf is None:
            return
        if holding.source is share.voices[kind]:
            self._where(holding, kind, leaf).add(chip)
        else:
            self.set_aside(holding, kind, chip)

    def resettle(self, chip: Chip, kind: Kind) -> None:
        """A holding left a chip. If the source that counted for the kind has no holding there any more, choose another.

        That is the source with the highest confidence of those that are left.
        """
        share = self._process.shares.get(chip.id)
        left = [
            (leaf.since, holding.source)
            for holding in self._process.holdings()
            if chip in holding.chips and (leaf := holding.leaves[kind]) is not None
        ]
        if share is None or any(source is share.voices[kind] for _, source in left):
            return
        share.voices[kind] = None
        left.sort(key=lambda entry: entry[0])  # in the order of their first reports
        for source in dict.fromkeys(source for _, source in left):
            self.settle(chip, kind, source)

    def set_aside(self, holding: Holding, kind: Kind, chip: Chip) -> None:
        leaf = holding.leaves[kind]
        if leaf is not None:
            chips = self._where(holding, kind, leaf)
            if chip in chips:
                chips.remove(chip)
                self.unseated = True

    def finish(self) -> None:
        changed = [
            (holding, kind, leaf, frozenset(chips))
            for leaf, (holding, kind, chips) in self._chips.items()
            if chips != leaf.chips
        ]
        for holding, kind, leaf, chips in changed:
            self._stop(holding, kind, leaf, leaf.chips - chips)
        grown = [total for change in changed for total in self._start(*change)]
        for total in grown:
            if total.used > total.high:
                total.rise(total.used, self._seq, self._time)

    def _where(self, holding: Holding, kind: Kind, leaf: Total) -> set[Chip]:
        known = self._chips.get(leaf)
        if known is None:
            known = self._chips[leaf] = holding, kind, set(leaf.chips)
        return known[2]

    def _stop(self, holding: Holding, kind: Kind, leaf: Total, lost: frozenset[Chip]) -> None:
        """Stop counting a leaf on these chips."""
        if not lost:
            return
        separate(self._process, kind, lost)
        link(holding, kind, leaf)  # its holding may have left these chips already
        if leaf.count and lost == leaf.chips:
            for allocation in holding.allocations():
                if allocation.kind is kind:
                    leaf.stops(allocation)
        before, totals = len(leaf.chips), leaf.chain
        leaf.chips -= lost
        link(holding, kind, leaf)
        for chip in lost:
            chip.left = self._time
        left = [total for total in totals if total not in leaf.chain]
        for total in left:
            total.drop(leaf)
            if total.gaps:
                total.left_in_gap(leaf.highs.upper)  # it may have been that high on other chips
        if leaf.count:
            for allocation in holding.allocations():
                if allocation.kind is kind:
                    for total in left:
                        total.leave(allocation)
        leaf.recounted(before, self._seq, self._time)

    def _start(self, holding: Holding, kind: Kind, leaf: Total, chips: frozenset[Chip]) -> list[Total]:
        """Count a leaf on all these chips. Returns the totals in which it did not count before."""
        new = chips - leaf.chips
        if not new:
            return []
        separate(self._process, kind, new)
        before, totals = len(leaf.chips), leaf.chain
        for allocation in holding.allocations() if leaf.count else ():
            if allocation.kind is kind and allocation.born != NOT_YET:
                leaf.stops(allocation)
                for total in totals:
                    total.leave(allocation)
                allocation.born = self._seq
        leaf.chips = chips
        link(holding, kind, leaf)
        entered = [total for total in leaf.chain if total not in totals]
        if leaf.since != self._seq:  # not new: it may have been higher on another chip
            for chip in new:
                self._process.shares[chip.id].moved_in[kind] = self._seq
        for total in entered:
            if holding.source.in_gap and total in leaf.chain[leaf.own :]:
                total.begin_gap(holding.source)
            total.merge(leaf)
        leaf.recounted(before, self._seq, self._time)
        return entered

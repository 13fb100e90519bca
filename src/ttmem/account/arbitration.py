# SPDX-License-Identifier: Apache-2.0
"""Decides which source counts for a kind of memory (rule 12), and in which totals of which chip.

A leaf counts in its process's share and in its chip while its source is the strongest for that kind; otherwise it is
set aside and counts only in itself. Allocations that start to count late were no part of earlier peaks, so they are
given a new birth; allocations that stop counting are remembered by the peaks they were part of.
"""

from __future__ import annotations

from ttmem.account.allocations import Holding
from ttmem.account.entities import Chip, Process, Share, Source
from ttmem.account.totals import NOT_YET, Total
from ttmem.model.kinds import BUFFER_KINDS, KINDS, POOL_OF, Kind

_ALLOCATED = frozenset(BUFFER_KINDS) - {Kind.HOST}  # what an allocator on the chip gives out


def new_leaf(holding: Holding, kind: Kind, seq: int, time: float) -> Total:
    """The total for a kind that the holding reports for the first time."""
    leaf = holding.leaves[kind] = Total(seq)
    leaf.chain = (leaf,)
    process = holding.source.process
    settling = _Reassignment(process, seq, time).settle(holding.chip, kind, holding.source)
    settling.finish()
    if settling.unseated:
        process.phases.other_totals()
    else:
        process.phases.more_totals()
    return leaf


def rehome(process: Process, number: int, chip: Chip, seq: int, time: float) -> None:
    """What the process calls device N is on another chip than was thought: count everything there."""
    moving = [holding for holding in process.holdings() if holding.number == number]
    if not moving:
        return
    old = moving[0].chip
    settling = _Reassignment(process, seq, time)
    # Whoever was believed before is asked first again, then whoever spoke first.
    order = [
        (not leaf.counts, leaf.since, kind, holding.source)
        for holding in moving
        for kind, leaf in zip(KINDS, holding.leaves)
        if leaf is not None
    ]
    order.sort(key=lambda entry: entry[:2])
    for holding in moving:
        for kind in KINDS:
            settling.set_aside(holding, kind)
        old.holdings.remove(holding)
        chip.holdings.append(holding)
        chip.covered |= holding.source.covered
        for program, cores in old.leaving(holding):
            chip.run(program, cores)
        holding.chip = chip
    for _, _, kind, source in order:
        settling.settle(chip, kind, source)
    for kind in KINDS:
        settling.resettle(old, kind)
    settling.finish()
    if not any(holding.chip is old for holding in process.holdings()):
        process.shares.pop(old.id, None)
    process.phases.other_totals()


class _Reassignment:
    """One change of belief or home. Peaks look when it is finished: what is half moved was never so."""

    def __init__(self, process: Process, seq: int, time: float) -> None:
        self._process = process
        self._seq = seq
        self._time = time
        self._grown: list[Total] = []
        self.unseated = False  # did somebody stop to count

    def settle(self, chip: Chip, kind: Kind, source: Source) -> _Reassignment:
        """A source speaks about a kind on a chip: it is believed unless one at least as strong spoke before."""
        share = self._process.shares.get(chip.id)
        if share is None:
            share = self._process.shares[chip.id] = Share(chip)
        voice = share.voices[kind]
        if voice is None or voice.confidence < source.confidence:
            share.voices[kind] = source
        reporting = self._reporting(chip, kind)
        for holding in reporting:
            if holding.source is not share.voices[kind]:
                self.set_aside(holding, kind)
        for holding in reporting:
            if holding.source is share.voices[kind]:
                self._count(holding, kind, share)
        return self

    def resettle(self, chip: Chip, kind: Kind) -> None:
        """A source left a chip: if it was the voice and is gone from there altogether, the next strongest is."""
        share = self._process.shares.get(chip.id)
        left = self._reporting(chip, kind)
        if share is None or any(holding.source is share.voices[kind] for holding in left):
            return
        share.voices[kind] = None
        for holding in left:  # in the order they first spoke
            self.settle(chip, kind, holding.source)

    def set_aside(self, holding: Holding, kind: Kind) -> None:
        leaf = holding.leaves[kind]
        if leaf is None or not leaf.counts:
            return
        self.unseated = True
        totals = leaf.chain[1:]
        leaf.chain = (leaf,)
        for total in totals:
            total.drop(leaf)
        for allocation in holding.allocations():
            if allocation.kind is kind:
                for total in totals:
                    total.leave(allocation)

    def finish(self) -> None:
        for total in self._grown:
            if total.used > total.high:
                total.rise(total.used, self._seq, self._time)

    def _reporting(self, chip: Chip, kind: Kind) -> list[Holding]:
        found = [(leaf.since, h) for h in self._process.holdings() if h.chip is chip and (leaf := h.leaves[kind])]
        return [holding for _, holding in sorted(found, key=lambda entry: entry[0])]

    def _count(self, holding: Holding, kind: Kind, share: Share) -> None:
        leaf = holding.leaves[kind]
        if leaf is None or leaf.counts:
            return
        for allocation in holding.allocations():
            if allocation.kind is kind and allocation.born != NOT_YET:
                leaf.leave(allocation)
                allocation.born = self._seq
        pool = POOL_OF[kind]
        leaf.chain = (leaf, share.pools[pool], share.chip.kinds[kind], share.chip.pools[pool])
        all_chips = share.chip.all_chips
        if all_chips is not None:
            leaf.chain += (all_chips.total if kind in _ALLOCATED else all_chips.beside,)
        for total in leaf.chain[1:]:
            total.merge(leaf)
            self._grown.append(total)

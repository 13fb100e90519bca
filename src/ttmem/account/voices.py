# SPDX-License-Identifier: Apache-2.0
"""Which totals a source's things count in: whom to believe about a kind (rule 12), and on which chip they are.

A leaf counts in its process's share and in its chip while its source is the *voice* for that kind; otherwise it is
set aside and counts only in itself. Things that start to count late were no part of earlier peaks, so they are
given a new birth; things that stop counting are remembered by the peaks they were part of.
"""

from __future__ import annotations

from ttmem.account.kinds import KINDS, POOL_OF, Kind
from ttmem.account.parties import Chip, Process, Share, Source
from ttmem.account.things import Holding
from ttmem.account.totals import Leaf


def new_leaf(holding: Holding, kind: Kind, seq: int, time: float) -> Leaf:
    """The total for a kind that the holding reports for the first time."""
    leaf = holding.leaves[kind] = Leaf()
    _settle(holding.source.process, holding.chip, kind, holding.source, seq, time)
    return leaf


def rehome(process: Process, number: int, chip: Chip, seq: int, time: float) -> None:
    """What the process calls device N is on another chip than was thought: count everything there."""
    moving = [holding for holding in process.holdings() if holding.number == number]
    if not moving:
        return
    old = moving[0].chip
    # Whoever was believed before is asked first again.
    moving.sort(key=lambda holding: -sum(leaf is not None and leaf.counts for leaf in holding.leaves))
    believed = [(kind, holding.source) for kind in KINDS for holding in moving if _counts(holding, kind)]
    for holding in moving:
        for kind in KINDS:
            _set_aside(holding, kind)
        old.holdings.remove(holding)
        chip.holdings.append(holding)
        chip.covered |= old.covered
        for program, cores in old.leaving(holding):
            chip.run(program, cores)
        holding.chip = chip
    for kind, source in believed:
        _settle(process, chip, kind, source, seq, time)
    for kind in KINDS:
        for holding in moving:
            if holding.leaves[kind] is not None:
                _settle(process, chip, kind, holding.source, seq, time)
        _resettle(process, old, kind, seq, time)
    if not any(holding.chip is old for holding in process.holdings()):
        process.shares.pop(old.uid, None)


def _counts(holding: Holding, kind: Kind) -> bool:
    leaf = holding.leaves[kind]
    return leaf is not None and leaf.counts


def _reporting(process: Process, chip: Chip, kind: Kind) -> list[Holding]:
    return [h for h in process.holdings() if h.chip is chip and h.leaves[kind] is not None]


def _settle(process: Process, chip: Chip, kind: Kind, source: Source, seq: int, time: float) -> None:
    """A source speaks about a kind on a chip: it is believed unless one at least as strong spoke before."""
    share = process.shares.get(chip.uid)
    if share is None:
        share = process.shares[chip.uid] = Share(chip)
    voice = share.voices[kind]
    if voice is None or voice.confidence < source.confidence:
        share.voices[kind] = source
    for holding in _reporting(process, chip, kind):
        if holding.source is not share.voices[kind]:
            _set_aside(holding, kind)
    for holding in _reporting(process, chip, kind):
        if holding.source is share.voices[kind]:
            _count(holding, kind, share, seq, time)


def _resettle(process: Process, chip: Chip, kind: Kind, seq: int, time: float) -> None:
    """A source left a chip: if it was the voice and is gone from there altogether, the next strongest is."""
    share = process.shares.get(chip.uid)
    left = _reporting(process, chip, kind)
    if share is None or any(holding.source is share.voices[kind] for holding in left):
        return
    share.voices[kind] = None
    if left:
        strongest = max(left, key=lambda holding: holding.source.confidence)
        _settle(process, chip, kind, strongest.source, seq, time)


def _set_aside(holding: Holding, kind: Kind) -> None:
    leaf = holding.leaves[kind]
    if leaf is None or not leaf.counts:
        return
    totals = leaf.chain[1:]
    leaf.chain = (leaf,)
    for total in totals:
        total.drop(leaf)
    for thing in holding.things():
        if thing.kind is kind:
            for total in totals:
                total.leave(thing)


def _count(holding: Holding, kind: Kind, share: Share, seq: int, time: float) -> None:
    leaf = holding.leaves[kind]
    if leaf is None or leaf.counts:
        return
    for thing in holding.things():
        if thing.kind is kind:
            leaf.leave(thing)
            thing.born = seq
    pool = POOL_OF[kind]
    leaf.chain = (leaf, share.pools[pool], share.chip.kinds[kind], share.chip.pools[pool])
    for total in leaf.chain[1:]:
        total.merge(leaf, seq, time)

# SPDX-License-Identifier: Apache-2.0
"""Totals that chips share while the same leaves count on all of them.

For each kind and pool of a chip, and each pool of a process, there is one total for all chips on which the same leaves
count: so an allocation on a mesh of 32 chips changes as many totals as one on a single chip. When a leaf begins to
count, or stops, on some of those chips and not on others, the others keep the total and these get a copy of it: what
they held so far was the same. Totals are never joined again, because their peaks stay different.

A source's kinds on its devices are totals of the same sort, though for one leaf alone the leaf itself is that total.
"""

from __future__ import annotations

from collections.abc import Iterable

from ttmem.account.allocations import Holding
from ttmem.account.entities import Chip, Process, Source
from ttmem.account.totals import Total
from ttmem.model.kinds import KINDS_OF, POOL_OF, Kind


def separate(process: Process, kind: Kind, chips: frozenset[Chip]) -> None:
    """Let these chips share the totals of a kind with no other chips."""
    pool = POOL_OF[kind]
    changed = _split([(chip, chip.kinds) for chip in chips], kind)
    changed |= _split([(chip, chip.pools) for chip in chips], pool)
    changed |= _split([(chip, process.shares[chip.id].pools) for chip in chips], pool)
    for holding in {holding: None for chip in changed for holding in chip.holdings}:
        for other in KINDS_OF[pool]:
            leaf = holding.leaves[other]
            if leaf is not None and leaf.chips:
                link(holding, other, leaf)


def _split(rows: list[tuple[Chip, list[Total]]], index: int) -> set[Chip]:
    """Make copies of totals that other chips have, too. Returns the chips that have other totals than before."""
    sharing: dict[Total, list[tuple[Chip, list[Total]]]] = {}
    for chip, row in rows:
        sharing.setdefault(row[index], []).append((chip, row))
    changed: set[Chip] = set()
    for total, members in sharing.items():
        if len(members) == len(total.chips):
            continue
        twin = total.copy()
        twin.chips = frozenset(chip for chip, _ in members)
        total.chips -= twin.chips
        for _, row in members:
            row[index] = twin
        changed |= twin.chips
    return changed


def link(holding: Holding, kind: Kind, leaf: Total) -> None:
    """Find the totals that a leaf counts in."""
    source, pool = holding.source, POOL_OF[kind]
    chips, shares = leaf.chips, source.process.shares
    own: dict[Total, None] = {leaf: None}
    own.update(dict.fromkeys(source.totals[number, kind] for number in holding.numbers))
    own.update(dict.fromkeys(shares[chip.id].pools[pool] for chip in chips))
    leaf.own = len(own)
    above: dict[Total, None] = dict.fromkeys(chip.kinds[kind] for chip in chips)
    above.update(dict.fromkeys(chip.pools[pool] for chip in chips))
    leaf.chain = (*own, *above)


def join_devices(holding: Holding, kind: Kind, leaf: Total) -> None:
    """Count a new leaf in its source's totals of the kind on each of its devices."""
    source = holding.source
    sharing: dict[Total, list[int]] = {}
    for number in holding.numbers:
        known = source.totals.get((number, kind))
        if known is None:
            source.totals[number, kind] = leaf
        else:
            sharing.setdefault(known, []).append(number)
    changed: set[int] = set()
    for total, numbers in sharing.items():
        # A leaf stands for itself only; what several leaves are summed up in is a total of its own.
        if total.chain or len(numbers) < sum(one is total for one in source.totals.values()):
            twin = total.copy()
            for number in numbers:
                source.totals[number, kind] = twin
            changed.update(numbers)
    for other in _on(source, changed):
        known = other.leaves[kind]
        if known is not None and known is not leaf:
            link(other, kind, known)


def _on(source: Source, numbers: Iterable[int]) -> list[Holding]:
    wanted = set(numbers)
    return [holding for holding in source.holdings.values() if wanted.intersection(holding.numbers)]

# SPDX-License-Identifier: Apache-2.0
"""Totals that chips share while the same leaves count on all of them.

For each kind and pool of a chip, and each pool of a process, there is one total for all chips on which the same leaves
count. So an allocation on a mesh of 32 chips changes as many totals as an allocation on a single chip. When a leaf
starts or stops counting on some of those chips only, these chips get a copy of the total, and the others keep it. The
copy is correct because both groups held the same until then. Totals are never joined again, because their peaks stay
different.

Each source also has totals by device number and kind. They are shared in the same way. If only one leaf counts in such
a total, the leaf itself is the total.
"""

from __future__ import annotations

from collections.abc import Iterable

from ttmem.account.allocations import Holding
from ttmem.account.entities import Chip, Process, Source
from ttmem.account.totals import Total
from ttmem.model.kinds import KINDS_OF, POOL_OF, Kind


def separate(process: Process, kind: Kind, chips: frozenset[Chip]) -> None:
    """Give these chips totals of a kind that they share with no other chips."""
    pool = POOL_OF[kind]
    changed = split([(chip, chip.kinds) for chip in chips], kind)
    changed |= split([(chip, chip.pools) for chip in chips], pool)
    holdings = {holding: None for chip in changed for holding in chip.holdings}
    # The totals of a process are in the chains of its own leaves only.
    own = split([(chip, process.shares[chip.id].pools) for chip in chips], pool)
    if own:
        holdings.update(dict.fromkeys(one for one in process.holdings() if not own.isdisjoint(one.chips)))
    for holding in holdings:
        for other in KINDS_OF[pool]:
            leaf = holding.leaves[other]
            if leaf is not None and leaf.chips:
                link(holding, other, leaf)


def split(rows: list[tuple[Chip, list[Total]]], index: int) -> set[Chip]:
    """Copy the totals that other chips share. Returns the chips that have a copy now."""
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
    """Set the chain of a leaf: the totals in which it counts."""
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
    """Add a new leaf to the totals of its source, by device number and kind."""
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
        # A leaf is the total of itself only. The sum of several leaves needs a total of its own.
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
    return [holding for holding in source.holdings.values() if wanted.intersection(holding.numbers)] if wanted else []

# SPDX-License-Identifier: Apache-2.0
"""Adds allocations to the totals that they are part of, and removes them.

The caller adds the allocation to its table, or removes it from there.
"""

from __future__ import annotations

from ttmem.account.allocations import Allocation, Holding, Part, Program
from ttmem.account.arbitration import new_leaf
from ttmem.account.entities import Chip
from ttmem.account.totals import NOT_YET, Total
from ttmem.model.events import Extra
from ttmem.model.kinds import Kind


def place(
    holding: Holding,
    kind: Kind,
    address: int,
    size: int,
    seq: int,
    time: float,
    refs: int,
    extra: Extra | None,
    program: Program | None = None,
) -> Allocation:
    """Create an allocation and count it. During a resync of its source, `count_arrivals` counts it later."""
    if program is None:
        allocation = Allocation(holding, kind, address, size, seq, time, extra)
    else:
        allocation = Part(holding, kind, address, size, seq, time, extra)
        allocation.program, allocation.origin = program.ident, program.origin
    leaf = holding.leaves[kind] or new_leaf(holding, kind, seq, time)
    source = holding.source
    source.process.count += 1
    holding.per_core += extra is not None and extra.per_core
    if refs:
        allocation.refs = refs
    taken = allocation.taken
    if source.generation is not None:
        allocation.born = NOT_YET
        source.confirmed.add(allocation)
        _arrives(holding, allocation, 1)
    elif taken is None:
        leaf.add(allocation.counted, seq, time)
    else:
        leaf.add_taken(allocation.counted, taken, seq, time)
    return allocation


def remove(holding: Holding, allocation: Allocation) -> None:
    """Stop counting an allocation: subtract the size that was added for it (rules 6, 7)."""
    leaf = holding.leaves[allocation.kind]
    assert leaf is not None
    holding.source.process.count -= 1
    holding.per_core -= allocation.extra is not None and allocation.extra.per_core
    if allocation.born == NOT_YET:
        _arrives(holding, allocation, -1)
        return
    taken = allocation.taken
    if taken is None:
        leaf.remove(allocation, allocation.counted)
    else:
        leaf.remove_taken(allocation, allocation.counted, taken)


def _arrives(holding: Holding, allocation: Allocation, sign: int) -> None:
    """An allocation is added during a resync (1), or is gone before the end of it (-1)."""
    arriving = holding.arriving.get(allocation.kind)
    if arriving is None:
        arriving = holding.arriving[allocation.kind] = Total()
    arriving.used += sign * allocation.counted
    taken = allocation.taken
    if taken is None:
        arriving.unknown += sign
    else:
        arriving.known += sign
        arriving.reserved += sign * taken


def count_arrivals(holding: Holding, seq: int, time: float) -> None:
    """Count the allocations that were added during a resync, all allocations of a kind at once."""
    for kind, arrived in holding.arriving.items():
        leaf = holding.leaves[kind]
        if leaf is not None and arrived.count:
            for total in leaf.chain:
                total.merge(arrived)
                if total.used > total.high:
                    total.rise(total.used, seq, time)
            leaf.arrived(arrived.used, seq, time)
    holding.arriving = {}


def counted_chips(item: Allocation) -> tuple[Chip, ...]:
    """The chips whose totals include it.

    It counts on all chips of its device or mesh, except where a source with a higher confidence reports the same kind
    (rule 12). An allocation that was added during a resync counts nowhere until the resync ends.
    """
    leaf, chips = item.holding.leaves[item.kind], item.holding.chips
    if leaf is None or not leaf.chips or item.born == NOT_YET:
        return ()
    if len(leaf.chips) == len(chips):
        return chips
    return tuple(chip for chip in dict.fromkeys(chips) if chip in leaf.chips)


def counts(item: Allocation) -> bool:
    """Whether it is part of the totals of any chip."""
    return bool(counted_chips(item))

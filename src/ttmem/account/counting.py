# SPDX-License-Identifier: Apache-2.0
"""A thing begins to count, and stops: in its process's number of things, and in the totals it is part of.

Whoever calls files the thing, or takes it out of its table.
"""

from __future__ import annotations

from ttmem.account.events import Extra
from ttmem.account.kinds import Kind
from ttmem.account.things import Holding, Part, Program, Thing
from ttmem.account.totals import NOT_YET, Total
from ttmem.account.voices import new_leaf


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
) -> Thing:
    """Make a thing and count it, unless its source is telling anew what it holds."""
    if program is None:
        thing = Thing(holding, kind, address, size, seq, time, extra)
    else:
        thing = Part(holding, kind, address, size, seq, time, extra)
        thing.program, thing.origin = program.ident, program.origin
    leaf = holding.leaves[kind] or new_leaf(holding, kind, seq, time)
    source = holding.source
    source.process.count += 1
    holding.per_core += extra is not None and extra.per_core
    if refs:
        thing.refs = refs
    taken = thing.taken
    if source.generation is not None:
        thing.born = NOT_YET
        source.confirmed.add(thing)
    elif taken is None:
        leaf.add(thing.counted, seq, time)
    else:
        leaf.add_taken(thing.counted, taken, seq, time)
    return thing


def remove(holding: Holding, thing: Thing) -> None:
    """Stop counting a thing, with the size it was counted with (rules 6, 7)."""
    leaf = holding.leaves[thing.kind]
    assert leaf is not None
    holding.source.process.count -= 1
    holding.per_core -= thing.extra is not None and thing.extra.per_core
    if thing.born == NOT_YET:
        return
    taken = thing.taken
    if taken is None:
        leaf.remove(thing, thing.counted)
    else:
        leaf.remove_taken(thing, thing.counted, taken)


def count_arrivals(holding: Holding, seq: int, time: float) -> None:
    """What was placed while its source told anew what it holds counts from now on, all of a kind at once."""
    new = [Total() for _ in Kind]
    for thing in holding.things():
        if thing.born == NOT_YET:
            thing.born = seq
            total = new[thing.kind]
            total.used += thing.counted
            taken = thing.taken
            if taken is None:
                total.unknown += 1
            else:
                total.known += 1
                total.reserved += taken
    for leaf, arrived in zip(holding.leaves, new):
        if leaf is not None and arrived.count:
            for total in leaf.chain:
                total.merge(arrived)
                if total.used > total.high:
                    total.rise(total.used, seq, time)

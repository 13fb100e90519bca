# SPDX-License-Identifier: Apache-2.0
"""An account of the past: what was live at some moment, folded again into an account of its own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ttmem.account.events import Allocated, DeviceOpened, ProgramCompiled, Sees, Uncertain
from ttmem.account.ledger import Ledger
from ttmem.account.parties import Process
from ttmem.account.things import Holding, Origin, Part, Thing


class Made(NamedTuple):
    """A program as it was when a picture was taken."""

    holding: Holding
    event: ProgramCompiled


def programs_of(process: Process) -> list[Made]:
    """What is known of a process's programs beside their parts."""
    return [
        Made(holding, _compiled(holding, one.ident, one.origin, one.ring, one.metal_id))
        for holding in process.holdings()
        for one in holding.programs.values()
    ]


def programs_behind(things: Iterable[Thing]) -> list[Made]:
    """What things still tell of the programs they were parts of."""
    found = {
        (thing.holding, thing.program): Made(thing.holding, _compiled(thing.holding, thing.program, thing.origin))
        for thing in things
        if isinstance(thing, Part)
    }
    return list(found.values())


def _compiled(
    holding: Holding, ident: int, origin: Origin, ring: int | None = None, metal_id: int | None = None
) -> ProgramCompiled:
    return ProgramCompiled(holding.number, ident, ring or 0, metal_id or 0, origin.tag, origin.stack)


def account_of(things: Iterable[Thing], programs: Iterable[Made] = ()) -> Ledger:
    """An account in which exactly these things were allocated, in the order they were.

    Which programs were resident then is not known any more, and the account says so.
    """
    ledger = Ledger()
    for ident, thing in enumerate(sorted(things, key=lambda thing: thing.born), 1):
        holding = thing.holding
        process = holding.source.process
        source = ledger.source(process.seen, process.info, holding.source.name, holding.source.confidence)
        if not source.process.uncertain:
            for reason, count in process.uncertain.items():
                ledger.apply(thing.time, source, Uncertain(reason, count))
        if holding.number not in source.holdings:
            kinds = sum(1 << kind for kind in holding.source.covered)
            ledger.apply(thing.time, source, Sees(kinds, holding.source.trouble))
            ledger.apply(thing.time, source, DeviceOpened(holding.number, holding.chip.info))
        refs = thing.refs or 1
        event = Allocated(
            holding.number, thing.kind, thing.address, thing.size, thing.program, refs, thing.extra, ident
        )
        ledger.apply(thing.time, source, event)
    for holding, compiled in programs:
        process = holding.source.process
        source = ledger.source(process.seen, process.info, holding.source.name, holding.source.confidence)
        if holding.number in source.holdings:  # else all its parts were elsewhere
            ledger.apply(process.seen, source, compiled)
    return ledger

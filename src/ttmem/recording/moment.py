# SPDX-License-Identifier: Apache-2.0
"""Rebuilds the account at a past time from the allocations and programs that were live then."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ttmem.account.allocations import Allocation, Holding, Origin, Part
from ttmem.account.entities import Process
from ttmem.account.ledger import Ledger
from ttmem.model.events import Allocated, DeviceOpened, ProgramCompiled, Sees, Uncertain


class ProgramAtMoment(NamedTuple):
    """A program as it was when a snapshot was taken."""

    holding: Holding
    event: ProgramCompiled


def programs_of(process: Process) -> list[ProgramAtMoment]:
    """The programs that a process has cached now."""
    return [
        ProgramAtMoment(holding, _compiled(holding, one.ident, one.origin, one.ring, one.metal_id))
        for holding in process.holdings()
        for one in holding.programs.values()
    ]


def programs_behind(allocations: Iterable[Allocation]) -> list[ProgramAtMoment]:
    """The programs that allocations belong to, as far as the allocations refer to them."""
    found = {
        (allocation.holding, allocation.program): ProgramAtMoment(
            allocation.holding, _compiled(allocation.holding, allocation.program, allocation.origin)
        )
        for allocation in allocations
        if isinstance(allocation, Part)
    }
    return list(found.values())


def _compiled(
    holding: Holding, ident: int, origin: Origin, ring: int | None = None, metal_id: int | None = None
) -> ProgramCompiled:
    return ProgramCompiled(holding.device, ident, ring or 0, metal_id or 0, origin.tag, origin.stack)


def account_of(allocations: Iterable[Allocation], programs: Iterable[ProgramAtMoment] = ()) -> Ledger:
    """An account with exactly these allocations, in their original order.

    The programs that were resident then are no longer known, so ``resident`` is None.
    """
    ledger = Ledger()
    for ident, allocation in enumerate(sorted(allocations, key=lambda allocation: allocation.born), 1):
        holding = allocation.holding
        process = holding.source.process
        source = ledger.source(process.seen, process.info, holding.source.name, holding.source.confidence)
        if not source.process.uncertain:
            for reason, count in process.uncertain.items():
                ledger.apply(allocation.time, source, Uncertain(reason, count))
        if holding.device not in source.holdings:
            kinds = sum(1 << kind for kind in holding.source.covered)
            ledger.apply(allocation.time, source, Sees(kinds, holding.source.trouble))
            for number, chip in zip(holding.numbers, holding.chips):
                ledger.apply(allocation.time, source, DeviceOpened(number, chip.info))
        refs = allocation.refs or 1
        event = Allocated(
            holding.device,
            allocation.kind,
            allocation.address,
            allocation.size,
            allocation.program,
            refs,
            allocation.extra,
            ident,
        )
        ledger.apply(allocation.time, source, event)
    for holding, compiled in programs:
        process = holding.source.process
        source = ledger.source(process.seen, process.info, holding.source.name, holding.source.confidence)
        if holding.device in source.holdings:  # else all its parts are on other chips
            ledger.apply(process.seen, source, compiled)
    return ledger

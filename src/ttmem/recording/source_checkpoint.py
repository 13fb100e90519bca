# SPDX-License-Identifier: Apache-2.0
"""The events that make an account equal to what sources without a ring hold now.

A reader begins with them at a later segment, or at a history. What an account knows of the past is in the history.
"""

from __future__ import annotations

from collections.abc import Iterator

from ttmem.account.allocations import Holding
from ttmem.account.entities import Source
from ttmem.account.free_matching import NUMBERED
from ttmem.account.ledger import Ledger
from ttmem.model.events import (
    Allocated,
    ChipFound,
    DeviceOpened,
    Event,
    ProcessExited,
    ProgramCompiled,
    ProgramRun,
    Sees,
)


def checkpoint_events(
    ledger: Ledger, has_ring: frozenset[Source], time: float
) -> Iterator[tuple[float, Source | None, Event]]:
    """The chips of the machine, the processes that exited, and everything that sources without a ring hold."""
    for chip in ledger.chips.values():
        if chip.found:
            yield time, None, ChipFound(chip.info)
    for process in ledger.departed:
        for source in process.sources.values():
            yield process.seen, source, Sees(sum(1 << kind for kind in source.covered), source.trouble)
        for source in [*process.sources.values()][:1]:
            yield process.seen if process.exited is None else process.exited, source, ProcessExited()
    for process in ledger.processes.values():
        for source in process.sources.values():
            if source not in has_ring:
                yield process.seen, source, Sees(sum(1 << kind for kind in source.covered), source.trouble)
                for number, chip in process.numbers.items():
                    if not chip.assumed:
                        yield process.seen, source, DeviceOpened(number, chip.info)
                for holding in source.holdings.values():
                    for when, event in _held(holding):
                        yield when, source, event
    for chip in ledger.chips.values():
        for program, cores in chip.resident_programs():
            holding = program.holding
            if holding.source not in has_ring and chip is holding.chip:
                yield time, holding.source, ProgramRun(holding.device, program.ident, cores)


def _held(holding: Holding) -> Iterator[tuple[float, Event]]:
    device = holding.device
    for key, one in sorted(holding.buffers.items(), key=lambda item: item[1].born):
        ident = key >> 2 if key > 0 and key & 3 == NUMBERED else 0
        yield one.time, Allocated(device, one.kind, one.address, one.size, 0, one.refs, one.extra, ident)
    for program in holding.programs.values():
        parts = list(program.parts.values())
        when = min((part.time for part in parts), default=holding.source.process.seen)
        if program.ring is not None:
            origin = program.origin
            compiled = ProgramCompiled(
                device, program.ident, program.ring, program.metal_id or 0, origin.tag, origin.stack
            )
            yield when, compiled
        for part in parts:
            yield part.time, Allocated(device, part.kind, part.address, part.size, program.ident, part.refs, part.extra)
    seen = holding.source.process.seen
    for audited in holding.audits.values():
        yield seen, audited
    for viewed in holding.views.values():
        yield seen, viewed


def is_complete(ledger: Ledger, has_ring: frozenset[Source]) -> bool:
    """Is everything known that these sources hold? While one of them reports it again, it is not."""
    return not any(
        source.generation is not None
        for process in ledger.processes.values()
        for source in process.sources.values()
        if source not in has_ring
    )

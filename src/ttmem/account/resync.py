# SPDX-License-Identifier: Apache-2.0
"""Resync: a source reports everything that it holds again. What it does not report is removed.

New allocations count only when the resync ends. Otherwise they would count together with allocations that no longer
exist, and cause peaks that never existed.
"""

from __future__ import annotations

from ttmem.account import allocator_views as views
from ttmem.account import launches
from ttmem.account import program_events as programs
from ttmem.account.entities import Source
from ttmem.account.live_set import count_arrivals, remove
from ttmem.account.process_events import end_phase
from ttmem.account.state import AccountState
from ttmem.model.events import ResyncBegin, ResyncEnd


def begin(state: AccountState, time: float, source: Source, event: ResyncBegin) -> None:
    for holding in source.holdings.values():
        holding.views, holding.agreements = {}, {}
        launches.leave(holding)  # the source reports the resident programs again
    _confirm_anew(source, event.generation)


def end(state: AccountState, time: float, source: Source, event: ResyncEnd) -> None:
    """End a resync. An end that does not belong to the open resync is ignored."""
    if source.generation != event.generation:
        return
    _drop_unconfirmed_allocations(source)
    for holding in source.holdings.values():
        count_arrivals(holding, state.seq, time)
    _drop_unconfirmed_programs(source)
    for other, ident in list(source.process.phases.open):
        if other is source and ident not in source.confirmed_phases:
            end_phase(state, time, source, ident, seen=False)
    source.process.phases.begin_anew(source)
    for holding in source.holdings.values():
        views.compare(holding)
    if event.generation > 1:
        state.anomaly(source.process, "resynced")
    _confirm_anew(source, None)


def _drop_unconfirmed_allocations(source: Source) -> None:
    confirmed = source.confirmed
    for holding in source.holdings.values():
        for table in holding.tables():
            stale = [key for key, allocation in table.items() if allocation not in confirmed]
            for key in stale:
                remove(holding, table.pop(key))  # type: ignore[arg-type]
        holding.unplaced = [key for key in holding.unplaced if key in holding.buffers]


def _drop_unconfirmed_programs(source: Source) -> None:
    for holding in source.holdings.values():
        for program in [p for p in holding.programs.values() if p not in source.confirmed_programs]:
            program.forget()
            if not program.parts:
                programs.forget(program)


def _confirm_anew(source: Source, generation: int | None) -> None:
    source.generation = generation
    source.confirmed = set()
    source.confirmed_programs = set()
    source.confirmed_phases = set()

# SPDX-License-Identifier: Apache-2.0
"""Resync: a source reports everything that it holds again. What it does not report is removed.

New allocations count only when the resync ends. Otherwise they would count together with allocations that no longer
exist, and cause peaks that never existed.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from ttmem.account import allocator_views as views
from ttmem.account import launches
from ttmem.account import program_events as programs
from ttmem.account.allocations import Allocation
from ttmem.account.entities import Source
from ttmem.account.free_matching import place_of
from ttmem.account.live_set import count_arrivals, remove
from ttmem.account.process_events import end_phase
from ttmem.account.state import AccountState
from ttmem.account.totals import NOT_YET
from ttmem.model.events import ResyncBegin, ResyncEnd, ResyncStep

STEP_ALLOCATIONS = 1000  # that a step looks at


def begin(state: AccountState, time: float, source: Source, event: ResyncBegin) -> None:
    for holding in source.holdings.values():
        holding.views, holding.agreements = {}, {}
    launches.leave_all(source)  # the source reports the resident programs again
    _confirm_anew(source, event.generation)


def step(state: AccountState, time: float, source: Source, event: ResyncStep) -> None:
    """Remove some of the allocations that the end of a resync would remove."""
    if source.generation != event.generation:
        return
    if source.sweep is None:
        source.sweep = _sweep(source)
    looked_at = sum(1 for _ in islice(source.sweep, STEP_ALLOCATIONS))
    source.swept = looked_at < STEP_ALLOCATIONS


def steps_left(source: Source, generation: int) -> bool:
    """Whether the end of this resync would take long, unless another step comes before it."""
    if source.process.exited is not None:
        return False  # nothing is applied any more
    return source.generation == generation and not source.swept and source.process.count > STEP_ALLOCATIONS


def end(state: AccountState, time: float, source: Source, event: ResyncEnd) -> None:
    """End a resync. An end that does not belong to the open resync is ignored."""
    if source.generation != event.generation:
        return
    if not source.swept:
        for _ in source.sweep or _sweep(source):
            pass
    for holding in source.holdings.values():
        count_arrivals(holding, state.seq, time)
    for allocation in source.confirmed:
        if allocation.born == NOT_YET:
            allocation.born = state.seq
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


def _sweep(source: Source) -> Iterator[None]:
    """Remove all allocations that are not confirmed, one each time. What is added meanwhile is confirmed."""
    for holding in list(source.holdings.values()):
        buffers = holding.buffers
        for key in list(buffers):
            if holding.buffers is not buffers:
                break  # the device was closed
            if _is_stale(source, buffers.get(key)):
                stale = buffers.pop(key)
                if key < 0:
                    holding.unplaced.remove(place_of(holding, stale.kind, stale.extra), stale.size, key)
                remove(holding, stale)
            yield
        for program in list(holding.programs.values()):
            for part in list(program.parts):
                if holding.programs.get(program.ident) is not program:
                    break  # it was destroyed
                if _is_stale(source, program.parts.get(part)):
                    remove(holding, program.parts.pop(part))
                yield


def _is_stale(source: Source, allocation: Allocation | None) -> bool:
    return allocation is not None and allocation not in source.confirmed


def _drop_unconfirmed_programs(source: Source) -> None:
    for holding in source.holdings.values():
        for program in [p for p in holding.programs.values() if p not in source.confirmed_programs]:
            program.forget()
            if not program.parts:
                programs.forget(program)


def _confirm_anew(source: Source, generation: int | None) -> None:
    source.generation = generation
    source.sweep, source.swept = None, False
    source.confirmed = set()
    source.confirmed_programs = set()
    source.confirmed_phases = set()

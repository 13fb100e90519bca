# SPDX-License-Identifier: Apache-2.0
"""Applies events about a process: phases, failures, the kinds that its sources can see, and its exit."""

from __future__ import annotations

from ttmem.account import launches
from ttmem.account.entities import Source
from ttmem.account.process_totals import process_left
from ttmem.account.state import AccountState
from ttmem.model.events import Claimed, Failed, Lost, PhaseBegan, PhaseEnded, ProcessExited, Rejected, Sees, Uncertain
from ttmem.model.kinds import KINDS


def sees(state: AccountState, time: float, source: Source, event: Sees) -> None:
    source.covered = frozenset(kind for kind in KINDS if event.kinds >> kind & 1)
    source.trouble = event.trouble
    for holding in source.holdings.values():
        for chip in holding.chips:
            chip.covered |= source.covered


def claimed(state: AccountState, time: float, source: Source, event: Claimed) -> None:
    if len(source.process.claimed) < state.limits.claimed_pids:
        source.process.claimed.add(event.pid)


def lost(state: AccountState, time: float, source: Source, event: Lost) -> None:
    state.anomaly(source.process, "dropped", event.events)


def uncertain(state: AccountState, time: float, source: Source, event: Uncertain) -> None:
    source.process.uncertain[event.reason] += event.events
    state.uncertain[event.reason] += event.events


def rejected(state: AccountState, time: float, source: Source, event: Rejected) -> None:
    state.anomaly(source.process, "rejected", event.records)


def failed(state: AccountState, time: float, source: Source, event: Failed) -> None:
    """Store a failed allocation. `failure_observer` finds its reason in the account as it is at this moment."""
    source.process.failures.append((time, event))
    if state.failure_observer is not None:
        state.failure_observer(time, source.process, event)


def phase_began(state: AccountState, time: float, source: Source, event: PhaseBegan) -> None:
    phases = source.process.phases
    phases.begin(source, event.ident, event.name, event.parent, time, state.limits.open_phases)
    if source.generation is not None:
        source.confirmed_phases.add(event.ident)


def phase_ended(state: AccountState, time: float, source: Source, event: PhaseEnded) -> None:
    end_phase(state, time, source, event.ident, seen=True)


def end_phase(state: AccountState, time: float, source: Source, ident: int, *, seen: bool) -> None:
    limits = state.limits
    seen = seen and not any(one.in_gap for one in source.process.sources.values())
    source.process.phases.end(source, ident, time, limits.phase_paths, limits.phase_rows, seen=seen)


def exited(state: AccountState, time: float, source: Source, event: ProcessExited) -> None:
    process = source.process
    for other, ident in reversed(list(process.phases.open)):
        end_phase(state, time, other, ident, seen=False)
    process_left(process)
    process.exited = time
    for other in process.sources.values():
        launches.leave_all(other)
    for holding in process.holdings():
        process.dead_allocations.append(state.dead_allocations.keep(holding, state.seq, exited=True))
    for chip in dict.fromkeys(process.numbers.values()):
        others = [holding for holding in chip.holdings if holding.source.process is not process]
        if len(others) < len(chip.holdings):
            chip.holdings = others
            chip.left = time
    del state.processes[process.info.key]
    for chip in list(process.numbers.values()):
        if chip.info.kmd is None and state.chips.crowded:
            state.forget_chip(chip)
    state.remember_departed(process)

# SPDX-License-Identifier: Apache-2.0
"""Applies events about programs, with their circular and dataflow buffers, scratchpads and kernels."""

from __future__ import annotations

from ttmem.account import launches
from ttmem.account.allocations import Allocation, Holding, PartKey, Program
from ttmem.account.entities import Source
from ttmem.account.live_set import place, remove
from ttmem.account.state import AccountState
from ttmem.model.events import Extra, ProgramCompiled, ProgramDestroyed, ProgramRun, WorkloadRun
from ttmem.model.kinds import FAMILY_OF, Kind

_KERNEL = int(Kind.KERNEL)


def part_allocated(
    state: AccountState,
    time: float,
    holding: Holding,
    kind: Kind,
    address: int,
    size: int,
    ident: int,
    refs: int,
    extra: Extra | None,
) -> Allocation | None:
    source = holding.source
    program = holding.programs.get(ident)
    key: PartKey = (FAMILY_OF[kind], address, extra.cores if extra is not None else 0)
    if key[0] == _KERNEL:  # a kernel that is loaded twice is one load (rule 7)
        refs = min(refs, 1)
    allocation = program.parts.get(key) if program is not None else None
    if allocation is not None:
        if allocation.size == size and allocation.kind == kind and not (refs and allocation.extra != extra):
            if key[0] != _KERNEL:
                allocation.refs = refs or allocation.refs + 1
            if source.generation is not None:
                source.confirmed.add(allocation)
            return allocation
        remove(holding, allocation)
        if not refs:
            state.anomaly(source.process, "replaced")
    elif source.process.count >= state.limits.allocations_per_process:
        return state.anomaly(source.process, "dropped")
    if program is None:
        program = holding.programs[ident] = Program(ident, holding)
    allocation = place(holding, kind, address, size, state.seq, time, refs, extra, program)
    program.parts[key] = allocation
    return allocation


def part_freed(
    state: AccountState, holding: Holding, kind: Kind, address: int, ident: int, cores: int
) -> Allocation | None:
    key: PartKey = (FAMILY_OF[kind], address, cores)
    program = holding.programs.get(ident)
    allocation = program.parts.get(key) if program is not None else None
    if program is None or allocation is None:
        known = holding.just_freed((ident, key))
        return state.anomaly(holding.source.process, "double_free" if known else "unknown_free")
    if allocation.refs > 1:
        allocation.refs -= 1
        return allocation
    del program.parts[key]
    if not program.parts and program.metal_id is None:  # a compiled program exists until it is destroyed
        forget(program)
    allocation.refs = 0
    remove(holding, allocation)
    holding.note_freed((ident, key))
    return allocation


def run(state: AccountState, time: float, source: Source, event: ProgramRun) -> None:
    device, ident, cores = event
    holding = source.holdings.get(device) or state.holding(source, device)
    if holding is None:
        state.no_holding(source, device)
        return
    program = holding.programs.get(ident) or _known(state, holding, ident)
    launches.note(source, program, ((program, cores),), state.seq)


def workload_run(state: AccountState, time: float, source: Source, event: WorkloadRun) -> None:
    ident, runs = event
    known = source.workloads.get(ident)
    if known is None or known[0] is not runs:
        found = []
        for run in runs:
            holding = state.holding(source, run.device)
            if holding is None:
                state.no_holding(source, run.device)
            else:
                found.append((_known(state, holding, run.program), run.cores))
        if len(source.workloads) >= state.limits.programs_per_process:
            source.workloads.clear()
        known = source.workloads[ident] = runs, tuple(found)
    launches.note(source, ident, known[1], state.seq)


# What `launches.note` needs of a launch: its key, and the programs with their cores.
Launched = tuple[Program | int, tuple[tuple[Program, int], ...]]


def known_launch(source: Source, event: ProgramRun | WorkloadRun) -> Launched | None:
    """The programs of a launch; None if the launch would make a program known."""
    if isinstance(event, WorkloadRun):
        known = source.workloads.get(event.ident)
        return None if known is None or known[0] is not event.runs else (event.ident, known[1])
    holding = source.holdings.get(event.device)
    program = None if holding is None else holding.programs.get(event.program)
    return None if program is None else (program, ((program, event.cores),))


def compiled(state: AccountState, time: float, source: Source, event: ProgramCompiled) -> None:
    holding = state.holding(source, event.device)
    if holding is None:
        state.no_holding(source, event.device)
        return
    program = _known(state, holding, event.program)
    if source.generation is not None and program not in source.confirmed_programs:
        program.forget()  # events were lost: a different program may have this number now
        source.confirmed_programs.add(program)
    program.ring, program.metal_id = event.ring or program.ring, event.metal_id
    origin = program.origin
    origin.tag, origin.stack = event.tag or origin.tag, event.stack or origin.stack


def destroyed(state: AccountState, time: float, source: Source, event: ProgramDestroyed) -> None:
    holding = source.holdings.get(event.device)
    program = holding.programs.get(event.program) if holding is not None else None
    if holding is None or program is None:
        if event.device != ():
            state.anomaly(source.process, "unknown_free")
        return
    forget(program)
    for allocation in program.parts.values():
        allocation.refs = 0
        remove(holding, allocation)


def forget(program: Program) -> None:
    """Remove a program. The caller removes its parts from the totals."""
    launches.forget(program)
    program.holding.source.workloads.clear()
    del program.holding.programs[program.ident]


def _known(state: AccountState, holding: Holding, ident: int) -> Program:
    """The program with this number, created on first use. Its other properties may be unknown."""
    program = holding.programs.get(ident)
    if program is None:
        program = Program(ident, holding)
        process = holding.source.process
        if sum(len(other.programs) for other in process.holdings()) < state.limits.programs_per_process:
            holding.programs[ident] = program
        else:
            state.anomaly(process, "dropped")
    return program

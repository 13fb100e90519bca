# SPDX-License-Identifier: Apache-2.0
"""Makes the tables of all allocations and all programs of a recording."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ttmem.recording.allocation_table import AllocationTable, Columns, ProgramTable
from ttmem.recording.event_entries import SourceName
from ttmem.recording.event_lifetimes import EventLifetimes
from ttmem.recording.launch_log import LaunchLog, ProgramPart
from ttmem.recording.record_arrays import Array
from ttmem.recording.ring_lifetimes import RingLifetimes
from ttmem.recording.table_indexes import Indexes
from ttmem.wire.agent_ring import RingError

if TYPE_CHECKING:
    from ttmem.recording.recording_file import Recording

_NAMES = [one.name for one in fields(Columns)]
_OFTEN_EQUAL = ("source", "chips", "allocator", "flags", "program")
_INVALID = (RingError, ValueError, LookupError, ArithmeticError)


class Lifetimes(NamedTuple):
    """What a recording has of all moments."""

    allocations: AllocationTable
    programs: ProgramTable
    records: int  # of agents
    events: int  # of other sources
    launches: int  # of programs that changed what is in L1
    launch_logs: list[LaunchLog]  # of each source
    parts: list[ProgramPart]  # of all programs


def lifetimes(recording: Recording, note: Callable[[str], None]) -> Lifetimes:
    """Read a whole recording. ``note`` reports what could not be read."""
    begin, indexes = recording.begin, Indexes()
    sources: dict[SourceName, int] = {}

    def source_index(name: SourceName) -> int:
        return sources.setdefault(name, len(sources))

    events = EventLifetimes(begin, indexes, source_index)
    events.read(recording.events())
    rings = []
    for process in recording.processes.values():
        ring = RingLifetimes(process, source_index(process.source), begin, indexes)
        try:
            ring.read()
        except _INVALID as error:
            note(f"pid {process.source.info.pid}: its records are invalid from here on: {error}")
        exited = events.exits.get(process.source.info)
        if exited is not None:
            ring.exited(exited)
        rings.append(ring)
    parts: dict[str, list[Array]] = {name: [column] for name, column in events.columns(_NAMES)}
    programs = [*map(tuple, events.programs()), *(row for ring in rings for row in ring.programs())]
    for ring in rings:
        for name, column in ring.columns():
            parts[name].append(column)
    columns = {name: _joined(parts.pop(name)) for name in _NAMES}
    if np.any(columns["begin"][1:] < columns["begin"][:-1]):
        order = np.argsort(columns["begin"], kind="stable")
        for name in _NAMES:
            columns[name] = columns[name][order]
    if np.array_equal(columns["counted"], columns["size"]):  # as in most recordings
        columns["counted"] = columns["size"]
    for name in _OFTEN_EQUAL:
        columns[name] = _once(columns[name])
    length = round((recording.end - begin) * 1e9)
    table = AllocationTable(
        **columns, start=begin, length=length, sources=list(sources), chip_sets=indexes.chip_sets,
        allocators=indexes.allocators, sites=indexes.sites,
    )  # fmt: skip
    by_column = np.array(programs, np.int64).reshape(-1, len(ProgramTable._fields)).T
    records, launches = sum(ring.records for ring in rings), sum(ring.launches for ring in rings)
    logs, of_programs = (
        [events.log, *(ring.log for ring in rings)],
        [*events.parts(), *(part for ring in rings for part in ring.parts())],
    )
    return Lifetimes(table, ProgramTable(*by_column), records, events.events, launches, logs, of_programs)


def _joined(parts: list[Array]) -> Array:
    """One array of all. A large one is not copied if the others are empty."""
    filled = [part for part in parts if len(part)]
    return filled[0] if len(filled) == 1 else np.concatenate(parts)


def _once(column: Array) -> Array:
    """The same column, which is read only. A value that all rows have is stored once."""
    equal = len(column) > 0 and column.min() == column.max()
    return np.broadcast_to(column[:1].copy(), column.shape) if equal else column

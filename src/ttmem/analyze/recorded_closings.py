# SPDX-License-Identifier: Apache-2.0
"""Finds when the processes of a recording closed their devices for the last time, or exited without closing them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ttmem.analyze.recorded_growth import ProcessKey
from ttmem.recording.allocation_table import End
from ttmem.recording.blocks import RecordingError
from ttmem.recording.record_arrays import RecordArrays
from ttmem.wire.agent_ring import WHOLESALE, RingEvent

if TYPE_CHECKING:
    from ttmem.recording.recorded_ring import RecordedProcess
    from ttmem.recording.recording_file import Recording

_ROUNDING = 1e-6  # seconds; the times of the account and of the table differ by less
_OPENED, _CLOSING, _CLOSED = int(RingEvent.OPENED), int(RingEvent.CLOSING), int(RingEvent.CLOSED)
_ALLOCATED, _FREED = int(RingEvent.ALLOCATED), int(RingEvent.FREED)


def closing_times(recording: Recording) -> dict[ProcessKey, float]:
    """The moment just before the devices of a process were closed for the last time, or before it exited.

    A process that has done neither is left out. An agent reports when it begins to close a device, before anything is
    freed: what is still there was left over. Of other processes, the first end by closing or exit is used.
    """
    found = _by_table(recording)
    for process in recording.processes.values():
        time = _by_records(process)
        if time is not None:
            found[process.source.info.key] = time
    return found


def _by_table(recording: Recording) -> dict[ProcessKey, float]:
    table = recording.lifetimes().allocations
    closed = np.isin(table.ended_by, [End.DEVICE_CLOSED, End.PROCESS_EXITED])
    sources: dict[ProcessKey, list[int]] = {}
    for number, source in enumerate(table.sources):
        sources.setdefault(source.info.key, []).append(number)
    found = {}
    for key, numbers in sources.items():
        mine = np.isin(table.source, numbers)
        if mine.any():
            ends = table.end[mine & closed]
            ends = ends[ends > table.begin[mine].max()]
            if len(ends):
                found[key] = float(ends.min() * 1e-9 + table.start) - _ROUNDING
    return found


def _by_records(process: RecordedProcess) -> float | None:
    """When an agent's process began to close its devices; None if it used them again, or never closed them.

    Several devices that are closed one after the other are one closing, as for `ttmem.ingest.ring_record_events`.
    """
    found, used, last = None, False, 0
    closing: set[int] = set()  # meshes
    for index in process.records:
        block = process.blocks[index].block
        records = _arrays(process, index)
        if records is None or block.number > last + 1:  # records are missing, maybe those of a closing
            closing.clear()
            used = True
        last = block.last
        if records is None:
            continue
        event = records.field("event")
        freed = (event == _FREED) & (records.field("flags") & WHOLESALE == 0)
        uses = freed | (event == _ALLOCATED)
        changes = np.flatnonzero(np.isin(event, (_OPENED, _CLOSING, _CLOSED)))
        meshes, times = records.field("mesh")[changes].tolist(), records.field("time")[changes].tolist()
        begin = 0
        for place, what, mesh, time in zip(changes.tolist(), event[changes].tolist(), meshes, times):
            used = used or (not closing and bool(uses[begin:place].any()))
            begin = place
            if what == _CLOSING:
                closing.add(mesh)
                found = time * 1e-9 + process.offset if used else found
                used = False
            elif what == _CLOSED:
                closing.discard(mesh)
            else:
                used = True
        used = used or (not closing and bool(uses[begin:].any()))
    lost_at_end = any(end > last for _, end in process.gaps)
    return None if used or lost_at_end else found


def _arrays(process: RecordedProcess, index: int) -> RecordArrays | None:
    """The records of a block; None if it is damaged."""
    one = process.blocks[index]
    payload = process.payload(one)
    try:
        return None if payload is None else RecordArrays(payload, 0, one.block.last + 1 - one.block.number)
    except RecordingError:
        return None

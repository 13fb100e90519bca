# SPDX-License-Identifier: Apache-2.0
"""The allocations of sources without a ring, found by applying their events to an account one by one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ttmem.account.allocations import Allocation, Part
from ttmem.account.entities import Source
from ttmem.account.ledger import Ledger
from ttmem.model.events import (
    Allocated,
    DeviceClosed,
    Freed,
    ProcessExited,
    ProgramCompiled,
    ProgramDestroyed,
    ProgramRun,
    WorkloadRun,
)
from ttmem.recording.allocation_table import NEVER, SYSTEM, End, Site
from ttmem.recording.event_entries import SourceName
from ttmem.recording.launch_log import Change, LaunchLog, ProgramKey, ProgramPart, Run
from ttmem.recording.record_arrays import Array
from ttmem.recording.replay import Stream
from ttmem.recording.table_indexes import Indexes
from ttmem.wire.agent_ring import BINARY, KEPT, PER_CORE, SHARED

_ENDS = {
    Freed: End.FREED,
    DeviceClosed: End.DEVICE_CLOSED,
    ProgramDestroyed: End.PROGRAM_DESTROYED,
    ProcessExited: End.PROCESS_EXITED,
    Allocated: End.REPLACED,
}


class EventLifetimes:
    """Reads the events of a recording."""

    def __init__(self, begin: float, indexes: Indexes, source_index: Any) -> None:
        """``source_index`` gives the index of a source in the table."""
        self._begin = begin
        self._indexes = indexes
        self._source_index = source_index
        self._ledger = Ledger()
        self._rows: list[list[int]] = []
        self._live: dict[Allocation, int] = {}
        self._programs: list[list[int]] = []  # rows of `ProgramTable`
        self._compiled: dict[tuple[Source, Any, int], int] = {}  # by source, device and program
        self._parts: dict[int, ProgramPart] = {}  # by row
        self.log = LaunchLog()
        self.events = 0
        self.exits: dict[Any, int] = {}  # process -> when it exited

    def read(self, events: Stream) -> None:
        ledger = self._ledger
        for time, name, event in events:
            now = round((time - self._begin) * 1e9)
            source = None if name is None else name.of(ledger)
            self.events += 1
            kind = type(event)
            found = ledger.apply(time, source, event)
            if source is not None and name is not None:
                self._follow_programs(source, name, event, now)
                if isinstance(event, (ProgramRun, WorkloadRun)):
                    self._launched(source, name, event.runs if isinstance(event, WorkloadRun) else (event,), now)
            if kind is ProcessExited and name is not None:
                self.exits[name.info] = now
            if kind is Allocated and found is not None and found not in self._live:
                assert name is not None
                self._live[found] = len(self._rows)
                self._rows.append(self._row(found, self._source_index(name), now))
            elif kind is Freed and found is not None and not found.refs:
                self._ended(found, now, End.FREED)
            if len(self._live) != ledger.live_count():
                live = {one for holding in ledger.holdings() for one in holding.allocations()}
                for one in [one for one in self._live if one not in live]:
                    self._ended(one, now, _ENDS.get(kind, End.LOST))
                for one in live - self._live.keys():  # added by the end of a resync
                    self._live[one] = len(self._rows)
                    self._rows.append(self._row(one, self._source_index(name), now))

    def _follow_programs(self, source: Source, name: SourceName, event: Any, now: int) -> None:
        """Programs are compiled, and end when they are destroyed, their device is closed, or their process exits."""
        kind, ended = type(event), []
        if kind is ProgramCompiled and (holding := source.holdings.get(event.device)) is not None:
            key = source, event.device, event.program
            if key not in self._compiled:
                self._compiled[key] = len(self._programs)
                self._programs.append([
                    self._source_index(name), event.program, self._indexes.site(Site(event.tag, None, event.stack)),
                    event.ring, self._indexes.chips(tuple(chip.id for chip in holding.chips)), now, NEVER,
                ])  # fmt: skip
        elif kind is ProgramDestroyed:
            ended = [(source, event.device, event.program)]
        elif kind is DeviceClosed:
            ended = [key for key in self._compiled if key[:2] == (source, event.device)]
        elif kind is ProcessExited:
            ended = [key for key in self._compiled if key[0].process is source.process]
        for key in ended:
            row = self._compiled.pop(key, None)
            if row is not None:
                self._programs[row][-1] = now

    def _launched(self, source: Source, name: SourceName, runs: tuple[ProgramRun, ...], now: int) -> None:
        found = []
        for run in runs:
            holding = source.holdings.get(run.device)
            if holding is not None:
                chips = self._indexes.chips(tuple(chip.id for chip in holding.chips))
                found.append(Run(ProgramKey(self._source_index(name), run.program, chips), run.cores))
        if found:
            self.log.add_one(now, Change(tuple(found)))

    def parts(self) -> list[ProgramPart]:
        """The parts of programs."""
        return [one._replace(end=self._rows[row][-2]) for row, one in self._parts.items()]

    def programs(self) -> list[list[int]]:
        """Rows of `ProgramTable`."""
        return self._programs

    def _ended(self, allocation: Allocation, now: int, how: End) -> None:
        row = self._live.pop(allocation, None)
        if row is not None:
            self._rows[row][-2:] = now, how

    def _row(self, one: Allocation, source: int, now: int) -> list[int]:
        extra, indexes = one.extra, self._indexes
        chips = indexes.chips(tuple(chip.id for chip in one.holding.chips))
        flags = 0
        site = Site(None, None, None)
        if extra is not None:
            for flag, has in ((SHARED, extra.shared), (BINARY, extra.binary), (KEPT, extra.kept),
                              (PER_CORE, extra.per_core), (SYSTEM, extra.system)):  # fmt: skip
                flags |= flag if has else 0
            site = Site(extra.tag, extra.shape, extra.stack)
        if isinstance(one, Part):
            site = Site(one.origin.tag, None, one.origin.stack or site.stack, site.op)
        taken, number = one.taken, indexes.site(site)
        if isinstance(one, Part):
            cores = extra.cores if extra is not None else 0
            key = ProgramKey(source, one.program, chips)
            self._parts[len(self._rows)] = ProgramPart(key, int(one.kind), one.address, one.size, cores,
                                                       bool(flags & SHARED), number, now, NEVER)  # fmt: skip
        return [
            source, chips, -1, number, one.kind, flags, one.program, one.address, one.size, one.counted,
            -1 if taken is None else taken, 0, now, NEVER, End.LIVE,
        ]  # fmt: skip

    def columns(self, names: list[str]) -> Iterator[tuple[str, Array]]:
        """Columns of `AllocationTable` with these names, in the order of its fields."""
        kinds = {"address": np.uint64, "kind": np.uint8, "flags": np.uint8, "ended_by": np.uint8, "program": np.uint32}
        wide = ("size", "counted", "reserved", "per_bank", "begin", "end")
        for place, name in enumerate(names):
            kind = kinds.get(name, np.int64 if name in wide else np.int32)
            yield name, np.array([row[place] for row in self._rows], kind)

# SPDX-License-Identifier: Apache-2.0
"""The events that bring the account from the last record that was read to a copy of the agent's live table.

Only slots that changed cost anything. What is gone is removed before anything is added, so no total is ever higher than
it was.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import merge

from ttmem.account.entities import Source
from ttmem.account.free_matching import NUMBERED
from ttmem.ingest.known_slots import CHUNK_SLOTS, KnownSlots
from ttmem.ingest.ring_meshes import RingMeshes
from ttmem.ingest.ring_programs import PROGRAMS_PER_PAUSE, RingPrograms
from ttmem.ingest.ring_record_events import RecordEvents
from ttmem.model.events import Event, Freed, ProgramDestroyed
from ttmem.model.kinds import BUFFER_KINDS, Kind
from ttmem.wire.agent_ring import Mesh
from ttmem.wire.table_copy import TableCopy

_SLOT_BITS = 32
_SLOTS_PER_PAUSE = 64


class Corrections:
    """What a reader knows of one agent, and how to correct the account of it."""

    def __init__(
        self,
        source: Source,
        meshes: RingMeshes,
        programs: RingPrograms,
        slots: KnownSlots,
        events: RecordEvents,
    ) -> None:
        self._source = source
        self._meshes = meshes
        self._programs = programs
        self._slots = slots
        self._events = events

    def of_meshes(self, meshes: Sequence[Mesh], until: int) -> Iterator[Event]:
        """What was opened and closed, up to the record ``until``. These events come first."""
        self._programs.forget_launches()
        yield from self._meshes.changed(meshes, until)
        yield from self._meshes.opened_and_closed(self._source.process.numbers)

    def of_table(self, table: TableCopy, without_slot: bool) -> Iterator[tuple[int | None, Event] | None]:
        """Each with the agent's time of its allocation or launch, None for now. Instead of an event, None is a pause.

        ``without_slot``: some buffers had no slot of the table.
        """
        # Rows to add, sorted by sequence: to sort or to unpack all of them at once would take long.
        new: list[list[int]] = []  # sequence << _SLOT_BITS | slot
        changed_programs: set[int] = set()
        for chunk in self._slots.changed(table):
            yield None
            added = []
            for count, (slot, sequence, same) in enumerate(chunk, 1):
                if not count % _SLOTS_PER_PAUSE:  # with many holdings, each slot takes long
                    yield None
                record = table.record(slot) if sequence else None
                if same and record is not None and not record.program:
                    yield None, self._events.described(record)
                    continue
                changed_programs.add(self._slots.programs.pop(slot, 0))
                for event in self._removed(slot):
                    yield None, event
                if record is not None and record.program:
                    changed_programs.add(record.program)
                elif record is not None:
                    added.append(sequence << _SLOT_BITS | slot)
            new.append(sorted(added))
        changed_programs.discard(0)
        if without_slot:
            for event in self._removed_without_slot():
                yield None, event
        for removed in self._programs_removed(table, changed_programs):
            yield None if removed is None else (None, removed)
        for added in _rows_of(table, changed_programs):
            yield None
            new.append(sorted(added))
        for row in merge(*new):
            record = table.record(row & (1 << _SLOT_BITS) - 1)
            yield record.time, self._events.added(record)
        yield from self._programs.launched_in(table)

    def _removed(self, slot: int) -> Iterator[Event]:
        """Free the buffer that the account has in this slot, if there is one."""
        key = (slot + 1) << 2 | NUMBERED
        for holding in self._source.holdings.values():
            buffer = holding.buffers.get(key)
            if buffer is not None:
                # A write to one core may count as another kind (rule 10), but was reported as L1.
                kind = buffer.kind if buffer.kind in BUFFER_KINDS else Kind.L1
                yield Freed(holding.device, kind, buffer.address, ident=slot + 1)
                return

    def _removed_without_slot(self) -> Iterator[Event]:
        """Free the buffers that have no slot of the table: nothing shows whether they are still live."""
        for holding in self._source.holdings.values():
            for key, buffer in list(holding.buffers.items()):
                if key & 3 != NUMBERED:
                    allocator = 0 if buffer.extra is None else buffer.extra.allocator
                    yield Freed(holding.device, buffer.kind, buffer.address, allocator=allocator)

    def _programs_removed(self, table: TableCopy, changed: set[int]) -> Iterator[Event | None]:
        """Remove the programs of which anything changed; those that are still live are added again. None is a pause."""
        for count, (slot, frame) in enumerate(list(self._programs.frames.items()), 1):
            if not count % PROGRAMS_PER_PAUSE:
                yield None
            if not table.has_frame(slot):
                changed.add(frame.program)
            if frame.program in changed:
                self._programs.drop(slot)
        for holding in self._source.holdings.values():
            for program in [ident for ident in holding.programs if ident in changed]:
                yield ProgramDestroyed(holding.device, program)


def _rows_of(table: TableCopy, programs: set[int]) -> Iterator[list[int]]:
    """The frames and parts of these programs, some thousand slots of the table at a time."""
    for first in range(0, len(table) if programs else 0, CHUNK_SLOTS):
        last = min(first + CHUNK_SLOTS, len(table))
        rows = zip(range(first, last), table.programs(first, last), table.sequences(first, last))
        yield [sequence << _SLOT_BITS | slot for slot, program, sequence in rows if sequence and program in programs]

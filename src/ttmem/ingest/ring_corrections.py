# SPDX-License-Identifier: Apache-2.0
"""The events that bring the account from the last record that was read to a copy of the agent's live table.

Only slots that changed cost anything. What is gone is removed before anything is added, so no total is ever higher than
it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ttmem.account.entities import Source
from ttmem.account.free_matching import NUMBERED
from ttmem.ingest.known_slots import KnownSlots
from ttmem.ingest.ring_meshes import RingMeshes
from ttmem.ingest.ring_programs import RingPrograms
from ttmem.model.events import Event, Freed, ProgramDestroyed
from ttmem.wire.agent_ring import Record
from ttmem.wire.table_copy import TableCopy


class Corrections:
    """What a reader knows of one agent, and how to correct the account of it."""

    def __init__(
        self,
        source: Source,
        meshes: RingMeshes,
        programs: RingPrograms,
        slots: KnownSlots,
        added: Callable[[Record], Event],
        renamed: Callable[[Record], Event],
    ) -> None:
        """``added`` and ``renamed`` make the event of a row of the table."""
        self._source = source
        self._meshes = meshes
        self._programs = programs
        self._slots = slots
        self._added = added
        self._renamed = renamed

    def of_meshes(self) -> Iterator[Event]:
        """What was opened and closed. These events come first."""
        self._programs.forget_launches()
        yield from self._meshes.changed()

    def of_table(self, table: TableCopy, without_slot: bool) -> Iterator[tuple[int | None, Event] | None]:
        """Each with the agent's time of its allocation or launch, None for now. Instead of an event, None is a pause.

        ``without_slot``: some buffers had no slot of the table.
        """
        new: list[Record] = []
        changed_programs: set[int] = set()
        for chunk in self._slots.changed(table):
            yield None
            for slot, sequence, same in chunk:
                record = table.record(slot) if sequence else None
                if same and record is not None and not record.program:
                    yield None, self._renamed(record)
                    continue
                changed_programs.add(self._slots.programs.pop(slot, 0))
                for event in self._removed(slot):
                    yield None, event
                if record is not None and record.program:
                    changed_programs.add(record.program)
                elif record is not None:
                    new.append(record)
        changed_programs.discard(0)
        if without_slot:
            for event in self._removed_without_slot():
                yield None, event
        for event in self._programs_removed(table, changed_programs):
            yield None, event
        new += _rows_of(table, changed_programs)
        for record in sorted(new):
            yield record.time, self._added(record)
        yield from self._programs.launched_in(table)

    def _removed(self, slot: int) -> Iterator[Event]:
        """Free the buffer that the account has in this slot, if there is one."""
        key = (slot + 1) << 2 | NUMBERED
        for holding in self._source.holdings.values():
            buffer = holding.buffers.get(key)
            if buffer is not None:
                yield Freed(holding.device, buffer.kind, buffer.address, ident=slot + 1)
                return

    def _removed_without_slot(self) -> Iterator[Event]:
        """Free the buffers that have no slot of the table: nothing shows whether they are still live."""
        for holding in self._source.holdings.values():
            for key, buffer in list(holding.buffers.items()):
                if key & 3 != NUMBERED:
                    allocator = 0 if buffer.extra is None else buffer.extra.allocator
                    yield Freed(holding.device, buffer.kind, buffer.address, allocator=allocator)

    def _programs_removed(self, table: TableCopy, changed: set[int]) -> Iterator[Event]:
        """Remove the programs of which anything changed; those that are still live are added again."""
        live = {slot for slot, _ in table.frames()}
        for slot, frame in list(self._programs.frames.items()):
            if slot not in live:
                changed.add(frame.program)
            if frame.program in changed:
                self._programs.drop(slot)
        for holding in self._source.holdings.values():
            for program in [ident for ident in holding.programs if ident in changed]:
                yield ProgramDestroyed(holding.device, program)


def _rows_of(table: TableCopy, programs: set[int]) -> list[Record]:
    """The frames and parts of these programs."""
    if not programs:
        return []
    sequences = table.sequences(0, len(table))
    rows = enumerate(table.programs(0, len(table)))
    return [table.record(slot) for slot, program in rows if program in programs and sequences[slot]]

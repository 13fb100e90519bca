# SPDX-License-Identifier: Apache-2.0
"""A copy of an agent's live table, brought up to one record of its ring.

The agent changes its table while it is copied. Every change is also a record, so the copy is corrected with the records
that were written meanwhile. The rows stay bytes: a reader compares columns, and unpacks only the rows that it needs.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import TYPE_CHECKING

from ttmem.wire.agent_ring import PROGRAM_FRAME, RAN, RECORD, RECORD_SIZE, Record, RingError, RingEvent

if TYPE_CHECKING:
    from ttmem.wire.agent_ring import Ring

_COPY_ATTEMPTS = 100
_ROW_U64, _ROW_U32 = RECORD_SIZE // 8, RECORD_SIZE // 4
_KIND_AT, _FLAGS_AT, _TIME_AT, _NAME_AT = 17, 19, 8, 60
_PROGRAM_COLUMN, _NAME_COLUMN = 14, 15  # in a row of u32
_TIME, _NAME = Struct("<Q"), Struct("<I")
_EMPTY_ROW = bytes(8)  # sequence 0: the slot is free


class TableCopy:
    """The live table as of the record ``sequence``. A slot whose sequence is 0 is free."""

    __slots__ = ("_most", "_rows", "sequence")

    def __init__(self, rows: bytes, sequence: int, most: int) -> None:
        """``most`` is the number of slots that the table can have."""
        self._rows = bytearray(rows)
        self._most = most
        self.sequence = sequence

    def __len__(self) -> int:
        """Number of slots, free ones included."""
        return len(self._rows) // RECORD_SIZE

    @property
    def rows(self) -> bytes:
        """All slots as they are in the agent's memory."""
        return bytes(self._rows)

    def sequences(self, first: int, last: int) -> list[int]:
        """The sequence in each slot from ``first`` to before ``last``."""
        with memoryview(self._rows) as rows, rows.cast("Q") as numbers:
            return numbers[first * _ROW_U64 : last * _ROW_U64 : _ROW_U64].tolist()

    def names(self, first: int, last: int) -> list[int]:
        """The name (a blob) in each of these slots."""
        return self._column(_NAME_COLUMN, first, last)

    def programs(self, first: int, last: int) -> list[int]:
        """The program in each of these slots, 0 for none."""
        return self._column(_PROGRAM_COLUMN, first, last)

    def record(self, slot: int) -> Record:
        return Record._make(RECORD.unpack_from(self._rows, slot * RECORD_SIZE))

    def records(self) -> list[Record]:
        """Everything live, in the order in which it was allocated."""
        found = (Record._make(row) for row in RECORD.iter_unpack(self._rows))
        return sorted(record for record in found if record.sequence)

    def frames(self) -> Iterator[tuple[int, Record]]:
        """The frame of each live program, with its slot."""
        kinds = bytes(self._rows[_KIND_AT::RECORD_SIZE])
        slot = kinds.find(PROGRAM_FRAME)
        while slot >= 0:
            record = self.record(slot)
            if record.sequence:
                yield slot, record
            slot = kinds.find(PROGRAM_FRAME, slot + 1)

    def apply(self, record: Record) -> None:
        """Make the change that the agent made with this record."""
        event, slot = record.event, record.slot
        if event == RingEvent.DESTROYED:
            self._destroy(record.program)
        elif slot >= self._most:
            return  # the table had no room for it
        elif event == RingEvent.ALLOCATED:
            self._put(slot, record)
        elif event == RingEvent.PROGRAM:
            known = self.record(slot) if slot < len(self) else None
            if known is not None and known.sequence and known.program == record.program and record.flags & RAN:
                record = record._replace(time=known.time)  # the time of its last launch
            self._put(slot, record)
        elif slot >= len(self) or not self.sequences(slot, slot + 1)[0]:
            return
        elif event == RingEvent.NAMED:
            _NAME.pack_into(self._rows, slot * RECORD_SIZE + _NAME_AT, record.name)
        elif event == RingEvent.FREED:
            self._clear(slot)
        elif event == RingEvent.RUN:
            self._mark_launched(slot, record.time)

    def _column(self, column: int, first: int, last: int) -> list[int]:
        with memoryview(self._rows) as rows, rows.cast("I") as numbers:
            return numbers[first * _ROW_U32 + column : last * _ROW_U32 : _ROW_U32].tolist()

    def _put(self, slot: int, record: Record) -> None:
        missing = slot + 1 - len(self)
        if missing > 0:
            self._rows += bytes(missing * RECORD_SIZE)
        RECORD.pack_into(self._rows, slot * RECORD_SIZE, *record)

    def _clear(self, slot: int) -> None:
        at = slot * RECORD_SIZE
        self._rows[at : at + len(_EMPTY_ROW)] = _EMPTY_ROW

    def _mark_launched(self, slot: int, time: int) -> None:
        at = slot * RECORD_SIZE
        _TIME.pack_into(self._rows, at + _TIME_AT, time)
        self._rows[at + _FLAGS_AT] |= RAN

    def _destroy(self, program: int) -> None:
        """Remove a program and its parts. Its workload's launches are then marked on another frame of the workload."""
        size = len(self)
        sequences = self.sequences(0, size)
        gone = [slot for slot, number in enumerate(self.programs(0, size)) if number == program and sequences[slot]]
        records = [self.record(slot) for slot in gone]
        for slot in gone:
            self._clear(slot)
        for frame in records:
            if frame.kind == PROGRAM_FRAME and frame.flags & RAN and frame.per_bank:
                for slot, other in self.frames():
                    if other.per_bank == frame.per_bank:
                        self._mark_launched(slot, max(other.time, frame.time) if other.flags & RAN else frame.time)
                        break


def copy_table(ring: Ring) -> TableCopy:
    """A copy of everything live. The cursor of the ring is then at the copy's record."""
    for _ in range(_COPY_ATTEMPTS):
        # Read the newest record again: the agent changes the table after the record, and may not have done so yet.
        ring.cursor = max(0, ring.head - 1)
        rows = ring.table_rows()
        lost, records = ring.read(ring.slots)
        if lost:
            continue  # the ring was overwritten meanwhile
        copy = TableCopy(rows, ring.cursor, ring.table_slots)
        for record in records:
            copy.apply(Record._make(record))
        return copy
    raise RingError("the live table changes faster than it can be copied")

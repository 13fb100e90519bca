# SPDX-License-Identifier: Apache-2.0
"""A copy of an agent's live table, brought up to one record of its ring.

The agent changes its table while it is copied. Every change is also a record, so the copy is corrected with the records
that were written meanwhile. The rows stay bytes: a reader compares columns, and unpacks only the rows that it needs.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from struct import Struct
from typing import TYPE_CHECKING

from ttmem.wire.agent_ring import PROGRAM_FRAME, RAN, RECORD, RECORD_SIZE, Record, RingError, RingEvent

if TYPE_CHECKING:
    from ttmem.wire.agent_ring import Ring

_COPY_ATTEMPTS = 100
_MOST_COPIED_BYTES = 128 << 20  # until the table is called too fast: it is large, or its owner misleads the reader
_ROW_U64, _ROW_U32 = RECORD_SIZE // 8, RECORD_SIZE // 4
_KIND_AT, _FLAGS_AT, _TIME_AT, _NAME_AT = 17, 19, 8, 60
_PROGRAM_COLUMN, _NAME_COLUMN = 14, 15  # in a row of u32
_TIME, _NAME = Struct("<Q"), Struct("<I")
_FRAME = bytes([PROGRAM_FRAME])
_EMPTY_ROW = bytes(8)  # sequence 0: the slot is free


class TableCopy:
    """The live table as of the record ``sequence``. A slot whose sequence is 0 is free."""

    __slots__ = ("_frames", "_most", "_parts", "_rows", "sequence")

    def __init__(self, rows: bytes | bytearray, sequence: int, most: int) -> None:
        """``most`` is the number of slots that the table can have. A bytearray becomes part of the copy."""
        self._rows = rows if isinstance(rows, bytearray) else bytearray(rows)
        self._most = most
        self._parts: dict[int, set[int]] | None = None  # program -> slots that have, or had, it; made when needed
        self._frames: dict[int, list[int]] = {}  # workload -> the same of its frames, as a heap
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

    def flags(self, first: int, last: int) -> bytes:
        """The flags in each of these slots."""
        return bytes(self._rows[first * RECORD_SIZE + _FLAGS_AT : last * RECORD_SIZE : RECORD_SIZE])

    def programs(self, first: int, last: int) -> list[int]:
        """The program in each of these slots, 0 for none."""
        return self._column(_PROGRAM_COLUMN, first, last)

    def record(self, slot: int) -> Record:
        return Record._make(RECORD.unpack_from(self._rows, slot * RECORD_SIZE))

    def records(self) -> list[Record]:
        """Everything live, in the order in which it was allocated."""
        found = (Record._make(row) for row in RECORD.iter_unpack(self._rows))
        return sorted(record for record in found if record.sequence)

    def has_frame(self, slot: int) -> bool:
        """Is there the frame of a live program in this slot?"""
        at = slot * RECORD_SIZE
        return self._rows[at + _KIND_AT : at + _KIND_AT + 1] == _FRAME and any(self._rows[at : at + len(_EMPTY_ROW)])

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
            at = slot * RECORD_SIZE
            _NAME.pack_into(self._rows, at + _NAME_AT, record.name)
            self._rows[at + _FLAGS_AT] = record.flags | self._rows[at + _FLAGS_AT] & RAN
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
        if self._parts is not None:
            self._note(slot, record)

    def _clear(self, slot: int) -> None:
        at = slot * RECORD_SIZE
        self._rows[at : at + len(_EMPTY_ROW)] = _EMPTY_ROW

    def _mark_launched(self, slot: int, time: int) -> None:
        at = slot * RECORD_SIZE
        _TIME.pack_into(self._rows, at + _TIME_AT, time)
        self._rows[at + _FLAGS_AT] |= RAN

    def _destroy(self, program: int) -> None:
        """Remove a program and its parts. Its workload's launches are then marked on another frame of the workload."""
        if self._parts is None:
            self._parts = {}
            for slot, number in enumerate(self.programs(0, len(self))):
                if number:
                    self._note(slot, self.record(slot))
        gone = {slot: record for slot in self._parts.pop(program, ()) if (record := self.record(slot)).sequence}
        gone = {slot: record for slot, record in gone.items() if record.program == program}
        for slot in gone:
            self._clear(slot)
        for frame in gone.values():
            if frame.kind == PROGRAM_FRAME and frame.flags & RAN and frame.per_bank:
                other = self._first_frame(frame.per_bank)
                if other is not None:
                    self._mark_launched(other.slot, max(other.time, frame.time) if other.flags & RAN else frame.time)

    def _first_frame(self, workload: int) -> Record | None:
        slots = self._frames.get(workload, [])
        while slots:
            record = self.record(slots[0])._replace(slot=slots[0])
            if record.sequence and record.kind == PROGRAM_FRAME and record.per_bank == workload:
                return record
            heappop(slots)
        return None

    def _note(self, slot: int, record: Record) -> None:
        """Note the program in a slot. Other programs that it had before stay noted, and are left out when used."""
        assert self._parts is not None
        if record.program:
            self._parts.setdefault(record.program, set()).add(slot)
        if record.kind == PROGRAM_FRAME:
            heappush(self._frames.setdefault(record.per_bank, []), slot)


def copy_table(ring: Ring) -> TableCopy:
    """A copy of everything live. The cursor of the ring is then at the copy's record."""
    copied = attempts = 0
    while attempts < _COPY_ATTEMPTS and copied < _MOST_COPIED_BYTES:
        # Read the newest record again: the agent changes the table after the record, and may not have done so yet.
        ring.cursor = max(0, ring.head - 1)
        rows = ring.table_rows()
        lost, records = ring.read_raw(ring.slots)
        if lost:  # the ring was overwritten meanwhile
            attempts += 1
            copied += len(rows) + len(records)
            continue
        copy = TableCopy(rows, ring.cursor, ring.table_slots)
        for record in RECORD.iter_unpack(records):
            copy.apply(Record._make(record))
        return copy
    raise RingError("the live table changes faster than it can be copied")

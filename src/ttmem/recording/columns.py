# SPDX-License-Identifier: Apache-2.0
"""Ring records as byte columns: byte 0 of all records, then byte 1 of all, and so on. That compresses well.

A column of equal bytes is stored as one byte. The sequence number of a record is not stored: records of a block follow
each other. Nothing here looks at a single record, so a block of 65,536 records costs some milliseconds.

    u32  number of records
    64 bits, one for each column: 1 if it is constant
    one byte for each constant column
    all bytes of each other column
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError

from ttmem.recording.blocks import RecordingError
from ttmem.wire.agent_ring import RECORD_SIZE, RingEvent

MAX_RECORDS = 65_536
_HEAD = Struct("<IQ")
_SEQUENCE_BYTES = 8  # the first bytes of a record
_EVENT_COLUMN = 16
FAILED, PHASES = 1, 2  # flags of a block of records or events: it has some of these
CHECKPOINT = 4  # flag of a block of events: they repeat what earlier segments have


def packed(raw: bytes | bytearray, *, sequences: bool = False) -> tuple[bytes, int]:
    """Records as columns, and the flags of their block. ``sequences``: of a table, whose sequences do not follow."""
    count = len(raw) // RECORD_SIZE
    constant = 0
    constants = bytearray()
    columns: list[bytes | bytearray] = []
    for number in range(0 if sequences else _SEQUENCE_BYTES, RECORD_SIZE):
        column = raw[number::RECORD_SIZE]
        if column == column[:1] * count:  # a comparison stops at the first difference; `count` looks at every byte
            constant |= 1 << number
            constants += column[:1]
        else:
            columns.append(column)
    events = raw[_EVENT_COLUMN::RECORD_SIZE]
    flags = FAILED if bytes([RingEvent.FAILED]) in events else 0
    if bytes([RingEvent.PHASE_BEGAN]) in events or bytes([RingEvent.PHASE_ENDED]) in events:
        flags |= PHASES
    return b"".join((_HEAD.pack(count, constant), constants, *columns)), flags


def columns_of(packed_records: bytes, *, sequences: bool = False) -> tuple[int, dict[int, memoryview]]:
    """The number of records of a block, and each byte of them as a column; a constant column has one byte."""
    try:
        count, constant = _HEAD.unpack_from(packed_records)
    except StructError as error:
        raise RecordingError(f"a block of records is incomplete: {error}") from None
    if count > 4 * MAX_RECORDS:
        raise RecordingError(f"a block of {count} records; there can be {4 * MAX_RECORDS}")
    numbers = range(0 if sequences else _SEQUENCE_BYTES, RECORD_SIZE)
    constants = sum(constant >> number & 1 for number in numbers) if count else 0
    expected = _HEAD.size + constants + (len(numbers) - constants) * count
    if len(packed_records) != expected:
        raise RecordingError(f"a block of {count} records has {len(packed_records)} bytes, not {expected}")
    view = memoryview(packed_records)
    place, at = _HEAD.size, _HEAD.size + constants
    columns = {}
    for number in numbers if count else ():
        if constant >> number & 1:
            columns[number] = view[place : place + 1]
            place += 1
        else:
            columns[number] = view[at : at + count]
            at += count
    return count, columns


def unpacked(packed_records: bytes, first: int | None) -> bytes:
    """The records of a block whose first record has that sequence number; None if they contain their own."""
    count, columns = columns_of(packed_records, sequences=first is None)
    raw = bytearray(count * RECORD_SIZE)
    for number, column in columns.items():
        raw[number::RECORD_SIZE] = column if len(column) == count else bytes(column) * count
    if first is not None and count:
        ends = b"".join(map(Struct("<Q").pack, range(first, first + count)))
        for number in range(_SEQUENCE_BYTES):
            raw[number::RECORD_SIZE] = ends[number::_SEQUENCE_BYTES]
    return bytes(raw)

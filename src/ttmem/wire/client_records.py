# SPDX-License-Identifier: Apache-2.0
"""The layout of the records of ttmem's own protocol, for client_encode and client_decode.

They contain what legacy records lack (kind, program, cores, tag, chip), with a length and a version. Every record
starts with ``op u8, kind u8, length u16, device i32``; length covers the whole record and is a multiple of 8. A
connection opens with HELLO, whose first byte no legacy record can have. docs/protocol.md lists the bodies. Recordings
contain the same records (recording/event_entries.py).
"""

from __future__ import annotations

from struct import Struct

VERSION = 1
MAGIC = 0xF7
HELLO_MARK = 0x54

ALLOCATED, FREED, PROGRAM_RUN, PROGRAM_DESTROYED = 0x81, 0x82, 0x83, 0x84
DEVICE_OPENED, DEVICE_CLOSED = 0x85, 0x86
RESYNC_BEGIN, RESYNC_END, LOST, MARK = 0x87, 0x88, 0x89, 0x8A
SYNC, SYNCED, WELCOME = 0x8B, 0x8C, 0x8D
PROGRAM_COMPILED, PHASE_BEGAN, PHASE_ENDED, VIEWED, ON_MESH = 0x8E, 0x8F, 0x90, 0x91, 0x92
# Only in recordings: events of the server itself.
CHIP_FOUND, REJECTED, CLAIMED, PROCESS_EXITED, PEAKS_RESET, RESYNC_STEP = 0xA0, 0xA1, 0xA2, 0xA3, 0xA4, 0xA5
# Only in recordings: events from the ring of an agent.
SEES, AUDITED, FAILED, DESCRIBED, UNCERTAIN = 0xA6, 0xA7, 0xA8, 0xA9, 0xAA
FROM_CLIENTS = frozenset((*range(ALLOCATED, SYNC + 1), PROGRAM_COMPILED, PHASE_BEGAN, PHASE_ENDED, VIEWED, ON_MESH))
# Records that may be about a mesh: ON_MESH has the device numbers, and contains one of these.
ABOUT_MESHES = frozenset((ALLOCATED, FREED, PROGRAM_RUN, PROGRAM_COMPILED, PROGRAM_DESTROYED, DEVICE_CLOSED, VIEWED))
MAX_MESH_DEVICES = 256

PREFIX_FORM = Struct("<BBHi")
ALLOCATED_FORM = Struct("<BBHiQQQQIIHHHH")
FREED_FORM = Struct("<BBHiQQQIHH")
RUN_FORM = Struct("<BBHiQHHI")
NUMBER_FORM = Struct("<BBHiQ")
VIEWED_FORM = Struct("<BBHiIIQQQ")
RANGE_FORM = Struct("<4H")
PHASE_FORM = Struct("<QQ")

NO_KIND, NO_TEXT = 255, 0xFFFF
# Flags of ALLOCATED. NUMBERED is for recordings, which store each stack once and refer to it by number.
HAS_EXTRA, SHARED, RESERVED_KNOWN, BINARY, SYSTEM, LINES, NUMBERED, KEPT = 1, 2, 4, 8, 16, 32, 64, 128
PER_CORE = 512
IDENT = 256  # of ALLOCATED, DESCRIBED and FREED: the source's own number of the buffer follows the fixed fields
IDENT_BYTES = 8
MAX_TEXT_BYTES = 1024
MAX_LINES_BYTES = 8192  # of a stack, and of an error message of the runtime
MAX_NAME_BYTES = 128  # of a chip, a board
MAX_RECORD_BYTES = 0xFFF8


class NativeError(ValueError):
    """A record that cannot be decoded; the message gives the reason."""


def packed_text(text: str, most: int = MAX_TEXT_BYTES) -> bytes:
    """UTF-8, cut to the limit without leaving half a character."""
    raw = text.encode("utf-8", "replace")
    return raw if len(raw) <= most else raw[:most].decode("utf-8", "ignore").encode()


def cut_text(text: str | None, most: int = MAX_TEXT_BYTES) -> str | None:
    """The text after it has been written and read."""
    return None if text is None else packed_text(text, most).decode()


def number_record(op: int, device: int, value: int) -> bytes:
    return NUMBER_FORM.pack(op, 0, NUMBER_FORM.size, device, value)


def body_record(op: int, device: int, body: bytes, kind: int = 0) -> bytes:
    length = padded(PREFIX_FORM.size + 2 + len(body))
    if length > MAX_RECORD_BYTES:
        raise NativeError(f"a record of {length} bytes is longer than {MAX_RECORD_BYTES}")
    return (PREFIX_FORM.pack(op, kind, length, device) + len(body).to_bytes(2, "little") + body).ljust(length, b"\0")


def padded(length: int) -> int:
    return (length + 7) & ~7


def value_in(record: bytes) -> int:
    return int(NUMBER_FORM.unpack_from(record)[4])


def body_in(record: bytes) -> bytes:
    length = int.from_bytes(record[8:10], "little")
    if 10 + length > len(record):
        raise NativeError(f"a body of {length} bytes does not fit a record of {len(record)} bytes")
    return record[10 : 10 + length]


def device_in(record: bytes) -> int:
    return int(PREFIX_FORM.unpack_from(record)[3])

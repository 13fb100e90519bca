# SPDX-License-Identifier: Apache-2.0
"""Copies the memory of one agent into blocks, without looking at single records.

Each poll reads the head, copies the new records, and then what they refer to: names, meshes, chips, counters. In the
file, these come before the records. So a reader that has a record also has what it refers to.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from struct import Struct
from typing import Any

from ttmem.recording.blocks import BlockType, BlockWriter
from ttmem.recording.columns import MAX_RECORDS, packed
from ttmem.wire.agent_ring import CHIP_SIZE, MESH_SIZE, READ_ATTEMPTS, RECORD_SIZE, Ring, RingError
from ttmem.wire.meter_rows import copy_rows

HEADER_BYTES = 1024  # of an agent's memory, which have all its fields
OPENED = slice(104, 112)  # of the row of a mesh
_COUNTED = slice(136, HEADER_BYTES)  # the head changes all the time, and nothing before it ever does
_ROW_NUMBER = Struct("<H")
_TIME = Struct("<Q")
_LEAST_BETWEEN_TABLES = 65_536  # records
_LIVE_FACTOR = 4
_MESH_ATTEMPTS = 3  # to copy the table and the meshes while none is opened
# Of the row of a mesh, what is not an audit: state to dram_base, map_end and opened.
_IDENTITY = (slice(4, 56), slice(96, 112))
_BYTES_PER_SECOND = 16 << 20  # of one process
_BURST_BYTES = 64 << 20


class RingCopier:
    """The recording of one agent."""

    def __init__(self, number: int, ring: Ring, about: Mapping[str, Any], offset: float, seen: float) -> None:
        """``about`` describes its source, which was first seen at a wall time.

        ``offset`` added to the agent's clock gives wall time.
        """
        self.number = number
        self.ended = False  # its process is dead: nothing is written any more
        self.records = 0
        self.lost = 0
        self._ring = ring
        self._about = dict(about)
        self._offset = offset
        self._seen = seen
        self._pending: list[bytes] = []
        self._count = 0  # records that are pending
        self._first = 1  # of those
        self._allowance = float(_BURST_BYTES)
        self._refilled: float | None = None  # when the allowance was last raised
        self._since_table = 0
        self._live = 0  # slots of the table that were used at the last table
        self.table_last = 0  # the record at which the last table is exact
        self.begin_segment()

    def begin_segment(self) -> None:
        """Write everything again: a reader of the next segment has no other."""
        self._introduced = False
        self._names = 0  # bytes that are written
        self._meshes: list[bytes] = []
        self._chips = b""
        self._header = b""

    def poll(self, file: BlockWriter, now: float, *, final: bool = False) -> float:
        """Write what is new, except for records that wait for more. ``now`` is a time of any clock.

        ``final``: for the last time, so that the end is recorded, whatever was written before. Returns how much of the
        ring was new, from 0 to 1.
        """
        passed = 0.0 if self._refilled is None else now - self._refilled
        self._allowance = min(_BURST_BYTES, self._allowance + passed * _BYTES_PER_SECOND)
        self._refilled = now
        if self._allowance < 0 and not final:
            return 1.0  # it writes more than its share; what is overwritten meanwhile is a gap
        before = self._ring.cursor
        if not self._introduced:
            self._introduce(file)
            if before:  # a later segment: the table of it, and the records from there on
                self._go_on_from_table(file, before)
                return 1.0
        lost, raw = self._ring.read_raw(self._ring.slots)
        if lost:
            self.flush(file)
            self._go_on_from_table(file, before)
            return 1.0
        self._write_state(file)
        self._take(file, raw)
        if self._since_table >= max(_LEAST_BETWEEN_TABLES, _LIVE_FACTOR * self._live):
            self.flush(file)
            self.write_table(file)
        return len(raw) / RECORD_SIZE / self._ring.slots

    def flush(self, file: BlockWriter) -> None:
        """Write the records that wait."""
        if not self._count:
            return
        raw = self._pending[0] if len(self._pending) == 1 else b"".join(self._pending)
        for start in range(0, self._count, MAX_RECORDS):
            block = raw[start * RECORD_SIZE : (start + MAX_RECORDS) * RECORD_SIZE]
            columns, flags = packed(block)
            first, count = self._first + start, len(block) // RECORD_SIZE
            (time,) = _TIME.unpack_from(block, len(block) - RECORD_SIZE + 8)
            self._write(file, BlockType.RECORDS, columns, number=first, last=first + count - 1, flags=flags,
                        time=time * 1e-9 + self._offset)  # fmt: skip
        self._first += self._count
        self._pending, self._count = [], 0

    def write_table(self, file: BlockWriter) -> bool:
        """Write a checkpoint; False if the table changes faster than it can be copied."""
        for attempt in range(1, READ_ATTEMPTS + 1):
            before, raw, after = self._ring.table()
            if after - before < self._ring.slots - 2:
                self._write_state(file)
                if self._last_opening() <= after or attempt >= _MESH_ATTEMPTS:
                    break
        else:
            return False
        self._write_rows(file, before, raw, after)
        return True

    def close(self) -> None:
        self._ring.close()

    def _take(self, file: BlockWriter, raw: bytes) -> None:
        count = len(raw) // RECORD_SIZE
        if count:
            self._pending.append(raw)
            self._count += count
            self.records += count
            self._since_table += count
            if self._count >= MAX_RECORDS:
                self.flush(file)

    def _go_on_from_table(self, file: BlockWriter, read: int) -> None:
        """Write a checkpoint and the records after it. Records between ``read`` and the checkpoint are a gap.

        The meters of the agent have the peaks among these.
        """
        for attempt in range(1, READ_ATTEMPTS + 1):
            phases_began = self._ring.field("phases_began")
            before, raw, after = self._ring.table()
            first = self._ring.cursor = min(before, read)
            lost, records = self._ring.read_raw(self._ring.slots)
            if lost and first < before:
                first = self._ring.cursor = before
                lost, records = self._ring.read_raw(self._ring.slots)
            if not lost:
                meters = copy_rows(self._ring, windows_after=read, phases=True).packed(phases_began)
                self._write_state(file)
                if self._last_opening() <= after or attempt >= _MESH_ATTEMPTS:
                    break
        else:
            raise RingError("its live table changes faster than it can be copied")
        if first > read:
            self.lost += first - read
            self._write(file, BlockType.GAP, b"", number=read + 1, last=first)
        self._write(file, BlockType.METERS, meters, number=before, last=after)
        self._allowance -= len(meters)  # to copy thousands of meters takes long, even if they become few bytes
        self._write_rows(file, before, raw, after)
        self._first = first + 1
        self._take(file, records)

    def _write_rows(self, file: BlockWriter, before: int, raw: bytearray, after: int) -> None:
        self._live, self._since_table = len(raw) // RECORD_SIZE, 0
        self.table_last = after
        self._write(file, BlockType.TABLE, packed(raw, sequences=True)[0], number=before, last=after)

    def _introduce(self, file: BlockWriter) -> None:
        self._introduced = True
        head = json.dumps({**self._about, "offset": self._offset}).encode()
        self._header = self._ring.copy(0, HEADER_BYTES)
        self._write(file, BlockType.PROCESS, len(head).to_bytes(4, "little") + head + self._header, time=self._seen)

    def _write_state(self, file: BlockWriter) -> None:
        """Write what records refer to and the counters, as far as they changed."""
        ring = self._ring
        header = ring.copy(0, HEADER_BYTES)
        used = ring.fields("blobs_used", "meshes_used", "chips_used")
        rows = self._mesh_rows(min(used["meshes_used"], ring.mesh_count))
        changed = [number for number, row in enumerate(rows) if row != self._mesh_row(number)]
        if any(_identity(rows[number]) != _identity(self._mesh_row(number)) for number in changed):
            self.flush(file)  # earlier records mean the mesh as it was
        end = min(used["blobs_used"], ring.blobs_size)
        if end > self._names:
            names = ring.copy(ring.blobs_at + self._names, end - self._names)
            self._write(file, BlockType.NAMES, names, number=self._names)
            self._names = end
        if changed:
            self._meshes = rows
            self._write(file, BlockType.MESHES, b"".join(_ROW_NUMBER.pack(n) + rows[n] for n in changed))
        chips = ring.copy(ring.chips_at, min(used["chips_used"], ring.chip_count) * CHIP_SIZE)
        if chips != self._chips:
            self._chips = chips
            self._write(file, BlockType.CHIPS, chips)
        if header[_COUNTED] != self._header[_COUNTED]:
            self._header = header
            self._write(file, BlockType.COUNTERS, header)

    def _last_opening(self) -> int:
        """The last record that opened one of the meshes whose rows are written. Before, the row was of another mesh."""
        return max((int.from_bytes(row[OPENED], "little") for row in self._meshes), default=0)

    def _mesh_row(self, number: int) -> bytes:
        return self._meshes[number] if number < len(self._meshes) else bytes(MESH_SIZE)

    def _mesh_rows(self, count: int) -> list[bytes]:
        ring = self._ring
        raw = ring.copy(ring.meshes_at, count * MESH_SIZE)
        rows = [raw[at : at + MESH_SIZE] for at in range(0, len(raw), MESH_SIZE)]
        for number, row in enumerate(rows):
            if row == self._mesh_row(number):
                continue
            at = ring.meshes_at + number * MESH_SIZE
            for _ in range(READ_ATTEMPTS):  # its writer may be amid a change
                row = ring.copy(at, MESH_SIZE)
                if row[:4] == ring.copy(at, 4) and not row[0] & 1:
                    break
            rows[number] = row
        return rows

    def _write(
        self, file: BlockWriter, block_type: BlockType, raw: bytes, *, number: int = 0, last: int = 0,
        time: float = 0.0, flags: int = 0,
    ) -> None:  # fmt: skip
        self._allowance -= file.write(
            block_type, raw, process=self.number, number=number, last=last, time=time, flags=flags
        )


def _identity(row: bytes) -> tuple[bytes, ...]:
    return tuple(row[part] for part in _IDENTITY)

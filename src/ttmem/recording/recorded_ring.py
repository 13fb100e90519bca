# SPDX-License-Identifier: Apache-2.0
"""The ring of an agent as a recording has it: the same code reads it as reads a live ring.

A `RecordedRing` stands at a place in the blocks of its process. It has the records from there on, and the meshes, chips
and counters as they were there. Names are only ever added, so it has all of them from the start.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable
from math import inf
from struct import error as StructError
from typing import NamedTuple

from ttmem.ingest import missed_highs
from ttmem.ingest.ring_fold import RingFold
from ttmem.ingest.sink import Sink
from ttmem.model.events import CaughtUp
from ttmem.recording.blocks import Block, BlockType, RecordingError
from ttmem.recording.columns import unpacked
from ttmem.recording.event_entries import SourceName, source_name
from ttmem.recording.ring_copier import HEADER_BYTES, OPENED
from ttmem.wire.agent_ring import (
    CHIP_SIZE,
    HEADER_SIZE,
    MESH_SIZE,
    NO_CAUSE,
    RECORD,
    RECORD_SIZE,
    Mesh,
    Record,
    Ring,
    RingError,
)
from ttmem.wire.meter_rows import MeterRows, unpacked_rows
from ttmem.wire.ring_meters import Measured, decoded
from ttmem.wire.table_copy import TableCopy

_BLOCKS_KEPT = 4  # expanded
_LAYOUT = ("ring_at", "ring_slots", "table_slots", "blobs_size", "meshes", "chips")
_NEVER = 1 << 63
_NO_METERS = Measured((), (), ())
_WALL_TIME_ERROR = 4096  # nanoseconds: seconds since 1970 are not more precise as a float


class Placed(NamedTuple):
    """A block, and how to get its payload."""

    block: Block
    payload: Callable[[], bytes]


class Stretch(NamedTuple):
    """Records of one block: the index of the block, and which of its records."""

    block: int
    first: int
    end: int


class RecordedProcess:
    """All blocks of one agent, in order; what of it was read so far is shared by all rings on it."""

    def __init__(self, number: int, blocks: list[Placed], note: Callable[[str], None]) -> None:
        """``note`` reports damage. RecordingError if there is no valid PROCESS block."""
        self.number = number
        self._note = note
        self._noted: set[int] = set()
        self._expanded: OrderedDict[int, bytes] = OrderedDict()
        first = next((one for one in blocks if one.block.type == BlockType.PROCESS), None)
        if first is None:
            raise RecordingError(f"process {number} is not described")
        payload = first.payload()
        try:
            length = int.from_bytes(payload[:4], "little")
            about = json.loads(payload[4 : 4 + length])
            self.source: SourceName = source_name(first.block.time, about)
            self.offset = float(about["offset"])
            self.header = payload[4 + length : 4 + length + HEADER_BYTES].ljust(HEADER_SIZE, b"\0")
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise RecordingError(f"process {number} is described wrongly: {error}") from None
        self.blocks = [one for one in blocks if one.block.type not in (BlockType.PROCESS, BlockType.NAMES)]
        self._name_blocks = [one for one in blocks if one.block.type == BlockType.NAMES]
        self._names: bytearray | None = None
        self.records = [n for n, one in enumerate(self.blocks) if one.block.type == BlockType.RECORDS]
        self._lasts = [self.blocks[n].block.last for n in self.records]
        self.end = max(self._lasts, default=0)  # the last record
        self.tables = [n for n, one in enumerate(self.blocks) if one.block.type == BlockType.TABLE]
        self.gaps = [(one.block.number, one.block.last) for one in blocks if one.block.type == BlockType.GAP]
        starts = [one.block.number for one in self.blocks if one.block.type in (BlockType.RECORDS, BlockType.GAP)]
        self.start = min(starts, default=1)

    @property
    def names(self) -> bytearray:
        if self._names is None:
            self._names = bytearray()
            for one in self._name_blocks:
                raw, at = self.payload(one), one.block.number
                if raw is not None and at <= 1 << 26:
                    if len(self._names) < at + len(raw):
                        self._names += bytes(at + len(raw) - len(self._names))
                    self._names[at : at + len(raw)] = raw
        return self._names

    def payload(self, one: Placed) -> bytes | None:
        """The payload of a block; None if it is damaged, which is noted once."""
        try:
            return one.payload()
        except RecordingError as error:
            self._damaged(one, str(error))
            return None

    def raw_records(self, index: int) -> bytes | None:
        """The records of a block; None if it is damaged."""
        known = self._expanded.get(index)
        if known is not None:
            self._expanded.move_to_end(index)
            return known
        one = self.blocks[index]
        columns = self.payload(one)
        if columns is None:
            return None
        block = one.block
        try:
            raw = unpacked(columns, block.number if block.type == BlockType.RECORDS else None)
            if block.type == BlockType.RECORDS and len(raw) != (block.last - block.number + 1) * RECORD_SIZE:
                raise RecordingError("a block has another number of records than its header says")
        except RecordingError as error:
            self._damaged(one, str(error))
            return None
        self._expanded[index] = raw
        if len(self._expanded) > _BLOCKS_KEPT:
            self._expanded.popitem(last=False)
        return raw

    def with_record(self, sequence: int) -> int | None:
        """The index of the block that has that record, or else of the next one that has later records."""
        place = bisect_left(self._lasts, sequence)
        return self.records[place] if place < len(self.records) else None

    def time_of(self, sequence: int) -> float | None:
        """Wall time of a record, None if the recording does not have it."""
        clock = self.clock_of(sequence)
        return None if clock is None else clock * 1e-9 + self.offset

    def clock_of(self, sequence: int) -> int | None:
        """The agent's time of a record, None if the recording does not have it."""
        index = self.with_record(sequence)
        raw = None if index is None else self.raw_records(index)
        if index is None or raw is None or self.blocks[index].block.number > sequence:
            return None
        at = (sequence - self.blocks[index].block.number) * RECORD_SIZE
        return int.from_bytes(raw[at + 8 : at + 16], "little")

    @property
    def since(self) -> float:
        """When the process became known, or the time of its first record if that is earlier."""
        first = self.blocks[self.records[0]].block.number if self.records else 0
        return min([self.source.seen, *filter(None, [self.time_of(first)])])

    def can_reach(self, sequence: int) -> bool:
        """Does the recording have that record, or a table after it?"""
        return self.end >= sequence

    def table_before(self, sequence: int) -> int | None:
        """The index of the last usable TABLE block not after a record; None: begin with the first record."""
        for index in reversed(self.tables):
            if self.blocks[index].block.last <= sequence and self.table_at(index) is not None:
                return index
        return None

    def table_at(self, index: int) -> TableCopy | None:
        """What was live at the last record that a TABLE block names; None if it cannot be known."""
        block = self.blocks[index].block
        raw = self.raw_records(index)
        if raw is None or block.last > self.end:
            return None
        table = TableCopy(raw, block.last, int.from_bytes(self.header[52:56], "little"))
        sequence = block.number
        while sequence < block.last:
            at = self.with_record(sequence + 1)
            records = None if at is None else self.raw_records(at)
            if at is None or records is None or self.blocks[at].block.number > sequence + 1:
                return None
            first, last = self.blocks[at].block.number, min(self.blocks[at].block.last, block.last)
            part = records[(sequence + 1 - first) * RECORD_SIZE : (last + 1 - first) * RECORD_SIZE]
            for record in RECORD.iter_unpack(part):
                table.apply(Record._make(record))
            sequence = last
        return table

    def meters_at(self, index: int) -> tuple[MeterRows, int] | None:
        """The meters that were copied with a TABLE block, and how many phases had begun; None if it has none."""
        table = self.blocks[index].block
        for one in reversed(self.blocks[:index]):
            if one.block.type == BlockType.METERS and one.block.last == table.last:
                raw = self.payload(one)
                try:
                    return None if raw is None else unpacked_rows(raw)
                except ValueError as error:
                    self._damaged(one, str(error))
                    return None
            if one.block.type == BlockType.TABLE:
                break
        return None

    def _damaged(self, one: Placed, text: str) -> None:
        if one.block.at not in self._noted:
            self._noted.add(one.block.at)
            self._note(text)


class RecordedRing(Ring):
    """A reader's view of one recorded agent, for `RingFold`."""

    def __init__(self, process: RecordedProcess, table: int | None = None) -> None:
        """``table`` is the index of the TABLE block to begin with; None: begin with the first record.

        A reader that begins with a table gets the past from elsewhere, so the meters of that table are left out.
        """
        self.process = process
        self.past_is_known = table is not None
        self.meters: tuple[MeterRows, int] | None = None  # of the last table that was read
        self._image = bytearray(process.header)
        self._chip_rows = b""
        layout = self._layout()
        self._fd = -1
        self._size = 0
        self._blobs: dict[int, bytes] = {}
        self._blob_bytes = 0
        self._masks = {0: 0}
        self._names = {}
        self._causes = {0: NO_CAUSE}
        self.table_slots = layout["table_slots"]
        self.mesh_count, self.chip_count = min(layout["meshes"], 256), min(layout["chips"], 256)
        self._mesh_rows = bytearray(self.mesh_count * MESH_SIZE)
        self._replaced: dict[int, Mesh] = {}  # by index: the mesh of which there was a row before the present one
        self.blobs_size = layout["blobs_size"]
        # Where the parts are in the image of the memory that `copy` makes.
        self.meshes_at = HEADER_SIZE
        self.chips_at = self.meshes_at + self.mesh_count * MESH_SIZE
        self.blobs_at = self.chips_at + self.chip_count * CHIP_SIZE
        self._next = 0  # index of the next block
        self._applied = 0  # blocks before it are part of the state
        if table is None and process.start != 1:  # earlier segments were deleted
            table = next((index for index in process.tables if process.table_at(index) is not None), None)
        self._table = table
        self.clock = int.from_bytes(process.header[64:72], "little")  # of the newest record that was read
        self.cursor = process.start - 1
        self.slots = _NEVER
        if table is not None:
            self.cursor = process.blocks[table].block.last
            self.slots = 0
        elif process.gaps and process.gaps[0][0] == 1:
            self.slots = 0  # the first records were lost: begin with a table

    @property
    def head(self) -> int:
        return self.process.end

    def close(self) -> None:
        pass

    def copy(self, at: int, length: int) -> bytes:
        """A part of the memory as it was."""
        if at < HEADER_SIZE:
            return bytes(self._image[at : at + length])
        if at >= self.blobs_at:
            names = self.process.names
            return bytes(names[at - self.blobs_at : at - self.blobs_at + length]).ljust(length, b"\0")
        if at >= self.chips_at:
            return self._chip_rows[at - self.chips_at : at - self.chips_at + length].ljust(length, b"\0")
        return bytes(self._mesh_rows[at - self.meshes_at : at - self.meshes_at + length]).ljust(length, b"\0")

    def read(self, limit: int) -> tuple[int, list[tuple[int, ...]]]:
        """The next records, up to the end of their block, and how many before them are missing."""
        lost, stretch = self.next_stretch(limit)
        if stretch is None:
            return lost, []
        raw = self.process.raw_records(stretch.block)
        if raw is None:
            return self.damaged(stretch), []
        records = list(RECORD.iter_unpack(raw[stretch.first * RECORD_SIZE : stretch.end * RECORD_SIZE]))
        self.advance(stretch, records[-1][1])
        return 0, records

    def next_stretch(self, limit: int) -> tuple[int, Stretch | None]:
        """Where the next records are, and how many before them are missing. Meshes and chips are as they were there."""
        process = self.process
        while limit > 0 and self._next < len(process.blocks):
            block = process.blocks[self._next].block
            if block.type == BlockType.GAP and block.last > self.cursor:
                return self._missing(block.last - self.cursor), None
            if block.type != BlockType.RECORDS or block.last <= self.cursor:
                self._apply_up_to(self._next + 1)
                self._next += 1
                continue
            if block.number > self.cursor + 1:
                return self._missing(block.number - self.cursor - 1), None
            self._apply_up_to(self._next)
            first = self.cursor + 1 - block.number
            return 0, Stretch(self._next, first, min(first + limit, block.last + 1 - block.number))
        return 0, None

    def advance(self, stretch: Stretch, time: int) -> None:
        """These records were read; the last one has that time."""
        self.cursor += stretch.end - stretch.first
        self.clock = max(self.clock, time)

    def damaged(self, stretch: Stretch) -> int:
        """These records cannot be read. Returns how many are missing; 0 if nothing that follows can be used."""
        return self._missing(self.process.blocks[stretch.block].block.last - self.cursor)

    def next_table(self) -> TableCopy:
        """Everything live at the next table. The cursor is then at its record."""
        process = self.process
        for index in process.tables:
            last = process.blocks[index].block.last
            if last > self.cursor if self._table is None else index >= self._table:
                table = process.table_at(index)
                if table is not None:
                    self._table = None
                    self.meters = None if self.past_is_known else process.meters_at(index)
                    self.cursor = process.blocks[index].block.last
                    self._apply_up_to(index)
                    following = process.with_record(self.cursor + 1)
                    self._next = index if following is None else following
                    self.clock = max(self.clock, process.clock_of(self.cursor) or 0)
                    return table
        raise RingError("records are missing, and no table follows them")

    def meshes_of_table(self) -> list[Mesh]:
        """The meshes as of the table that was read last. A row that was copied after it may be that of a later mesh."""
        return [
            self._replaced[number] if mesh.opened > self.cursor and number in self._replaced else mesh
            for number, mesh in enumerate(self.meshes())
        ]

    def skip_to_end(self) -> None:
        """Bring meshes, chips and counters to the end of the recording."""
        self._apply_up_to(len(self.process.blocks))

    def _missing(self, count: int) -> int:
        process = self.process
        if any(process.blocks[n].block.last > self.cursor and process.table_at(n) is not None for n in process.tables):
            return count
        self._next = len(process.blocks)  # nothing that follows can be used
        return 0

    def _apply_up_to(self, index: int) -> None:
        """Bring meshes, chips and counters up to a block."""
        for number in range(self._applied, index):
            one = self.process.blocks[number]
            if one.block.type not in (BlockType.MESHES, BlockType.CHIPS, BlockType.COUNTERS):
                continue
            raw = self.process.payload(one)
            if raw is None:
                continue
            if one.block.type == BlockType.MESHES:
                for at in range(0, len(raw) - MESH_SIZE - 1, MESH_SIZE + 2):
                    mesh = int.from_bytes(raw[at : at + 2], "little")
                    if mesh < self.mesh_count:
                        self._put_mesh(mesh, raw[at + 2 : at + 2 + MESH_SIZE])
            elif one.block.type == BlockType.CHIPS:
                self._chip_rows = raw
            else:
                self._image[:HEADER_BYTES] = raw[:HEADER_BYTES].ljust(HEADER_BYTES, b"\0")
        self._applied = max(self._applied, index)

    def _put_mesh(self, number: int, row: bytes) -> None:
        place = slice(number * MESH_SIZE, (number + 1) * MESH_SIZE)
        known = self._mesh_rows[place]
        if row[OPENED] != known[OPENED] and any(known):
            self._replaced[number] = self.mesh(number)
        self._mesh_rows[place] = row

    def _layout(self) -> dict[str, int]:
        try:
            return self.fields(*_LAYOUT)
        except StructError as error:
            raise RecordingError(f"the header of an agent is incomplete: {error}") from None


class RecordedFold(RingFold):
    """Folds a recorded ring. Its clock is that of the records."""

    ring: RecordedRing

    @classmethod
    def of(cls, process: RecordedProcess, sink: Sink, table: int | None = None) -> RecordedFold:
        return cls(RecordedRing(process, table), process.offset, sink, process.source.of(sink.ledger))

    @property
    def greeted(self) -> bool:
        """Was anything read from it?"""
        return self._greeted

    @property
    def next_wall_time(self) -> float:
        """Wall time of what is to be applied next."""
        return self.next_time * 1e-9 + self._offset

    @property
    def last_wall_time(self) -> float:
        """Wall time of the record that was applied last in this batch."""
        return self._batch[self._next - 1][1] * 1e-9 + self._offset if self._next else 0.0

    def clock_at(self, time: float) -> int:
        """The agent's clock at a wall time: the last nanosecond that is not later, but not before the next record."""
        if time == inf:
            return _NEVER
        low = int((time - self._offset) * 1e9) - _WALL_TIME_ERROR
        high = low + 2 * _WALL_TIME_ERROR
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if middle * 1e-9 + self._offset <= time else (low, middle - 1)
        return max(low, self.next_time)

    def _now(self) -> float:
        return self.ring.clock * 1e-9 + self._offset

    def _read_clock(self) -> int:
        return _NEVER

    def look(self) -> int:
        """A reset of the peaks was after the records that were read before it, and before those that follow."""
        self._reset.look(self.ring.cursor)
        return self._reset.head

    def _copy_table(self) -> tuple[TableCopy, list[Mesh], int]:
        table, meters = self.ring.next_table(), self.ring.meters
        return table, self.ring.meshes_of_table(), self.ring.field("phases_began") if meters is None else meters[1]

    def _copy_meters(self, after: int) -> Measured:
        return _NO_METERS if self.ring.meters is None else decoded(self.ring, self.ring.meters[0])

    def _prepare_catch_up(self, *, first: bool) -> None:
        super()._prepare_catch_up(first=first)
        end = self._end_of_gap
        if self.ring.past_is_known and end is not None:
            self.ring.past_is_known = False  # only at the start
            self._end_of_gap = end._replace(event=end.event._replace(unmetered=False))

    def _before_reset(self, end: CaughtUp) -> CaughtUp:
        """A copy is read before the events up to its time are applied, and the reset was one of these."""
        return missed_highs.amid_reset(end)

    def _unseen_phases(self, began: int) -> int:
        """Not counted are phases in segments that were deleted, and those among damaged records."""
        unseen = super()._unseen_phases(began)
        return 0 if self.ring.meters is None or (self.ring.process.start != 1 and not self.gaps) else unseen

# SPDX-License-Identifier: Apache-2.0
"""The allocations of a recorded ring as columns. Blocks of records are handled as arrays, not record by record.

An allocation is in one slot of the agent's live table until it is freed, so records are sorted by slot: a free belongs
to the allocation before it in the same slot. Parts of programs end with their program.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ttmem.recording.allocation_table import NEVER, End, Site
from ttmem.recording.blocks import RecordingError
from ttmem.recording.launch_log import LaunchLog, ProgramKey, ProgramPart
from ttmem.recording.lifetime_rows import USED_FIELDS, LifetimeRows
from ttmem.recording.open_meshes import OpenMeshes
from ttmem.recording.record_arrays import RECORD_TYPE, Array, RecordArrays
from ttmem.recording.recorded_programs import RecordedPrograms
from ttmem.recording.recorded_ring import RecordedProcess, RecordedRing, Stretch
from ttmem.recording.table_indexes import Indexes
from ttmem.wire.agent_ring import PROGRAM_FRAME, SHARED, WHOLESALE, RingError, RingEvent

_ALLOCATED, _FREED, _NAMED = int(RingEvent.ALLOCATED), int(RingEvent.FREED), int(RingEvent.NAMED)
_ALL_RECORDS = 1 << 30
_MAX_NAMES = 1 << 26  # bytes of names of an agent


class RingLifetimes:
    """Reads all records of one process. `columns`, `programs` and `parts` give what was found."""

    def __init__(self, process: RecordedProcess, source: int, begin: float, indexes: Indexes) -> None:
        """``begin`` is the wall time that times are relative to."""
        self._process = process
        self._ring = RecordedRing(process)
        self._source = source
        self._indexes = indexes
        self._shift = round((process.offset - begin) * 1e9)
        self._rows = LifetimeRows()
        self._meshes = OpenMeshes(self._ring, source, indexes)
        self._programs = RecordedPrograms(self._ring, source, self._meshes)
        slots = self._ring.table_slots
        self._open = np.full(slots, -1, np.int64)  # by slot: the row of what is live there
        self._sequences = np.zeros(slots, np.uint64)
        self._elsewhere: dict[tuple[int, int, int], int] = {}  # rows without a slot, by mesh, kind and address
        self._parts: list[ProgramPart] = []
        self.launches = 0
        self.records = 0

    @property
    def log(self) -> LaunchLog:
        return self._programs.log

    def read(self) -> None:
        """Read everything. What cannot be read is noted by the recording."""
        ring = self._ring
        if ring.head >= ring.slots:
            self._resync()
        while True:
            before = ring.cursor
            lost, stretch = ring.next_stretch(_ALL_RECORDS)
            if stretch is not None:
                lost = self._read_block(stretch)
            if lost:
                self._resync()
            elif ring.cursor == before:
                return

    def _read_block(self, stretch: Stretch) -> int:
        payload = self._process.payload(self._process.blocks[stretch.block])
        try:
            arrays = None if payload is None else RecordArrays(payload, stretch.first, stretch.end)
        except RecordingError:
            arrays = None
        if arrays is None:
            return self._ring.damaged(stretch)
        block = {name: arrays.field(name) for name in USED_FIELDS}
        block["time"] = block["time"].astype(np.int64)
        block["sequence"] = np.arange(len(arrays), dtype=np.uint64) + np.uint64(self._ring.cursor + 1)
        self._ring.advance(stretch, int(block["time"][-1]))
        block["time"] += self._shift
        self.records += len(arrays)
        event = block["event"]
        self.launches += int(np.count_nonzero(event == RingEvent.RUN))
        self._programs.note_destroyed(block)
        # The meaning of a mesh's index changes where a mesh is opened or closed, so blocks are divided there.
        first = 0
        for place in np.flatnonzero((event == RingEvent.OPENED) | (event == RingEvent.CLOSED)).tolist():
            self._read_part(block, first, place)
            self._mesh_changed(block, place)
            first = place + 1
        self._read_part(block, first, len(event))
        return 0

    def _mesh_changed(self, block: dict[str, Array], place: int) -> None:
        """A mesh was opened or closed. Its submeshes are closed with it."""
        number, opens = int(block["mesh"][place]), block["event"][place] == RingEvent.OPENED
        if opens:
            family = self._meshes.opened(number, int(block["name"][place]), int(block["sequence"][place]))
        else:
            family = self._meshes.closed(number)
        allocators = [mesh.allocator for mesh in family if mesh.parent == number]
        if allocators and not opens:
            self._end_parts()
            time = int(block["time"][place])
            self._rows.close_live(time, End.DEVICE_CLOSED, allocators)
            self._programs.mesh_closed(family, allocators, time)

    def _read_part(self, block: dict[str, Array], first: int, end: int) -> None:
        """Records of which none opens or closes a mesh."""
        event = block["event"][first:end]
        self._programs.read(block, first, end)
        chosen = np.flatnonzero((event == _ALLOCATED) | (event == _FREED) | (event == _NAMED)) + first
        if not len(chosen):
            return
        event, slot, time = block["event"][chosen], block["slot"][chosen], block["time"][chosen]
        new = event == _ALLOCATED
        rows = np.full(len(chosen), -1, np.int64)
        rows[new] = self._rows.add({name: values[chosen[new]] for name, values in block.items()}, self._meshes)
        has_slot = slot < len(self._open)
        if not has_slot.all():
            self._without_slot(block, chosen[~has_slot], rows[~has_slot])
            event, slot, time, new, rows = (one[has_slot] for one in (event, slot, time, new, rows))
            chosen = chosen[has_slot]
        narrow = slot.astype(np.uint16) if len(slot) and slot.max() < 1 << 16 else slot  # sorts five times as fast
        order = np.argsort(narrow, kind="stable")
        event, slot, time, new, rows = (one[order] for one in (event, slot, time, new, rows))
        flags = block["flags"][chosen][order]
        names = block["name"][chosen][order]
        place = np.arange(len(slot))
        starts = np.ones(len(slot), bool)
        starts[1:] = slot[1:] != slot[:-1]
        group = np.maximum.accumulate(np.where(starts, place, 0))
        latest = np.maximum.accumulate(np.where(new, place, -1))
        inside = latest >= group
        owner = np.where(inside, rows[np.maximum(latest, 0)], self._open[slot])  # what each record is about

        named = (event == _NAMED) & (owner >= 0)
        self._rows.describe(owner[named], names[named], flags[named])
        # An allocation in a slot that another buffer still has: the free was missed. A part ended with its program.
        before = np.where(starts, self._open[slot], np.roll(owner, 1))
        replaced = new & (before >= 0)
        suspects = before[replaced]
        replaced[replaced] = (self._rows.end[suspects] == NEVER) & (self._rows.program[suspects] == 0)
        freed = (event == _FREED) & (owner >= 0)
        # Backwards, so that of two frees the first counts.
        self._rows.close(before[replaced][::-1], time[replaced][::-1], End.REPLACED)
        how = np.where(flags[freed] & WHOLESALE, End.DEVICE_CLOSED, End.FREED)
        self._rows.close(owner[freed][::-1], time[freed][::-1], how[::-1])

        last = np.ones(len(slot), bool)
        last[:-1] = starts[1:]
        ends, live = slot[last], owner[last]
        live = np.where(event[last] == _FREED, -1, live)
        self._open[ends] = live
        self._sequences[ends] = 0
        born = np.where(inside, block["sequence"][chosen][order][np.maximum(latest, 0)], self._sequences[slot])
        self._sequences[ends] = np.where(live >= 0, born[last], 0)

    def _without_slot(self, block: dict[str, Array], chosen: Array, rows: Array) -> None:
        """Records of allocations that the agent's table had no room for. There are few, if any."""
        for place, row in zip(chosen.tolist(), rows.tolist()):
            key = int(block["mesh"][place]), int(block["kind"][place]), int(block["address"][place])
            if block["event"][place] == _ALLOCATED:
                self._elsewhere[key] = row
            elif block["event"][place] == _FREED and (known := self._elsewhere.pop(key, None)) is not None:
                self._rows.close(np.array([known]), block["time"][place], End.FREED)

    def _end_parts(self) -> None:
        """Programs end when they are destroyed, and their parts with them."""
        destroyed = self._programs.take_destroyed()
        if destroyed is not None:
            self._rows.end_parts(destroyed)

    # -- gaps ----------------------------------------------------------------------------------------------------

    def _resync(self) -> None:
        """Records were lost: continue with what the next table says is live."""
        table = self._ring.next_table()
        self._end_parts()
        self._meshes.forget()
        now = self._ring.clock + self._shift
        records = np.zeros(len(self._open), RECORD_TYPE)
        found = np.frombuffer(table.rows, RECORD_TYPE)[: len(self._open)]
        records[: len(found)] = found
        live = (records["sequence"] > 0) & (records["kind"] != PROGRAM_FRAME)
        known = live & (self._open >= 0) & (self._sequences == records["sequence"])
        gone = self._open[(self._open >= 0) & ~known]
        gone = gone[self._rows.end[gone] == NEVER]
        self._rows.close(gone, now, End.LOST)
        self._rows.describe(self._open[known], records["name"][known], records["flags"][known])
        self._open[~known] = -1
        new = np.flatnonzero(live & ~known)
        if len(new):
            order = np.argsort(records["sequence"][new], kind="stable")
            new = new[order]
            rows = records[new]
            block = {name: rows[name] for name in (*USED_FIELDS, "sequence")}
            block["time"] = block["time"].astype(np.int64) + self._shift
            self._open[new] = self._rows.add(block, self._meshes)
            self._sequences[new] = rows["sequence"]
        is_frame = (records["sequence"] > 0) & (records["kind"] == PROGRAM_FRAME)
        self._programs.resync(np.flatnonzero(is_frame), records[is_frame], now, self._shift)

    # -- the result ----------------------------------------------------------------------------------------------

    def exited(self, time: int) -> None:
        """The process exited: what it still had ended with it."""
        self._end_parts()
        self._rows.close_live(time, End.PROCESS_EXITED)
        self._programs.exited(time)

    def columns(self) -> Iterator[tuple[str, Array]]:
        """Every column of `AllocationTable`; what it is made of is forgotten meanwhile."""
        self._end_parts()
        kept, sites = self._rows.without_repetitions(), self._sites()
        self._take_parts(kept, sites)
        columns = self._rows.take_columns()
        columns |= {"site": sites, "source": np.full(len(sites), self._source, np.int32)}
        for name in [name for name in columns if name not in ("name", "cores")]:
            values = columns.pop(name)
            yield name, values if len(kept) == len(values) else values[kept]

    def _take_parts(self, kept: Array, sites: Array) -> None:
        rows = kept[self._rows.program[kept] > 0]
        names = ("program", "kind", "chips", "address", "size", "flags", "begin", "end", "cores")
        columns = {name: self._rows.column(name) for name in names}
        for row in rows.tolist():
            try:
                cores = self._ring.mask(int(columns["cores"][row]))
            except (RingError, ValueError):
                cores = 0
            key = ProgramKey(self._source, int(columns["program"][row]), int(columns["chips"][row]))
            self._parts.append(
                ProgramPart(
                    key, int(columns["kind"][row]), int(columns["address"][row]), int(columns["size"][row]), cores,
                    bool(columns["flags"][row] & SHARED), int(sites[row]), int(columns["begin"][row]),
                    int(columns["end"][row]),
                )
            )  # fmt: skip

    def parts(self) -> list[ProgramPart]:
        """The parts of programs; call it after `columns`."""
        return self._parts

    def _sites(self) -> Array:
        """What made each row: its own name; for a part, also that of its program."""
        if not self._rows.count:
            return np.zeros(0, np.int32)
        names, programs = self._rows.name, self._rows.program
        # Without sorting millions of them: names are offsets into the agent's names, so an array by name is small.
        found = np.zeros(self._rows.count, np.int32)
        pairs = np.flatnonzero(programs)
        if (last := int(names.max())) < _MAX_NAMES:
            by_name = np.zeros(last + 1, np.int32)
            by_name[names[programs == 0]] = 1
            for name in np.flatnonzero(by_name).tolist():
                by_name[name] = self._site(name, 0)
            found = by_name[names]
        else:  # an invalid file may have any
            pairs = np.arange(self._rows.count)
        keys = names[pairs].astype(np.int64) | programs[pairs].astype(np.int64) << 32
        both, place = np.unique(keys, return_inverse=True)
        sites = [self._site(int(one) & 0xFFFFFFFF, int(one) >> 32) for one in both.tolist()]
        found[pairs] = np.array(sites, np.int32)[place]
        return found

    def _site(self, name: int, program: int) -> int:
        tag, shape, stack = self._ring.cause(name)
        if not program:
            return self._indexes.site(Site(tag, shape, stack))
        frame = self._programs.get(program)
        made = self._ring.cause(frame.name) if frame is not None else None
        part = None if tag is None else tag.split("\t", 1)[0]
        return self._indexes.site(Site(made and made.tag, None, stack or (made and made.stack), part))

    def programs(self) -> Iterator[tuple[int, ...]]:
        """Source, program, site, kernel ring, chips, begin and end of each program."""
        self._end_parts()
        for program, one in self._programs.items():
            site = self._indexes.site(Site(*self._ring.cause(one.name)))
            yield self._source, program, site, one.ring, one.chips, one.begin, one.end

# SPDX-License-Identifier: Apache-2.0
"""The allocations of a recorded ring as columns. Blocks of records are handled as arrays, not record by record.

An allocation is in one slot of the agent's live table until it is freed, so records are sorted by slot: a free belongs
to the allocation before it in the same slot. Parts of programs end with their program.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ttmem.model.events import MAX_SIZE
from ttmem.model.kinds import Kind
from ttmem.recording.allocation_table import NEVER, Allocator, BankRegion, End, Site
from ttmem.recording.blocks import RecordingError
from ttmem.recording.launch_log import LaunchLog, ProgramKey, ProgramPart, Run, Workloads
from ttmem.recording.record_arrays import RECORD_TYPE, Array, RecordArrays
from ttmem.recording.recorded_ring import RecordedProcess, RecordedRing, Stretch
from ttmem.recording.table_indexes import Indexes
from ttmem.wire.agent_ring import PER_CORE, PROGRAM_FRAME, RAN, SHARED, WHOLESALE, Mesh, RingError, RingEvent, chip_id

_ALLOCATED, _FREED, _NAMED = int(RingEvent.ALLOCATED), int(RingEvent.FREED), int(RingEvent.NAMED)
_ALL_RECORDS = 1 << 30
_FIRST_PART = int(Kind.CB)
_MAX_NAMES = 1 << 26  # bytes of names of an agent
_COPIED = {"kind": np.uint8, "flags": np.uint8, "program": np.uint32, "address": np.uint64, "size": np.int64,
           "per_bank": np.int64, "cores": np.uint32}  # fmt: skip
_USED = ("event", "slot", "time", "mesh", "core_count", "name", *_COPIED)


class _View(NamedTuple):
    """A mesh while it is open."""

    chips: int  # index of its chip set
    allocator: int
    parent: int  # index of the mesh whose allocator it uses
    banks: tuple[int, ...]


class _Program(NamedTuple):
    begin: int
    end: int
    name: int
    ring: int  # bytes of the kernel ring
    chips: int
    allocator: int


class _Growing:
    """An array to which values are added, and whose values change."""

    def __init__(self, kind: type) -> None:
        self._values: Array = np.empty(1024, kind)
        self._length = 0

    def add(self, values: Any, count: int) -> None:
        needed = self._length + count
        if needed > len(self._values):
            larger = np.empty(max(needed, 2 * len(self._values)), self._values.dtype)
            larger[: self._length] = self._values[: self._length]
            self._values = larger
        self._values[self._length : needed] = values
        self._length = needed

    @property
    def values(self) -> Array:
        return self._values[: self._length]


class RingLifetimes:
    """Reads all records of one process. ``finish`` gives its columns."""

    def __init__(self, process: RecordedProcess, source: int, begin: float, indexes: Indexes) -> None:
        """``begin`` is the wall time that times are relative to."""
        self._process = process
        self._ring = RecordedRing(process)
        self._source = source
        self._indexes = indexes
        self._shift = round((process.offset - begin) * 1e9)
        self._views: dict[int, _View] = {}
        self._chunks: list[dict[str, Array]] = []
        self._rows = 0
        self._begin, self._end, self._ended_by = _Growing(np.int64), _Growing(np.int64), _Growing(np.uint8)
        self._name, self._program, self._allocator = _Growing(np.uint32), _Growing(np.uint32), _Growing(np.int32)
        slots = self._ring.table_slots
        self._open = np.full(slots, -1, np.int64)  # by slot: the row of what is live there
        self._sequences = np.zeros(slots, np.uint64)
        self._elsewhere: dict[tuple[int, int, int], int] = {}  # rows without a slot, by mesh, kind and address
        self._destroyed: list[Array] = []  # rows of (program, time)
        self._frames: dict[int, _Program] = {}
        self._parts: list[ProgramPart] = []
        self.log = LaunchLog()
        self._workloads = Workloads(self.log)
        self.launches = 0
        self.records = 0

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
        block = {name: arrays.field(name) for name in _USED}
        block["time"] = block["time"].astype(np.int64)
        block["sequence"] = np.arange(len(arrays), dtype=np.uint64) + np.uint64(self._ring.cursor + 1)
        self._ring.advance(stretch, int(block["time"][-1]))
        block["time"] += self._shift
        self.records += len(arrays)
        event = block["event"]
        self.launches += int(np.count_nonzero(event == RingEvent.RUN))
        self._take_destroyed(block)
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
        mesh = int(block["mesh"][place])
        family = {index: view for index, view in self._views.items() if mesh in (index, view.parent)}
        if block["event"][place] == RingEvent.CLOSED and any(view.parent == mesh for view in family.values()):
            self._end_parts()
            live = np.flatnonzero(self._end.values == NEVER)
            here = [view.allocator for view in family.values() if view.parent == mesh]
            live = live[np.isin(self._allocator.values[live], here)]
            time = int(block["time"][place])
            self._close(live, time, End.DEVICE_CLOSED)
            self._workloads.closed({view.chips for view in family.values()}, time)
            for number, program in self._frames.items():
                if program.end == NEVER and program.allocator in here:
                    self._frames[number] = program._replace(end=time)
        for index in family:
            del self._views[index]

    def _read_part(self, block: dict[str, Array], first: int, end: int) -> None:
        """Records of which none opens or closes a mesh."""
        event = block["event"][first:end]
        for place in (np.flatnonzero(event == RingEvent.PROGRAM) + first).tolist():
            self._compiled(*(int(block[name][place]) for name in ("program", "time", "name", "size", "mesh")))
        self._follow_launches(block, first, end)
        chosen = np.flatnonzero((event == _ALLOCATED) | (event == _FREED) | (event == _NAMED)) + first
        if not len(chosen):
            return
        event, slot, time = block["event"][chosen], block["slot"][chosen], block["time"][chosen]
        new = event == _ALLOCATED
        rows = np.full(len(chosen), -1, np.int64)
        rows[new] = self._add({name: values[chosen[new]] for name, values in block.items()})
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
        self._name.values[owner[named]] = names[named]
        # An allocation in a slot that another buffer still has: the free was missed. A part ended with its program.
        before = np.where(starts, self._open[slot], np.roll(owner, 1))
        replaced = new & (before >= 0)
        suspects = before[replaced]
        replaced[replaced] = (self._end.values[suspects] == NEVER) & (self._program.values[suspects] == 0)
        freed = (event == _FREED) & (owner >= 0)
        # Backwards, so that of two frees the first counts.
        self._close(before[replaced][::-1], time[replaced][::-1], End.REPLACED)
        how = np.where(flags[freed] & WHOLESALE, End.DEVICE_CLOSED, End.FREED)
        self._close(owner[freed][::-1], time[freed][::-1], how[::-1])

        last = np.ones(len(slot), bool)
        last[:-1] = starts[1:]
        ends, live = slot[last], owner[last]
        live = np.where(event[last] == _FREED, -1, live)
        self._open[ends] = live
        self._sequences[ends] = 0
        born = np.where(inside, block["sequence"][chosen][order][np.maximum(latest, 0)], self._sequences[slot])
        self._sequences[ends] = np.where(live >= 0, born[last], 0)

    def _close(self, rows: Array, time: Any, how: Any) -> None:
        self._end.values[rows] = time
        self._ended_by.values[rows] = how

    def _add(self, block: dict[str, Array]) -> Array:
        """New rows for records of allocations, and their numbers."""
        count = len(block["time"])
        chunk = {name: block[name].astype(kind) for name, kind in _COPIED.items()}
        mesh = block["mesh"]
        banks = np.zeros(count, np.int64)
        chunk["chips"], chunk["allocator"] = np.zeros(count, np.int32), np.zeros(count, np.int32)
        for number in np.flatnonzero(np.bincount(mesh)).tolist():
            view, here = self._view(number), mesh == number
            chunk["chips"][here], chunk["allocator"][here] = view.chips, view.allocator
            by_kind = np.array([*view.banks, *[0] * 256])
            banks[here] = by_kind[chunk["kind"][here]]
        per_core = (chunk["flags"] & PER_CORE) != 0
        reserved = chunk["per_bank"] * np.where(per_core, block["core_count"], banks)
        chunk["reserved"] = np.where(chunk["kind"] < _FIRST_PART, reserved, -1)
        chunk["counted"] = np.where(chunk["flags"] & SHARED, 0, chunk["size"])
        self._chunks.append(chunk)
        self._begin.add(block["time"], count)
        self._end.add(NEVER, count)
        self._ended_by.add(End.LIVE, count)
        self._name.add(block["name"], count)
        self._program.add(chunk.pop("program"), count)
        self._allocator.add(chunk.pop("allocator"), count)
        self._rows += count
        return np.arange(self._rows - count, self._rows)

    def _view(self, number: int) -> _View:
        view = self._views.get(number)
        if view is None:
            ring, indexes = self._ring, self._indexes
            mesh = ring.mesh(number)
            chips = tuple(chip_id(chip) for chip in ring.chips_of(mesh))
            parent = mesh if mesh.parent == number else ring.mesh(mesh.parent)
            allocator = self._describe(parent)
            place = indexes.allocator(allocator, (self._source, mesh.parent, parent.opened))
            view = self._views[number] = _View(indexes.chips(chips), place, mesh.parent, allocator.banks)
        return view

    def _describe(self, mesh: Mesh) -> Allocator:
        dram, l1, _, small, trace = mesh.banks
        bases = {Kind.DRAM: mesh.dram_base, Kind.L1: mesh.l1_base, Kind.L1_SMALL: mesh.l1_base + l1.size,
                 Kind.TRACE: mesh.dram_base + dram.size}  # fmt: skip
        sizes = {Kind.DRAM: dram, Kind.L1: l1, Kind.L1_SMALL: small, Kind.TRACE: trace}
        return Allocator(
            tuple(chip_id(chip) for chip in self._ring.chips_of(mesh)),
            {kind: BankRegion(bases[kind], one.size, one.banks) for kind, one in sizes.items() if one.size},
            tuple(one.banks for one in mesh.banks),
        )

    def _without_slot(self, block: dict[str, Array], chosen: Array, rows: Array) -> None:
        """Records of allocations that the agent's table had no room for. There are few, if any."""
        for place, row in zip(chosen.tolist(), rows.tolist()):
            key = int(block["mesh"][place]), int(block["kind"][place]), int(block["address"][place])
            if block["event"][place] == _ALLOCATED:
                self._elsewhere[key] = row
            elif block["event"][place] == _FREED and (known := self._elsewhere.pop(key, None)) is not None:
                self._close(np.array([known]), block["time"][place], End.FREED)

    # -- programs ------------------------------------------------------------------------------------------------

    def _take_destroyed(self, block: dict[str, Array]) -> None:
        """Programs that are destroyed. Each has a number of its own."""
        gone = np.flatnonzero(block["event"] == RingEvent.DESTROYED)
        if len(gone):
            self._destroyed.append(np.stack([block["program"][gone].astype(np.int64), block["time"][gone]], axis=1))

    def _compiled(self, program: int, time: int, name: int, ring: int, mesh: int) -> None:
        """The frame of a program. It is written again when something about the program changes."""
        known = self._frames.get(program)
        try:
            view = self._view(mesh)
            chips, allocator = view.chips, view.allocator
        except RingError:
            chips = allocator = -1
        ring = ring if ring <= MAX_SIZE else 0  # an invalid file may have any
        self._frames[program] = _Program(time if known is None else known.begin, NEVER, name, ring, chips, allocator)

    def _follow_launches(self, block: dict[str, Array], first: int, end: int) -> None:
        """Launches, and what changes them, in the order of the records."""
        event = block["event"][first:end]
        runs = np.flatnonzero(event == RingEvent.RUN) + first
        changes = np.flatnonzero((event == RingEvent.PROGRAM) | (event == RingEvent.DESTROYED)) + first
        done = 0
        for place in changes.tolist():
            before = int(np.searchsorted(runs, place))
            self._launched(block, runs[done:before])
            done = before
            slot = int(block["slot"][place])
            if block["event"][place] == RingEvent.DESTROYED:
                self._workloads.destroyed(slot, int(block["time"][place]))
            else:
                self._keep(slot, *(int(block[name][place]) for name in ("per_bank", "program", "mesh", "cores")))
        self._launched(block, runs[done:])

    def _launched(self, block: dict[str, Array], places: Array) -> None:
        if len(places):
            self._workloads.launched(block["time"][places], block["per_bank"][places])

    def _keep(self, slot: int, workload: int, program: int, mesh: int, cores: int) -> None:
        """The frame of a program; one that the agent's table has no room for is never reported as launched."""
        if slot < len(self._open):
            try:
                key = ProgramKey(self._source, program, self._view(mesh).chips)
                self._workloads.keep(slot, workload, Run(key, self._ring.mask(cores)))
            except (RingError, ValueError):
                pass  # an invalid file may have any

    def _end_parts(self) -> None:
        """Programs end when they are destroyed, and their parts with them, if they were not freed before."""
        if not self._destroyed:
            return
        pairs = np.concatenate(self._destroyed)
        self._destroyed.clear()
        waiting = np.flatnonzero((self._program.values > 0) & (self._end.values == NEVER))
        # The first time at which a program of that number was destroyed after the part was made.
        times = np.unique(pairs[:, 1])
        keys = pairs[:, 0] * (len(times) + 1) + np.searchsorted(times, pairs[:, 1])
        pairs, keys = pairs[order := np.argsort(keys, kind="stable")], keys[order]
        numbers = self._program.values[waiting].astype(np.int64)
        wanted = numbers * (len(times) + 1) + np.searchsorted(times, self._begin.values[waiting])
        place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        found = (pairs[place, 0] == numbers) & (keys[place] >= wanted)
        self._close(waiting[found], pairs[place[found], 1], End.PROGRAM_DESTROYED)
        for program, time in pairs.tolist():
            if (known := self._frames.get(program)) is not None:
                self._frames[program] = known._replace(end=time)

    # -- gaps ----------------------------------------------------------------------------------------------------

    def _resync(self) -> None:
        """Records were lost: continue with what the next table says is live."""
        table = self._ring.next_table()
        self._end_parts()
        self._views.clear()
        now = self._ring.clock + self._shift
        records = np.zeros(len(self._open), RECORD_TYPE)
        found = np.frombuffer(table.rows, RECORD_TYPE)[: len(self._open)]
        records[: len(found)] = found
        live = (records["sequence"] > 0) & (records["kind"] != PROGRAM_FRAME)
        known = live & (self._open >= 0) & (self._sequences == records["sequence"])
        gone = self._open[(self._open >= 0) & ~known]
        gone = gone[self._end.values[gone] == NEVER]
        self._close(gone, now, End.LOST)
        self._open[~known] = -1
        new = np.flatnonzero(live & ~known)
        if len(new):
            order = np.argsort(records["sequence"][new], kind="stable")
            new = new[order]
            rows = records[new]
            block = {name: rows[name] for name in (*_USED, "sequence")}
            block["time"] = block["time"].astype(np.int64) + self._shift
            self._open[new] = self._add(block)
            self._sequences[new] = rows["sequence"]
        is_frame = (records["sequence"] > 0) & (records["kind"] == PROGRAM_FRAME)
        frames = records[is_frame]
        self._launch_again(np.flatnonzero(is_frame), frames, now)
        alive = set(frames["program"].tolist())
        for program, known_frame in self._frames.items():
            if known_frame.end == NEVER and program not in alive:
                self._frames[program] = known_frame._replace(end=now)
        for row in frames:
            if int(row["program"]) not in self._frames:
                self._compiled(int(row["program"]), int(row["time"]) + self._shift, int(row["name"]),
                               int(row["size"]), int(row["mesh"]))  # fmt: skip

    def _launch_again(self, slots: Array, frames: Array, now: int) -> None:
        """The programs of a table, launched in the order in which each workload was launched last."""
        self._workloads.forget_all(now)
        ran: dict[int, int] = {}  # workload -> when
        for slot, row in zip(slots.tolist(), frames):
            workload = int(row["per_bank"])
            self._keep(slot, workload, int(row["program"]), int(row["mesh"]), int(row["cores"]))
            if int(row["flags"]) & RAN:
                ran[workload] = max(int(row["time"]), ran.get(workload, 0))
        ordered = np.array(sorted(ran, key=ran.__getitem__), np.int64)
        if len(ordered):
            self._workloads.launched(np.full(len(ordered), now), ordered)

    # -- the result ----------------------------------------------------------------------------------------------

    def exited(self, time: int) -> None:
        """The process exited: what it still had ended with it."""
        self._end_parts()
        self._workloads.forget_all(time)
        self._close(np.flatnonzero(self._end.values == NEVER), time, End.PROCESS_EXITED)
        self._frames = {number: one._replace(end=min(one.end, time)) for number, one in self._frames.items()}

    def columns(self) -> Iterator[tuple[str, Array]]:
        """Every column of `AllocationTable`; what it is made of is forgotten meanwhile."""
        self._end_parts()
        columns: dict[str, Array] = {}
        for name in list(self._chunks[0]) if self._chunks else []:
            columns[name] = np.concatenate([chunk.pop(name) for chunk in self._chunks])
        kept = self._once(columns)
        sites = self._sites()[kept]
        self._take_parts(columns, kept, sites)
        yield "source", np.full(len(kept), self._source, np.int32)
        yield "site", sites
        yield "program", self._program.values[kept]
        yield "allocator", self._allocator.values[kept]
        yield "begin", self._begin.values[kept]
        yield "end", self._end.values[kept]
        yield "ended_by", self._ended_by.values[kept]
        for name in [name for name in columns if name != "cores"]:
            yield name, columns.pop(name)[kept]

    def _take_parts(self, columns: dict[str, Array], kept: Array, sites: Array) -> None:
        places = np.flatnonzero(self._program.values[kept])
        rows = kept[places]
        begin, end, program = self._begin.values[rows], self._end.values[rows], self._program.values[rows]
        for place, row in enumerate(rows.tolist()):
            try:
                cores = self._ring.mask(int(columns["cores"][row]))
            except (RingError, ValueError):
                cores = 0
            key = ProgramKey(self._source, int(program[place]), int(columns["chips"][row]))
            self._parts.append(
                ProgramPart(
                    key, int(columns["kind"][row]), int(columns["address"][row]), int(columns["size"][row]), cores,
                    bool(columns["flags"][row] & SHARED), int(sites[places[place]]), int(begin[place]), int(end[place]),
                )
            )  # fmt: skip

    def parts(self) -> list[ProgramPart]:
        """The parts of programs; call it after `columns`."""
        return self._parts

    def _once(self, columns: dict[str, Array]) -> Array:
        """The rows without repetitions: a program may report one part twice, such as two circular buffers of a tensor.

        A part ends when its last repetition ends.
        """
        if not self._rows:
            return np.zeros(0, np.int64)
        parts = np.flatnonzero(self._program.values)
        keys = [self._program.values, columns["kind"], columns["address"], columns["cores"], columns["size"]]
        keys = [key[parts] for key in keys]
        order = np.lexsort([parts, *reversed(keys)])
        rows = parts[order]
        same = np.ones(max(0, len(rows) - 1), bool)
        for key in keys:
            same &= key[order][1:] == key[order][:-1]
        same &= self._begin.values[rows[1:]] < self._end.values[rows[:-1]]
        repeated = np.flatnonzero(same) + 1
        later = repeated[self._end.values[rows[repeated]] > self._end.values[rows[repeated - 1]]]
        for place in later[::-1].tolist():  # few: most end together with their program
            self._close(rows[place - 1], self._end.values[rows[place]], self._ended_by.values[rows[place]])
        kept = (columns["size"] > 0) & (columns["size"] <= MAX_SIZE)  # the account rejects others
        kept[rows[repeated]] = False
        return np.flatnonzero(kept)

    def _sites(self) -> Array:
        """What made each row: its own name; for a part, also that of its program."""
        if not self._rows:
            return np.zeros(0, np.int32)
        names, programs = self._name.values, self._program.values
        # Without sorting millions of them: names are offsets into the agent's names, so an array by name is small.
        found = np.zeros(self._rows, np.int32)
        pairs = np.flatnonzero(programs)
        if (last := int(names.max())) < _MAX_NAMES:
            by_name = np.zeros(last + 1, np.int32)
            by_name[names[programs == 0]] = 1
            for name in np.flatnonzero(by_name).tolist():
                by_name[name] = self._site(name, 0)
            found = by_name[names]
        else:  # an invalid file may have any
            pairs = np.arange(self._rows)
        keys = names[pairs].astype(np.int64) | programs[pairs].astype(np.int64) << 32
        both, place = np.unique(keys, return_inverse=True)
        sites = [self._site(int(one) & 0xFFFFFFFF, int(one) >> 32) for one in both.tolist()]
        found[pairs] = np.array(sites, np.int32)[place]
        return found

    def _site(self, name: int, program: int) -> int:
        tag, shape, stack = self._ring.cause(name)
        if not program:
            return self._indexes.site(Site(tag, shape, stack))
        frame = self._frames.get(program)
        made = self._ring.cause(frame.name) if frame is not None else None
        part = None if tag is None else tag.split("\t", 1)[0]
        return self._indexes.site(Site(made and made.tag, None, stack or (made and made.stack), part))

    def programs(self) -> Iterator[tuple[int, ...]]:
        """Source, program, site, kernel ring, chips, begin and end of each program."""
        self._end_parts()
        for program, one in self._frames.items():
            site = self._indexes.site(Site(*self._ring.cause(one.name)))
            yield self._source, program, site, one.ring, one.chips, one.begin, one.end

# SPDX-License-Identifier: Apache-2.0
"""The programs of a recorded ring: when each was compiled and destroyed, and when it was launched."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ttmem.model.events import MAX_SIZE
from ttmem.recording.allocation_table import NEVER
from ttmem.recording.launch_log import LaunchLog, ProgramKey, Run, Workloads
from ttmem.recording.open_meshes import OpenMesh, OpenMeshes
from ttmem.recording.record_arrays import Array
from ttmem.recording.recorded_ring import RecordedRing
from ttmem.wire.agent_ring import RAN, RingError, RingEvent


class RecordedProgram(NamedTuple):
    """A program, from its first frame until it is destroyed."""

    begin: int
    end: int
    name: int
    ring: int  # bytes of the kernel ring
    chips: int
    allocator: int


class RecordedPrograms:
    """The programs of one process."""

    def __init__(self, ring: RecordedRing, source: int, meshes: OpenMeshes) -> None:
        self._ring = ring
        self._source = source
        self._meshes = meshes
        self._programs: dict[int, RecordedProgram] = {}
        self._destroyed: list[Array] = []  # rows of (program, time)
        self.log = LaunchLog()
        self._workloads = Workloads(self.log)

    def get(self, program: int) -> RecordedProgram | None:
        return self._programs.get(program)

    def items(self) -> Iterator[tuple[int, RecordedProgram]]:
        yield from self._programs.items()

    def read(self, block: dict[str, Array], first: int, end: int) -> None:
        """Frames and launches of a part of a block, in the order of the records."""
        event = block["event"][first:end]
        for place in (np.flatnonzero(event == RingEvent.PROGRAM) + first).tolist():
            self._compiled(*(int(block[name][place]) for name in ("program", "time", "name", "size", "mesh")))
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

    def note_destroyed(self, block: dict[str, Array]) -> None:
        """Remember which programs are destroyed in a block. Each has a number of its own."""
        gone = np.flatnonzero(block["event"] == RingEvent.DESTROYED)
        if len(gone):
            self._destroyed.append(np.stack([block["program"][gone].astype(np.int64), block["time"][gone]], axis=1))

    def take_destroyed(self) -> Array | None:
        """Pairs (program, time) of those destroyed since the last call, which end here; None if there are none."""
        if not self._destroyed:
            return None
        pairs = np.concatenate(self._destroyed)
        self._destroyed.clear()
        for program, time in pairs.tolist():
            if (known := self._programs.get(program)) is not None:
                self._programs[program] = known._replace(end=time)
        return pairs

    def mesh_closed(self, closed: list[OpenMesh], allocators: list[int], time: int) -> None:
        """A mesh was closed with its submeshes. Programs on these allocators end with it."""
        self._workloads.closed({mesh.chips for mesh in closed}, time)
        for number, program in self._programs.items():
            if program.end == NEVER and program.allocator in allocators:
                self._programs[number] = program._replace(end=time)

    def exited(self, time: int) -> None:
        self._workloads.forget_all(time)
        self._programs = {number: one._replace(end=min(one.end, time)) for number, one in self._programs.items()}

    def resync(self, slots: Array, frames: Array, now: int, shift: int) -> None:
        """Records were lost: continue with the frames of the live table, which are in these slots.

        ``shift`` added to a time of the agent gives a time of the table.
        """
        self._launch_again(slots, frames, now)
        alive = set(frames["program"].tolist())
        for program, known in self._programs.items():
            if known.end == NEVER and program not in alive:
                self._programs[program] = known._replace(end=now)
        for row in frames:
            if int(row["program"]) not in self._programs:
                self._compiled(int(row["program"]), int(row["time"]) + shift, int(row["name"]), int(row["size"]),
                               int(row["mesh"]))  # fmt: skip

    def _compiled(self, program: int, time: int, name: int, ring: int, mesh: int) -> None:
        """The frame of a program. It is written again when something about the program changes."""
        known = self._programs.get(program)
        try:
            view = self._meshes[mesh]
            chips, allocator = view.chips, view.allocator
        except RingError:
            chips = allocator = -1
        ring = ring if ring <= MAX_SIZE else 0  # an invalid file may have any
        begin = time if known is None else known.begin
        self._programs[program] = RecordedProgram(begin, NEVER, name, ring, chips, allocator)

    def _launched(self, block: dict[str, Array], places: Array) -> None:
        if len(places):
            self._workloads.launched(block["time"][places], block["per_bank"][places])

    def _keep(self, slot: int, workload: int, program: int, mesh: int, cores: int) -> None:
        """The frame of a program; one that the agent's table has no room for is never reported as launched."""
        if slot < self._ring.table_slots:
            try:
                key = ProgramKey(self._source, program, self._meshes[mesh].chips)
                self._workloads.keep(slot, workload, Run(key, self._ring.mask(cores)))
            except (RingError, ValueError):
                pass  # an invalid file may have any

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

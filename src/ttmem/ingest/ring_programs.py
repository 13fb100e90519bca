# SPDX-License-Identifier: Apache-2.0
"""The live programs of one agent, the workloads that they belong to, and their launches."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import merge
from typing import NamedTuple

from ttmem.ingest.ring_meshes import MeshView, RingMeshes
from ttmem.model.events import Event, ProgramCompiled, ProgramRun, WorkloadRun
from ttmem.wire.agent_ring import RAN, Record, Ring, RingError
from ttmem.wire.table_copy import TableCopy

PROGRAMS_PER_PAUSE = 1024  # during a catch-up
_MOST_LAUNCHES = 1024  # programs of one workload, each once for each of its chips; they share no chip as a rule


class Frame(NamedTuple):
    """A live program."""

    program: int
    workload: int
    mesh: int
    cores: int  # blob


class RingPrograms:
    """Programs by the slot of their frame in the agent's live table."""

    def __init__(self, ring: Ring, meshes: RingMeshes) -> None:
        self._ring = ring
        self._meshes = meshes
        self.frames: dict[int, Frame] = {}
        self._workloads: dict[int, dict[int, Frame]] = {}  # number -> the frames of its programs, by slot
        self._runs: dict[int, ProgramRun | WorkloadRun] = {}  # of each workload, until one of its programs changes
        self.ran = 0  # the workload that was launched last

    def keep(self, record: Record) -> ProgramCompiled:
        """A program was compiled, or something about it has changed."""
        self.drop(record.slot)
        if record.slot < self._ring.table_slots:  # one that the table has no room for is never reported as launched
            frame = Frame(record.program, record.per_bank, record.mesh, record.cores)
            self.frames[record.slot] = frame
            self._workloads.setdefault(frame.workload, {})[record.slot] = frame
            self._runs.pop(frame.workload, None)
        self.ran = 0
        view: MeshView = self._meshes.view(record.mesh)
        cause = self._ring.cause(record.name)
        return ProgramCompiled(view.device, record.program, record.size, record.address, cause.tag, cause.stack)

    def drop(self, slot: int) -> None:
        """The program whose frame was in that slot was destroyed."""
        self.ran = 0
        frame = self.frames.pop(slot, None)
        if frame is not None:
            self._runs.pop(frame.workload, None)
            others = self._workloads[frame.workload]
            del others[slot]
            if not others:
                del self._workloads[frame.workload]

    def forget_launches(self) -> None:
        """Which devices programs run on, and which workload ran last, is not known any more."""
        self._runs.clear()
        self.ran = 0

    def launched(self, workload: int) -> ProgramRun | WorkloadRun | None:
        """All programs of a workload were launched, each on its own mesh and cores; None if that changes nothing."""
        if self._meshes.sizes:
            self._note_sizes(workload)
        if workload == self.ran:
            return None
        event = self._runs.get(workload) or self._run_of(workload)
        if event is not None:
            self.ran = workload
        return event

    def known_run(self, workload: int) -> ProgramRun | WorkloadRun | None:
        """The event of a workload that was launched before; None if any of its programs has changed since."""
        return self._runs.get(workload)

    def _note_sizes(self, workload: int) -> None:
        for frame in self._workloads.get(workload, {}).values():
            sizes = self._meshes.view(frame.mesh).sizes
            if sizes is not None:
                sizes.ran(frame.program)

    def _run_of(self, workload: int) -> ProgramRun | WorkloadRun | None:
        """The event of a launch. It is kept, because its consumers compare the identity of its programs."""
        frames = self._workloads.get(workload)
        if not frames:
            return None
        views = [self._meshes.view(frame.mesh) for frame in frames.values()]
        if sum(len(view.numbers) for view in views) > _MOST_LAUNCHES:
            raise RingError(f"workload {workload} has more than {_MOST_LAUNCHES} programs")
        runs = tuple(
            ProgramRun(view.device, frame.program, self._ring.mask(frame.cores))
            for view, frame in zip(views, frames.values())
        )
        event = self._runs[workload] = runs[0] if len(runs) == 1 else WorkloadRun(workload, runs)
        return event

    def launched_in(self, table: TableCopy) -> Iterator[tuple[int, Event] | None]:
        """Launch the workloads of a table again, in the order in which each was launched last, each with that time.

        None is a pause.
        """
        launched: dict[int, int] = {}  # workload -> when
        for count, (_, frame) in enumerate(table.frames(), 1):
            if not count % PROGRAMS_PER_PAUSE:
                yield None
            if frame.flags & RAN:
                launched[frame.per_bank] = max(frame.time, launched.get(frame.per_bank, 0))
        workloads, runs = list(launched), []
        for first in range(0, len(workloads), PROGRAMS_PER_PAUSE):
            yield None
            runs.append(sorted(workloads[first : first + PROGRAMS_PER_PAUSE], key=launched.__getitem__))
        for workload in merge(*runs, key=launched.__getitem__):
            event = self.launched(workload)
            if event is not None:
                yield launched[workload], event
        self.ran = 0  # a program that ran later may have been destroyed: the table does not have it

# SPDX-License-Identifier: Apache-2.0
"""Makes events of the records of an agent that are no plain buffers or launches, and of rows of its live table."""

from __future__ import annotations

from collections.abc import Iterator

from ttmem.ingest.known_slots import KnownSlots
from ttmem.ingest.ring_listener import RingListener
from ttmem.ingest.ring_meshes import RingMeshes
from ttmem.ingest.ring_programs import RingPrograms
from ttmem.model.events import (
    Allocated,
    Described,
    Event,
    Failed,
    Mark,
    PhaseBegan,
    PhaseEnded,
    ProgramDestroyed,
)
from ttmem.model.kinds import KINDS, Kind
from ttmem.model.validation import MAX_COUNT
from ttmem.wire.agent_ring import BINARY, KEPT, PER_CORE, PROGRAM_FRAME, WHOLESALE, Record, Ring, RingError, RingEvent

_NO_MESH = 0xFFFF
_L1_SMALL = int(Kind.L1_SMALL)
IDENT_MASK = 0xFFFFFFFF  # a buffer is known by its slot of the table plus 1, by its address (0) if it has no slot


class RecordEvents:
    """The events of one ring. They must be made, and applied, in the order of the records."""

    def __init__(
        self, ring: Ring, meshes: RingMeshes, programs: RingPrograms, slots: KnownSlots, listener: RingListener
    ) -> None:
        self.used = False  # was anything opened, allocated, or freed by the program since the last closing
        self._ring = ring
        self._meshes = meshes
        self._programs = programs
        self._slots = slots
        self._listener = listener
        self._ending: set[int] = set()  # meshes that are being closed
        self._phases = 0  # that began so far, seen or not

    def of_record(self, record: Record) -> Iterator[Event]:
        """The events of a record that is no buffer, part or launch."""
        event, mesh, program = record.event, record.mesh, record.program
        if event == RingEvent.PHASE_BEGAN:  # phases belong to no mesh
            self._phases += 1
            yield PhaseBegan(record.address, self._ring.name(record.name) or "", record.size)
            return
        if event == RingEvent.PHASE_ENDED:
            yield PhaseEnded(record.address)
            return
        if event == RingEvent.FAILED:
            yield self._failed(record)
            return
        if event == RingEvent.OPENED:
            self._programs.forget_launches()
            for opened in self._meshes.opened(record):
                self.used = True
                yield opened
            return
        view = self._meshes.view(mesh)
        sizes = view.sizes
        if event == RingEvent.NAMED:
            if sizes is not None and record.flags & PER_CORE and not program:
                self._meshes.took_per_core(view)
            self._slots.describe(record.slot, record.name, record.flags)
            yield self.described(record)
        elif event == RingEvent.CLOSING:
            self._ending.add(mesh)
            self.close_if_used()
        elif event == RingEvent.CLOSED:
            self._ending.discard(mesh)
            self._programs.forget_launches()
            yield from self._meshes.closed(mesh)
        elif event == RingEvent.PROGRAM:
            if sizes is not None:
                sizes.compiled(program, record.size, record.name)
            self._slots.put(record.slot, record.sequence, record.name, record.flags)
            yield self._programs.keep(record)
        elif event == RingEvent.DESTROYED:
            if sizes is not None:
                sizes.destroyed(program)
            self._programs.drop(record.slot)
            yield ProgramDestroyed(view.device, program)
        elif event == RingEvent.CACHE_CLEARED:
            yield Mark("program cache cleared")
        else:
            raise RingError(f"record {record.sequence} has event {event}, which does not exist")

    def described(self, record: Record) -> Described:
        """More is known of a live buffer."""
        view = self._meshes.view(record.mesh)
        ident = 0 if record.program else record.slot + 1 & IDENT_MASK
        return Described(view.device, KINDS[record.kind], record.address, self._meshes.extra(view, record), ident)

    def added(self, record: Record) -> Event:
        """A row of the live table is new."""
        if record.kind == PROGRAM_FRAME:
            return self._programs.keep(record)
        view = self._meshes.view(record.mesh)
        ident = 0 if record.program else record.slot + 1 & IDENT_MASK
        if record.program and record.slot < self._slots.most:
            self._slots.programs[record.slot] = record.program
        extra = self._meshes.extra(view, record)
        return Allocated(view.device, KINDS[record.kind], record.address, record.size, record.program, 0, extra, ident)

    def freed(self, kind: int, flags: int, size: int) -> None:
        """A buffer was freed by the program, or because its device is being closed."""
        if flags & WHOLESALE:
            # The others belong to the program cache: ttmem.analyze.hold_reasons.cause_of has the same rule.
            if kind != _L1_SMALL and not flags & (BINARY | KEPT):
                self._listener.freed_by_close(kind, size)
        elif not self._ending:
            self.used = True

    def close_if_used(self) -> None:
        """A device is being closed, or the last record was read: what is still open was never closed."""
        if self.used:
            self.used = False
            self._listener.closing()

    def skip(self, phases_began: int) -> int:
        """Records were lost. Returns how many phases began among them; those that are still open are none of them.

        ``phases_began`` is how many the process has begun so far.
        """
        unseen, self._phases = max(0, phases_began - self._phases), max(phases_began, self._phases)
        return min(unseen, MAX_COUNT)

    def forget_closing(self) -> None:
        """Which meshes are being closed is not known any more."""
        self._ending.clear()

    def _failed(self, record: Record) -> Event:
        cause = self._ring.cause(record.cores)
        view = None if record.mesh == _NO_MESH else self._meshes.view(record.mesh)
        numbers = () if view is None else view.numbers
        text = self._ring.name(record.name) or ""
        if view is not None and view.sizes is not None:
            view.sizes.refused(text)
        return Failed(numbers[0] if numbers else None, text, cause.tag, cause.stack)

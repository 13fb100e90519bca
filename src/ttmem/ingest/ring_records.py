# SPDX-License-Identifier: Apache-2.0
"""Applies records of one ring to the account: plain ones in one loop where there are many, all others one by one."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from time import monotonic

from ttmem.account.entities import Source
from ttmem.ingest.known_slots import KnownSlots
from ttmem.ingest.plain_ring_records import PlainRecords
from ttmem.ingest.ring_meshes import RingMeshes
from ttmem.ingest.ring_programs import RingPrograms
from ttmem.ingest.ring_record_events import IDENT_MASK, RecordEvents
from ttmem.ingest.sink import Sink
from ttmem.model.events import Allocated, Event, Freed
from ttmem.model.kinds import KINDS, Kind
from ttmem.wire.agent_ring import PER_CORE, SHARED, Record, Ring, RingEvent

_ALLOCATED, _FREED, _RUN = int(RingEvent.ALLOCATED), int(RingEvent.FREED), int(RingEvent.RUN)
_IN_L1 = (int(Kind.CB), int(Kind.DFB), int(Kind.SCRATCHPAD))
FEW, _MANY = 32, 1024  # records that are applied one by one before the loop for plain records is tried again


class RecordLoops:
    """The loops over the records of one ring. ``offset`` added to the agent's clock gives wall time."""

    def __init__(
        self,
        ring: Ring,
        offset: float,
        sink: Sink,
        source: Source,
        meshes: RingMeshes,
        programs: RingPrograms,
        slots: KnownSlots,
        events: RecordEvents,
    ) -> None:
        self.observed = False  # were the last records observed
        self._ring = ring
        self._offset = offset
        self._sink = sink
        self._source = source
        self._meshes = meshes
        self._programs = programs
        self._slots = slots
        self._events = events
        self._plain = PlainRecords(sink.ledger, source, offset, meshes, programs, slots)
        self._singly = FEW  # records to apply one by one before the next attempt with plain ones

    def apply(self, batch: Sequence[tuple[int, ...]], newest: int, deadline: float) -> int:
        """Apply records in the loop for plain records where possible. Returns how many were applied.

        Between two attempts some records are applied one by one, and more of them while attempts do not pay. It stops
        at the deadline after a record that took long. ``newest`` is the agent's clock when the records were read: a
        later time is wrong.
        """
        one_by_one = self.one_by_one(newest, deadline)
        next(one_by_one)
        if self.observed or self._meshes.sizes or len(batch) < FEW:
            return one_by_one.send(batch)
        done = 0
        while done < len(batch):
            if self._events.used and not self._meshes.sizes:  # a mesh that was opened in this batch may have sizes
                plain = self._plain.apply(batch[done:] if done else batch, newest)
                self._singly = FEW if plain > FEW else min(2 * self._singly, _MANY)
                done += plain
            rest = batch[done : done + self._singly]
            applied = one_by_one.send(rest)
            done += applied
            if applied < len(rest) or (rest and monotonic() > deadline):
                break
        return done

    def one_by_one(self, newest: int, deadline: float) -> Generator[int, Sequence[tuple[int, ...]], None]:
        """Apply the records that are sent to it; yields how many were applied.

        Nearly all records are buffers. They go to the ledger directly; an event is made of one only if it is observed.
        Other records may take long (a mesh of many chips), so the clock is read after each of them.

        This is a generator because records of rings that share chips come in short runs, and it takes as long to
        prepare for a run as to apply a record.
        """
        sink, source = self._sink, self._source
        allocated, freed, observe = sink.ledger.allocated, sink.ledger.freed, sink.observe_record
        observed = self.observed = sink.observed(ring=True)
        apply = sink.apply_record if observed else sink.ledger.apply
        offset, meshes, kinds = self._offset, self._meshes, KINDS
        views, slots, parts = meshes.views, self._slots, self._slots.programs
        events, launched = self._events, self._programs.launched
        sequences, names, marks, most = slots.sequences, slots.names, slots.flags, len(slots.sequences)
        batch = yield 0
        while True:
            done = len(batch)
            for record in batch:
                (sequence, nanoseconds, happened, code, layout, flags, _, address, size, per_bank, slot, mesh,
                 core_count, cores, program, name) = record  # fmt: skip
                if nanoseconds > newest:
                    nanoseconds = newest
                time = nanoseconds * 1e-9 + offset
                if happened == _ALLOCATED:
                    if slot < most:
                        sequences[slot] = sequence
                        names[slot] = name
                        marks[slot] = flags
                    else:
                        slots.put(slot, sequence, name, flags)
                        most = len(sequences)
                    view = views[mesh] if mesh in views else meshes.view(mesh)
                    sizes, kind = view.sizes, kinds[code]
                    events.used = True
                    known = view.extras.get((code, layout, flags, per_bank, core_count, name))
                    extra = known or meshes.extra(view, Record._make(record))
                    if program:
                        ident = 0
                        if slot < most:
                            parts[slot] = program
                        if sizes is not None and code in _IN_L1 and not flags & SHARED:
                            sizes.placed(program, address + per_bank)
                    else:
                        ident = slot + 1 & IDENT_MASK
                        if sizes is not None:
                            if flags & PER_CORE:
                                meshes.took_per_core(view)
                            else:
                                sizes.took(code, address, per_bank, name)
                    found = allocated(time, source, view.device, kind, address, size, program, 0, extra, ident)
                    if observed:
                        event: Event = Allocated(view.device, kind, address, size, program, 0, extra, ident)
                        observe(time, source, event, found)
                elif happened == _FREED:
                    view = views[mesh] if mesh in views else meshes.view(mesh)
                    sizes, kind = view.sizes, kinds[code]
                    if program:
                        ident, allocator, mask = 0, 0, self._ring.mask(cores)
                    else:
                        ident, allocator, mask = slot + 1 & IDENT_MASK, view.allocator, 0
                        if flags or not events.used:
                            events.freed(code, flags, size)
                        if sizes is not None and not flags & PER_CORE:
                            sizes.gave_back(code, address)
                    found = freed(time, source, view.device, kind, address, size, program, allocator, mask, ident)
                    if observed:
                        event = Freed(view.device, kind, address, size, program, allocator, mask, ident)
                        observe(time, source, event, found)
                elif happened == _RUN:
                    launch = launched(per_bank)
                    if launch is not None:
                        apply(time, source, launch)
                else:
                    for rare in events.of_record(Record._make(record)):
                        sink.apply_record(time, source, rare)
                    if monotonic() > deadline:
                        done = next(count for count, one in enumerate(batch, 1) if one is record)
                        break
            batch = yield done

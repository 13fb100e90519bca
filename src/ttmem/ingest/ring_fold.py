# SPDX-License-Identifier: Apache-2.0
"""Applies the records of an agent's ring to the account, each on the mesh of its record.

A reader starts with the first record. If that is already overwritten, or if the reader falls a whole ring behind, it
counts the records that it missed and catches up: it copies the agent's live table and applies only what changed. The
account is then exact again, peaks included (see `missed_highs`), but its history has a gap.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from operator import itemgetter
from time import CLOCK_MONOTONIC, clock_gettime, clock_gettime_ns, monotonic

from ttmem.account.entities import Source
from ttmem.ingest.known_slots import KnownSlots
from ttmem.ingest.missed_highs import caught_up
from ttmem.ingest.ring_corrections import Corrections
from ttmem.ingest.ring_listener import NoListener, RingListener
from ttmem.ingest.ring_meshes import RingMeshes
from ttmem.ingest.ring_programs import RingPrograms
from ttmem.ingest.sink import Sink
from ttmem.model.events import (
    Allocated,
    CaughtUp,
    Described,
    Event,
    Failed,
    Freed,
    GapBegan,
    Lost,
    Mark,
    PhaseBegan,
    PhaseEnded,
    ProgramDestroyed,
    Sees,
    Uncertain,
)
from ttmem.model.kinds import KINDS, Kind
from ttmem.model.uncertain_reasons import REASONS
from ttmem.model.validation import MAX_COUNT
from ttmem.wire.agent_ring import (
    BINARY,
    KEPT,
    PER_CORE,
    PROGRAM_FRAME,
    SHARED,
    WHOLESALE,
    Record,
    Ring,
    RingError,
    RingEvent,
)
from ttmem.wire.ring_meters import Measured, measured
from ttmem.wire.table_copy import TableCopy, copy_table

_ALLOCATED, _FREED, _RUN = int(RingEvent.ALLOCATED), int(RingEvent.FREED), int(RingEvent.RUN)
_NO_MESH = 0xFFFF
_NO_LISTENER = NoListener()
_IDENT_MASK = 0xFFFFFFFF  # a buffer is known by its slot of the table plus 1, by its address (0) if it has no slot
COUNTERS = ("unknown_frees", "earlier_frees", "replaced", "table_full", "blobs_full", "meshes_full", "failures")
_L1_SMALL = int(Kind.L1_SMALL)
_IN_L1 = (int(Kind.CB), int(Kind.DFB), int(Kind.SCRATCHPAD))
_EVENTS_PER_LOOK = 64  # at the clock, during a catch-up
_TIME_OF = itemgetter(1)


class RingFold:
    """Applies what one agent writes to the account, in order. ``offset`` added to the agent's clock gives wall time.

    Records are read in batches. `load` reads the next batch, `fold` applies records of it up to a time, so that the
    records of several rings can be applied in the order of their times.
    """

    def __init__(
        self, ring: Ring, offset: float, sink: Sink, source: Source, listener: RingListener = _NO_LISTENER
    ) -> None:
        self.ring = ring
        self.lost = 0
        self.records = 0  # that were read
        self.applied = 0  # of these
        self.gaps = 0  # how often the ring was overwritten before it was read
        self.observed = False  # were the last records observed
        self._offset = offset
        self._sink = sink
        self._source = source
        self._newest = 0  # the agent's clock when it was last read; no record is younger
        self._last_time = ring.field("started")  # of the last record that was read
        self._listener = listener
        self._meshes = RingMeshes(ring, listener)
        self._programs = RingPrograms(ring, self._meshes)
        self._slots = KnownSlots(ring.table_slots)
        self._corrector = Corrections(source, self._meshes, self._programs, self._slots, self._added, self._described)
        self._used = False  # was anything opened, allocated, or freed by the program since the last closing
        self._ending: set[int] = set()  # meshes that are being closed
        self._batch: list[tuple[int, ...]] = []
        self._next = 0  # index in the batch of the next record to apply
        self._corrections: Iterator[tuple[float, Event] | None] | None = None  # instead of records that were lost
        self._corrected_at = 0  # the agent's time of these
        self._in_gap = False
        self._skip = False  # do not read the records after the corrections
        self._cut_short = False  # do not correct what is live
        self._counted = dict.fromkeys(REASONS, 0)  # the agent's counters as far as they were reported
        self._phases = 0  # that began so far, seen or not
        self._greeted = False

    @property
    def completeness(self) -> float | None:
        """The worst of all audits so far, None if there was none."""
        return self._meshes.completeness

    @property
    def loaded(self) -> bool:
        """Is there anything that was read and not applied yet?"""
        return self._corrections is not None or self._next < len(self._batch)

    @property
    def next_time(self) -> int:
        """The agent's time of what is to be applied next; 0 if nothing is loaded."""
        if self._corrections is not None:
            return self._corrected_at
        return min(self._batch[self._next][1], self._newest) if self._next < len(self._batch) else 0

    def load(self, limit: int, *, late: bool = False) -> None:
        """Read at most ``limit`` records, if everything that was read before was applied.

        If records were lost, or if it is too late to read them, what is live now is read instead.
        """
        if self.loaded:
            return
        if not self._greeted:
            self._greeted = True
            self._emit(Sees(self.ring.field("coverage"), self.ring.text("trouble") or None))
            if late or self.ring.head >= self.ring.slots:  # the first records are overwritten already
                self._prepare_catch_up(first=True)
                return
        if late:
            self.catch_up()
            return
        before = self.ring.cursor
        lost, self._batch = self.ring.read(limit)
        self._next = 0
        if lost:
            self.ring.cursor, self._batch = before, []
            self.gaps += 1
            self._begin_gap()
            self.catch_up()
            return
        self._newest = self._read_clock()
        self.records += len(self._batch)
        if self._batch:
            self._last_time = self._batch[-1][1]
        for event in self._uncertain():
            self._emit(event)

    def fold(self, until: int, deadline: float) -> None:
        """Apply what is loaded, up to the agent's time ``until``.

        It stops at the deadline if it comes to something that takes long, and goes on there the next time.
        """
        if self.loaded and self.next_time > until:
            return
        if self._corrections is not None:
            for count, correction in enumerate(self._corrections, 1):
                if correction is not None:
                    self._sink.apply_record(correction[0], self._source, correction[1])
                if (correction is None or count % _EVENTS_PER_LOOK == 0) and monotonic() > deadline:
                    return
            self._corrections = None
            self._apply_audits()
            return
        first, batch = self._next, self._batch
        if until < self._newest and batch and batch[-1][1] > until:
            # At least the next one, also if later times are out of order.
            batch = batch[first : max(first + 1, bisect_right(batch, until, first, key=_TIME_OF))]
        elif first:
            batch = batch[first:]
        self._next = first + len(batch)  # an invalid record is not applied twice
        with self._sink.direct_records():
            applied = self._apply(batch, deadline)
        self._next = first + applied
        self.applied += applied
        if self._next == len(self._batch):
            self._apply_audits()

    def catch_up(self, *, skip: bool = False) -> None:
        """Load what is live now instead of the records that were not read. ``skip``: do not read those after it."""
        self._skip = skip
        if not self.loaded:
            self._begin_gap()
            self._prepare_catch_up(first=False)

    def cut_short(self) -> None:
        """The process is dead, and to correct what it held takes too long: take only its peaks."""
        self._cut_short = True

    def give_up(self) -> None:
        """The ring is not read any more."""
        if self._in_gap:
            self._in_gap = False
            self._emit(CaughtUp(self._time(self._last_time), (), (), 0, True))

    def _begin_gap(self) -> None:
        if not self._in_gap:
            self._in_gap = True
            self._emit(GapBegan())

    def _emit(self, event: Event) -> None:
        """Apply an event of now."""
        self._sink.apply_record(self._now(), self._source, event)

    def _apply(self, batch: list[tuple[int, ...]], deadline: float) -> int:
        """The one place where records are unpacked. This is the hot path: nearly all records are buffers.

        Buffers go to the ledger directly; an event is made of one only if it is observed. Returns how many records were
        applied. Others may take long (a mesh of many chips), so the clock is read after each of them.
        """
        sink, source = self._sink, self._source
        allocated, freed, observe = sink.ledger.allocated, sink.ledger.freed, sink.observe_record
        observed = self.observed = sink.observed(ring=True)
        apply = sink.apply_record if observed else sink.ledger.apply
        offset, newest, meshes, kinds = self._offset, self._newest, self._meshes, KINDS
        views, slots, parts = meshes.views, self._slots, self._slots.programs
        launched = self._programs.launched
        sequences, names, most = slots.sequences, slots.names, len(slots.sequences)
        for record in batch:
            (sequence, nanoseconds, happened, code, layout, flags, _, address, size, per_bank, slot, mesh, core_count,
             cores, program, name) = record  # fmt: skip
            if nanoseconds > newest:
                nanoseconds = newest
            time = nanoseconds * 1e-9 + offset
            if happened == _ALLOCATED:
                if slot < most:
                    sequences[slot] = sequence
                    names[slot] = name
                else:
                    slots.put(slot, sequence, name)
                    most = len(sequences)
                view = views[mesh] if mesh in views else meshes.view(mesh)
                sizes, kind = view.sizes, kinds[code]
                self._used = True
                known = view.extras.get((code, layout, flags, per_bank, core_count, name))
                extra = known or meshes.extra(view, Record._make(record))
                if program:
                    ident = 0
                    parts[slot] = program
                    if sizes is not None and code in _IN_L1 and not flags & SHARED:
                        sizes.placed(program, address + per_bank)
                else:
                    ident = slot + 1 & _IDENT_MASK
                    if sizes is not None:
                        if flags & PER_CORE:
                            meshes.took_per_core(view)
                        else:
                            sizes.took(code, address, per_bank, name)
                found = allocated(time, source, view.device, kind, address, size, program, 0, extra, ident)
                if observed:
                    event = Allocated(view.device, kind, address, size, program, 0, extra, ident)
                    observe(time, source, event, found)
            elif happened == _FREED:
                view = views[mesh] if mesh in views else meshes.view(mesh)
                sizes, kind = view.sizes, kinds[code]
                if program:
                    ident, allocator, mask = 0, 0, self.ring.mask(cores)
                else:
                    ident, allocator, mask = slot + 1 & _IDENT_MASK, view.allocator, 0
                    if flags or not self._used:
                        self._freed(code, flags, size)
                    if sizes is not None and not flags & PER_CORE:
                        sizes.gave_back(code, address)
                found = freed(time, source, view.device, kind, address, size, program, allocator, mask, ident)
                if observed:
                    observe(
                        time, source, Freed(view.device, kind, address, size, program, allocator, mask, ident), found
                    )
            elif happened == _RUN:
                launch = launched(per_bank)
                if launch is not None:
                    apply(time, source, launch)
            else:
                for rare in self._rare(Record._make(record)):
                    sink.apply_record(time, source, rare)
                if monotonic() > deadline:
                    return min(max(1, sequence - batch[0][0] + 1), len(batch))
        return len(batch)

    @property
    def position(self) -> int | None:
        """The last record that was applied; None while what was lost is being corrected."""
        return None if self._corrections is not None else self.ring.cursor - (len(self._batch) - self._next)

    @property
    def unread(self) -> int:
        """Records that were written and not applied yet; at least 1 during a catch-up."""
        loaded = len(self._batch) - self._next if self._corrections is None else 1
        return max(0, self.ring.head - self.ring.cursor) + loaded

    def end(self) -> None:
        """The last record was read: what is still open was never closed."""
        self._close_if_used()

    # -- pieces --------------------------------------------------------------------------------------------------

    def _now(self) -> float:
        return clock_gettime(CLOCK_MONOTONIC) + self._offset

    def _read_clock(self) -> int:
        """The agent's clock. No record that was read before is younger."""
        return clock_gettime_ns(CLOCK_MONOTONIC)

    def _time(self, nanoseconds: int) -> float:
        """Wall time of an agent's time, which is not later than the reading of it."""
        return min(nanoseconds, self._newest) * 1e-9 + self._offset

    def _close_if_used(self) -> None:
        if self._used:
            self._used = False
            self._listener.closing()

    def _uncertain(self) -> Iterator[Event]:
        """What the agent counted since the last look that makes its numbers uncertain."""
        for reason, count in self.ring.fields(*self._counted).items():
            new = min(count - self._counted[reason], MAX_COUNT)
            if new > 0:
                self._counted[reason] = count
                yield Uncertain(reason, new)
                if reason == "table_full":  # live, but in no table: counted as lost
                    yield Lost(new)
                    self._lose(new)

    def counters(self) -> dict[str, int]:
        """What the agent itself found odd."""
        return self.ring.fields(*COUNTERS)

    def _lose(self, records: int) -> None:
        self.lost += records
        if records:
            self._listener.lost_records()

    def _failed(self, record: Record) -> Event:
        cause = self.ring.cause(record.cores)
        view = None if record.mesh == _NO_MESH else self._meshes.view(record.mesh)
        numbers = () if view is None else view.numbers
        text = self.ring.name(record.name) or ""
        if view is not None and view.sizes is not None:
            view.sizes.refused(text)
        return Failed(numbers[0] if numbers else None, text, cause.tag, cause.stack)

    def _freed(self, kind: int, flags: int, size: int) -> None:
        """A buffer was freed by the program, or because its device is being closed."""
        if flags & WHOLESALE:
            # The others belong to the program cache: ttmem.analyze.hold_reasons.cause_of has the same rule.
            if kind != _L1_SMALL and not flags & (BINARY | KEPT):
                self._listener.freed_by_close(kind, size)
        elif not self._ending:
            self._used = True

    def _rare(self, record: Record) -> Iterator[Event]:
        """The events of a record that is no buffer, part or launch."""
        event, mesh, program = record.event, record.mesh, record.program
        if event == RingEvent.PHASE_BEGAN:  # phases belong to no mesh
            self._phases += 1
            yield PhaseBegan(record.address, self.ring.name(record.name) or "", record.size)
            return
        if event == RingEvent.PHASE_ENDED:
            yield PhaseEnded(record.address)
            return
        if event == RingEvent.FAILED:
            yield self._failed(record)
            return
        view = self._meshes.view(mesh)
        sizes = view.sizes
        if event == RingEvent.NAMED:
            if sizes is not None and record.flags & PER_CORE and not program:
                self._meshes.took_per_core(view)
            if record.slot < len(self._slots.names):
                self._slots.names[record.slot] = record.name
            yield self._described(record)
        elif event == RingEvent.OPENED:
            self._programs.forget_launches()
            for opened in self._meshes.opened(mesh, record.size):
                self._used = True
                yield opened
        elif event == RingEvent.CLOSING:
            self._ending.add(mesh)
            self._close_if_used()
        elif event == RingEvent.CLOSED:
            self._ending.discard(mesh)
            self._programs.forget_launches()
            yield from self._meshes.closed(mesh)
        elif event == RingEvent.PROGRAM:
            if sizes is not None:
                sizes.compiled(program, record.size, record.name)
            self._slots.put(record.slot, record.sequence, record.name)
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

    def _described(self, record: Record) -> Described:
        """More is known of a live buffer."""
        view = self._meshes.view(record.mesh)
        ident = 0 if record.program else record.slot + 1 & _IDENT_MASK
        return Described(view.device, KINDS[record.kind], record.address, self._meshes.extra(view, record), ident)

    def _added(self, record: Record) -> Event:
        """A row of the live table is new."""
        if record.kind == PROGRAM_FRAME:
            return self._programs.keep(record)
        view = self._meshes.view(record.mesh)
        ident = 0 if record.program else record.slot + 1 & _IDENT_MASK
        if record.program:
            self._slots.programs[record.slot] = record.program
        extra = self._meshes.extra(view, record)
        return Allocated(view.device, KINDS[record.kind], record.address, record.size, record.program, 0, extra, ident)

    def _apply_audits(self) -> None:
        for time, audit in self._meshes.audits():
            self._sink.apply_record(self._time(time), self._source, audit)

    # -- catching up ---------------------------------------------------------------------------------------------

    def _copy_table(self) -> TableCopy:
        return copy_table(self.ring)

    def _copy_meters(self, after: int) -> Measured:
        """The meters, with the windows of the records after ``after``."""
        return measured(self.ring, windows_after=after)

    def _prepare_catch_up(self, *, first: bool) -> None:
        """Copy the live table and the meters at once; to apply them may take long."""
        start, since = self.ring.cursor, self._time(self._last_time)
        began = self.ring.field("phases_began")
        table = self._copy_table()
        found = self._copy_meters(start)
        self._newest = self._read_clock()
        self._last_time = self._corrected_at = min(self._newest, int((self._now() - self._offset) * 1e9))
        unseen = self._unseen_phases(began)
        end = caught_up(found, start, table.sequence, since, self._time, unseen, first)
        self._corrections = self._correct(table, table.sequence - start, end)

    def _correct(self, table: TableCopy, missed: int, end: CaughtUp) -> Iterator[tuple[float, Event] | None]:
        """The events that bring the account from the last record that was read to what is live now."""
        self._lose(missed)
        now = self._now()
        yield now, Lost(min(missed, MAX_COUNT))
        self._ending.clear()
        for event in self._corrector.of_meshes():
            yield now, event
        for correction in self._corrector.of_table(table, bool(self.ring.field("table_full"))):
            if self._cut_short:
                break  # what is gone is removed before anything is added: no total is too high
            if correction is None:
                yield None
            else:
                time, event = correction
                self._used = self._used or time is not None
                yield now if time is None else self._time(time), event
        self._used = self._used or self._meshes.any_open
        yield now, end
        self._in_gap = self._skip
        if self._skip:
            yield now, GapBegan()
        for event in self._uncertain():
            yield self._now(), event

    def _unseen_phases(self, began: int) -> int:
        """How many phases began among the lost records. Those that are still open are none of them."""
        unseen, self._phases = max(0, began - self._phases), max(began, self._phases)
        return min(unseen, MAX_COUNT)

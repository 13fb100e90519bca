# SPDX-License-Identifier: Apache-2.0
"""Applies the records of an agent's ring to the account, each on the mesh of its record.

A reader starts with the first record. If that is already overwritten, or if the reader falls a whole ring behind, it
counts the records that it missed and catches up: it copies the agent's live table and applies only what changed. The
account is then exact again, peaks included (see `missed_highs`), but its history has a gap.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Generator, Iterator, Sequence
from itertools import accumulate
from time import CLOCK_MONOTONIC, clock_gettime, clock_gettime_ns, monotonic
from typing import NamedTuple

from ttmem.account.entities import Source
from ttmem.ingest import missed_highs
from ttmem.ingest.known_slots import KnownSlots
from ttmem.ingest.ring_corrections import Corrections
from ttmem.ingest.ring_listener import NoListener, RingListener
from ttmem.ingest.ring_meshes import RingMeshes
from ttmem.ingest.ring_programs import RingPrograms
from ttmem.ingest.ring_record_events import RecordEvents
from ttmem.ingest.ring_records import FEW, RecordLoops
from ttmem.ingest.sink import Sink
from ttmem.model.events import CaughtUp, Event, GapBegan, Lost, Sees, Uncertain
from ttmem.model.uncertain_reasons import REASONS
from ttmem.model.validation import MAX_COUNT
from ttmem.wire.agent_ring import Mesh, Ring
from ttmem.wire.ring_meters import Measured, measured
from ttmem.wire.table_copy import TableCopy, copy_table

_NO_LISTENER = NoListener()
COUNTERS = ("unknown_frees", "earlier_frees", "replaced", "table_full", "blobs_full", "meshes_full", "failures")
_EVENTS_PER_LOOK = 8  # at the clock, during a catch-up; on a mesh of many chips, an event may take a millisecond
_COPY_ATTEMPTS = 3


class _EndOfGap(NamedTuple):
    """What is applied after the corrections."""

    time: float
    event: CaughtUp
    reset: float | None  # when the peaks were reset last, as of the copy


class RingFold:
    """Applies what one agent writes to the account, in order. ``offset`` added to the agent's clock gives wall time.

    Records are read in batches. `load` reads the next batch, `fold` applies records of it up to a time, so that the
    records of several rings can be applied in the order of their times. `in_turns` does so if there are many turns.
    """

    def __init__(
        self, ring: Ring, offset: float, sink: Sink, source: Source, listener: RingListener = _NO_LISTENER
    ) -> None:
        self.ring = ring
        self.lost = 0
        self.records = 0  # that were read
        self.applied = 0  # of these
        self.gaps = 0  # how often the ring was overwritten before it was read
        self._offset = offset
        self._sink = sink
        self._source = source
        self._newest = 0  # the agent's clock when it was last read; no record is younger
        self._last_time = ring.field("started")  # of the last record that was read
        self._reset = missed_highs.ResetPosition(sink.ledger)
        self._listener = listener
        self._meshes = RingMeshes(ring, listener)
        self._programs = RingPrograms(ring, self._meshes)
        self._slots = KnownSlots(ring.table_slots)
        self._events = RecordEvents(ring, self._meshes, self._programs, self._slots, listener)
        self._corrector = Corrections(source, self._meshes, self._programs, self._slots, self._events)
        self._loops = RecordLoops(ring, offset, sink, source, self._meshes, self._programs, self._slots, self._events)
        self._batch: list[tuple[int, ...]] = []
        self._next = 0  # index in the batch of the next record to apply
        self._batch_times: list[int] = []  # made when they are needed
        self._corrections: Iterator[tuple[float, Event] | None] | None = None  # instead of records that were lost
        self._corrected_at = 0  # the agent's time of these
        self._end_of_gap: _EndOfGap | None = None
        self._in_gap = False
        self._gap_follows = False  # it begins after the records that are loaded
        self._apart = False  # others were read further than the copy from which the corrections are
        self._skip = False  # do not read the records after the corrections
        self._cut_short = False  # do not correct what is live
        self._counted = dict.fromkeys(REASONS, 0)  # the agent's counters as far as they were reported
        self._greeted = False

    @property
    def completeness(self) -> float | None:
        """The worst of all audits so far, None if there was none."""
        return self._meshes.completeness

    @property
    def observed(self) -> bool:
        """Were the last records observed?"""
        return self._loops.observed

    @property
    def correcting(self) -> bool:
        """Are corrections loaded, and no records?"""
        return self._corrections is not None

    @property
    def loaded(self) -> bool:
        """Is there anything that was read and not applied yet?"""
        return self._corrections is not None or self._next < len(self._batch)

    @property
    def next_time(self) -> int:
        """The agent's time of what is to be applied next; 0 if nothing is loaded."""
        if self._corrections is not None:
            return self._corrected_at
        return self._times()[self._next] if self._next < len(self._batch) else 0

    def look(self) -> int:
        """The newest record. Called in each turn, so that a reset of the peaks is between two known records."""
        self._reset.look(self.ring.head)
        return self._reset.head

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
        if late or self._in_gap:  # others on the same chips do not wait during a gap, so its records are too old
            self.catch_up()
            return
        before = self.ring.cursor
        lost, self._batch = self.ring.read(limit)
        self._next, self._batch_times = 0, []
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
            self._caught_up()
            self._apply_audits()
            return
        first, batch = self._next, self._batch
        if until < self._newest:
            batch = batch[first : bisect_right(self._times(), until, first)]
        elif first:
            batch = batch[first:]
        self._next = first + len(batch)  # an invalid record is not applied twice
        with self._sink.direct_records():
            self._advance(first, self._loops.apply(batch, self._newest, deadline))

    def times(self, until: int) -> list[int]:
        """The agent's times of the records that are loaded, up to a time."""
        times = self._times()
        return times[self._next : bisect_right(times, until, self._next)]

    @property
    def last_time(self) -> int:
        """The agent's time of the last record that is loaded."""
        return self._times()[-1]

    def _times(self) -> list[int]:
        """Those of all records of the batch. One that is earlier than the one before it has the same time as that."""
        if not self._batch_times:
            newest = self._newest
            times = list(accumulate([record[1] for record in self._batch], max))
            self._batch_times = [min(time, newest) for time in times] if times and times[-1] > newest else times
        return self._batch_times

    def in_turns(self, deadline: float) -> Generator[bool, int, None]:
        """Apply as many of the loaded records as are sent to it; yields False if one of them took until the deadline.

        The caller uses ``with sink.direct_records()``.
        """
        one_by_one = self._loops.one_by_one(self._newest, deadline)
        next(one_by_one)
        count = yield True
        while True:
            first = self._next
            batch = self._batch[first : first + count]
            self._next = first + len(batch)
            applied = one_by_one.send(batch) if count < FEW else self._loops.apply(batch, self._newest, deadline)
            self._advance(first, applied)
            count = yield applied == count

    def catch_up(self, *, skip: bool = False) -> None:
        """Load what is live now instead of the records that were not read. ``skip``: do not read those after it."""
        self._skip, self._gap_follows = skip, False
        if not self.loaded:
            self._begin_gap()
            self._prepare_catch_up(first=False)

    def stop_reading(self) -> None:
        """Begin a gap after the records that are loaded: others do not wait for what was written since then."""
        if self._corrections is not None:
            self._skip = True
        elif self.loaded:
            self._gap_follows = True
        else:
            self._begin_gap()

    @property
    def apart(self) -> bool:
        """Are corrections loaded for which other rings do not wait?"""
        return self._apart and self.correcting

    def let_others_pass(self, *, skip: bool) -> None:
        """The corrections take long. Do not keep the other rings that share chips waiting for them.

        ``skip``: do not read the records after the corrections, because those of the others are later.
        """
        self._apart = True
        self._skip = self._skip or skip
        self._begin_gap()  # it is in one already, unless these are its first corrections

    def cut_short(self) -> None:
        """The process is dead, and to correct what it held takes too long: take only its peaks."""
        self._cut_short = True

    def give_up(self) -> None:
        """The ring is not read any more."""
        if self._in_gap or self._corrections is not None:
            self._in_gap = False
            self._emit(CaughtUp(self._time(self._last_time), (), (), 0, first=True, unmetered=True))

    def _advance(self, first: int, applied: int) -> None:
        """So many records of the batch were applied, from this one on."""
        self._next = first + applied
        self.applied += applied
        if self._next == len(self._batch):
            self._apply_audits()
            if self._gap_follows:
                self._gap_follows = False
                self._begin_gap()

    def _begin_gap(self, *, reset: bool = False) -> None:
        if not self._in_gap:
            self._in_gap = True
            self._emit(GapBegan(reset))

    def _emit(self, event: Event) -> None:
        """Apply an event of now."""
        self._sink.apply_record(self._now(), self._source, event)

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
        self._events.close_if_used()

    # -- pieces --------------------------------------------------------------------------------------------------

    def _now(self) -> float:
        return clock_gettime(CLOCK_MONOTONIC) + self._offset

    def _read_clock(self) -> int:
        """The agent's clock. No record that was read before is younger."""
        return clock_gettime_ns(CLOCK_MONOTONIC)

    def _time(self, nanoseconds: int) -> float:
        """Wall time of an agent's time, which is not later than the reading of it."""
        return min(nanoseconds, self._newest) * 1e-9 + self._offset

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

    def _apply_audits(self) -> None:
        for time, audit in self._meshes.audits():
            self._sink.apply_record(self._time(time), self._source, audit)

    # -- catching up ---------------------------------------------------------------------------------------------

    def _copy_table(self) -> tuple[TableCopy, list[Mesh], int]:
        """What is live, on which meshes, and how many phases had begun at the record of the copy."""
        for _ in range(_COPY_ATTEMPTS):
            began = self.ring.field("phases_began")
            table = copy_table(self.ring)
            meshes = self.ring.meshes()
            # The record of a new phase may be before the copy or after it, and a new mesh may have replaced an old one.
            if self.ring.field("phases_began") == began and all(mesh.opened <= table.sequence for mesh in meshes):
                break
        return table, meshes, began

    def _copy_meters(self, after: int) -> Measured:
        """The meters, with the windows of the records after ``after``."""
        return measured(self.ring, windows_after=after)

    def _prepare_catch_up(self, *, first: bool) -> None:
        """Copy the live table and the meters at once; to apply them may take long."""
        self.look()
        start, since = self.ring.cursor, self._time(self._last_time)
        table, meshes, began = self._copy_table()
        found = self._copy_meters(start)
        self._newest = self._read_clock()
        self._last_time = self._corrected_at = min(self._newest, int((self._now() - self._offset) * 1e9))
        unseen = self._unseen_phases(began)
        lost = missed_highs.LostRecords(start, table.sequence)
        end = missed_highs.caught_up(found, lost, self._reset, since, self._time, unseen, first)
        now = self._now()
        self._end_of_gap = _EndOfGap(now, end, self._sink.ledger.peaks_since)
        self._apart = False
        self._corrections = self._correct(table, meshes, max(0, table.sequence - start), now)

    def _correct(
        self, table: TableCopy, meshes: Sequence[Mesh], missed: int, now: float
    ) -> Iterator[tuple[float, Event] | None]:
        """The events that bring the account from the last record that was read to what was live at the copy."""
        missed = min(missed, MAX_COUNT)
        self._lose(missed)
        yield now, Lost(missed)
        self._events.forget_closing()
        for event in self._corrector.of_meshes(meshes, table.sequence):
            yield now, event
            yield None  # on a mesh of many chips, each of them takes long
        for correction in self._corrector.of_table(table, bool(self.ring.field("table_full"))):
            if self._cut_short:
                break  # what is gone is removed before anything is added: no total is too high
            if correction is None:
                yield None
            else:
                time, event = correction
                self._events.used = self._events.used or time is not None
                yield now if time is None else self._time(time), event
        self._events.used = self._events.used or self._meshes.any_open

    def _caught_up(self) -> None:
        """All corrections are applied. This is one step, so that no other ring is read between one gap and the next."""
        assert self._end_of_gap is not None
        time, event, reset = self._end_of_gap
        self._corrections = self._end_of_gap = None
        reset_since = self._sink.ledger.peaks_since != reset
        if reset_since:
            event = self._before_reset(event)
        self._in_gap = False
        self._sink.apply_record(time, self._source, event._replace(apart=self._apart))
        if self._skip:
            self._begin_gap(reset=reset_since)
        for uncertain in self._uncertain():
            self._emit(uncertain)

    def _before_reset(self, end: CaughtUp) -> CaughtUp:
        """The peaks were reset after what was lost was copied."""
        return missed_highs.before_reset(end)

    def _unseen_phases(self, began: int) -> int:
        return self._events.skip(began)

# SPDX-License-Identifier: Apache-2.0
"""One agent's ring that is followed: how far it is read in a turn, whether it is shed, and where it ends."""

from __future__ import annotations

from time import CLOCK_MONOTONIC, clock_gettime_ns

from ttmem.account.entities import Source
from ttmem.ingest.ring_fold import RingFold
from ttmem.ingest.shed_rings import ShedState
from ttmem.wire.agent_ring import chip_id

ALL_TIMES = 1 << 64
LAST_SECONDS = 1.0  # to read a ring to its end, for a reader that sheds rings
PATIENT_TICKS = 2  # for which others wait for the corrections of a ring with which they share chips


class FollowedRing:
    """One agent's ring, the source of its events, and how much time was spent on it."""

    __slots__ = (
        "_applied", "_chips_used", "_complete_until", "_correcting_ticks", "_due", "_goal", "_look_head", "_look_time",
        "chips", "end", "ended", "fold", "inode", "last_read", "late", "shedding", "source", "spent", "turn",
    )  # fmt: skip

    def __init__(self, fold: RingFold, source: Source, inode: int) -> None:
        self.fold = fold
        self.source = source
        self.inode = inode  # of its memory
        self.end: int | None = None  # the last record to read; known when its process is dead or runs another program
        self.ended = 0  # when that became known, by the clock of the agents
        self.late = False  # it was not read to its end in time
        self.turn = ALL_TIMES  # up to which time its records are applied in this turn, by the clock of the agents
        self.spent = 0.0  # seconds in this tick
        self.last_read = 0  # number of the slice in which it was read last
        self.shedding = ShedState(fold.ring)
        self._applied = 0  # records, before this tick
        self._goal = 0  # the last record to read in this turn
        self._due: float | None = None  # when its end must be reached; known one tick after the end
        self._correcting_ticks = 0
        self._look_head = 0  # its newest record at a look
        self._look_time = 0  # and when that was, by the clock of the agents
        self._complete_until = 0  # all that was written before this time is applied, whatever times the records have
        self.chips: frozenset[str] = frozenset()  # as of this turn
        self._chips_used = 0

    def look_at_chips(self) -> None:
        """Find the chips that its process uses."""
        ring = self.fold.ring
        used = min(ring.field("chips_used"), ring.chip_count)
        if used != self._chips_used:
            self.chips = frozenset(chip_id(ring.chip(index)) for index in range(used))
            self._chips_used = used

    @property
    def read_to_its_end(self) -> bool:
        return self.end is not None and self.fold.ring.cursor >= self.end and not self.fold.loaded

    def end_here(self) -> None:
        """Do not read what is written from now on: a process that lives on may write for ever.

        ``ended`` is the reader's clock: the last record may be much older than the death, or have a wrong time.
        """
        if self.end is None:
            self.end, self.ended = self.fold.ring.head, clock_gettime_ns(CLOCK_MONOTONIC)
        if self.shedding.shed:
            self.shedding.follow_again()
            self.fold.catch_up(skip=self.fold.apart and self.fold.ring.cursor < self.end)

    def look_at_end(self, now: float) -> None:
        """Called in each tick once its end is known. Its records, and then its live table, have so much time."""
        if self._due is None:
            self._due = now + LAST_SECONDS
        self.late = now >= self._due
        if now >= self._due + LAST_SECONDS:
            self.fold.cut_short()

    def look_at_corrections(self, now: float) -> None:
        """Called in each tick. Others that share its chips do not wait long for its corrections."""
        self._correcting_ticks = self._correcting_ticks + 1 if self.fold.correcting else 0
        if self._correcting_ticks > PATIENT_TICKS and not self.fold.apart:
            if self.end is None:
                self.shedding.begin(self.fold.ring.head, now)
            self.fold.let_others_pass(skip=self.end is None or self.fold.ring.cursor < self.end)

    def load(self, limit: int) -> None:
        """Read at most so many records. If it is late and records are left, load what is live now instead."""
        ring = self.fold.ring
        if self.end is not None:
            limit = max(0, min(limit, self.end - ring.cursor))
        late = self.late and limit > 0 and not self.fold.loaded
        self.fold.load(limit, late=late)
        # If nothing is loaded, either there is no more, or its writer misleads the reader: nothing waits for more.
        if late or not self.fold.loaded:
            self._goal = ring.cursor
            if self.end is not None:
                self.end = min(self.end, ring.cursor)

    def begin_turn(self) -> None:
        """Read up to the newest record of now: a process that goes on writing would keep the reader busy for ever."""
        now = clock_gettime_ns(CLOCK_MONOTONIC)
        self._goal = self.fold.look()
        position = self.fold.position
        if position is not None and position >= self._look_head:
            self._complete_until, self._look_time = self._look_time, now
            self._look_head = min(self._goal, position + self.fold.ring.slots)  # older ones are lost
        self.note()

    def note(self) -> None:
        """Note in the account how much is not read yet."""
        self.source.unread, self.source.shed = self.fold.unread, self.shedding.shed

    def had_records(self) -> bool:
        """Were records of it read since the last call? A look that finds none, or a renewal, needs no share."""
        before, self._applied = self._applied, self.fold.applied
        return self._applied > before

    def has_more(self) -> bool:
        """Are there records to read in this turn that are not loaded yet?"""
        return self.fold.ring.cursor < self._goal and not self.shedding.shed

    @property
    def until(self) -> int:
        """Up to which agent's time its records are applied in this turn.

        What is left of a ring that ended by then is older than its end, even if its times are later. Corrections have
        later times, too.
        """
        return ALL_TIMES if self.late or (self.end is not None and self.ended <= self.turn) else self.turn

    @property
    def pending(self) -> bool:
        """Is there anything left to read or to apply in this turn?

        Corrections that were loaded in this turn are later than it, and so may be records with wrong times. If the ring
        shares chips, they wait for the next turn. No more is read before they are applied.
        """
        return self._has_older(self.until)

    def may_have_older(self, time: int) -> bool:
        """May it have records that are not applied yet and were written before an agent's time?

        If nothing is loaded, that is not known. A writer may give all its records old times, so nothing waits for more
        than what was in its ring at the first look after that time.
        """
        return self._complete_until < time and self._has_older(time)

    def _has_older(self, time: int) -> bool:
        return self.fold.next_time <= time if self.fold.loaded else self.has_more()

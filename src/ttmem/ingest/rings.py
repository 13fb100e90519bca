# SPDX-License-Identifier: Apache-2.0
"""Reads the ring of every agent into the account. Rings that share chips are read in the order of their times.

An agent makes no system call for a record, so nothing tells the server that there is one. Rings are read at regular
intervals, before a request is answered, and one last time when their process has exited; its memory is still there
then. All of it is done in slices, because a full ring is most of a second of work. Each ring gets an equal share of the
time, and what it does not need goes to the others. A ring that is written faster than its share is *shed*: it is not
read, but about once a second the account is brought up to date from its live table and its meters. The same is done
once, instead of reading on, if the ring of a dead process is not read to its end within a second.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from functools import partial
from math import inf
from time import CLOCK_MONOTONIC, clock_gettime, clock_gettime_ns, monotonic, thread_time
from typing import TYPE_CHECKING

from ttmem.account.entities import Source
from ttmem.ingest.followed_ring import ALL_TIMES, FollowedRing
from ttmem.ingest.ring_fold import COUNTERS, RingFold
from ttmem.ingest.ring_listener import NoListener, RingListener
from ttmem.ingest.ring_merge import in_order
from ttmem.ingest.shared_chips import Item, first_to_end, limit_turns, may_end, sharing_chips, with_older
from ttmem.ingest.shed_rings import ReadingCost
from ttmem.ingest.sink import Sink
from ttmem.model.events import DeviceClosed, Rejected
from ttmem.wire.agent_ring import Ring, RingError

if TYPE_CHECKING:
    from ttmem.ingest.peers import Peer

_SLICE_RECORDS = 1024  # of a ring
_GROUP_RECORDS = 4096  # of all rings that are read together
_LEAST_SLICE_RECORDS = 64  # of each of them
_MAX_SUCCESSORS = 4  # rings of one process that wait until the one before is read
_RENEWALS_SECONDS = 0.01  # in a tick, until no further ring is renewed: the copy of a large table takes 7 ms
_RENEWALS_SHARE = 0.2  # of the time, for the copies of all rings


class Rings:
    """The rings of all agents."""

    def __init__(
        self,
        sink: Sink,
        listener: Callable[[Source, Ring], RingListener] = lambda source, ring: NoListener(),
        record: Callable[[Source, Ring, float], None] = lambda source, ring, offset: None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """``listener`` is called for each ring, and returns the listener of that ring.

        ``record`` is called with each ring, and what must be added to the agent's clock to get wall time.
        """
        self._sink = sink
        self._listener = listener
        self._record = record
        self._clock = clock
        self._followers: dict[Peer, FollowedRing] = {}
        self._successors: dict[Peer, deque[FollowedRing]] = {}
        self._exits: dict[Peer, Callable[[], None]] = {}  # of dead processes; they are due at the ends of their rings
        self._slices = 0  # that were read so far
        self._turn = 0  # when this turn began, by the clock of the agents
        self._cost = ReadingCost()
        self._renewals_due = 0.0  # when copies may be made again
        self._renewed_seconds = 0.0  # that copies took in this tick
        self.records = 0  # of rings that are not followed any more, as are the next three
        self.lost = 0
        self._completeness: list[float] = []
        self._counters = dict.fromkeys(COUNTERS, 0)

    def __len__(self) -> int:
        return len(self._followers)

    def adopt(self, peer: Peer, source: Source, fd: int) -> None:
        """Follow an agent's ring from now on. A ring that is handed over twice is followed once.

        Another ring of the same process means that it runs another program now, and what it held before is gone. The
        earlier ring is read to its end first.
        """
        inode = os.fstat(fd).st_ino
        ring = Ring(fd)
        known = self._followers.get(peer)
        waiting = self._successors.get(peer, deque())
        if known is not None and inode in (known.inode, *(one.inode for one in waiting)):
            ring.close()
            return
        if len(waiting) >= _MAX_SUCCESSORS:
            ring.close()
            raise RingError("it hands over memory faster than that can be read")
        offset = self._sink.now() - clock_gettime(CLOCK_MONOTONIC)
        self._record(source, ring, offset)
        fold = RingFold(ring, offset, self._sink, source, self._listener(source, ring))
        follower = FollowedRing(fold, source, inode)
        if known is None:
            self._followers[peer] = follower
            return
        self._successors.setdefault(peer, waiting).append(follower)
        self._guarded(peer, known, known.end_here)

    def tick(self) -> None:
        """Called at regular intervals by a reader that sheds rings: a new share of time begins for each ring."""
        now = self._clock()
        busy = sum(follower.had_records() for follower in self._followers.values())
        self._renewed_seconds = 0.0
        # A renewal that is left out because others took long is the first in a later tick.
        for peer, follower in sorted(self._followers.items(), key=lambda item: item[1].shedding.due):
            spent, follower.spent = follower.spent, 0.0
            self._guarded(peer, follower, partial(follower.look_at_corrections, now))
            if follower.end is None:
                work = partial(self._shed_or_renew, follower, now, spent, busy)
            else:
                work = partial(follower.look_at_end, now)
            self._guarded(peer, follower, work)
        if self._renewed_seconds:
            self._renewals_due = now + self._renewed_seconds / _RENEWALS_SHARE

    def follow(self, deadline: float) -> bool:
        """Read all rings up to their newest records of now; True if the deadline came first.

        A ring whose process is dead, or runs another program, is read to its end before anything later on its chips.
        """
        self._begin_turn()
        for peer, follower in self._items():
            self._guarded(peer, follower, follower.begin_turn)
        for peer, follower in self._items():
            if not self._pending(peer, follower) and not follower.source.shed:
                self._read([(peer, follower)], deadline)  # an audit may be new even so
        while True:
            pending = self._all_pending()
            if pending:
                self._read(self._next_group(pending), deadline)
            elif not self._end_rings(self._items()):
                break
            if self._clock() > deadline:
                pending = self._all_pending()
                break
        for peer, follower in self._items():
            self._guarded(peer, follower, follower.note)
        return bool(pending)

    def finish(self, peer: Peer, deadline: float = inf, exited: Callable[[], None] = lambda: None) -> bool:
        """The process is dead: read the rest of its ring, then close it. False if there is more to read.

        ``exited`` is called once, at the end of the ring, before anything later on its chips is applied. This may be
        in a later call of another method. Rings that share chips with it are read as well, up to the time of its end,
        and those that ended before it to their ends. A process that writes for ever, and gives all its records old
        times, delays the end only until what was in its ring at the end of the process is read. If `tick` is called,
        the end is delayed by `followed_ring.LAST_SECONDS` at most.
        """
        self._exits.setdefault(peer, exited)
        if not self._read_to_end(peer, deadline):
            return False
        self._exit(peer)  # if it has no ring, or its memory is invalid
        return True

    def _exit(self, peer: Peer) -> None:
        exited = self._exits.pop(peer, None)
        if exited is not None:
            exited()

    def end(self) -> None:
        """Rings are not read again: read all of them to their ends, as if their processes ran other programs now."""
        for peer in list(self._followers):
            self._read_to_end(peer, inf)

    def _read_to_end(self, peer: Peer, deadline: float) -> bool:
        started: set[Peer] = set()
        while True:
            follower = self._followers.get(peer)
            if follower is None:
                return True
            self._guarded(peer, follower, follower.end_here)
            self._begin_turn()
            for other, its_ring in self._items():
                if other not in started:  # once only: a living process may write for ever
                    started.add(other)
                    self._guarded(other, its_ring, its_ring.begin_turn)
            if self._followers.get(peer) is follower:
                first = first_to_end((peer, follower), self._items())
                others = [] if first[1].late else with_older(first[1], self._items())
                self._read(sharing_chips(first, others), deadline)
            if peer in self._followers and self._clock() > deadline:
                return False

    def positions(self) -> list[tuple[Ring, int, int]]:
        """Each ring that is not read to its end, the last record of it that was applied, and how many were lost."""
        waiting = [one for successors in self._successors.values() for one in successors]
        return [
            (one.fold.ring, one.fold.position or 0, one.fold.lost + (one.fold.position is None))
            for one in (*self._followers.values(), *waiting)
        ]

    def behind(self) -> int:
        """Records that were written and not read yet."""
        return sum(follower.source.unread for follower in self._followers.values())

    def counts(self) -> tuple[int, int]:
        """Records read and lost so far, over all agents."""
        folds = [follower.fold for follower in self._followers.values()]
        return self.records + sum(f.records for f in folds), self.lost + sum(f.lost for f in folds)

    def counters(self) -> dict[str, int]:
        """What all agents together found odd."""
        total = dict(self._counters)
        for follower in self._followers.values():
            for name, value in _counters(follower.fold).items():
                total[name] += value
        return total

    def completeness(self) -> float | None:
        """The worst of all audits of all agents; None if there was none."""
        folds = [follower.fold.completeness for follower in self._followers.values()]
        return min((share for share in (*self._completeness, *folds) if share is not None), default=None)

    def close(self) -> None:
        self._successors.clear()
        for peer in list(self._followers):
            self._drop(peer)

    def _drop(self, peer: Peer) -> None:
        """Close the ring of a process; its next one, if there is one, is followed from now on."""
        follower = self._followers.pop(peer, None)
        if follower is None:
            return
        self.records += follower.fold.records
        self.lost += follower.fold.lost
        if follower.fold.completeness is not None:
            self._completeness.append(follower.fold.completeness)
        for name, value in _counters(follower.fold).items():
            self._counters[name] += value
        follower.source.unread, follower.source.shed = 0, False
        follower.fold.ring.close()
        waiting = self._successors.get(peer)
        if waiting:
            following = self._followers[peer] = waiting.popleft()
            if not waiting:
                del self._successors[peer]
            self._guarded(peer, following, following.begin_turn)
            if peer in self._successors or peer in self._exits:
                self._guarded(peer, following, following.end_here)

    def _begin_turn(self) -> None:
        """Note the time up to which records are applied."""
        self._turn = clock_gettime_ns(CLOCK_MONOTONIC)
        for peer, follower in self._items():
            self._guarded(peer, follower, follower.look_at_chips)
        limit_turns(self._items(), self._turn)

    def _items(self) -> list[Item]:
        return list(self._followers.items())

    def _all_pending(self) -> list[Item]:
        return [(peer, follower) for peer, follower in self._items() if self._pending(peer, follower)]

    def _pending(self, peer: Peer, follower: FollowedRing) -> bool:
        try:
            return follower.pending
        except Exception as error:
            self._give_up(peer, follower, error)
            return False

    def _shed_or_renew(self, follower: FollowedRing, now: float, spent: float, busy: int) -> None:
        """Decide whether a ring is read or shed, and renew the account of a shed ring when it is time to.

        ``spent`` is the time that the ring took in the last tick.
        """
        shedding, fold = follower.shedding, follower.fold
        if not shedding.shed:
            shedding.look(fold.unread, fold.gaps, spent > 0, now)
            if not shedding.shed:
                return
            fold.stop_reading()
        else:
            shedding.cost(spent)
        may_copy = now >= self._renewals_due and self._renewed_seconds < _RENEWALS_SECONDS
        if not fold.loaded and now >= shedding.due and may_copy:
            shedding.renew(fold.ring.head, now, self._cost.seconds_per_record, busy)
            began = self._clock()
            fold.catch_up(skip=shedding.shed)
            took = self._clock() - began
            follower.spent += took
            self._renewed_seconds += took

    def _next_group(self, pending: list[Item]) -> list[Item]:
        """The ring on which the least time was spent, and those that share chips with it, directly or not.

        If there are several, the one that was not read for the longest time: a tick may be too short for all rings.
        """
        return sharing_chips(min(pending, key=lambda item: (item[1].spent, item[1].last_read)), pending)

    def _read(self, group: list[Item], deadline: float) -> None:
        """Read a slice of each ring of a group. A fault in one of them does not affect the others."""
        limit = min(_SLICE_RECORDS, max(_LEAST_SLICE_RECORDS, _GROUP_RECORDS // len(group)))
        self._slices += 1
        for peer, follower in group:
            follower.last_read = self._slices
            self._guarded(peer, follower, partial(follower.load, limit))
        if len(group) == 1:
            self._fold(*group[0], deadline)
        while len(group) > 1:
            loaded = [(peer, follower) for peer, follower in group if self._loaded(peer, follower)]
            # A ring whose slice was applied and that has more may be the next in time: the others wait for it.
            if not loaded or any(self._waits_for_more(peer, follower) for peer, follower in group):
                break
            peer, follower = min(loaded, key=lambda item: item[1].fold.next_time)
            if follower.fold.correcting:
                self._fold(peer, follower, deadline)
            else:
                self._fold_in_order(loaded, deadline)
            if self._clock() > deadline:
                break
        self._end_rings(group)

    def _end_rings(self, rings: list[Item]) -> bool:
        """End those that are read to their ends. Returns True if there was one."""
        ended = False
        for peer, follower in rings:
            if self._followers.get(peer) is follower and follower.read_to_its_end and may_end(follower, self._items()):
                self._ended(peer, follower)
                ended = True
        return ended

    def _loaded(self, peer: Peer, follower: FollowedRing) -> bool:
        """Has it something to apply in this turn?"""
        mine = self._followers.get(peer) is follower and follower.fold.loaded
        return mine and follower.fold.next_time <= follower.until

    def _waits_for_more(self, peer: Peer, follower: FollowedRing) -> bool:
        fold = follower.fold
        return self._followers.get(peer) is follower and not fold.loaded and self._pending(peer, follower)

    def _fold(self, peer: Peer, follower: FollowedRing, deadline: float) -> None:
        """Apply what a ring has loaded, and note what it cost."""
        if self._followers.get(peer) is not follower:
            return
        fold, began, cpu, records = follower.fold, self._clock(), thread_time(), follower.fold.applied
        self._guarded(peer, follower, lambda: fold.fold(follower.until, deadline))
        follower.spent += self._clock() - began
        if not fold.observed:  # observers give way when there is too much for them
            self._cost.note(fold.applied - records, thread_time() - cpu)

    def _fold_in_order(self, loaded: list[Item], deadline: float) -> None:
        """Apply records of several rings in the order of their times, and note what it cost.

        It stops at the time of a correction, and where a ring may have more that is not loaded.
        """
        rings = [(peer, one) for peer, one in loaded if not one.fold.correcting]
        ends = [one.fold.next_time for _, one in loaded if one.fold.correcting]
        ends += [one.fold.last_time for _, one in rings if one.has_more()]
        until = min(ends, default=ALL_TIMES)
        began, cpu = self._clock(), thread_time()
        before = [one.fold.applied for _, one in rings]
        turns = [one.fold.in_turns(deadline) for _, one in rings]
        for turn in turns:
            next(turn)
        with self._sink.direct_records():
            for index, count in in_order([one.fold.times(min(until, one.until)) for _, one in rings]):
                peer, follower = rings[index]
                if self._followers.get(peer) is not follower:
                    continue  # its memory is invalid
                try:
                    if not turns[index].send(count):
                        break  # the rest of the run is next
                except Exception as error:
                    self._give_up(peer, follower, error)
                if self._clock() > deadline:
                    break
        applied = [one.fold.applied - records for (_, one), records in zip(rings, before)]
        each = (self._clock() - began) / max(1, sum(applied))
        for (_, one), records in zip(rings, applied):
            one.spent += each * records
        if not any(one.fold.observed for _, one in rings):
            self._cost.note(sum(applied), thread_time() - cpu)

    def _ended(self, peer: Peer, follower: FollowedRing) -> None:
        """The ring was read to its end. What its program held is gone before anything later on its chips counts."""
        follower.fold.end()
        if peer in self._successors:  # another program follows, which opens its own devices
            for device in list(follower.source.holdings):
                self._sink.apply(self._sink.now(), follower.source, DeviceClosed(device))
        else:
            self._exit(peer)
        self._drop(peer)
        limit_turns(self._items(), self._turn)

    def _guarded(self, peer: Peer, follower: FollowedRing, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:
            self._give_up(peer, follower, error)

    def _give_up(self, peer: Peer, follower: FollowedRing, error: Exception) -> None:
        """Another process writes this memory, and may write anything. If it is invalid, the ring is closed."""
        if self._followers.get(peer) is not follower:
            return
        follower.fold.give_up()
        self._drop(peer)
        limit_turns(self._items(), self._turn)
        self._sink.apply(self._sink.now(), follower.source, Rejected(1))
        pid = follower.source.process.info.pid
        self._sink.warn(f"pid {pid}: its agent's memory is invalid and is not read any more: {error}")


def _counters(fold: RingFold) -> dict[str, int]:
    """What an agent itself found odd; empty if its memory cannot be read any more."""
    try:
        return fold.counters()
    except RingError:
        return {}

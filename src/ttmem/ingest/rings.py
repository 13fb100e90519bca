# SPDX-License-Identifier: Apache-2.0
"""Follows the ring of every agent and puts its events into the sink, those of several rings in order of time.

An agent makes no system call for a record, so nothing tells the server that there is one. Rings are read by the clock,
before a request is answered, and one last time when their process is dead; its memory is still there then. All of it is
done in slices, because a full ring is most of a second of work.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from heapq import merge
from math import inf
from time import CLOCK_MONOTONIC, clock_gettime, monotonic
from typing import TYPE_CHECKING

from ttmem.account.entities import Source
from ttmem.ingest.ring_fold import COUNTERS, RingFold
from ttmem.ingest.ring_listener import NoListener, RingListener
from ttmem.ingest.sink import Sink
from ttmem.model.events import DeviceClosed, Event, Rejected
from ttmem.wire.agent_ring import Ring, RingError

if TYPE_CHECKING:
    from ttmem.ingest.peers import Peer

_SLICE_RECORDS = 2048  # at a time, over all rings that have something new
_MAX_SUCCESSORS = 4  # rings of one process that wait until the one before is read


class FollowedRing:
    """One agent's ring and the source of its events."""

    __slots__ = ("end", "fold", "inode", "source")

    def __init__(self, fold: RingFold, source: Source, inode: int) -> None:
        self.fold = fold
        self.source = source
        self.inode = inode  # of its memory
        self.end: int | None = None  # the last record to read; known when its process is dead or runs another program

    @property
    def read_to_its_end(self) -> bool:
        return self.end is not None and self.fold.ring.cursor >= self.end

    def end_here(self) -> None:
        """Do not read what is written from now on: a process that lives on may write for ever."""
        if self.end is None:
            self.end = self.fold.ring.head


class Rings:
    """The rings of all agents."""

    def __init__(
        self, sink: Sink, listener: Callable[[Source, Ring], RingListener] = lambda source, ring: NoListener()
    ) -> None:
        """``listener`` is called for each ring, and returns who listens to it."""
        self._sink = sink
        self._listener = listener
        self._followers: dict[Peer, FollowedRing] = {}
        self._successors: dict[Peer, deque[FollowedRing]] = {}
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
        follower = FollowedRing(RingFold(ring, offset, self._listener(source, ring)), source, inode)
        if known is None:
            self._followers[peer] = follower
            return
        self._successors.setdefault(peer, waiting).append(follower)
        self._guarded(peer, known, known.end_here)

    def follow(self, deadline: float) -> bool:
        """Read what is new in all rings, merged by time; True if there is more."""
        for peer, follower in list(self._followers.items()):
            if not self._behind(peer, follower):
                self._fold([(peer, follower)])  # an audit may be new even so
        while True:
            pending = [
                (peer, follower) for peer, follower in list(self._followers.items()) if self._behind(peer, follower)
            ]
            if not pending:
                return False
            self._fold(pending)
            if monotonic() > deadline:
                return True

    def finish(self, peer: Peer, deadline: float = inf) -> bool:
        """The process is dead: read the rest of its ring, then close it. False if there is more to read."""
        while True:
            follower = self._followers.get(peer)
            if follower is None:
                return True
            self._guarded(peer, follower, follower.end_here)
            if self._followers.get(peer) is follower:
                self._fold([(peer, follower)])
            if peer in self._followers and monotonic() > deadline:
                return False

    def end(self) -> None:
        """Nobody will look again: treat all rings as if their processes had ended."""
        for peer in list(self._followers):
            self.finish(peer)

    def behind(self) -> int:
        """Records that were written and not read yet."""
        return sum(max(0, one.fold.ring.head - one.fold.ring.cursor) for one in self._followers.values())

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
        follower.fold.ring.close()
        waiting = self._successors.get(peer)
        if waiting:
            self._followers[peer] = waiting.popleft()
            if not waiting:
                del self._successors[peer]

    def _behind(self, peer: Peer, follower: FollowedRing) -> bool:
        try:
            return follower.fold.behind
        except Exception as error:
            self._give_up(peer, follower, error)
            return False

    def _fold(self, followers: list[tuple[Peer, FollowedRing]]) -> None:
        """Read a slice of each ring. A fault in one of them does not affect the others."""
        sink = self._sink
        limit = max(1, _SLICE_RECORDS // len(followers))
        if len(followers) == 1 and sink.plain(followers[0][1].source):
            peer, follower = followers[0]
            self._guarded(peer, follower, lambda: follower.fold.fold(limit, sink.ledger, follower.source))
        else:
            for time, peer, follower, event in merge(
                *(self._stream(peer, follower, limit) for peer, follower in followers), key=lambda item: item[0]
            ):
                if self._followers.get(peer) is follower:
                    try:
                        sink.apply(time, follower.source, event)
                    except Exception as error:
                        self._give_up(peer, follower, error)
        for peer, follower in followers:
            if self._followers.get(peer) is follower and follower.read_to_its_end:
                self._ended(peer, follower)

    def _stream(
        self, peer: Peer, follower: FollowedRing, limit: int
    ) -> Iterator[tuple[float, Peer, FollowedRing, Event]]:
        try:
            for time, event in follower.fold.events(limit):
                yield time, peer, follower, event
                if self._followers.get(peer) is not follower:
                    return  # it was given up meanwhile
        except Exception as error:
            self._give_up(peer, follower, error)

    def _ended(self, peer: Peer, follower: FollowedRing) -> None:
        """The ring was read to its end. If another program follows, the devices of this one are closed."""
        follower.fold.end()
        if peer in self._successors:
            for device in list(follower.source.holdings):
                self._sink.apply(self._sink.now(), follower.source, DeviceClosed(device))
        self._drop(peer)

    def _guarded(self, peer: Peer, follower: FollowedRing, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:
            self._give_up(peer, follower, error)

    def _give_up(self, peer: Peer, follower: FollowedRing, error: Exception) -> None:
        """Another process writes this memory, and may write anything. If it makes no sense, the ring is closed."""
        if self._followers.get(peer) is not follower:
            return
        self._drop(peer)
        self._sink.apply(self._sink.now(), follower.source, Rejected(1))
        pid = follower.source.process.info.pid
        self._sink.warn(f"pid {pid}: its agent's memory makes no sense and is left: {error}")


def _counters(fold: RingFold) -> dict[str, int]:
    """What an agent itself found odd; empty if its memory cannot be read any more."""
    try:
        return fold.counters()
    except RingError:
        return {}

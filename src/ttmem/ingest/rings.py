# SPDX-License-Identifier: Apache-2.0
"""Agents' memory, read: follows every ring that was handed over and folds what it says into the account.

Nobody is woken by a record: an agent makes no system call for it. So rings are looked at by the clock, before
somebody asks, and one last time when their process is dead, whose memory is still there. All of it is done in slices:
a full ring of a wide mesh is seconds of work.
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
from ttmem.model.events import DeviceClosed, Event, Rejected
from ttmem.wire.agent_ring import Ring, RingError

if TYPE_CHECKING:
    from ttmem.ingest.peers import Peer
    from ttmem.ingest.sockets import Ingest

AGENT = "agent"
_SLICE_EVENTS = 2048  # at a time, over all rings that have something new
_MAX_SUCCESSORS = 4  # memories of one process that wait until the one before is read


class FollowedRing:
    """One agent's ring and the source it speaks for."""

    __slots__ = ("end", "fold", "inode", "source")

    def __init__(self, fold: RingFold, source: Source, inode: int) -> None:
        self.fold = fold
        self.source = source
        self.inode = inode  # of its memory
        self.end: int | None = (
            None  # the last record that is read; set when the process is dead or runs another program
        )

    @property
    def read_to_its_end(self) -> bool:
        return self.end is not None and self.fold.ring.cursor >= self.end

    def ends_here(self) -> None:
        """Whatever is written from now on is not read: a process that lives on may write for ever."""
        if self.end is None:
            self.end = self.fold.ring.head


class Rings:
    """All rings of all agents."""

    def __init__(self, ingest: Ingest) -> None:
        self._ingest = ingest
        self._followers: dict[Peer, FollowedRing] = {}
        self._successors: dict[Peer, deque[FollowedRing]] = {}
        # A process is about to close its devices, or ended without: what it holds now is what it left.
        self.closing: Callable[[Source], None] = lambda source: None
        self.blind = False  # did an agent that is gone close a device among what was lost
        self.wholesale = (0, 0)  # tensors that only a closing freed, and their bytes; of agents that are gone
        self.records = 0  # of agents that are gone
        self.lost = 0
        self.keep_sizes = False
        self.sizes: list[tuple[Source, RingFold]] = []  # of whom they were kept, also when they are gone
        self._completeness: list[float] = []
        self._counters = dict.fromkeys(COUNTERS, 0)

    def __len__(self) -> int:
        return len(self._followers)

    def adopt(self, owner: Peer, source: Source, fd: int) -> None:
        """Follow an agent's memory from now on. What is handed over twice is followed once.

        Another memory of the same process means that it runs another program now, and what it held before is gone. The
        memory before is read to its end first.
        """
        inode = os.fstat(fd).st_ino
        ring = Ring(fd)
        known = self._followers.get(owner)
        waiting = self._successors.get(owner, deque())
        if known is not None and inode in (known.inode, *(one.inode for one in waiting)):
            ring.close()
            return
        if len(waiting) >= _MAX_SUCCESSORS:
            ring.close()
            raise RingError("it hands over memory faster than that can be read")
        offset = self._ingest.now() - clock_gettime(CLOCK_MONOTONIC)
        follower = FollowedRing(RingFold(ring, offset, lambda: self.closing(source)), source, inode)
        if self.keep_sizes:
            follower.fold.keep_sizes()
            self.sizes.append((source, follower.fold))
        if known is None:
            self._followers[owner] = follower
            return
        self._successors.setdefault(owner, waiting).append(follower)
        self._guarded(owner, known, known.ends_here)

    def follow(self, deadline: float) -> bool:
        """Fold in what is new, all rings merged by time; True if there is more."""
        for owner, follower in list(self._followers.items()):
            if not self._behind(owner, follower):
                self._fold([(owner, follower)])  # an audit may be new even so
        while True:
            pending = [
                (owner, follower) for owner, follower in list(self._followers.items()) if self._behind(owner, follower)
            ]
            if not pending:
                return False
            self._fold(pending)
            if monotonic() > deadline:
                return True

    def finish(self, owner: Peer, deadline: float = inf) -> bool:
        """The process is dead: read what its memory still says, then let go of it. False if there is more to read."""
        while True:
            follower = self._followers.get(owner)
            if follower is None:
                return True
            self._guarded(owner, follower, follower.ends_here)
            if self._followers.get(owner) is follower:
                self._fold([(owner, follower)])
            if owner in self._followers and monotonic() > deadline:
                return False

    def end(self) -> None:
        """Nobody will look again: take what is still open as what is left."""
        for owner in list(self._followers):
            self.finish(owner)

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
        for owner in list(self._followers):
            self._drop(owner)

    def _add_wholesale(self, fold: RingFold) -> None:
        self.wholesale = self.wholesale[0] + fold.wholesale[0], self.wholesale[1] + fold.wholesale[1]

    def _drop(self, owner: Peer) -> None:
        """Let go of a process's memory; its next one, if there is one, is followed from now on."""
        follower = self._followers.pop(owner, None)
        if follower is None:
            return
        self.records += follower.fold.records
        self.lost += follower.fold.lost
        self.blind = self.blind or follower.fold.blind
        self._add_wholesale(follower.fold)
        if follower.fold.completeness is not None:
            self._completeness.append(follower.fold.completeness)
        for name, value in _counters(follower.fold).items():
            self._counters[name] += value
        follower.fold.ring.close()
        waiting = self._successors.get(owner)
        if waiting:
            self._followers[owner] = waiting.popleft()
            if not waiting:
                del self._successors[owner]

    def _behind(self, owner: Peer, follower: FollowedRing) -> bool:
        try:
            return follower.fold.behind
        except Exception as error:
            self._give_up(owner, follower, error)
            return False

    def _fold(self, followers: list[tuple[Peer, FollowedRing]]) -> None:
        """A slice of each ring; whatever one of them does, the others are read."""
        ingest = self._ingest
        limit = max(1, _SLICE_EVENTS // sum(follower.fold.width for _, follower in followers))
        if len(followers) == 1 and not ingest.observers:
            owner, follower = followers[0]
            self._guarded(owner, follower, lambda: follower.fold.fold(limit, ingest.ledger, follower.source))
        else:
            for time, owner, follower, event in merge(
                *(self._stream(owner, follower, limit) for owner, follower in followers), key=lambda item: item[0]
            ):
                if self._followers.get(owner) is follower:
                    try:
                        ingest.emit(time, follower.source, event)
                    except Exception as error:
                        self._give_up(owner, follower, error)
        for owner, follower in followers:
            if self._followers.get(owner) is follower and follower.read_to_its_end:
                self._ended(owner, follower)

    def _stream(
        self, owner: Peer, follower: FollowedRing, limit: int
    ) -> Iterator[tuple[float, Peer, FollowedRing, Event]]:
        try:
            for time, event in follower.fold.events(limit):
                yield time, owner, follower, event
                if self._followers.get(owner) is not follower:
                    return  # it was given up meanwhile
        except Exception as error:
            self._give_up(owner, follower, error)

    def _ended(self, owner: Peer, follower: FollowedRing) -> None:
        """Its memory was read to the end; what it held is gone, unless its process lives on to close it."""
        if follower.fold.fresh:
            self.closing(follower.source)
        if owner in self._successors:
            for number in follower.fold.open_numbers():
                self._ingest.emit(self._ingest.now(), follower.source, DeviceClosed(number))
        self._drop(owner)

    def _guarded(self, owner: Peer, follower: FollowedRing, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:
            self._give_up(owner, follower, error)

    def _give_up(self, owner: Peer, follower: FollowedRing, error: Exception) -> None:
        """The memory is another process's, and may say anything; what makes no sense costs that process its ring."""
        if self._followers.get(owner) is not follower:
            return
        self._drop(owner)
        self._ingest.emit(self._ingest.now(), follower.source, Rejected(1))
        pid = follower.source.process.info.pid
        self._ingest.warn(f"pid {pid}: its agent's memory makes no sense and is left: {error}")


def _counters(fold: RingFold) -> dict[str, int]:
    """What an agent itself found odd; nothing if its memory cannot be read any more."""
    try:
        return fold.counters()
    except RingError:
        return {}

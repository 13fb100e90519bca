# SPDX-License-Identifier: Apache-2.0
"""Agents' memory, read: follows every ring that was handed over and folds what it says into the account.

Nobody is woken by a record: an agent makes no system call for it. So rings are looked at by the clock, before
somebody asks, and one last time when their process is dead, whose memory is still there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from heapq import merge
from time import CLOCK_MONOTONIC, clock_gettime, monotonic
from typing import TYPE_CHECKING, NamedTuple

from ttmem.account.events import DeviceClosed, Event, Rejected
from ttmem.account.parties import Source
from ttmem.wire.ring import Ring, RingError
from ttmem.wire.ring_events import COUNTERS, RingFold

if TYPE_CHECKING:
    from ttmem.server.ingest import Ingest
    from ttmem.server.owners import Owner

AGENT = "agent"
_NONSENSE = (RingError, ValueError, LookupError, OverflowError)
_SLICE = 2048  # records of one ring at a time


class Follower(NamedTuple):
    """One agent's ring and the source it speaks for."""

    fold: RingFold
    source: Source
    inode: int  # of its memory


class Rings:
    """All rings of all agents."""

    def __init__(self, ingest: Ingest) -> None:
        self._ingest = ingest
        self._followers: dict[Owner, Follower] = {}
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

    def adopt(self, owner: Owner, source: Source, fd: int) -> None:
        """Follow an agent's memory from now on. What is handed over twice is followed once.

        Another memory of the same process means that it runs another program now, and what it held before is gone.
        """
        inode = os.fstat(fd).st_ino
        ring = Ring(fd)
        known = self._followers.get(owner)
        if known is not None and known.inode == inode:
            ring.close()
            return
        if known is not None:
            self.finish(owner)
            for number in known.fold.open_numbers():
                self._ingest.emit(self._ingest.now(), source, DeviceClosed(number))
        offset = self._ingest.now() - clock_gettime(CLOCK_MONOTONIC)
        fold = RingFold(ring, offset, lambda: self.closing(source))
        self._followers[owner] = Follower(fold, source, inode)
        if self.keep_sizes:
            fold.keep_sizes()
            self.sizes.append((source, fold))

    def follow(self, deadline: float) -> bool:
        """Fold in what is new, all rings merged by time; True if there is more."""
        while self._followers:
            pending = [(owner, follower) for owner, follower in self._followers.items() if follower.fold.behind]
            for owner, follower in list(self._followers.items()):
                if not follower.fold.behind:
                    self._fold([(owner, follower)])  # an audit may be new even so
            if not pending:
                return False
            self._fold(pending)
            if monotonic() > deadline:
                return True
        return False

    def finish(self, owner: Owner) -> None:
        """The process is dead: read what its memory still says, then let go of it."""
        follower = self._followers.get(owner)
        if follower is None:
            return
        head = follower.fold.ring.head  # a process that lives on may write for ever
        while True:
            self._fold([(owner, follower)])
            if owner not in self._followers or follower.fold.ring.cursor >= head:
                break
        if follower.fold.fresh:
            self.closing(follower.source)
        self._drop(owner)

    def end(self) -> None:
        """Nobody will look again: take what is still open as what is left."""
        for owner in list(self._followers):
            self.finish(owner)

    def counts(self) -> tuple[int, int]:
        """Records read and lost so far, over all agents."""
        folds = [follower.fold for follower in self._followers.values()]
        return self.records + sum(f.records for f in folds), self.lost + sum(f.lost for f in folds)

    def counters(self) -> dict[str, int]:
        """What all agents together found odd."""
        total = dict(self._counters)
        for follower in self._followers.values():
            for name, value in follower.fold.counters().items():
                total[name] += value
        return total

    def completeness(self) -> float | None:
        """The worst of all audits of all agents; None if there was none."""
        folds = [follower.fold.completeness for follower in self._followers.values()]
        return min((share for share in (*self._completeness, *folds) if share is not None), default=None)

    def close(self) -> None:
        for owner in list(self._followers):
            self._drop(owner)

    def _add_wholesale(self, fold: RingFold) -> None:
        self.wholesale = self.wholesale[0] + fold.wholesale[0], self.wholesale[1] + fold.wholesale[1]

    def _drop(self, owner: Owner) -> None:
        follower = self._followers.pop(owner, None)
        if follower is not None:
            self.records += follower.fold.records
            self.lost += follower.fold.lost
            self.blind = self.blind or follower.fold.blind
            self._add_wholesale(follower.fold)
            if follower.fold.completeness is not None:
                self._completeness.append(follower.fold.completeness)
            for name, value in follower.fold.counters().items():
                self._counters[name] += value
            follower.fold.ring.close()

    def _fold(self, followers: list[tuple[Owner, Follower]]) -> None:
        ingest = self._ingest
        if len(followers) == 1 and not ingest.observers:
            owner, (fold, source, _) = followers[0]
            try:
                fold.fold(max(1, _SLICE // fold.width), ingest.ledger, source)
            except _NONSENSE as error:
                self._give_up(owner, source, error)
            return
        streams = [self._stream(*pair) for pair in followers]
        events = streams[0] if len(streams) == 1 else merge(*streams, key=lambda item: item[0])
        for time, source, event in events:
            ingest.emit(time, source, event)

    def _stream(self, owner: Owner, follower: Follower) -> Iterator[tuple[float, Source, Event]]:
        fold, source, _ = follower
        try:
            for time, event in fold.events(max(1, _SLICE // fold.width)):
                yield time, source, event
        except _NONSENSE as error:
            self._give_up(owner, source, error)

    def _give_up(self, owner: Owner, source: Source, error: Exception) -> None:
        """The memory is another process's, and may say anything; what makes no sense costs that process its ring."""
        self._drop(owner)
        self._ingest.emit(self._ingest.now(), source, Rejected(1))
        self._ingest.warn(f"pid {source.process.info.pid}: its agent's memory makes no sense and is left: {error}")

# SPDX-License-Identifier: Apache-2.0
"""Receives the events of a run's agents: the same ingest as the server's, on a socket of the run's own.

It keeps two snapshots beside the account: everything live at the peak, and everything a process still held when it
began to close its devices, or died without closing them.
"""

from __future__ import annotations

import os
import select
import socket
import tempfile
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from ttmem.account.allocations import Allocation
from ttmem.account.call_sites import line_of
from ttmem.account.entities import Process, Source
from ttmem.account.ledger import Ledger
from ttmem.account.live_set import counts
from ttmem.account.totals import TotalWithContents
from ttmem.analyze.failure_context import verdict_at
from ttmem.analyze.failure_messages import parse
from ttmem.analyze.verdicts import Verdict, verdict_on
from ttmem.ingest.clock import Clock
from ttmem.ingest.legacy_log import LegacyLog
from ttmem.ingest.sockets import Ingest
from ttmem.model.events import Failed
from ttmem.recording.moment import ProgramAtMoment, programs_of
from ttmem.recording.recorder import Recorder

_MOST_FAILURES = 100  # kept, the last ones
_ALWAYS_EXPLAINED_FAILURES = 200  # refusals, whatever that takes: with the whole account some milliseconds each
_EXPLAINING_TIME_SHARE = 0.1  # of the time since the start, which may be spent on all that come after them
NOT_LOOKED_AT = "who holds the memory: it was refused so often that not each refusal was looked at closely"


class Failure(NamedTuple):
    """A failed allocation of the runtime, and the verdict on it."""

    time: float
    pid: int
    event: Failed
    verdict: Verdict


class Session:
    """Agents report here; ``ledger`` is the account of what they reported."""

    def __init__(self, warn: Callable[[str], None], record: str | None = None) -> None:
        self.clock = Clock()
        self.all_chips = TotalWithContents()
        self.ledger = Ledger(all_chips=self.all_chips)
        self.ingest = Ingest(self.ledger, LegacyLog(quiet=True), now=self.clock.now)
        self.ingest.warn = warn
        self._recording = None if record is None else Recorder(record, self.ingest.observers, warn)
        self.ingest.rings.closing = self._closing
        self.ingest.rings.keep_sizes = True
        self._left: dict[tuple[int, int | None, int], tuple[list[Allocation], list[ProgramAtMoment]]] = {}
        self.failures: deque[Failure] = deque(maxlen=_MOST_FAILURES)
        self.failed = 0
        self._started = self.clock.now()
        self._spent = 0.0  # seconds, on verdicts
        self.ledger.failing = self._failing
        self._folder = tempfile.TemporaryDirectory(prefix="ttmem-run-")
        self.path = os.path.join(self._folder.name, "run.sock")
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        self._listener.bind(self.path)
        self._listener.listen(512)
        self._listener.setblocking(False)
        self.ingest.listen(self._listener)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.ingest.close()
        if self._recording is not None:
            self._recording.close()
        self._listener.close()
        self._folder.cleanup()

    def fileno(self) -> int:
        """Readable when an agent connects, or a process that has one dies."""
        return self.ingest.fileno()

    def turn(self) -> None:
        """Read everything that is there: new connections, rings, deaths."""
        self.ingest.turn()
        while select.select([self.ingest], [], [], 0)[0]:
            self.ingest.turn()
        while self.ingest.rings.follow(0.0):
            pass
        self.ingest.tick()

    def finish(self) -> None:
        """The command has ended: read the rings of processes that still run one last time."""
        self.turn()
        self.ingest.rings.end()

    def at_peak(self) -> list[Allocation]:
        """Everything that was live at the peak of the buffers of all chips together."""
        return [
            allocation for allocation in self.all_chips.allocations(self.ledger.allocations()) if counts(allocation)
        ]

    def left(self) -> list[Allocation]:
        """What each process held when it began to close its devices, or when it ended."""
        return [allocation for allocations, _ in self._left.values() for allocation in allocations]

    def programs_left(self) -> list[ProgramAtMoment]:
        """The programs that were cached then."""
        return [program for _, programs in self._left.values() for program in programs]

    def _failing(self, time: float, process: Process, event: Failed) -> None:
        """Explain a failure now, while the account is that of the moment. Of very many only some are explained."""
        failure = parse(event.text)
        if failure is None:
            return  # the runtime throws for other reasons, too
        self.failed += 1
        began = self.clock.now()
        verdict = None
        if self.failed <= _ALWAYS_EXPLAINED_FAILURES or self._spent < _EXPLAINING_TIME_SHARE * (began - self._started):
            verdict = verdict_at(event, process)
            self._spent += self.clock.now() - began
        if verdict is None:
            verdict = verdict_on(failure)._replace(tag=event.tag, line=line_of(event.stack), unknown=(NOT_LOOKED_AT,))
        self.failures.append(Failure(time, process.info.pid, event, verdict))

    def _closing(self, source: Source) -> None:
        process = source.process
        allocations = [allocation for holding in process.holdings() for allocation in holding.allocations()]
        self._left[process.info.key] = (allocations, programs_of(process))

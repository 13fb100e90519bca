# SPDX-License-Identifier: Apache-2.0
"""Collects the events of a run's agents, as the server does, on the run's own socket.

In addition to the account it keeps the allocations at the peak, what each process still held when it began to close its
devices or exited without closing them, and why allocations failed.
"""

from __future__ import annotations

import os
import select
import socket
import tempfile
from collections import deque
from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any, NamedTuple

from ttmem.account.allocations import Allocation
from ttmem.account.entities import Process, Source
from ttmem.account.ledger import Ledger
from ttmem.account.live_set import counts
from ttmem.account.totals import TotalWithContents
from ttmem.analyze.failure_context import verdict_at
from ttmem.analyze.failure_messages import parse
from ttmem.analyze.verdict_types import Verdict
from ttmem.analyze.verdicts import verdict_on
from ttmem.ingest.clock import Clock
from ttmem.ingest.rings import Rings
from ttmem.ingest.sink import Sink
from ttmem.ingest.sockets import EventSockets
from ttmem.model.events import Failed
from ttmem.model.kinds import KINDS
from ttmem.model.stack_frames import line_of
from ttmem.recording.moment import ProgramAtMoment, programs_of
from ttmem.recording.recorder import Recorder
from ttmem.run.agent_listener import AgentListener
from ttmem.wire.agent_ring import Ring

_READING_SECONDS = 0.5  # at a time, also if a process writes faster than that can be read
_MOST_FAILURES = 100  # kept, the last ones
_ALWAYS_EXPLAINED = 200  # failures, at any cost: some milliseconds each for a large account
_EXPLAINING_SHARE = 0.1  # of the time since the start, for all later failures
NOT_LOOKED_AT = "what holds the memory: so many allocations failed that not every failure was analysed"


class Failure(NamedTuple):
    """A failed allocation of the runtime, and the verdict on it."""

    time: float
    pid: int
    event: Failed
    verdict: Verdict


class Session:
    """Reads the reports of agents; ``ledger`` is the resulting account."""

    def __init__(
        self,
        warn: Callable[[str], None],
        record: str | None = None,
        facts: Mapping[str, Any] | None = None,
        listener: type[AgentListener] = AgentListener,
    ) -> None:
        """``record`` is the file of the recording, ``facts`` what it should contain about the run.

        ``listener`` listens to the ring of each agent.
        """
        self.clock = Clock()
        self.all_chips = TotalWithContents()
        self.ledger = Ledger(all_chips=self.all_chips, failure_observer=self._failed)
        self.sink = sink = Sink(self.ledger, now=self.clock.now, warn=warn)
        self._recording = None if record is None else Recorder(record, sink, warn, facts)
        self.agents: list[AgentListener] = []
        self._listener_type = listener
        self.rings = Rings(sink, self._listen, self._record)
        self._sockets = EventSockets(sink, self.rings)
        self._left: dict[tuple[int, int | None, int], tuple[list[Allocation], list[ProgramAtMoment]]] = {}
        self.failures: deque[Failure] = deque(maxlen=_MOST_FAILURES)
        self.failed = 0
        self._started = self.clock.now()
        self._spent = 0.0  # seconds spent on verdicts
        self._folder = tempfile.TemporaryDirectory(prefix="ttmem-run-")
        self.path = os.path.join(self._folder.name, "run.sock")
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        self._listener.bind(self.path)
        self._listener.listen(512)
        self._listener.setblocking(False)
        self._sockets.listen(self._listener)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self._sockets.close()
        if self._recording is not None:
            self._recording.close()
        self._listener.close()
        self._folder.cleanup()

    def fileno(self) -> int:
        """Readable when an agent connects, or a process with an agent exits."""
        return self._sockets.fileno()

    def turn(self) -> None:
        """Handle new connections, rings and exits."""
        self._sockets.turn()
        while select.select([self._sockets], [], [], 0)[0]:
            self._sockets.turn()
        deadline = monotonic() + _READING_SECONDS
        while self.rings.follow(deadline) and monotonic() < deadline:
            self._remember()
        self._remember()
        self._sockets.tick()

    def finish(self) -> None:
        """The command has ended: read the processes that are still alive one last time."""
        self.turn()
        self._sockets.finish()

    def at_peak(self) -> list[Allocation]:
        """Everything that was live at the peak of the buffers of all chips together."""
        return [
            allocation for allocation in self.all_chips.allocations(self.ledger.allocations()) if counts(allocation)
        ]

    def left(self) -> list[Allocation]:
        """What each process held when it began to close its devices, or when it ended."""
        return [allocation for allocations, _ in self._left.values() for allocation in allocations]

    def programs_left(self) -> list[ProgramAtMoment]:
        """The programs that were cached at that time."""
        return [program for _, programs in self._left.values() for program in programs]

    @property
    def left_known(self) -> bool:
        """False: an agent closed a device among records that were lost."""
        return all(agent.left_known for agent in self.agents)

    @property
    def freed_by_close(self) -> list[tuple[int, int]]:
        """Tensors that were freed only by closing their devices, and their bytes, for each kind."""
        return [
            (
                sum(agent.tensors_freed_by_close[kind] for agent in self.agents),
                sum(agent.bytes_freed_by_close[kind] for agent in self.agents),
            )
            for kind in KINDS
        ]

    def ended(self, exit_code: int) -> None:
        """The command has ended with that code."""
        self.keep_facts(exit_code=exit_code, ended=self.clock.now())

    def keep_facts(self, **facts: Any) -> None:
        """Add what is known only after the end to the recording, if there is one."""
        if self._recording is not None:
            self._recording.add_facts(**facts)

    def keep_left(self, source: Source) -> None:
        """A process is about to close its devices, or ended without closing them: keep what it holds as left over."""
        process = source.process
        allocations = [allocation for holding in process.holdings() for allocation in holding.allocations()]
        self._left[process.info.key] = (allocations, programs_of(process))

    def _remember(self) -> None:
        if self._recording is not None:
            self._recording.remember(self.rings.positions(), self.rings.counts()[0])

    def _record(self, source: Source, ring: Ring, offset: float) -> None:
        if self._recording is not None:
            self._recording.follow(source, ring, offset)

    def _listen(self, source: Source, ring: Ring) -> AgentListener:
        listener = self._listener_type(source, ring, self.keep_left)
        self.agents.append(listener)
        return listener

    def _failed(self, time: float, process: Process, event: Failed) -> None:
        """Explain a failure now, before the account changes. If there are too many, some are not explained."""
        failure = parse(event.text)
        if failure is None:
            return  # the exception has another reason
        self.failed += 1
        began = self.clock.now()
        verdict = None
        if self.failed <= _ALWAYS_EXPLAINED or self._spent < _EXPLAINING_SHARE * (began - self._started):
            verdict = verdict_at(event, process)
            self._spent += self.clock.now() - began
        if verdict is None:
            verdict = verdict_on(failure, None, event.tag, line_of(event.stack))._replace(unknown=(NOT_LOOKED_AT,))
        self.failures.append(Failure(time, process.info.pid, event, verdict))

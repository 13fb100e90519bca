# SPDX-License-Identifier: Apache-2.0
"""An agent whose records are written by a test, and the server's side of its ring without sockets."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from time import CLOCK_MONOTONIC, clock_gettime, clock_gettime_ns, monotonic

import pytest

from tests.ring_memory import RingMemory
from ttmem.account.entities import Source
from ttmem.account.ledger import Ledger
from ttmem.ingest.rings import Rings
from ttmem.ingest.sink import Sink
from ttmem.model.core_sets import CoreRange, mask_of
from ttmem.model.identity import ProcessInfo
from ttmem.model.kinds import Confidence, Kind
from ttmem.run.agent_listener import AgentListener
from ttmem.wire.agent_ring import GAUGES, NO_SLOT, PROGRAM_FRAME, RAN, Record, Ring, RingEvent

SLOTS, TABLE, MESHES, CHIPS, BLOBS = 16, 64, 8, 8, 1 << 16
SEEN = (1 << Kind.FIRMWARE) - 1
START = clock_gettime_ns(CLOCK_MONOTONIC)
BANKS = 12
L1_SIZE, L1_BASE = 1499136, 1 << 17


class Agent(RingMemory):
    """The actions of an agent on a memory small enough to overflow; invalid actions are possible, too."""

    def __init__(self, *, slots: int = SLOTS, meters: int = len(GAUGES), windows: int = 1, phases: int = 1) -> None:
        super().__init__(
            slots=slots, table=TABLE, meshes=MESHES, chips=CHIPS, blobs=BLOBS, meters=meters, windows=windows,
            phases=phases, seals=fcntl.F_SEAL_SHRINK,
        )  # fmt: skip
        self.put(started=START, coverage=SEEN)
        self.clock = START
        self.live: dict[int, Record] = {}
        self._grid = self.blob(mask_of([CoreRange(0, 0, 7, 7)]).to_bytes(64, "little"))

    @property
    def head(self) -> int:
        return self.get("head")

    def chip(self, index: int, unique: int, number: int) -> None:
        self.put_chip(index, unique_id=unique, number=number, arch=1, board=3, remote=0)

    def mesh(self, index: int, chips: list[int], state: int = 1, parent: int | None = None) -> None:
        bank = {"size": 1 << 20, "ours": 0, "theirs": 0, "largest_free": 0, "banks": BANKS, "unit": 32}
        self.put_mesh(
            index, [bank, bank, {}, bank, bank], turn=0, state=state, mesh_id=index,
            parent=index if parent is None else parent, chips=self.chip_list(chips), chip_count=len(chips), arch=1,
            cores=self._grid, l1_size=L1_SIZE, l1_base=L1_BASE,
        )  # fmt: skip

    def audit(self, mesh: int, ours: int, theirs: int, largest_free: int) -> None:
        """An audit of DRAM only."""
        bank = {"ours": ours, "theirs": theirs, "largest_free": largest_free}
        self.put_mesh(mesh, [bank], audits=self.get_mesh(mesh, "audits") + 1)

    def record(self, event: int, slot: int = NO_SLOT, **fields: int) -> Record:
        self.clock += 1000
        return self.write(event, slot, **({"time": self.clock, "layout": 255} | fields))

    def keep(self, slot: int, record: Record) -> None:
        self.put_live(slot, record)
        self.live[slot] = record

    def opened(self, mesh: int = 0, *, described: bool = True) -> None:
        """``described``: the agent had room for a description of the mesh."""
        self.put_mesh(mesh, opened=self.head + 1)
        self.record(RingEvent.OPENED, mesh=mesh, name=self.blob(self.description(mesh)) if described else 0)

    def reopen(self, mesh: int = 0, banks: int = BANKS) -> None:
        """Close a mesh and open one with the same index, chips and parent. Only its banks may be others."""
        self.record(RingEvent.CLOSED, mesh=mesh)
        bank = {"ours": 0, "theirs": 0, "largest_free": 0, "banks": banks}
        self.put_mesh(mesh, [bank, bank, {}, bank, bank], audits=0)
        self.opened(mesh)

    def allocate(self, slot: int, size: int = 100, address: int = 0, **fields: int) -> None:
        fields = {"kind": Kind.DRAM, "per_bank": 32, **fields}
        self.keep(slot, self.record(RingEvent.ALLOCATED, slot, size=size, address=address or 4096 + slot, **fields))

    def free(self, slot: int) -> None:
        allocation = self.live.pop(slot)
        fields = allocation._asdict()
        for name in ("sequence", "time", "event", "slot"):
            del fields[name]
        self.record(RingEvent.FREED, slot, **fields)
        self.clear_live(slot)

    def program(self, slot: int, number: int, ran: bool = False, workload: int | None = None, mesh: int = 0) -> None:
        """``workload`` is its number if the program is not the only one of its workload."""
        fields = {"program": number, "per_bank": number if workload is None else workload, "size": 512, "address": 77}
        cores = self.blob((0b11).to_bytes(8, "little"))
        self.keep(slot, self.record(RingEvent.PROGRAM, slot, kind=PROGRAM_FRAME, cores=cores, mesh=mesh, **fields))
        if ran:
            self.run(slot)

    def run(self, slot: int, mesh: int = 0) -> None:
        """The workload of which the program in that slot is the first."""
        frame = self.live[slot]
        run = self.record(RingEvent.RUN, slot, program=frame.program, per_bank=frame.per_bank, mesh=mesh)
        self.keep(slot, frame._replace(flags=RAN, time=run.time))

    def churn(self, count: int, slot: int = TABLE - 1) -> None:
        """Write ``count`` records, an even number, that change nothing in the end."""
        for _ in range(count // 2):
            self.allocate(slot, 7)
            self.free(slot)

    def destroyed(self, slot: int, number: int, mesh: int = 0) -> None:
        self.record(RingEvent.DESTROYED, slot, program=number, mesh=mesh)
        for gone in [s for s, allocation in self.live.items() if allocation.program == number]:
            del self.live[gone]
            self.clear_live(gone)


class Reader:
    """The server's side, without its sockets."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self.ledger = Ledger()
        self.warnings: list[str] = []
        self.sink = Sink(self.ledger, now=lambda: clock_gettime(CLOCK_MONOTONIC), warn=self.warnings.append)
        self.listeners: list[AgentListener] = []
        self.closings: list[list[int]] = []
        self.rings = Rings(self.sink, self._listen, clock=clock)

    def _listen(self, source: Source, ring: Ring) -> AgentListener:
        """Listen as `ttmem run` does."""
        made = AgentListener(source, ring, lambda source: self.closings.append(self.sizes(source)))
        self.listeners.append(made)
        return made

    def adopt(self, agent: Agent, pid: int = 1) -> Source:
        source = self.ledger.source(0.0, ProcessInfo(pid=pid, start=1), "agent", Confidence.EXACT)
        self.rings.adopt(pid, source, os.dup(agent.fd))  # type: ignore[arg-type]
        return source

    def follow(self) -> None:
        """Records of rings that share chips are applied in the turn after the one in which they were written."""
        for _ in range(1000):
            if not self.rings.follow(0.0) and not any(one.fold.loaded for one in self.rings._followers.values()):
                return
        raise AssertionError("it never comes to an end")

    @staticmethod
    def sizes(source: Source) -> list[int]:
        return sorted(allocation.size for holding in source.holdings.values() for allocation in holding.allocations())

    def close(self) -> None:
        self.rings.close()

    def anomalies(self) -> dict[str, int]:
        return {name: count for name, count in self.ledger.anomalies.items() if count}


@pytest.fixture
def agents() -> Iterator[Callable[[], Agent]]:
    made: list[Agent] = []

    def make() -> Agent:
        agent = Agent()
        agent.chip(0, 555 + len(made), 0)
        agent.mesh(0, [0])
        made.append(agent)
        return agent

    yield make
    for agent in made:
        agent.close()


@pytest.fixture
def agent(agents: Callable[[], Agent]) -> Agent:
    return agents()


@pytest.fixture
def reader() -> Iterator[Reader]:
    made = Reader()
    yield made
    made.close()

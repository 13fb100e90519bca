# SPDX-License-Identifier: Apache-2.0
"""An agent whose every record is written by hand, and the server's side of its ring without sockets."""

from __future__ import annotations

import fcntl
import mmap
import os
from collections.abc import Callable, Iterator
from struct import pack_into, unpack_from
from time import CLOCK_MONOTONIC, clock_gettime, clock_gettime_ns

import pytest

from ttmem.account.entities import Source
from ttmem.account.ledger import Ledger
from ttmem.ingest.rings import Rings
from ttmem.ingest.sink import Sink
from ttmem.model.core_sets import CoreRange, mask_of
from ttmem.model.identity import ProcessInfo
from ttmem.model.kinds import Confidence, Kind
from ttmem.run.agent_listener import AgentListener
from ttmem.wire.agent_ring import (
    BANK_SIZE,
    BANKS_AT,
    CHIP_SIZE,
    HEADER_FIELDS,
    HEADER_SIZE,
    MAGIC,
    MESH_SIZE,
    METERS_SIZE,
    NO_SLOT,
    PROGRAM_FRAME,
    RAN,
    RECORD,
    RECORD_SIZE,
    VERSION,
    Record,
    Ring,
    RingEvent,
)

SLOTS, TABLE, MESHES, CHIPS, BLOBS = 16, 64, 8, 8, 8192
OFFSETS = {name: (offset, code) for name, offset, code in HEADER_FIELDS}
SEEN = (1 << Kind.FIRMWARE) - 1
START = clock_gettime_ns(CLOCK_MONOTONIC)
BANKS = 12
L1_SIZE, L1_BASE = 1499136, 1 << 17


class Agent:
    """What an agent does to its memory, in memory small enough to overflow; wrong things can be done, too."""

    def __init__(self) -> None:
        self.at = {"meshes_at": HEADER_SIZE}
        self.at["chips_at"] = self.at["meshes_at"] + MESHES * MESH_SIZE
        self.at["meters_at"] = self.at["chips_at"] + CHIPS * CHIP_SIZE
        self.at["ring_at"] = self.at["meters_at"] + (CHIPS + 1) * METERS_SIZE
        self.at["table_at"] = self.at["ring_at"] + SLOTS * RECORD_SIZE
        self.at["blobs_at"] = self.at["table_at"] + TABLE * RECORD_SIZE
        self.size = self.at["blobs_at"] + BLOBS
        self.fd = os.memfd_create("test", os.MFD_ALLOW_SEALING)
        os.ftruncate(self.fd, self.size)
        self.map = mmap.mmap(self.fd, self.size)
        fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
        self.put(
            magic=MAGIC, version=VERSION, total=self.size, meshes=MESHES, chips=CHIPS, meters=CHIPS + 1,
            ring_slots=SLOTS, table_slots=TABLE, blobs_size=BLOBS, blobs_used=8, started=START, coverage=SEEN,
            **self.at,
        )  # fmt: skip
        self.clock = START
        self.live: dict[int, Record] = {}
        self._blobs = 8
        self._grid = self.blob(mask_of([CoreRange(0, 0, 7, 7)]).to_bytes(64, "little"))

    def put(self, **fields: int) -> None:
        for name, value in fields.items():
            offset, code = OFFSETS[name]
            pack_into("<" + code, self.map, offset, value)

    @property
    def head(self) -> int:
        return int(unpack_from("<Q", self.map, OFFSETS["head"][0])[0])

    def blob(self, content: bytes) -> int:
        at = self._blobs
        pack_into("<I", self.map, self.at["blobs_at"] + at, len(content))
        self.map[self.at["blobs_at"] + at + 4 : self.at["blobs_at"] + at + 4 + len(content)] = content
        self._blobs = (at + 4 + len(content) + 7) & ~7
        return at

    def chip(self, index: int, unique: int, number: int) -> None:
        pack_into("<QIIII", self.map, self.at["chips_at"] + index * CHIP_SIZE, unique, number, 1, 3, 0)

    def mesh(self, index: int, chips: list[int], state: int = 1, parent: int | None = None) -> None:
        at = self.at["meshes_at"] + index * MESH_SIZE
        blob = self.blob(b"".join(chip.to_bytes(2, "little") for chip in chips))
        parent = index if parent is None else parent
        pack_into("<IIIIIIII", self.map, at, 0, state, index, parent, blob, len(chips), 1, self._grid)
        pack_into("<QQ", self.map, at + 32, L1_SIZE, L1_BASE)
        for bank in (0, 1, 3, 4):
            pack_into("<QQQQII", self.map, at + BANKS_AT + bank * BANK_SIZE, 1 << 20, 0, 0, 0, BANKS, 32)
        self.put(meshes_used=max(index + 1, self.field("meshes_used")))

    def field(self, name: str) -> int:
        offset, code = OFFSETS[name]
        return int(unpack_from("<" + code, self.map, offset)[0])

    def audit(self, mesh: int, ours: int, theirs: int, largest_free: int) -> None:
        """Of DRAM only."""
        at = self.at["meshes_at"] + mesh * MESH_SIZE
        pack_into("<QQQ", self.map, at + BANKS_AT + 8, ours, theirs, largest_free)
        pack_into("<Q", self.map, at + 72, unpack_from("<Q", self.map, at + 72)[0] + 1)

    def record(self, event: int, slot: int = NO_SLOT, **fields: int) -> Record:
        self.clock += 1000
        empty = dict.fromkeys(Record._fields, 0) | {"time": self.clock, "layout": 255}
        record = Record(**(empty | {"sequence": self.head + 1, "event": int(event), "slot": slot} | fields))
        RECORD.pack_into(self.map, self.at["ring_at"] + record.sequence % SLOTS * RECORD_SIZE, *record)
        self.put(head=record.sequence)
        return record

    def keep(self, slot: int, record: Record) -> None:
        RECORD.pack_into(self.map, self.at["table_at"] + slot * RECORD_SIZE, *record)
        self.put(table_high=max(slot + 1, self.field("table_high")))
        self.live[slot] = record

    def opened(self, mesh: int = 0) -> None:
        self.record(RingEvent.OPENED, mesh=mesh)

    def allocate(self, slot: int, size: int = 100, address: int = 0, **fields: int) -> None:
        fields = {"kind": Kind.DRAM, "per_bank": 32, **fields}
        self.keep(slot, self.record(RingEvent.ALLOCATED, slot, size=size, address=address or 4096 + slot, **fields))

    def free(self, slot: int) -> None:
        allocation = self.live.pop(slot)
        fields = allocation._asdict()
        for name in ("sequence", "time", "event", "slot"):
            del fields[name]
        self.record(RingEvent.FREED, slot, **fields)
        pack_into("<Q", self.map, self.at["table_at"] + slot * RECORD_SIZE, 0)

    def program(self, slot: int, number: int, ran: bool = False) -> None:
        cores = self.blob((0b11).to_bytes(8, "little"))
        frame = self.record(RingEvent.PROGRAM, slot, kind=PROGRAM_FRAME, program=number, size=512, address=77)
        self.keep(slot, frame._replace(cores=cores))
        if ran:
            run = self.record(RingEvent.RUN, slot, program=number, cores=cores)
            self.keep(slot, frame._replace(cores=cores, flags=RAN, time=run.time))

    def churn(self, count: int, slot: int = TABLE - 1) -> None:
        """So many records that change nothing in the end; ``count`` is even."""
        for _ in range(count // 2):
            self.allocate(slot, 7)
            self.free(slot)

    def destroyed(self, slot: int, number: int) -> None:
        for gone in [s for s, allocation in self.live.items() if allocation.program == number]:
            del self.live[gone]
            pack_into("<Q", self.map, self.at["table_at"] + gone * RECORD_SIZE, 0)
        self.record(RingEvent.DESTROYED, slot, program=number)

    def close(self) -> None:
        self.map.close()
        os.close(self.fd)


class Reader:
    """The server's side, without its sockets."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.warnings: list[str] = []
        self.sink = Sink(self.ledger, now=lambda: clock_gettime(CLOCK_MONOTONIC), warn=self.warnings.append)
        self.listeners: list[AgentListener] = []
        self.closings: list[list[int]] = []
        self.rings = Rings(self.sink, self._listen)

    def _listen(self, source: Source, ring: Ring) -> AgentListener:
        """As a run does."""
        made = AgentListener(source, ring, lambda source: self.closings.append(self.sizes(source)))
        self.listeners.append(made)
        return made

    def adopt(self, agent: Agent, pid: int = 1) -> Source:
        source = self.ledger.source(0.0, ProcessInfo(pid=pid, start=1), "agent", Confidence.EXACT)
        self.rings.adopt(pid, source, os.dup(agent.fd))  # type: ignore[arg-type]
        return source

    def follow(self) -> None:
        for _ in range(1000):
            if not self.rings.follow(0.0):
                return
        raise AssertionError("it never comes to an end")

    @staticmethod
    def sizes(source: Source) -> list[int]:
        return sorted(allocation.size for holding in source.holdings.values() for allocation in holding.allocations())

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
    made.rings.close()

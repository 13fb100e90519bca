# SPDX-License-Identifier: Apache-2.0
"""A collector for the native agents of workloads: reads their memory and keeps one account of all of them."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from math import inf
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import NamedTuple

from tests.mock.program import Program
from tests.mock.wheel import wheel
from tests.support import PATIENCE
from ttmem.account.allocations import Allocation
from ttmem.account.entities import Source
from ttmem.account.ledger import Ledger
from ttmem.account.observer import FailureObserver, Observer
from ttmem.agent import require
from ttmem.ingest.ring_fold import RingFold
from ttmem.ingest.sink import Sink
from ttmem.model.identity import ProcessInfo
from ttmem.model.kinds import KERNEL_KINDS, KINDS, Confidence, Kind
from ttmem.wire.agent_ring import PER_CORE, PROGRAM_FRAME, SHARED, Record, Ring, RingEvent
from ttmem.wire.table_copy import copy_table

_HELLO = 4096  # more than an agent sends
_PEER = struct.Struct("3i")
_ALL = 1 << 16


class Live(NamedTuple):
    """A live allocation on one chip, with the fields that records and account have in common."""

    number: int  # the chip's, in its process
    kind: Kind
    address: int
    size: int
    program: int
    reserved: int | None
    cores: int
    shared: bool


class Kernel(NamedTuple):
    """A kernel of a program, as the agent names it."""

    program: int
    name: str
    sizes: list[int]  # of its binaries
    cores: int
    per_core: int
    kind: Kind


def fold_into(ledger: Ledger, ring: Ring, pid: int, observer: Observer | None = None) -> RingFold:
    """What the server's code makes of a ring, in an account of the test's."""
    sink = Sink(ledger, now=monotonic)
    if observer is not None:
        sink.add_observer(observer)
    source = ledger.source(0.0, ProcessInfo(pid=pid, start=1), "agent", Confidence.EXACT)
    return RingFold(ring, 0.0, sink, source)


def one_by_one(fold: RingFold) -> Iterator[Record]:
    """Apply what a ring has, and give each record before it is applied."""
    fold.load(_ALL)
    fold.fold(-1, inf)
    while fold.loaded:
        record = Record._make(fold._batch[fold._next])
        yield record
        fold.fold(record.time, inf)


def read_in_order(folds: Sequence[RingFold]) -> None:
    """Apply what some rings have, in the order of time."""
    for fold in folds:
        fold.load(_ALL)
    while loaded := sorted((fold for fold in folds if fold.loaded), key=lambda fold: fold.next_time):
        loaded[0].fold(loaded[1].next_time if len(loaded) > 1 else 1 << 64, inf)


def read_all(fold: RingFold) -> None:
    while True:
        fold.load(_ALL)
        fold.fold(1 << 64, inf)
        if not fold.unread:
            return


class Agent:
    """The memory of one process: the server's code builds its account, and its records are kept as well."""

    def __init__(self, pid: int, fd: int, ledger: Ledger) -> None:
        self.pid = pid
        self._fd = fd
        self._records = Ring(os.dup(fd))
        self.ring = Ring(os.dup(fd))
        self.fold = fold_into(ledger, self.ring, pid)
        self.source: Source = ledger.source(0.0, ProcessInfo(pid=pid, start=1), "agent", Confidence.EXACT)
        self.history: list[Record] = []
        self._parts: defaultdict[int, defaultdict[tuple[int, ...], list[Record]]] = defaultdict(
            lambda: defaultdict(list)
        )  # live allocations by the records so far: program -> allocation -> records

    def drain(self) -> None:
        read_all(self.fold)
        lost, records = self._records.read(_ALL)
        assert lost == 0
        for record in map(Record._make, records):
            self.history.append(record)
            self._follow(record)

    def _follow(self, record: Record) -> None:
        allocations = self._parts[record.program][record.mesh, record.kind, record.address, record.cores, record.size]
        if record.event == RingEvent.ALLOCATED:
            allocations.append(record)
            # Several circular buffers of a program may lie on one tensor, and buffers with a separate address on
            # each core may have the first in common; nothing else shares its address.
            assert len(allocations) == 1 or record.flags & (SHARED | PER_CORE), f"allocated twice: {record}"
        elif record.event == RingEvent.FREED:
            allocations.pop()
        elif record.event == RingEvent.DESTROYED:
            del self._parts[record.program]

    def reader(self) -> Ring:
        """One more reader of its memory; the caller must close it."""
        return Ring(os.dup(self._fd))

    def close(self) -> None:
        self.ring.close()
        self._records.close()
        os.close(self._fd)

    def last_change(self, number: int) -> Record:
        """The newest record of a buffer on that mesh."""
        return next(r for r in reversed(self.history) if r.mesh == number and r.kind < Kind.CB and r.event in _CHANGES)

    def kernels(self) -> list[Kernel]:
        """Every kernel of every live program once, independent of the number of its chips."""
        found = []
        for allocations in (allocations for parts in self._parts.values() for allocations in parts.values()):
            for record in allocations:
                if KINDS[record.kind % len(KINDS)] in KERNEL_KINDS:
                    name, _, sizes = (self.ring.name(record.name) or "").split("\t")
                    found.append(
                        Kernel(
                            *(record.program, name, [int(size) for size in sizes.split(",")]),
                            *(self.ring.mask(record.cores), record.per_bank, KINDS[record.kind]),
                        )
                    )
        return found

    # -- three views of live allocations, which must be equal ----------------------------------------------------

    def live_in_table(self) -> list[Live]:
        """According to the agent's live table."""
        with contextlib.closing(self.reader()) as ring:
            return sorted(self._live(copy_table(ring).records()))

    def live_in_records(self) -> list[Live]:
        """According to all records, matched by their content and not by their slots in the table."""
        allocations = (allocations for parts in self._parts.values() for allocations in parts.values())
        return sorted(self._live(chain.from_iterable(allocations)))

    def live_in_account(self) -> list[Live]:
        """According to the ledger."""
        found = []
        for holding in self.source.holdings.values():
            programs = [
                (0, holding.buffers.values()),
                *((p.ident, p.parts.values()) for p in holding.programs.values()),
            ]
            for program, allocations in programs:
                for allocation in allocations:
                    for number in holding.numbers:
                        found += [self._of_account(number, program, allocation)] * allocation.refs
        return sorted(found)

    def _live(self, records: Iterable[Record]) -> Iterator[Live]:
        meshes = self.ring.meshes()
        for record in records:
            if record.kind == PROGRAM_FRAME:
                continue
            mesh, kind = meshes[record.mesh], KINDS[record.kind]
            banks = record.core_count if record.flags & PER_CORE else mesh.banks[kind % len(mesh.banks)].banks
            reserved = record.per_bank * banks if kind < Kind.CB else None
            cores = self.ring.mask(record.cores)
            for chip in self.ring.chips_of(mesh):
                yield Live(
                    *(chip.number, kind, record.address, record.size),
                    *(record.program, reserved, cores, bool(record.flags & SHARED)),
                )

    @staticmethod
    def _of_account(number: int, program: int, allocation: Allocation) -> Live:
        extra = allocation.extra
        assert extra is not None
        assert allocation.refs == 1 or extra.shared
        return Live(
            *(number, allocation.kind, allocation.address, allocation.size),
            *(program, extra.reserved, extra.cores, extra.shared),
        )


_CHANGES = (RingEvent.ALLOCATED, RingEvent.FREED)


class Collector:
    """Listens like `ttmem run`.

    >>> with watched("3.12", "ttnn_random", "n150", folder) as (collector, program):
    ...     for record in program.records():
    ...         collector.drain()
    ...         compare(record, collector.ledger)
    """

    def __init__(self, folder: Path, failure_observer: FailureObserver | None = None) -> None:
        self.ledger = Ledger(failure_observer=failure_observer)
        self.agents: dict[int, Agent] = {}
        self._connections: list[socket.socket] = []
        path = str(folder / "run.sock")
        self.environment = {
            "LD_PRELOAD": str(require()),
            "TTMEM_RUN_SOCKET": path,
            "TTMEM_SOCKET": str(folder / "no-server.sock"),
        }
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(path)
        self._listener.listen()
        self._listener.setblocking(False)

    def drain(self) -> None:
        """Apply everything that all agents have written so far."""
        self._accept()
        for agent in self.agents.values():
            agent.drain()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except BlockingIOError:
                return
            self._connections.append(connection)
            connection.settimeout(PATIENCE)
            _, descriptors, _, _ = socket.recv_fds(connection, _HELLO, 1)
            assert len(descriptors) == 1, "the agent had no memory to hand over"
            pid, _, _ = _PEER.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
            assert pid not in self.agents, "one process hands its memory over twice"
            self.agents[pid] = Agent(pid, descriptors[0], self.ledger)

    def __enter__(self) -> Collector:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for agent in self.agents.values():
            agent.close()
        for connection in self._connections:
            connection.close()
        self._listener.close()


@contextlib.contextmanager
def watched(
    python: str,
    name: str,
    board: str,
    folder: Path,
    *arguments: str,
    environment: Mapping[str, str] | None = None,
    failure_observer: FailureObserver | None = None,
) -> Iterator[tuple[Collector, Program]]:
    """A program of tests/programs under the agent, and the collector it reports to."""
    with Collector(folder, failure_observer) as collector:
        every = {**collector.environment, **(environment or {})}
        with Program(wheel(python), name, board, folder, *arguments, environment=every) as program:
            yield collector, program

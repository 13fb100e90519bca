# SPDX-License-Identifier: Apache-2.0
"""What it costs to correct the account after lost records: CPU in all, and the longest time that the loop is held.

A real server reads the memory of an agent, or a client's socket. Its loop is watched from before the records are lost
until the account is right again. The memory has the size of a real agent's, and is written by this program. A client
that dies is a process of its own.
"""

from __future__ import annotations

import asyncio
import json
import random
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from tests.ring_memory import RingMemory
from tests.support import Server as ServerProcess

from benchmarks.loop_watch import LoopWatch
from benchmarks.report import Report, spread
from ttmem.account.entities import Source
from ttmem.model.events import Allocated, DeviceOpened, Event, Extra, Freed, ResyncBegin, ResyncEnd
from ttmem.model.identity import ChipInfo
from ttmem.model.kinds import Confidence, Kind
from ttmem.server.daemon import Options, Server
from ttmem.wire import handshake
from ttmem.wire.agent_ring import Record, RingEvent
from ttmem.wire.client_encode import encode

_BUDGET_MS = 20.0
_ROWS = 200_000
_SLOTS, _TABLE, _BLOBS = 1 << 16, 1 << 18, 1 << 20
_MESHES = _CHIPS = 256
_MANY_MESHES = 2000  # of one client
_CLIENT = "client"  # an argument of this program
_SHAPES = 40
_ROUNDS = 3  # maximum, because CPU time varies little
_SPARE = _TABLE - 1  # a slot that is free before and after all lost records
_POLL_SECONDS = 0.01
_SHED_SECONDS = 0.2  # after a loss the next tick sheds the ring
_PATIENCE_SECONDS = 120.0  # at most, for one measurement
_TURNS_IN_ADVANCE = 20  # requests before the load begins


class Step(NamedTuple):
    """Seconds of CPU of the loop's thread."""

    longest: float  # of one callback
    total: float


class _Agent:
    """An agent's memory, and the server that reads it."""

    def __init__(self, server: Server) -> None:
        self.memory = RingMemory(slots=_SLOTS, table=_TABLE, meshes=_MESHES, chips=_CHIPS, blobs=_BLOBS)
        self._server = server
        self._names = [
            self.memory.blob(f"ttnn.op_{n}\n[1, 1, {32 * n}, 64] bfloat16 tile\n".encode()) for n in range(_SHAPES)
        ]
        self._random = random.Random(1)

    @property
    def head(self) -> int:
        return self.memory.get("head")

    async def read(self) -> None:
        """Hand the memory to the server, and wait until everything written so far is read."""
        self._line = socket.socket(socket.AF_UNIX)
        self._line.connect(self._server.options.socket)
        self.memory.hand_over(self._line)
        while self._server.rings.counts()[0] < self.head:
            await asyncio.sleep(_POLL_SECONDS)

    def source(self) -> Source:
        (process,) = self._server.ledger.processes.values()
        (source,) = process.sources.values()
        return source

    def open_meshes(self) -> None:
        """Open all meshes with all chips, each in an order of its own, and allocate a buffer on each."""
        for chip in range(_CHIPS):
            self.memory.put_chip(chip, unique_id=77000 + chip, number=chip, arch=2, board=3)
        bank = {"size": 1 << 30, "banks": 12, "unit": 32}
        for mesh in range(_MESHES):
            chips = self.memory.chip_list([(mesh + chip) % _CHIPS for chip in range(_CHIPS)])
            self.memory.put_mesh(
                mesh, [bank, bank, bank, bank, bank], turn=2, state=1, mesh_id=mesh, parent=mesh, chips=chips,
                chip_count=_CHIPS, arch=2, l1_size=1499136, l1_base=104928, opened=self.head + 1,
            )  # fmt: skip
            self.memory.append(RingEvent.OPENED, mesh=mesh, time=_now())
            self.memory.append(RingEvent.ALLOCATED, mesh, **self.buffer(mesh), mesh=mesh)

    def buffer(self, number: int) -> dict[str, int]:
        return {
            "kind": number % 2, "size": 2048 * (1 + number % 7), "per_bank": 512, "layout": 0, "time": _now(),
            "address": (1 << 20) + 4096 * number, "name": self._names[number % _SHAPES],
        }  # fmt: skip

    def fill(self) -> None:
        """Put rows into the table whose records are lost. They are not in the order of their slots."""
        first = self.head + 1
        sequences = list(range(first, first + _ROWS))
        self._random.shuffle(sequences)
        plain = Record(*(0 for _ in Record._fields))
        for slot, sequence in enumerate(sequences):
            row = plain._replace(sequence=sequence, event=RingEvent.ALLOCATED, slot=slot, **self.buffer(slot))
            self.memory.put_live(slot, row)
        self.lose(_ROWS)

    def lose(self, records: int = 2 * _SLOTS) -> None:
        """Write more records than the ring holds. Those that can still be read change nothing in the end."""
        self.memory.put(head=self.head + records - _SLOTS)
        buffer = self.buffer(_SPARE)
        for _ in range(_SLOTS // 2):
            self.memory.write(RingEvent.ALLOCATED, _SPARE, **buffer)
            self.memory.write(RingEvent.FREED, _SPARE, **buffer)

    async def corrected(self) -> Step:
        """The longest callback and the CPU of all, until the loss that was just caused is corrected."""
        source, anomalies = self.source(), self._server.ledger.anomalies
        before = anomalies.get("resynced", 0)
        with LoopWatch(lambda: anomalies.get("resynced", 0) > before and not source.unread) as watch:
            await watch.reached.wait()
        return Step(watch.longest, watch.total)

    async def calm(self) -> None:
        """Wait until the ring is read again: after a loss it is shed for some seconds."""
        await asyncio.sleep(_SHED_SECONDS)
        while self.source().shed or self.source().unread:
            await asyncio.sleep(_POLL_SECONDS)

    def close(self) -> None:
        self._line.close()
        self.memory.close()


def _now() -> int:
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


async def _unchanged_rows(server: Server) -> Step:
    """A live table of 200,000 rows in which nothing changed."""
    with closing(_Agent(server)) as agent:
        agent.memory.plain()
        await agent.read()
        agent.fill()
        await agent.corrected()
        await agent.calm()
        agent.lose()
        return await agent.corrected()


async def _new_rows(server: Server) -> Step:
    """200,000 new rows of a live table, not in order."""
    with closing(_Agent(server)) as agent:
        agent.memory.plain()
        await agent.read()
        agent.fill()
        return await agent.corrected()


async def _reopened(server: Server) -> Step:
    """256 meshes of 256 chips, closed and opened again."""
    with closing(_Agent(server)) as agent:
        agent.open_meshes()
        await agent.read()
        while not server.history.fine.columns:  # the first sample of so many chips takes longer than later ones
            await asyncio.sleep(_POLL_SECONDS)
        agent.open_meshes()
        agent.lose()
        return await agent.corrected()


async def _resync(server: Server) -> Step:
    """A resync of a client that holds 200,000 allocations, of which every second one is confirmed."""
    with closing(await asyncio.to_thread(_client, server.options.socket)) as line:
        await asyncio.to_thread(_send, line, _packed(_resync_of(1, _ROWS, 1)), 1)
        confirmed = _packed(_resync_of(2, _ROWS, 2))
        with LoopWatch() as watch:
            await asyncio.to_thread(_send, line, confirmed, 2)
        return Step(watch.longest, watch.total)


async def _many_meshes(server: Server) -> Step:
    """A client with 2,000 meshes of the same 256 chips: a buffer on each, a resync, and its death."""
    command = [sys.executable, "-m", "benchmarks.corrections", _CLIENT, server.options.socket]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as client:
        assert client.stdin is not None
        assert client.stdout is not None
        await asyncio.to_thread(client.stdout.readline)
        while not server.history.fine.columns:  # as above
            await asyncio.sleep(_POLL_SECONDS)
        with LoopWatch(lambda: not server.ledger.processes) as watch:
            client.stdin.write(b"\n")
            client.stdin.flush()
            await asyncio.to_thread(client.stdout.readline)
            (process,) = server.ledger.processes.values()
            assert process.count == _MANY_MESHES
            client.kill()
            await watch.reached.wait()
    return Step(watch.longest, watch.total)


def _client_with_meshes(path: str) -> None:
    """Open the chips and a mesh; when asked to, allocate on all meshes and resync; then wait to be killed."""
    meshes = [_order(number) for number in range(_MANY_MESHES)]
    buffers = [Allocated(numbers, Kind.DRAM, 1 << 20, 4096, extra=Extra(8192)) for numbers in meshes]
    with closing(_client(path)) as line:
        chips = [DeviceOpened(chip, ChipInfo(str(77000 + chip))) for chip in range(_CHIPS)]
        _send(line, _packed([*chips, *buffers[:1]]), 1)
        print(flush=True)
        sys.stdin.readline()
        _send(line, _packed(buffers[1:]), 2)
        _send(line, _packed([ResyncBegin(1), *buffers, ResyncEnd(1)]), 3)
        print(flush=True)
        sys.stdin.readline()


def _order(number: int) -> tuple[int, ...]:
    """All chips, for each number in another order."""
    step = 2 * (number // _CHIPS) + 1
    return tuple((number + chip * step) % _CHIPS for chip in range(_CHIPS))


_CASES: dict[str, Callable[[Server], Awaitable[Step]]] = {
    "unchanged": _unchanged_rows,
    "new-rows": _new_rows,
    "reopened": _reopened,
    "resync": _resync,
    "many-meshes": _many_meshes,
}


def _client(path: str) -> socket.socket:
    line = socket.socket(socket.AF_UNIX)
    line.connect(path)
    line.sendall(handshake.hello("bench", Confidence.EXACT))
    _answer(line)
    return line


def _answer(line: socket.socket) -> bytes:
    return line.recv(handshake.ANSWER_SIZE, socket.MSG_WAITALL)


def _send(line: socket.socket, records: bytes, token: int) -> None:
    """Send, and wait until everything is applied."""
    line.sendall(records + handshake.sync(token))
    assert handshake.sync_token(_answer(line)) == token


def _packed(events: Iterable[Event]) -> bytes:
    return b"".join(map(encode, events))


def _resync_of(generation: int, allocations: int, step: int) -> Iterable[Event]:
    yield ResyncBegin(generation)
    yield DeviceOpened(0, ChipInfo("77000"))
    yield from (_allocation(number) for number in range(0, allocations, step))
    yield ResyncEnd(generation)


def _allocation(number: int) -> Allocated:
    return Allocated(0, Kind.L1 if number % 2 else Kind.DRAM, (1 << 20) + 4096 * number, 4096, extra=Extra(8192))


def _pairs(count: int) -> Iterable[Event]:
    """Ordinary events: allocations and their frees."""
    for number in range(_ROWS, _ROWS + count // 2):
        made = _allocation(number)
        yield made
        yield Freed(0, made.kind, made.address)


def run(report: Report, folder: Path, rounds: int) -> None:
    report.title("Corrections after lost records: longest time that the server's loop is held, and CPU in all, ms")
    for case, measure in _CASES.items():
        steps = [_measured(case, folder) for _ in range(min(rounds, _ROUNDS))]
        longest = [step.longest for step in steps]
        report.figure(str(measure.__doc__).rstrip("."), "")
        report.figure("  longest step", spread(longest, 1e3, 1), f"in all {spread([s.total for s in steps], 1e3)}")
        report.budget(f"longest step of a correction, {case}", statistics.median(longest) * 1e3, _BUDGET_MS, "ms")
    _from_outside(report, folder, min(rounds, _ROUNDS))


def _measured(case: str, folder: Path) -> Step:
    """Measure in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.corrections", case, str(folder / f"{case}.sock")]
    answer = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=_PATIENCE_SECONDS)
    return Step(*json.loads(answer.stdout))


def _from_outside(report: Report, folder: Path, rounds: int) -> None:
    """How long /health takes to answer while a client resyncs, or sends as many ordinary events, or nothing."""
    own = folder / "resync"
    own.mkdir()
    server = ServerProcess(own, "--quiet")
    try:
        with closing(_client(server.path)) as line:
            _send(line, _packed(_resync_of(1, _ROWS, 1)), 1)
            found: dict[str, list[float]] = {}
            for number in range(rounds):
                generation = 2 + 2 * number
                events = {
                    "while nothing is sent": b"",
                    "while as many ordinary events are sent": _packed(_pairs(_ROWS // 2)),
                    "during the resync": _packed(_resync_of(generation, _ROWS, 2)),
                }
                for name, records in events.items():
                    found.setdefault(name, []).append(_slowest_answer(server, line, records, generation))
                _send(line, _packed(_resync_of(generation + 1, _ROWS, 1)), generation + 1)
    finally:
        server.stop()
    for name, times in found.items():
        report.figure(f"  slowest answer of /health {name}, ms", spread(times, 1e3, 1))


def _slowest_answer(server: ServerProcess, line: socket.socket, records: bytes, token: int) -> float:
    """Ask all the time, from before the records are sent until they are applied."""
    sender = threading.Thread(target=_send, args=(line, records, token))
    slowest, asked = 0.0, 0
    while asked < 2 * _TURNS_IN_ADVANCE or sender.is_alive():
        if asked == _TURNS_IN_ADVANCE:
            sender.start()
        began = time.monotonic()
        server.get("/health")
        slowest = max(slowest, time.monotonic() - began)
        asked += 1
    sender.join()
    return slowest


async def _measure(case: str, path: str) -> Step:
    server = Server(Options(path, legacy_path=None, quiet=True, machine=None))
    ready = asyncio.Event()
    serving = asyncio.create_task(server.run(ready.set))
    await ready.wait()
    step = await _CASES[case](server)
    server.stop()
    await serving
    return step


if __name__ == "__main__":
    if sys.argv[1] == _CLIENT:
        _client_with_meshes(sys.argv[2])
    else:
        json.dump(asyncio.run(_measure(sys.argv[1], sys.argv[2])), sys.stdout)

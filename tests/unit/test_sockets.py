# SPDX-License-Identifier: Apache-2.0
"""Clients that die before everything that they sent was read: it is applied first, in turns, and the exit follows."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from time import CLOCK_MONOTONIC, clock_gettime_ns

import pytest

from tests.scripted_agent import Agent
from tests.support import not_none, wait_until
from ttmem.account.entities import Process
from ttmem.account.ledger import Ledger
from ttmem.ingest import file_descriptors, rings, sockets
from ttmem.ingest.peers import Peer
from ttmem.ingest.rings import Rings
from ttmem.ingest.sink import Sink
from ttmem.ingest.sockets import EventSockets
from ttmem.model.kinds import Confidence, Kind
from ttmem.run.session import Session
from ttmem.wire.legacy_records import Type, request

ALLOC, FREE, DUMP = int(Type.ALLOC), int(Type.FREE), int(Type.DUMP_REMAINING)

# Sends the records that it is given, (type, address), and exits. On each further connection it sends them for another
# device. Without a path it sends on an inherited socket.
CLIENT = """
import json, os, socket, sys
from ttmem.wire.legacy_records import Type, request

where, records, connections = sys.argv[1:]
for number in range(int(connections)):
    data = [request(Type(op), number, size=64, pid=os.getpid(), ident=ident) for op, ident in json.loads(records)]
    if where.isdigit():
        line = socket.socket(fileno=int(where))
    else:
        line = socket.socket(socket.AF_UNIX)
        line.connect(where)
    line.sendall(b"".join(data))
    line.detach()
os._exit(0)
"""

# Connects, and sends one allocation on an inherited socket for each line of its input.
WAITING_CLIENT = """
import os, socket, sys
from ttmem.wire.legacy_records import Type, request

own, inherited = socket.socket(socket.AF_UNIX), socket.socket(fileno=int(sys.argv[2]))
own.connect(sys.argv[1])
print("connected", flush=True)
for number, _ in enumerate(sys.stdin, 1):
    inherited.sendall(request(Type.ALLOC, 0, size=64, pid=os.getpid(), ident=4096 * number))
    print("sent", flush=True)
os._exit(0)
"""
Records = Sequence[tuple[int, int]]


def allocs(count: int, first: int = 1) -> list[tuple[int, int]]:
    return [(ALLOC, 4096 * place) for place in range(first, first + count)]


def dead(stack: ExitStack, where: str | socket.socket, records: Records, connections: int = 1) -> int:
    """A client that sends these records and dies, a zombie until the test ends. Returns its pid."""
    argument, descriptors = (where, []) if isinstance(where, str) else (str(where.fileno()), [where.fileno()])
    command = [sys.executable, "-c", CLIENT, argument, json.dumps(records), str(connections)]
    client = stack.enter_context(subprocess.Popen(command, pass_fds=descriptors))
    os.waitid(os.P_PID, client.pid, os.WEXITED | os.WNOWAIT)
    return client.pid


def allocate(client: subprocess.Popen[str]) -> None:
    """A client that waits sends an allocation."""
    not_none(client.stdin).write("\n")
    not_none(client.stdin).flush()
    assert not_none(client.stdout).readline() == "sent\n"


def end(client: subprocess.Popen[str]) -> None:
    """A client that waits dies. It is a zombie until the test ends."""
    not_none(client.stdin).close()
    os.waitid(os.P_PID, client.pid, os.WEXITED | os.WNOWAIT)


class Intake:
    """The event sockets over an account. A dump is what `ttmem serve` does for one, up to the moment of its capture."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.path = str(folder / "events")
        self.ledger = Ledger()
        self.warnings: list[str] = []
        self.sink = Sink(self.ledger, now=lambda: 1.0, warn=self.warnings.append)
        self.rings = Rings(self.sink)
        self.dumps: list[int] = []  # live allocations at the moment of each
        self.depth = self.deepest = 0  # of dumps within dumps
        self.events = EventSockets(self.sink, self.rings, dump=self._dump)
        stack.callback(self.events.close)
        self._stack = stack
        listener = stack.enter_context(socket.socket(socket.AF_UNIX))
        listener.bind(self.path)
        listener.listen(128)
        listener.setblocking(False)
        self.events.listen(listener)

    def _dump(self, op: Type) -> None:
        self.depth += 1
        self.deepest = max(self.deepest, self.depth)
        self.events.apply_exits()
        self.events.catch_up()
        self.dumps.append(self.ledger.live_count())
        self.depth -= 1

    def connect(self) -> socket.socket:
        line = self._stack.enter_context(socket.socket(socket.AF_UNIX))
        line.connect(self.path)
        return line

    def dead(self, records: Records, line: socket.socket | None = None, connections: int = 1) -> int:
        return dead(self._stack, self.path if line is None else line, records, connections)

    def waiting(self, line: socket.socket) -> subprocess.Popen[str]:
        """A client that is connected, and inherits this connection."""
        command = [sys.executable, "-c", WAITING_CLIENT, self.path, str(line.fileno())]
        pipe = subprocess.PIPE
        process = subprocess.Popen(command, pass_fds=[line.fileno()], stdin=pipe, stdout=pipe, text=True)
        client = self._stack.enter_context(process)
        assert not_none(client.stdout).readline() == "connected\n"
        return client

    def adopt(self, agent: Agent, pid: int) -> None:
        """Follow the ring of an agent in this process."""
        peer = self.events._peers.find(pid, os.getuid())
        source = peer.sources["agent"] = self.ledger.source(0.0, peer.info, "agent", Confidence.EXACT)
        self.rings.adopt(peer, source, os.dup(agent.fd))

    def departed(self, pid: int) -> Process | None:
        return next((process for process in self.ledger.departed if process.info.pid == pid), None)

    def turns(self, least: int = 3) -> None:
        """Turns until nothing is left to do, and a few more that must not fail either."""
        wait_until(lambda: not self.events.turn(), "the end of the work")
        for _ in range(least):
            self.events.turn()


@pytest.fixture
def intake(tmp_path: Path) -> Iterator[Intake]:
    with ExitStack() as stack:
        yield Intake(tmp_path, stack)


@pytest.fixture
def short_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn ends after one read, or after one step."""
    monkeypatch.setattr(sockets, "TURN_SECONDS", -1.0)


def test_a_dump_that_a_dead_client_requested(intake: Intake) -> None:
    """It shows what the client had sent before, and what follows is not lost."""
    pid = intake.dead([*allocs(2), (DUMP, 0), *allocs(3, first=10), (DUMP, 0), *allocs(1, first=20)])
    intake.turns()
    assert intake.dumps == [2, 5]
    assert not_none(intake.departed(pid)).count == 6
    assert not intake.ledger.anomalies["after_exit"]
    assert intake.warnings == []


def test_a_dump_that_a_client_requested_before_it_died_while_it_is_read(intake: Intake) -> None:
    """It was alive when its read began: here it is connected, and its data is read in the same turn."""
    line = intake.connect()
    line.sendall(request(Type.ALLOC, 0, size=64, pid=os.getpid(), ident=1 << 30))
    intake.turns()
    pid = intake.dead([*allocs(2), (DUMP, 0), *allocs(3, first=10)], line)
    intake.turns()
    assert intake.dumps == [3]
    assert not_none(intake.departed(pid)).count == 5
    assert not intake.ledger.anomalies["after_exit"]


def test_dumps_that_many_dead_clients_requested_are_not_nested(intake: Intake) -> None:
    """With a level for each client, hundreds of them would end in an error that closes their connections."""
    records = [*allocs(1), (DUMP, 0), *allocs(1, first=10)]
    pids = [intake.dead(records) for _ in range(5)]
    intake.turns()
    assert [not_none(intake.departed(pid)).count for pid in pids] == [2] * 5
    assert len(intake.dumps) == 5
    assert intake.deepest == 1
    assert intake.warnings == []


def test_a_dump_of_a_living_client_is_without_the_dead(intake: Intake) -> None:
    line = intake.connect()
    intake.turns()
    pid = intake.dead([*allocs(3), (DUMP, 0), *allocs(4, first=10)])
    line.sendall(request(Type.DUMP_REMAINING, 0))
    intake.turns()
    assert intake.dumps == [3, 0]
    assert not_none(intake.departed(pid)).count == 7


def test_a_dump_of_a_dead_client_is_without_those_that_died_before(intake: Intake) -> None:
    first = intake.dead(allocs(3))
    intake.events.turn()  # accepts it
    second = intake.dead([*allocs(1), (DUMP, 0)])
    intake.turns()
    assert intake.dumps == [1]
    assert [not_none(intake.departed(pid)).count for pid in (first, second)] == [3, 1]


@pytest.mark.usefixtures("short_turns")
@pytest.mark.parametrize("observed", [False, True])
@pytest.mark.parametrize(("before", "each"), [(200, 100), (10, 10), (40, 10)])
def test_a_process_that_goes_on_sending_does_not_hold_up_the_exit_of_another(
    intake: Intake, before: int, each: int, observed: bool
) -> None:
    """Both send on the same connection. With an observer, what is read at once may take several turns to apply."""
    if observed:
        intake.sink.add_observer(lambda time, source, event, allocation: None)
    line = intake.connect()
    line.sendall(request(Type.ALLOC, 0, size=64, pid=os.getpid(), ident=1 << 30))
    intake.turns()
    pid = intake.dead(allocs(before), line)
    pair = [request(op, 0, size=64, pid=os.getpid(), ident=1 << 20) for op in (Type.ALLOC, Type.FREE)]
    turns = 0
    while intake.departed(pid) is None:
        with suppress(BlockingIOError):
            line.send(b"".join(pair * each), socket.MSG_DONTWAIT)
        intake.events.turn()
        turns += 1
        assert turns < 200, "no exit"
    assert not_none(intake.departed(pid)).count == before


@pytest.mark.usefixtures("short_turns")
def test_only_what_was_there_when_a_death_was_noticed_is_read_before_the_exit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A turn does not read further on the connection of a dead process, so each byte before the exit is counted."""
    one = len(request(Type.ALLOC, 0))
    monkeypatch.setattr(sockets, "READ_BYTES", 10 * one)
    with ExitStack() as stack:
        intake, sent = Intake(tmp_path, stack), 0

        def send(count: int) -> int:
            places = range(sent, sent + count)
            data = b"".join(request(Type.ALLOC, 1, size=64, pid=os.getpid(), ident=4096 * place) for place in places)
            return line.send(data, socket.MSG_DONTWAIT) // one

        line = intake.connect()
        sent += send(1)
        intake.turns()
        pid = intake.dead(allocs(10), line)
        sent += send(100)
        intake.events.turn()  # reads what the process had sent
        sent_before = sent
        while intake.departed(pid) is None:
            sent += send(20)
            intake.events.turn()
        assert sent_before <= intake.ledger.live_count() <= sent_before + 20 + 10  # as a read has ten
        assert not_none(intake.departed(pid)).count == 10


@pytest.mark.usefixtures("short_turns")
def test_nothing_of_a_dead_process_is_left(intake: Intake) -> None:
    """Then its exit follows in the same turn, even if that is late already."""
    pid = intake.dead(allocs(1))
    intake.events.turn()  # accepts it
    intake.events.turn()  # reads it
    intake.events.turn()  # finds no further record in what was read
    assert intake.departed(pid) is not None


@pytest.mark.usefixtures("short_turns")
@pytest.mark.parametrize("long_first", [False, True])
def test_a_dead_client_with_much_to_read_does_not_hold_up_the_exit_of_another(intake: Intake, long_first: bool) -> None:
    intake.sink.add_observer(lambda time, source, event, allocation: None)  # what is read takes several turns to apply
    much, little = allocs(1500), allocs(1)
    pids = [intake.dead(records) for records in ((much, little) if long_first else (little, much))]
    long, short = pids if long_first else reversed(pids)
    wait_until(lambda: intake.events.turn() and intake.departed(short), "the exit")
    assert intake.ledger.live_count() < 1500
    intake.turns()
    assert not_none(intake.departed(long)).count == 1500


@pytest.mark.usefixtures("short_turns")
def test_connections_that_are_accepted_late(intake: Intake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The backlog of the socket may have more connections than are accepted at a time."""
    monkeypatch.setattr(sockets, "_ACCEPTS_PER_TURN", 1)
    pid = intake.dead(allocs(3), connections=4)
    while intake.departed(pid) is None:
        intake.events.turn()
    assert not_none(intake.departed(pid)).count == 4 * 3
    assert not intake.ledger.anomalies["after_exit"]


def test_many_more_connections_than_are_accepted_at_a_time(intake: Intake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything that a dead process sent on them counts before its exit."""
    monkeypatch.setattr(sockets, "_ACCEPTS_PER_TURN", 8)
    pid = intake.dead(allocs(3), connections=100)
    while intake.departed(pid) is None:
        intake.events.turn()
    intake.turns()
    assert not_none(intake.departed(pid)).count == 100 * 3
    assert not intake.ledger.anomalies["after_exit"]


def test_connections_for_which_no_descriptors_are_left(intake: Intake, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are accepted after the exit of their process. What it sent on them is counted as late."""
    pid = intake.dead(allocs(3), connections=4)
    scarce = iter([False, False])
    monkeypatch.setattr(file_descriptors, "scarce", lambda fd, slack=False: next(scarce, True))
    intake.turns()
    assert not_none(intake.departed(pid)).count == 2 * 3
    monkeypatch.setattr(file_descriptors, "scarce", lambda fd, slack=False: False)
    intake.events.tick()
    intake.turns()
    assert intake.ledger.anomalies["after_exit"] == 2 * 3
    assert not intake.ledger.processes


def test_a_process_that_is_dead_when_it_is_first_seen_on_the_connection_of_another(intake: Intake) -> None:
    """It had sent nothing on its own connection, so nothing was to leave the account at its death."""
    line = intake.connect()
    client = intake.waiting(line)
    intake.turns()
    allocate(client)
    end(client)
    intake.turns()
    assert not_none(intake.departed(client.pid)).count == 1
    assert not intake.ledger.processes
    assert not intake.ledger.anomalies["after_exit"]


@pytest.mark.usefixtures("short_turns")
def test_a_shared_connection_is_not_read_further_for_each_of_several_dead_processes(
    intake: Intake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the bytes that were there when the deaths were noticed are read before the last exit."""
    one = len(request(Type.ALLOC, 0))
    monkeypatch.setattr(intake.events, "_buffer", bytearray(10 * one))
    line, sent = intake.connect(), 0

    def send(count: int) -> None:
        nonlocal sent
        places = range(sent, sent + count)
        data = b"".join(request(Type.ALLOC, 1, size=64, pid=os.getpid(), ident=4096 * place) for place in places)
        with suppress(BlockingIOError):
            sent += line.send(data, socket.MSG_DONTWAIT) // one

    clients = [intake.waiting(line) for _ in range(5)]
    for client in clients:
        allocate(client)
    while intake.ledger.live_count() < len(clients):
        intake.events.turn()
    send(100)
    for client in clients:
        end(client)
    while len(intake.ledger.departed) < len(clients):
        intake.events.turn()
        send(60)
    assert 100 <= intake.ledger.live_count() <= 100 + 2 * 10


def test_the_ring_of_a_process_that_dies_while_the_rings_are_read_at_the_end(
    intake: Intake, agents: Callable[[], Agent], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it sent is read after these, and its ring takes several turns."""
    agent = agents()
    pid = intake.dead(allocs(1))
    died, ends, rings_end = intake.events._peers.died, 0, intake.rings.end

    def end_of_rings() -> None:
        nonlocal ends
        rings_end()
        ends += 1
        intake.adopt(agent, pid)

    agent.opened()
    for slot in range(9):
        agent.allocate(slot, 100)
    for name in ("_SLICE_RECORDS", "_LEAST_SLICE_RECORDS"):
        monkeypatch.setattr(rings, name, 2)
    monkeypatch.setattr(sockets, "_EXIT_SECONDS", -1.0)
    monkeypatch.setattr(intake.rings, "end", end_of_rings)
    monkeypatch.setattr(intake.events._peers, "died", lambda: died() if ends else [])
    intake.events.finish()
    assert not_none(intake.departed(pid)).count == 1 + 9
    assert len(intake.rings) == 0


@pytest.mark.usefixtures("short_turns")
def test_at_the_end_all_exits_are_applied(intake: Intake) -> None:
    """However much is left to read."""
    intake.sink.add_observer(lambda time, source, event, allocation: None)
    pids = [intake.dead(allocs(1000)) for _ in range(3)]
    intake.events.turn()  # accepts them
    intake.events.finish()
    assert [not_none(intake.departed(pid)).count for pid in pids] == [1000] * 3


def test_at_the_end_of_a_run_all_exits_are_applied(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those of processes whose rings take several turns."""
    turns: Counter[Peer] = Counter()

    def finish(peer: Peer, deadline: float, exited: Callable[[], None]) -> bool:
        turns[peer] += 1
        if turns[peer] > 9:
            exited()
        return turns[peer] > 9

    with ExitStack() as stack:
        session = stack.enter_context(Session(lambda text: None))
        monkeypatch.setattr(session.rings, "finish", finish)
        pids = [dead(stack, session.path, allocs(2)) for _ in range(3)]
        session.turn()
        assert not session.ledger.departed
        session.finish()
        found = [(process.info.pid, process.count) for process in session.ledger.departed]
        assert sorted(found) == sorted((pid, 2) for pid in pids)


def test_at_the_end_exits_come_before_later_records_of_others(
    intake: Intake, agents: Callable[[], Agent], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ring of a dead process takes several turns. What another one allocates meanwhile was not live with it."""
    for name in ("_SLICE_RECORDS", "_LEAST_SLICE_RECORDS"):
        monkeypatch.setattr(rings, name, 2)
    for name in ("TURN_SECONDS", "_EXIT_SECONDS"):
        monkeypatch.setattr(sockets, name, -1.0)
    dying, living = agents(), agents()
    living.chip(0, 555, 0)
    for agent, pid in ((dying, intake.dead(())), (living, os.getpid())):
        intake.adopt(agent, pid)
        agent.opened()
    for slot in range(10):
        dying.allocate(slot, 100)
    while not any(follower.ended for follower in intake.rings._followers.values()):
        intake.events.turn()
    assert not intake.ledger.departed
    living.clock = clock_gettime_ns(CLOCK_MONOTONIC)
    living.allocate(0, 700)
    intake.events.finish()
    assert len(intake.ledger.departed) == 1
    total = intake.ledger.chips["555"].kinds[Kind.DRAM]
    assert (total.used, total.peak.value) == (700, 1000)


def test_deaths_that_never_stop_do_not_hold_up_the_end(intake: Intake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each ring takes several turns, and in each look at the processes another one is dead."""
    turns: Counter[Peer] = Counter()
    looks, peers = 0, intake.events._peers

    def finish(peer: Peer, deadline: float, exited: Callable[[], None]) -> bool:
        turns[peer] += 1
        return turns[peer] > 3

    def died() -> list[Peer]:
        nonlocal looks
        looks += 1
        assert looks < 100, "it never comes to an end"
        return [peers.foreign(looks, None)]

    monkeypatch.setattr(intake.rings, "finish", finish)
    monkeypatch.setattr(peers, "died", died)
    intake.events.finish()
    assert 4 in turns.values()

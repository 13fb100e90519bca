# SPDX-License-Identifier: Apache-2.0
"""The end of a resync in steps: the same account as at once, and other clients are served in between."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import islice, pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.recordings import state
from tests.support import wait_until
from ttmem.account import resync
from ttmem.account.entities import Source
from ttmem.account.ledger import Ledger
from ttmem.ingest import sockets
from ttmem.ingest.client_messages import ClientMessages
from ttmem.ingest.rings import Rings
from ttmem.ingest.sink import Sink
from ttmem.ingest.sockets import EventSockets
from ttmem.model.events import (
    Allocated,
    DeviceClosed,
    Event,
    Extra,
    ProcessExited,
    ProgramDestroyed,
    ResyncBegin,
    ResyncEnd,
    ResyncStep,
)
from ttmem.model.identity import ProcessInfo
from ttmem.model.kinds import Confidence, Kind
from ttmem.wire import handshake
from ttmem.wire.client_encode import encode

GENERATION = 2
DEVICES: tuple[Any, ...] = (0, 1, (0, 1))


class Account:
    def __init__(self) -> None:
        self.ledger = Ledger()
        self.source = self.ledger.source(0.0, ProcessInfo(1, 1), "client", Confidence.EXACT)
        self.time = 0.0

    def apply(self, event: Event) -> None:
        self.time += 1.0
        self.ledger.apply(self.time, self.source, event)

    def step(self) -> None:
        """No time passes, so that both accounts have the same times."""
        self.ledger.apply(self.time, self.source, ResyncStep(GENERATION))

    def picture(self) -> object:
        chips = self.ledger.chips.values()
        peaks = [[(total.peak.value, total.reserved_peak) for total in chip.totals()] for chip in chips]
        holdings = self.source.holdings.values()
        counts = [(holding.per_core, set(holding.programs)) for holding in holdings]
        for holding in holdings:
            assert holding.unplaced.keys() == {key for key in holding.buffers if key < 0}
        return state(self.ledger), peaks, counts, self.source.process.count, self.ledger.live_count()


def allocated(device: Any, kind: Kind, place: int, program: int) -> Allocated:
    """At place 0 is no address."""
    part = kind is Kind.CB
    extra = None if part else Extra(64, per_core=place == 3)
    return Allocated(device, kind, 4096 * place, 32, program if part else 0, 0 if part or not place else 1, extra)


things = st.builds(
    allocated,
    st.sampled_from(DEVICES),
    st.sampled_from([Kind.DRAM, Kind.L1, Kind.CB]),
    st.integers(0, 6),
    st.integers(1, 2),
)
removals = st.builds(DeviceClosed, st.sampled_from(DEVICES)) | st.builds(
    ProgramDestroyed, st.sampled_from(DEVICES), st.integers(1, 2)
)
# What is known when the resync begins, what is reported again, and what happens between steps.
stories = st.tuples(
    st.lists(things, max_size=30), st.lists(things, max_size=10), st.lists(things | removals, max_size=8)
)


@settings(max_examples=150)
@given(stories, st.integers(1, 5), st.integers(0, 12))
def test_steps_make_no_difference(story: Any, size: int, more: int) -> None:
    held, again, between = story
    at_once, stepwise = Account(), Account()
    for account in (at_once, stepwise):
        for event in (*held, ResyncBegin(GENERATION), *again):
            account.apply(event)
    with mock.patch.object(resync, "STEP_ALLOCATIONS", size):
        for event in between:
            stepwise.step()
            for account in (at_once, stepwise):
                account.apply(event)
        for _ in range(more):
            stepwise.step()
        for account in (at_once, stepwise):
            account.apply(ResyncEnd(GENERATION))
    assert stepwise.picture() == at_once.picture()


def test_a_step_of_another_resync_is_ignored() -> None:
    account = Account()
    account.apply(Allocated(0, Kind.DRAM, 4096, 64))
    for event in (ResyncStep(GENERATION), ResyncBegin(GENERATION), ResyncStep(GENERATION + 1)):
        account.apply(event)
        assert account.ledger.live_count() == 1
    account.apply(ResyncStep(GENERATION))
    assert account.ledger.live_count() == 0


class Client:
    """A connection of a client, and the server's side of it."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.sink = Sink(self.ledger, now=lambda: 1.0)
        self.source: Source = self.ledger.source(0.0, ProcessInfo(1, 1), "client", Confidence.EXACT)
        self._messages = ClientMessages(
            self.sink, Rings(self.sink), answer=lambda record, size: None, dump=lambda op: None, machine=[], root="/"
        )
        self._peer: Any = SimpleNamespace(info=ProcessInfo(1, 1), sources={"client": self.source})
        self.connection: Any = SimpleNamespace(
            pending=None, source_name="client", confidence=Confidence.EXACT, close_descriptors=lambda: None
        )

    def send(self, *events: Event, deadline: float) -> None:
        assert self._messages.native(self.connection, map(encode, events), self._peer, deadline)

    def turns(self) -> Iterator[None]:
        """The turns until everything that was sent is applied. The time of each of them is over at once."""
        while (waiting := self.connection.pending) is not None:
            assert waiting(-1.0)
            yield


def test_the_end_of_a_large_resync_takes_several_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resync, "STEP_ALLOCATIONS", 10)
    client = Client()
    seen: list[type] = []
    client.sink.add_observer(lambda time, source, event, allocation: seen.append(type(event)))
    kept = [Allocated(0, Kind.DRAM, 4096 * place, 64, refs=1) for place in range(5)]
    gone = [Allocated(0, Kind.DRAM, 1 << 20 | 4096 * place, 64, refs=1) for place in range(95)]
    client.send(ResyncBegin(1), *kept, *gone, ResyncEnd(1), ResyncBegin(2), *kept, deadline=1e12)
    client.send(ResyncEnd(2), Allocated(0, Kind.DRAM, 8, 64), deadline=-1.0)
    live = [client.ledger.live_count(), *(client.ledger.live_count() for _ in client.turns())]
    assert max(before - after for before, after in pairwise(live)) <= 10
    assert live[-1] == 6
    assert seen[-2:] == [ResyncEnd, Allocated]
    assert seen.count(ResyncStep) > 5


def test_a_small_resync_ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resync, "STEP_ALLOCATIONS", 10)
    client = Client()
    seen: list[type] = []
    client.sink.add_observer(lambda time, source, event, allocation: seen.append(type(event)))
    client.send(ResyncBegin(1), Allocated(0, Kind.DRAM, 4096, 64), ResyncEnd(1), deadline=1e12)
    assert seen == [ResyncBegin, Allocated, ResyncEnd]


def test_the_end_of_a_resync_of_a_process_that_exited(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may come through a connection that another process has inherited. Nothing is applied any more."""
    monkeypatch.setattr(resync, "STEP_ALLOCATIONS", 10)
    client = Client()
    held = [Allocated(0, Kind.DRAM, 4096 * place, 64, refs=1) for place in range(1, 50)]
    client.send(ResyncBegin(1), *held, deadline=1e12)
    client.sink.apply(1.0, client.source, ProcessExited())
    client.send(ResyncEnd(1), deadline=-1.0)
    assert sum(1 for _ in islice(client.turns(), 5)) <= 1
    assert client.connection.pending is None
    assert client.ledger.anomalies["after_exit"] == 1


def test_other_clients_are_served_during_the_end_of_a_resync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resync, "STEP_ALLOCATIONS", 10)
    held: list[Event] = [Allocated(0, Kind.DRAM, 4096 * place, 64, refs=1) for place in range(1, 501)]
    ledger = Ledger()
    sink = Sink(ledger, now=lambda: 1.0)
    events = EventSockets(sink, Rings(sink))
    with ExitStack() as stack:
        stack.callback(events.close)
        server, *clients = (stack.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(3))
        server.bind(str(tmp_path / "events"))
        server.listen()
        server.setblocking(False)
        events.listen(server)
        for client, name in zip(clients, ("large", "small")):
            client.connect(str(tmp_path / "events"))
            client.sendall(handshake.hello(name, Confidence.EXACT))
        clients[0].sendall(b"".join(map(encode, [ResyncBegin(1), *held, ResyncEnd(1)])))
        wait_until(lambda: events.turn() or ledger.live_count() == len(held))
        monkeypatch.setattr(sockets, "TURN_SECONDS", -1.0)  # a turn ends after one read, or after one step
        clients[0].sendall(encode(ResyncBegin(2)) + encode(ResyncEnd(2)))
        wait_until(lambda: events.turn() and ledger.live_count() < len(held))
        clients[1].sendall(encode(Allocated(0, Kind.L1, 4096, 77)))
        turns = 0
        while "assumed:0" not in ledger.chips or ledger.chips["assumed:0"].kinds[Kind.L1].used != 77:
            events.turn()
            turns += 1
        assert turns <= 3
        assert ledger.live_count() > 300
        wait_until(lambda: not events.turn())
        assert ledger.live_count() == 1


_DYING = """
import socket, sys
from ttmem.model.events import Allocated, ResyncBegin, ResyncEnd
from ttmem.model.kinds import Confidence, Kind
from ttmem.wire import handshake
from ttmem.wire.client_encode import encode

held = [Allocated(0, Kind.DRAM, 4096 * place, 64, refs=1) for place in range(1, 501)]
with socket.socket(socket.AF_UNIX) as line:
    line.connect(sys.argv[1])
    line.sendall(handshake.hello("client", Confidence.EXACT))
    line.sendall(b"".join(map(encode, [ResyncBegin(1), *held, ResyncEnd(1)])))
    sys.stdin.read()
    line.sendall(encode(ResyncBegin(2)) + encode(held[0]) + encode(ResyncEnd(2)))
"""


def test_a_client_that_dies_during_a_resync_does_not_hold_up_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it had sent is applied in turns, before its exit."""
    monkeypatch.setattr(resync, "STEP_ALLOCATIONS", 10)
    ledger = Ledger()
    sink = Sink(ledger, now=lambda: 1.0)
    events = EventSockets(sink, Rings(sink))
    seen: list[type] = []
    with ExitStack() as stack:
        stack.callback(events.close)
        server = stack.enter_context(socket.socket(socket.AF_UNIX))
        server.bind(str(tmp_path / "events"))
        server.listen()
        server.setblocking(False)
        events.listen(server)
        client = subprocess.Popen([sys.executable, "-c", _DYING, str(tmp_path / "events")], stdin=subprocess.PIPE)
        stack.enter_context(client)
        wait_until(lambda: events.turn() or ledger.live_count() == 500)
        client.communicate()
        sink.add_observer(lambda time, source, event, allocation: seen.append(type(event)))
        monkeypatch.setattr(sockets, "TURN_SECONDS", -1.0)  # a turn ends after one read, or after one step
        most = 0
        while ProcessExited not in seen:
            before = len(seen)
            events.turn()
            most = max(most, len(seen) - before)
        assert most < 10
        assert seen.count(ResyncStep) > 20
        assert seen[-2:] == [ResyncEnd, ProcessExited]
    (process,) = ledger.departed
    assert process.count == 1

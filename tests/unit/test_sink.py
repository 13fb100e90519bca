# SPDX-License-Identifier: Apache-2.0
"""The sink: the receivers of an event, when buffers go directly into the ledger, and lines the log leaves out."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ttmem.account.entities import Source
from ttmem.account.ledger import Ledger
from ttmem.ingest import legacy_log
from ttmem.ingest.client_messages import ClientMessages
from ttmem.ingest.legacy_log import LegacyLog
from ttmem.ingest.rings import Rings
from ttmem.ingest.sink import Sink
from ttmem.model.events import Allocated, Event, Mark, ProgramRun
from ttmem.model.identity import ProcessInfo
from ttmem.model.kinds import Confidence, Kind
from ttmem.wire.client_encode import encode
from ttmem.wire.legacy_records import Record, Type

PID = 42


def allocated(address: int, size: int = 64) -> Allocated:
    return Allocated(0, Kind.DRAM, address, size)


class Bench:
    """A sink with a log that has room for this many lines."""

    def __init__(self, fd: int, **options: Any) -> None:
        self.ledger = Ledger()
        self.log = LegacyLog(fd=fd, **options)
        self.warnings: list[str] = []
        self.sink = Sink(self.ledger, now=lambda: 1.0, warn=self.warnings.append, log=self.log)
        self.legacy = self.source("legacy")
        self.dumps: list[Type] = []
        self.messages = ClientMessages(
            self.sink,
            Rings(self.sink),
            answer=lambda record, size: None,
            dump=self.dumps.append,
            machine=[],
            root="/",
        )
        self.connection: Any = SimpleNamespace(
            is_news=lambda cause: True, number=1, peer_pid=PID, source_name="client", confidence=Confidence.EXACT
        )

    def source(self, name: str) -> Source:
        return self.ledger.source(0.0, ProcessInfo(PID, 7), name, Confidence.REPORTED)

    def send(self, *records: Record) -> None:
        self.messages._legacy(self.connection, self.legacy, 112, iter(records), PID)

    def send_events(self, *events: Event) -> None:
        peer: Any = SimpleNamespace(info=ProcessInfo(PID, 7), sources={"client": self.source("client")})
        for event in events:
            self.messages._event(self.connection, peer, encode(event))


@pytest.fixture
def bench(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    monkeypatch.setattr(legacy_log, "LINES_PER_SECOND", 1)
    fd = os.open(folder / "log", os.O_WRONLY | os.O_CREAT)
    made = Bench(fd)
    yield made
    made.log.close(30.0)
    os.close(fd)


def record(op: int, address: int, size: int = 64, pid: int = PID, code: int = 0) -> Record:
    return (int(op), 0, size, code, pid, address, 0)


STREAM = [
    record(Type.ALLOC, 1),
    record(Type.ALLOC, 2),
    record(Type.ALLOC, 3, size=0),  # refused: no line
    record(Type.CB_ALLOC, 4),
    record(Type.ALLOC, 5, pid=PID + 1),  # its pid is noted as claimed, which has no line
    record(Type.FREE, 1),
    record(Type.FREE, 77),  # unknown: has a line
    record(Type.DUMP_REMAINING, 0),
    record(Type.ALLOC, 6, code=99),  # rejected: no line
    record(Type.CB_FREE, 4),
    record(Type.ALLOC, 7, size=0, pid=PID + 1),  # refused
    record(Type.FREE, 2),
]


@pytest.mark.parametrize("observed", [False, True])
def test_lines_that_are_left_out(bench: Bench, observed: bool) -> None:
    """The same count whether buffers go directly into the ledger or each event is passed to an observer."""
    if observed:
        bench.sink.add_observer(lambda *_: None)
    bench.send(STREAM[0])  # the one line there is room for
    assert bench.log.left_out == 0
    assert bench.sink.observed() is observed
    assert bench.sink.log_for(bench.legacy) is None
    bench.send(*STREAM[1:])
    assert bench.log.left_out == 7
    assert bench.dumps == [Type.DUMP_REMAINING]
    assert bench.ledger.anomalies == {"rejected": 3, "unknown_free": 1}
    assert bench.ledger.live_count() == 1


def test_an_event_without_a_line_is_not_left_out(bench: Bench) -> None:
    bench.send_events(allocated(1), allocated(2), Mark("here"), ProgramRun(0, 1, 1), allocated(3, 0))
    assert bench.log.left_out == 1


def test_the_log_has_lines_for_clients_while_there_is_room(bench: Bench) -> None:
    sink = bench.sink
    assert sink.log_for(bench.legacy) is bench.log
    assert sink.log_for(bench.source("agent")) is None, "records of rings have no lines"
    bench.send(record(Type.ALLOC, 1))
    assert sink.log_for(bench.legacy) is None
    bench.log.tick(5.0)
    assert sink.log_for(bench.legacy) is bench.log, "the next second has room again"


def test_whether_events_are_observed(bench: Bench) -> None:
    sink = bench.sink

    def observe(*_: object, **__: object) -> None: ...

    assert (sink.observed(), sink.observed(ring=True)) == (False, False)
    sink.add_observer(observe)
    assert (sink.observed(), sink.observed(ring=True)) == (True, True)
    sink.remove_observer(observe)
    sink.add_observer(observe, rings=False)
    assert (sink.observed(), sink.observed(ring=True)) == (True, False)


@pytest.mark.parametrize("as_json", [False, True])
def test_lines_of_direct_events_equal_those_of_observed_events(
    folder: Path, monkeypatch: pytest.MonkeyPatch, as_json: bool
) -> None:
    monkeypatch.setattr(legacy_log, "LINES_PER_SECOND", 1000)
    texts = []
    for observed in (False, True):
        file = folder / f"log-{observed}"
        fd = os.open(file, os.O_WRONLY | os.O_CREAT)
        bench = Bench(fd, as_json=as_json)
        if observed:
            bench.sink.add_observer(lambda *_: None)
        bench.send(*STREAM, record(Type.ALLOC, 6, code=1), record(Type.ALLOC, 6, code=1), record(Type.FREE, 6))
        bench.log.close(30.0)
        os.close(fd)
        assert bench.log.left_out == 0
        texts.append(file.read_text())
    assert texts[0] == texts[1]
    assert len(texts[0].splitlines()) == 11


def test_a_quiet_log_wants_nothing(folder: Path) -> None:
    bench = Bench(1, quiet=True)
    assert bench.sink.log_for(bench.legacy) is None
    bench.send(*STREAM)
    assert bench.log.left_out == 0


def test_observers_see_each_event_after_it_was_applied(bench: Bench) -> None:
    seen: list[tuple[Event, int | None]] = []
    bench.sink.add_observer(
        lambda time, source, event, allocation: seen.append((event, allocation and allocation.size))
    )
    for event in (allocated(1, 100), allocated(2, 0)):
        bench.sink.apply(1.0, bench.legacy, event)
    assert seen == [(allocated(1, 100), 100), (allocated(2, 0), None)]


def test_an_observer_that_fails_is_reported_once(bench: Bench) -> None:
    seen: list[object] = []

    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("division by zero")

    bench.sink.add_observer(broken)
    bench.sink.add_observer(lambda time, source, event, allocation: seen.append(event))
    for address in (1, 2, 3):
        assert bench.sink.apply(1.0, bench.legacy, allocated(address)) is not None
    assert len(seen) == 3
    (warning,) = bench.warnings
    assert warning.endswith(
        "broken failed at an event: ZeroDivisionError: division by zero; further failures of this kind are not reported"
    )


def test_an_observer_may_leave_while_it_is_called(bench: Bench) -> None:
    seen: list[object] = []

    def once(*_: object, **__: object) -> None:
        bench.sink.remove_observer(once)
        seen.append(1)

    bench.sink.add_observer(once)
    bench.sink.add_observer(lambda *_: seen.append(2))
    bench.sink.apply(1.0, bench.legacy, allocated(1))
    bench.sink.apply(1.0, bench.legacy, allocated(2))
    assert seen == [1, 2, 2]

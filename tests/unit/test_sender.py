# SPDX-License-Identifier: Apache-2.0
"""The queue between a workload and the sending thread: the workload never waits for a server or a thread."""

from __future__ import annotations

import _thread
import gc
import itertools
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from tests.support import PATIENCE, wait_until
from ttmem.collect import sender
from ttmem.collect.client import AllocationClient
from ttmem.collect.sender import Sender
from ttmem.model.events import Allocated, Event, Freed, Mark
from ttmem.model.kinds import Confidence, Kind
from ttmem.wire import client_records as native
from ttmem.wire import handshake
from ttmem.wire.client_decode import NativeStream, decode

LIMIT, THREADS, ROUNDS = 256, 3, 20_000
HELLO = handshake.hello("client", Confidence.REPORTED)
BAD = Allocated(0, Kind.DRAM, 0x2000, 4.5)  # type: ignore[arg-type]


class Listener:
    """Accepts one connection. Reads it only on request, and then answers every sync."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self.events: list[Event] = []
        self.connected, self.ended = threading.Event(), threading.Event()
        self._reading = threading.Event()
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(self.path)
        self._listening.listen()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def read(self) -> None:
        self._reading.set()

    def close(self) -> None:
        self.read()
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _serve(self) -> None:
        try:
            sock, _ = self._listening.accept()
        except OSError:
            return
        self.connected.set()
        stream = NativeStream()
        assert self._reading.wait(60)
        with sock:
            while data := sock.recv(65536):
                for record in stream.feed(data):
                    if record[0] == native.SYNC:
                        sock.sendall(handshake.synced(handshake.sync_token(record)))
                    elif record[0] != native.MAGIC:
                        self.events.append(decode(record))
        self.ended.set()


@pytest.fixture
def listener(folder: Path) -> Iterator[Listener]:
    listener = Listener(folder / "ttmem.sock")
    yield listener
    listener.close()


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Sender]:
    """Without a server."""
    one = Sender([str(tmp_path / "nobody.sock")], HELLO)
    yield one
    one.close()


def in_time(work: Callable[[], object]) -> bool:
    """Whether it comes to an end."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    return not thread.is_alive()


def interrupted(at: int, work: Callable[[], object], interruption: Callable[[], object]) -> bool:
    """Call one function and interrupt it with another at a given line, as a garbage collector or a signal may.

    False if it has fewer lines.
    """
    lines = itertools.count()
    reached = False

    def trace(frame: FrameType, what: str, _: Any) -> Any:
        nonlocal reached
        if next(lines) == at:
            reached = True
            interruption()
        return trace

    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(None)
    return reached


def test_those_who_outrun_the_thread_do_its_work(monkeypatch: pytest.MonkeyPatch, alone: Sender) -> None:
    """No thread waits, and still the queue does not grow without limit."""
    monkeypatch.setattr(sender, "_QUEUE_HELP_EVENTS", LIMIT)
    longest = [0] * THREADS

    def work(number: int) -> None:
        for turn in range(ROUNDS):
            address = (number << 32) + 64 * (turn % 10) + 64
            alone.put(Allocated(0, Kind.DRAM, address, 64))
            alone.put(Freed(0, Kind.DRAM, address))
            longest[number] = max(longest[number], len(alone._queue))

    workers = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    # Its length while the helper is not scheduled depends on the machine. Without help, it would have all events.
    assert LIMIT <= max(longest) < THREADS * ROUNDS


def test_without_a_thread_who_puts_folds(monkeypatch: pytest.MonkeyPatch, alone: Sender) -> None:
    def none(*_: Any) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(_thread, "start_new_thread", none)
    for _ in range(100):
        alone.put(Allocated(0, Kind.DRAM, 64, 64))
        alone.put(Freed(0, Kind.DRAM, 64))
        assert len(alone._queue) <= 1
    assert alone.stats()["trouble"] == "no thread could be started to send reports"
    assert alone.stats()["unsent"] == 200
    assert alone.measure()[0, "dram"].peak == 64


@pytest.mark.parametrize("started", [False, True])
def test_a_put_may_be_interrupted_by_another_anywhere(started: bool, tmp_path: Path) -> None:
    """A destructor reports, and the garbage collector may call it anywhere; a signal handler may report, too."""

    def work() -> None:
        for at in itertools.count():
            one = Sender([str(tmp_path / "nobody.sock")], HELLO)
            if started:
                one.measure()
            reached = interrupted(at, lambda: one.put(Mark("outer")), lambda: one.put(Mark("inner")))  # noqa: B023
            one.measure()
            told.append(one.stats()["unsent"])
            one.close()
            if not reached:
                break

    told: list[Any] = []
    assert in_time(work)
    assert len(told) > 8
    assert told == [2] * (len(told) - 1) + [1]


def test_a_flush_may_be_interrupted_by_a_put_and_a_flush(alone: Sender) -> None:
    def interruption() -> None:
        alone.put(Mark("inner"))
        alone.flush(0)

    def work() -> None:
        for at in itertools.count():
            if not interrupted(at, lambda: alone.flush(0), interruption):
                break

    assert in_time(work)


def test_a_question_within_a_fold_has_an_answer(monkeypatch: pytest.MonkeyPatch, alone: Sender) -> None:
    """In a signal handler: the interrupted thread cannot continue before the handler returns."""
    alone.put(Allocated(0, Kind.DRAM, 64, 64))
    assert alone.measure()[0, "dram"].used == 64
    monkeypatch.setattr(sender, "_FOLD_SECONDS", 0.01)
    with alone._folding:
        alone.put(Allocated(0, Kind.DRAM, 128, 64))
        assert alone.measure()[0, "dram"].used == 64


def test_what_cannot_be_told_is_counted_and_does_not_keep_the_rest(listener: Listener) -> None:
    listener.read()
    one = Sender([listener.path], HELLO)
    good = Allocated(0, Kind.DRAM, 0x1000, 64)
    with one._folding:  # before there is a connection, so that it is added to the table
        one.put(BAD)
        one._fold(10)
    one.put(good)
    assert one.flush(20)
    first = one.stats()["rejected"]
    assert first == 1
    one.put(BAD)
    one.put(good._replace(address=0x3000))
    assert one.flush(20)
    assert one.measure()[0, "dram"].used >= 128
    assert one.stats()["rejected"] == 2
    assert one.stats()["resyncs"] == 0
    assert {event.address for event in listener.events if isinstance(event, Allocated)} == {0x1000, 0x3000}
    one.close()


def test_who_is_interrupted_while_folding_tells_everything_later(
    listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    listener.read()
    one = Sender([listener.path], HELLO)
    assert one.flush(20)
    with one._folding, monkeypatch.context() as patch:
        one._queue.extend([Allocated(0, Kind.DRAM, 0x1000, 64), Mark("here")])
        fold = one._live.fold

        def stop_at_mark(event: Event) -> Event:
            if isinstance(event, Mark):
                raise KeyboardInterrupt
            return fold(event)

        patch.setattr(one._live, "fold", stop_at_mark)
        with pytest.raises(KeyboardInterrupt):
            one._fold(10)
    assert one.flush(20)
    assert Allocated(0, Kind.DRAM, 0x1000, 64, refs=1) in listener.events
    one.close()


def test_questions_do_not_fill_the_backlog(listener: Listener, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sender, "_MEASURED_BYTES", 1 << 16)
    monkeypatch.setattr(sender, "_BACKLOG_BYTES", 1 << 14)
    one = Sender([listener.path], HELLO)
    assert one.measure() == {}
    assert listener.connected.wait(20)
    for _ in range(40):
        for _ in range(500):
            one.put(Allocated(0, Kind.DRAM, 64, 64))
            one.put(Freed(0, Kind.DRAM, 64))
        assert one.measure()[0, "dram"].used == 0
        assert one._backlog < (1 << 16) + 1024 * 64
    assert one.stats()["unsent"], "what did not fit was folded into the table"
    listener.read()
    assert one.flush(20)
    wait_until(lambda: one.stats()["trouble"] is None, "the end of the trouble")
    one.close()


def test_a_client_that_is_forgotten_lets_go(listener: Listener) -> None:
    """When the last client of its source is gone, and not before. Its reports are still sent."""
    listener.read()
    first, second = (AllocationClient(enabled=True, socket_path=listener.path) for _ in range(2))
    first.report_allocation(device_id=0, size=1, buffer_type="dram", buffer_id=0x1000)
    assert first._sender is second._sender
    del first
    gc.collect()
    assert second.flush(20)
    second.report_allocation(device_id=0, size=2, buffer_type="dram", buffer_id=0x2000)
    del second
    gc.collect()
    assert listener.ended.wait(20)
    assert [event.size for event in listener.events if isinstance(event, Allocated)] == [1, 2]


def test_a_thread_that_runs_late_still_sends_the_rest(listener: Listener, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time for that begins when the thread runs, not when the client is forgotten."""
    monkeypatch.setattr(sender, "_LAST_SECONDS", 0.0)
    listener.read()
    client = AllocationClient(enabled=True, socket_path=listener.path)
    assert client.flush(20)
    client.report_allocation(device_id=0, size=1, buffer_type="dram", buffer_id=0x1000)
    del client
    gc.collect()
    assert listener.ended.wait(20)
    assert [event.size for event in listener.events if isinstance(event, Allocated)] == [1]


def test_who_comes_after_the_last_was_closed_begins_anew(tmp_path: Path) -> None:
    path = str(tmp_path / "nobody.sock")
    first = AllocationClient(enabled=True, socket_path=path)
    first.report_allocation(device_id=0, size=1, buffer_type="dram", buffer_id=0x1000)
    first.close(0)
    second = AllocationClient(enabled=True, socket_path=path)
    assert second.measure() == {}
    assert first.measure()[0, "dram"].used == 1
    second.close(0)


@pytest.mark.parametrize(
    "other", [{"source": "sim"}, {"confidence": Confidence.EXACT}, {"socket_path": "/elsewhere"}, {"enabled": False}]
)
def test_other_sources_do_not_share(other: dict[str, Any], tmp_path: Path) -> None:
    values: dict[str, Any] = {"enabled": True, "socket_path": str(tmp_path / "nobody.sock")}
    one, two = AllocationClient(**values), AllocationClient(**{**values, **other})
    assert one._sender is not two._sender
    one.close(0)
    two.close(0)

# SPDX-License-Identifier: Apache-2.0
"""The data feed of the dashboard: with a server, without one, and with a slow, faulty or ended one."""

from __future__ import annotations

import contextlib
import json
import queue
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests import machines
from tests.support import PATIENCE, wait_until
from ttmem.documents import unknown_rows as blank
from ttmem.show.top.parts import data_feed as module
from ttmem.show.top.parts.data_feed import DataFeed, FeedUpdate
from ttmem.wire import event_tail

Json = Any  # a document made by hand, or a part of one
SNAPSHOT = blank.snapshot("2026-01-02T03:04:05.678901Z", "box")


class Api:
    """Sends given answers on a socket. A function gets the connection itself."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self.answers: dict[str, Any] = {"/snapshot": SNAPSHOT}
        self.asked: list[str] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.path)
        self._listener.listen()
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            path = connection.recv(4096).split(b" ")[1].decode()
            self.asked.append(path)
            answer = self.answers.get(path)
            if callable(answer):
                answer(connection)
            elif answer is None:
                connection.sendall(b'HTTP/1.1 404 no\r\n\r\n{"error": "no such thing"}')
            else:
                body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
                connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n" + body)

    def close(self) -> None:
        # A thread in accept() keeps the socket open: it must be woken.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


@pytest.fixture
def api(folder: Path) -> Iterator[Api]:
    made = Api(folder / "x.api.sock")
    yield made
    made.close()


@pytest.fixture
def root(folder: Path) -> str:
    path = folder / "machine"
    path.mkdir()
    machines.n150(path)
    return str(path)


def never(news: FeedUpdate) -> None:
    raise AssertionError("a feed that was not started has no news")


def test_a_picture_from_the_server(api: Api) -> None:
    news = DataFeed(never, api=api.path).round()
    assert (news.snapshot, news.trouble, news.answers) == (SNAPSHOT, None, {})


def test_what_a_view_wants(api: Api) -> None:
    api.answers["/allocations?limit=2"] = {"allocations": []}
    feed = DataFeed(never, api=api.path)
    feed.want(["/allocations?limit=2", "/nothing"], 0.5)
    answers = feed.round().answers
    assert answers["/allocations?limit=2"].data == {"allocations": []}
    assert (answers["/nothing"].data, answers["/nothing"].trouble) == (None, "the server reports: no such thing")


def test_what_takes_a_server_long_is_asked_less_often(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(module, "time", SimpleNamespace(time=time.time, monotonic=lambda: now))

    def slow(connection: socket.socket) -> None:
        nonlocal now
        now += 2.0
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n{}")

    api.answers |= {"/allocations": slow, "/cores": {}}
    feed = DataFeed(never, api=api.path)
    feed.want(["/allocations", "/cores"], 0.5)
    assert set(feed.round().answers) == {"/allocations", "/cores"}
    for now, expected in ((102.5, {"/cores"}), (111.9, {"/cores"}), (112.1, {"/allocations", "/cores"})):
        assert set(feed.round().answers) == expected, now
    feed.want(["/cores"], 0.5)
    feed.round()
    feed.want(["/allocations"], 0.5)
    assert set(feed.round().answers) == {"/allocations"}, "whoever comes back to it sees the state of now"
    assert api.asked.count("/allocations") == 3


@pytest.mark.parametrize("said", [b"{", b"[1]", b"\xff\xfe", b"1", b"{}", b'{"schema": "ttmem.snapshot/9"}'])
def test_an_answer_that_makes_no_sense(api: Api, root: str, said: bytes) -> None:
    """If there was never a good answer of the server, the machine itself is read."""
    api.answers["/snapshot"] = said
    news = DataFeed(never, api=api.path, root=root).round()
    assert news.snapshot is not None
    assert [chip["pci"] for chip in news.snapshot["chips"]] == ["0000:01:00.0"]
    assert news.trouble is not None
    assert "it may be another version of ttmem" in news.trouble or "is not a ttmem server" in news.trouble
    assert "/snapshot" not in news.trouble


def test_without_a_server_the_machine_is_looked_at(folder: Path, root: str) -> None:
    news = DataFeed(never, api=str(folder / "nobody.api.sock"), root=root).round()
    assert news.snapshot is not None
    assert news.snapshot["server"] is None
    assert [chip["pci"] for chip in news.snapshot["chips"]] == ["0000:01:00.0"]
    assert news.trouble is not None
    assert "start one with `ttmem serve --socket" in news.trouble
    assert news.snapshot["sources"][0] == {"name": "server", "state": "not running", "detail": news.trouble}


def test_a_server_that_goes_and_one_that_is_slow(api: Api, root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = threading.Event()
    api.answers["/snapshot"] = lambda connection: go_on.wait(PATIENCE)
    feed = DataFeed(never, api=api.path, root=root)
    monkeypatch.setattr(module, "_ANSWER_SECONDS", 0.05)
    news = feed.round()
    assert news.snapshot is not None, "it never answered, so the machine has to do"
    assert news.snapshot["sources"][0]["state"] == "does not answer"
    api.answers["/snapshot"] = SNAPSHOT
    monkeypatch.setattr(module, "_ANSWER_SECONDS", PATIENCE)
    assert feed.round().snapshot == SNAPSHOT
    api.answers["/snapshot"] = lambda connection: go_on.wait(PATIENCE)
    monkeypatch.setattr(module, "_ANSWER_SECONDS", 0.05)
    late = feed.round()
    assert late.snapshot is None, "what it said last is better than what we see"
    assert late.trouble is not None
    assert "does not answer within" in late.trouble
    api.close()
    gone = feed.round()
    assert gone.snapshot is not None
    assert gone.snapshot["sources"][0]["state"] == "not running"
    go_on.set()


@pytest.mark.parametrize(
    ("host", "shown", "plain"),
    [
        ("a\x1b[2Jb", "a\\x1b[2Jb", "a\\x1b[2Jb"),
        ("模", "模", "?"),
        ("a\x7f", "a\\x7f", "a\\x7f"),
        ('"\\/', '"\\/', '"\\/'),
    ],
)
@pytest.mark.parametrize("escaped", [True, False])
def test_nothing_that_moves_the_cursor(api: Api, host: str, shown: str, plain: str, escaped: bool) -> None:
    api.answers["/snapshot"] = json.dumps({**SNAPSHOT, "host": host}, ensure_ascii=escaped).encode()
    for ascii, expected in ((False, shown), (True, plain)):
        snapshot = DataFeed(never, api=api.path, ascii=ascii).round().snapshot
        assert snapshot is not None
        assert snapshot["host"] == expected


def events(*lines: str) -> Callable[[socket.socket], None]:
    def answer(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n: ttmem events\n\n")
        for line in lines:
            connection.sendall(f"{line}\n\n".encode())

    return answer


def test_events_are_read_and_read_again(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stream breaks after every two events. Received events stay; the oldest are removed above the limit."""
    monkeypatch.setattr(event_tail, "_RETRY_SECONDS", 0.01)
    monkeypatch.setattr(module, "_KEPT_EVENTS", 5)
    api.answers["/events"] = events('data: {"event": "Mark", "text": "a\\u001bb"}', 'event: lost\ndata: {"count": 7}')
    feed = DataFeed(never, api=api.path)
    feed.want(["/events"], 0.5)

    def told() -> Json:
        data = feed.round().answers["/events"].data
        assert data is not None
        return data

    wait_until(lambda: told()["lost"] >= 7 * 7, "the stream's return")
    assert 0 <= time.time() - told()["since"] < PATIENCE
    assert told()["events"] == [{"event": "Mark", "text": "a\\x1bb"}] * 5
    feed.want([], 0.5)
    feed.round()
    asked = len(api.asked)
    wait_until(lambda: not any(thread.name == "events" for thread in threading.enumerate()), "the end of the reader")
    assert api.asked[asked:].count("/events") <= 1
    feed.close()


def test_the_thread_brings_news_and_hears_what_is_wanted(api: Api) -> None:
    heard: queue.Queue[FeedUpdate] = queue.Queue()
    feed = DataFeed(heard.put, api=api.path)
    feed.want([], 3600.0)
    feed.start()
    assert heard.get(timeout=PATIENCE).snapshot == SNAPSHOT
    api.answers["/headroom"] = {"chips": []}
    feed.want(["/headroom"], 3600.0)  # does not wait for the full interval
    assert heard.get(timeout=PATIENCE).answers["/headroom"].data == {"chips": []}
    feed.want(["/headroom"], 0.01)
    heard.get(timeout=PATIENCE)
    feed.close()
    wait_until(lambda: not any(thread.name == "feed" for thread in threading.enumerate()), "the end of the thread")

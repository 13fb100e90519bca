# SPDX-License-Identifier: Apache-2.0
"""The stream of events: what a reader gets of an agent's ring, and what it loses."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.scripted_agent import Agent, Reader
from ttmem.account.allocations import Allocation
from ttmem.account.entities import Source
from ttmem.model.events import Event
from ttmem.server import event_stream
from ttmem.server.event_stream import EventStream, Subscription, event_json

Pair = tuple[str, dict[str, Any]]  # name of the message, data


class Stream:
    """A stream of a ring with one reader, which reads when it is asked to."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.rings = Reader()
        self.feed = EventStream(self.rings.sink)
        self.reader = Subscription()
        self.feed.add(self.reader)
        self.rings.adopt(agent)
        self.visible = True

    def follow(self) -> int:
        """Apply the records; returns how many events that were."""
        before = self.rings.ledger.seq
        self.rings.follow()
        return self.rings.ledger.seq - before

    def read(self) -> list[Pair]:
        return asyncio.run(self._read())

    async def _read(self) -> list[Pair]:
        text = b""
        pieces: AsyncIterator[bytes] = self.feed.stream(self.reader, lambda user_id: self.visible)
        await anext(pieces)
        while self.reader.items or self.reader.lost:
            text += await anext(pieces)
        found = []
        for message in text.decode().split("\n\n")[:-1]:
            *head, data = message.split("\n")
            found.append((head[0].removeprefix("event: ") if head else "", json.loads(data.removeprefix("data: "))))
        return found


@pytest.fixture
def stream(agent: Agent) -> Stream:
    agent.opened()
    made = Stream(agent)
    made.follow()
    made.read()
    return made


def test_a_reader_within_its_rate_gets_every_event_as_it_was(agent: Agent, stream: Stream) -> None:
    expected: list[dict[str, Any]] = []

    def note(time: float, source: Source | None, event: Event, allocation: Allocation | None) -> None:
        expected.append(json.loads(json.dumps(event_json(time, source, event, allocation))))

    stream.rings.sink.add_observer(note)
    agent.program(1, 7, ran=True)
    for _ in range(3):  # the same texts again, each with its own time
        agent.allocate(2, 500)
        agent.free(2)
    agent.record(5, 3, size=1, address=1)  # frees nothing
    assert stream.follow() == len(expected)
    got = stream.read()
    assert [data for name, data in got] == expected
    assert {name for name, _ in got} == {""}
    refs = [data["refs"] for _, data in got if data["event"] in ("Allocated", "Freed")]
    assert refs == [1, 0] * 3 + [None]
    assert len({data["time"] for _, data in got}) > 6


def test_what_a_reader_loses_is_counted_exactly_and_in_its_place(
    agent: Agent, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_stream, "BACKLOG", 4)
    events = 0
    for _ in range(3):  # the first fills the backlog, the others find it full
        agent.churn(6)
        events += stream.follow()
    got = stream.read()
    assert [name for name, _ in got] == ["", "", "", "", "lost"]
    assert got[-1][1] == {"count": events - 4}
    assert stream.feed.lost == events - 4
    agent.churn(2)
    assert stream.follow() == 2
    assert [name for name, _ in stream.read()] == ["", ""]


def test_after_a_loss_a_reader_gets_events_when_half_of_its_backlog_is_read(
    agent: Agent, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_stream, "BACKLOG", 6)
    agent.churn(8)
    assert stream.follow() == 8
    for read, left in ((1, 5), (2, 3 + 1 + 2)):  # too few; enough: then the number of lost events, and two events
        for _ in range(read):
            stream.reader.items.popleft()
        agent.churn(2)
        assert stream.follow() == 2
        assert len(stream.reader.items) == left
    assert [name for name, _ in stream.read()] == ["", "", "", "lost", "", ""]
    assert stream.feed.lost == 4


def test_records_that_no_reader_has_room_for_are_not_made_to_events(
    agent: Agent, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_stream, "BACKLOG", 2)
    agent.churn(2)
    stream.follow()

    def refuse(*_: object) -> None:
        raise AssertionError("it is called")

    monkeypatch.setattr(stream.reader, "put", refuse)
    agent.churn(4)
    assert stream.follow() == 4
    assert stream.rings.warnings == []
    assert stream.reader.lost == 4


def test_texts_of_other_users_stay_hidden(agent: Agent, stream: Stream) -> None:
    name = agent.blob(b"ttnn.secret")
    for visible in (True, False, True):
        stream.visible = visible
        agent.allocate(2, 500, name=name)
        agent.free(2)
        stream.follow()
        assert {data["tag"] for _, data in stream.read()} == {"ttnn.secret" if visible else None}

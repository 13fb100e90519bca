# SPDX-License-Identifier: Apache-2.0
"""Dumps show the state at the time of the request, and many requests cost no more than a few."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ttmem.account.ledger import Ledger
from ttmem.documents.dump import EVERYTHING
from ttmem.ingest.clock import Clock
from ttmem.model.events import Allocated, DeviceClosed, Freed, ProcessExited
from ttmem.model.identity import ProcessInfo
from ttmem.model.kinds import Confidence, Kind
from ttmem.model.schema import Dump
from ttmem.server import dumps
from ttmem.server.dumps import Dumps
from ttmem.wire.legacy_records import Type

BOTH = (Type.DUMP_REMAINING, Type.DUMP_KERNELS)


class Stage:
    """An account, and what its dumps wrote."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.source = self.ledger.source(0.0, ProcessInfo(7, 1, 1000), "legacy", Confidence.REPORTED)
        self.written: list[str] = []
        self.errors: list[Exception] = []
        self.dumps = Dumps(self.ledger, Clock(), self._write, self.errors.append)
        self.full = False  # True: the next dump cannot be written

    def allocate(self, *addresses: int, kind: Kind = Kind.DRAM) -> None:
        for address in addresses:
            self.ledger.apply(1.0, self.source, Allocated(0, kind, address, 4096))

    def free(self, *addresses: int) -> None:
        for address in addresses:
            self.ledger.apply(1.0, self.source, Freed(0, None, address))

    def request(self, op: Type = Type.DUMP_REMAINING) -> None:
        self.dumps.request(op)

    def _write(self, text: str) -> None:
        if self.full:
            self.full = False
            raise OSError("closed")
        self.written.append(text)

    async def done(self) -> None:
        while self.dumps._requests:
            await asyncio.sleep(0)

    def totals(self) -> list[int]:
        found = (re.search(r"Total tracked allocations: (\d+)", text) for text in self.written)
        return [int(match[1]) for match in found if match]


def run(story: Callable[[Stage], Awaitable[None]]) -> Stage:
    async def act() -> Stage:
        stage = Stage()
        await story(stage)
        await stage.done()
        return stage

    return asyncio.run(act())


def test_each_dump_is_of_its_place_in_the_stream() -> None:
    async def story(stage: Stage) -> None:
        for number in range(1, 6):
            stage.allocate(number)
            stage.request()
        stage.free(*range(1, 6))
        stage.request()

    stage = run(story)
    assert stage.totals() == [1, 2, 3, 4, 5, 0]
    assert stage.errors == []


@pytest.mark.parametrize("event", [DeviceClosed(0), ProcessExited()])
def test_what_goes_all_at_once_is_still_listed(event: Any) -> None:
    async def story(stage: Stage) -> None:
        stage.allocate(1, 2, 3)
        stage.request()
        stage.ledger.apply(2.0, stage.source, event)

    stage = run(story)
    assert stage.totals() == [3]
    assert "DRAM: 3 buffers" in stage.written[0]


def test_a_buffer_that_was_freed_since_is_marked() -> None:
    async def story(stage: Stage) -> None:
        stage.allocate(1, 2)
        stage.request()
        stage.free(1)

    (text,) = run(story).written
    assert "Buffer 0x1: 4 KB (PID 7, freed since this dump was requested)" in text
    assert "Buffer 0x2: 4 KB (PID 7, ref_count=1)" in text


@pytest.mark.parametrize("op", BOTH)
def test_requests_of_one_moment_are_answered_together(op: Type) -> None:
    async def story(stage: Stage) -> None:
        stage.allocate(1)
        for _ in range(2000):
            stage.request(op)

    stage = run(story)
    assert len(stage.written) == 1
    assert stage.written[0].startswith(f"Received {op.name} request... (2000 requests, answered together)\n")


def test_requests_of_too_many_moments_are_answered_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dumps, "_PAUSE_SECONDS", 0.0)

    async def story(stage: Stage) -> None:
        for number in range(1, 2001):
            stage.allocate(number)
            stage.request(BOTH[number % 2])
        assert len(stage.dumps._requests) <= dumps._MAX_WAITING + len(BOTH)

    stage = run(story)
    assert len(stage.written) <= dumps._MAX_WAITING + len(BOTH)
    answered = [int(match[1]) if (match := re.search(r"\((\d+) requests", t)) else 1 for t in stage.written]
    assert sum(answered) == 2000
    assert stage.totals()[-1] == 2000  # the last ones show a moment after the last request


def test_captures_of_a_large_account_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dumps, "_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(dumps, "_MAX_CAPTURED", 1000)

    async def story(stage: Stage) -> None:
        stage.allocate(*range(1, 900))
        for number in range(900, 910):
            stage.allocate(number)
            stage.request()
        assert sum(one.captured is not None for one in stage.dumps._requests) == 1

    assert run(story).totals() == [900, 909]


def test_documents_that_wait_are_one() -> None:
    made: list[Dump] = []

    async def story(stage: Stage) -> None:
        stage.allocate(1)

        async def ask(user_id: int) -> None:
            made.append(await stage.dumps.document(EVERYTHING, user_id=user_id))

        await asyncio.gather(*(ask(user_id) for user_id in (0, 1000, 0, 1000, 0)))

    run(story)
    assert len({id(document) for document in made}) == 2  # one per user: users may see different allocations
    assert all(document["total"] == 1 for document in made)


def test_a_document_is_of_a_moment_after_its_request() -> None:
    async def story(stage: Stage) -> None:
        stage.allocate(*range(1, 2001))
        first = asyncio.create_task(stage.dumps.document(EVERYTHING, user_id=0))
        await asyncio.sleep(0)  # it is created
        await asyncio.sleep(0)  # it is being made
        stage.free(*range(1, 2001))
        second = await stage.dumps.document(EVERYTHING, user_id=0)
        assert ((await first)["total"], second["total"]) == (2000, 0)

    run(story)


def test_a_dump_that_fails_does_not_stop_the_next() -> None:
    async def story(stage: Stage) -> None:
        stage.allocate(1)
        stage.request()
        await stage.done()
        stage.full = True
        for number in (2, 3):
            stage.allocate(number)
            stage.request()

    stage = run(story)
    assert stage.totals() == [1, 3]
    assert [str(error) for error in stage.errors] == ["closed"]

# SPDX-License-Identifier: Apache-2.0
"""Dumps show the state at the time of the request, and many requests cost no more than a few."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ttmem.account.ledger import Ledger
from ttmem.documents.dump import EVERYTHING, DumpBuilder, DumpFilter
from ttmem.documents.of_account import dump_of
from ttmem.ingest import time_slices
from ttmem.ingest.clock import Clock
from ttmem.model.events import (
    Allocated,
    DeviceClosed,
    DeviceOpened,
    Event,
    Freed,
    ProcessExited,
    ResyncBegin,
    ResyncEnd,
)
from ttmem.model.identity import ChipInfo, ProcessInfo
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


def test_a_request_does_not_join_a_dump_that_is_already_captured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dumps, "_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(dumps, "_MAX_CAPTURED", 0)
    begun: list[DumpBuilder] = []

    async def story(stage: Stage) -> None:
        class Late(DumpBuilder):
            def __init__(self, *arguments: Any) -> None:
                super().__init__(*arguments)
                begun.append(self)
                if len(begun) == 2:  # of the request that had to wait with its capture
                    stage.allocate(3)
                    stage.request()

        monkeypatch.setattr(dumps, "DumpBuilder", Late)
        for number in (1, 2):
            stage.allocate(number)
            stage.request()
        await stage.done()

    assert run(story).totals() == [1, 2, 3]


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


def many_buffers(stage: Stage, count: int) -> None:
    stage.allocate(*range(1, count + 1))


def many_programs(stage: Stage, count: int) -> None:
    for number in range(count):
        event = Allocated(0, Kind.CB, 64 * (number % 4 + 1), 4096, number // 4 + 1)
        stage.ledger.apply(1.0, stage.source, event)


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces are small, and there is a pause after each."""
    monkeypatch.setattr(dumps, "_PIECE", 100)
    monkeypatch.setattr(time_slices, "_TURN_SECONDS", -1.0)


def with_others(stage: Stage, each_turn: Callable[[], object]) -> asyncio.Task[None]:
    """Something else that the loop does in each pause."""

    async def others() -> None:
        while True:
            each_turn()
            await asyncio.sleep(0)

    return asyncio.create_task(others())


@pytest.mark.parametrize("fill", [many_buffers, many_programs])
def test_others_have_their_turn_while_a_document_is_captured(
    fill: Callable[[Stage, int], None], steps: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns: list[int] = []
    captured: list[int] = []

    class Watched(DumpBuilder):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            captured.append(len(turns))

    monkeypatch.setattr(dumps, "DumpBuilder", Watched)

    async def story(stage: Stage) -> None:
        fill(stage, 2000)
        task = with_others(stage, lambda: turns.append(0))
        assert (await stage.dumps.document(EVERYTHING, user_id=0))["total"] == 2000
        task.cancel()

    run(story)
    assert 2000 / 100 <= captured[0] <= 2000 / 100 + 5, "a pause for each piece; programs are captured together"


@pytest.mark.parametrize("events", [2, 3, 1_000_000])
def test_a_document_is_of_one_moment_whatever_happens_in_the_pauses(events: int, steps: None) -> None:
    async def story(stage: Stage) -> None:
        stage.allocate(*range(1, 1001))
        first, left = 1, events

        def move() -> None:
            """Free the oldest buffer and allocate another, between two turns."""
            nonlocal first, left
            if left and first < 1000:
                stage.free(first)
                stage.allocate(first + 1000)
                first, left = first + 1, left - 1

        task = with_others(stage, move)
        wanted = EVERYTHING._replace(limit=2000)
        document = await stage.dumps.document(wanted, user_id=0)
        task.cancel()
        (group,) = document["groups"]
        (kind,) = group["kinds"]
        found = sorted(row["address"] for row in kind["allocations"])
        assert found == [*range(found[0], found[0] + 1000)]

    run(story)


def moved(number: int, chip: str) -> DeviceOpened:
    return DeviceOpened(number, ChipInfo(chip))


MESH = tuple(Allocated((0, 1), Kind.DRAM, 0x1000 * number, 64) for number in range(1, 301))
AGAIN = tuple(Allocated((0, 1), Kind.DRAM, 0x1000 * number, 32) for number in range(201, 501))
CHANGES: dict[str, tuple[tuple[Event, ...], tuple[Event, ...]]] = {
    "a device turns out to be another chip": (MESH, (moved(1, "C"),)),
    "two devices turn out to be each other's chips": (MESH, (moved(0, "C"), moved(1, "A"), moved(0, "B"))),
    "a stronger source counts where a device was": (
        (*MESH, Allocated(0, Kind.L1, 0x1000, 64)),
        (moved(0, "C"), Allocated(0, Kind.DRAM, 0x1000, 32), moved(2, "A")),
    ),
    "a resync ends": ((*MESH, ResyncBegin(2), *AGAIN), (ResyncEnd(2),)),
    "a device is closed": (MESH, (DeviceClosed((0, 1)),)),
}


@pytest.mark.parametrize("wanted", [EVERYTHING, DumpFilter(chips=frozenset("A"))], ids=["all chips", "chip A"])
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_document_is_of_one_moment_whenever_something_changes(
    change: tuple[tuple[Event, ...], tuple[Event, ...]],
    wanted: DumpFilter,
    steps: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The events come together, after each possible number of turns of the loop."""
    monkeypatch.setattr(dumps, "SLICE_ALLOCATIONS", 50)

    def without_time(dump: Dump) -> dict[str, Any]:
        return {**dump, "time": ""}

    async def made(turns: int) -> int:
        """Returns which moment it is of, 0 before and 1 after the events; 2 if it was made before the events."""
        stage = Stage()
        info = ProcessInfo(8, 1, 1000)
        agent = stage.ledger.source(0.0, info, "agent", Confidence.EXACT)
        client = stage.ledger.source(0.0, info, "client", Confidence.REPORTED)
        for event in (moved(0, "A"), moved(1, "B"), *change[0]):
            stage.ledger.apply(1.0, client, event)
        moments = [without_time(dump_of(stage.ledger, wanted, 0.0))]
        task = asyncio.create_task(stage.dumps.document(wanted, user_id=0))
        for _ in range(turns):
            await asyncio.sleep(0)
        if task.done():
            return 2
        for event in change[1]:
            stage.ledger.apply(2.0, agent if isinstance(event, Allocated) else client, event)
        moments.append(without_time(dump_of(stage.ledger, wanted, 0.0)))
        assert moments[0] != moments[1]
        document = without_time(await task)
        assert document in moments
        return moments.index(document)

    found, turns = [asyncio.run(made(0))], 0
    while found[-1] != 2:
        turns += 1
        found.append(asyncio.run(made(turns)))
    assert min(found.count(moment) for moment in (0, 1)) > 3


def test_what_was_captured_is_dropped_piece_by_piece(steps: None) -> None:
    left: list[int] = []

    async def story(stage: Stage) -> None:
        many_programs(stage, 2000)
        stage.request()
        captured = stage.dumps._requests[0].captured
        assert captured is not None
        task = with_others(stage, lambda: left.append(len(captured.pieces)))
        await stage.done()
        task.cancel()

    run(story)
    assert len(set(left)) >= 4, "there are pauses between pieces"
    assert left[-1] == 0


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

# SPDX-License-Identifier: Apache-2.0
"""Corrections from a live table: in the order of the records, and in small steps."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from tests.scripted_agent import L1_BASE, MESHES, SLOTS, TABLE, Agent, Reader
from ttmem.account.ledger import Ledger
from ttmem.ingest import known_slots, ring_corrections, ring_programs
from ttmem.ingest.known_slots import KnownSlots
from ttmem.ingest.ring_corrections import Corrections
from ttmem.ingest.ring_listener import NoListener
from ttmem.ingest.ring_meshes import RingMeshes
from ttmem.ingest.ring_programs import RingPrograms
from ttmem.ingest.ring_record_events import RecordEvents
from ttmem.model.events import DeviceOpened, ProgramDestroyed, ProgramRun
from ttmem.model.identity import ProcessInfo
from ttmem.model.kinds import Confidence, Kind
from ttmem.wire.agent_ring import Record, Ring
from ttmem.wire.table_copy import TableCopy, copy_table

CHUNK = 4


@pytest.fixture
def corrections(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Corrections, TableCopy]]:
    """Of a table with buffers and parts of a program, in slots that are not in the order of the records."""
    monkeypatch.setattr(known_slots, "CHUNK_SLOTS", CHUNK)
    monkeypatch.setattr(ring_corrections, "CHUNK_SLOTS", CHUNK)
    with closing(Agent()) as agent:
        agent.mesh(0, [0])
        agent.opened()
        slots = list(range(TABLE))
        random.Random(1).shuffle(slots)
        agent.program(slots.pop(), 7)
        for number, slot in enumerate(slots):
            part: dict[str, Any] = {"kind": Kind.CB, "program": 7} if number % 2 else {}
            agent.allocate(slot, **part)
        source = Ledger().source(0.0, ProcessInfo(1, 1), "agent", Confidence.EXACT)
        with closing(Ring(os.dup(agent.fd))) as ring:
            meshes = RingMeshes(ring, NoListener())
            programs = RingPrograms(ring, meshes)
            known = KnownSlots(TABLE)
            events = RecordEvents(ring, meshes, programs, known, NoListener())
            monkeypatch.setattr(events, "added", lambda record: record)  # instead of an event
            yield Corrections(source, meshes, programs, known, events), copy_table(ring)


def test_everything_is_added_in_the_order_of_the_records(corrections: tuple[Corrections, TableCopy]) -> None:
    made, table = corrections
    added: list[Any] = [step[1] for step in made.of_table(table, False) if step is not None]
    assert added == table.records()
    assert len(added) == TABLE


def test_a_write_to_one_core_is_freed() -> None:
    """It counts as the kind that its address determines (rule 10), but it is no part of a program."""
    with closing(Agent()) as agent, closing(Reader()) as reader:
        agent.chip(0, 555, 0)
        agent.mesh(0, [0])
        agent.put_mesh(0, map_end=L1_BASE - 4096)
        agent.opened()
        source = reader.adopt(agent)
        agent.allocate(3, 64, 1 << 48 | 1 << 32 | L1_BASE - 64, kind=Kind.L1)  # in the kernel ring
        reader.follow()
        (write,) = (one for holding in source.holdings.values() for one in holding.allocations())
        assert write.kind is Kind.KERNEL
        agent.free(3)
        agent.churn(2 * SLOTS)
        reader.follow()
        assert reader.sizes(source) == []
        assert "unknown_free" not in reader.anomalies()


def test_slots_that_are_searched_for_nothing_have_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """With many holdings, each of them takes long."""
    monkeypatch.setattr(ring_corrections, "_SLOTS_PER_PAUSE", 8)
    with closing(Agent()) as agent, closing(Reader()) as reader:
        agent.chip(0, 555, 0)
        agent.mesh(0, [0])
        agent.opened()
        source = reader.adopt(agent)
        for slot in range(TABLE):
            agent.allocate(slot)
        reader.follow()
        source.holdings.clear()  # so that none of them is found
        for slot in range(TABLE):
            agent.free(slot)
        (follower,) = reader.rings._followers.values()
        follower.fold.catch_up()
        assert follower.fold._corrections is not None
        assert sum(one is None for one in follower.fold._corrections) >= TABLE // 8


def test_each_step_is_small(corrections: tuple[Corrections, TableCopy], monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything else waits for the end of a step."""
    made, table = corrections
    unpacked = most_unpacked = most_sorted = 0

    def unpack(copy: TableCopy, slot: int, real: Any = TableCopy.record) -> Record:
        nonlocal unpacked
        unpacked += 1
        found: Record = real(copy, slot)
        return found

    def sort(rows: list[int]) -> list[int]:
        nonlocal most_sorted
        most_sorted = max(most_sorted, len(rows))
        return sorted(rows)

    monkeypatch.setattr(TableCopy, "record", unpack)
    monkeypatch.setattr(ring_corrections, "sorted", sort, raising=False)
    for _ in made.of_table(table, False):
        most_unpacked, unpacked = max(most_unpacked, unpacked), 0
    assert 0 < most_unpacked <= CHUNK + 1, "a chunk, and the first row to add"
    assert 0 < most_sorted <= CHUNK


def test_there_is_a_pause_after_each_mesh() -> None:
    """Opening or closing a mesh of many chips takes long."""
    with closing(Agent()) as agent, closing(Reader()) as reader:
        for mesh in range(MESHES):
            agent.chip(mesh, 555 + mesh, mesh)
            agent.mesh(mesh, [mesh])
            agent.opened(mesh)
        reader.adopt(agent)
        reader.follow()
        for mesh in range(MESHES):
            agent.opened(mesh)
        (follower,) = reader.rings._followers.values()
        follower.fold.catch_up()
        assert follower.fold._corrections is not None
        found = list(follower.fold._corrections)
        opened = [place for place, one in enumerate(found) if one is not None and type(one[1]) is DeviceOpened]
        assert len(opened) == MESHES
        assert all(found[place + 1] is None for place in opened)


def test_many_programs_have_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """To find those that are gone, and those that were launched, in the order of their launches."""
    for module in (ring_corrections, ring_programs):
        monkeypatch.setattr(module, "PROGRAMS_PER_PAUSE", 8)
    with closing(Agent()) as agent, closing(Reader()) as reader:
        agent.chip(0, 555, 0)
        agent.mesh(0, [0])
        agent.opened()
        reader.adopt(agent)
        for slot in range(TABLE):
            agent.program(slot, 100 + slot)
            reader.follow()
        launched = random.Random(1).sample(range(TABLE), TABLE)
        for slot in launched:
            agent.run(slot)
        gone = [slot for slot in range(TABLE) if slot % 4 == 0]
        for slot in gone:
            agent.destroyed(slot, 100 + slot)
        (follower,) = reader.rings._followers.values()
        steps = list(follower.fold._corrector.of_table(copy_table(follower.fold.ring), False))
        events = [step[1] for step in steps if step is not None]
        assert [event.program for event in events if isinstance(event, ProgramDestroyed)] == [100 + one for one in gone]
        runs = [event.program for event in events if isinstance(event, ProgramRun)]
        assert runs == [100 + slot for slot in launched if slot not in gone]
        assert sum(step is None for step in steps) >= (TABLE + 2 * len(runs)) // 8

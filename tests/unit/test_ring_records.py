# SPDX-License-Identifier: Apache-2.0
"""Records of parts of programs in slots that the live table does not have: they are counted, and nothing grows."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.scripted_agent import SLOTS, TABLE, Agent, Reader
from ttmem.ingest.known_slots import KnownSlots
from ttmem.model.kinds import Kind
from ttmem.wire.agent_ring import NO_SLOT, RingEvent

MANY = 3 * TABLE


def part(agent: Agent, slot: int) -> None:
    """The program has it already, so that the account does not grow either."""
    agent.record(RingEvent.ALLOCATED, slot, kind=Kind.CB, size=7, per_bank=32, address=4096, program=1)


def slots_of(reader: Reader) -> list[KnownSlots]:
    return [follower.fold._slots for follower in reader.rings._followers.values()]


def check(reader: Reader) -> None:
    for slots in slots_of(reader):
        assert len(slots.programs) <= TABLE
        assert len(slots.sequences) <= TABLE


@pytest.mark.parametrize("followed", [1, 2], ids=["one ring", "rings that share a chip"])
@pytest.mark.parametrize("observed", [False, True], ids=["", "observed"])
def test_parts_of_programs_in_slots_that_do_not_exist(
    agents: Callable[[], Agent], reader: Reader, followed: int, observed: bool
) -> None:
    if observed:
        reader.sink.add_observer(lambda *_: None)
    made = [agents() for _ in range(followed)]
    for pid, one in enumerate(made, 1):
        one.chip(0, 555, 0)
        one.opened()
        reader.adopt(one, pid)
    reader.follow()
    for first in range(0, MANY, SLOTS // 4):
        for slot in range(first, first + SLOTS // 4):
            for one in made:
                part(one, TABLE + slot)
        reader.follow()
    for one in made:
        part(one, NO_SLOT)
        part(one, 3)
    reader.follow()
    check(reader)
    assert [slots.programs[3] for slots in slots_of(reader)] == [1] * followed
    assert reader.warnings == []
    assert "dropped" not in reader.anomalies(), "all of them were read"


def test_rows_whose_slot_is_another_one(agent: Agent, reader: Reader) -> None:
    """A row is in the slot where it is, whatever it says."""
    source = reader.adopt(agent)
    agent.opened()
    agent.program(0, 1)
    for first in range(0, MANY, 8):
        for row in range(1, 9):
            fields = {"kind": Kind.CB, "size": 7, "per_bank": 32, "address": 4096 * row, "program": 1}
            written = agent.record(RingEvent.ALLOCATED, TABLE + first + row, **fields)
            agent.keep(row, written)
        agent.churn(2 * SLOTS)
        reader.follow()
        assert reader.sizes(source) == [7] * 8
    check(reader)
    assert reader.warnings == []

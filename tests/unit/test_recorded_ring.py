# SPDX-License-Identifier: Apache-2.0
"""A recorded ring: whatever the place from which it is read, the account is that of the live ring."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.agents import fold_into, read_all
from tests.recordings import RingRecording, history, live_in_account, live_in_table, state
from tests.scripted_agent import SLOTS, Agent, agents  # noqa: F401 - a fixture
from ttmem.account.ledger import Ledger
from ttmem.model.kinds import Kind
from ttmem.recording.recorded_ring import RecordedFold, RecordedProcess
from ttmem.recording.replay import Merge, ReplaySink, RingStretch
from ttmem.wire.agent_ring import RingEvent

# What an agent does, as numbers: the action, and the slot of the table.
ACTIONS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 11)), max_size=60)


def act(agent: Agent, action: int, slot: int) -> None:
    """One step of a script. Slots 0 to 7 are buffers, 8 to 11 programs."""
    live = agent.live
    if action == 9:
        if agent.get("phases_began") % 2:
            agent.record(RingEvent.PHASE_ENDED, address=agent.get("phases_began"))
        else:
            name = agent.blob(f"phase {slot}".encode())
            agent.record(RingEvent.PHASE_BEGAN, address=agent.get("phases_began") + 1, name=name)
        agent.put(phases_began=agent.get("phases_began") + 1)
    elif slot < 8:
        if slot in live:
            agent.free(slot)
        else:
            kind = (Kind.DRAM, Kind.L1, Kind.HOST)[action % 3]
            agent.allocate(slot, 100 * (action + 1), kind=kind, name=agent.blob(f"op {action}".encode()))
    elif slot not in live:
        agent.program(slot, slot + 100, ran=action % 2 == 0)
    elif action < 3:
        agent.destroyed(slot, slot + 100)
    else:
        agent.run(slot)


def made() -> Agent:
    found = Agent()
    found.chip(0, 555, 0)
    found.mesh(0, [0])
    found.opened()
    return found


def folded(process: RecordedProcess, table: int | None = None, until: int | None = None) -> Ledger:
    """The account of all records, or of those up to a sequence number; from the start, or from a table."""
    ledger = Ledger()
    sink = ReplaySink(ledger, 0.0, None)
    invalid: list[Exception] = []
    stretch = RingStretch(lambda: RecordedFold.of(process, sink, table), until)
    Merge(sink, iter(()), [stretch], lambda fold, error: invalid.append(error)).advance(inf)
    assert invalid == []
    return ledger


@given(st.data())
def test_from_the_start_and_from_every_table_the_state_is_the_same(data: st.DataObject) -> None:
    agent = made()
    recorded = RingRecording(agent)
    ledger = Ledger()
    live = fold_into(ledger, agent.open(), 1)
    try:
        for number, (action, slot) in enumerate(data.draw(ACTIONS)):
            act(agent, action, slot)
            if number % 7 == 6:
                recorded.poll(flush=data.draw(st.booleans()))
                read_all(live)
                if data.draw(st.booleans()):
                    recorded.table()
                if data.draw(st.booleans()):
                    recorded.history(agent.clock * 1e-9, ledger, [live.ring.cursor])
        recording = recorded.recording()
        read_all(live)
        process = recording.processes[1]
        again = folded(process)
        assert state(again) == state(ledger)
        assert history(again) == history(ledger)
        assert not recording.problems
        for index in process.tables:
            end = process.blocks[index].block.last
            for until in {end, min(end + 3, process.end), process.end}:
                whole = folded(process, None, until)
                # A table does not show that a program ran on cores and was destroyed since; the history does.
                assert {**state(folded(process, index, until)), "resident": None} == {**state(whole), "resident": None}
        times = [time for number in range(1, process.end + 1) if (time := process.time_of(number)) is not None]
        for time in {*data.draw(st.lists(st.sampled_from(times), max_size=8)), times[-1]}:
            moment, whole = recording.at(time), recording.at(time, from_start=True).ledger
            assert state(moment.ledger) == state(whole)
            assert history(moment.ledger) == history(whole)
            assert live_in_table(recording, time) == live_in_account(whole)
        assert not recording.problems
    finally:
        live.ring.close()
        agent.close()


@pytest.mark.parametrize("before", [0, 3, 40])
def test_a_gap_is_a_gap(agents: Callable[[], Agent], before: int) -> None:  # noqa: F811
    agent = agents()
    agent.opened()
    recorded = RingRecording(agent)
    for slot in range(before % 5):
        agent.allocate(slot)
    if before:
        recorded.poll()
    agent.churn(4 * SLOTS)
    agent.allocate(9, 900)
    recording = recorded.recording()
    process: RecordedProcess = recording.processes[1]
    ((first, last),) = process.gaps
    assert first == (before % 5 + 2 if before else 1)
    assert last == agent.head - 1
    ledger = folded(process)
    assert sorted(allocation.size for allocation in ledger.allocations()) == sorted([100] * (before % 5) + [900])
    assert ledger.anomalies["dropped"] == last - first + 2, "the table is exact at the record after the gap"


def test_until_the_end_of_a_gap_the_state_is_that_before_it(agents: Callable[[], Agent]) -> None:  # noqa: F811
    """What the table has is not older than the table, although everything in it may be."""
    agent = agents()
    agent.opened()
    agent.allocate(1, 111)
    agent.allocate(2, 222)
    recorded = RingRecording(agent)
    recorded.poll(flush=True)
    agent.free(2)
    lost = agent.clock
    agent.churn(4 * SLOTS)
    recording = recorded.recording()
    for time, sizes in ((lost, [111, 222]), (agent.clock - 1000, [111, 222]), (agent.clock, [111])):
        live = recording.at(time * 1e-9 + 1e-7).ledger.allocations()
        assert sorted(one.size for one in live) == sizes


def test_a_table_that_lags_behind_the_ring(agents: Callable[[], Agent]) -> None:  # noqa: F811
    """An agent writes a record before it changes the table; both may be copied in between."""
    agent = agents()
    agent.opened()
    agent.allocate(1, 111)
    recorded = RingRecording(agent)
    recorded.poll()
    late = agent.record(RingEvent.ALLOCATED, 2, kind=Kind.DRAM, size=222, address=5000, per_bank=32)
    recorded.table()
    agent.keep(2, late)
    agent.allocate(3, 333)
    process = recorded.recording().processes[1]
    (index,) = process.tables
    assert process.blocks[index].block[7:9] == (late.sequence - 1, late.sequence)
    ledger = folded(process, index, late.sequence)
    assert sorted(allocation.size for allocation in ledger.allocations()) == [111, 222]


def test_a_mesh_that_is_another_one_later(agents: Callable[[], Agent]) -> None:  # noqa: F811
    """Records mean the mesh as it was then, although they are written together with later ones."""
    agent = agents()
    agent.chip(1, 777, 1)
    agent.opened()
    agent.allocate(1, 111)
    recorded = RingRecording(agent)
    recorded.poll()
    agent.free(1)
    agent.record(RingEvent.CLOSED)
    agent.mesh(0, [1])
    agent.opened()
    agent.allocate(2, 222)
    process = recorded.recording().processes[1]
    whole = folded(process)
    assert {chip.id: chip.kinds[Kind.DRAM].peak.value for chip in whole.chips.values()} == {"555": 111, "777": 222}

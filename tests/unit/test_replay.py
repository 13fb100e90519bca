# SPDX-License-Identifier: Apache-2.0
"""The replay of recorded rings: the order of several rings and events, and times that no clock has."""

from __future__ import annotations

from math import inf

import pytest

from tests.recordings import RingRecording
from tests.scripted_agent import SLOTS, Agent
from ttmem.account.ledger import Ledger
from ttmem.model.kinds import Kind


def agent_with_chip() -> Agent:
    made = Agent()
    made.chip(0, 555, 0)
    made.mesh(0, [0])
    made.opened()
    return made


@pytest.mark.parametrize("time", [0, 1 << 63, (1 << 64) - 1])
def test_impossible_times_end(time: int) -> None:
    """Also with a gap, after which the account continues from a table with such a time."""
    agent = agent_with_chip()
    recorded = RingRecording(agent)
    recorded.poll()
    agent.allocate(1, 111, time=time)
    agent.churn(4 * SLOTS)
    recorded.poll()
    agent.allocate(2, 222, time=time)
    recording = recorded.recording()
    ledger = Ledger()
    recording.replay(ledger)
    assert sorted(one.size for one in ledger.allocations()) == [111, 222]
    agent.close()


def test_two_rings_in_the_order_of_their_times() -> None:
    """The peak of the shared chip is the true one."""
    first, second = agent_with_chip(), agent_with_chip()
    recorded = RingRecording(first, second)
    clock = max(first.clock, second.clock)
    for step in range(5):
        for agent in (first, second):
            clock += 1_000_000
            agent.clock = clock
            agent.allocate(step, 100)
            agent.free(step)
    recorded.poll()
    ledger = Ledger()
    recorded.recording().replay(ledger)
    total = ledger.chips["555"].kinds[Kind.DRAM]
    assert (total.used, total.peak.value) == (0, 100)
    for agent in (first, second):
        agent.close()


def test_up_to_a_time_means_all_records_of_that_time() -> None:
    agent = agent_with_chip()
    recorded = RingRecording(agent)
    for slot in range(6):
        agent.allocate(slot, 100)
    recording = recorded.recording()
    process = recording.processes[1]
    for sequence in range(1, process.end + 1):
        time = process.time_of(sequence)
        assert time is not None
        assert recording.at(time).ledger.live_count() == sequence - 1
    assert recording.at(inf).ledger.live_count() == 6
    agent.close()

# SPDX-License-Identifier: Apache-2.0
"""The table of all allocations is not copied more often than needed: it may have millions of rows."""

from __future__ import annotations

import numpy as np

from tests.recordings import RingRecording
from tests.scripted_agent import Agent
from ttmem.model.kinds import Kind
from ttmem.recording.lifetimes import Lifetimes
from ttmem.recording.record_arrays import GrowingArray
from ttmem.wire.agent_ring import SHARED


def tables(*agents: Agent, shared: bool = False) -> Lifetimes:
    recording = RingRecording(*agents)
    for number, agent in enumerate(agents):
        agent.chip(0, 555 + number, 0)
        agent.mesh(0, [0])
        agent.opened()
        agent.program(5, 1, ran=True)
        agent.allocate(0, 100)
        agent.allocate(1, 50, kind=Kind.CB, program=1, flags=SHARED if shared else 0)
    found = recording.recording().lifetimes()
    for agent in agents:
        agent.close()
    return found


def test_a_size_that_counts_is_stored_once() -> None:
    table = tables(Agent()).allocations
    assert np.shares_memory(table.counted, table.size)
    table = tables(Agent(), Agent()).allocations
    assert np.shares_memory(table.counted, table.size)
    assert sorted(table.counted.tolist()) == [50, 50, 100, 100]


def test_a_value_that_all_rows_have_is_stored_once() -> None:
    table = tables(Agent()).allocations
    assert (table.source.strides, table.chips.strides, table.allocator.strides) == ((0,), (0,), (0,))
    assert (table.source.tolist(), table.program.tolist()) == ([0, 0], [0, 1])
    table = tables(Agent(), Agent()).allocations
    assert sorted(table.source.tolist()) == [0, 0, 1, 1]


def test_what_is_inside_another_allocation_does_not_count() -> None:
    table = tables(Agent(), shared=True).allocations
    assert (table.size.tolist(), table.counted.tolist()) == ([100, 50], [100, 0])


def test_the_log_of_launches_is_not_copied() -> None:
    log = tables(Agent()).launch_logs[-1]
    assert len(log.times) == len(log.whats) > 0
    assert np.shares_memory(log.times, log.times)


def test_an_array_grows() -> None:
    array = GrowingArray(np.int64)
    for first in range(0, 5000, 500):
        array.add(np.arange(first, first + 500), 500)
    array.add(7, 2)
    array.values[0] = 9
    assert array.values.tolist() == [9, *range(1, 5000), 7, 7]

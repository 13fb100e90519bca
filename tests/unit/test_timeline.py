# SPDX-License-Identifier: Apache-2.0
"""Memory over time: the sum after each event, compared with a sum over all live rows."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.recordings import RingRecording
from tests.scripted_agent import TABLE, Agent
from ttmem.recording.allocation_table import AllocationTable
from ttmem.recording.timeline import timeline


def random_table(seed: int) -> AllocationTable:
    """Allocations and frees, several of them at one time."""
    chance = random.Random(seed)
    agent = Agent()
    agent.chip(0, 555, 0)
    agent.mesh(0, [0])
    agent.opened()
    recording = RingRecording(agent)
    for _ in range(60):
        slot = chance.randrange(TABLE)
        agent.free(slot) if slot in agent.live else agent.allocate(slot, chance.randrange(1, 1000))
        agent.clock -= chance.choice((0, 1000))  # the next one has the same time, or not
        recording.poll(flush=True)
    agent.close()
    return recording.recording().lifetimes().allocations


@pytest.mark.parametrize("seed", range(8))
def test_the_sum_after_each_event_is_that_of_the_live_rows(seed: int) -> None:
    table = random_table(seed)
    rows = np.flatnonzero(np.arange(len(table)) % 3 > 0)
    found = timeline(table, rows, table.counted)
    assert np.all(np.diff(found.time) > 0), "events of one time are one"
    changes = {*table.begin[rows].tolist(), *table.end[rows].tolist()}
    assert {*found.time.tolist()} == {time for time in changes if time <= found.time[-1]}
    for time, value in zip(found.time.tolist(), found.value.tolist()):
        assert value == table.counted[rows][table.live_at(time)[rows]].sum()
    mask = np.isin(np.arange(len(table)), rows)
    assert np.array_equal(timeline(table, mask, table.counted).value, found.value)


def test_of_nothing_there_is_nothing() -> None:
    found = timeline(random_table(1), np.zeros(0, np.int64), np.zeros(0, np.int64))
    assert (found.peak, found.time.tolist()) == ((0, 0), [])

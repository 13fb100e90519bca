# SPDX-License-Identifier: Apache-2.0
"""The moment when a program is closest to an L1 buffer is that of a naive search over all events."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.scripted_agent import L1_SIZE
from tests.unit.test_residency import Launches
from ttmem.model.kinds import Kind
from ttmem.pages import closest_program as module
from ttmem.pages.chip_groups import chip_groups
from ttmem.pages.closest_program import _lowest, closest_program
from ttmem.pages.residency import resident


@pytest.mark.parametrize("seed", range(4))
def test_it_is_that_of_a_naive_search(seed: int) -> None:
    script, chance = Launches(seed), random.Random(seed)
    agent = script.agents[0]
    for number in range(200):
        script.step()
        slot = chance.randrange(50, 60)
        if slot in agent.live:
            agent.free(slot)
        else:
            agent.allocate(slot, 6400, L1_SIZE - 64 * chance.randrange(1, 18_000), kind=Kind.L1, per_bank=100)
        script.recorded.poll(flush=number % 20 == 0)
    recording = script.recorded.recording()
    found, table = recording.lifetimes(), recording.lifetimes().allocations
    group = chip_groups(table, ["555"])[0]
    mine = resident(found, "555")
    assert mine is not None
    until = table.length + 1
    closest = closest_program(table, group, mine, until)
    rows = group.rows[table.kind[group.rows] == Kind.L1]
    naive = []
    for time in sorted({*table.begin[rows].tolist(), *mine.time.tolist()}):
        live = rows[(table.begin[rows] <= time) & (table.end[rows] > time)]
        place = int(np.searchsorted(mine.time, time, "right")) - 1
        if len(live) and place >= 0 and mine.top[place] >= 0:
            naive.append((int(table.address[live].min()) - int(mine.top[place]), time))
    assert closest is not None
    assert closest.gap == min(naive)[0]
    assert (closest.gap, closest.time) in naive
    script.close()


def test_without_buffers_there_is_none() -> None:
    script = Launches(1)
    recording = script.recording(60)
    found, table = recording.lifetimes(), recording.lifetimes().allocations
    mine = resident(found, "555")
    assert mine is not None
    assert closest_program(table, chip_groups(table, ["555"])[0], mine, table.length + 1) is None
    script.close()


def test_the_lowest_of_ranges() -> None:
    chance = random.Random(3)
    for _ in range(50):
        parts = chance.randrange(1, 40)
        ranges = [sorted(chance.choices(range(parts), k=2)) for _ in range(chance.randrange(1, 12))]
        values = [chance.randrange(1000) for _ in ranges]
        first, last = (np.array(column, np.int64) for column in zip(*ranges))
        naive = [
            min((value for value, (a, b) in zip(values, ranges) if a <= part <= b), default=module._NO_BUFFER)
            for part in range(parts)
        ]
        assert _lowest(first, last, np.array(values, np.int64), parts).tolist() == naive

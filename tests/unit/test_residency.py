# SPDX-License-Identifier: Apache-2.0
"""Resident programs over time are those of the account at every moment, and reach as high as its headroom says."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import pytest

from tests.page_data import decoded
from tests.recordings import RingRecording
from tests.scripted_agent import L1_BASE, Agent
from ttmem.account.entities import Chip
from ttmem.l1.headroom import FloorFinder
from ttmem.model.kinds import Kind
from ttmem.pages import residency
from ttmem.pages.residency import Resident, reach_columns, resident, sites_of
from ttmem.pages.sections import Sections
from ttmem.recording.recording_file import Recording
from ttmem.wire.agent_ring import PROGRAM_FRAME, SHARED, RingEvent

PROGRAM_SLOTS = range(10, 20)


class Launches:
    """An agent that compiles, launches, changes and destroys programs on random cores of two meshes."""

    def __init__(self, seed: int, processes: int = 1) -> None:
        self.chance = random.Random(seed)
        self.agents = [Agent() for _ in range(processes)]
        for agent in self.agents:
            agent.chip(0, 555, 0)
            agent.chip(1, 556, 1)
            agent.mesh(0, [0, 1])
            agent.mesh(1, [0], parent=0)
            agent.opened(0)
            agent.opened(1)
        self.recorded = RingRecording(*self.agents)
        self.clock = self.agents[0].clock
        self.number = 0

    def step(self) -> None:
        agent = self.chance.choice(self.agents)
        agent.clock = self.clock = max(self.clock, agent.clock) + 10_000
        slot = self.chance.choice(PROGRAM_SLOTS)
        if slot not in agent.live:
            self._compile(agent, slot)
        elif self.chance.random() < 0.15:
            agent.destroyed(slot, agent.live[slot].program, mesh=agent.live[slot].mesh)
        else:
            agent.run(slot, mesh=agent.live[slot].mesh)
        self.clock = max(self.clock, agent.clock)

    def _compile(self, agent: Agent, slot: int) -> None:
        self.number += 1
        mesh = self.chance.choice((0, 0, 1))
        mask = self.chance.choice((0xFF, 0x0F, 0xF0, 0x3C, 0xFF00))
        cores = agent.blob(mask.to_bytes(8, "little"))
        per_core = 32 * self.chance.randrange(1, 50)
        count = mask.bit_count()
        for place, (kind, flags) in enumerate(((Kind.CB, 0), (Kind.KERNEL, 0), (Kind.CB, SHARED))):
            agent.allocate(
                slot + 10 * (place + 1), per_core * count, L1_BASE + 64 * self.chance.randrange(100), kind=kind,
                program=self.number, per_bank=per_core, cores=cores, core_count=count, mesh=mesh, flags=flags,
                name=agent.blob(b"cb\n\n"),
            )  # fmt: skip
        fields = {"program": self.number, "per_bank": self.number, "size": 512, "address": 77}
        agent.keep(slot, agent.record(RingEvent.PROGRAM, slot, kind=PROGRAM_FRAME, cores=cores, mesh=mesh, **fields))

    def recording(self, steps: int, unread: int = 0) -> Recording:
        """``unread`` steps in the middle are not read, so that records are lost."""
        for number in range(steps):
            self.step()
            if not steps // 2 < number < steps // 2 + unread:
                self.recorded.poll(flush=number % 20 == 0)
        return self.recorded.recording()

    def close(self) -> None:
        for agent in self.agents:
            agent.close()


@pytest.fixture(params=[(1, 1, 0), (2, 1, 0), (3, 2, 0), (4, 1, 30)], ids=str)
def launched(request: pytest.FixtureRequest) -> Iterator[Recording]:
    seed, processes, unread = request.param
    script = Launches(seed, processes)
    yield script.recording(150, unread)
    script.close()


def at(found: Resident, time: int) -> tuple[int, int, int]:
    place = int(np.searchsorted(found.time, time, "right")) - 1
    if place < 0:
        return -1, -1, -1
    return int(found.circular[place]), int(found.kernels[place]), int(found.top[place])


def in_account(chip: Chip | None) -> tuple[int, int, int]:
    if chip is None or not chip.launched:
        return -1, -1, -1
    finder = FloorFinder(chip)
    for holding in chip.holdings:
        for allocation in holding.allocations():
            finder.add(allocation)
    tops = [one.end for one in finder.result().launched]
    return chip.resident_bytes(Kind.CB) or 0, chip.resident_bytes(Kind.KERNEL) or 0, max(tops, default=-1)


def test_at_every_moment_it_is_that_of_the_account(launched: Recording) -> None:
    found, table = launched.lifetimes(), launched.lifetimes().allocations
    gaps = bool(launched.gaps)
    times = sorted({*table.begin.tolist(), *(time for log in found.launch_logs for time in log.times.tolist())})
    compared = 0
    for chip in ("555", "556"):
        mine = resident(found, chip)
        assert mine is not None
        assert np.all(np.diff(mine.time) >= 0)
        for time in times[:: 5 if gaps else 7]:
            if any(0 < other - time < 600 for other in times):
                continue
            account = launched.at(table.start + (time + 300) * 1e-9).ledger
            assert at(mine, time) == in_account(account.chips.get(chip)), (chip, time)
            compared += 1
    assert compared > 40
    assert gaps == (launched.processes[1].gaps != [])


def test_it_is_the_same_however_many_launches_are_read_at_a_time(
    launched: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = resident(launched.lifetimes(), "555")
    monkeypatch.setattr(residency, "_AT_A_TIME", 7)
    pieces = resident(launched.lifetimes(), "555")
    assert whole is not None
    assert pieces is not None
    assert len(whole.time) > 7
    assert all(np.array_equal(one, other) for one, other in zip(whole, pieces))


def test_without_a_launch_nothing_is_known() -> None:
    agent = Agent()
    agent.chip(0, 555, 0)
    agent.mesh(0, [0])
    agent.opened(0)
    agent.allocate(1)
    assert resident(RingRecording(agent).recording().lifetimes(), "555") is None
    agent.close()


def test_the_reach_of_very_many_launches_is_an_envelope(launched: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
    found = launched.lifetimes()
    mine = resident(found, "555")
    assert mine is not None
    until = int(mine.time[-1]) + 1000
    sites = sites_of(mine, np.arange(len(found.allocations.sites) * 12), 12)

    def columns() -> dict[str, list[int]]:
        sections = Sections()
        made, count = reach_columns(mine, sites, until)
        sections.add_columns("reach", made)
        assert count > 10
        return decoded(sections.payloads["reach"], sections.index["reach"])

    exact = columns()
    monkeypatch.setattr(residency, "MOST_INTERVALS", 1)
    monkeypatch.setattr(residency, "_ENVELOPE", 16)
    coarse = columns()
    assert len(coarse["top"]) <= 16
    for begin, end, top in zip(coarse["begin"], coarse["end"], coarse["top"]):
        inside = [
            height for start, stop, height in zip(exact["begin"], exact["end"], exact["top"])
            if start < end and stop > begin
        ]  # fmt: skip
        assert top == max(inside)

# SPDX-License-Identifier: Apache-2.0
"""A thinned ring: samples of the account are those of all records, of which most are not needed."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.recorded_stories import story_file
from tests.recordings import RingRecording, samples_agree
from tests.scripted_agent import SLOTS, TABLE, Agent
from tests.unit.test_recording_file import TwoProcesses
from ttmem.model.kinds import Kind
from ttmem.recording.recording_file import Recording
from ttmem.wire.agent_ring import WHOLESALE, RingEvent

STEPS = [2.0**-17, 2.0**-15, 2.0**-12]  # seconds; a record of a script takes about 2**-20
KINDS = (Kind.DRAM, Kind.L1, Kind.L1_SMALL, Kind.TRACE)


class Script:
    """An agent that does everything at random, on a mesh of four chips and on submeshes that share chips."""

    def __init__(self, seed: int, *, orderly: bool) -> None:
        """``orderly``: no records are lost, and none is invalid."""
        self.chance, self.orderly = random.Random(seed), orderly
        self.agent = Agent()
        for chip in range(4):
            self.agent.chip(chip, 555 + chip, chip)
        self.agent.mesh(0, [0, 1, 2, 3])
        self.agent.mesh(1, [0, 1], parent=0)
        self.agent.mesh(2, [1, 2], parent=0)
        for mesh in range(3):
            self.agent.opened(mesh)
        self.recorded = RingRecording(self.agent)
        self.programs = 100

    def run(self, steps: int) -> Recording:
        for number in range(steps):
            self._act()
            if number % 3 == 2:
                self.recorded.poll(flush=self.chance.random() < 0.05)
            if self.chance.random() < 0.01:
                self.recorded.table()
        found = self.recorded.recording()
        self.agent.close()
        return found

    def _act(self) -> None:
        agent, chance, slot = self.agent, self.chance, self.chance.randrange(12)
        if chance.random() < 0.7:
            slot %= 2  # short lives
        live = agent.live.get(slot)
        what = chance.random()
        if what < 0.02:
            agent.clock += chance.randrange(100_000)  # nothing happens for a while
        elif what < (0.021 if self.orderly else 0.03):
            self._close_and_open(chance.choice((1, 2)))
        elif what < 0.04 and not self.orderly:
            agent.churn(2 * SLOTS)  # more than the ring has room for
        elif what < 0.05 and not self.orderly:
            agent.allocate(slot % 8, chance.randrange(1, 99) * 100, mesh=chance.randrange(3))  # perhaps in use
        elif slot < 8 and live is None:
            agent.allocate(slot, chance.randrange(1, 99) * 100, kind=chance.choice(KINDS), mesh=chance.randrange(3))
        elif slot < 8 and live is not None and what < 0.3:
            fields = live._asdict()
            for name in ("sequence", "time", "event", "slot", "name"):
                del fields[name]
            agent.record(RingEvent.NAMED, slot, name=agent.blob(f"tensor {slot}".encode()), **fields)
        elif slot < 8:
            agent.free(slot)
        elif live is None:
            self.programs += 1
            mesh = chance.randrange(3)
            agent.program(slot, self.programs, mesh=mesh)
            agent.allocate(
                slot + 20, chance.randrange(1, 9) * 100, kind=Kind.CB, mesh=mesh, program=self.programs,
                cores=agent.blob((0b11).to_bytes(8, "little")),
            )  # fmt: skip
        elif what < 0.9:
            agent.run(slot, mesh=live.mesh)
        else:
            agent.destroyed(slot, live.program, mesh=live.mesh)

    def _close_and_open(self, mesh: int) -> None:
        agent = self.agent
        agent.record(RingEvent.CLOSING, mesh=mesh)
        for slot in [slot for slot, record in agent.live.items() if record.mesh == mesh]:
            if self.orderly and not agent.live[slot].program:
                agent.live[slot] = agent.live[slot]._replace(flags=WHOLESALE)
                agent.free(slot)
            else:
                del agent.live[slot]
                agent.clear_live(slot)
        agent.record(RingEvent.CLOSED, mesh=mesh)
        agent.opened(mesh)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("orderly", [True, False])
def test_samples_are_those_of_all_records(seed: int, orderly: bool) -> None:
    recording = Script(seed, orderly=orderly).run(600)
    assert bool(recording.gaps) == (not orderly)
    parts = [samples_agree(recording, step) for step in STEPS]
    assert parts[0] <= 1
    if orderly:
        assert parts[-1] < 0.85, "too little was left out"
    assert not recording.problems


@pytest.mark.parametrize("seed", range(4))
def test_two_processes_on_one_chip(seed: int) -> None:
    """The highest value of a sum depends on both, so that allocations are not left out."""
    both = TwoProcesses()
    both.act_at_random(random.Random(seed), 300)
    recording = both.recorded.recording()
    for step in STEPS:
        samples_agree(recording, step)
    both.close()


def test_events_of_other_sources(folder: Path) -> None:
    with Recording(story_file(folder)) as recording:
        assert samples_agree(recording, 0.25) == 1


def test_times_that_are_not_in_order() -> None:
    """Which records are applied before a sample depends on all of them, so that none is left out."""
    script = Script(1, orderly=True)
    agent = script.agent
    for number in range(40):
        agent.clock -= 3000 if number % 7 == 3 else 0
        agent.allocate(number % 5, 100 * number)
        agent.free(number % 5)
        script.recorded.poll()
    recording = script.recorded.recording()
    for step in STEPS:
        assert samples_agree(recording, step) == 1
    agent.close()


def test_a_buffer_that_the_table_has_no_room_for() -> None:
    script = Script(1, orderly=True)
    agent = script.agent
    for number in range(30):
        agent.record(RingEvent.ALLOCATED, TABLE + 5, size=1000, address=64 * number + 64, kind=Kind.DRAM, per_bank=32)
        agent.allocate(1, 500)
        agent.free(1)
        agent.record(RingEvent.FREED, TABLE + 5, size=1000, address=64 * number + 64, kind=Kind.DRAM, per_bank=32)
        script.recorded.poll()
    recording = script.recorded.recording()
    for step in STEPS:
        samples_agree(recording, step)
    agent.close()


def test_nearly_nothing_of_a_loop_of_operations_is_needed() -> None:
    script = Script(1, orderly=True)
    agent = script.agent
    for slot in range(8, 12):
        agent.program(slot, slot + 100)
    for number in range(600):
        agent.allocate(number % 3, 100 * (number % 7 + 1), kind=Kind.L1)
        agent.run(8 + number % 4)
        agent.free(number % 3)
        script.recorded.poll()
    recording = script.recorded.recording()
    assert samples_agree(recording, 2.0**-12) < 0.2
    agent.close()

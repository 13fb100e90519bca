# SPDX-License-Identifier: Apache-2.0
"""Recorded simulations: from any checkpoint, an account is the same as from the start, whatever happened before."""

from __future__ import annotations

import json
import os
import random
import re
from collections.abc import Iterator
from math import inf
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.recordings import history, state
from tests.scripted_agent import SLOTS, Agent
from tests.unit.test_recorded_ring import act
from ttmem.account.entities import Source
from ttmem.account.ledger import Ledger
from ttmem.account.totals import TotalWithContents
from ttmem.collect.client import AllocationClient
from ttmem.collect.graph_tracker import GraphTracker
from ttmem.ingest.rings import Rings
from ttmem.ingest.sink import Sink
from ttmem.model.events import Allocated, Event, Failed, PhaseBegan, PhaseEnded, ProcessExited, ResyncBegin, ResyncEnd
from ttmem.model.identity import ProcessInfo
from ttmem.model.kinds import Confidence, Kind
from ttmem.recording import recorder as recorder_module
from ttmem.recording import segment_folder
from ttmem.recording.blocks import BlockType
from ttmem.recording.columns import CHECKPOINT
from ttmem.recording.recorder import Recorder
from ttmem.recording.recording_file import Recording
from ttmem.sim.buffer import Buffer, InterleavedBufferConfig, create_buffer
from ttmem.sim.device import AnyDevice, create_device
from ttmem.sim.errors import SimError
from ttmem.sim.kernels import data_movement_kernel
from ttmem.sim.mesh import create_mesh_device
from ttmem.sim.program import CircularBufferConfig, SimProgram, create_circular_buffer
from ttmem.wire.agent_ring import Ring
from ttmem.wire.client_decode import decode
from ttmem.wire.client_encode import encode

CHIPS_OF_MESH = ("t3k", (1, 2)), ("t3k", (2, 4))


class SimProcess:
    """A process that simulates a device or a mesh and does everything at random, in step with a test."""

    promising = False

    def __init__(self, world: World, pid: int) -> None:
        self._world = world
        self.source = world.ledger.source(world.now(), ProcessInfo(pid, 1), "sim", Confidence.EXACT)
        client = AllocationClient(enabled=True, source="sim", confidence=Confidence.EXACT)
        client._sender = self  # type: ignore[assignment]
        self._tracker = GraphTracker(client)
        self._buffers: list[Buffer] = []
        self._phases: list[int] = []
        self._phase = 0
        self._device = self._opened()

    def put(self, event: Event) -> None:
        """Called by the client."""
        self._world.happened(self.source, decode(encode(event)))

    def stats(self) -> dict[str, int]:
        return {}

    def _opened(self) -> AnyDevice:
        chance = self._world.chance
        if chance.random() < 0.4:
            return create_device(chance.randrange(4), "t3k", tracker=self._tracker)
        machine, shape = chance.choice(CHIPS_OF_MESH)
        return create_mesh_device(machine, shape, tracker=self._tracker)

    def act(self) -> None:
        chance, what = self._world.chance, self._world.chance.random()
        if what < 0.45 or (what < 0.75 and not self._buffers):
            kind, size = chance.choice((Kind.DRAM, Kind.L1)), 2048 * chance.randrange(1, 40)
            tag = chance.choice((None, "weights", "ttnn.add"))
            try:
                self._buffers.append(create_buffer(InterleavedBufferConfig(self._device, size, 2048, kind), tag=tag))
            except SimError as error:
                self.put(Failed(self._device.numbers[0], str(error)))
        elif what < 0.75:
            self._buffers.pop(chance.randrange(len(self._buffers))).deallocate()
        elif what < 0.9:
            number = chance.randrange(3)
            self._device.run(number, lambda: self._program(number))
        elif what < 0.91:
            self._device.clear_program_cache()
        elif what < 0.95:
            self._phase += 1
            self.put(PhaseBegan(self._phase, f"phase {chance.randrange(3)}", self._phases[-1] if self._phases else 0))
            self._phases.append(self._phase)
        elif what < 0.98 and self._phases:
            self.put(PhaseEnded(self._phases.pop()))
        elif what < 0.99:
            self._device.close()
            self._buffers.clear()
            self._device = self._opened()

    def _program(self, number: int) -> SimProgram:
        program = SimProgram(f"program {number}")
        create_circular_buffer(program, self._device.grid[:1], CircularBufferConfig(number + 1, 2048))
        program.add_kernel(data_movement_kernel("reader", 1000 * (number + 1)), self._device.grid)
        return program

    def die(self) -> None:
        self._world.happened(self.source, ProcessExited())
        self._world = _NOWHERE  # what the simulator reports when it is collected
        self._buffers.clear()


class _Nowhere:
    """The world of a process that died."""

    chance = random.Random(0)

    def happened(self, source: Source, event: Event) -> None:
        pass


_NOWHERE: Any = _Nowhere()


class World:
    """Simulated processes that report as clients, agents with rings, the account of both, and its recording."""

    def __init__(self, path: str, seed: int, limit: int | None = None) -> None:
        self.chance = random.Random(seed)
        self._time = 1_000_000_000.0
        self.ledger = Ledger(all_chips=TotalWithContents())
        self.sink = Sink(self.ledger, now=self.now)
        self.recorder = Recorder(path, self.sink, self._warn, limit=limit)
        self._offsets: dict[int, float] = {}
        self.rings = Rings(self.sink, record=self._follow)
        self.agents: dict[int, tuple[Agent, Source]] = {}
        self.processes: list[SimProcess] = []
        self._pid = 0
        self._unread = 0

    def _warn(self, text: str) -> None:
        raise AssertionError(text)

    def now(self) -> float:
        return self._time

    def happened(self, source: Source, event: Event) -> None:
        self._time += 1e-5
        self.sink.apply(self._time, source, event)

    def _follow(self, source: Source, ring: Ring, offset: float) -> None:
        self._offsets[source.process.info.pid] = offset
        self.recorder.follow(source, ring, offset)

    def begin_process(self) -> None:
        self._pid += 1
        self.processes.append(SimProcess(self, self._pid))

    def begin_agent(self) -> None:
        self._pid += 1
        agent = Agent()
        agent.chip(0, 7000 + self._pid, 0)  # no two share a chip: then the live account has the order of time, too
        agent.mesh(0, [0])
        source = self.ledger.source(self.now(), ProcessInfo(self._pid, 1), "agent", Confidence.EXACT)
        self.rings.adopt(self._pid, source, os.dup(agent.fd))  # type: ignore[arg-type]
        self.agents[self._pid] = agent, source
        self._tick(agent, self._pid)
        agent.opened()

    def _tick(self, agent: Agent, pid: int) -> None:
        self._time += 1e-5
        agent.clock = int((self._time - self._offsets[pid]) * 1e9)

    def act(self) -> None:
        chance = self.chance
        what = chance.random()
        if what < 0.005 and len(self.processes) > 1:
            self.processes.pop(0).die()
            self.begin_process()
        elif what < 0.01 and self.agents:
            self._end_agent()
            self.begin_agent()
        elif what < 0.6:
            chance.choice(self.processes).act()
        elif self.agents:
            pid, (agent, _) = chance.choice([*self.agents.items()])
            self._tick(agent, pid)
            if chance.random() < 0.005:
                agent.churn(2 * SLOTS)
                self._time += 1e-3  # all of them are in the past
            else:
                act(agent, chance.randrange(10), chance.randrange(12))
        self._unread = self._unread + 1 if what >= 0.6 else self._unread
        if chance.random() < 0.3 or self._unread > SLOTS // 4:
            self._unread = 0
            self.look()
        if chance.random() < 0.1:
            self.recorder.flush()

    def look(self) -> None:
        """Reader and recorder read the rings at once: then both have the same gaps."""
        self._time += 1e-5
        self.recorder.flush()
        while self.rings.follow(inf):
            pass
        self.recorder.remember(self.rings.positions(), self.rings.counts()[0])

    def _end_agent(self) -> None:
        pid = next(iter(self.agents))
        agent, source = self.agents.pop(pid)
        self.rings.finish(pid)  # type: ignore[arg-type]
        self.happened(source, ProcessExited())
        agent.close()

    def close(self) -> None:
        self.look()
        self.end = state(self.ledger)
        self.recorder.close()
        self.rings.close()
        for agent, _ in self.agents.values():
            agent.close()
        for process in self.processes:
            process.die()


@pytest.fixture(scope="module", autouse=True)
def often() -> Iterator[None]:
    """Checkpoints after few events, and no thread: the test decides when something is written."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recorder_module, "_RECORDS_BETWEEN_HISTORIES", 60)
        patch.setattr(recorder_module, "_EVENTS_BETWEEN_CHECKPOINTS", 40)
        patch.setattr(recorder_module, "_LIVE_FACTOR", 0)
        patch.setattr(segment_folder, "LEAST_BYTES", 1)
        patch.setattr(Recorder, "_start", lambda self: None)
        yield


def _past(ledger: Ledger) -> Any:
    """The history. How many records were lost differs: reader and recorder continue at different records of a gap."""
    return json.loads(re.sub(r'"dropped": [1-9][0-9]*', '"dropped": 1', json.dumps(history(ledger))))


def same_at(recording: Recording, time: float) -> None:
    moment, whole = recording.at(time), recording.at(time, from_start=True)
    assert state(moment.ledger) == state(whole.ledger)
    assert _past(moment.ledger) == _past(whole.ledger)
    if not recording.processes:  # else the live account applied records of rings later than events of their time
        assert (moment.all_chips.peak.value, moment.all_chips.peak.time) == (
            whole.all_chips.peak.value, whole.all_chips.peak.time,
        )  # fmt: skip


def recorded(path: Path, seed: int, steps: int, processes: int, agents: int) -> tuple[World, Recording]:
    world = World(str(path), seed)
    for _ in range(processes):
        world.begin_process()
    for _ in range(agents):
        world.begin_agent()
    for _ in range(steps):
        world.act()
    world.close()
    return world, Recording(str(path))


@pytest.mark.parametrize(("processes", "agents"), [(1, 0), (3, 0), (1, 1), (2, 2)])
@pytest.mark.parametrize("seed", range(2))
def test_every_block_and_random_moments(seed: int, processes: int, agents: int, folder: Path) -> None:
    world, recording = recorded(folder / "run.ttmem", seed, 300, processes, agents)
    with recording:
        blocks = recording.blocks()
        assert sum(block.type == BlockType.HISTORY for block in blocks) > 2
        assert sum(block.type == BlockType.EVENTS and bool(block.flags & CHECKPOINT) for block in blocks) > 2
        times = {block.time for block in blocks if block.type in (BlockType.RECORDS, BlockType.EVENTS)}
        times |= {block.time for block in blocks if block.type == BlockType.HISTORY}
        chance = random.Random(seed)
        moments = chance.sample(sorted(times), min(16, len(times)))
        for time in [*moments, *(chance.uniform(recording.begin, recording.end) for _ in range(8)), inf]:
            same_at(recording, time)
        assert state(recording.at().ledger)["totals"] == world.end["totals"]
        assert not recording.problems


@settings(max_examples=8)
@given(st.integers(0, 1 << 30), st.integers(1, 3), st.integers(0, 2), st.integers(30, 150))
def test_any_program(
    tmp_path_factory: pytest.TempPathFactory, seed: int, processes: int, agents: int, steps: int
) -> None:
    path = tmp_path_factory.mktemp("recorded") / "run.ttmem"
    _, recording = recorded(path, seed, steps, processes, agents)
    with recording:
        chance = random.Random(seed)
        for time in [*(chance.uniform(recording.begin, recording.end) for _ in range(4)), inf]:
            same_at(recording, time)
        assert not recording.problems


def test_nothing_is_written_while_a_client_reports_everything_again(folder: Path) -> None:
    """What it holds is then not known; a checkpoint is written afterwards."""
    path = folder / "run.ttmem"
    world = World(str(path), 1)
    source = world.ledger.source(world.now(), ProcessInfo(1, 1), "client", Confidence.REPORTED)

    def allocate(first: int) -> None:
        for number in range(first, first + 50):
            world.happened(source, Allocated(0, Kind.DRAM, 4096 * number, 64))

    allocate(1)
    world.happened(source, ResyncBegin(1))
    world.look()
    allocate(1)
    world.happened(source, ResyncEnd(1))
    world.look()
    allocate(51)
    world.look()
    world.close()
    with Recording(str(path)) as recording:
        held = [block.number for block in recording.blocks() if block.flags & CHECKPOINT]
        assert held == [102, 152]
        same_at(recording, inf)
        assert recording.at().ledger.live_count() == 100


def test_a_damaged_checkpoint(folder: Path) -> None:
    """An earlier one is used, and a sentence says that something is damaged."""
    path = folder / "run.ttmem"
    _, recording = recorded(path, 4, 150, 1, 0)
    with recording:
        (*_, last) = (block for block in recording.blocks() if block.flags & CHECKPOINT)
        expected = state(recording.at().ledger)
    whole = path.read_bytes()
    for place in (last.at, last.at + last.stored // 2, last.at + last.stored - 1):
        damaged = bytearray(whole)
        damaged[place] ^= 0x55
        path.write_bytes(damaged)
        with Recording(str(path)) as recording:
            assert state(recording.at().ledger) == expected
            assert len(recording.problems) == 1


def test_too_much_for_a_checkpoint(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Making it would block the account, so moments are opened from the start."""
    monkeypatch.setattr(recorder_module, "_MOST_CHECKPOINT_EVENTS", 100)
    _, recording = recorded(folder / "run.ttmem", 3, 150, 2, 0)
    with recording:
        assert not any(block.flags & CHECKPOINT for block in recording.blocks())
        assert sum(block.type == BlockType.HISTORY for block in recording.blocks()) > 2
        same_at(recording, inf)


def test_old_segments_are_deleted(folder: Path) -> None:
    """The first segment that is left begins with what clients hold and with the processes that exited."""
    world = World(str(folder / "run"), 5, limit=60_000)
    world.begin_process()
    world.begin_process()
    for _ in range(700):
        world.act()
    world.close()
    with Recording(str(folder / "run")) as recording:
        assert recording.blocks()[0].type == BlockType.FACTS
        found = recording.at().ledger
        assert state(found)["totals"] == world.end["totals"]
        assert sorted(row[:7] for row in state(found)["live"]) == sorted(row[:7] for row in world.end["live"])
        assert not recording.problems

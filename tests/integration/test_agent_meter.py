# SPDX-License-Identifier: Apache-2.0
"""The agent's meters inside real ttnn programs, compared with ttnn's account, the programs' own, and all records."""

from __future__ import annotations

import subprocess
from collections import Counter, defaultdict
from collections.abc import Container, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.agents import Agent, Collector, watched
from tests.mock.boards import BOARDS
from tests.mock.program import Program
from tests.mock.wheel import ROOT, in_turn, wheel
from ttmem.agent import require
from ttmem.collect.meters import DRAM_POOL, L1_POOL, Reading
from ttmem.model.kinds import KINDS, POOL_OF, Kind, Pool
from ttmem.wire.agent_ring import PROGRAM_FRAME, SHARED, Record, RingEvent
from ttmem.wire.ring_meters import measured, meters

HERE = {"PYTHONPATH": str(ROOT / "src")}
BUFFER_KINDS = (Kind.DRAM, Kind.L1, Kind.L1_SMALL, Kind.TRACE)
POOLS = {Pool.DRAM: DRAM_POOL, Pool.L1: L1_POOL, Pool.PROGRAM: L1_POOL}
# What the memory also contains, and the workload does not read: the parts of L1.
PARTS = {"l1_buffer_pool": (Kind.L1, Kind.L1_SMALL),
         "program_pool": (Kind.CB, Kind.DFB, Kind.SCRATCHPAD, Kind.KERNEL, Kind.FIRMWARE)}  # fmt: skip
NOTHING = Reading(0, 0, 0, 0)
Key = tuple[int | None, str]


def readings_of(record: dict[str, Any]) -> dict[Key, Reading]:
    readings = {(device, gauge): Reading(*numbers) for device, gauge, *numbers in record["readings"]}
    assert len(readings) == len(record["readings"])
    return readings


class Model:
    """Every record in turn, with one sum per chip: no tables, no groups of chips."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._done = 0
        self._live: dict[int, Record] = {}
        self._sums: defaultdict[Key, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
        self.highest: defaultdict[Key, list[int]] = defaultdict(lambda: [0, 0])  # since the start

    def follow(self) -> dict[Key, Reading]:
        for record in self._agent.history[self._done :]:
            if record.event == RingEvent.ALLOCATED:
                self._live[record.slot] = record
                self._change(record, 1)
            elif record.event == RingEvent.FREED:
                self._change(self._live.pop(record.slot), -1)
            elif record.event == RingEvent.DESTROYED:
                for slot in [slot for slot, allocation in self._live.items() if allocation.program == record.program]:
                    self._change(self._live.pop(slot), -1)
        self._done = len(self._agent.history)
        return {key: Reading(*sums) for key, sums in self._sums.items()}

    def reset(self) -> None:
        for sums in self._sums.values():
            sums[2:] = sums[:2]

    def _change(self, record: Record, sign: int) -> None:
        assert record.kind != PROGRAM_FRAME
        mesh, kind = self._agent.ring.mesh(record.mesh), KINDS[record.kind]
        used = 0 if record.flags & SHARED else record.size
        reserved = record.per_bank * mesh.banks[kind].banks if kind < Kind.CB else 0
        gauges = [kind.label] + [POOLS[pool] for pool in (POOL_OF[kind],) if pool in POOLS]
        gauges += [part for part, kinds in PARTS.items() if kind in kinds]
        chips = [chip.number for chip in self._agent.ring.chips_of(mesh)]
        for gauge in gauges:
            for key, times in [*(((chip, gauge), 1) for chip in chips), ((None, gauge), len(chips))]:
                sums = self._sums[key]
                sums[0] += sign * used * times
                sums[1] += sign * reserved * times
                sums[2:] = [max(sums[0], sums[2]), max(sums[1], sums[3])]
                self.highest[key] = [max(now, before) for now, before in zip(sums, self.highest[key])]


def check_same(readings: dict[Key, Reading], model: dict[Key, Reading], leave_out: Container[str] = PARTS) -> None:
    """A gauge that never changed need not be in the model."""
    assert {key: reading for key, reading in readings.items() if reading != NOTHING} == {
        key: reading for key, reading in model.items() if reading != NOTHING and key[1] not in leave_out
    }


def check_outside(agent: Agent, model: Model) -> dict[Key, Reading]:
    """What another process reads."""
    found = meters(agent.ring)
    outside = {key: Reading(*meter[:4]) for key, meter in found.items()}
    check_same(outside, model.follow(), leave_out={L1_POOL})
    assert {key: meter[4:] for key, meter in found.items() if any(meter)} == {
        key: tuple(highest) for key, highest in model.highest.items() if any(highest) and key[1] != L1_POOL
    }
    return outside


def check_views(readings: dict[Key, Reading], record: dict[str, Any]) -> None:
    """The bytes reserved by the allocator, on each chip and on all together."""
    chips = record["chips"]
    for kind in BUFFER_KINDS:
        view = record["views"][kind.name]
        taken = view["banks"] * view["allocated_per_bank"]
        assert [readings[chip, kind.label].reserved for chip in chips] == [taken] * len(chips)
        assert readings[None, kind.label].reserved == taken * len(chips)


def check_empty(readings: dict[Key, Reading], board: str) -> None:
    assert {device for device, _ in readings} == {None, *BOARDS[board].chips}
    assert {reading[:2] for reading in readings.values()} == {(0, 0)}


@contextmanager
def metered(
    python: str, scene: str, board: str, folder: Path, *arguments: str, **environment: str
) -> Iterator[tuple[Collector, Program]]:
    options = ("--scene", scene, *arguments)
    with watched(python, "ttnn_meter", board, folder, *options, environment={**HERE, **environment}) as both:
        yield both


@pytest.mark.parametrize(
    ("board", "steps", "seed", "python"),
    [("n150", 250, 21, "3.12"), ("n300", 80, 22, "3.10"), ("t3k", 40, 23, "3.12")],
)
def test_a_random_program(board: str, steps: int, seed: int, python: str, folder: Path) -> None:
    """After every step, and over every period between two resets: with threads, operations and cache clears."""
    resets = higher = 0
    seen = Counter[str]()
    arguments = ("--steps", str(steps), "--seed", str(seed))
    with metered(python, "random", board, folder, *arguments) as (collector, program):
        model = None
        for record in program.records():
            assert record["error"] is None
            collector.drain()
            agent = collector.agents[program.pid]
            model = model or Model(agent)
            readings = readings_of(record)
            check_same(readings, model.follow())
            if record["reset"]:
                model.reset()
                resets += 1
            higher += any(reading.peak > reading.used for reading in readings.values())
            check_outside(agent, model)
            if record["what"] == "closed":
                check_empty(readings, board)
            else:
                check_views(readings, record)
            seen[record["what"]] += 1
    assert seen["reset"] == seen["cleared"] == seen["closed"] == 1
    assert resets > 3
    assert higher > 10
    assert seen["threads"] or steps < 250


@pytest.mark.parametrize(
    ("scene", "board"),
    [
        ("part_of_a_mesh", "n300"),
        ("two_devices", "n300"),
        ("freed_wholesale", "n150"),
        ("closed_with_live_tensors", "n150"),
        ("global_allocations", "n150"),
    ],
)
def test_a_scene(scene: str, board: str, folder: Path) -> None:
    """Chips that are in several meshes, and allocations that are freed in unusual ways; read from outside."""
    with watched("3.12", "ttnn_scenes", board, folder, "--scene", scene) as (collector, program):
        model = None
        for _ in program.records():
            collector.drain()
            agent = collector.agents[program.pid]
            model = model or Model(agent)
            outside = check_outside(agent, model)
        groups = Counter(group.gauge for group in measured(agent.ring).groups if group.numbers is not None)
    assert any(reading.peak for reading in outside.values())
    check_empty(outside, board)
    assert set(groups.values()) <= {1, len(BOARDS[board].chips)}  # chips that did not always hold the same
    assert groups["l1"] == groups["l1_buffer_pool"] == len(BOARDS[board].chips)


def test_routers_on_parts_of_a_mesh(folder: Path) -> None:
    """With the fabric, every chip has its own program."""
    with metered("3.12", "reopened", "n300", folder, "--fabric") as (collector, program):
        model = None
        routers = 0
        for record in program.records():
            collector.drain()
            if program.pid in collector.agents:
                model = model or Model(collector.agents[program.pid])
                readings = readings_of(record)
                check_same(readings, model.follow())
                routers = max(routers, readings[1, "fabric_kernel"].used)
    assert routers > 0


@pytest.mark.parametrize("board", ["n150", "n300"])
def test_a_peak_of_many_threads_that_nobody_looked_at(board: str, folder: Path) -> None:
    with metered("3.12", "threads", board, folder) as (_, program):
        before, after = list(program.records())
    chips = BOARDS[board].chips
    first, last = readings_of(before), readings_of(after)
    for kind, pool in (("dram", DRAM_POOL), ("l1", L1_POOL)):
        for gauge in (kind, pool):
            for device, times in [*((chip, 1) for chip in chips), (None, len(chips))]:
                assert last[device, gauge].peak == first[device, gauge].used + after["held"] * times
                assert last[device, gauge].used == first[device, gauge].used
    check_views(last, after)


@pytest.mark.parametrize(("board", "python"), in_turn(("n150", "n300")))
def test_a_device_that_is_closed_and_opened_again(board: str, python: str, folder: Path) -> None:
    open_readings = []
    with metered(python, "reopened", board, folder) as (_, program):
        for record in program.records():
            readings = readings_of(record)
            if record["what"] == "nothing yet":
                assert record["available"]
                assert readings == {}
            elif record["what"].startswith("open"):
                check_views(readings, record)
                assert readings[0, "dram"].used == 2 * 2 * 64 * 64
                assert readings[0, "l1"].used == 2 * 96 * 96
                assert readings[0, "kernel"].used > 0
                open_readings.append({key: reading[:2] for key, reading in readings.items()})
            else:
                check_empty(readings, board)
    assert len(open_readings) == 3
    assert open_readings[0] == open_readings[1] == open_readings[2]


PHASE_EVENTS = (RingEvent.PHASE_BEGAN, RingEvent.PHASE_ENDED)


def marks_of(agent: Agent) -> list[tuple[RingEvent, int, int, str | None]]:
    return [
        (RingEvent(record.event), record.address, record.size, agent.ring.name(record.name))
        for record in agent.history
        if record.event in PHASE_EVENTS
    ]


def test_phases(folder: Path) -> None:
    """Each mark returns the peaks since the previous one, and is at its place among the records."""
    readings = {}
    with metered("3.12", "phases", "n300", folder) as (collector, program):
        for record in program.records():
            readings[record["what"]] = readings_of(record)
            collector.drain()
        agent = collector.agents[program.pid]
        marks = marks_of(agent)
        events = [RingEvent(record.event) for record in agent.history]
    assert readings["outer began"] == {}
    large, small, passing = 2 * 128 * 128, 2 * 64 * 64, 2 * 32 * 32
    for device, times in ((0, 1), (1, 1), (None, 2)):
        peaks = {what: found[device, "dram"] for what, found in readings.items() if found}
        assert {what: (reading.used, reading.peak) for what, reading in peaks.items()} == {
            "inner began": (small * times, (small + large) * times),
            "inner ended": (small * times, (small + passing) * times),
            "outer ended": (0, small * times),
        }
    assert marks == [
        (RingEvent.PHASE_BEGAN, 1, 0, "outer \N{SNOWMAN}"),
        (RingEvent.PHASE_BEGAN, 2, 1, "inner"),
        (RingEvent.PHASE_ENDED, 2, 0, None),
        (RingEvent.PHASE_ENDED, 1, 0, None),
    ]
    assert events[0] == RingEvent.PHASE_BEGAN  # the agent starts with the device, and with open phases
    first, second, third, last = (number for number, event in enumerate(events) if event in PHASE_EVENTS)
    assert events[second + 1 : third] == [RingEvent.ALLOCATED, RingEvent.FREED]
    assert RingEvent.CLOSED in events[third:last]
    assert (first, last) == (0, len(events) - 1)


def test_a_fork(folder: Path) -> None:
    """Each has its own meters. Those of the child begin at 0, in the phase that was open."""
    found = {}
    with metered("3.12", "fork", "n150", folder) as (collector, program):
        pids = {}
        for record in program.records():
            collector.drain()
            found[record["what"]], pids[record["what"]] = readings_of(record), record["pid"]
            if record["what"] == "child idle":
                assert record["available"]
            if record["what"] == "after":
                assert record["status"] == 0
        collector.drain()
        parent, child = (marks_of(collector.agents[pids[what]]) for what in ("before", "child"))
    small, large = 2 * 64 * 64, 2 * 128 * 128
    assert found["before"][0, "l1"].used == small
    assert found["before"] == found["after"]
    assert found["child idle"] == {}
    assert {key: reading[:1] for key, reading in found["child"].items() if any(reading)} == {
        (device, gauge): (large,) for device in (None, 0) for gauge in ("l1", L1_POOL)
    }
    assert (found["child let go"][0, "l1"].used, found["child let go"][0, "l1"].peak) == (0, large)
    assert parent == child == [(RingEvent.PHASE_BEGAN, 7, 0, "around"), (RingEvent.PHASE_ENDED, 7, 0, None)]


def test_switched_off_there_is_no_meter(folder: Path) -> None:
    command = [
        wheel("3.12").python, "-c", "from ttmem.collect.agent_meter import AgentMeter\n"
        "meter = AgentMeter()\n"
        "print(meter.available(), meter.read(), meter.phase_began(1, 'x', 0), meter.phase_ended(1))",
    ]  # fmt: skip
    for environment, available in (({}, False), ({"LD_PRELOAD": str(require())}, True),
                                   ({"LD_PRELOAD": str(require()), "TTMEM_AGENT": "0"}, False)):  # fmt: skip
        ran = subprocess.run(command, env={**HERE, **environment}, capture_output=True, text=True, check=True)
        assert ran.stdout == f"{available} {{}} {{}} {{}}\n"

# SPDX-License-Identifier: Apache-2.0
"""Statistics of scripted recordings: every figure is that of a naive count over the same events."""

from __future__ import annotations

import random
from collections.abc import Iterator
from math import inf
from typing import Any

import pytest

from tests.naive_stats import Naive, Walk, check, check_fragmentation
from tests.recordings import RingRecording
from tests.schema_conformance import problems
from tests.scripted_agent import BANKS, L1_BASE, SLOTS, Agent
from tests.unit import test_moments as moments
from ttmem.model import schema
from ttmem.model.events import (
    Allocated,
    DeviceClosed,
    DeviceOpened,
    Event,
    Freed,
    PhaseBegan,
    PhaseEnded,
    ProgramCompiled,
    ProgramDestroyed,
)
from ttmem.model.identity import ChipInfo
from ttmem.model.kinds import Kind
from ttmem.recording.recording_file import Recording
from ttmem.statistics import fragmentation_over_time
from ttmem.statistics.stats_document import stats_of, window_of
from ttmem.wire.agent_ring import BINARY, KEPT, WHOLESALE, RingEvent

TOP = 3
KINDS = (Kind.DRAM, Kind.L1, Kind.DRAM, Kind.TRACE)


class Script:
    """Agents that allocate, free, compile, fail and have phases at random, and are polled before a ring is full."""

    def __init__(self, seed: int, processes: int, chips: int) -> None:
        self.chance = random.Random(seed)
        self.agents = [Agent() for _ in range(processes)]
        self.clock = self.agents[0].clock
        self.names: list[list[int]] = []
        for agent in self.agents:
            for chip in range(chips):
                agent.chip(chip, 555 + chip, chip)
            agent.mesh(0, list(range(chips)))
            agent.mesh(1, [0], parent=0)
            causes = [
                f"ttnn.op{n % 3}\n[{n}, 32]\nsite-packages/ttnn/x.py:1 call\nmodel.py:{n % 4} f" for n in range(6)
            ]
            self.names.append([*(agent.blob(cause.encode()) for cause in causes), 0])
            agent.opened(0)
        self.recorded = RingRecording(*self.agents)
        self.open_phase: dict[int, int] = {}
        self.compiled = 100

    def step(self) -> None:
        chance, number = self.chance, self.chance.randrange(len(self.agents))
        agent = self.agents[number]
        agent.clock = self.clock = max(self.clock, agent.clock) + chance.choice((1000, 5000, 100_000))
        what, slot = chance.random(), chance.randrange(40)
        if what < 0.04:
            agent.record(RingEvent.FAILED, name=agent.blob(b"Out of Memory: it is full"))
        elif what < 0.12:
            phase = agent.get("phases_began")
            if number in self.open_phase:
                agent.record(RingEvent.PHASE_ENDED, address=self.open_phase.pop(number))
            else:
                agent.put(phases_began=phase + 1)
                self.open_phase[number] = phase + 1
                name = agent.blob(chance.choice((b"prefill", b"decode")))
                agent.record(RingEvent.PHASE_BEGAN, address=phase + 1, name=name)
        elif what < 0.25 and not number:
            self._program(agent, 48 + slot % 8)
        elif slot in agent.live:
            agent.free(slot)
        else:
            per_bank = 32 * chance.randrange(1, 60)
            kind = chance.choice(KINDS)
            base = L1_BASE if kind == Kind.L1 else 0
            agent.allocate(
                slot, per_bank * BANKS - chance.randrange(32), base + 2048 * slot + 32, kind=kind, per_bank=per_bank,
                mesh=chance.choice((0, 0, 1)), name=chance.choice(self.names[number]),
                flags=chance.choice((0, 0, 0, BINARY, KEPT)),
            )  # fmt: skip
            if chance.random() < 0.4:
                agent.free(slot)  # a temporary one

    def _program(self, agent: Agent, slot: int) -> None:
        if slot in agent.live:
            agent.destroyed(slot, agent.live[slot].program)
            return
        self.compiled += 1  # no number is used twice
        agent.program(slot, self.compiled, ran=self.chance.random() < 0.5)
        if slot < 52:
            size = 100 * self.chance.randrange(9)
            agent.allocate(slot + 8, size, 1 << 18, kind=Kind.CB, program=self.compiled, per_bank=size)

    def close_device(self, number: int) -> None:
        """What is live is freed with the device."""
        agent = self.agents[number]
        for slot in [slot for slot, record in agent.live.items() if not record.program]:
            record = agent.live[slot]
            agent.live[slot] = record._replace(flags=record.flags | WHOLESALE)
            agent.free(slot)
            self.recorded.poll()
        agent.record(RingEvent.CLOSED, mesh=0)

    def recording(self, steps: int) -> Recording:
        for number in range(steps):
            self.step()
            if number % (SLOTS // 8) == 0:
                self.recorded.poll(flush=number % 40 == 0)
        self.recorded.poll()
        self.close_device(0)
        return self.recorded.recording()

    def close(self) -> None:
        for agent in self.agents:
            agent.close()


@pytest.fixture(scope="module", params=[(1, 1, 1), (2, 2, 4), (3, 1, 2), (4, 2, 2)], ids=str)
def scripted(request: pytest.FixtureRequest) -> Iterator[tuple[Recording, Walk]]:
    script = Script(*request.param)
    recording = script.recording(500)
    yield recording, Walk(recording)
    script.close()


def stats(
    recording: Recording, *, after: float | None = None, until: float = inf, chips: Any = None
) -> tuple[Any, Any]:
    window = window_of(recording, after, until, chips)
    found = stats_of(recording, window, recording.at().ledger, top=TOP, is_failure=lambda text: True)
    assert problems(found, schema.Stats) == []
    return found, window


def test_every_figure_is_that_of_a_naive_count(scripted: tuple[Recording, Walk]) -> None:
    recording, walk = scripted
    found, window = stats(recording)
    check(found, Naive(walk, set(window.chips)), most=TOP)
    assert not recording.problems
    assert sum(row["temporary"]["count"] for top in found["tops"] for row in top["rows"]) > 10
    assert found["freed_late"]["count"] > 3
    assert found["failures"] > 3


@pytest.mark.parametrize(("first", "last"), [(0.3, 0.7), (0.0, 0.5), (0.5, 1.0), (0.4, 0.4)])
def test_a_window_and_one_chip(scripted: tuple[Recording, Walk], first: float, last: float) -> None:
    recording, walk = scripted
    begin, length = recording.begin, recording.end - recording.begin
    found, window = stats(
        recording, after=begin + first * length, until=begin + last * length, chips=frozenset({"555"})
    )
    assert found["chips"] == ["555"]
    check(found, Naive(walk, {"555"}, window.after, window.until), most=TOP)


@pytest.mark.parametrize("count", [fragmentation_over_time.MOMENTS, 16])
def test_fragmentation_is_that_of_every_block(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fragmentation_over_time, "MOMENTS", count)
    script = Script(5, 1, 2)
    recording = script.recording(700)
    walk = Walk(recording)
    found, window = stats(recording)
    naive = Naive(walk, set(window.chips))
    check_fragmentation(found, naive, recording, wanted=2)
    assert all(one["worst"]["largest"] < one["worst"]["free"] for one in found["fragmentation"])
    phases = {row["phase"]: row for row in found["phases"]}
    assert set(phases) == {"prefill", "decode"}
    series = {one["kind"]: one["series"] for one in found["fragmentation"]}
    for name, row in phases.items():
        runs = _runs(recording, name)
        assert row["runs"] == len(runs)
        for kind in ("dram", "l1"):
            inside = [
                point["largest"] / point["free"]
                for point in series[kind]
                if any(begin <= point["after_s"] + 1e-10 and point["after_s"] < end for begin, end in runs)
            ]
            assert row[kind]["largest"] / row[kind]["free"] == min(inside)
    script.close()


def _runs(recording: Recording, name: str) -> list[tuple[float, float]]:
    """From when to when a phase ran."""
    found: list[tuple[str, float, float]] = []
    began: dict[int, tuple[str, float]] = {}
    for one in recording.phases():
        time = one.time - recording.begin
        if isinstance(one.event, PhaseBegan):
            began[one.event.ident] = one.event.name, time
        elif isinstance(one.event, PhaseEnded) and one.event.ident in began:
            found.append((*began.pop(one.event.ident), time))
    found += [(*one, inf) for one in began.values()]
    return [(begin, end) for which, begin, end in found if which == name]


def test_a_peak_that_is_reached_again_has_its_first_time() -> None:
    story: list[tuple[float, Event]] = [
        (0.0, DeviceOpened(0, ChipInfo("77"))),
        (1.0, Allocated(0, Kind.DRAM, 0x1000, 100)),
        (3.0, Freed(0, Kind.DRAM, 0x1000, 100)),
        (4.0, Allocated(0, Kind.DRAM, 0x2000, 100)),
        (5.0, Freed(0, Kind.DRAM, 0x2000, 100)),
    ]
    recording = moments.recording(story)
    for after, peak_at in ((None, 1.0), (recording.begin + 2.0, 2.0), (recording.begin + 3.5, 4.0)):
        found, _ = stats(recording, after=after)
        peak = found["kinds"][0]["peak"]
        assert peak["per_chip"] == 100
        assert peak["after_s"] == pytest.approx(peak_at, abs=1e-6)


def test_programs_of_a_source_without_a_ring() -> None:
    story: list[tuple[float, Event]] = [
        (0.0, DeviceOpened(0, ChipInfo("77"))),
        (1.0, ProgramCompiled(0, 5, 4096, 1, "matmul")),
        (1.0, Allocated(0, Kind.CB, 0x1000, 100, 5)),
        (2.0, ProgramCompiled(0, 6, 8192, 2, "add")),
        (3.0, ProgramCompiled(0, 6, 8192, 2, "add")),
        (4.0, ProgramDestroyed(0, 5)),
        (5.0, Allocated(0, Kind.DRAM, 0x1000, 100)),
        (6.0, Freed(0, Kind.DRAM, 0x1000, 100)),
        (9.0, DeviceClosed(0)),
        (10.0, DeviceOpened(0, ChipInfo("77"))),
    ]
    recording = moments.recording(story)
    found, window = stats(recording)
    check(found, Naive(Walk(recording), set(window.chips)), most=TOP)
    assert [row["live"] for row in found["programs"]["tenths"]] == [1, 2, 2, 1, 1, 1, 1, 1, 0, 0]
    assert (found["programs"]["compiled"], found["programs"]["destroyed"]) == (2, 2)
    ring = found["kernel_ring"]
    assert (ring["used_max"], ring["op"], ring["after_s"], ring["chips"]) == (8192, "add", 2.0, ["77"])


def test_only_the_most_confident_source_of_a_process_counts() -> None:
    """Two sources of one process report the same buffer; a third kind of memory only the weaker one."""
    from tests.recordings import two_sources

    recording = two_sources()
    found, window = stats(recording)
    walk = Walk(recording)
    check(found, Naive(walk, set(window.chips)), most=TOP)
    assert {row["kind"]: row["made"] for row in found["kinds"]} == {
        "dram": {"count": 1, "bytes": 1000}, "l1": {"count": 1, "bytes": 64},
    }  # fmt: skip
    at_end = {kind.label: total.used for kind, total in zip(Kind, recording.at().ledger.chips["77"].kinds)}
    assert {row["kind"]: row["live"]["bytes"] for row in found["kinds"]} == {
        label: used for label, used in at_end.items() if used
    }


def test_an_empty_recording() -> None:
    found, _ = stats(moments.recording([(0.0, DeviceOpened(0, ChipInfo("77")))]))
    assert found["kinds"] == found["tops"] == found["fragmentation"] == found["chips"] == []
    assert found["host"] is None
    assert found["kernel_ring"] is None

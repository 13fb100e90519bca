# SPDX-License-Identifier: Apache-2.0
"""Leaks of recordings that a test writes: what the steps are, the past of groups, and the moment that is judged."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.recordings import RingRecording
from tests.schema_conformance import problems
from tests.scripted_agent import Agent
from ttmem.analyze import recorded_growth
from ttmem.analyze.recorded_closings import closing_times
from ttmem.documents.leaks import Request
from ttmem.documents.recorded_leaks import recorded_leaks
from ttmem.model import schema
from ttmem.recording.moments import phase_begins
from ttmem.wire.agent_ring import RingEvent

MILLISECOND = 1_000_000


class Program:
    """A program whose agent is written by the test. Each action takes a millisecond."""

    def __init__(self, chip: int = 555) -> None:
        self.agent = Agent()
        self.agent.chip(0, chip, 0)
        self.agent.mesh(0, [0])
        self.agent.opened()
        self.recorded = RingRecording(self.agent)
        self._names: dict[str, int] = {}
        self._free = list(range(60))
        self._phases = 0

    @property
    def now(self) -> float:
        return self.agent.clock * 1e-9

    def make(self, line: str, size: int = 100) -> int:
        """Allocate; returns what `free` takes. A name is an operation, and a line if there is a second word."""
        self._pass()
        op, _, line = line.partition(" ")
        text = f"{op}\n\n{line}" if line else op
        slot = self._free.pop(0)
        name = self._names.get(text) or self._names.setdefault(text, self.agent.blob(text.encode()))
        self.agent.allocate(slot, size, name=name)
        return slot

    def free(self, slot: int) -> None:
        self._pass()
        self.agent.free(slot)
        self._free.append(slot)

    def use(self, line: str) -> None:
        """Something temporary."""
        self.free(self.make(line))

    def begin(self, name: str) -> None:
        self._pass()
        self._phases += 1
        self.agent.record(RingEvent.PHASE_BEGAN, address=self._phases, name=self.agent.blob(name.encode()))

    def end(self) -> None:
        self._pass()
        self.agent.record(RingEvent.PHASE_ENDED, address=self._phases)

    def close(self) -> None:
        self._pass()
        self.agent.put_mesh(0, state=2)
        self.agent.record(RingEvent.CLOSED, mesh=0)

    def _pass(self) -> None:
        self.agent.clock += MILLISECOND
        self.recorded.poll()

    def leaks(self, time: float | None = None, **request: Any) -> Any:
        recording = self.recorded.recording()
        closings = closing_times(recording) if time is None else {}
        found = recorded_leaks(recording, Request(**request), closings, time)
        assert problems(found, schema.Leaks) == []
        return found


@pytest.fixture
def program() -> Iterator[Program]:
    made = Program()
    yield made
    made.agent.close()


def growing(found: Any) -> dict[str, float]:
    """Rates by line or operation."""
    return {row["line"] or row["op"]: row["growth"]["per_step"] for row in found["growing"]}


def held(found: Any) -> dict[str, int]:
    return {row["line"] or row["op"]: row["count"] for row in found["held"]}


def how(found: Any) -> tuple[Any, ...]:
    (judged,) = found["judged"]
    return judged["by"], judged["name"], judged["steps"]


def test_what_leaks_in_each_step_grows_and_what_was_made_before_is_held(program: Program) -> None:
    for _ in range(6):
        program.make("zeros model.py:3 load")
    for step in range(20):
        program.use("add model.py:7 forward")
        program.make("add model.py:8 forward")
        if step % 2:
            program.make("add model.py:9 forward")
    program.close()
    found = program.leaks()
    assert how(found) == ("line", "model.py:7 forward", 20)
    assert growing(found) == {"model.py:8 forward": 1.0, "model.py:9 forward": 0.5}
    assert held(found) == {"model.py:3 load": 6}
    assert found["verdict"]["leak"] is True
    first = found["growing"][0]
    assert first["growth"]["history"][-1] == first["count"] == 20
    assert len(first["growth"]["history"]) == 16
    assert first["growth"]["history"] == sorted(first["growth"]["history"])
    assert first["stack"] == ["model.py:8 forward"]
    assert found["doubts"] == []


def test_layers_that_are_loaded_are_no_steps(program: Program) -> None:
    """One pass after loading: what was loaded layer by layer does not grow."""
    for _ in range(8):
        program.use("tilize model.py:2 load")
        program.make("zeros model.py:3 load")
        program.make("zeros model.py:4 load")
    for line in range(10, 22):
        program.use(f"add model.py:{line} forward")
    program.close()
    found = program.leaks()
    assert growing(found) == {}
    assert held(found) == {"model.py:3 load": 8, "model.py:4 load": 8}
    assert how(found) == ("line", None, 0)
    assert found["doubts"] == ["nothing was repeated often enough to judge growth (pid 1)"]


def test_layers_of_a_pass_are_steps_only_if_there_is_nothing_better(program: Program) -> None:
    """Most lines run once for each layer, some once for each step."""
    for _ in range(16):
        program.use("embedding model.py:1 forward")
        for _ in range(4):
            for line in (2, 3, 4):
                program.use(f"matmul model.py:{line} layer")
        program.use("argmax model.py:9 forward")
        program.make("concat model.py:10 forward")
    program.close()
    assert how(program.leaks()) == ("line", "model.py:1 forward", 16)
    assert growing(program.leaks()) == {"model.py:10 forward": 1.0}


def test_windows_and_lists_do_not_grow(program: Program) -> None:
    window: list[int] = []
    kept: list[int] = []
    for step in range(40):
        window.append(program.make("zeros model.py:1 window"))
        if len(window) > 8:
            program.free(window.pop(0))
        kept.append(program.make("zeros model.py:2 kept"))
        if step % 15 == 14:
            while kept:
                program.free(kept.pop())
    program.close()
    found = program.leaks()
    assert growing(found) == {}
    assert held(found) == {"model.py:1 window": 8, "model.py:2 kept": 10}
    assert growing(program.leaks(since=program.now - 0.02)) == {}, "the past before --since is known, too"


def test_phases_are_steps_if_they_last_until_the_end(program: Program) -> None:
    for _ in range(6):
        program.begin("load layer")
        program.make("zeros model.py:3 load")
        for _ in range(5):
            program.use("tilize model.py:2 load")
        program.end()
    for _ in range(30):
        program.begin("token")
        program.use("add model.py:7 forward")
        program.end()
    program.make("zeros model.py:9 result")
    program.close()
    found = program.leaks()
    assert how(found) == ("phase", "token", 30)
    assert growing(found) == {}
    assert held(found) == {"model.py:3 load": 6, "model.py:9 result": 1}


def test_the_phase_that_takes_most_time_counts(program: Program) -> None:
    for _ in range(8):
        program.begin("step")
        for _ in range(3):
            program.begin("layer")
            program.use("add model.py:7 forward")
            program.end()
        program.make("add model.py:8 forward")
        program._phases -= 3  # the phase that encloses them
        program.end()
        program._phases += 3
    program.close()
    found = program.leaks()
    assert how(found) == ("phase", "step", 8)
    assert growing(found) == {"model.py:8 forward": 1.0}


def test_a_moment_in_the_middle(program: Program) -> None:
    """A leak is not yet one, then it is, and when the device is closed nothing is left."""
    moments = []
    for step in range(30):
        program.use("add model.py:7 forward")
        if step >= 10:
            program.make("add model.py:8 forward")
        moments.append(program.now)
    program.close()
    assert growing(program.leaks(moments[9])) == {}
    assert growing(program.leaks(moments[20])) == {"model.py:8 forward": 1.0}
    assert program.leaks(moments[20])["verdict"]["count"] == 11
    assert program.leaks(program.now)["verdict"]["leak"] is False
    assert held(program.leaks(program.now)) == {}
    assert program.leaks()["verdict"]["count"] == 20


def test_a_program_that_is_still_running_is_judged_at_the_end(program: Program) -> None:
    for _ in range(10):
        program.use("add model.py:7 forward")
        program.make("add model.py:8 forward")
    assert growing(program.leaks()) == {"model.py:8 forward": 1.0}


def test_a_device_that_is_opened_again_begins_anew(program: Program) -> None:
    """The last time counts."""
    for _ in range(10):
        program.use("add model.py:7 forward")
        program.make("add model.py:8 forward")
    program.close()
    for slot in list(program.agent.live):
        program.agent.live.pop(slot)
        program.agent.clear_live(slot)
    program.agent.mesh(1, [0])
    program.agent.opened(1)
    program.agent.allocate(61, 100, mesh=1)
    program.agent.clock += MILLISECOND
    program.agent.put_mesh(1, state=2)
    program.agent.record(RingEvent.CLOSED, mesh=1)
    found = program.leaks()
    assert growing(found) == {}
    assert [row["count"] for row in found["held"]] == [1]


def test_since_leaves_out_what_was_made_before(program: Program) -> None:
    for _ in range(10):
        program.use("add model.py:7 forward")
        program.make("add model.py:8 forward")
    since = program.now + 0.0005
    for _ in range(10):
        program.use("add model.py:7 forward")
    program.make("add model.py:9 result")
    program.close()
    assert held(program.leaks(since=since)) == {"model.py:9 result": 1}
    assert how(program.leaks(since=since)) == ("line", "model.py:7 forward", 10)


@pytest.mark.parametrize(
    ("pattern", "left"),
    [
        ("model.py:8", {"model.py:9 forward"}),
        ("model.py:*", set()),
        ("*forward", set()),
        ("ad?", set()),
        ("[", {"model.py:8 forward", "model.py:9 forward"}),
        ("\\", {"model.py:8 forward", "model.py:9 forward"}),
        ("(.*", {"model.py:8 forward", "model.py:9 forward"}),
        ("*" * 50 + "x", {"model.py:8 forward", "model.py:9 forward"}),
    ],
)
def test_patterns(program: Program, pattern: str, left: set[str]) -> None:
    for _ in range(10):
        program.make("add model.py:8 forward")
        program.make("add model.py:9 forward")
    program.close()
    found = program.leaks(ignore=(pattern,))
    assert set(growing(found)) == left
    assert found["ignored"] == 20 - 10 * len(left)


def test_a_leak_can_be_its_own_clock(program: Program) -> None:
    """Its times in the account and in the table are rounded differently, and each is in its own step."""
    for _ in range(5):
        program.make("add model.py:8 forward")
    program.close()
    assert how(program.leaks()) == ("line", "model.py:8 forward", 5)
    assert growing(program.leaks()) == {"model.py:8 forward": 1.0}


def test_one_allocation_and_none(program: Program) -> None:
    assert program.leaks()["verdict"]["leak"] is False
    program.make("zeros")
    assert held(program.leaks()) == {"zeros": 1}
    program.close()
    assert held(program.leaks()) == {"zeros": 1}


@pytest.mark.parametrize("largest", [recorded_growth._LARGEST_CODE, 1])
def test_processes_have_steps_and_moments_of_their_own(monkeypatch: pytest.MonkeyPatch, largest: int) -> None:
    """Two processes at the same time; the one that leaks ends first. Groups are the same if codes must be small."""
    monkeypatch.setattr(recorded_growth, "_LARGEST_CODE", largest)
    one, two = Program(1), Program(2)
    both = RingRecording(one.agent, two.agent)
    one.recorded = two.recorded = both
    for _ in range(12):
        one.use("add a.py:1 f")
        one.make("add a.py:2 f")
        two.agent.clock = max(two.agent.clock, one.agent.clock)
        two.use("add b.py:1 f")
    one.close()
    for _ in range(12):
        two.use("add b.py:1 f")
    two.make("add b.py:2 f")
    two.close()
    found = one.leaks()
    assert [(row["pid"], row["line"]) for row in found["growing"]] == [(1, "a.py:2 f")]
    assert [(row["pid"], row["line"]) for row in found["held"]] == [(2, "b.py:2 f")]
    assert {row["pid"]: row["name"] for row in found["judged"]} == {1: "a.py:1 f", 2: "b.py:1 f"}
    assert [row["chips"] for row in (*found["growing"], *found["held"])] == [["1"], ["2"]]
    assert one.leaks(pids=frozenset({2}))["verdict"]["leak"] is False
    for program in (one, two):
        program.agent.close()


def test_phases_have_begins(program: Program) -> None:
    """By name, or by the path with the phases around it."""
    begins = []
    for _ in range(2):
        program.begin("step")
        program.begin("layer")
        begins.append(program.now)
        program.end()
    recording = program.recorded.recording()
    assert phase_begins(recording, "layer") == pytest.approx(begins, abs=1e-6)
    assert phase_begins(recording, "none") == []

# SPDX-License-Identifier: Apache-2.0
"""When the devices of a recorded process were closed, and what was left at that moment."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.recorded_stories import STORY, story_file
from tests.recordings import RingRecording
from tests.scripted_agent import Agent
from ttmem.analyze.recorded_closings import closing_times
from ttmem.cli import main
from ttmem.documents.leaks import Request
from ttmem.documents.recorded_leaks import recorded_leaks
from ttmem.model.events import DeviceClosed
from ttmem.model.kinds import Kind
from ttmem.wire.agent_ring import WHOLESALE, RingEvent

CACHED = {"program": 7, "kind": Kind.CB}


class Work:
    """A program on two meshes whose agent is written by the test."""

    def __init__(self) -> None:
        self.agent = Agent()
        for mesh in (0, 1):
            self.agent.chip(mesh, 555 + mesh, mesh)
            self.agent.mesh(mesh, [mesh])
            self.agent.opened(mesh)
        self.recorded = RingRecording(self.agent)

    def close(self, mesh: int = 0) -> float:
        """Close a mesh as ttnn does; returns when that began."""
        began = self.agent.record(RingEvent.CLOSING, mesh=mesh).time
        for slot, live in list(self.agent.live.items()):
            if live.mesh == mesh and not live.program:
                self.agent.live[slot] = live._replace(flags=WHOLESALE)
                self.agent.free(slot)
            elif live.mesh == mesh and live.kind != Kind.CB:
                self.agent.destroyed(slot, live.program, mesh)
        self.agent.record(RingEvent.CLOSED, mesh=mesh)
        return began * 1e-9

    def closing(self) -> float | None:
        found = closing_times(self.recorded.recording())
        assert len(found) <= 1
        return next(iter(found.values()), None)

    def left_in_cache(self) -> int:
        recording = self.recorded.recording()
        return recorded_leaks(recording, Request(), closing_times(recording))["program_cache"]["count"]


@pytest.fixture
def work() -> Iterator[Work]:
    made = Work()
    yield made
    made.agent.close()


def test_what_was_cached_is_left_also_if_every_tensor_was_freed(work: Work) -> None:
    """Nothing but programs: they end one by one, none of them by the closing."""
    work.agent.allocate(0)
    work.agent.program(1, 7)
    work.agent.allocate(2, **CACHED)
    work.agent.free(0)
    assert work.closing() is None
    began = work.close()
    assert work.closing() == pytest.approx(began, abs=1e-7)
    assert work.left_in_cache() == 1


def test_several_devices_are_closed_at_once(work: Work) -> None:
    work.agent.allocate(0)
    began = work.close(0)
    work.close(1)
    assert work.closing() == pytest.approx(began, abs=1e-7)


def test_a_device_that_was_used_in_between_is_closed_later(work: Work) -> None:
    work.agent.allocate(0, mesh=1)
    work.close(0)
    work.agent.free(0)
    assert work.closing() is None
    began = work.close(1)
    assert work.closing() == pytest.approx(began, abs=1e-7)


def test_a_closing_before_a_loss_may_not_be_the_last(work: Work) -> None:
    work.agent.allocate(0)
    work.agent.free(0)
    work.close(0)
    work.recorded.poll(flush=True)
    work.agent.churn(1000)
    work.recorded.poll(flush=True)
    work.recorded.table()
    assert work.closing() is None
    began = work.close(1)
    assert work.closing() == pytest.approx(began, abs=1e-7)


def test_the_help_names_that_moment(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["leaks", "--help"])
    shown = " ".join(capsys.readouterr().out.split())
    assert "(default: just before the devices were closed, else the end)" in shown
    assert "failure, else peak" not in shown


@pytest.mark.parametrize(
    ("story", "words"),
    [
        (STORY, "recording at its end; "),
        ([*STORY[:-2], (9.0, DeviceClosed(1))], "recording before the devices were closed; "),
    ],
    ids=["open", "closed"],
)
def test_the_heading_names_the_moment(
    folder: Path, capsys: pytest.CaptureFixture[str], story: list[tuple[float, object]], words: str
) -> None:
    main(["leaks", "--file", story_file(folder, story)])  # type: ignore[arg-type]
    assert capsys.readouterr().out.startswith(words)

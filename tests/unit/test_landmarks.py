# SPDX-License-Identifier: Apache-2.0
"""The moments of a recording that are worth a look."""

from __future__ import annotations

from collections.abc import Iterator
from math import nextafter
from pathlib import Path

import pytest

from tests.recorded_stories import START, STORY, story_file
from ttmem.model.events import DeviceOpened
from ttmem.recording.landmarks import PhaseRun, landmarks, phase_runs
from ttmem.recording.moments import open_moment
from ttmem.recording.recording_file import Recording


@pytest.fixture
def recording(folder: Path) -> Iterator[Recording]:
    with Recording(story_file(folder)) as opened:
        yield opened


def test_all_of_them(recording: Recording) -> None:
    found = landmarks(recording, recording.at().ledger)
    assert [(one.time - START, one.words) for one in found.peaks] == [
        (2.5, "at the peak of l1 on chip 770"),
        (3.0, "at the peak of all buffers"),
        (3.0, "at the peak of dram on chip 770"),
        (5.0, "at the peak of l1 on chip 771"),
        (6.0, "at the peak of dram on chip 771"),
    ]
    before = nextafter(START + 3.6, 0), nextafter(START + 4.0, 0)
    assert [(one.time, one.words) for one in found.phases] == [
        (START + 2, "at the start of phase prefill"),
        (START + 3.5, "at the start of phase prefill/attention"),
        (before[0], "at the end of phase prefill/attention"),
        (before[1], "at the end of phase prefill"),
    ]
    assert [(one.time - START, one.words) for one in found.failures] == [
        (6.0, "at failed allocation 1 of 2"),
        (7.0, "at failed allocation 2 of 2"),
    ]
    assert phase_runs(recording) == [
        PhaseRun(4711, "prefill", START + 2, START + 4),
        PhaseRun(4711, "prefill/attention", START + 3.5, START + 3.6),
    ]


def test_a_moment_can_be_opened_again(recording: Recording) -> None:
    """Each time before the allocation that followed the failed one at the same time."""
    first = landmarks(recording, recording.at().ledger).failures[0]
    for _ in range(3):
        assert len(list(open_moment(recording, first).ledger.allocations())) == 3


def test_equal_failures_of_one_time(folder: Path) -> None:
    """They are the same for us: the moment is after the last of them, each time it is opened."""
    failed = STORY[11][1]
    story = [*STORY[:3], (6.0, failed), (6.0, STORY[4][1]), (6.0, failed), (6.0, STORY[5][1])]
    with Recording(story_file(folder, story)) as recording:
        for one in landmarks(recording, recording.at().ledger).failures * 2:
            assert len(list(open_moment(recording, one).ledger.allocations())) == 2


def test_nothing_happened(folder: Path) -> None:
    with Recording(story_file(folder, [(0.0, DeviceOpened(0, STORY[0][1].chip))])) as recording:  # type: ignore[union-attr]
        assert landmarks(recording, recording.at().ledger) == ([], [], [])


def test_exceptions_about_something_else_are_no_failures(recording: Recording) -> None:
    found = landmarks(recording, recording.at().ledger, is_failure=lambda text: text.endswith("again"))
    assert [one.words for one in found.failures] == ["at the failed allocation"]

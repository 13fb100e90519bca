# SPDX-License-Identifier: Apache-2.0
"""A playhead that is moved on is at the same moment as one that was opened there."""

from __future__ import annotations

import random
from math import inf, nextafter
from pathlib import Path

import pytest

from tests.recorded_stories import START, story_file
from tests.recordings import history, state
from tests.unit.test_recording_file import TwoProcesses
from ttmem.model.events import Event, Freed
from ttmem.recording.recording_file import Recording


def long_script(seed: int) -> tuple[TwoProcesses, Recording]:
    chance, both = random.Random(seed), TwoProcesses()
    both.act_at_random(chance, 200)
    return both, both.recorded.recording()


@pytest.mark.parametrize("seed", range(4))
def test_it_is_moved_on(seed: int) -> None:
    both, recording = long_script(seed)
    chance = random.Random(seed)
    times = sorted(chance.uniform(recording.begin, recording.end) for _ in range(12))
    head = recording.playhead(times[0])
    for time in [*times, times[-1], inf]:
        head.advance(time)
        opened = recording.at(time, from_start=True)
        assert state(head.ledger) == state(opened.ledger)
        assert history(head.ledger) == history(opened.ledger)
        assert head.time == opened.time
        assert head.all_chips.peak.value == opened.all_chips.peak.value
    both.close()


def test_records_between_two_times_are_observed() -> None:
    both, recording = long_script(7)
    middle = (recording.begin + recording.end) / 2
    head, seen = recording.playhead(middle), list[float]()
    head.advance(recording.end, observer=lambda time, *_: seen.append(time))
    expected = [
        time
        for process in recording.processes.values()
        for number in range(1, process.end + 1)
        if (time := process.time_of(number)) is not None and time > middle
    ]
    assert set(expected) <= set(seen)
    assert min(seen) > middle
    both.close()


def test_one_that_stopped_between_two_events_of_a_time_is_not_moved_on(folder: Path) -> None:
    with Recording(story_file(folder)) as recording:

        def freed(_: object, event: Event) -> bool:
            return isinstance(event, Freed)

        head = recording.playhead(inf, freed)
        assert (head.time, head.stopped) == (START + 4, True)
        with pytest.raises(ValueError, match="cannot be moved on"):
            head.advance(inf)
        assert not recording.playhead(nextafter(START + 4, 0.0), freed).stopped

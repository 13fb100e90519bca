# SPDX-License-Identifier: Apache-2.0
"""The next and the last event of any moment, of rings and of other sources."""

from __future__ import annotations

import random
from math import inf
from pathlib import Path

from tests.recorded_stories import START, STORY, story_file
from tests.unit.test_playhead import long_script
from ttmem.recording.event_times import EventTimes
from ttmem.recording.recording_file import Recording


def test_of_two_rings_in_several_blocks() -> None:
    both, recording = long_script(3)
    times = sorted(
        time
        for process in recording.processes.values()
        for number in range(1, process.end + 1)
        if (time := process.time_of(number)) is not None
    )
    found, chance = EventTimes(recording), random.Random(3)
    assert (found.before(times[0]), found.after(times[-1])) == (None, None)
    assert (found.after(-inf), found.before(inf)) == (times[0], times[-1])
    for moment in [*chance.sample(times, 20), *(chance.uniform(times[0], times[-1]) for _ in range(20))]:
        assert found.after(moment) == next((time for time in times if time > moment), None)
        earlier = [time for time in times if time < moment]
        for count in (1, 2, 50, 10_000):
            assert found.before(moment, count) == (earlier[-count:][0] if earlier else None)
    both.close()


def test_of_other_sources(folder: Path) -> None:
    with Recording(story_file(folder)) as recording:
        found = EventTimes(recording)
        times = sorted({time for time, _ in STORY})
        assert [found.after(START + time) for time in times] == [*(START + time for time in times[1:]), None]
        assert found.before(START + 4.0, 2) == START + 3.5

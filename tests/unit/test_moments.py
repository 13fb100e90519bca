# SPDX-License-Identifier: Apache-2.0
"""Moments by name: what --at takes, and what is outside the recording."""

from __future__ import annotations

import io
import time
from math import inf
from pathlib import Path

import pytest

from tests import recorded_stories
from ttmem.account.ledger import Ledger
from ttmem.cli import main
from ttmem.model.events import Allocated, DeviceOpened, Event, Failed, Freed, PhaseBegan, PhaseEnded
from ttmem.model.identity import ChipInfo, ProcessInfo
from ttmem.model.kinds import Confidence, Kind
from ttmem.recording.event_recording import EventRecordingWriter
from ttmem.recording.moments import FORMS, MomentError, NotAMoment, default_moment, find_moment, open_moment
from ttmem.recording.recording_file import Recording

START = 1_794_000_000.0
STORY: list[tuple[float, Event]] = [
    (0.0, DeviceOpened(0, ChipInfo("77"))),
    (1.0, Allocated(0, Kind.DRAM, 0x1000, 1000)),
    (2.0, PhaseBegan(1, "prefill")),
    (2.5, Allocated(0, Kind.L1, 0x2000, 300)),
    (3.0, Allocated(0, Kind.DRAM, 0x3000, 2000)),
    (3.0, Freed(0, Kind.DRAM, 0x3000, 2000)),
    (4.0, PhaseEnded(1)),
    (5.0, Freed(0, Kind.L1, 0x2000, 300)),
    (6.0, Failed(0, "Out of Memory: everything")),
    (6.0, Allocated(0, Kind.DRAM, 0x4000, 10)),
    (7.0, Failed(0, "something else")),
    (10.0, Freed(0, Kind.DRAM, 0x1000, 1000)),
]


def recording(story: list[tuple[float, Event]] = STORY) -> Recording:
    file = io.BytesIO()
    writer = EventRecordingWriter(file, {"start": START})
    source = Ledger().source(START, ProcessInfo(1, 1), "client", Confidence.REPORTED)
    for after, event in story:
        writer.write(START + after, source, event)
    writer.finish()
    return Recording(file)


def sizes(text: str | None, story: list[tuple[float, Event]] = STORY) -> list[int]:
    found = recording(story)
    moment = default_moment(found, is_failure=_memory) if text is None else find_moment(found, text, is_failure=_memory)
    return sorted(allocation.size for allocation in open_moment(found, moment).ledger.allocations())


def _memory(message: str) -> bool:
    return message.startswith("Out of Memory")


@pytest.mark.parametrize(
    ("text", "live"),
    [
        ("+0s", []),
        ("+1s", [1000]),
        ("+2600ms", [300, 1000]),
        ("+.05m", [300, 1000]),
        ("-9s", [1000]),
        ("-0s", [10]),
        ("end", [10]),
        ("peak", [300, 1000, 2000]),
        ("peak:dram", [300, 1000, 2000]),
        ("peak:dram@77", [300, 1000, 2000]),
        ("peak:l1", [300, 1000]),
        ("failure", [1000]),
        (None, [1000]),
        ("phase:prefill", [300, 1000]),
        (str(START + 1), [1000]),
        ("2026-11-06T21:20:01Z", [1000]),
        ("2026-11-06 21:20:01.000 UTC", [1000]),
        ("2026-11-06T23:20:01+02:00", [1000]),
    ],
)
def test_a_moment(text: str | None, live: list[int]) -> None:
    assert sizes(text) == live


def test_without_a_failure_the_peak_is_shown_and_without_buffers_the_end() -> None:
    assert sizes(None, STORY[:8]) == [300, 1000, 2000]
    assert default_moment(recording(STORY[:1])).time == inf


@pytest.mark.parametrize("text", ["+10.1s", "-10.1s", "0", "1e300", "-5h", "2026-11-06T21:19:59Z"])
def test_outside_the_range(text: str) -> None:
    with pytest.raises(
        MomentError, match=r"outside the recording, which is 10\.000 s long, from 2026-11-06T21:20:00\.000Z to"
    ):
        find_moment(recording(), text)


@pytest.mark.parametrize("text", ["", "nan", "inf", "-inf", "yesterday", "+1", "+s", "+nans", "1s", "peaks", "2026"])
def test_no_moment(text: str) -> None:
    found = recording()
    if text == "+1":
        assert find_moment(found, text).time == START + 1
        return
    with pytest.raises(MomentError, match=r"outside the recording, which is|; the recording is 10\.000 s long"):
        find_moment(found, text)
    if text not in ("2026",):
        with pytest.raises(NotAMoment):
            find_moment(found, text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("peak:gold", "there is no kind of memory 'gold'; there are dram, l1,"),
        ("peak:dram@nowhere", "there is no chip 'nowhere'"),
        ("peak:host", "the recording has no peak of host, because none was allocated"),
        ("phase:decode", "the recording has no phase 'decode'; it has prefill"),
    ],
)
def test_what_is_not_there(text: str, words: str) -> None:
    with pytest.raises(MomentError, match=words):
        find_moment(recording(), text)


def test_errors_name_times_as_the_headings_do(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In local time, and the length is the difference of the two times also where these are cut."""
    path = recorded_stories.story_file(folder, [*STORY[:-1], (10.0006, STORY[-1][1])])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "XYZ-2:30")
        time.tzset()
        codes = [main(["replay", path, *options]) for options in ((), ("--at", "+99s"), ("--at", "noon"))]
    time.tzset()
    heading, *errors = capsys.readouterr()
    span = "10.000 s long, from 2026-11-06 23:50:00.000+02:30 to 2026-11-06 23:50:10.000+02:30"
    assert f"it is {span}" in " ".join(heading.split())
    assert errors[0].splitlines() == [
        f"ttmem replay: --at: +99s is outside the recording, which is {span}",
        f"ttmem replay: --at: 'noon' is not a moment: use {FORMS}; the recording is {span}",
    ]
    assert codes == [0, 1, 2]


@pytest.mark.parametrize("name", ["attention", "prefill/attention"])
def test_a_phase_by_its_last_name_or_its_path(folder: Path, name: str) -> None:
    with Recording(recorded_stories.story_file(folder)) as found:
        assert find_moment(found, f"phase:{name}").time == pytest.approx(START + 3.6)
        with pytest.raises(MomentError, match="no phase 'decode'; it has prefill, prefill/attention"):
            find_moment(found, "phase:decode")

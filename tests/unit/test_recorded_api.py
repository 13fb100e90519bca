# SPDX-License-Identifier: Apache-2.0
"""The API of a recording: at any moment it answers what the commands print for the same moment."""

from __future__ import annotations

import json
from collections.abc import Iterator
from math import nextafter
from pathlib import Path
from typing import Any

import pytest

from tests.recorded_stories import MIB, START, STORY, story_file
from ttmem.cli import main
from ttmem.documents.recorded_moments import NoSuchMoment, offset_text
from ttmem.model.events import DeviceOpened
from ttmem.recording.recording_file import Recording
from ttmem.server.recorded_api import RecordedApi


@pytest.fixture
def path(folder: Path) -> str:
    return story_file(folder)


@pytest.fixture
def api(path: str) -> Iterator[RecordedApi]:
    with Recording(path) as recording:
        made = RecordedApi(recording)
        yield made
        made.close()


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert main([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def sizes(api: RecordedApi) -> list[int]:
    return sorted(one["size"] // MIB for one in api.answer("/allocations")["allocations"])


def test_every_document_is_what_the_commands_print(
    path: str, api: RecordedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the order of time, backwards, and by names: however the account got there."""
    times = [START + time for time, _ in STORY]
    moments: list[tuple[str | None, float | None]] = [(repr(time), time) for time in (*times, *reversed(times))]
    moments += [(text, None) for text in ("peak", "peak:l1", "peak:dram@771", "failure", "phase:prefill", "end", None)]
    for at, time in moments:
        api.seek_text(at) if time is None else api.seek_time(time)
        options = ("--file", path, *(() if at is None else ("--at", at)))
        assert api.snapshot() == printed(capsys, "smi", *options), at
        for chip in api.snapshot()["chips"]:
            cores = api.answer(f"/cores?chip={chip['chip']}&core=0,0")
            assert cores == printed(capsys, "l1", *options, "-d", chip["chip"], "--core", "0,0"), at
        for by in ("op", "kind"):
            assert api.answer(f"/breakdown?by={by}&limit=500") == printed(capsys, "dump", *options, "--by", by), at
        dump = printed(capsys, "dump", *options)
        listed = [one for group in dump["groups"] for kind in group["kinds"] for one in kind["allocations"]]
        found = api.answer("/allocations?limit=1000")
        assert sorted(map(str, found["allocations"])) == sorted(map(str, listed)), at


def test_steps_over_events(api: RecordedApi) -> None:
    api.seek_time(START + 2.6)
    seen = [api.step("event", 1) for _ in range(3)]
    assert [(one.time - START, one.words) for one in seen] == [
        (3.0, "after Allocated dram 200.0 MiB ttnn.matmul"),
        (3.5, "after PhaseBegan attention"),
        (pytest.approx(3.6), "after PhaseEnded"),
    ]
    assert api.step("event", 1).words == "after PhaseEnded, and 1 more at the same time"
    assert sizes(api) == [3, 100]
    assert api.step("event", -3).time == START + 3.0
    assert sizes(api) == [3, 100, 200]
    assert api.step("event", 1000).time == START + 10.0
    with pytest.raises(NoSuchMoment, match="there is no later event"):
        api.step("event", 1)
    assert api.step("event", -1000).time == START
    with pytest.raises(NoSuchMoment, match="there is no earlier event"):
        api.step("event", -1)


def test_steps_over_landmarks(api: RecordedApi) -> None:
    api.seek_time(START)
    peaks = [api.step("peak", 1).words for _ in range(5)]
    assert peaks == [
        "at the peak of l1 on chip 0",
        "at the peak of all buffers",
        "at the peak of dram on chip 0",
        "at the peak of l1 on chip 1",
        "at the peak of dram on chip 1",
    ]
    with pytest.raises(NoSuchMoment, match="there is no later peak"):
        api.step("peak", 1)
    assert api.step("phase", -1).words == "at the end of phase prefill"
    assert sizes(api) == [3, 100, 200], "just before its end"
    assert api.step("phase", -3).words == "at the start of phase prefill"
    with pytest.raises(NoSuchMoment, match="there is no earlier start or end of a phase"):
        api.step("phase", -1)
    assert api.step("failure", 1) == (START + 6, "at failed allocation 1 of 2")
    assert sizes(api) == [3, 9, 100], "the next allocation has the same time"
    assert api.step("failure", 9).words == "at failed allocation 2 of 2"
    assert api.step("failure", -1).words == "at failed allocation 1 of 2"


def test_without_landmarks(folder: Path) -> None:
    with Recording(story_file(folder, [(0.0, DeviceOpened(0, STORY[0][1].chip))])) as recording:  # type: ignore[union-attr]
        api = RecordedApi(recording)
        for kind, words in (("peak", "peak"), ("phase", "start or end of a phase"), ("failure", "failed allocation")):
            with pytest.raises(NoSuchMoment, match=f"there is no {words}"):
                api.step(kind, 1)  # type: ignore[arg-type]
        assert api.seek_text(None).words == "at its end"
        api.close()


def test_times_outside_the_range_are_its_ends(api: RecordedApi) -> None:
    assert api.seek_time(0.0) == (START, "at its start")
    assert api.seek_time(nextafter(START + 10, float("inf"))) == (START + 10, "at its end")
    with pytest.raises(NoSuchMoment, match="outside the recording"):
        api.seek_text("+11s")
    with pytest.raises(NoSuchMoment, match="is not a moment"):
        api.seek_text("soon")
    assert api.position.time == START + 10, "it stays where it was"


def test_the_events_up_to_a_moment(api: RecordedApi) -> None:
    api.seek_text("failure")
    events = api.answer("/events")["events"]
    assert [event["time"] - START for event in events] == [START + time - START for time, _ in STORY[: len(events)]]
    assert [event["event"] for event in events[-3:]] == ["Failed", "Allocated", "Failed"]
    api.step("failure", -1)
    assert api.answer("/events")["events"][-1]["event"] == "Failed", "not the allocation of the same time"
    api.seek_time(START)
    assert len(api.answer("/events")["events"]) == 1


def test_what_is_asked_wrongly(api: RecordedApi) -> None:
    api.seek_text("end")
    with pytest.raises(LookupError, match="no tracked process has used chip"):
        api.answer("/cores?chip=nowhere")
    with pytest.raises(ValueError, match="sort is one of"):
        api.answer("/allocations?sort=colour")


def test_the_history_of_the_whole_recording(api: RecordedApi) -> None:
    """Short peaks are in it, and values at each time are those of the account."""
    reader = api.history()
    assert reader.progress == 0
    while not reader.done:
        reader.read_on(0.0)
    assert reader.progress == 1
    found = reader.history()
    series = found.series["770", "dram_taken"]
    assert max(series.highest) == 300 * MIB
    for begin, last, _ in list(zip(*series))[:: len(series.times) // 50]:
        api.seek_time(nextafter(begin + found.step, 0.0))
        used = next(chip for chip in api.snapshot()["chips"] if chip["chip"] == "770")["memory"]["dram"]["used"]
        assert used == last
    assert [(bar.path, set(bar.chips)) for bar in api.phases()] == [
        ("prefill", {"770", "771"}), ("prefill/attention", {"770", "771"}),
    ]  # fmt: skip
    kinds = [mark.kind for mark in api.marks()]
    assert (kinds.count("peak"), kinds.count("phase"), kinds.count("failure")) == (5, 4, 2)


def test_the_printed_time_finds_the_event(path: str, api: RecordedApi, capsys: pytest.CaptureFixture[str]) -> None:
    api.seek_time(START + 3.55)
    position = api.step("event", 1)
    text = offset_text(position.time, START)
    assert printed(capsys, "smi", "--file", path, "--at", text) == api.snapshot()

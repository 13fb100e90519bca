# SPDX-License-Identifier: Apache-2.0
"""Reports of scripted recordings: every number is that of the account, at any moment, and what is missing is said."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.page_data import Read, check_report
from tests.recorded_stories import STORY, story_file
from tests.recordings import two_sources
from tests.unit.test_stats_document import Script
from ttmem.model.events import Allocated, DeviceOpened, Event, Freed, Mark
from ttmem.model.geometry import BOARDS
from ttmem.model.identity import ChipInfo
from ttmem.model.kinds import Kind
from ttmem.pages import (
    address_rectangles,
    call_windows,
    chosen_allocations,
    core_moments,
    report_document,
    report_sites,
)
from ttmem.pages.chip_groups import chip_groups
from ttmem.pages.report_document import MadeReport, report_of
from ttmem.pages.report_failures import is_failure
from ttmem.recording.recording_file import Recording
from ttmem.statistics.stats_document import stats_of, window_of


def made_of(recording: Recording, **options: Any) -> MadeReport:
    return report_of(recording, made=1_800_000_000.0, title="a title", **options)


@pytest.fixture(scope="module", params=[(1, 1, 1), (2, 2, 4), (3, 1, 2)], ids=str)
def scripted(request: pytest.FixtureRequest) -> Iterator[Recording]:
    script = Script(*request.param)
    yield script.recording(400)
    script.close()


def test_every_number_is_that_of_the_account(scripted: Recording) -> None:
    read = check_report(scripted, made_of(scripted), moments=25)
    found = read.document
    assert found["records"] > 300
    assert found["phases"]
    assert found["notes"] == []
    assert found["title"] == "a title"
    assert found["made"].startswith("2027-01-15T")
    assert {mark["type"] for mark in found["marks"]} >= {"peak", "compile", "close"}


def test_small_limits_leave_out_the_least_and_say_so(scripted: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_windows, "EDGES", 16)
    monkeypatch.setattr(report_sites, "MOST_SITES", 6)
    monkeypatch.setattr(address_rectangles, "LARGEST", 10)
    monkeypatch.setattr(chosen_allocations, "MOST", 20)
    monkeypatch.setattr(core_moments, "MOST_MOMENTS", 2)
    monkeypatch.setattr(report_document, "MOST_MOMENTS", 2)
    monkeypatch.setattr("ttmem.pages.bank_maps.chosen_boxes", _few_boxes)
    monkeypatch.setattr("ttmem.pages.report_document.choose", _few_rows)
    read = check_report(scripted, made_of(scripted), moments=40)
    notes = " ".join(read.document["notes"])
    for words in ("call sites", "have a rectangle", "the table of allocations lists", "maps of the cores"):
        assert words in notes
    assert any(site["other"] for site in read.document["sites"])
    assert any(one["coverage"] for group in read.document["groups"] for one in group["maps"])


def _few_boxes(boxes: Any, until: int) -> Any:
    return address_rectangles.chosen_boxes(boxes, until, largest=10, in_slice=1)


def _few_rows(table: Any, rows: Any, peaks: Any) -> Any:
    return chosen_allocations.choose(table, rows, peaks, most=20)


@pytest.fixture
def story(tmp_path: Path) -> Iterator[Recording]:
    with Recording(story_file(tmp_path)) as recording:
        yield recording


def test_a_story_of_socket_clients(story: Recording) -> None:
    """Two chips with different buffers are two groups. Its source reports no banks, which the notes say."""
    read = check_report(story, made_of(story), moments=20)
    found = read.document
    assert [group["name"] for group in found["groups"]] == ["n150 chip 0", "n150 chip 1"]
    assert found["verdict"]["status"] == "out_of_memory"
    assert found["verdict"]["lines"][0].startswith("2 allocations failed. The last: out of memory: 4 MiB of L1")
    failures = [mark for mark in found["marks"] if mark["type"] == "failure"]
    assert [mark["time_ns"] // 10**9 for mark in failures] == [6, 7]
    assert [mark["explained"] for mark in failures] == [0, 1]
    assert [one["text"][-5:] for one in found["explained"]] == ["424 B", "again"]
    assert [phase["name"] for phase in found["phases"]] == ["prefill", "attention"]
    assert [phase["depth"] for phase in found["phases"]] == [0, 1]
    assert any("divided by the number of banks" in note for note in found["notes"])
    words = {moment["words"] for moment in found["moments"]}
    assert {"at failed allocation 1 of 2", "at the peak of L1 buffers", "at the end of phase prefill"} <= words
    dram = found["groups"][0]["pools"][0]
    assert (dram["pool"], dram["peak"], dram["peak_ns"]) == ("dram", 300 << 20, 3 * 10**9)
    assert [found["strings"][found["sites"][share["site"]]["op"]] for share in dram["at_peak"]] == [
        "ttnn.matmul", "weights",
    ]  # fmt: skip


def test_the_cores_of_a_moment_are_those_of_its_account(story: Recording) -> None:
    read = check_report(story, made_of(story))
    moment = next(one for one in read.document["moments"] if one["words"] == "at the peak of L1 buffers")
    cores = read.json(moment["cores"])
    assert cores["cores"]["schema"] == "ttmem.cores/1"
    assert sum(len(alike["at"]) for alike in cores["details"]) == 64 == len(cores["cores"]["cores"])


def test_two_sources_of_one_process_count_once() -> None:
    with two_sources() as recording:
        read = check_report(recording, made_of(recording), moments=20)
    pools = {row["pool"]: row["peak"] for row in read.document["groups"][0]["pools"]}
    assert pools == {"dram": 1000, "l1_buffers": 64}


def test_a_recording_without_anything(tmp_path: Path) -> None:
    with Recording(story_file(tmp_path, [])) as recording:
        found = check_report(recording, made_of(recording)).document
    assert found["verdict"]["status"] == "cannot_tell"
    assert found["verdict"]["lines"][0] == "No allocation on a device was recorded."
    assert found["groups"] == []


def test_a_recording_that_was_cut_off(tmp_path: Path) -> None:
    whole = Path(story_file(tmp_path)).read_bytes()
    with Recording(io.BytesIO(whole[: len(whole) * 2 // 3])) as recording:
        found = Read(made_of(recording)).document
    assert not found["losses"]["finished"]
    assert found["verdict"]["status"] == "cannot_tell"


def test_lost_records_are_gaps() -> None:
    script = Script(9, 1, 1)
    for number in range(100):
        script.step()  # more than the ring holds
        if number == 30:
            script.recorded.poll(flush=True)
    recording = script.recording(30)
    found = Read(made_of(recording)).document
    assert found["losses"]["lost"] > 10
    assert sum(gap["records"] for gap in found["losses"]["gaps"]) == found["losses"]["lost"]
    assert all(0 <= gap["from_ns"] <= gap["until_ns"] < found["length_ns"] for gap in found["losses"]["gaps"])
    script.close()


def test_marks_of_the_user_are_edges(tmp_path: Path) -> None:
    story: list[tuple[float, Event]] = [*STORY[:5], (2.75, Mark("after the first layer")), *STORY[5:]]
    with Recording(story_file(tmp_path, story)) as recording:
        read = check_report(recording, made_of(recording))
    (mark,) = (one for one in read.document["marks"] if one["type"] == "mark")
    assert mark["text"] == "after the first layer"
    assert mark["time_ns"] in read.columns(read.document["groups"][0]["windows"])["time"]


def test_many_chip_groups(tmp_path: Path) -> None:
    """Details of four groups; the others have their timeline."""
    story: list[tuple[float, Event]] = []
    for chip in range(6):
        story.append((0.1, DeviceOpened(chip, ChipInfo(f"77{chip}", board="n150", geometry=BOARDS["n150"]))))
        story += [
            (1.0 + number, Allocated(chip, Kind.DRAM, 4096 * (number + 1), 2048 + chip)) for number in range(chip + 1)
        ]
    with Recording(story_file(tmp_path, sorted(story, key=lambda one: one[0]))) as recording:
        read = check_report(recording, made_of(recording))
    groups = read.document["groups"]
    assert [group["windows"] is not None for group in groups] == [False, False, True, True, True, True]
    assert "there are 6 groups of chips" in read.document["notes"][0]


def test_a_confidential_report_names_nothing_private(tmp_path: Path) -> None:
    script = Script(1, 1, 1)
    recording = script.recording(200)
    recording.facts |= {"command": ["/opt/secret/python", "model.py"], "host": "hostname-9", "folder": "/home/them/x"}
    made = made_of(recording, confidential=True)
    read = check_report(recording, made)
    text = json.dumps(read.document) + "".join(
        json.dumps(read.json(name)) for name, one in read.document["sections"].items() if one["columns"] is None
    )
    for private in ("model.py", "hostname-9", "/home/them", "/opt/secret", "site-packages"):
        assert private not in text, text[text.index(private) - 80 :][:160]
    assert "ttnn.op1" in text
    assert "[1, 32]" in text
    assert read.document["confidential"]
    script.close()


def test_times_before_the_begin_are_live_at_the_begin() -> None:
    """A process may have allocated before its recording began."""
    script = Script(4, 1, 1)
    recording = script.recording(100)
    recording.begin += 0.0002
    read = Read(made_of(recording))
    table = recording.lifetimes().allocations
    assert (table.begin < 0).any()
    live = read.live(read.document["groups"][0], 0)
    first = table.where(table.begin < 0)
    assert sum(size for size, _ in live.values()) == int(np.sum(first.counted[first.end >= 0]))
    script.close()


def test_a_freed_buffer_of_size_zero_time_is_there(tmp_path: Path) -> None:
    story: list[tuple[float, Event]] = [
        (0.0, DeviceOpened(0, ChipInfo("770", board="n150", geometry=BOARDS["n150"]))),
        (1.0, Allocated(0, Kind.L1, 0x20000, 2048)),
        (1.0, Freed(0, Kind.L1, 0x20000, 2048)),
    ]
    with Recording(story_file(tmp_path, story)) as recording:
        read = check_report(recording, made_of(recording))
    assert read.document["allocations"]["total"] == 1
    assert read.document["groups"][0]["pools"][0]["peak"] == 2048


def test_the_statistics_are_those_of_ttmem_stats(scripted: Recording) -> None:
    found = Read(made_of(scripted)).document["stats"]
    window = window_of(scripted, None, inf, None)
    expected = stats_of(scripted, window, scripted.at().ledger, top=20, is_failure=is_failure)
    assert found == json.loads(json.dumps(expected))


def test_a_difference_of_two_edges_is_what_the_window_allocated(scripted: Recording) -> None:
    read = Read(made_of(scripted))
    table, group = scripted.lifetimes().allocations, read.document["groups"][0]
    windows = read.columns(group["windows"])
    edges = len(windows["time"])
    first, last = edges // 3, 2 * edges // 3
    rows = chip_groups(table, [group["shown_chip"]])[0].rows
    begin = table.begin[rows]
    inside = rows[(begin > windows["time"][first]) & (begin <= windows["time"][last])]
    assert sum(
        windows["allocated"][row * edges + last] - windows["allocated"][row * edges + first]
        for row in range(len(windows["site"]))
    ) == int(table.counted[inside].sum())

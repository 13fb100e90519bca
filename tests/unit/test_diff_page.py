# SPDX-License-Identifier: Apache-2.0
"""The data of a page of two recordings: call sites that are the same in both, although their lines have moved."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tests.recorded_stories import MIB, STORY, story_file
from ttmem.compare.diff_document import compare
from ttmem.compare.recorded_side import recorded_side
from ttmem.model.events import Allocated, Event, Extra
from ttmem.model.kinds import Kind
from ttmem.pages.diff_page import Compared, MadeDiff, compared, diff_of
from ttmem.recording.moments import find_moment, open_moment
from ttmem.recording.recording_file import Recording

if TYPE_CHECKING:
    from ttmem.model.page_schema import DiffReport

OPENED = STORY[:2]


def allocated(time: float, address: int, size: int, line: int, op: str = "ttnn.add") -> tuple[float, Event]:
    stack = f"/srv/model.py:{line} forward\n/srv/model.py:{line + 50} main"
    return time, Allocated(0, Kind.DRAM, address, size, 0, 0, Extra(tag=op, shape="[32, 32] bfloat16", stack=stack))


def side(folder: Path, name: str, story: list[tuple[float, Event]]) -> Compared:
    place = folder / name
    place.mkdir()
    with Recording(story_file(place, story)) as recording:
        moment = find_moment(recording, "end", is_failure=lambda _: False)
        found = recorded_side(recording, moment, "line", lambda _: False)
        return compared(recording, found, open_moment(recording, moment).time, made=0.0, title=name)


def made(folder: Path, old: list[tuple[float, Event]], new: list[tuple[float, Event]]) -> MadeDiff:
    sides = side(folder, "old", [*OPENED, *old]), side(folder, "new", [*OPENED, *new])
    return diff_of(compare(sides[0].side, sides[1].side, "line"), *sides, made=0.0)


def frames(page: DiffReport, site: int) -> list[str]:
    found, node = [], page["sites"][site]["stack"]
    while node >= 0:
        found.append(page["strings"][page["stacks"]["name"][node]])
        node = page["stacks"]["parent"][node]
    return found


def test_a_line_that_moved_is_one_call_site(tmp_path: Path) -> None:
    page, _ = made(tmp_path, [allocated(1, 0x1000, MIB, 10)], [allocated(1, 0x1000, 2 * MIB, 14)])
    assert page["old"]["sites"] == page["new"]["sites"] == [0]
    assert frames(page, 0) == ["/srv/model.py:14 forward", "/srv/model.py:64 main"]
    assert page["rows"] == {"dram": [[0]]}


def test_what_only_one_run_has_hangs_below_the_same_callers(tmp_path: Path) -> None:
    """The frames of a call site that is gone are those of the new run, if they have only moved."""
    gone = (2.0, Allocated(0, Kind.DRAM, 0x9000, MIB, 0, 0, Extra(tag="ttnn.exp", stack="/srv/model.py:60 main")))
    page, _ = made(tmp_path, [allocated(1, 0x1000, MIB, 10), gone], [allocated(1, 0x1000, MIB, 14)])
    only_old = set(page["old"]["sites"]) - set(page["new"]["sites"])
    assert [frames(page, site) for site in only_old] == [["/srv/model.py:64 main"]]


def test_the_page_has_the_sections_of_both_and_nothing_else(tmp_path: Path) -> None:
    page, sections = made(tmp_path, [allocated(1, 0x1000, MIB, 10)], [allocated(1, 0x1000, MIB, 10)])
    assert page["diff"]["same"]
    expected = {f"{which}/{name}" for which in ("old", "new") for name in page[which]["sections"]}
    assert set(sections) == expected
    assert all(group["maps"] == [] for group in page["old"]["groups"])
    assert {name.rsplit("/", 1)[-1] for name in sections} >= {"timeline", "windows"}


def test_an_empty_recording(tmp_path: Path) -> None:
    page, _ = made(tmp_path, [], [allocated(1, 0x1000, MIB, 10)])
    assert page["old"]["sites"] == []
    assert len(page["new"]["sites"]) == 1

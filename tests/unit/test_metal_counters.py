# SPDX-License-Identifier: Apache-2.0
"""tt-metal's counters on machines in a folder: every layout and state, and each known defect."""

from __future__ import annotations

import json
import os
import pwd
import socket
import struct
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import machines
from tests.counters import NOW, SIZE, UID, content, mapping, slot
from tests.support import not_none, wait_until
from ttmem.model.machine_rows import HolderRow
from ttmem.sources import metal_counters as shm
from ttmem.sources import process_lookup as processes
from ttmem.sources.metal_counters import Counters

KINDS = ("dram", "l1", "l1_small", "trace", "cb")
PIB = 1 << 50
START = 100_000  # ticks: at 100 a second, 1000 s after boot


class Place:
    """A machine with counters, and processes that have them mapped."""

    def __init__(self, root: Path) -> None:
        self.machine = machines.Machine(root)
        self.time = 0.0
        self.counters = Counters(str(root), 0.5, lambda: self.time)

    def write(self, data: bytes, chip_id: int | str = UID) -> Path:
        return self.machine.shm_file(chip_id, data)

    def process(self, pid: int, maps: Path | str | None = None, **more: Any) -> Path:
        text = mapping(maps) if isinstance(maps, Path) else maps or ""
        return self.machine.process(pid, maps=LIBRARY + text, user_id=os.getuid(), **more)

    def end(self, pid: int) -> None:
        (self.machine.root / f"proc/{pid}/fd").chmod(0o700)
        self.machine.end(pid)

    def file(self, *holders: HolderRow) -> Any:
        (file,) = self.counters.look(list(holders))["files"]
        return file

    def only(self, *holders: HolderRow) -> dict[str, Any]:
        (only,) = self.file(*holders)["slots"]
        found: dict[str, Any] = only
        return found


LIBRARY = "7f0000000000-7f0000001000 r-xp 00000000 fd:00 131 /usr/lib/x86_64-linux-gnu/libc.so.6\n"


def holder(pid: int, inner_pid: int | None = None, **more: Any) -> Any:
    return {"pid": pid, "start": START, "user_id": 1000, "name": "python", "inner_pid": inner_pid, **more}


@pytest.fixture
def place(folder: Path) -> Place:
    return Place(folder)


def sums(*numbers: int) -> dict[str, int]:
    return dict(zip(KINDS, (*numbers, 0, 0, 0, 0, 0)))


# Layouts


@pytest.mark.parametrize("version", [2, 3, 4])
def test_a_live_process(place: Place, version: int) -> None:
    path = place.write(content(slot(4711, 11, 22, 33, 44, 55), version=version, number=7, attached=2))
    place.process(4711, path)
    assert place.counters.look() == {
        "state": "ok",
        "why": None,
        "files": [
            {
                "chip": "880001",
                "path": "/dev/shm/tt_device_880001_memory",
                "owner": os.getuid(),
                "state": "ok",
                "why": None,
                "version": version,
                "metal_id": 7,
                "attached": 2,
                "updated": NOW,
                "totals": sums(11, 22, 33, 44, 55),
                "slots": [
                    {
                        "pid": 4711,
                        "process": 4711,
                        "start": START,
                        "user_id": os.getuid(),
                        "user": pwd.getpwuid(os.getuid()).pw_name,
                        "name": "python",
                        **sums(11, 22, 33, 44, 55),
                        "updated": NOW,
                        "state": "live",
                        "why": None,
                    }
                ],
                "live": sums(11, 22, 33, 44, 55),
                "stale": {**sums(), "cb": None},
            }
        ],
    }
    json.dumps(place.counters.look())


def test_the_last_slot_and_the_widest_numbers(place: Place) -> None:
    free = bytes(120)
    path = place.write(content(*[free] * 63, slot(4711, PIB, PIB, PIB, PIB, PIB), number=65535), 2**64 - 1)
    place.process(4711, path)
    file = place.file()
    assert (file["chip"], file["state"], file["metal_id"]) == ("18446744073709551615", "ok", 65535)
    assert file["live"] == sums(*[PIB] * 5)


@pytest.mark.parametrize("version", [1, 5, 6, 0x01000000, 0xFFFFFFFF])
def test_another_version_is_named(place: Place, version: int) -> None:
    place.write(content(slot(4711, 5), version=version))
    file = place.file()
    assert (file["state"], file["version"], file["slots"], file["live"]) == ("unsupported", version, [], None)
    assert str(version) in file["why"]
    assert (file["totals"], file["stale"]) == (None, None)


@pytest.mark.parametrize("length", [0, 3, 4, 87, 88, SIZE - 1])
def test_a_file_that_is_being_made(place: Place, length: int) -> None:
    place.write(content(slot(4711, 5))[:length])
    assert (place.file()["state"], place.file()["live"]) == ("unready", None)


def test_a_file_that_has_its_size_and_nothing_else(place: Place) -> None:
    place.write(bytes(SIZE))
    assert (place.file()["state"], place.file()["version"]) == ("unready", None)


@pytest.mark.parametrize(("state", "expected"), [(0, "unready"), (1, "unready"), (2, "garbage"), (0x52454459, "ok")])
def test_version_4_says_when_it_is_ready(place: Place, state: int, expected: str) -> None:
    place.write(content(version=4, state=state))
    assert place.file()["state"] == expected
    place.write(content(version=3, state=state))
    assert place.file()["state"] == "ok", "before version 4 these bytes mean nothing"


def test_version_4_releases_a_slot(place: Place) -> None:
    place.write(content(slot(-1, 5), slot(4711, 7), version=4))
    assert [one["pid"] for one in place.file()["slots"]] == [4711]


def test_a_longer_file_is_read_as_far_as_it_is_known(place: Place) -> None:
    place.write(content(slot(4711, 5)) + b"\xff" * 100_000)
    assert place.only()["dram"] == 5


def test_a_slot_that_was_never_written_needs_the_mapping(place: Place) -> None:
    path = place.write(content(slot(4711, 5, updated=0), updated=0))
    process = place.process(4711, path)
    assert (place.file()["updated"], place.only()["updated"], place.only()["state"]) == (None, None, "live")
    _forbid(process)
    place.time += 1000
    assert place.only()["state"] == "reused"


# Files


def test_no_folder_and_no_files(folder: Path) -> None:
    found = Counters(str(folder)).look()
    assert (found["state"], found["files"]) == ("absent", [])
    assert "TT_METAL_SHM_TRACKING_DISABLED" in not_none(found["why"])
    (folder / "dev/shm").mkdir(parents=True)
    (folder / "dev/shm/sem.other").write_bytes(b"")
    assert Counters(str(folder)).look()["state"] == "absent"


def test_other_names_are_not_counters(place: Place) -> None:
    for chip_id in ("", "x", "-1", "1x", "+1", "1_2", "٣"):
        place.write(content(), chip_id)
    (place.machine.root / "dev/shm/xtt_device_1_memory").write_bytes(content())
    (place.machine.root / "dev/shm/tt_device_1_memory.bak").write_bytes(content())
    assert place.counters.look()["state"] == "absent"


@pytest.mark.parametrize("chip_id", ["18446744073709551616", "01", "00", "9" * 200])
def test_numbers_that_no_chip_has(place: Place, chip_id: str) -> None:
    place.write(content(slot(4711, 5)), chip_id)
    file = place.file()
    assert (file["state"], file["chip"], file["slots"]) == ("garbage", chip_id, [])


def test_chip_0_has_a_plain_number(place: Place) -> None:
    place.write(content(slot(4711, 5)), 0)
    assert (place.file()["chip"], place.file()["state"]) == ("0", "ok")


@pytest.mark.parametrize(
    "change",
    [{"totals": (PIB + 1,)}, {"totals": (0, 0, 0, 0, 2**64 - 1)}, {"number": 65536}, {"number": 0xFFFFFFFF}],
    ids=["dram", "cb", "chip 65536", "chip -1"],
)
def test_a_header_that_makes_no_sense(place: Place, change: dict[str, Any]) -> None:
    place.write(content(slot(4711, 5), **change))
    assert (place.file()["state"], place.file()["slots"], place.file()["live"]) == ("garbage", [], None)


def _plant(path: Path, what: str) -> None:
    path.unlink(missing_ok=True)
    if what == "pipe":
        os.mkfifo(path)
    elif what == "folder":
        path.mkdir()
    elif what == "socket":
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(path))
    elif what == "link":
        path.symlink_to("tt_device_1_memory")
    elif what == "dangling link":
        path.symlink_to("nothing")


@pytest.mark.parametrize("what", ["pipe", "folder", "socket", "link", "dangling link"])
def test_what_was_planted_there_hurts_nobody(place: Place, what: str) -> None:
    path = place.write(content(slot(4711, 5)), 1)
    place.process(4711, path)
    _plant(path.with_name("tt_device_2_memory"), what)
    place.write(content(slot(4711, 6)), 3)
    files = place.counters.look()["files"]
    assert [file["state"] for file in files] == ["ok", "garbage", "ok"]
    assert files[1]["owner"] == os.getuid()
    assert not_none(files[0]["live"])["dram"] == 5


@pytest.mark.parametrize("what", ["pipe", "folder", "link"])
def test_a_file_exchanged_between_two_steps(place: Place, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = place.write(content(slot(4711, 5)))
    opened = os.open

    def exchange(name: str, flags: int) -> int:
        _plant(path, what)
        return opened(name, flags)

    monkeypatch.setattr(os, "open", exchange)
    file = place.file()
    assert file["state"] == "unreadable"
    assert file["slots"] == []


def test_a_file_that_goes_away_between_two_steps(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    path = place.write(content(slot(4711, 5)))
    opened = os.open

    def remove(name: str, flags: int) -> int:
        path.unlink()
        return opened(name, flags)

    monkeypatch.setattr(os, "open", remove)
    assert place.counters.look()["state"] == "absent"


def test_too_many_files(place: Place) -> None:
    for chip_id in range(1100):
        place.write(b"", chip_id)
    found = place.counters.look()
    assert len(found["files"]) == 1024
    assert "1100" in not_none(found["why"])


def test_files_are_sorted_by_name(place: Place) -> None:
    for chip_id in (2, 10, 1):
        place.write(content(), chip_id)
    assert [file["chip"] for file in place.counters.look()["files"]] == ["10", "1", "2"]


# Which process a slot belongs to


def test_the_start_must_precede_the_update(place: Place) -> None:
    """Start times are rounded down to a tick: a process that began in the tick of the update may be the writer."""
    started = machines.BOOTED + START / machines.TICKS
    tick = 1 / machines.TICKS
    path = place.write(content(slot(4711, 5)))
    place.process(4711, path, start=START)
    for updated, state in [
        (started - 2 * tick, "reused"),
        (started - tick, "live"),
        (started, "live"),
        (started + 3600, "live"),
    ]:
        place.write(content(slot(4711, 5, updated=updated)))
        assert place.only()["state"] == state, updated - started


@pytest.mark.parametrize("letter", ["Z", "X"])
def test_a_process_that_has_ended_is_dead(place: Place, letter: str) -> None:
    path = place.write(content(slot(4711, 5)))
    place.process(4711, path, state=letter)
    assert place.only()["state"] == "dead"
    assert place.file()["stale"]["dram"] == 5


def test_a_kernel_thread_is_never_meant(place: Place) -> None:
    path = place.write(content(slot(4711, 5, name=b"kworker/1:2")))
    process = place.process(4711, path, name="kworker/1:2")
    fields = (process / "stat").read_text().split()
    fields[8] = str(0x00200000 | 0x04000040)
    (process / "stat").write_text(" ".join(fields))
    _forbid(process)
    assert place.only()["state"] == "reused"


def test_another_file_of_that_name_is_not_ours(place: Place) -> None:
    """A container with a /dev/shm of its own has a file of the same name for the same chip."""
    path = place.write(content(slot(4711, 5)))
    other = path.with_name("other")
    other.write_bytes(b"")
    place.process(4711, mapping(other).replace("/other", f"/{path.name}"))
    assert place.only()["state"] == "reused"


def test_a_file_that_was_deleted_is_not_ours(place: Place) -> None:
    path = place.write(content(slot(4711, 5)))
    place.process(4711, mapping(path, " (deleted)"))
    assert place.only()["state"] == "reused"


def test_a_path_with_spaces_is_ours(place: Place) -> None:
    path = place.write(content(slot(4711, 5)))
    place.process(4711, mapping(path).replace("/dev/shm/", "/mnt/the host's shm/"))
    assert place.only()["state"] == "live"


def _forbid(process: Path) -> None:
    """A folder in place of the file: it cannot be read, even by root."""
    (process / "maps").unlink()
    (process / "maps").mkdir()


def test_mappings_that_may_not_be_read(place: Place) -> None:
    path = place.write(content(slot(4711, 5)))
    _forbid(place.process(4711, path))
    only = place.only()
    assert (only["state"], only["process"]) == ("live", 4711)
    assert "mappings" in only["why"]


def test_mappings_that_may_not_be_read_of_a_process_of_another_name(place: Place) -> None:
    """Otherwise pid 1 of a dead container would be the host's init forever."""
    place.write(content(slot(1, 5)))
    _forbid(place.machine.root / "proc/1")
    assert place.only()["state"] == "reused"
    assert "systemd" in place.only()["why"]


def test_mappings_that_never_come(place: Place) -> None:
    path = place.write(content(slot(4711, 5), slot(4712, 6)))
    hanging = place.process(4711, path) / "maps"
    place.process(4712, path)
    hanging.unlink()
    os.mkfifo(hanging)
    first, second = place.file()["slots"]
    assert (first["state"], second["state"], second["why"]) == ("live", "live", None)
    assert "may hang" in first["why"]
    # It continues: opening for writing unblocks the reader, closing ends it.
    with hanging.open("w") as maps:
        maps.write(mapping(path))
    for _ in range(1000):
        first, _ = place.file()["slots"]
        if first["why"] is None:
            break
    assert (first["state"], first["why"]) == ("live", None)


def test_mappings_are_asked_for_once_a_minute(place: Place) -> None:
    path = place.write(content(slot(4711, 5)))
    process = place.process(4711, path)
    assert place.only()["state"] == "live"
    (process / "maps").chmod(0o600)
    (process / "maps").write_text(LIBRARY)  # as after exec: the same pid and start, another program
    place.time += 59
    assert place.only()["state"] == "live"
    place.time += 1
    assert place.only()["state"] == "reused"


def test_what_is_not_mapped_is_asked_for_once_a_minute_too(place: Place) -> None:
    path = place.write(content(slot(4711, 5)))
    process = place.process(4711)
    assert place.only()["state"] == "reused"
    (process / "maps").chmod(0o600)
    (process / "maps").write_text(mapping(path))
    assert place.only()["state"] == "reused"
    place.time += 60
    assert place.only()["state"] == "live"


def test_a_chip_opened_later_is_found_at_once(place: Place) -> None:
    first = place.write(content(slot(4711, 5)), 1)
    process = place.process(4711, first)
    assert place.only()["state"] == "live"
    second = place.write(content(slot(4711, 6)), 2)
    (process / "maps").chmod(0o600)
    (process / "maps").write_text(mapping(first) + mapping(second))
    assert [not_none(file["live"])["dram"] for file in place.counters.look()["files"]] == [5, 6]


def test_one_question_serves_all_chips(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [place.write(content(slot(4711, 5)), chip_id) for chip_id in range(4)]
    place.process(4711, "".join(mapping(path) for path in paths[:3]))
    asked = []
    ask = shm._mapped_files

    def counted(process: str, headless: bool) -> set[tuple[int, int]]:
        asked.append(process)
        return ask(process, headless)

    monkeypatch.setattr(shm, "_mapped_files", counted)
    for _ in range(3):
        states = [file["slots"][0]["state"] for file in place.counters.look()["files"]]
        assert states == ["live", "live", "live", "reused"]
    assert len(asked) == 2, "once for all that are mapped, and once for the one that is not and might be new"


def test_a_new_process_of_the_same_number_is_asked_anew(place: Place) -> None:
    path = place.write(content(slot(4711, 5)))
    place.process(4711, path)
    assert place.only()["state"] == "live"
    place.end(4711)
    assert place.only()["state"] == "dead"
    place.process(4711, start=START + 1)
    assert place.only()["state"] == "reused"


def test_without_the_time_of_boot_only_the_mapping_counts(place: Place) -> None:
    (place.machine.root / "proc/stat").write_text("cpu 1 2 3 4\n")
    path = place.write(content(slot(4711, 5), slot(4712, 6)))
    place.process(4711, path)
    _forbid(place.process(4712, path))
    assert [one["state"] for one in place.file()["slots"]] == ["live", "reused"]


def test_a_container(place: Place) -> None:
    path = place.write(content(slot(17, 5)))
    place.process(91234, path, inner_pid=17)
    assert place.only()["state"] == "dead", "nobody said who could be 17 elsewhere"
    only = place.only(holder(4711), holder(91234, 17))
    assert (only["state"], only["pid"], only["process"], only["start"]) == ("live", 17, 91234, START)
    assert only["user_id"] == os.getuid()
    assert "17" in only["why"]


def test_a_container_beside_a_process_of_ours_with_that_number(place: Place) -> None:
    path = place.write(content(slot(17, 5)))
    place.process(17, name="sshd")
    place.process(91234, path, inner_pid=17)
    assert place.only(holder(91234, 17))["process"] == 91234
    assert place.only()["state"] == "reused"


def test_a_container_that_has_another_file_mapped(place: Place) -> None:
    place.write(content(slot(17, 5)))
    place.process(91234, inner_pid=17)
    assert place.only(holder(91234, 17))["state"] == "dead"


def test_a_process_of_a_container_did_not_write_its_outer_number(place: Place) -> None:
    path = place.write(content(slot(4711, 5)))
    place.process(4711, path, inner_pid=17)
    assert place.only(holder(4711, 17))["state"] == "reused"


def test_a_certain_container_comes_before_a_likely_process(place: Place) -> None:
    """An ordinary user may not read the mappings of init, and the first process of a container also has pid 1."""
    path = place.write(content(slot(1, 5, name=b"systemd")))
    _forbid(place.machine.root / "proc/1")
    place.process(91234, path, inner_pid=1)
    assert place.only(holder(91234, 1))["process"] == 91234
    assert place.only()["process"] == 1


def test_two_containers_share_a_slot(place: Place) -> None:
    """Each runs its program as pid 1, and tt-metal distinguishes them by nothing else."""
    path = place.write(content(slot(1, 5)))
    for pid in (91234, 91235):
        place.process(pid, path, inner_pid=1)
    file = place.file(holder(91234, 1), holder(91235, 1))
    (only,) = file["slots"]
    assert (only["state"], only["process"]) == ("live", None)
    assert "91234 and 91235" in only["why"]
    assert file["live"]["dram"] == 5


def test_seen_from_inside_a_container_nobody_is_surely_dead(folder: Path) -> None:
    machine = machines.Machine(folder)
    machine.shm_file(UID, content(slot(4711, 5)))
    (folder / "proc/self/ns").mkdir(parents=True)
    for namespace, told in (("pid:[4026531836]", False), ("pid:[4026532201]", True)):
        (folder / "proc/self/ns/pid").unlink(missing_ok=True)
        (folder / "proc/self/ns/pid").symlink_to(namespace)
        (only,) = Counters(str(folder)).look()["files"][0]["slots"]
        assert ("container" in not_none(only["why"])) is told


# The defects of the counters, in the order of the list of facts


def test_defect_1_a_killed_process_leaves_its_bytes(place: Place) -> None:
    path = place.write(content(slot(4711, 100, 50, 10, 5, 7), slot(4712, 1, 2, 3, 4, 9), attached=2))
    place.process(4712, path)
    file = place.file()
    assert [one["state"] for one in file["slots"]] == ["dead", "live"]
    assert file["live"] == sums(1, 2, 3, 4, 9)
    assert file["stale"] == {"dram": 100, "l1": 50, "l1_small": 10, "trace": 5, "cb": None}
    assert file["totals"] == sums(101, 52, 13, 9, 16)


def test_defect_2_statistics_by_chip_are_not_used(place: Place) -> None:
    path = place.write(content(slot(4711, 5)))
    place.process(4711, path)
    before = place.file()
    data = bytearray(path.read_bytes())
    data[88:856] = bytes(range(256)) * 3
    path.write_bytes(data)
    assert place.file() == before


def test_defect_3_the_total_of_circular_buffers_is_not_used(place: Place) -> None:
    path = place.write(content(slot(4711, 0, 0, 0, 0, 786432), slot(4712, 0, 0, 0, 0, 786432), totals=(0, 0, 0, 0, 0)))
    place.process(4711, path)
    place.process(4712, path)
    file = place.file()
    assert (file["totals"]["cb"], file["live"]["cb"], file["stale"]["cb"]) == (0, 2 * 786432, None)


def test_defect_4_what_another_thread_freed_is_never_below_zero(place: Place) -> None:
    """tt-metal stops each counter at 0 separately: a slot may exceed the totals, which does not make it stale."""
    path = place.write(content(slot(4711, 500, 7), totals=(100, 0)))
    place.process(4711, path)
    file = place.file()
    assert file["live"] == sums(500, 7)
    assert file["stale"] == {**sums(), "cb": None}


def test_defect_8_a_forked_child_leaves_a_slot_without_totals(place: Place) -> None:
    path = place.write(content(slot(4712, 2 << 20), totals=(0, 0, 0, 0, 0), attached=0))
    place.process(4712, path)
    assert place.file()["live"]["dram"] == 2 << 20
    place.end(4712)
    file = place.file()
    assert (file["slots"][0]["state"], file["live"]["dram"], file["stale"]["dram"]) == ("dead", 0, 0)


def test_defect_9_a_number_is_used_again(place: Place) -> None:
    path = place.write(content(slot(4711, 5)))
    place.process(4711, path, name="python3", start=round((NOW + 60 - machines.BOOTED) * machines.TICKS))
    only = place.only()
    assert (only["state"], only["process"], only["user_id"]) == ("reused", None, None)
    assert "python3" in only["why"]
    assert place.file()["stale"]["dram"] == 5


def test_defect_9_the_table_is_full(place: Place) -> None:
    slots = [slot(pid, 1) for pid in range(5000, 5064)]
    path = place.write(content(*slots, totals=(1064,)))
    for pid in range(5000, 5064):
        place.process(pid, path)
    file = place.file()
    assert (file["state"], file["live"]["dram"], file["stale"]["dram"]) == ("ok", 64, 0), "1000 may be in use"
    assert "64 slots" in file["why"]
    place.end(5000)
    assert (place.file()["live"]["dram"], place.file()["stale"]["dram"]) == (63, 1), "and one is of a dead process"
    place.write(content(*slots[:-1]))
    assert place.file()["why"] is None


def test_defect_11_a_closed_device_leaves_nothing(place: Place) -> None:
    """The name and the time stay in a slot whose pid was cleared."""
    place.write(content(slot(0, 0), attached=0))
    file = place.file()
    assert (file["slots"], file["live"], file["attached"]) == ([], sums(), 0)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file away")
def test_defect_12_the_file_of_another_user(place: Place) -> None:
    path = place.write(content(slot(4711, 5)))
    os.chown(path, 65533, 65533)
    root = place.machine.root
    root.chmod(0o755)
    found = _look_as(65534, root)
    (file,) = found["files"]
    assert (found["state"], file["state"], file["owner"], file["live"]) == ("unreadable", "unreadable", 65533, None)
    assert "uid 65533" in file["why"]
    assert "root" in file["why"]
    other = place.write(content(slot(4711, 5)), 990001)
    os.chown(other, 65534, 65534)
    found = _look_as(65534, root)
    assert (found["state"], [file["state"] for file in found["files"]]) == ("ok", ["unreadable", "ok"])
    assert "1 of 2" in found["why"]
    os.chown(path, 0, 0)
    assert "root (uid 0)" in _look_as(65534, root)["files"][0]["why"]
    (root / "dev/shm").chmod(0o600)
    assert (_look_as(65534, root)["state"], _look_as(65534, root)["files"]) == ("unreadable", [])
    (root / "dev/shm").chmod(0o644)
    assert [file["state"] for file in _look_as(65534, root)["files"]] == ["unreadable", "unreadable"]


def _look_as(user_id: int, root: Path) -> Any:
    """Of a process of another user, which the test passes in because the code may not find it."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([])
            os.setresgid(user_id, user_id, user_id)
            os.setresuid(user_id, user_id, user_id)
            os.write(writing, json.dumps(Counters(str(root)).look()).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as answer:
        text = answer.read()
    os.waitpid(pid, 0)
    return json.loads(text)


def test_defect_13_an_allocation_met_between_its_two_writes(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The total is updated and the slot not yet: these bytes do not belong to a dead process, as "stale" would mean."""
    path = place.write(content(slot(4711, 5), totals=(105,)))
    place.process(4711, path)
    pread = os.pread

    def meanwhile(descriptor: int, size: int, offset: int) -> bytes:
        data = pread(descriptor, size, offset)
        place.write(content(slot(4711, 105)))
        return data

    monkeypatch.setattr(os, "pread", meanwhile)
    file = place.file()
    assert (file["totals"]["dram"], file["live"]["dram"], file["stale"]["dram"]) == (105, 105, 0)


def test_defect_13_a_file_cut_between_two_reads(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    path = place.write(content(slot(4711, 5), totals=(105,)))
    pread = os.pread

    def cut(descriptor: int, size: int, offset: int) -> bytes:
        data = pread(descriptor, size, offset)
        os.truncate(path, 100)
        return data

    monkeypatch.setattr(os, "pread", cut)
    assert (place.file()["state"], place.file()["slots"]) == ("unready", [])


@pytest.mark.parametrize(
    "bad",
    [slot(-1, 5), slot(-4711, 5), slot(4711, PIB + 1), slot(4711, 0, 0, 0, 0, 2**64 - 1)],
    ids=["pid -1", "pid -4711", "dram", "cb"],
)
def test_defect_13_a_slot_that_makes_no_sense(place: Place, bad: bytes) -> None:
    path = place.write(content(bad, slot(4712, 6), totals=(20, 0, 0, 0, 0)))
    place.process(4711, path)
    place.process(4712, path)
    file = place.file()
    assert [one["state"] for one in file["slots"]] == ["garbage", "live"]
    assert (file["live"], file["stale"]["dram"]) == (sums(6), 14)


def test_names_cannot_upset_a_terminal(place: Place) -> None:
    place.write(content(slot(4711, 5, name=b"\x1b[2J\xff\0rest"), slot(4712, 5, name=b""), slot(4713, name=b"x" * 64)))
    names = [one["name"] for one in place.file()["slots"]]
    assert names == ["\\x1b[2J\\xff", None, "x" * 64]


# Laws


@settings(max_examples=300)
@given(
    data=st.one_of(
        st.binary(max_size=300),
        st.binary(min_size=SIZE, max_size=SIZE + 8),
        st.builds(
            lambda version, rest, state: (
                struct.pack("<I", version) + rest[4:8536] + struct.pack("<I", state) + rest[8540:]
            ),
            st.sampled_from([2, 3, 4]),
            st.binary(min_size=SIZE, max_size=SIZE),
            st.sampled_from([0x52454459, 0, 7]),
        ),
        st.builds(
            lambda slots, totals: content(*slots, totals=totals),
            st.lists(st.binary(min_size=120, max_size=120), max_size=64),
            st.tuples(*[st.integers(0, PIB)] * 5),
        ),
    ),
    inner=st.integers(-5, 5000),
)
def test_arbitrary_bytes_never_raise(place_of_all: Place, data: bytes, inner: int) -> None:
    place_of_all.write(data)
    found = place_of_all.counters.look([holder(1, inner)])
    json.dumps(found)
    (file,) = found["files"]
    assert file["state"] in ("ok", "unready", "unsupported", "garbage")
    assert (file["state"] == "ok") or (file["slots"], file["live"], file["stale"]) == ([], None, None)


@pytest.fixture(scope="module")
def place_of_all(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(tmp_path_factory.mktemp("shm"))


@settings(max_examples=100)
@given(
    slots=st.lists(st.tuples(st.booleans(), *[st.integers(0, 1 << 44)] * 5), max_size=64),
    totals=st.none() | st.tuples(*[st.integers(0, PIB)] * 5),
)
def test_live_and_stale_make_up_the_totals(
    folder_of_lives: Place, slots: list[tuple[Any, ...]], totals: tuple[int, ...] | None
) -> None:
    """Even pids live in that folder, odd ones do not."""
    entries = [slot(10_000 + 2 * place + (not lives), *numbers) for place, (lives, *numbers) in enumerate(slots)]
    folder_of_lives.write(content(*entries, totals=totals or ()))
    file = folder_of_lives.file()
    for kind, name in enumerate(KINDS, 1):
        assert file["live"][name] == sum(one[kind] for one in slots if one[0])
        if name == "cb":
            assert file["stale"][name] is None
            continue
        assert file["live"][name] + file["stale"][name] >= file["totals"][name] or len(slots) == 64
        if totals is None:
            assert file["stale"][name] == sum(one[kind] for one in slots if not one[0])


@pytest.fixture(scope="module")
def folder_of_lives(tmp_path_factory: pytest.TempPathFactory) -> Place:
    place = Place(tmp_path_factory.mktemp("shm"))
    path = place.write(b"")
    for pid in range(10_000, 10_128, 2):
        place.process(pid, path)
    return place


def test_from_inside_a_container_nobody_is_surely_gone(place: Place) -> None:
    path = place.write(content(slot(4711, 5)))
    assert "unsure" not in place.only()
    namespace = place.machine.root / "proc/self/ns/pid"
    namespace.parent.mkdir(parents=True)
    namespace.symlink_to("pid:[4026532000]")
    place.counters = Counters(str(place.machine.root))
    assert (place.only()["state"], place.only()["unsure"]) == ("dead", True)
    place.process(4711, path)
    assert place.only()["state"] == "live"


# Actions of other users in /dev/shm


class _Machine:
    """A machine that can have files and processes of any user. Creating it requires root."""

    def __init__(self, place: Place) -> None:
        if os.getuid():
            pytest.skip("only root may give files away")
        self.place = place

    def slot(self, *, file: int, process: int, mode: int = 0o600, maps: bool = True) -> dict[str, Any]:
        path = self.place.machine.shm_file(UID, content(slot(4711, PIB)), mode=mode, owner=file)
        folder = self.place.machine.process(4711, user_id=process, maps=mapping(path))
        if not maps:
            _forbid(folder)
        return self.place.only()


@pytest.mark.parametrize(
    ("file", "process", "mode", "maps", "state"),
    [
        (1001, 1001, 0o600, True, "live"),
        (1001, 0, 0o600, True, "live"),  # root may write anywhere
        (0, 1001, 0o600, True, "live"),  # it was root when it opened the file
        (1001, 1002, 0o666, True, "live"),  # created with access for all
        (1001, 1002, 0o644, True, "reused"),
        (1001, 1001, 0o600, False, "live"),
        (1001, 0, 0o644, False, "reused"),  # if the mappings cannot be read, any user may have invented it
        (1001, 1002, 0o666, False, "reused"),
        (0, 1002, 0o600, False, "live"),  # but not root's, nor our own
    ],
)
def test_whose_file_and_whose_process(place: Place, file: int, process: int, mode: int, maps: bool, state: str) -> None:
    """Any user can create a file with any process and any number of bytes."""
    assert _Machine(place).slot(file=file, process=process, mode=mode, maps=maps)["state"] == state


def test_many_files_of_one_user_hide_none_of_another(place: Place) -> None:
    if os.getuid():
        pytest.skip("only root may give files away")
    for chip_id in range(100_000, 103_000):
        place.machine.shm_file(chip_id, b"", owner=1001)
    path = place.write(content(slot(4711, 5)))
    place.process(4711, path)
    found = place.counters.look()
    assert len(found["files"]) == 1024
    assert [not_none(file["live"])["dram"] for file in found["files"] if file["state"] == "ok"] == [5]
    assert "1024 of 3001" in not_none(found["why"])


def test_new_files_cost_a_process_one_reading_of_its_mappings_a_look(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading them takes the memory lock of a process. A user with hundreds of files must not delay other processes."""
    readings = []
    real = shm._mapped_files

    def mapped_files(*of: Any) -> Any:
        readings.append(of)
        return real(*of)

    monkeypatch.setattr(shm, "_mapped_files", mapped_files)
    path = place.write(content(slot(4711, 5)))
    place.process(4711, path)
    for look in range(3):
        for chip_id in range(50):
            place.write(content(slot(4711, 7)), look * 50 + chip_id + 1)
        files = place.counters.look()["files"]
        assert [not_none(file["live"])["dram"] for file in files if file["chip"] == str(UID)] == [5]
    assert len(readings) == 3
    for _ in range(3):
        place.counters.look()
    assert len(readings) <= 4, "all were asked for by now"


def test_a_file_that_is_mapped_while_we_look(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Changed between reading its mappings and the file: the next sample must check again, not one a minute later."""
    first, second = (place.write(content(slot(4711, size)), chip_id) for chip_id, size in ((1, 5), (2, 6)))
    process = place.process(4711, first)
    real = place.counters._file

    def late(folder: str, name: str) -> Any:
        found = real(folder, name)
        (process / "maps").chmod(0o600)
        (process / "maps").write_text(mapping(first) + mapping(second))
        return found

    monkeypatch.setattr(place.counters, "_file", late)
    assert [not_none(file["live"])["dram"] for file in place.counters.look()["files"]] == [5, 0]
    assert [not_none(file["live"])["dram"] for file in place.counters.look()["files"]] == [5, 6]


@pytest.mark.alone
def test_many_whose_mappings_hang_take_no_longer_than_one(place: Place) -> None:
    """The workers of one job, all blocked in the driver."""
    path = place.write(content(*[slot(pid, 5) for pid in range(5000, 5030)]))
    pipes = []
    for pid in range(5000, 5030):
        pipes.append(place.process(pid, path) / "maps")
        pipes[-1].unlink()
        os.mkfifo(pipes[-1])
    began = time.monotonic()
    states = [one["state"] for one in place.file()["slots"]]
    took = time.monotonic() - began
    for pipe in pipes:
        os.close(os.open(pipe, os.O_RDWR))
    assert states == ["live"] * 30
    assert took < 12, "30 times the patience is 15 s"


def test_a_user_whose_name_never_comes(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, answer = threading.Event(), threading.Event()

    def user(user_id: int) -> str | None:
        asked.set()
        answer.wait()
        return "ann"

    monkeypatch.setattr(processes, "user", user)
    path = place.write(content(slot(4711, 5)))
    place.process(4711, path)
    only = place.only()
    assert asked.is_set()
    assert (only["state"], only["dram"], only["user"]) == ("live", 5, None)
    answer.set()
    wait_until(lambda: place.only()["user"] == "ann", "the name")

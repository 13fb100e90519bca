# SPDX-License-Identifier: Apache-2.0
"""Sums of the host, of boards and of jobs; and how the job of a process is found."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import machines
from tests.snapshots import Account, counters, driver_chip, holder, machine, slot
from tests.support import not_none
from ttmem.documents import unknown_rows as blank
from ttmem.documents.host_totals import STATES, sums
from ttmem.documents.merge import merge
from ttmem.model import schema
from ttmem.model.events import ProcessExited
from ttmem.show.smi_screen import render
from ttmem.show.text import Style
from ttmem.sources import process_lookup as processes

MIB = 1 << 20


def chip(chip_id: str, serial: str | None = None, **used: int | None) -> schema.ChipRow:
    """A chip with 100 bytes of DRAM and 50 of L1, of which this much is used."""
    row = blank.chip(chip_id, board="n300")
    row["serial"] = serial
    dram, l1 = row["memory"]["dram"], row["memory"]["l1"]
    dram["used"], dram["capacity"] = used.get("dram"), 100
    l1["used"], l1["capacity"], l1["at_once"] = used.get("l1"), 50, used.get("l1")
    return row


def process(pid: int | None, job: str | None = None, state: str = "tracked", **dram: int | None) -> schema.ProcessRow:
    """A process with this much DRAM on each chip."""
    row = blank.process(pid, state)
    row["job"] = {"id": job, "name": "bash"} if job else None
    for chip_id, size in dram.items():
        share = blank.share(chip_id)
        share["dram"] = size
        row["chips"].append(share)
    return row


def by_id(found: schema.Sums) -> dict[str | None, schema.JobSum]:
    return {job["id"]: job for job in found["jobs"]}


# -- boards


def test_chips_with_one_serial_number_are_a_board() -> None:
    near, far, other = chip("a", "01", dram=10), chip("b", "01", dram=20), chip("c", "02", dram=40)
    found = sums([near, other, far], [process(1, a=10, b=20), process(2, c=40)])
    first, second = found["boards"]
    assert (first["serial"], first["board"], first["chips"], first["processes"]) == ("01", "n300", ["a", "b"], 1)
    assert first["dram"] == {
        **{"used": 30, "used_on": 2, "reserved": None, "reserved_on": 0},
        **{"capacity": 200, "capacity_on": 2},
    }
    assert (second["serial"], second["dram"]["used"]) == ("02", 40)
    assert (found["host"]["dram"]["used"], found["host"]["processes"]) == (70, 2)


def test_a_chip_that_shows_no_serial_number_is_on_no_board_in_particular() -> None:
    """The remote chip of an n300 is on one of the boards, but it is not known which one."""
    found = sums([chip("a", dram=5), chip("b", "01", dram=10), chip("c", dram=7)], [])
    assert [(board["serial"], board["chips"]) for board in found["boards"]] == [("01", ["b"]), (None, ["a", "c"])]
    assert found["boards"][1]["dram"]["used"] == 12


def test_boards_of_different_types_have_none_in_common() -> None:
    rows = [chip("a"), chip("b")]
    rows[1]["board"] = "p150"
    assert [board["board"] for board in sums(rows, [])["boards"]] == [None]


def test_what_is_not_known_is_no_zero_and_is_counted() -> None:
    known, unknown = chip("a", dram=0), chip("b")
    assert sums([unknown], [])["host"]["dram"]["used"] is None
    both = sums([known, unknown], [])["host"]
    assert (both["dram"]["used"], both["dram"]["used_on"], len(both["chips"])) == (0, 1, 2)
    assert (both["l1"]["at_once"], both["l1"]["at_once_on"]) == (None, 0)


def test_what_is_known_in_part_is_not_known_on_that_chip() -> None:
    """A second process has opened the chip, and its use of the chip is unknown."""
    account = Account()
    account.tracked(7, "77", dram=MIB)
    merged = merge(account.snapshot(), machine(driver_chip(0), processes=[holder(7, 0), holder(8, 0)]))
    found = not_none(merged["sums"])
    assert (found["host"]["dram"]["used"], found["host"]["dram"]["used_on"]) == (MIB, 0)
    assert (found["host"]["dram"]["capacity_on"], found["host"]["processes"]) == (1, 2)


def test_chips_that_nobody_holds_are_idle() -> None:
    rows = [chip("a"), chip("a"), chip("a")]
    for row, held in zip(rows, (True, False, None)):
        row["held"] = held
    assert sums(rows, [])["host"]["idle"] == 1


# -- jobs


def test_processes_of_a_job_are_summed() -> None:
    rows = [process(1, "slurm job 7", a=10), process(2, "slurm job 7", a=5, b=1), process(3, "session 9", b=2)]
    found = by_id(sums([chip("a", dram=15), chip("b", dram=3)], rows))
    slurm, session = found["slurm job 7"], found["session 9"]
    assert (slurm["chips"], slurm["processes"], slurm["name"]) == (["a", "b"], 2, "bash")
    assert (slurm["dram"]["used"], slurm["dram"]["used_on"], session["dram"]["used"]) == (16, 2, 2)


def test_only_the_living_use_anything() -> None:
    rows = [
        process(1, "session 9", a=10),
        *(process(n, "session 9", state, b=5) for n, state in enumerate(STATES[2:], 2)),
    ]
    (job,) = sums([chip("a", dram=10), chip("b")], rows)["jobs"]
    assert (job["chips"], job["processes"], job["dram"]["used"]) == (["a"], 1, 10)
    assert job["states"] == {"tracked": 1, "untracked": 0, "stale": 1, "exited": 1}


def test_a_container_is_a_job_whatever_was_started_in_it() -> None:
    rows = [process(pid, f"session {pid}", a=1) for pid in (1, 2)]
    for row in rows:
        row["container"] = "docker 3f2a91c0b7de"
    (job,) = sums([chip("a", dram=2)], rows)["jobs"]
    assert (job["id"], job["name"], job["processes"]) == ("docker 3f2a91c0b7de", None, 2)


def test_of_some_it_is_not_known_with_whom_they_belong() -> None:
    outside = process(None, a=3)
    outside["container"] = "outside this pid namespace"
    found = sums([chip("a", dram=8)], [outside, process(2, a=4), process(3, "session 9", a=1)])
    assert [(job["id"], job["processes"], job["dram"]["used"]) for job in found["jobs"]] == [
        ("session 9", 1, 1),
        (None, 2, 7),
    ]


def test_one_of_a_job_may_be_silent() -> None:
    silent = process(2, "session 9")
    silent["holds"] = ["a", "b"]
    (job,) = sums([chip("a", dram=5), chip("b")], [process(1, "session 9", a=5), silent])["jobs"]
    assert (job["chips"], job["dram"]["used"], job["dram"]["used_on"]) == (["a", "b"], 5, 0)
    (job,) = sums([chip("a", dram=5)], [{**process(1, "session 9", a=5), "holds": ["a"]}])["jobs"]
    assert (job["dram"]["used"], job["dram"]["used_on"], job["l1"]["used_on"]) == (5, 1, 0)


def test_the_leader_of_a_session_may_have_gone_meanwhile() -> None:
    late, early = process(1, "session 9"), process(2, "session 9")
    not_none(late["job"])["name"] = None
    for order in ([late, early], [early, late]):
        assert [(job["id"], job["name"]) for job in sums([], order)["jobs"]] == [("session 9", "bash")]


def test_what_allocators_took_is_a_jobs_own_where_nobody_else_is() -> None:
    rows = [chip("a", dram=10), chip("b", dram=10)]
    for row in rows:
        row["memory"]["dram"]["reserved"] = 16
    opener = process(3, "session 8")
    opener["holds"] = ["b"]  # has b open, and its use of b is unknown
    found = by_id(sums(rows, [process(1, "session 9", a=5, b=10), process(2, "session 9", a=5), opener]))
    assert (found["session 9"]["dram"]["reserved"], found["session 9"]["dram"]["reserved_on"]) == (16, 1)
    assert found["session 8"]["chips"] == ["b"]
    assert (found["session 8"]["dram"]["used"], found["session 8"]["dram"]["reserved"]) == (None, None)


def test_whoever_holds_a_chip_is_looked_up_in_its_job() -> None:
    account = Account()
    account.tracked(7, "77", dram=MIB)
    job = {"id": "slurm job 1234", "name": None}
    snapshot = merge(account.snapshot(), machine(driver_chip(0), processes=[{**holder(7, 0), "job": job}]))
    assert snapshot["processes"][0]["job"] == job
    assert [(row["id"], row["dram"]["used"]) for row in not_none(snapshot["sums"])["jobs"]] == [("slurm job 1234", MIB)]


# -- laws


@st.composite
def snapshots(draw: st.DrawFn) -> schema.Snapshot:
    """A machine with tracked, counted and unknown processes, some in containers and jobs, and some that exited."""
    account, chips = Account(), [str(800 + number) for number in range(draw(st.integers(0, 4)))]
    pids = list(range(10, 10 + draw(st.integers(0, 5))))
    for pid in pids:
        for number, chip_id in enumerate(chips):
            if draw(st.booleans()):
                account.tracked(pid, chip_id, device=number, dram=draw(_SIZES), l1=draw(_SIZES))
        if account.ledger.processes and draw(st.integers(0, 3)) == 0:
            account.apply(account.source(pid), ProcessExited())
    files = []
    for chip_id in chips:
        counted = [pid for pid in range(20, 23) if draw(st.booleans())]
        files.append(counters(chip_id, *(slot(pid, draw(_SIZES), draw(_SIZES)) for pid in counted)))
    seen = [driver_chip(n, serial=draw(st.sampled_from([None, "01", "02"]))) for n in range(draw(st.integers(0, 3)))]
    holders = []
    for pid in (*pids, 20, 21):
        if draw(st.booleans()) and seen:
            jobs = [None, *({"id": f"session {n}", "name": None} for n in range(2))]
            who = {"container": draw(st.sampled_from([None, "docker a"])), "job": draw(st.sampled_from(jobs))}
            holders.append({**holder(pid, *draw(st.sets(st.integers(0, len(seen) - 1)))), **who})
    return merge(account.snapshot(), machine(*seen, processes=holders, shm=files))


_SIZES = st.integers(0, 1 << 34)


def leaves(value: Mapping[str, object], where: str = "") -> Iterator[tuple[str, int]]:
    """Every number of a sum, without None, and the number of chips."""
    for key, inner in value.items():
        if isinstance(inner, dict):
            yield from leaves(inner, f"{where}{key}.")
        elif isinstance(inner, list) and key == "chips":
            yield "chips", len(inner)
        elif isinstance(inner, int):
            yield f"{where}{key}", inner


def total(parts: Sequence[Mapping[str, object]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for part in parts:
        for name, size in leaves(part):
            found[name] = found.get(name, 0) + size
    return {name: size for name, size in found.items() if size}


@given(snapshots())
def test_the_parts_add_up_to_the_whole(snapshot: schema.Snapshot) -> None:
    """The expected sums are computed from the chips and the shares, not from other sums."""
    found, chips = not_none(snapshot["sums"]), snapshot["chips"]
    whole, boards, jobs = total([found["host"]]), total(found["boards"]), total(found["jobs"])
    several = {"processes"}  # one may be on two boards
    assert {k: v for k, v in boards.items() if k not in several} == {k: v for k, v in whole.items() if k not in several}
    assert whole.get("chips", 0) == len(chips)
    assert sorted(chip_id for board in found["boards"] for chip_id in board["chips"]) == sorted(
        chip["chip"] for chip in chips
    )
    alive = [process for process in snapshot["processes"] if process["state"] in ("tracked", "untracked")]
    for pool in ("dram", "l1"):
        used = sum(chip["memory"][pool]["used"] or 0 for chip in chips)
        assert whole.get(f"{pool}.used", 0) == jobs.get(f"{pool}.used", 0) == used
        assert used == sum(share[pool] or 0 for process in alive for share in process["chips"])
        assert jobs.get(f"{pool}.reserved", 0) <= whole.get(f"{pool}.reserved", 0)
    assert jobs.get("processes", 0) == len(alive)
    assert sum(jobs.get(f"states.{state}", 0) for state in STATES) == len(snapshot["processes"])
    assert len({job["id"] for job in found["jobs"]}) == len(found["jobs"])


@given(snapshots())
def test_to_sum_changes_nothing(snapshot: schema.Snapshot) -> None:
    before = copy.deepcopy(snapshot)
    assert sums(snapshot["chips"], snapshot["processes"]) == before["sums"]
    assert snapshot == before


# -- as text


def screen(*, boards: int, jobs: Mapping[int, str | None], held: int | None = None) -> schema.Snapshot:
    """Four chips on this many boards. Process N holds and uses chip N."""
    account, holders = Account(), []
    for number, job in jobs.items():
        account.tracked(10 + number, str(800 + number), dram=(number + 1) * MIB, l1=MIB)
        holders.append({**holder(10 + number, number), "job": {"id": job, "name": "bash"} if job else None})
    if held is not None:
        holders.append(holder(20, held))
    chips = [driver_chip(number, serial=f"0{number % boards}") for number in range(4)]
    return merge(account.snapshot(), machine(*chips, processes=holders))


def table(snapshot: Any, width: int = 100, **keywords: Any) -> list[str]:
    """The lines of the sums, with single spaces; empty if they are not shown."""
    lines = render(snapshot, Style(width), **keywords).split("\n")
    start = next((place for place, line in enumerate(lines) if line.startswith("SUM OF")), len(lines))
    return [" ".join(line.split()) for line in lines[start : lines.index("", start) if start < len(lines) else start]]


def test_boards_of_several_chips_are_shown() -> None:
    title, *rows = table(screen(boards=2, jobs={0: None, 1: None, 2: None}))
    assert title == "SUM OF CHIPS PROCESSES DRAM SIZE L1"
    assert rows == [
        "host box 0-3 3 6.0 MiB 48.0 GiB 3.0 MiB",
        "board n150 00 0,2 2 4.0 MiB 24.0 GiB 2.0 MiB",
        "board n150 01 1,3 1 2.0 MiB 24.0 GiB 1.0 MiB",
    ]


def test_a_job_of_several_processes_is_shown_with_the_largest_first() -> None:
    jobs = {0: "slurm job 5", 1: "slurm job 5", 2: "session 9", 3: "session 9"}
    rows = table(screen(boards=4, jobs=jobs))[1:]
    assert rows == [
        "host box 0-3 4 10.0 MiB 48.0 GiB 4.0 MiB",
        "session 9 bash 2-3 2 7.0 MiB 2.0 MiB",
        "slurm job 5 bash 0-1 2 3.0 MiB 2.0 MiB",
    ]


def test_what_is_missing_in_a_sum_is_marked() -> None:
    rows = table(screen(boards=2, jobs={0: None}, held=1))[1:]
    assert rows[0] == "host box 0-3 2 1.0 MiB? 48.0 GiB 1.0 MiB?"
    assert rows[1] == "board n150 00 0,2 1 1.0 MiB 24.0 GiB 1.0 MiB", "nobody holds chip 2"
    assert rows[2] == "board n150 01 1,3 1 - 24.0 GiB -"
    assert rows[3].startswith("? without")


def test_more_than_fit_are_counted() -> None:
    snapshot = screen(boards=2, jobs={0: None})
    found = not_none(snapshot["sums"])
    (board, _), host = found["boards"], found["host"]
    found["boards"] = [{**board, "serial": f"{number:02}"} for number in range(11)]
    rows = table(snapshot)[1:]
    assert len(rows) == 1 + 8 + 1
    assert rows[-1] == "and 3 more boards; --json has them all"
    assert host["chips"] == [chip["chip"] for chip in snapshot["chips"]]


def test_l1_of_programs_that_take_turns_is_marked() -> None:
    snapshot = screen(boards=4, jobs={0: "session 9", 1: "session 9"})
    not_none(snapshot["sums"])["jobs"][0]["l1"]["used"] = 3 * MIB
    rows = table(snapshot)[1:]
    assert rows[1] == "session 9 bash 0-1 2 3.0 MiB 3.0 MiB*"
    assert rows[2].startswith("* includes")


@pytest.mark.parametrize(
    ("snapshot", "width", "in_full"),
    [
        (screen(boards=4, jobs={0: "session 1", 1: "session 2", 2: None, 3: None}), 100, False),
        (screen(boards=1, jobs={0: None}), 100, False),
        (screen(boards=2, jobs={0: None}), 79, False),
        (screen(boards=2, jobs={0: None}), 100, True),
        ({**screen(boards=2, jobs={0: None}), "sums": None}, 100, False),
        ({key: value for key, value in screen(boards=2, jobs={0: None}).items() if key != "sums"}, 100, False),
    ],
    ids=["nothing to sum", "one board", "narrow", "only some chips", "not looked at", "an older server"],
)
def test_sums_that_are_not_shown(snapshot: schema.Snapshot, width: int, in_full: bool) -> None:
    assert table(snapshot, width, in_full=in_full) == []


@pytest.mark.parametrize("width", [80, 100, 160])
def test_it_fits(width: int) -> None:
    snapshot: Any = screen(boards=2, jobs=dict.fromkeys(range(4), "session " + "9" * 60))
    text = render(snapshot, Style(width, ascii=True))
    assert "SUM OF" in text
    assert max(map(len, text.split("\n"))) <= width


# -- what a process is part of


def lay_out(folder: Path, cgroup: str = "/", session: object = 7) -> str:
    """Process 42 of a session whose leader is process 7."""
    laid = machines.Machine(folder)
    laid.process(42, container=cgroup)
    laid.process(7, name="bash")
    stat = folder / "proc/42/stat"
    stat.write_text(stat.read_text().replace("S 1 42 42 0", f"S 1 42 {session} 0"))
    return str(folder)


@pytest.mark.parametrize(
    ("cgroup", "job"),
    [
        ("/system.slice/slurmstepd.scope/job_1234/step_0/user/task_0", "slurm job 1234"),
        ("/system.slice/node7_slurmstepd.scope/job_1234/step_batch", "slurm job 1234"),
        ("/slurm/uid_1000/job_99/step_extern/task_0", "slurm job 99"),
        ("/slurm/uid_1000/job_/step_0", "session 7"),
        ("/slurm/uid_1000/job_x1", "session 7"),
        ("/system.slice/slurmstepd.scope/system", "session 7"),
        ("/user.slice/job_5", "session 7"),
        ("/job_5/slurm", "session 7"),
    ],
)
def test_a_slurm_job_is_known_by_its_cgroup(folder: Path, cgroup: str, job: str) -> None:
    found = processes.job(42, lay_out(folder, cgroup))
    assert found == {"id": job, "name": "bash" if job.startswith("session") else None}


def test_the_leader_of_a_session_has_ended(folder: Path) -> None:
    assert processes.job(42, lay_out(folder, session=8)) == {"id": "session 8", "name": None}


@pytest.mark.parametrize("session", [0, "x", -1])
def test_a_session_that_cannot_be_seen_is_none(folder: Path, session: object) -> None:
    assert processes.job(42, lay_out(folder, session=session)) is None


def test_nobody_has_no_job(folder: Path) -> None:
    assert processes.job(43, lay_out(folder)) is None
    (folder / "proc/42/stat").write_text("42 (cut")
    assert processes.job(42, str(folder)) is None


def test_real_sessions() -> None:
    """One process starts another in its own session; a third has a different session."""
    code = (
        "import os, subprocess, sys\n"
        "both = [subprocess.Popen(['cat'], stdin=subprocess.PIPE, start_new_session=own) for own in (False, True)]\n"
        "print(*(child.pid for child in both), flush=True)\n"
        "sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True) as leader:
        assert leader.stdout is not None
        same, other = (int(pid) for pid in leader.stdout.readline().split())
        name = Path(f"/proc/{leader.pid}/comm").read_text().strip()
        ids = [(processes.job(pid) or {})["id"] for pid in (leader.pid, same, other)]
        assert ids == [f"session {os.getsid(pid)}" for pid in (leader.pid, same, other)]
        assert ids == [f"session {leader.pid}"] * 2 + [f"session {other}"]
        assert processes.job(same) == {"id": f"session {leader.pid}", "name": name}

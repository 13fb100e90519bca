# SPDX-License-Identifier: Apache-2.0
"""Many real ttnn processes with one chip each, and one with all chips of a Galaxy: exact for each, and in the sums.

ttnn's own figures come from get_memory_view. The driver's files are in a folder: 32 chips, eight of which have the
serial number of one board, and their holders in containers.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests import machines
from tests.mock.boards import BOARDS
from tests.mock.program import Program
from tests.mock.wheel import ROOT, wheel
from tests.runs import figures, reserved, taken
from tests.support import Server, wait_until
from ttmem.agent import require
from ttmem.sources.process_lookup import start_and_state

Json = dict[str, Any]
Sizes = tuple[int, int]  # DRAM and L1
MANY = 32

# The rows of a Galaxy as meshes of their own beside the whole, and on each as many tensors as it has rows above it.
GALAXY = """
import ttnn
from ttnn_bench import Reporter, account, parser

options = parser(None).parse_args()
report = Reporter(options.report_fd, options.ack_fd)
whole = ttnn.open_mesh_device(ttnn.MeshShape({high}, {wide}))
rows = [whole.create_submesh(ttnn.MeshShape(1, {wide}), ttnn.MeshCoordinate(y, 0)) for y in range({high})]


def new(mesh, memory):
    shape = [1, 1, 32 * 9, 32 * 64]
    return ttnn.zeros(shape, dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=mesh, memory_config=memory)


def say(what):
    report(what=what, meshes=[account(mesh, listed=False) for mesh in (whole, *rows)])


held = [new(whole, memory) for memory in (ttnn.DRAM_MEMORY_CONFIG, ttnn.L1_MEMORY_CONFIG)]
say("whole")
for y, row in enumerate(rows):
    held += [new(row, ttnn.DRAM_MEMORY_CONFIG) for _ in range(y)]
say("rows")
held.clear()
say("free")
for mesh in (*reversed(rows), whole):
    ttnn.close_mesh_device(mesh)
"""


def total(sizes: Iterator[Sizes] | list[Sizes]) -> Sizes:
    dram, l1 = zip(*sizes, strict=True)
    return sum(dram), sum(l1)


def said(row: Json) -> Sizes:
    """Bytes reserved by allocators, from a sum; None if there was never anything."""
    return row["dram"]["reserved"] or 0, row["l1"]["reserved"] or 0


class Machine:
    """A machine in a folder with as many chips as processes. Each process holds one chip."""

    def __init__(self, root: Path) -> None:
        self.laid = machines.Machine(root)
        self.laid.driver()
        for number in range(MANY):
            self.laid.chip(number, "n150", pci=f"0000:{number + 1:02x}:00.0", tt_serial=f"{0x100 + number // 8:016X}")

    def holds(self, pid: int, number: int) -> None:
        born = start_and_state(pid)
        assert born is not None
        group = f"/docker/{job_of(number).removeprefix('docker '):0<64}"
        self.laid.process(pid, name="python", start=born[0], holds=[number], container=group)


def board_of(number: int) -> str:
    return f"{0x100 + number // 8:016X}"


def job_of(number: int) -> str:
    return f"docker {number % 4 + 1:012x}"


class Job:
    """32 programs that wait after each report."""

    def __init__(self, server: Server, folder: Path) -> None:
        self.programs: list[Program] = []
        for number in range(MANY):
            own = folder / str(number)
            own.mkdir()
            # Each has a different amount of DRAM, and at the end all free what they have.
            acts = [*["DRAM"] * (number + 1), *["L1"] * (1 + number % 3), "free"]
            self.programs.append(
                Program(
                    *(wheel("3.12"), "ttnn_counters", "n150", own, "--acts", ",".join(acts)),
                    environment={"LD_PRELOAD": str(require()), "TTMEM_SOCKET": server.path},
                )
            )
        self.records = [program.records() for program in self.programs]
        self.chip_ids = [str(program.chip_ids[0]) for program in self.programs]

    def fill(self) -> list[Sizes]:
        """All allocate at the same time. Returns what each has at the end, according to its own ttnn."""
        last = {}
        for act in range(MANY + 4):  # "open" first; those with less to do wait for the others
            for number, records in enumerate(self.records):
                if act <= number + 2 + number % 3:
                    last[number] = next(records)
        assert {record["act"] for record in last.values()} == {"L1"}
        return [taken(last[number]) for number in range(MANY)]

    def kill(self, numbers: list[int]) -> None:
        for number in numbers:
            os.kill(self.programs[number].pid, signal.SIGKILL)


@pytest.fixture
def job(serve: Callable[..., Server], folder: Path) -> Iterator[tuple[Server, Machine, Job]]:
    machine = Machine(folder / "machine")
    server = serve("--machine", str(folder / "machine"))
    with contextlib.ExitStack() as stack:
        job = Job(server, folder)
        for program in job.programs:
            stack.enter_context(program)
        yield server, machine, job


def by_chip(snapshot: Json) -> dict[str, Sizes]:
    return {chip["chip"]: reserved(chip["memory"]) for chip in snapshot["chips"]}


def all_in_containers(snapshot: Json) -> bool:
    """As in the files of the machine. A busy machine may read them later than the account."""
    return all(process["container"] for process in snapshot["processes"] if process["state"] == "tracked")


def agrees(server: Server, have: dict[str, Sizes]) -> bool:
    """The server reads its agents on request, for some milliseconds: it may have to be asked again."""
    return by_chip(server.snapshot()) == have


def test_32_processes_and_half_of_them_killed_at_once(job: tuple[Server, Machine, Job]) -> None:
    server, machine, jobs = job
    have = jobs.fill()
    assert len(set(have)) == MANY, "no two have the same"
    for number, program in enumerate(jobs.programs):
        machine.holds(program.pid, number)

    def settled() -> Json | None:
        snapshot = server.snapshot()
        joined = [chip["joined_by"] for chip in snapshot["chips"]]
        agree = by_chip(snapshot) == dict(zip(jobs.chip_ids, have, strict=True))
        return snapshot if joined == ["holder"] * MANY and agree and all_in_containers(snapshot) else None

    snapshot = wait_until(settled, "who holds which chip, and the account")
    assert {process["state"] for process in snapshot["processes"]} == {"tracked"}
    assert_sums(snapshot, dict(enumerate(have)))

    dead = list(range(0, MANY, 2))
    alive = {number: have[number] for number in range(1, MANY, 2)}
    before = {chip["chip"]: chip["memory"] for chip in snapshot["chips"]}
    jobs.kill(dead)
    states = ["exited" if number in dead else "tracked" for number in range(MANY)]
    pids = [program.pid for program in jobs.programs]

    def dead_held() -> Json | None:
        snapshot = server.snapshot()
        found = {process["pid"]: process["state"] for process in snapshot["processes"]}
        return snapshot if [found[pid] for pid in pids] == states and all_in_containers(snapshot) else None

    for number in dead:
        machine.laid.end(pids[number])
    after = wait_until(dead_held, "the deaths")
    expected = {chip_id: alive.get(number, (0, 0)) for number, chip_id in enumerate(jobs.chip_ids)}
    assert by_chip(after) == expected, "all that the dead had is given back, and nothing else"
    now = {chip["chip"]: chip["memory"] for chip in after["chips"]}
    for number in alive:
        chip_id = jobs.chip_ids[number]
        assert figures(now[chip_id]) == figures(before[chip_id])
    assert_sums(after, alive)

    for number in alive:
        record = next(jobs.records[number])
        assert (record["act"], taken(record)) == ("free", (0, 0)), "it goes on as if nothing had happened"

    def empty() -> Json | None:
        snapshot = server.snapshot()
        return snapshot if set(by_chip(snapshot).values()) == {(0, 0)} and all_in_containers(snapshot) else None

    assert_sums(wait_until(empty, "the end"), dict.fromkeys(alive, (0, 0)))
    assert server.snapshot()["anomalies"] == snapshot["anomalies"] == dict.fromkeys(snapshot["anomalies"], 0)


def assert_sums(snapshot: Json, have: dict[int, Sizes]) -> None:
    """The sums equal the reports of all processes. A tensor fills its banks, so used equals reserved."""
    found = snapshot["sums"]
    assert (len(found["host"]["chips"]), found["host"]["processes"]) == (MANY, len(have))
    assert said(found["host"]) == total(list(have.values()))
    assert found["host"]["dram"]["used"] == total(list(have.values()))[0]
    assert [board["serial"] for board in found["boards"]] == sorted({board_of(number) for number in range(MANY)})
    for board in found["boards"]:
        own = [size for number, size in have.items() if board_of(number) == board["serial"]]
        assert (said(board), board["processes"], len(board["chips"])) == (total(own), len(own), 8)
    living = {job["id"]: job for job in found["jobs"] if job["processes"]}
    assert set(living) == {job_of(number) for number in have}
    for name, row in living.items():
        own = [size for number, size in have.items() if job_of(number) == name]
        assert (said(row), row["processes"], len(row["chips"])) == (total(own), len(own), len(own))
        assert row["dram"]["used"] == total(own)[0]


def test_a_galaxy_of_one_process(server: Server, folder: Path) -> None:
    high, wide = BOARDS["galaxy"].mesh
    (folder / "galaxy.py").write_text(GALAXY.format(high=high, wide=wide))
    environment = {
        **{"LD_PRELOAD": str(require()), "TTMEM_SOCKET": server.path},
        "PYTHONPATH": str(ROOT / "tests" / "programs"),
    }
    with Program(wheel("3.12"), str(folder / "galaxy"), "galaxy", folder, environment=environment) as program:
        for record in program.records():
            have = dict.fromkeys(map(str, program.chip_ids.values()), (0, 0))
            for mesh in record["meshes"]:
                for number in mesh["chips"]:
                    chip_id = str(program.chip_ids[number])
                    have[chip_id] = total([have[chip_id], taken(mesh)])
            assert len(have) == MANY
            assert len(set(have.values())) == {"whole": 1, "rows": high, "free": 1}[record["what"]]
            wait_until(partial(agrees, server, have), record["what"])

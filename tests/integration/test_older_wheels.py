# SPDX-License-Identifier: Apache-2.0
"""Other versions of ttnn under the agent: no workload is disturbed, and tracking is as exact as documented."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.mock.compatibility import GROUPS, IN_CI, PAGE, PYTHON, VERSIONS, Row, examine, library, page
from tests.mock.wheel import VERSION, Wheel, remove_statistics, wheel
from tests.support import PATIENCE, PATIENT_DOCTOR

SEED = 791


@pytest.fixture(scope="module")
def wheels() -> dict[str, Wheel]:
    """All at the same time: one is unpacked while the next is downloaded."""
    wheel(PYTHON)
    with ThreadPoolExecutor(len(IN_CI)) as pool:
        return dict(zip(IN_CI, pool.map(lambda version: wheel(PYTHON, version), IN_CI), strict=True))


def check(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*PATIENT_DOCTOR, "--wheel", *arguments], capture_output=True, text=True, timeout=PATIENCE)


@pytest.mark.parametrize("version", IN_CI)
def test_a_version_is_as_it_is_written_and_as_the_doctor_says(
    version: str, wheels: dict[str, Wheel], folder: Path
) -> None:
    row = examine(version, folder)
    written = PAGE.read_text(encoding="utf-8").splitlines()
    assert row.line() in written
    assert (row.note() in written) == bool(row.trouble)

    done = check(str(library(wheels[version])), "--json")
    said = json.loads(done.stdout)
    assert [kinds["what"] for kinds in said["kinds"] if kinds["tracked"]] == row.tracked
    assert done.returncode == (0 if row.tracked == list(GROUPS) else 3)


PROGRAM = """
import ttnn

device = ttnn.open_device(device_id=0)
a = ttnn.zeros([32, 32], dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)
ttnn.add(a, a)
ttnn.close_device(device)
"""


@pytest.mark.parametrize(("version", "known"), [(VERSION, True), ("0.79.0", False), ("0.75.0", False)])
def test_a_ring_without_its_kernels_is_not_told(
    version: str, known: bool, wheels: dict[str, Wheel], folder: Path
) -> None:
    """Until 0.79, mock devices count the arguments of a program, and not the kernels, which are far larger."""
    (folder / "program.py").write_text(PROGRAM)
    of, told = wheel(PYTHON, version), folder / "run.json"
    command = [sys.executable, "-m", "ttmem", "run", "--json", str(told), "--", of.python, "program.py"]
    environment = of.environment("n150", folder, SEED) | {"TTMEM_SOCKET": str(folder / "nobody.sock")}
    try:
        subprocess.run(command, env=environment, cwd=folder, check=True, capture_output=True, timeout=120)
    finally:
        remove_statistics("n150", SEED)
    data = json.loads(told.read_text())
    (chip,) = data["final"]["chips"]
    used = chip["memory"]["l1"]["ring"]["used_max"]
    kernels = [allocation["size"] // 64 for allocation in data["left"] if allocation["kind"] == "kernel"]
    assert kernels
    assert used >= max(kernels) if known else used is None
    rings = [line for entry in data["sizing"] for line in entry["lines"] if line["what"] == "kernel_ring"]
    assert len(rings) == known


def test_the_page_is_whole() -> None:
    """Made of rows of every version, in order; rows that CI does not run are taken from the page."""
    written = PAGE.read_text(encoding="utf-8")
    rows = []
    for version in VERSIONS:
        found = [line.split(" | ") for line in written.splitlines() if line.startswith(f"| {version} | ")]
        (cells,) = [cells for cells in found if len(cells) > 2]
        states = [cell.strip(" |") for cell in cells[1:]]
        assert set(states) <= {"exact", "seen", "none", "-"}
        reasons = [cells[1].removesuffix(" |") for cells in found if len(cells) == 2]
        trouble = "".join(reasons)
        assert bool(trouble) == ("-" in states)
        rows.append(Row(version, dict(zip(GROUPS, states, strict=True)), trouble))
    assert page(rows) == written


def kinds_said(text: str) -> dict[str, str]:
    lines = [line.strip() for line in text.splitlines()]
    return {what: line[len(what) :].strip() for what in GROUPS for line in lines if line.startswith(f"{what} ")}


def test_the_doctor_hook_by_hook(wheels: dict[str, Wheel]) -> None:
    """For a library, a folder of ttnn, its parent folder, and an interpreter: the same output."""
    old = wheels["0.72.0"]
    answers = [check(str(path)) for path in (library(old), old.package, old.package.parent, old.python)]
    assert len({answer.stdout for answer in answers}) == 1
    text = answers[0].stdout
    states = kinds_said(text)
    assert states.pop("buffers") == "tracked"
    assert len(states) == 4
    assert all(state.startswith("NOT TRACKED: it is older than 0.75, ") for state in states.values())
    words = {line.split()[0]: line.split(maxsplit=1)[1] for line in text.splitlines() if line.startswith("    ")}
    assert words["allocate_buffer"] == "there"
    assert words["allocate_scratchpads"] == "MISSING"
    assert words["buffer_size"].startswith("not there, as in older versions")
    assert words["enqueue"].startswith("there, but not called")
    assert text.splitlines()[-1] == "ttmem doctor --wheel: 1 of 5 tracked: buffers"
    assert {answer.returncode for answer in answers} == {3}


def test_the_doctor_on_the_newest() -> None:
    done = check(wheel(PYTHON).python, "-v")
    assert done.returncode == 0
    assert "MISSING" not in done.stdout
    assert set(kinds_said(done.stdout).values()) == {"tracked"}
    assert "_ZN2tt8tt_metal13AllocatorImpl15allocate_bufferEPNS0_6BufferE" in done.stdout


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("empty", "is not a folder of ttnn: there is no "),
        ("broken.so", "is not a 64-bit little-endian ELF file"),
        ("nothing", "No such file or directory; name a folder of ttnn"),
    ],
)
def test_what_is_no_wheel(folder: Path, name: str, words: str) -> None:
    (folder / "empty").mkdir()
    (folder / "broken.so").write_text("no library at all")
    done = check(str(folder / name))
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("ttmem doctor: --wheel: ")
    assert str(folder / name) in line
    assert words in line

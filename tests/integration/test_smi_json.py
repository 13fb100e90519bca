# SPDX-License-Identifier: Apache-2.0
"""`ttmem smi --json` of every machine in a folder, compared with the known data of that machine.

A chip in reset is not among them: reads of plain files can be made to fail only inside a process
(tests/integration/test_machine_poller.py).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests import machines
from ttmem.model.geometry import BOARDS

Json = dict[str, Any]
Row = tuple[int, str | None, str, str, bool | None]  # driver's number, board, arch, state, held


def chip(number: int, board: str | None = "n150", *, state: str = "ok", held: bool | None = False) -> Row:
    arch = "blackhole" if board and board.startswith("p") else "wormhole_b0"
    return number, board, arch, state, held


def smi(root: Path, code: int = 0) -> Json:
    env = {**os.environ, "TTMEM_SOCKET": str(root / "nobody.sock")}
    command = [sys.executable, "-m", "ttmem", "smi", "--json", "--root", str(root)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (code, "")
    snapshot: Json = json.loads(done.stdout)
    return snapshot


@pytest.mark.parametrize(
    ("make", "chips"),
    [
        (machines.n150, [chip(0)]),
        (machines.n300, [chip(0, "n300")]),
        (machines.t3k, [chip(number, "n300") for number in range(4)]),
        (machines.galaxy, [chip(number, "galaxy-wormhole") for number in range(32)]),
        (machines.p150, [chip(0, "p150a")]),
        (machines.dead_chip, [chip(0), chip(1, None, state="off the bus")]),
        (machines.old_driver, [chip(0, None, state="no files", held=None if os.geteuid() else False)]),
        (machines.foreign_user, [chip(0, held=True)]),
        (machines.containers, [chip(0, held=True), chip(1, held=True)]),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_chips(folder: Path, make: Callable[[Path], machines.Machine], chips: list[Row]) -> None:
    make(folder)
    snapshot = smi(folder)
    assert (snapshot["schema"], snapshot["server"], snapshot["driver"]["loaded"]) == ("ttmem.snapshot/1", None, True)
    found = [(c["kmd"], c["board"], c["arch"], c["telemetry"]["state"], c["held"]) for c in snapshot["chips"]]
    assert found == chips
    for one in snapshot["chips"]:
        size = BOARDS.get((one["board"] or "n150").rstrip("a"), BOARDS["n150"])
        assert one["memory"]["dram"]["capacity"] == size.dram_capacity
        assert one["memory"]["dram"]["used"] is None, "nobody has said; that is not 0"
        told = (machines.BOARDS[one["board"]] if one["board"] else {}) if one["telemetry"]["state"] == "ok" else {}
        warm = told.get("temp1_input")
        assert one["telemetry"]["temperature_c"] == (None if warm is None else warm / 1000)
        assert one["telemetry"]["aiclk_mhz"] == told.get("tt_aiclk")


def test_processes_of_another_user_and_of_containers(folder: Path) -> None:
    machines.containers(folder)
    rows = [(p["pid"], p["state"], p["container"], p["holds"]) for p in smi(folder)["processes"]]
    assert rows == [
        (4711, "untracked", "docker 3f2a91c0b7de", ["0000:01:00.0"]),
        (4712, "untracked", "kubernetes pod 12345678-90a", ["0000:02:00.0"]),
        (None, "untracked", "outside this pid namespace", ["0000:02:00.0"]),
    ]


def test_another_user(folder: Path) -> None:
    machines.foreign_user(folder)
    (process,) = smi(folder)["processes"]
    assert (process["pid"], process["user_id"], process["command"]) == (4711, 1234, "python3 train.py --epochs 3")


def test_no_driver(folder: Path) -> None:
    machines.no_driver(folder)
    snapshot = smi(folder, code=1)
    assert (snapshot["chips"], snapshot["processes"]) == ([], [])
    assert snapshot["driver"] == {"version": None, "loaded": False}

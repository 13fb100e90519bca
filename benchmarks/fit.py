# SPDX-License-Identifier: Apache-2.0
"""The run time of `ttmem fit`, compared with the bare command on the same mock devices, and the 8B example by board."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

from tests.mock.wheel import ROOT, remove_statistics, wheel

from benchmarks.report import Report, spread
from ttmem.fit.mock_boards import BOARDS

UID_SEED = 91
PROGRAM = "import ttnn\ndevice = ttnn.open_device(device_id=0)\nttnn.close_device(device)\n"
DECODER = [str(ROOT / "examples" / "decoder.py"), "--batch", "32", "--length", "1024"]


def run(report: Report, folder: Path, rounds: int) -> None:
    report.title("`ttmem fit` of a program that opens and closes one device, ms, median (range)")
    bench = wheel("3.12")
    env = bench.environment("n150", folder, UID_SEED)
    program = folder / "opens.py"
    program.write_text(PROGRAM)
    bare: list[float] = []
    fitted: list[float] = []
    try:
        for _ in range(rounds * 2):
            bare.append(_seconds([bench.python, str(program)], env))
            fitted.append(_fit("n150", [str(program)]))
    finally:
        remove_statistics("n150", UID_SEED)
    report.figure("the bare command", "1.00 x", spread(bare, 1e3))
    ratio = statistics.median(one / other for one, other in zip(fitted, bare))
    report.figure("under ttmem fit", f"{ratio:.2f} x", spread(fitted, 1e3))
    added = statistics.median(one - other for one, other in zip(fitted, bare))
    report.figure("added", f"{added * 1e3:.0f} ms")
    report.title("examples/decoder.py, 32 layers, batch 32, length 1024: seconds under ttmem fit")
    for board in BOARDS:
        report.figure(board, f"{_fit(board, DECODER):.1f} s")


def _fit(board: str, command: list[str]) -> float:
    return _seconds(
        [sys.executable, "-m", "ttmem", "fit", "--board", board, "--", wheel("3.12").python, *command], None
    )


def _seconds(command: list[str], env: dict[str, str] | None) -> float:
    start = time.perf_counter()
    subprocess.run(command, env=env, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - start

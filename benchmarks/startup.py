# SPDX-License-Identifier: Apache-2.0
"""How long `ttmem smi` takes from start to finish, beside an interpreter that does nothing."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.ingest import running
from benchmarks.report import Report, spread


def _time(command: list[str], env: dict[str, str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=env)
    return time.perf_counter() - start


def run(report: Report, folder: Path, rounds: int) -> None:
    report.title("`ttmem smi` from start to finish, ms, median (range)")
    path = folder / "smi.sock"
    serve = [sys.executable, "-m", "ttmem", "serve", "--no-legacy-path", "--quiet", "--socket", str(path)]
    env = {**os.environ, "TTMEM_SOCKET": str(path)}
    smi = [str(Path(sys.executable).parent / "ttmem"), "smi"]
    with open(os.devnull, "wb") as null, running(serve, path, null):
        bare, whole = [], []
        for _ in range(rounds * 4):
            bare.append(_time([sys.executable, "-c", "pass"], env))
            whole.append(_time(smi, env))
    report.figure("a bare interpreter", "", spread(bare, 1e3))
    report.figure("ttmem smi", "", spread(whole, 1e3))
    ratio = statistics.median(a / b for a, b in zip(whole, bare))
    report.budget("ttmem smi beside a bare interpreter", ratio, 4, "x")

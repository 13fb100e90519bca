# SPDX-License-Identifier: Apache-2.0
"""The run time of `ttmem smi`, compared with an interpreter that does nothing."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from tests import machines

from benchmarks.ingest import running
from benchmarks.report import Report, spread


def _time(command: list[str], env: dict[str, str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=env)
    return time.perf_counter() - start


def run(report: Report, folder: Path, rounds: int) -> None:
    report.title("`ttmem smi` from start to finish, ms, median (range)")
    path = folder / "smi.sock"
    one, many = (str(make(folder / f"smi-{make.__name__}").root) for make in (machines.n150, machines.galaxy))
    command = [str(Path(sys.executable).parent / "ttmem"), "smi"]
    serve = [sys.executable, "-m", "ttmem", "serve", "--no-legacy-path", "--quiet", "--socket", str(path)]
    nobody = {**os.environ, "TTMEM_SOCKET": str(folder / "nobody.sock")}
    env = {**os.environ, "TTMEM_SOCKET": str(path)}
    for each in (nobody, env):
        each.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed ttmem has compiled modules
    kinds = {
        "with a server, one chip": (command, env),
        "without a server, one chip": ([*command, "--root", one], nobody),
        "without a server, 32 chips": ([*command, "--root", many], nobody),
    }
    with open(os.devnull, "wb") as null, running([*serve, "--machine", one], path, null):
        times: dict[str, list[float]] = {name: [] for name in ("a bare interpreter", *kinds)}
        for _ in range(rounds * 4):
            times["a bare interpreter"].append(_time([sys.executable, "-c", "pass"], env))
            for name, (what, where) in kinds.items():
                times[name].append(_time(what, where))
    bare = times["a bare interpreter"]
    for name, measured in times.items():
        ratio = statistics.median(a / b for a, b in zip(measured, bare))
        report.figure(name, f"{ratio:.2f} x", spread(measured, 1e3))
        if measured is not bare:
            report.budget(f"ttmem smi {name}, relative to a bare interpreter", ratio, 4, "x")

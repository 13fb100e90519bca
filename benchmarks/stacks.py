# SPDX-License-Identifier: Apache-2.0
"""The cost of Python stacks and shapes for the workload, compared with the agent alone and with other tools."""

from __future__ import annotations

import statistics
import subprocess
from collections import defaultdict
from pathlib import Path

from tests.mock.wheel import remove_statistics, wheel

from benchmarks.report import Report, spread
from ttmem.agent import require

PROGRAM = Path(__file__).parent / "programs" / "ttnn_stacks.py"
PAIRS = 100
UID_SEED = 78
DEPTHS = (10, 30)
# Name, depth of the Python stack, and value of TTMEM_STACKS; None is without the agent.
RUNS: tuple[tuple[str, int, str | None], ...] = (
    *((f"no agent, {depth} frames", depth, None) for depth in DEPTHS),
    *((f"agent alone, {depth} frames", depth, "0") for depth in DEPTHS),
    *((f"stacks and shapes, {depth} frames", depth, str(depth)) for depth in DEPTHS),
)
Pair = tuple[float, float]


def run(report: Report, folder: Path, rounds: int) -> None:
    found: dict[tuple[str, str], list[list[Pair]]] = defaultdict(list)
    try:
        for _ in range(rounds):
            for name, depth, stacks in RUNS:
                for work, pairs in _measure(folder, depth, stacks).items():
                    found[name, work].append(pairs)
    finally:
        remove_statistics("n150", UID_SEED)
    _events(report, found)
    _loop(report, found)


def _measure(folder: Path, depth: int, stacks: str | None) -> dict[str, list[Pair]]:
    bench = wheel("3.12")
    env = {**bench.environment("n150", folder, UID_SEED), "TTMEM_SOCKET": "/nonexistent/ttmem.sock"}
    if stacks is not None:
        env |= {"LD_PRELOAD": str(require()), "TTMEM_STACKS": stacks}
    command = [str(bench.python), str(PROGRAM), str(PAIRS), str(depth)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    pairs: dict[str, list[Pair]] = defaultdict(list)
    for line in done.stdout.splitlines():
        work, *values = line.split()
        if work in ("allocations", "cached") and len(values) == 2:
            pairs[work].append((float(values[0]), float(values[1])))
    return pairs


def _events(report: Report, found: dict[tuple[str, str], list[list[Pair]]]) -> None:
    report.title("Python stacks: nanoseconds added to one ttnn.empty and its free, median of processes (range)")
    for name, _, stacks in RUNS:
        if stacks is not None:
            added = [statistics.median(on - off for on, off in pairs) for pairs in found[name, "allocations"]]
            report.figure(name, spread(added))
    report.figure("PyTorch's memory history, a Python stack", "2,000", "as published, another machine")
    report.figure("memray, an allocation or free", "110 to 160", "measured elsewhere with memray 1.20")


def _loop(report: Report, found: dict[tuple[str, str], list[list[Pair]]]) -> None:
    report.title(f"A real ttnn loop of cached operations: ratio on/off, median of {PAIRS} pairs per process (range)")
    for name, depth, stacks in RUNS:
        runs = found[name, "cached"]
        quiet = _quiet(runs)
        if stacks is None:
            report.figure(f"{name}: microseconds per operation", f"{quiet / 1000:.1f}", "the fastest tenth")
            continue
        ratios = [statistics.median(on / off for on, off in pairs) for pairs in runs]
        plain = _quiet(found[f"no agent, {depth} frames", "cached"])
        report.figure(name, spread(ratios, digits=3), f"{quiet / plain:.3f} times the process without the agent")


def _quiet(runs: list[list[Pair]]) -> float:
    """The fastest tenth, because the load of the machine varies more between processes than the measured effect."""
    return min(statistics.quantiles([on for on, _ in pairs], n=10)[0] for pairs in runs)

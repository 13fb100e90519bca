# SPDX-License-Identifier: Apache-2.0
"""The cost of each kind of tracking for the workload: a call of a tracker, a compiled program, a ttnn operation."""

from __future__ import annotations

import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.mock.wheel import remove_statistics, wheel

from benchmarks.ingest import running
from benchmarks.report import Report, spread
from ttmem.collect.client import AllocationClient
from ttmem.collect.graph_tracker import GraphTracker
from ttmem.collect.l1_tracker import L1Tracker
from ttmem.model.core_sets import CoreRange
from ttmem.sim.device import AnyDevice, create_device
from ttmem.sim.program import SimProgram
from ttmem.sim.workloads.operations import matmul
from ttmem.wire.legacy_records import Type, request

PROGRAMS = Path(__file__).parent / "programs"
CALLS = 2_000
BURST = 50
UID_SEED = 78
GRID = [CoreRange(0, 0, 7, 7)]


class _Chip:
    def __init__(self, number: int) -> None:
        self.id = number


class _Mesh:
    def __init__(self, chips: int) -> None:
        self._chips = [_Chip(number) for number in range(chips)]

    def get_devices(self) -> list[_Chip]:
        return self._chips


def _time(work: Callable[[int], object]) -> float:
    """Microseconds per call, in bursts with pauses in which the client's thread may run, as in a real workload."""
    spent = 0
    for start in range(0, CALLS, BURST):
        begun = time.perf_counter_ns()
        for number in range(start, start + BURST):
            work(number)
        spent += time.perf_counter_ns() - begun
        time.sleep(0.003)
    return spent / CALLS / 1000


def run(report: Report, folder: Path, rounds: int) -> None:
    path = folder / "tracking.sock"
    serve = [sys.executable, "-m", "ttmem", "serve", "--no-legacy-path", "--quiet", "--socket", str(path)]
    with open(os.devnull, "wb") as null, running(serve, path, null):
        _calls(report, path, rounds)
        _programs(report, path, rounds)
    _operations(report, folder, rounds)


def _calls(report: Report, path: Path, rounds: int) -> None:
    report.title("Trackers: microseconds per call, in bursts, median (range)")
    client = AllocationClient(enabled=True, socket_path=str(path), source="graph_tracker")
    tracker, off = GraphTracker(client), GraphTracker(AllocationClient(enabled=False))
    by_hand, reported = L1Tracker(), L1Tracker(client=client)
    chip, mesh = _Chip(0), _Mesh(8)
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(str(path))
    record = request(Type.FREE, 0, pid=os.getpid(), ident=1)
    works: dict[str, Callable[[int], object]] = {
        "one blocking send of a record": lambda n: sock.send(record),
        "manual: L1Tracker.track_cb": lambda n: by_hand.track_cb(8, 2048),
        "manual, reporting": lambda n: reported.track_cb(8, 2048),
        "full: track_allocate_cb, disabled": lambda n: off.track_allocate_cb(GRID, n, 4096, chip, program=n),
        "full: track_allocate_cb": lambda n: tracker.track_allocate_cb(GRID, n, 4096, chip, program=n),
        "full: track_allocate_cb on a mesh of 8": lambda n: tracker.track_allocate_cb(GRID, n, 4096, mesh, program=n),
        "full: track_kernel_load": lambda n: tracker.track_kernel_load(9000, n, chip, 0, 64),
        "full: track_kernel_load again (cached program)": lambda n: tracker.track_kernel_load(9000, 1, chip, 0, 64),
        "full: track_program (a launch)": lambda n: tracker.track_program(1, chip, GRID),
    }
    figures: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            figures[name].append(_time(work))
        assert client.flush(60)
    for name, values in figures.items():
        report.figure(name, spread(values, digits=2))
    sock.close()
    client.close()


def _launcher(device: AnyDevice, programs: list[SimProgram]) -> Callable[[int], None]:
    return lambda number: device.launch(programs[number])


def _programs(report: Report, path: Path, rounds: int) -> None:
    report.title("A simulated program with 4 circular buffers and 3 kernels on 64 cores: microseconds, median (range)")
    client = AllocationClient(enabled=True, socket_path=str(path), source="sim")
    figures: dict[str, list[float]] = {}
    for _ in range(rounds):
        for how, tracker in (("off", GraphTracker(AllocationClient(enabled=False))), ("on", GraphTracker(client))):
            with create_device(0, tracker=tracker) as device:
                programs = [matmul("matmul", GRID) for _ in range(CALLS)]
                work = _launcher(device, programs)
                for what in ("compile and launch", "launch again"):
                    figures.setdefault(f"{what}, tracking {how}", []).append(_time(work))
    for name, values in figures.items():
        report.figure(name, spread(values, digits=1))
    client.close()


def _operations(report: Report, folder: Path, rounds: int) -> None:
    report.title("A cached ttnn operation on a mock device, with and without ttmem.instrument(): microseconds")
    bench = wheel("3.12")
    env = {**bench.environment("n150", folder, UID_SEED), "PYTHONPATH": str(PROGRAMS.parent.parent / "src")}
    command = [bench.python, str(PROGRAMS / "ttnn_instrumented.py")]
    pairs: list[tuple[float, float]] = []
    try:
        for _ in range(rounds):
            done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
            for line in done.stdout.splitlines():
                if line[:1].isdigit():
                    plain, instrumented = map(float, line.split())
                    pairs.append((plain, instrumented))
    finally:
        remove_statistics("n150", UID_SEED)
    report.figure("plain", spread([plain for plain, _ in pairs], digits=1))
    report.figure("instrumented", spread([instrumented for _, instrumented in pairs], digits=1))
    report.figure("ratio, median of pairs", f"{statistics.median(b / a for a, b in pairs):.2f}")

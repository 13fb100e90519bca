# SPDX-License-Identifier: Apache-2.0
"""The cost of an event for a workload that reports it through the Python client."""

from __future__ import annotations

import os
import socket
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.ingest import running
from benchmarks.report import Report, spread
from ttmem import AllocationClient
from ttmem.wire.legacy_records import Type, request

EVENTS = 20_000


def _time(work: Callable[[int], object]) -> float:
    """Nanoseconds per call, wall time."""
    start = time.perf_counter_ns()
    for number in range(EVENTS):
        work(number)
    return (time.perf_counter_ns() - start) / EVENTS


def _time_in_bursts(work: Callable[[int], object]) -> float:
    """The same for a workload that also does other work: 100 events, then a pause in which our thread may run."""
    spent = 0
    for start in range(0, EVENTS // 4, 100):
        begun = time.perf_counter_ns()
        for number in range(start, start + 100):
            work(number)
        spent += time.perf_counter_ns() - begun
        time.sleep(0.003)
    return spent / (EVENTS // 4)


def _empty(number: int) -> None:
    pass


def run(report: Report, folder: Path, rounds: int) -> None:
    report.title("The Python client: nanoseconds per event for the workload, median (range)")
    path = folder / "client.sock"
    serve = [sys.executable, "-m", "ttmem", "serve", "--no-legacy-path", "--quiet", "--socket", str(path)]
    with open(os.devnull, "wb") as null, running(serve, path, null):
        figures: dict[str, list[float]] = {}
        client = AllocationClient(enabled=True, socket_path=str(path))
        off = AllocationClient(enabled=False)
        nobody = AllocationClient(enabled=True, socket_path=str(folder / "nobody.sock"))
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(str(path))
        record = request(Type.FREE, 0, pid=os.getpid(), ident=1)

        def allocate(number: int) -> None:
            client.report_allocation(device_id=0, size=4096, buffer_type=0, buffer_id=number + 1)

        def free(number: int) -> None:
            client.report_deallocation(device_id=0, buffer_id=number + 1)

        def disabled(number: int) -> None:
            off.report_allocation(device_id=0, size=4096, buffer_type=0, buffer_id=number + 1)

        def without_server(number: int) -> None:
            nobody.report_allocation(device_id=0, size=4096, buffer_type=0, buffer_id=number + 1)

        def legacy(number: int) -> None:
            sock.send(record)

        spent: list[float] = []
        for _ in range(rounds):
            figures.setdefault("an empty Python call", []).append(_time(_empty))
            figures.setdefault("one blocking send, as the legacy client does", []).append(_time(legacy))
            figures.setdefault("report_allocation, disabled", []).append(_time(disabled))
            figures.setdefault("report_allocation, no server", []).append(_time(without_server))
            before = time.process_time_ns()
            figures.setdefault("report_allocation, nothing else to do", []).append(_time(allocate))
            figures.setdefault("report_deallocation, nothing else to do", []).append(_time(free))
            assert client.flush(60)
            spent.append((time.process_time_ns() - before) / (2 * EVENTS))
            figures.setdefault("report_allocation, in bursts of 100", []).append(_time_in_bursts(allocate))
            figures.setdefault("report_deallocation, in bursts of 100", []).append(_time_in_bursts(free))
        figures["CPU of the whole process, thread included"] = spent
        for name, values in figures.items():
            report.figure(name, "", spread(values))
        bursts, flat_out = (
            statistics.median(figures[f"report_allocation, {how}"] + figures[f"report_deallocation, {how}"])
            for how in ("in bursts of 100", "nothing else to do")
        )
        send = statistics.median(figures["one blocking send, as the legacy client does"])
        report.figure("ratio to one blocking send, in bursts", f"{bursts / send:.2f}")
        report.figure("ratio to one blocking send, nothing else to do", f"{flat_out / send:.2f}")
        report.budget("an event through the Python client, in bursts", bursts / 1000, 3, "us")
        report.budget("  the same, with nothing else to do", flat_out / 1000, 3, "us")
        sock.close()
        client.close()
        nobody.close(0)

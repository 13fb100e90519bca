# SPDX-License-Identifier: Apache-2.0
"""Events per second over the socket with the full account, compared with the reference server and a bare sink."""

from __future__ import annotations

import contextlib
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from benchmarks.report import Report, spread

PROGRAMS = Path(__file__).parent / "programs"
RECORDS = 200_000


def build(name: str, folder: Path) -> str:
    binary = folder / name
    source = PROGRAMS / f"{name}.cpp"
    subprocess.run(["g++", "-O2", "-std=c++17", "-pthread", str(source), "-o", str(binary)], check=True)
    return str(binary)


@contextlib.contextmanager
def running(command: list[str], path: Path, out: IO[bytes]) -> Iterator[str]:
    """A server process whose socket exists."""
    process = subprocess.Popen(command, stdout=out, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 20
        while not path.exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        yield str(path)
    finally:
        process.terminate()
        process.wait()


def load(binary: str, path: str, clients: int) -> float:
    """Records per second, including processing: each client ends with a query and waits for the reply."""
    answer = subprocess.run([binary, path, str(clients), str(RECORDS)], capture_output=True, text=True, check=True)
    match = re.search(r"rate=([\d.]+)", answer.stdout)
    assert match is not None, answer.stdout
    return float(match[1])


def run(report: Report, folder: Path, rounds: int) -> None:
    report.title("Socket ingest: thousands of 144-byte records per second, median (range)")
    loader, sink, reference = (build(name, folder) for name in ("load", "sink", "reference_server"))
    serve = [sys.executable, "-m", "ttmem", "serve", "--no-legacy-path", "--socket"]
    with contextlib.ExitStack() as stack:
        null = stack.enter_context(open(os.devnull, "wb"))
        log = stack.enter_context(open(folder / "reference.log", "wb"))
        own_log = stack.enter_context(open(folder / "ttmem.log", "wb"))

        def start(name: str, command: Callable[[str], list[str]], out: IO[bytes]) -> str:
            path = folder / f"{name}.sock"
            return stack.enter_context(running(command(str(path)), path, out))

        servers = {
            "sink (reads and throws away)": start("sink", lambda p: [sink, p], null),
            "reference server, log to /dev/null": start("null", lambda p: [reference, p], null),
            "reference server, log to a file": start("file", lambda p: [reference, p], log),
            "ttmem serve, log to a file": start("ttmem", lambda p: [*serve, p], own_log),
        }
        rates: dict[tuple[str, int], list[float]] = {}
        for _ in range(rounds):
            for clients in (1, 4):
                for name, path in servers.items():
                    rates.setdefault((name, clients), []).append(load(loader, path, clients))
                    (folder / "reference.log").write_bytes(b"")
        for (name, clients), values in rates.items():
            report.figure(f"{name}, {clients} client{'s' * (clients > 1)}", "", spread(values, 1e-3))
        own, bare, quiet, logged = (
            "ttmem serve, log to a file",
            "sink (reads and throws away)",
            "reference server, log to /dev/null",
            "reference server, log to a file",
        )
        for clients in (1, 4):
            ratios = {
                other: statistics.median(a / b for a, b in zip(rates[own, clients], rates[other, clients]))
                for other in (bare, quiet, logged)
            }
            for other, ratio in ratios.items():
                report.figure(f"ttmem / {other}, {clients}", f"{ratio:.2f}")
            if clients == 4:
                report.budget(
                    "ingest, 4 legacy clients, relative to the reference server", ratios[logged], 2, "x", at_least=True
                )
                report.budget("  the same, log to /dev/null", ratios[quiet], 2, "x", at_least=True)

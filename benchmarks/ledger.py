# SPDX-License-Identifier: Apache-2.0
"""The account itself: snapshot time and bytes per live allocation, with a thousand and with a million of them."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from pathlib import Path

from benchmarks.report import Report, spread

_MEASURE = """
import json, sys, time
from ttmem.model.identity import ProcessInfo
from ttmem.model.kinds import Confidence, Kind
from ttmem.account.ledger import Ledger
from ttmem.documents.snapshot import take_snapshot

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096

count, rounds = int(sys.argv[1]), int(sys.argv[2])
ledger = Ledger()
sources = [ledger.source(0.0, ProcessInfo(pid, 1), "legacy", Confidence.REPORTED) for pid in range(8)]
for number in range(32):
    ledger.allocated(0.0, sources[number % 8], number, Kind.DRAM, 64, 64)
before = resident()
start = time.perf_counter()
for number in range(count):
    # Addresses and sizes as the decoder makes them: a new integer object each.
    ledger.allocated(0.0, sources[number % 8], number % 32, Kind.L1 if number % 5 else Kind.DRAM,
                     0x100000 + number * 4096, 2048 + number % 1000 * 32)
rate = count / (time.perf_counter() - start)
after = resident()
times = []
for _ in range(rounds * 10):
    start = time.perf_counter()
    picture = take_snapshot(ledger, time="", host="")
    times.append(time.perf_counter() - start)
    start = time.perf_counter()
    json.dumps(picture)
    encode = time.perf_counter() - start
assert len(picture["chips"]) == 32
json.dump({"times": times, "bytes": (after - before) / count, "rate": rate, "encode": encode}, sys.stdout)
"""


def _measure(count: int, rounds: int) -> dict[str, object]:
    answer = subprocess.run(
        [sys.executable, "-c", _MEASURE, str(count), str(rounds)], capture_output=True, text=True, check=True
    )
    data: dict[str, object] = json.loads(answer.stdout)
    return data


def run(report: Report, folder: Path, rounds: int) -> None:
    report.title("The account: 32 chips, 8 processes")
    medians = {}
    for count in (1_000, 1_000_000):
        data = _measure(count, rounds)
        times: list[float] = data["times"]  # type: ignore[assignment]
        medians[count] = statistics.median(times)
        report.figure(f"snapshot with {count:,} live allocations, ms", "", spread(times, 1e3, 2))
        report.figure("  and encoding it as JSON, ms", f"{float(str(data['encode'])) * 1e3:.2f}")
        report.figure("  allocations into the ledger, thousands per second", f"{float(str(data['rate'])) / 1e3:,.0f}")
    report.figure("bytes per live allocation", f"{float(str(data['bytes'])):.0f}")
    report.budget("snapshot with 1 M live allocations", medians[1_000_000] * 1e3, 5, "ms")
    report.budget("  relative to 1 K", medians[1_000_000] / medians[1_000], 1.5, "x")
    report.budget("memory of the server per live allocation", float(str(data["bytes"])), 400, "bytes")

# SPDX-License-Identifier: Apache-2.0
"""What questions about a whole recording cost: time and memory of `ttmem stats`, `tree`, `leaks` and `diff`.

There are 10 K, 1 M and 10 M records.

The recordings are those of the recording benchmark. Each question runs in a process of its own, whose memory is
measured. Yardsticks of the same run: decompressing the records, and applying all records to an account one by one.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from benchmarks.recording import OpLoop, recorded
from benchmarks.report import Report, spread
from ttmem.recording.blocks import BlockType, SegmentReader
from ttmem.recording.recording_file import Recording

COUNTS = (10_000, 1_000_000, 10_000_000)
MOST_APPLIED = 1_000_000  # applying more takes minutes
QUESTIONS = {
    "stats": ("stats", "{file}", "--json"),
    "tree": ("tree", "{file}", "--at", "end", "--json"),
    "leaks": ("leaks", "--file", "{file}", "--json"),
    "diff": ("diff", "{file}", "{file}", "--json"),  # of two recordings of that length
}


class Cost(NamedTuple):
    seconds: float  # of CPU
    elapsed: float
    mebibytes: float  # the most memory that the process had


# The high mark of the process itself: the one that wait4 gives includes the parent's before the exec.
_ASK = """
import sys
from ttmem.cli import main
code = main(sys.argv[1:])
high = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(high.split()[1], file=sys.stderr)
sys.exit(code)
"""


def asked(*arguments: str) -> Cost:
    """The cost of a command in a process of its own."""
    began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-c", _ASK, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(spent, time.perf_counter() - began, int(done.stderr.split()[-1]) / 1024)


def decompressed(path: Path) -> float:
    """Seconds of CPU to read and decompress all records."""
    began = time.process_time()
    with open(path, "rb") as file:
        segment = SegmentReader(file)
        for block in segment.blocks:
            if block.type == BlockType.RECORDS:
                segment.payload(block)
    return time.process_time() - began


def applied(path: Path) -> float:
    """Seconds of CPU to apply all records to an account."""
    with Recording(str(path)) as recording:
        began = time.process_time()
        recording.at(from_start=True)
        return time.process_time() - began


def run(report: Report, folder: Path, rounds: int) -> None:
    report.title("Questions about a whole recording: CPU and memory")
    path = folder / "questions.ttmem"
    for count in COUNTS:
        recorded(OpLoop(), path, count)
        reading = [decompressed(path) for _ in range(rounds)]
        yardstick = f"decompressing alone {spread(reading, 1, 2)} s"
        if count <= MOST_APPLIED:
            yardstick += f", applying all records {applied(path):.2f} s"
        for name, arguments in QUESTIONS.items():
            costs = [asked(*(text.format(file=path) for text in arguments)) for _ in range(rounds)]
            seconds = spread([cost.seconds for cost in costs], 1, 2)
            report.figure(
                f"{count:,} records: ttmem {name}, seconds of CPU", seconds, yardstick if name == "stats" else ""
            )
            report.figure(f"{count:,} records: ttmem {name}, elapsed", spread([cost.elapsed for cost in costs], 1, 2))
            most = max(cost.mebibytes for cost in costs)
            report.figure(f"{count:,} records: ttmem {name}, MiB", f"{most:.0f}")
            if count == COUNTS[-1] and name != "tree":
                # The time of the machine itself depends on what else runs on it.
                report.budget(f"questions: {name} of 10 M records", min(cost.seconds for cost in costs), 10, "s")
                report.budget(f"questions: memory of {name} of 10 M records", most, 1024, "MiB")
    path.unlink()

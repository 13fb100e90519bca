# SPDX-License-Identifier: Apache-2.0
"""What a report of a recording costs: time, memory and size of the page for 10 K, 1 M and 10 M records.

The recordings are those of the recording benchmark. Each report is made in a process of its own. Yardstick of the same
run: decompressing the records alone.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.questions import COUNTS, asked, decompressed
from benchmarks.recording import OpLoop, recorded
from benchmarks.report import Report, spread
from ttmem.pages.html_page import BundleMissing, load_bundle

_MOST_SECONDS, _MOST_MEGABYTES = 20, 8


def run(report: Report, folder: Path, rounds: int) -> None:
    report.title("Reports: time and size of a page")
    try:
        load_bundle()
    except BundleMissing as error:
        report.figure("no report", "-", str(error))
        return
    path, page = folder / "reports.ttmem", folder / "reports.html"
    for count in COUNTS:
        recorded(OpLoop(), path, count)
        reading = [decompressed(path) for _ in range(rounds)]
        costs = [asked("report", str(path), "-o", str(page)) for _ in range(rounds)]
        size = page.stat().st_size / 1e6
        report.figure(
            f"{count:,} records: ttmem report, seconds of CPU",
            spread([cost.seconds for cost in costs], 1, 2),
            f"decompressing alone {spread(reading, 1, 2)} s",
        )
        report.figure(f"{count:,} records: ttmem report, elapsed", spread([cost.elapsed for cost in costs], 1, 2))
        report.figure(f"{count:,} records: ttmem report, MiB", f"{max(cost.mebibytes for cost in costs):.0f}")
        report.figure(f"{count:,} records: size of the page in MB", f"{size:.2f}")
        if count == COUNTS[-1]:
            # The time of the machine itself depends on what else runs on it.
            fastest = min(cost.seconds for cost in costs)
            report.budget("reports: a report of 10 M records", fastest, _MOST_SECONDS, "s")
            report.budget("reports: size of a report of 10 M records", size, _MOST_MEGABYTES, "MB")
    path.unlink()
    page.unlink()

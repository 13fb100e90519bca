# SPDX-License-Identifier: Apache-2.0
"""What a report of a recording costs: time, memory and size of the page for 10 K, 1 M and 10 M records.

The recordings are those of the recording benchmark. Each report is made in a process of its own. Yardstick of the same
run: decompressing the records alone. Then Chromium loads the page, in turn with the report of a recording in which
nothing happened, which has the same script. Beside both: memray's flame graph of about as many events of host memory.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks import memray_pages, page_paint
from benchmarks.page_paint import PageLoad
from benchmarks.questions import COUNTS, asked, decompressed
from benchmarks.recording import OpLoop, recorded
from benchmarks.report import Report, spread
from ttmem.pages.html_page import BundleMissing, load_bundle

_MOST_SECONDS, _MOST_MEGABYTES, _MOST_PAINT_SECONDS = 20, 8, 2
_LONGEST = COUNTS[-1]  # the budgets are those of this recording
_MEMRAY_PAGES: dict[str, tuple[str, ...]] = {"at the peak": (), "over time": ("--temporal",)}


def run(report: Report, folder: Path, rounds: int) -> None:
    report.title("Reports: time and size of a page, first paint and memory of its tab")
    try:
        load_bundle()
    except BundleMissing as error:
        report.figure("no report", "-", str(error))
        return
    empty = _empty_report(folder)
    report.figure("nothing recorded: size of the page in MB", f"{empty.stat().st_size / 1e6:.2f}")
    for count in COUNTS:
        page = _made(report, folder, count, rounds)
        memray = _made_by_memray(report, folder, count, rounds)
        _loaded(report, count, page, empty, memray)
        for path in (page, *memray.values()):
            path.unlink()
    empty.unlink()


def _made(report: Report, folder: Path, count: int, rounds: int) -> Path:
    path, page = folder / "reports.ttmem", folder / "reports.html"
    recorded(OpLoop(), path, count)
    reading = [decompressed(path) for _ in range(rounds)]
    costs = [asked("report", str(path), "-o", str(page)) for _ in range(rounds)]
    path.unlink()
    size = page.stat().st_size / 1e6
    report.figure(
        f"{count:,} records: ttmem report, seconds of CPU",
        spread([cost.seconds for cost in costs], 1, 2),
        f"decompressing alone {spread(reading, 1, 2)} s",
    )
    report.figure(f"{count:,} records: ttmem report, elapsed", spread([cost.elapsed for cost in costs], 1, 2))
    report.figure(f"{count:,} records: ttmem report, MiB", f"{max(cost.mebibytes for cost in costs):.0f}")
    report.figure(f"{count:,} records: size of the page in MB", f"{size:.2f}")
    if count == _LONGEST:
        # The time of the machine itself depends on what else runs on it.
        fastest = min(cost.seconds for cost in costs)
        report.budget("reports: a report of 10 M records", fastest, _MOST_SECONDS, "s")
        report.budget("reports: size of a report of 10 M records", size, _MOST_MEGABYTES, "MB")
    return page


def _empty_report(folder: Path) -> Path:
    """The report of a command that used no chip."""
    page = folder / "empty.html"
    command = [sys.executable, "-m", "ttmem", "run", "--quiet", "--report", str(page), "--", "true"]
    subprocess.run(command, capture_output=True, check=True)
    return page


def _made_by_memray(report: Report, folder: Path, count: int, rounds: int) -> dict[str, Path]:
    """Pages of memray by what they show. There is none if memray is not installed."""
    python = memray_pages.memray_python()
    if python is None:
        report.figure(f"{count:,} events: memray flamegraph", "-", memray_pages.NOT_INSTALLED)
        return {}
    path = folder / "reports.bin"
    memray_pages.traced_run(python, count, path)
    pages = {}
    for name, options in _MEMRAY_PAGES.items():
        page = folder / f"memray {name}.html"
        seconds = [memray_pages.flame_graph(python, path, page, *options) for _ in range(rounds)]
        size = page.stat().st_size / 1e6
        report.figure(f"{count:,} events: memray {name}, seconds of CPU", spread(seconds, 1, 2), "two call sites")
        report.figure(f"{count:,} events: memray {name}, page in MB", f"{size:.2f}")
        pages[name] = page
    path.unlink()
    return pages


def _loaded(report: Report, count: int, page: Path, empty: Path, memray: dict[str, Path]) -> None:
    """Figures of the tab."""
    reason = page_paint.why_not()
    if reason is not None:
        report.figure(f"{count:,} records: first paint and memory of the tab", "-", reason)
        return
    ours, nothing, *others = page_paint.loads([page, empty, *memray.values()])
    paints, reference = ([load.first_paint for load in loads] for loads in (ours, nothing))
    median = statistics.median(paints)
    report.figure(
        f"{count:,} records: first contentful paint in ms",
        spread(paints),
        f"nothing recorded {spread(reference)}; ratio {median / statistics.median(reference):.2f}",
    )
    for what, name in (("first_screen", "first screen drawn"), ("other_parts", "all other parts drawn, after")):
        figures = [value for load in ours if (value := getattr(load, what)) is not None]
        report.figure(f"{count:,} records: {name} in ms", spread(figures))
    report.figure(f"{count:,} records: memory of the tab in MB", _memory(ours), f"nothing recorded {_memory(nothing)}")
    for name, loads in zip(memray, others):
        paint = spread([load.first_paint for load in loads])
        report.figure(f"{count:,} events: memray {name}, first paint in ms", paint, f"memory in MB {_memory(loads)}")
    if count == _LONGEST:
        report.budget("reports: first paint of 10 M records", median / 1e3, _MOST_PAINT_SECONDS, "s")


def _memory(loads: Sequence[PageLoad]) -> str:
    heap, process = (statistics.median(values) / 1e6 for values in zip(*((load.heap, load.process) for load in loads)))
    return f"{process:.0f}, of it JavaScript {heap:.1f}"

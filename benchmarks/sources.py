# SPDX-License-Identifier: Apache-2.0
"""The cost of sampling the machine."""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests import machines
from tests.counters import content, mapping, slot

from benchmarks.report import Report, spread
from ttmem.documents import unknown_rows as blank
from ttmem.documents.merge import merge
from ttmem.sources.device_holders import Holders
from ttmem.sources.machine import Machine

_PROCESSES = 500
_HOLDERS = 8
_CHIPS = 32


def run(report: Report, folder: Path, rounds: int) -> None:
    _sampling(report, folder / "galaxy", rounds)
    _process_scan(report, folder / "machine", rounds)


def _sampling(report: Report, root: Path, rounds: int) -> None:
    """A sampling round of a server: chips, holders and counters of a Galaxy in a folder, with a job on it."""
    machine = machines.galaxy(root)
    maps = ""
    for chip in range(_CHIPS):
        maps += mapping(machine.shm_file(880001 + chip, content(slot(4711, 1 << 30), number=chip)))
    machine.process(4711, holds=range(_CHIPS), maps=maps)
    files = [path for path in (root / "sys").rglob("tt_*") if path.is_file()]
    files += (root / "sys/devices").rglob("*_input")
    look = Machine(str(root))
    first = _time(look.look)
    seen = look.look()
    assert len(seen["chips"]) == len(seen["shm"]) == _CHIPS
    times: dict[str, list[float]] = {"yardstick": [], "look": [], "merge": []}
    for _ in range(rounds * 4):
        times["yardstick"].append(_time(lambda: [path.read_bytes() for path in files]))
        times["look"].append(_time(look.look))
        times["merge"].append(_time(lambda: merge(blank.snapshot("now", "here"), seen)))
    look.close()
    report.title(f"One sampling round: {_CHIPS} chips, 1 job on all, ms, median (range)")
    report.figure(f"{len(files)} of the files opened and read, the reference", "", spread(times["yardstick"], 1e3, 2))
    report.figure("first round", f"{first * 1e3:.1f} ms")
    for key, name in (("look", "one round"), ("merge", "its merge into a snapshot")):
        ratio = statistics.median(a / b for a, b in zip(times[key], times["yardstick"]))
        report.figure(name, f"{ratio:.2f} x", spread(times[key], 1e3, 2))
    report.figure("share of a core, once a second", f"{100 * statistics.median(times['look']):.2f} %")


def _process_scan(report: Report, root: Path, rounds: int) -> None:
    """Real processes, some of which hold chips; the driver's list is a file, because there is no driver here."""
    chips = list(range(_CHIPS))
    for name in ("old/dev/tenstorrent", "new/proc/driver/tenstorrent"):
        (root / name).mkdir(parents=True)
    (root / "old/proc").symlink_to("/proc")
    with _sleepers(root / "old/dev/tenstorrent/0") as holders:
        for pid in holders:
            (root / f"new/proc/{pid}").symlink_to(f"/proc/{pid}")
        for chip in chips:
            (root / f"new/proc/driver/tenstorrent/{chip}").mkdir()
            lines = [f"{pid}\n" for pid in holders] if chip == 0 else []
            (root / f"new/proc/driver/tenstorrent/{chip}/pids").write_text("".join(lines))
        by_list, by_files = Holders(str(root / "new")), Holders(str(root / "old"))
        for one in (by_list, by_files):
            assert [row["pid"] for row in one.look(chips)["processes"]] == sorted(holders)
        times: dict[str, list[float]] = {"yardstick": [], "list": [], "files": [], "first": []}
        for _ in range(rounds * 4):
            times["yardstick"].append(_time(_read_every_stat))
            times["list"].append(_time(lambda: by_list.look(chips)))
            times["files"].append(_time(lambda: by_files.look(chips)))
            times["first"].append(_time(lambda: Holders(str(root / "new")).look(chips)))
        count = sum(name.isdigit() for name in os.listdir("/proc"))
    report.title(
        f"Holders of chips: {_CHIPS} chips, {_HOLDERS} holders, {count} processes, ms per scan, median (range)"
    )
    report.figure("stat of every process read once, the reference", "", spread(times["yardstick"], 1e3, 2))
    for key, name in (
        ("list", "by the driver's lists"),
        ("first", "by the driver's lists, first scan"),
        ("files", "by the open files of all processes (old driver)"),
    ):
        ratio = statistics.median(a / b for a, b in zip(times[key], times["yardstick"]))
        report.figure(name, f"{ratio:.2f} x", spread(times[key], 1e3, 2))


def _time(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def _read_every_stat() -> None:
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    file.read()
            except OSError:
                continue


@contextmanager
def _sleepers(device: Path) -> Iterator[list[int]]:
    """Idle processes; the first ones have the device open."""
    device.touch()
    started: list[subprocess.Popen[bytes]] = []
    try:
        for number in range(_PROCESSES):
            with open(device if number < _HOLDERS else os.devnull, "rb") as opened:
                started.append(subprocess.Popen(["sleep", "600"], stdin=opened, stdout=subprocess.DEVNULL))
        yield [process.pid for process in started[:_HOLDERS]]
    finally:
        for process in started:
            process.kill()
        for process in started:
            process.wait()

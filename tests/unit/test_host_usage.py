# SPDX-License-Identifier: Apache-2.0
"""CPU and RAM of processes: as reported by the kernel, otherwise unknown."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests import machines
from ttmem.sources.host_usage import HostUsage

TICKS, PAGE = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def run_for(folder: Path, user: int, system: int) -> None:
    """A process that has used this many ticks."""
    head, _, tail = (folder / "stat").read_text().rpartition(") ")
    fields = tail.split()
    fields[11], fields[12] = str(user), str(system)
    (folder / "stat").write_text(f"{head}) {' '.join(fields)}")


def test_percent_of_a_core_since_the_last_look(folder: Path) -> None:
    clock = Clock()
    process = machines.Machine(folder).process(51, name="a) b (c", start=700, rss_pages=1000)
    usage = HostUsage(str(folder), clock)
    run_for(process, 500 * TICKS, 0)
    assert usage.look([51]) == {51: {"start": 700, "cpu_percent": None, "rss": 1000 * PAGE}}, "since when is not known"
    run_for(process, 501 * TICKS, TICKS // 2)
    clock.now += 1.0
    assert usage.look([51])[51]["cpu_percent"] == 150.0
    run_for(process, 501 * TICKS + 1, TICKS // 2)
    clock.now += 0.1
    assert usage.look([51])[51]["cpu_percent"] == 150.0, "ticks are too coarse for so short a time"
    clock.now += 0.9
    assert usage.look([51])[51]["cpu_percent"] == 1.0


def test_another_process_with_the_same_pid_begins_anew(folder: Path) -> None:
    clock, machine = Clock(), machines.Machine(folder)
    run_for(machine.process(51, start=700), 5, 5)
    usage = HostUsage(str(folder), clock)
    usage.look([51])
    machine.end(51)
    clock.now += 1.0
    assert usage.look([51]) == {}
    run_for(machine.process(51, start=900), 5000, 5)
    clock.now += 1.0
    assert usage.look([51])[51]["cpu_percent"] is None


@pytest.mark.parametrize("text", ["", "51 (python", "51 (python) S 1 2", "51 (python) S " + "x " * 40])
def test_what_cannot_be_read_is_not_known(folder: Path, text: str) -> None:
    process = machines.Machine(folder).process(51)
    (process / "stat").write_text(text)
    assert HostUsage(str(folder)).look([51, 52]) == {}


def test_a_zombie_has_nothing(folder: Path) -> None:
    machines.Machine(folder).process(51, state="Z")
    assert HostUsage(str(folder)).look([51]) == {}


def test_as_the_kernel_tells_it() -> None:
    pid = os.getpid()
    clock = Clock()
    usage = HostUsage(clock=clock)
    first = usage.look([pid])[pid]
    before, began = os.times(), os.times()
    while before.user + before.system - began.user - began.system < 0.2:
        sum(range(10_000))
        before = os.times()
    clock.now += 1.0
    found = usage.look([pid])[pid]["cpu_percent"]
    assert found is not None
    assert 15 <= found <= 60, "0.2 s and a little more of a second that the clock made up"
    status = Path("/proc/self/status").read_text()
    resident = next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmRSS"))
    assert first["rss"] == pytest.approx(resident, rel=0.2)

# SPDX-License-Identifier: Apache-2.0
"""The cost of the live page on the machine: what `ttmem web` and the server use for one page with 32 chips at 2 Hz.

A simulated decode runs on 32 chips. The questions are those of the page, sent as a browser sends them: on connections
that stay open. The server also works for the workload, so its share with the page is compared with its share without,
in turn. The yardstick is the same run's time to encode the snapshot as JSON once for each poll: on a busy machine both
rise.
"""

from __future__ import annotations

import http.client
import json
import re
import select
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from benchmarks.report import Report
from ttmem.demo.demo_session import DemoSession, demo_session
from ttmem.sim.workloads import parts_of

_HZ = 2
_SECONDS = 8.0
_STEPS_PER_SECOND = 10  # of the workload; the same number in each measurement, so that the server has the same work
_READY_SECONDS = 60.0
# What a view asks, and how often in a second.
_VIEWS: dict[str, dict[str, float]] = {
    "Overview": {},
    "Cores": {"cores?chip=sim-galaxy-0&core=0%2C0": 1.0},
    "Allocations": {
        "breakdown?kind=dram%2Ctrace&by=stack&limit=2000": 1 / 3,
        "breakdown?kind=dram%2Ctrace&by=op&limit=2000": 1 / 3,
        "allocations?kind=dram%2Ctrace&limit=50": 1 / 3,
    },
    "Events": {"events?after=1": 2.0},
}


class _Shares(NamedTuple):
    """Percent of a core."""

    server: float
    web: float


def run(report: Report, folder: Path, rounds: int) -> None:
    report.title(f"the live page at {_HZ} Hz, 32 chips of a simulated decode: share of a core on the machine")
    with demo_session(None, "galaxy") as session, _web(session) as page:
        session.start_workers("decode", "galaxy", parts_of("decode", "galaxy"), 1 << 40)
        server = json.loads(page.ask("health"))["pid"]
        _play(session, 5.0)
        snapshot = json.loads(page.ask("snapshot"))
        yardstick = _yardstick(snapshot)
        for view, questions in _VIEWS.items():
            with_page, without = [], []
            for _ in range(max(2, rounds // 2)):
                without.append(_measured(session, page, server, None))
                with_page.append(_measured(session, page, server, questions))
            added = statistics.median(one.server for one in with_page) - statistics.median(
                one.server for one in without
            )
            web = statistics.median(one.web for one in with_page)
            share = max(0.0, added) + web
            parts = f"server {added:+.2f} %, ttmem web {web:.2f} %; ratio to the yardstick {share / yardstick:.1f}"
            report.figure(f"view {view}", f"{share:.2f} %", parts)
            if view == "Overview":
                report.budget("live page, 32 chips, 2 Hz, server and ttmem web", share, 2, "%")
        report.figure("  yardstick: encode the snapshot at that rate", f"{yardstick:.2f} %", "")
        size = len(page.ask("snapshot"))
        report.figure(
            "size of a snapshot", f"{size / 1000:.0f} KB", f"{_HZ * size / 1000:.0f} KB/s without compression"
        )


class _Page:
    """Asks as a browser does."""

    def __init__(self, process: subprocess.Popen[str], port: int, token: str) -> None:
        self.pid = process.pid
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_READY_SECONDS)
        self._token = token

    def ask(self, path: str) -> bytes:
        self._connection.request("GET", f"/api/{path}{'&' if '?' in path else '?'}token={self._token}")
        answer = self._connection.getresponse()
        body = answer.read()
        if answer.status != 200:
            raise AssertionError(f"{path}: {answer.status} {body[:200]!r}")
        return body


@contextmanager
def _web(session: DemoSession) -> Iterator[_Page]:
    command = [sys.executable, "-m", "ttmem", "web", "--port", "0", "--socket", session.path]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        if not select.select([process.stdout], [], [], _READY_SECONDS)[0]:
            raise AssertionError("ttmem web did not start")
        found = re.search(r":(\d+)/\?token=(\S+)", process.stdout.readline())
        if found is None:
            raise AssertionError("ttmem web printed no address")
        yield _Page(process, int(found[1]), found[2])
    finally:
        process.terminate()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _measured(session: DemoSession, page: _Page, server: int, questions: dict[str, float] | None) -> _Shares:
    """The shares in the next seconds: with a page that asks these questions and the snapshot, or without one."""
    before, began = (_cpu(server), _cpu(page.pid)), time.monotonic()
    due = dict.fromkeys(questions or {}, began)
    polls = 0
    for step in range(round(_SECONDS * _STEPS_PER_SECOND)):
        session.finish_step()
        session.start_step()
        if questions is not None and step % (_STEPS_PER_SECOND // _HZ) == 0:
            page.ask("snapshot")
            polls += 1
            for path, rate in questions.items():
                if time.monotonic() >= due[path]:
                    page.ask(path)
                    due[path] += 1 / rate
        time.sleep(max(0.0, began + (step + 1) / _STEPS_PER_SECOND - time.monotonic()))
    took = time.monotonic() - began
    if took > 3 * _SECONDS:
        raise AssertionError(
            f"{_SECONDS:g} s of the workload and {polls} polls took {took:.1f} s: the machine is too busy"
        )
    after = _cpu(server), _cpu(page.pid)
    return _Shares(100 * (after[0] - before[0]) / took, 100 * (after[1] - before[1]) / took)


def _play(session: DemoSession, seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        session.finish_step()
        session.start_step()


def _yardstick(snapshot: object) -> float:
    """Percent of a core to encode a snapshot as often as the page asks for one."""
    times = []
    for _ in range(30):
        began = time.thread_time()
        json.dumps(snapshot, separators=(",", ":"))
        times.append(time.thread_time() - began)
    return 100 * _HZ * statistics.median(times)


def _cpu(pid: int) -> float:
    """CPU seconds of all threads of a process. A thread that ended is not counted; those of servers stay."""
    total = 0
    for thread in Path(f"/proc/{pid}/task").iterdir():
        total += int((thread / "schedstat").read_text().split()[0])
    return total / 1e9

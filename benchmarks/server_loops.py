# SPDX-License-Identifier: Apache-2.0
"""What `ttmem serve` costs beside real ttnn loops on mock machines, and how old a snapshot is when it arrives.

Each window measures the CPU time of the server and of the loop, both with all their threads. The windows of the CPU
time have no requests. In a later window snapshots are requested, and the loop keeps a tensor of known size every few
milliseconds: the bytes of DRAM in a snapshot are then the moment that it describes.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import time
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.mock.boards import BOARDS
from tests.mock.wheel import remove_statistics, wheel
from tests.support import Server

from benchmarks.report import Report, spread
from ttmem.agent import require

_PROGRAM = Path(__file__).parent / "programs" / "ttnn_server_loop.py"
_WARM_SECONDS = 1.0
_WINDOW_SECONDS = 3.0
_WINDOWS = 3  # maximum
_IDLE_SECONDS = 0.2
_STEP_SECONDS = 0.01  # between the tensors that date a snapshot
_STEP_BYTES = 1 << 20  # of one of them; everything else in DRAM is smaller
_REQUEST_SECONDS = 0.5
_CHIP_ID_SEED = 78
_TICKS = os.sysconf("SC_CLK_TCK")
_BUDGET_PERCENT = 15.0
_AGE_BUDGET_MS = 50.0  # a tick of the server, in which every ring is read

_LOOPS = {"one": "one operation", "two": "two in turn", "gather": "all_gather + add, fabric"}
# ttnn refuses all_gather on a single chip, and an n150 has no fabric.
_CASES = (
    ("n150", False, ("one", "two")),
    ("t3k", False, ("one", "two")),
    ("t3k", True, ("gather",)),
    ("galaxy", False, ("one", "two")),
    ("galaxy", True, ("gather",)),
)


class Window(NamedTuple):
    """What was measured while a loop ran."""

    operations: int
    loop_cpu: float  # seconds
    server_cpu: float

    @property
    def share(self) -> float:
        """Percent of the loop's own CPU time."""
        return 100 * self.server_cpu / self.loop_cpu


def cpu_seconds(pid: int) -> float:
    """CPU time of a process with all its threads so far, to 10 ms."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def losses(snapshot: dict[str, Any]) -> str:
    """Losses of all processes in one text: dropped records, and the sources that have unread records or are shed."""
    rows = snapshot["processes"]
    sources = [source for row in rows for source in row["sources"]]
    parts = [f"{sum(row['anomalies']['dropped'] for row in rows):,} dropped"]
    parts += (
        f"{key} {[source[key] for source in sources]}"
        for key in ("unread", "shed")
        if any(source[key] for source in sources)
    )
    return ", ".join(parts)


def run(report: Report, folder: Path, rounds: int) -> None:
    report.title("`ttmem serve` beside a real loop of cached ttnn operations: CPU in percent of the loop's own")
    for board, fabric, loops in _CASES:
        own = folder / f"loops-{board}-{fabric}"
        own.mkdir()
        server = Server(own, "--quiet")
        try:
            with _program(board, fabric, own, server) as program:
                for loop in loops:
                    _measure(report, f"{board}, {_LOOPS[loop]}", loop, server, program, min(rounds, _WINDOWS))
        finally:
            server.stop()


@contextmanager
def _program(board: str, fabric: bool, folder: Path, server: Server) -> Iterator[subprocess.Popen[str]]:
    bench = wheel("3.12")
    env = {
        **bench.environment(board, folder, _CHIP_ID_SEED),
        "LD_PRELOAD": str(require()),
        "TTMEM_SOCKET": server.path,
    }
    command = [bench.python, str(_PROGRAM), *map(str, BOARDS[board].mesh), str(int(fabric))]
    process = subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert _answer(process)["chips"] == len(BOARDS[board].chips)
        yield process
        process.communicate()
        assert process.returncode == 0
    finally:
        process.kill()
        process.wait()
        remove_statistics(board, _CHIP_ID_SEED)


def _start(process: subprocess.Popen[str], loop: str, seconds: float, step: float = 0.0) -> None:
    assert process.stdin is not None
    process.stdin.write(f"{loop} {seconds} {step}\n")
    process.stdin.flush()


def _answer(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("{"):  # ttnn prints lines of its own
            answer: dict[str, Any] = json.loads(line)
            return answer
    raise AssertionError("the program ended")


def _settle(server: Server) -> float:
    """Wait until the server has read everything; returns its CPU time so far."""
    before = cpu_seconds(server.process.pid)
    while True:
        time.sleep(_IDLE_SECONDS)
        now = cpu_seconds(server.process.pid)
        if now - before < 0.1 * _IDLE_SECONDS:
            return now
        before = now


def _measure(
    report: Report, name: str, loop: str, server: Server, program: subprocess.Popen[str], windows: int
) -> None:
    _start(program, loop, _WARM_SECONDS)
    _answer(program)
    before_loop = server.snapshot()
    found = []
    for _ in range(windows):
        before = _settle(server)
        _start(program, loop, _WINDOW_SECONDS)
        answer = _answer(program)
        found.append(Window(answer["operations"], answer["cpu"], _settle(server) - before))
    after = server.snapshot()
    dropped = _dropped(after) - _dropped(before_loop)
    operations = sum(window.operations for window in found)
    records = (after["server"]["events"] - before_loop["server"]["events"]) / operations
    share = statistics.median(window.share for window in found)
    own, its = (
        1e6 * sum(times) / operations
        for times in zip(*((window.server_cpu, window.loop_cpu) for window in found), strict=True)
    )
    note = f"{own:.1f} of {its:.1f} us an operation, {records:.2f} events, {losses(after)}"
    report.figure(f"{name}", f"{spread([window.share for window in found])} %", note)
    ages, answers, cost = _snapshots(server, program, loop)
    report.figure(
        "  snapshots at 2 Hz: age on arrival, time of the answer",
        f"{spread(ages, 1e3)}, {spread(answers, 1e3)} ms",
        f"CPU with them {cost:.0f} %; {losses(server.snapshot())}",
    )
    report.budget(f"server beside {name}: CPU by the loop's own", share, _BUDGET_PERCENT, "%")
    report.budget(f"server beside {name}: records dropped", dropped, 0, "records")
    report.budget(f"server beside {name}: age of a snapshot", 1e3 * statistics.median(ages), _AGE_BUDGET_MS, "ms")


def _dropped(snapshot: dict[str, Any]) -> int:
    return sum(row["anomalies"]["dropped"] for row in snapshot["processes"])


def _snapshots(server: Server, program: subprocess.Popen[str], loop: str) -> tuple[list[float], list[float], float]:
    """Ages on arrival and times of the answers in seconds, and the server's CPU in percent of the loop's."""
    before = _settle(server)
    _start(program, loop, _WINDOW_SECONDS, _STEP_SECONDS)
    taken = []  # asked, answered, steps that the snapshot contains
    end = time.monotonic() + _WINDOW_SECONDS - 2 * _REQUEST_SECONDS
    while time.monotonic() < end:
        time.sleep(_REQUEST_SECONDS)
        asked = time.monotonic()
        snapshot = server.snapshot()
        answered = time.monotonic()
        steps = {chip["memory"]["dram"]["used"] // _STEP_BYTES for chip in snapshot["chips"]}
        assert len(steps) == 1, "every chip of the mesh has the same tensors"
        taken.append((asked, answered, steps.pop()))
    answer = _answer(program)
    times = answer["times"]
    ages = []
    for _, answered, steps in taken:
        written = bisect_right(times, answered)
        ages.append(answered - times[steps] if steps < written else 0.0)
    cost = 100 * (_settle(server) - before) / answer["cpu"]
    return ages, [answered - asked for asked, answered, _ in taken], cost

# SPDX-License-Identifier: Apache-2.0
"""What a recording costs a real loop of cached ttnn operations: on and off in turn, in one process of the workload.

Reader and recorder are in this process, as in `ttmem run --record`. Only the recorder is switched on and off.

The difference is smaller than the noise of a shared machine, so the recorder's own CPU is measured, too. It is in
another process than the loop: the loop waits for it only if no other core is free, and then no longer than that.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import threading
import time
from pathlib import Path
from typing import NamedTuple

from tests.mock.boards import BOARDS
from tests.mock.wheel import remove_statistics, wheel

from benchmarks.report import Report, spread
from benchmarks.server_loops import _PROGRAM, _answer, _start
from ttmem.recording.recorder import Recorder
from ttmem.run.environment import variables
from ttmem.run.session import Session

_SEED = 79
_WINDOW_SECONDS = 0.5
_PAIRS = 24
_LONG_SECONDS = 10.0
_TURN_SECONDS = 0.02
_CASES = (("n150", False, "one"), ("n150", False, "two"), ("galaxy", True, "gather"))


class _Reader(threading.Thread):
    """Reads the rings, as `ttmem run` does while its command runs."""

    def __init__(self, session: Session) -> None:
        super().__init__(daemon=True)
        self.session = session
        self.lock = threading.Lock()
        self.ended = threading.Event()

    def run(self) -> None:
        while not self.ended.wait(_TURN_SECONDS):
            with self.lock:
                self.session.turn()


def run(report: Report, folder: Path, rounds: int) -> None:
    report.title("A recording beside a real loop of cached ttnn operations: on and off in turn")
    for board, fabric, loop in _CASES:
        own = folder / f"recording-{board}-{loop}"
        own.mkdir()
        _measure(report, board, fabric, loop, own, rounds)


def _measure(report: Report, board: str, fabric: bool, loop: str, folder: Path, rounds: int) -> None:
    bench = wheel("3.12")
    with Session(lambda text: None) as session:
        reader = _Reader(session)
        env = bench.environment(board, folder, _SEED) | {"TTMEM_SOCKET": os.fspath(folder / "nobody.sock")}
        env |= variables(env, socket=None, run_socket=session.path, stacks=None)
        command = [bench.python, str(_PROGRAM), *map(str, BOARDS[board].mesh), str(int(fabric))]
        process = subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        reader.start()
        try:
            _answer(process)
            _window(process, loop)
            ratios = []
            for number in range(_PAIRS * rounds):
                path = folder / f"{number}.ttmem"
                first = number % 2 == 0  # in turn, so that a drift of the machine cancels out
                off = 0.0 if first else _window(process, loop)
                on = _recorded(reader, path, process, loop, _WINDOW_SECONDS).cpu
                off = off or _window(process, loop)
                ratios.append(on / off)
                path.unlink()
            path = folder / "long.ttmem"
            before = session.rings.counts()[0]
            whole = _recorded(reader, path, process, loop, _LONG_SECONDS)
            records = session.rings.counts()[0] - before
            process.communicate()
        finally:
            process.kill()
            process.wait()
            reader.ended.set()
            reader.join()
            remove_statistics(board, _SEED)
    name = f"{board}, {loop}"
    percent = [100 * (ratio - 1) for ratio in ratios]
    report.figure(f"{name}: more CPU for an operation", f"{spread(percent)} %", "paired windows")
    report.figure(
        f"{name}: CPU of the recorder for a record, in ns", f"{whole.recorder / records * 1e9:.0f}",
        f"{records / whole.seconds:,.0f} records/s, {path.stat().st_size / records:.2f} B each",
    )  # fmt: skip
    report.figure(
        f"{name}: CPU of the recorder in a second of the loop", f"{100 * whole.recorder / whole.seconds:.2f} %",
        "the most that the wall time of the loop can grow by, if it has to wait for the recorder",
    )  # fmt: skip
    report.budget(f"recording beside {name}: CPU of an operation", statistics.median(percent), 0.5, "%")


def _window(process: subprocess.Popen[str], loop: str, seconds: float = _WINDOW_SECONDS) -> float:
    """Seconds of the workload's CPU for an operation. Wall time depends on what else uses the cores."""
    _start(process, loop, seconds)
    answer = _answer(process)
    return float(answer["cpu"]) / int(answer["operations"])


class _Recorded(NamedTuple):
    """A window in which everything was recorded."""

    cpu: float  # of the workload, for an operation
    recorder: float  # seconds of CPU of the recorder's thread
    seconds: float  # of wall time


def _recorded(reader: _Reader, path: Path, process: subprocess.Popen[str], loop: str, seconds: float) -> _Recorded:
    """The same while everything is recorded."""
    session = reader.session
    with reader.lock:
        session.turn()
        (ring, _, _), *_ = session.rings.positions()
        source = next(s for p in session.ledger.processes.values() for s in p.sources.values() if s.name == "agent")
        offset = time.time() - time.monotonic()
        recorder = Recorder(os.fspath(path), session.sink, lambda text: None)
        recorder.follow(source, ring, offset)
    (thread,) = (one for one in threading.enumerate() if one.name == "ttmem recording" and one.ident is not None)
    clock = time.pthread_getcpuclockid(thread.ident or 0)
    began, before = time.monotonic(), time.clock_gettime(clock)
    try:
        cpu = _window(process, loop, seconds)
        return _Recorded(cpu, time.clock_gettime(clock) - before, time.monotonic() - began)
    finally:
        with reader.lock:
            session.turn()
            recorder.close()

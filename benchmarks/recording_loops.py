# SPDX-License-Identifier: Apache-2.0
"""What a recording costs a real loop of cached ttnn operations: on and off in turn, in one process of the workload.

Reader and recorder are in this process, as in `ttmem run --record`. Only the recorder is switched on and off.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import threading
import time
from pathlib import Path

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
            ratios, bytes_written, records = [], 0, 0
            for number in range(_PAIRS * rounds):
                path = folder / f"{number}.ttmem"
                first = number % 2 == 0  # in turn, so that a drift of the machine cancels out
                off = 0.0 if first else _window(process, loop)
                before = session.rings.counts()[0]
                on = _recorded(reader, path, process, loop)
                records += session.rings.counts()[0] - before
                bytes_written += path.stat().st_size
                off = off or _window(process, loop)
                ratios.append(on / off)
                path.unlink()
            process.communicate()
        finally:
            process.kill()
            process.wait()
            reader.ended.set()
            reader.join()
            remove_statistics(board, _SEED)
    name = f"{board}, {loop}"
    percent = [100 * (ratio - 1) for ratio in ratios]
    report.figure(
        f"{name}: more CPU for an operation", f"{spread(percent)} %", f"{bytes_written / records:.2f} B a record"
    )
    report.budget(f"recording beside {name}: CPU of an operation", statistics.median(percent), 0.5, "%")


def _window(process: subprocess.Popen[str], loop: str) -> float:
    """Seconds of the workload's CPU for an operation. Wall time depends on what else uses the cores."""
    _start(process, loop, _WINDOW_SECONDS)
    answer = _answer(process)
    return float(answer["cpu"]) / int(answer["operations"])


def _recorded(reader: _Reader, path: Path, process: subprocess.Popen[str], loop: str) -> float:
    """The same while everything is recorded."""
    session = reader.session
    with reader.lock:
        session.turn()
        (ring, _, _), *_ = session.rings.positions()
        source = next(s for p in session.ledger.processes.values() for s in p.sources.values() if s.name == "agent")
        offset = time.time() - time.monotonic()
        recorder = Recorder(os.fspath(path), session.sink, lambda text: None)
        recorder.follow(source, ring, offset)
    try:
        return _window(process, loop)
    finally:
        with reader.lock:
            session.turn()
            recorder.close()

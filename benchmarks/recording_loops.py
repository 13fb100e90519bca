# SPDX-License-Identifier: Apache-2.0
"""What a recording costs a real loop of cached ttnn operations: on and off in turn, in one process of the workload.

Reader and recorder are in this process, as in `ttmem run --record`. Only the recorder is switched on and off.

The difference is smaller than the noise of a shared machine. The recorder is in another process than the loop, so the
loop loses time to it in two ways only, and each is measured by itself. If no other core is free, the loop waits for it,
at most as long as the recorder's own CPU time. If one is free, both share caches and memory: a thread does the
recorder's work all the time, and the loop's loss to it is scaled down to the recorder's own CPU time.
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
from ttmem.recording.blocks import BlockType, BlockWriter
from ttmem.recording.columns import packed
from ttmem.recording.recorder import Recorder
from ttmem.run.environment import variables
from ttmem.run.session import Session
from ttmem.wire.agent_ring import Ring

_SEED = 79
_WINDOW_SECONDS = 0.5
_PAIRS = 24
_LONG_SECONDS = 10.0
_TURN_SECONDS = 0.02
_RECORDS_OF_A_BLOCK = 20_000  # about as many as these loops write in a second
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


class _RecorderWork(threading.Thread):
    """Does the recorder's work all the time while it is ``on``: copies the newest records, packs and writes them."""

    def __init__(self, ring: Ring) -> None:
        super().__init__(daemon=True)
        self._ring = ring.again()
        self.on = threading.Event()
        self.ended = threading.Event()
        self.idle = threading.Event()

    def run(self) -> None:
        with open(os.devnull, "wb", buffering=0) as nowhere:
            blocks = BlockWriter(nowhere)
            while not self.ended.is_set():
                if not self.on.is_set():
                    self.idle.set()
                    self.on.wait()
                    self.idle.clear()
                self._ring.cursor = max(0, self._ring.head - _RECORDS_OF_A_BLOCK)
                blocks.write(BlockType.RECORDS, packed(self._ring.read_raw(_RECORDS_OF_A_BLOCK)[1])[0])
        self._ring.close()


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
            slower = _beside_work(reader, process, loop, _PAIRS * rounds)
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
    loss = statistics.median(slower)
    report.figure(
        f"{name}: more CPU for an operation beside the recorder's work all the time", f"{spread(slower)} %",
        "paired windows, for a whole core of that work",
    )  # fmt: skip
    report.budget(
        f"recording beside {name}: CPU of an operation, scaled to the recorder's CPU",
        loss * whole.recorder / whole.seconds, 0.5, "%",
    )  # fmt: skip


def _window(process: subprocess.Popen[str], loop: str, seconds: float = _WINDOW_SECONDS) -> float:
    """Seconds of the workload's CPU for an operation. Wall time depends on what else uses the cores."""
    _start(process, loop, seconds)
    answer = _answer(process)
    return float(answer["cpu"]) / int(answer["operations"])


def _beside_work(reader: _Reader, process: subprocess.Popen[str], loop: str, pairs: int) -> list[float]:
    """By how many percent an operation takes more CPU while a core does the recorder's work, of each pair of windows.

    Scaled to a whole core, because the thread shares its interpreter with the reader.
    """
    (ring, _, _), *_ = reader.session.rings.positions()
    work = _RecorderWork(ring)
    work.start()
    clock = time.pthread_getcpuclockid(work.ident or 0)
    found = []
    try:
        for number in range(pairs):
            off = 0.0 if number % 2 else _window(process, loop)
            work.on.set()
            began, before = time.monotonic(), time.clock_gettime(clock)
            on = _window(process, loop)
            share = (time.clock_gettime(clock) - before) / (time.monotonic() - began)
            work.on.clear()
            work.idle.wait()
            off = off or _window(process, loop)
            found.append(100 * (on / off - 1) / share)
    finally:
        work.ended.set()
        work.on.set()
        work.join()
    return found


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

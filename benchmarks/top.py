# SPDX-License-Identifier: Apache-2.0
"""The cost of `ttmem top`: share of a core, bytes to the terminal, time to the first screen.

First the overview, with every number of every chip changing at every update; then each view, while a simulated workload
reports to a real server. The content of the screen is checked, too. For comparison: tt-smi's page of telemetry, with
the same number of simulated chips, at its fixed 10 Hz.
"""

from __future__ import annotations

import json
import os
import random
import select
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import venv
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from tests.snapshots import WELL, Account, driver_chip, machine
from tests.support import ROOT
from tests.terminal import Terminal

from benchmarks.report import Report, spread
from ttmem.demo.demo_session import DemoSession, demo_session
from ttmem.documents.merge import merge
from ttmem.sim.workloads import parts_of
from ttmem.wire.endpoint import api_path

_PROGRAMS = Path(__file__).with_name("programs")
_LINES, _COLUMNS = 40, 120
_HZ = 2
_WARM_SECONDS = 3.0
_SECONDS = 10.0
_STEP_SECONDS = 0.05  # between steps of the simulated workload, as in `ttmem demo`
_TT_SMI = "tt-smi>=6.8,<7"
_VIEWS = ("Overview", "Charts", "Telemetry", "Processes", "Cores", "Allocations")


class _Cost(NamedTuple):
    share: float  # percent of a core
    rate: float  # KB/s to the terminal
    snapshots: float  # changed screens per second
    lines: float  # changed lines per screen


def run(report: Report, folder: Path, rounds: int) -> None:
    report.title(f"`ttmem top` at {_HZ} Hz, {_COLUMNS}x{_LINES}, every number changing: share of a core")
    tt_smi = _tt_smi(report)
    for chips in (1, 4, 32):
        path = str(folder / f"top-{chips}.sock")
        with _Changing(path, chips), _window(path, folder) as window:
            window.wait_for(_chips_seen)
            cost = window.cost()
            # A line for each chip that fits, the processes, and the memory of the selected chip.
            _insist(cost.snapshots > 0.9 * _HZ and cost.lines >= min(chips + 2, 24), cost, window)
        report.figure(f"{chips} chips", f"{cost.share:.2f} %", _told(cost))
        if chips == 32:
            report.budget("ttmem top, 32 chips all changing, 2 Hz", cost.share, 2, "%")
        if tt_smi is not None:
            with _opened(folder, str(tt_smi), str(_PROGRAMS / "tt_smi_chips.py"), str(chips)) as window:
                window.wait_for("Device Information")
                window.press("2")
                window.wait_for("Device Telemetry")
                theirs = window.cost()
                _insist(theirs.snapshots > 1 and theirs.lines >= min(chips, 20), theirs, window)
            ratio = cost.share / theirs.share
            report.figure("  tt-smi", f"{theirs.share:.1f} %", f"{_told(theirs)}; ratio top/tt-smi: {ratio:.3f}")

    report.title(f"`ttmem top` at {_HZ} Hz, {_COLUMNS}x{_LINES}, 32 chips of a simulated decode: share of a core")
    with demo_session(None) as session, _playing(session, "decode", "galaxy"):
        for key, view in enumerate(_VIEWS, 1):
            with _window(session.path, folder) as window:
                window.wait_for(_chips_seen, "chips")
                window.press(str(key))
                cost = window.cost()
                # At least the clock changes, on a busy machine not always in time.
                _insist(cost.snapshots > 0.75, cost, window)
            report.figure(f"view {key}, {view}", f"{cost.share:.2f} %", _told(cost))
            report.budget(f"  view {key}, {view}, a simulated decode on 32 chips", cost.share, 2, "%")
        firsts, worked = [], []
        for _ in range(rounds):
            began = time.monotonic()
            with _window(session.path, folder) as window:
                while not _chips_seen(window.screen.text):
                    window.read()
                firsts.append(time.monotonic() - began)
                worked.append(window.cpu())
    report.figure("from the command to the first screen, s", "", spread(firsts, 1, 2))
    report.figure("  CPU time of it, s", "", spread(worked, 1, 2))
    report.budget("ttmem top, first screen of 32 chips", statistics.median(firsts), 1, "s")


def _told(cost: _Cost) -> str:
    return f"{cost.rate:.1f} KB/s, {cost.snapshots:.1f} screens/s, {cost.lines:.0f} lines change"


def _chips_seen(text: str) -> bool:
    """Whether the overview shows chips with numbers."""
    return text.count("0G") > 0 and "%" in text


def _insist(true: bool, cost: _Cost, window: _Window) -> None:
    if not true:
        raise AssertionError(f"this is not what was to be measured ({_told(cost)}):\n{window.screen.text}")


class _Window(Terminal):
    """A terminal that counts the bytes written to it."""

    written = 0

    def read(self, wait: float = 0.05) -> bool:
        if not select.select([self.mine], [], [], wait)[0]:
            return False
        data = os.read(self.mine, 1 << 16)
        self.written += len(data)
        self.screen.feed(self._decode(data))
        return True

    def cost(self) -> _Cost:
        """The cost of the next seconds, after the first screen is drawn."""
        self._pass(_WARM_SECONDS)
        cpu, written, began = self.cpu(), self.written, time.monotonic()
        changes = self._pass(_SECONDS)
        took = time.monotonic() - began
        return _Cost(
            100 * (self.cpu() - cpu) / took,
            (self.written - written) / took / 1000,
            len(changes) / took,
            statistics.median(changes) if changes else 0,
        )

    def _pass(self, seconds: float) -> list[int]:
        """Read the output; returns the changed lines of each screen. A pause in the output ends a screen."""
        changes, before, until = [], self.screen.lines, time.monotonic() + seconds
        while time.monotonic() < until:
            if not self.read(0.05) and self.screen.lines != before:
                now = self.screen.lines
                changes.append(sum(old != new for old, new in zip(before, now)))
                before = now
        return changes

    def cpu(self) -> float:
        """CPU seconds of all its threads, from schedstat: the clock ticks of /proc/PID/stat are too coarse."""
        threads = Path(f"/proc/{self.process.pid}/task").iterdir()
        return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9


def _tt_smi(report: Report) -> Path | None:
    """An interpreter with tt-smi, in a separate environment because of its pinned dependencies."""
    home = ROOT / ".cache" / "tt-smi"
    python = home / "bin" / "python"
    if not (home / ".ready").exists():
        venv.create(home, with_pip=True, clear=True)
        done = subprocess.run([python, "-m", "pip", "install", "--quiet", _TT_SMI], capture_output=True, text=True)
        if done.returncode:
            said = done.stderr.strip().splitlines()[-1:]
            report.figure("tt-smi", "not measured", f"it cannot be installed: {''.join(said)}")
            return None
        (home / ".ready").touch()
    return python


def _window(path: str, folder: Path) -> AbstractContextManager[_Window]:
    arguments = ("top", "--socket", path, "-r", str(1000 // _HZ), "--readonly")
    return _opened(folder, sys.executable, "-m", "ttmem", *arguments)


@contextmanager
def _opened(folder: Path, *command: str) -> Iterator[_Window]:
    config = tempfile.mkdtemp(dir=folder)  # one for each window, because the open view is stored
    env = {**os.environ, "TERM": "xterm-256color", "LANG": "C.UTF-8", "XDG_CONFIG_HOME": config}
    for name in ("NO_COLOR", "PYTHONDONTWRITEBYTECODE"):
        env.pop(name, None)
    window = _Window(env, *command, size=(_LINES, _COLUMNS))
    try:
        yield window
    finally:
        window.kill()
        window.close()


@contextmanager
def _playing(session: DemoSession, workload: str, devices: str) -> Iterator[None]:
    """A workload that runs at the pace of a demo."""
    session.start_workers(workload, devices, parts_of(workload, devices), 1 << 40)
    ended = threading.Event()

    def play() -> None:
        while not ended.wait(_STEP_SECONDS):
            session.finish_step()
            session.start_step()

    thread = threading.Thread(target=play)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


class _Changing:
    """Answers like a server on which all numbers of all chips change."""

    def __init__(self, path: str, chips: int) -> None:
        account = Account()
        for number in range(chips):
            account.tracked(4000 + number, str(77000 + number), dram=1 << 30, l1=1 << 20)
        seen = [driver_chip(number, asic_id=f"{77000 + number:X}") for number in range(chips)]
        self._snapshot = merge(account.snapshot(), machine(*seen))
        assert len(self._snapshot["chips"]) == chips
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(api_path(path))
        self._socket.listen(16)

    def __enter__(self) -> None:
        threading.Thread(target=self._serve, daemon=True).start()

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def _serve(self) -> None:
        while True:
            try:
                asker, _ = self._socket.accept()
            except OSError:
                return
            with asker, suppress(OSError):  # the window was closed
                path = asker.recv(4096).split(b" ")[1]
                body = json.dumps(self._moved() if path.startswith(b"/snapshot") else {"chips": []}).encode()
                asker.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)

    def _moved(self) -> Any:
        snapshot: Any = self._snapshot
        snapshot["time"] = time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime())
        snapshot["server"]["events"] += random.randrange(5000)
        for chip in snapshot["chips"]:
            memory = chip["memory"]
            memory["dram"]["used"] = memory["dram"]["reserved"] = random.randrange(12 << 30)
            memory["l1"]["used"] = memory["l1"]["at_once"] = random.randrange(90 << 20)
            chip["telemetry"] = {
                **WELL,
                "temperature_c": random.uniform(30, 70),
                "power_w": random.uniform(20, 150),
                "aiclk_mhz": random.randrange(500, 1000),
            }
        for process in snapshot["processes"]:
            for share in process["chips"]:
                share["dram"], share["l1"] = random.randrange(12 << 30), random.randrange(90 << 20)
        return snapshot

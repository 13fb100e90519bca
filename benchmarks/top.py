# SPDX-License-Identifier: Apache-2.0
"""What `ttmem top` costs: share of a core and bytes to the terminal, with every number of every chip changing."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import random
import select
import socket
import struct
import sys
import termios
import threading
import time
from pathlib import Path
from typing import Any

from tests.pictures import WELL, Account, driver_chip, machine

from benchmarks.report import Report
from ttmem.sources.merge import merge

_SIZE = (120, 40)
_WARM_SECONDS = 4.0
_SECONDS = 10.0
# Measured with a fake backend, one tab of tt-smi 6.8.0 at its fixed 10 Hz in a window of the same size.
_TT_SMI = {1: 21.7, 4: 33.9, 32: 87.9}


def run(report: Report, folder: Path, rounds: int) -> None:
    report.title(
        f"`ttmem top` at 2 Hz, {_SIZE[0]}x{_SIZE[1]}, all chips changing: share of a core, KB/s to the terminal"
    )
    for chips in (1, 4, 32):
        path = folder / f"top-{chips}.api.sock"
        with _Changing(path, chips):
            share, rate, first = _watch(path, folder)
        note = f"{rate:.1f} KB/s, first picture after {first:.2f} s; tt-smi as published: {_TT_SMI[chips]} %"
        report.figure(f"{chips} chips", f"{share:.2f} %", note)
        if chips == 32:
            report.budget("ttmem top, 32 chips all changing, 2 Hz", share, 2, "%")


class _Changing:
    """Answers like a server on whose chips everything moves."""

    def __init__(self, path: Path, chips: int) -> None:
        account = Account()
        for number in range(chips):
            account.tracked(4000 + number, str(77000 + number), dram=1 << 30, l1=1 << 20)
        seen = [driver_chip(number, asic_id=f"{77000 + number:X}") for number in range(chips)]
        self._picture = merge(account.picture(), machine(*seen))
        assert len(self._picture["chips"]) == chips
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(str(path))
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
            with asker:
                path = asker.recv(4096).split(b" ")[1]
                body = json.dumps(self._moved() if path.startswith(b"/snapshot") else {}).encode()
                asker.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)

    def _moved(self) -> dict[str, Any]:
        picture = self._picture
        picture["time"] = time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime())
        picture["server"]["events"] += random.randrange(5000)
        for chip in picture["chips"]:
            memory = chip["memory"]
            memory["dram"]["used"] = memory["dram"]["reserved"] = random.randrange(12 << 30)
            memory["l1"]["used"] = memory["l1"]["at_once"] = random.randrange(90 << 20)
            chip["telemetry"] = {
                **WELL,
                "temperature_c": random.uniform(30, 70),
                "power_w": random.uniform(20, 150),
                "aiclk_mhz": random.randrange(500, 1000),
            }
        for process in picture["processes"]:
            for share in process["chips"]:
                share["dram"], share["l1"] = random.randrange(12 << 30), random.randrange(90 << 20)
        return picture


def _watch(path: Path, folder: Path) -> tuple[float, float, float]:
    """(percent of a core, KB/s, seconds to the first picture)."""
    started = time.monotonic()
    pid, terminal = pty.fork()
    if pid == 0:
        env = {**os.environ, "TERM": "xterm-256color", "LANG": "C.UTF-8", "XDG_CONFIG_HOME": str(folder / "config")}
        for name in ("NO_COLOR", "PYTHONDONTWRITEBYTECODE"):
            env.pop(name, None)
        command = [sys.executable, "-m", "ttmem", "top", "--socket", str(path), "-r", "500", "--readonly"]
        os.execve(sys.executable, command, env)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("4H", _SIZE[1], _SIZE[0], 0, 0))
    first = 0.0
    seen = 0

    def drain(until: float) -> None:
        nonlocal first, seen
        while (left := until - time.monotonic()) > 0:
            if select.select([terminal], [], [], left)[0]:
                data = os.read(terminal, 1 << 16)
                seen += len(data)
                if not first and b"Overview" in data:
                    first = time.monotonic() - started

    drain(time.monotonic() + _WARM_SECONDS)
    before, bytes_before, begun = _cpu(pid), seen, time.monotonic()
    drain(begun + _SECONDS)
    took = time.monotonic() - begun
    share = 100 * (_cpu(pid) - before) / took
    rate = (seen - bytes_before) / took / 1000
    os.write(terminal, b"q")
    os.waitpid(pid, 0)
    os.close(terminal)
    return share, rate, first


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

# SPDX-License-Identifier: Apache-2.0
"""`ttmem demo` as its user runs it: piped, as data, on a terminal, on a server that is there already."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from fcntl import ioctl
from pathlib import Path
from typing import Any

import pytest

from tests.support import PATIENCE, Server, process_state, wait_until
from ttmem.sim.workloads import WORKLOADS

_PLAIN = {key: value for key, value in os.environ.items() if not key.startswith(("TTMEM_", "TT_ALLOC_"))}


def demo(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ttmem", "demo", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env={**_PLAIN, **env})


def picture(*arguments: str) -> dict[str, Any]:
    done = demo("--json", *arguments)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_without_a_terminal_it_prints_one_picture_and_a_summary() -> None:
    done = demo()
    assert done.returncode == 0
    assert done.stderr == ""
    for number in range(4):
        assert done.stdout.count(f"sim-n150-{number}") >= 2
    assert "Anomalies: none" in done.stdout
    assert "decode on simulated n150 devices, 4 processes" in done.stdout
    assert "0 B are left." in done.stdout
    assert "\x1b" not in done.stdout


def test_the_snapshot_is_of_the_fullest_moment() -> None:
    found = picture()
    assert found["schema"] == "ttmem.snapshot/1"
    assert [chip["uid"] for chip in found["chips"]] == [f"sim-n150-{number}" for number in range(4)]
    assert {process["state"] for process in found["processes"]} == {"tracked"}
    memories = [chip["memory"] for chip in found["chips"]]
    assert all(memory["dram"]["used"] == memory["dram"]["peak"] > 8 << 30 for memory in memories)
    assert memories[0] == memories[1] == memories[2] == memories[3]
    assert memories[0]["dram"]["trace"]["used"] > 0
    assert memories[0]["l1"]["cb"]["held"] > memories[0]["l1"]["cb"]["resident"] > 0
    assert memories[0]["system"] == {"fabric_kernels": 896 << 10, "dispatch_kernels": 92 << 10}
    assert not any(found["anomalies"].values())


@pytest.mark.parametrize(("machine", "chips"), [("t3k", 8), ("quasar", 4), ("n300", 4)])
def test_machines(machine: str, chips: int) -> None:
    found = picture("--devices", machine)
    assert len(found["chips"]) == chips
    assert len(found["processes"]) == 4
    assert all(chip["memory"]["dram"]["used"] for chip in found["chips"])


@pytest.mark.parametrize("name", [name for name in WORKLOADS if name != "decode"])
def test_every_workload_plays(name: str) -> None:
    done = demo(name)
    assert done.returncode == 0, done.stderr
    assert f"{name} on simulated n150 devices, one process" in done.stdout
    assert "0 B are left." in done.stdout


def test_what_the_failing_ones_say() -> None:
    assert "Out of Memory: Not enough space to allocate" in demo("fragmentation").stdout
    assert "clash with L1 buffers on core range [0-0 - 7-7]" in demo("clash").stdout
    crash = demo("crash").stdout
    assert "killed by SIGKILL" in crash
    assert "exited" in crash


def test_on_a_server_that_is_there(server: Server) -> None:
    for done in (demo("matmul", "--socket", server.path), demo("matmul", TTMEM_SOCKET=server.path)):
        assert done.returncode == 0, done.stderr
    assert [process["state"] for process in server.snapshot()["processes"]] == ["exited", "exited"]


def test_it_ends_after_the_given_time() -> None:
    started = time.monotonic()
    done = demo("leak", "--seconds", "1")
    assert done.returncode == 0, done.stderr
    assert time.monotonic() - started >= 1
    rounds = int(done.stdout.split("round ")[1].split(" ")[0])
    assert rounds > 1


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("quake",), 2, "there is no workload 'quake'; there are decode, matmul"),
        (("--seconds", "0"), 2, "'0' is not a number of seconds"),
        (("--devices", "n999"), 2, "invalid choice: 'n999'"),
        (("--socket", "/nowhere/t.sock"), 1, "no ttmem server answers on /nowhere/t.api.sock"),
    ],
)
def test_what_is_wrong_is_said(arguments: tuple[str, ...], code: int, said: str) -> None:
    done = demo(*arguments)
    assert (done.returncode, "Traceback" in done.stderr) == (code, False)
    assert said in done.stderr


class Terminal:
    """The demo on a terminal of its own."""

    def __init__(self, *arguments: str, size: tuple[int, int]) -> None:
        self._mine, theirs = pty.openpty()
        ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", *size, 0, 0))
        self.before = termios.tcgetattr(theirs)
        self._theirs = theirs
        command = [sys.executable, "-m", "ttmem", "demo", *arguments]
        self.process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=_PLAIN)
        self.seen = b""

    def wait_for(self, text: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while text.encode() not in self.seen:
            ready, _, _ = select.select([self._mine], [], [], 0.2)
            if ready:
                self.seen += os.read(self._mine, 65536)
            elif self.process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"{text!r} was never shown:\n{self.seen[-2000:].decode(errors='replace')}")

    def press(self, key: str) -> None:
        os.write(self._mine, key.encode())

    def restored(self) -> bool:
        return termios.tcgetattr(self._theirs) == self.before

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._mine)
        os.close(self._theirs)


def children(parent: int) -> list[int]:
    return [int(pid) for pid in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]


@contextlib.contextmanager
def terminal(*arguments: str, size: tuple[int, int] = (50, 120)) -> Iterator[Terminal]:
    found = Terminal(*arguments, size=size)
    try:
        yield found
    finally:
        found.close()


def test_live_until_q(folder: Path) -> None:
    with terminal("--devices", "n150") as screen:
        screen.wait_for("q ends. loaded layers.")
        assert screen.seen.startswith(b"\x1b[?1049h")
        screen.press("x")  # any other key does nothing
        screen.seen = screen.seen[-1:]
        screen.wait_for("q ends. loaded layers.")
        screen.press("q")
        screen.wait_for("0 B are left.")
        assert screen.process.wait(PATIENCE) == 0
        assert b"\x1b[?1049l" in screen.seen
        assert screen.restored()


def test_live_until_the_workload_dies() -> None:
    with terminal("crash") as screen:
        screen.wait_for("killed by SIGKILL")
        screen.wait_for("0 B are left.")
        assert screen.process.wait(PATIENCE) == 0
        assert screen.restored()


def test_once_on_a_terminal_is_not_live() -> None:
    with terminal("matmul", "--once") as screen:
        screen.wait_for("0 B are left.")
        assert screen.process.wait(PATIENCE) == 0
        assert b"\x1b[?1049h" not in screen.seen


def test_a_killed_demo_leaves_nobody_behind() -> None:
    with terminal() as screen:
        screen.wait_for("q ends. loaded layers.")
        family = children(screen.process.pid)
        assert len(family) == 5
        screen.process.kill()
        for pid in family:
            wait_until(
                lambda pid=pid: not os.path.exists(f"/proc/{pid}") or process_state(pid) == "Z", f"the end of {pid}"
            )


def test_a_demo_that_is_told_to_end_tidies_up() -> None:
    with terminal() as screen:
        screen.wait_for("q ends. loaded layers.")
        (folder,) = {
            Path(word).parent
            for pid in children(screen.process.pid)
            for word in Path(f"/proc/{pid}/cmdline").read_text().split("\0")
            if word.endswith("/ttmem.sock")
        }
        screen.process.terminate()
        assert screen.process.wait(PATIENCE) == 128 + signal.SIGTERM
        assert screen.restored()
        assert not folder.exists()


def test_a_server_that_dies_under_the_demo() -> None:
    with terminal() as screen:
        screen.wait_for("q ends. loaded layers.")
        os.kill(children(screen.process.pid)[0], signal.SIGKILL)
        screen.wait_for("ttmem demo: ")
        assert screen.process.wait(PATIENCE) == 1
        assert b"no ttmem server answers" in screen.seen
        assert b"Traceback" not in screen.seen
        assert screen.restored()


@pytest.mark.parametrize("size", [(24, 80), (15, 40)])
def test_live_on_a_small_terminal(size: tuple[int, int]) -> None:
    """No line is longer than the terminal is wide, and the last one says how to end."""
    with terminal("clash", size=size) as screen:
        screen.wait_for("q ends. Statically alloc")
        frame = screen.seen.decode().split("\x1b[H")[-1].split("\x1b[J")[0]
        lines = [re.sub(r"\x1b\[[0-9;]*[mK]", "", line) for line in frame.replace("\r", "").split("\n")]
        assert len(lines) <= size[0]
        assert max(map(len, lines)) <= size[1]
        screen.press("q")
        assert screen.process.wait(PATIENCE) == 0


def test_a_live_picture_stays_full_when_the_workload_is_done() -> None:
    with terminal("fragmentation") as screen:
        screen.wait_for("Out of Memory")
        screen.seen = b""
        screen.wait_for("Out of Memory")
        assert b"tracked" in screen.seen
        screen.press("q")
        screen.wait_for("0 B are left.")
        assert b" 0 B were given back" not in screen.seen

# SPDX-License-Identifier: Apache-2.0
"""Workloads with control characters in every text: none reaches a terminal, a log or a text answer."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.hostile import HOSTILE, assert_printable, unprintable
from tests.support import PATIENCE, ROOT, LegacyClient, Server, program, wait_until
from tests.terminal import Terminal

CLIENT = ROOT / "tests" / "programs" / "hostile_client.py"
ARGUMENT = HOSTILE.replace("\0", "").replace("\ud800", "").replace("\udc9b", "")
VIEWS = "123456"


class Workload:
    """The hostile client, with a hostile command line, and a legacy one whose program has a hostile name."""

    def __init__(self, server: Server, folder: Path) -> None:
        command = [sys.executable, str(CLIENT), server.path, ARGUMENT]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n"
        named = folder / "\x1b[2Jevil\n\u202e"
        named.symlink_to(program("legacy_client"))
        self.legacy = LegacyClient(server, executable=str(named))
        self.legacy.say("alloc 0 4096 0 0x900000")
        assert self.legacy.query(0)["dram"]

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()
        self.legacy.kill()


@pytest.fixture
def recorded(folder: Path, serve: Callable[..., Server]) -> Server:
    return serve("--record", str(folder / "all.ttmem"))


@pytest.fixture
def workload(recorded: Server, folder: Path) -> Iterator[Workload]:
    made = Workload(recorded, folder)
    yield made
    made.end()


def ttmem(*arguments: str, folder: Path) -> str:
    command = [sys.executable, "-m", "ttmem", *arguments]
    done = subprocess.run(command, capture_output=True, cwd=folder, timeout=PATIENCE)
    assert done.returncode in (0, 1, 2, 3), done.stderr
    assert b"internal error" not in done.stderr
    assert_printable(done.stderr.decode(), arguments)
    return done.stdout.decode()


LIVE = (
    *(
        "smi",
        "smi -d 77",
        "smi --ascii",
        "smi --json",
        "smi --csv",
        "l1 -d 77",
        "l1 -d 77 --core 0,0",
        "l1 -d 77 --json",
    ),
    *("leaks", "leaks --json", "dump", "dump --kernels", "dump --json"),
    *("dump --by op", "dump --by line", "dump --by stack", "dump --by shape"),
)
RECORDED = (
    "replay",
    "replay --peaks",
    "replay --by op",
    "replay --by stack",
    "replay --json",
    "explain",
    "l1 --file",
    "leaks --file",
)
SHOWN = ("smi", "smi --json", "l1 -d 77 --core 0,0", "leaks", "dump", "dump --kernels", "dump --by op")
TEXTS = ("/dump?format=text", "/dump?format=text&what=kernels", "/metrics", "/metrics?pids=1")
DATA = ("/snapshot", "/allocations", "/phases", "/history", "/peaks", "/breakdown?by=op", "/cores?chip=77", "/leaks")


def test_every_command_and_the_servers_own_output(recorded: Server, workload: Workload, folder: Path) -> None:
    server = recorded
    for command in LIVE:
        text = ttmem(*command.split(), "--socket", server.api, folder=folder).replace("\r\n", "\n")
        assert_printable(text, command)
        assert "evil" in text or command not in SHOWN, command
    for path in (*TEXTS, *DATA):
        assert_printable(server.text(path), path)
    assert_printable(ttmem("doctor", "--socket", server.api, "-v", folder=folder))
    server.kill(signal.SIGUSR1)
    wait_until(lambda: "DUMP_REMAINING complete" in server.log.read_text(), "the dump")
    workload.end()
    wait_until(lambda: all(one["state"] == "exited" for one in server.snapshot()["processes"]), "the deaths")
    assert_printable(ttmem("smi", "--socket", server.api, folder=folder))
    assert server.stop() == 0
    for file in (server.log, server.err):
        assert_printable(file.read_bytes().decode(), file.name)
    assert "evil" in server.log.read_text()
    for command in RECORDED:
        assert_printable(ttmem(*command.split(), str(folder / "all.ttmem"), folder=folder), command)


def test_the_dashboard(recorded: Server, workload: Workload, folder: Path) -> None:
    env = {**os.environ, "XDG_CONFIG_HOME": str(folder / "config"), "LANG": "C.UTF-8"}
    command = [sys.executable, "-m", "ttmem", "top", "--socket", recorded.path, "--readonly"]
    terminal = Terminal(env, *command, size=(60, 200))
    decode, written = terminal._decode, []

    def kept(data: bytes) -> str:
        written.append(decode(data))
        return written[-1]

    terminal._decode = kept  # type: ignore[assignment]
    try:
        terminal.wait_for("server pid")
        shown = ""
        for view in VIEWS:
            terminal.press(view)
            shown += terminal.wait_for("server pid")
        terminal.press("4")
        terminal.wait_for("evil")
        terminal.press("6")
        shown = terminal.wait_for("[bold]")  # Rich markup is ordinary text
        assert "\\x1b]0;evil" in shown
        assert not unprintable(shown)
        terminal.press("q")
        assert terminal.ended() == 0
    finally:
        terminal.kill()
    # The title that a workload tried to set, and the colours that it asked for, were not sent to the terminal.
    sent = "".join(written)
    assert "server pid" in sent
    assert not any(mark in sent for mark in ("\x1b]0;evil", "\x9b", "\u202e", "\x7f"))


def test_the_log_as_json(serve: Callable[..., Server], folder: Path) -> None:
    server = serve("--log-format", "json")
    made = Workload(server, folder)
    server.kill(signal.SIGUSR1)
    wait_until(lambda: "DUMP_REMAINING complete" in server.log.read_text(), "the dump")
    made.end()
    assert server.stop() == 0
    assert_printable(server.log.read_bytes().decode())
    assert_printable(server.err.read_bytes().decode())

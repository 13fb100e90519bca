# SPDX-License-Identifier: Apache-2.0
"""Code that the integration tests share: a real server in its own process, real clients, and waiting for conditions."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from ttmem.account.ledger import Ledger
from ttmem.documents.cores import Cores
from ttmem.ingest.clock import Clock
from ttmem.ingest.sink import Sink
from ttmem.server.current_snapshot import AccountSnapshots, CurrentSnapshot
from ttmem.server.dumps import Dumps
from ttmem.server.event_stream import EventStream
from ttmem.server.history import History
from ttmem.server.http_server import Request
from ttmem.server.router import Api
from ttmem.wire.api_client import get, get_json
from ttmem.wire.endpoint import api_path

Value = TypeVar("Value")
ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / ".cache" / "programs"
PATIENCE = 180.0  # seconds; more than a busy machine needs for anything, so a longer wait is a fault


def wait_until(true: Callable[[], Any], what: str = "it", patience: float = PATIENCE) -> Any:
    """Wait until a condition is true; the time it takes is not part of the test."""
    deadline = time.monotonic() + patience
    while True:
        answer = true()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not happen within {patience:g} s")
        time.sleep(0.002)


def not_none(value: Value | None) -> Value:
    """The value; the test knows that it is not None."""
    assert value is not None
    return value


class StoppedClock(Clock):
    """A clock that always shows the same time."""

    def __init__(self, now: float) -> None:
        self._now = now

    def now(self) -> float:
        return self._now


def api_over(
    ledger: Ledger,
    about: Any,
    *,
    history: History | None = None,
    clock: Clock | None = None,
) -> Api:
    """The routes of a server over a ledger, without sockets and without a machine."""
    clock = clock or Clock()
    sink = Sink(ledger, now=clock.now)
    feed, cores = EventStream(sink), Cores(ledger)
    return Api(
        ledger=ledger,
        sink=sink,
        current=CurrentSnapshot(AccountSnapshots(ledger, cores, feed, clock, lambda: about), machine=False),
        cores=cores,
        dumps=Dumps(ledger, clock, print, print),
        history=history or History(),
        feed=feed,
        clock=clock,
        server=lambda: about,
        catch_up=lambda: None,
    )


async def answered(api: Api, path: str, query: dict[str, str]) -> Any:
    """The answer of a route, without a server; an answer may consist of pieces."""
    response = await api.handle(Request("GET", path, query, 0))
    body = response.body
    if not isinstance(body, bytes):
        body = b"".join([piece async for piece in body])
        assert response.length == len(body)
    return json.loads(body)


# `ttmem doctor`, with timeouts long enough for a busy machine.
PATIENT_DOCTOR = [
    sys.executable,
    "-c",
    "import sys; from ttmem.cli import main; from ttmem.doctor import agent_checks, context, endpoints, locate;"
    f"agent_checks._SECONDS = locate._SECONDS = endpoints._SECONDS = context._SNAPSHOT_SECONDS = {PATIENCE};"
    "sys.exit(main(['doctor', *sys.argv[1:]]))",
]


class Server:
    """`ttmem serve` as a user starts it.

    It reads this machine's chips and counters only with ``--machine /``, because other tests may use them.
    """

    def __init__(self, folder: Path, *arguments: str, name: str = "ttmem", wait: bool = True, **popen: Any) -> None:
        self.path = str(folder / f"{name}.sock")
        self.api = api_path(self.path)
        self.log = folder / f"{name}.log"
        self.err = folder / f"{name}.err"
        if "--legacy" in arguments:
            arguments = tuple(a for a in arguments if a != "--legacy")
        else:
            arguments = ("--no-legacy-path", *arguments)
        if not {"--machine", "--no-machine"} & set(arguments):
            arguments = ("--no-machine", *arguments)
        python = popen.pop("python", ["-m", "ttmem"])
        self.command = [sys.executable, *python, "serve", "--socket", self.path, *arguments]
        self.popen = popen
        self.start(wait)

    def start(self, wait: bool = True) -> None:
        with open(self.log, "ab") as out, open(self.err, "ab") as err:
            self.process = subprocess.Popen(self.command, stdout=out, stderr=err, **self.popen)
        if wait:
            wait_until(lambda: self.process.poll() is not None or self._up(), "the server's start")
            assert self.process.poll() is None, self.err.read_text()

    def _up(self) -> bool:
        try:
            return bool(get_json("/health", socket_path=self.api)["pid"] == self.process.pid)
        except Exception:
            return False

    def get(self, path: str, method: str = "GET") -> Any:
        return get_json(path, socket_path=self.api, method=method, timeout=PATIENCE)

    def text(self, path: str) -> str:
        return get(path, socket_path=self.api, timeout=PATIENCE).decode()

    def snapshot(self) -> dict[str, Any]:
        snapshot: dict[str, Any] = self.get("/snapshot")
        return snapshot

    def has_exited(self, pid: int) -> bool:
        return bool(not_none(self.process_of(pid))["state"] == "exited")

    def process_of(self, pid: int) -> dict[str, Any] | None:
        return next((p for p in self.snapshot()["processes"] if p["pid"] == pid), None)

    def chip(self, chip_id: str = "assumed:0") -> dict[str, Any]:
        return next(chip["memory"] for chip in self.snapshot()["chips"] if chip["chip"] == chip_id)

    def connect(self) -> socket.socket:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.settimeout(PATIENCE)
        sock.connect(self.path)
        return sock

    def kill(self, number: int) -> None:
        self.process.send_signal(number)

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        """Stop the server for a while: data that is sent meanwhile stays unread."""
        self.kill(signal.SIGSTOP)
        wait_until(lambda: process_state(self.process.pid) == "T", "the stop")
        try:
            yield
        finally:
            self.kill(signal.SIGCONT)

    def stop(self, number: int = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.kill(signal.SIGCONT)
            self.kill(number)
        try:
            return self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()  # a server that ignores signals must not outlive its test
            self.process.wait()
            raise


def process_state(pid: int) -> str:
    stat = Path(f"/proc/{pid}/stat").read_text()
    return stat[stat.rfind(")") + 2]


@functools.cache
def program(name: str) -> str:
    """A C++ program of tests/programs, compiled when first used."""
    source = ROOT / "tests" / "programs" / f"{name}.cpp"
    binary = CACHE / name
    if not binary.exists() or binary.stat().st_mtime < source.stat().st_mtime:
        CACHE.mkdir(parents=True, exist_ok=True)
        scratch = CACHE / f".{name}.{os.getpid()}"
        subprocess.run(
            ["g++", "-O2", "-std=c++17", "-pthread", "-Wall", "-Wextra", "-Werror", str(source), "-o", str(scratch)],
            check=True,
        )
        scratch.rename(binary)
    return str(binary)


class LegacyClient:
    """The C++ client of tests/programs, driven line by line."""

    def __init__(self, server: Server | None = None, size: int = 144, **popen: Any) -> None:
        self.process = subprocess.Popen(
            [program("legacy_client")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, **popen
        )
        self.say(f"size {size}")
        if server is not None:
            self.say(f"connect {server.path}")

    @property
    def pid(self) -> int:
        return self.process.pid

    def say(self, *lines: str) -> None:
        """Give commands without waiting for them."""
        assert self.process.stdin is not None
        self.process.stdin.write("".join(f"{line}\n" for line in lines))
        self.process.stdin.flush()

    def ask(self, line: str) -> str:
        """Give a command that answers."""
        self.say(line)
        assert self.process.stdout is not None
        answer: str = self.process.stdout.readline().strip()
        assert answer, f"the client died on {line!r} with {self.process.wait(PATIENCE)}"
        return answer

    def sync(self) -> None:
        """Everything said so far has been sent."""
        assert self.ask("ok sent").endswith("sent")

    def query(self, device: int) -> dict[str, int]:
        """The answer to a query; when it comes, everything before it on the connection has been applied."""
        return fields(self.ask(f"query {device}"))

    def info(self, device: int) -> dict[str, int]:
        return fields(self.ask(f"info {device}"))

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)
        for pipe in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(OSError):
                if pipe is not None:
                    pipe.close()


def fields(line: str) -> dict[str, int]:
    """`name a=1 b=2` as a dict."""
    return {key: int(value, 0) for key, _, value in (part.partition("=") for part in line.split()) if value}

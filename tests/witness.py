# SPDX-License-Identifier: Apache-2.0
"""A client with a known account on the same server as attackers, and the conditions that must hold for it."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from tests.fuzz_grammar import WITNESS_UID, Ask, Numbers, asks
from tests.support import PATIENCE, ROOT, Server, wait_until
from ttmem.model.events import Allocated, DeviceOpened, Extra, Freed, ProgramRun
from ttmem.model.geometry import BOARDS
from ttmem.model.identity import ChipInfo
from ttmem.model.kinds import Confidence, Kind
from ttmem.wire import handshake
from ttmem.wire.client_encode import encode

LATENCY_SECONDS = 5.0  # for one answer on a busy machine; a blocked server takes longer
ENDING_SECONDS = 10.0
_HEADING = re.compile(r"### (GET|POST) (/\S*)")
_PARAMETER = re.compile(r"\| `(\w+)` \|")
_ROUTES_END = "## The event stream"


def routes() -> list[tuple[str, tuple[str, ...]]]:
    """Each route of docs/api.md that takes GET, with its parameters."""
    found: list[tuple[str, tuple[str, ...]]] = []
    for line in (ROOT / "docs" / "api.md").read_text().partition(_ROUTES_END)[0].splitlines():
        heading, parameter = _HEADING.match(line), _PARAMETER.match(line)
        if heading is not None:
            found.append((heading[2] if heading[1] == "GET" else "", ()))
        elif parameter is not None and found:
            found[-1] = found[-1][0], (*found[-1][1], parameter[1])
    return [route for route in found if route[0]]


def answer(api: str, target: bytes, method: bytes = b"GET", timeout: float = LATENCY_SECONDS) -> tuple[int, bytes]:
    """Status and body of one request, whatever its target; 0 if the connection was closed without an answer."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(timeout)
        sock.connect(api)
        sock.sendall(method + b" " + target + b" HTTP/1.1\r\nHost: ttmem\r\nConnection: close\r\n\r\n")
        return read_answer(sock)


def read_answer(sock: socket.socket) -> tuple[int, bytes]:
    data = b""
    while True:
        try:
            piece = sock.recv(1 << 20)
        except ConnectionResetError:
            piece = b""
        data += piece
        if not piece or (b"text/event-stream" in data and b"ttmem events" in data):
            break
    head, _, body = data.partition(b"\r\n\r\n")
    return (int(head.split(b" ")[1]), body) if head.startswith(b"HTTP/") else (0, data)


def target_of(ask: Ask) -> bytes:
    query = urlencode(ask.query, errors="surrogatepass")
    return (quote(ask.path) + (f"?{query}" if query else "")).encode()


class Witness:
    """This process as a client: a device, two buffers and a program."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.sock = server.connect()
        n150 = BOARDS["n150"]._replace(live=True)
        self.tell(
            DeviceOpened(0, ChipInfo(WITNESS_UID, arch=n150.arch, board="n150", geometry=n150)),
            Allocated(0, Kind.DRAM, 0x1000, 4096, extra=Extra(8192, 0, 1, "weights")),
            Allocated(0, Kind.L1, 1300000, 64 * 2048, extra=Extra(64 * 2048, 0, 1, "activation")),
            Allocated(0, Kind.CB, 120000, 4096, 5, extra=Extra(cores=0b11)),
            ProgramRun(0, 5, 0b11),
            Allocated(0, Kind.DRAM, 0x9000, 512),
            Freed(0, Kind.DRAM, 0x9000),
            first=True,
        )
        self.before = self.testimony()
        self.bytes = rss(server)

    def __enter__(self) -> Witness:
        return self

    def __exit__(self, *error: object) -> None:
        self.sock.close()

    def tell(self, *events: Any, first: bool = False) -> None:
        """Send events, and wait until they are applied."""
        hello = handshake.hello("client", Confidence.EXACT) if first else b""
        self.sock.sendall(hello + b"".join(map(encode, events)) + handshake.sync(7))
        heard = b""
        while not heard.endswith(handshake.synced(7)):
            piece = self.sock.recv(4096)
            assert piece, "the server closed the connection"
            heard += piece

    def testimony(self) -> Any:
        """Everything that the API returns about this client."""
        process = self.of_process(self.ask("/snapshot?machine=0"))
        return process, self.ask(f"/allocations?pid={os.getpid()}")["allocations"]

    @staticmethod
    def of_process(snapshot: Any) -> Any:
        (found,) = [process for process in snapshot["processes"] if process["pid"] == os.getpid()]
        return {key: value for key, value in found.items() if key != "seen"}

    def ask(self, target: str) -> Any:
        status, body = answer(self.server.api, target.encode())
        assert status == 200, (target, status, body[:500])
        return json.loads(body)

    def sees_no_harm(self, seed: int = 0, megabytes: int = 200) -> None:
        """Check that its numbers are unchanged, all requests are answered in time, and its reports are counted."""
        draw = Numbers(seed)
        for ask in asks(draw, routes()):
            began = time.monotonic()
            status, body = answer(self.server.api, target_of(ask))
            assert 200 <= status < 500, (ask, status, body[:500])
            assert time.monotonic() - began < LATENCY_SECONDS, ask
        self._is_as_before()
        self.tell(Allocated(0, Kind.DRAM, 0x9000, 512))
        assert self.testimony()[0]["allocations"] == self.before[0]["allocations"] + 1
        self.tell(Freed(0, Kind.DRAM, 0x9000))
        self._is_as_before()
        log = self.server.err.read_text(errors="replace")
        for trouble in ("internal error", "Traceback", "failed"):
            assert trouble not in log, log[-2000:]
        assert rss(self.server) < self.bytes + (megabytes << 20), f"{rss(self.server) >> 20} MiB are too many"

    def _is_as_before(self) -> None:
        now = self.testimony()
        assert now == self.before, f"the account of the witness has changed:\n  {self.before}\n  {now}"

    def history_goes_on(self) -> None:
        """Check that the history continues for two seconds: one more sample may appear before a failure."""
        began = wait_until(self._noted, "a second of history", patience=30)
        wait_until(lambda: self._noted() >= began + 2, "two more seconds of history", patience=30)

    def _noted(self) -> float:
        series = self.ask(f"/history?chip={WITNESS_UID}&kind=dram")["series"]
        return max(series[0]["time"], default=0.0) if series else 0.0

    def ends(self) -> None:
        """Check that SIGTERM ends the server in time."""
        began = time.monotonic()
        assert self.server.stop() == 0
        assert time.monotonic() - began < ENDING_SECONDS

    def is_in(self, recording: Path) -> None:
        """Check that the shared recording is readable and has the same data about this client."""
        for command in (
            ["replay", str(recording), "--json", "--at", "end"],
            ["l1", "--file", str(recording), "--json", "--at", "end"],
        ):
            done = subprocess.run(
                [sys.executable, "-m", "ttmem", *command], capture_output=True, text=True, timeout=PATIENCE
            )
            assert done.returncode == 0, (command, done.stderr)
            if command[0] == "replay":
                found = self.of_process(json.loads(done.stdout))
                for key in ("allocations", "chips", "anomalies"):
                    assert found[key] == self.before[0][key], key


def rss(server: Server) -> int:
    """Bytes of the server in memory."""
    return int(Path(f"/proc/{server.process.pid}/statm").read_text().split()[1]) * 4096


@contextmanager
def attack(name: str, server: Server, *arguments: object, **popen: Any) -> Iterator[subprocess.Popen[str]]:
    """A program of tests/attacks, killed at the end; it prints ``ready`` after the attack, and then waits."""
    command = [sys.executable, "-m", f"tests.attacks.{name}", server.path, *map(str, arguments)]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT, **popen)
    try:
        yield child
    finally:
        child.kill()
        child.communicate()


def said(child: subprocess.Popen[str]) -> str:
    """The next line of an attack."""
    assert child.stdout is not None
    line = child.stdout.readline().strip()
    assert line, f"the attack ended with {child.wait(PATIENCE)}"
    return line

# SPDX-License-Identifier: Apache-2.0
"""A server's parts in one process, with a witness whose account is known, attackers, and checks.

The bytes take the server's own way: sockets, records, ledger, history, recording, routes, and then `ttmem replay` and
`ttmem l1` on the recording. `python -m tests.fuzz_lab` runs cases and prints the seed of each before it runs, so that
the seed of a case that does not end is known.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import faulthandler
import io
import json
import os
import re
import resource
import select
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from tests import fuzz_grammar as grammar
from tests.fuzz_grammar import WITNESS_UID, Ask, Numbers
from tests.fuzz_known import KNOWN, Attack
from tests.ring_memory import RingMemory
from ttmem.account.ledger import Ledger
from ttmem.cli import main as ttmem
from ttmem.documents.snapshot import take_snapshot
from ttmem.ingest.client_connection import Connection
from ttmem.ingest.peers import Peer
from ttmem.model.events import Allocated, DeviceOpened, Extra, ProgramRun
from ttmem.model.geometry import BOARDS
from ttmem.model.identity import ChipInfo, ProcessInfo
from ttmem.model.kinds import Confidence, Kind
from ttmem.recording.recording_file import Recording
from ttmem.server.daemon import Options, Server
from ttmem.server.http_server import HttpError, Request
from ttmem.wire import handshake
from ttmem.wire.client_encode import encode

WITNESS = 1  # pids of the parties
ATTACKER = 501
CASE_SECONDS = 150  # for one case on a busy machine; most take some milliseconds
REQUEST_SECONDS = 2.0  # of CPU time
MOST_BYTES = 3 << 30  # of address space
_METRIC = re.compile(r'(#.*|[a-z_]+(\{([a-z_]+="([^"\\\n]|\\.)*",?)*\})? [^ ]+)')
_UNFIT = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")  # for a terminal
_CHANGING = ("seen",)


class Violation(AssertionError):
    """A case in which one client affects another."""


class Party:
    """A client of the server under test that stands for a separate process."""

    def __init__(self, lab: Lab, pid: int) -> None:
        self.lab = lab
        self.peer = Peer(ProcessInfo(pid, 1, os.getuid(), f"party{pid}", f"party {pid}"), None)
        self.dead = False
        self.memory: RingMemory | None = None
        self._connect()

    def _connect(self) -> None:
        sockets = self.lab.server.sockets
        self.sock, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.setblocking(False)
        sockets.accepted += 1
        self.connection = Connection(sockets.accepted, theirs, sockets._epoll)
        self.connection.peers[os.getpid()] = self.peer  # the kernel reports our own pid
        self.peer.connections.add(self.connection)
        sockets.connections[theirs.fileno()] = self.connection

    def send(self, data: bytes, fds: tuple[int, ...] = ()) -> None:
        """Send all bytes and let the server process them; reconnect if it closed the connection."""
        if not self.connection.open:
            self.sock.close()
            self._connect()
        at = 0
        while at < len(data):
            try:
                at += (
                    socket.send_fds(self.sock, [data[at : at + 32768]], fds)
                    if fds
                    else self.sock.send(data[at : at + 32768])
                )
                fds = ()
            except (BrokenPipeError, ConnectionResetError):
                return
            except BlockingIOError:
                pass
            self.lab.turn()
            with contextlib.suppress(OSError):
                self.sock.recv(1 << 16)

    def say(self, *events: Any) -> None:
        self.send(handshake.hello("client", Confidence.EXACT) + b"".join(map(encode, events)))

    def hand_over(self, memory: RingMemory) -> None:
        if self.memory is not None:
            self.memory.close()
        self.memory = memory
        self.send(handshake.hello("agent", Confidence.EXACT), (memory.fd,))

    def die(self) -> None:
        self.dead = True
        self.lab.server.sockets._exit(self.peer)

    def close(self) -> None:
        self.sock.close()
        if self.memory is not None:
            self.memory.close()


class _Server(Server):
    """A server that keeps its messages."""

    def __init__(self, options: Options) -> None:
        self.messages: list[str] = []
        super().__init__(options)

    def warn(self, text: str) -> None:
        self.messages.append(text)


class Lab:
    """One server in this process, with its witness."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "events"
        self.server = _Server(
            Options(str(folder / "x.sock"), legacy_path=None, record=str(self.file), quiet=True, machine=None)
        )
        self.parties: list[Party] = []
        self.witness = self.party(WITNESS)
        n150 = BOARDS["n150"]._replace(live=True)
        self.witness.say(
            DeviceOpened(0, ChipInfo(WITNESS_UID, arch=n150.arch, board="n150", geometry=n150)),
            Allocated(0, Kind.DRAM, 0x1000, 4096, extra=Extra(8192, 0, 1, "weights")),
            Allocated(0, Kind.L1, 1300000, 64 * 2048, extra=Extra(64 * 2048, 0, 1, "activation")),
            Allocated(0, Kind.CB, 120000, 4096, 5, extra=Extra(cores=0b11)),
            ProgramRun(0, 5, 0b11),
        )

    def party(self, pid: int) -> Party:
        made = Party(self, pid)
        self.parties.append(made)
        return made

    # -- the work of the server's loop ---------------------------------------------------------------------------

    def turn(self) -> None:
        for _ in range(10_000):
            ready = self.server.sockets.turn()
            if not ready and not select.select([self.server.sockets.fileno()], [], [], 0)[0]:
                return
        raise Violation("the server does not come to an end with what it was sent")

    def tick(self) -> None:
        """The periodic work: rings, dead processes, history."""
        server = self.server
        server.sockets.tick()
        for _ in range(200):
            if not server.rings.follow(time.monotonic() + 0.008):
                break
        else:
            raise Violation("the server does not come to an end with the rings")
        server.ledger.thin_dead_allocations(5000)
        server.history.sample(server.clock.now(), server.ledger, server.current.chips())

    # -- checks --------------------------------------------------------------------------------------------------

    async def ask(self, ask: Ask, method: str = "GET") -> bytes:
        """The answer of a route; a status of 500 or more is a violation."""
        before = time.process_time()
        body = b""
        try:
            response = await self.server.api.handle(Request(method, ask.path, ask.query, 0))
            if isinstance(response.body, bytes):
                body = response.body
            elif ask.path == "/events":
                body = await response.body.__anext__()
                await response.body.aclose()  # type: ignore[attr-defined]
            else:
                body = b"".join([piece async for piece in response.body])
        except HttpError as error:
            if error.status >= 500:
                raise Violation(f"{ask} answers {error.status}: {error}") from error
            json.dumps({"error": str(error)}).encode()
            return b""
        except Exception as error:
            raise Violation(f"{ask} fails: {type(error).__name__}: {error}") from error
        took = time.process_time() - before
        if took > REQUEST_SECONDS:
            raise Violation(f"{ask} takes {took:.1f} s")
        if response.content_type == "application/json":
            _strict(body, str(ask))
        elif ask.path == "/metrics":
            for line in body.decode().splitlines():
                if not _METRIC.fullmatch(line):
                    raise Violation(f"a line of /metrics is not in the form of Prometheus: {line!r}")
        return body

    async def testimony(self) -> Any:
        """All data of the API about the witness and its chip."""
        snapshot = _strict(await self.ask(Ask("/snapshot", {"machine": "0"})), "/snapshot")
        allocations = _strict(await self.ask(Ask("/allocations", {"pid": str(WITNESS)})), "/allocations")
        return _witness_in(snapshot), allocations["allocations"]

    async def check(self, before: Any, attack: Attack | None = None) -> None:
        routes = [(route.path, route.parameters) for route in self.server.api.routes if route.method == "GET"]
        for ask in grammar.asks(self.draw, routes):
            await self.ask(ask)
        if self.draw.chance(0.1):
            await self.ask(Ask("/peaks/reset", {}), "POST")
        after = await self.testimony()
        if after != before:
            raise Violation(f"the witness's account has changed:\n  {before}\n  {after}")
        for message in self.server.messages:
            if "internal error" in message or "failed" in message:
                raise Violation(f"the server's log says: {message}")
            if _UNFIT.search(message) or "\n" in message:
                raise Violation(f"a line of the log has what a client wrote, as it wrote it: {message!r}")

    def check_recording(self, before: Any) -> None:
        """Check that the shared recording is readable and has the same data about the witness."""
        recording = self.server._recording
        assert recording is not None
        recording.flush()
        if any("recording stopped" in message for message in self.server.messages):
            raise Violation(f"a client ended the recording: {self.server.messages}")
        ledger = Ledger()
        with Recording(str(self.file)) as recorded:
            recorded.replay(ledger)
        snapshot = json.loads(json.dumps(take_snapshot(ledger, time="", host="", sources=[])))
        was, now = _account(before[0]), _account(_witness_in(snapshot))
        if was != now:
            raise Violation(f"replayed, the witness's account is another:\n  {was}\n  {now}")
        check_commands(str(self.file), must_be_read=True)

    async def run(self, draw: Numbers, attack: Attack) -> None:
        self.draw = draw
        before = await self.testimony()
        attackers = [self.party(ATTACKER + number) for number in range(draw.rng.choice((1, 2)))]
        attack(self, attackers, draw)
        self.tick()
        await self.check(before, attack)
        for party in attackers:
            if not party.dead and draw.chance(0.5):
                party.die()
        self.tick()
        await self.check(before, attack)
        await asyncio.to_thread(self.check_recording, before)  # `ttmem l1` has a loop of its own

    def close(self) -> None:
        for party in self.parties:
            party.close()
        self.server.sockets.close()
        assert self.server._recording is not None
        self.server._recording.close()
        self.server.log.close()


def _strict(body: bytes, what: str) -> Any:
    """Standard JSON, without NaN and Infinity."""

    def refuse(text: str) -> None:
        raise Violation(f"{what} has {text}, which is not JSON")

    return json.loads(body, parse_constant=refuse) if body else None


def _witness_in(snapshot: Any) -> Any:
    (found,) = [process for process in snapshot["processes"] if process["pid"] == WITNESS]
    return {key: value for key, value in found.items() if key not in _CHANGING}


def _account(process: Any) -> Any:
    """The part that a recording contains, without data from /proc."""
    return {
        key: process[key]
        for key in ("pid", "state", "allocations", "chips", "anomalies", "dram", "l1")
        if key in process
    }


def check_commands(path: str, *, must_be_read: bool) -> None:
    """Check that `ttmem replay`, `l1` and `explain` show the file, or refuse it with a message."""
    for command in (
        ["replay", path],
        ["replay", path, "--json"],
        ["replay", path, "--peaks"],
        ["replay", path, "--by", "op"],
        ["replay", path, "--by", "stack"],
        ["replay", path, "--at", "end"],
        ["l1", "--file", path],
        ["l1", "--file", path, "--core", "0,0"],
        ["l1", "--file", path, "--json"],
        ["explain", path],
    ):
        code, out, err = _command(command)
        words = " ".join(["ttmem", *command])
        if "internal error" in err or "Traceback" in err:
            raise Violation(f"`{words}` fails: {err}")
        if code != 0 and must_be_read and command[0] == "replay":
            raise Violation(f"`{words}` cannot read what the server wrote: {err}")
        if "--json" in command and code == 0:
            _strict(out.encode(), words)
        elif _UNFIT.search(out) or _UNFIT.search(err):
            raise Violation(f"`{words}` writes to the terminal what a client wrote: {(out + err)!r}")


def _command(arguments: list[str]) -> tuple[int, str, str]:
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = ttmem(arguments)
        except SystemExit as exit_:
            code = int(exit_.code or 0)
    texts = []
    for stream in (out, err):
        stream.flush()
        texts.append(stream.buffer.getvalue().decode())
    return code, texts[0], texts[1]


# -- cases ----------------------------------------------------------------------------------------------------------


def _any(lab: Lab, attackers: list[Party], draw: Numbers) -> None:
    """A few steps of each attacker, drawn from the grammar."""
    for _ in range(draw.rng.randrange(1, 6)):
        party = draw.rng.choice(attackers)
        what = draw.rng.random()
        if what < 0.55:
            party.send(grammar.native_records(draw))
        elif what < 0.65:
            party.send(grammar.legacy_records(draw))
        elif what < 0.9:
            if party.memory is None or draw.chance(0.2):
                memory = grammar.ring_memory(draw)
                grammar.write_ring(draw, memory, draw.rng.randrange(0, 30))
                party.hand_over(memory)
            else:
                grammar.write_ring(draw, party.memory, draw.rng.choice((1, 10, 300)))
            lab.tick()
        elif what < 0.95:
            lab.tick()
        elif not party.dead:
            party.die()


@contextlib.contextmanager
def _lab() -> Iterator[Lab]:
    with tempfile.TemporaryDirectory(prefix="ttmem-fuzz-") as name:
        lab = Lab(Path(name))
        try:
            yield lab
        finally:
            lab.close()


async def account_case(seed: int, attack: Attack = _any) -> None:
    """Attackers and a witness on one server."""
    draw = Numbers(seed)
    with _lab() as lab:
        await lab.run(draw, attack)


async def file_case(seed: int) -> None:
    """A foreign recording: shown, or refused with a message."""
    draw = Numbers(seed)
    with tempfile.NamedTemporaryFile(prefix="ttmem-fuzz-") as file:
        file.write(grammar.recording(draw))
        file.flush()
        await asyncio.to_thread(check_commands, file.name, must_be_read=False)  # `ttmem l1` has a loop of its own


async def case(seed: int) -> None:
    await (file_case if seed % 4 == 3 else account_case)(seed)


async def _guarded(name: str, seconds: float, work: Callable[[], Any], progress: TextIO) -> str | None:
    """Run one case and return its violation. A case that hangs ends the process, with the stacks of all threads."""
    print(name, file=progress, flush=True)
    faulthandler.dump_traceback_later(seconds, exit=True)
    try:
        await work()
    except Exception as error:
        if not isinstance(error, Violation):
            import traceback

            traceback.print_exc()
        return f"{type(error).__name__}: {error}"
    finally:
        faulthandler.cancel_dump_traceback_later()
    return None


async def _main(args: argparse.Namespace, progress: TextIO) -> int:
    failed = 0
    if args.known is not None:
        cases = [(name, partial(account_case, args.seed, KNOWN[name])) for name in args.known]
    else:
        cases = [(str(seed), partial(case, seed)) for seed in range(args.seed, args.seed + args.cases)]
    for name, work in cases:
        wrong = await _guarded(name, args.case_seconds, work, progress)
        if wrong is not None:
            failed += 1
            print(f"case {name}: {wrong}", file=sys.stderr, flush=True)
            if not args.go_on:
                break
    return 1 if failed else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cases", type=int, default=1)
    parser.add_argument("--known", choices=tuple(KNOWN), nargs="+", help="attacks that have a name, instead")
    parser.add_argument("--case-seconds", type=float, default=CASE_SECONDS, help="how long one case may take")
    parser.add_argument("--go-on", action="store_true", help="do not stop at the first case that fails")
    args = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
    with open(os.dup(1), "w") as progress, open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 1)  # the server's log, which contains requested dumps
        return asyncio.run(_main(args, progress))


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""A hostile client of a shared server does not affect the numbers and answers of another client."""

from __future__ import annotations

import contextlib
import grp
import json
import os
import re
import resource
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.attacks.descriptor import HUGE, KINDS
from tests.attacks.ring import MOTIONS
from tests.fuzz_known import RECORDS, RINGS
from tests.ring_memory import RingMemory
from tests.support import PATIENCE, ROOT, Server, wait_until
from tests.witness import ENDING_SECONDS, LATENCY_SECONDS, Witness, answer, attack, read_answer, routes, rss, said
from ttmem.model.events import Allocated, DeviceOpened, Extra, Mark, PhaseBegan
from ttmem.model.identity import ChipInfo
from ttmem.model.kinds import Kind
from ttmem.wire.agent_ring import RingEvent

Serve = Callable[..., Server]
ROOT_ONLY = pytest.mark.skipif(os.getuid() != 0, reason="needs root to act as another user")
_OVERCOMMIT = Path("/proc/sys/vm/nr_overcommit_hugepages")


class Pulse:
    """Requests /health repeatedly during a test, and measures the slowest answer."""

    def __init__(self, server: Server) -> None:
        self._api = server.api
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._ask)
        self.slowest, self.count, self.wrong = 0.0, 0, ""

    def __enter__(self) -> Pulse:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()

    def _ask(self) -> None:
        while not self._stop.is_set():
            began = time.monotonic()
            try:
                status, _ = answer(self._api, b"/health", timeout=PATIENCE)
            except OSError as error:
                status, self.wrong = 0, str(error)
            if status != 200:
                self.wrong = self.wrong or f"/health answers {status}"
            self.slowest = max(self.slowest, time.monotonic() - began)
            self.count += 1
            self._stop.wait(0.005)

    def check(self, seconds: float = LATENCY_SECONDS) -> None:
        assert not self.wrong, self.wrong
        assert self.count > 1
        assert self.slowest < seconds, f"the slowest of {self.count} answers of /health took {self.slowest:.2f} s"


# -- records and rings with extreme values --------------------------------------------------------------------------


@pytest.mark.parametrize("name", RECORDS)
def test_records_with_extreme_values(serve: Serve, folder: Path, name: str) -> None:
    recording = folder / "events"
    server = serve("--record", str(recording))
    with Witness(server) as witness, attack("records", server, name) as child:
        assert said(child) == "ready"
        witness.sees_no_harm()
        witness.history_goes_on()
        child.kill()
        wait_until(lambda: server.get("/health")["clients"] == 1, "the attacker's end")
        witness.sees_no_harm()
        witness.ends()
        witness.is_in(recording)


@pytest.mark.parametrize("name", [*RINGS, *MOTIONS])
def test_rings_that_make_no_sense(serve: Serve, folder: Path, name: str) -> None:
    recording = folder / "events"
    server = serve("--record", str(recording), "--quiet")
    with Witness(server) as witness, attack("ring", server, name) as child:
        with Pulse(server) as pulse:
            assert said(child) == "ready"
            witness.sees_no_harm()
            witness.history_goes_on()
        pulse.check()
        child.kill()
        wait_until(lambda: server.get("/health")["clients"] == 1, "the attacker's end")
        witness.sees_no_harm()
        witness.ends()
        witness.is_in(recording)


@pytest.mark.parametrize("recorded", [False, True])
def test_the_history_goes_on_beside_a_ring_that_is_written_for_ever(serve: Serve, folder: Path, recorded: bool) -> None:
    server = serve("--quiet", *(["--record", str(folder / "events")] if recorded else []))
    with Witness(server) as witness, attack("ring", server, "writes_for_ever") as child:
        assert said(child) == "ready"
        witness.history_goes_on()
        witness.sees_no_harm()
        witness.ends()


# -- descriptors that are no agent's memory -------------------------------------------------------------------------


@contextlib.contextmanager
def huge_pages() -> Iterator[None]:
    """Some may be allocated during a test. The setting of the machine is restored."""
    before = _OVERCOMMIT.read_text()
    _OVERCOMMIT.write_text("8")
    try:
        yield
    finally:
        _OVERCOMMIT.write_text(before)


@pytest.mark.parametrize("name", [*KINDS, "punches_while_read"])
def test_descriptors_that_are_no_memory(serve: Serve, name: str) -> None:
    server = serve("--quiet")
    with Witness(server) as witness, attack("descriptor", server, name) as child:
        if said(child) == "punching":
            witness.sees_no_harm()
            assert said(child) == "ready"
        witness.sees_no_harm()
        witness.ends()


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to allow huge pages")
@pytest.mark.parametrize("name", [*HUGE, "punches_while_read_huge_pages"])
def test_huge_pages_with_a_hole(serve: Serve, name: str) -> None:
    """A reader that maps them is killed by SIGBUS when no huge page is left to fill the hole."""
    server = serve("--quiet")
    with huge_pages(), Witness(server) as witness, attack("descriptor", server, name) as child:
        word = said(child)
        _OVERCOMMIT.write_text("0")
        witness.sees_no_harm()
        if word == "punching":
            child.kill()
        witness.ends()


def test_the_reader_maps_no_memory_of_another_process(serve: Serve) -> None:
    """Mappings can be removed while they are read, with or without huge pages. Therefore nothing is mapped."""
    server = serve("--quiet")
    memory = RingMemory()
    memory.plain()
    memory.append(kind=0, address=64, size=64, per_bank=64)
    with server.connect() as sock:
        memory.hand_over(sock)
        wait_until(lambda: (found := server.process_of(os.getpid())) and found["allocations"] == 1, "the ring's buffer")
        assert "memfd:" not in Path(f"/proc/{server.process.pid}/maps").read_text()
    memory.close()


# -- a full disk ----------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _small_disk(folder: Path) -> Iterator[Path]:
    place = folder / "disk"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", str(place)], check=True)
    try:
        yield place / "events"
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


@contextlib.contextmanager
def _limited_file(folder: Path) -> Iterator[Path]:
    yield folder / "events"


_DISKS: dict[str, Callable[[Path], contextlib.AbstractContextManager[Path]]] = {
    "limit": _limited_file,
    "tmpfs": _small_disk,
}


@pytest.mark.parametrize("disk", ["limit", *(["tmpfs"] if os.getuid() == 0 else [])])
def test_a_full_disk_under_the_recording(serve: Serve, folder: Path, disk: str) -> None:
    """With little traffic, the flush once a second detects the full disk, not a write."""
    limit = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (8192, 8192)) if disk == "limit" else None
    with _DISKS[disk](folder) as path:
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}  # the limit would cut the files of modules, too
        server = serve("--record", str(path), "--quiet", preexec_fn=limit, env=environment)
        with Witness(server) as witness, server.connect() as sock:
            for _ in range(40):
                witness.tell(Mark(secrets.token_hex(500)))  # it cannot be compressed away
            wait_until(lambda: "recording stopped" in server.err.read_text(), "the message", patience=30)
            witness.history_goes_on()
            memory = RingMemory()
            memory.plain(chips=(5,))
            memory.append(RingEvent.ALLOCATED, kind=0, address=64, size=64, per_bank=64)
            memory.hand_over(sock)
            wait_until(lambda: witness.testimony()[0]["allocations"] == 4, "the ring's buffer")
            with attack("records", server, "many_huge_allocations") as child:
                assert said(child) == "ready"
            wait_until(lambda: _state(server, child.pid) == "exited", "the death")
            assert server.err.read_text().count("recording") == 1
            memory.close()
            witness.ends()
            assert "recording" not in server.err.read_text().partition("recording stopped")[2]


def _state(server: Server, pid: int) -> str | None:
    found = server.process_of(pid)
    return None if found is None else str(found["state"])


# -- much work at once ----------------------------------------------------------------------------------------------


@pytest.mark.alone
@pytest.mark.parametrize("recorded", [False, True])
def test_a_full_ring_of_a_dead_process_on_a_large_mesh(serve: Serve, folder: Path, recorded: bool) -> None:
    """Others get their answers, and the ring is read for a short time only: the process must not be listed for long."""
    slots, chips = 1 << 16, 32
    server = serve("--quiet", *(["--record", str(folder / "events")] if recorded else []))
    with Witness(server) as witness:
        with attack("full_ring", server, chips, slots) as child:
            assert said(child) == "ready"
            with server.stopped():
                assert child.stdin is not None
                child.stdin.write("\n")
                child.stdin.flush()
                assert said(child) == "ready"
                child.kill()
                child.wait()
        began = time.monotonic()
        with Pulse(server) as pulse:
            wait_until(lambda: _state(server, child.pid) == "exited" and pulse.count > 1, "its end")
        pulse.check()
        assert time.monotonic() - began < 2 + LATENCY_SECONDS
        dead = server.process_of(child.pid)
        assert dead is not None
        assert dead["anomalies"]["dropped"] < slots, "it was read for a while"
        witness.sees_no_harm()
        witness.ends()


@pytest.mark.alone
def test_two_thousand_dumps_at_once(serve: Serve) -> None:
    server = serve("--quiet")
    with Witness(server) as witness:
        with attack("dumps", server, 1000, 2000) as child, Pulse(server) as pulse:
            assert said(child) == "ready"
            before = rss(server)
            wait_until(
                lambda: (found := server.process_of(child.pid)) and not found["allocations"], "the frees after them"
            )
            witness.sees_no_harm()
        pulse.check()
        assert rss(server) < before + (100 << 20)
        witness.sees_no_harm()
        witness.ends()


def test_a_dump_lists_what_was_live_when_it_was_asked_for(serve: Serve) -> None:
    """Five allocations, a dump and five frees in one write: the dump has the five, every time."""
    server = serve("--quiet")
    for number in range(1, 11):
        with attack("dumps", server, 5, 1) as child:
            assert said(child) == "ready"
            wait_until(partial(_has, server.log, "DUMP_REMAINING complete.", number), "the dump")
            text = server.log.read_text().split("Received DUMP_REMAINING request...")[number]
            assert len(re.findall(rf"PID {child.pid}\b", text)) == 5, text
        wait_until(partial(_exited, server, child.pid), "its end")


def _exited(server: Server, pid: int) -> bool:
    return _state(server, pid) == "exited"


def _has(path: Path, text: str, times: int) -> bool:
    return path.read_text().count(text) == times


# -- descriptors and connections ------------------------------------------------------------------------------------


def test_descriptors_run_out(serve: Serve) -> None:
    limit = partial(resource.setrlimit, resource.RLIMIT_NOFILE, (64, 64))
    server = serve("--quiet", preexec_fn=limit)
    with Witness(server) as witness:
        with attack("connections", server, 200) as child:
            assert said(child) == "ready"
            deadline = time.monotonic() + 3
            while time.monotonic() < deadline:  # for as long as it lasts, the API answers and the log stays short
                health = witness.ask("/health")
                assert health["status"] == "ok" or any(part["detail"] for part in health["parts"])
                time.sleep(0.05)
            witness.sees_no_harm()
            assert len(server.err.read_text().splitlines()) < 10, server.err.read_text()
        wait_until(lambda: server.get("/health")["clients"] == 1, "the end of all of them")
        with server.connect():
            wait_until(lambda: server.get("/health")["clients"] == 2, "a client after them")
        witness.sees_no_harm()
        witness.ends()


def test_requests_that_never_end(serve: Serve) -> None:
    """A hundred clients that have sent half a request each, and one with a whole request."""
    server = serve("--quiet")
    with Witness(server) as witness:
        api = Server.__new__(Server)
        api.path = server.api
        with attack("connections", api, 100, r"GET /snapshot HTTP/1.1\r\nHost: ttmem\r\nX-Slow: ") as child:
            assert said(child) == "ready"
            witness.sees_no_harm()
        witness.sees_no_harm()
        witness.ends()


_TARGETS = (
    b"/\xff\xfe", b"http://[", b"http://[::1", b"//[", b"http://a:b@[x]/", b"*", b"/" + b"a" * 15000, b"/%ff%00%2e%2e/",
    b"/allocations?" + b"a=b&" * 3000, b"/allocations?limit=" + b"9" * 5000, b"/processes/" + b"9" * 5000,
    b"/../../etc/passwd", b"/cores?chip=77&core=" + b"1" * 4000, b"?", b"#", b"/snapshot#a",
    b"/allocations?text=%ff%fe", b"/history?since=1e999",
    b"/history?since=-1e308&until=1e308", b"/leaks?since=1e308", b"/leaks?since=-1",
    b"/allocations?chip=" + b"," * 9000,
)  # fmt: skip


@pytest.mark.parametrize("target", _TARGETS, ids=range(len(_TARGETS)))
def test_targets_that_make_no_sense(server: Server, target: bytes) -> None:
    with Witness(server) as witness:
        for method in (b"GET", b"POST", b"HEAD", b"G" * 100, b"OPTIONS"):
            status, body = answer(server.api, target, method)
            assert status in (0, *range(200, 500)), (method, target[:80], status, body[:200])
        witness.sees_no_harm()


@pytest.mark.parametrize(
    "head",
    [
        b"GET /health HTTP/1.1\r\nHost: ttmem\r\nX: " + b"x" * 20000 + b"\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost: ttmem\r\n" + b"X: y\r\n" * 5000 + b"\r\n",
        b"GET /" + b"x" * 20000 + b" HTTP/1.1\r\nHost: ttmem\r\n\r\n",
        b"POST /peaks/reset HTTP/1.1\r\nHost: ttmem\r\nContent-Length: 99999999999999999999\r\n\r\n",
        b"POST /peaks/reset HTTP/1.1\r\nHost: ttmem\r\nContent-Length: -1\r\n\r\n",
        b"GET /health HTTP/1.1\r\n\r\n",  # without a host
        b"\r\n" * 100,
        b"\0" * 20000,
    ],
    ids=[
        "long header",
        "many headers",
        "long target",
        "huge body",
        "negative body",
        "no host",
        "empty",
        "zeros",
    ],
)
def test_requests_that_are_no_http(server: Server, head: bytes) -> None:
    """400, as documented in docs/api.md, or 431 for a head that is too long."""
    with Witness(server) as witness:
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(LATENCY_SECONDS)
            sock.connect(server.api)
            with contextlib.suppress(BrokenPipeError):
                sock.sendall(head)
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_WR)
            status, body = read_answer(sock)
            assert status in (0, 400, 413, 431), (status, body[:200])
        witness.sees_no_harm()


# -- a member of the group ------------------------------------------------------------------------------------------

_AS_ANOTHER = (
    "import os, sys, encodings.ascii, encodings.idna\n"
    "from tests.witness import answer\n"
    "os.setgroups([]); os.setgid(int(sys.argv[1])); os.setuid(65534)\n"
    "for line in sys.stdin:\n"
    "    method, target = line.split()\n"
    "    status, body = answer(sys.argv[2], target.encode(), method.encode(), 60)\n"
    "    print(status, body.decode().replace('\\n', ' '), flush=True)\n"
)


@contextlib.contextmanager
def _member(server: Server) -> Iterator[Callable[[str, str], tuple[int, str]]]:
    """Another user of the server's group, who may connect, requests data from the API."""
    with subprocess.Popen(
        [sys.executable, "-c", _AS_ANOTHER, str(os.getgid()), server.api],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT, bufsize=1,
    ) as child:  # fmt: skip
        assert child.stdin is not None
        assert child.stdout is not None
        stdin, stdout = child.stdin, child.stdout

        def ask(method: str, target: str) -> tuple[int, str]:
            stdin.write(f"{method} {target}\n")
            stdin.flush()
            status, _, body = stdout.readline().partition(" ")
            return int(status), body

        yield ask
        stdin.close()


@pytest.fixture
def shared(serve: Serve, folder: Path) -> Server:
    """A server of a group, in a folder that its members may enter."""
    folder.chmod(0o755)
    return serve("--quiet", "--group", grp.getgrgid(os.getgid()).gr_name)


@ROOT_ONLY
def test_a_group_member_does_not_reset_the_peaks_of_others(shared: Server) -> None:
    with Witness(shared) as witness, _member(shared) as ask:
        before = witness.ask("/peaks?since=reset")
        status, _ = ask("POST", "/peaks/reset")
        after = witness.ask("/peaks?since=reset")
        assert status == 403 or before["peaks"] == after["peaks"]
        assert after["reset"] is None
        witness.sees_no_harm()


@ROOT_ONLY
def test_a_group_member_does_not_read_the_words_of_others(shared: Server) -> None:
    """Command line, tags, stacks, names of phases, marks, and an agent's text about its problems."""
    secret = "s3cr3t"
    memory = RingMemory()
    memory.plain(chips=(6,))
    memory.put(trouble=f"cannot read /home/me/{secret}".encode())
    with Witness(shared) as witness, _member(shared) as ask, shared.connect() as sock:
        memory.hand_over(sock)
        extra = Extra(tag=f"tag {secret}", shape=f"shape {secret}", stack=f"{secret}.py:1 main\n{secret}.py:2 f")
        witness.tell(
            DeviceOpened(1, ChipInfo("78")),
            Allocated(1, Kind.L1, 0x2000, 4096, extra=extra),
            Allocated(1, Kind.CB, 0x3000, 4096, 3, extra=Extra(cores=1, tag=f"kernel {secret}")),
            PhaseBegan(9, f"phase {secret}"),
        )
        wait_until(lambda: len(witness.testimony()[0]["sources"]) == 2, "the agent")
        assert secret in json.dumps(witness.ask("/snapshot")), "the test would see nothing"
        targets = [
            "/health",
            "/snapshot",
            "/processes",
            f"/processes/{os.getpid()}",
            "/allocations",
            "/peaks",
            "/phases",
        ]
        targets += [f"/breakdown?by={by}" for by in ("op", "line", "stack", "shape", "program", "kind")]
        targets += [f"/allocations?text={secret}", "/headroom", "/cores?chip=78&core=0,0", "/dump", "/dump?format=text"]
        targets += [
            "/dump?what=kernels",
            "/leaks",
            "/metrics",
            "/metrics?pids=1",
            "/history",
            f"/peaks?pid={os.getpid()}",
        ]
        leaks = []
        for target in targets:
            status, body = ask("GET", target)
            assert status == 200, (target, status, body[:200])
            if secret in body:
                leaks.append((target, body[max(0, body.index(secret) - 80) :][:160]))
            command = Path("/proc/self/cmdline").read_text().replace("\0", " ").strip()
            if command and command in body:
                leaks.append((target, "the command line"))
        assert not leaks, leaks
    memory.close()


def test_nobody_but_the_owner_connects_without_a_group(serve: Serve) -> None:
    server = serve("--quiet")
    for path in (server.path, server.api):
        assert os.stat(path).st_mode & 0o777 == 0o600
        assert os.stat(path).st_uid == os.getuid()


def test_the_recording_is_for_the_owner(serve: Serve, folder: Path) -> None:
    serve("--quiet", "--record", str(folder / "events"))
    assert (folder / "events").stat().st_mode & 0o777 == 0o600


def test_over_tcp_there_is_nothing_but_metrics(serve: Serve) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = serve("--quiet", "--metrics", str(port))
    with Witness(server) as witness:
        for path, _ in routes():
            with socket.create_connection(("127.0.0.1", port), LATENCY_SECONDS) as sock:
                sock.sendall(f"GET {path} HTTP/1.1\r\nHost: ttmem\r\nConnection: close\r\n\r\n".encode())
                status, body = read_answer(sock)
            assert status == (200 if path == "/metrics" else 404), path
            assert b"weights" not in body
        witness.sees_no_harm()


def test_sigterm_ends_a_server_that_is_busy_with_an_attack(serve: Serve) -> None:
    server = serve("--quiet")
    with Witness(server), contextlib.ExitStack() as children:
        for name in ("writes_for_ever", "turn_is_odd", "head_jumps"):
            children.enter_context(attack("ring", server, name))
        first: Any = children.enter_context(attack("dumps", server, 1000, 500))
        assert said(first) == "ready"
        began = time.monotonic()
        server.kill(signal.SIGTERM)
        assert server.process.wait(PATIENCE) == 0
        assert time.monotonic() - began < ENDING_SECONDS

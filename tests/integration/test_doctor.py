# SPDX-License-Identifier: Apache-2.0
"""`ttmem doctor` with real servers and clients, squatted sockets, another user, and replacements for libtt_metal.so."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from native.tests.build import build

import ttmem
from tests import machines
from tests.mock.wheel import remove_statistics, statistics
from tests.mock.wheel import wheel as stock
from tests.schema_conformance import problems
from tests.support import PATIENCE, PATIENT_DOCTOR, LegacyClient, Server, wait_until
from ttmem.doctor import endpoints
from ttmem.doctor import server_checks as server
from ttmem.doctor import snapshot_checks as snapshot
from ttmem.doctor import wheel_checks as ttnn
from ttmem.doctor import workload_checks as workload
from ttmem.doctor.context import DoctorContext
from ttmem.doctor.findings import Message
from ttmem.model import schema
from ttmem.model.events import Allocated, Lost, Mark
from ttmem.model.kinds import Confidence, Kind
from ttmem.wire.client_encode import encode
from ttmem.wire.endpoint import LEGACY_PATH
from ttmem.wire.handshake import hello

pytestmark = pytest.mark.usefixtures("patient_doctor")

Serve = Callable[..., Server]
Check = Callable[[DoctorContext], Iterator[Message]]
MIB = 1 << 20
BUFFER, PER_CORE = 0x1A0000, 0x5_0003_000A_0000  # as a legacy client sends them: an address, and core (5, 3)


def look(check: Check, root: Path | str = "/nowhere", env: dict[str, str] | None = None, **more: Any) -> list[Message]:
    return list(check(DoctorContext(str(root), env or {}, **more)))


def only(said: list[Message]) -> Message:
    (one,) = said
    return one


def at(one: Server) -> dict[str, str]:
    return {"TTMEM_SOCKET": one.path}


def doctor(*arguments: str, env: dict[str, str] | None = None, **popen: Any) -> subprocess.CompletedProcess[str]:
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("TT_", "TTMEM_", "LD_PRELOAD"))}
    command = [*PATIENT_DOCTOR, *arguments]
    return subprocess.run(
        command, env={**clean, **(env or {})}, capture_output=True, text=True, timeout=PATIENCE, **popen
    )


# The server and its paths


@pytest.fixture
def machine(folder: Path) -> machines.Machine:
    """A machine in a folder, with the folders in which clients search for a server."""
    laid_out = machines.n150(folder / "m")
    for name in ("run/ttmem", f"tmp/ttmem-{os.getuid()}"):
        (laid_out.root / name).mkdir(parents=True)
    return laid_out


@contextlib.contextmanager
def running(*folders: Path, arguments: tuple[str, ...] = ("--quiet",)) -> Iterator[list[Server]]:
    servers: list[Server] = []
    try:
        servers += [Server(folder, *arguments) for folder in folders]
        yield servers
    finally:
        for one in servers:
            one.stop()


@contextlib.contextmanager
def listening(path: Path | str) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(path))
        sock.listen()
        yield sock


def test_a_server_that_is_ours(server_: Server) -> None:
    said = only(look(server.server, env=at(server_)))
    assert said.level == "ok"
    assert f"ttmem {ttmem.__version__}, pid {server_.process.pid}, of uid {os.getuid()}" in said.found
    assert only(look(server.sockets, env=at(server_))).level == "ok"


@pytest.fixture
def server_(server: Server) -> Server:
    """The server of conftest.py, renamed because the module name is in use."""
    return server


def test_no_server(machine: machines.Machine) -> None:
    said = only(look(server.server, machine.root))
    assert said.level == "warning"
    assert "ttmem serve" in (said.todo or "")
    assert only(look(server.sockets, machine.root)).level == "ok"


def test_a_server_of_another_version(folder: Path, server_: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ttmem, "__version__", "9.9.9")
    said = only(look(server.server, env=at(server_)))
    assert said.level == "warning"
    assert "this command is ttmem 9.9.9" in said.found


@pytest.fixture
def impatient(patient_doctor: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """For servers that never answer."""
    monkeypatch.setattr(endpoints, "_SECONDS", 0.5)


@pytest.mark.usefixtures("impatient")
def test_a_server_that_is_stopped(server_: Server) -> None:
    with server_.stopped():
        said = only(look(server.server, env=at(server_)))
    assert said.level == "broken"
    assert "does not answer" in said.found
    assert f"`kill -CONT {server_.process.pid}`" in (said.todo or "")


def test_a_server_by_its_api_alone(server_: Server) -> None:
    assert only(look(server.server, api=server_.api)).level == "ok"
    assert only(look(server.server, api=server_.api + ".none")).level == "warning"


def test_two_servers(machine: machines.Machine) -> None:
    first, second = machine.root / "run/ttmem", machine.root / f"tmp/ttmem-{os.getuid()}"
    with running(first, second):
        said = only(look(server.sockets, machine.root))
    assert said.level == "warning"
    assert "2 servers answer; ttmem uses the first" in said.found
    assert said.looked_at.startswith(f"{first}/ttmem.sock, ")


def test_a_server_where_we_were_told_not_to_look(machine: machines.Machine, server_: Server) -> None:
    with running(machine.root / "run/ttmem") as (other,):
        told = {"TTMEM_SOCKET": str(machine.root / "none.sock")}
        said = only(look(server.server, machine.root, told))
        assert said.level == "warning"
        assert f"one answers on {other.path}" in said.found
        both = only(look(server.sockets, machine.root, at(server_)))
        assert (both.level, both.looked_at) == ("warning", f"{server_.path}, {other.path}")
        same = only(look(server.sockets, machine.root, at(other)))
        assert same.level == "ok", "the place that was named is one of the usual ones"


def test_a_server_that_was_killed(machine: machines.Machine) -> None:
    with running(machine.root / "run/ttmem") as (one,):
        one.stop(signal.SIGKILL)
    said = only(look(server.sockets, machine.root))
    assert (said.level, said.looked_at) == ("warning", one.path)
    assert "was killed" in said.found


@pytest.mark.parametrize("what", ["file", "folder", "link"])
def test_something_in_the_way(machine: machines.Machine, what: str) -> None:
    path = machine.root / "run/ttmem/ttmem.sock"
    if what == "link":
        path.symlink_to("nowhere")
    else:
        path.mkdir() if what == "folder" else path.touch()
    said = only(look(server.sockets, machine.root))
    assert said.level == "broken"
    assert "not a socket" in said.found
    with running(machine.root / f"tmp/ttmem-{os.getuid()}"):
        assert only(look(server.sockets, machine.root)).level == "warning", "another path has a server"


@pytest.mark.usefixtures("impatient")
def test_another_program_on_the_path(machine: machines.Machine) -> None:
    with listening(machine.root / "run/ttmem/ttmem.sock"):
        said = only(look(server.sockets, machine.root))
    assert said.level == "broken"
    assert f"pid {os.getpid()} listens there" in said.found


def test_an_api_that_is_none(machine: machines.Machine) -> None:
    """A program answers with a different protocol."""
    code = (
        "import socket, sys\ns = socket.socket(socket.AF_UNIX)\ns.bind(sys.argv[1])\ns.listen()\nprint(flush=True)\n"
        "while True:\n    c, _ = s.accept()\n    c.sendall(b'220 hello\\r\\n')\n    c.close()\n"
    )
    path = str(machine.root / "run/ttmem/ttmem.api.sock")
    with subprocess.Popen([sys.executable, "-c", code, path], stdout=subprocess.PIPE) as other:
        try:
            assert other.stdout is not None
            other.stdout.readline()
            said = only(look(server.sockets, machine.root))
        finally:
            other.kill()
    assert said.level == "broken"
    assert "went away" in said.found or "not a ttmem server" in said.found


# Modules are imported before root becomes the user `nobody`, who may not read root's folders.
NOBODY = (
    "import os, socket, sys; from ttmem.cli import doctor, main; s = socket.socket(socket.AF_UNIX);"
    "os.setgroups([]); os.setgid(65534); os.setuid(65534);"
)
needs_root = pytest.mark.skipif(os.getuid() != 0, reason="needs root to act as another user")


@needs_root
def test_a_socket_of_somebody_else(folder: Path) -> None:
    """The user `nobody` listens where root's programs connect, in a folder that is writable for all."""
    folder.chmod(0o755)
    place = folder / "tmp/ttmem-0"
    place.mkdir(parents=True)
    (folder / "tmp").chmod(0o1777)
    os.chown(place, 65534, 65534)
    empty = only(look(server.sockets, folder))
    assert (empty.level, "belongs to uid 65534" in empty.found) == ("broken", True)
    code = NOBODY + "s.bind(sys.argv[1]); s.listen(); print(flush=True); input()"
    command = [sys.executable, "-c", code, str(place / "ttmem.sock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        said = only(look(server.sockets, folder))
        other.communicate(b"\n")
    assert said.level == "broken"
    assert "uid 65534 listens there, which is neither root nor you" in said.found


@needs_root
def test_what_another_user_may_not_do(folder: Path) -> None:
    """A server without --group, and a device that is root's alone."""
    laid_out = machines.n150(folder / "m")
    (laid_out.root / "run/ttmem").mkdir(parents=True)
    (laid_out.root / "dev/tenstorrent/0").chmod(0o600)
    for path in (folder, laid_out.root):
        path.chmod(0o755)
    with running(laid_out.root / "run/ttmem"):
        code = NOBODY + "sys.exit(main(['doctor', '--json', '--root', sys.argv[1]]))"
        command = [sys.executable, "-c", code, str(laid_out.root)]
        env = {name: value for name, value in os.environ.items() if name != "TTMEM_SOCKET"}
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, cwd="/")
    assert done.returncode == 3, done.stderr
    broken = {one["check"]: one["found"] for one in json.loads(done.stdout)["findings"] if one["level"] == "broken"}
    assert "you may not connect" in broken["server"]
    assert "you may not use it" in broken["device-files"]


# The path of the proof of concept


def test_the_old_path_is_free_ours_stale_or_taken(machine: machines.Machine) -> None:
    path = machine.root / LEGACY_PATH.lstrip("/")
    assert only(look(server.legacy_socket, machine.root)).level == "ok"
    with listening(path):
        taken = only(look(server.legacy_socket, machine.root))
    assert taken.level == "warning"
    assert f"pid {os.getpid()} of uid {os.getuid()} listens there" in taken.found
    assert only(look(server.legacy_socket, machine.root)).level == "ok", "stale, and no server that could miss it"
    with running(machine.root / "run/ttmem"):
        assert only(look(server.legacy_socket, machine.root)).level == "warning", "stale, and a server beside it"
    path.unlink()
    with running(machine.root / "run/ttmem") as (one,):
        path.symlink_to(one.path)  # the server's own socket under the old name
        assert only(look(server.legacy_socket, machine.root)).found == "the ttmem server also listens here"
    path.unlink()
    path.mkdir()
    assert only(look(server.legacy_socket, machine.root)).level == "warning"


# What the server shows


def test_a_client_that_says_nothing(server_: Server, legacy: Callable[..., LegacyClient]) -> None:
    assert only(look(snapshot.silent_clients, env=at(server_))).level == "ok"
    client = legacy(server_)
    client.sync()
    wait_until(lambda: server_.get("/health")["clients"] == 1)
    said = only(look(snapshot.silent_clients, env=at(server_)))
    assert said.level == "warning"
    assert "1 connection is open, but none has sent anything" in said.found
    client.say(f"alloc 0 {MIB} 0 {BUFFER}")
    client.query(0)
    assert only(look(snapshot.silent_clients, env=at(server_))).found == "1 process reports"


def test_a_source_that_marks_a_moment_and_no_more(server_: Server) -> None:
    with server_.connect() as sock:
        sock.sendall(hello("client", Confidence.REPORTED) + encode(Mark("ready")))
        wait_until(lambda: server_.process_of(os.getpid()), "the hello")
        said = only(look(snapshot.silent_clients, env=at(server_)))
        assert said.level == "warning"
        assert f"pid {os.getpid()} " in said.found
        assert "(source: client), but has reported nothing" in said.found
        sock.sendall(encode(Allocated(0, Kind.DRAM, BUFFER, MIB)))
        wait_until(lambda: server_.snapshot()["chips"], "the event")
        assert only(look(snapshot.silent_clients, env=at(server_))).found == "1 process reports"
        with server_.connect():
            wait_until(lambda: server_.get("/health")["clients"] == 2, "the connection")
            said = only(look(snapshot.silent_clients, env=at(server_)))
            assert said == (
                "ok",
                "the server's list of processes",
                "1 process reports; 1 more connection, which may be silent",
                None,
            )


def test_only_single_cores(server_: Server, legacy: Callable[..., LegacyClient]) -> None:
    assert only(look(snapshot.per_core_only, env=at(server_))).level == "ok"
    client = legacy(server_)
    for core in range(3):
        client.say(f"alloc 0 24576 1 {PER_CORE + (core << 32)}")
    client.query(0)
    said = only(look(snapshot.per_core_only, env=at(server_)))
    assert said.level == "warning"
    assert f"pid {client.pid} " in said.found
    client.say(f"alloc 0 {MIB} 1 {BUFFER}")
    client.query(0)
    assert only(look(snapshot.per_core_only, env=at(server_))).level == "ok"


def test_a_workload_in_dram(server_: Server, legacy: Callable[..., LegacyClient]) -> None:
    client = legacy(server_)
    client.say(f"alloc 0 {300 * MIB} 0 {BUFFER}", f"alloc 0 4096 1 {BUFFER}")
    client.query(0)
    said = only(look(snapshot.amounts, env=at(server_)))
    assert said.level == "warning"
    assert "300.0 MiB in DRAM, and buffers in L1 were never more than 4.0 KiB" in said.found
    client.say(f"alloc 0 {2 * MIB} 1 {BUFFER + MIB}")
    client.query(0)
    assert only(look(snapshot.amounts, env=at(server_))).level == "ok"


def test_a_workload_in_the_dram_of_many_chips_is_one_finding(
    server_: Server, legacy: Callable[..., LegacyClient]
) -> None:
    client = legacy(server_)
    for chip in range(6):
        client.say(f"alloc {chip} {300 * MIB} 0 {BUFFER}", f"alloc {chip} {4096 * (chip + 1)} 1 {BUFFER}")
    client.query(0)
    said = only(look(snapshot.amounts, env=at(server_)))
    assert "and 2 more: 1.8 GiB in DRAM, and buffers in L1 of any were never more than 24.0 KiB" in said.found


def test_many_small_allocations_are_summed(server_: Server, legacy: Callable[..., LegacyClient]) -> None:
    assert only(look(snapshot.amounts, env=at(server_))).found == "nothing is in use"
    client = legacy(server_)
    client.say(*(f"alloc 0 24576 1 {BUFFER + 65536 * n}" for n in range(100)))
    client.query(0)
    said = only(look(snapshot.amounts, env=at(server_)))
    assert said.level == "ok"
    client.say(f"alloc 0 {MIB} 0 {BUFFER}")
    client.query(0)
    assert said.found.startswith("100 allocations: 2.3 MiB of L1 (sum over all cores). The server's log shows each by ")
    both = only(look(snapshot.amounts, env=at(server_))).found
    assert both.startswith("101 allocations: 1.0 MiB of DRAM, 2.3 MiB of L1 (sum over all cores). The server's log ")


def test_losses(server_: Server) -> None:
    assert only(look(snapshot.losses, env=at(server_))).level == "ok"
    with server_.connect() as sock:
        sock.sendall(b"\xee" * 4096)
        wait_until(lambda: server_.snapshot()["anomalies"]["rejected"], "the refusal")
    said = only(look(snapshot.losses, env=at(server_)))
    assert said.level == "warning"
    assert "rejected as invalid" in said.found


def test_events_that_were_dropped(server_: Server) -> None:
    with server_.connect() as sock:
        sock.sendall(hello("client", Confidence.REPORTED) + encode(Lost(7)))
        wait_until(lambda: server_.snapshot()["anomalies"]["dropped"], "the loss")
    assert "7 events were dropped" in only(look(snapshot.losses, env=at(server_))).found


def test_an_account_that_is_not_complete(server_: Server, legacy: Callable[..., LegacyClient]) -> None:
    """A real snapshot, as if an audit had found this."""
    client = legacy(server_)
    client.say(f"alloc 0 {MIB} 0 {BUFFER}")
    client.query(0)
    for share, level in ((None, "ok"), (1.0, "ok"), (0.9999999, "warning"), (0.75, "warning"), (0.0, "warning")):
        context = DoctorContext("/nowhere", at(server_))
        assert context.snapshot is not None
        context.snapshot["chips"][0]["memory"]["completeness"] = share
        said = only(list(snapshot.losses(context)))
        assert said.level == level
        assert "100 %" not in said.found


@pytest.mark.parametrize(("name", "level"), [("metal", "ok"), ("no_mark_address", "warning")])
def test_what_an_agent_cannot_see(server_: Server, name: str, level: str) -> None:
    built = build()
    env = {"PATH": os.environ["PATH"], "LD_PRELOAD": str(built.agent), "FAKE_METAL": built.fake(name), **at(server_)}
    command = [built.program("workload_open"), "wait", "2", "1", "200"]
    with subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        wait_until(lambda: (server_.process_of(process.pid) or {}).get("allocations"), "the agent's report")
        said = only(look(snapshot.agent_trouble, env=at(server_)))
        process.kill()
        process.communicate()
    assert said.level == level
    assert (f"pid {process.pid} " in said.found and "dataflow buffers are not tracked" in said.found) == (
        name != "metal"
    )


def test_what_all_workers_of_a_job_cannot_see_is_one_finding(
    server_: Server, legacy: Callable[..., LegacyClient]
) -> None:
    """A real snapshot, as if agents had reported this."""
    for client in (legacy(server_), legacy(server_)):
        client.say(f"alloc 0 {MIB} 0 {BUFFER}")
        client.query(0)
    context = DoctorContext("/nowhere", at(server_))
    assert context.snapshot is not None
    for process in context.snapshot["processes"]:
        process["sources"][0]["trouble"] = "no dataflow buffers\nno kernels"
    said = [one.found for one in snapshot.agent_trouble(context)]
    assert [found.rpartition(": ")[2] for found in said] == ["no dataflow buffers", "no kernels"]
    assert all(found.count("pid ") == 2 for found in said)


# Running programs, and whether they report to that server


@pytest.fixture
def reporter(server_: Server, legacy: Callable[..., LegacyClient]) -> LegacyClient:
    client = legacy(server_)
    client.say(f"alloc 0 {MIB} 0 {BUFFER}")
    client.query(0)
    return client


def test_a_program_that_reports(machine: machines.Machine, server_: Server, reporter: LegacyClient) -> None:
    """On a machine in a folder it holds a chip, with the pid that a real server knows."""
    machine.process(reporter.pid, holds=[0])
    assert only(look(workload.untracked, machine.root, at(server_))).found == "1 process reports"
    machine.process(reporter.pid + 1, holds=[0])
    said = only(look(workload.untracked, machine.root, at(server_)))
    assert (said.level, f"pid {reporter.pid + 1} " in said.found) == ("warning", True)


def test_what_a_program_was_started_with_does_not_matter_if_it_reports(
    machine: machines.Machine, server_: Server, reporter: LegacyClient
) -> None:
    """Set by the program itself, in time: /proc does not show it, and the server receives its reports."""
    machine.process(reporter.pid, holds=[0], environ={"TT_ALLOC_TRACKING_ENABLED": "no"})
    assert only(look(workload.tracking_variable, machine.root, at(server_))).level == "ok"
    assert only(look(workload.tracking_variable, machine.root)).level == "warning"


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({"TTMEM_AGENT": "0"}, "TTMEM_AGENT=0"),
        ({"TTMEM_SOCKET": "/run/other.sock"}, "TTMEM_SOCKET=/run/other.sock"),
        ({}, "RTLD_DEEPBIND"),
    ],
)
def test_an_agent_that_the_server_does_not_hear(
    machine: machines.Machine, server_: Server, environ: dict[str, str], words: str
) -> None:
    maps = "7f0000000000-7f0000001000 r-xp 00000000 fd:00 131 /venv/libttmem_agent.so\n"
    machine.process(4711, holds=[0], environ=environ, maps=maps)
    said = only(look(workload.untracked, machine.root, at(server_)))
    assert said.level == "warning"
    assert "does not report to the server" in said.found
    assert words in (said.todo or "")


def test_without_a_server_nothing_is_said_about_clients(machine: machines.Machine) -> None:
    for check in (
        snapshot.silent_clients,
        snapshot.agent_trouble,
        snapshot.losses,
        snapshot.per_core_only,
        snapshot.amounts,
    ):
        assert only(look(check, machine.root))[::2] == ("unknown", "no server"), check


# ttnn


@pytest.mark.parametrize(
    ("name", "level", "words"),
    [
        ("metal", "ok", "all 69 functions are available"),
        ("no_allocate_buffer", "broken", "nothing is tracked, because buffers are not: this libtt_metal has no alloca"),
        ("no_buffer_size", "broken", "has no buffer_per_bank"),
        ("symbolic", "broken", "does not call allocate_buffer"),
        ("no_mark_address", "warning", "dataflow buffers are not tracked: this libtt_metal has no dfb_placed"),
        ("no_statistics", "warning", "whether the account is complete"),
        ("before_79", "ok", "or replaced as in older versions (buffer_size, buffer_type, buffer_layout, "),
        ("before_75", "warning", "kernels are not tracked: it is older than 0.75"),
        ("no_mesh_allocator", "warning", "circular buffers are not tracked: this libtt_metal has no mesh_allocator"),
    ],
)  # fmt: skip
def test_hook_by_hook(folder: Path, name: str, level: str, words: str) -> None:
    """The replacements with which the agent itself is tested: the doctor reports the same problems as the agent."""
    site = folder / "site/ttnn"
    (site / "build/lib").mkdir(parents=True)
    (site / "__init__.py").touch()
    shutil.copy(build().fake(name), site / "build/lib/libtt_metal.so")
    said = look(ttnn.hooks, folder, {**os.environ, "PYTHONPATH": str(site.parent)})
    assert {one.level for one in said} == {level}
    assert any(words in one.found for one in said), [one.found for one in said]


def test_the_proven_wheel() -> None:
    python = stock("3.12").python
    context = DoctorContext("/", {}, python=python)
    (found,), (hooks,) = list(ttnn.ttnn(context)), list(ttnn.hooks(context))
    assert (found.level, hooks.level) == ("ok", "ok")
    assert found.found.startswith("ttnn 0.81.1, ")


HOLDS = """
import sys, ttnn
device = ttnn.open_device(device_id=0)
kept = ttnn.zeros([1024, 1024], dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)
print("ready", flush=True)
sys.stdin.readline()
"""


def alone_on_the_machine(root: Path, pid: int) -> None:
    """This machine, with only one of its processes: others may be using ttnn."""
    (root / "proc").mkdir(parents=True)
    (root / "dev").mkdir()
    for name in ("proc/stat", "proc/uptime", f"proc/{pid}", "dev/shm"):
        (root / name).symlink_to(f"/{name}")


def test_a_stock_program_that_believes_it_reports(folder: Path) -> None:
    """ttnn on a mock device, started with the variable of a patched ttnn, then killed."""
    root = folder / "machine"
    wheel = stock("3.12")
    seed = secrets.randbits(63)
    env = {**wheel.environment("n150", folder, seed), "TT_ALLOC_TRACKING_ENABLED": "1"}
    command = [wheel.python, "-c", HOLDS]
    try:
        with subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=folder) as program:
            assert program.stdout is not None
            assert program.stdout.readline() == b"ready\n"
            alone_on_the_machine(root, program.pid)
            lives = doctor("--json", "--root", str(root))
            program.kill()
        found = [one for one in json.loads(lives.stdout)["findings"] if f"pid {program.pid} " in one["found"]]
        assert [(one["check"], one["level"]) for one in found] == [
            ("untracked", "warning"), ("tracking-variable", "warning"),
        ]  # fmt: skip
        assert "it is the stock version" in found[1]["found"]
        hooks = [one for one in json.loads(lives.stdout)["findings"] if one["check"] == "hooks"]
        assert [one["level"] for one in hooks if one["looked_at"].startswith(f"{root}/proc/{program.pid}/root/")] == [
            "ok"
        ]
        (path,) = statistics("n150", seed).values()
        killed = doctor("--json", "--root", str(root))
        (left,) = [one for one in json.loads(killed.stdout)["findings"] if one["looked_at"].endswith(str(path))]
        assert (left["check"], left["level"]) == ("shm-files", "warning")
        assert f"2.0 MiB of DRAM of processes that are dead (pid {program.pid})" in left["found"]
    finally:
        remove_statistics("n150", seed)


# The command


def test_the_command(machine: machines.Machine) -> None:
    done = doctor("--root", str(machine.root))
    assert done.returncode == 3, "no hugepages"
    assert done.stderr == ""
    assert done.stdout.startswith("BROKEN   hugepages\n")
    assert done.stdout.splitlines()[-1].startswith("ttmem doctor: 1 broken, ")
    data = json.loads(doctor("--json", "--root", str(machine.root)).stdout)
    assert problems(data, schema.Doctor) == []
    assert data["verdict"]["exit_code"] == 3


def test_the_command_with_a_server_and_a_workload(server_: Server, legacy: Callable[..., LegacyClient]) -> None:
    client = legacy(server_)
    client.say(f"alloc 0 {8 * MIB} 1 {BUFFER}")
    client.query(0)
    before = server_.get("/health")
    done = doctor("--json", "--root", "/nowhere", env=at(server_))
    levels = {one["check"]: one["level"] for one in json.loads(done.stdout)["findings"]}
    names = ("server", "sockets", "silent-clients", "agent-trouble", "losses", "per-core-only", "amounts")
    assert {name: levels[name] for name in names} == dict.fromkeys(names, "ok")
    after = server_.get("/health")
    assert (after["clients"], after["accepted"], after["events"]) == (
        before["clients"], before["accepted"], before["events"],
    ), "it left a trace in the server"  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "code"), [(["--python", "/no/such/python"], 1), (["--colour"], 2), (["extra"], 2)]
)
def test_wrong_usage(arguments: list[str], code: int) -> None:
    done = doctor(*arguments)
    assert done.returncode == code
    assert done.stdout == ""
    assert "Traceback" not in done.stderr


@pytest.mark.alone
def test_it_is_quick(machine: machines.Machine) -> None:
    """It may take two seconds. The best of several attempts counts, because the machine is shared."""

    def seconds() -> float:
        started = time.monotonic()
        doctor("--root", str(machine.root))
        return time.monotonic() - started

    assert any(seconds() < 2.0 for _ in range(10))

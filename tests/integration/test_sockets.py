# SPDX-License-Identifier: Apache-2.0
"""Ownership of sockets: one server per path, stale ones replaced, squatted ones reported, other users kept out."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import LegacyClient, Server, not_none, wait_until
from ttmem.wire.endpoint import beside

Serve = Callable[..., Server]


def _second(server: Server, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ttmem", "serve", "--no-legacy-path", "--socket", server.path, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=30)


def test_a_second_server_leaves_the_first_alone(server: Server) -> None:
    second = _second(server)
    assert second.returncode == 1
    assert f"already serves {server.path} (pid {server.process.pid})" in second.stderr
    assert "--socket" in second.stderr
    assert "Traceback" not in second.stderr
    assert server.get("/health")["pid"] == server.process.pid


def test_a_stale_socket_is_replaced(serve: Serve) -> None:
    server = serve("--quiet")
    server.stop(signal.SIGKILL)
    assert os.path.exists(server.path)
    server.start()
    assert server.get("/health")["pid"] == server.process.pid


def test_another_kind_of_server_on_the_path_is_not_evicted(serve: Serve, folder: Path) -> None:
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(folder / "ttmem.sock"))
        other.listen()
        server = serve(wait=False)
        assert server.process.wait(30) == 1
        assert "another server answers" in server.err.read_text()


@pytest.mark.parametrize("what", ["file", "folder", "link"])
def test_a_squatted_path_is_reported(serve: Serve, folder: Path, what: str) -> None:
    path = folder / "ttmem.sock"
    if what == "file":
        path.write_text("mine")
    elif what == "folder":
        path.mkdir()
    else:
        path.symlink_to(folder / "elsewhere")
    server = serve(wait=False)
    assert server.process.wait(30) == 1
    assert f"{path} exists and is not a socket" in server.err.read_text()
    assert path.is_symlink() or path.exists()


def test_only_the_owner_may_connect_unless_a_group_is_given(serve: Serve) -> None:
    private = serve(name="private")
    for path in (private.path, private.api):
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    import grp

    group = grp.getgrgid(os.getgid()).gr_name
    shared = serve("--group", group, name="shared")
    for path in (shared.path, shared.api):
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o660
        assert os.stat(path).st_gid == os.getgid()
    refused = serve("--group", "no-such-group", name="refused", wait=False)
    assert refused.process.wait(30) == 1
    assert "there is no group 'no-such-group'" in refused.err.read_text()


def test_files_beside_the_socket_come_and_go(serve: Serve) -> None:
    server = serve("--quiet")
    pid_file = Path(beside(server.path, ".pid"))
    assert int(pid_file.read_text()) == server.process.pid
    assert server.stop() == 0
    assert not pid_file.exists()
    assert not os.path.exists(server.path)
    assert not os.path.exists(server.api)


def test_programs_that_hard_code_the_legacy_path(
    serve: Serve, legacy: Callable[..., LegacyClient], folder: Path
) -> None:
    """Another path replaces the fixed one, of which the machine has only one: a real server may be there."""
    path = str(folder / "legacy.sock")
    moved = f"import sys; from ttmem.wire import endpoint; endpoint.LEGACY_PATH = {path!r}; "
    python = ["-c", moved + "from ttmem.cli import main; sys.exit(main())"]
    server = serve("--legacy", "--quiet", python=python)
    client = legacy()
    client.say(f"connect {path}", "alloc 0 4096 0 0x1000")
    assert client.query(0)["dram"] == 4096
    assert server.chip()["dram"]["used"] == 4096
    second = serve("--legacy", "--quiet", name="second", python=python)
    assert f"another server answers on {path}" in second.err.read_text()
    assert second.get("/health")["pid"] == second.process.pid
    server.stop()
    assert not os.path.exists(path)


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to act as two users")
def test_our_client_does_not_talk_to_a_stranger(folder: Path) -> None:
    os.chmod(folder, 0o777)
    path = str(folder / "trap.sock")
    script = (
        "import os, socket, sys; os.setgid(65534); os.setuid(65534); s = socket.socket(socket.AF_UNIX);"
        "s.bind(sys.argv[1]); os.chmod(sys.argv[1], 0o777); s.listen(); print('up', flush=True);"
        "[print(len(s.accept()[0].recv(100)), flush=True) for _ in range(99)]"
    )
    trap = subprocess.Popen([sys.executable, "-c", script, path], stdout=subprocess.PIPE, text=True)
    assert not_none(trap.stdout).readline() == "up\n"
    from ttmem import AllocationClient

    client = AllocationClient(enabled=True, socket_path=path)
    client.report_allocation(device_id=0, size=4096, buffer_type=0, buffer_id=1)
    assert client.flush(0.5) is False
    wait_until(lambda: "belongs to uid 65534" in str(client.stats()["trouble"]), "the refusal")
    assert not_none(trap.stdout).readline() == "0\n"
    trap.kill()
    trap.communicate()
    client.close(0)

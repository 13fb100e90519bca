# SPDX-License-Identifier: Apache-2.0
"""Real processes that are killed: exactly their own allocations are removed, at once, and stay removed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.support import PATIENCE, LegacyClient, Server, not_none, process_state, wait_until

Legacy = Callable[..., LegacyClient]


def holds_much(client: LegacyClient) -> None:
    client.say("burst 5000 0 4096 0 0x100000 4096")
    for number in range(300):
        client.say(f"cb_alloc 0 2048 {number}", f"kernel_load 0 1024 0 {number}")
    client.query(0)


def assert_nothing_left(server: Server, legacy: Legacy) -> None:
    """The assumed chip is not listed after the last process that used it is dead. The next process finds it empty."""
    assert "assumed:0" not in {chip["chip"] for chip in server.snapshot()["chips"]}
    assert server.get("/allocations")["allocations"] == []
    later = legacy(server)
    later.say("alloc 0 512 0 0x2000")
    assert later.query(0)["dram"] == 512
    assert server.chip()["dram"]["used"] == 512


def test_kill_9_with_unread_records(server: Server, legacy: Legacy) -> None:
    victim, bystander = legacy(server), legacy(server)
    for client in (victim, bystander):
        holds_much(client)
    with server.stopped():
        victim.say("burst 900 0 4096 1 0x100000 4096", "cb_alloc 1 64 7", "kernel_load 1 64 2 7", "free 0 0x100000")
        victim.sync()  # in the socket's buffer, which the stopped server has not read
        victim.kill()
    gone = wait_until(lambda: (p := server.process_of(victim.pid)) and p["state"] == "exited" and p, "the death")
    left = {(chip["metal_id"], kind): size for chip in gone["chips"] for kind, size in chip["kinds"].items() if size}
    assert left == {
        (0, "dram"): 5000 * 4096,
        (0, "l1"): 899 * 4096,  # the free named an address that DRAM and L1 both had: the youngest went
        (0, "cb"): 300 * 2048,
        (0, "kernel"): 300 * 1024,
        (1, "cb"): 64,
        (1, "dispatch_kernel"): 64,
    }
    assert gone["anomalies"]["ambiguous"] == 1
    answer = bystander.query(0)
    assert (answer["dram"], answer["l1"]) == (5000 * 4096, 0)
    assert (answer["cb"], answer["kernel"]) == (300 * 2048, 300 * 1024)
    memory = server.chip()
    assert (memory["dram"]["used"], memory["l1"]["buffers"], memory["l1"]["kernels"]) == (5000 * 4096, 0, 300 * 1024)
    assert not_none(server.process_of(bystander.pid))["allocations"] == 5600
    largest = server.get(f"/processes/{victim.pid}")["processes"][0]["largest"]
    assert len(largest) == 20
    assert largest[0]["size"] == 4096


@pytest.mark.alone
def test_a_death_takes_effect_at_once(server: Server, legacy: Legacy, capsys: pytest.CaptureFixture[str]) -> None:
    """Within 100 ms after the server can read. The best of several attempts counts, because the machine is shared."""
    best = PATIENCE
    for _ in range(20):
        victim = legacy(server)
        holds_much(victim)
        with server.stopped():
            victim.kill()
        began = time.monotonic()
        wait_until(partial(server.has_exited, victim.pid), "the death")
        best = min(best, time.monotonic() - began)
        if best < 0.1:
            break
    with capsys.disabled():
        print(f"\n  everything of a killed process was freed {1000 * best:.1f} ms after the server could look")
    assert best < 0.1


def test_a_process_that_connects_sends_and_dies_before_it_is_accepted(server: Server, legacy: Legacy) -> None:
    script = (
        "import socket, os, sys; from ttmem.wire.legacy_records import request, Type;"
        "s = socket.socket(socket.AF_UNIX);"
        "s.connect(sys.argv[1]); s.sendall(request(Type.ALLOC, 0, size=4096, pid=os.getpid(), ident=1));"
        "os.kill(os.getpid(), 9)"
    )
    with server.stopped():
        child = subprocess.Popen([sys.executable, "-c", script, server.path])
        child.wait()
    gone = wait_until(lambda: (p := server.process_of(child.pid)) and p["state"] == "exited" and p, "the death")
    assert gone["chips"][0]["dram"] == 4096
    assert_nothing_left(server, legacy)


def test_a_zombie_is_dead(server: Server, legacy: Legacy) -> None:
    client = legacy(server)
    client.say("alloc 0 4096 0 0x1000")
    assert client.query(0)["dram"] == 4096
    os.kill(client.pid, signal.SIGKILL)  # not waited for: it stays a zombie until the test ends
    wait_until(lambda: process_state(client.pid) == "Z", "the zombie")
    wait_until(lambda: not_none(server.process_of(client.pid))["state"] == "exited", "the death")
    assert_nothing_left(server, legacy)


def test_a_forked_child_on_its_parents_connection(server: Server, legacy: Legacy) -> None:
    client = legacy(server)
    client.say("alloc 0 1000 0 0x1000")
    client.query(0)
    child = int(client.ask("child alloc 0 2000 0 0x1000").partition("pid=")[2])
    assert "exit=0" in not_none(client.process.stdout).readline()
    wait_until(lambda: (p := server.process_of(child)) and p["state"] == "exited", "the child's death")
    assert not_none(server.process_of(child))["chips"][0]["dram"] == 2000
    assert client.query(0)["dram"] == 1000
    assert not_none(server.process_of(client.pid))["chips"][0]["dram"] == 1000


def test_a_forged_pid_is_only_a_label(server: Server, legacy: Legacy) -> None:
    honest, forger = legacy(server), legacy(server)
    honest.say("alloc 0 1000 0 0x1000")
    honest.query(0)
    forger.say(f"forge {honest.pid}", "free 0 0x1000", "alloc 0 500 0 0x2000")
    assert forger.query(0)["dram"] == 1500
    assert not_none(server.process_of(forger.pid))["claimed_pids"] == [honest.pid]
    assert not_none(server.process_of(forger.pid))["anomalies"]["unknown_free"] == 1
    forger.kill()
    wait_until(lambda: not_none(server.process_of(forger.pid))["state"] == "exited", "the forger's death")
    assert honest.query(0)["dram"] == 1000
    ghost = server.process_of(honest.pid)
    assert not_none(ghost)["state"] == "tracked"


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to act as two other users")
def test_another_users_live_process_is_not_taken_for_dead(
    serve: Callable[..., Server], legacy: Legacy, folder: object
) -> None:
    os.chown(str(folder), 65534, 65534)
    # The interpreter may be in a folder that other users cannot read: everything is imported before the user changes.
    drop = "import os, encodings.ascii, encodings.idna, ttmem.cli.serve;"
    drop += "os.setgroups([]); os.setgid(65534); os.setuid(65534);"
    server = serve("--quiet", python=["-c", f"{drop} from ttmem.cli import main; raise SystemExit(main())"])
    script = (
        "import socket, os, sys; from ttmem.wire.legacy_records import request, Type;"
        "s = socket.socket(socket.AF_UNIX);"
        "s.connect(sys.argv[1]); os.setgid(12345); os.setuid(12345);"
        "s.sendall(request(Type.ALLOC, 0, size=4096, pid=os.getpid(), ident=1));"
        "print('sent', flush=True); sys.stdin.read()"
    )
    child = subprocess.Popen([sys.executable, "-c", script, server.path], stdin=-1, stdout=-1, text=True)
    assert not_none(child.stdout).readline() == "sent\n"
    process = wait_until(lambda: server.process_of(child.pid), "the report")
    assert process["user_id"] == 12345
    for _ in range(20):  # several rounds of the reaper and of dumps, which search for dead processes first
        server.get("/dump")
    assert not_none(server.process_of(child.pid))["state"] == "tracked"
    assert server.chip()["dram"]["used"] == 4096
    child.kill()
    child.communicate()
    wait_until(lambda: not_none(server.process_of(child.pid))["state"] == "exited", "the death")
    assert_nothing_left(server, legacy)


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to make a pid namespace")
def test_a_client_whose_pid_cannot_be_seen_is_its_connection(folder: Path, legacy: Legacy) -> None:
    """The server in its own pid namespace: the kernel stamps processes outside with pid 0."""
    server = Server(folder, "--quiet", wait=False)
    server.stop(signal.SIGKILL)
    inside = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", *server.command]
    server.process = subprocess.Popen(inside, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: os.path.exists(server.api), "the start")
        client, other = legacy(server), legacy(server)
        client.say("alloc 0 4096 0 0x1000", "cb_alloc 0 512 0", "short_cb_alloc 0 256 7")
        other.say("alloc 0 100 0 0x1000")
        assert other.query(0)["dram"] in (100, 4196)
        assert client.query(0) | {"dram": 4196} == client.query(0)
        processes = server.snapshot()["processes"]
        assert [(p["pid"], p["state"]) for p in processes] == [(None, "tracked")] * 2
        assert sorted(p["claimed_pids"] for p in processes) == sorted([[client.pid], [other.pid]])
        client.say("close")
        wait_until(lambda: sum(p["state"] == "exited" for p in server.snapshot()["processes"]) == 1, "its end")
        answer = other.query(0)
        assert (answer["dram"], answer["cb"]) == (100, 0)
    finally:
        server.process.kill()
        server.process.wait()

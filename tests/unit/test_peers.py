# SPDX-License-Identifier: Apache-2.0
"""Finding senders and noticing their deaths, with real processes."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ttmem.ingest import peers as module
from ttmem.ingest.peers import Peer, Peers

PATIENCE = 30.0
Spawn = Callable[[], "subprocess.Popen[bytes]"]


@pytest.fixture
def peers() -> Iterator[Peers]:
    with contextlib.closing(Peers()) as found:
        yield found


@pytest.fixture
def spawn() -> Iterator[Spawn]:
    """Processes that do nothing."""
    children: list[subprocess.Popen[bytes]] = []

    def start() -> subprocess.Popen[bytes]:
        children.append(subprocess.Popen(["sleep", "1000"]))
        return children[-1]

    yield start
    for child in children:
        child.kill()
        child.wait()


def await_death(peers: Peers) -> None:
    assert select.select([peers.fileno()], [], [], PATIENCE)[0], "nobody died"


def kill_unreaped(child: subprocess.Popen[bytes]) -> None:
    """Dead but not waited for: a zombie."""
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)


def test_find_describes(peers: Peers, spawn: Spawn) -> None:
    child = spawn()
    peer = peers.find(child.pid, 1234)
    assert (peer.info.pid, peer.info.user_id) == (child.pid, 1234)
    assert isinstance(peer.info.start, int)
    assert peer.pidfd is not None
    assert not os.get_inheritable(peer.pidfd)
    assert not peer.gone
    assert peers.find(child.pid, 1234) is peer
    assert len(peers) == 1
    assert peers.died() == []


def test_a_name_only_the_exec_gives() -> None:
    with contextlib.closing(Peers()) as peers:
        peer = peers.find(os.getpid(), os.getuid())
        assert peer.info.command is not None
        assert "python" in peer.info.command or Path(sys.executable).name in peer.info.command


def test_a_death_is_noticed(peers: Peers, spawn: Spawn) -> None:
    dying, living = spawn(), spawn()
    peer, other = peers.find(dying.pid, None), peers.find(living.pid, None)
    assert not select.select([peers.fileno()], [], [], 0)[0]
    dying.kill()
    await_death(peers)
    assert peers.died() == [peer]
    peers.remember_dead(peer)
    assert peers.died() == []
    assert len(peers) == 1
    assert peers.find(living.pid, None) is other


def test_a_zombie_is_dead(peers: Peers, spawn: Spawn) -> None:
    child = spawn()
    peer = peers.find(child.pid, None)
    kill_unreaped(child)
    assert peers.died() == [peer]


def test_a_zombie_met_for_the_first_time_is_dead(peers: Peers, spawn: Spawn) -> None:
    child = spawn()
    kill_unreaped(child)
    peer = peers.find(child.pid, None)
    assert peer.info.start is not None
    assert peers.died() == [peer]


def test_a_stopped_process_lives(peers: Peers, spawn: Spawn) -> None:
    child = spawn()
    peers.find(child.pid, None)
    child.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WNOWAIT)
    assert peers.died() == []


def test_a_pid_that_is_gone(peers: Peers, spawn: Spawn) -> None:
    child = spawn()
    child.kill()
    child.wait()
    peer = peers.find(child.pid, 77)
    assert (peer.gone, peer.info.start, peer.info.user_id, peer.pidfd) == (True, None, 77, None)
    assert peers.died() == [peer]
    assert peers.died() == [], "named once"
    peers.remember_dead(peer)
    assert peers.find(child.pid, 77) is peer, "further words of the same dead process"


def test_last_words_find_their_sender(peers: Peers, spawn: Spawn) -> None:
    """Records that are read after the process was removed, while it is a zombie and after it is gone."""
    child = spawn()
    peer = peers.find(child.pid, None)
    kill_unreaped(child)
    peers.died()
    peers.remember_dead(peer)
    before = len(os.listdir("/proc/self/fd"))
    assert peers.find(child.pid, None) is peer
    child.wait()
    assert peers.find(child.pid, None) is peer
    assert len(peers) == 0
    assert len(os.listdir("/proc/self/fd")) == before, "no pidfd is left over"


def test_a_pid_used_again_is_somebody_else(peers: Peers, spawn: Spawn) -> None:
    child = spawn()
    peer = peers.find(child.pid, None)
    assert peer.info.start is not None
    peer.info = peer.info._replace(start=peer.info.start - 1)  # as if it had started earlier
    peers.remember_dead(peer)
    other = peers.find(child.pid, None)
    assert other is not peer
    assert peers.died() == []


def test_a_death_between_two_looks_is_named_once(folder: Path, spawn: Spawn) -> None:
    """The pidfd can still be opened, but /proc no longer lists the process. An empty root has the same effect."""
    child = spawn()
    with contextlib.closing(Peers(str(folder))) as peers:
        peer = peers.find(child.pid, None)
        kill_unreaped(child)
        await_death(peers)
        assert peers.died() == [peer]


def test_burial_closes_the_pidfd_and_may_come_twice(peers: Peers, spawn: Spawn) -> None:
    peer = peers.find(spawn().pid, None)
    pidfd = peer.pidfd
    assert pidfd is not None
    peers.remember_dead(peer)
    assert peer.pidfd is None
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(pidfd)
    peers.remember_dead(peer)


def test_only_so_many_dead_are_remembered(peers: Peers, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setattr(module, "_REMEMBERED_DEAD", 2)
    monkeypatch.setattr(Peers, "_open", staticmethod(lambda pid: None))
    with contextlib.closing(Peers(str(folder))) as nobody:
        first = [nobody.find(pid, None) for pid in (1, 2, 3)]
        for peer in first:
            nobody.remember_dead(peer)
        assert nobody.find(3, None) is first[2]
        assert nobody.find(1, None) is not first[0]


def test_without_pidfds_proc_tells(spawn: Spawn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Peers, "_open", staticmethod(lambda pid: None))
    with contextlib.closing(Peers()) as peers:
        zombie, gone, living = spawn(), spawn(), spawn()
        found = {child: peers.find(child.pid, None) for child in (zombie, gone, living)}
        assert peers.check_unwatched() is False
        kill_unreaped(zombie)
        gone.kill()
        gone.wait()
        assert peers.check_unwatched() is True
        dead = peers.died()
        assert sorted(dead, key=id) == sorted((found[zombie], found[gone]), key=id)
        assert peers.check_unwatched() is False
        assert peers.died() == []


def test_a_foreign_sender_is_its_connection(peers: Peers) -> None:
    one, two = peers.foreign(7, 1000), peers.foreign(8, 1000)
    assert isinstance(one, Peer)
    assert (one.info.pid, one.info.start, one.info.user_id, one.info.connection) == (0, None, 1000, 7)
    assert one.info.key != two.info.key
    assert len(peers) == 0
    assert peers.died() == []
    peers.remember_dead(one)


def test_close_closes_everything(spawn: Spawn) -> None:
    before = len(os.listdir("/proc/self/fd"))
    peers = Peers()
    peers.find(spawn().pid, None)
    peers.find(os.getpid(), None)
    peers.close()
    assert len(os.listdir("/proc/self/fd")) == before

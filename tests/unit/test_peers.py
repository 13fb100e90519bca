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
def owners() -> Iterator[Peers]:
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


def await_death(owners: Peers) -> None:
    assert select.select([owners.fileno()], [], [], PATIENCE)[0], "nobody died"


def kill_unreaped(child: subprocess.Popen[bytes]) -> None:
    """Dead but not waited for: a zombie."""
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)


def test_find_describes(owners: Peers, spawn: Spawn) -> None:
    child = spawn()
    owner = owners.find(child.pid, 1234)
    assert (owner.info.pid, owner.info.user_id) == (child.pid, 1234)
    assert isinstance(owner.info.start, int)
    assert owner.pidfd is not None
    assert not os.get_inheritable(owner.pidfd)
    assert not owner.gone
    assert owners.find(child.pid, 1234) is owner
    assert len(owners) == 1
    assert owners.died() == []


def test_a_name_only_the_exec_gives() -> None:
    with contextlib.closing(Peers()) as owners:
        owner = owners.find(os.getpid(), os.getuid())
        assert owner.info.command is not None
        assert "python" in owner.info.command or Path(sys.executable).name in owner.info.command


def test_a_death_is_noticed(owners: Peers, spawn: Spawn) -> None:
    dying, living = spawn(), spawn()
    owner, other = owners.find(dying.pid, None), owners.find(living.pid, None)
    assert not select.select([owners.fileno()], [], [], 0)[0]
    dying.kill()
    await_death(owners)
    assert owners.died() == [owner]
    owners.keep(owner)
    assert owners.died() == []
    assert len(owners) == 1
    assert owners.find(living.pid, None) is other


def test_a_zombie_is_dead(owners: Peers, spawn: Spawn) -> None:
    child = spawn()
    owner = owners.find(child.pid, None)
    kill_unreaped(child)
    assert owners.died() == [owner]


def test_a_zombie_met_for_the_first_time_is_dead(owners: Peers, spawn: Spawn) -> None:
    child = spawn()
    kill_unreaped(child)
    owner = owners.find(child.pid, None)
    assert owner.info.start is not None
    assert owners.died() == [owner]


def test_a_stopped_process_lives(owners: Peers, spawn: Spawn) -> None:
    child = spawn()
    owners.find(child.pid, None)
    child.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WNOWAIT)
    assert owners.died() == []


def test_a_pid_that_is_gone(owners: Peers, spawn: Spawn) -> None:
    child = spawn()
    child.kill()
    child.wait()
    owner = owners.find(child.pid, 77)
    assert (owner.gone, owner.info.start, owner.info.user_id, owner.pidfd) == (True, None, 77, None)
    assert owners.died() == [owner]
    assert owners.died() == [], "named once"
    owners.keep(owner)
    assert owners.find(child.pid, 77) is owner, "further words of the same dead process"


def test_last_words_find_their_sender(owners: Peers, spawn: Spawn) -> None:
    """Records read after the burial, while the process is a zombie and when it is gone."""
    child = spawn()
    owner = owners.find(child.pid, None)
    kill_unreaped(child)
    owners.died()
    owners.keep(owner)
    before = len(os.listdir("/proc/self/fd"))
    assert owners.find(child.pid, None) is owner
    child.wait()
    assert owners.find(child.pid, None) is owner
    assert len(owners) == 0
    assert len(os.listdir("/proc/self/fd")) == before, "no pidfd is left over"


def test_a_pid_used_again_is_somebody_else(owners: Peers, spawn: Spawn) -> None:
    child = spawn()
    owner = owners.find(child.pid, None)
    assert owner.info.start is not None
    owner.info = owner.info._replace(start=owner.info.start - 1)  # as if it had started before
    owners.keep(owner)
    other = owners.find(child.pid, None)
    assert other is not owner
    assert owners.died() == []


def test_a_death_between_two_looks_is_named_once(folder: Path, spawn: Spawn) -> None:
    """The pidfd could still be had, /proc no longer knows it: an empty root is that moment held still."""
    child = spawn()
    with contextlib.closing(Peers(str(folder))) as owners:
        owner = owners.find(child.pid, None)
        kill_unreaped(child)
        await_death(owners)
        assert owners.died() == [owner]


def test_burial_closes_the_pidfd_and_may_come_twice(owners: Peers, spawn: Spawn) -> None:
    owner = owners.find(spawn().pid, None)
    pidfd = owner.pidfd
    assert pidfd is not None
    owners.keep(owner)
    assert owner.pidfd is None
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(pidfd)
    owners.keep(owner)


def test_only_so_many_dead_are_remembered(owners: Peers, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setattr(module, "_REMEMBERED", 2)
    monkeypatch.setattr(Peers, "_open", staticmethod(lambda pid: None))
    with contextlib.closing(Peers(str(folder))) as nobody:
        first = [nobody.find(pid, None) for pid in (1, 2, 3)]
        for owner in first:
            nobody.keep(owner)
        assert nobody.find(3, None) is first[2]
        assert nobody.find(1, None) is not first[0]


def test_without_pidfds_proc_tells(spawn: Spawn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Peers, "_open", staticmethod(lambda pid: None))
    with contextlib.closing(Peers()) as owners:
        zombie, gone, living = spawn(), spawn(), spawn()
        found = {child: owners.find(child.pid, None) for child in (zombie, gone, living)}
        assert owners.check_unwatched() is False
        kill_unreaped(zombie)
        gone.kill()
        gone.wait()
        assert owners.check_unwatched() is True
        dead = owners.died()
        assert sorted(dead, key=id) == sorted((found[zombie], found[gone]), key=id)
        assert owners.check_unwatched() is False
        assert owners.died() == []


def test_a_foreign_sender_is_its_connection(owners: Peers) -> None:
    one, two = owners.foreign(7, 1000), owners.foreign(8, 1000)
    assert isinstance(one, Peer)
    assert (one.info.pid, one.info.start, one.info.user_id, one.info.connection) == (0, None, 1000, 7)
    assert one.info.key != two.info.key
    assert len(owners) == 0
    assert owners.died() == []
    owners.keep(one)


def test_close_closes_everything(spawn: Spawn) -> None:
    before = len(os.listdir("/proc/self/fd"))
    owners = Peers()
    owners.find(spawn().pid, None)
    owners.find(os.getpid(), None)
    owners.close()
    assert len(os.listdir("/proc/self/fd")) == before

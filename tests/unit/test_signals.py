# SPDX-License-Identifier: Apache-2.0
"""Signals reach only the intended process: real processes, ended, ignoring signals, of another user."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests import machines
from ttmem.documents import unknown_rows as blank
from ttmem.show.top.signals import Refused, check, send
from ttmem.sources.process_lookup import start_and_state

NOBODY = 65534
DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); signal.pause()"
PLAIN = "import signal; print(flush=True); signal.pause()"
Start = Callable[[str], "subprocess.Popen[bytes]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts children that are ready when it returns, and gone when the test is."""
    children: list[subprocess.Popen[bytes]] = []

    def run(code: str) -> subprocess.Popen[bytes]:
        child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
        children.append(child)
        assert child.stdout is not None
        child.stdout.readline()
        return child

    yield run
    for child in children:
        child.kill()
        child.wait()
        assert child.stdout is not None
        child.stdout.close()


def born(pid: int) -> int:
    known = start_and_state(pid)
    assert known is not None
    return known[0]


def process_of(pid: int | None, state: str = "tracked", **values: Any) -> dict[str, Any]:
    return {**blank.process(pid, state), "start": 5, **values}


def test_a_process_ends(start: Start) -> None:
    child = start(PLAIN)
    send(child.pid, born(child.pid), signal.SIGTERM)
    assert child.wait(30) == -signal.SIGTERM


def test_one_that_ignores_sigterm_is_killed(start: Start) -> None:
    """If the first signal had ended it, its status would show that."""
    child = start(DEAF)
    send(child.pid, born(child.pid), signal.SIGTERM)
    send(child.pid, born(child.pid), signal.SIGKILL)
    assert child.wait(30) == -signal.SIGKILL


def test_another_process_with_that_pid_is_not_hit(start: Start) -> None:
    child = start(PLAIN)
    with pytest.raises(Refused, match=rf"pid {child.pid} is another process by now \(.+\); SIGTERM was not sent"):
        send(child.pid, born(child.pid) - 1, signal.SIGTERM)
    send(child.pid, born(child.pid), signal.SIGKILL)
    assert child.wait(30) == -signal.SIGKILL


def test_the_start_is_looked_up_after_the_process_is_held(start: Start, folder: Path) -> None:
    """The data in /proc at that moment counts, not earlier data."""
    child = start(PLAIN)
    machines.Machine(folder).process(child.pid, name="newcomer", start=born(child.pid) + 10)
    with pytest.raises(Refused, match=r"another process by now \(newcomer\)"):
        send(child.pid, born(child.pid), signal.SIGTERM, str(folder))
    assert child.poll() is None


def test_one_that_has_ended(start: Start) -> None:
    child = start(PLAIN)
    began = born(child.pid)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # a zombie now, and it stays one
    with pytest.raises(Refused, match=f"pid {child.pid} has ended; SIGTERM was not sent"):
        send(child.pid, began, signal.SIGTERM)
    child.wait()
    with pytest.raises(Refused, match=r"has ended|is another process"):
        send(child.pid, began, signal.SIGTERM)


@contextmanager
def as_nobody() -> Iterator[None]:
    """The real user id counts as well; only the saved one stays, to return to it."""
    os.setresuid(NOBODY, NOBODY, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)


def test_another_users_process(start: Start) -> None:
    if os.getuid() != 0:  # then there is at least one that is not ours; this signal would not harm it
        with pytest.raises(Refused, match="SIGURG to pid 1 is not permitted: it is another user's"):
            send(1, born(1), signal.SIGURG)
        return
    child = start(PLAIN)
    began = born(child.pid)
    with as_nobody(), pytest.raises(Refused, match=f"SIGTERM to pid {child.pid} is not permitted: it is another user"):
        send(child.pid, began, signal.SIGTERM)
    assert child.poll() is None


@pytest.mark.parametrize(
    ("process", "readonly", "why"),
    [
        (process_of(4711), True, "started with --readonly"),
        (process_of(None), False, "no pid here: it runs in another pid namespace"),
        (process_of(4711, "exited"), False, "pid 4711 has exited"),
        (process_of(4711, "stale"), False, "pid 4711 is dead already"),
        (process_of(1), False, "pid 1 keeps the machine running"),
        (process_of(os.getpid()), False, f"pid {os.getpid()} is this dashboard"),
        (process_of(4711, start=None), False, "its start time is not known"),
    ],
)
def test_who_is_not_asked_for(process: dict[str, Any], readonly: bool, why: str) -> None:
    with pytest.raises(Refused, match=re.escape(why)):
        check(process, readonly=readonly)  # type: ignore[arg-type]


@pytest.mark.parametrize("state", ["tracked", "untracked"])
def test_who_may_be_ended(state: str) -> None:
    check(process_of(4711, state), readonly=False)  # type: ignore[arg-type]


def test_where_processes_cannot_be_held(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    child = start(PLAIN)
    began = born(child.pid)
    monkeypatch.delattr(os, "pidfd_open")
    with pytest.raises(Refused, match=f"SIGTERM was not sent to pid {child.pid}: pidfd_open does not work here"):
        send(child.pid, began, signal.SIGTERM)


def test_no_descriptor_is_left_open(start: Start) -> None:
    child = start(PLAIN)
    before = os.listdir("/proc/self/fd")
    with pytest.raises(Refused):
        send(child.pid, born(child.pid) + 1, signal.SIGTERM)
    send(child.pid, born(child.pid), signal.SIGTERM)
    assert len(os.listdir("/proc/self/fd")) == len(before)

# SPDX-License-Identifier: Apache-2.0
"""Runs a command under the agent, with the command's own signals, terminal and exit code."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ttmem.run.environment import variables
from ttmem.run.session import Session
from ttmem.sources import process_lookup as processes

_LOOK_MS = 20  # interval of reading rings
_EARLY_SECONDS, _EARLY_LOOK_SECONDS, _LOOK_SECONDS = 3.0, 0.05, 1.0  # between searches for untracked processes
# A terminal sends these to the whole foreground group, so they need not be passed on.
_FROM_TERMINAL = (signal.SIGINT, signal.SIGQUIT)
_PASSED_ON = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM)


class LaunchError(Exception):
    """The command could not be started; the message has the reason."""


class Ended(NamedTuple):
    """How a command ended. ``unseen`` are processes that loaded tt-metal and never reported."""

    exit_code: int
    duration: float
    unseen: dict[int, str]


class Apart:
    """Runs the command in a process group of its own, with its output in a file, until it ends or ``stop`` says so.

    The processes that it leaves behind are ended with it.
    """

    def __init__(self, output: int, stop: Callable[[], bool]) -> None:
        self.options: dict[str, Any] = {
            "stdin": subprocess.DEVNULL,
            "stdout": output,
            "stderr": output,
            "start_new_session": True,
        }
        self.stop = stop
        self.received: int | None = None  # a signal that was passed on

    def kill(self, child: subprocess.Popen[bytes], number: int = signal.SIGKILL) -> None:
        try:
            os.killpg(child.pid, number)
        except (ProcessLookupError, PermissionError):
            pass


def run(
    command: Sequence[str],
    session: Session,
    env: Mapping[str, str],
    socket: str | None,
    *,
    stacks: int | None = None,
    apart: Apart | None = None,
) -> Ended:
    """Run the command until it ends, and read the reports of its agents. With ``apart``, it gets no terminal."""
    environment = {**env, **variables(env, socket=socket, run_socket=session.path, stacks=stacks)}
    started = time.monotonic()
    handlers = {number: signal.getsignal(number) for number in (*_FROM_TERMINAL, *_PASSED_ON)}
    handlers = {number: handler for number, handler in handlers.items() if handler != signal.SIG_IGN}
    try:
        for number in _FROM_TERMINAL:
            if number in handlers:  # caught, not ignored: an ignored signal stays ignored in the child
                signal.signal(number, lambda *_: None)
        # Descriptors that the caller opened for the command (a pipe of the shell, a job server) are passed on.
        options: dict[str, Any] = {} if apart is None else apart.options
        child = subprocess.Popen(list(command), env=environment, close_fds=False, **options)
        for number in handlers:
            signal.signal(number, lambda received, _: _pass_on(child, received, apart))
        unseen = _collect(child, session, apart)
    except OSError as error:
        raise LaunchError(f"cannot run {command[0]}: {error.strerror}") from error
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    code = child.returncode
    duration = round(time.monotonic() - started, 3)
    return Ended(code if code >= 0 else 128 - code, duration, unseen)


def _in_foreground() -> bool:
    """Whether we are in the foreground of a terminal, which then also sends its signals to the command."""
    try:
        with open("/dev/tty") as terminal:
            return os.tcgetpgrp(terminal.fileno()) == os.getpgrp()
    except OSError:
        return False


def _pass_on(child: subprocess.Popen[bytes], number: int, apart: Apart | None) -> None:
    if apart is not None:
        apart.received = number
        apart.kill(child, number)
    elif child.poll() is None and not (number in _FROM_TERMINAL and _in_foreground()):
        child.send_signal(number)


def _collect(child: subprocess.Popen[bytes], session: Session, apart: Apart | None) -> dict[int, str]:
    """Read the reports of agents until the command has ended.

    Returns the processes that use tt-metal and never reported.
    """
    poller = select.poll()
    poller.register(session.fileno(), select.POLLIN)
    try:
        pidfd = os.pidfd_open(child.pid)
        poller.register(pidfd, select.POLLIN)
    except OSError:
        pidfd = -1
    suspects: dict[int, str] = {}
    started, next_look = time.monotonic(), 0.0
    try:
        while child.poll() is None:
            poller.poll(_LOOK_MS)
            session.turn()
            if apart is not None and apart.stop():
                apart.kill(child)
            if time.monotonic() > next_look:
                early = time.monotonic() - started < _EARLY_SECONDS
                next_look = time.monotonic() + (_EARLY_LOOK_SECONDS if early else _LOOK_SECONDS)
                suspects.update(processes.device_users(child.pid, known=_reporting(session)))
    finally:
        if pidfd >= 0:
            os.close(pidfd)
        if apart is not None:
            apart.kill(child)
    session.finish()
    reporting = _reporting(session)
    return {pid: name for pid, name in suspects.items() if pid not in reporting}


def _reporting(session: Session) -> set[int]:
    """The processes whose agent has reported."""
    return {process.info.pid for process in (*session.ledger.processes.values(), *session.ledger.departed)}

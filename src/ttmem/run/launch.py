# SPDX-License-Identifier: Apache-2.0
"""Runs a command under the agent: signals, terminal and exit code are the command's own."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ttmem.run.collect import Collector
from ttmem.run.environment import variables
from ttmem.sources import processes

_LOOK_MS = 20  # how often rings are looked at
_MAPS_SECONDS = 1.0
# A terminal sends these to the whole foreground group, so the command gets them without us.
_FROM_TERMINAL = (signal.SIGINT, signal.SIGQUIT)
_PASSED_ON = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM)


class LaunchError(Exception):
    """The command could not be started; the text says why."""


class Ended(NamedTuple):
    """How a command ended. ``unseen`` are processes that loaded tt-metal and never reported."""

    exit_code: int
    duration: float
    unseen: dict[int, str]


def run(command: Sequence[str], collector: Collector, env: Mapping[str, str], socket: str | None) -> Ended:
    """Start the command, collect until it ends."""
    environment = {**env, **variables(env, socket=socket, run_socket=collector.path)}
    started = time.monotonic()
    handlers = {number: signal.getsignal(number) for number in (*_FROM_TERMINAL, *_PASSED_ON)}
    for number in _FROM_TERMINAL:  # caught, not ignored: an ignored signal stays ignored in the child
        signal.signal(number, lambda *_: None)
    try:
        child = subprocess.Popen(list(command), env=environment)
    except OSError as error:
        raise LaunchError(f"cannot run {command[0]}: {error.strerror}") from None
    try:
        for number in _PASSED_ON:
            signal.signal(number, lambda received, _: _send(child, received))
        for number in _FROM_TERMINAL:
            signal.signal(number, lambda received, _: None if _in_foreground() else _send(child, received))
        unseen = _collect(child, collector)
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    code = child.returncode
    return Ended(code if code >= 0 else 128 - code, time.monotonic() - started, unseen)


def _in_foreground() -> bool:
    """Does a terminal send its signals to us, and so to the command as well?"""
    try:
        with open("/dev/tty") as terminal:
            return os.tcgetpgrp(terminal.fileno()) == os.getpgrp()
    except OSError:
        return False


def _send(child: subprocess.Popen[bytes], number: int) -> None:
    if child.poll() is None:
        child.send_signal(number)


def _collect(child: subprocess.Popen[bytes], collector: Collector) -> dict[int, str]:
    """Take in what agents say until the command has ended. Returns who loaded tt-metal and was never heard."""
    poller = select.poll()
    poller.register(collector.fileno(), select.POLLIN)
    try:
        pidfd = os.pidfd_open(child.pid)
        poller.register(pidfd, select.POLLIN)
    except OSError:
        pidfd = -1
    suspects: dict[int, str] = {}
    next_look = 0.0
    try:
        while child.poll() is None:
            poller.poll(_LOOK_MS)
            collector.turn()
            if time.monotonic() > next_look:
                next_look = time.monotonic() + _MAPS_SECONDS
                suspects.update(processes.device_users(child.pid))
    finally:
        if pidfd >= 0:
            os.close(pidfd)
    collector.finish()
    heard = {process.info.pid for process in (*collector.ledger.processes.values(), *collector.ledger.departed)}
    return {pid: name for pid, name in suspects.items() if pid not in heard}

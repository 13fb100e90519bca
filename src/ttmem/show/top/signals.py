# SPDX-License-Identifier: Apache-2.0
"""Sends a signal to a process, after checking that its pid still belongs to it."""

from __future__ import annotations

import errno
import os
import signal
from typing import TYPE_CHECKING

from ttmem.sources.process_lookup import is_dead, stat

if TYPE_CHECKING:
    from ttmem.model.schema import ProcessRow


class Refused(Exception):
    """Nothing was sent; the message is for the user."""


def check(process: ProcessRow, *, readonly: bool) -> tuple[int, int]:
    """The pid and start of a process that may be signalled; else Refused."""
    pid, start, state = process["pid"], process["start"], process["state"]
    if readonly:
        raise Refused("no signals: ttmem top was started with --readonly")
    if pid is None:
        raise Refused("it has no pid here: it runs in another pid namespace; end it from there")
    if state == "exited":
        raise Refused(f"pid {pid} has exited; there is nothing left to end")
    if state == "stale":
        raise Refused(f"pid {pid} is dead already, only tt-metal's counters still name it")
    if pid <= 1:
        raise Refused(f"pid {pid} keeps the machine running; ttmem does not end it")
    if pid == os.getpid():
        raise Refused(f"pid {pid} is this dashboard; q ends it")
    if start is None:
        raise Refused(f"pid {pid}: its start time is not known, so it cannot be told from another with that pid")
    return pid, start


def send(pid: int, start: int, number: signal.Signals, root: str = "/") -> None:
    """Send a signal to the process with this pid and start time.

    The order makes it safe: the descriptor is bound to the process that has the pid when it is opened. If the start
    time that is read afterwards is the expected one, the descriptor belongs to the expected process.
    """
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        raise Refused(f"pid {pid} has ended; {number.name} was not sent") from None
    except (AttributeError, OSError) as error:  # not in this Python, a kernel before 5.3, or forbidden in a container
        raise Refused(f"{number.name} was not sent to pid {pid}: pidfd_open does not work here: {error}") from None
    try:
        known = stat(pid, root)
        if known is None or (is_dead(known) and known[4] == start):
            raise Refused(f"pid {pid} has ended; {number.name} was not sent")
        if known[4] != start:
            raise Refused(f"pid {pid} is another process by now ({known[0]}); {number.name} was not sent")
        signal.pidfd_send_signal(descriptor, number)
    except OSError as error:
        raise Refused(_why(error, pid, number)) from None
    finally:
        os.close(descriptor)


def _why(error: OSError, pid: int, number: signal.Signals) -> str:
    if error.errno == errno.ESRCH:
        return f"pid {pid} has ended; {number.name} was not sent"
    if error.errno == errno.EPERM:
        return f"{number.name} to pid {pid} is not permitted: it is another user's; ask them, or root"
    return f"{number.name} was not sent to pid {pid}: {error.strerror or error}"

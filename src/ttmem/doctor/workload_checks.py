# SPDX-License-Identifier: Apache-2.0
"""Checks of the processes that use a device, and of our own environment: whether they report, or could report.

/proc/PID/environ is the environment at the start of a program. It lacks variables that the program set later, which may
be too late for tt-metal anyway.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator

from ttmem.collect.client import ENABLE_VARIABLE
from ttmem.doctor.context import DoctorContext, User
from ttmem.doctor.findings import Message, count, ok, some, unknown, warning

SHM_VARIABLE = "TT_METAL_SHM_TRACKING_DISABLED"
_RUN = "start it with `ttmem run -- COMMAND`, or with the variables of `ttmem env`"


def _hidden(context: DoctorContext) -> Iterator[Message]:
    """Processes that could not be inspected, reported once for all checks."""
    stuck = [user.label for user in context.users if user.hangs]
    if stuck:
        yield unknown(
            "/proc/*/environ and maps", f"{some(stuck)} cannot be examined: its memory is locked, it may hang",
            "`sudo cat /proc/PID/stack` shows where in the kernel, `dmesg | grep tenstorrent` shows why",
        )  # fmt: skip
    shut = [user.label for user in context.users if not user.hangs and (user.environ is None or user.agent is None)]
    if shut:
        yield unknown("/proc/*/environ and maps", f"you may not examine {some(shut)}", "run as that user or as root")
    state = next(source for source in context.machine["sources"] if source["name"] == "processes")
    if state["state"] == "incomplete":
        yield unknown("processes that hold a device", str(state["detail"]))


def untracked(context: DoctorContext) -> Iterator[Message]:
    """Processes that use a device and do not report."""
    looked = "/proc/*/maps of processes that use a device"
    yield from _hidden(context)
    silent = [user for user in context.users if user.agent is not None and user.pid not in context.reporting]
    bare = [user.label for user in silent if not user.agent]
    if bare:
        yield warning(looked, f"not tracked, without an agent and without a client: {some(bare)}", _RUN)
    for user in silent:
        if user.agent and context.snapshot is not None:
            yield warning(looked, f"{user.label} has the agent loaded, but does not report to the server", _mute(user))
    reporting = [user for user in context.users if user.pid in context.reporting]
    loaded = [user for user in silent if user.agent and context.snapshot is None]
    if not silent or loaded == silent:
        parts = [
            f"{count(len(reporting), 'process reports', 'processes report')}" if reporting else "",
            f"{count(len(loaded), 'process has', 'processes have')} the agent, but there is no server"
            if loaded
            else "",
        ]
        text = "; ".join(part for part in parts if part)
        if text or not any(_hidden(context)):
            yield ok(looked, text or "no process uses a device")


def _mute(user: User) -> str:
    """Why an agent does not report to our server."""
    environ = user.environ or {}
    if environ.get("TTMEM_AGENT") == "0":
        return "it was started with TTMEM_AGENT=0, which switches the agent off; start it without"
    if environ.get("TTMEM_SOCKET"):
        return f"it reports to TTMEM_SOCKET={environ['TTMEM_SOCKET']}; use that server (the same variable, or --socket)"
    return "it uses another server, or trusts none (see `sockets`), or its libraries bypass LD_PRELOAD (RTLD_DEEPBIND)"


def tracking_variable(context: DoctorContext) -> Iterator[Message]:
    """Whether TT_ALLOC_TRACKING_ENABLED is exactly "1", was set in time, and is used by the program."""
    patched: dict[tuple[int, int], bool] = {}
    problems: dict[tuple[str, str], list[str]] = {}
    for user in context.users:
        problem = _variable_of(user, context, patched)
        if problem is not None:
            problems.setdefault(problem, []).append(user.label)
    for (sentence, todo), labels in problems.items():
        yield warning("/proc/*/environ", f"{some(labels)}: {sentence}", todo)
    ours = context.env.get(ENABLE_VARIABLE)
    if ours not in (None, "1"):
        yield warning(f"{ENABLE_VARIABLE} here", *_inexact(ours))
    elif not problems:
        yield ok(
            ENABLE_VARIABLE,
            f"{'not set' if ours is None else 'it is 1'} here, and correct in every program that needs it",
        )


def _inexact(value: str | None) -> tuple[str, str]:
    return (
        f"{ENABLE_VARIABLE} is {value!r}, and only exactly '1' switches reporting on",
        f"`export {ENABLE_VARIABLE}=1` before the program is started",
    )


def _variable_of(user: User, context: DoctorContext, patched: dict[tuple[int, int], bool]) -> tuple[str, str] | None:
    """The problem with the variable of a process, and what to do about it."""
    if user.environ is None or user.agent or user.pid in context.reporting:
        return None
    value = user.environ.get(ENABLE_VARIABLE)
    if value not in (None, "1"):
        return _inexact(value)
    knows = _knows(user.metal, patched)
    if value is None and knows:
        return (
            f"can report, but was started without {ENABLE_VARIABLE}; setting it later has no effect",
            f"`export {ENABLE_VARIABLE}=1` before the program starts: tt-metal reads it once, when ttnn is imported",
        )
    if value == "1" and knows is False:
        return f"started with {ENABLE_VARIABLE}=1, which its tt-metal does not support: it is the stock version", _RUN
    return None


def _knows(metal: str | None, patched: dict[tuple[int, int], bool]) -> bool | None:
    """Whether this tt-metal is patched to report.

    None if it cannot be read. Cached, because processes share the file.
    """
    try:
        with open(metal or "", "rb") as file:
            status = os.fstat(file.fileno())
            key = status.st_dev, status.st_ino
            if key not in patched:
                with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                    patched[key] = data.find(ENABLE_VARIABLE.encode()) >= 0
            return patched[key]
    except (OSError, ValueError):
        return None


def shm_tracking(context: DoctorContext) -> Iterator[Message]:
    """Whether tt-metal's own counters are switched off."""
    off = [user.label for user in context.users if (user.environ or {}).get(SHM_VARIABLE, "").startswith("1")]
    todo = f"start it without {SHM_VARIABLE}; or with `ttmem run`, which does not need them"
    if off:
        yield warning("/proc/*/environ", f"{some(off)} was started with {SHM_VARIABLE}: tt-metal counts nothing", todo)
    if context.env.get(SHM_VARIABLE, "").startswith("1"):
        yield warning(f"{SHM_VARIABLE} here", "it is set: a program you start now is not counted by tt-metal", todo)
    elif not off:
        yield ok(SHM_VARIABLE, "not set, neither here nor in processes that use a device")

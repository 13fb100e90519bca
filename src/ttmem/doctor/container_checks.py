# SPDX-License-Identifier: Apache-2.0
"""Checks of the container that ttmem runs in, which may hide processes, counters and the server."""

from __future__ import annotations

import os
from collections.abc import Iterator

from ttmem.doctor import endpoints
from ttmem.doctor.context import DoctorContext
from ttmem.doctor.findings import Message, ok, some, warning

# The kernel's fixed numbers of the initial namespaces.
_FIRST = {"pid": "pid:[4026531836]", "ipc": "ipc:[4026531839]"}
_MARKS = ("docker", "kubepods", "containerd", "libpod", "lxc", "crio")
_SHARE = "docker run $(ttmem env --format docker) ..."


def container(context: DoctorContext) -> Iterator[Message]:
    """Whether this is a container, and which parts of the machine are visible from inside."""
    sign = _sign(context)
    foreign = {int(kmd): number for kmd, number in context.machine["foreign"].items() if number}
    pids = _is_first(context, "pid")
    if sign is None and pids is not False and not foreign:
        yield ok("/.dockerenv, /run/.containerenv, cgroups, namespaces", "not in a container")
        return
    where = f"in a container (according to {sign})" if sign else "outside of the host's pid namespace"
    fine = True
    if pids is False or foreign:
        fine = False
        hidden = f"; chip {some([str(kmd) for kmd in sorted(foreign)])} is held by a process outside" if foreign else ""
        yield warning(
            "/proc/self/ns/pid and /proc/driver/tenstorrent/*/pids",
            f"{where}: processes outside are not visible, and are shown as pid 0{hidden}",
            "start the container with `--pid=host`, or run ttmem on the host",
        )
    if _is_first(context, "ipc") is False:
        fine = False
        yield warning(
            "/proc/self/ns/ipc", f"{where}: it has its own /dev/shm, without tt-metal's counters of other processes",
            "start the container with `--ipc=host`, or run ttmem on the host",
        )  # fmt: skip
    if sign and all(endpoint.state == endpoints.NOTHING for endpoint in context.endpoints):
        fine = False
        yield warning(
            some([endpoint.path for endpoint in context.endpoints]), f"{where}: no socket of a server is mounted",
            f"if one runs on the host: `{_SHARE}` mounts its folder and sets TTMEM_SOCKET",
        )  # fmt: skip
    if fine:
        shared = "the host's processes and /dev/shm are visible" if pids else "its namespaces are not known"
        yield ok("/.dockerenv, cgroups, namespaces", f"{where}; {shared}")


def _sign(context: DoctorContext) -> str | None:
    """The sign by which a container is recognised, or None."""
    for file in ("/.dockerenv", "/run/.containerenv"):
        if os.path.exists(context.path(file)):
            return file
    for name in ("container", "KUBERNETES_SERVICE_HOST"):
        if context.env.get(name):
            return f"${name}"
    for file in ("/proc/self/cgroup", "/proc/1/cgroup"):
        mark = next((mark for mark in _MARKS if mark in (context.read(file) or "")), None)
        if mark is not None:
            return f"{mark} in {file}"
    return None


def _is_first(context: DoctorContext, kind: str) -> bool | None:
    """Whether this is the initial namespace. None if that cannot be read."""
    try:
        return os.readlink(context.path(f"/proc/self/ns/{kind}")) == _FIRST[kind]
    except OSError:
        return None

# SPDX-License-Identifier: Apache-2.0
"""Checks of /dev/shm and of tt-metal's counters there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from ttmem.doctor.context import DoctorContext
from ttmem.doctor.findings import Message, broken, count, ok, some, unknown, warning
from ttmem.documents.pool_amounts import sizes_text
from ttmem.model.units import human, parse

if TYPE_CHECKING:
    from ttmem.model.machine_rows import CounterFile

_FOLDER = "/dev/shm"
_DOCKER_SHM_BYTES = 64 << 20  # Docker's default
_LEAST_FREE_BYTES = 1 << 20  # a file for each of 32 chips, and UMD's locks
_KINDS: tuple[Literal["dram", "l1", "l1_small", "trace"], ...] = ("dram", "l1", "l1_small", "trace")


def shm(context: DoctorContext) -> Iterator[Message]:
    """Whether /dev/shm exists, is in memory, writable, and large enough."""
    path = context.path(_FOLDER)
    if not os.path.isdir(path):
        yield broken(
            _FOLDER, "it does not exist, so tt-metal can neither lock a device nor write its counters",
            f"`sudo mount -t tmpfs tmpfs {_FOLDER} -o mode=1777`",
        )  # fmt: skip
        return
    mount = _mount(context)
    fine = True
    if mount is not None and mount[0] != "tmpfs":
        fine = False
        yield warning(
            "/proc/mounts", f"{_FOLDER} is a {mount[0]}, not a tmpfs: its files survive a reboot, and it is slow",
            f"`sudo mount -t tmpfs tmpfs {_FOLDER} -o mode=1777`",
        )  # fmt: skip
    if not os.access(path, os.W_OK | os.X_OK):
        fine = False
        yield broken(_FOLDER, "you may not write there, but tt-metal must", f"`sudo chmod 1777 {_FOLDER}`")
    room = context.statvfs(path)
    total, free = room.f_blocks * room.f_frsize, room.f_bavail * room.f_frsize
    if mount is not None and mount[1] is not None:
        total = mount[1]
    sizes = f"{human(free)} of {human(total)} are free"
    if free < _LEAST_FREE_BYTES:
        fine = False
        yield broken(
            _FOLDER, f"{sizes}: a program that opens a device now ends with SIGBUS, or is not counted",
            f"find large files with `ls -lS {_FOLDER}`; files that no process uses can be removed (MPI: sm_segment.*)",
        )  # fmt: skip
    elif total <= _DOCKER_SHM_BYTES:
        fine = False
        yield warning(
            _FOLDER, f"{sizes}: enough for counters, but not for MPI, which needs 16 MiB per process",
            "start the container with `--shm-size=1g`, or with `--ipc=host`, which also shows the counters of others",
        )  # fmt: skip
    if fine:
        yield ok(_FOLDER, f"{'a tmpfs' if mount else 'there'}, writable, {sizes}")


def _mount(context: DoctorContext) -> tuple[str, int | None] | None:
    """(type, size if limited) of the last mount there; None if there is none."""
    found = None
    for line in (context.read("/proc/mounts") or "").splitlines():
        fields = line.split()
        if len(fields) >= 4 and fields[1] == _FOLDER:
            sizes = [option[5:] for option in fields[3].split(",") if option.startswith("size=")]
            try:
                found = fields[2], parse(sizes[0]) if sizes else None
            except ValueError:
                found = fields[2], None
    return found


def shm_files(context: DoctorContext) -> Iterator[Message]:
    """Which of tt-metal's counters can be read, and how many bytes of dead processes are in them."""
    files: list[CounterFile] = context.machine["shm"]
    pattern = f"{_FOLDER}/tt_device_*_memory"
    unreadable = [file for file in files if file["state"] == "unreadable"]
    odd = [file for file in files if file["state"] not in ("ok", "unreadable", "unready")]
    stale = [file for file in files if file["state"] == "ok" and any(size for _, size in _left(file))]
    if unreadable:
        owners = sorted({f"uid {file['owner']}" if file["owner"] is not None else "?" for file in unreadable})
        yield warning(
            pattern, f"{count(len(unreadable), 'file')} of {some(owners)} cannot be read: only their owners may",
            "run as that user or as root; a server of root (`ttmem serve --group NAME`) shows them to its group",
        )  # fmt: skip
    for file in odd:
        yield warning(
            file["path"], f"not understood: {file['why'] or file['state']}",
            "its numbers are left out; if no process uses the chip, remove the file",
        )  # fmt: skip
    yield from _left_over(stale)
    full = [file for file in files if file["state"] == "ok" and file["why"]]
    for file in full:
        yield warning(
            file["path"], file["why"] or "",
            "start the next job with `ttmem run`, which needs no slot; when no process uses the chip, remove the file",
        )  # fmt: skip
    if not files:
        state = next(source for source in context.machine["sources"] if source["name"] == "shm")
        if state["state"] == "unreadable":
            yield unknown(pattern, f"cannot be read: {state['detail']}")
        else:
            yield ok(pattern, "none: no tt-metal 0.70 or later has run here since the machine was started")
    elif not (unreadable or odd or stale or full):
        yield ok(pattern, f"{count(len(files), 'file')}, without bytes of dead processes")


def _left_over(files: list[CounterFile]) -> Iterator[Message]:
    """One finding for all files with left-over bytes of the same processes: a job on 32 chips leaves 32 files."""
    groups: dict[tuple[bool, tuple[int, ...]], list[CounterFile]] = {}
    for file in files:
        dead = tuple(slot["pid"] for slot in file["slots"] if slot["state"] in ("dead", "reused"))
        groups.setdefault((any(slot.get("unsure") for slot in file["slots"]), dead), []).append(file)
    for (unsure, dead), left in groups.items():
        pids = f" (pid {some([str(pid) for pid in dead])})" if dead else ""
        paths = [file["path"] for file in left]
        remove = f"`rm {paths[0]}`" if len(left) == 1 else "remove these files"
        todo = f"ttmem does not count them, but other tools do. When no process uses the chip: {remove}"
        if unsure:
            whose, todo = (
                f"are dead, or not visible from here{pids},",
                "ttmem does not count them; run `ttmem doctor` on the host",
            )
        else:
            whose = f"are dead{pids}" if dead else "are dead, or that have no slot there,"
        sizes = sizes_text(item for file in left for item in _left(file))
        yield warning(some(paths), f"{sizes} of processes that {whose} are still in {_it(left)}", todo)


def _it(files: list[CounterFile]) -> str:
    return "it" if len(files) == 1 else f"these {len(files)} files"


def _left(file: CounterFile) -> list[tuple[str, int]]:
    """Bytes of each kind that belong to no living process."""
    dead, stale = [slot for slot in file["slots"] if slot["state"] in ("dead", "reused")], file["stale"]
    slots = {kind: sum(slot[kind] for slot in dead) for kind in _KINDS}
    return [(kind, size if stale is None else max(size, stale[kind])) for kind, size in slots.items()]

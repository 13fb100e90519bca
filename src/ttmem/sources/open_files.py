# SPDX-License-Identifier: Apache-2.0
"""Finds processes that have a chip's device file open, from the links in /proc/PID/fd.

For drivers without a list of holders, and for holders that the list does not contain. The links are read and never
followed into a device.
"""

from __future__ import annotations

import os
import re

from ttmem.sources import process_lookup as processes
from ttmem.sources import sysfs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    Held = dict[int, set[int]]  # pid to the driver's numbers of chips

_DEVICE = "/dev/tenstorrent/"
_ONE_THREAD = 3  # link count of /proc/PID/task: two for every folder, and one per thread


def scan(kmds: Iterable[int], root: str = "/") -> tuple[Held, str | None]:
    """The processes that have these chips open, and what could not be read; OSError if nothing can be read."""
    proc = os.path.join(root, "proc")
    devices = _Devices(kmds, root)
    held: Held = {}
    closed = 0
    for name in os.listdir(proc):
        if not name.isdigit():
            continue
        try:
            chips = {chip for link in _links(f"{proc}/{name}") if (chip := devices.chip(*link)) is not None}
        except OSError:
            closed += _could_hold(int(name), root)
        else:
            if chips:
                held[int(name)] = chips
    if closed:
        return held, f"{closed} process{'es' if closed > 1 else ''} could not be examined"
    return held, "other users' processes are hidden (/proc is mounted with hidepid)" if hides(root) else None


def hides(root: str = "/") -> bool:
    """Whether /proc shows only our own processes."""
    if os.path.exists(os.path.join(root, "proc/1")):
        return False
    mounts = processes.read(os.path.join(root, "proc/self/mounts"), 1 << 20) or b""
    fields = (line.split() for line in mounts.splitlines())
    return any(len(field) > 3 and field[1] == b"/proc" and b"hidepid=" in field[3] for field in fields)


def _links(process: str) -> Iterator[tuple[str, str]]:
    """(descriptor, target) of everything that is open in one process and could be a chip."""
    folder = f"{process}/fd"
    names = _names(folder)
    # If the first thread of a process has ended, only its other threads show descriptors.
    if names or not _has_threads(process):
        yield from _matches(folder, names)
        return
    for thread in _names(f"{process}/task"):
        folder = f"{process}/task/{thread}/fd"
        yield from _matches(folder, _names(folder))


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except (FileNotFoundError, ProcessLookupError):  # has exited
        return []


def _has_threads(process: str) -> bool:
    try:
        return os.stat(f"{process}/task").st_nlink > _ONE_THREAD
    except (FileNotFoundError, ProcessLookupError):
        return False


def _matches(folder: str, names: list[str]) -> Iterator[tuple[str, str]]:
    for name in names:
        path = f"{folder}/{name}"
        try:
            target = os.readlink(path)
        except (FileNotFoundError, ProcessLookupError):  # was closed
            continue
        if _DEVICE in target:
            yield path, target


class _Devices:
    """The chips to search for.

    They are identified by device number first, because a chip may have another name in a container.
    """

    def __init__(self, kmds: Iterable[int], root: str) -> None:
        self._kmds = set(kmds)
        self._before = ("", root.rstrip("/"))
        self._by_number: dict[int, int] = {}
        for kmd in self._kmds:
            text = sysfs.read(os.path.join(root, f"sys/class/tenstorrent/tenstorrent!{kmd}/dev")) or ""
            if match := re.fullmatch(r"([0-9]{1,4}):([0-9]{1,7})", text):
                self._by_number[os.makedev(int(match[1]), int(match[2]))] = kmd

    def chip(self, descriptor: str, target: str) -> int | None:
        before, _, number = target.rpartition(_DEVICE)
        if not (number.isascii() and number.isdigit()):  # " (deleted)" may follow
            return None
        try:
            kmd = self._by_number.get(os.stat(descriptor).st_rdev)  # stat of the open file; opens nothing
        except OSError:
            kmd = None
        if kmd is None and before in self._before and int(number) in self._kmds:
            kmd = int(number)
        return kmd


def _could_hold(pid: int, root: str) -> bool:
    """Whether an unreadable process could hold a chip. Kernel threads and dead processes cannot."""
    known = processes.stat(pid, root)
    if known is None:  # it has exited, or even its stat is unreadable
        return os.path.exists(os.path.join(root, f"proc/{pid}"))
    return not known[2] & processes.KERNEL_THREAD and not processes.is_dead(known)

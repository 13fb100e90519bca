# SPDX-License-Identifier: Apache-2.0
"""What /proc says about one process."""

from __future__ import annotations

import os
from collections.abc import Container

from ttmem.account.identity import ProcessInfo

_MAX_COMMAND = 4096


def _read(path: str, limit: int = 1 << 16) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read(limit)
    except OSError:
        return None


def start_and_state(pid: int, root: str = "/") -> tuple[int, str] | None:
    """(start time in ticks since boot, state letter), None if there is no such process."""
    stat = _read(os.path.join(root, f"proc/{pid}/stat"))
    if stat is None:
        return None
    fields = stat[stat.rfind(b")") + 2 :].split()  # the name before may hold spaces and parentheses
    try:
        return int(fields[19]), fields[0].decode()
    except (IndexError, ValueError):
        return None


def describe(pid: int, uid: int | None, root: str = "/") -> ProcessInfo:
    """Name, command line and start time; what can no longer be read is None."""
    born = start_and_state(pid, root)
    if born is None:
        return ProcessInfo(pid, None, uid)
    name = _read(os.path.join(root, f"proc/{pid}/comm"))
    command = _read(os.path.join(root, f"proc/{pid}/cmdline"), _MAX_COMMAND)
    return ProcessInfo(
        pid,
        born[0],
        uid,
        _printable(name.rstrip(b"\n")) if name else None,
        _printable(command.rstrip(b"\0").replace(b"\0", b" ")) if command else None,
    )


def visible_devices(pid: int, root: str = "/") -> list[str] | None:
    """The chips a process restricted itself to with TT_VISIBLE_DEVICES; None if it did not, or we may not know."""
    environ = _read(os.path.join(root, f"proc/{pid}/environ"), 1 << 20)
    for entry in (environ or b"").split(b"\0"):
        name, _, value = entry.partition(b"=")
        if name == b"TT_VISIBLE_DEVICES":
            found = [part.strip() for part in value.decode("utf-8", "replace").split(",")]
            return [part for part in found if part] or None
    return None


def _printable(raw: bytes) -> str:
    """Text that cannot upset a terminal."""
    return "".join(c if c.isprintable() else "?" for c in raw.decode("utf-8", "replace"))


def descendants(pid: int, root: str = "/") -> list[int]:
    """A process and all that descend from it, as far as they can be seen."""
    found: list[int] = []
    waiting = [pid]
    while waiting and len(found) < 4096:
        one = waiting.pop()
        found.append(one)
        try:
            tasks = os.listdir(os.path.join(root, f"proc/{one}/task"))
        except OSError:
            continue
        for task in tasks:
            children = _read(os.path.join(root, f"proc/{one}/task/{task}/children")) or b""
            waiting += [int(child) for child in children.split() if child.isdigit()]
    return found


def device_users(pid: int, root: str = "/", known: Container[int] = ()) -> dict[int, str]:
    """Which of a process and its descendants use a device through tt-metal unseen, by what they have mapped.

    Who has an agent's memory mapped is tracked, or was forked from one that is; ``known`` need not be looked at.
    """
    users = {}
    for one in descendants(pid, root):
        if one in known:
            continue
        maps = _read(os.path.join(root, f"proc/{one}/maps"), 1 << 24) or b""
        if b"/memfd:ttmem" in maps:
            continue
        if b"libtt_metal" in maps and (b"/dev/tenstorrent/" in maps or b"/dev/shm/tt_device_" in maps):
            users[one] = describe(one, None, root).name or "?"
    return users

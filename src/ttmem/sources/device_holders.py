# SPDX-License-Identifier: Apache-2.0
"""Finds the processes that hold each chip, from the driver's list, else from the open files of all processes.

The driver lists the process that *opened* a chip, as long as that descriptor is open in any process. So a child that
inherited the descriptor is not listed. If the opener has exited, an heir holds the chip, and only the open files show
which. Before tt-kmd 2.7, the listed pid is the one in the opener's own pid namespace, so the pid of a process in a
container may belong to another process here.
"""

from __future__ import annotations

import os
import re
from functools import partial

from ttmem.sources import open_files, sysfs
from ttmem.sources import process_lookup as processes
from ttmem.sources.polling import Rounds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from ttmem.model.machine_rows import HolderRow, HoldersLook
    from ttmem.sources.open_files import Held

_MAX_PID = 1 << 22
_MAX_LIST_BYTES = 1 << 20
_UNFOUND = "its process is not visible from here"
# Reads that may be slow: the kernel reads a command line from the memory of the process.
_SLOW: Mapping[str, Callable[[int, str], object]] = {
    "command": processes.command,
    "container": processes.container,
    "job": processes.job,
}


class Holders:
    """Reads the holders repeatedly. A process is described once, and again when its name changes.

    >>> Holders("/nowhere").look([0])["state"]
    'absent'
    """

    def __init__(self, root: str = "/", patience: float = 0.5) -> None:
        self._root = root
        # Separate, because a round that does not request a job drops its late answer.
        self._driver, self._slow = Rounds(patience), Rounds(patience)
        self._known: dict[int, HolderRow] = {}
        self._told: set[tuple[str, int, int | None]] = set()  # (what, pid, start) that need not be read again
        self._users: dict[int, str | None] = {}

    def look(self, kmds: list[int]) -> HoldersLook:
        """The processes that hold the chips with these numbers, and how certain that is.

        ``foreign`` counts descriptors, because nothing else is visible of holders outside our pid namespace.
        """
        notes: list[str] = []
        foreign: dict[int, int] = {}
        via = "driver"
        lists = self._lists(kmds)
        if not all(isinstance(content, FileNotFoundError) for content in lists.values()):
            held, foreign = _parse(lists, notes)
            if self._numbers_are_inner():
                held = self._recount(held, notes)
            else:
                self._replace_the_gone(held, notes)
        else:
            via = "descriptors"
            found, unseen = self._scan(kmds) if kmds else (None, "there is no chip")
            if found is None:
                return {"state": "absent", "why": unseen, "via": None, "processes": [], "foreign": {}}
            held = found
            if unseen:
                notes.append(f"{unseen}; {_advice()}, or use tt-kmd 2.7 or later, which lists holders for all users")
        self._known = self._rows(held, notes)
        state = "incomplete" if notes else "ok"
        self._find_out(notes)
        rows: list[HolderRow] = [
            {**row, "user": self._user_of(row), "holds": sorted(held[pid])} for pid, row in self._known.items()
        ]
        return {"state": state, "why": "; ".join(notes) or None, "via": via, "processes": rows, "foreign": foreign}

    def _user_of(self, row: HolderRow) -> str | None:
        return None if row["user_id"] is None else self._users.get(row["user_id"])

    def _lists(self, kmds: Iterable[int]) -> dict[int, bytes | BaseException]:
        """The driver's list for each chip, or why there is none. The read blocks while the driver resets a chip."""
        outcomes = self._driver.run({kmd: partial(_read_list, self._root, kmd) for kmd in kmds})
        hangs = TimeoutError("the driver does not answer")
        return {kmd: hangs if one.hangs else one.error or one.value for kmd, one in outcomes.items()}

    def _numbers_are_inner(self) -> bool:
        version = sysfs.read(os.path.join(self._root, "sys/module/tenstorrent/version")) or ""
        return re.match(r"2\.[56]\.", version) is not None

    def _recount(self, listed: Held, notes: list[str]) -> Held:
        """Replace pids that may come from a container by those of processes with open files."""
        chips = _chips(listed)
        found, unseen = self._scan(chips) if chips else ({}, None)
        if found is not None and unseen is None and _chips(found) == chips:
            return found
        notes.append(
            "tt-kmd before 2.7 may list a process of a container with the pid of another process; "
            f"{unseen or _UNFOUND}; {_advice()}, or update tt-kmd"
        )
        return listed

    def _replace_the_gone(self, held: Held, notes: list[str]) -> None:
        """If the process that opened a chip has exited, replace it by those that inherited the descriptor."""
        gone = {pid: held.pop(pid) for pid in list(held) if not self._lives(pid)}
        if not gone:
            return
        # A process may have closed its chips normally since the list was read.
        listed = _parse(self._lists(_chips(gone)), [])[0]
        left = {pid: listed[pid] for pid in gone if pid in listed}
        if not left:
            return
        chips = _chips(left)
        found, unseen = self._scan(chips)
        for heir, have in (found or {}).items():
            held.setdefault(heir, set()).update(have)
        if unseen or _chips(found or {}) != chips:
            openers = ", ".join(str(pid) for pid in sorted(left))
            numbers = ", ".join(str(chip) for chip in sorted(chips))
            notes.append(
                f"chip {numbers}: opened by process {openers}, which has exited, and inherited by another; "
                f"{unseen or _UNFOUND}; {_advice()}"
            )

    def _lives(self, pid: int) -> bool:
        known = processes.stat(pid, self._root)
        return not processes.is_dead(known) if known else open_files.hides(self._root)

    def _scan(self, kmds: Iterable[int]) -> tuple[Held | None, str | None]:
        try:
            return open_files.scan(kmds, self._root)
        except OSError as error:
            return None, f"{error.filename}: {error.strerror}"

    def _rows(self, held: Held, notes: list[str]) -> dict[int, HolderRow]:
        """What is known about each holder so far. Our own process is never listed."""
        try:
            ourselves = int(os.readlink(os.path.join(self._root, "proc/self")))
        except (OSError, ValueError):
            ourselves = None
        rows = {}
        hidden = 0
        for pid in sorted(held.keys() - {ourselves}):
            known = processes.stat(pid, self._root)
            if known:
                if not processes.is_dead(known):
                    rows[pid] = self._row(pid, known)
            elif open_files.hides(self._root):
                rows[pid] = _blank(pid)
                hidden += 1
        if hidden:
            notes.append(f"of {hidden} only the pid is shown (/proc is mounted with hidepid); {_advice()}")
        return rows

    def _row(self, pid: int, known: processes.Stat) -> HolderRow:
        name, letter, _, _, start = known
        row = self._known.get(pid)
        if row is None or row["start"] != start:
            row = _blank(pid)
        if row["name"] != name:
            user_id, inner_pid = processes.owner(pid, self._root)
            row["start"], row["user_id"], row["name"] = start, user_id, name
            row["command"], row["inner_pid"] = None, inner_pid
            self._told.discard(("command", pid, start))
        row["letter"] = letter
        return row

    def _find_out(self, notes: list[str]) -> None:
        """Start the reads that may be slow; a late result is used in a later round."""
        keys = {(what, pid, row["start"]) for pid, row in self._known.items() for what in _SLOW}
        self._told &= keys
        jobs = {(what, pid, start): partial(_SLOW[what], pid, self._root) for what, pid, start in keys - self._told}
        owners = {user_id for row in self._known.values() if (user_id := row["user_id"]) is not None}
        names = {("name", owner): partial(processes.user, owner) for owner in owners - self._users.keys()}
        for key, outcome in self._slow.run({**jobs, **names}).items():
            if outcome.hangs:
                whose = "user" if key[0] == "name" else "process"
                notes.append(f"the {key[0]} of {whose} {key[1]} could not be read in time")
            elif key[0] == "name":
                self._users[key[1]] = outcome.value
            else:
                row: Any = self._known[key[1]]
                row[key[0]] = outcome.value
                self._told.add(key)


def _advice() -> str:
    return "run as root to see all" if os.geteuid() else "run ttmem on the host, with all capabilities, to see all"


def _blank(pid: int) -> HolderRow:
    """The row of a process about which nothing is known."""
    return {
        "pid": pid,
        "start": None,
        "user_id": None,
        "user": None,
        "name": None,
        "command": None,
        "container": None,
        "job": None,
        "inner_pid": None,
        "letter": None,
        "holds": [],
    }


def _chips(held: Held) -> set[int]:
    return set().union(*held.values())


def _read_list(root: str, kmd: int) -> bytes:
    with open(os.path.join(root, f"proc/driver/tenstorrent/{kmd}/pids"), "rb") as file:
        return file.read(_MAX_LIST_BYTES)


def _parse(lists: dict[int, bytes | BaseException], notes: list[str]) -> tuple[Held, dict[int, int]]:
    """The pids in the driver's lists (one line per descriptor), and the descriptors without a visible process."""
    held: Held = {}
    foreign: dict[int, int] = {}
    for kmd, content in lists.items():
        if isinstance(content, BaseException):
            why = content.strerror if isinstance(content, OSError) and content.strerror else str(content)
            notes.append(f"chip {kmd}: its list of holders cannot be read ({why})")
            continue
        garbage = 0
        for line in content.split():
            pid = int(line) if line.isdigit() and len(line) < 8 else _MAX_PID
            if pid == 0:
                foreign[kmd] = foreign.get(kmd, 0) + 1
            elif pid < _MAX_PID:
                held.setdefault(pid, set()).add(kmd)
            else:
                garbage += 1
        if garbage:
            notes.append(f"chip {kmd}: invalid lines in its list of holders: {garbage}")
    return held, foreign

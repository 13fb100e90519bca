# SPDX-License-Identifier: Apache-2.0
"""Processes in the order of a tree, with their parents from /proc."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ttmem.sources.process_lookup import read

if TYPE_CHECKING:
    from ttmem.model.schema import ProcessRow


def parent(pid: int, root: str = "/") -> int | None:
    """The pid of a process's parent; None if not known."""
    line = read(os.path.join(root, f"proc/{pid}/stat")) or b""
    fields = line[line.rfind(b")") + 1 :].split()  # the name may contain spaces and parentheses
    try:
        return int(fields[1])
    except (IndexError, ValueError):
        return None


class Parents:
    """Parents of the processes in a list. Each is looked up once, so a child keeps a parent that has exited."""

    def __init__(self, root: str | None = "/") -> None:
        """``root`` has the files of the machine; None if no parent is known."""
        self._root = root
        self._known: dict[tuple[int, int | None], int | None] = {}

    def of(self, processes: list[ProcessRow]) -> dict[int, int]:
        """For each index of a process, the index of its parent, if the parent is in the list."""
        places: dict[int, int] = {}
        for place, process in enumerate(processes):
            if process["pid"] is not None:
                places.setdefault(process["pid"], place)
        known, found = {}, {}
        for place, process in enumerate(processes):
            pid = process["pid"]
            if pid is None:
                continue
            who = (pid, process["start"])
            if who not in self._known:
                alive = process["state"] in ("tracked", "untracked")
                self._known[who] = parent(pid, self._root) if alive and self._root is not None else None
            known[who] = self._known[who]
            above = places.get(known[who] or 0)
            if above is not None and above != place and _older(processes[above], process):
                found[place] = above
        self._known = known  # without processes that are no longer listed
        return found


def _older(parent: ProcessRow, child: ProcessRow) -> bool:
    """Whether the parent is older than the child; else it is another process with the parent's old pid."""
    return parent["start"] is None or child["start"] is None or parent["start"] <= child["start"]


def tree(count: int, above: dict[int, int], ascii: bool) -> Iterator[tuple[int, str]]:
    """Indices in the order of the tree, each with the branch to draw before its name.

    >>> list(tree(3, {0: 2, 1: 2}, ascii=True))
    [(2, ''), (0, '|- '), (1, '`- ')]
    """
    last, more, rail = ("`- ", "|- ", "|  ") if ascii else ("└─ ", "├─ ", "│  ")
    below: dict[int, list[int]] = {}
    for child, place in above.items():
        below.setdefault(place, []).append(child)
    seen: set[int] = set()
    # Processes whose parents form a cycle, which only wrong data can have, come last, unchanged.
    for start in (*(place for place in range(count) if place not in above), *above):
        waiting = [] if start in seen else [(start, "", "")]
        while waiting:
            place, branch, rails = waiting.pop()
            if place in seen:
                continue
            seen.add(place)
            yield place, branch
            children = sorted(below.get(place, ()))
            for child in reversed(children):
                is_last = child == children[-1]
                waiting.append((child, rails + (last if is_last else more), rails + ("   " if is_last else rail)))

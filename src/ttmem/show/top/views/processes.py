# SPDX-License-Identifier: Apache-2.0
"""View 4: processes that hold or held memory of a chip: sort, filter, tree, and signals to end one."""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Hashable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from ttmem.show.chip_table import Names
from ttmem.show.process_table import user_of
from ttmem.show.text import Style, wrap
from ttmem.show.top.parts.listing import (
    Cursor,
    Placed,
    Prompt,
    arrange,
    chosen,
    counted,
    finished,
    heading,
    no_server,
    rule,
)
from ttmem.show.top.parts.process_bars import bar_rows
from ttmem.show.top.parts.process_details import details, title
from ttmem.show.top.parts.process_rows import DOWN, USER, Entry, ProcessRows, columns, matches, parts, sorter
from ttmem.show.top.parts.process_tree import Parents, tree
from ttmem.show.top.parts.rows import Characters, Row, Size
from ttmem.show.top.signals import Refused, check, send

if TYPE_CHECKING:
    from ttmem.model.schema import ProcessRow
    from ttmem.show.top.dashboard_state import Model

Who = tuple[int, int]  # pid, start

_LAST = {"stale": 1, "exited": 2}  # sorted below the others, because they no longer hold memory


class Confirmation(NamedTuple):
    """A signal that waits for the user's confirmation."""

    process: ProcessRow
    pid: int
    start: int
    number: signal.Signals


class Processes:
    """The processes that use the chips."""

    name = "Processes"
    keys: tuple[tuple[str, str], ...] = (
        ("s, S", "sort by the next column, reverse; or click a column title"),
        ("/", "filter by pid, user, name, command, container, or user:NAME"),
        ("u", "only processes of the selected process's user, or all"),
        ("enter, x", "open a process: its memory by chip and kind"),
        ("T", "tree: children below their parents"),
        ("K", "end a process: SIGTERM, the second time SIGKILL; asks first"),
    )

    kept = ("sort", "turned", "tree")  # attributes that are stored between runs

    def __init__(self, *, root: str | None = "/", booted: float | None = None) -> None:
        """``root`` has the files of the machine; None if the processes are not on this machine, as in a recording."""
        self._root = root
        if booted is None and root is not None:
            booted = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
        self._booted = booted  # None: not known
        self._parents = Parents(root)
        self._cursor = Cursor()
        self.sort, self.turned = "dram", False
        self._filter = ""
        self._prompt: Prompt | None = None
        self._question: Confirmation | None = None
        self._warned: set[Who] = set()  # processes that got a SIGTERM
        self.tree = False
        self._open: set[Hashable] = set()
        self._entries: list[Entry] = []
        self._placed: list[Placed] = []
        self._seen = range(0)

    # -- rows ------------------------------------------------------------------------------------------------------

    def wants(self, model: Model) -> list[str]:
        return []

    def rows(self, model: Model, size: Size, signs: Characters) -> list[Row]:
        style = Style(size.width, ascii=signs.ascii)
        names = Names(model.chips, style, model.numbers)
        if self.sort not in tuple(DOWN):  # the file of settings may contain anything
            self.sort = "dram"
        self._placed = arrange(columns(size.width, model.processes, names, self.tree), size.width)
        text = self._filter.lower()
        listed = [process for process in model.processes if matches(process, text)] if text else model.processes
        self._entries = list(self._listed(listed, names, signs))
        status = self._status(model, len(listed), size.width, style)
        if not listed:
            self._seen = range(0)
            return finished([status, [], *_nothing(model, self._filter, style)], size)
        panel = min(10, max(4, size.height // 3)) if size.height >= 12 else 0
        height = min(len(self._entries), max(1, size.height - 3 - panel))
        self._seen = self._cursor.look([entry.key for entry in self._entries], height)
        rows = [status, heading(self._placed, size.width, signs, self.sort, self._down())]
        shown = ProcessRows(model, names, self._booted, style, self._placed)
        for place in self._seen:
            row = shown.row(self._entries[place])
            rows.append(chosen(row) if place == self._cursor.place else row)
        rows.append([(f" {shown.legend()}", "dim")])
        process = self._entries[self._cursor.place].process
        if panel:
            notes = [] if model.snapshot is None else model.snapshot.get("notes", [])
            rows.append(rule(style.clean(title(process)), size.width, signs))
            rows += details(process, notes, names, shown.now, self._booted, style)
            if len(rows) + 1 < size.height:
                rows += [[], *bar_rows(process, model.chips, names, style)]
        return finished(rows, size)

    def _status(self, model: Model, listed: int, width: int, style: Style) -> Row:
        if self._question is not None:
            who = style.clean(title(self._question.process))
            return [(f"send {self._question.number.name} to {who}? y/n", "bad")]
        if self._prompt is not None:
            return self._prompt.row(width, style)
        counts = Counter(process["state"] for process in model.processes)
        states = [f"{counts[state]} {state}" for state in ("tracked", "untracked", "stale", "exited") if counts[state]]
        row: Row = [(counted(len(model.processes), "process", "processes"), "bold"), (f"  {', '.join(states)}", "")]
        if self._filter:
            row.append((f"  {listed} match {style.clean(self._filter)!r}", "warn"))
        return [*row, ("  tree", "key")] if self.tree else row

    def _listed(self, processes: list[ProcessRow], names: Names, signs: Characters) -> Iterator[Entry]:
        """All rows, in order."""
        ordered = self._sorted(processes, names)
        places = tree(len(ordered), self._parents.of(ordered), signs.ascii) if self.tree else _flat(len(ordered))
        twins: Counter[Hashable] = Counter()  # processes without a pid may look the same
        for place, branch in places:
            process = ordered[place]
            key: Hashable = (process["pid"], process["start"], process["exited"])
            if process["pid"] is None:
                twins[key] += 1
                key = (key, twins[key])
            yield Entry(key, process, branch)
            if key in self._open:
                yield from parts(key, process, names)

    def _down(self) -> bool:
        return DOWN[self.sort] is not bool(self.turned)

    def _sorted(self, processes: list[ProcessRow], names: Names) -> list[ProcessRow]:
        """Living processes first, and unknown values last, in both directions."""
        value, down = sorter(self.sort, names, self._booted), self._down()
        sign = -1 if down else 1

        def place(process: ProcessRow) -> tuple[int, bool, Any]:
            found = value(process)
            return sign * _LAST.get(process["state"], 0), (found is None) is not down, 0 if found is None else found

        return sorted(processes, key=place, reverse=down)

    # -- keys and clicks -------------------------------------------------------------------------------------------

    def press(self, key: str, model: Model) -> bool:
        if self._question is not None:
            self._answer(key, model)
        elif self._prompt is not None:
            meant = self._prompt.press(key)
            self._filter = "" if meant is False else self._prompt.text
            self._prompt = None if meant is not None else self._prompt
        elif key == "slash":
            self._prompt = Prompt("Filter:", self._filter)
        elif key == "u":
            self._toggle_user(model)
        elif key == "escape" and self._filter:
            self._filter = ""
        elif key == "s":
            shown = [one.column.name for one in self._placed] or [self.sort]
            place = shown.index(self.sort) if self.sort in shown else -1
            self.sort, self.turned = shown[(place + 1) % len(shown)], False
        elif key == "S":
            self.turned = not self.turned
        elif key == "T":
            self.tree = not self.tree
        elif key in ("enter", "x"):
            self._toggle()
        elif key == "K":
            self._ask(model)
        else:
            return self._cursor.press(key)
        return True

    def click(self, x: int, y: int, model: Model) -> bool:
        if y == 1 and self._entries:
            for one in self._placed:
                if one.x <= x <= one.x + one.width:
                    self.turned = one.column.name == self.sort and not self.turned
                    self.sort = one.column.name
                    return True
        place = self._seen.start + y - 2
        if y < 2 or place not in self._seen:
            return False
        if place == self._cursor.place and self._cursor.moved:
            self._toggle()
        self._cursor.go(place)
        return True

    def _current(self) -> Entry | None:
        return self._entries[self._cursor.place] if self._cursor.place < len(self._entries) else None

    def _toggle(self) -> None:
        """Open or close the process of the selected row, and move the cursor to the process."""
        entry = self._current()
        if entry is not None:
            key = entry.key if entry.below is None else entry.below
            self._open ^= {key}
            self._cursor.key, self._cursor.moved = key, True

    def _toggle_user(self, model: Model) -> None:
        """Filter by the user of the selected process; if there is such a filter, remove it."""
        words = self._filter.split()
        others = [word for word in words if not word.lower().startswith(USER)]
        entry = self._current()
        if len(others) == len(words):
            if entry is None or (entry.process["user"] is None and entry.process["user_id"] is None):
                model.message = "the user of this process is not known"
                return
            others.insert(0, f"{USER}{user_of(entry.process)}")
        self._filter = " ".join(others)

    def _ask(self, model: Model) -> None:
        entry = self._current()
        if entry is None:
            model.message = "no process is chosen"
            return
        process = entry.process
        if self._root is None:
            model.message = "no signals: this is a recording"
            return
        try:
            pid, start = check(process, readonly=model.readonly)
        except Refused as why:
            model.message = str(why)
            return
        warned = (pid, start) in self._warned
        self._question = Confirmation(process, pid, start, signal.SIGKILL if warned else signal.SIGTERM)

    def _answer(self, key: str, model: Model) -> None:
        assert self._question is not None
        (process, pid, start, number), self._question = self._question, None
        if key != "y":
            model.message = "nothing was sent"
            return
        try:
            send(pid, start, number, self._root or "/")
        except Refused as why:
            model.message = str(why)
            return
        self._warned.add((pid, start))
        model.message = f"{number.name} was sent to {title(process)}"
        if number is signal.SIGTERM:
            model.message += "; if it does not end, K again offers SIGKILL"


def _flat(count: int) -> Iterator[tuple[int, str]]:
    return ((place, "") for place in range(count))


def _nothing(model: Model, text: str, style: Style) -> list[Row]:
    """The reason for an empty list, and what to do."""
    if model.snapshot is None:
        sentences = ["Waiting for the first snapshot.", model.trouble or ""]
    elif model.processes:
        sentences = [f"No process matches {style.clean(text)!r}; escape clears the filter."]
    else:
        sentences = ["No process uses a chip, and none has reported anything.", no_server(model) or ""]
        sentences.append("`ttmem run -- COMMAND` starts a program and tracks everything that it allocates.")
    return [[(row, "dim")] for sentence in sentences for row in wrap(style.clean(sentence), style, "  ", " ")]

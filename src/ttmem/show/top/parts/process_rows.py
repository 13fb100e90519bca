# SPDX-License-Identifier: Apache-2.0
"""The rows of the list of processes: columns, sort order, and the rows below an expanded one."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from ttmem.model.kinds import KIND_BY_LABEL, POOL_OF, WORKER_L1
from ttmem.model.units import human, lower_limit, peak_text
from ttmem.show.chip_table import Names, short_size
from ttmem.show.process_table import LOWER_LIMIT, in_turns, limit_of, size_of, user_of
from ttmem.show.text import Style, cells
from ttmem.show.top.parts.listing import WIDE_COLUMNS, Column, Placed, age, line, time_of
from ttmem.show.top.parts.process_details import born, process_age
from ttmem.show.top.parts.rows import Row, Span

if TYPE_CHECKING:
    from typing import Literal

    from ttmem.model.schema import ChipShare, ProcessRow
    from ttmem.show.process_table import SizeName
    from ttmem.show.top.dashboard_state import Model

_POOLS: tuple[SizeName, ...] = ("dram", "l1", "peak_dram", "peak_l1")
_POOL_OF_COLUMN: dict[str, SizeName] = {name: name for name in _POOLS}
USER = "user:"  # prefix of a user's name or number in a filter
_OFTEN_BLANK: tuple[Literal["container", "command", "cpu_percent", "rss", "allocations"], ...] = (
    *("container", "command", "cpu_percent", "rss", "allocations"),
)
_PEAKS: tuple[Literal["peak_dram", "peak_l1"], ...] = ("peak_dram", "peak_l1")
_TREE_COLUMNS = 9  # width of three levels of a tree
_STATES = {"untracked": "warn", "stale": "dim", "exited": "dim"}
_LEGEND = {
    "*": "* includes all cached programs, which use L1 in turn",
    "+": "+ at least: not known for every chip",
    "<": "< at most: the sum of the peaks of several chips",
    "≥": f"≥ {LOWER_LIMIT}",
    ">=": f">= {LOWER_LIMIT}",
    "!": "! a source has problems, or numbers are uncertain: see below",
}


class Entry(NamedTuple):
    """A row of the list: a process, its memory on chips with equal amounts, or one kind of that memory."""

    key: Hashable
    process: ProcessRow
    branch: str = ""
    share: ChipShare | None = None
    chip_ids: tuple[str, ...] = ()
    kind: str | None = None
    below: Hashable = None  # key of the process if the row is a part of it


def columns(width: int, processes: list[ProcessRow], names: Names, branches: bool) -> list[Column]:
    """The columns that are not empty, none wider than its content."""
    blank: list[str] = [name for name in _OFTEN_BLANK if all(process[name] in (None, "") for process in processes)]
    shares = [share for process in processes for share in process["chips"]]
    blank += [name for name in _PEAKS if all(share[name] is None for share in shares)]
    inexact = any(limit_of(share, name) is not None for share in shares for name in _PEAKS)
    if not any(any(process["anomalies"].values()) for process in processes):
        blank.append("anomalies")
    # Sets, because there are few different users and sets of chips.
    chips = {names.several(chip_ids) for chip_ids in {tuple(chips_of(process)) for process in processes}}
    users = {user_of(process) for process in processes}
    sources = {_sources(process) for process in processes}
    called = {process["name"] or "" for process in processes}
    widths = [max(map(cells, texts), default=0) for texts in (users, called, chips, sources)]
    widths[1] += _TREE_COLUMNS if branches else 0
    found = [column for column in _columns(width >= WIDE_COLUMNS, *widths) if column.name not in blank]
    if inexact:  # room for the sign of a lower limit
        found = [one._replace(low=one.low + 2, high=one.high + 2) if one.name in _PEAKS else one for one in found]
    return found


def _columns(wide: bool, user: int = 0, name: int = 0, chips: int = 0, sources: int = 0) -> tuple[Column, ...]:
    """All columns; the arguments are the widths of their content."""
    size = 11 if wide else 6
    least = max(6, min(12, chips))
    return (
        Column("pid", "PID", 7, 7, 0, right=True),
        Column("user", "USER", 6, max(6, min(12, user)), 2),
        Column("name", "NAME", 10, max(10, min(32, name)), 0),
        Column("state", "STATE", 9, 11, 0),
        Column("chips", "CHIPS", least, max(least, min(40 if wide else 24, chips)), 0),
        Column("dram", "DRAM", size, size, 0, right=True, down=True),
        Column("l1", "L1", size, size, 0, right=True, down=True),
        Column("peak_dram", "PEAK DRAM", max(10, size), max(10, size), 6, right=True, down=True),
        Column("peak_l1", "PEAK L1 BUFFERS", max(15, size), max(15, size), 7, right=True, down=True),
        Column("cpu_percent", "CPU", 5, 6, 3, right=True, down=True),
        Column("rss", "HOST RAM", 9, max(9, size), 3, right=True, down=True),
        Column("age", "AGE", 7, 7, 4, right=True, down=True),
        Column("allocations", "ALLOCS", 7, 9, 5, right=True, down=True),
        Column("anomalies", "ANOMALIES", 9, 9, 1, right=True, down=True),
        Column("sources", "SOURCES", 8, max(8, min(20, sources)), 11),
        Column("container", "CONTAINER", 12, 26, 8),
        Column("command", "COMMAND", 16, 16, 10),
    )


DOWN = {column.name: column.down for column in _columns(wide=False)}


def matches(process: ProcessRow, text: str) -> bool:
    """Whether a process matches a text in lower case; ``user:NAME`` in the text selects a user.

    >>> process = {"pid": 4711, "user": "ann", "user_id": 1001, "name": "python", "command": None, "container": None}
    >>> [matches(process, text) for text in ("pyth", "user:ann", "user:ann 47", "user:1001", "user:an", "user:bob 47")]
    [True, True, True, True, False, False]
    """
    if USER in text:
        words = text.split()
        users = [word[len(USER) :] for word in words if word.startswith(USER)]
        own = (str(process["user"]).lower(), str(process["user_id"]))
        if not all(user in own for user in users if user):
            return False
        text = " ".join(word for word in words if not word.startswith(USER))
    named = (process["pid"], process["user"], process["name"], process["command"], process["container"])
    return any(text in str(value).lower() for value in named if value is not None)


def sizes(process: ProcessRow, pool: SizeName) -> list[int | None]:
    """Its size in a pool on each of its chips."""
    if process["state"] == "stale":
        return [size_of(share, pool, "stale") for share in process["chips"]]
    return [share[pool] for share in process["chips"]]


def total(found: list[int | None]) -> int | None:
    """The sum of the known sizes."""
    known = [size for size in found if size is not None] if None in found else found
    return sum(known) if known else None  # type: ignore[arg-type]


def sorter(column: str, names: Names, booted: float | None) -> Callable[[ProcessRow], Any]:
    """A function that returns the sort key of a process, None if it is not known."""
    pool = _POOL_OF_COLUMN.get(column)
    if pool is not None:
        return lambda process: total(sizes(process, pool))
    if column == "age":
        return lambda process: None if (start := born(process, booted)) is None else -start
    if column == "anomalies":
        return _anomalies
    if column == "sources":
        return lambda process: _sources(process) or None
    if column == "chips":
        return lambda process: min(map(names.order, chips_of(process)), default=None)
    if column == "user":
        return user_of
    if column == "name":
        return lambda process: None if process["name"] is None else process["name"].lower()
    if column == "command":
        return lambda process: None if process["command"] is None else process["command"].lower()
    return lambda process: process.get(column)


def chips_of(process: ProcessRow) -> list[str]:
    used = [share["chip"] for share in process["chips"]]
    holds = process.get("holds")
    return used + [chip_id for chip_id in holds if chip_id not in used] if holds else used


def parts(key: Hashable, process: ProcessRow, names: Names) -> Iterator[Entry]:
    """Rows for the memory of a process by chip and kind; chips with equal amounts share a row."""
    groups: dict[Hashable, list[ChipShare]] = {}
    for share in sorted(process["chips"], key=lambda share: names.order(share["chip"])):
        amounts = [(share[pool], limit_of(share, pool)) for pool in _POOLS]
        alike = (*amounts, tuple(share["kinds"].items()), share["source"])
        groups.setdefault(alike, []).append(share)
    for number, shares in enumerate(groups.values()):
        chip_ids = tuple(share["chip"] for share in shares)
        yield Entry((key, number), process, "", shares[0], chip_ids, None, key)
        for kind, size in shares[0]["kinds"].items():
            if size:
                yield Entry((key, number, kind), process, "", shares[0], chip_ids, kind, key)


def _anomalies(process: ProcessRow) -> int:
    return sum(count for count in process["anomalies"].values() if isinstance(count, int))


def cpu_text(percent: float | None) -> str:
    """CPU time in percent of one core.

    >>> cpu_text(None), cpu_text(0.0), cpu_text(0.04), cpu_text(104.3)
    ('-', '0%', '<1%', '104%')
    """
    return "-" if percent is None else "<1%" if 0 < percent < 1 else f"{percent:.0f}%"


def _sources(process: ProcessRow) -> str:
    return ",".join(source["name"] for source in process["sources"])


class ProcessRows:
    """Turns entries into rows, and collects the marks for the legend."""

    def __init__(self, model: Model, names: Names, booted: float | None, style: Style, placed: list[Placed]) -> None:
        self.now = time_of(model)
        self._names, self._booted, self._style, self._placed = names, booted, style, placed
        self._chips = {chip["chip"]: chip for chip in model.chips}
        self._size = human if style.width >= WIDE_COLUMNS else short_size
        self._marks: set[str] = set()
        # A part of a process has one text before the sizes, instead of columns.
        first = next(number for number, one in enumerate(placed) if one.column.name == "dram")
        label = Column("label", "", 0, 0, 0)
        self._part_placed = [Placed(label, 0, placed[first].x - 1), *placed[first:]]

    def legend(self) -> str:
        return "   ".join(text for mark, text in _LEGEND.items() if mark in self._marks)

    def row(self, entry: Entry) -> Row:
        if entry.share is not None:
            return self._part(entry, entry.share)
        process = entry.process
        style = "dim" if process["state"] in ("stale", "exited") else ""
        chip_ids = chips_of(process)
        spans = [self._cell(one.column.name, entry, process, style, chip_ids) for one in self._placed]
        return line(spans, self._placed, self._style.width, self._style)

    def _cell(self, name: str, entry: Entry, process: ProcessRow, style: str, chip_ids: list[str]) -> Span:
        pool = _POOL_OF_COLUMN.get(name)
        if pool is not None:
            return self._sum(process, pool, chip_ids), style
        if name == "pid":
            return str(process["pid"] or "?"), style
        if name == "user":
            return self._style.clean(user_of(process)), style
        if name == "state":
            trouble = process["uncertain"] or any(source["trouble"] for source in process["sources"])
            return process["state"] + self._mark(" !" if trouble else ""), _STATES.get(process["state"], "")
        if name == "chips":
            return self._names.several(chip_ids) or "-", style
        if name == "age":
            return age(process_age(process, self.now, self._booted)), style
        if name == "cpu_percent":
            return cpu_text(process["cpu_percent"]), style
        if name == "rss":
            return self._size(process["rss"]), style
        if name == "allocations":
            return "-" if process["allocations"] is None else f"{process['allocations']:,}", style
        if name == "anomalies":
            odd = _anomalies(process)
            known = bool(process["sources"])
            return (f"{odd:,}", "warn") if odd else ("0" if known else "-", style)
        if name == "sources":
            return self._style.clean(_sources(process)) or "-", style
        return entry.branch * (name == "name") + (self._style.clean(process.get(name)) or "-"), style

    def _mark(self, mark: str) -> str:
        self._marks.add(mark.strip())
        return mark

    def _sum(self, process: ProcessRow, pool: SizeName, chip_ids: list[str]) -> str:
        found = sizes(process, pool)
        size = total(found)
        if size is None:
            return "- "
        shares = process["chips"]
        all_known = None not in found and len(found) == len(chip_ids)
        if pool.startswith("peak") and len(found) > 1:
            most = sum(limit_of(share, pool) or one or 0 for one, share in zip(found, shares))
            return f"{self._mark('<')}{self._size(most)} " if all_known else "- "
        turns = pool.endswith("l1") and any(
            in_turns(pool, one, self._chips.get(share["chip"]), process["state"]) for one, share in zip(found, shares)
        )
        text = self._peak(size, limit_of(shares[0], pool))
        return text + self._mark("*" if turns else " " if all_known else "+")

    def _peak(self, size: int | None, at_most: int | None) -> str:
        """A size, with a sign if it is a peak that is not exact."""
        if at_most is not None:
            self._mark(lower_limit("", ascii=self._style.ascii))
        return peak_text(self._size(size), at_most, ascii=self._style.ascii)

    def _part(self, entry: Entry, share: ChipShare) -> Row:
        spans: list[Span] = []
        each = " each" if len(entry.chip_ids) > 1 else ""
        label = f"{'':9}chip {self._names.several(entry.chip_ids)}{each}"
        if share["source"] == "shm":
            label += ", as tt-metal counts"
        found: dict[str, int | None] = {pool: size_of(share, pool, entry.process["state"]) for pool in _POOLS}
        if entry.kind is not None:
            size = share["kinds"][entry.kind]
            kind = KIND_BY_LABEL.get(entry.kind)
            pool = "" if kind is None else "l1" if kind in WORKER_L1 else POOL_OF[kind].label
            label = f"{'':11}{self._style.clean(entry.kind)}" + ("" if pool in found else f" {self._size(size)}")
            found = {pool: size}
        spans.append((label, "" if entry.kind is None else "dim"))
        for one in self._part_placed[1:]:
            name = one.column.name
            if name not in found:
                spans.append(("", ""))
                continue
            chip, state = self._chips.get(share["chip"]), entry.process["state"]
            turns = entry.kind is None and in_turns(name, found[name], chip, state)
            limit = limit_of(share, name) if entry.kind is None else None
            text = self._peak(found[name], limit) + self._mark("*" if turns else " ")
            spans.append((text, "" if entry.kind is None else "dim"))
        return line(spans, self._part_placed, self._style.width, self._style)

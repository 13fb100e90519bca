# SPDX-License-Identifier: Apache-2.0
"""The processes of a merged snapshot: those of the account, those that hold a chip, those in tt-metal's counters."""

from __future__ import annotations

from ttmem.documents import unknown_rows as blank

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ttmem.model.machine_rows import CounterSlot, HolderRow, HostUse, MachineLook
    from ttmem.model.schema import ChipRow, ChipShare, CountedKind, ProcessRow, Snapshot, UnseenRow

# The kinds in tt-metal's counters.
COUNTED: tuple[CountedKind, ...] = ("dram", "l1", "l1_small", "trace", "cb")
ALIVE = ("tracked", "untracked")


class MergedProcess:
    """The row of one process, its shares by chip, and the kinds that its own sources track."""

    __slots__ = ("_reported", "_tracked", "row", "shares")

    def __init__(self, row: ProcessRow) -> None:
        self.row = row
        self.shares = {share["chip"]: share for share in row["chips"]}
        self._reported = {kind for share in row["chips"] for kind in share["kinds"]}
        self._tracked: dict[frozenset[str], frozenset[str]] = {}  # by the kinds missing on a chip

    def share(self, chip_id: str) -> ChipShare:
        """Its share of a chip."""
        found = self.shares.get(chip_id)
        if found is None:
            found = self.shares[chip_id] = blank.share(chip_id)
            self.row["chips"].append(found)
        return found

    def tracked(self, missing: frozenset[str]) -> frozenset[str]:
        """The kinds that are tracked for it; a source with trouble does not track the ``missing`` kinds."""
        found = self._tracked.get(missing)
        if found is None:
            found = self._tracked[missing] = self._find_tracked(missing)
        return found

    def _find_tracked(self, missing: frozenset[str]) -> frozenset[str]:
        if self.row["state"] != "tracked":
            return frozenset()
        from ttmem.model.kinds import covers  # not needed without tracked processes

        sources = self.row["sources"]
        kinds = {kind.label for source in sources for kind in covers(source["name"])} | self._reported
        return frozenset(kinds - missing if any(source["trouble"] for source in sources) else kinds)


class MergedProcesses:
    """All processes: those of the account, those that hold a chip, those in tt-metal's counters."""

    def __init__(
        self,
        snapshot: Snapshot,
        machine: MachineLook,
        by_place: dict[str, ChipRow],
        may_see: Callable[[int | None], bool],
    ) -> None:
        self._all = [MergedProcess(_copied_process(row)) for row in snapshot["processes"]]
        self._may_see = may_see
        self._alive: dict[int, MergedProcess] = {}  # by pid
        self._exited: dict[int | None, MergedProcess] = {}
        for process in self._all:
            pid, state = process.row["pid"], process.row["state"]
            if state == "exited":
                self._exited[pid] = process
            elif state == "tracked" and pid:
                self._alive[pid] = process
        by_kmd = {row["kmd"]: row["chip"] for row in by_place.values()}
        for holder in machine["processes"]:
            process = self._find(holder["pid"], holder["start"])
            if process.row["state"] != "exited":
                process.row["holds"] = [by_kmd[kmd] for kmd in holder["holds"] if kmd in by_kmd]
                self._describe(process.row, holder)
        self._add_foreign([by_kmd[kmd] for kmd in machine["foreign"] if kmd in by_kmd])

    def _add_foreign(self, chip_ids: list[str]) -> None:
        """Add a row for processes outside our pid namespace that hold chips.

        Their number is unknown, because the driver counts descriptors.
        """
        outside = [one for one in self._all if one.row["state"] == "tracked" and one.row["pid"] is None]
        for chip_id in chip_ids:
            users = [process for process in outside if chip_id in process.shares]
            for process in users:
                process.row["holds"] = [*process.row["holds"], chip_id]
            if not users:
                row = blank.process(None, "untracked")
                row["holds"], row["container"] = [chip_id], "outside this pid namespace"
                self._add(row)

    def add_usage(self, usage: Mapping[int, HostUse]) -> None:
        """Add what those that are alive use of the host."""
        for pid, found in usage.items():
            process = self._alive.get(pid)
            if process is not None and same_start(process.row["start"], found["start"]):
                process.row["cpu_percent"], process.row["rss"] = found["cpu_percent"], found["rss"]

    def rows(self) -> list[ProcessRow]:
        return [process.row for process in self._all]

    def of_slot(self, slot: CounterSlot) -> MergedProcess | None:
        """The process of a slot."""
        if slot["state"] == "live":
            pid = slot["process"]
            if pid is None:  # several processes share it
                if self.hidden_in(slot):
                    return None
                row = blank.process(None, "untracked")
                row["name"] = slot["name"]
                return self._add(row)
            process = self._find(pid, slot["start"])
            self._describe_by_slot(process.row, slot)
            return process
        if slot["state"] == "garbage" or not any(slot[kind] for kind in COUNTED):
            return None
        gone = self._exited.get(slot["pid"])
        if gone is None:
            row = blank.process(slot["pid"], "stale")
            row["name"] = slot["name"]
            gone = self._exited[slot["pid"]] = self._add(row)
        return gone

    def hidden_in(self, slot: CounterSlot) -> list[UnseenRow]:
        """Processes that share a slot with a tracked one: their part is unknown, and nothing may count twice."""
        shared = slot.get("shared", []) if slot["state"] == "live" else []
        if not any(self._is_tracked(pid) for pid in shared):
            return []
        return [{"pid": pid, "missing": list(blank.KINDS)} for pid in shared if not self._is_tracked(pid)]

    def unseen(self) -> dict[str, list[UnseenRow]]:
        """For each chip, the processes that have it open and report nothing about it."""
        found: dict[str, list[UnseenRow]] = {}
        for process in self._all:
            if process.row["state"] == "untracked":
                for chip_id in process.row["holds"]:
                    if chip_id not in process.shares:
                        silent: UnseenRow = {"pid": process.row["pid"], "missing": list(blank.KINDS)}
                        found.setdefault(chip_id, []).append(silent)
        return found

    def held(self) -> set[str]:
        """The chips that living processes have open or use."""
        found: set[str] = set()
        for process in self._all:
            if process.row["state"] in ALIVE:
                found.update(process.row["holds"], process.shares)
        return found

    def _add(self, row: ProcessRow) -> MergedProcess:
        process = MergedProcess(row)
        self._all.append(process)
        return process

    def _is_tracked(self, pid: int) -> bool:
        return pid in self._alive and self._alive[pid].row["state"] == "tracked"

    def _find(self, pid: int, start: int | None) -> MergedProcess:
        process = self._alive.get(pid)
        if process is not None and same_start(process.row["start"], start):
            return process
        gone = self._exited.get(pid)
        if gone is not None and start is not None and gone.row["start"] == start:
            return gone  # the process has exited since the machine was read
        row = blank.process(pid, "untracked")
        row["start"] = start
        process = self._alive[pid] = self._add(row)
        return process

    def _describe(self, row: ProcessRow, holder: HolderRow) -> None:
        """Add the data of a process that holds a chip."""
        self._describe_by_slot(row, holder)
        if row["container"] is None:
            row["container"] = holder["container"]
        if row["job"] is None:
            row["job"] = holder["job"]
        if row["command"] is None and self._may_see(holder["user_id"]):
            row["command"] = holder["command"]

    @staticmethod
    def _describe_by_slot(row: ProcessRow, seen: CounterSlot | HolderRow) -> None:
        if row["user_id"] is None:
            row["user_id"] = seen["user_id"]
        if row["user"] is None:
            row["user"] = seen["user"]
        if row["name"] is None:
            row["name"] = seen["name"]


def _copied_process(row: ProcessRow) -> ProcessRow:
    """A copy of everything that is changed here."""
    shares: list[ChipShare] = [{**share, "kinds": {**share["kinds"]}} for share in row["chips"]]
    return {**row, "chips": shares}


def same_start(start: int | None, other: int | None) -> bool:
    """Whether these can be the start times of one process."""
    return None in (start, other) or start == other

# SPDX-License-Identifier: Apache-2.0
"""Brings what is accounted for and what can be seen of the machine into one snapshot: a pure function.

The server runs it over its account, `ttmem smi` without a server over an empty one. The strongest source counts, for
each process, chip and kind: what is tracked, else what tt-metal's own counters say of a process that is alive.
"""

from __future__ import annotations

from ttmem.account import blank
from ttmem.sources import joins, notes
from ttmem.sources.joins import place_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator
    from typing import Any

    Json = dict[str, Any]

COUNTED = ("dram", "l1", "l1_small", "trace", "cb")  # the kinds that tt-metal's counters know
_UNCOUNTED = [kind for kind in blank.KINDS if kind not in COUNTED]
_POOL = {"dram": "dram", "trace": "dram", "l1": "l1", "l1_small": "l1", "cb": "l1"}
_FACTS = ("serial", "asic_id", "firmware", "pcie", "telemetry")
_SHM = ("state", "why", "version", "live", "stale", "totals", "updated")


def merge(
    picture: Json,
    machine: Json,
    *,
    before: dict[str, joins.Join] | None = None,
    doubted: Container[tuple[int, str]] = (),
    may_see: Callable[[int | None], bool] = lambda uid: True,
) -> Json:
    """The snapshot of both.

    ``before`` remembers which unique id belongs to which PCI address, and is added to. ``doubted`` are the (pid, chip)
    of which tt-metal's counters have said something else than the account for more than a moment.
    """
    found = _joins(picture, machine, {} if before is None else before)
    if before is not None:
        before.update(found)
    rows, by_place = _chips(picture, machine, found)
    files = _files(machine, rows, by_place, found)
    processes = _Processes(picture, machine, by_place, may_see)
    for file, row in files:
        _count(row, file, processes)
    all_seen = any(source["name"] == "processes" and source["state"] == "ok" for source in machine["sources"])
    for row in rows:
        row["memory"]["unseen"] += processes.unseen(row)
        row["held"] = processes.hold(row["uid"]) or (False if all_seen and row["kmd"] is not None else None)
    rows.sort(key=lambda row: (row["kmd"] is None, row["kmd"] or 0, len(row["uid"]), row["uid"]))
    merged = {
        **picture,
        "sources": [*picture["sources"], *machine["sources"]],
        "driver": machine["driver"],
        "chips": rows,
        "processes": processes.rows,
    }
    merged["notes"] = [*picture["notes"], *notes.of(merged, machine, [file for file, _ in files], doubted)]
    return merged


def differences(picture: Json) -> Iterator[tuple[int, str, str, int, int]]:
    """(pid, chip, kind, tracked, counted) wherever the account and tt-metal's counters disagree on a live process.

    Not on circular buffers: the account holds what each program asked for, the counters the space they share.
    """
    for process in picture["processes"]:
        if process["state"] == "tracked":
            for share in process["chips"]:
                for kind in COUNTED[:4] if share["shm"] else ():
                    tracked, counted = share["kinds"].get(kind), share["shm"][kind]
                    if tracked is not None and tracked != counted:
                        yield process["pid"], share["uid"], kind, tracked, counted


# -- chips ---------------------------------------------------------------------------------------------------------


def _joins(picture: Json, machine: Json, before: dict[str, joins.Join]) -> dict[str, joins.Join]:
    """Where the chips with a unique id are."""
    places = {chip["kmd"]: place_of(chip) for chip in machine["chips"]}
    remote = {chip["uid"] for chip in picture["chips"] if chip["remote"]}
    uses: dict[int, tuple[dict[str, int | None], set[str]]] = {}
    for process in machine["processes"]:
        uses[process["pid"]] = {}, {places[kmd] for kmd in process["holds"] if kmd in places}
    for process in picture["processes"]:
        if process["state"] == "tracked" and process["pid"] in uses:
            for share in process["chips"]:
                uses[process["pid"]][0][share["uid"]] = share["metal_id"]
    for file in machine["shm"]:
        live = [slot for slot in file["slots"] if slot["state"] == "live"]
        for slot in live:
            if slot["process"] in uses and not _nameless(file):
                number = file["metal_id"] if len(live) == 1 else None  # it is that of the last process to attach
                uses[slot["process"]][0].setdefault(file["uid"], number)
    uids = [chip["uid"] for chip in picture["chips"] if chip["unique_id"] is not None]
    uids += [file["uid"] for file in machine["shm"] if not _nameless(file)]
    local = [uid for uid in uids if uid not in remote]
    return joins.find(local, machine["chips"], list(uses.values()), before)


def _nameless(file: Json) -> bool:
    """Is the name of the file only a device number, because tt-metal knew no unique id?"""
    return bool(file["uid"] == str(file["metal_id"]))


def _chips(picture: Json, machine: Json, found: dict[str, joins.Join]) -> tuple[list[Json], dict[str, Json]]:
    """A row for every chip, and the rows by place."""
    seen = {place_of(chip): chip for chip in machine["chips"]}
    by_kmd = {chip["kmd"]: place for place, chip in seen.items() if chip["kmd"] is not None}
    used = {share["uid"] for process in picture["processes"] for share in process["chips"]}
    joined = {found[chip["uid"]][0] for chip in picture["chips"] if chip["uid"] in found}
    rows: list[Json] = []
    by_place: dict[str, Json] = {}
    for chip in sorted(picture["chips"], key=lambda chip: chip["identity"] != "known"):
        place, how = found.get(chip["uid"], (None, None))
        if place is None:
            own = next((name for name in (chip["uid"], chip["pci"], by_kmd.get(chip["kmd"])) if name in seen), None)
            if own in joined and chip["uid"] not in used:
                continue  # the account knows this chip by its unique id as well
            place = own
        row = {**chip, "memory": _copy(chip["memory"]), "joined_by": how}
        if place in seen and place not in by_place:
            by_place[place] = row
            _describe(row, seen[place])
        rows.append(row)
    for place, chip in seen.items():
        if place not in by_place:
            row = by_place[place] = blank.chip(place, arch=chip["arch"], board=chip["board"])
            _describe(row, chip)
            rows.append(row)
    return rows, by_place


def _describe(row: Json, chip: Json) -> None:
    """What the driver says of the chip."""
    for name in ("pci", "kmd", "arch", "board"):
        row[name] = chip[name] if row[name] is None else row[name]
    row["remote"] = chip.get("remote", False)
    row["unique_id"] = row["unique_id"] or chip.get("unique_id")
    row.update({name: chip[name] for name in _FACTS})
    if row["memory"]["dram"]["capacity"] is None:
        sizes = blank.memory(row["board"], row["arch"])
        for pool in ("dram", "l1"):
            row["memory"][pool].update({name: sizes[pool][name] for name in ("capacity", "capacity_basis", "banks")})


def _files(
    machine: Json, rows: list[Json], by_place: dict[str, Json], found: dict[str, joins.Join]
) -> list[tuple[Json, Json]]:
    """tt-metal's counters, each with the row of its chip. A file that says nothing of anybody makes no new row."""
    by_uid = {row["uid"]: row for row in rows}
    out = []
    for file in machine["shm"]:
        uid = f"assumed:{file['metal_id']}" if _nameless(file) else file["uid"]
        place, how = found.get(uid, (None, None))
        row = by_uid.get(uid) or by_place.get(place or "")
        if row is None:
            if file["state"] != "ok" or not (any(file["live"].values()) or _left_over(file) or _alive(file)):
                continue
            row = by_uid[uid] = _behind(file, uid, machine, by_place, {place for place, _ in found.values()})
            rows.append(row)
        if not _nameless(file):
            row["unique_id"] = row["unique_id"] or file["uid"]
            row["joined_by"] = row["joined_by"] or how
        row["shm"] = {name: file[name] for name in _SHM}
        if file["state"] == "ok":
            out.append((file, row))
    return out


def _behind(file: Json, uid: str, machine: Json, by_place: dict[str, Json], joined: set[str]) -> Json:
    """A chip that only its counters tell of. If who uses it holds cards of one sort, it is one of those: the remote
    chip of an n300."""
    users = {slot["process"] for slot in file["slots"] if slot["state"] == "live"}
    held = {kmd for process in machine["processes"] if process["pid"] in users for kmd in process["holds"]}
    cards = {place: row for place, row in by_place.items() if row["kmd"] in held}
    sorts = {(row["arch"], row["board"]) for row in cards.values()}
    arch, board = sorts.pop() if len(sorts) == 1 else (None, None)
    row = blank.chip(uid, arch=arch, board=board, identity="assumed" if _nameless(file) else "known")
    if board == "n300" and joined.issuperset(cards):
        row["remote"] = True
    return row


def _alive(file: Json) -> bool:
    return any(slot["state"] == "live" for slot in file["slots"])


def _left_over(file: Json) -> bool:
    """Does it still count something of somebody who is gone?"""
    return any(file["stale"][kind] for kind in COUNTED[:4])


# -- numbers -------------------------------------------------------------------------------------------------------


def _count(row: Json, file: Json, processes: _Processes) -> None:
    """What tt-metal's counters say of the processes on a chip, where nobody knows better."""
    for slot in file["slots"]:
        process = processes.of_slot(slot)
        if process is None:
            continue
        share = processes.share(process, row["uid"])
        share["shm"] = {kind: slot[kind] for kind in COUNTED}
        if slot["state"] != "live":
            continue
        if share["metal_id"] is None and len([s for s in file["slots"] if s["state"] == "live"]) == 1:
            share["metal_id"], share["metal_ids"] = file["metal_id"], [file["metal_id"]]
        tracked = _covered(process)
        for kind in COUNTED:
            if kind not in tracked:
                share["kinds"][kind] = slot[kind]
                share[_POOL[kind]] = (share[_POOL[kind]] or 0) + slot[kind]
                share[f"peak_{_POOL[kind]}"] = None
                _add(row["memory"], kind, slot[kind])
        unknown = [kind for kind in _UNCOUNTED if kind not in tracked]
        if unknown:
            row["memory"]["unseen"].append({"pid": process["pid"], "missing": unknown})


def _covered(process: Json) -> set[str]:
    """The kinds that are tracked of a process."""
    if process["state"] != "tracked":
        return set()
    from ttmem.account.kinds import COVERAGE, KINDS  # not wanted where nobody is tracked

    return {kind.label for source in process["sources"] for kind in COVERAGE.get(source["name"], KINDS)}


def _add(memory: Json, kind: str, size: int) -> None:
    """Bytes that tt-metal's counters report; what the allocator took for them, and their peak, is not known."""
    pool = memory[_POOL[kind]]
    pool["used"] = (pool["used"] or 0) + size
    pool["peak"] = pool["reserved"] = None
    if kind == "trace":
        part, name = pool["trace"], "used"
    elif kind == "l1_small":
        part, name = pool["small"], "used"
    elif kind == "cb":
        part, name = pool["cb"], "held"
    else:
        part, name = pool, "buffers"
    if kind != "dram":
        part[name] = (part[name] or 0) + size
    for unknown in ("reserved", "peak", "resident"):
        if unknown in part:
            part[unknown] = None
    if "at_once" in pool:
        pool["at_once"] = (pool["at_once"] or 0) + size
    memory["confidence"]["reported"] += size
    memory["missing"] = [missing for missing in memory["missing"] if missing != kind]


# -- processes -----------------------------------------------------------------------------------------------------


class _Processes:
    """The rows of all processes: those of the account, those that hold a chip, those that tt-metal counts."""

    def __init__(
        self, picture: Json, machine: Json, by_place: dict[str, Json], may_see: Callable[[int | None], bool]
    ) -> None:
        self.rows = [{**row, "chips": [{**share, "kinds": {**share["kinds"]}} for share in row["chips"]]}
                     for row in picture["processes"]]  # fmt: skip
        self._may_see = may_see
        self._alive = {row["pid"]: row for row in self.rows if row["state"] == "tracked" and row["pid"]}
        self._exited = {row["pid"]: row for row in self.rows if row["state"] == "exited"}
        self._by_kmd = {row["kmd"]: row["uid"] for row in by_place.values()}
        for process in machine["processes"]:
            row = self._row(process["pid"], process["start"])
            row["holds"] = [self._by_kmd[kmd] for kmd in process["holds"] if kmd in self._by_kmd]
            self._describe(row, process)
        for kmd in machine["foreign"]:  # how many they are cannot be told: the driver counts descriptors
            if kmd in self._by_kmd:
                row = {**blank.process(None, "untracked"), "holds": [self._by_kmd[kmd]]}
                self.rows.append({**row, "container": "outside this pid namespace"})

    def of_slot(self, slot: Json) -> Json | None:
        """Whose numbers these are."""
        if slot["state"] == "live":
            row = self._row(slot["process"], slot["start"])
            self._describe(row, slot)
            return row
        if slot["state"] == "garbage" or not any(slot[kind] for kind in COUNTED):
            return None
        gone = self._exited.get(slot["pid"])
        if gone is None:
            gone = self._exited[slot["pid"]] = {**blank.process(slot["pid"], "stale"), "name": slot["name"]}
            self.rows.append(gone)
        return gone

    def share(self, process: Json, uid: str) -> Json:
        """What a process has of a chip."""
        for share in process["chips"]:
            if share["uid"] == uid:
                found: Json = share
                return found
        process["chips"].append(blank.share(uid))
        return self.share(process, uid)

    def unseen(self, row: Json) -> list[Json]:
        """Who holds a chip open and says nothing at all of what it has there."""
        silent = [p for p in self.rows if p["state"] == "untracked" and row["uid"] in p["holds"]]
        return [
            {"pid": process["pid"], "missing": list(blank.KINDS)}
            for process in silent
            if not any(share["uid"] == row["uid"] for share in process["chips"])
        ]

    def hold(self, uid: str) -> bool:
        """Does anybody alive have this chip open, or something on it?"""
        alive = (process for process in self.rows if process["state"] in ("tracked", "untracked"))
        return any(uid in p["holds"] or any(share["uid"] == uid for share in p["chips"]) for p in alive)

    def _row(self, pid: int, start: int | None) -> Json:
        row = self._alive.get(pid)
        if row is None or (None not in (row["start"], start) and row["start"] != start):
            row = self._alive[pid] = blank.process(pid, "untracked")
            row["start"] = start
            self.rows.append(row)
        return row

    def _describe(self, row: Json, seen: Json) -> None:
        for name in ("uid", "user", "name", "container"):
            row[name] = seen.get(name) if row[name] is None else row[name]
        if row["command"] is None and self._may_see(seen["uid"]):
            row["command"] = seen.get("command")


def _copy(value: Any) -> Any:
    """Of data, all the way down."""
    if isinstance(value, dict):
        return {key: _copy(inner) for key, inner in value.items()}
    return [_copy(inner) for inner in value] if isinstance(value, list) else value

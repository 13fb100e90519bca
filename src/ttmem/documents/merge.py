# SPDX-License-Identifier: Apache-2.0
"""Brings what is accounted for and what can be seen of the machine into one snapshot: a pure function.

The server runs it over its account, `ttmem smi` without a server over an empty one. The strongest source counts, for
each process, chip and kind: what is tracked, else what tt-metal's own counters say of a process that is alive.
"""

from __future__ import annotations

from ttmem.documents import chip_matching as joins
from ttmem.documents import notes
from ttmem.documents import unknown_rows as blank
from ttmem.documents.chip_matching import place_of
from ttmem.documents.host_totals import sums

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    Json = dict[str, Any]

COUNTED = ("dram", "l1", "l1_small", "trace", "cb")  # the kinds that tt-metal's counters know
# Those that the account and the counters must agree on. Not circular buffers: the account holds what each program asked
# for, the counters the space they share.
COMPARED = COUNTED[:4]
_UNCOUNTED = [kind for kind in blank.KINDS if kind not in COUNTED]
_POOL = {"dram": "dram", "trace": "dram", "l1": "l1", "l1_small": "l1", "cb": "l1"}
_FACTS = ("serial", "asic_id", "firmware", "pcie", "telemetry")
_ALIVE = ("tracked", "untracked")
_SHM = ("state", "why", "version", "live", "stale", "totals", "updated")


def merge(
    snapshot: Json,
    machine: Json,
    *,
    before: dict[str, joins.Memory] | None = None,
    differing: Mapping[tuple[int, str], dict[str, tuple[int, int]]] | None = None,
    may_see: Callable[[int | None], bool] = lambda user_id: True,
) -> Json:
    """The snapshot of both.

    ``before`` remembers which unique id belongs to which PCI address, and is added to. ``differing`` are the lasting
    differences between account and counters, by pid and chip: see `differences`.
    """
    found = joined(snapshot, machine, {} if before is None else before)
    if before is not None:
        joins.remember(before, found, machine["chips"])
    rows, by_place = _chips(snapshot, machine, found)
    files = _files(machine, rows, by_place, found)
    processes = _Processes(snapshot, machine, by_place, may_see)
    for file, row in files:
        _count(row, file, processes)
    unseen, held = processes.unseen(), processes.held()
    all_seen = any(source["name"] == "processes" and source["state"] == "ok" for source in machine["sources"])
    for row in rows:
        row["memory"]["unseen"] += unseen.get(row["chip"], ())
        row["held"] = row["chip"] in held or (False if all_seen and row["kmd"] is not None else None)
    rows.sort(key=lambda row: (row["kmd"] is None, row["kmd"] or 0, len(row["chip"]), row["chip"]))
    merged = {
        **snapshot,
        "sources": [*snapshot["sources"], *machine["sources"]],
        "driver": machine["driver"],
        "chips": rows,
        "processes": processes.rows,
        "sums": sums(rows, processes.rows),
    }
    merged["notes"] = [*snapshot["notes"], *notes.of(merged, machine, [file for file, _ in files], differing or {})]
    return merged


# -- chips ---------------------------------------------------------------------------------------------------------


def joined(snapshot: Json, machine: Json, before: Mapping[str, joins.Memory]) -> dict[str, joins.Join]:
    """Where the chips with a unique id are."""
    places = {chip["kmd"]: place_of(chip) for chip in machine["chips"]}
    uses: dict[int, tuple[dict[str, int | None], set[str]]] = {}
    starts = {}
    for process in machine["processes"]:
        # Who is just opening its chips, or closing them, holds some that it does not use, or no longer all it uses.
        if process.get("settled", True):
            uses[process["pid"]] = {}, {places[kmd] for kmd in process["holds"] if kmd in places}
            starts[process["pid"]] = process["start"]
    for process in snapshot["processes"]:
        pid = process["pid"]
        if process["state"] == "tracked" and pid in uses and _same(process["start"], starts[pid]):
            for share in process["chips"]:
                uses[pid][0][share["chip"]] = share["metal_id"]
    files = [file for file in machine["shm"] if not _nameless(file)]
    for file in files:
        users = [slot["process"] for slot in file["slots"] if slot["state"] == "live"]
        held = [uses[pid][1] if pid in uses else None for pid in users]
        # It is that of the last process to attach; but those who hold the same chips number them alike.
        alike = len(users) == 1 or (None not in held and all(one == held[0] for one in held))
        number = file["metal_id"] if alike else None
        for pid in users:
            if pid in uses:
                uses[pid][0].setdefault(file["chip"], number)
    known = {chip["chip"]: chip for chip in snapshot["chips"] if chip["unique_id"] is not None}
    local = [
        chip_id
        for chip_id in (*known, *(file["chip"] for file in files))
        if chip_id not in known or not known[chip_id]["remote"]
    ]
    traits = {chip_id: (chip["arch"], chip["remote"]) for chip_id, chip in known.items()}
    return joins.find(local, machine["chips"], list(uses.values()), before, traits)


def _same(start: int | None, other: int | None) -> bool:
    """May these be the starts of one process?"""
    return None in (start, other) or start == other


def _nameless(file: Json) -> bool:
    """Is the name of the file only a device number, because tt-metal knew no unique id?"""
    return bool(file["chip"] == str(file["metal_id"]))


def _chips(snapshot: Json, machine: Json, found: dict[str, joins.Join]) -> tuple[list[Json], dict[str, Json]]:
    """A row for every chip, and the rows by place."""
    seen = {place_of(chip): chip for chip in machine["chips"]}
    by_kmd = {chip["kmd"]: place for place, chip in seen.items() if chip["kmd"] is not None}
    used = {share["chip"] for process in snapshot["processes"] for share in process["chips"]}
    joined = {found[chip["chip"]][0] for chip in snapshot["chips"] if chip["chip"] in found}
    rows: list[Json] = []
    by_place: dict[str, Json] = {}
    for chip in sorted(snapshot["chips"], key=lambda chip: chip["identity"] != "known"):
        place, how = found.get(chip["chip"], (None, None))
        if place is None:
            own = next((name for name in (chip["chip"], chip["pci"]) if name in seen), None)
            there = by_kmd.get(chip["kmd"])
            # Numbers are dealt out anew when chips are reset, so they count only where there is no address.
            if own is None and there is not None and None in (chip["pci"], seen[there]["pci"]):
                own = there
            if own in joined and chip["chip"] not in used:
                continue  # the account knows this chip by its unique id as well
            place = own
        row = {**chip, "memory": _copy(chip["memory"]), "joined_by": None}
        if place in seen and place not in by_place:
            by_place[place] = row
            row["joined_by"] = how
            _describe(row, seen[place])
        elif chip["pci"] not in (None, *seen) and chip["kmd"] in by_kmd:
            row["kmd"] = None  # another chip has that number by now
        rows.append(row)
    for place, chip in seen.items():
        if place not in by_place:
            row = by_place[place] = blank.chip(place, arch=chip["arch"], board=chip["board"])
            _describe(row, chip)
            rows.append(row)
    return rows, by_place


def _describe(row: Json, chip: Json) -> None:
    """What the driver says of the chip."""
    for name in ("pci", "arch", "board"):
        row[name] = chip[name] if row[name] is None else row[name]
    row["kmd"] = chip["kmd"]
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
    """tt-metal's counters, each with the row of its chip. A file that says nothing of anybody alive makes no new row:
    tt-metal never removes one, so a machine may have many of chips that it has no more, or of mock devices."""
    by_chip = {row["chip"]: row for row in rows}
    out = []
    for file in machine["shm"]:
        chip_id = f"assumed:{file['metal_id']}" if _nameless(file) else file["chip"]
        place, how = found.get(chip_id, (None, None))
        row = by_chip.get(chip_id) or by_place.get(place or "")
        if row is None:
            if file["state"] != "ok" or not _alive(file):
                continue
            row = by_chip[chip_id] = _behind(file, chip_id, machine, by_place, {place for place, _ in found.values()})
            rows.append(row)
        if not _nameless(file):
            row["unique_id"] = row["unique_id"] or file["chip"]
            row["joined_by"] = row["joined_by"] or how
        if row["shm"] is None or _alive(file):  # a chip may have gone by another name, and left a file of that name
            row["shm"] = {name: file[name] for name in _SHM}
        if file["state"] == "ok":
            out.append((file, row))
    return out


def _behind(file: Json, chip_id: str, machine: Json, by_place: dict[str, Json], joined: set[str]) -> Json:
    """A chip that only its counters tell of. If who uses it holds cards of one sort, it is one of those: the remote
    chip of an n300."""
    users = {slot["process"] for slot in file["slots"] if slot["state"] == "live"}
    held = {kmd for process in machine["processes"] if process["pid"] in users for kmd in process["holds"]}
    cards = {place: row for place, row in by_place.items() if row["kmd"] in held}
    sorts = {(row["arch"], row["board"]) for row in cards.values()}
    arch, board = sorts.pop() if len(sorts) == 1 else (None, None)
    row = blank.chip(chip_id, arch=arch, board=board, identity="assumed" if _nameless(file) else "known")
    if board == "n300" and joined.issuperset(cards):
        row["remote"] = True
    return row


def _alive(file: Json) -> bool:
    return any(slot["state"] == "live" for slot in file["slots"])


# -- numbers -------------------------------------------------------------------------------------------------------


def _count(row: Json, file: Json, processes: _Processes) -> None:
    """What tt-metal's counters say of the processes on a chip, where nobody knows better."""
    alone = sum(slot["state"] == "live" for slot in file["slots"]) == 1
    missing = frozenset(row["memory"]["missing"])
    added: dict[str, int] = {}
    for slot in file["slots"]:
        process = processes.of_slot(slot)
        if process is None:
            row["memory"]["unseen"] += processes.hidden_in(slot)
            continue
        share = processes.share(process, row["chip"])
        share["shm"] = {kind: slot[kind] + (share["shm"] or {}).get(kind, 0) for kind in COUNTED}
        if process["state"] not in _ALIVE:
            continue
        if share["metal_id"] is None and alone:
            share["metal_id"], share["metal_ids"] = file["metal_id"], [file["metal_id"]]
        tracked = processes.tracked(process, missing)
        for kind in COUNTED:
            if kind not in tracked:
                size = slot[kind]
                share["kinds"][kind] = share["kinds"].get(kind, 0) + size
                share[_POOL[kind]] = (share[_POOL[kind]] or 0) + size
                share[f"peak_{_POOL[kind]}"] = None
                added[kind] = added.get(kind, 0) + size
        unknown = [kind for kind in _UNCOUNTED if kind not in tracked]
        if unknown:
            row["memory"]["unseen"].append({"pid": process["pid"], "missing": unknown})
    for kind, size in added.items():
        _add(row["memory"], kind, size)


def _add(memory: Json, kind: str, size: int) -> None:
    """Bytes that tt-metal's counters report; what the allocator took for them, and their peak, is not known."""
    pool = memory[_POOL[kind]]
    pool["used"] = (pool["used"] or 0) + size
    pool["peak"] = pool["reserved_peak"] = None
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
    if "peak" in part:
        part["peak"] = None
    if size and kind == "cb":
        part["resident"] = None
    elif size:  # for nothing the allocator took nothing
        pool["reserved"] = None
        if "reserved" in part:
            part["reserved"] = None
    if "at_once" in pool:
        pool["bank_free"] = None
        pool["at_once"] = (pool["at_once"] or 0) + size
        pool["at_once_parts"][kind] = (pool["at_once_parts"][kind] or 0) + size
    memory["confidence"]["reported"] += size
    memory["missing"] = [missing for missing in memory["missing"] if missing != kind]


# -- processes -----------------------------------------------------------------------------------------------------


class _Processes:
    """The rows of all processes: those of the account, those that hold a chip, those that tt-metal counts."""

    def __init__(
        self, snapshot: Json, machine: Json, by_place: dict[str, Json], may_see: Callable[[int | None], bool]
    ) -> None:
        self.rows = [{**row, "chips": [{**share, "kinds": {**share["kinds"]}} for share in row["chips"]]}
                     for row in snapshot["processes"]]  # fmt: skip
        self._may_see = may_see
        self._shares = {(id(row), share["chip"]): share for row in self.rows for share in row["chips"]}
        self._tracked: dict[tuple[int, frozenset[str]], frozenset[str]] = {}
        self._reported = {id(row): {kind for share in row["chips"] for kind in share["kinds"]} for row in self.rows}
        self._alive = {row["pid"]: row for row in self.rows if row["state"] == "tracked" and row["pid"]}
        self._exited = {row["pid"]: row for row in self.rows if row["state"] == "exited"}
        by_kmd = {row["kmd"]: row["chip"] for row in by_place.values()}
        for process in machine["processes"]:
            row = self._row(process["pid"], process["start"])
            if row["state"] != "exited":
                row["holds"] = [by_kmd[kmd] for kmd in process["holds"] if kmd in by_kmd]
                self._describe(row, process)
        outside = [row for row in self.rows if row["state"] == "tracked" and row["pid"] is None]
        for kmd in machine["foreign"]:  # how many they are cannot be told: the driver counts descriptors
            chip_id = by_kmd.get(kmd)
            users = [row for row in outside if (id(row), chip_id) in self._shares]
            for row in users:
                row["holds"] = [*row["holds"], chip_id]
            if chip_id is not None and not users:
                row = {**blank.process(None, "untracked"), "holds": [chip_id]}
                self.rows.append({**row, "container": "outside this pid namespace"})

    def of_slot(self, slot: Json) -> Json | None:
        """Whose numbers these are."""
        if slot["state"] == "live":
            if slot["process"] is None:  # several processes share it
                if self.hidden_in(slot):
                    return None
                self.rows.append({**blank.process(None, "untracked"), "name": slot["name"]})
                return self.rows[-1]
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

    def hidden_in(self, slot: Json) -> list[Json]:
        """Who shares a slot with one that is tracked: what of it is theirs cannot be told, and nothing counts twice."""
        shared = slot.get("shared", ()) if slot["state"] == "live" else ()
        if not any(self._is_tracked(pid) for pid in shared):
            return []
        return [{"pid": pid, "missing": list(blank.KINDS)} for pid in shared if not self._is_tracked(pid)]

    def share(self, process: Json, chip_id: str) -> Json:
        """What a process has of a chip."""
        found: Json | None = self._shares.get((id(process), chip_id))
        if found is None:
            found = self._shares[id(process), chip_id] = blank.share(chip_id)
            process["chips"].append(found)
        return found

    def tracked(self, process: Json, missing: frozenset[str]) -> frozenset[str]:
        """The kinds that are tracked of a process; a source in trouble does not track what is ``missing``."""
        if process["state"] != "tracked":
            return frozenset()
        key = id(process), missing
        if key not in self._tracked:
            from ttmem.model.kinds import covers  # not wanted where nobody is tracked

            sources = process["sources"]
            kinds = {kind.label for source in sources for kind in covers(source["name"])}
            kinds |= self._reported[id(process)]
            troubled = any(source["trouble"] for source in sources)
            self._tracked[key] = frozenset(kinds - missing if troubled else kinds)
        return self._tracked[key]

    def unseen(self) -> dict[str, list[Json]]:
        """By chip, who holds it open and says nothing at all of what it has there."""
        found: dict[str, list[Json]] = {}
        for process in self.rows:
            if process["state"] == "untracked":
                for chip_id in process["holds"]:
                    if (id(process), chip_id) not in self._shares:
                        found.setdefault(chip_id, []).append({"pid": process["pid"], "missing": list(blank.KINDS)})
        return found

    def held(self) -> set[str]:
        """The chips that anybody alive has open, or has something on."""
        alive = [process for process in self.rows if process["state"] in _ALIVE]
        found = {chip_id for process in alive for chip_id in process["holds"]}
        return found | {share["chip"] for process in alive for share in process["chips"]}

    def _is_tracked(self, pid: int) -> bool:
        return pid in self._alive and self._alive[pid]["state"] == "tracked"

    def _row(self, pid: int, start: int | None) -> Json:
        row = self._alive.get(pid)
        if row is not None and _same(row["start"], start):
            return row
        gone = self._exited.get(pid)
        if gone is not None and start is not None and gone["start"] == start:
            return gone  # the account has seen it die since the machine was looked at
        row = self._alive[pid] = blank.process(pid, "untracked")
        row["start"] = start
        self.rows.append(row)
        return row

    def _describe(self, row: Json, seen: Json) -> None:
        for name in ("user_id", "user", "name", "container", "job"):
            row[name] = seen.get(name) if row[name] is None else row[name]
        if row["command"] is None and self._may_see(seen["user_id"]):
            row["command"] = seen.get("command")


def _copy(value: Any) -> Any:
    """Of data, all the way down."""
    if isinstance(value, dict):
        return {key: _copy(inner) for key, inner in value.items()}
    return [_copy(inner) for inner in value] if isinstance(value, list) else value

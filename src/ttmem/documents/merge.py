# SPDX-License-Identifier: Apache-2.0
"""Merges the account and the state of the machine into one snapshot: a pure function.

The server uses its own account, `ttmem smi` without a server an empty one. For each process, chip and kind the
strongest source counts: tracked bytes, else tt-metal's own counters of a living process.
"""

from __future__ import annotations

from ttmem.documents import chip_matching as joins
from ttmem.documents import notes
from ttmem.documents import unknown_rows as blank
from ttmem.documents.chip_matching import place_of
from ttmem.documents.host_totals import sums
from ttmem.documents.merged_processes import ALIVE, COUNTED, MergedProcesses, same_start

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Literal

    from ttmem.model.machine_rows import CounterFile, CounterSlot, DriverChip, MachineLook
    from ttmem.model.schema import (
        ChipRow,
        ChipShare,
        CountedBytes,
        CountedKind,
        DramRow,
        L1Row,
        MainPool,
        MemoryRow,
        Snapshot,
    )

# The kinds on which account and counters must agree. Not circular buffers: the account has the bytes of each program,
# the counters the space that programs share.
COMPARED = COUNTED[:4]
_UNCOUNTED = [kind for kind in blank.KINDS if kind not in COUNTED]
_POOL: dict[CountedKind, MainPool] = {"dram": "dram", "trace": "dram", "l1": "l1", "l1_small": "l1", "cb": "l1"}


def merge(
    snapshot: Snapshot,
    machine: MachineLook,
    *,
    before: dict[str, joins.Memory] | None = None,
    differing: Mapping[tuple[int, str], dict[str, tuple[int, int]]] | None = None,
    may_see: Callable[[int | None], bool] = lambda user_id: True,
) -> Snapshot:
    """The merged snapshot.

    ``before`` has earlier matches of unique ids and PCI addresses; new ones are added. ``differing`` are the lasting
    differences between account and counters, by pid and chip: see `differences`.
    """
    found = joined(snapshot, machine, {} if before is None else before)
    if before is not None:
        joins.remember(before, found, machine["chips"])
    rows, by_place = _chips(snapshot, machine, found)
    files = _files(machine, rows, by_place, found)
    processes = MergedProcesses(snapshot, machine, by_place, may_see)
    for file, row in files:
        _count(row, file, processes)
    processes.add_usage(machine["usage"])
    unseen, held = processes.unseen(), processes.held()
    all_seen = any(source["name"] == "processes" and source["state"] == "ok" for source in machine["sources"])
    for row in rows:
        row["memory"]["unseen"] += unseen.get(row["chip"], ())
        row["held"] = row["chip"] in held or (False if all_seen and row["kmd"] is not None else None)
    rows.sort(key=lambda row: (row["kmd"] is None, row["kmd"] or 0, len(row["chip"]), row["chip"]))
    process_rows = processes.rows()
    merged: Snapshot = {
        **snapshot,
        "sources": [*snapshot["sources"], *machine["sources"]],
        "driver": machine["driver"],
        "chips": rows,
        "processes": process_rows,
        "sums": sums(rows, process_rows),
    }
    merged["notes"] = [*snapshot["notes"], *notes.of(merged, machine, [file for file, _ in files], differing or {})]
    return merged


# -- chips ---------------------------------------------------------------------------------------------------------


def joined(snapshot: Snapshot, machine: MachineLook, before: Mapping[str, joins.Memory]) -> dict[str, joins.Join]:
    """The places of the chips with a unique id."""
    places = {chip["kmd"]: place_of(chip) for chip in machine["chips"]}
    uses: dict[int, tuple[dict[str, int | None], set[str]]] = {}
    starts: dict[int, int | None] = {}
    for holder in machine["processes"]:
        # A process that is opening or closing its chips may hold other chips than it uses.
        if holder.get("settled", True):
            uses[holder["pid"]] = {}, {places[kmd] for kmd in holder["holds"] if kmd in places}
            starts[holder["pid"]] = holder["start"]
    for process in snapshot["processes"]:
        pid = process["pid"]
        if (
            process["state"] == "tracked"
            and pid is not None
            and pid in uses
            and same_start(process["start"], starts[pid])
        ):
            for share in process["chips"]:
                uses[pid][0][share["chip"]] = share["metal_id"]
    files = [file for file in machine["shm"] if not _nameless(file)]
    for file in files:
        users = [slot["process"] for slot in file["slots"] if slot["state"] == "live"]
        held = [uses[user][1] if user is not None and user in uses else None for user in users]
        # The number is that of the last process to attach, but processes that hold the same chips use the same numbers.
        alike = len(users) == 1 or (None not in held and all(one == held[0] for one in held))
        number = file["metal_id"] if alike else None
        for user in users:
            if user is not None and user in uses:
                uses[user][0].setdefault(file["chip"], number)
    known = {chip["chip"]: chip for chip in snapshot["chips"] if chip["unique_id"] is not None}
    local = [
        chip_id
        for chip_id in (*known, *(file["chip"] for file in files))
        if chip_id not in known or not known[chip_id]["remote"]
    ]
    traits = {chip_id: (chip["arch"], chip["remote"]) for chip_id, chip in known.items()}
    return joins.find(local, machine["chips"], list(uses.values()), before, traits)


def _nameless(file: CounterFile) -> bool:
    """Whether the name of the file is only a device number, because tt-metal had no unique id."""
    return file["chip"] == str(file["metal_id"])


def _chips(
    snapshot: Snapshot, machine: MachineLook, found: dict[str, joins.Join]
) -> tuple[list[ChipRow], dict[str, ChipRow]]:
    """A row for every chip, and the rows by place."""
    seen = {place_of(chip): chip for chip in machine["chips"]}
    by_kmd = {chip["kmd"]: place for place, chip in seen.items() if chip["kmd"] is not None}
    used = {share["chip"] for process in snapshot["processes"] for share in process["chips"]}
    joined = {found[chip["chip"]][0] for chip in snapshot["chips"] if chip["chip"] in found}
    rows: list[ChipRow] = []
    by_place: dict[str, ChipRow] = {}
    for chip in sorted(snapshot["chips"], key=lambda chip: chip["identity"] != "known"):
        place, how = found.get(chip["chip"], (None, None))
        if place is None:
            own = next((name for name in (chip["chip"], chip["pci"]) if name in seen), None)
            there = by_kmd.get(chip["kmd"]) if chip["kmd"] is not None else None
            # Numbers change when chips are reset, so they count only without an address.
            if own is None and there is not None and None in (chip["pci"], seen[there]["pci"]):
                own = there
            if own in joined and chip["chip"] not in used:
                continue  # the account also has this chip by its unique id
            place = own
        row: ChipRow = {**chip, "memory": _copied(chip["memory"]), "joined_by": None}
        if place is not None and place in seen and place not in by_place:
            by_place[place] = row
            row["joined_by"] = how
            _describe_chip(row, seen[place])
        elif chip["pci"] not in (None, *seen) and chip["kmd"] in by_kmd:
            row["kmd"] = None  # another chip has this number now
        rows.append(row)
    for place, driver_chip in seen.items():
        if place not in by_place:
            row = by_place[place] = blank.chip(place, arch=driver_chip["arch"], board=driver_chip["board"])
            _describe_chip(row, driver_chip)
            rows.append(row)
    return rows, by_place


def _copied(memory: MemoryRow) -> MemoryRow:
    """A copy of everything that is changed here; the rest is shared with the account's snapshot."""
    dram, l1 = memory["dram"], memory["l1"]
    return {
        **memory,
        "dram": {**dram, "trace": {**dram["trace"]}},
        "l1": {
            **l1,
            "at_once_parts": {**l1["at_once_parts"]},
            "small": {**l1["small"]},
            "cb": {**l1["cb"]},
        },
        "confidence": {**memory["confidence"]},
        "unseen": [*memory["unseen"]],
    }


def _describe_chip(row: ChipRow, chip: DriverChip) -> None:
    """Add the driver's data of the chip."""
    if row["pci"] is None:
        row["pci"] = chip["pci"]
    if row["arch"] is None:
        row["arch"] = chip["arch"]
    if row["board"] is None:
        row["board"] = chip["board"]
    row["kmd"] = chip["kmd"]
    row["remote"] = chip.get("remote", False)
    row["unique_id"] = row["unique_id"] or chip.get("unique_id")
    row["serial"] = chip["serial"]
    row["asic_id"] = chip["asic_id"]
    row["firmware"] = chip["firmware"]
    row["pcie"] = chip["pcie"]
    row["telemetry"] = chip["telemetry"]
    memory = row["memory"]
    if memory["dram"]["capacity"] is None:
        sizes = blank.memory(row["board"], row["arch"])
        _take_sizes(memory["dram"], sizes["dram"])
        _take_sizes(memory["l1"], sizes["l1"])


def _take_sizes(pool: DramRow | L1Row, sizes: DramRow | L1Row) -> None:
    pool["capacity"] = sizes["capacity"]
    pool["capacity_basis"] = sizes["capacity_basis"]
    pool["banks"] = sizes["banks"]


def _files(
    machine: MachineLook, rows: list[ChipRow], by_place: dict[str, ChipRow], found: dict[str, joins.Join]
) -> list[tuple[CounterFile, ChipRow]]:
    """tt-metal's counters, each with the row of its chip.

    A file without living processes adds no new row: tt-metal never removes files, so a machine may have many files of
    former chips or of mock devices.
    """
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
        if row["shm"] is None or _alive(file):  # a chip may have a file with an earlier name
            row["shm"] = {
                "state": file["state"],
                "why": file["why"],
                "version": file["version"],
                "live": file["live"],
                "stale": file["stale"],
                "totals": file["totals"],
                "updated": file["updated"],
            }
        if file["state"] == "ok":
            out.append((file, row))
    return out


def _behind(
    file: CounterFile, chip_id: str, machine: MachineLook, by_place: dict[str, ChipRow], joined: set[str]
) -> ChipRow:
    """A chip that is known only from its counters.

    If its user holds cards of one type, it is on one of those: the remote chip of an n300.
    """
    users = {slot["process"] for slot in file["slots"] if slot["state"] == "live"}
    held = {kmd for process in machine["processes"] if process["pid"] in users for kmd in process["holds"]}
    cards = {place: row for place, row in by_place.items() if row["kmd"] in held}
    sorts = {(row["arch"], row["board"]) for row in cards.values()}
    arch, board = sorts.pop() if len(sorts) == 1 else (None, None)
    row = blank.chip(chip_id, arch=arch, board=board, identity="assumed" if _nameless(file) else "known")
    if board == "n300" and joined.issuperset(cards):
        row["remote"] = True
    return row


def _alive(file: CounterFile) -> bool:
    return any(slot["state"] == "live" for slot in file["slots"])


# -- numbers -------------------------------------------------------------------------------------------------------


def _count(row: ChipRow, file: CounterFile, processes: MergedProcesses) -> None:
    """Add tt-metal's counters of the processes on a chip, where there is no better source."""
    memory = row["memory"]
    alone = sum(slot["state"] == "live" for slot in file["slots"]) == 1
    missing = frozenset(memory["missing"])
    added: dict[CountedKind, int] = {}
    for slot in file["slots"]:
        process = processes.of_slot(slot)
        if process is None:
            memory["unseen"] += processes.hidden_in(slot)
            continue
        share = process.share(row["chip"])
        share["shm"] = _plus(share["shm"], slot)
        if process.row["state"] not in ALIVE:
            continue
        number = file["metal_id"]
        if share["metal_id"] is None and alone and number is not None:
            share["metal_id"], share["metal_ids"] = number, [number]
        tracked = process.tracked(missing)
        for kind in COUNTED:
            if kind not in tracked:
                _add_to_share(share, kind, slot[kind])
                added[kind] = added.get(kind, 0) + slot[kind]
        unknown = [kind for kind in _UNCOUNTED if kind not in tracked]
        if unknown:
            memory["unseen"].append({"pid": process.row["pid"], "missing": unknown})
    for kind, size in added.items():
        _add_to_memory(memory, kind, size)


def _plus(before: CountedBytes | None, slot: CounterSlot) -> CountedBytes:
    if before is None:
        before = {"dram": 0, "l1": 0, "l1_small": 0, "trace": 0, "cb": 0}
    return {
        "dram": before["dram"] + slot["dram"],
        "l1": before["l1"] + slot["l1"],
        "l1_small": before["l1_small"] + slot["l1_small"],
        "trace": before["trace"] + slot["trace"],
        "cb": before["cb"] + slot["cb"],
    }


def _add_to_share(share: ChipShare, kind: CountedKind, size: int) -> None:
    pool = _POOL[kind]
    share["kinds"][kind] = share["kinds"].get(kind, 0) + size
    share[pool] = (share[pool] or 0) + size
    if pool == "dram":
        share["peak_dram"] = share["peak_dram_at_most"] = None
    else:
        share["peak_l1"] = share["peak_l1_at_most"] = None


def _add_to_memory(memory: MemoryRow, kind: CountedKind, size: int) -> None:
    """Add bytes from tt-metal's counters; their reserved size and their peak are not known."""
    if kind == "dram" or kind == "trace":
        _add_to_dram(memory["dram"], kind, size)
    else:
        _add_to_l1(memory["l1"], kind, size)
    memory["confidence"]["reported"] += size
    memory["missing"] = [missing for missing in memory["missing"] if missing != kind]


def _add_to_dram(dram: DramRow, kind: Literal["dram", "trace"], size: int) -> None:
    dram["used"] = (dram["used"] or 0) + size
    dram["peak"] = dram["peak_at_most"] = dram["reserved_peak"] = None
    if size:  # without bytes, nothing is reserved
        dram["reserved"] = None
    if kind == "trace":
        trace = dram["trace"]
        trace["used"] = (trace["used"] or 0) + size
        if size:
            trace["reserved"] = None


def _add_to_l1(l1: L1Row, kind: Literal["l1", "l1_small", "cb"], size: int) -> None:
    l1["used"] = (l1["used"] or 0) + size
    l1["peak"] = l1["peak_at_most"] = l1["reserved_peak"] = l1["bank_free"] = None
    l1["at_once"] = (l1["at_once"] or 0) + size
    l1["at_once_parts"][kind] = (l1["at_once_parts"][kind] or 0) + size
    if kind == "cb":
        cb = l1["cb"]
        cb["held"] = (cb["held"] or 0) + size
        if size:
            cb["resident"] = None
        return
    if size:
        l1["reserved"] = None
    if kind == "l1":
        l1["buffers"] = (l1["buffers"] or 0) + size
    else:
        small = l1["small"]
        small["used"] = (small["used"] or 0) + size
        small["peak"] = small["peak_at_most"] = None
        if size:
            small["reserved"] = None

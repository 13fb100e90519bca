# SPDX-License-Identifier: Apache-2.0
"""Sums over the chips and processes of a snapshot: for the host, each board and each job.

Pure functions. Unknown values are in no sum, and each sum has the number of chips for which it is completely known
(``used_on``). So the parts always add up: boards to the host in all sums, jobs to the host in used bytes.

There are no sums of peaks, because the peaks of chips and processes are from different times.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    from ttmem.model.schema import (
        BoardSum,
        ChipRow,
        DramSum,
        HostSum,
        JobPoolSum,
        JobSum,
        L1Sum,
        MainPool,
        ProcessRow,
        Sums,
    )

    Amount = Literal["used", "reserved", "capacity", "at_once"]

ALIVE = ("tracked", "untracked")
STATES = (*ALIVE, "stale", "exited")


def sums(chips: list[ChipRow], processes: list[ProcessRow]) -> Sums:
    """The sums of the host, the boards and the jobs.

    >>> empty = sums([], [])
    >>> empty["host"]["chips"], empty["host"]["dram"]["used"], empty["boards"], empty["jobs"]
    ([], None, [], [])
    """
    users = _users(processes)
    return {"host": _of_chips(chips, users), "boards": _boards(chips, users), "jobs": _jobs(chips, processes, users)}


def _users(processes: list[ProcessRow]) -> dict[str, set[int]]:
    """For each chip, the indices of living processes that use it or have it open."""
    users: dict[str, set[int]] = {}
    for number, process in enumerate(processes):
        if process["state"] in ALIVE:
            for share in process["chips"]:
                users.setdefault(share["chip"], set()).add(number)
            for chip_id in process["holds"]:
                users.setdefault(chip_id, set()).add(number)
    return users


def _of_chips(chips: list[ChipRow], users: dict[str, set[int]]) -> HostSum:
    return {
        "chips": [chip["chip"] for chip in chips],
        "idle": sum(chip["held"] is False for chip in chips),
        "processes": len(set().union(*(users.get(chip["chip"], ()) for chip in chips))),
        "dram": _of_dram(chips),
        "l1": _of_l1(chips),
    }


def _of_dram(chips: list[ChipRow]) -> DramSum:
    used, used_on = _sum(chips, "dram", "used")
    reserved, reserved_on = _sum(chips, "dram", "reserved")
    capacity, capacity_on = _sum(chips, "dram", "capacity")
    return {
        "used": used,
        "used_on": used_on,
        "reserved": reserved,
        "reserved_on": reserved_on,
        "capacity": capacity,
        "capacity_on": capacity_on,
    }


def _of_l1(chips: list[ChipRow]) -> L1Sum:
    used, used_on = _sum(chips, "l1", "used")
    at_once, at_once_on = _sum(chips, "l1", "at_once")
    reserved, reserved_on = _sum(chips, "l1", "reserved")
    capacity, capacity_on = _sum(chips, "l1", "capacity")
    return {
        "used": used,
        "used_on": used_on,
        "at_once": at_once,
        "at_once_on": at_once_on,
        "reserved": reserved,
        "reserved_on": reserved_on,
        "capacity": capacity,
        "capacity_on": capacity_on,
    }


def _sum(chips: list[ChipRow], pool: MainPool, name: Amount) -> tuple[int | None, int]:
    """The sum, None if nothing is known; and the number of chips for which it is completely known."""
    found = [(chip, size) for chip in chips if (size := _amount(chip, pool, name)) is not None]
    return sum(size for _, size in found) if found else None, sum(is_known(chip, pool, name) for chip, _ in found)


def _amount(chip: ChipRow, pool: MainPool, name: Amount) -> int | None:
    if name == "at_once":
        return chip["memory"]["l1"]["at_once"]
    return chip["memory"][pool][name]


def is_known(chip: ChipRow, pool: MainPool, name: Amount) -> bool:
    """Whether the value is complete; not if an untracked process uses the chip."""
    if _amount(chip, pool, name) is None:
        return False
    return name == "capacity" or not any(pool in one["missing"] for one in chip["memory"]["unseen"])


def _boards(chips: list[ChipRow], users: dict[str, set[int]]) -> list[BoardSum]:
    """Chips grouped by serial number. The board of chips without one is not known: they come last, as None."""
    found: dict[str | None, list[ChipRow]] = {}
    for chip in chips:
        found.setdefault(chip["serial"], []).append(chip)
    found = {**{serial: some for serial, some in found.items() if serial is not None}, None: found.get(None, [])}
    return [
        {"serial": serial, "board": _same(some), **_of_chips(some, users)} for serial, some in found.items() if some
    ]


def _same(chips: list[ChipRow]) -> str | None:
    """The type of board, if all chips have the same."""
    kinds = {chip["board"] for chip in chips}
    return kinds.pop() if len(kinds) == 1 else None


def _jobs(chips: list[ChipRow], processes: list[ProcessRow], users: dict[str, set[int]]) -> list[JobSum]:
    """Processes grouped by job. Those with an unknown job come last, as None."""
    jobs = [_job_of(process) for process in processes]
    found: dict[str | None, list[ProcessRow]] = {}
    names: dict[str | None, str | None] = {None: None}
    for (job, name), process in zip(jobs, processes):
        found.setdefault(job, []).append(process)
        names[job] = names.get(job) or name  # the leader of a session may have exited meanwhile
    alone: dict[str | None, list[ChipRow]] = {}
    for chip in chips:
        there = {jobs[number][0] for number in users.get(chip["chip"], ())}
        if len(there) == 1:
            alone.setdefault(there.pop(), []).append(chip)
    ordered = sorted(found, key=lambda job: job is None)
    return [_of_job(job, names[job], found[job], alone.get(job, [])) for job in ordered]


def _job_of(process: ProcessRow) -> tuple[str | None, str | None]:
    """(id, name): its container, else its job. None for a process that is not visible."""
    if process["pid"] is None:
        return None, None
    if process["container"]:
        return process["container"], None
    return (process["job"]["id"], process["job"]["name"]) if process["job"] else (None, None)


def _of_job(job: str | None, name: str | None, processes: list[ProcessRow], alone: list[ChipRow]) -> JobSum:
    """``alone`` are the chips that no other job uses: reserved bytes there belong to these processes."""
    alive = [process for process in processes if process["state"] in ALIVE]
    used = [share["chip"] for process in alive for share in process["chips"]]
    holds = [chip_id for process in alive for chip_id in process["holds"]]
    chips = list(dict.fromkeys([*used, *holds]))
    states = [process["state"] for process in processes]
    return {
        "id": job,
        "name": name,
        "chips": chips,
        "processes": len(alive),
        "states": {
            "tracked": states.count("tracked"),
            "untracked": states.count("untracked"),
            "stale": states.count("stale"),
            "exited": states.count("exited"),
        },
        "dram": _of_job_pool("dram", len(chips), alive, alone),
        "l1": _of_job_pool("l1", len(chips), alive, alone),
    }


def _of_job_pool(pool: MainPool, chips: int, alive: list[ProcessRow], alone: list[ChipRow]) -> JobPoolSum:
    used = [size for process in alive for share in process["chips"] if (size := share[pool]) is not None]
    known = [chip for chip in alone if is_known(chip, pool, "reserved")]
    taken = [size for chip in known if (size := chip["memory"][pool]["reserved"]) is not None]
    return {
        "used": sum(used) if used else None,
        "used_on": chips - len(_silent(alive, pool)),
        "reserved": sum(taken) if taken else None,
        "reserved_on": len(taken),
    }


def _silent(processes: list[ProcessRow], pool: MainPool) -> set[str]:
    """The chips that one of the processes uses or has open, with unknown bytes."""
    found: set[str] = set()
    for process in processes:
        told = {share["chip"] for share in process["chips"] if share[pool] is not None}
        found.update(share["chip"] for share in process["chips"] if share[pool] is None)
        found.update(chip_id for chip_id in process["holds"] if chip_id not in told)
    return found

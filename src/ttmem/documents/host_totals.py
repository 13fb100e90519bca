# SPDX-License-Identifier: Apache-2.0
"""Sums over the chips and processes of a snapshot: of the host, of each board, of each job.

Pure. What is not known of a chip is in no sum, and beside each sum stands on how many chips all of it is known
(``used_on``). So the parts always add up to the whole: boards to the host in everything, jobs to the host in what is
used.

There are no peaks here: chips and processes have theirs at different times, and a sum of peaks is no peak.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Json = dict[str, Any]

ALIVE = ("tracked", "untracked")
STATES = (*ALIVE, "stale", "exited")
_OF_CHIPS = {"dram": ("used", "reserved", "capacity"), "l1": ("used", "at_once", "reserved", "capacity")}


def sums(chips: list[Json], processes: list[Json]) -> Json:
    """Of everything, and of its parts.

    >>> empty = sums([], [])
    >>> empty["host"]["chips"], empty["host"]["dram"]["used"], empty["boards"], empty["jobs"]
    ([], None, [], [])
    """
    users = _users(processes)
    return {"host": _of_chips(chips, users), "boards": _boards(chips, users), "jobs": _jobs(chips, processes, users)}


def _users(processes: list[Json]) -> dict[str, set[int]]:
    """By chip, the places in the list of those alive that have something of it, or have it open."""
    users: dict[str, set[int]] = {}
    for number, process in enumerate(processes):
        if process["state"] in ALIVE:
            for share in process["chips"]:
                users.setdefault(share["chip"], set()).add(number)
            for chip_id in process["holds"]:
                users.setdefault(chip_id, set()).add(number)
    return users


def _of_chips(chips: list[Json], users: dict[str, set[int]]) -> Json:
    out: Json = {
        "chips": [chip["chip"] for chip in chips],
        "idle": sum(chip["held"] is False for chip in chips),
        "processes": len(set().union(*(users.get(chip["chip"], ()) for chip in chips))),
    }
    for pool, names in _OF_CHIPS.items():
        out[pool] = {}
        for name in names:
            known = [chip["memory"][pool][name] for chip in chips if chip["memory"][pool][name] is not None]
            out[pool][name] = sum(known) if known else None
            out[pool][f"{name}_on"] = sum(is_known(chip, pool, name) for chip in chips)
    return out


def is_known(chip: Json, pool: str, name: str) -> bool:
    """All of it; not where somebody uses the chip of whom nothing is known."""
    memory = chip["memory"]
    if memory[pool][name] is None:
        return False
    return name == "capacity" or not any(pool in one["missing"] for one in memory["unseen"])


def _boards(chips: list[Json], users: dict[str, set[int]]) -> list[Json]:
    """Chips that show the same serial number. Which board the others are on is not known: they come last, as None."""
    found: dict[str | None, list[Json]] = {}
    for chip in chips:
        found.setdefault(chip["serial"], []).append(chip)
    found = {**{serial: some for serial, some in found.items() if serial is not None}, None: found.get(None, [])}
    return [
        {"serial": serial, "board": _same(some), **_of_chips(some, users)} for serial, some in found.items() if some
    ]


def _same(chips: list[Json]) -> str | None:
    """The type of board, if that is one."""
    kinds = {chip["board"] for chip in chips}
    kind: str | None = kinds.pop() if len(kinds) == 1 else None
    return kind


def _jobs(chips: list[Json], processes: list[Json], users: dict[str, set[int]]) -> list[Json]:
    """Processes that belong together. Those of which it is not known with whom come last, as None."""
    jobs = [_job_of(process) for process in processes]
    found: dict[str | None, list[Json]] = {}
    names: dict[str | None, str | None] = {None: None}
    for (job, name), process in zip(jobs, processes):
        found.setdefault(job, []).append(process)
        names[job] = names.get(job) or name  # the leader of a session may have gone since others were looked at
    alone: dict[str | None, list[Json]] = {}
    for chip in chips:
        there = {jobs[number][0] for number in users.get(chip["chip"], ())}
        if len(there) == 1:
            alone.setdefault(there.pop(), []).append(chip)
    ordered = sorted(found, key=lambda job: job is None)
    return [{"id": job, "name": names[job], **_of_processes(found[job], alone.get(job, []))} for job in ordered]


def _job_of(process: Json) -> tuple[str | None, str | None]:
    """(id, name): its container, else what it was started as. One that cannot be seen may belong to anybody."""
    if process["pid"] is None:
        return None, None
    if process["container"]:
        return process["container"], None
    return (process["job"]["id"], process["job"]["name"]) if process["job"] else (None, None)


def _of_processes(processes: list[Json], alone: list[Json]) -> Json:
    """``alone`` are the chips that nobody else uses: what the allocators took there, they took for these processes."""
    alive = [process for process in processes if process["state"] in ALIVE]
    shares = [share for process in alive for share in process["chips"]]
    states = [process["state"] for process in processes]
    holds = [chip_id for process in alive for chip_id in process["holds"]]
    out: Json = {
        "chips": list(dict.fromkeys([*[share["chip"] for share in shares], *holds])),
        "processes": len(alive),
        "states": {state: states.count(state) for state in STATES},
    }
    for pool in _OF_CHIPS:
        used = [share[pool] for share in shares if share[pool] is not None]
        taken = [chip["memory"][pool]["reserved"] for chip in alone if is_known(chip, pool, "reserved")]
        out[pool] = {
            "used": sum(used) if used else None,
            "used_on": len(out["chips"]) - len(_silent(alive, pool)),
            "reserved": sum(taken) if taken else None,
            "reserved_on": len(taken),
        }
    return out


def _silent(processes: list[Json], pool: str) -> set[str]:
    """The chips that one of them has something of, or has open, and of which it is not known how much."""
    found: set[str] = set()
    for process in processes:
        told = {share["chip"] for share in process["chips"] if share[pool] is not None}
        found.update(share["chip"] for share in process["chips"] if share[pool] is None)
        found.update(chip_id for chip_id in process["holds"] if chip_id not in told)
    return found

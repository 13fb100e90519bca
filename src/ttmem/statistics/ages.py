# SPDX-License-Identifier: Apache-2.0
"""How long allocations lived, how they ended, and what the program itself never freed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ttmem.analyze.hold_reasons import Cause, cause_with
from ttmem.model.kinds import BREAKDOWN_POOL_OF, KINDS
from ttmem.recording.allocation_table import SYSTEM, End
from ttmem.recording.record_arrays import Array
from ttmem.statistics.causes import key_of
from ttmem.statistics.exact_sums import sums_by
from ttmem.statistics.window import Window
from ttmem.wire.agent_ring import BINARY, KEPT

if TYPE_CHECKING:
    from ttmem.model.schema import StatsAges, StatsFreedLate, StatsLate, StatsLives

_BY_PROGRAM = (End.FREED, End.PROGRAM_DESTROYED)
_LATE = (End.DEVICE_CLOSED, End.PROCESS_EXITED)


def lives(window: Window) -> list[StatsLives]:
    """For each kind, how the allocations that were made in the window ended, and how old those were that were freed."""
    table = window.table
    rows = np.flatnonzero(window.made)
    kinds, over = table.kind[rows], table.end[rows] <= window.until
    how = np.where(over, table.ended_by[rows], End.LIVE).astype(np.int64)
    ends = np.bincount(kinds.astype(np.int64) * len(End) + how, minlength=len(KINDS) * len(End))
    by_program = np.isin(how, _BY_PROGRAM)
    found: list[StatsLives] = []
    for kind in KINDS:
        counts = ends[kind * len(End) : (kind + 1) * len(End)].tolist()
        if not any(counts):
            continue
        mine = rows[by_program & (kinds == kind)]
        found.append(
            {
                "kind": kind.label,
                "freed": counts[End.FREED],
                "program_destroyed": counts[End.PROGRAM_DESTROYED],
                "device_closed": counts[End.DEVICE_CLOSED],
                "process_exited": counts[End.PROCESS_EXITED],
                "unknown": counts[End.REPLACED] + counts[End.LOST],
                "live": counts[End.LIVE],
                "seconds": _ages(table.end[mine] - table.begin[mine]),
            }
        )
    return found


def _ages(ages: Array) -> StatsAges | None:
    """Percentiles by nearest rank: each is the age of one allocation."""
    if not len(ages):
        return None
    last = len(ages) - 1
    places = [-(-len(ages) * share // 100) - 1 for share in (50, 90, 99)]
    ordered = np.partition(ages, sorted({*places, last}))
    median, most, nearly_all = (float(ordered[place]) / 1e9 for place in places)
    return {"median": median, "p90": most, "p99": nearly_all, "longest": float(ordered[last]) / 1e9}


def freed_late(window: Window, most: int) -> StatsFreedLate:
    """What ended in the window with its device or process, by line and operation; only what the program had to free."""
    table = window.table
    rows = np.flatnonzero(window.ended & np.isin(table.ended_by, _LATE))
    rows = rows[_had_to_be_freed(table.flags[rows], table.kind[rows], table.program[rows])]
    groups: dict[tuple[str, str | None, str | None], StatsLate] = {}
    pools = np.array(BREAKDOWN_POOL_OF, np.int64)[table.kind[rows]]
    keys = pools * len(table.sites) + table.site[rows]
    distinct, place = np.unique(keys, return_inverse=True)
    with_device = table.ended_by[rows] == End.DEVICE_CLOSED
    counts = np.bincount(place, minlength=len(distinct)).tolist()
    sizes = sums_by(place, window.amount[rows], len(distinct)).tolist()
    devices = np.bincount(place, weights=with_device, minlength=len(distinct)).tolist()
    ages = np.zeros(len(distinct), np.int64)
    np.maximum.at(ages, place, table.end[rows] - table.begin[rows])
    for number, key in enumerate(distinct.tolist()):
        site, pool = table.sites[key % len(table.sites)], list(type(BREAKDOWN_POOL_OF[0]))[key // len(table.sites)]
        line, op = key_of(site, "line"), key_of(site, "op")
        row = groups.setdefault(
            (pool.label, line, op),
            {"pool": pool.label, "line": line, "op": op, "count": 0, "bytes": 0, "device_closed": 0,
             "process_exited": 0, "longest_s": 0.0},
        )  # fmt: skip
        row["count"] += counts[number]
        row["bytes"] += sizes[number]
        row["device_closed"] += int(devices[number])
        row["process_exited"] += counts[number] - int(devices[number])
        row["longest_s"] = max(row["longest_s"], float(ages[number]) / 1e9)
    listed = sorted(groups.values(), key=lambda row: (-row["bytes"], str(row["line"]), str(row["op"]), row["pool"]))
    return {"groups": len(listed), "count": len(rows), "rows": listed[:most]}


def _had_to_be_freed(flags: Array, kinds: Array, programs: Array) -> Array:
    """Without what the runtime, cached programs and traces hold."""
    rule = np.array([
        [
            cause_with(kind, system=bool(flag & SYSTEM), binary=bool(flag & BINARY), kept=bool(flag & KEPT), part=False)
            is Cause.HELD
            for flag in range(256)
        ]
        for kind in KINDS
    ])  # fmt: skip
    return np.asarray(rule[kinds, flags] & (programs == 0))

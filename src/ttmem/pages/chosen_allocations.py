# SPDX-License-Identifier: Apache-2.0
"""The allocations that a report lists: largest, longest-lived, never freed, live at a peak, freed late."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ttmem.pages.sections import Column
from ttmem.recording.allocation_table import NEVER, AllocationTable, End
from ttmem.recording.record_arrays import Array

MOST = 50_000
LARGEST, LONGEST, NEVER_FREED, AT_PEAK, LATE = 1, 2, 4, 8, 16  # bits of the column `chosen`
ENDS = ["live at the end", "freed", "device closed", "program destroyed", "process exited", "replaced", "lost"]
_LATE_ENDS = (End.DEVICE_CLOSED, End.PROCESS_EXITED)


class Chosen(NamedTuple):
    """Rows of the table, ascending, and why each was chosen."""

    rows: Array
    why: Array


def choose(table: AllocationTable, rows: Array, at_peaks: list[Array], most: int = MOST) -> Chosen:
    """At most so many of some rows. If there are fewer, all are listed."""
    why = np.zeros(len(table), np.uint8)
    life = np.minimum(table.end[rows], table.length) - table.begin[rows]
    share = max(1, most // 5)
    reasons = [
        (AT_PEAK, np.concatenate([np.zeros(0, np.int64), *at_peaks])),
        (NEVER_FREED, rows[table.end[rows] == NEVER]),
        (LATE, rows[np.isin(table.ended_by[rows], np.array(_LATE_ENDS, np.uint8))]),
        (LARGEST, rows[_first(table.size[rows], share)]),
        (LONGEST, rows[_first(life, share)]),
    ]
    for bit, found in reasons:
        if len(rows) > most and len(found) > share:
            found = found[_first(table.size[found], share)]
        why[found] |= bit
    listed = rows if len(rows) <= most else np.flatnonzero(why)
    return Chosen(listed, why[listed])


def _first(values: Array, count: int) -> Array:
    """The places of the largest values."""
    return np.arange(len(values)) if len(values) <= count else np.argpartition(-values, count)[:count]


def allocation_columns(table: AllocationTable, chosen: Chosen, site: Array, groups: Array) -> list[Column]:
    """The columns of the section. ``groups`` has a bit for each chip group of each chosen row."""
    rows = chosen.rows
    end = table.end[rows]
    address = table.address[rows]
    known = address < 1 << 53  # others are no addresses: ids that a client gave
    return [
        Column("id", "i64", rows, delta=True),
        Column("begin", "i64", table.begin[rows], delta=True),
        Column("end", "i64", np.where(end == NEVER, -1, end)),
        Column("address", "i64", np.where(known, np.where(known, address, 0).astype(np.int64), -1)),
        Column("size", "i64", table.size[rows]),
        Column("counted", "i64", table.counted[rows]),
        Column("ended_by", "u8", table.ended_by[rows]),
        Column("kind", "u8", table.kind[rows]),
        Column("chosen", "u8", chosen.why),
        Column("groups", "u32", groups),
        Column("site", "u32", site[rows]),
        Column("program", "u32", table.program[rows]),
    ]

# SPDX-License-Identifier: Apache-2.0
"""Temporary allocations: freed by the program before more than one further buffer was allocated, as memray counts."""

from __future__ import annotations

import numpy as np

from ttmem.model.kinds import Kind
from ttmem.recording.allocation_table import AllocationTable, End
from ttmem.recording.record_arrays import Array

_FURTHER = 1  # allocations that may come between


def temporary(table: AllocationTable) -> Array:
    """Which rows of a whole table are temporary. Parts of programs are not, and do not count as allocations here."""
    found = np.zeros(len(table), bool)
    buffers = table.kind < Kind.CB
    processes: dict[object, list[int]] = {}
    for place, source in enumerate(table.sources):
        processes.setdefault(source.info, []).append(place)
    for places in processes.values():
        mine = buffers if len(processes) == 1 else buffers & np.isin(table.source, np.array(places, np.int32))
        rows = np.flatnonzero(mine)
        begins = table.begin[rows]  # ascending, as the table is
        freed = np.flatnonzero(table.ended_by[rows] == End.FREED)
        further = np.searchsorted(begins, table.end[rows[freed]], "left") - 1 - freed
        found[rows[freed[further <= _FURTHER]]] = True
    return found

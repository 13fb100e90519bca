# SPDX-License-Identifier: Apache-2.0
"""What each call site allocated and freed up to some moments, so that a page can answer for any window of time.

live(i) = allocated(i) - freed(i); what a window allocated is the difference of two edges.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ttmem.pages.sections import Column
from ttmem.recording.allocation_table import NEVER, AllocationTable
from ttmem.recording.record_arrays import Array
from ttmem.statistics.exact_sums import sums_by

EDGES = 1024
_MOST_EXACT = 512  # edges at phases, marks and failures


def window_edges(table: AllocationTable, rows: Array, exact: Iterable[int], until: int) -> Array:
    """Times that ascend: equally many events between each two, and exact ones. The first is -1: before everything."""
    begin, end = table.begin[rows], table.end[rows]
    times = np.concatenate([begin, end[end != NEVER]])
    if len(times) > EDGES:
        places = np.linspace(0, len(times) - 1, EDGES).astype(np.int64)
        times = np.partition(times, places)[places]
    wanted = np.unique(np.array(list(exact), np.int64))
    if len(wanted) > _MOST_EXACT:
        wanted = wanted[np.linspace(0, len(wanted) - 1, _MOST_EXACT).astype(np.int64)]
    found = np.unique(np.concatenate([times, wanted, [until - 1]]))
    return np.concatenate([[-1], found[(found >= 0) & (found < until)]])


def window_columns(table: AllocationTable, rows: Array, site_of_row: Array, edges: Array) -> list[Column]:
    """The columns of a section: ``time``, ``site``, and four tables of a line per site and a value per edge."""
    mine = site_of_row[rows]
    sites = np.flatnonzero(np.bincount(mine)) if len(mine) else mine
    places = np.zeros(int(mine.max(initial=0)) + 1, np.int64)
    places[sites] = np.arange(len(sites))
    local = places[mine]
    shape = len(sites), len(edges)
    counted = table.counted[rows]
    tables = []
    for times in (table.begin[rows], table.end[rows]):
        place = np.searchsorted(edges, times, "left")
        here = place < len(edges)  # what happens after the last edge is in no window
        cells = local[here] * len(edges) + place[here]
        amounts = sums_by(cells, counted[here], len(sites) * len(edges)).reshape(shape)
        counts = np.bincount(cells, minlength=len(sites) * len(edges)).reshape(shape)
        tables += [np.cumsum(amounts, axis=1).reshape(-1), np.cumsum(counts, axis=1).reshape(-1)]
    allocated, allocations, freed, frees = tables
    return [
        Column("time", "i64", edges, delta=True),
        Column("site", "u32", sites),
        Column("allocated", "i64", allocated, delta=True),
        Column("freed", "i64", freed, delta=True),
        Column("made", "u32", allocations, delta=True),
        Column("ended", "u32", frees, delta=True),
    ]

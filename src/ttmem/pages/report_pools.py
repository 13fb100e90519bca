# SPDX-License-Identifier: Apache-2.0
"""The peaks of a report: how much of each pool a chip had at most, when, and what was live then."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ttmem.account.entities import Chip
from ttmem.model.kinds import BREAKDOWN_POOLS, BreakdownPool, Kind, Pool
from ttmem.pages.chip_groups import ChipGroup
from ttmem.pages.report_series import l1_capacity
from ttmem.recording.allocation_table import AllocationTable
from ttmem.recording.record_arrays import Array
from ttmem.recording.timeline import Timeline
from ttmem.statistics.exact_sums import sums_by
from ttmem.statistics.fragmentation_over_time import Evaluated

if TYPE_CHECKING:
    from ttmem.model.page_schema import ReportPool, ReportShare

POOL_WORDS = {
    BreakdownPool.DRAM: "DRAM",
    BreakdownPool.L1_BUFFERS: "L1 buffers",
    BreakdownPool.PROGRAMS: "cached programs",
    BreakdownPool.HOST: "buffers in host memory",
    BreakdownPool.SYSTEM: "L1 of the runtime itself",
}
_LISTED = 12
# The account's own totals of these pools. It has none for the others, which are made of kinds that differ from a pool.
_OF_ACCOUNT = {BreakdownPool.DRAM: Pool.DRAM, BreakdownPool.L1_BUFFERS: Pool.L1, BreakdownPool.HOST: Pool.HOST}
# Pools of the account that have nearly the same kinds. They show whether a peak was among lost records.
_LIKE_ACCOUNT = {BreakdownPool.PROGRAMS: Pool.PROGRAM, BreakdownPool.SYSTEM: Pool.SYSTEM}
_BANK_KIND = {BreakdownPool.DRAM: Kind.DRAM, BreakdownPool.L1_BUFFERS: Kind.L1}


class PoolPeak(NamedTuple):
    """The peak of a pool on a chip. ``time`` is None if it was among lost records."""

    pool: BreakdownPool
    value: int
    at_most: int | None  # None: the value is exact; otherwise it is only a lower limit
    time: int | None
    rows: Array  # live then

    @property
    def is_buffers(self) -> bool:
        return self.pool in _BANK_KIND


def pool_peaks(
    table: AllocationTable, group: ChipGroup, chip: Chip | None, timelines: dict[BreakdownPool, Timeline], until: int
) -> list[PoolPeak]:
    """The peaks of all pools that were used, as the account has them."""
    found = []
    for pool, line in timelines.items():
        value, time = line.peak
        when: int | None = max(0, time)
        limit = None if chip is None else _limit(chip, pool, value)
        if chip is not None and pool in _OF_ACCOUNT:
            peak = chip.pools[_OF_ACCOUNT[pool]].peak
            if peak.value != value:  # of lost records, or reached between two events of one time
                value = peak.value
                when = None if peak.time is None else min(max(0, table.at(peak.time)), until - 1)
        if value:
            rows = np.zeros(0, np.int64) if when is None else live_rows(table, group, pool, when)
            found.append(PoolPeak(pool, value, limit, when, rows))
    return found


def _limit(chip: Chip, pool: BreakdownPool, value: int) -> int | None:
    """The highest that a peak can have been; None if it is exact."""
    if pool in _OF_ACCOUNT:
        return chip.pools[_OF_ACCOUNT[pool]].peak.limit
    alike = chip.pools[_LIKE_ACCOUNT[pool]].peak
    most = sum(chip.kinds[kind].peak.at_most for kind in BREAKDOWN_POOLS[pool])
    return most if (alike.time is None or alike.limit is not None) and most > value else None


def live_rows(table: AllocationTable, group: ChipGroup, pool: BreakdownPool, time: int) -> Array:
    """The allocations of a pool that were live at a time."""
    rows = group.rows
    live = (table.begin[rows] <= time) & (table.end[rows] > time)
    rows = rows[live]
    return np.asarray(rows[np.isin(table.kind[rows], np.array(BREAKDOWN_POOLS[pool], np.uint8))])


def report_pools(
    table: AllocationTable,
    peaks: Iterable[PoolPeak],
    timelines: dict[BreakdownPool, Timeline],
    chip: Chip | None,
    site_of_row: Array,
    evaluated: Iterable[Evaluated],
) -> list[ReportPool]:
    evaluated = list(evaluated)
    geometry = chip.geometry if chip is not None else None
    capacities = {
        BreakdownPool.DRAM: geometry.dram_capacity if geometry is not None else None,
        BreakdownPool.L1_BUFFERS: l1_capacity(geometry),
    }
    found: list[ReportPool] = []
    for peak in peaks:
        shares = _shares(table, peak.rows, site_of_row)
        listed = shares[:_LISTED]
        kind = _BANK_KIND.get(peak.pool)
        banks = [one for one in evaluated if one.kind is kind and chip is not None and chip.id in one.chips]
        line = timelines[peak.pool]
        found.append({
            "pool": peak.pool.label,
            "capacity": capacities.get(peak.pool),
            "peak": peak.value,
            "peak_at_most": peak.at_most,
            "peak_ns": peak.time,
            "at_peak": listed,
            "rest": max(0, peak.value - sum(one["bytes"] for one in listed)),
            "end": int(line.value[-1]) if len(line.value) else 0,
            "smallest_largest_free": min((int(one.largest.min()) for one in banks if len(one.largest)), default=None),
            "banks": max((one.banks for one in banks), default=None),
        })  # fmt: skip
    return found


def _shares(table: AllocationTable, rows: Array, site_of_row: Array) -> list[ReportShare]:
    """The sites of these rows, most bytes first."""
    sites = site_of_row[rows]
    if not len(sites):
        return []
    count = int(sites.max()) + 1
    amounts, counts = sums_by(sites, table.counted[rows], count), np.bincount(sites, minlength=count)
    order = np.argsort(-amounts, kind="stable")
    return [
        {"site": site, "count": int(counts[site]), "bytes": int(amounts[site])}
        for site in order.tolist()
        if counts[site]
    ]

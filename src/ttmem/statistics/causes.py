# SPDX-License-Identifier: Apache-2.0
"""What allocates most: lines, operations and shapes, by bytes, by count, and by temporary allocations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ttmem.model.kinds import BREAKDOWN_POOLS, BreakdownPool
from ttmem.model.stack_frames import line_of
from ttmem.recording.allocation_table import Site
from ttmem.recording.record_arrays import Array
from ttmem.statistics.exact_sums import sums_by
from ttmem.statistics.window import Window

if TYPE_CHECKING:
    from ttmem.model.schema import StatsCause, StatsTop

KEYS = ("line", "op", "shape")
_FIGURES = ("count", "bytes", "temporary", "temporary_bytes", "live", "live_bytes")
_ORDERS = (("bytes", 1), ("count", 0), ("temporary", 2))  # name, and the figure that decides


def key_of(site: Site, by: str) -> str | None:
    """What a row is grouped by. The operation of a part is that of its program."""
    if by == "line":
        return line_of(site.stack)
    return site.shape if by == "shape" else site.op


def tops(window: Window, temporary: Array, most: int) -> list[StatsTop]:
    """For each pool and key, the groups that are among the first ``most`` in one of the orders."""
    table, found = window.table, []
    chosen = window.made & window.ended & temporary
    live = window.made & (table.end > window.until)
    for pool in BreakdownPool:
        here = table.of_kinds(*BREAKDOWN_POOLS[pool])
        figures = []
        for mask in (window.made, chosen, live):
            rows = np.flatnonzero(mask & here)
            sites = table.site[rows]
            figures.append(np.bincount(sites, minlength=len(table.sites)))
            figures.append(sums_by(sites, window.amount[rows], len(table.sites)))
        if not figures[0].any():
            continue
        columns = np.stack(figures)
        used = np.flatnonzero(columns[0]).tolist()
        for by in KEYS:
            groups: dict[str | None, list[int]] = {}
            for site in used:
                sums = groups.setdefault(key_of(table.sites[site], by), [0] * len(_FIGURES))
                for place, value in enumerate(columns[:, site].tolist()):
                    sums[place] += value
            found.append(_top(pool.label, by, groups, most))
    return found


def _top(pool: str, by: str, groups: dict[str | None, list[int]], most: int) -> StatsTop:
    ranks: dict[str | None, dict[str, int]] = {key: {} for key in groups}
    for name, place in _ORDERS:
        for rank, key in enumerate(sorted(groups, key=lambda one: _order(groups[one], place, one)), 1):
            ranks[key][name] = rank
    shown = [
        key
        for key, ranked in ranks.items()
        if min(ranked["bytes"], ranked["count"]) <= most or (ranked["temporary"] <= most and groups[key][2])
    ]
    rows: list[StatsCause] = [
        {
            "key": key,
            "count": groups[key][0],
            "bytes": groups[key][1],
            "temporary": {"count": groups[key][2], "bytes": groups[key][3]},
            "live": {"count": groups[key][4], "bytes": groups[key][5]},
            "rank": {"bytes": ranks[key]["bytes"], "count": ranks[key]["count"], "temporary": ranks[key]["temporary"]},
        }
        for key in sorted(shown, key=lambda key: ranks[key]["bytes"])
    ]
    return {"pool": pool, "by": by, "groups": len(groups), "rows": rows}


def _order(figures: list[int], place: int, key: str | None) -> tuple[object, ...]:
    """The order by a figure; equal ones by their bytes."""
    return -figures[place], -figures[1], key is None, key or ""

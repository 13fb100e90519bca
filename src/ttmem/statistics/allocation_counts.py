# SPDX-License-Identifier: Apache-2.0
"""What was allocated, freed and live in a window, with the peak of each kind, and a histogram of sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ttmem.model.kinds import BREAKDOWN_POOLS, KINDS, BreakdownPool, Kind
from ttmem.recording.record_arrays import Array
from ttmem.recording.timeline import timeline
from ttmem.statistics.exact_sums import sums_by
from ttmem.statistics.window import BEFORE_ALL, Window

if TYPE_CHECKING:
    from ttmem.model.schema import CountAndBytes, StatsKindRow, StatsPeak, StatsSizePool


def by_kind(window: Window, temporary: Array) -> list[StatsKindRow]:
    """One row for each kind that was live in the window; ``temporary`` says which rows of the table are."""
    parts = {
        "start": window.live_at(window.after),
        "made": window.made,
        "freed": window.ended,
        "live": window.live_at(window.until),
        "temporary": window.made & window.ended & temporary,
    }
    found = {name: _sums(window, mask) for name, mask in parts.items()}
    classes = window.chip_classes()
    return [
        {
            "kind": kind.label,
            "start": found["start"][kind],
            "made": found["made"][kind],
            "freed": found["freed"][kind],
            "live": found["live"][kind],
            "temporary": found["temporary"][kind],
            "peak": _peak(window, kind, classes),
        }
        for kind in KINDS
        if any(counts[kind]["count"] for counts in found.values())
    ]


def _sums(window: Window, mask: Array) -> list[CountAndBytes]:
    rows = np.flatnonzero(mask)
    kinds = window.table.kind[rows]
    counts = np.bincount(kinds, minlength=len(KINDS)).tolist()
    sizes = sums_by(kinds, window.amount[rows], len(KINDS)).tolist()
    return [{"count": count, "bytes": size} for count, size in zip(counts, sizes)]


def _peak(window: Window, kind: Kind, classes: list[tuple[tuple[str, ...], Array]]) -> StatsPeak | None:
    """The highest sum of a kind on any chip in the window, when it was first reached, and the chips that had it."""
    best: StatsPeak | None = None
    of_kind = window.present & (window.table.kind == kind)
    for chips, here in classes:
        found = timeline(window.table, np.flatnonzero(of_kind & here), window.table.counted)
        first, last = (int(place) for place in np.searchsorted(found.time, [window.after, window.until], "right"))
        value, when = (int(found.value[first - 1]), window.after) if first else (0, BEFORE_ALL)
        if last > first:
            place = first + int(np.argmax(found.value[first:last]))
            if found.value[place] > value:
                value, when = int(found.value[place]), int(found.time[place])
        if value and (best is None or value > best["per_chip"]):
            best = {"per_chip": value, "chips": list(chips), "after_s": window.seconds(when)}
    return best


def size_histograms(window: Window) -> list[StatsSizePool]:
    """Allocations of each pool by the power of two that their size on one chip reaches."""
    rows = np.flatnonzero(window.made)
    sizes = window.table.size[rows]
    powers = np.frexp(sizes.astype(np.float64))[1]  # 0 for 0, 1 for 1, 2 for 2 and 3, and so on
    found: list[StatsSizePool] = []
    for pool in BreakdownPool:
        here = window.table.of_kinds(*BREAKDOWN_POOLS[pool])[rows]
        groups = powers[here]
        counts = np.bincount(groups)
        totals = sums_by(groups, window.amount[rows[here]], len(counts))
        if len(groups):
            found.append(
                {
                    "pool": pool.label,
                    "rows": [
                        {"at_least": 1 << power - 1 if power else 0, "count": int(counts[power]),
                         "bytes": int(totals[power])}
                        for power in np.flatnonzero(counts).tolist()
                    ],
                }
            )  # fmt: skip
    return found

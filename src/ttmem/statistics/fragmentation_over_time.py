# SPDX-License-Identifier: Apache-2.0
"""Fragmentation over time: free bytes and the largest free block in a bank of each allocator, at chosen moments.

The moments of an allocator are spread evenly over its allocations. Added to them: when it was fullest (which is exact),
failed allocations, and ends of phases.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ttmem.model.kinds import Kind
from ttmem.recording.record_arrays import Array
from ttmem.recording.timeline import free_space, timeline
from ttmem.statistics.phase_runs import PhaseRun
from ttmem.statistics.window import Window

if TYPE_CHECKING:
    from ttmem.model.schema import StatsFragmentation, StatsFreeBlock, StatsPhase

MOMENTS = 512  # for each kind, before the added ones
MOST_PHASES = 64
MOST_ALLOCATORS = 256  # for each kind
KINDS = (Kind.DRAM, Kind.L1)
_FEWEST = 8  # moments of an allocator
_ADDED = 256  # moments of failures and phases, each
_BLOCKS = 10_000_000  # examined for one kind: fewer moments if very many allocations are live at each
_PROBES = 16


class Evaluated(NamedTuple):
    """The free space of one allocator at some moments, which ascend."""

    kind: Kind
    process: object
    chips: tuple[str, ...]
    size: int  # of a bank
    banks: int
    time: Array
    free: Array
    largest: Array

    @property
    def ratio(self) -> Array:
        """Largest free block by free bytes: 1 if all free space is in one piece, or if there is none."""
        return np.where(self.free > 0, self.largest / np.maximum(self.free, 1), 1.0)


def evaluate(window: Window, failures: Array, runs: list[PhaseRun]) -> list[Evaluated]:
    """The allocators of the selected chips, for DRAM and L1; of very many, those with most allocations."""
    table = window.table
    ends = _spread(np.array(sorted(run.end for run in runs), np.int64), _ADDED)
    added = np.concatenate([ends, _spread(failures, _ADDED), _last_ends(runs)])
    added = added[(added > window.after) & (added <= window.until)]
    found = []
    for kind in KINDS:
        rows = np.flatnonzero(_of_kind(window, kind))
        allocators = table.allocator[rows]
        rows = rows[np.argsort(allocators, kind="stable")]
        counts = np.bincount(allocators)
        lasts = np.cumsum(counts)
        chosen = np.argsort(-counts, kind="stable")[:MOST_ALLOCATORS]
        for number in np.sort(chosen[counts[chosen] > 0]).tolist():
            if kind in table.allocators[number].regions:
                mine = rows[lasts[number] - counts[number] : lasts[number]]
                found.append(_evaluate(window, kind, number, mine, len(rows), added))
    return found


def _of_kind(window: Window, kind: Kind) -> Array:
    """Which rows of an allocator's kind were live in the window."""
    return np.asarray(window.present & (window.table.kind == kind) & (window.table.allocator >= 0))


def _evaluate(window: Window, kind: Kind, number: int, rows: Array, of: int, added: Array) -> Evaluated:
    table = window.table
    begin, end = table.begin[rows], table.end[rows]
    begins = begin[begin > window.after]
    if not len(begins):
        begins = np.array([max(window.after, int(begin[0]))])
    live = max(int(np.count_nonzero((begin <= time) & (end > time))) for time in _spread(begins, _PROBES).tolist())
    affordable = max(_FEWEST, _BLOCKS * len(rows) // max(1, of * live))
    count = max(_FEWEST, min(MOMENTS * len(rows) // of, affordable))
    inside = _spread(np.unique(added[(added >= begin[0]) & (added < end.max())]), affordable)
    some = _spread(begins, count)
    del begin, end, begins
    times = np.unique(np.concatenate([some, _fullest(window, rows), inside]))
    free = free_space(table, number, kind, times, rows)
    allocator = table.allocators[number]
    region, process = allocator.regions[kind], table.sources[int(table.source[rows[0]])].info
    return Evaluated(kind, process, allocator.chips, region.size, region.banks, times, free.free, free.largest)


def _fullest(window: Window, rows: Array) -> Array:
    """When least was free in the window, if anything changed in it."""
    used = timeline(window.table, rows, window.table.per_bank)
    first, last = np.searchsorted(used.time, [window.after, window.until], "right")
    times, values = used.time[first:last], used.value[first:last]
    return times[[int(np.argmax(values))]] if len(times) else times


def _spread(times: Array, count: int) -> Array:
    """At most so many of some times, evenly by their number; the first and last among them."""
    if len(times) <= count:
        return times
    return np.asarray(times[np.linspace(0, len(times) - 1, count).astype(np.int64)])


def _last_ends(runs: list[PhaseRun]) -> Array:
    """The end of the last run of each phase, so that each has a moment."""
    last = {(run.process, run.name): run.end for run in runs}
    return np.array(list(last.values())[:_ADDED], np.int64)


def summary(window: Window, evaluated: list[Evaluated]) -> list[StatsFragmentation]:
    """For each kind: the worst moments, and the series."""
    found: list[StatsFragmentation] = []
    for kind in KINDS:
        mine = [one for one in evaluated if one.kind is kind]
        if mine:
            series = [point for one in mine for point in _points(window, one)]
            used = window.table.allocator[_of_kind(window, kind)]
            found.append(
                {
                    "kind": kind.label,
                    "allocators": int(np.count_nonzero(np.bincount(used))),
                    "examined": len(mine),
                    "moments": sum(len(one.time) for one in mine),
                    "bank_size": max(one.size for one in mine),
                    "banks": max(one.banks for one in mine),
                    "worst": _worst(window, mine),
                    "smallest": _smallest(window, mine),
                    "series": sorted(series, key=lambda point: point["after_s"]),
                }
            )
    return found


def by_phase(window: Window, evaluated: list[Evaluated], runs: list[PhaseRun]) -> list[StatsPhase]:
    """The worst moment of each phase over all its runs, for each kind; phases in the order of their first run."""
    groups: dict[tuple[object, str], list[PhaseRun]] = {}
    for run in runs:
        groups.setdefault((run.process, run.name), []).append(run)
    ordered = {
        (process, kind): _Ordered([one for one in evaluated if one.process == process and one.kind is kind])
        for process in {process for process, _ in groups}
        for kind in KINDS
    }
    found: list[StatsPhase] = []
    for (process, name), mine in list(groups.items())[:MOST_PHASES]:
        dram, in_dram = ordered[process, Kind.DRAM].worst_within(window, mine)
        l1, in_l1 = ordered[process, Kind.L1].worst_within(window, mine)
        found.append(
            {
                "phase": name,
                "pid": mine[0].pid,
                "runs": len(mine),
                "moments": in_dram + in_l1,
                "dram": dram,
                "l1": l1,
            }
        )
    return found


class _Ordered:
    """The moments of several allocators in the order of time."""

    def __init__(self, found: list[Evaluated]) -> None:
        self._found = found
        time = np.concatenate([np.zeros(0, np.int64), *(one.time for one in found)])
        order = np.argsort(time, kind="stable")
        self._time = time[order]
        self._ratio = np.concatenate([np.zeros(0), *(one.ratio for one in found)])[order]
        self._places = [(one, place) for one in found for place in range(len(one.time))]
        self._order = order

    def worst_within(self, window: Window, runs: list[PhaseRun]) -> tuple[StatsFreeBlock | None, int]:
        """The worst moment inside of runs of a phase, and how many moments there are."""
        changes = np.zeros(len(self._time) + 1, np.int64)
        np.add.at(changes, np.searchsorted(self._time, [run.begin for run in runs], "left"), 1)
        np.add.at(changes, np.searchsorted(self._time, [run.end for run in runs], "right"), -1)
        inside = np.flatnonzero(np.cumsum(changes[:-1]) > 0)
        if not len(inside):
            return None, 0
        one, place = self._places[int(self._order[inside[np.argmin(self._ratio[inside])]])]
        return _point(window, one, place), len(inside)


def _points(window: Window, one: Evaluated) -> Iterator[StatsFreeBlock]:
    return (_point(window, one, place) for place in range(len(one.time)))


def _point(window: Window, one: Evaluated, place: int) -> StatsFreeBlock:
    return {
        "after_s": window.seconds(int(one.time[place])),
        "free": int(one.free[place]),
        "largest": int(one.largest[place]),
        "chips": [chip for chip in one.chips if chip in window.chips],
    }


def _worst(window: Window, found: list[Evaluated]) -> StatsFreeBlock | None:
    """Where the largest free block is the smallest part of what is free; the first such moment."""
    return _lowest(window, [(one, one.ratio) for one in found])


def _smallest(window: Window, found: list[Evaluated]) -> StatsFreeBlock | None:
    """Where the largest free block is smallest."""
    return _lowest(window, [(one, one.largest) for one in found])


def _lowest(window: Window, found: list[tuple[Evaluated, Array]]) -> StatsFreeBlock | None:
    places = [(one, values, int(np.argmin(values))) for one, values in found]
    if not places:
        return None
    one, _, place = min(places, key=lambda item: (float(item[1][item[2]]), int(item[0].time[item[2]])))
    return _point(window, one, place)

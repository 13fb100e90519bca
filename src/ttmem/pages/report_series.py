# SPDX-License-Identifier: Apache-2.0
"""The lines of a report's charts: values over time in buckets, with the lowest, highest and last value of each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from ttmem.model.geometry import Geometry
from ttmem.model.kinds import BreakdownPool, Kind
from ttmem.pages.chip_groups import ChipGroup
from ttmem.pages.sections import Column
from ttmem.recording.allocation_table import NEVER, AllocationTable
from ttmem.recording.record_arrays import Array
from ttmem.recording.recording_file import Sample
from ttmem.recording.timeline import Timeline, timeline
from ttmem.statistics.fragmentation_over_time import Evaluated

if TYPE_CHECKING:
    from ttmem.model.page_schema import ReportSeries

UNKNOWN = -1
BUCKETS = 4096
FEWER_BUCKETS = 512  # of chip groups without details
LEVEL_BUCKETS = 512
_LEVEL_WIDTH = 8  # buckets on each side of a peak
_LEAST_BUCKET_NS = 8  # a part that is this fine needs no finer one
_PER_SECOND = 1_000_000_000

Buckets = tuple[Array, Array, Array]  # lowest, highest, last


class Line(NamedTuple):
    """A line of a chart, and how to compute it for some edges of time."""

    described: ReportSeries
    buckets: Callable[[Array], Buckets]


class Stretch(NamedTuple):
    """A part of the time in more detail."""

    begin: int
    end: int


def edges_of(begin: int, end: int, count: int) -> Array:
    """The edges of equal buckets. No bucket is empty, so short stretches have fewer.

    >>> edges_of(0, 10, 4).tolist(), edges_of(0, 2, 4).tolist()
    ([0, 2, 5, 7, 10], [0, 1, 2])
    """
    count = max(1, min(count, end - begin))
    parts = np.arange(count + 1, dtype=np.int64)
    whole, rest = divmod(end - begin, count)
    return np.asarray(begin + parts * whole + parts * rest // count)


def columns(lines: Iterable[Line], edges: Array) -> list[Column]:
    """The columns of a section of a timeline."""
    found = []
    for line in lines:
        for name, values in zip(("low", "high", "last"), line.buckets(edges)):
            found.append(Column(f"{line.described['name']}.{name}", "i64", values, delta=True))
    return found


def stretches(around: Iterable[int], until: int, count: int) -> list[Stretch]:
    """Parts of the time around some moments, in the order of their importance; one that is within another is none."""
    width = until // BUCKETS
    if width <= _LEAST_BUCKET_NS:
        return []
    found: list[Stretch] = []
    for moment in around:
        if not any(one.begin + width <= moment < one.end - width for one in found):
            middle = moment // width * width
            begin = max(0, middle - _LEVEL_WIDTH * width)
            found.append(Stretch(begin, min(until, middle + (_LEVEL_WIDTH + 1) * width)))
        if len(found) == count:
            break
    return sorted(found)


# -- the lines -------------------------------------------------------------------------------------------------------


def pool_timeline(table: AllocationTable, group: ChipGroup, kinds: Sequence[Kind]) -> Timeline:
    """Bytes of some kinds on a chip of a group."""
    rows = group.rows[np.isin(table.kind[group.rows], np.array(kinds, np.uint8))]
    return timeline(table, rows, table.counted)


def memory_line(
    name: str, label: str, panel: str, values: Timeline, capacity: int | None = None, confidence: str = "exact"
) -> Line:
    return Line(_described(name, label, "bytes", panel, capacity, confidence), values.buckets)


def pool_lines(pools: dict[BreakdownPool, Timeline], geometry: Geometry | None, confidence: str) -> list[Line]:
    """DRAM, L1 buffers, and what else was allocated."""
    dram = geometry.dram_capacity if geometry is not None else None
    found = [
        memory_line("dram", "DRAM", "dram", pools[BreakdownPool.DRAM], dram, confidence),
        memory_line("l1_buffers", "L1 buffers", "l1", pools[BreakdownPool.L1_BUFFERS], l1_capacity(geometry),
                    confidence),
    ]  # fmt: skip
    labels = {
        BreakdownPool.PROGRAMS: "cached programs, which use L1 in turn",
        BreakdownPool.SYSTEM: "L1 of the runtime itself",
        BreakdownPool.HOST: "buffers in host memory",
    }
    for pool, label in labels.items():
        if len(pools[pool].value) and pools[pool].value.any():
            panel = "host" if pool is BreakdownPool.HOST else pool.label
            found.append(memory_line(pool.label, label, panel, pools[pool], None, confidence))
    return found


def resident_lines(time: Array, circular: Array, kernels: Array) -> list[Line]:
    """What the programs that ran last have in L1, from the first launch on."""
    return [
        Line(_described(name, label, "bytes", "l1", None, "exact"), _from_first(time, values))
        for name, label, values in (
            ("circular_buffers", "circular buffers of the programs that ran last", circular),
            ("kernels", "kernels of the programs that ran last", kernels),
        )
    ]


def l1_capacity(geometry: Geometry | None) -> int | None:
    """What allocators can give out of the L1 of a chip, and programs use."""
    return None if geometry is None else geometry.cores * (geometry.l1_size - geometry.l1_base)


def largest_free_lines(evaluated: Iterable[Evaluated], chip: str) -> list[Line]:
    """The largest free block in one bank, at the moments at which it was computed."""
    found = []
    for kind in (Kind.DRAM, Kind.L1):
        here = [one for one in evaluated if one.kind is kind and chip in one.chips and len(one.time)]
        if here:
            time = np.concatenate([one.time for one in here])
            largest = np.concatenate([one.largest for one in here])
            order = np.argsort(time, kind="stable")
            name = f"largest_free_{kind.label}"
            label = f"largest free block of {kind.name} in one bank"
            described = _described(name, label, "bytes", "free", max(one.size for one in here), "sampled")
            found.append(Line(described, _from_first(time[order], largest[order])))
    return found


def host_lines(samples: Sequence[Sample], start: float) -> list[Line]:
    """Host memory of the processes, about once a second."""
    found = []
    time = np.array([round((one.time - start) * 1e9) for one in samples], np.int64)
    for key, label in (("resident", "host memory of the processes"), ("huge_pages", "huge pages of the processes")):
        values = np.array([sum(row.get(key, 0) for row in one.host.values()) for one in samples], np.int64)
        if values.any():
            order = np.argsort(time, kind="stable")
            described = _described(f"host_{key}", label, "bytes", "host", None, "sampled")
            found.append(Line(described, _from_first(time[order], values[order])))
    return found


def rate_line(name: str, label: str, *times: Array) -> Line:
    """How many events there are per second. Each of ``times`` ascends."""

    def buckets(edges: Array) -> Buckets:
        counts = sum((np.diff(np.searchsorted(some, edges, "left")) for some in times), np.zeros(len(edges) - 1, int))
        width = np.maximum(1, np.diff(edges))
        rate = counts * _PER_SECOND // width
        rate = np.where((counts > 0) & (rate == 0), 1, rate)  # a rare event is still seen
        return rate, rate, rate

    return Line(_described(name, label, "per_second", "events", None, "exact"), buckets)


def event_times(table: AllocationTable, rows: Array) -> tuple[Array, Array]:
    """The times of all allocations, and those of all frees; both ascend."""
    begin = table.begin if len(rows) == len(table) else table.begin[rows]  # millions of rows are not copied
    end = np.sort(table.end[rows], kind="stable")  # almost in order, which this sort uses
    return begin, end[: np.searchsorted(end, NEVER)]


def _from_first(time: Array, value: Array) -> Callable[[Array], Buckets]:
    """The buckets of values that are known only from the first time on."""
    before = int(np.iinfo(np.int64).min)
    values = Timeline(np.insert(time, 0, before), np.insert(value, 0, value[0])) if len(time) else None

    def buckets(edges: Array) -> Buckets:
        if values is None:
            unknown = np.full(len(edges) - 1, UNKNOWN, np.int64)
            return unknown, unknown, unknown
        low, high, last = values.buckets(edges)
        known = edges[1:] > time[0]
        return np.where(known, low, UNKNOWN), np.where(known, high, UNKNOWN), np.where(known, last, UNKNOWN)

    return buckets


def _described(
    name: str, label: str, unit: Literal["bytes", "per_second", "count"], panel: str, capacity: int | None,
    confidence: str,
) -> ReportSeries:  # fmt: skip
    return {"name": name, "label": label, "unit": unit, "panel": panel, "capacity": capacity, "confidence": confidence}

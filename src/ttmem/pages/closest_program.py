# SPDX-License-Identifier: Apache-2.0
"""When a program reached closest to the lowest L1 buffer of a chip.

To compare every launch with every buffer would take too long. So the time is divided: in each part, the lowest buffer
and the highest program give a bound. Only the parts with the smallest bounds are examined launch by launch.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ttmem.model.kinds import Kind
from ttmem.pages.chip_groups import ChipGroup
from ttmem.pages.residency import Resident
from ttmem.recording.allocation_table import NEVER, AllocationTable
from ttmem.recording.record_arrays import Array
from ttmem.wire.agent_ring import PER_CORE

_PARTS = 1024
_EXAMINED = 8  # parts
_MOST_TIMES = 512  # in a part
_NO_BUFFER = 1 << 62


class Closest(NamedTuple):
    """The moment, and the bytes between the program and the buffer on a core; negative if they overlap."""

    time: int
    gap: int


def closest_program(table: AllocationTable, group: ChipGroup, found: Resident, until: int) -> Closest | None:
    """None if there was never a program and an L1 buffer at one time."""
    rows = group.rows[(table.kind[group.rows] == Kind.L1) & ((table.flags[group.rows] & PER_CORE) == 0)]
    rows = rows[table.address[rows] > 0]
    if not len(rows) or not len(found.time):
        return None
    begin, address = np.maximum(table.begin[rows], 0), table.address[rows].astype(np.int64)
    end = np.where(table.end[rows] == NEVER, until, table.end[rows])
    parts = min(_PARTS, until)
    edges = np.array([until * number // parts for number in range(parts + 1)], np.int64)
    first = np.searchsorted(edges, begin, "right").astype(np.int32) - 1
    last = np.maximum(first, np.searchsorted(edges, end, "left").astype(np.int32) - 1)
    floor = _lowest(first, np.minimum(last, parts - 1), address, parts)
    program_end = np.append(found.time[1:], until)
    tops = _highest(np.maximum(found.time, 0), program_end, found.top, edges)
    bounds = np.where((floor < _NO_BUFFER) & (tops >= 0), floor - tops, _NO_BUFFER)
    best: Closest | None = None
    for part in np.argsort(bounds, kind="stable")[:_EXAMINED].tolist():
        if bounds[part] >= (_NO_BUFFER if best is None else best.gap):
            break
        here = (begin < edges[part + 1]) & (end > edges[part])
        one = _in_part(begin[here], end[here], address[here], found, int(edges[part]), int(edges[part + 1]))
        if one is not None and (best is None or one.gap < best.gap):
            best = one
    return best


def _in_part(begin: Array, end: Array, address: Array, found: Resident, start: int, stop: int) -> Closest | None:
    """The smallest gap at the times when a program was launched or a buffer was allocated."""
    times = np.concatenate([[start], begin[begin >= start], found.time[(found.time >= start) & (found.time < stop)]])
    times = np.unique(times)
    if len(times) > _MOST_TIMES:
        times = times[np.linspace(0, len(times) - 1, _MOST_TIMES).astype(np.int64)]
    best: Closest | None = None
    for time in times.tolist():
        live = (begin <= time) & (end > time)
        place = int(np.searchsorted(found.time, time, "right")) - 1
        if place >= 0 and found.top[place] >= 0 and live.any():
            gap = int(address[live].min() - found.top[place])
            if best is None or gap < best.gap:
                best = Closest(time, gap)
    return best


def _lowest(first: Array, last: Array, values: Array, parts: int) -> Array:
    """The lowest value of all ranges that contain each part. A range is covered by two blocks of a power of two."""
    level = np.floor(np.log2(np.arange(1, parts + 1))).astype(np.int8)[last - first]  # by length
    carried = np.full(parts, _NO_BUFFER, np.int64)  # at a place, of the block that begins there
    for size in range(int(level.max()), -1, -1):
        here = level == size
        np.minimum.at(carried, first[here], values[here])
        np.minimum.at(carried, last[here] - (1 << size) + 1, values[here])
        if size:  # a block is two blocks of half its size
            half = 1 << (size - 1)
            smaller = carried.copy()
            smaller[half:] = np.minimum(smaller[half:], carried[:-half])
            carried = smaller
    return carried


def _highest(begin: Array, end: Array, top: Array, edges: Array) -> Array:
    """The highest top in each part; -1 if there is none. The ranges follow each other."""
    first = np.searchsorted(end, edges[:-1], "right")
    last = np.searchsorted(begin, edges[1:], "left")
    highest = np.full(len(edges) - 1, -1, np.int64)
    used = last > first
    cuts = np.stack([first[used], last[used]], axis=1).reshape(-1)
    if len(cuts):
        highest[used] = np.maximum.reduceat(np.append(top, -1), cuts)[::2]
    return highest

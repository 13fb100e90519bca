# SPDX-License-Identifier: Apache-2.0
"""The L1 of one core as segments from address 0 to its end, each with the allocations in it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from heapq import heappop, heappush, merge
from typing import NamedTuple

from ttmem.account.allocations import Allocation
from ttmem.l1.core_map import Core, L1Map, Range, on_each_core, parted
from ttmem.model.core_sets import ROW
from ttmem.model.kinds import Kind

_FEW = 8
FIRMWARE, RING, FREE, SMALL_FREE, UNKNOWN = "firmware", "ring", "free", "small_free", "unknown"


class Segment(NamedTuple):
    """A range of addresses.

    It has several allocations where they overlap; ``inside`` are circular buffers in an L1 buffer.
    """

    start: int
    end: int
    kind: str
    allocations: tuple[Allocation, ...] = ()
    inside: tuple[Allocation, ...] = ()


def segments(found: L1Map, core: Core) -> Iterator[Segment]:
    """Segments in the order of their addresses, without gaps; a generator, because there may be many."""
    bit = 1 << (core.y * ROW + core.x)
    geometry = found.geometry
    parts = sorted(part for cores, some in found.parts.items() if cores & bit for part in some)
    shared = sorted(part for cores, some in found.shared.items() if cores & bit for part in some)
    yield Segment(0, geometry.map_end, FIRMWARE)
    yield Segment(geometry.map_end, geometry.l1_base, RING)
    last = geometry.l1_base
    for start, end, numbers in _sweep(map(parted, merge(found.buffers, parts)), last):
        yield from _between(found, core, last, start)
        allocations = tuple(found.allocations[number] for number in numbers)
        kind = allocations[0].kind
        yield Segment(
            start, end, kind.label, allocations, _inside(found, shared, start, end) if kind is Kind.L1 else ()
        )
        last = end
    yield from _between(found, core, last, geometry.l1_size)


def _sweep(ranges: Iterator[tuple[int, int, int]], last: int) -> Iterator[tuple[int, int, list[int]]]:
    """Ranges above ``last`` with the same allocations in each, those with the lowest start first."""
    here: list[tuple[int, int]] = []  # end and number
    coming = next(ranges, None)
    while here or coming is not None:
        if not here and coming is not None:
            last = max(last, coming[0])
        while coming is not None and coming[0] <= last:
            heappush(here, coming[1:])
            coming = next(ranges, None)
        stop = min([here[0][0], *([coming[0]] if coming is not None else [])])
        if stop > last:
            yield last, stop, sorted(number for _, number in here)
            last = stop
        while here and here[0][0] <= last:
            heappop(here)


def _inside(found: L1Map, shared: list[Range], start: int, end: int) -> tuple[Allocation, ...]:
    return tuple(
        found.allocations[number] for left, right, number in map(parted, shared) if left < end and right > start
    )


def _between(found: L1Map, core: Core, start: int, end: int) -> Iterator[Segment]:
    """Segments without a known allocation."""
    _, doubt_end = found.doubtful(core.worst)
    pieces = sorted(
        [
            *((*span, FREE) for span in found.free.inside(start, end)),
            *((*span, SMALL_FREE) for span in found.small_free.inside(start, end)),
            *((*span, UNKNOWN) for span in found.unknown.inside(start, end)),
        ]
    )
    for left, right, kind in pieces:
        if kind == FREE and left < doubt_end:
            yield Segment(left, min(right, doubt_end), UNKNOWN)
            left = min(right, doubt_end)
        if left < right:
            yield Segment(left, right, kind, _beginning(found, left, right) if kind == UNKNOWN else ())


def _beginning(found: L1Map, start: int, end: int) -> tuple[Allocation, ...]:
    """The first few buffers of unknown size that begin in a range."""
    place = bisect_left(found.unsized, start << 128)
    few = map(parted, found.unsized[place : place + _FEW])
    return tuple(found.allocations[number] for left, _, number in few if left < end)


def has_data(allocation: Allocation, core: Core, banks: int) -> bool | None:
    """Whether a buffer has data on a core, or only reserves the addresses because all banks are in lock step.

    None if the cores with its data were not reported.
    """
    extra = allocation.extra
    if extra is None:
        return None
    if extra.cores:
        return bool(extra.cores >> (core.y * ROW + core.x) & 1)
    if extra.core_count:
        return True if extra.core_count >= banks else None
    size = on_each_core(allocation, banks)
    return True if size is not None and allocation.size > size * (banks - 1) else None

# SPDX-License-Identifier: Apache-2.0
"""Addresses over time: the life of each buffer in a bank as a rectangle.

A page can hold some ten thousand of them. The largest are kept: those with most bytes x time, and in each part of the
time those with most bytes. The others are drawn as a raster, so that used memory never looks free.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ttmem.pages.sections import Column
from ttmem.recording.record_arrays import Array

LARGEST = 20_000  # by bytes x time
SLICES = 64
IN_SLICE = 2_000  # by bytes, in each part of the time
RASTER_COLUMNS, RASTER_ROWS = 512, 256
_FULL = 255
_AT_ONCE = 1 << 16


class Boxes(NamedTuple):
    """Buffers in a bank: begin and end in time, address and size. ``end`` is ``until`` for what is live at the end."""

    begin: Array
    end: Array
    address: Array
    size: Array

    def where(self, chosen: Array | slice) -> Boxes:
        return Boxes(*(one[chosen] for one in self))


def chosen_boxes(boxes: Boxes, until: int, largest: int = LARGEST, in_slice: int = IN_SLICE) -> Array:
    """The places of the boxes that are kept, ascending. ``begin`` ascends."""
    count = len(boxes.begin)
    if count <= largest:
        return np.arange(count)
    area = boxes.size.astype(np.float64) * (boxes.end - boxes.begin + 1)
    kept = np.zeros(count, bool)
    kept[np.argpartition(-area, largest)[:largest]] = True
    edges = until * np.arange(SLICES + 1, dtype=np.int64) // SLICES
    first = np.searchsorted(boxes.begin, edges, "left")
    first[0] = 0  # what began before
    slice_of_end = np.searchsorted(edges, boxes.end, "left") - 1
    slice_of_begin = np.searchsorted(edges, boxes.begin, "right") - 1
    crossing = np.flatnonzero(slice_of_end > slice_of_begin)
    for number in range(SLICES):
        born = np.arange(first[number], first[number + 1])
        over = crossing[(slice_of_begin[crossing] < number) & (slice_of_end[crossing] >= number)]
        here = np.concatenate([over, born])
        if len(here) > in_slice:
            here = here[np.argpartition(-boxes.size[here], in_slice)[:in_slice]]
        kept[here] = True
    return np.flatnonzero(kept)


def coverage(boxes: Boxes, until: int, base: int, size: int) -> Array:
    """The part of each cell that boxes fill, 0 to 255, column by column. A cell that any box touches is not 0.

    The part of a cell that one box fills is the product of a part in time and one in addresses. Each of them, as
    differences between neighbours, has two values at the start and two at the end. So a box adds 16 numbers to a table
    of differences, whose sums in both directions are the raster.
    """
    shape = RASTER_COLUMNS + 2, RASTER_ROWS + 2
    table = np.zeros(shape[0] * shape[1])
    for first in range(0, len(boxes.begin), _AT_ONCE):  # in the cache: three times as fast as all at once
        table += _differences(boxes.where(slice(first, first + _AT_ONCE)), until, base, size, shape)
    filled = table.reshape(shape).cumsum(axis=0).cumsum(axis=1)[:RASTER_COLUMNS, :RASTER_ROWS]
    touched = filled > 1e-9
    used = np.where(touched, np.clip(np.ceil(filled * _FULL - 1e-6), 1, _FULL), 0)
    return np.asarray(used.astype(np.uint8).reshape(-1))


def _differences(boxes: Boxes, until: int, base: int, size: int, shape: tuple[int, int]) -> Array:
    """What boxes add to the table of differences."""
    table = np.zeros(shape[0] * shape[1])
    across = [_steps(time * (RASTER_COLUMNS / until), RASTER_COLUMNS) for time in (boxes.begin, boxes.end)]
    along = [
        _steps((where - base) * (RASTER_ROWS / size), RASTER_ROWS)
        for where in (boxes.address, boxes.address + boxes.size)
    ]
    for sign_x, (column, part_x) in zip((1, -1), across):
        for sign_y, (row, part_y) in zip((1, -1), along):
            for dx, share_x in ((0, 1 - part_x), (1, part_x)):
                for dy, share_y in ((0, 1 - part_y), (1, part_y)):
                    cells = (column + dx) * shape[1] + row + dy
                    table += np.bincount(cells, sign_x * sign_y * share_x * share_y, len(table))
    return table


def _steps(places: Array, limit: int) -> tuple[Array, Array]:
    """The cell in which each place is, and which part of that cell is before it."""
    inside = np.clip(places, 0, limit)
    cell = np.floor(inside).astype(np.int64)
    return cell, inside - cell


def rectangle_columns(boxes: Boxes, live: Array, site: Array, row: Array) -> list[Column]:
    """``live`` are the boxes that are live at the end."""
    return [
        Column("begin", "i64", boxes.begin, delta=True),
        Column("end", "i64", np.where(live, -1, boxes.end), delta=False),
        Column("address", "i64", boxes.address),
        Column("size", "i64", boxes.size),
        Column("site", "u32", site),
        Column("row", "i64", row, delta=True),
    ]

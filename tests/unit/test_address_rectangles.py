# SPDX-License-Identifier: Apache-2.0
"""The largest boxes are kept in each part of the time, and the raster covers exactly what the others cover."""

from __future__ import annotations

import random

import numpy as np
import pytest

from ttmem.pages import address_rectangles
from ttmem.pages.address_rectangles import Boxes, chosen_boxes, coverage

UNTIL = 64_000


def boxes(count: int, seed: int = 1) -> Boxes:
    """Boxes in cells of a grid, so that none overlaps another at the same time."""
    chance = random.Random(seed)
    rows = []
    for _ in range(count):
        begin = chance.randrange(UNTIL)
        end = min(UNTIL, begin + chance.choice((1, 10, 500, 20_000)))
        rows.append((begin, end, 64 * chance.randrange(100), chance.choice((8, 32, 64))))
    return Boxes(*(np.array(column, np.int64) for column in zip(*sorted(rows))))


def test_few_boxes_are_all_kept() -> None:
    assert chosen_boxes(boxes(50), UNTIL, largest=50).tolist() == list(range(50))


def test_the_largest_by_bytes_and_time_and_those_of_each_slice_are_kept() -> None:
    found = boxes(3000)
    kept = set(chosen_boxes(found, UNTIL, largest=200, in_slice=5).tolist())
    area = found.size * (found.end - found.begin + 1)
    smallest = min(area[list(kept)])
    assert sum(area > np.sort(area)[-201]) <= 200
    assert {place for place in range(3000) if area[place] > np.sort(area)[-200]} <= kept
    assert smallest < np.sort(area)[-200], "small ones are kept, too, for the sake of their part of the time"
    for number in range(64):
        first, last = UNTIL * number // 64, UNTIL * (number + 1) // 64
        here = np.flatnonzero((found.begin < last) & (found.end > first))
        wanted = np.sort(found.size[here])[::-1][:5].tolist()
        have = np.sort(found.size[[place for place in here.tolist() if place in kept]])[::-1][:5].tolist()
        assert have == wanted, number


def test_the_raster_is_that_of_each_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(address_rectangles, "RASTER_COLUMNS", 8)
    monkeypatch.setattr(address_rectangles, "RASTER_ROWS", 4)
    fine = np.zeros((64, 64))
    rows = [(0, 8, 0, 16), (3, 21, 20, 7), (51, 64, 60, 4), (10, 11, 63, 1), (30, 50, 0, 64)]
    for begin, end, address, size in rows:
        fine[begin:end, address : address + size] = 1
    naive = fine.reshape(8, 8, 4, 16).mean(axis=(1, 3)).reshape(-1)
    parts = Boxes(*(np.array(column, np.int64) for column in zip(*rows)))
    found = coverage(parts._replace(address=parts.address + 1000), 64, 1000, 64)
    assert (found > 0).tolist() == (naive > 0).tolist()
    assert np.abs(found / 255 - naive).max() <= 1 / 255
    assert found.max() == 255


def test_nothing_covers_nothing() -> None:
    empty = Boxes(*(np.zeros(0, np.int64) for _ in range(4)))
    assert not coverage(empty, 100, 0, 100).any()

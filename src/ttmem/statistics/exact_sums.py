# SPDX-License-Identifier: Apache-2.0
"""Sums of integers by group. numpy's own are floats, which are not exact for large sums."""

from __future__ import annotations

import numpy as np

from ttmem.recording.record_arrays import Array

_LOW_BITS = 24  # a sum of 500 million such parts is still exact in a float
_AT_A_TIME = 1 << 18  # numpy makes floats of all amounts at once


def sums_by(groups: Array, amounts: Array, count: int) -> Array:
    """The sum of the amounts of each group from 0 to ``count`` - 1.

    >>> sums_by(np.array([0, 1, 0]), np.array([2**53, 5, 1]), 2).tolist()
    [9007199254740993, 5]
    """
    sums = np.zeros(count, np.int64)
    step = max(count, _AT_A_TIME)
    for first in range(0, len(groups), step):
        here, some = groups[first : first + step], amounts[first : first + step]
        sums += np.bincount(here, weights=some & ((1 << _LOW_BITS) - 1), minlength=count).astype(np.int64)
        sums += np.bincount(here, weights=some >> _LOW_BITS, minlength=count).astype(np.int64) << _LOW_BITS
    return sums


def total(amounts: Array) -> int:
    return int(amounts.sum(dtype=np.int64))

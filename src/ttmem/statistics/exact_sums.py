# SPDX-License-Identifier: Apache-2.0
"""Sums of integers by group. numpy's own are floats, which are not exact for large sums."""

from __future__ import annotations

import numpy as np

from ttmem.recording.record_arrays import Array

_LOW_BITS = 24  # a sum of 500 million such parts is still exact in a float


def sums_by(groups: Array, amounts: Array, count: int) -> Array:
    """The sum of the amounts of each group from 0 to ``count`` - 1.

    >>> sums_by(np.array([0, 1, 0]), np.array([2**53, 5, 1]), 2).tolist()
    [9007199254740993, 5]
    """
    low = np.bincount(groups, weights=amounts & ((1 << _LOW_BITS) - 1), minlength=count)
    high = np.bincount(groups, weights=amounts >> _LOW_BITS, minlength=count)
    return np.asarray(low.astype(np.int64) + (high.astype(np.int64) << _LOW_BITS))


def total(amounts: Array) -> int:
    return int(amounts.sum(dtype=np.int64))

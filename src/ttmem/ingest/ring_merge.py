# SPDX-License-Identifier: Apache-2.0
"""The order in which the records of rings that share chips are applied: that of their times."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby


def in_order(times: Sequence[Sequence[int]]) -> Iterator[tuple[int, int]]:
    """Which ring is next, and how many records of it, for the increasing times of the records of each ring.

    Records of one time are in the order of the rings.

    >>> list(in_order([[1, 5, 6, 9], [2, 3, 8]]))
    [(0, 1), (1, 2), (0, 2), (1, 1), (0, 1)]
    """
    bits = len(times).bit_length()
    places = [time << bits | ring for ring, own in enumerate(times) for time in own]
    places.sort()
    for ring, run in groupby(places, ((1 << bits) - 1).__and__):
        yield ring, len(list(run))

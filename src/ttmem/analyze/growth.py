# SPDX-License-Identifier: Apache-2.0
"""Decides whether a group of live allocations grows: whether what was made again and again was also kept.

Time is divided into *steps*: the runs of a phase, the repetitions of a line, or equal parts of the time. A group grows
if some of its live allocations were made in each of the last four *slices*. All slices have the same number of steps,
which may be any power of two, or a quarter of all steps. So what was made once, in a batch, or during a warm-up does
not grow.

If the past of the group is known, there is a second condition: it has never had so many allocations before. So a list
that is filled and cleared, or a queue of constant length, does not grow. If the past is not known, slices must cover at
least the last quarter of the time.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

_SLICES = 4  # the last ones, in each of which some of the group must have been made
MIN_STEPS = 5
_SHARE = 4  # without a past, slices cover at least this part of the time
_PARTS = 64
_EXCESS = 3  # allocations by which a group must exceed its past

Past = Callable[[float], int]  # the most allocations that a group had at once up to a time


@dataclass(frozen=True)
class Steps:
    """How time is divided. ``edges`` are the begins of the steps, and the end of the last one."""

    by: str  # "phase", "line" or "time"
    name: str | None  # of the phase, or the line
    edges: tuple[float, ...]

    @property
    def count(self) -> int:
        return max(0, len(self.edges) - 1)

    @property
    def enough(self) -> bool:
        return self.count >= MIN_STEPS


@dataclass(frozen=True)
class Growth:
    """How a group grows."""

    since: float  # the start of the slices that were judged
    count: int  # allocations that were made in them and kept
    per_step: float
    per_minute: float


def time_steps(begin: float, end: float, parts: int = _PARTS) -> Steps:
    """Equal parts of a time."""
    length = (end - begin) / parts
    edges = tuple(begin + length * number for number in range(parts)) if length > 0 else ()
    return Steps("time", None, (*edges, end) if edges else ())


class Ruler:
    """Counts the allocations of groups by the slices that they were made in."""

    def __init__(self, steps: Steps) -> None:
        self.steps = steps
        # Slices have 1, 2, 4, … steps, or a quarter of all. Of each size there are four, counted from the end.
        self._sizes: list[int] = []
        if steps.enough:
            widest = steps.count // _SLICES
            self._sizes = [1 << power for power in range(widest.bit_length()) if 1 << power < widest] + [widest]
        back = sorted({size * number for size in self._sizes for number in range(_SLICES + 1)}, reverse=True)
        self._edges = [steps.edges[-1 - number] for number in back]
        self._places = {number: place for place, number in enumerate(back)}

    def empty(self) -> list[int]:
        """The counts of a new group."""
        return [0] * (len(self._edges) + 1)

    def place(self, time: float) -> int:
        """Where an allocation that was made at a time is counted."""
        return bisect_right(self._edges, time)

    def growth(self, counts: Sequence[int], past: Past | None = None) -> Growth | None:
        """How a group grows, judged by the widest slices in which it does. None if it does not."""
        total, steps = sum(counts), self.steps
        for size in reversed(self._sizes):
            if past is None and size * _SLICES * _SHARE < steps.count:
                break
            borders = [self._places[size * number] + 1 for number in range(_SLICES, -1, -1)]
            made = [sum(counts[first:last]) for first, last in pairwise(borders)]
            if not all(made) or sum(made) <= _EXCESS:
                continue
            since = steps.edges[-1 - size * _SLICES]
            if past is not None and total < past(since) + _EXCESS:
                continue
            # A group may have begun to grow within the first slice, which then says nothing about its rate.
            first = int(made[0] < min(made[1:]))
            count, length = sum(made[first:]), size * (_SLICES - first)
            seconds = steps.edges[-1] - steps.edges[-1 - length]
            return Growth(since, sum(made), count / length, count / seconds * 60 if seconds > 0 else 0.0)
        return None

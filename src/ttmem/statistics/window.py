# SPDX-License-Identifier: Apache-2.0
"""The part of a recording that statistics are about: a stretch of time, and some chips."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ttmem.model.kinds import KINDS
from ttmem.recording.allocation_table import AllocationTable
from ttmem.recording.record_arrays import Array

BEFORE_ALL = int(np.iinfo(np.int64).min)  # the start of a window that includes everything from the start


@dataclass(frozen=True)
class Window:
    """Allocations on some chips, from after one moment up to and including another.

    So what was live at the first moment, and what was made, less what was freed, is what is live at the last.
    """

    table: AllocationTable
    after: int  # nanoseconds, as in the table
    until: int
    chips: tuple[str, ...]  # the selected ones

    @cached_property
    def _sets(self) -> tuple[Array, list[tuple[str, ...]]]:
        """For each row the number of a chip set, and the selected chips of each set on which the row counts."""
        sets, numbers = claimed_chips(self.table)
        wanted = set(self.chips)
        return numbers, [tuple(chip for chip in chips if chip in wanted) for chips in sets]

    @cached_property
    def weight(self) -> Array:
        """On how many of the selected chips each row counts."""
        numbers, sets = self._sets
        return np.array([len(chips) for chips in sets] or [0], np.int32)[numbers]

    @cached_property
    def amount(self) -> Array:
        """Bytes of each row, over its selected chips."""
        return np.asarray(self.table.counted * self.weight)

    @cached_property
    def made(self) -> Array:
        """Which rows were allocated in the window."""
        table = self.table
        return (table.begin > self.after) & (table.begin <= self.until) & (self.weight > 0)

    @cached_property
    def ended(self) -> Array:
        """Which rows were freed in the window, however that happened."""
        return (self.table.end > self.after) & (self.table.end <= self.until) & (self.weight > 0)

    def live_at(self, time: int) -> Array:
        return self.table.live_at(time) & (self.weight > 0)

    @cached_property
    def present(self) -> Array:
        """Which rows were live at some time of the window, its begin included."""
        table = self.table
        return (table.begin <= self.until) & (table.end > self.after) & (self.weight > 0)

    def seconds(self, time: int) -> float:
        """A time of the table in seconds after the start of the recording."""
        return max(self._first, min(time, self.table.length)) / 1e9

    @cached_property
    def _first(self) -> int:
        """The start of the recording; if it has no start of its own, a process may have allocated before."""
        return min(0, int(self.table.begin[0])) if len(self.table) else 0

    def chip_classes(self) -> list[tuple[tuple[str, ...], Array]]:
        """Chips on which the same rows count, and which rows those are. The chips of one mesh are one class."""
        numbers, sets = self._sets
        members: dict[tuple[int, ...], list[str]] = {}
        by_chip: dict[str, list[int]] = {chip: [] for chip in self.chips}
        for place, chips in enumerate(sets):
            for chip in chips:
                by_chip[chip].append(place)
        for chip, places in by_chip.items():
            if places:
                members.setdefault(tuple(places), []).append(chip)
        found = []
        for places_of, chips_of in members.items():
            here = np.zeros(len(sets), bool)
            here[list(places_of)] = True
            found.append((tuple(chips_of), here[numbers]))
        return found


def claimed_chips(table: AllocationTable) -> tuple[list[tuple[str, ...]], Array]:
    """The chip sets, and for each row the number of the set on which it counts (rule 12 of docs/accounting.md).

    If several sources of one process report the same kind on a chip, only the one with the highest confidence counts.
    """
    sets, numbers = list(table.chip_sets), table.chips
    by_process: dict[object, list[int]] = {}
    for place, source in enumerate(table.sources):
        by_process.setdefault(source.info, []).append(place)
    several = [places for places in by_process.values() if len(places) > 1]
    if not several:
        return sets, numbers
    numbers, known = numbers.copy(), {chips: place for place, chips in enumerate(sets)}
    for places in several:
        claimed: set[tuple[int, str]] = set()  # kinds and chips of stronger sources
        for place in sorted(places, key=lambda one: (-table.sources[one].confidence, table.sources[one].seen, one)):
            own: set[tuple[int, str]] = set()
            rows = np.flatnonzero(table.source == place)
            keys = table.chips[rows].astype(np.int64) * len(KINDS) + table.kind[rows]
            for key in np.unique(keys).tolist():
                chips, kind = table.chip_sets[key // len(KINDS)], key % len(KINDS)
                own |= {(kind, chip) for chip in chips}
                left = tuple(chip for chip in chips if (kind, chip) not in claimed)
                if len(left) < len(chips):
                    if left not in known:
                        known[left] = len(sets)
                        sets.append(left)
                    numbers[rows[keys == key]] = known[left]
            claimed |= own
    return sets, numbers

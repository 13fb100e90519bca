# SPDX-License-Identifier: Apache-2.0
"""Groups of chips that hold the same buffers at every moment, such as the chips of a mesh: a page shows each once."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from ttmem.account.entities import Chip
from ttmem.account.ledger import Ledger
from ttmem.model.kinds import BREAKDOWN_POOLS, KINDS, BreakdownPool, Kind
from ttmem.model.units import human
from ttmem.recording.allocation_table import AllocationTable
from ttmem.recording.record_arrays import Array
from ttmem.statistics.window import claimed_chips

_BUFFERS = int(Kind.CB)  # kinds below it are buffers
_DIFFERING = (BreakdownPool.PROGRAMS, BreakdownPool.SYSTEM)


class ChipGroup(NamedTuple):
    """Chips with the same buffers. ``rows`` are the allocations on the first one, programs included."""

    chips: tuple[str, ...]
    rows: Array

    @property
    def shown_chip(self) -> str:
        return self.chips[0]


def chip_groups(table: AllocationTable, chips: list[str]) -> list[ChipGroup]:
    """The groups, in the order of ``chips``. Chips without buffers are one group."""
    sets, numbers = claimed_chips(table)
    used = np.unique(numbers[table.kind < _BUFFERS]).tolist() if len(table) else []
    members: dict[tuple[int, ...], list[str]] = {}
    for chip in chips:
        members.setdefault(tuple(place for place in used if chip in sets[place]), []).append(chip)
    found = []
    for alike in members.values():
        here = np.array([alike[0] in one for one in sets] or [False])
        rows = np.flatnonzero(here[numbers]) if len(table) else np.zeros(0, np.int64)
        found.append(ChipGroup(tuple(alike), rows))
    return found


def group_name(boards: set[str], numbers: list[int], ids: list[str]) -> str:
    """What a group is called.

    >>> group_name({"n300"}, [0, 1, 2, 3, 6], ["a"] * 5), group_name({"n150"}, [], ["kmd:7"])
    ('n300 chips 0 to 3, 6', 'n150 chip kmd:7')
    """
    board = f"{next(iter(boards))} " if len(boards) == 1 else ""
    which = _ranges(numbers) if numbers else ", ".join(ids)
    return f"{board}chip{'s' * (len(ids) > 1)} {which}"


def _ranges(numbers: list[int]) -> str:
    ordered = sorted(numbers)
    starts = [ordered[0], *(b for a, b in pairwise(ordered) if b != a + 1)]
    ends = [*(a for a, b in pairwise(ordered) if b != a + 1), ordered[-1]]
    return ", ".join(
        f"{first}" if first == last else f"{first}, {last}" if last == first + 1 else f"{first} to {last}"
        for first, last in zip(starts, ends)
    )


def differences(group: ChipGroup, ledger: Ledger, names: Mapping[str, str]) -> list[str]:
    """In words: what differs between the chips of a group. Their buffers are the same; their programs may differ."""
    chips = [ledger.chips[chip] for chip in group.chips if chip in ledger.chips]
    found = []
    for pool in _DIFFERING:
        for kind in BREAKDOWN_POOLS[pool]:
            peaks = [(chip.kinds[kind].peak.value, chip) for chip in chips]
            low, high = min(value for value, _ in peaks), max(value for value, _ in peaks)
            if low != high:
                most = [chip for value, chip in peaks if value == high]
                found.append(_difference(kind, low, high, most, names))
    return found


def _difference(kind: Kind, low: int, high: int, most: list[Chip], names: Mapping[str, str]) -> str:
    words = KINDS[kind].label.replace("_", " ")
    where = names.get(most[0].id, most[0].id)
    more = f" and {len(most) - 1} more" if len(most) > 1 else ""
    return f"peak of {words}: {human(low)} to {human(high)} per chip, most on {where}{more}"

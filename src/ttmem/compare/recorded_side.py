# SPDX-License-Identifier: Apache-2.0
"""One side of a comparison from a recording."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ttmem.compare.sides import Held, HeldOrigin, Side
from ttmem.l1.core_map import numbers
from ttmem.model.kinds import BREAKDOWN_POOL_OF, KINDS, KINDS_OF, BreakdownPool, Kind, Pool
from ttmem.model.stack_frames import line_of
from ttmem.recording.allocation_table import End
from ttmem.recording.moments import open_moment
from ttmem.recording.timeline import free_space, timeline

if TYPE_CHECKING:
    from collections.abc import Callable

    from ttmem.account.ledger import Ledger
    from ttmem.recording.allocation_table import AllocationTable
    from ttmem.recording.moments import Moment
    from ttmem.recording.record_arrays import Array
    from ttmem.recording.recording_file import Recording

_FIRST_PART = int(Kind.CB)
_COMPARED = np.array([BREAKDOWN_POOL_OF[kind] != BreakdownPool.SYSTEM for kind in KINDS])
_MOMENTS = 512  # at which free blocks are looked at, equal in events


def recorded_side(recording: Recording, moment: Moment, by: str, is_failure: Callable[[str], bool]) -> Side:
    opened = open_moment(recording, moment)
    table = recording.lifetimes().allocations
    lost = sum(last - first + 1 for _, first, last in recording.gaps)
    command = recording.facts.get("command")
    return Side(
        path=recording.path,
        what="recording",
        moment=moment.words,
        command=" ".join(map(str, command)) if isinstance(command, list) else None,
        boards=[str(chip.info.board) for chip in opened.ledger.chips.values() if any(k.peak.value for k in chip.kinds)],
        figures=_figures(recording, table, opened.ledger, is_failure),
        held=_held(table, table.live_at(table.at(opened.time)), by == "program"),
        incomplete=[*([f"{lost:,} records were lost"] if lost else []), *recording.problems],
    )


def _figures(
    recording: Recording, table: AllocationTable, ledger: Ledger, is_failure: Callable[[str], bool]
) -> dict[str, int | None]:
    programs = recording.lifetimes().programs
    buffers = table.kind < _FIRST_PART
    times = table.begin[buffers]  # they ascend
    moments = np.unique(times[:: max(1, len(times) // _MOMENTS)])
    failures = [one for one in recording.failures() if is_failure(getattr(one.event, "text", ""))]
    physical = [found for chip in ledger.chips.values() if (found := numbers(chip)) is not None]
    rooms = [one["headroom_min"] for one in physical if one["headroom_min"] is not None]
    return {
        "dram": _peak(table, KINDS_OF[Pool.DRAM], table.reserved),
        "l1": _peak(table, KINDS_OF[Pool.L1], table.reserved),
        "l1_small": _peak(table, (Kind.L1_SMALL,), table.counted),
        "trace": _peak(table, (Kind.TRACE,), table.counted),
        "programs": _peak(table, (Kind.CB, Kind.DFB, Kind.SCRATCHPAD, Kind.KERNEL), table.counted),
        "ring": int(programs.ring.max()) if len(programs.ring) else None,
        "headroom": min(rooms, default=None),
        "dram_block": _least_block(table, Kind.DRAM, moments),
        "l1_block": _least_block(table, Kind.L1, moments),
        "allocations": int(np.count_nonzero(buffers)),
        "compiled": len(programs.program),
        "failed": len(failures),
    }


def _peak(table: AllocationTable, kinds: tuple[Kind, ...], amount: Array) -> int:
    """The highest sum on any chip."""
    chosen = table.of_kinds(*kinds)
    known = np.where(amount >= 0, amount, table.counted)
    return max((timeline(table, chosen & table.on_chip(chip), known).peak[0] for chip in table.all_chips), default=0)


def _least_block(table: AllocationTable, kind: Kind, moments: Array) -> int | None:
    """The smallest of the largest free blocks, over some moments."""
    found = []
    for number, allocator in enumerate(table.allocators):
        mine = table.allocator == number
        if kind in allocator.regions and mine.any() and len(moments):
            live = (moments >= table.begin[mine].min()) & (moments <= table.begin[mine].max())
            if live.any():
                found.append(int(free_space(table, number, kind, moments[live]).largest.min()))
    return min(found, default=None)


def _held(table: AllocationTable, live: Array, by_program: bool) -> list[Held]:
    """The groups of a run: all that it ever had, with what of them was live."""
    rows = np.flatnonzero(_COMPARED[table.kind])
    if not len(rows):
        return []
    chips = np.array([len(chips) for chips in table.chip_sets], np.int64)
    keys = table.site[rows].astype(np.int64) << 8 | table.kind[rows]
    if by_program:
        keys |= table.program[rows].astype(np.int64) << 40
    known, group = _numbered(keys)
    shown = live[rows]
    count = np.bincount(group, shown, len(known)).astype(np.int64)
    size = np.bincount(group, shown * table.counted[rows] * chips[table.chips[rows]], len(known)).astype(np.int64)
    made = np.bincount(group, minlength=len(known))
    ends = _ends(table, rows, group, len(known))
    merged: dict[HeldOrigin, Held] = {}
    for place, key in enumerate(known.tolist()):
        site, number = table.sites[key >> 8 & 0xFFFFFFFF], key >> 40
        program = f"program {number} {site.op or ''}".rstrip() if number else None
        origin = HeldOrigin(KINDS[key & 0xFF].label, site.op, site.shape, site.stack, program)
        one = Held(origin, int(count[place]), int(size[place]), int(made[place]), *ends[place])
        before = merged.get(origin)
        if before is not None:  # the parts of a program
            one = one._replace(live=one.live + before.live, bytes=one.bytes + before.bytes, made=one.made + before.made)
        merged[origin] = one
    return list(merged.values())


def _numbered(keys: Array) -> tuple[Array, Array]:
    """The distinct keys, and the place of each key among them. Small keys need no sorting."""
    if len(keys) < 1 << 16 or keys.max() > len(keys):
        known, places = np.unique(keys, return_inverse=True)
        return known, places.reshape(-1)
    known = np.flatnonzero(np.bincount(keys))
    places = np.zeros(int(keys.max()) + 1, np.int64)
    places[known] = np.arange(len(known))
    return known, places[keys]


def _ends(table: AllocationTable, rows: Array, group: Array, groups: int) -> list[tuple[bool, str | None, int]]:
    """Of each group: whether the program freed it, the line of the last buffer made before that, and how many were.

    The median allocation of the group stands for it.
    """
    found: list[tuple[bool, str | None, int]] = [(False, None, 0)] * groups
    buffers = np.flatnonzero(table.kind < _FIRST_PART)
    chosen = np.flatnonzero((table.ended_by[rows] == End.FREED) & (table.kind[rows] < _FIRST_PART))
    if not len(chosen):
        return found
    begin = table.begin[buffers]
    last = np.searchsorted(begin, table.end[rows[chosen]], "left") - 1
    life = last - np.searchsorted(begin, table.begin[rows[chosen]], "left")
    order = np.lexsort((life, group[chosen]))
    sorted_group = group[chosen][order]
    starts = np.flatnonzero(np.append(True, sorted_group[1:] != sorted_group[:-1]))
    stops = np.append(starts[1:], len(order))
    for first, stop in zip(starts.tolist(), stops.tolist()):
        middle = order[(first + stop - 1) // 2]
        site = table.sites[int(table.site[buffers[last[middle]]])]
        found[int(sorted_group[first])] = True, line_of(site.stack) or site.op, int(life[middle])
    return found

# SPDX-License-Identifier: Apache-2.0
"""What programs have in the L1 of a chip over time: those that ran last on each core (rule 9 of docs/accounting.md).

A loop of cached operations goes through the same few states again and again. So each pair of a state and a launch is
computed once, and millions of launches are a walk from state to state.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ttmem.l1.headroom import GROWING_UP
from ttmem.model.kinds import Kind
from ttmem.pages.report_series import UNKNOWN
from ttmem.pages.sections import Column
from ttmem.recording.allocation_table import NEVER, AllocationTable
from ttmem.recording.launch_log import Change, ProgramKey, ProgramPart, Run
from ttmem.recording.lifetimes import Lifetimes
from ttmem.recording.record_arrays import Array
from ttmem.statistics.window import claimed_chips

MOST_INTERVALS = 20_000
_ENVELOPE = 4096  # parts of the time, if there are more intervals
_AT_A_TIME = 1 << 16
_KERNEL = int(Kind.KERNEL)
_UP = frozenset(int(kind) for kind in GROWING_UP)

State = tuple[Run, ...]  # the latest launch last


class Resident(NamedTuple):
    """Bytes of the programs that ran last, and the highest address that they reach, each from a time on."""

    time: Array
    circular: Array  # circular and dataflow buffers and scratchpads
    kernels: Array
    top: Array  # -1 if nothing reaches up
    site: Array  # of the part that reaches highest, as in the table of allocations
    kind: Array  # of that part


class _Value(NamedTuple):
    circular: int
    kernels: int
    top: int
    site: int
    kind: int


_NOTHING_KNOWN = _Value(UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, 0)


def resident(found: Lifetimes, chip: str) -> Resident | None:
    """The programs on a chip; None if no launch was recorded."""
    return _Walk(found, chip).run()


class _Walk:
    def __init__(self, found: Lifetimes, chip: str) -> None:
        table = found.allocations
        self._chips = {place for place, chips in enumerate(table.chip_sets) if chip in chips}
        self._processes = [source.info for source in table.sources]
        counted = _counted(table, chip)
        self._parts = [
            part for part in found.parts
            if part.program.chips in self._chips and (part.program.source, part.program.chips, part.kind) in counted
        ]  # fmt: skip
        self._changes: list[Change] = []
        self._times, self._codes = self._events(found)
        self._live: dict[ProgramKey, list[ProgramPart]] = {}
        self._states: dict[State, int] = {(): 0}
        self._by_number: list[State] = [()]
        self._values: dict[int, int] = {}
        self._listed: list[_Value] = [_NOTHING_KNOWN]
        self._places: dict[_Value, int] = {_NOTHING_KNOWN: 0}

    def _events(self, found: Lifetimes) -> tuple[Array, Array]:
        """Times and codes: the number of a change, or after these, of a part that begins or ends."""
        times, codes = [], []
        for log in found.launch_logs:
            numbers = np.full(len(log.changes), -1, np.int64)
            for place, change in enumerate(log.changes):
                here = Change(
                    tuple(run for run in change.runs if run.program.chips in self._chips),
                    tuple(key for key in change.gone if key.chips in self._chips),
                )
                if here.runs or here.gone:
                    numbers[place] = len(self._changes)
                    self._changes.append(here)
            whats = numbers[log.whats] if len(log.changes) else log.whats
            times.append(log.times[whats >= 0])
            codes.append(whats[whats >= 0])
        count = len(self._parts)
        begins, ends = (np.array([getattr(part, name) for part in self._parts], np.int64) for name in ("begin", "end"))
        first = len(self._changes)
        ended = np.flatnonzero(ends != NEVER)
        # Of one time, parts begin before they are launched.
        when = np.concatenate([begins, *times, ends[ended]])
        what = np.concatenate([np.arange(count) + first, *codes, ended + first + count])
        order = np.argsort(when, kind="stable")
        return when[order], what[order]

    def run(self) -> Resident | None:
        if not any(change.runs for change in self._changes):
            return None
        changes, state, known, launched = len(self._changes), 0, 0, False
        steps: dict[int, int] = {}
        out_time, out_value = [], []
        for time, code in self._in_order():
            if code < changes:
                step = state * changes + code
                after = steps.get(step)
                if after is None:
                    after = steps[step] = self._after(state, self._changes[code])
                if after == state and launched:
                    continue
                state = after
                launched = launched or bool(self._changes[code].runs)
            else:
                self._change_part(code - changes)
            value = self._values.get(state)
            if value is None:
                value = self._values[state] = self._value(self._by_number[state])
            if launched and value != known:
                known = value
                out_time.append(time)
                out_value.append(value)
        table = np.array(self._listed, np.int64)[np.array(out_value, np.int64)].reshape(-1, len(_Value._fields))
        return Resident(np.array(out_time, np.int64), *table.T)

    def _in_order(self) -> Iterator[tuple[int, int]]:
        """Times and codes as numbers of Python, which are large: some thousand at a time."""
        for first in range(0, len(self._times), _AT_A_TIME):
            some = slice(first, first + _AT_A_TIME)
            yield from zip(self._times[some].tolist(), self._codes[some].tolist())

    def _change_part(self, place: int) -> None:
        """A part begins, or ends. What is known of the states with its program is out of date."""
        count = len(self._parts)
        part = self._parts[place % count]
        live = self._live.setdefault(part.program, [])
        if place < count:
            live.append(part)
        elif part in live:
            live.remove(part)
        for state in [one for one in self._values if any(run.program == part.program for run in self._by_number[one])]:
            del self._values[state]

    def _after(self, state: int, change: Change) -> int:
        """The state after a change: a program keeps the cores that no later one covers."""
        gone = set(change.gone)
        runs = [*(run for run in self._by_number[state] if run.program not in gone), *change.runs]
        covered: dict[int, int] = {}  # cores by source
        left: dict[ProgramKey, int] = {}
        for program, cores in reversed(runs):
            mine = cores & ~covered.get(program.source, 0)
            for source, mask in covered.items():
                if source != program.source and self._processes[source] != self._processes[program.source]:
                    mine &= ~mask
            if mine:
                left[program] = left.get(program, 0) | mine
            covered[program.source] = covered.get(program.source, 0) | cores
        found = tuple(Run(program, cores) for program, cores in reversed(left.items()))
        if found not in self._states:
            self._states[found] = len(self._by_number)
            self._by_number.append(found)
        return self._states[found]

    def _value(self, state: State) -> int:
        circular = kernels = 0
        top, site, kind = UNKNOWN, UNKNOWN, 0
        for program, here in state:
            for part in self._live.get(program, ()):
                if part.shared:
                    continue
                if not part.cores:
                    circular, kernels = (UNKNOWN, kernels) if part.kind in _UP else (circular, UNKNOWN)
                    continue
                on = (part.cores & here).bit_count()
                size = part.size * on // part.cores.bit_count()
                if part.kind in _UP:
                    circular = circular if circular < 0 else circular + size
                    end = part.address + part.size // part.cores.bit_count()
                    if on and end > top:
                        top, site, kind = end, part.site, part.kind
                elif part.kind == _KERNEL:
                    kernels = kernels if kernels < 0 else kernels + size
        value = _Value(circular, kernels, top, site, kind)
        if value not in self._places:
            self._places[value] = len(self._listed)
            self._listed.append(value)
        return self._places[value]


def _counted(table: AllocationTable, chip: str) -> set[tuple[int, int, int]]:
    """Source, chip set and kind of the parts of programs that count on a chip (rule 12)."""
    sets, numbers = claimed_chips(table)
    rows = np.flatnonzero(table.program)
    if not len(rows):
        return set()
    keys = np.stack([table.source[rows], table.chips[rows], table.kind[rows], numbers[rows]], axis=1)
    return {(source, chips, kind) for source, chips, kind, place in np.unique(keys, axis=0).tolist()
            if chip in sets[place]}  # fmt: skip


def reach_columns(found: Resident, sites: Array, until: int) -> tuple[list[Column], int]:
    """The section of a map: up to which address programs reach. Also how many intervals there were.

    ``sites`` has the site of each top. Of very many intervals, the highest in each part of the time is kept.
    """
    begin, end = np.maximum(found.time, 0), np.append(found.time[1:], until)
    top, site = found.top, np.maximum(sites, 0)
    kept = (top >= 0) & (end > begin)
    begin, end, top, site = begin[kept], end[kept], top[kept], site[kept]
    count = len(begin)
    if count > MOST_INTERVALS:
        begin, end, top, site = _envelope(begin, end, top, site, until)
    columns = [
        Column("begin", "i64", begin, delta=True),
        Column("end", "i64", end, delta=True),
        Column("top", "i64", top),
        Column("site", "u32", site),
    ]
    return columns, count


def _envelope(begin: Array, end: Array, top: Array, site: Array, until: int) -> tuple[Array, Array, Array, Array]:
    """The highest top in each part of the time. An interval is in the parts in which it begins and ends."""
    parts = max(1, min(_ENVELOPE, until))
    edges = until * np.arange(parts + 1, dtype=object) // parts
    bounds = edges.astype(np.int64)
    first = np.searchsorted(end, bounds[:-1], "right")  # the first interval that ends after the part begins
    last = np.searchsorted(begin, bounds[1:], "left")
    used = np.flatnonzero(last > first)
    best = [int(first[part] + np.argmax(top[first[part] : last[part]])) for part in used.tolist()]
    return bounds[used], bounds[used + 1], top[best], site[best]


def sites_of(found: Resident, by_key: Array, kinds: int) -> Array:
    """The site in the page of each top."""
    keys = np.maximum(found.site, 0) * kinds + found.kind
    return np.where(found.site >= 0, by_key[keys], UNKNOWN) if len(by_key) else np.full(len(keys), UNKNOWN)

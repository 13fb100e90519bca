# SPDX-License-Identifier: Apache-2.0
"""The steps of a recorded process, and the past of its groups of allocations."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ttmem.analyze.growth import MIN_STEPS, Steps
from ttmem.model.events import PhaseBegan, PhaseEnded
from ttmem.model.kinds import KINDS, Kind
from ttmem.model.stack_frames import line_of

if TYPE_CHECKING:
    from ttmem.recording.record_arrays import Array
    from ttmem.recording.recording_file import Recording

ProcessKey = tuple[int, "int | None", int]  # `ProcessInfo.key`
_FIRST_PART = int(Kind.CB)
_MANY_STEPS = 16
_AFTER_STEPS = 4  # at most this part of the buffers may be made after the last step
_LARGEST_CODE = 1 << 62
_ROUNDING = 1e-6  # seconds; the times of the account and of the table differ by less


class GroupKey(NamedTuple):
    """Identifies a group in the table. The size is 0 if the shape is known."""

    process: ProcessKey
    chips: frozenset[str]
    kind: int
    op: str | None
    stack: str | None
    shape: str | None
    size: int


class _Run(NamedTuple):
    """One run of a phase."""

    name: str
    begin: float
    end: float


class RecordedPast:
    """What a recording knows of the past of groups, up to a moment."""

    def __init__(self, recording: Recording, now: float) -> None:
        self._recording = recording
        table = self._table = recording.lifetimes().allocations
        self._now = table.at(now)
        self._processes = list({source.info.key: None for source in table.sources})
        number_of = {key: number for number, key in enumerate(self._processes)}
        numbers = np.array([number_of[source.info.key] for source in table.sources], np.int32)
        self._process = numbers[table.source] if len(table) else np.zeros(0, np.int32)
        self._is_buffer = (table.kind < _FIRST_PART) & (table.begin <= self._now)
        self._groups: dict[GroupKey, Array] | None = None
        self._runs: dict[ProcessKey, list[_Run]] | None = None

    def steps(self, process: ProcessKey, since: float, now: float) -> Steps:
        """The steps of a process in a time: runs of a phase, else repetitions of a line. None of them: no steps.

        Steps must go on almost until the end. Otherwise the layers of a model would be steps while it is loaded, and
        its weights would grow.
        """
        mine = self._is_buffer & (self._process == self._number(process))
        begins = np.sort(self._table.begin[mine])
        if since > self._table.start - 1.0:  # otherwise everything, also what was made before the recording began
            begins = begins[begins >= self._table.at(since)]
        begins = begins[begins <= self._table.at(now)]
        return (
            self._phases(process, since, now, begins)
            or self._repetitions(process, now, begins)
            or Steps("line", None, ())
        )

    def knows(self, key: GroupKey) -> bool:
        return key in self._all_groups()

    def most(self, key: GroupKey, time: float) -> int:
        """The most allocations that a group had at once up to a time."""
        rows = self._all_groups()[key]
        until = self._table.at(time)
        begin, end = self._table.begin[rows], self._table.end[rows]
        begin, end = np.sort(begin[begin <= until]), np.sort(end[end <= until])
        live = np.arange(1, len(begin) + 1) - np.searchsorted(end, begin, "right")
        return int(live.max()) if len(live) else 0

    def history(self, key: GroupKey, times: list[float]) -> list[int]:
        """How many allocations a group had at some times."""
        rows = self._all_groups()[key]
        begin, end = np.sort(self._table.begin[rows]), np.sort(self._table.end[rows])
        at = [self._table.at(time) for time in times]
        return [int(n) for n in np.searchsorted(begin, at, "right") - np.searchsorted(end, at, "right")]

    def _number(self, process: ProcessKey) -> int:
        return self._processes.index(process) if process in self._processes else -1

    def _all_groups(self) -> dict[GroupKey, Array]:
        if self._groups is None:
            self._groups = self._grouped()
        return self._groups

    def _grouped(self) -> dict[GroupKey, Array]:
        """The rows of each group."""
        table, rows = self._table, np.flatnonzero(self._is_buffer)
        if not len(rows):
            return {}
        shaped = np.array([site.shape is not None for site in table.sites], bool)
        site = table.site[rows]
        sizes, size = np.unique(np.where(shaped[site], 0, table.size[rows]), return_inverse=True)
        # One number for each combination: to sort these is much faster than to sort rows of five columns.
        code, most = self._process[rows].astype(np.int64), len(self._processes)
        for values, count in (
            (table.chips[rows], len(table.chip_sets)), (table.kind[rows], len(KINDS)), (site, len(table.sites)),
            (size.reshape(-1), len(sizes)),
        ):  # fmt: skip
            if most * count > _LARGEST_CODE:
                known, code = np.unique(code, return_inverse=True)
                most = len(known)
            code *= count
            code += values
            most *= count
        del site, size, values
        order = np.argsort(code, kind="stable")
        code = code[order]
        parts = np.split(rows[order], np.flatnonzero(code[1:] != code[:-1]) + 1)
        found: dict[GroupKey, Array] = {}
        for part in parts:
            key = self._key(int(part[0]))
            # Two sites or sets of chips can differ in what is no part of the key.
            found[key] = np.concatenate([found[key], part]) if key in found else part
        return found

    def _key(self, row: int) -> GroupKey:
        table = self._table
        made = table.sites[table.site[row]]
        size = int(table.size[row]) if made.shape is None else 0
        process, chips = self._processes[self._process[row]], frozenset(table.chip_sets[table.chips[row]])
        return GroupKey(process, chips, int(table.kind[row]), made.op, made.stack, made.shape, size)

    def _phases(self, process: ProcessKey, since: float, now: float, begins: Array) -> Steps | None:
        """The runs of the phase that took the most time, of those that were run often and almost until the end."""
        by_name: dict[str, list[_Run]] = defaultdict(list)
        for run in self._all_runs().get(process, ()):
            if since <= run.begin and run.end <= now:
                by_name[run.name].append(run)
        last = {name: max(run.end for run in runs) for name, runs in by_name.items()}
        often = [
            name
            for name, runs in by_name.items()
            if len(runs) >= MIN_STEPS and _is_last(begins, self._table.at(last[name]))
        ]
        if not often:
            return None
        name = max(often, key=lambda one: sum(run.end - run.begin for run in by_name[one]))
        return Steps("phase", name, (*sorted(run.begin for run in by_name[name]), last[name]))

    def _all_runs(self) -> dict[ProcessKey, list[_Run]]:
        if self._runs is None:
            self._runs = defaultdict(list)
            began: dict[tuple[object, int], tuple[str, float]] = {}
            for one in self._recording.phases():
                if one.source is None:
                    continue
                if isinstance(one.event, PhaseBegan):
                    began[one.source, one.event.ident] = one.event.name, one.time
                elif isinstance(one.event, PhaseEnded) and (one.source, one.event.ident) in began:
                    run = _Run(*began.pop((one.source, one.event.ident)), one.time)
                    self._runs[one.source.info.key].append(run)
        return self._runs

    def _repetitions(self, process: ProcessKey, now: float, begins: Array) -> Steps | None:
        """The repetitions of a group, freed or not.

        Most operations of a model are repeated for each layer, and some for each step. So of the numbers of repetitions
        that several groups have, the smallest one is used, if it is not too small; otherwise the most common one.
        """
        if not len(begins):
            return None
        made: dict[int, list[tuple[Array, GroupKey]]] = defaultdict(list)
        for key, rows in self._all_groups().items():
            if key.process == process and len(rows) >= MIN_STEPS:
                begin = np.sort(self._table.begin[rows])
                begin = begin[(begin >= begins[0]) & (begin <= begins[-1])]
                if len(begin) >= MIN_STEPS and _is_last(begins, int(begin[-1])):
                    made[len(begin)].append((begin, key))
        if not made:
            return None
        common = [count for count in made if count >= _MANY_STEPS and len(made[count]) > 1]
        count = min(common) if common else max(made, key=lambda count: (len(made[count]), count))
        begin, key = min(made[count], key=lambda one: int(one[0][0]))
        edges = begin * 1e-9 + (self._table.start - _ROUNDING)
        return Steps("line", line_of(key.stack) or key.op, (*edges.tolist(), max(now, float(edges[-1])) + _ROUNDING))


def _is_last(begins: Array, time: int) -> bool:
    """Were few buffers made after a time?"""
    return int(np.count_nonzero(begins > time)) * _AFTER_STEPS <= len(begins)

# SPDX-License-Identifier: Apache-2.0
"""When programs were launched in a recording: what changes which programs are resident on the cores of a chip.

A loop of cached operations launches the same programs millions of times. So each distinct change is kept once, and the
log has an array of times and one of the numbers of changes. `pages/residency.py` applies them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ttmem.recording.record_arrays import Array, GrowingArray


class ProgramKey(NamedTuple):
    """A program of one source on some chips."""

    source: int
    program: int
    chips: int  # index of its chip set


class Run(NamedTuple):
    program: ProgramKey
    cores: int  # mask


class Change(NamedTuple):
    """Programs that were launched together, or that are gone."""

    runs: tuple[Run, ...] = ()
    gone: tuple[ProgramKey, ...] = ()


class ProgramPart(NamedTuple):
    """A part of a program: circular or dataflow buffer, scratchpad, kernel."""

    program: ProgramKey
    kind: int
    address: int
    size: int  # over all its cores
    cores: int  # mask; 0 if they are not known
    shared: bool  # it is inside an L1 buffer
    site: int  # index, as in the table of allocations
    begin: int
    end: int


class LaunchLog:
    """The launches of one source, in the order of time."""

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self._numbers: dict[Change, int] = {}
        self._times, self._whats = GrowingArray(np.int64), GrowingArray(np.uint32)

    def number(self, change: Change) -> int:
        """The number of a change, for `add`."""
        found = self._numbers.get(change)
        if found is None:
            found = self._numbers[change] = len(self.changes)
            self.changes.append(change)
        return found

    def add(self, times: Array, whats: Array) -> None:
        self._times.add(times, len(times))
        self._whats.add(whats, len(times))

    def add_one(self, time: int, change: Change) -> None:
        self.add(np.array([time], np.int64), np.array([self.number(change)], np.int64))

    @property
    def times(self) -> Array:
        return self._times.values

    @property
    def whats(self) -> Array:
        """The number of the change at each time."""
        return self._whats.values


class Workloads:
    """The programs of one agent by the slot of their frame, and the launches of their workloads.

    It follows the records as `ingest/ring_programs.py` does, but keeps what would happen instead of making events.
    """

    def __init__(self, log: LaunchLog) -> None:
        self._log = log
        self._frames: dict[int, tuple[int, Run]] = {}  # by slot: workload, program and cores
        self._workloads: dict[int, dict[int, Run]] = {}
        self._numbers: dict[int, int] = {}  # of the launch of each workload, until one of its programs changes

    def keep(self, slot: int, workload: int, run: Run) -> None:
        """A program was compiled, or something about it has changed."""
        self._drop(slot)
        self._numbers.pop(workload, None)
        self._frames[slot] = workload, run
        self._workloads.setdefault(workload, {})[slot] = run

    def destroyed(self, slot: int, time: int) -> None:
        found = self._drop(slot)
        if found is not None:
            self._log.add_one(time, Change(gone=(found.program,)))

    def closed(self, chips: set[int], time: int) -> None:
        """A mesh was closed: the programs on these chip sets are gone."""
        slots = [slot for slot, (_, run) in self._frames.items() if run.program.chips in chips]
        gone = [run.program for slot in slots if (run := self._drop(slot)) is not None]
        if gone:
            self._log.add_one(time, Change(gone=tuple(gone)))

    def forget_all(self, time: int) -> None:
        """Records were lost, or the process exited: nothing is resident any more."""
        gone = tuple(run.program for _, run in self._frames.values())
        self._frames.clear()
        self._workloads.clear()
        self._numbers.clear()
        if gone:
            self._log.add_one(time, Change(gone=gone))

    def launched(self, times: Array, workloads: Array) -> None:
        """Workloads were launched at these times. One whose programs are not known changes nothing."""
        distinct, places = np.unique(workloads, return_inverse=True)
        numbers = np.array([self._number(one) for one in distinct.tolist()], np.int64)[places]
        repeated = np.zeros(len(numbers), bool)
        repeated[1:] = numbers[1:] == numbers[:-1]
        chosen = (numbers >= 0) & ~repeated
        self._log.add(times[chosen], numbers[chosen])

    def _number(self, workload: int) -> int:
        if workload not in self._numbers:
            runs = self._workloads.get(workload)
            self._numbers[workload] = self._log.number(Change(tuple(runs.values()))) if runs else -1
        return self._numbers[workload]

    def _drop(self, slot: int) -> Run | None:
        found = self._frames.pop(slot, None)
        if found is None:
            return None
        workload, run = found
        self._numbers.pop(workload, None)
        others = self._workloads[workload]
        del others[slot]
        if not others:
            del self._workloads[workload]
        return run

# SPDX-License-Identifier: Apache-2.0
"""A recorded ring for charts: records that make no difference to samples of the account are left out.

A sample is taken at the end of each step of time. It has the state at that time, and the highest value of each total
since the sample before. Two sorts of records change neither, and nearly all records of a loop of operations are such:

- An allocation and its free in one step, unless it was live when a total that it is part of was highest in that step.
- A launch of a workload that is launched again in the same step.

Whatever is left out makes the totals lower in between, never higher. The highest value itself is reached with exactly
the allocations that were live then. So the samples are the same as those of all records.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from ttmem.ingest.sink import Sink
from ttmem.model.events import MAX_SIZE, Allocated
from ttmem.model.kinds import Kind
from ttmem.recording.blocks import RecordingError
from ttmem.recording.record_arrays import RECORD_TYPE, Array, RecordArrays
from ttmem.recording.recorded_ring import RecordedFold, RecordedProcess, RecordedRing
from ttmem.recording.recording_file import Recording
from ttmem.recording.replay import RingStretch
from ttmem.wire.agent_ring import PROGRAM_FRAME, RECORD, SHARED, WHOLESALE, RingError, RingEvent, chip_id
from ttmem.wire.table_copy import TableCopy

_ALLOCATED, _FREED = int(RingEvent.ALLOCATED), int(RingEvent.FREED)
_NAMED, _RUN = int(RingEvent.NAMED), int(RingEvent.RUN)
_MESHES_CHANGE = (int(RingEvent.OPENED), int(RingEvent.CLOSING), int(RingEvent.CLOSED))
_PROGRAMS_CHANGE = (*_MESHES_CHANGE, int(RingEvent.PROGRAM), int(RingEvent.DESTROYED))
_FIRST_PART = int(Kind.CB)
_USED = ("event", "time", "kind", "flags", "size", "per_bank", "slot", "mesh", "program")

Rows = dict[str, Array]  # some fields of records


def thinned_stretches(recording: Recording, sink: Sink, step: float) -> list[RingStretch]:
    """The rings of a recording, for samples at multiples of ``step``, which is a power of two."""
    others = any(isinstance(one.event, Allocated) for one in recording.events())
    chips = {process.number: set(_chips_of(process)) for process in recording.processes.values()}
    stretches = []
    for process in recording.processes.values():
        alone = not others and all(
            chips[process.number].isdisjoint(used) for number, used in chips.items() if number != process.number
        )
        stretches.append(RingStretch(partial(_fold, process, sink, step, alone), since=process.since))
    return stretches


def _fold(process: RecordedProcess, sink: Sink, step: float, alone: bool) -> RecordedFold:
    ring = ThinnedRing(process, step, alone=alone)
    return RecordedFold(ring, process.offset, sink, process.source.of(sink.ledger))


def _chips_of(process: RecordedProcess) -> Iterator[str]:
    """Every chip that a process ever opened."""
    ring = RecordedRing(process)
    ring.skip_to_end()
    for number in range(ring.chip_count):
        chip = ring.chip(number)
        if any(chip):
            yield chip_id(chip)


class ThinnedRing(RecordedRing):
    """Reads the records that samples need."""

    def __init__(self, process: RecordedProcess, step: float, *, alone: bool) -> None:
        """``alone``: no other process and no other source has allocations on the same chips."""
        super().__init__(process)
        self._step = step
        self._alone = alone
        self._now = -np.inf  # the step of the last record
        self._taken = np.zeros(self.table_slots, bool)  # slots of the table that buffers have

    def next_table(self) -> TableCopy:
        table = super().next_table()
        rows = np.frombuffer(table.rows, RECORD_TYPE)[: len(self._taken)]
        self._taken[:] = False
        self._taken[: len(rows)] = (rows["sequence"] > 0) & (rows["kind"] != PROGRAM_FRAME) & (rows["program"] == 0)
        return table

    def read(self, limit: int) -> tuple[int, list[tuple[int, ...]]]:
        lost, stretch = self.next_stretch(limit)
        if stretch is None:
            return lost, []
        payload = self.process.payload(self.process.blocks[stretch.block])
        try:
            arrays = None if payload is None else RecordArrays(payload, stretch.first, stretch.end)
        except RecordingError:
            arrays = None
        if arrays is None:
            return self.damaged(stretch), []
        rows = {name: arrays.field(name) for name in _USED}
        first = self.cursor + 1
        self.advance(stretch, int(rows["time"][-1]))
        return 0, list(RECORD.iter_unpack(arrays.records(self._needed(rows), first)))

    def _needed(self, rows: Rows) -> Array:
        """Which records are needed. The last one always is: what follows a block is read after it."""
        time = rows["time"]
        kept = np.ones(len(time), bool)
        steps = np.maximum.accumulate(np.maximum(np.floor((time * 1e-9 + self.process.offset) / self._step), self._now))
        self._now = float(steps[-1])
        ordered = not np.any(time[1:] < time[:-1])  # else the order in which they are applied depends on all of them
        event = rows["event"]
        if ordered:
            self._drop_launches(rows, steps, kept)
        buffers = np.flatnonzero((event == _ALLOCATED) | (event == _FREED) | (event == _NAMED))
        buffers = buffers[rows["program"][buffers] == 0]
        slots = rows["slot"][buffers]
        if np.any(slots >= len(self._taken)):  # the table had no room for some
            inside = slots < len(self._taken)
            buffers, slots = buffers[inside], slots[inside]
            ordered = False
        if len(buffers):
            pairs = _Pairs(rows, buffers, slots, self._taken)
            self._alone = self._alone and pairs.usual  # else a later allocation may replace one that was never freed
            if ordered and self._alone and self._chips_known(rows, buffers):
                self._drop_pairs(rows, steps, pairs, kept)
        return kept

    def _chips_known(self, rows: Rows, buffers: Array) -> bool:
        """Are the rows of all meshes of these records those of the meshes that they mean, and not of later ones?"""
        meshes, places = np.unique(rows["mesh"][buffers], return_index=True)
        first = self.cursor + 1 - len(rows["event"])
        sequences = (buffers[places] + first).tolist()
        try:
            return all(self.mesh(mesh).opened <= used for mesh, used in zip(meshes.tolist(), sequences))
        except RingError:
            return False

    def _drop_launches(self, rows: Rows, steps: Array, kept: Array) -> None:
        """Leave out launches of a workload that is launched again before a sample or a change of a program."""
        event = rows["event"]
        part = np.cumsum(np.isin(event, _PROGRAMS_CHANGE)) + np.cumsum(np.append(False, steps[1:] != steps[:-1]))
        runs = np.flatnonzero(event == _RUN)
        if len(runs):
            keys = part[runs].astype(np.int64) << 32 | rows["per_bank"][runs].astype(np.int64)
            kept[runs] = False
            _, last = np.unique(keys[::-1], return_index=True)
            kept[runs[len(runs) - 1 - last]] = True
            kept[-1] = True

    def _drop_pairs(self, rows: Rows, steps: Array, pairs: _Pairs, kept: Array) -> None:
        """Leave out allocations that are freed in the same step and were not live when a total was highest."""
        kind, mesh = rows["kind"], rows["mesh"]
        sections = np.cumsum(np.append(False, steps[1:] != steps[:-1]))
        starts = np.flatnonzero(np.append(True, steps[1:] != steps[:-1]))
        first, last = pairs.first, pairs.last
        flags = rows["flags"]
        short = (sections[first] == sections[last]) & (flags[last] & WHOLESALE == 0)
        short &= last != len(kept) - 1
        closed = sections[np.isin(rows["event"], _MESHES_CHANGE)]  # what is freed by a closing is in no record
        short &= ~np.isin(sections[first], closed)
        changes = pairs.changes(rows)
        for one in np.unique(kind[first[short]]).tolist():
            here = np.flatnonzero(short & (kind[first] == one))
            of_kind = kind == one
            try:
                groups = self._mesh_groups(np.unique(mesh[of_kind & (changes != 0)]).tolist())
            except RingError:
                short[here] = False
                continue
            for group in groups:
                value = np.cumsum(np.where(of_kind & np.isin(mesh, group), changes, 0))
                highest = np.maximum.reduceat(value, starts)
                places = np.flatnonzero(value == highest[sections])
                _, at = np.unique(sections[places], return_index=True)
                peak = places[at][sections[first[here]]]
                short[here] &= ~((first[here] <= peak) & (peak < last[here]))
        kept[first[short]] = False
        kept[last[short]] = False
        kept[pairs.names_of(short)] = False

    def _mesh_groups(self, meshes: list[int]) -> list[list[int]]:
        """The sets of these meshes that share a chip: the total of a chip is the sum over such a set."""
        if len(meshes) < 2:
            return [meshes]
        chips: dict[str, list[int]] = {}
        for number in meshes:
            for chip in self.chips_of(self.mesh(number)):
                chips.setdefault(chip_id(chip), []).append(number)
        return [list(one) for one in {tuple(group) for group in chips.values()}]


class _Pairs:
    """Allocations of buffers and their frees among some records, as indices of the records."""

    def __init__(self, rows: Rows, buffers: Array, slots: Array, taken: Array) -> None:
        """``buffers`` are the records of buffers. ``taken`` has the slots in use before them, and is brought up."""
        narrow = slots.astype(np.uint16) if slots.max() < 1 << 16 else slots  # sorts five times as fast
        order = np.argsort(narrow, kind="stable")
        records, slot = buffers[order], slots[order]
        event = rows["event"][records]
        new, freed = event == _ALLOCATED, event == _FREED
        starts = np.append(True, slot[1:] != slot[:-1])
        place = np.arange(len(slot))
        group = np.maximum.accumulate(np.where(starts, place, 0))
        change = np.maximum.accumulate(np.where(new | freed, place, -1))  # the last one that is no name
        before = np.append(-1, change[:-1])
        inside = before >= group
        was_taken = np.where(inside, new[np.maximum(before, 0)], taken[slot])
        size = rows["size"][records]
        self.usual = bool(
            not np.any(was_taken[new])
            and np.all(was_taken[freed])
            and np.all((size[new] > 0) & (size[new] <= MAX_SIZE))
            and np.all(rows["kind"][records[new]] < _FIRST_PART)
            and not np.any(rows["flags"][records] & SHARED)
        )
        ended = np.flatnonzero(freed & inside)
        self.first, self.last = records[before[ended]], records[ended]
        self._records, self._named = records, event == _NAMED
        self._of = np.where(self._named & (change >= group) & new[np.maximum(change, 0)], change, -1)
        self._begin = before[ended]
        self._new, self._freed = records[new], records[freed]
        ends = np.append(starts[1:], True)
        final = change[ends]
        taken[slot[ends]] = np.where(final >= group[ends], new[np.maximum(final, 0)], taken[slot[ends]])

    def changes(self, rows: Rows) -> Array:
        """What each record adds to the total of its kind on its mesh."""
        size = rows["size"].astype(np.int64)
        changes = np.zeros(len(size), np.int64)
        changes[self._new] = size[self._new]
        changes[self._freed] = -size[self._freed]
        changes[self.last] = -size[self.first]
        return changes

    def names_of(self, chosen: Array) -> Array:
        """The records that name the allocations of some of the pairs."""
        begins = np.zeros(len(self._records) + 1, bool)
        begins[self._begin[chosen]] = True
        found: Array = self._records[self._named & begins[self._of]]
        return found

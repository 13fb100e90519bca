# SPDX-License-Identifier: Apache-2.0
"""The rows of a table of allocations while a recorded ring is read: columns that grow, and ends that become known."""

from __future__ import annotations

from typing import Any

import numpy as np

from ttmem.model.events import MAX_SIZE
from ttmem.model.kinds import Kind
from ttmem.recording.allocation_table import NEVER, End
from ttmem.recording.open_meshes import OpenMeshes
from ttmem.recording.record_arrays import Array, GrowingArray
from ttmem.wire.agent_ring import PER_CORE, SHARED

_FIRST_PART = int(Kind.CB)
_COPIED = {"name": np.uint32, "kind": np.uint8, "flags": np.uint8, "program": np.uint32, "address": np.uint64,
           "size": np.int64, "per_bank": np.int64, "cores": np.uint32}  # fmt: skip
_COLUMNS = {**_COPIED, "begin": np.int64, "end": np.int64, "ended_by": np.uint8, "chips": np.int32,
            "allocator": np.int32, "reserved": np.int64}  # fmt: skip
USED_FIELDS = ("event", "slot", "time", "mesh", "core_count", *_COPIED)  # of a record


class LifetimeRows:
    """One row for each allocation, as columns."""

    def __init__(self) -> None:
        self.count = 0
        self._columns = {name: GrowingArray(kind) for name, kind in _COLUMNS.items()}

    def column(self, name: str) -> Array:
        return self._columns[name].values

    @property
    def name(self) -> Array:
        """What made each row: an offset into the names of the agent."""
        return self.column("name")

    @property
    def program(self) -> Array:
        """The program that each row is a part of, or 0."""
        return self.column("program")

    @property
    def begin(self) -> Array:
        return self.column("begin")

    @property
    def end(self) -> Array:
        return self.column("end")

    def add(self, block: dict[str, Array], meshes: OpenMeshes) -> Array:
        """Add rows for records of allocations. Returns their numbers."""
        count = len(block["time"])
        kinds, flags, mesh = block["kind"], block["flags"], block["mesh"]
        chips, allocators, banks = (np.zeros(count, kind) for kind in (np.int32, np.int32, np.int64))
        for number in np.flatnonzero(np.bincount(mesh)).tolist():
            view, here = meshes[number], mesh == number
            chips[here], allocators[here] = view.chips, view.allocator
            by_kind = np.array([*view.banks, *[0] * 256])
            banks[here] = by_kind[kinds[here]]
        per_core = (flags & PER_CORE) != 0
        reserved = block["per_bank"].astype(np.int64) * np.where(per_core, block["core_count"], banks)
        made = {
            "begin": block["time"], "end": NEVER, "ended_by": End.LIVE, "chips": chips, "allocator": allocators,
            "reserved": np.where(kinds < _FIRST_PART, reserved, -1),
        }  # fmt: skip
        for name, column in self._columns.items():
            column.add(made[name] if name in made else block[name], count)
        self.count += count
        return np.arange(self.count - count, self.count)

    def describe(self, rows: Array, names: Array, flags: Array) -> None:
        """More is known of these allocations: the operation that made them, or that a cached program keeps them."""
        self.name[rows] = names
        self.column("flags")[rows] = flags

    def close(self, rows: Array, time: Any, how: Any) -> None:
        self.end[rows] = time
        self.column("ended_by")[rows] = how

    def close_live(self, time: int, how: End, allocators: list[int] | None = None) -> None:
        """End everything that is live, or what is live of these allocators."""
        live = np.flatnonzero(self.end == NEVER)
        if allocators is not None:
            live = live[np.isin(self.column("allocator")[live], allocators)]
        self.close(live, time, how)

    def end_parts(self, destroyed: Array) -> None:
        """Programs were destroyed, as pairs (program, time): their parts end, if they were not freed before."""
        waiting = np.flatnonzero((self.program > 0) & (self.end == NEVER))
        # The first time at which a program of that number was destroyed after the part was made.
        times = np.unique(destroyed[:, 1])
        keys = destroyed[:, 0] * (len(times) + 1) + np.searchsorted(times, destroyed[:, 1])
        pairs, keys = destroyed[order := np.argsort(keys, kind="stable")], keys[order]
        numbers = self.program[waiting].astype(np.int64)
        wanted = numbers * (len(times) + 1) + np.searchsorted(times, self.begin[waiting])
        place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        found = (pairs[place, 0] == numbers) & (keys[place] >= wanted)
        self.close(waiting[found], pairs[place[found], 1], End.PROGRAM_DESTROYED)

    def take_columns(self) -> dict[str, Array]:
        """All columns, which are forgotten here."""
        columns = {name: one.values for name, one in self._columns.items()}
        self._columns.clear()
        inside = (columns["flags"] & SHARED) != 0
        columns["counted"] = np.where(inside, 0, columns["size"]) if inside.any() else columns["size"]
        return columns

    def without_repetitions(self) -> Array:
        """The rows without repetitions: a program may report one part twice, such as two circular buffers of a tensor.

        A part ends when its last repetition ends.
        """
        if not self.count:
            return np.zeros(0, np.int64)
        parts = np.flatnonzero(self.program)
        keys = [self.column(name)[parts] for name in ("program", "kind", "address", "cores", "size")]
        order = np.lexsort([parts, *reversed(keys)])
        rows = parts[order]
        same = np.ones(max(0, len(rows) - 1), bool)
        for key in keys:
            same &= key[order][1:] == key[order][:-1]
        same &= self.begin[rows[1:]] < self.end[rows[:-1]]
        repeated = np.flatnonzero(same) + 1
        later = repeated[self.end[rows[repeated]] > self.end[rows[repeated - 1]]]
        for place in later[::-1].tolist():  # few: most end together with their program
            self.close(rows[place - 1], self.end[rows[place]], self.column("ended_by")[rows[place]])
        size = self.column("size")
        kept = (size > 0) & (size <= MAX_SIZE)  # the account rejects others
        kept[rows[repeated]] = False
        return np.flatnonzero(kept)

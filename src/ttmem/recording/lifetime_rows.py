# SPDX-License-Identifier: Apache-2.0
"""The rows of a table of allocations while a recorded ring is read: columns that grow, and ends that become known."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ttmem.model.events import MAX_SIZE
from ttmem.model.kinds import Kind
from ttmem.recording.allocation_table import NEVER, End
from ttmem.recording.open_meshes import OpenMeshes
from ttmem.recording.record_arrays import Array
from ttmem.wire.agent_ring import PER_CORE, SHARED

_FIRST_PART = int(Kind.CB)
_COPIED = {"kind": np.uint8, "flags": np.uint8, "program": np.uint32, "address": np.uint64, "size": np.int64,
           "per_bank": np.int64, "cores": np.uint32}  # fmt: skip
USED_FIELDS = ("event", "slot", "time", "mesh", "core_count", "name", *_COPIED)  # of a record


class _GrowingArray:
    """An array to which values are added, and whose values change."""

    def __init__(self, kind: type) -> None:
        self._values: Array = np.empty(1024, kind)
        self._length = 0

    def add(self, values: Any, count: int) -> None:
        needed = self._length + count
        if needed > len(self._values):
            larger = np.empty(max(needed, 2 * len(self._values)), self._values.dtype)
            larger[: self._length] = self._values[: self._length]
            self._values = larger
        self._values[self._length : needed] = values
        self._length = needed

    @property
    def values(self) -> Array:
        return self._values[: self._length]


class LifetimeRows:
    """One row for each allocation. Values that may change later are arrays of their own."""

    def __init__(self) -> None:
        self.count = 0
        self._begin, self._end, self._ended_by = (_GrowingArray(kind) for kind in (np.int64, np.int64, np.uint8))
        self._name, self._program, self._allocator = (_GrowingArray(kind) for kind in (np.uint32, np.uint32, np.int32))
        self._chunks: list[dict[str, Array]] = []  # the other columns, of the rows that were added together

    @property
    def name(self) -> Array:
        """What made each row: an offset into the names of the agent."""
        return self._name.values

    @property
    def program(self) -> Array:
        """The program that each row is a part of, or 0."""
        return self._program.values

    @property
    def begin(self) -> Array:
        return self._begin.values

    @property
    def end(self) -> Array:
        return self._end.values

    def add(self, block: dict[str, Array], meshes: OpenMeshes) -> Array:
        """Add rows for records of allocations. Returns their numbers."""
        count = len(block["time"])
        chunk = {name: block[name].astype(kind) for name, kind in _COPIED.items()}
        mesh = block["mesh"]
        banks = np.zeros(count, np.int64)
        chunk["chips"], chunk["allocator"] = np.zeros(count, np.int32), np.zeros(count, np.int32)
        for number in np.flatnonzero(np.bincount(mesh)).tolist():
            view, here = meshes[number], mesh == number
            chunk["chips"][here], chunk["allocator"][here] = view.chips, view.allocator
            by_kind = np.array([*view.banks, *[0] * 256])
            banks[here] = by_kind[chunk["kind"][here]]
        per_core = (chunk["flags"] & PER_CORE) != 0
        reserved = chunk["per_bank"] * np.where(per_core, block["core_count"], banks)
        chunk["reserved"] = np.where(chunk["kind"] < _FIRST_PART, reserved, -1)
        chunk["counted"] = np.where(chunk["flags"] & SHARED, 0, chunk["size"])
        self._chunks.append(chunk)
        self._begin.add(block["time"], count)
        self._end.add(NEVER, count)
        self._ended_by.add(End.LIVE, count)
        self._name.add(block["name"], count)
        self._program.add(chunk.pop("program"), count)
        self._allocator.add(chunk.pop("allocator"), count)
        self.count += count
        return np.arange(self.count - count, self.count)

    def close(self, rows: Array, time: Any, how: Any) -> None:
        self.end[rows] = time
        self._ended_by.values[rows] = how

    def close_live(self, time: int, how: End, allocators: list[int] | None = None) -> None:
        """End everything that is live, or what is live of these allocators."""
        live = np.flatnonzero(self.end == NEVER)
        if allocators is not None:
            live = live[np.isin(self._allocator.values[live], allocators)]
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
        """The columns that do not change, which are forgotten here."""
        chunks, self._chunks = self._chunks, []
        names = list(chunks[0]) if chunks else []
        return {name: np.concatenate([chunk.pop(name) for chunk in chunks]) for name in names}

    def changing_columns(self, rows: Array) -> Iterator[tuple[str, Array]]:
        """The other columns of some rows."""
        yield "program", self.program[rows]
        yield "allocator", self._allocator.values[rows]
        yield "begin", self.begin[rows]
        yield "end", self.end[rows]
        yield "ended_by", self._ended_by.values[rows]

    def without_repetitions(self, columns: dict[str, Array]) -> Array:
        """The rows without repetitions: a program may report one part twice, such as two circular buffers of a tensor.

        A part ends when its last repetition ends.
        """
        if not self.count:
            return np.zeros(0, np.int64)
        parts = np.flatnonzero(self.program)
        keys = [self.program, columns["kind"], columns["address"], columns["cores"], columns["size"]]
        keys = [key[parts] for key in keys]
        order = np.lexsort([parts, *reversed(keys)])
        rows = parts[order]
        same = np.ones(max(0, len(rows) - 1), bool)
        for key in keys:
            same &= key[order][1:] == key[order][:-1]
        same &= self.begin[rows[1:]] < self.end[rows[:-1]]
        repeated = np.flatnonzero(same) + 1
        later = repeated[self.end[rows[repeated]] > self.end[rows[repeated - 1]]]
        for place in later[::-1].tolist():  # few: most end together with their program
            self.close(rows[place - 1], self.end[rows[place]], self._ended_by.values[rows[place]])
        kept = (columns["size"] > 0) & (columns["size"] <= MAX_SIZE)  # the account rejects others
        kept[rows[repeated]] = False
        return np.flatnonzero(kept)

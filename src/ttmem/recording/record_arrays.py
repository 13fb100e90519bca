# SPDX-License-Identifier: Apache-2.0
"""The fields of a block of ring records as arrays of numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ttmem.recording.blocks import RecordingError
from ttmem.recording.columns import columns_of
from ttmem.wire.agent_ring import RECORD_FIELDS, RECORD_SIZE

Array = npt.NDArray[Any]

_PLACE = {name: (offset, np.dtype("<" + code)) for name, offset, code in RECORD_FIELDS}
RECORD_TYPE = np.dtype(
    {
        "names": list(_PLACE),
        "formats": [kind for _, kind in _PLACE.values()],
        "offsets": [offset for offset, _ in _PLACE.values()],
        "itemsize": RECORD_SIZE,
    }
)


class GrowingArray:
    """An array to which values are added, and whose values change.

    What is reserved but not used takes no memory. Thousands of small arrays would leave gaps in it.
    """

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


class RecordArrays:
    """Records ``first`` to before ``end`` of a block. A field is assembled when it is asked for."""

    def __init__(self, packed_records: bytes, first: int, end: int) -> None:
        """RecordingError if the block is invalid."""
        count, self._columns = columns_of(packed_records)
        if end > count:
            raise RecordingError(f"a block of {count} records, of which {end} are expected")
        self._first, self._end = first, end

    def __len__(self) -> int:
        return self._end - self._first

    def field(self, name: str) -> Array:
        offset, kind = _PLACE[name]
        parts = [self._columns[number] for number in range(offset, offset + kind.itemsize)]
        if all(len(part) == 1 for part in parts):
            return np.full(len(self), np.frombuffer(b"".join(parts), kind)[0])
        rows = np.empty((len(self), kind.itemsize), np.uint8)
        for number, part in enumerate(parts):
            column = np.frombuffer(part, np.uint8)
            rows[:, number] = column if len(part) == 1 else column[self._first : self._end]
        return rows.reshape(-1).view(kind)

    def records(self, chosen: Array, sequence: int) -> bytes:
        """Some of the records. ``sequence`` is the number of the first of all."""
        places = np.flatnonzero(chosen)
        rows = np.empty((len(places), RECORD_SIZE), np.uint8)
        numbers = places.astype(np.uint64) + np.uint64(sequence)
        rows[:, : numbers.itemsize] = numbers.view(np.uint8).reshape(-1, numbers.itemsize)
        for number, part in self._columns.items():
            column = np.frombuffer(part, np.uint8)
            rows[:, number] = column if len(part) == 1 else column[self._first : self._end][places]
        return rows.tobytes()

# SPDX-License-Identifier: Apache-2.0
"""The binary sections of a page: columns of numbers as byte planes, compressed. `model/page_schema.py` has the format.

Neighbouring values are similar, so differences are small, and their upper bytes are mostly zero: they compress well.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ttmem.recording.record_arrays import Array

if TYPE_CHECKING:
    from ttmem.model.page_schema import ColumnType, PageColumn, PageSection

_TYPES: dict[str, np.dtype[Any]] = {
    "u8": np.dtype("<u1"),
    "u16": np.dtype("<u2"),
    "u32": np.dtype("<u4"),
    "i64": np.dtype("<i8"),
}
MAX_EXACT = 1 << 53  # larger values are not exact in a browser
_ZLIB_LEVEL = 6


class Column(NamedTuple):
    """A column. With ``delta`` its differences are stored."""

    name: str
    type: ColumnType
    values: Array
    delta: bool = False


class Sections:
    """Collects the sections of a page by their names."""

    def __init__(self) -> None:
        self.index: dict[str, PageSection] = {}
        self.payloads: dict[str, bytes] = {}

    def add_columns(self, name: str, columns: Iterable[Column]) -> str:
        """Returns the name."""
        described: list[PageColumn] = []
        parts = []
        for column in columns:
            parts.append(planes(column))
            described.append(
                {"name": column.name, "type": column.type, "count": len(column.values), "delta": column.delta}
            )
        return self._add(name, b"".join(parts), described)

    def add_json(self, name: str, document: Any) -> str:
        return self._add(name, json.dumps(document, separators=(",", ":")).encode(), None)

    def _add(self, name: str, content: bytes, columns: list[PageColumn] | None) -> str:
        payload = zlib.compress(content, _ZLIB_LEVEL)
        self.payloads[name] = payload
        self.index[name] = {"bytes": len(payload), "columns": columns}
        return name


def planes(column: Column) -> bytes:
    """The bytes of a column before compression. ValueError if a value does not fit its type."""
    kind = _TYPES[column.type]
    values = np.asarray(column.values)
    if len(values):
        limits = np.iinfo(kind)
        low, high = int(values.min()), int(values.max())
        most = min(int(limits.max), MAX_EXACT)
        if low < max(int(limits.min), -MAX_EXACT) or high > most:
            raise ValueError(f"column {column.name} has values from {low} to {high}, which do not fit {column.type}")
    stored = values.astype(kind)
    if column.delta and len(stored):
        stored = np.concatenate([stored[:1], stored[1:] - stored[:-1]])  # of unsigned types, modulo their range
    return bytes(stored.view(np.uint8).reshape(-1, kind.itemsize).T.tobytes())

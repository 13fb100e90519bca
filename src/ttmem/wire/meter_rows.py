# SPDX-License-Identifier: Apache-2.0
"""The rows of meters, windows and open phases of an agent as bytes: copied from its memory, and in a recording.

`ring_meters` decodes them.

    packed   u32 meters, u32 windows, u32 phases, u32 zero, u64 phases that began so far, then these rows:
             meter (32 bytes each), group (128 bytes each), window and phase (head, then 16 bytes for each meter)
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from ttmem.wire.agent_ring import (
    FIGURES_SIZE,
    GROUP_SIZE,
    METER_SIZE,
    METERS,
    PHASE_HEAD,
    PHASE_SIZE,
    READ_ATTEMPTS,
    WINDOW_FIELDS,
    WINDOW_HEAD,
    WINDOW_SIZE,
    Ring,
)

WINDOW = Struct("<" + "".join(code for _, _, code in WINDOW_FIELDS))
_HEAD = Struct("<4IQ")
_MOST_COPIED_BYTES = 64 << 20  # until a copy is taken as it is: thousands of meters are copied fewer times


class MeterRows(NamedTuple):
    """Copied at one moment. A window or phase has a pair of figures for each meter."""

    meter_count: int
    meters: bytes
    groups: bytes
    windows: tuple[bytes, ...]  # oldest first
    phases: tuple[bytes, ...]

    def packed(self, phases_began: int) -> bytes:
        head = _HEAD.pack(self.meter_count, len(self.windows), len(self.phases), 0, phases_began)
        return b"".join((head, self.meters, self.groups, *self.windows, *self.phases))


def copy_rows(ring: Ring, windows_after: int | None, phases: bool) -> MeterRows:
    """The rows of now, with the windows that have records after ``windows_after`` (None: no windows).

    An agent that goes on writing changes meters while they are copied. What is copied is then of some moment in
    between, but the figures of one meter belong together.
    """
    copied = attempts = 0
    while attempts < READ_ATTEMPTS and copied < _MOST_COPIED_BYTES:
        before = ring.fields("meters_turn", "meters_used", "window")
        count = min(before["meters_used"], ring.meter_count)
        raw_meters = ring.copy(ring.meters_at, count * METER_SIZE)
        raw_groups = ring.copy(ring.groups_at, count * GROUP_SIZE)
        windows = [] if windows_after is None else _window_rows(ring, before["window"], count, windows_after)
        open_rows = _phase_rows(ring, count) if phases else []
        if ring.field("meters_turn") == before["meters_turn"] and not before["meters_turn"] & 1:
            break
        attempts += 1
        copied += len(raw_meters) + len(raw_groups) + sum(map(len, windows)) + sum(map(len, open_rows))
    # If it was never the same twice, its writer was killed while it changed them: the last copy is what there is.
    return MeterRows(count, raw_meters, raw_groups, tuple(windows), tuple(open_rows))


def unpacked_rows(raw: bytes) -> tuple[MeterRows, int]:
    """The opposite of `MeterRows.packed`; ValueError if the bytes are no such rows."""
    if len(raw) < _HEAD.size:
        raise ValueError(f"rows of meters have {len(raw)} bytes")
    count, windows, phases, _, phases_began = _HEAD.unpack_from(raw)
    window_size, phase_size = WINDOW_HEAD + count * FIGURES_SIZE, PHASE_HEAD + count * FIGURES_SIZE
    parts = ((METER_SIZE, count), (GROUP_SIZE, count), (window_size, windows), (phase_size, phases))
    if count > METERS or len(raw) != _HEAD.size + sum(size * number for size, number in parts):
        raise ValueError(f"rows of {count} meters, {windows} windows and {phases} phases have {len(raw)} bytes")
    found, at = [], _HEAD.size
    for size, number in parts:
        found.append(tuple(raw[at + size * row : at + size * (row + 1)] for row in range(number)))
        at += size * number
    meter_rows, group_rows, window_rows, phase_rows = found
    rows = MeterRows(count, b"".join(meter_rows), b"".join(group_rows), window_rows, phase_rows)
    return rows, phases_began


def _window_rows(ring: Ring, newest: int, count: int, after: int) -> list[bytes]:
    """The windows that end after a record, oldest first."""
    found: list[bytes] = []
    for number in range(newest, max(0, newest - ring.window_count), -1):
        row = ring.copy(ring.windows_at + number % ring.window_count * WINDOW_SIZE, WINDOW_HEAD + count * FIGURES_SIZE)
        written, _, last = WINDOW.unpack_from(row)
        if written != number or (last and last <= after):
            break
        found.insert(0, row)
    return found


def _phase_rows(ring: Ring, count: int) -> list[bytes]:
    found = []
    for number in range(ring.phase_count):
        at = ring.phases_at + number * PHASE_SIZE
        if any(ring.copy(at, 8)):
            found.append(ring.copy(at, PHASE_HEAD + count * FIGURES_SIZE))
    return [row for row in found if any(row[:8])]

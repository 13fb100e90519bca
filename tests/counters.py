# SPDX-License-Identifier: Apache-2.0
"""tt-metal's counters of a chip as bytes, built field by field from the layout, not by the reader's code."""

from __future__ import annotations

import os
from pathlib import Path

from tests import machines

SIZE = 8576
NOW = machines.BOOTED + 5000.0  # default time of the last write of a slot
UID = 880001


def slot(pid: int, *sums: int, updated: float = NOW, name: bytes = b"python") -> bytes:
    """One process, field by field as the layout has them."""
    padded = (*sums, 0, 0, 0, 0, 0)[:5]
    entry = pid.to_bytes(4, "little", signed=True) + bytes(4)
    entry += b"".join(number.to_bytes(8, "little") for number in (*padded, round(updated * 1e9)))
    entry += name.ljust(64, b"\0")
    assert len(entry) == 120
    return entry


def content(
    *slots: bytes,
    version: int = 3,
    totals: tuple[int, ...] = (),
    number: int = 0,
    attached: int = 1,
    state: int | None = None,
    updated: float = NOW,
) -> bytes:
    """The content of a file, from the layout; the default totals are the sums over the slots."""
    data = bytearray(SIZE)
    sums = [sum(int.from_bytes(one[8 + 8 * kind : 16 + 8 * kind], "little") for one in slots) for kind in range(5)]
    totals = (*totals, *sums[len(totals) :])
    for offset, width, value in [
        (0, 4, version),
        (4, 4, len(slots)),
        (8, 8, round(updated * 1e9)),
        (16, 4, attached),
        (32, 8, UID),
        (40, 4, number),
        *((48 + 8 * kind, 8, total) for kind, total in enumerate(totals)),
        *((88 + 48 * chip, 4, 0xFFFFFFFF) for chip in range(1, 16)),
        (88 + 8, 8, 123456789),  # a chip's statistics, which have drifted
        (8536, 4, 0x52454459 if state is None and version == 4 else state or 0),
    ]:
        data[offset : offset + width] = value.to_bytes(width, "little")
    for place, one in enumerate(slots):
        data[856 + 120 * place : 976 + 120 * place] = one
    return bytes(data)


def mapping(path: Path, suffix: str = "") -> str:
    """The line of /proc/PID/maps for a file."""
    found = path.stat()
    device = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}"
    return f"7f1000000000-7f1000003000 rw-s 00000000 {device} {found.st_ino} {'/dev/shm/' + path.name}{suffix}\n"

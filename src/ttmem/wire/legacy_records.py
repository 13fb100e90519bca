# SPDX-License-Identifier: Apache-2.0
"""The records of the proof of concept's protocol, in all five sizes.

    offset  0      4         8       16     20       24          32          40 .. 71, 111, 127 or 143
            type   device    size    code   pid      id          timestamp   zero in requests, counters in replies
            u8 +3  i32       u64     u8 +3  i32      u64         u64

The sizes differ only in the tail, which is zero in every request. The 32-byte form is another record:

    offset  0      4         8       16     24       28
            type   device    size    id     pid      zero
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import NamedTuple

from ttmem.model.events import Allocated, Event, Freed
from ttmem.model.kinds import BUFFER_KINDS, KERNEL_KINDS, Kind


class Type(IntEnum):
    ALLOC = 1
    FREE = 2
    QUERY = 3
    RESPONSE = 4
    DUMP_REMAINING = 5
    DEVICE_INFO_QUERY = 6
    DEVICE_INFO_RESPONSE = 7
    CB_ALLOC = 8
    CB_FREE = 9
    KERNEL_LOAD = 10
    KERNEL_UNLOAD = 11
    DUMP_KERNELS = 12


SIZES = (72, 112, 128, 144)
SHORT_SIZE = 32
HEADER = Struct("<B3xiQB3xiQQ")
SHORT = Struct("<B3xiQQi4x")
# One struct per size that reads the header and skips the tail, for whole reads.
WHOLE = {size: Struct(f"<B3xiQB3xiQQ{size - HEADER.size}x") for size in SIZES}

# type, device, size, code, pid, id, timestamp: a plain tuple, because there are many.
Record = tuple[int, int, int, int, int, int, int]

_ALLOC, _FREE = int(Type.ALLOC), int(Type.FREE)
_new = tuple.__new__  # a NamedTuple's own constructor costs three times as much


def event_of(record: Record) -> Event | None:
    """The event of a record; None for a query, a reply, or an unknown code.

    >>> event_of((1, 0, 4096, 1, 77, 0x1000, 0))
    Allocated(device=0, kind=<Kind.L1: 1>, address=4096, size=4096, program=0, refs=0, extra=None, ident=0)
    """
    op, device, size, code, _, ident, _ = record
    if op == _ALLOC:
        if code < 5:
            return _new(Allocated, (device, BUFFER_KINDS[code], ident, size, 0, 0, None, 0))
        return None
    if op == _FREE:
        hint = BUFFER_KINDS[code] if 0 < code < 5 else None
        return _new(Freed, (device, hint, ident, size, 0, 0, 0, 0))
    if op == Type.CB_ALLOC:
        return Allocated(device, Kind.CB, ident, size)
    if op == Type.CB_FREE:
        return Freed(device, Kind.CB, ident, size)
    if op == Type.KERNEL_LOAD:
        return Allocated(device, KERNEL_KINDS[code], ident, size) if code < len(KERNEL_KINDS) else None
    if op == Type.KERNEL_UNLOAD:
        return Freed(device, Kind.KERNEL, ident, size)
    return None


class Usage(NamedTuple):
    """The counters of a reply, in wire order."""

    dram: int = 0
    l1: int = 0
    l1_small: int = 0
    trace: int = 0
    cb: int = 0
    kernel: int = 0

    @classmethod
    def of(cls, used: list[int]) -> Usage:
        """From bytes by kind. Per-core writes were reported as L1: firmware is counted as L1, kernels as kernels."""
        return cls(
            used[Kind.DRAM],
            used[Kind.L1] + used[Kind.FIRMWARE],
            used[Kind.L1_SMALL],
            used[Kind.TRACE],
            used[Kind.CB],
            sum(used[kind] for kind in KERNEL_KINDS),
        )


class DeviceInfo(NamedTuple):
    """The metadata of a device info reply, in wire order."""

    total_dram: int = 0
    total_l1: int = 0
    arch: int = 0
    dram_channels: int = 0
    dram_channel_size: int = 0
    l1_per_core: int = 0
    available: int = 0
    devices: int = 0


_U32 = 0xFFFFFFFF
_TAILS = {
    72: Struct("<4Q"),
    112: Struct("<4Q2Q6I"),
    128: Struct("<6Q2Q6I"),
    144: Struct("<6Q2Q6I16x"),
}


def reply(op: Type, size: int, device: int, usage: Usage = Usage(), info: DeviceInfo = DeviceInfo()) -> bytes:
    """A reply in the record size of the client: each size has its own fields, in its own order."""
    counters = usage if size >= 128 else usage[:4]
    # The size of a 4 GiB bank does not fit into 32 bits: use the largest possible value.
    metadata = () if size == 72 else (*info[:2], *(min(value, _U32) for value in info[2:]))
    return HEADER.pack(op, device, 0, 0, 0, 0, 0) + _TAILS[size].pack(*counters, *metadata)


def request(
    op: Type, device: int = 0, *, size: int = 0, code: int = 0, pid: int = 0, ident: int = 0, stamp: int = 0,
    record_size: int = 144,
) -> bytes:  # fmt: skip
    """A request as a legacy client writes it."""
    return HEADER.pack(op, device, size, code, pid, ident, stamp).ljust(record_size, b"\0")


def short_request(op: Type, device: int, size: int, ident: int, pid: int) -> bytes:
    """The 32-byte form, for circular buffers and kernels."""
    return SHORT.pack(op, device, size, ident, pid)

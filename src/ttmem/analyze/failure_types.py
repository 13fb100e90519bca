# SPDX-License-Identifier: Apache-2.0
"""The kinds of failed allocations: one class for each message of tt-metal, with all its numbers."""

from __future__ import annotations

from typing import NamedTuple, Union

from ttmem.model.core_sets import CoreRange
from ttmem.model.kinds import Kind


class OutOfMemory(NamedTuple):
    """No free block was large enough. Bytes are per bank, except ``size``; None if older releases do not report it."""

    kind: Kind
    size: int
    banks: int  # banks with pages of the buffer: all if interleaved, else one for each shard
    per_bank: int
    bank_size: int | None = None
    allocated: int | None = None
    free: int | None = None
    largest: int | None = None
    placeable: int | None = None  # space left beside the buffers of other allocators
    windows: int | None = None
    largest_window: int | None = None
    dependent: bool = False  # must avoid the buffers of other allocators (sub-devices, per-core buffers)
    global_circular: bool = False  # part of a global circular buffer, according to the backtrace


class Clash(NamedTuple):
    """The circular or dataflow buffers of a program would reach into the lowest L1 buffer."""

    kind: Kind
    program: int  # tt-metal's number of the program
    cores: CoreRange
    floor: int
    end: int
    service: bool = False  # on a service core of the runtime, where other rules apply


class PastEndOfL1(NamedTuple):
    """The circular or dataflow buffers of a program would end above L1 itself."""

    kind: Kind
    cores: CoreRange
    end: int
    l1_size: int


class RingFull(NamedTuple):
    """A program does not fit into the kernel config ring of a core; ``parts`` are its sizes, if known."""

    size: int
    ring: int
    core_type: str
    parts: tuple[tuple[str, int], ...] = ()
    kernels: str | None = None


class TraceFull(NamedTuple):
    """All captured traces together are larger than the trace region; both sizes are sums over all banks."""

    size: int
    device: int
    region: int


class TraceOverlap(NamedTuple):
    """A trace buffer in plain DRAM would overlap buffers of the traced work, or of the work of another trace."""

    address: int
    allocated: int | None = None  # the highest end of buffers allocated during the capture
    freed: int | None = None
    other: int | None = None  # the highest end that another live trace uses


class BelowLimit(NamedTuple):
    """A buffer would have begun below the lowest allowed address."""

    limit: int
    address: int | None = None


class ArenaFull(NamedTuple):
    """The arena for persistent L1 buffers has no room."""

    size: int
    alignment: int
    cores: str
    start: int
    end: int


class CutsInto(NamedTuple):
    """A sub-device manager needs L1 at the bottom of the banks, where a buffer is allocated."""

    size: int
    address: int


# What an operation counts as available.
BELOW = "below the lowest L1 buffer"  # starting at the base of L1
PART_BELOW = "a part of what is below the lowest L1 buffer"
FREE_IN_BANK = "free in a bank"
FIXED = "fixed"  # a fixed limit, independent of live buffers


class TooLittleL1(NamedTuple):
    """An operation checked L1 before allocating, and found too little on a core."""

    operation: str  # as precisely as the message names it
    need: int | None  # bytes per core, None if the message does not contain it
    have: int
    counts: str | None = None  # None if not known


Failure = Union[
    OutOfMemory, Clash, PastEndOfL1, RingFull, TraceFull, TraceOverlap, BelowLimit, ArenaFull, CutsInto, TooLittleL1
]

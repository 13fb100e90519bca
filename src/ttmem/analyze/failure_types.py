# SPDX-License-Identifier: Apache-2.0
"""The kinds of failed allocations, one class for each message of tt-metal, with every number in it."""

from __future__ import annotations

from typing import NamedTuple, Union

from ttmem.model.core_sets import CoreRange
from ttmem.model.kinds import Kind


class OutOfMemory(NamedTuple):
    """No free block was large enough. Bytes of one bank, but for ``size``; what older releases do not say is None."""

    kind: Kind
    size: int
    banks: int  # that the buffer has pages in: all if it is interleaved, else one for each shard
    per_bank: int
    bank_size: int | None = None
    allocated: int | None = None
    free: int | None = None
    largest: int | None = None
    placeable: int | None = None  # where other allocators must be respected: what is left beside their buffers
    windows: int | None = None
    largest_window: int | None = None
    dependent: bool = False  # other allocators (sub-devices, per-core buffers) must be respected
    global_circular: bool = False  # the backtrace shows that it is a part of a global circular buffer


class Clash(NamedTuple):
    """The circular or dataflow buffers of a program would reach into the lowest L1 buffer."""

    kind: Kind
    program: int  # as tt-metal numbers them
    cores: CoreRange
    floor: int
    end: int
    service: bool = False  # on a core that serves the runtime, where other rules hold


class PastEndOfL1(NamedTuple):
    """The circular or dataflow buffers of a program would end above L1 itself."""

    kind: Kind
    cores: CoreRange
    end: int
    l1_size: int


class RingFull(NamedTuple):
    """A program does not fit into the kernel config ring of a core; ``parts`` is what it is made of, if told."""

    size: int
    ring: int
    core_type: str
    parts: tuple[tuple[str, int], ...] = ()
    kernels: str | None = None


class TraceFull(NamedTuple):
    """All captured traces together are larger than the trace region; both sizes are over all banks."""

    size: int
    device: int
    region: int


class TraceOverlap(NamedTuple):
    """A trace buffer in plain DRAM would lie where the traced work, or another trace's, has its buffers."""

    address: int
    allocated: int | None = None  # the highest end of what was allocated during the capture
    freed: int | None = None
    other: int | None = None  # the highest end that another live trace uses


class BelowLimit(NamedTuple):
    """A buffer would have begun below the lowest address it may have."""

    limit: int
    address: int | None = None


class ArenaFull(NamedTuple):
    """The arena of buffers that stay in L1 for good has no room."""

    size: int
    alignment: int
    cores: str
    start: int
    end: int


class CutsInto(NamedTuple):
    """A sub-device manager wants L1 from the bottom of the banks, and a buffer is there."""

    size: int
    address: int


# What an operation counts as being there.
BELOW = "below the lowest L1 buffer"  # from the base of L1 on
PART_BELOW = "a part of what is below the lowest L1 buffer"
FREE_IN_BANK = "free in a bank"
FIXED = "fixed"  # it never takes more, whatever is live


class TooLittleL1(NamedTuple):
    """An operation found by itself, before it took any, that a core has too little L1 for it."""

    operation: str  # as far as the message tells
    need: int | None  # bytes of a core, None if it does not say
    have: int
    counts: str | None = None  # None if it is not known


Failure = Union[
    OutOfMemory, Clash, PastEndOfL1, RingFull, TraceFull, TraceOverlap, BelowLimit, ArenaFull, CutsInto, TooLittleL1
]

# SPDX-License-Identifier: Apache-2.0
"""The kinds of memory, the pools they are taken from, and the confidence in a number."""

from __future__ import annotations

from enum import IntEnum


class Kind(IntEnum):
    """The purpose of an allocation.

    The first five values are tt-metal's ``BufferType`` codes, so a legacy record's code is its kind.
    """

    DRAM = 0
    L1 = 1
    HOST = 2
    L1_SMALL = 3
    TRACE = 4
    CB = 5
    DFB = 6
    SCRATCHPAD = 7
    KERNEL = 8
    FABRIC_KERNEL = 9
    DISPATCH_KERNEL = 10
    FIRMWARE = 11

    @property
    def label(self) -> str:
        """The name in JSON, metrics and filters.

        >>> Kind.L1_SMALL.label
        'l1_small'
        """
        return self.name.lower()


class Pool(IntEnum):
    """The physical memory that a kind is allocated from; capacities and percentages are those of pools."""

    DRAM = 0
    L1 = 1
    HOST = 2
    SYSTEM = 3  # L1 of ethernet and dispatch cores, outside the compute grid
    PROGRAM = 4  # L1 that no allocator gives out: parts of programs, which use it in turn, and firmware

    @property
    def label(self) -> str:
        return self.name.lower()


class BreakdownPool(IntEnum):
    """Kinds whose sizes may be added up; sizes of different breakdown pools may not.

    The L1 of a chip is divided: the parts of cached programs use L1 in turn, so that their sum is more than they use.
    """

    DRAM = 0
    L1_BUFFERS = 1  # what allocators give out
    PROGRAMS = 2  # circular buffers, dataflow buffers, scratchpads and kernels of cached programs
    HOST = 3
    SYSTEM = 4  # what the runtime has for itself: fabric and dispatch kernels, firmware

    @property
    def label(self) -> str:
        """
        >>> BreakdownPool.L1_BUFFERS.label
        'l1_buffers'
        """
        return self.name.lower()


class Confidence(IntEnum):
    """How a number was obtained; of two sources, the one with the larger value counts."""

    ESTIMATED = 1
    REPORTED = 2
    EXACT = 3

    @property
    def label(self) -> str:
        return self.name.lower()


KINDS: tuple[Kind, ...] = tuple(Kind)
BUFFER_KINDS: tuple[Kind, ...] = KINDS[:5]
KIND_BY_LABEL: dict[str, Kind] = {kind.label: kind for kind in KINDS}

_POOLS = {
    Kind.DRAM: Pool.DRAM,
    Kind.TRACE: Pool.DRAM,
    Kind.L1: Pool.L1,
    Kind.L1_SMALL: Pool.L1,
    Kind.HOST: Pool.HOST,
    Kind.FABRIC_KERNEL: Pool.SYSTEM,
    Kind.DISPATCH_KERNEL: Pool.SYSTEM,
}
# Indexed by kind: an Enum hashes its name in Python code, a list index costs nothing.
POOL_OF: tuple[Pool, ...] = tuple(_POOLS.get(kind, Pool.PROGRAM) for kind in KINDS)
KINDS_OF: tuple[tuple[Kind, ...], ...] = tuple(
    tuple(kind for kind in KINDS if POOL_OF[kind] is pool) for pool in Pool
)  # by pool
# Names of the agents' meters of whole pools. A pool that is not here has no meter of its own, or has that of its kind.
POOL_GAUGES: dict[Pool, str] = {Pool.DRAM: "dram_pool", Pool.L1: "l1_buffer_pool", Pool.PROGRAM: "program_pool"}
WORKER_L1: tuple[Kind, ...] = tuple(kind for kind in KINDS if POOL_OF[kind] in (Pool.L1, Pool.PROGRAM))

# Address spaces of buffers: trace lies in DRAM, small L1 and firmware in L1. An address is unique in its space.
SPACE_OF: tuple[int, ...] = tuple(int(POOL_OF[kind]) if POOL_OF[kind] < Pool.SYSTEM else int(Pool.L1) for kind in KINDS)

BREAKDOWN_POOLS: dict[BreakdownPool, tuple[Kind, ...]] = {
    BreakdownPool.DRAM: (Kind.DRAM, Kind.TRACE),
    BreakdownPool.L1_BUFFERS: (Kind.L1, Kind.L1_SMALL),
    BreakdownPool.PROGRAMS: (Kind.CB, Kind.DFB, Kind.SCRATCHPAD, Kind.KERNEL),
    BreakdownPool.HOST: (Kind.HOST,),
    BreakdownPool.SYSTEM: (Kind.FABRIC_KERNEL, Kind.DISPATCH_KERNEL, Kind.FIRMWARE),
}
BREAKDOWN_POOL_OF: tuple[BreakdownPool, ...] = tuple(
    next(pool for pool, kinds in BREAKDOWN_POOLS.items() if kind in kinds) for kind in KINDS
)

KERNEL_KINDS: tuple[Kind, ...] = (Kind.KERNEL, Kind.FABRIC_KERNEL, Kind.DISPATCH_KERNEL)

# The key to look up a live allocation of a program. Kernels of all three types share one family, because an
# unload does not report the type.
FAMILY_OF: tuple[int, ...] = tuple(int(Kind.KERNEL) if kind in KERNEL_KINDS else int(kind) for kind in KINDS)

AGENT = "agent"  # the source whose events come through a ring; all others send records over a socket

# The kinds that a source can report. A covered kind without live allocations is 0; any other kind is unknown.
_WIRE = frozenset(BUFFER_KINDS) | {Kind.CB, *KERNEL_KINDS}
COVERAGE: dict[str, frozenset[Kind]] = {
    "legacy": _WIRE,
    "client": _WIRE,
    AGENT: frozenset(KINDS),
    "sim": frozenset(KINDS) - {Kind.HOST},
    "instrument": frozenset(BUFFER_KINDS) - {Kind.HOST} | {Kind.CB, Kind.DFB, Kind.SCRATCHPAD},
    "l1_tracker": frozenset({Kind.CB, Kind.KERNEL}),
    "wrappers": frozenset({Kind.CB}),
    "wrapper_kernels": frozenset({Kind.KERNEL}),
    "reporter": frozenset(),  # publishes numbers of the allocators, tracks no allocations
}


def covers(source: str) -> frozenset[Kind]:
    """The kinds that a source of this name reports if they occur."""
    return COVERAGE.get(source, _WIRE)

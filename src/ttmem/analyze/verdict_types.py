# SPDX-License-Identifier: Apache-2.0
"""The parts of a verdict on a failed allocation, and the terms for causes, advice and certainty."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ttmem.analyze.failure_types import Failure
from ttmem.analyze.global_buffers import GlobalCircularBuffer
from ttmem.analyze.process_layout import Block, ProgramBuffer, ProgramLayout

_GROUPS_KEPT = 5
_BLOCKS_KEPT = 8  # per group

# Causes.
TOO_LARGE = "too large"  # even for an empty bank
TOO_FULL = "too full"  # less is free than requested
FRAGMENTED = "fragmented"  # enough is free, but not in one block
TOO_SMALL = "region too small"  # a region whose size was chosen when the device was opened
CLASH = "clash"
BEYOND = "beyond L1"
OVERLAP = "overlap"
NOT_KNOWN = "not known"

# Advice.
FREE = "free"
FREE_LARGEST = "free largest"
REMAKE = "allocate again"
SMALLER = "smaller"
MORE_CORES = "more cores"
USE_DRAM = "use DRAM"
SHRINK = "shrink program"
SMALL_SIZE = "l1_small_size"
TRACE_SIZE = "trace_region_size"
DYNAMIC_TRACE = "trace_region_size=0"
WORKER_SIZE = "worker_l1_size"

# Certainty of a number.
EXACT = "exact"
AT_LEAST = "at least"
AT_MOST = "at most"

NO_LAYOUT = "what holds the memory: a log does not contain it; `ttmem run` lists it"


class Advice(NamedTuple):
    """A possible fix. The meaning of ``value`` and ``gives`` depends on ``what``; see docs/explain.md."""

    what: str
    value: int | None = None
    gives: int | None = None
    basis: str = EXACT
    blocks: tuple[Block, ...] = ()
    addresses: tuple[int, ...] = ()  # new addresses of the blocks
    note: str | None = None


class HeldGroup(NamedTuple):
    """Buffers that differ only in their addresses: their number, and the lowest ones."""

    buffers: int
    blocks: tuple[Block, ...]

    @property
    def per_bank(self) -> int:
        """Bytes of each buffer."""
        return self.blocks[0].per_bank


class Verdict(NamedTuple):
    """Bytes are per bank or core, except for trace regions, which are summed over all banks."""

    failure: Failure
    why: str
    asked: int | None = None
    there: int | None = None  # the largest request that would have succeeded
    free: int | None = None
    size: int | None = None  # of the bank, region or ring
    holders: tuple[HeldGroup, ...] = ()  # the largest ones
    held: int = 0  # number of buffers
    wall: Block | None = None  # the L1 buffer that limits the program
    program: ProgramLayout | None = None
    pieces: tuple[ProgramBuffer, ...] = ()  # buffers of the program on the cores of the failure
    advice: tuple[Advice, ...] = ()
    unknown: tuple[str, ...] = ()
    tag: str | None = None  # the operation that failed
    line: str | None = None  # of the workload's source
    shape: str | None = None  # of the tensor, as in other buffers of the same line, operation and size
    global_buffer: GlobalCircularBuffer | None = None  # the requested buffer

    @property
    def missing(self) -> int | None:
        """The number of missing bytes."""
        return None if self.asked is None or self.there is None else self.asked - self.there


def held_by(blocks: tuple[Block, ...], verdict: Verdict) -> Verdict:
    groups = groups_of(blocks)[:_GROUPS_KEPT]
    return verdict._replace(holders=tuple(groups), held=len(blocks))


def groups_of(blocks: Iterable[Block]) -> list[HeldGroup]:
    """Groups of buffers that differ only in their addresses, largest first."""
    found: dict[Block, list[Block]] = {}
    for block in blocks:
        found.setdefault(block._replace(address=0, size=0, born=0), []).append(block)
    groups = [HeldGroup(len(alike), tuple(alike[:_BLOCKS_KEPT])) for alike in found.values()]
    return sorted(groups, key=lambda group: (-group.buffers * group.per_bank, group.blocks[0].address))


def of_something_else(what: str, known: int, reported: int) -> str:
    doubt = f"{what}: {known:,} B according to ttmem, {reported:,} B according to the message"
    return f"what holds the memory: ttmem's account does not match the message ({doubt})"

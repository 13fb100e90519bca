# SPDX-License-Identifier: Apache-2.0
"""What a verdict on a failed allocation consists of, and the words for causes, advice and certainty."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ttmem.analyze.failure_types import Failure
from ttmem.analyze.global_buffers import GlobalCircularBuffer
from ttmem.analyze.process_layout import Block, ProgramBuffer, ProgramLayout

_GROUPS_KEPT = 5
_BLOCKS_KEPT = 8  # of a group

# Why it failed, in one word.
TOO_LARGE = "too large"  # for an empty bank
TOO_FULL = "too full"  # less is free than was asked for
FRAGMENTED = "fragmented"  # enough is free, but not in one piece
TOO_SMALL = "region too small"  # of a size that was chosen when the device was opened
CLASH = "clash"
BEYOND = "beyond L1"
OVERLAP = "overlap"
NOT_KNOWN = "not known"

# What could be done.
FREE = "free"
FREE_LARGEST = "free largest"
REMAKE = "make anew"
SMALLER = "smaller"
MORE_CORES = "more cores"
USE_DRAM = "use DRAM"
SHRINK = "shrink program"
SMALL_SIZE = "l1_small_size"
TRACE_SIZE = "trace_region_size"
DYNAMIC_TRACE = "trace_region_size=0"
WORKER_SIZE = "worker_l1_size"

# How sure a number is.
EXACT = "exact"
AT_LEAST = "at least"
AT_MOST = "at most"

NO_LAYOUT = "what holds the memory: a log does not contain it; `ttmem run` lists it"
UNHEARD = (
    "what holds the memory: a log does not contain it, and `ttmem run` does not see this failure, because the "
    "operation requested no memory"
)


class Advice(NamedTuple):
    """Something that would help. What ``value`` and ``gives`` count depends on ``what``; see docs/explain.md."""

    what: str
    value: int | None = None
    gives: int | None = None
    basis: str = EXACT
    blocks: tuple[Block, ...] = ()
    addresses: tuple[int, ...] = ()  # where those would go
    note: str | None = None


class HeldGroup(NamedTuple):
    """Buffers that differ only in their addresses: how many, and the lowest of them."""

    buffers: int
    blocks: tuple[Block, ...]

    @property
    def per_bank(self) -> int:
        """Of each."""
        return self.blocks[0].per_bank


class Verdict(NamedTuple):
    """Bytes are those of one bank or core, but for trace regions, which are counted over all banks."""

    failure: Failure
    why: str
    asked: int | None = None
    there: int | None = None  # the most that could have been had
    free: int | None = None
    size: int | None = None  # of the bank, region or ring
    holders: tuple[HeldGroup, ...] = ()  # those that hold most
    held: int = 0  # how many buffers there are
    wall: Block | None = None  # the L1 buffer that was run into
    program: ProgramLayout | None = None
    pieces: tuple[ProgramBuffer, ...] = ()  # of that program on those cores
    advice: tuple[Advice, ...] = ()
    unknown: tuple[str, ...] = ()
    tag: str | None = None  # the operation that was refused
    line: str | None = None  # of the workload's source
    shape: str | None = None  # of the tensor: that of other buffers of the same line, operation and size
    global_buffer: GlobalCircularBuffer | None = None  # that was being made

    @property
    def missing(self) -> int | None:
        """By how many bytes it failed."""
        return None if self.asked is None or self.there is None else self.asked - self.there


def held_by(blocks: tuple[Block, ...], verdict: Verdict) -> Verdict:
    groups = groups_of(blocks)[:_GROUPS_KEPT]
    return verdict._replace(holders=tuple(groups), held=len(blocks))


def groups_of(blocks: Iterable[Block]) -> list[HeldGroup]:
    """Buffers that differ only in their addresses together, those that hold most first."""
    found: dict[Block, list[Block]] = {}
    for block in blocks:
        found.setdefault(block._replace(address=0, size=0, born=0), []).append(block)
    groups = [HeldGroup(len(alike), tuple(alike[:_BLOCKS_KEPT])) for alike in found.values()]
    return sorted(groups, key=lambda group: (-group.buffers * group.per_bank, group.blocks[0].address))


def of_something_else(what: str, known: int, reported: int) -> str:
    doubt = f"{what}: {known:,} B according to ttmem, {reported:,} B according to the message"
    return f"what holds the memory: ttmem's account does not match the message ({doubt})"

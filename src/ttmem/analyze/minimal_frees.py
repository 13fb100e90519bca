# SPDX-License-Identifier: Apache-2.0
"""The fewest buffers that must be freed to make room, and where they would go if they are allocated again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ttmem.analyze.hold_reasons import Cause
from ttmem.analyze.process_layout import Bank, Block


class FreedSpace(NamedTuple):
    """Freeing ``blocks`` gives one gap of ``gap`` bytes in every bank."""

    blocks: tuple[Block, ...]
    gap: int


def _grade(block: Block) -> int:
    """What one would rather free: a tensor, then what a cache holds, then what goes only with the device."""
    return 0 if block.cause is Cause.HELD else 2 if block.cause is Cause.SYSTEM else 1


def room_for(bank: Bank, per_bank: int) -> FreedSpace | None:
    """The best way to make room for a request: tensors rather than others, few rather than many, small before large.

    None if even an empty bank is too small. Only neighbours make one gap, so every run of them is looked at: the
    shortest run that is enough from each block on.
    """
    return _best_run(bank, per_bank, None)


def room_with_largest(bank: Bank, per_bank: int) -> FreedSpace | None:
    """The best way to make room that frees the largest tensor; its neighbours too, if that is not enough."""
    tensors = [place for place, block in enumerate(bank.blocks) if block.cause is Cause.HELD]
    largest = max(tensors, key=lambda place: bank.blocks[place].per_bank, default=None)
    return None if largest is None else _best_run(bank, per_bank, largest)


def _best_run(bank: Bank, per_bank: int, including: int | None) -> FreedSpace | None:
    """The best of all runs of neighbours, or of those with the block at this place."""
    need = bank.takes(per_bank)
    if need > bank.size:
        return None
    blocks = bank.blocks
    starts = [bank.base, *_reach(blocks)]  # where the gap below each block begins
    ends = [*(block.address for block in blocks[1:]), bank.end]  # where the gap above each block ends
    best: tuple[int, int, int, int] | None = None
    found: FreedSpace | None = None
    last = 0 if including is None else including
    for first in range(len(blocks) if including is None else including + 1):
        last = max(last, first)
        while last < len(blocks) and ends[last] - starts[first] < need:
            last += 1
        if last == len(blocks):
            break
        run = blocks[first : last + 1]
        grade = max(map(_grade, run))
        price = grade, len(run), sum(block.per_bank for block in run), -first
        if best is None or price < best:
            best, found = price, FreedSpace(run, ends[last] - starts[first])
    return found


def _reach(blocks: Sequence[Block]) -> list[int]:
    """For each block the highest end of it and those below."""
    found, high = [], 0
    for block in blocks:
        high = max(high, block.end)
        found.append(high)
    return found


def below(bank: Bank, end: int) -> tuple[Block, ...]:
    """The buffers that begin below an address, lowest first: all of them must go for a program to reach it."""
    return tuple(block for block in bank.blocks if block.address < end)


def floor_without(bank: Bank, gone: Sequence[Block]) -> int:
    """The lowest address in use once these are freed; the end of the bank if nothing else is there."""
    return min((block.address for block in bank.blocks if block not in gone), default=bank.end)


def made_anew(bank: Bank, gone: tuple[Block, ...]) -> list[tuple[Block, int]] | None:
    """Where these buffers would go if all were freed and made again, the largest first; None if one has no place."""
    left, found = bank.without(gone), []
    for block in sorted(gone, key=lambda one: -one.per_bank):
        address = left.place(block.per_bank)
        if address is None:
            return None
        found.append((block, address))
        moved = block._replace(address=address)
        left = left._replace(blocks=tuple(sorted((*left.blocks, moved), key=lambda one: one.address)))
    return found

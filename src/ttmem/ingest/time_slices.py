# SPDX-License-Identifier: Apache-2.0
"""Work on many allocations a slice at a time, so that nobody else waits for long."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Iterable
from typing import TypeVar

from ttmem.account.allocations import Allocation, Holding
from ttmem.account.ledger import Ledger

T = TypeVar("T")

SLICE = 500
_LARGE = 100_000  # allocations: to copy so many is a turn's work
_TURN = 0.002  # seconds of work before others have their turn
_BREATH, _NAP = 0.005, 0.0002  # after so many seconds of turns the loop sleeps for so many
_breathed = 0.0


async def pause() -> None:
    """The others' turn, now and then of threads as well.

    Between two turns the loop gives Python's lock away for less time than it takes to wake up a thread that waits for
    it, and so often that the thread never waits long enough to insist: it would get it when all the work is done.
    """
    global _breathed
    if time.monotonic() - _breathed > _BREATH:
        time.sleep(_NAP)
        _breathed = time.monotonic()
    await asyncio.sleep(0)


async def slices(holdings: Iterable[Holding]) -> AsyncIterator[list[Allocation]]:
    """Live allocations, a slice at a time; what is freed meanwhile may still be among them."""
    batch: list[Allocation] = []
    tables = 0
    for holding in list(holdings):
        for table in holding.tables():
            allocations = list(table.values())  # others may change it at each pause
            tables += 1
            if len(allocations) > _LARGE:
                # Each collection would go through a list that is young, for longer than a turn: let all be old.
                gc.freeze()
                gc.unfreeze()
            if len(allocations) > _LARGE or tables % SLICE == 0:
                await pause()
            for start in range(0, len(allocations), SLICE):
                some = allocations[start : start + SLICE]
                if len(batch) + len(some) > SLICE:
                    yield batch
                    batch = []
                    await pause()
                batch += some
    yield batch


async def thin(ledger: Ledger) -> None:
    """Let what a large dead process left shrink to what is kept of it, before somebody looks through it."""
    while ledger.thin_dead_allocations(SLICE):
        await pause()


async def in_turns(steps: Iterable[T]) -> list[T]:
    """All that the steps give, with a pause whenever a turn's time is over."""
    out, began = [], time.monotonic()
    for step in steps:
        out.append(step)
        if time.monotonic() - began > _TURN:
            await pause()
            began = time.monotonic()
    return out

# SPDX-License-Identifier: Apache-2.0
"""Goes through many allocations in slices, and lets the loop and other threads work in between."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Iterable
from typing import TypeVar

from ttmem.account.allocations import Allocation, Holding
from ttmem.account.ledger import Ledger

T = TypeVar("T")

SLICE_ALLOCATIONS = 500
_LARGE_TABLE = 100_000  # allocations; to copy so many takes a turn
_TURN_SECONDS = 0.002  # of work, before the loop may do something else
_WORK_SECONDS, _SLEEP_SECONDS = 0.005, 0.0002  # after so much work the loop sleeps for so long
_slept = 0.0  # when it did last


async def pause() -> None:
    """Let the loop do something else, and now and then let other threads run.

    Between two turns the loop releases Python's global lock for less time than a waiting thread needs to wake up, and
    so often that the thread never waits long enough to request the lock. Without the sleep it would get the lock only
    when all the work is done.
    """
    global _slept
    if time.monotonic() - _slept > _WORK_SECONDS:
        time.sleep(_SLEEP_SECONDS)
        _slept = time.monotonic()
    await asyncio.sleep(0)


async def slices(holdings: Iterable[Holding]) -> AsyncIterator[list[Allocation]]:
    """Live allocations, a slice at a time. One that is freed meanwhile may still be among them."""
    batch: list[Allocation] = []
    tables = 0
    for holding in list(holdings):
        for table in holding.tables():
            allocations = list(table.values())  # it may change at each pause
            tables += 1
            if len(allocations) > _LARGE_TABLE:
                # Otherwise each garbage collection would go through this new list, for longer than a turn.
                gc.freeze()
                gc.unfreeze()
            if len(allocations) > _LARGE_TABLE or tables % SLICE_ALLOCATIONS == 0:
                await pause()
            for start in range(0, len(allocations), SLICE_ALLOCATIONS):
                some = allocations[start : start + SLICE_ALLOCATIONS]
                if len(batch) + len(some) > SLICE_ALLOCATIONS:
                    yield batch
                    batch = []
                    await pause()
                batch += some
    yield batch


async def thin(ledger: Ledger) -> None:
    """Drop what is not kept of dead processes, before a request goes through the rest."""
    while ledger.thin_dead_allocations(SLICE_ALLOCATIONS):
        await pause()


async def in_turns(steps: Iterable[T]) -> list[T]:
    """The results of all steps, with a pause after each turn."""
    out, began = [], time.monotonic()
    for step in steps:
        out.append(step)
        if time.monotonic() - began > _TURN_SECONDS:
            await pause()
            began = time.monotonic()
    return out

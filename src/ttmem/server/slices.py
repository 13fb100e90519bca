# SPDX-License-Identifier: Apache-2.0
"""Work on many things a slice at a time, so that nobody else waits for long."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from time import monotonic

from ttmem.account.things import Holding, Thing

SLICE = 1000
_TURN = 0.002  # seconds of work before others have their turn


async def slices(holdings: Iterable[Holding]) -> AsyncIterator[list[Thing]]:
    """Live things, a slice at a time; what is freed meanwhile may still be among them."""
    for holding in list(holdings):
        batch: list[Thing] = []
        for things in [list(table.values()) for table in holding.tables()]:
            for start in range(0, len(things), SLICE):
                batch += things[start : start + SLICE]
                if len(batch) >= SLICE:
                    yield batch
                    batch = []
                    await asyncio.sleep(0)
        yield batch


async def in_turns(steps: Iterable[None]) -> None:
    """Do all steps, with a pause whenever a turn's time is over."""
    began = monotonic()
    for _ in steps:
        if monotonic() - began > _TURN:
            await asyncio.sleep(0)
            began = monotonic()

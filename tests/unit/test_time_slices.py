# SPDX-License-Identifier: Apache-2.0
"""Iteration over all live allocations in slices: each once, with pauses in which allocations may change."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from time import monotonic

import pytest

from ttmem.account.allocations import Allocation
from ttmem.account.ledger import Ledger
from ttmem.ingest.time_slices import SLICE_ALLOCATIONS, in_turns, slices
from ttmem.model.identity import ProcessInfo
from ttmem.model.kinds import Confidence, Kind


def few_large(ledger: Ledger, count: int) -> None:
    source = ledger.source(0.0, ProcessInfo(1, 1), "agent", Confidence.EXACT)
    for number in range(count):
        ledger.allocated(0.0, source, number % 2, Kind.DRAM, 64 * (number + 1), 64)


def many_processes(ledger: Ledger, count: int) -> None:
    for pid in range(count):
        source = ledger.source(0.0, ProcessInfo(pid + 1, 1), "agent", Confidence.EXACT)
        ledger.allocated(0.0, source, pid % 250, Kind.DRAM, 64, 64)  # few on each chip, because they share its totals


def many_programs(ledger: Ledger, count: int) -> None:
    source = ledger.source(0.0, ProcessInfo(1, 1), "agent", Confidence.EXACT)
    for program in range(count):
        ledger.allocated(0.0, source, 0, Kind.CB, 64, 64, program + 1)


async def gathered(ledger: Ledger, meanwhile: Callable[[], object] = lambda: None) -> tuple[list[Allocation], int]:
    """All allocations, and the number of pauses."""
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            meanwhile()
            await asyncio.sleep(0)

    task = asyncio.create_task(others())
    found = []
    async for some in slices(ledger.holdings()):
        assert len(some) <= SLICE_ALLOCATIONS
        found += some
    task.cancel()
    return found, turns


@pytest.mark.parametrize("fill", [few_large, many_processes, many_programs])
def test_each_allocation_once_and_others_have_their_turn(fill: Callable[[Ledger, int], None]) -> None:
    ledger = Ledger()
    fill(ledger, 10 * SLICE_ALLOCATIONS)
    found, turns = asyncio.run(gathered(ledger))
    assert Counter(found) == Counter(ledger.allocations())
    assert turns >= 9


def test_what_comes_and_goes_meanwhile_hurts_nobody() -> None:
    ledger = Ledger()
    few_large(ledger, 10 * SLICE_ALLOCATIONS)
    many_programs(ledger, 10)
    source = next(iter(ledger.processes.values())).sources["agent"]
    before = set(ledger.allocations())
    address = iter(range(64, 1 << 40, 64))

    def change() -> None:
        here = next(address)
        ledger.freed(0.0, source, here // 64 % 2 ^ 1, Kind.DRAM, here, 64)
        ledger.allocated(0.0, source, 0, Kind.DRAM, (1 << 40) + here, 64)
        ledger.allocated(0.0, source, 0, Kind.CB, here, 64, 1000 + here)

    found, _ = asyncio.run(gathered(ledger, change))
    assert len(found) == len(set(found))
    assert {allocation for allocation in before if allocation.refs} <= set(found), (
        "one that was there all the time was missed"
    )


def test_steps_give_what_they_give() -> None:
    assert asyncio.run(in_turns(number * number for number in range(5))) == [0, 1, 4, 9, 16]


@pytest.mark.alone
def test_a_thread_gets_on_while_the_loop_is_at_work() -> None:
    """A thread gathers the data of snapshots. Without pauses of the loop, it would only end after all other work."""
    done = threading.Event()
    seen: list[bool] = []

    def work() -> None:
        for _ in range(2_000_000):  # so long that it must request the lock again
            pass
        done.set()

    def turns() -> Iterator[None]:
        for _ in range(600):
            until = monotonic() + 0.002
            while monotonic() < until:
                pass
            seen.append(done.is_set())
            yield

    async def both() -> None:
        thread = asyncio.create_task(asyncio.to_thread(work))
        await in_turns(turns())
        await thread

    asyncio.run(both())
    assert seen.index(True) < len(seen) / 2

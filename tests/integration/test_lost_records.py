# SPDX-License-Identifier: Apache-2.0
"""A reader that leaves out most records of a real ttnn, beside one that reads all of them: both have the same numbers.

The agent's meters and its live table make up for the records. What the complete reader knows is compared with ttnn's
own allocators in test_agent_oracle.py and test_mesh_oracle.py.
"""

from __future__ import annotations

import random
from contextlib import closing
from pathlib import Path

import pytest

from tests.agents import Agent, fold_into, read_all, watched
from ttmem.account.allocations import Allocation
from ttmem.account.entities import Chip
from ttmem.account.ledger import Ledger
from ttmem.ingest.ring_fold import RingFold
from ttmem.model.events import PeaksReset
from ttmem.model.kinds import KINDS, Kind, Pool


def live(ledger: Ledger) -> list[tuple[object, ...]]:
    def row(one: Allocation) -> tuple[object, ...]:
        return one.holding.numbers, one.kind, one.address, one.size, one.program, repr(one.extra)

    return sorted(map(row, ledger.allocations()), key=repr)


def compare(complete: Ledger, lossy: Ledger) -> None:
    assert live(lossy) == live(complete)
    for chip_id, chip in complete.chips.items():
        other: Chip = lossy.chips[chip_id]
        for kind, total, found in zip(KINDS, chip.kinds, other.kinds):
            assert (found.used, found.count) == (total.used, total.count), kind
            assert found.peak.value == found.peak.at_most == total.peak.value, kind
            assert found.recent.value <= total.recent.value <= found.recent.at_most, kind
        for pool in (Pool.DRAM, Pool.L1, Pool.PROGRAM):
            assert other.pools[pool].peak.value == chip.pools[pool].peak.value, pool
        for kind in (Kind.CB, Kind.DFB, Kind.KERNEL):
            assert other.resident_bytes(kind) == chip.resident_bytes(kind), kind


@pytest.mark.parametrize(
    ("program", "board", "arguments"),
    [
        ("ttnn_random", "n150", ("--steps", "150", "--seed", "3")),
        ("ttnn_random_meshes", "t3k", ("--steps", "60", "--seed", "5", "--shape", "2x4", "--operations", "whole")),
        ("ttnn_random_meshes", "galaxy", ("--steps", "50", "--seed", "7", "--shape", "8x4", "--operations", "whole")),
    ],
)
def test_what_was_lost_does_not_show(program: str, board: str, arguments: tuple[str, ...], folder: Path) -> None:
    dice = random.Random(board)
    lossy, fold = Ledger(), None
    compared = 0
    with watched("3.12", program, board, folder, *arguments) as (collector, running):
        for _ in running.records():
            collector.drain()
            if running.pid not in collector.agents or dice.random() < 0.7:
                continue
            agent: Agent = collector.agents[running.pid]
            fold = fold or fold_into(lossy, agent.reader(), running.pid)
            leave_out(fold)
            compare(collector.ledger, lossy)
            compared += 1
            if dice.random() < 0.2:
                for ledger in (collector.ledger, lossy):
                    ledger.apply(0.0, None, PeaksReset())
    assert fold is not None
    with closing(fold.ring):
        assert fold.lost > fold.applied, "most records were left out"
    assert compared > 10


def leave_out(fold: RingFold) -> None:
    """Give up the records that were not read, and catch up."""
    fold.catch_up()
    read_all(fold)

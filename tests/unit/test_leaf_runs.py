# SPDX-License-Identifier: Apache-2.0
"""Runs: the totals of a chain are the same as if each change was added to them at once."""

from __future__ import annotations

import random
from typing import Any

import pytest

from ttmem.account.allocations import Allocation, Holding
from ttmem.account.entities import Chip, Process, Source
from ttmem.account.leaf_runs import Runs
from ttmem.account.totals import Total, TotalWithContents
from ttmem.model.identity import ChipInfo, ProcessInfo
from ttmem.model.kinds import Confidence, Kind

CHIP = Chip(ChipInfo("x"))
SOURCE = Source(Process(ProcessInfo(1, 7), 0.0), "legacy", Confidence.REPORTED)
HOLDING = Holding(SOURCE, 0, (CHIP,))


def leaf_below(*above: Total) -> Total:
    leaf = Total()
    leaf.chain = (leaf, *above)
    leaf.chips = frozenset([CHIP])
    return leaf


def allocation(size: int, born: int) -> Allocation:
    return Allocation(HOLDING, Kind.DRAM, 64 * born, size, born, float(born), None)


def figures(total: Total) -> tuple[Any, ...]:
    peaks = tuple(
        (peak.value, peak.seq, peak.time, sorted((size, born) for size, born, _ in peak.gone))
        for peak in (total.peak, total.recent)
    )
    return total.used, total.unknown, total.high, total.high_before, total.watch, peaks


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_the_totals_are_the_same_as_without_runs(seed: int, shared: bool) -> None:
    """Two leaves, with a total above both or without, and another leaf that has no run and shares no total."""
    rng = random.Random(seed)
    worlds = [[leaf_below(above, *tops), leaf_below(*(tops or [Total()]))] for above, tops in (
        (Total(), [Total()] if shared else []), (Total(), [Total()] if shared else [])
    )]  # fmt: skip
    live: list[tuple[int, Allocation]] = []
    seq = 0
    for _ in range(20):
        runs = Runs()
        open_runs: dict[int, Any] = {}
        for _ in range(rng.randrange(12)):
            seq += 1
            if live and rng.random() < 0.5:
                which, old = live.pop(rng.randrange(len(live)))
                worlds[0][which].remove(old, old.size)
            else:
                which, old = rng.randrange(2), None
            if which not in open_runs:
                open_runs[which] = runs.begin(worlds[1][which])
            if old is not None:
                open_runs[which].remove(old)
            else:
                new = allocation(rng.choice([1, 10, 100]), seq)
                live.append((which, new))
                worlds[0][which].add(new.size, seq, float(seq))
                open_runs[which].add(new.size, seq, float(seq))
        runs.end()
        for one, other in zip(*worlds):
            assert [figures(total) for total in one.chain] == [figures(total) for total in other.chain]
        for total in {total for leaves in worlds for leaf in leaves for total in leaf.chain}:
            if seed % 3 == 0:
                total.take_high()
            elif seed % 3 == 1:
                total.reset_recent(seq, float(seq))


def test_changes_are_summed_up_until_the_run_ends() -> None:
    leaf = leaf_below(Total())
    leaf.add(100, 1, 1.0)
    leaf.remove(allocation(100, 1), 100)
    runs = Runs()
    run = runs.begin(leaf)
    run.add(60, 2, 2.0)
    run.add(40, 3, 3.0)
    assert leaf.used == 0, "no new high"
    runs.end()
    assert [(total.used, total.unknown, total.peak.seq) for total in leaf.chain] == [(100, 2, 1)] * 2


def test_a_new_high_is_noted_at_once() -> None:
    leaf = leaf_below(Total())
    run = Runs().begin(leaf)
    run.add(10, 1, 1.0)
    assert [(total.used, total.peak.seq) for total in leaf.chain] == [(10, 1)] * 2
    run.remove(allocation(10, 1))
    assert [(total.used, total.unknown, len(total.peak.gone)) for total in leaf.chain] == [(0, 0, 1)] * 2


def test_a_total_over_all_chips_is_updated() -> None:
    contents = TotalWithContents()
    leaf = leaf_below()
    leaf.all_chips = contents.total
    leaf.high = 1000
    run = Runs().begin(leaf)
    run.add(10, 1, 1.0)
    assert (leaf.used, contents.total.used, contents.peak.value) == (10, 10, 10)

# SPDX-License-Identifier: Apache-2.0
"""Runs of a leaf: the totals of its chain are the same as if each change was added to them at once."""

from __future__ import annotations

import random
from typing import Any

import pytest

from ttmem.account.allocations import Allocation, Holding
from ttmem.account.entities import Chip, Process, Source
from ttmem.account.leaf_runs import LeafRun, LeafRuns
from ttmem.account.totals import Total, TotalWithContents
from ttmem.model.events import Extra
from ttmem.model.identity import ChipInfo, ProcessInfo
from ttmem.model.kinds import Confidence, Kind

CHIP = Chip(ChipInfo("x"))
SOURCE = Source(Process(ProcessInfo(1, 7), 0.0), "agent", Confidence.EXACT)
HOLDING = Holding(SOURCE, 0, (CHIP,))


def leaf_below(*above: Total) -> Total:
    leaf = Total()
    leaf.chain = (leaf, *above)
    leaf.chips = frozenset([CHIP])
    return leaf


def run_of(leaf: Total) -> LeafRun:
    return LeafRun(HOLDING, Kind.DRAM, leaf)


def allocation(size: int, born: int, reserved: int | None = None) -> Allocation:
    extra = None if reserved is None else Extra(reserved)
    return Allocation(HOLDING, Kind.DRAM, 64 * born, size, born, float(born), extra)


def add(leaf: Total, new: Allocation) -> None:
    if new.taken is None:
        leaf.add(new.size, new.born, new.time)
    else:
        leaf.add_taken(new.size, new.taken, new.born, new.time)


def remove(leaf: Total, old: Allocation) -> None:
    if old.taken is None:
        leaf.remove(old, old.size)
    else:
        leaf.remove_taken(old, old.size, old.taken)


def changed(run: LeafRun, one: Allocation, sign: int) -> bool:
    """Add one to the sums of a run, or subtract it, if the limits of the run allow it."""
    reserved = one.taken or 0
    if sign < 0 and one.born <= run.watch:
        return False
    if sign > 0 and (run.used + one.size > run.room or run.reserved + reserved > run.reserved_room):
        return False
    run.used += sign * one.size
    run.reserved += sign * reserved
    if one.taken is None:
        run.unknown += sign
    else:
        run.known += sign
    return True


def figures(total: Total) -> tuple[Any, ...]:
    peaks = tuple(
        (peak.value, peak.seq, peak.time, sorted((size, born) for size, born, _ in peak.gone))
        for peak in (total.peak, total.recent)
    )
    sums = total.used, total.reserved, total.known, total.unknown
    return sums, total.reserved_peak, total.high, total.high_before, total.watch, peaks


@pytest.mark.parametrize("seed", range(30))
def test_the_totals_are_the_same_as_without_runs(seed: int) -> None:
    """A run ends at the first change that its limits do not allow; the next run begins after that change."""
    rng = random.Random(seed)
    chip, single_chip = Total(), Total()
    leaf, single = leaf_below(Total(), chip), leaf_below(Total(), single_chip)
    live: list[Allocation] = []
    summed = 0
    for seq in range(1, 300):
        if seq % 20 == 1:
            runs, run = LeafRuns(), run_of(leaf)
            assert runs.begin(run)
        if live and rng.random() < 0.5:
            one, sign = live.pop(rng.randrange(len(live))), -1
            remove(single, one)
        else:
            one, sign = allocation(rng.choice([1, 10, 100]), seq, rng.choice([None, 16, 160])), 1
            live.append(one)
            add(single, one)
        if changed(run, one, sign):
            summed += 1
        else:
            runs.end()
            (add if sign > 0 else remove)(leaf, one)
            runs, run = LeafRuns(), run_of(leaf)
            assert runs.begin(run)
        if seq % 20 == 0:
            runs.end()
            assert [figures(total) for total in leaf.chain] == [figures(total) for total in single.chain]
            for total in (chip, single_chip):
                if seed % 3 == 0:
                    total.take_high()
                elif seed % 3 == 1:
                    total.reset_recent(seq, float(seq))
    assert summed > 50


def test_the_limits_are_those_of_the_whole_chain() -> None:
    chip = Total()
    leaf, other = leaf_below(Total(), chip), leaf_below(chip)
    other.add_taken(100, 50, 1, 1.0)
    leaf.add_taken(30, 40, 2, 2.0)
    leaf.remove_taken(allocation(30, 2, 40), 30, 40)
    run = run_of(leaf)
    assert (run.room, run.reserved_room, run.watch) == (30, 40, 2)
    other.add_taken(20, 30, 3, 3.0)  # the chip has less room now, its peak is where it was
    run = run_of(leaf)
    assert (run.room, run.reserved_room, run.watch) == (10, 10, 2)


def test_two_leaves_below_the_same_total_have_no_runs_together() -> None:
    chip = Total()
    runs = LeafRuns()
    assert runs.begin(run_of(leaf_below(chip)))
    assert not runs.begin(run_of(leaf_below(chip))), "the first run changes the room of the second"
    assert runs.begin(run_of(leaf_below(Total())))


def test_a_leaf_with_a_total_over_all_chips_has_no_run() -> None:
    leaf = leaf_below()
    leaf.all_chips = TotalWithContents().total
    assert not LeafRuns().begin(run_of(leaf))

# SPDX-License-Identifier: Apache-2.0
"""Steps in another order, and with another number of banks. tests/integration/test_fit.py repeats real recordings."""

from __future__ import annotations

from ttmem.fit.recorded_steps import Step
from ttmem.fit.what_if import largest_first, simulate
from ttmem.model.geometry import BOARDS
from ttmem.model.kinds import Kind

N150, P150 = BOARDS["n150"], BOARDS["p150"]
MIB = 1 << 20


def took(per_bank: int, failed: bool = False) -> Step:
    return Step(None, Kind.DRAM, per_bank * 12, per_bank, 12, None, failed, False, "ttnn.empty model.py:7 main", None)


def freed(steps: list[Step], number: int) -> Step:
    return steps[number]._replace(frees=number)


def test_each_run_of_allocations_is_sorted_and_frees_follow_their_buffers() -> None:
    steps = [took(2 * MIB), took(8 * MIB), took(4 * MIB)]
    steps += [freed(steps, 0), took(MIB), took(16 * MIB)]
    steps.append(freed(steps, 5))
    order = largest_first(steps)
    assert [step.per_bank // MIB for step in order] == [8, 4, 2, 2, 16, 1, 16]
    assert [step.frees for step in order] == [None, None, None, 2, None, None, 4]
    assert simulate(order, N150, N150, None).banks["dram"]["peak"] == (8 + 4 + 1 + 16) * MIB


def test_the_largest_first_may_be_the_difference() -> None:
    """Small buffers between larger ones that are freed leave no room for a large one."""
    steps: list[Step] = []
    for _ in range(54):
        steps += [took(16 * MIB), took(2 * MIB)]
    frees = [freed(steps, number) for number in range(0, 100, 2)]
    steps += [*frees, took(600 * MIB)]
    assert simulate(steps, N150, N150, None).failed == 1
    assert simulate(largest_first(steps), N150, N150, None).failed == 0


def test_a_buffer_that_is_freed_early_takes_nothing() -> None:
    steps = [took(700 * MIB), took(700 * MIB)]
    assert simulate(steps, N150, N150, None).failed == 1
    found = simulate(steps, N150, N150, lambda name: "model.py:7" in name)
    assert (found.failed, found.banks["dram"]["peak"]) == (0, 700 * MIB)


def test_with_other_banks_the_pages_are_spread_over_them() -> None:
    tiles = 12 * 1000 + 7
    step = Step(None, Kind.DRAM, tiles * 2048, 1001 * 2048, 12, None, False, False, "", 2048)
    found = simulate([step], N150, P150, None)
    assert found.banks["dram"]["peak"] == -(-tiles // 8) * 2048
    assert found.estimated == 0
    odd = step._replace(page=None)
    assert simulate([odd], N150, P150, None).estimated == 1

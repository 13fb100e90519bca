# SPDX-License-Identifier: Apache-2.0
"""Verdicts on a run and its exit code, from a result and its limits alone."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest

from ttmem.model.kinds import Pool
from ttmem.model.schema import Run, UncertainRow
from ttmem.run.budget_verdicts import LEAKED, NOT_SEEN, OVER_BUDGET, Limits, judge
from ttmem.run.result import RunResult

KIB = 1024
FINE = RunResult(
    document=cast(Run, {}),
    exit_code=0,
    events=9,
    seen_completely=True,
    uncertain=[],
    reserved_peaks={Pool.DRAM: 100 * KIB, Pool.L1: 20 * KIB},
    leaks={},
)
LEAKY = replace(FINE, leaks={"dram": {"count": 3, "bytes": 6 * KIB}, "l1_buffers": {"count": 1, "bytes": KIB}})
LEFT = "verdict: tensors were left: 6.0 KiB of DRAM in 3 buffers, 1.0 KiB of L1 (sum over all cores) in 1 buffer"
UNCERTAIN: list[UncertainRow] = [{"reason": "replaced", "count": 2}]
EVERYTHING = Limits(no_leaks=True, dram_bytes=100 * KIB, l1_bytes=20 * KIB)


def test_within_all_limits() -> None:
    assert judge(FINE, EVERYTHING) == ([], 0)


@pytest.mark.parametrize("code", [0, 1, 137])
def test_without_limits_nothing_is_said_whatever_happened(code: int) -> None:
    worst = replace(LEAKY, exit_code=code, seen_completely=False, events=0, uncertain=UNCERTAIN)
    assert judge(worst, Limits()) == ([], code)


def test_one_byte_over_a_budget() -> None:
    assert judge(FINE, Limits(dram_bytes=100 * KIB - 1)) == (
        ["verdict: DRAM peak 100.0 KiB (102,400 B) is over the budget of 100.0 KiB"],
        OVER_BUDGET,
    )
    assert judge(FINE, Limits(l1_bytes=0)) == (
        ["verdict: L1 peak 20.0 KiB (20,480 B) is over the budget of 0 B"],
        OVER_BUDGET,
    )


def test_leaks_count_only_if_they_were_asked_about() -> None:
    assert judge(LEAKY, Limits(no_leaks=True)) == ([LEFT], LEAKED)
    assert judge(LEAKY, Limits(l1_bytes=KIB * KIB)) == ([], 0)


def test_a_leak_comes_before_a_budget() -> None:
    lines, code = judge(LEAKY, Limits(no_leaks=True, dram_bytes=0, l1_bytes=0))
    assert [line.split()[1] for line in lines] == ["DRAM", "L1", "tensors"]
    assert code == LEAKED


def test_a_run_that_was_not_seen() -> None:
    assert judge(replace(FINE, seen_completely=False, events=0), EVERYTHING) == (
        ["verdict: the run was not tracked completely"],
        NOT_SEEN,
    )
    assert judge(replace(FINE, events=0), EVERYTHING) == (
        ["verdict: the agent saw no device being opened, so there is no result"],
        NOT_SEEN,
    )
    lines, code = judge(replace(LEAKY, seen_completely=False), EVERYTHING)
    assert (len(lines), code) == (2, LEAKED), "what was found stands, however little was seen"


def test_an_uncertain_result_comes_before_everything_that_was_found() -> None:
    lines, code = judge(replace(LEAKY, uncertain=UNCERTAIN), EVERYTHING)
    assert lines == [
        LEFT,
        "verdict: the result is uncertain: the agent counted replaced 2",
    ]
    assert code == NOT_SEEN


def test_the_commands_own_failure_comes_first() -> None:
    lines, code = judge(replace(LEAKY, exit_code=77), EVERYTHING)
    assert (len(lines), code) == (1, 77)

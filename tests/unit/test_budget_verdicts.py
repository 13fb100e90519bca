# SPDX-License-Identifier: Apache-2.0
"""Verdicts on a run and its exit code, from a result and its limits alone."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest

from ttmem.model.kinds import Pool
from ttmem.model.schema import Leaks, Run, UncertainRow
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
)


def leaks(*growing: object) -> Leaks:
    verdict = {"leak": bool(growing), "groups": len(growing)}
    return cast(Leaks, {"verdict": verdict, "growing": growing})


GROWING = {
    "kind": "dram", "chips": ["77"], "count": 3, "per_chip": 6 * KIB, "above_baseline": None, "op": "ttnn.add",
    "stack": ["model.py:3 forward"], "shape": "[32, 32]", "size": None, "growth": {"per_step": 1.0, "per_minute": 9.0},
}  # fmt: skip
NONE, LEAK = leaks(), leaks(GROWING)
LEFT = "verdict: leak: +1 per step at model.py:3 forward, ttnn.add, [32, 32]; 6.0 KiB of DRAM in 3 buffers so far"
UNCERTAIN: list[UncertainRow] = [{"reason": "replaced", "count": 2}]
EVERYTHING = Limits(no_leaks=True, dram_bytes=100 * KIB, l1_bytes=20 * KIB)


def test_within_all_limits() -> None:
    assert judge(FINE, EVERYTHING, NONE) == ([], 0)


@pytest.mark.parametrize("code", [0, 1, 137])
def test_without_limits_nothing_is_said_whatever_happened(code: int) -> None:
    worst = replace(FINE, exit_code=code, seen_completely=False, events=0, uncertain=UNCERTAIN)
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


def test_a_leak() -> None:
    assert judge(FINE, Limits(no_leaks=True), LEAK) == ([LEFT], LEAKED)
    assert judge(FINE, Limits(no_leaks=True), leaks(GROWING, GROWING)) == ([f"{LEFT}; and 1 more group"], LEAKED)
    assert judge(FINE, Limits(l1_bytes=KIB * KIB)) == ([], 0)


def test_a_leak_comes_before_a_budget() -> None:
    lines, code = judge(FINE, Limits(no_leaks=True, dram_bytes=0, l1_bytes=0), LEAK)
    assert [line.split()[1] for line in lines] == ["DRAM", "L1", "leak:"]
    assert code == LEAKED


def test_a_run_that_was_not_seen() -> None:
    assert judge(replace(FINE, seen_completely=False, events=0), EVERYTHING, NONE) == (
        ["verdict: the run was not tracked completely"],
        NOT_SEEN,
    )
    assert judge(replace(FINE, events=0), EVERYTHING) == (
        ["verdict: the agent saw no device being opened, so there is no result"],
        NOT_SEEN,
    )
    lines, code = judge(replace(FINE, seen_completely=False), EVERYTHING, LEAK)
    assert (len(lines), code) == (2, LEAKED), "what was found stands, however little was seen"


def test_leaks_that_cannot_be_judged() -> None:
    """The recording could not be read."""
    assert judge(FINE, EVERYTHING) == (["verdict: leaks could not be judged"], NOT_SEEN)


def test_an_uncertain_result_comes_before_everything_that_was_found() -> None:
    lines, code = judge(replace(FINE, uncertain=UNCERTAIN), EVERYTHING, LEAK)
    assert lines == [
        LEFT,
        "verdict: the result is uncertain: the agent counted replaced 2",
    ]
    assert code == NOT_SEEN


def test_the_commands_own_failure_comes_first() -> None:
    lines, code = judge(replace(FINE, exit_code=77), EVERYTHING, LEAK)
    assert (len(lines), code) == (1, 77)

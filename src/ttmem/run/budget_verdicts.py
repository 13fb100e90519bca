# SPDX-License-Identifier: Apache-2.0
"""Verdicts on a run: whether it kept its memory budgets and freed its tensors, and the exit code of `ttmem run`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ttmem.documents.leak_words import leak_text
from ttmem.model.kinds import Pool
from ttmem.model.uncertain_reasons import counts_text
from ttmem.model.units import human
from ttmem.run.result import RunResult

if TYPE_CHECKING:
    from ttmem.model import schema

LEAKED, OVER_BUDGET, NOT_SEEN = 3, 4, 5


class Limits(NamedTuple):
    """The limits that the user requested; None is no limit."""

    no_leaks: bool = False
    dram_bytes: int | None = None
    l1_bytes: int | None = None


class Verdicts(NamedTuple):
    """Sentences and the exit code, which is the command's own unless that is 0."""

    lines: list[str]
    exit_code: int


def judge(result: RunResult, limits: Limits, leaks: schema.Leaks | None = None) -> Verdicts:
    """Compare a result with its limits. Without limits there are no sentences. ``leaks`` are needed for `no_leaks`."""
    budgets = ((Pool.DRAM, limits.dram_bytes), (Pool.L1, limits.l1_bytes))
    if not limits.no_leaks and all(limit is None for _, limit in budgets):
        return Verdicts([], result.exit_code)
    lines, code = [], 0
    if not result.seen_completely:
        lines.append("the run was not tracked completely")
        code = NOT_SEEN
    elif not result.events:
        lines.append("the agent saw no device being opened, so there is no result")
        code = NOT_SEEN
    for pool, limit in budgets:
        peak = result.reserved_peaks[pool]
        if limit is not None and peak > limit:
            lines.append(f"{pool.name} peak {human(peak)} ({peak:,} B) is over the budget of {human(limit)}")
            code = OVER_BUDGET
    if limits.no_leaks and leaks is None and result.events:
        lines.append("leaks could not be judged")
        code = NOT_SEEN
    if leaks is not None and leaks["verdict"]["leak"]:
        lines.append(leak_text(leaks))
        code = LEAKED
    if result.uncertain:  # so the verdicts above may be wrong, too
        lines.append(f"the result is uncertain: the agent counted {counts_text(list(result.uncertain))}")
        code = NOT_SEEN
    return Verdicts([f"verdict: {line}" for line in lines], result.exit_code or code)

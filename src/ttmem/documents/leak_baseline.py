# SPDX-License-Identifier: Apache-2.0
"""Compares leaks with an earlier answer: a leak is what there is more of."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from ttmem.documents.leaks import SCHEMA, LeakOrigin, largest_first, summed

if TYPE_CHECKING:
    from ttmem.model import schema


class Baseline(NamedTuple):
    """What an earlier answer had, over all processes."""

    counts: Counter[tuple[str, LeakOrigin]]  # allocations by kind and origin
    left_out: int  # groups that it did not list


def baseline_of(found: schema.Leaks) -> Baseline:
    """What an answer has. ValueError, KeyError, TypeError or AttributeError if it is none."""
    if found["schema"] != SCHEMA:
        raise ValueError(found["schema"])
    counts: Counter[tuple[str, LeakOrigin]] = Counter()
    for row in (*found["growing"], *found["held"]):
        counts[_origin_of(row)] += int(row["count"])
    return Baseline(counts, int(found["left_out"]["groups"]))


def compared(found: schema.Leaks, baseline: Baseline) -> schema.Leaks:
    """The same findings, in which a leak is what there is more of than in a baseline. Growth does not count."""
    left = Counter(baseline.counts)
    growing: list[schema.LeakRow] = []
    held: list[schema.LeakRow] = []
    for row in (*found["growing"], *found["held"]):
        key = _origin_of(row)
        above = max(0, row["count"] - left[key])
        left[key] -= row["count"] - above
        (growing if above else held).append({**row, "above_baseline": above})
    growing.sort(key=_bytes_above, reverse=True)
    doubts = found["doubts"]
    if baseline.left_out:
        doubts = [*doubts, f"the baseline does not list {baseline.left_out:,} small groups: they are new here"]
    return {
        **found,
        "verdict": {"leak": bool(growing), **summed(growing)},
        "doubts": doubts,
        "growing": growing,
        "held": largest_first(held),
    }


def _bytes_above(row: schema.LeakRow) -> float:
    return (row["above_baseline"] or 0) * row["bytes"] / row["count"]


def _origin_of(row: schema.LeakRow) -> tuple[str, LeakOrigin]:
    return row["kind"], LeakOrigin(row["op"], "\n".join(row["stack"] or ()) or None, row["shape"], row["size"] or 0)

# SPDX-License-Identifier: Apache-2.0
"""The first lines of a report: what happened, and what made the peak or holds the memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ttmem.documents.common_text import short_line
from ttmem.documents.pool_amounts import amounts_text
from ttmem.model.units import human, lower_limit, part_text

if TYPE_CHECKING:
    from ttmem.model.page_schema import ReportGroup, ReportPool, ReportSite, ReportVerdict
    from ttmem.model.schema import Leaks, RunFailure

_POOL_WORDS = {"dram": "DRAM", "l1_buffers": "L1 buffers"}
_LISTED = 3
_INCOMPLETE = "The recording is incomplete."
_NOTHING_READ = "The part that can be read contains no allocation on a device."


def verdict(
    groups: Sequence[ReportGroup],
    explained: Sequence[RunFailure],
    failures: int,
    leaks: Leaks | None,
    sites: Sequence[ReportSite],
    strings: Sequence[str],
    exit_code: int | None,
    *,
    complete: bool,
) -> ReportVerdict:
    """``complete``: the recording was finished, and all of it can be read. Otherwise it may have missed a failure."""
    if explained:
        last = explained[-1]["verdict"]
        first = last["headline"][:1].upper() + last["headline"][1:] + "."
        if failures > 1:
            first = f"{failures:,} allocations failed. The last: {last['headline']}."
        return {
            "status": "out_of_memory",
            "lines": [first, _sentence(last["held_by"]) or _peak_line(groups, sites, strings)],
        }
    if not any(pool["peak"] for group in groups for pool in group["pools"]):
        if not complete:
            return {"status": "cannot_tell", "lines": [_INCOMPLETE, _NOTHING_READ]}
        first = f"No allocation on a device was recorded{_ended(exit_code)}."
        return {"status": "cannot_tell", "lines": [first, "`ttmem doctor` finds out why nothing was reported."]}
    if leaks is not None and leaks["verdict"]["leak"]:
        found = leaks["verdict"]
        growing = leaks["growing"][0] if leaks["growing"] else None
        first = f"Leak: {amounts_text(found['pools'])} grow from step to step{_ended(exit_code)}."
        second = "" if growing is None else f"Most grows at {_place(growing['op'], growing['line'])}."
        return {"status": "leaks", "lines": [first, second]}
    peaks = "; ".join(filter(None, (_peak(groups, pool, words) for pool, words in _POOL_WORDS.items())))
    second = _peak_line(groups, sites, strings)
    if not complete:
        return {"status": "cannot_tell", "lines": [f"{_INCOMPLETE} The part that can be read: {peaks}.", second]}
    return {"status": "fits", "lines": [f"Fits: {peaks}{_ended(exit_code)}.", second]}


def _ended(exit_code: int | None) -> str:
    return f"; the command ended with exit code {exit_code}" if exit_code else ""


def _peak(groups: Sequence[ReportGroup], pool: str, words: str) -> str | None:
    """The highest peak of a pool on any chip."""
    found = _highest(groups, pool)
    if found is None or not found[1]["peak"]:
        return None
    group, row = found
    size, share = human(row["peak"]), part_text(row["peak"], row["capacity"] or 0)
    verb = "at most"
    if row["peak_at_most"] is not None:
        verb, size, share = "peak", lower_limit(size), lower_limit(share)
    part = "" if not row["capacity"] else f" of {human(row['capacity'])} ({share})"
    several = len(groups) > 1 or len(group["chips"]) > 1
    return f"{words} {verb} {size}{part} per chip" + (f" on {group['name']}" if several else "")


def _highest(groups: Sequence[ReportGroup], pool: str) -> tuple[ReportGroup, ReportPool] | None:
    found = [(group, row) for group in groups for row in group["pools"] if row["pool"] == pool]
    return max(found, key=lambda item: item[1]["peak"], default=None)


def _peak_line(groups: Sequence[ReportGroup], sites: Sequence[ReportSite], strings: Sequence[str]) -> str:
    """What was live at the peak of the pool that was fullest."""
    rows = [found for pool in _POOL_WORDS if (found := _highest(groups, pool)) is not None and found[1]["at_peak"]]
    if not rows:
        return ""
    _, row = max(rows, key=lambda item: item[1]["peak"] / (item[1]["capacity"] or 1 << 62))
    by_place: dict[str, int] = {}
    for share in row["at_peak"]:
        site = sites[share["site"]]
        place = _place(_text(strings, site["op"]), _text(strings, site["line"]))
        by_place[place] = by_place.get(place, 0) + share["bytes"]
    most = sorted(by_place.items(), key=lambda item: -item[1])[:_LISTED]
    listed = ", ".join(f"{human(size)} of {place}" for place, size in most)
    return f"At the peak of {_POOL_WORDS[row['pool']]}: {listed}."


def _place(op: str | None, line: str | None) -> str:
    """
    >>> _place("ttnn.add", "src/models/llama/model.py:42 forward"), _place(None, None)
    ('ttnn.add (llama/model.py:42 forward)', 'unknown operations')
    """
    short = short_line(line)
    if op is None:
        return short or "unknown operations"
    return f"{op} ({short})" if short else op


def _text(strings: Sequence[str], place: int) -> str | None:
    return None if place < 0 else strings[place]


def _sentence(text: str | None) -> str:
    return "" if not text else f"{text[:1].upper()}{text[1:]}."

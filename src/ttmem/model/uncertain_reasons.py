# SPDX-License-Identifier: Apache-2.0
"""Reasons why the numbers of a process may be wrong although its allocators agree with them.

Each reason is a counter of the agent (docs/accuracy.md). Frees of buffers that are older than the agent are counted
separately and are not a reason, because these buffers are not part of the numbers. Keep this module light: every start
of `ttmem smi` imports it.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ttmem.model.schema import UncertainRow

REASONS = {
    "replaced": "buffers allocated where another one was still live, so its free was missed",
    "unknown_frees": "frees of buffers that the agent did not know, so their allocation was missed",
    "table_full": "buffers and programs that did not fit the agent's table",
    "meshes_full": "devices that were not followed because too many were open",
    "failures": "queries of the agent that failed in tt-metal, so something was not recorded",
}


def listed(counts: Mapping[str, int]) -> list[UncertainRow]:
    """The counts as rows, in the order of the reasons; reasons with a count of 0 are left out.

    >>> listed({"failures": 1, "replaced": 143, "table_full": 0})
    [{'reason': 'replaced', 'count': 143}, {'reason': 'failures', 'count': 1}]
    """
    return [{"reason": reason, "count": counts[reason]} for reason in REASONS if counts.get(reason)]


def counts_text(found: Iterable[UncertainRow]) -> str:
    """The reasons with their counts as text, each reason once.

    >>> counts_text([{"pid": 1, "reason": "replaced", "count": 2}, {"pid": 2, "reason": "replaced", "count": 1000}])
    'replaced 1,002'
    """
    counts: dict[str, int] = {}
    for one in found:
        counts[one["reason"]] = counts.get(one["reason"], 0) + one["count"]
    return ", ".join(f"{reason} {count:,}" for reason, count in counts.items())


def meanings_text(found: Iterable[UncertainRow]) -> str:
    """The same, with the meaning of each reason.

    >>> meanings_text([{"reason": "table_full", "count": 5}])
    "table_full 5 (buffers and programs that did not fit the agent's table)"
    """
    return ", ".join(f"{counts_text([one])} ({REASONS.get(one['reason'], 'not known to this ttmem')})" for one in found)

# SPDX-License-Identifier: Apache-2.0
"""Host memory of the recorded processes, beside the device memory at the same times."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ttmem.model.kinds import BREAKDOWN_POOLS, BreakdownPool
from ttmem.recording.recording_file import Sample
from ttmem.statistics.exact_sums import total
from ttmem.statistics.window import Window

if TYPE_CHECKING:
    from ttmem.model.schema import StatsHost, StatsHostSample


def host_memory(window: Window, samples: list[Sample]) -> StatsHost | None:
    """The first and last sample of the window, and the one with most resident and huge pages; None without samples."""
    table = window.table
    found = [
        (table.at(one.time), sum(row.get("resident", 0) for row in one.host.values()),
         sum(row.get("huge_pages", 0) for row in one.host.values()), len(one.host))
        for one in samples
    ]  # fmt: skip
    found = [one for one in found if window.after < one[0] <= window.until]
    if not found:
        return None
    peak = max(found, key=lambda one: one[1] + one[2])
    return {
        "samples": len(found),
        "first": _row(window, *found[0]),
        "peak": _row(window, *peak),
        "last": _row(window, *found[-1]),
    }


def _row(window: Window, time: int, resident: int, huge_pages: int, processes: int) -> StatsHostSample:
    live = window.live_at(time)
    device = {
        pool: total(window.amount[live & window.table.of_kinds(*BREAKDOWN_POOLS[pool])])
        for pool in (BreakdownPool.DRAM, BreakdownPool.L1_BUFFERS)
    }
    return {
        "after_s": window.seconds(time),
        "processes": processes,
        "resident": resident,
        "huge_pages": huge_pages,
        "dram": device[BreakdownPool.DRAM],
        "l1_buffers": device[BreakdownPool.L1_BUFFERS],
    }

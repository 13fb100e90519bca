# SPDX-License-Identifier: Apache-2.0
"""The program cache over time, and the program that needs most of a core's kernel ring."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ttmem.model.stack_frames import line_of
from ttmem.recording.allocation_table import ProgramTable
from ttmem.recording.record_arrays import Array
from ttmem.statistics.window import Window

if TYPE_CHECKING:
    from ttmem.model.schema import StatsKernelRing, StatsPrograms

_PARTS = 10


def growth(window: Window, programs: ProgramTable) -> StatsPrograms:
    """Programs compiled and destroyed in each tenth of the window. A program of a mesh counts once."""
    here = _selected(window, programs)
    begins, ends = np.sort(programs.begin[here]), np.sort(programs.end[here])
    first = max(window.after, int(1e9 * window.seconds(window.after)))
    last = min(window.until, max(window.table.length, 0))
    edges = [window.after, *(first + (last - first) * part // _PARTS for part in range(1, _PARTS)), window.until]
    compiled, destroyed = (np.searchsorted(times, edges, "right").tolist() for times in (begins, ends))
    live = [made - gone for made, gone in zip(compiled, destroyed)]
    return {
        "start": live[0],
        "compiled": compiled[-1] - compiled[0],
        "destroyed": destroyed[-1] - destroyed[0],
        "live": live[-1],
        "tenths": [
            {
                "until_s": window.seconds(edges[part]),
                "compiled": compiled[part] - compiled[part - 1],
                "destroyed": destroyed[part] - destroyed[part - 1],
                "live": live[part],
            }
            for part in range(1, _PARTS + 1)
        ],
    }


def kernel_ring(window: Window, programs: ProgramTable, sizes: dict[str, int]) -> StatsKernelRing | None:
    """The program of the window that needs most of the ring; ``sizes`` is the size of the ring by chip, where known."""
    present = _selected(window, programs) & (programs.begin <= window.until) & (programs.end > window.after)
    rows = np.flatnonzero(present & (programs.ring > 0))
    if not len(rows):
        return None
    row = int(rows[np.argmax(programs.ring[rows])])
    site, chips = window.table.sites[int(programs.site[row])], window.table.chip_sets[int(programs.chips[row])]
    return {
        "used_max": int(programs.ring[row]),
        "size": min((sizes[chip] for chip in chips if chip in sizes), default=None),
        "op": site.op,
        "line": line_of(site.stack),
        "after_s": window.seconds(int(programs.begin[row])),
        "chips": [chip for chip in chips if chip in window.chips],
    }


def _selected(window: Window, programs: ProgramTable) -> Array:
    wanted = set(window.chips)
    here = np.array([not wanted.isdisjoint(chips) for chips in window.table.chip_sets] + [True])  # -1: not known
    return here[programs.chips]

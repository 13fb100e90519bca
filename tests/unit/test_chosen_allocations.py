# SPDX-License-Identifier: Apache-2.0
"""Which allocations a report lists: those that matter for any of the reasons, each with all of its reasons."""

from __future__ import annotations

import numpy as np

from tests.unit.test_stats_document import Script
from ttmem.pages.chosen_allocations import AT_PEAK, ENDS, LARGEST, LATE, LONGEST, NEVER_FREED, choose
from ttmem.recording.allocation_table import NEVER, End


def test_all_are_listed_if_there_are_few_and_otherwise_some_of_each_reason() -> None:
    script = Script(1, 1, 1)
    table = script.recording(500).lifetimes().allocations
    rows, peak = np.arange(len(table)), np.array([3, 5])
    everything = choose(table, rows, [peak])
    assert everything.rows.tolist() == rows.tolist()
    why = dict(zip(everything.rows.tolist(), everything.why.tolist()))
    for row in rows.tolist():
        assert bool(why[row] & NEVER_FREED) == (table.end[row] == NEVER)
        assert bool(why[row] & LATE) == (table.ended_by[row] in (End.DEVICE_CLOSED, End.PROCESS_EXITED))
        assert bool(why[row] & AT_PEAK) == (row in (3, 5))
    some = choose(table, rows, [peak], most=25)
    assert len(some.rows) <= 25
    assert some.rows.tolist() == sorted(some.rows.tolist())
    assert {3, 5} <= set(some.rows.tolist())
    largest = set(np.argsort(-table.size, kind="stable")[:3].tolist())
    assert largest <= set(some.rows.tolist())
    for bit in (LARGEST, LONGEST, LATE):
        assert (some.why & bit).any()
    script.close()


def test_each_end_has_words() -> None:
    assert len(ENDS) == len(End)

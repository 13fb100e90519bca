# SPDX-License-Identifier: Apache-2.0
"""Sizing advice: correct according to the simulator's allocator, and none for figures that were not recorded."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from ttmem.analyze.sizing import Figures, advise
from ttmem.analyze.verdict_types import AT_LEAST, EXACT
from ttmem.sim.free_list import FreeList

LAW = settings(max_examples=100)

Acts = list[tuple[int, bool]]


def replay(acts: Acts, size: int) -> int | None:
    """How far buffers extended below the top of a region; None if one found no room."""
    bank, deepest = FreeList(1 << 20, size, 32), 0
    for per_bank, gone in acts:
        if bank.allocate(per_bank, bottom_up=False) is None:
            return None
        lowest = bank.lowest()
        assert lowest is not None
        deepest = max(deepest, (1 << 20) + size - lowest)
        if gone:
            bank.free(max(bank.live()))
    return deepest


@LAW
@given(st.lists(st.tuples(st.integers(1, 900), st.booleans()), min_size=1, max_size=20))
def test_l1_small_is_enough_and_no_more_than_that(acts: Acts) -> None:
    depth = replay(acts, 32768)
    assert depth is not None
    (line,) = advise({"unit": 32, "l1_small_size": 32768, "l1_small_depth": depth})
    assert line.basis == EXACT
    assert line.value is not None
    assert replay(acts, line.value) == depth
    assert line.value == 32 or replay(acts, line.value - 32) is None


def test_what_was_not_recorded_gives_no_line() -> None:
    assert advise({}) == []
    nothing: Figures = {
        "l1_small_size": 0, "l1_small_depth": None, "l1_small_peak": 5, "trace_region": None, "trace_peak": 3,
        "ring_size": 100, "ring_peak": None, "headroom": None, "gaps": {"L1": {"free": 8, "largest": 8, "exact": True}},
    }  # fmt: skip
    assert advise(nothing) == []


def test_every_line() -> None:
    figures: Figures = {
        "unit": 64, "l1_small_size": 4096, "l1_small_peak": 100, "dram_banks": 12, "trace_region": 8192,
        "trace_peak": 49152, "ring_size": 70656, "ring_peak": 60000, "ring_program": "ttnn.conv2d", "ring_programs": 7,
        "headroom": 0, "headroom_program": "ttnn.matmul", "headroom_holder": "kv_cache",
        "gaps": {"L1": {"free": 1000, "largest": 250, "exact": True}},
    }  # fmt: skip
    lines = advise(figures)
    assert [(line.what, line.value, line.basis) for line in lines] == [
        ("l1_small_size", 128, AT_LEAST),
        ("trace_region_size", 49152, AT_LEAST),
        ("kernel_ring", 60000, EXACT),
        ("headroom", 0, EXACT),
        ("fragmentation", None, EXACT),
    ]
    assert "50 %" in lines[1].text
    assert "of 69 KiB per core (85 %) used by the largest of 7 programs, ttnn.conv2d" in lines[2].text
    assert "least 0 B per core between a program and the lowest L1 buffer: ttnn.matmul, below kv_cache" in lines[3].text
    assert lines[4].text.endswith("1000 B per bank free, the largest piece 250 B (75 % fragmented)")


def test_what_was_not_looked_at_each_time_says_so() -> None:
    (line,) = advise({"gaps": {"DRAM": {"free": 1000, "largest": 250, "exact": False}}})
    assert line.basis == AT_LEAST
    assert line.text.endswith("(75 % fragmented; with so many buffers, not every request was checked)")


def test_regions_that_were_too_small() -> None:
    """The used size is not the size that would have been enough."""
    figures: Figures = {
        "l1_small_size": 64, "l1_small_depth": 64, "l1_small_refused": True, "dram_banks": 8, "trace_region": 8192,
        "trace_peak": 4096, "trace_refused": True,
    }  # fmt: skip
    lines = advise(figures)
    assert [(line.what, line.value) for line in lines] == [("l1_small_size", None), ("trace_region_size", None)]
    assert all(line.text.endswith("used, and a request for more failed: too small") for line in lines)


def test_regions_that_nobody_used() -> None:
    lines = advise({"l1_small_size": 4096, "l1_small_depth": 0, "dram_banks": 8, "trace_region": 8192, "trace_peak": 0})
    assert [(line.what, line.value) for line in lines] == [("l1_small_size", 0), ("trace_region_size", 0)]

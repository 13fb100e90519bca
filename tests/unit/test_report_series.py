# SPDX-License-Identifier: Apache-2.0
"""The lines of charts: buckets are exact, values that are not known yet are -1, and peaks have more detail."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttmem.pages.report_series import (
    BUCKETS,
    LEVEL_BUCKETS,
    Stretch,
    edges_of,
    host_lines,
    rate_line,
    resident_lines,
    stretches,
)
from ttmem.recording.recording_file import Sample


@given(st.integers(0, 1 << 40), st.integers(1, 1 << 52), st.integers(1, 5000))
def test_edges_are_whole_numbers_as_the_page_computes_them(begin: int, length: int, count: int) -> None:
    edges = edges_of(begin, begin + length, count).tolist()
    used = min(count, length)
    assert edges == [begin + length * number // used for number in range(used + 1)]
    assert len(set(edges)) == len(edges)


def test_values_from_the_first_launch_on() -> None:
    circular, _ = resident_lines(np.array([10, 30]), np.array([500, 200]), np.array([0, 0]))
    low, high, last = circular.buckets(np.array([0, 5, 10, 20, 40]))
    assert low.tolist() == [-1, -1, 500, 200]
    assert high.tolist() == [-1, -1, 500, 500]
    assert last.tolist() == [-1, -1, 500, 200]


def test_events_per_second() -> None:
    line = rate_line("events", "per second", np.array([0, 1, 999]), np.array([1, 1_000_000_000]))
    _, _, last = line.buckets(np.array([0, 1000, 500_000_000, 3_000_000_000]))
    assert last.tolist() == [4_000_000, 0, 1]  # a rare event is still seen
    assert line.described["unit"] == "per_second"


def test_host_memory_of_several_processes() -> None:
    samples = [Sample(101.0, {1: {"resident": 100}, 2: {"resident": 50}}, {}), Sample(102.0, {1: {"resident": 70}}, {})]
    (line,) = host_lines(samples, 100.0)
    _, _, last = line.buckets(np.array([0, 500_000_000, 1_500_000_000, 2_500_000_000]))
    assert last.tolist() == [-1, 150, 70]
    assert host_lines([], 100.0) == []


@pytest.mark.parametrize("moment", [0, 1, 500_000, 999_999_999])
def test_a_stretch_contains_its_moment_in_finer_buckets(moment: int) -> None:
    until = 1_000_000_000
    (found,) = stretches([moment], until, 8)
    assert 0 <= found.begin <= moment < found.end <= until
    assert (found.end - found.begin) / LEVEL_BUCKETS < until / BUCKETS / 10


def test_close_moments_share_a_stretch_and_few_are_made() -> None:
    until = 10**9
    step = until // BUCKETS
    assert len(stretches([50 * step, 51 * step, 500 * step], until, 8)) == 2
    assert len(stretches([100 * step * number for number in range(1, 20)], until, 3)) == 3
    assert stretches([5], 1000, 8) == []
    assert stretches([], until, 8) == []
    assert isinstance(stretches([7 * step], until, 8)[0], Stretch)

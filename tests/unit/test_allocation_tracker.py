# SPDX-License-Identifier: Apache-2.0
"""The functions for a runtime that reports only its circular buffers and kernels."""

from __future__ import annotations

import pytest

from tests.heard import Heard
from ttmem.collect import allocation_tracker
from ttmem.collect.client import AllocationClient
from ttmem.collect.graph_tracker import GraphTracker
from ttmem.model.core_sets import CoreRange
from ttmem.model.kinds import Kind

GRID, LEFT = CoreRange(0, 0, 7, 7), CoreRange(0, 0, 3, 7)
CHIP = "assumed:0"
KIB = 1024


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> Heard:
    heard = Heard()
    monkeypatch.setattr(GraphTracker, "_instance", heard.tracker)
    return heard


def test_kernels(heard: Heard) -> None:
    allocation_tracker.report_kernel_allocation(0, 100 * KIB * 80, 5)
    allocation_tracker.report_kernel_allocation(1, 56 * KIB, 5)
    assert heard.used(CHIP, Kind.KERNEL) == 8000 * KIB
    allocation_tracker.report_kernel_deallocation(0, 5)
    assert heard.used(CHIP, Kind.KERNEL) == 0
    assert heard.used("assumed:1", Kind.KERNEL) == 56 * KIB


@pytest.mark.parametrize("cores", [LEFT, [LEFT], "{[0-0 - 3-7]}"])
def test_circular_buffers_count_on_each_core(heard: Heard, cores: object) -> None:
    allocation_tracker.report_cb_allocation(0, 4096, 16, cores)  # type: ignore[arg-type]
    assert heard.used(CHIP, Kind.CB) == 4096 * 32
    allocation_tracker.report_cb_deallocation(0, 16, cores)  # type: ignore[arg-type]
    assert heard.used(CHIP, Kind.CB) == 0
    assert not heard.ledger.anomalies


def test_one_index_on_different_cores_is_two_buffers(heard: Heard) -> None:
    right = CoreRange(4, 0, 7, 7)
    allocation_tracker.report_cb_allocation(0, 100, 0, LEFT)
    allocation_tracker.report_cb_allocation(0, 200, 0, right)
    allocation_tracker.report_cb_deallocation(0, 0, LEFT)
    assert heard.used(CHIP, Kind.CB) == 200 * 32


@pytest.mark.parametrize("cores", ["nonsense", [CoreRange(5, 0, 1, 0)], None, []])
def test_nonsense_is_counted(heard: Heard, cores: object) -> None:
    allocation_tracker.report_cb_allocation(0, 4096, 0, cores)  # type: ignore[arg-type]
    assert heard.events == []
    assert heard.rejected == 1


@pytest.mark.parametrize("size", [0, -1, 1 << 64])
def test_sizes_that_are_none(heard: Heard, size: int) -> None:
    allocation_tracker.report_kernel_allocation(0, size, 1)
    allocation_tracker.report_cb_allocation(0, size, 1, GRID)
    assert heard.events == []
    assert heard.rejected == 2


@pytest.mark.parametrize("enabled", [True, False])
def test_whether_it_reports(monkeypatch: pytest.MonkeyPatch, enabled: bool) -> None:
    monkeypatch.setattr(GraphTracker, "_instance", GraphTracker(AllocationClient(enabled=enabled)))
    assert allocation_tracker.is_tracking_enabled() is enabled


@pytest.mark.parametrize(("value", "enabled"), [("1", True), ("0", False), ("yes", False), (None, False)])
def test_the_variable_that_turns_it_on(monkeypatch: pytest.MonkeyPatch, value: str | None, enabled: bool) -> None:
    monkeypatch.setattr(GraphTracker, "_instance", None)
    if value is None:
        monkeypatch.delenv("TT_ALLOC_TRACKING_ENABLED", raising=False)
    else:
        monkeypatch.setenv("TT_ALLOC_TRACKING_ENABLED", value)
    assert allocation_tracker.is_tracking_enabled() is enabled

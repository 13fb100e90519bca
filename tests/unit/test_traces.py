# SPDX-License-Identifier: Apache-2.0
"""Buffers of captured traces, in a trace region and without one."""

from __future__ import annotations

import pytest

from ttmem.model.geometry import BOARDS
from ttmem.model.kinds import Kind
from ttmem.sim.allocator import Allocator
from ttmem.sim.errors import SimError, TraceRegionTooSmall
from ttmem.sim.traces import Trace, Traces

TOP = 1073741824  # of a DRAM bank
BASE = 1048640


def device(trace_region_size: int = 0) -> tuple[Allocator, Traces]:
    memory = Allocator(BOARDS["n150"], dram_base=BASE, dram_alignment=32, trace_region_size=trace_region_size)
    return memory, Traces(memory, mesh=3)


def capture(traces: Traces, size: int) -> Trace:
    traces.begin()
    return traces.end(size)


def test_traces_share_the_region() -> None:
    memory, traces = device(3 * 12 * 1024 + 1)
    region = memory.blocks(Kind.TRACE).base
    first, second = capture(traces, 12 * 1024), capture(traces, 12 * 1000)
    assert (first.kind, first.address, second.address) == (Kind.TRACE, region, region + 1024)
    assert memory.reserved(Kind.TRACE) == 2 * 12 * 1024
    with pytest.raises(TraceRegionTooSmall) as error:
        capture(traces, 12 * 1024 + 33)  # seven pages of 2048 B: a row of them wastes no more than two of 1024 B
    assert str(error.value) == (
        "Creating trace buffers of size 38912B on MeshDevice 3, but only 36896B is allocated for trace region."
    )
    traces.release(first)
    assert memory.reserved(Kind.TRACE) == 12 * 1024
    assert capture(traces, 12 * 1024).address == region


def test_without_a_region_they_lie_at_the_top_of_dram() -> None:
    memory, traces = device()
    trace = capture(traces, 12 * 1024)
    assert (trace.kind, trace.address) == (Kind.DRAM, TOP - 1024)
    traces.release(trace)
    assert memory.reserved(Kind.DRAM) == 0


def test_what_happens_low_in_dram_does_no_harm() -> None:
    memory, traces = device()
    traces.begin()
    memory.free(Kind.DRAM, memory.allocate(Kind.DRAM, memory.need_bytes(Kind.DRAM, 12 * 2048, 2048)))
    trace = traces.end(12 * 1024)
    assert trace.address == TOP - 1024
    assert trace.mark == BASE + 2048


def test_a_replay_must_not_write_over_its_trace() -> None:
    memory, traces = device()
    need = memory.need_bytes(Kind.DRAM, 12 * 2048, 2048)
    traces.begin()
    memory.allocate(Kind.DRAM, need, bottom_up=False)
    with pytest.raises(SimError) as allocated:
        traces.end(12 * 1024)
    assert str(allocated.value) == (
        f"Trace buffer at address {TOP - 3072} overlaps with buffers allocated during trace capture (allocation high "
        f"water mark: {TOP}). Reduce allocations during trace capture or set a non-zero trace_region_size."
    )
    assert memory.reserved(Kind.DRAM) == 12 * 2048  # the trace's own buffer is gone

    traces.begin()
    memory.free(Kind.DRAM, TOP - 2048)
    with pytest.raises(SimError) as freed:
        traces.end(12 * 1024)
    assert str(freed.value) == (
        f"Trace buffer at address {TOP - 1024} overlaps with buffers deallocated during trace capture (deletion high "
        f"water mark: {TOP}). Avoid deallocating DRAM buffers during trace capture or set a non-zero trace_region_size."
    )

    traces.begin()
    memory.free(Kind.DRAM, memory.allocate(Kind.DRAM, need, bottom_up=False))
    with pytest.raises(SimError) as both:
        traces.end(12 * 1024)
    assert str(both.value) == (
        f"Trace buffer at address {TOP - 1024} overlaps with DRAM activity during trace capture. Allocation high water "
        f"mark: {TOP}, Deletion high water mark: {TOP}. Reduce allocations during trace capture or set a non-zero "
        "trace_region_size."
    )


def test_nor_over_another_trace() -> None:
    memory, traces = device()
    most = (TOP - BASE - 4096) * 12
    traces.begin()
    large = memory.allocate(Kind.DRAM, memory.need_bytes(Kind.DRAM, most, 2048))
    first = traces.end(12 * 1024)  # above what it allocated
    memory.free(Kind.DRAM, large)
    assert first.mark > BASE + most // 12 - 2048
    with pytest.raises(SimError) as error:
        capture(traces, 12 * 8192)
    assert str(error.value) == (
        f"Trace buffer at address {first.address - 8192} overlaps with DRAM activity captured by another live trace "
        f"(maximum live trace high water mark: {first.mark}). Release the existing trace before capturing this trace "
        "or set a non-zero trace_region_size."
    )
    traces.release(first)
    assert capture(traces, 12 * 8192).address == TOP - 8192

# SPDX-License-Identifier: Apache-2.0
"""The buffers that captured traces take: in the trace region, or at the top of DRAM if there is none."""

from __future__ import annotations

from typing import NamedTuple

from ttmem.model.kinds import Kind
from ttmem.sim.allocator import Allocator, Marks
from ttmem.sim.errors import SimError, TraceRegionTooSmall
from ttmem.sim.free_list import round_up
from ttmem.sim.tensors import BufferNeed, trace_page_size

_REMEDY = "or set a non-zero trace_region_size."


class Trace(NamedTuple):
    """A captured trace; `mark` is the highest DRAM address that its replay may write to."""

    kind: Kind
    address: int
    need: BufferNeed
    mark: int


class Traces:
    """The live traces of a mesh device."""

    def __init__(self, allocator: Allocator, mesh: int) -> None:
        self._allocator = allocator
        self._mesh = mesh
        self._live: list[Trace] = []

    def begin(self) -> None:
        """Start a capture: DRAM writes from now on are repeated at each replay."""
        self._allocator.begin_capture()

    def end(self, size: int) -> Trace:
        """End the capture and allocate a buffer for the recorded bytes."""
        marks = self._allocator.end_capture()
        page = trace_page_size(size, self._allocator.banks(Kind.DRAM))
        padded = round_up(size, page)
        trace = (
            self._in_region(padded, page) if self._allocator.trace_region_size else self._in_dram(padded, page, marks)
        )
        self._live.append(trace)
        return trace

    def release(self, trace: Trace) -> None:
        self._live.remove(trace)
        self._allocator.free(trace.kind, trace.address)

    def _in_region(self, size: int, page: int) -> Trace:
        together = size + sum(trace.need.total for trace in self._live)
        region = self._allocator.trace_region_size
        if together > region:
            raise TraceRegionTooSmall(
                f"Creating trace buffers of size {together}B on MeshDevice {self._mesh}, "
                f"but only {region}B is allocated for trace region."
            )
        need = self._allocator.need_bytes(Kind.TRACE, size, page)
        return Trace(Kind.TRACE, self._allocator.allocate(Kind.TRACE, need), need, 0)

    def _in_dram(self, size: int, page: int, marks: Marks) -> Trace:
        need = self._allocator.need_bytes(Kind.DRAM, size, page)
        address = self._allocator.allocate(Kind.DRAM, need, bottom_up=False)
        others = max((trace.mark for trace in self._live), default=0)
        problem = _overlap(address, marks, others)
        if problem is not None:
            self._allocator.free(Kind.DRAM, address)
            raise SimError(f"Trace buffer at address {address} overlaps with {problem}")
        return Trace(Kind.DRAM, address, need, max(marks))


def _overlap(address: int, marks: Marks, others: int) -> str | None:
    """The buffer that a replay would overwrite, if any."""
    if address < min(marks):
        return (
            f"DRAM activity during trace capture. Allocation high water mark: {marks.allocated}, "
            f"Deletion high water mark: {marks.freed}. Reduce allocations during trace capture {_REMEDY}"
        )
    if address < marks.freed:
        return (
            f"buffers deallocated during trace capture (deletion high water mark: {marks.freed}). "
            f"Avoid deallocating DRAM buffers during trace capture {_REMEDY}"
        )
    if address < marks.allocated:
        return (
            f"buffers allocated during trace capture (allocation high water mark: {marks.allocated}). "
            f"Reduce allocations during trace capture {_REMEDY}"
        )
    if address < others:
        return (
            f"DRAM activity captured by another live trace (maximum live trace high water mark: {others}). "
            f"Release the existing trace before capturing this trace {_REMEDY}"
        )
    return None

# SPDX-License-Identifier: Apache-2.0
"""Computes the exact L1 needs of a ``ttnn.ProgramDescriptor`` before the program runs."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

from ttmem.collect.client import AllocationClient
from ttmem.collect.ttnn_graph import GraphPart, placed
from ttmem.model.core_sets import CoreRange, cores_of, mask_of
from ttmem.model.kinds import Kind


class CircularBuffer(NamedTuple):
    """A circular buffer: ``size`` bytes on each of ``cores``, a mask; ``address`` is known if it lies in a tensor."""

    indices: tuple[int, ...]
    size: int
    cores: int
    shared: bool
    address: int | None

    @property
    def total(self) -> int:
        return self.size * self.cores.bit_count()


class Kernel(NamedTuple):
    """A kernel: its source, its role (``reader``, ``writer``, ``compute``, ...), and its cores as a mask."""

    source: str
    runs_as: str
    cores: int


class DescriptorSizes(NamedTuple):
    """The L1 needs of a program. The sizes of kernels are known only when they are compiled."""

    circular_buffers: list[CircularBuffer]
    kernels: list[Kernel]

    @property
    def total(self) -> int:
        """Bytes of circular buffers on all cores, without those that lie in tensors or global circular buffers."""
        return sum(buffer.total for buffer in self.circular_buffers if not buffer.shared)

    @property
    def fullest_core(self) -> int:
        """Bytes of circular buffers on the fullest core."""
        taken = Counter[tuple[int, int]]()
        for buffer in self.circular_buffers:
            if not buffer.shared:
                taken.update(dict.fromkeys(cores_of(buffer.cores), buffer.size))
        return max(taken.values(), default=0)

    def placed(self, base: int, unit: int) -> list[GraphPart]:
        """The circular buffers with the addresses ttnn will give them, without those that lie in tensors.

        ``base`` is the first address: ``ttnn._ttnn.reports.get_device_info(device).address_at_first_l1_cb_buffer``. All
        are multiples of ``unit``: ``ttnn.get_dram_alignment()``.
        """
        parts = [
            GraphPart(0, Kind.CB, buffer.address or 0, buffer.size, buffer.cores, buffer.shared)
            for buffer in self.circular_buffers
        ]
        return placed((), parts, base, unit)


def descriptor_sizes(descriptor: Any) -> DescriptorSizes:
    """The contents of a ``ttnn.ProgramDescriptor``. For a ``ttnn.MeshProgramDescriptor``, pass its single programs."""
    if not (hasattr(descriptor, "cbs") and hasattr(descriptor, "kernels")):
        raise TypeError(f"expected a ttnn.ProgramDescriptor, which has cbs and kernels, not {descriptor!r}")
    return DescriptorSizes(
        [_circular_buffer(buffer) for buffer in descriptor.cbs],
        [
            Kernel(kernel.kernel_source, _runs_as(kernel.config), _mask(kernel.core_ranges))
            for kernel in descriptor.kernels
        ],
    )


def report_descriptor(
    descriptor: Any,
    *,
    client: AllocationClient,
    device: int,
    program: int,
    base: int,
    unit: int,
    tag: str | None = None,
) -> DescriptorSizes:
    """Report the circular buffers of a program. They are held until ``client.report_program_destroyed``.

    ``program`` is a number that no other program of the client has; ``base`` and ``unit`` are as for ``placed``.
    Circular buffers in tensors add no bytes and kernels have no size yet, so they are not reported.
    """
    sizes = descriptor_sizes(descriptor)
    client.report_program_compiled(device_id=device, program=program, tag=tag)
    for part in sizes.placed(base, unit):
        client.report_cb_allocation(
            device_id=device, size=part.total, cb_id=part.address, program=program, cores=part.cores, tag=tag
        )
    return sizes


def _circular_buffer(buffer: Any) -> CircularBuffer:
    in_tensor = buffer.has_buffer()
    return CircularBuffer(
        tuple(form.buffer_index for form in (*buffer.format_descriptors, *buffer.remote_format_descriptors)),
        buffer.total_size,
        _mask(buffer.core_ranges),
        in_tensor or buffer.has_global_circular_buffer(),
        buffer.buffer_address() + buffer.address_offset if in_tensor else None,
    )


def _runs_as(config: Any) -> str:
    """``reader`` for a ReaderConfigDescriptor, and so on."""
    return type(config).__name__.removesuffix("ConfigDescriptor").lower()


def _mask(core_ranges: Any) -> int:
    return mask_of(CoreRange(r.start.x, r.start.y, r.end.x, r.end.y) for r in core_ranges.ranges())

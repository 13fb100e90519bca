# SPDX-License-Identifier: Apache-2.0
"""The exact L1 needs of a program that is given to ttnn as a ``ttnn.ProgramDescriptor``, before it has run."""

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
    """A kernel by its source, what runs it (``reader``, ``writer``, ``compute``, ...), and its cores, a mask."""

    source: str
    runs_as: str
    cores: int


class DescriptorSizes(NamedTuple):
    """What a program needs. The sizes of kernels are known only when they are compiled."""

    circular_buffers: list[CircularBuffer]
    kernels: list[Kernel]

    @property
    def total(self) -> int:
        """Bytes of circular buffers on all cores, without those that lie in tensors or global circular buffers."""
        return sum(buffer.total for buffer in self.circular_buffers if not buffer.shared)

    @property
    def fullest_core(self) -> int:
        """Bytes of circular buffers on the core that has the most."""
        taken = Counter[tuple[int, int]]()
        for buffer in self.circular_buffers:
            if not buffer.shared:
                taken.update(dict.fromkeys(cores_of(buffer.cores), buffer.size))
        return max(taken.values(), default=0)

    def placed(self, base: int, unit: int) -> list[GraphPart]:
        """The circular buffers with the addresses ttnn will give them, without those that lie in tensors.

        ``base`` is the first: ``ttnn._ttnn.reports.get_device_info(device).address_at_first_l1_cb_buffer``. All are
        multiples of ``unit``: ``ttnn.get_dram_alignment()``.
        """
        parts = [
            GraphPart(0, Kind.CB, buffer.address or 0, buffer.size, buffer.cores, buffer.shared)
            for buffer in self.circular_buffers
        ]
        return placed((), parts, base, unit)


def descriptor_sizes(descriptor: Any) -> DescriptorSizes:
    """What is in a ``ttnn.ProgramDescriptor``. Of a ``ttnn.MeshProgramDescriptor`` give the single programs."""
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
    """Report a program's circular buffers. It holds them until ``client.report_program_destroyed``.

    ``program`` is any number that the client's other programs do not have; ``base`` and ``unit`` are as for
    ``placed``. What lies in tensors adds nothing and kernels have no size yet: neither is reported.
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

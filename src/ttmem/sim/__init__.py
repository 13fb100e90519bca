# SPDX-License-Identifier: Apache-2.0
"""A small, faithful model of TT-Metal's memory: the addresses, totals and errors of ttnn, without ttnn or hardware.

>>> from ttmem import sim
>>> device = sim.create_device(0, "n150")
>>> weights = sim.create_buffer(sim.InterleavedBufferConfig(device, 1 << 20, 2048, sim.Kind.DRAM), tag="weights")
>>> weights.address
1048640
>>> sim.get_memory_view(device, sim.Kind.DRAM).total_bytes_allocated_per_bank
88064
>>> sim.close_device(device)
"""

from __future__ import annotations

from pathlib import Path

from ttmem.model.core_sets import CoreRange
from ttmem.model.kinds import Kind
from ttmem.sim import reports
from ttmem.sim.allocator import MemoryView
from ttmem.sim.board_types import MACHINES
from ttmem.sim.buffer import (
    Buffer,
    InterleavedBufferConfig,
    MeshBuffer,
    ReplicatedBufferConfig,
    ShardedBufferConfig,
    allocate_tensor,
    create_buffer,
    deallocate_buffer,
)
from ttmem.sim.device import AnyDevice, Device, close_device, create_device
from ttmem.sim.errors import Clash, OutOfMemory, RingTooSmall, SimError, TraceRegionTooSmall
from ttmem.sim.kernels import Kernel, compute_kernel, data_movement_kernel
from ttmem.sim.mesh import MeshDevice, create_mesh_device
from ttmem.sim.program import CircularBufferConfig, SimProgram, create_circular_buffer, launch_program
from ttmem.sim.tensors import Dtype, Layout, MemoryConfig, MemoryLayout, TensorSpec

__all__ = [
    "MACHINES",
    "AnyDevice",
    "Buffer",
    "CircularBufferConfig",
    "Clash",
    "CoreRange",
    "Device",
    "Dtype",
    "InterleavedBufferConfig",
    "Kernel",
    "Kind",
    "Layout",
    "MemoryConfig",
    "MemoryLayout",
    "MemoryView",
    "MeshBuffer",
    "MeshDevice",
    "OutOfMemory",
    "ReplicatedBufferConfig",
    "RingTooSmall",
    "ShardedBufferConfig",
    "SimError",
    "SimProgram",
    "TensorSpec",
    "TraceRegionTooSmall",
    "allocate_tensor",
    "close_device",
    "compute_kernel",
    "create_buffer",
    "create_circular_buffer",
    "create_device",
    "create_mesh_device",
    "data_movement_kernel",
    "deallocate_buffer",
    "dump_device_memory_state",
    "get_memory_view",
    "launch_program",
]


def get_memory_view(device: AnyDevice, buffer_type: Kind) -> MemoryView:
    """The allocator's numbers for one kind of memory, as from ``ttnn.get_memory_view``."""
    device.check_open()
    return device.allocator.view(buffer_type)


def dump_device_memory_state(device: AnyDevice, prefix: str = "", folder: str | Path = ".") -> None:
    """Write tt-metal's three memory reports below ``folder/generated/reports``."""
    reports.dump_device_memory_state(device.allocator, Path(folder), prefix)

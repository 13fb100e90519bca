# SPDX-License-Identifier: Apache-2.0
"""The operations that the workloads use: programs with circular buffers and kernels of plausible sizes."""

from __future__ import annotations

from collections.abc import Sequence

from ttmem.model.core_sets import CoreRange
from ttmem.sim.kernels import compute_kernel, data_movement_kernel
from ttmem.sim.program import CircularBufferConfig, SimProgram, create_circular_buffer

BF16_TILE_BYTES, BF8_TILE_BYTES, F32_TILE_BYTES = 2048, 1088, 4096


def operation(
    name: str,
    cores: Sequence[CoreRange],
    buffers: Sequence[tuple[int, int]],
    *,
    compute: tuple[int, int, int] = (6896, 6012, 4244),
    reader: int = 7188,
    writer: int = 3148,
) -> SimProgram:
    """A reader, a writer and a compute kernel on some cores, with circular buffers of (tiles, tile size)."""
    program = SimProgram(name)
    for index, (tiles, tile_size) in enumerate(buffers):
        create_circular_buffer(program, cores, CircularBufferConfig(tiles, tile_size, index))
    program.add_kernel(data_movement_kernel(f"{name}_reader", reader, "ncrisc", args=8), cores)
    program.add_kernel(data_movement_kernel(f"{name}_writer", writer, "brisc", args=6), cores)
    program.add_kernel(compute_kernel(f"{name}_compute", compute, args=4), cores)
    return program


def matmul(name: str, cores: Sequence[CoreRange], *, block: int = 8) -> SimProgram:
    """Two inputs, double buffered, an output, and partial sums in full precision."""
    buffers = [
        (2 * block, BF16_TILE_BYTES),
        (2 * block, BF8_TILE_BYTES),
        (block, BF16_TILE_BYTES),
        (block, F32_TILE_BYTES),
    ]
    return operation(name, cores, buffers, compute=(4716, 1380, 6792), reader=5848, writer=6724)


def eltwise(name: str, cores: Sequence[CoreRange]) -> SimProgram:
    return operation(name, cores, [(2, BF16_TILE_BYTES), (2, BF16_TILE_BYTES), (2, BF16_TILE_BYTES)])

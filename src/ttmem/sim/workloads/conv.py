# SPDX-License-Identifier: Apache-2.0
"""A convolutional net: sharded activations in L1, and for each layer's program a halo table in L1_SMALL."""

from __future__ import annotations

from ttmem.model.kinds import Kind
from ttmem.sim.buffer import Buffer, allocate_tensor
from ttmem.sim.program import CircularBufferConfig, SimProgram, create_circular_buffer
from ttmem.sim.tensors import Dtype, Layout, MemoryConfig, MemoryLayout, TensorSpec
from ttmem.sim.workloads import HELD, Steps, WorkerPart
from ttmem.sim.workloads.operations import BF16_TILE_BYTES, operation

_CHANNELS = (64, 64, 128, 128, 256)


def run(part: WorkerPart, rounds: int) -> Steps:
    with part.open(l1_small_size=32768) as device:
        yield "opened the device"
        cores = device.allocator.geometry.cores
        weights, tables = [], []
        for layer, channels in enumerate(_CHANNELS):
            weights.append(allocate_tensor(device, TensorSpec((channels * 9, channels)), tag=f"conv{layer}.weight"))
            table = MemoryConfig(MemoryLayout.HEIGHT_SHARDED, (1, 256 + 64 * layer), cores)
            spec = TensorSpec((cores, 256 + 64 * layer), Dtype.UINT16, Layout.ROW_MAJOR, table)
            tables.append(allocate_tensor(device, spec, Kind.L1_SMALL, tag=f"conv{layer} halo"))
            yield f"loaded layer {layer}"
        for image in range(rounds):
            before = None
            for layer, channels in enumerate(_CHANNELS):
                shard = MemoryConfig(MemoryLayout.HEIGHT_SHARDED, (64, channels), cores)
                spec = TensorSpec((64 * cores, channels), memory=shard)
                after = allocate_tensor(device, spec, Kind.L1, tag=f"conv{layer} output")
                device.run(("conv", layer), lambda out=after, layer=layer: _conv(out, layer))  # type: ignore[misc]
                before = after  # frees the output of the previous layer
            yield f"classified image {image + 1}"
            if image == rounds - 1:
                yield HELD
            del before, after
            device.clear_program_cache()  # its circular buffers are inside freed outputs
        weights.clear()
        tables.clear()
        yield "freed everything"


def _conv(output: Buffer, layer: int) -> SimProgram:
    """The result is written directly to the output: a circular buffer inside an L1 buffer."""
    grid = output.device.grid
    program = operation(f"conv{layer}", grid, [(8, BF16_TILE_BYTES), (18, BF16_TILE_BYTES)])
    tiles = output.need.per_bank // BF16_TILE_BYTES
    create_circular_buffer(program, grid, CircularBufferConfig(tiles, BF16_TILE_BYTES, 16), buffer=output)
    return program

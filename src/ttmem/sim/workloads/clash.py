# SPDX-License-Identifier: Apache-2.0
"""A clash: programs with larger and larger circular buffers below a large L1 buffer, until they overlap."""

from __future__ import annotations

import itertools

from ttmem.model.kinds import Kind
from ttmem.sim.buffer import InterleavedBufferConfig, create_buffer
from ttmem.sim.errors import Clash
from ttmem.sim.workloads import HELD, Steps, WorkerPart
from ttmem.sim.workloads.operations import matmul

_PAGE_BYTES = 2048


def run(part: WorkerPart, rounds: int) -> Steps:
    with part.open() as device:
        yield "opened the device"
        allocator = device.allocator
        size = allocator.statistics(Kind.L1).size * 3 // 4 // _PAGE_BYTES * _PAGE_BYTES * allocator.banks(Kind.L1)
        activation = create_buffer(InterleavedBufferConfig(device, size, _PAGE_BYTES, Kind.L1), tag="activation")
        yield f"an L1 buffer down to {activation.address:#x}"
        try:
            for block in itertools.count(4, 4):
                device.run(block, lambda block=block: matmul(f"matmul_{block}", device.grid, block=block))  # type: ignore[misc]
                yield f"launched with blocks of {block} tiles"
        except Clash as error:
            yield str(error)
        yield HELD

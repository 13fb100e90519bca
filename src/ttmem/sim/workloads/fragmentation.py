# SPDX-License-Identifier: Apache-2.0
"""Fragmentation: every other buffer of a full L1 is freed.

Half of L1 is free, but a buffer three times as large does not fit.
"""

from __future__ import annotations

from ttmem.model.kinds import Kind
from ttmem.sim.buffer import InterleavedBufferConfig, create_buffer
from ttmem.sim.errors import OutOfMemory
from ttmem.sim.workloads import HELD, Steps, WorkerPart

_PIECES, _PAGE_BYTES = 16, 2048


def run(part: WorkerPart, rounds: int) -> Steps:
    with part.open() as device:
        yield "opened the device"
        bank = device.allocator.statistics(Kind.L1).size
        pages = device.allocator.banks(Kind.L1) * (bank // _PIECES // _PAGE_BYTES)
        pieces = []
        for number in range(_PIECES):
            piece = InterleavedBufferConfig(device, pages * _PAGE_BYTES, _PAGE_BYTES, Kind.L1)
            pieces.append(create_buffer(piece, tag=f"piece {number}"))
            yield f"took piece {number + 1} of {_PIECES}"
        for number in range(0, _PIECES, 2):
            pieces[number].deallocate()
            yield f"freed piece {number + 1}"
        try:
            create_buffer(
                InterleavedBufferConfig(device, 3 * pages * _PAGE_BYTES, _PAGE_BYTES, Kind.L1), tag="three pieces"
            )
        except OutOfMemory as error:
            yield str(error)
        yield HELD

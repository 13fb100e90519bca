# SPDX-License-Identifier: Apache-2.0
"""One matrix multiplication on one core: three tensors in DRAM, one program."""

from __future__ import annotations

from ttmem.model.core_sets import CoreRange
from ttmem.sim.buffer import allocate_tensor
from ttmem.sim.program import launch_program
from ttmem.sim.tensors import TensorSpec
from ttmem.sim.workloads import HELD, Steps, WorkerPart
from ttmem.sim.workloads.operations import matmul


def run(part: WorkerPart, rounds: int) -> Steps:
    with part.open() as device:
        yield "opened the device"
        a = allocate_tensor(device, TensorSpec((640, 640)), tag="a")
        yield "put a into DRAM"
        b = allocate_tensor(device, TensorSpec((640, 640)), tag="b")
        yield "put b into DRAM"
        out = allocate_tensor(device, TensorSpec((640, 640)), tag="out")
        yield "made room for the result"
        program = matmul("matmul_single_core", [CoreRange(0, 0, 0, 0)], block=2)
        for number in range(rounds):
            launch_program(device, program)
            yield f"launched the program, launch {number + 1}"
        yield HELD
        for tensor in (a, b, out):
            tensor.deallocate()
        program.destroy()
        yield "freed everything"

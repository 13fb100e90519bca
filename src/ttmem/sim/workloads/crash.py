# SPDX-License-Identifier: Apache-2.0
"""A crash: the process is killed with SIGKILL while it holds memory of every kind."""

from __future__ import annotations

import os
import signal

from ttmem.model.kinds import Kind
from ttmem.sim.buffer import allocate_tensor
from ttmem.sim.tensors import TensorSpec
from ttmem.sim.workloads import Steps, WorkerPart
from ttmem.sim.workloads.operations import matmul


def run(part: WorkerPart, rounds: int) -> Steps:
    with part.open(system_dram=14 << 20) as device:
        yield "opened the device"
        kept = []
        for number in range(rounds):
            kept.append(allocate_tensor(device, TensorSpec((4096, 4096)), tag=f"weight {number}"))
            kept.append(allocate_tensor(device, TensorSpec((256, 1024)), Kind.L1, tag=f"activation {number}"))
            device.run(number, lambda: matmul("matmul", device.grid))
            yield f"round {number + 1} done"
        os.kill(os.getpid(), signal.SIGKILL)
        yield "never said"

# SPDX-License-Identifier: Apache-2.0
"""A leak: every round makes two tensors and forgets to free one of them."""

from __future__ import annotations

from ttmem.model.kinds import Kind
from ttmem.sim.buffer import allocate_tensor
from ttmem.sim.tensors import TensorSpec
from ttmem.sim.workloads import HELD, Steps, WorkerPart
from ttmem.sim.workloads.operations import eltwise

_SPEC = TensorSpec((512, 1024))


def run(part: WorkerPart, rounds: int) -> Steps:
    with part.open(system_dram=14 << 20) as device:
        yield "opened the device"
        seen = []  # kept for statistics that are never computed
        for number in range(rounds):
            hidden = allocate_tensor(device, _SPEC, Kind.L1, tag="hidden state")
            logits = allocate_tensor(device, _SPEC, tag="logits")
            device.run("add", lambda: eltwise("add", device.grid))
            seen.append(logits)
            del hidden, logits
            yield f"round {number + 1} done"
        device.clear_program_cache()
        yield "freed all but what was forgotten"
        yield HELD

# SPDX-License-Identifier: Apache-2.0
"""A ttnn program that queries its own memory: the current allocations, and the memory of each phase.

    ttmem run -- python examples/phases.py

Without `ttmem run` or `ttmem env`, phases measure nothing and `memory_allocated` raises `ttmem.NoMeter`.
"""

import sys

import ttnn

import ttmem

device = ttnn.open_device(device_id=0)


def tensor(side: int, memory: ttnn.MemoryConfig) -> ttnn.Tensor:
    return ttnn.empty([1, 1, side, side], ttnn.bfloat16, ttnn.TILE_LAYOUT, device, memory)


with ttmem.phase("load") as load:
    weights = tensor(1024, ttnn.DRAM_MEMORY_CONFIG)

with ttmem.phase("prefill") as prefill:
    hidden = ttnn.matmul(weights, weights)
    with ttmem.phase("attention") as attention:  # nested: its path is prefill/attention
        scores = tensor(512, ttnn.L1_MEMORY_CONFIG)
        del scores

try:
    print("DRAM now:", ttmem.memory_allocated(device=0, kind="dram"), "B")
except ttmem.NoMeter as error:
    sys.exit(str(error))
for phase in (load, prefill, attention):
    print(f"{phase.name}: DRAM {phase.delta('dram'):+} B, L1 buffers at most {phase.peak('l1')} B")

del weights, hidden
ttnn.close_device(device)

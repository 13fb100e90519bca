# SPDX-License-Identifier: Apache-2.0
"""A service that reports its memory, and prints how much each request takes.

    ttmem serve &
    eval "$(ttmem env)"                                  in the service's shell, or its unit file, or its pod
    printf 'first\nsecond\n' | python examples/service.py

`ttmem top` and `ttmem smi` show it while it runs. If it is killed, they show what it held.
"""

import sys

import ttnn

import ttmem

device = ttnn.open_device(device_id=0)
weights = ttnn.empty([1, 1, 1024, 1024], ttnn.bfloat16, ttnn.TILE_LAYOUT, device, ttnn.DRAM_MEMORY_CONFIG)


def answer(request: str) -> str:
    hidden = ttnn.empty([1, 1, 32, 1024], ttnn.bfloat16, ttnn.TILE_LAYOUT, device, ttnn.L1_MEMORY_CONFIG)
    return f"{request}: {list(ttnn.matmul(hidden, weights).shape)}"


print("ready", flush=True)
for number, line in enumerate(sys.stdin):
    with ttmem.phase(f"request {number}") as phase:
        text = answer(line.strip())
    kept = phase.delta("dram")
    print(text, "" if kept is None else f"(keeps {kept} B of DRAM)", flush=True)
ttnn.close_device(device)

# SPDX-License-Identifier: Apache-2.0
"""Cached ttnn operations, alternately with and without the agent's hooks, in one process; prints nanoseconds.

Each line is a pair of neighbouring blocks, one with and one without, in random order. A block frees what it
allocates, so the agent never sees a free without its allocation.
"""

from __future__ import annotations

import ctypes
import gc
import os
import random
import sys
import time

import ttnn

OPERATIONS = 20  # short blocks, because the speed of a machine changes within milliseconds


def main() -> None:
    pairs, library = int(sys.argv[1]), os.environ["LD_PRELOAD"]
    pause = ctypes.CDLL(library).ttmem_agent_pause
    device = ttnn.open_device(device_id=0)
    shape = {"dtype": ttnn.bfloat16, "layout": ttnn.TILE_LAYOUT, "device": device}
    left, right = (ttnn.zeros([1, 1, 128, 128], **shape) for _ in range(2))

    def block(off: bool) -> int:
        pause(int(off))
        start = time.perf_counter_ns()
        for _ in range(OPERATIONS // 2):
            ttnn.deallocate(ttnn.add(left, right))
            ttnn.deallocate(ttnn.relu(left))
        spent = time.perf_counter_ns() - start
        pause(0)
        return spent

    for _ in range(10):
        block(False)
    gc.disable()
    for _ in range(pairs):
        order = random.sample([False, True], 2)
        spent = {off: block(off) for off in order}
        print(spent[False] / OPERATIONS, spent[True] / OPERATIONS, flush=True)
    ttnn.close_device(device)


main()

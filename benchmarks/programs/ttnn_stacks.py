# SPDX-License-Identifier: Apache-2.0
"""Allocations and cached operations at a given stack depth, alternately with and without the agent; prints nanoseconds.

Each line has a name and a pair of neighbouring blocks, one with and one without, in random order. If the agent is
not loaded, both are without.
"""

from __future__ import annotations

import ctypes
import gc
import os
import random
import sys
import time
from collections.abc import Callable

import ttnn

OPERATIONS = 50


def main() -> None:
    pairs, depth = int(sys.argv[1]), int(sys.argv[2])
    library = os.environ.get("LD_PRELOAD")
    pause = ctypes.CDLL(library).ttmem_agent_pause if library else lambda off: None
    device = ttnn.open_device(device_id=0)
    shape = {"dtype": ttnn.bfloat16, "layout": ttnn.TILE_LAYOUT, "device": device}
    left, right = (ttnn.zeros([1, 1, 128, 128], **shape) for _ in range(2))

    def allocations() -> None:
        for _ in range(OPERATIONS):
            ttnn.deallocate(ttnn.empty([32, 32], **shape))

    def cached() -> None:
        for _ in range(OPERATIONS // 2):
            ttnn.deallocate(ttnn.add(left, right))
            ttnn.deallocate(ttnn.relu(left))

    def block(work: Callable[[], None], off: bool) -> float:
        pause(int(off))
        start = time.perf_counter_ns()
        work()
        spent = time.perf_counter_ns() - start
        pause(0)
        return spent / OPERATIONS

    def measure(work: Callable[[], None]) -> None:
        for _ in range(10):
            block(work, False)
        for _ in range(pairs):
            order = random.sample([False, True], 2)
            spent = {off: block(work, off) for off in order}
            print(work.__name__, spent[False], spent[True], flush=True)

    def deeper(left: int, work: Callable[[], None]) -> None:
        deeper(left - 1, work) if left else measure(work)

    gc.disable()
    for work in (allocations, cached):
        # The frames of ttnn, the work, block, measure and the caller are on the stack as well.
        deeper(max(0, depth - len(("__call__", "work", "block", "measure", "deeper", "main", "<module>"))), work)
    ttnn.close_device(device)


main()

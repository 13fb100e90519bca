# SPDX-License-Identifier: Apache-2.0
"""Cached ttnn operations, alternately plain and under ttmem.instrument(); prints microseconds per operation."""

from __future__ import annotations

import gc
import time

import ttnn

import ttmem

PAIRS, OPERATIONS = 20, 50


def main() -> None:
    device = ttnn.open_device(device_id=0)
    shape = {"dtype": ttnn.bfloat16, "layout": ttnn.TILE_LAYOUT, "device": device}
    left, right = (ttnn.zeros([1, 1, 128, 128], **shape) for _ in range(2))

    def block() -> float:
        start = time.perf_counter_ns()
        for _ in range(OPERATIONS // 2):
            ttnn.deallocate(ttnn.add(left, right))
            ttnn.deallocate(ttnn.relu(left))
        return (time.perf_counter_ns() - start) / OPERATIONS / 1000

    block()
    gc.disable()
    for _ in range(PAIRS):
        plain = block()
        with ttmem.instrument(device):
            block()  # the cost of its start is not part of an operation
            instrumented = block()
        print(plain, instrumented, flush=True)
    ttnn.close_device(device)


main()

# SPDX-License-Identifier: Apache-2.0
"""Loops of cached ttnn operations on one device or a mesh, for as long as asked; prints one JSON line for each loop.

Usage: ttnn_server_loop.py ROWS COLUMNS FABRIC. A line of standard input is `LOOP SECONDS STEP`. With a STEP other than
0, the loop keeps one more tensor of 1 MiB after each STEP seconds, and the answer has the times at which it did so:
a reader of the account can tell from the bytes of DRAM which moment the account describes.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from typing import Any

import ttnn

BLOCK = 20  # rounds between two looks at the clock
DISPATCH = ttnn.DispatchCoreConfig(ttnn.DispatchCoreType.WORKER)


def main() -> None:
    rows, columns, fabric = map(int, sys.argv[1:4])
    if fabric:
        ttnn.set_fabric_config(ttnn.FabricConfig.FABRIC_1D)
    if rows * columns > 1:
        device = ttnn.open_mesh_device(ttnn.MeshShape(rows, columns), dispatch_core_config=DISPATCH)
    else:
        device = ttnn.open_device(device_id=0)

    def new(height: int, width: int) -> Any:
        return ttnn.empty([1, 1, height, width], ttnn.bfloat16, ttnn.TILE_LAYOUT, device, ttnn.DRAM_MEMORY_CONFIG)

    left, right = new(128, 128), new(128, 128)

    def one() -> int:
        ttnn.deallocate(ttnn.add(left, right))
        return 1

    def two() -> int:
        ttnn.deallocate(ttnn.add(left, right))
        ttnn.deallocate(ttnn.relu(left))
        return 2

    def gather() -> int:
        ttnn.deallocate(ttnn.all_gather(left, dim=3, cluster_axis=1))
        ttnn.deallocate(ttnn.add(left, right))
        return 2

    loops = {"one": one, "two": two, "gather": gather}
    gc.disable()
    print(json.dumps({"chips": len(device.get_device_ids())}), flush=True)
    for line in sys.stdin:
        name, seconds, step = line.split()
        print(json.dumps(run(loops[name], float(seconds), float(step), lambda: new(1024, 512))), flush=True)
    (ttnn.close_mesh_device if rows * columns > 1 else ttnn.close_device)(device)


def run(operation: Any, seconds: float, step: float, new: Any) -> dict[str, Any]:
    kept: list[Any] = []
    times: list[float] = []
    operations = 0
    cpu, began = time.process_time(), time.monotonic()
    now = began
    while now < began + seconds:
        for _ in range(BLOCK):
            operations += operation()
        now = time.monotonic()
        if step and now > began + step * (len(kept) + 1):
            kept.append(new())
            times.append(time.monotonic())
    answer = {"operations": operations, "cpu": time.process_time() - cpu, "began": began, "times": times}
    kept.clear()
    return answer


main()

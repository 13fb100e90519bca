# SPDX-License-Identifier: Apache-2.0
"""Uses all chips of a machine, and what mock devices lack: traces, events, a second queue, collective operations.

Writes the properties of the machine and the state of its allocator at its fullest, as ttnn reports them, to a file.
Usage: ttnn_fit_board.py FILE ROWS COLUMNS
"""

from __future__ import annotations

import json
import sys
from typing import Any

import ttnn

DRAM, L1 = ttnn.DRAM_MEMORY_CONFIG, ttnn.L1_MEMORY_CONFIG


def zeros(device: Any, rows: int, memory: Any = DRAM) -> Any:
    return ttnn.zeros(
        [1, 1, rows, 512], dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device, memory_config=memory
    )


def view(device: Any, kind: Any) -> dict[str, int]:
    found = ttnn.get_memory_view(device, kind)
    return {
        "banks": found.num_banks,
        "size": found.total_bytes_per_bank,
        "used": found.total_bytes_allocated_per_bank,
        "largest": found.largest_contiguous_bytes_free_per_bank,
    }


def main(path: str, rows: int, columns: int) -> None:
    several = rows * columns > 1
    if several:
        ttnn.set_fabric_config(ttnn.FabricConfig.FABRIC_1D)
    mesh = ttnn.MeshShape(rows, columns)
    device = ttnn.open_mesh_device(mesh, num_command_queues=2, l1_small_size=32768, trace_region_size=1 << 20)
    grid = device.compute_with_storage_grid_size()
    weights = zeros(device, 512)
    cache = [zeros(device, 4096) for _ in range(8)]
    del cache[2]  # a gap that the last tensor does not fit into
    cache.append(zeros(device, 8192))
    kept = zeros(device, 512, L1)
    found = {
        "cluster": ttnn.cluster.get_cluster_type().name,
        "chips": device.get_num_devices(),
        "grid": [grid.x, grid.y],
        "DRAM": view(device, ttnn.BufferType.DRAM),
        "L1": view(device, ttnn.BufferType.L1),
    }
    del cache[4:]

    def step() -> Any:
        hidden = ttnn.matmul(weights, weights)
        return ttnn.softmax(ttnn.all_gather(hidden, dim=3, cluster_axis=1) if several else hidden)

    step()
    trace = ttnn.begin_trace_capture(device, cq_id=0)
    out = step()
    ttnn.end_trace_capture(device, trace, cq_id=0)
    event = ttnn.record_event(device, 1)
    ttnn.wait_for_event(0, event)
    ttnn.execute_trace(device, trace, cq_id=0, blocking=True)
    with ttnn.command_queue(1):
        ttnn.add(kept, kept)
    ttnn.event_synchronize(event)
    ttnn.from_device(out)
    ttnn.release_trace(device, trace)
    ttnn.close_mesh_device(device)
    with open(path, "w") as file:
        json.dump(found, file)


main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))

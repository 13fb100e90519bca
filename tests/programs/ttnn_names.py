# SPDX-License-Identifier: Apache-2.0
"""Says what ttnn knows of the device it opened, then calls operations in every way there is, and clears the cache."""

from __future__ import annotations

import threading
from typing import Any

import ttnn
from ttnn_bench import Reporter, close_board, open_board, parser


def geometry(device: Any) -> dict[str, int]:
    info = ttnn._ttnn.reports.get_device_info(device)
    dram = ttnn.get_memory_view(device, ttnn.BufferType.DRAM)
    return {
        "grid_x": info.num_x_compute_cores,
        "grid_y": info.num_y_compute_cores,
        "l1_size": info.worker_l1_size,
        "l1_base": info.address_at_first_l1_cb_buffer,
        "map_end": info.worker_l1_size - ttnn._ttnn.device.get_max_worker_l1_unreserved_size(),
        "dram_banks": dram.num_banks,
        "dram_base": ttnn.get_allocator_base_address(device, ttnn.BufferType.DRAM),
        "dram_usable": dram.total_bytes_per_bank,
        "l1_small_size": ttnn.get_memory_view(device, ttnn.BufferType.L1_SMALL).total_bytes_per_bank,
        "trace_size": ttnn.get_memory_view(device, ttnn.BufferType.TRACE).total_bytes_per_bank,
    }


def main() -> None:
    options = parser(__doc__)
    chosen = options.parse_args()
    report = Reporter(chosen.report_fd, chosen.ack_fd)
    device = open_board(chosen)
    report(what="open", geometry=geometry(device), chips=list(device.get_device_ids()))
    kept: list[Any] = []
    shape = {"dtype": ttnn.bfloat16, "layout": ttnn.TILE_LAYOUT, "device": device}

    def keep(name: str, tensor: Any) -> None:
        kept.append(tensor)
        report(what=name, address=tensor.buffer_address())

    keep("ttnn.zeros", ttnn.zeros([1, 1, 64, 64], **shape))
    keep("ttnn.ones", ttnn.ones([1, 1, 64, 64], **shape))
    keep("ttnn.matmul", ttnn.matmul(kept[0], kept[1]))
    keep("ttnn.add", kept[0] + kept[1])  # an operator, which ttnn makes an operation of
    try:
        ttnn.matmul(kept[0], None)
    except Exception:
        pass  # the operation ended, though not well
    keep("ttnn.relu", ttnn.relu(kept[0]))
    made: list[Any] = []
    thread = threading.Thread(target=lambda: made.append(ttnn.gelu(kept[0])))
    thread.start()
    thread.join()
    keep("ttnn.gelu", made[0])
    device.clear_program_cache()
    report(what="cleared", programs=device.num_program_cache_entries())
    close_board(chosen, device)
    report(what="close")


if __name__ == "__main__":
    main()

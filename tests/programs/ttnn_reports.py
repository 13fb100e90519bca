# SPDX-License-Identifier: Apache-2.0
"""Lets tt-metal write its memory reports of a few moments, and says what ttnn.get_memory_view says at each."""

from __future__ import annotations

from typing import Any

import ttnn
from ttnn_bench import Reporter, close_board, open_board, parser


def views(device: Any) -> dict[str, Any]:
    found = {}
    for name in ("DRAM", "L1", "L1_SMALL"):
        view = ttnn.get_memory_view(device, getattr(ttnn.BufferType, name))
        found[name.lower()] = {
            "banks": view.num_banks,
            "total": view.total_bytes_per_bank,
            "allocated": view.total_bytes_allocated_per_bank,
            "free": view.total_bytes_free_per_bank,
            "largest_free": view.largest_contiguous_bytes_free_per_bank,
            "blocks": [
                [int(block[key]) for key in ("blockID", "address", "size")] + [block["allocated"] == "yes"]
                for block in view.block_table
            ],
        }
    return found


def main() -> None:
    options = parser(__doc__)
    chosen = options.parse_args()
    report = Reporter(chosen.report_fd, chosen.ack_fd)
    device = open_board(chosen)
    ttnn._ttnn.device.EnableMemoryReports()

    def tensor(rows: int, memory: Any) -> Any:
        return ttnn.empty([1, 1, rows, 512], ttnn.bfloat16, ttnn.TILE_LAYOUT, device, memory)

    def moment(prefix: str) -> None:
        ttnn.dump_device_memory_state(device, prefix=prefix)
        report(prefix=prefix, views=views(device))

    moment("empty_")
    kept = [tensor(rows, ttnn.L1_MEMORY_CONFIG) for rows in (64, 2048, 128, 1024, 256)]
    kept += [tensor(4096, ttnn.DRAM_MEMORY_CONFIG)]
    moment("full_")
    for index in (3, 1):
        ttnn.deallocate(kept[index])
    moment("holes_")
    results = [ttnn.add(kept[0], kept[0]), ttnn.neg(kept[2])]
    moment("")
    for index in (0, 2, 4, 5):
        ttnn.deallocate(kept[index])
    for result in results:
        ttnn.deallocate(result)
    close_board(chosen, device)


if __name__ == "__main__":
    main()

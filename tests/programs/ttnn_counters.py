# SPDX-License-Identifier: Apache-2.0
"""Fills each kind of memory, act by act, and says what ttnn itself has allocated by then.

Every tensor has as many pages as all banks of its kind, or a multiple: what a bank holds times the banks is its size.
"""

from __future__ import annotations

import os
from typing import Any

import ttnn
from ttnn_bench import Reporter, account, close_board, open_board, parser

KINDS = ("DRAM", "L1", "L1_SMALL", "TRACE")
TILES = 1344  # the least multiple of 12, 56 and 64, which are the numbers of banks there are


def new(device: Any, kind: str) -> Any:
    grid = device.compute_with_storage_grid_size()
    rows, layout, shards = 1, ttnn.TensorMemoryLayout.INTERLEAVED, None
    if kind == "L1_SMALL":  # has room for little, and only in shards: one tile a core
        rows, layout = grid.x * grid.y, ttnn.TensorMemoryLayout.HEIGHT_SHARDED
        cores = ttnn.CoreRange(ttnn.CoreCoord(0, 0), ttnn.CoreCoord(grid.x - 1, grid.y - 1))
        shards = ttnn.ShardSpec(ttnn.CoreRangeSet({cores}), [32, 32], ttnn.ShardOrientation.ROW_MAJOR)
    memory = ttnn.MemoryConfig(layout, getattr(ttnn.BufferType, kind), shards)
    shape = ttnn.Shape([1, 1, 32 * rows, 32 * {"L1_SMALL": 1, "TRACE": 12}.get(kind, TILES)])
    return ttnn.allocate_tensor_on_device(shape, ttnn.bfloat16, ttnn.TILE_LAYOUT, device, memory)


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--acts", required=True, help="separated by commas: a kind, free, add, fork or exec")
    chosen = options.parse_args()
    report = Reporter(chosen.report_fd, chosen.ack_fd)
    device = open_board(chosen)
    report(act="open", pid=os.getpid(), **account(device, listed=False))
    held: list[Any] = []
    for act in chosen.acts.split(","):
        if act in KINDS:
            held.append(new(device, act))
        elif act == "free":
            held.clear()
        elif act == "add":
            held.append(ttnn.add(held[0], held[0], memory_config=ttnn.L1_MEMORY_CONFIG))
        elif act == "fork":
            child = os.fork()
            if child == 0:
                held.append(new(device, "DRAM"))
                report(act="child", pid=os.getpid())
                os._exit(0)
            os.waitpid(child, 0)
        elif act == "exec":
            line = f'echo \'{{"act": "exec"}}\' >/dev/fd/{chosen.report_fd}; exec cat /dev/fd/{chosen.ack_fd}'
            os.execv("/bin/sh", ["sh", "-c", line])
        else:
            raise SystemExit(f"there is no act {act!r}")
        report(act=act, pid=os.getpid(), **account(device, listed=False))
    held.clear()
    device.clear_program_cache()
    close_board(chosen, device)
    report(act="close", pid=os.getpid())


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""Tracking begins when the program has tensors already, which it frees afterwards; ttnn's account after each act.

``seen`` lists the buffers that were reported to the agent.
"""

from __future__ import annotations

import ctypes
from typing import Any

import ttnn
from ttnn_bench import Reporter, account, close_board, open_board, parser

DRAM, L1 = ttnn.DRAM_MEMORY_CONFIG, ttnn.L1_MEMORY_CONFIG


def main() -> None:
    chosen = parser(__doc__).parse_args()
    report = Reporter(chosen.report_fd, chosen.ack_fd)
    pause = ctypes.CDLL(None).ttmem_agent_pause
    pause(1)
    device = open_board(chosen)

    def new(memory: Any, rows: int) -> Any:
        return ttnn.zeros(
            [1, 1, rows, 64], dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device, memory_config=memory
        )

    earlier = [new(memory, rows) for memory in (DRAM, L1) for rows in (32, 64, 320, 640)]
    pause(0)
    own: list[Any] = []

    def show(what: str, freed: int) -> None:
        seen = sorted([tensor.memory_config().buffer_type.value, tensor.buffer_address()] for tensor in own)
        report(what=what, seen=seen, freed=freed, **account(device))

    earlier.pop()  # before the agent has seen the allocator at all
    own.append(new(L1, 96))
    show("begun", 1)
    own.append(ttnn.relu(earlier[1]))
    own += [new(memory, 32 * rows) for memory in (DRAM, L1) for rows in range(1, 9)]
    show("more", 1)
    del earlier[2:5]
    show("some are gone", 4)
    del own[3:7]
    show("some of its own, too", 4)
    earlier.clear()
    show("all from before are gone", 8)
    own.clear()
    show("all are gone", 8)
    close_board(chosen, device)


if __name__ == "__main__":
    main()

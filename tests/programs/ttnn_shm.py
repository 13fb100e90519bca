# SPDX-License-Identifier: Apache-2.0
"""Steps that ttnn's own shared-memory counters count wrongly."""

from __future__ import annotations

import threading
from typing import Any

import ttnn
from ttnn_bench import Reporter, close_board, open_board, parser

SIZE = 256 * 512 * 2


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--acts", required=True, help="separated by commas")
    chosen = options.parse_args()
    report = Reporter(chosen.report_fd, chosen.ack_fd)
    device = open_board(chosen)
    held: dict[str, Any] = {}

    def allocate(act: str) -> None:
        held[act] = ttnn.zeros(
            *([1, 1, 256, 512], ttnn.bfloat16, ttnn.TILE_LAYOUT, device),
            memory_config=ttnn.L1_MEMORY_CONFIG,
        )

    for act in chosen.acts.split(","):
        if act == "allocate":
            allocate(act)
        elif act == "allocate_on_a_thread":
            worker = threading.Thread(target=allocate, args=(act,))
            worker.start()
            worker.join()
        elif act == "free_what_the_thread_allocated":
            del held["allocate_on_a_thread"]
        elif act == "come_and_go":  # until the test has seen enough, in the thread that is counted
            waiting = threading.Thread(target=report, kwargs={"act": act, "size": SIZE})
            waiting.start()
            while waiting.is_alive():
                if held.pop(act, None) is None:
                    allocate(act)
                waiting.join(0.25)
            continue
        elif act == "run_a_program_with_dataflow_buffers":
            held[act] = ttnn.relu(held["allocate"], memory_config=ttnn.L1_MEMORY_CONFIG)
        elif act == "run_a_program_with_circular_buffers":
            held[act] = ttnn.add(held["allocate"], held["allocate"], memory_config=ttnn.L1_MEMORY_CONFIG)
        else:
            raise SystemExit(f"there is no act {act!r}")
        report(act=act, size=SIZE)
    held.clear()
    device.clear_program_cache()
    close_board(chosen, device)
    report(act="close", size=SIZE)


if __name__ == "__main__":
    main()

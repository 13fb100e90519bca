# SPDX-License-Identifier: Apache-2.0
"""Two worker processes, each with one of two chips that both call device 0; their accounts while both hold memory.

They hold it until each account was answered with a byte on standard input, or that has ended.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
from typing import Any


def work(number: int, answers: Any, seen: Any) -> None:
    import ttnn
    from ttnn_bench import L1_SMALL_SIZE, account

    device = ttnn.open_device(device_id=0, l1_small_size=L1_SMALL_SIZE)
    kept = [
        ttnn.zeros(
            [1, 1, 1024 if number else 64, 64],
            dtype=ttnn.bfloat16,
            layout=ttnn.TILE_LAYOUT,
            device=device,
            memory_config=memory,
        )
        for memory in (ttnn.DRAM_MEMORY_CONFIG, ttnn.L1_MEMORY_CONFIG)
    ]
    answers.put({"worker": number, "pid": os.getpid(), **account(device)})
    seen.wait()
    ttnn.close_device(device)
    kept.clear()


def main() -> None:
    spawn = multiprocessing.get_context("spawn")
    answers, seen = spawn.Queue(), spawn.Event()
    workers = []
    for number in range(2):
        os.environ["TT_VISIBLE_DEVICES"] = str(number)
        workers.append(spawn.Process(target=work, args=(number, answers, seen)))
        workers[-1].start()
    records = sorted((answers.get() for _ in workers), key=lambda record: record["worker"])
    for record in records:
        print(json.dumps(record), flush=True)
    sys.stdin.buffer.read(len(records))
    seen.set()
    for worker in workers:
        worker.join()
    raise SystemExit(max(worker.exitcode or 0 for worker in workers))


if __name__ == "__main__":
    main()

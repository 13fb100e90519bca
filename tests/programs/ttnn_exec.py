# SPDX-License-Identifier: Apache-2.0
"""Holds memory, becomes another program by exec without closing its device, and holds other memory as that."""

from __future__ import annotations

import os
import sys
from typing import Any

import ttnn
from ttnn_bench import Reporter, account, parser

ALIVE: list[Any] = []


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--second", action="store_true")
    chosen = options.parse_args()
    report = Reporter(chosen.report_fd, chosen.ack_fd)
    device = ttnn.open_device(device_id=0)
    ALIVE.append(device)
    for number in range(2 if chosen.second else 5):
        rows = (32 if chosen.second else 1024) * (number + 1)
        ALIVE.append(ttnn.empty([1, 1, rows, 64], ttnn.bfloat16, ttnn.TILE_LAYOUT, device))
    report(what="second" if chosen.second else "first", **account(device))
    if not chosen.second:
        os.execv(sys.executable, [sys.executable, *sys.argv, "--second"])
    os._exit(0)  # with all it has


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""Loads ttnn so that its libraries are bound past LD_PRELOAD: no agent can see what it allocates."""

from __future__ import annotations

import os
import sys

sys.setdlopenflags(os.RTLD_NOW | os.RTLD_DEEPBIND)

import ttnn  # noqa: E402
from ttnn_bench import Reporter, account, parser  # noqa: E402


def main() -> None:
    chosen = parser(__doc__).parse_args()
    report = Reporter(chosen.report_fd, chosen.ack_fd)
    device = ttnn.open_device(device_id=0)
    kept = ttnn.empty([1, 1, 64, 64], ttnn.bfloat16, ttnn.TILE_LAYOUT, device)
    report(what="kept", pid=os.getpid(), **account(device))
    ttnn.close_device(device)
    del kept


if __name__ == "__main__":
    main()

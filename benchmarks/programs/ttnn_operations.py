# SPDX-License-Identifier: Apache-2.0
"""So many cached ttnn operations, two in turn, each of which allocates its result and frees it again."""

from __future__ import annotations

import sys

import ttnn


def main() -> None:
    device = ttnn.open_device(device_id=0)
    shape = {"dtype": ttnn.bfloat16, "layout": ttnn.TILE_LAYOUT, "device": device}
    left, right = (ttnn.zeros([1, 1, 128, 128], **shape) for _ in range(2))
    for _ in range(int(sys.argv[1]) // 2):
        ttnn.deallocate(ttnn.add(left, right))
        ttnn.deallocate(ttnn.relu(left))
    ttnn.close_device(device)


main()

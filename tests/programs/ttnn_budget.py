# SPDX-License-Identifier: Apache-2.0
"""Asks for KV budgets in fragmented DRAM, allocates exactly that, and then one tile more. Reports what ttnn did."""

from __future__ import annotations

import json
import random
import sys
from typing import Any

import ttnn

import ttmem

TYPES = {2048: ttnn.bfloat16, 1088: ttnn.bfloat8_b, 4096: ttnn.float32}


def empty(device: Any, tiles: int, tile_bytes: int) -> Any:
    return ttnn.empty([1, 1, 32 * tiles, 32], dtype=TYPES[tile_bytes], layout=ttnn.TILE_LAYOUT, device=device)


def allocated(device: Any, sizes: list[int], tile_bytes: int) -> bool:
    """Whether tensors of so many tiles can all be allocated; they are freed again."""
    held = []
    try:
        held += [empty(device, tiles, tile_bytes) for tiles in sizes]
    except RuntimeError:
        return False
    finally:
        held.clear()
    return True


def main(path: str, rows: int, columns: int) -> None:
    chance = random.Random(7)
    device = ttnn.open_mesh_device(ttnn.MeshShape(rows, columns))
    cases = []
    for tensors, tile_bytes, reserve in ((1, 2048, 0), (1, 1088, 1 << 20), (6, 2048, 0), (64, 1088, 0), (3, 4096, 0)):
        weights = [empty(device, chance.randrange(1, 60_000), 2048) for _ in range(30)]
        for _ in range(12):
            del weights[chance.randrange(len(weights))]
        budget = ttmem.kv_budget(device, 640, reserve, tensors=tensors, tile_bytes=tile_bytes)
        sizes = [budget.tiles_per_tensor] * tensors
        exact = allocated(device, sizes, tile_bytes)
        # One tile more in each tensor: a single larger one could fit into another block.
        more = allocated(device, [tiles + 1 for tiles in sizes], tile_bytes)
        cases.append({"budget": budget._asdict(), "tensors": tensors, "tile": tile_bytes, "exact": exact, "more": more,
                      "reserve": reserve})  # fmt: skip
        weights.clear()
    ttnn.close_mesh_device(device)
    with open(path, "w") as file:
        json.dump(cases, file)


main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))

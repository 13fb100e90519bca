# SPDX-License-Identifier: Apache-2.0
"""How large a KV cache can still be: bytes and tokens that fit into the free DRAM of a device.

Standard library only: the numbers are ttnn's own, from the table of blocks of the device's allocator.
"""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

_TILE_BYTES = 2048  # of a bfloat16 tile


class KvBudget(NamedTuple):
    """What still fits. All tensors together have ``bytes_per_chip`` on each of ``chips`` chips.

    ``tokens`` is for a cache that is spread over the mesh, so that each token has a part on each chip.
    ``tokens_over_mesh`` is for chips that cache different tokens.
    """

    bytes_per_chip: int
    bytes_over_mesh: int
    tiles_per_tensor: int
    tokens: int
    tokens_over_mesh: int
    chips: int
    largest_free_per_bank: int


def kv_budget(
    device: Any, bytes_per_token: int, reserve: int = 0, *, tensors: int = 1, tile_bytes: int = _TILE_BYTES
) -> KvBudget:
    """The largest KV cache that the device can hold now. Call it after a warm-up, when everything else is allocated.

    ``bytes_per_token`` are the bytes that one token takes on one chip, in all layers. ``reserve`` are bytes to leave
    free on each chip, taken from the largest free block: kernel binaries and traces need DRAM on hardware.

    ``tensors`` is the number of equally large tensors that the cache consists of, such as two for each layer. Each is
    interleaved over all DRAM banks; ``tile_bytes`` is the size of its tiles: 2048 for bfloat16, 1088 for bfloat8_b,
    576 for bfloat4_b, 4096 for float32.

    >>> ttmem.kv_budget(device, bytes_per_token=64 * 1024, tensors=64, tile_bytes=1088).tokens  # doctest: +SKIP
    98304
    """
    for name, value in (("bytes_per_token", bytes_per_token), ("tensors", tensors), ("tile_bytes", tile_bytes)):
        if value <= 0:
            raise ValueError(f"{name} is {value}; it must be above 0")
    if reserve < 0:
        raise ValueError(f"reserve is {reserve}; it must not be negative")
    ttnn = sys.modules.get("ttnn")
    if ttnn is None:
        raise RuntimeError("ttnn is not imported, so there is no device to ask")
    view = ttnn.get_memory_view(device, ttnn.BufferType.DRAM)
    banks = int(view.num_banks)
    page = _rounded(tile_bytes, int(ttnn.get_dram_alignment()))
    free = sorted(int(block["size"]) for block in view.block_table if block["allocated"] == "no")
    largest = free[-1] if free else 0
    if free:
        free[-1] = max(0, free[-1] - -(-reserve // banks))
    tiles = most_pages(free, page, tensors) * banks
    in_bytes = tiles * tensors * tile_bytes
    chips = int(device.get_num_devices()) if hasattr(device, "get_num_devices") else 1
    tokens = in_bytes // bytes_per_token
    return KvBudget(in_bytes, in_bytes * chips, tiles, tokens, tokens * chips, chips, largest)


def _rounded(size: int, unit: int) -> int:
    return -(-size // unit) * unit


def most_pages(free: list[int], page: int, tensors: int) -> int:
    """Pages in each bank of the largest tensors of which that many fit into the free blocks.

    Tensors of one size fill a block from one end, so a block holds as many as its size allows, in any order.

    >>> most_pages([100, 250], 10, 1), most_pages([100, 250], 10, 3), most_pages([], 10, 1)
    (25, 10, 0)
    """
    low, high = 0, max(free, default=0) // page
    while low < high:
        middle = (low + high + 1) // 2
        if sum(block // (middle * page) for block in free) >= tensors:
            low = middle
        else:
            high = middle - 1
    return low

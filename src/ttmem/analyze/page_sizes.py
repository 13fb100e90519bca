# SPDX-License-Identifier: Apache-2.0
"""The page size of a tensor: the unit in which its buffer grows and shrinks in a bank."""

from __future__ import annotations

import re

_SHAPE = re.compile(r"\[([\d, ]*)\] (\w+) (tile|row_major)")
_TILE_BYTES = {
    "bfloat16": 2048,
    "float32": 4096,
    "uint32": 4096,
    "int32": 4096,
    "uint16": 2048,
    "uint8": 1024,
    "bfloat8_b": 1088,
    "bfloat4_b": 576,
}
_TILE_ELEMENTS = 1024
_BLOCK_FLOATS = ("bfloat8_b", "bfloat4_b")  # only in tiles


def page_of(shape: str | None, interleaved: bool) -> int | None:
    """The page of a tensor with this shape, type and layout; None if it does not follow from them.

    A row of a sharded tensor is as wide as its shard, which the shape does not tell.

    >>> page_of("[1, 1, 32768, 8192] bfloat16 tile", interleaved=True), page_of("[4, 100] uint8 row_major", True)
    (2048, 100)
    """
    match = _SHAPE.fullmatch(shape or "")
    tile = _TILE_BYTES.get(match[2]) if match is not None else None
    if match is None or tile is None:
        return None
    if match[3] == "tile":
        return tile
    if not interleaved or match[2] in _BLOCK_FLOATS or not match[1]:
        return None
    return int(match[1].rpartition(",")[2]) * tile // _TILE_ELEMENTS


def smallest_page(shape: str | None, interleaved: bool, per_bank: int) -> int:
    """The least that a buffer takes in a bank; if its page is not known, a tile of bfloat16 is assumed."""
    page = page_of(shape, interleaved)
    return min(per_bank, _TILE_BYTES["bfloat16"]) if page is None else page

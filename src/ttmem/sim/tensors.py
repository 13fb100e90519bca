# SPDX-License-Identifier: Apache-2.0
"""Computes the bytes that a tensor needs in each bank, from its shape, data type and layout."""

from __future__ import annotations

from enum import Enum, IntEnum
from math import prod
from typing import NamedTuple

from ttmem.sim.errors import SimError
from ttmem.sim.free_list import round_up


class Dtype(Enum):
    """Element types; the value is the name ttnn gives them."""

    BFLOAT16 = "bfloat16"
    FLOAT32 = "float32"
    UINT32 = "uint32"
    INT32 = "int32"
    UINT16 = "uint16"
    UINT8 = "uint8"
    BFLOAT8_B = "bfloat8_b"
    BFLOAT4_B = "bfloat4_b"


class Layout(Enum):
    """How elements are arranged in a page: one tile, or one row."""

    TILE = "TILE"
    ROW_MAJOR = "ROW_MAJOR"


class MemoryLayout(IntEnum):
    """How pages are spread over banks, numbered as ttnn does."""

    INTERLEAVED = 0
    HEIGHT_SHARDED = 2
    WIDTH_SHARDED = 3
    BLOCK_SHARDED = 4
    ND_SHARDED = 5


class Tile(NamedTuple):
    """Rows and columns of a tile."""

    height: int = 32
    width: int = 32


class MemoryConfig(NamedTuple):
    """Where the pages go: over all banks, or in shards of a shape to a number of cores."""

    layout: MemoryLayout = MemoryLayout.INTERLEAVED
    shard_shape: tuple[int, ...] = ()
    cores: int = 0


INTERLEAVED = MemoryConfig()


class TensorSpec(NamedTuple):
    """The properties of a tensor, except for its kind of memory."""

    shape: tuple[int, ...]
    dtype: Dtype = Dtype.BFLOAT16
    layout: Layout = Layout.TILE
    memory: MemoryConfig = INTERLEAVED
    tile: Tile = Tile()


class BufferNeed(NamedTuple):
    """A request as the allocator gets it: `per_bank` bytes in every bank, although only `banks` of them have pages."""

    page: int
    aligned_page: int
    banks: int
    pages: int
    per_bank: int
    total: int
    sharded: bool = False


_ELEMENT_BYTES = {
    Dtype.BFLOAT16: 2,
    Dtype.FLOAT32: 4,
    Dtype.UINT32: 4,
    Dtype.INT32: 4,
    Dtype.UINT16: 2,
    Dtype.UINT8: 1,
}
# Block floats share one exponent byte among the elements of a row of a face.
_MANTISSAS_PER_BYTE = {Dtype.BFLOAT8_B: 1, Dtype.BFLOAT4_B: 2}
_FACE_ELEMENTS = 16
_EXPONENTS_ALIGNMENT_BYTES = 16


def element_bytes(dtype: Dtype) -> int:
    """Bytes of one element. Raises SimError for block floats, because their elements share exponents."""
    try:
        return _ELEMENT_BYTES[dtype]
    except KeyError:
        raise SimError(f"{dtype.value} exists only in tiles; choose Layout.TILE") from None


def tile_bytes(dtype: Dtype, tile: Tile = Tile()) -> int:
    """Bytes of one tile.

    >>> tile_bytes(Dtype.BFLOAT16), tile_bytes(Dtype.BFLOAT8_B)
    (2048, 1088)
    """
    elements = tile.height * tile.width
    if dtype in _ELEMENT_BYTES:
        return elements * _ELEMENT_BYTES[dtype]
    exponents = elements // min(tile.width, _FACE_ELEMENTS)
    return elements // _MANTISSAS_PER_BYTE[dtype] + round_up(exponents, _EXPONENTS_ALIGNMENT_BYTES)


def need_of(spec: TensorSpec, banks: int, alignment: int) -> BufferNeed | None:
    """What a tensor needs in a kind of memory with this many banks; None if it has no elements."""
    if 0 in spec.shape:
        return None
    memory = spec.memory
    interleaved = memory.layout is MemoryLayout.INTERLEAVED
    if spec.layout is Layout.TILE:
        page_height, page_width = spec.tile
        page = tile_bytes(spec.dtype, spec.tile)
    else:
        page_height, page_width = 1, spec.shape[-1] if interleaved else memory.shard_shape[-1]
        page = page_width * element_bytes(spec.dtype)
    # Only rows in ND shards may have a single dimension.
    single = spec.layout is Layout.ROW_MAJOR and memory.layout is MemoryLayout.ND_SHARDED
    shape = spec.shape if single else (1,) * (2 - len(spec.shape)) + spec.shape
    tensor = _in_pages(shape, page_height, page_width)
    if interleaved:
        return need_of_pages(prod(tensor), page, banks, alignment)
    shard = _in_pages(memory.shard_shape, page_height, page_width)
    shards = _shards(tensor, shard)
    _check_fit(memory, shards)
    used = min(memory.cores, shards)
    # With the legacy kinds a core has one shard; only ND shards are distributed round robin.
    rounds = -(-shards // memory.cores) if memory.layout is MemoryLayout.ND_SHARDED else 1
    pages = rounds * prod(shard)
    aligned = round_up(page, alignment)
    return BufferNeed(page, aligned, used, pages * used, pages * aligned, pages * used * aligned, sharded=True)


def need_of_pages(pages: int, page: int, banks: int, alignment: int) -> BufferNeed:
    """What pages need if they are distributed to the banks in turn."""
    aligned = round_up(page, alignment)
    rows = -(-pages // banks) if banks else 0  # L1_SMALL of size 0 has no banks, and refuses
    return BufferNeed(page, aligned, banks, pages, rows * aligned, pages * aligned)


def need_of_bytes(size: int, page_size: int, banks: int, alignment: int) -> BufferNeed:
    """An interleaved buffer made by its size and page size rather than as a tensor."""
    return need_of_pages(-(-size // page_size), page_size, banks, alignment)


def trace_page_size(size: int, banks: int) -> int:
    """Page size of a trace buffer: the largest that wastes no more than a smaller one, or fills two rows of banks."""
    best, least_waste = 0, size
    for page in (1024, 2048, 4096, 8192):
        row = page * banks
        waste = round_up(size, row) - size
        if not best or waste <= least_waste or size // row >= 2:
            best, least_waste = page, waste
    return best


def _in_pages(shape: tuple[int, ...], page_height: int, page_width: int) -> tuple[int, ...]:
    width = -(-shape[-1] // page_width)
    if len(shape) == 1:
        return (width,)
    return (*shape[:-2], -(-shape[-2] // page_height), width)


def _shards(tensor: tuple[int, ...], shard: tuple[int, ...]) -> int:
    """The number of shards that cover a tensor; additional dimensions are folded into the shard's first."""
    extra = len(tensor) - len(shard)
    if extra < 0:
        raise SimError(f"Tensor shape rank ({len(tensor)}) can't be less than shard shape rank ({len(shard)})!")
    folded = (prod(tensor[: extra + 1]), *tensor[extra + 1 :])
    return prod(-(-have // each) for have, each in zip(folded, shard))


def _check_fit(memory: MemoryConfig, shards: int) -> None:
    side = {MemoryLayout.HEIGHT_SHARDED: "height", MemoryLayout.WIDTH_SHARDED: "width"}.get(memory.layout)
    if side is not None and shards > memory.cores:
        raise SimError(f"Number of shards along {side} {shards} must not exceed number of cores {memory.cores}")

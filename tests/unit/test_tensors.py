# SPDX-License-Identifier: Apache-2.0
"""Bytes per bank of tensors; test_allocator compares hundreds more with ttnn's own figures."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttmem.sim.errors import SimError
from ttmem.sim.tensors import (
    BufferNeed,
    Dtype,
    Layout,
    MemoryConfig,
    MemoryLayout,
    TensorSpec,
    Tile,
    need_of,
    need_of_bytes,
    tile_bytes,
    trace_page_size,
)

ROW_MAJOR = Layout.ROW_MAJOR


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        ("bfloat16", 2048),
        ("float32", 4096),
        ("int32", 4096),
        ("uint32", 4096),
        ("uint16", 2048),
        ("uint8", 1024),
        ("bfloat8_b", 1088),
        ("bfloat4_b", 576),
    ],
)
def test_a_tile(dtype: str, expected: int) -> None:
    assert tile_bytes(Dtype(dtype)) == expected


def test_small_tiles_round_their_exponents_up() -> None:
    assert tile_bytes(Dtype.BFLOAT16, Tile(16, 32)) == 16 * 32 * 2
    assert tile_bytes(Dtype.BFLOAT8_B, Tile(16, 16)) == 256 + 16
    assert tile_bytes(Dtype.BFLOAT8_B, Tile(1, 32)) == 32 + 16  # two exponents
    assert tile_bytes(Dtype.BFLOAT4_B, Tile(4, 32)) == 64 + 16


def test_interleaved_tiles_are_padded_matrix_by_matrix() -> None:
    need = need_of(TensorSpec((2, 3, 33, 40)), banks=12, alignment=32)
    # Two by two tiles in each of six matrices: 24 pages on 12 banks.
    assert need == BufferNeed(2048, 2048, 12, 24, 2 * 2048, 24 * 2048)


def test_interleaved_rows_are_pages() -> None:
    need = need_of(TensorSpec((33, 116), Dtype.BFLOAT16, ROW_MAJOR), banks=1, alignment=16)
    assert need == BufferNeed(232, 240, 1, 33, 33 * 240, 33 * 240)


def test_a_vector_becomes_a_row_of_tiles() -> None:
    need = need_of(TensorSpec((96,)), banks=64, alignment=16)
    assert need is not None
    assert need.pages == 3


@pytest.mark.parametrize("shape", [(0,), (4, 0, 32), (0, 32)])
@pytest.mark.parametrize("layout", list(Layout))
def test_nothing_needs_nothing(shape: tuple[int, ...], layout: Layout) -> None:
    assert need_of(TensorSpec(shape, layout=layout), banks=12, alignment=32) is None


@pytest.mark.parametrize("rows", [1, 500, 1024])
@pytest.mark.parametrize("cores", [8, 20, 64])
def test_a_legacy_shard_is_what_every_core_gets(rows: int, cores: int) -> None:
    memory = MemoryConfig(MemoryLayout.HEIGHT_SHARDED, (128, 64), cores)
    need = need_of(TensorSpec((rows, 64), memory=memory), banks=64, alignment=16)
    shards = (rows + 127) // 128
    assert need == BufferNeed(2048, 2048, shards, 8 * shards, 8 * 2048, shards * 8 * 2048, sharded=True)


def test_rows_of_a_shard_are_pages() -> None:
    memory = MemoryConfig(MemoryLayout.BLOCK_SHARDED, (54, 60), 6)
    need = need_of(TensorSpec((1, 1, 318, 9), Dtype.UINT16, ROW_MAJOR, memory), banks=64, alignment=16)
    assert need == BufferNeed(120, 128, 6, 6 * 54, 54 * 128, 6 * 54 * 128, sharded=True)


def test_nd_shards_go_round_the_cores() -> None:
    memory = MemoryConfig(MemoryLayout.ND_SHARDED, (2, 32, 64), 4)
    need = need_of(TensorSpec((3, 5, 64, 128), memory=memory), banks=64, alignment=16)
    # 15 matrices in twos are 8, each of 2 x 2 shards: 32 shards, 8 on each core, of 2 x 1 x 2 tiles.
    assert need == BufferNeed(2048, 2048, 4, 4 * 8 * 4, 8 * 4 * 2048, 4 * 8 * 4 * 2048, sharded=True)


@pytest.mark.parametrize(
    ("layout", "shape", "side"),
    [(MemoryLayout.HEIGHT_SHARDED, (3200, 32), "height"), (MemoryLayout.WIDTH_SHARDED, (32, 3200), "width")],
)
def test_more_shards_than_cores(layout: MemoryLayout, shape: tuple[int, int], side: str) -> None:
    spec = TensorSpec(shape, memory=MemoryConfig(layout, (32, 32), 64))
    with pytest.raises(SimError, match=f"^Number of shards along {side} 100 must not exceed number of cores 64$"):
        need_of(spec, banks=64, alignment=16)


def test_a_shard_has_no_more_dimensions_than_the_tensor() -> None:
    spec = TensorSpec((18, 33), layout=ROW_MAJOR, memory=MemoryConfig(MemoryLayout.ND_SHARDED, (1, 72, 15), 8))
    with pytest.raises(SimError) as error:
        need_of(spec, banks=64, alignment=16)
    assert str(error.value) == "Tensor shape rank (2) can't be less than shard shape rank (3)!"


def test_a_vector_in_shards() -> None:
    """Of one dimension in ND shards, and of one row in the others."""
    nd = MemoryConfig(MemoryLayout.ND_SHARDED, (25,), 3)
    need = need_of(TensorSpec((85,), Dtype.UINT8, ROW_MAJOR, nd), banks=64, alignment=16)
    assert need == BufferNeed(25, 32, 3, 6, 64, 192, sharded=True)  # four shards on three cores
    width = MemoryConfig(MemoryLayout.WIDTH_SHARDED, (1, 25), 11)
    need = need_of(TensorSpec((85,), Dtype.UINT8, ROW_MAJOR, width), banks=64, alignment=16)
    assert need == BufferNeed(25, 32, 4, 4, 32, 128, sharded=True)


def test_block_floats_have_no_rows() -> None:
    with pytest.raises(SimError, match="bfloat8_b exists only in tiles"):
        need_of(TensorSpec((32, 32), Dtype.BFLOAT8_B, ROW_MAJOR), banks=12, alignment=32)


def test_a_buffer_made_by_its_size() -> None:
    assert need_of_bytes(10_000, 1000, banks=4, alignment=32) == BufferNeed(1000, 1024, 4, 10, 3 * 1024, 10 * 1024)


@given(st.integers(1, 1 << 28), st.sampled_from([7, 8, 12]))
def test_the_page_of_a_trace(size: int, banks: int) -> None:
    """The largest page that fills two rows is the least; a larger one is taken only if it wastes no more."""
    waste = {page: -size % (page * banks) for page in (1024, 2048, 4096, 8192)}
    least = max([page for page in waste if size // (page * banks) >= 2], default=1024)
    fewest = min(waste[page] for page in waste if page >= least)
    assert trace_page_size(size, banks) == max(page for page in waste if page >= least and waste[page] == fewest)


def test_pages_of_traces_on_twelve_banks() -> None:
    assert trace_page_size(1, 12) == 1024
    assert trace_page_size(2048 * 12, 12) == 2048  # as full as with two rows of smaller ones
    assert trace_page_size(10_000_000, 12) == 8192

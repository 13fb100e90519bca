# SPDX-License-Identifier: Apache-2.0
"""Blocks: what was written is read, with the index and without it, and every changed byte is noticed."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttmem.recording import blocks
from ttmem.recording.blocks import FILE_HEADER, HEADER_SIZE, BlockType, BlockWriter, RecordingError, SegmentReader

PAYLOADS = st.lists(st.one_of(st.binary(max_size=200), st.integers(0, 5000).map(bytes)), max_size=6)


def written(payloads: list[bytes], *, finished: bool = True) -> bytes:
    file = io.BytesIO()
    writer = BlockWriter(file)
    for number, payload in enumerate(payloads):
        writer.write(BlockType.NAMES, payload, process=3, number=number, last=number + 1, time=0.5, flags=2)
    if finished:
        writer.finish()
    return file.getvalue()


@given(PAYLOADS, st.booleans())
def test_there_and_back(payloads: list[bytes], finished: bool) -> None:
    reader = SegmentReader(io.BytesIO(written(payloads, finished=finished)))
    assert reader.finished == finished
    assert [reader.payload(block) for block in reader.blocks] == payloads
    assert [(block.process, block.number, block.last, block.time, block.flags) for block in reader.blocks] == [
        (3, number, number + 1, 0.5, 2) for number in range(len(payloads))
    ]
    assert reader.damage == []


def test_every_changed_byte_of_a_payload_is_noticed() -> None:
    data = written([bytes(range(200)), b"short"])
    blocks = SegmentReader(io.BytesIO(data)).blocks
    for block in blocks:
        for place in range(block.at, block.at + block.stored):
            damaged = bytearray(data)
            damaged[place] ^= 1
            reader = SegmentReader(io.BytesIO(damaged))
            with pytest.raises(RecordingError, match=f"the block at byte {block.at - HEADER_SIZE} is damaged"):
                reader.payload(block)


def test_without_an_index_every_changed_byte_of_a_header_costs_its_block_alone() -> None:
    data = written([b"first", b"second", b"third"], finished=False)
    second = SegmentReader(io.BytesIO(data)).blocks[1]
    for place in range(second.at - HEADER_SIZE, second.at):
        damaged = bytearray(data)
        damaged[place] ^= 1
        reader = SegmentReader(io.BytesIO(damaged))
        assert [reader.payload(block) for block in reader.blocks] == [b"first", b"third"]
        assert reader.damage == [f"{HEADER_SIZE + 6} bytes at byte {second.at - HEADER_SIZE} are not a block"]


def test_a_payload_that_expands_to_more_than_its_header_says() -> None:
    data = written([bytes(100_000)])
    (block,) = SegmentReader(io.BytesIO(data)).blocks
    with pytest.raises(RecordingError, match="has 1001 bytes, not 1000"):
        SegmentReader(io.BytesIO(data)).payload(block._replace(raw=1000))


def test_a_disk_that_is_full_leaves_whole_blocks() -> None:
    class Full(io.BytesIO):
        def write(self, data: object) -> int:
            size = len(bytes(data))  # type: ignore[call-overload]
            if self.tell() + size > 300:
                super().write(bytes(data)[: 300 - self.tell()])  # type: ignore[call-overload]
                raise OSError(28, "No space left on device")
            return super().write(data)  # type: ignore[arg-type]

    file = Full()
    writer = BlockWriter(file)
    count = (300 - FILE_HEADER.size) // (HEADER_SIZE + 10)
    for _ in range(count):
        writer.write(BlockType.NAMES, b"some names")
    with pytest.raises(OSError, match="No space"):
        writer.write(BlockType.NAMES, b"some names")
    reader = SegmentReader(io.BytesIO(file.getvalue()))
    assert len(reader.blocks) == count
    assert reader.damage == []


@given(PAYLOADS)
def test_zstd(payloads: list[bytes]) -> None:
    """Where it is installed, blocks are compressed with it. A reader without it says what is missing."""
    zstd = blocks._zstd
    assert zstd is not None, "the tests install zstandard"
    with pytest.MonkeyPatch.context() as patch:
        with_zstd = written(payloads)
        patch.setattr(blocks, "_zstd", None)
        with_zlib = written(payloads)
        for raw, codec in ((with_zstd, blocks.ZSTD), (with_zlib, blocks.ZLIB)):
            reader = SegmentReader(io.BytesIO(raw))
            patch.setattr(blocks, "_zstd", zstd)
            assert [reader.payload(block) for block in reader.blocks] == payloads
            assert all(block.codec in (codec, blocks.NO_CODEC) for block in reader.blocks)
            assert all(block.codec == codec for block in reader.blocks if block.raw > 1000 and block.stored < 100)
            patch.setattr(blocks, "_zstd", None)
            for block in reader.blocks:
                if block.codec == blocks.ZSTD:
                    with pytest.raises(RecordingError, match="install `zstandard`"):
                        reader.payload(block)

# SPDX-License-Identifier: Apache-2.0
"""Blocks: the parts of which a segment of a recording is made. docs/recording.md describes the format.

    segment  8 bytes "TTMEMREC", u32 version, u32 zero, then blocks
    block    a header of 52 bytes (`Block`), then the payload

Blocks are only appended. The last block of a finished segment is the index: the headers of all others. Without it, for
example because the writer was killed, a reader finds the blocks by their headers. Header and payload have a checksum
each, so damage costs the blocks that it hits.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from enum import IntEnum
from importlib import import_module
from struct import Struct
from typing import Any, BinaryIO, NamedTuple

FILE_MAGIC = b"TTMEMREC"
VERSION = 1
FILE_HEADER = Struct("<8sII")
_MAGIC = b"TTMB"
# magic, type, codec, flags, process, raw length, stored length, number, last, time, checksum of the payload
_FIELDS = Struct("<4sBBHIIIQQdI")
_CHECKSUM = Struct("<I")
HEADER_SIZE = _FIELDS.size + _CHECKSUM.size
_TRAILER = Struct("<QI8s")  # where the index is, checksum of that, magic
_TRAILER_MAGIC = b"TTMEMEND"
_PLACE = Struct("<Q")
MAX_RAW_BYTES = 64 << 20
_SEARCHED_BYTES = 1 << 16
NO_CODEC, ZLIB, ZSTD = 0, 1, 2
_LEAST_COMPRESSED = 64  # bytes; fewer are stored as they are


class BlockType(IntEnum):
    """What a block contains; docs/recording.md lists the fields that each type uses."""

    FACTS = 1
    PROCESS = 2
    NAMES = 3
    MESHES = 4
    CHIPS = 5
    COUNTERS = 6
    RECORDS = 7
    GAP = 8
    TABLE = 9
    HISTORY = 10
    EVENTS = 11
    SAMPLES = 12
    INDEX = 13
    METERS = 14


class RecordingError(ValueError):
    """The file is not a recording that this version can read, or a block of it is damaged."""


class Block(NamedTuple):
    """One block as its header describes it; ``at`` is the offset of the payload."""

    at: int
    type: int
    codec: int
    flags: int
    process: int
    raw: int
    stored: int
    number: int
    last: int
    time: float
    checksum: int

    def header(self) -> bytes:
        fields = _FIELDS.pack(_MAGIC, *self[1:])
        return fields + _CHECKSUM.pack(zlib.crc32(fields))


def _zstandard() -> Any:
    """The zstd module: of Python 3.14, or the package `zstandard`. None if there is neither."""
    for name in ("compression.zstd", "zstandard"):
        try:
            return import_module(name)
        except ImportError:
            continue
    return None


_zstd = _zstandard()


def compressed(raw: bytes) -> tuple[int, bytes]:
    """The codec and the stored form of a payload."""
    if len(raw) < _LEAST_COMPRESSED:
        return NO_CODEC, raw
    codec, stored = (ZLIB, zlib.compress(raw, 1)) if _zstd is None else (ZSTD, bytes(_zstd.compress(raw, 1)))
    return (codec, stored) if len(stored) < len(raw) else (NO_CODEC, raw)


class BlockWriter:
    """Appends blocks to a file. Each block is one write, so that a killed writer loses nothing that it has written."""

    def __init__(self, file: BinaryIO) -> None:
        """``file`` is empty and not buffered."""
        self._file = file
        self.size = 0
        self.blocks: list[Block] = []
        self._append(FILE_HEADER.pack(FILE_MAGIC, VERSION, 0))

    def write(
        self, block_type: BlockType, raw: bytes, *, process: int = 0, number: int = 0, last: int = 0,
        time: float = 0.0, flags: int = 0,
    ) -> int:  # fmt: skip
        """Append a block; returns its size in the file. If that fails, the file ends after the block before."""
        codec, stored = compressed(raw)
        block = Block(
            self.size + HEADER_SIZE, block_type, codec, flags, process, len(raw), len(stored), number, last, time,
            zlib.crc32(stored),
        )  # fmt: skip
        self._append(block.header() + stored)
        self.blocks.append(block)
        return HEADER_SIZE + len(stored)

    def finish(self) -> None:
        """Append the index."""
        at = self.size
        self.write(BlockType.INDEX, b"".join(_PLACE.pack(block.at) + block.header() for block in self.blocks))
        place = _PLACE.pack(at)
        self._append(_TRAILER.pack(at, zlib.crc32(place), _TRAILER_MAGIC))

    def _append(self, data: bytes) -> None:
        view = memoryview(data)
        try:
            while view:
                view = view[self._file.write(view) :]
        except OSError:
            try:
                self._file.truncate(self.size)
                self._file.seek(self.size)
            except OSError:
                pass
            raise
        self.size += len(data)


class SegmentReader:
    """One segment: its blocks, and their payloads. ``damage`` lists in words what could not be read."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.size = file.seek(0, 2)
        self.damage: list[str] = []
        head = self._read(0, FILE_HEADER.size)
        if len(head) < FILE_HEADER.size or head[:8] != FILE_MAGIC:
            raise RecordingError(
                "not a ttmem recording; `ttmem run --record`, `ttmem serve --record` and `ttmem import` write them"
            )
        version = FILE_HEADER.unpack(head)[1]
        if version != VERSION:
            raise RecordingError(f"recording of version {version}; this ttmem reads version {VERSION}")
        indexed = self._indexed()
        self.finished = indexed is not None  # its writer closed it
        self.blocks = list(self._scan()) if indexed is None else indexed

    def payload(self, block: Block) -> bytes:
        """The contents of a block; RecordingError if they are damaged."""
        stored = self._read(block.at, block.stored)
        if len(stored) < block.stored or zlib.crc32(stored) != block.checksum:
            raise RecordingError(f"the block at byte {block.at - HEADER_SIZE} is damaged")
        try:
            raw = _expanded(block, stored)
        except Exception as error:  # each codec has errors of its own
            raise RecordingError(f"the block at byte {block.at - HEADER_SIZE} cannot be expanded: {error}") from None
        if len(raw) != block.raw:
            raise RecordingError(f"the block at byte {block.at - HEADER_SIZE} has {len(raw)} bytes, not {block.raw}")
        return raw

    def _read(self, at: int, length: int) -> bytes:
        self._file.seek(at)
        return self._file.read(length)

    def _indexed(self) -> list[Block] | None:
        """The blocks according to the index at the end; None if there is none, or it is damaged."""
        end = self._read(max(0, self.size - _TRAILER.size), _TRAILER.size)
        if len(end) < _TRAILER.size:
            return None
        at, checksum, magic = _TRAILER.unpack(end)
        if magic != _TRAILER_MAGIC or checksum != zlib.crc32(_PLACE.pack(at)) or at + HEADER_SIZE > self.size:
            return None
        block = self._block_at(at)
        if block is None or block.type != BlockType.INDEX:
            return None
        try:
            rows = self.payload(block)
        except RecordingError:
            return None
        size = _PLACE.size + HEADER_SIZE
        found = []
        for start in range(0, len(rows) - size + 1, size):
            (place,) = _PLACE.unpack_from(rows, start)
            one = _parsed(rows[start + _PLACE.size : start + size], place)
            if one is None or place + one.stored > self.size:
                return None
            found.append(one)
        return found

    def _scan(self) -> Iterator[Block]:
        """The blocks in the file, found by their headers. What lies between them is damage."""
        at = FILE_HEADER.size
        while at < self.size:
            block = self._block_at(at)
            if block is None or block.at + block.stored > self.size:
                found = self._next_header(at + 1)
                self.damage.append(
                    f"{self.size - at} bytes at its end are not a complete block" if found is None
                    else f"{found - at} bytes at byte {at} are not a block"
                )  # fmt: skip
                if found is None:
                    return
                at = found
                continue
            if block.type == BlockType.INDEX:
                return
            yield block
            at = block.at + block.stored

    def _block_at(self, at: int) -> Block | None:
        return _parsed(self._read(at, HEADER_SIZE), at + HEADER_SIZE)

    def _next_header(self, at: int) -> int | None:
        """The next place from which on there is a valid header of a block that fits the file."""
        while at < self.size:
            piece = self._read(at, _SEARCHED_BYTES)
            place = piece.find(_MAGIC)
            while place >= 0:
                block = self._block_at(at + place)
                if block is not None and block.at + block.stored <= self.size:
                    return at + place
                place = piece.find(_MAGIC, place + 1)
            at += max(1, len(piece) - len(_MAGIC) + 1)
        return None


def _parsed(header: bytes, at: int) -> Block | None:
    if len(header) < HEADER_SIZE or header[:4] != _MAGIC:
        return None
    if zlib.crc32(header[: _FIELDS.size]) != _CHECKSUM.unpack_from(header, _FIELDS.size)[0]:
        return None
    block = Block(at, *_FIELDS.unpack_from(header)[1:])
    return block if block.raw <= MAX_RAW_BYTES and block.stored <= MAX_RAW_BYTES else None


def _expanded(block: Block, stored: bytes) -> bytes:
    if block.codec == NO_CODEC:
        return stored
    if block.codec == ZLIB:
        return zlib.decompressobj().decompress(stored, block.raw + 1)  # never more than the header promises
    if block.codec == ZSTD:
        if _zstd is None:
            raise RecordingError("it was compressed with zstd: install `zstandard` to read it")
        reader = _zstd.ZstdDecompressor()
        if hasattr(reader, "stream_reader"):  # the package, whose `decompress` trusts the size in the frame
            return bytes(reader.stream_reader(stored).read(block.raw + 1))
        return bytes(reader.decompress(stored, max_length=block.raw + 1))
    raise RecordingError(f"codec {block.codec} is not known")

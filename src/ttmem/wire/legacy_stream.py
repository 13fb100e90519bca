# SPDX-License-Identifier: Apache-2.0
"""Splits a legacy byte stream into records: no framing, no version, five record sizes, any chunking.

The rule behind it: every type byte is non-zero and every request's tail is zero. So a record is its
40-byte header, and the next one starts at the first non-zero byte after it. The size matters only for the reply to
a query and for reading many records at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

from ttmem.wire.legacy_records import HEADER, SHORT, SHORT_SIZE, SIZES, WHOLE, Record, Type

_HEADER = HEADER.size
_LARGEST = SIZES[-1]
_TYPES = bytes(range(1, 13))
_SHORT_TYPES = range(Type.CB_ALLOC, Type.KERNEL_UNLOAD + 1)
_SHORT_BYTES = bytes(_SHORT_TYPES)
_QUERIES = (Type.QUERY, Type.DEVICE_INFO_QUERY)
_ASKS = (*_QUERIES, Type.DUMP_REMAINING, Type.DUMP_KERNELS)
_PIDS_KEPT = 8
_ZERO3 = b"\0\0\0"

_NON_ZERO = re.compile(rb"[^\0]")


@lru_cache(maxsize=64)
def _candidate(pids: frozenset[int]) -> re.Pattern[bytes]:
    """An offset in garbage where a record could start: one with a known pid, or a query, which has none.

    The rest of the header is checked afterwards. Without a known pid, any offset where the padding is zero.
    """
    if not pids:
        return re.compile(rb"[\x01-\x0c]\0{3}(?:(?=.{13}\0{3})|(?=.{24}\0{4}))", re.DOTALL)
    known = b"(?:" + b"|".join(re.escape(pid.to_bytes(4, "little", signed=True)) for pid in sorted(pids)) + b")"
    long = rb"[\x01-\x0c]\0{3}(?=.{13}\0{3}" + known + rb")"
    short = rb"[\x08-\x0b]\0{3}(?=.{20}" + known + rb"\0{4})"
    ask = rb"[\x03\x05\x06\x0c]\0{3}(?=.{4}\0{32})"
    return re.compile(b"|".join((long, short, ask)), re.DOTALL)


def _skip_zeros(data: bytes, at: int) -> int:
    """Offset of the next byte that is not zero; the length if there is none."""
    found = _NON_ZERO.search(data, at)
    return found.start() if found else len(data)


READ_BYTES = 256 * 1024
# The bytes of a request that must be zero: two paddings in the header, and the tail. Each byte of a padding is compared
# in all records of a read at once. So is each 8-byte word of the tails if there are more than a few records: a view of
# words copies nothing.
_PADDINGS = (1, 2, 3, 17, 18, 19)
_WORD = 8
_FEW = 16  # records

Batch = tuple[int, Iterable[Record]]


class LegacyStream:
    """Decodes one connection's bytes.

    ``feed`` yields batches (size of the records, records). A query is held back until its size is certain, because
    the client waits for a reply of exactly that size. ``rejected`` counts the places where the input was invalid.
    """

    def __init__(self) -> None:
        self.size: int | None = None  # of this connection's records, once seen
        self.rejected = 0
        self.lost = False  # in garbage, searching for the next plausible record
        self._pids: set[int] = set()
        self._carry = b""
        self._since = 0  # bytes since the start of the last record, while its tail is being skipped

    def feed(self, data: bytes, pid: int) -> Iterator[Batch]:
        """Decode a read; ``pid`` is the sender according to the kernel (0: unknown)."""
        fresh = not self._carry  # no part of these records came earlier: single sends arrive complete
        if not fresh:
            data = self._carry + data
            self._carry = b""
        start = self._skip_tail(data)
        chunk = self._whole_records(data, start, pid)
        if chunk:
            assert self.size is not None
            yield self.size, WHOLE[self.size].iter_unpack(chunk)
        yield from self._slowly(data, start + len(chunk), pid, fresh)

    def finish(self, pid: int) -> Iterator[Batch]:
        """At the end of the stream: decode what was held back, reject what is incomplete."""
        data, self._carry = self._carry, b""
        if len(data) >= _HEADER and data[0] in _QUERIES:
            size = max((s for s in SIZES if s <= len(data)), default=SIZES[0])
            yield size, [HEADER.unpack_from(data)]
        elif data.strip(b"\0"):
            self.rejected += 1

    def _whole_records(self, data: bytes, at: int, pid: int) -> bytes:
        """All complete records from this offset if they have the size of this connection, else nothing."""
        size = self.size
        if size is None or self.lost or len(data) - at < size:
            return b""
        end = at + (len(data) - at) // size * size
        chunk = data[at:end] if end - at < len(data) else data
        if not self._all_whole(chunk, size, pid):
            return b""
        self._since = size
        self._note_pid(int.from_bytes(chunk[20:24], "little", signed=True), pid)
        return chunk

    def _all_whole(self, chunk: bytes, size: int, pid: int) -> bool:
        """Whether this consists only of records of that size; gives the same result as decoding record by record."""
        types = chunk[::size]
        zeros = bytes(len(types))
        if types.translate(None, _TYPES) or any(chunk[at::size] != zeros for at in _PADDINGS):
            return False
        if not self._tails_are_zero(chunk, size, len(types)):
            return False
        if types.translate(None, _SHORT_BYTES) == types:
            return True
        return not any(
            self._is_short(chunk, at, int.from_bytes(chunk[at + 24 : at + 28], "little", signed=True), pid)
            for at, op in zip(range(0, len(chunk), size), types)
            if op in _SHORT_TYPES
        )

    @staticmethod
    def _tails_are_zero(chunk: bytes, size: int, count: int) -> bool:
        if count < _FEW:
            tail = bytes(size - _HEADER)
            return all(chunk[at + _HEADER : at + size] == tail for at in range(0, len(chunk), size))
        words, stride = memoryview(chunk).cast("Q"), size // _WORD
        zeros = memoryview(bytes(count * _WORD)).cast("Q")
        return all(words[at::stride] == zeros for at in range(_HEADER // _WORD, stride))

    def _skip_tail(self, data: bytes) -> int:
        """Offset of the first record, after the zeros that belong to the previous one."""
        start = _skip_zeros(data, 0)
        if self._since:
            self._since += start
            if start < len(data):
                self._learn(self._since)
                self._since = 0
            elif self._since > 4 * _LARGEST:
                self._since = 2 * _LARGEST  # many zeros: the distance no longer tells the size
        return start

    def _learn(self, distance: int) -> None:
        if distance in SIZES:
            self.size = distance

    def _slowly(self, data: bytes, at: int, pid: int, fresh: bool) -> Iterator[Batch]:
        """Record by record, until the size of the records is known."""
        end = len(data)
        tries = 4
        while at < end:
            if data[at] == 0:
                at = _skip_zeros(data, at)
                continue
            if self.lost:
                found = _candidate(frozenset(self._pids | {pid} if pid else self._pids)).search(data, at)
                if found is None:
                    at = max(at, end - _HEADER + 1)  # a record may start in the last bytes
                    if end - at < _HEADER:
                        break
                    continue
                at = found.start()
            elif data[at] > 12:
                self._get_lost()
                continue
            record, length = self._record_at(data, at, pid)
            if length == 0:
                break  # incomplete
            if record is None:
                if not self.lost:
                    self._get_lost()
                at += 1
                continue
            if not self.lost:
                self._note_pid(record[4], pid)
            self.lost = False
            next_at = _skip_zeros(data, at + length)
            settled = next_at < end
            distance = next_at - at
            if record[0] in _QUERIES:
                size = self._reply_size(distance, settled, fresh)
                if size is None:
                    break
                yield size, [record]
            else:
                yield 0, [record]
            if settled or (fresh and distance in SIZES):
                self._learn(distance)
            self._since = 0 if settled or length == SHORT_SIZE else distance
            at = next_at
            if settled and tries:
                chunk = self._whole_records(data, at, pid)
                tries = 4 if chunk else tries - 1
                if chunk:
                    assert self.size is not None
                    yield self.size, WHOLE[self.size].iter_unpack(chunk)
                    at += len(chunk)
        self._carry = data[at:]

    def _record_at(self, data: bytes, at: int, pid: int) -> tuple[Record | None, int]:
        """The record and its length; (None, 1) if it is invalid, (None, 0) if more bytes are needed."""
        op = data[at]
        if len(data) - at < SHORT_SIZE:
            return None, 0
        if op in _SHORT_TYPES:
            op, device, size, ident, claimed = SHORT.unpack_from(data, at)
            if self._is_short(data, at, claimed, pid):
                if self.lost and pid and claimed != pid and claimed not in self._pids:
                    return None, 1
                return (op, device, size, 0, claimed, ident, 0), SHORT_SIZE
        if len(data) - at < _HEADER:
            return None, 0
        if data[at + 1 : at + 4] != _ZERO3 or data[at + 17 : at + 20] != _ZERO3 or not 1 <= op <= 12:
            return None, 1
        record: Record = HEADER.unpack_from(data, at)
        if self.lost and not self._believable(record, pid):
            return None, 1
        return record, _HEADER

    @staticmethod
    def _is_short(data: bytes, at: int, claimed: int, pid: int) -> bool:
        """Whether a circular-buffer or kernel record has the short form: the sender's pid is at offset 24, not 20."""
        if data[at + 1 : at + 4] != _ZERO3 or data[at + 28 : at + 32] != b"\0\0\0\0":
            return False
        at_20 = int.from_bytes(data[at + 20 : at + 24], "little", signed=True)
        if pid and pid in (at_20, claimed):
            return at_20 != pid
        return at_20 <= 0 < claimed

    def _believable(self, record: Record, pid: int) -> bool:
        """Whether this is a record and not a part of one.

        Used only in garbage, where almost anything looks like one.
        """
        op, device, size, code, claimed, ident, stamp = record
        if op in _ASKS:
            return -1 <= device < 1024 and not (size or code or ident or stamp) and claimed in (0, pid, *self._pids)
        if pid or self._pids:
            return claimed == pid or claimed in self._pids
        return claimed > 0 and 0 <= device < 1024

    def _get_lost(self) -> None:
        self.lost = True
        self.rejected += 1
        self._since = 0

    def _reply_size(self, distance: int, settled: bool, fresh: bool) -> int | None:
        """The record size of the client, None if it is not yet certain."""
        if settled:
            return distance if distance in SIZES else self.size or _LARGEST
        if fresh and distance in SIZES and distance >= (self.size or 0):
            return distance
        wanted = self.size or _LARGEST
        return wanted if distance >= wanted else None

    def _note_pid(self, claimed: int, pid: int) -> None:
        """Remember other pids in the records of this connection, as from a container."""
        if claimed != pid and claimed > 0 and len(self._pids) < _PIDS_KEPT:
            self._pids.add(claimed)

# SPDX-License-Identifier: Apache-2.0
"""Reads an ELF shared library without loading it: the symbols it defines, needs and calls."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterable
from typing import NamedTuple

_PT_LOAD, _PT_DYNAMIC = 1, 2
_NULL, _NEEDED, _PLTRELSZ, _STRTAB, _SYMTAB, _SYMBOLIC, _JMPREL, _FLAGS = 0, 1, 2, 5, 6, 16, 23, 30
_GNU_HASH = 0x6FFFFEF5
_DF_SYMBOLIC = 2


class NotALibrary(ValueError):
    """Not a file that the dynamic linker of a 64-bit little-endian machine accepts."""


class Library(NamedTuple):
    machine: int
    needed: list[str]
    defined: set[str]
    """The requested names that it defines."""
    called: set[str]
    """The requested names that it calls through its own linkage table, so that another library can replace them."""


def machine_of(path: str) -> int:
    """The ELF machine number of a program or library."""
    with open(path, "rb") as file:
        return _machine(file.read(20), path)


def read(path: str, names: Iterable[str]) -> Library:
    """Which of these names a library has. The file is mapped, so only a few pages are read."""
    with open(path, "rb") as file:
        try:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except ValueError:
            raise NotALibrary(f"{path} is empty") from None
        with data:
            try:
                return _read(data, path, names)
            except (struct.error, IndexError, OverflowError, UnicodeDecodeError):
                raise NotALibrary(f"{path} is damaged") from None


def _machine(head: bytes, path: str) -> int:
    if head[:6] != b"\x7fELF\x02\x01" or len(head) < 20:
        raise NotALibrary(f"{path} is not a 64-bit little-endian ELF file")
    return int.from_bytes(head[18:20], "little")


def _read(data: mmap.mmap, path: str, names: Iterable[str]) -> Library:
    machine = _machine(data[:20], path)
    (segments_at,) = struct.unpack_from("<Q", data, 32)
    (segment_count,) = struct.unpack_from("<H", data, 56)
    segments = [struct.unpack_from("<IIQQQQQQ", data, segments_at + 56 * i) for i in range(segment_count)]
    loaded = [(start, size, offset) for kind, _, offset, start, _, size, _, _ in segments if kind == _PT_LOAD]

    def offset_of(address: int) -> int:
        for start, size, offset in loaded:
            if start <= address < start + size:
                return int(address - start + offset)
        raise IndexError(address)

    entries: dict[int, int] = {}
    needed: list[int] = []
    for kind, _, offset, _, _, size, _, _ in segments:
        if kind != _PT_DYNAMIC:
            continue
        for tag, value in struct.iter_unpack("<QQ", data[offset : offset + size - size % 16]):
            if tag == _NULL:
                break
            needed.append(value) if tag == _NEEDED else entries.setdefault(tag, value)
    if not {_STRTAB, _SYMTAB, _GNU_HASH} <= set(entries):
        raise NotALibrary(f"{path} has no table of symbols that the dynamic linker could use")
    strings, symbols = offset_of(entries[_STRTAB]), offset_of(entries[_SYMTAB])

    def text(at: int) -> bytes:
        return data[strings + at : data.find(b"\0", strings + at)]

    table = _HashTable(data, offset_of(entries[_GNU_HASH]))
    found: dict[int, str] = {}
    for name in names:
        wanted = name.encode()
        for index in table.candidates(wanted):
            (at,) = struct.unpack_from("<I", data, symbols + 24 * index)
            if text(at) == wanted:
                found[index] = name
    called: set[str] = set()
    if _JMPREL in entries and _SYMBOLIC not in entries and not entries.get(_FLAGS, 0) & _DF_SYMBOLIC:
        start, size = offset_of(entries[_JMPREL]), entries.get(_PLTRELSZ, 0)
        slots = struct.iter_unpack("<QQQ", data[start : start + size - size % 24])
        called = {found[info >> 32] for _, info, _ in slots if info >> 32 in found}
    return Library(machine, [text(at).decode() for at in needed], set(found.values()), called)


class _HashTable:
    """The .gnu.hash section: a bloom filter, which is left out here, then buckets, then chains of hashes."""

    def __init__(self, data: mmap.mmap, at: int) -> None:
        self._data = data
        self._bucket_count, self._first, words, _ = struct.unpack_from("<IIII", data, at)
        self._buckets = at + 16 + 8 * words
        self._chains = self._buckets + 4 * self._bucket_count

    def candidates(self, name: bytes) -> Iterable[int]:
        """The indexes of symbols that have the name's hash."""
        if not self._bucket_count:
            return
        hashed = 5381
        for byte in name:
            hashed = (hashed * 33 + byte) & 0xFFFFFFFF
        (index,) = struct.unpack_from("<I", self._data, self._buckets + 4 * (hashed % self._bucket_count))
        while index >= self._first and index > 0:
            (link,) = struct.unpack_from("<I", self._data, self._chains + 4 * (index - self._first))
            if link | 1 == hashed | 1:
                yield index
            if link & 1:
                return
            index += 1

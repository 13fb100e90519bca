# SPDX-License-Identifier: Apache-2.0
"""Reads the parts of a 64-bit little-endian shared library that the dynamic linker reads."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import NamedTuple

PT_LOAD, DT_NEEDED, DT_TEXTREL = 1, 1, 22
STB_LOCAL, SHN_UNDEF = 0, 0


class Symbol(NamedTuple):
    name: str
    defined: bool
    version: str
    """The required version of the symbol, such as GLIBC_2.34; empty if it has none."""


class Library(NamedTuple):
    machine: int
    loaded: int
    """Bytes of the file that are mapped: debug information does not count."""
    needed: list[str]
    tags: set[int]
    symbols: list[Symbol]


def read(path: Path) -> Library:
    data = path.read_bytes()
    if data[:6] != b"\x7fELF\x02\x01":
        raise ValueError(f"{path} is not a 64-bit little-endian ELF file")
    (machine,) = struct.unpack_from("<H", data, 18)
    segments_at, sections_at = struct.unpack_from("<QQ", data, 32)
    _, segment_count, _, section_count, names_index = struct.unpack_from("<HHHHH", data, 54)

    segments = [struct.unpack_from("<IIQQQQQQ", data, segments_at + 56 * i) for i in range(segment_count)]
    loaded = sum(size for kind, _, _, _, _, size, _, _ in segments if kind == PT_LOAD)

    headers = [struct.unpack_from("<IIQQQQIIQQ", data, sections_at + 64 * i) for i in range(section_count)]
    names = data[headers[names_index][4] :]
    sections = {_text(names, header[0]): data[header[4] : header[4] + header[5]] for header in headers}
    strings = sections[".dynstr"]

    dynamic = list(struct.iter_unpack("<QQ", sections[".dynamic"]))
    versions = _versions_wanted(sections.get(".gnu.version_r", b""), strings)
    indexes = [index for (index,) in struct.iter_unpack("<H", sections.get(".gnu.version", b""))]
    symbols = []
    for number, (name, info, _, section, _, _) in enumerate(struct.iter_unpack("<IBBHQQ", sections[".dynsym"])):
        if info >> 4 != STB_LOCAL:
            wanted = versions.get(indexes[number] & 0x7FFF, "") if indexes else ""
            symbols.append(Symbol(_text(strings, name), section != SHN_UNDEF, wanted))
    return Library(
        machine,
        loaded,
        [_text(strings, value) for tag, value in dynamic if tag == DT_NEEDED],
        {tag for tag, _ in dynamic},
        symbols,
    )


def _versions_wanted(table: bytes, strings: bytes) -> dict[int, str]:
    """Index in .gnu.version to name: for each library a Verneed, followed by a chain of Vernaux."""
    found: dict[int, str] = {}
    at, more = 0, bool(table)
    while more:
        _, count, _, first, to_next = struct.unpack_from("<HHIII", table, at)
        entry = at + first
        for _ in range(count):
            _, _, index, name, step = struct.unpack_from("<IHHII", table, entry)
            found[index] = _text(strings, name)
            entry += step
        at, more = at + to_next, to_next != 0
    return found


def _text(strings: bytes, at: int) -> str:
    return strings[at : strings.index(b"\0", at)].decode()

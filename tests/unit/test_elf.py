# SPDX-License-Identifier: Apache-2.0
"""Symbols of a library, read like the dynamic linker does, and compared with a reader that uses sections."""

from __future__ import annotations

import ctypes
import random
import re
import subprocess
from pathlib import Path

import pytest

from tests import elf as by_sections
from ttmem.agent import require
from ttmem.doctor import elf


def test_the_same_symbols_as_a_reader_by_sections() -> None:
    path = require()
    expected = by_sections.read(path)
    names = [symbol.name for symbol in expected.symbols]
    found = elf.read(str(path), [*names, "no_such_function", ""])
    assert found.defined == {symbol.name for symbol in expected.symbols if symbol.defined}
    assert (found.machine, found.needed) == (expected.machine, expected.needed)
    assert set() < found.defined < set(names), "nothing was told apart"


def loaded_libraries() -> list[str]:
    ctypes.CDLL("libm.so.6")
    return sorted(set(re.findall(r"/\S*\.so[.\d]*$", Path("/proc/self/maps").read_text(), re.MULTILINE)))


def test_every_library_of_this_process() -> None:
    """Libraries of the system: other linkers, versioned symbols, old and new tables."""
    compared = 0
    for path in loaded_libraries():
        try:
            expected = by_sections.read(Path(path))
        except (KeyError, ValueError):
            continue  # no sections, or none of this type
        defined = {symbol.name for symbol in expected.symbols if symbol.defined}
        assert elf.read(path, defined).defined == defined, path
        compared += 1
    assert compared > 1


def called_by(readelf: str) -> set[str]:
    return {line.split()[4].partition("@")[0] for line in readelf.splitlines() if "JUMP_SLO" in line}


NAMES = ["used", "idle", "user"]
RELACOUNT = (0x6FFFFFF9).to_bytes(8, "little")


def called(folder: Path, options: list[str]) -> Path:
    """A library with a function that it calls itself, and two that it only exports."""
    source, library = folder / "called.c", folder / f"called{len(options)}.so"
    source.write_text(
        "int used(int n) { return n; }\nint idle(void) { return 1; }\nint user(int n) { return used(n); }\n"
    )
    command = ["gcc", "-shared", "-fPIC", "-O0", "-Wl,--hash-style=gnu", *options, str(source), "-o", str(library)]
    subprocess.run(command, check=True)
    return library


def test_what_is_called_through_the_linkage_table(folder: Path) -> None:
    for options, expected in ([], {"used"}), (["-Wl,-Bsymbolic"], set()):
        library = called(folder, options)
        found = elf.read(str(library), NAMES)
        slots = subprocess.run(["readelf", "-rW", str(library)], capture_output=True, text=True, check=True).stdout
        assert found.called == called_by(slots) & set(NAMES) == expected
        assert found.defined == set(NAMES)


@pytest.mark.parametrize(("tag", "value"), [(16, 0), (30, 2)])
def test_a_library_that_binds_within_calls_nothing_that_can_be_stood_in_for(folder: Path, tag: int, value: int) -> None:
    """DT_SYMBOLIC, and the flag that replaced it: the slots exist, and the linker fills them from the library."""
    content = bytearray(called(folder, []).read_bytes())
    count = next(at for at in range(0, len(content) - 16, 8) if content[at : at + 8] == RELACOUNT)
    content[count : count + 16] = tag.to_bytes(8, "little") + value.to_bytes(8, "little")
    path = folder / "symbolic.so"
    path.write_bytes(content)
    assert elf.read(str(path), NAMES).called == set()
    content[count + 8 : count + 16] = bytes(8)
    path.write_bytes(content)
    assert elf.read(str(path), NAMES).called == (set() if tag == 16 else {"used"})


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"#!/bin/sh\n", b"\x7fELF\x01\x01" + bytes(100), bytes(4096)])
def test_what_is_no_library_is_refused(folder: Path, content: bytes) -> None:
    path = folder / "lib.so"
    path.write_bytes(content)
    with pytest.raises(elf.NotALibrary, match=r"lib\.so"):
        elf.read(str(path), ["malloc"])


def test_a_damaged_library_is_refused_or_read_but_never_more(folder: Path) -> None:
    whole = require().read_bytes()
    chance = random.Random(7)
    outcomes = set()
    for number in range(300):
        content = bytearray(whole[: 1 + chance.randrange(len(whole))] if number % 2 else whole)
        for _ in range(1 + number % 20):
            content[chance.randrange(min(len(content), 4096))] = chance.randrange(256)
        path = folder / "lib.so"
        path.write_bytes(content)
        try:
            elf.read(str(path), ["malloc", "_ZN2tt8tt_metal13AllocatorImpl5clearEv"])
            outcomes.add("read")
        except elf.NotALibrary:
            outcomes.add("refused")
    assert outcomes == {"read", "refused"}

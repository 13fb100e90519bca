# SPDX-License-Identifier: Apache-2.0
"""native/src/layout.h and ttmem.wire.agent_ring have the same layout: field by field, and with random records."""

from __future__ import annotations

import contextlib
import os
import random
import re
import socket
import subprocess
from collections.abc import Iterator
from struct import calcsize

import pytest
from native.tests.build import CACHE, ROOT, build

from ttmem.model.kinds import Kind
from ttmem.wire import agent_ring as ring
from ttmem.wire.agent_ring import RECORD, RECORD_FIELDS, Record, Ring, RingEvent
from ttmem.wire.table_copy import copy_table

HEADER = ROOT / "native" / "src" / "layout.h"
PYTHON_FIELDS = {
    "Header": ring.HEADER_FIELDS,
    "Record": ring.RECORD_FIELDS,
    "Mesh": (*ring.MESH_FIELDS, ("banks", ring.BANKS_AT, f"{ring.BANK_SIZE * ring.BANK_COUNT}s")),
    "Bank": ring.BANK_FIELDS,
    "Chip": ring.CHIP_FIELDS,
    "Meter": ring.METER_FIELDS,
    "Group": ring.GROUP_FIELDS,
    "Window": (*ring.WINDOW_FIELDS, ("highs", ring.WINDOW_HEAD, f"{ring.FIGURES_SIZE * ring.METERS}s")),
    "High": (("used", 0, "Q"), ("reserved", 8, "Q")),
    "OpenPhase": (*ring.PHASE_FIELDS, ("figures", ring.PHASE_HEAD, f"{ring.FIGURES_SIZE * ring.METERS}s")),
    "Reached": (("begin", 0, "Q"), ("peak", 8, "Q")),
}
# A tuple has a method with that name.
OTHER_NAMES = {("Bank", "count"): "banks"}


def without_comments(text: str) -> str:
    return re.sub(r"//[^\n]*", "", text)


def fields_of(text: str) -> dict[str, list[str]]:
    """The fields of each struct, as declared."""
    structs: dict[str, list[str]] = {}
    for name, body in re.findall(r"struct (\w+) \{(.*?)\n\};", without_comments(text), re.S):
        fields = structs.setdefault(name, [])
        for declaration in re.findall(r"([^;]+);", body):
            _, names = declaration.strip().split(maxsplit=1)
            fields += [re.sub(r"\[.*\]", "", field).strip() for field in names.split(",")]
    return structs


def enums_of(text: str) -> dict[str, list[str]]:
    return {
        name: re.findall(r"(k\w+)\s*=", body)
        for name, body in re.findall(r"enum class (\w+) : \w+ \{(.*?)\};", without_comments(text), re.S)
    }


@pytest.fixture(scope="module")
def compiled() -> dict[tuple[str, ...], tuple[int, ...]]:
    """The compiler's view of layout.h: (struct, field) -> offset and size, (struct,) -> size, names -> values."""
    text = HEADER.read_text()
    lines = []
    for struct, fields in fields_of(text).items():
        lines.append(f'printf("{struct} = %zu\\n", sizeof(ttmem::{struct}));')
        for field in fields:
            where = f"offsetof(ttmem::{struct}, {field}), sizeof(ttmem::{struct}::{field})"
            lines.append(f'printf("{struct} {field} = %zu %zu\\n", {where});')
    for enum, names in enums_of(text).items():
        lines += [f'printf("{enum} {name} = %u\\n", unsigned(ttmem::{enum}::{name}));' for name in names]
    lines += [
        f'printf("{name} = %llu\\n", (unsigned long long)ttmem::{name});'
        for name in re.findall(r"constexpr \w+ (k\w+) =", without_comments(text))
    ]
    CACHE.mkdir(parents=True, exist_ok=True)
    source = CACHE / f"layout.{os.getpid()}.cpp"
    program = source.with_suffix("")
    try:
        source.write_text('#include "layout.h"\n#include <cstdio>\nint main() {\n' + "\n".join(lines) + "\n}\n")
        subprocess.run(["g++", "-std=c++17", f"-I{HEADER.parent}", str(source), "-o", str(program)], check=True)
        out = subprocess.run([str(program)], check=True, capture_output=True, text=True).stdout
    finally:
        source.unlink(missing_ok=True)
        program.unlink(missing_ok=True)
    found = {}
    for line in out.splitlines():
        name, _, values = line.partition(" = ")
        found[tuple(name.split())] = tuple(int(value) for value in values.split())
    return found


@pytest.mark.parametrize("struct", PYTHON_FIELDS)
def test_every_field_has_the_same_name_place_and_size(
    compiled: dict[tuple[str, ...], tuple[int, ...]], struct: str
) -> None:
    spare = {"spare", "spare2", "rest"}
    cpp = {
        OTHER_NAMES.get((struct, names[1]), names[1]): values
        for names, values in compiled.items()
        if names[0] == struct and len(names) == 2 and names[1] not in spare
    }
    python = {name: (offset, calcsize("<" + code)) for name, offset, code in PYTHON_FIELDS[struct]}
    assert cpp == python
    assert len(cpp) > 1


def test_sizes(compiled: dict[tuple[str, ...], tuple[int, ...]]) -> None:
    assert compiled["Header",] == (ring.HEADER_SIZE,)
    assert compiled["Mesh",] == (ring.MESH_SIZE,)
    assert compiled["Bank",] == (ring.BANK_SIZE,)
    assert compiled["Chip",] == (ring.CHIP_SIZE,)
    assert compiled["Meter",] == (ring.METER_SIZE,)
    assert compiled["Group",] == (ring.GROUP_SIZE,)
    assert compiled["Window",] == (ring.WINDOW_SIZE,)
    assert compiled["OpenPhase",] == (ring.PHASE_SIZE,)
    assert compiled["High",] == compiled["Reached",] == (ring.FIGURES_SIZE,)
    assert compiled["Record",] == (ring.RECORD_SIZE,) == (RECORD.size,)


def test_the_tuples_have_the_fields(compiled: dict[tuple[str, ...], tuple[int, ...]]) -> None:
    for tuple_type, fields in (
        (ring.Record, ring.RECORD_FIELDS), (ring.Bank, ring.BANK_FIELDS), (ring.RingChip, ring.CHIP_FIELDS),
        (ring.Mesh, PYTHON_FIELDS["Mesh"]),
    ):  # fmt: skip
        assert tuple_type._fields == tuple(name for name, _, _ in fields)


def shouting(name: str) -> str:
    """kCacheCleared -> CACHE_CLEARED"""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name[1:]).upper()


def test_events(compiled: dict[tuple[str, ...], tuple[int, ...]]) -> None:
    cpp = {shouting(names[1]): value for names, (value, *_) in compiled.items() if names[0] == "Event"}
    assert cpp.pop("NONE") == 0
    assert cpp == {event.name: event.value for event in RingEvent}


def test_kinds(compiled: dict[tuple[str, ...], tuple[int, ...]]) -> None:
    cpp = {shouting(names[1]): value for names, (value, *_) in compiled.items() if names[0] == "Kind"}
    assert cpp.pop("PROGRAM_FRAME") == ring.PROGRAM_FRAME
    python = {kind.name: kind.value for kind in Kind}
    assert cpp.keys() <= python.keys()
    assert {name: python[name] for name in cpp} == cpp


def test_gauges(compiled: dict[tuple[str, ...], tuple[int, ...]]) -> None:
    cpp = {shouting(names[1]).lower(): value for names, (value, *_) in compiled.items() if names[0] == "Gauge"}
    assert cpp == {gauge: number for number, gauge in enumerate(ring.GAUGES)}
    assert compiled["kGauges",] == (len(ring.GAUGES),)
    pools = {"dram_pool", "l1_buffer_pool", "program_pool"}
    assert {kind.label for kind in Kind} | pools == set(ring.GAUGES)


def test_constants(compiled: dict[tuple[str, ...], tuple[int, ...]]) -> None:
    for name, value in (
        ("kMagic", ring.MAGIC), ("kVersion", ring.VERSION), ("kNoSlot", ring.NO_SLOT), ("kNoMeshId", ring.NO_MESH_ID),
        ("kNoBoard", ring.NO_BOARD), ("kShared", ring.SHARED), ("kWholesale", ring.WHOLESALE),
        ("kBinary", ring.BINARY), ("kRan", ring.RAN), ("kKept", ring.KEPT), ("kPerCore", ring.PER_CORE),
    ):  # fmt: skip
        assert compiled[name,] == (value,), name
    flags = re.findall(r"constexpr uint8_t (k\w+) =", HEADER.read_text())
    assert flags == ["kShared", "kWholesale", "kBinary", "kRan", "kKept", "kPerCore"]


def test_a_longest_blob_can_be_read() -> None:
    longest = re.search(r"kMaxBlob = (\d+);", (HEADER.parent / "store.cpp").read_text())
    assert longest is not None
    assert int(longest[1]) <= ring.MAX_BLOB


# -- written there, read here, and the other way --------------------------------------------------------------------


@contextlib.contextmanager
def written(*arguments: str) -> Iterator[tuple[Ring, str]]:
    """A memory that native/tests/ring_writer.cpp has written, and what it printed."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        command = [build().program("ring_writer"), arguments[0], str(theirs.fileno()), *arguments[1:]]
        ran = subprocess.run(
            command, pass_fds=[theirs.fileno()], check=True, capture_output=True, text=True, timeout=60
        )
        _, fds, _, _ = socket.recv_fds(ours, 1, 1)
    memory = Ring(fds[0])
    try:
        yield memory, ran.stdout
    finally:
        memory.close()


def record_of(line: str) -> Record:
    return Record(**{name: int(value) for name, _, value in (part.partition("=") for part in line.split()[1:])})


@pytest.mark.parametrize("seed", ["1", "2", "3"])
def test_what_cpp_writes_python_reads(seed: str) -> None:
    with written("random", seed, "3000") as (memory, out):
        lines = out.splitlines()
        wrote = [record_of(line) for line in lines if line.startswith("ring ")]
        assert len(wrote) == 3000
        assert memory.field("head") == memory.head == 3000
        lost, read = memory.read(5000)
        assert lost == 0
        assert [Record._make(record) for record in read] == wrote
        live = [record_of(line) for line in lines if line.startswith("live ")]
        assert len(live) > 100
        assert copy_table(memory).records() == sorted(live)
        for line in (line for line in lines if line.startswith("blob ")):
            _, number, *text = line.split()
            assert memory.blob(int(number)) == "".join(text).encode()


def test_what_python_packs_is_what_cpp_lays_out() -> None:
    numbers = random.Random(7)
    widths = [8 * calcsize(code) for _, _, code in RECORD_FIELDS]
    values = [[numbers.getrandbits(width) for width in widths] for _ in range(500)]
    values += [[0] * len(widths), [(1 << width) - 1 for width in widths]]
    text = "\n".join(" ".join(map(str, record)) for record in values)
    ran = subprocess.run(
        [build().program("ring_writer"), "pack"], input=text, check=True, capture_output=True, text=True, timeout=60
    )
    assert [bytes.fromhex(line) for line in ran.stdout.split()] == [RECORD.pack(*record) for record in values]


def test_a_memory_has_as_much_room_as_the_header_says(compiled: dict[tuple[str, ...], tuple[int, ...]]) -> None:
    with written("random", "9", "10") as (memory, _):
        for count, constant in (
            ("ring_slots", "kRingSlots"), ("table_slots", "kTableSlots"), ("meshes", "kMeshes"), ("chips", "kChips"),
            ("blobs_size", "kBlobBytes"), ("meters", "kMeters"), ("windows", "kWindows"), ("phases", "kOpenPhases"),
        ):  # fmt: skip
            assert (memory.field(count),) == compiled[constant,]
        assert compiled["kMeters",] == (ring.METERS,)

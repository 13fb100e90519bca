# SPDX-License-Identifier: Apache-2.0
"""The proof of concept's records, offset by offset, with formats written from the protocol page."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ttmem.model.events import Allocated, Freed
from ttmem.model.kinds import KINDS, Kind
from ttmem.wire import legacy_records as legacy
from ttmem.wire.legacy_records import DeviceInfo, Type, Usage, event_of, reply, request, short_request

LAW = settings(max_examples=60)
FORMATS = {
    72: "<B3xiQB3xiQQ4Q",
    112: "<B3xiQB3xiQQ4Q2Q6I",
    128: "<B3xiQB3xiQQ6Q2Q6I",
    144: "<B3xiQB3xiQQ6Q2Q6I4I",
}
U64 = ("dram", "l1", "l1_small", "trace", "cb", "kernel", "total_dram", "total_l1")
U32 = ("arch", "dram_channels", "dram_channel_size", "l1_per_core", "available", "devices")
# Field: offsets in the 72-, 112-, 128- and 144-byte record.
OFFSETS = {
    "dram": (40, 40, 40, 40),
    "l1": (48, 48, 48, 48),
    "l1_small": (56, 56, 56, 56),
    "trace": (64, 64, 64, 64),
    "cb": (None, None, 72, 72),
    "kernel": (None, None, 80, 80),
    "total_dram": (None, 72, 88, 88),
    "total_l1": (None, 80, 96, 96),
    "arch": (None, 88, 104, 104),
    "dram_channels": (None, 92, 108, 108),
    "dram_channel_size": (None, 96, 112, 112),
    "l1_per_core": (None, 100, 116, 116),
    "available": (None, 104, 120, 120),
    "devices": (None, 108, 124, 124),
}
USAGE = Usage(*(0x1111111111111111 * n for n in range(1, 7)))
INFO = DeviceInfo(0x7777777777777777, 0x8888888888888888, *(0x11111111 * n for n in range(9, 15)))
VALUES = {**USAGE._asdict(), **INFO._asdict()}


def test_sizes() -> None:
    assert tuple(FORMATS) == legacy.SIZES
    assert [struct.calcsize(text) for text in FORMATS.values()] == [72, 112, 128, 144]
    assert legacy.HEADER.size == 40
    assert legacy.SHORT.size == legacy.SHORT_SIZE == 32
    assert {size: whole.size for size, whole in legacy.WHOLE.items()} == {size: size for size in FORMATS}


def test_type_codes() -> None:
    assert {t.name: int(t) for t in Type} == {
        "ALLOC": 1,
        "FREE": 2,
        "QUERY": 3,
        "RESPONSE": 4,
        "DUMP_REMAINING": 5,
        "DEVICE_INFO_QUERY": 6,
        "DEVICE_INFO_RESPONSE": 7,
        "CB_ALLOC": 8,
        "CB_FREE": 9,
        "KERNEL_LOAD": 10,
        "KERNEL_UNLOAD": 11,
        "DUMP_KERNELS": 12,
    }


@pytest.mark.parametrize("size", FORMATS)
def test_header_offsets(size: int) -> None:
    record = request(
        Type.ALLOC, -7, size=0x1122334455667788, code=3, pid=-9, ident=0x99AABBCCDDEEFF00, stamp=0x0102030405060708,
        record_size=size,
    )  # fmt: skip
    assert len(record) == size
    for text, offset, value in (
        ("<B", 0, 1),
        ("<3s", 1, b"\0\0\0"),
        ("<i", 4, -7),
        ("<Q", 8, 0x1122334455667788),
        ("<B", 16, 3),
        ("<3s", 17, b"\0\0\0"),
        ("<i", 20, -9),
        ("<Q", 24, 0x99AABBCCDDEEFF00),
        ("<Q", 32, 0x0102030405060708),
    ):
        assert struct.unpack_from(text, record, offset) == (value,), f"offset {offset}"
    assert record[40:] == bytes(size - 40)
    assert legacy.HEADER.unpack_from(record) == legacy.WHOLE[size].unpack(record)


@pytest.mark.parametrize("size", FORMATS)
@pytest.mark.parametrize("op", [Type.RESPONSE, Type.DEVICE_INFO_RESPONSE])
def test_reply_offsets(op: Type, size: int) -> None:
    record = reply(op, size, -1, USAGE, INFO)
    assert len(record) == size
    assert struct.unpack_from("<B3xi", record) == (op, -1)
    assert record[8:40] == bytes(32)
    expected = bytearray(record[:40].ljust(size, b"\0"))
    for name, offsets in OFFSETS.items():
        offset = offsets[list(FORMATS).index(size)]
        if offset is not None:
            struct.pack_into("<Q" if name in U64 else "<I", expected, offset, VALUES[name])
    assert record == bytes(expected), "every field in its place and nothing anywhere else"


@pytest.mark.parametrize("size", FORMATS)
def test_reply_unpacks_with_the_whole_format(size: int) -> None:
    values = struct.unpack(FORMATS[size], reply(Type.RESPONSE, size, 3, USAGE, INFO))
    names = [name for name in (*U64, *U32) if OFFSETS[name][list(FORMATS).index(size)] is not None]
    assert values[:7] == (4, 3, 0, 0, 0, 0, 0)
    assert values[7 : 7 + len(names)] == tuple(VALUES[name] for name in names)
    assert not any(values[7 + len(names) :]), "the ring buffer's fields stay 0"


@pytest.mark.parametrize("size", FORMATS)
def test_reply_is_zero_unless_told(size: int) -> None:
    assert reply(Type.RESPONSE, size, 5)[8:] == bytes(size - 8)


@pytest.mark.parametrize("size", [112, 128, 144])
@pytest.mark.parametrize("field", U32)
@pytest.mark.parametrize("value", [0xFFFFFFFF, 0x100000000, 1 << 40])
def test_what_32_bits_cannot_say_saturates(size: int, field: str, value: int) -> None:
    """For example a bank of 4 GiB, which must not become 0."""
    record = reply(Type.DEVICE_INFO_RESPONSE, size, 0, info=DeviceInfo(**{field: value}))
    offset = OFFSETS[field][list(FORMATS).index(size)]
    assert offset is not None
    assert struct.unpack_from("<I", record, offset) == (0xFFFFFFFF,)
    assert sum(map(bool, record[40:])) == 4, "its neighbours are untouched"


def test_short_record_offsets() -> None:
    record = short_request(Type.KERNEL_LOAD, -2, 0x1122334455667788, 0x99AABBCCDDEEFF00, 4321)
    assert struct.unpack("<B3siQQi4s", record) == (
        10, b"\0\0\0", -2, 0x1122334455667788, 0x99AABBCCDDEEFF00, 4321, bytes(4),
    )  # fmt: skip


def record_of(op: int, code: int = 0, size: int = 4096) -> legacy.Record:
    return (op, 2, size, code, 77, 0xABC000, 99)


@pytest.mark.parametrize(
    ("op", "code", "event"),
    [
        (1, 0, Allocated(2, Kind.DRAM, 0xABC000, 4096)),
        (1, 1, Allocated(2, Kind.L1, 0xABC000, 4096)),
        (1, 2, Allocated(2, Kind.HOST, 0xABC000, 4096)),
        (1, 3, Allocated(2, Kind.L1_SMALL, 0xABC000, 4096)),
        (1, 4, Allocated(2, Kind.TRACE, 0xABC000, 4096)),
        (1, 5, None),
        (1, 255, None),
        (2, 0, Freed(2, None, 0xABC000, 4096)),
        (2, 1, Freed(2, Kind.L1, 0xABC000, 4096)),
        (2, 4, Freed(2, Kind.TRACE, 0xABC000, 4096)),
        (2, 9, Freed(2, None, 0xABC000, 4096)),
        (3, 0, None),
        (4, 0, None),
        (5, 0, None),
        (6, 0, None),
        (7, 0, None),
        (8, 0, Allocated(2, Kind.CB, 0xABC000, 4096)),
        (9, 0, Freed(2, Kind.CB, 0xABC000, 4096)),
        (10, 0, Allocated(2, Kind.KERNEL, 0xABC000, 4096)),
        (10, 1, Allocated(2, Kind.FABRIC_KERNEL, 0xABC000, 4096)),
        (10, 2, Allocated(2, Kind.DISPATCH_KERNEL, 0xABC000, 4096)),
        (10, 3, None),
        (11, 0, Freed(2, Kind.KERNEL, 0xABC000, 4096)),
        (12, 0, None),
        (0, 0, None),
        (13, 0, None),
        (255, 0, None),
    ],
)
def test_event_of(op: int, code: int, event: object) -> None:
    found = event_of(record_of(op, code))
    assert found == event
    assert type(found) is type(event)


@LAW
@given(st.integers(0, 255), st.integers(0, 255))
def test_event_of_any_record(op: int, code: int) -> None:
    event = event_of(record_of(op, code))
    assert (event is not None) == (
        (op == Type.ALLOC and code < 5)
        or op in (Type.FREE, Type.CB_ALLOC, Type.CB_FREE, Type.KERNEL_UNLOAD)
        or (op == Type.KERNEL_LOAD and code < 3)
    )


def test_usage_of_kinds() -> None:
    used = [1 << int(kind) for kind in KINDS]
    bits = {kind: 1 << int(kind) for kind in KINDS}
    assert Usage.of(used) == Usage(
        dram=bits[Kind.DRAM],
        l1=bits[Kind.L1] + bits[Kind.FIRMWARE],
        l1_small=bits[Kind.L1_SMALL],  # and not system memory, as the proof of concept had it
        trace=bits[Kind.TRACE],
        cb=bits[Kind.CB],
        kernel=bits[Kind.KERNEL] + bits[Kind.FABRIC_KERNEL] + bits[Kind.DISPATCH_KERNEL],
    )

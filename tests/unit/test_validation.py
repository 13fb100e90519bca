# SPDX-License-Identifier: Apache-2.0
"""Values at the limits are accepted; values beyond are refused with a message that contains value and limit."""

from __future__ import annotations

import math
from typing import Any

import pytest

from ttmem.model import events as ev
from ttmem.model.geometry import BOARDS, Geometry
from ttmem.model.identity import ChipInfo
from ttmem.model.kinds import Kind
from ttmem.model.validation import InvalidValue, check, check_device, check_geometry, check_time
from ttmem.wire.client_decode import decode
from ttmem.wire.client_encode import encode
from ttmem.wire.client_records import DEVICE_OPENED, body_record

N150 = BOARDS["n150"]


def refusal(event: ev.Event) -> str:
    with pytest.raises(InvalidValue) as error:
        check(event)
    return str(error.value)


def opened(**changes: Any) -> ev.DeviceOpened:
    return ev.DeviceOpened(0, ChipInfo("77", geometry=N150._replace(**changes)))


@pytest.mark.parametrize("board", sorted(BOARDS))
def test_every_board_of_the_table_is_possible(board: str) -> None:
    check_geometry(BOARDS[board])


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("grid_x", 0, "grid width: 0 is not between 1 and 64"),
        ("grid_y", 0, "grid height: 0 is not between 1 and 64"),
        ("grid_x", 65, "grid width: 65 is not between 1 and 64"),
        ("grid_y", 1 << 20, "grid height: 1048576 is not between 1 and 64"),
        ("l1_size", 0, "L1 size: 0 is not between 1 and 1073741824"),
        ("l1_size", 1 << 31, "L1 size: 2147483648 is not between 1 and 1073741824"),
        ("l1_base", N150.l1_size + 1, f"L1 base: {N150.l1_size + 1} is not between 0 and {N150.l1_size}"),
        ("map_end", N150.l1_base + 1, f"end of the fixed L1 map: {N150.l1_base + 1} is not between 0 and"),
        ("l1_small_size", N150.l1_size, f"L1_SMALL size: {N150.l1_size} is not between 0 and"),
        ("dram_banks", 1 << 17, "DRAM banks: 131072 is not between 0 and 65536"),
        ("dram_bank_size", 1 << 62, "DRAM bank size: 4611686018427387904 is not between 0 and"),
        ("trace_size", N150.dram_bank_size + 1, "trace region size:"),
    ],
)
def test_a_chip_that_cannot_be(field: str, value: int, words: str) -> None:
    assert refusal(opened(**{field: value})).startswith(words)


def test_the_largest_chip_there_can_be() -> None:
    check(opened(grid_x=64, grid_y=64, l1_size=1 << 30, dram_banks=1 << 16, dram_bank_size=1 << 40))


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (ev.Allocated(0, Kind.DRAM, 1, 1, extra=ev.Extra(1 << 63)), "reserved bytes: 9223372036854775808 is not"),
        (ev.Allocated(0, Kind.L1, 1, 1, extra=ev.Extra(None, 1 << 4096)), "cores: a set with a core outside"),
        (ev.Freed(0, Kind.CB, 1, cores=1 << 32767), "cores: a set with a core outside the 64 x 64 there can be"),
        (ev.ProgramRun(0, 1, 1 << 4096), "cores: a set with a core outside"),
        (ev.ProgramCompiled(0, 1, 1 << 63, 0), "bytes of the kernel ring: 9223372036854775808 is not"),
        (ev.Described(0, Kind.L1, 1, ev.Extra(ev.MAX_SIZE + 1)), "reserved bytes: 107374182401 is not"),
        (ev.Lost(1 << 63), "lost events: 9223372036854775808 is not"),
        (ev.Rejected(1 << 49), "rejected records: 562949953421312 is not"),
        (ev.Viewed(0, 0, Kind.L1, 1 << 20, 0, 0, 0), "banks: 1048576 is not"),
        (ev.Viewed(0, 0, Kind.L1, 1, 0, 0, 1 << 63), "bytes in a bank: 9223372036854775808 is not"),
        (ev.Audited(0, 1, (0, 0), (1 << 63, 0), (0, 0), (1, 1)), "bytes in a bank: 9223372036854775808 is not"),
        (ev.DeviceOpened(0, ChipInfo("")), "chip: its id is empty"),
        (ev.DeviceOpened(0, ChipInfo("7", kmd=1 << 40)), "driver number: 1099511627776 is not"),
        (ev.DeviceOpened(0, ChipInfo("7", pci="77")), "PCI address: '77' is not like 0000:01:00.0"),
        (ev.DeviceOpened(0, ChipInfo("7", pci="0000:01:00.0\x1b")), "PCI address: '0000:01:00.0\\x1b' is not like"),
        (ev.ChipFound(ChipInfo("7", kmd=-1)), "driver number: -1 is not between 0 and 65535"),
    ],
)
def test_what_cannot_be_is_named(event: ev.Event, words: str) -> None:
    assert refusal(event).startswith(words)


@pytest.mark.parametrize("seconds", [math.nan, math.inf, -math.inf, -1.0, 1e300])
def test_a_time_that_is_none(seconds: float) -> None:
    with pytest.raises(InvalidValue, match="is not between 0 and 100000000000 seconds since 1970"):
        check_time(seconds)


def test_device_numbers() -> None:
    check_device((1 << 31) - 1)
    with pytest.raises(InvalidValue):
        check_device(1 << 31)


def test_a_record_from_a_client_is_checked_when_it_is_decoded() -> None:
    event = ev.Allocated(0, Kind.DRAM, 1, 1, extra=ev.Extra(1 << 63))
    with pytest.raises(InvalidValue, match="reserved bytes"):
        decode(encode(event))
    grid = b'{"chip":"7","geometry":[2,1048576,1048576,1499136,0,0,0,0,0,0,true]}'
    with pytest.raises(InvalidValue, match="grid width: 1048576"):
        decode(body_record(DEVICE_OPENED, 0, grid))


def test_geometry_is_a_tuple_of_known_fields() -> None:
    """A new field of a geometry needs a limit of its own: this test has to be changed with it."""
    checked = {"grid_x", "grid_y", "l1_size", "l1_base", "map_end", "l1_small_size", "dram_banks", "dram_bank_size",
               "trace_size"}  # fmt: skip
    assert set(Geometry._fields) == checked | {"arch", "live"}

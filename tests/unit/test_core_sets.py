# SPDX-License-Identifier: Apache-2.0
"""Sets of cores, their text, and ids that name one core's memory."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ttmem.model.core_sets import (
    CoreAddress,
    CoreRange,
    core_id,
    cores_of,
    format_ranges,
    mask_of,
    parse_ranges,
    ranges_of,
    split_core_id,
)

LAW = settings(max_examples=60)


@st.composite
def rectangles(draw: st.DrawFn) -> CoreRange:
    x0, y0 = draw(st.integers(0, 63)), draw(st.integers(0, 63))
    return CoreRange(x0, y0, draw(st.integers(x0, min(63, x0 + 5))), draw(st.integers(y0, min(63, y0 + 5))))


def cells(ranges: list[CoreRange]) -> list[tuple[int, int]]:
    return [(x, y) for x0, y0, x1, y1 in ranges for y in range(y0, y1 + 1) for x in range(x0, x1 + 1)]


def test_a_bit_per_core() -> None:
    assert mask_of([CoreRange(0, 0, 0, 0)]) == 1
    assert mask_of([CoreRange(3, 2, 3, 2)]) == 1 << (2 * 64 + 3)
    assert mask_of([]) == 0
    assert mask_of([CoreRange(63, 63, 63, 63)]) == 1 << (64 * 64 - 1)


@pytest.mark.parametrize("bad", [(1, 0, 0, 0), (0, 1, 0, 0), (-1, 0, 0, 0), (0, 0, 64, 0), (0, 0, 0, 64)])
def test_ranges_outside_are_refused(bad: tuple[int, int, int, int]) -> None:
    with pytest.raises(ValueError, match=r"core range .* is outside"):
        mask_of([CoreRange(*bad)])


@LAW
@given(st.lists(rectangles(), max_size=5))
def test_mask_holds_exactly_the_cores(ranges: list[CoreRange]) -> None:
    wanted = set(cells(ranges))
    mask = mask_of(ranges)
    found = list(cores_of(mask))
    assert found == sorted(wanted, key=lambda core: (core[1], core[0]))
    assert mask.bit_count() == len(wanted)


@LAW
@given(st.lists(rectangles(), max_size=5))
def test_ranges_cover_the_mask_once(ranges: list[CoreRange]) -> None:
    mask = mask_of(ranges)
    back = ranges_of(mask)
    assert mask_of(back) == mask
    assert len(cells(back)) == mask.bit_count(), "no core twice"
    assert sum(r.cores for r in back) == mask.bit_count()
    assert back == sorted(back, key=lambda r: (r.y0, r.x0))


@LAW
@given(rectangles())
def test_one_rectangle_stays_one(rectangle: CoreRange) -> None:
    assert ranges_of(mask_of([rectangle])) == [rectangle]


def test_an_l_shape_needs_two() -> None:
    assert ranges_of(mask_of([CoreRange(0, 0, 7, 7), CoreRange(0, 8, 3, 8)])) == [
        CoreRange(0, 0, 7, 7),
        CoreRange(0, 8, 3, 8),
    ]
    assert ranges_of(0) == []


@pytest.mark.parametrize(
    "text", ["{[0-0 - 7-7], [0-8 - 3-8]}", "[(x=0,y=0) - (x=7,y=7)] [(x=0,y=8) - (x=3,y=8)]", "{[0-0-7-7],[0-8-3-8]}"]
)
def test_parse_the_forms_of_the_runtime(text: str) -> None:
    assert parse_ranges(text) == [CoreRange(0, 0, 7, 7), CoreRange(0, 8, 3, 8)]


@LAW
@given(st.lists(rectangles(), min_size=1, max_size=4))
def test_text_round_trip(ranges: list[CoreRange]) -> None:
    assert parse_ranges(format_ranges(ranges)) == ranges


def test_no_range_in_a_text() -> None:
    with pytest.raises(ValueError, match="no core range in 'none'; expected something like"):
        parse_ranges("none")


def test_core_id_of_the_protocol_page() -> None:
    assert core_id(5, 3, 0x20000) == 0x0005000300020000
    assert core_id(0, 0, 0x1FFFFFFFF) == 0xFFFFFFFF, "only 32 bits of address"


@LAW
@given(st.integers(0, 16), st.integers(0, 11), st.integers(0, 1572863))
def test_core_ids_come_apart_again(x: int, y: int, address: int) -> None:
    found = split_core_id(core_id(x, y, address), (17, 12), 1572864)
    assert found == (CoreAddress(x, y, address) if x or y else None)


@pytest.mark.parametrize(
    "ident",
    [
        0x20000,  # a plain address
        0xFFFFFFFF,
        core_id(10, 3, 64),  # outside a Wormhole's NOC
        core_id(5, 12, 64),
        core_id(5, 3, 1499136),  # beyond L1
        0x7F3A_1C40_2E80,  # a pointer
    ],
)
def test_ids_that_are_no_core_writes(ident: int) -> None:
    assert split_core_id(ident, (10, 12), 1499136) is None


def test_the_last_core_and_byte_still_count() -> None:
    assert split_core_id(core_id(9, 11, 1499135), (10, 12), 1499136) == CoreAddress(9, 11, 1499135)

# SPDX-License-Identifier: Apache-2.0
"""The placement of circular and dataflow buffers of a program: its properties, and the text of every error."""

from __future__ import annotations

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from ttmem.model.core_sets import CoreRange, mask_of
from ttmem.sim.errors import Clash
from ttmem.sim.placement import Tracks, rectangles

LAW = settings(max_examples=100, phases=[Phase.explicit, Phase.generate, Phase.shrink])
BASE, UNIT, L1_SIZE = 105824, 32, 1499136
GRID = CoreRange(0, 0, 7, 7)
LEFT, RIGHT, MIDDLE = CoreRange(0, 0, 3, 7), CoreRange(4, 0, 7, 7), CoreRange(2, 2, 5, 5)

SPAN = st.tuples(st.integers(0, 5), st.integers(0, 5)).map(sorted)
RECTANGLES = st.tuples(SPAN, SPAN).map(lambda spans: CoreRange(spans[0][0], spans[1][0], spans[0][1], spans[1][1]))
SIZES = st.integers(1, 5000)


def apart(ranges: list[CoreRange]) -> bool:
    return sum(one.cores for one in ranges) == mask_of(ranges).bit_count()


AREAS = st.lists(RECTANGLES, min_size=1, max_size=3).filter(apart)
BUFFERS = st.lists(st.tuples(AREAS, SIZES), min_size=1, max_size=8)


def place_all(buffers: list[tuple[list[CoreRange], int]]) -> list[int]:
    tracks = Tracks(BASE, UNIT, [ranges for ranges, _ in buffers])
    return [tracks.place(ranges, size) for ranges, size in buffers]


@LAW
@given(BUFFERS)
def test_addresses_are_aligned_and_start_at_the_base(buffers: list[tuple[list[CoreRange], int]]) -> None:
    addresses = place_all(buffers)
    assert addresses[0] == BASE
    assert all(address >= BASE and (address - BASE) % UNIT == 0 for address in addresses)


@LAW
@given(st.lists(st.tuples(st.sampled_from([[LEFT], [RIGHT], [LEFT, RIGHT], [RIGHT, LEFT]]), SIZES), max_size=8))
def test_on_equal_rectangles_buffers_are_packed(buffers: list[tuple[list[CoreRange], int]]) -> None:
    """As most operations have them: equal or disjoint. Then no buffer is higher than necessary."""
    taken: dict[CoreRange, int] = {LEFT: BASE, RIGHT: BASE}
    for (ranges, size), address in zip(buffers, place_all(buffers)):
        assert address == max(-(-taken[one] // UNIT) * UNIT for one in ranges)
        for one in ranges:
            taken[one] = address + size


def test_three_rectangles_in_a_row_may_overlap_as_with_tt_metal() -> None:
    """The second buffer does not raise the track of the middle core, which is above its start, if not above its end.

    The real ttnn 0.81.1 gives the same addresses: on core (2, 0) the third buffer is inside the second.
    """
    left, right, middle = [CoreRange(0, 0, 1, 0)], [CoreRange(2, 0, 3, 0)], [CoreRange(1, 0, 2, 0)]
    assert place_all([(left, 64), (right, 4096), (middle, 64)]) == [BASE, BASE, BASE + 64]


def test_a_rectangle_minds_what_meets_it() -> None:
    tracks = Tracks(BASE, UNIT, [[LEFT], [MIDDLE], [RIGHT]])
    assert tracks.place([LEFT], 4096) == BASE
    assert tracks.place([MIDDLE], 100) == BASE + 4096
    assert tracks.place([RIGHT], 100) == BASE + 4096 + 128
    assert tracks.end == BASE + 4096 + 228


def test_an_address_is_the_same_on_all_rectangles_and_leaves_a_gap_on_the_lower_one() -> None:
    tracks = Tracks(BASE, UNIT, [[LEFT], [LEFT, RIGHT], [RIGHT]])
    assert tracks.place([LEFT], 1000) == BASE
    assert tracks.place([LEFT, RIGHT], 1000) == BASE + 1024
    assert tracks.place([RIGHT], 1000) == BASE + 2048, "the gap below is not used again"


def test_the_units_of_blackhole() -> None:
    tracks = Tracks(111744, 64, [[GRID], [GRID]])
    assert [tracks.place([GRID], size) for size in (1, 1, 64, 1)] == [111744, 111808, 111872, 111936]


def test_a_scratchpad_lies_above_all_on_its_cores() -> None:
    tracks = Tracks(BASE, UNIT, [[LEFT], [RIGHT], [MIDDLE]])
    tracks.place([LEFT], 100)
    tracks.place([RIGHT], 4096)
    assert tracks.place_above([MIDDLE], 64) == BASE + 4096
    assert tracks.place([LEFT], 100) == BASE + 4096 + 64


def test_a_program_without_buffers_reaches_nowhere() -> None:
    tracks = Tracks(BASE, UNIT, [])
    tracks.check("circular", 1, L1_SIZE, BASE)
    assert tracks.end == BASE


@pytest.mark.parametrize(("lowest", "clashes"), [(None, False), (BASE + 4096, False), (BASE + 4095, True)])
def test_where_l1_buffers_begin(lowest: int | None, clashes: bool) -> None:
    tracks = Tracks(BASE, UNIT, [[RIGHT], [LEFT]])
    tracks.place([LEFT], 4096)
    if not clashes:
        tracks.check("circular", 7, L1_SIZE, lowest)
        return
    with pytest.raises(Clash) as error:
        tracks.check("circular", 7, L1_SIZE, lowest)
    assert str(error.value) == (
        "Statically allocated circular buffers in program 7 clash with L1 buffers on core range [0-0 - 3-7]. "
        "L1 buffer allocated at 109919 and static circular buffer region ends at 109920"
    )


@pytest.mark.parametrize("lowest", [None, BASE])
def test_the_end_of_l1(lowest: int | None) -> None:
    tracks = Tracks(BASE, UNIT, [[MIDDLE]])
    tracks.place([MIDDLE], L1_SIZE - BASE)
    if lowest is None:
        tracks.check("dataflow", 7, L1_SIZE, lowest)
    tracks.place([MIDDLE], 1)
    with pytest.raises(Clash) as error:  # reported before a clash on the same rectangle
        tracks.check("dataflow", 7, L1_SIZE, lowest)
    assert str(error.value) == (
        "Statically allocated dataflow buffers on core range [2-2 - 5-5] grow to 1499137 B which is beyond max L1 size "
        "of 1499136 B"
    )


def test_the_first_rectangle_that_clashes_is_named() -> None:
    tracks = Tracks(BASE, UNIT, [[RIGHT], [LEFT]])
    tracks.place([LEFT], 4096)
    tracks.place([RIGHT], 2048)
    with pytest.raises(Clash, match=r"on core range \[4-0 - 7-7\]\. .* ends at 107872$"):
        tracks.check("circular", 7, L1_SIZE, BASE)


def test_rectangles_of_one_buffer_that_meet() -> None:
    """tt-metal rejects such a set of cores earlier. For a program that is built by hand, this is the second check."""
    tracks = Tracks(BASE, UNIT, [[GRID, LEFT]])
    with pytest.raises(Clash) as error:
        tracks.place([GRID, LEFT], 64)
    assert str(error.value) == (
        "Local buffer address 105824 has to append to last L1 region [105824, 105888) or be at a higher address"
    )


@LAW
@given(st.lists(RECTANGLES, min_size=1, max_size=5))
def test_cut_again_the_cores_are_the_same(ranges: list[CoreRange]) -> None:
    cut = rectangles(ranges)
    assert mask_of(cut) == mask_of(ranges)
    if len(ranges) > 1:
        assert apart(cut)
        assert cut == sorted(cut) == rectangles(cut)


def test_one_range_is_left_as_it_is_and_order_does_not_matter() -> None:
    assert rectangles([MIDDLE]) == [MIDDLE]
    assert rectangles([RIGHT, LEFT]) == rectangles([LEFT, RIGHT]) == [GRID]
    assert rectangles([CoreRange(4, 0, 5, 0), CoreRange(0, 1, 1, 2)]) == [CoreRange(0, 1, 1, 2), CoreRange(4, 0, 5, 0)]

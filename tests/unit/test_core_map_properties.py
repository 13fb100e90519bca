# SPDX-License-Identifier: Apache-2.0
"""Any map of L1, compared with one that is built byte by byte."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.l1_accounts import SMALL, Account
from ttmem.l1.core_map import (
    Core,
    L1Map,
)
from ttmem.l1.core_segments import segments
from ttmem.model.address_ranges import AddressRanges, union
from ttmem.model.events import Allocated, Extra, ProgramRun
from ttmem.model.kinds import Kind


class Placed(NamedTuple):
    """A buffer: bytes on each core, or None if unknown."""

    address: int
    on_each: int | None
    small: bool


class Part(NamedTuple):
    program: int
    address: int
    on_each: int
    cores: int
    kind: Kind


def masks() -> st.SearchStrategy[int]:
    return st.sets(st.tuples(st.integers(0, 2), st.integers(0, 1)), min_size=1).map(
        lambda cores: sum(1 << (64 * y + x) for x, y in cores)
    )


addresses = st.integers(1, SMALL.l1_size - 1)
placed = st.builds(Placed, addresses, st.none() | st.integers(1, 600), st.booleans())
parts = st.builds(
    Part, st.integers(1, 3), st.integers(SMALL.l1_base, SMALL.l1_size - 1) | st.just(256), st.integers(1, 900), masks(),
    st.sampled_from([Kind.CB, Kind.DFB, Kind.SCRATCHPAD]),
)  # fmt: skip
runs = st.lists(st.tuples(st.integers(1, 3), masks()), max_size=4)


def painted(buffers: list[Placed], on_core: list[Part]) -> tuple[list[int], list[bool]]:
    """The number of allocations on each byte, and whether a buffer of unknown extent may be there."""
    counts = [1] * SMALL.l1_base + [0] * (SMALL.l1_size - SMALL.l1_base)
    for address, on_each, _ in buffers:
        for byte in range(address, min(SMALL.l1_size, address + (on_each or 0))):
            counts[byte] += 1
    unknown, may = [], False
    begins = {address for address, on_each, _ in buffers if on_each is None}
    for byte in range(SMALL.l1_size):
        may = (may or byte in begins) and not counts[byte]
        may = may and (byte != SMALL.l1_size - SMALL.l1_small_size or byte in begins)
        unknown.append(may)
    for part in on_core:
        for byte in range(part.address, min(SMALL.l1_size, part.address + part.on_each)):
            counts[byte] += 1
            unknown[byte] = False
    return counts, unknown


@settings(max_examples=100)
@given(st.lists(placed, max_size=8), st.lists(parts, max_size=6), runs)
def test_every_core_is_as_if_painted(
    buffers: list[Placed], programs: list[Part], launches: list[tuple[int, int]]
) -> None:
    account = Account(SMALL)
    for number, one in enumerate(buffers):  # each has its own allocator, so they may have any address
        extra = Extra(None if one.on_each is None else 6 * one.on_each, allocator=number)
        kind = Kind.L1_SMALL if one.small else Kind.L1
        account.apply(Allocated(0, kind, one.address, 6 * (one.on_each or 1), extra=extra))
    kept: dict[tuple[int, Kind, int, int], Part] = {}
    for part in programs:
        account.part(part.program, part.address, part.on_each, part.cores, part.kind)
        kept[part.program, part.kind, part.address, part.cores] = part  # the same place again replaces the buffer
    account.apply(*(ProgramRun(0, program, cores) for program, cores in [*launches, (9, 0)]))
    if not (buffers or programs or launches):
        account.buffer(1000, 0)
    found = account.map()
    floor = min([one.address for one in buffers if not one.small] + [SMALL.l1_size])
    assert found.floor == floor
    for y in range(2):
        for x in range(3):
            bit = 1 << (64 * y + x)
            last = next((program for program, cores in reversed(launches) if cores & bit), None)
            here = [part for part in kept.values() if part.program == last and part.cores & bit]
            counts, unknown = painted(buffers, here)
            core = found.core(x, y)
            assert core is not None
            used = sum(count > 0 for count in counts)
            assert (core.used, core.unknown) == (used, sum(unknown))
            assert core.free == SMALL.l1_size - used - sum(unknown)
            clipped = sum(min(SMALL.l1_size, b.address + (b.on_each or 0)) - b.address for b in buffers)
            clipped += sum(min(SMALL.l1_size, p.address + p.on_each) - p.address for p in here)
            assert core.overlap == SMALL.l1_base + clipped - used
            end = max((part.address + part.on_each for part in here), default=None)
            assert core.headroom == floor - (SMALL.l1_base if end is None else end)
            ends = [part.address + part.on_each for part in kept.values() if part.cores & bit]
            assert (core.worst.end if core.worst else None) == max(ends, default=None)
            free = [not counts[byte] and not unknown[byte] for byte in range(SMALL.l1_size - SMALL.l1_small_size)]
            runs_of_free = "".join("1" if is_free else "0" for is_free in free).split("0")
            assert core.largest_free == max(map(len, runs_of_free))
            check_segments(found, core, counts, unknown)


def check_segments(found: L1Map, core: Core, counts: list[int], unknown: list[bool]) -> None:
    listed = [*segments(found, core)]
    assert listed[0].start == 0
    assert listed[-1].end == SMALL.l1_size
    assert all(one.end == two.start for one, two in pairwise(listed))
    for segment in listed:
        assert segment.start < segment.end
        fixed = segment.kind in ("firmware", "ring")
        for byte in range(segment.start, segment.end):
            if segment.kind == "unknown":
                assert unknown[byte]
            elif segment.kind in ("free", "small_free"):
                assert not counts[byte]
                assert not unknown[byte]
                assert (byte >= SMALL.l1_size - SMALL.l1_small_size) == (segment.kind == "small_free")
            elif not fixed:
                assert counts[byte] == len(segment.allocations)


@settings(max_examples=200)
@given(
    st.lists(st.tuples(st.integers(0, 300), st.integers(1, 9)), max_size=80),
    st.lists(st.tuples(st.integers(0, 300), st.integers(1, 30)), max_size=5),
    st.tuples(st.integers(0, 300), st.integers(0, 300)),
)
def test_spans(found: list[tuple[int, int]], cut: list[tuple[int, int]], window: tuple[int, int]) -> None:
    spans, taken = (AddressRanges(union(sorted((at, at + size) for at, size in some))) for some in (found, cut))
    mine = {byte for at, size in found for byte in range(at, at + size)}
    gone = {byte for at, size in cut for byte in range(at, at + size)}
    start, end = window
    assert spans.total == len(mine)
    assert spans.covered(start, end) == len(mine & set(range(start, end)))
    assert {byte for left, right in spans.inside(start, end) for byte in range(left, right)} == mine & set(
        range(start, end)
    )
    line = "".join("1" if byte in mine - gone else "0" for byte in range(340))
    assert spans.largest_without(taken) == max(map(len, line.split("0")))


def test_the_largest_piece_may_be_none_of_the_longest_spans() -> None:
    spans = AddressRanges((20 * number, 20 * number + (11 if number < 40 else 10)) for number in range(50))
    assert spans.largest_without(AddressRanges([(0, 800)])) == 10

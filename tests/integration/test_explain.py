# SPDX-License-Identifier: Apache-2.0
"""Verdicts on failures of the real ttnn: tests apply the advice, which works, and less than that does not."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.explain_stage import UNIT, Stage, advice, free, has, held, staged, the_largest_fits_and_no_more
from tests.mock.wheel import PYTHONS
from ttmem.analyze import verdict_types as v
from ttmem.analyze.failure_types import (
    BELOW,
    FIXED,
    FREE_IN_BANK,
    PART_BELOW,
    Clash,
    OutOfMemory,
    PastEndOfL1,
    RingFull,
    TooLittleL1,
)
from ttmem.analyze.global_buffers import configuration_bytes
from ttmem.analyze.hold_reasons import Cause
from ttmem.analyze.verdicts import verdict_on
from ttmem.model.kinds import Kind


@pytest.fixture
def stage(folder: Path) -> Iterator[Stage]:
    with staged(folder) as made:
        yield made


# -- out of memory ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("python", PYTHONS)
def test_interleaved_l1(folder: Path, python: str) -> None:
    with staged(folder, python=python) as stage:
        stage.do("open", l1_small_size=32768)
        sizes = {stage.do("new", kind="L1", per_bank=size): size for size in (600_000, 400_000, 200_000)}
        request = {"kind": "L1", "per_bank": 500_000}
        verdict = stage.refused("new", **request)
        assert stage.told
        assert isinstance(verdict.failure, OutOfMemory)
        assert (verdict.why, verdict.unknown) == (v.TOO_FULL, ())
        assert {block.address: block.per_bank for block in held(verdict)} == sizes
        assert {block.tag for block in held(verdict)} == {"ttnn.allocate_tensor_on_device"}
        the_largest_fits_and_no_more(stage, verdict, kind="L1")
        assert not has(verdict, v.MORE_CORES)  # it is on all of them
        found = advice(verdict, v.FREE)
        assert [block.per_bank for block in found.blocks] == [600_000]  # each of the others alone leaves too little
        free(stage, found)
        stage.do("new", **request)


def test_sharded_l1(stage: Stage) -> None:
    stage.do("open")
    stage.do("new", kind="L1", per_bank=900_000)
    stage.do("new", kind="DRAM", per_bank=1 << 20)
    verdict = stage.refused("new", kind="L1", per_bank=960_000, width=4, height=2)
    assert verdict.why == v.TOO_FULL
    the_largest_fits_and_no_more(stage, verdict, kind="L1", width=4, height=2)
    cores = advice(verdict, v.MORE_CORES)
    assert cores.value == 16
    whole = 960_000 * 8
    address = stage.do("new", kind="L1", per_bank=whole // 16, width=8, height=2)
    stage.do("free", kind="L1", addresses=[address])
    assert stage.fails("new", kind="L1", per_bank=whole // 15, width=5, height=3)
    in_dram = advice(verdict, v.USE_DRAM)
    assert in_dram.value == whole // 12
    stage.do("new", kind="DRAM", per_bank=in_dram.value)
    free(stage, advice(verdict, v.FREE))
    stage.do("new", kind="L1", per_bank=960_000, width=4, height=2)


def test_dram(stage: Stage) -> None:
    stage.do("open")
    made = [stage.do("new", kind="DRAM", per_bank=300_000_000) for _ in range(3)]
    request = {"kind": "DRAM", "per_bank": 400_000_000}
    verdict = stage.refused("new", **request)
    assert (verdict.why, verdict.held, verdict.unknown) == (v.TOO_FULL, 3, ())
    the_largest_fits_and_no_more(stage, verdict, kind="DRAM")
    found = advice(verdict, v.FREE)
    assert [block.address for block in found.blocks] == made[2:]  # beside the gap at the top
    free(stage, found)
    stage.do("new", **request)


def test_larger_than_a_bank(stage: Stage) -> None:
    stage.do("open")
    stage.do("new", kind="L1", per_bank=100_000)
    verdict = stage.refused("new", kind="L1", per_bank=2_000_000)
    assert verdict.why == v.TOO_LARGE
    assert not has(verdict, v.FREE)
    the_largest_fits_and_no_more(stage, verdict, kind="L1")


def test_fragmentation(stage: Stage) -> None:
    stage.do("open")
    made = [stage.do("new", kind="L1", per_bank=size) for size in (200_000, 150_000, 300_000, 100_000, 250_000)]
    stage.do("free", kind="L1", addresses=[made[0], made[2], made[4]])
    stage.do("new", kind="L1", per_bank=180_000)  # into the first gap
    request = {"kind": "L1", "per_bank": 680_000}
    verdict = stage.refused("new", **request)
    assert verdict.why == v.FRAGMENTED
    assert verdict.free is not None
    assert verdict.free > 680_000
    found = advice(verdict, v.FREE)
    assert [block.address for block in found.blocks] == [made[3]]
    again = advice(verdict, v.REMAKE)
    free(stage, found)
    stage.do("new", **request)
    placed = [stage.do("new", kind="L1", per_bank=block.per_bank) for block in again.blocks]
    assert placed == list(again.addresses)


def test_the_largest_buffer_instead_of_the_smallest(stage: Stage) -> None:
    """Each of the two is enough alone; so is the largest with its neighbours, if it is not enough alone."""
    stage.do("open")
    small, large, _ = (stage.do("new", kind="L1", per_bank=size) for size in (400_000, 600_000, 300_000))
    request = {"kind": "L1", "per_bank": 395_000}
    verdict = stage.refused("new", **request)
    assert [block.address for block in advice(verdict, v.FREE).blocks] == [small]
    largest = advice(verdict, v.FREE_LARGEST)
    assert [block.address for block in largest.blocks] == [large]
    free(stage, largest)
    assert largest.gives is not None
    assert stage.fails("new", kind="L1", per_bank=largest.gives + UNIT)
    stage.do("new", **request)

    stage.do("close")
    stage.do("open")
    made = [stage.do("new", kind="L1", per_bank=size) for size in (200_000, 330_000, 350_000, 300_000, 150_000)]
    request = {"kind": "L1", "per_bank": 480_000}
    verdict = stage.refused("new", **request)
    found = {block.address for block in advice(verdict, v.FREE).blocks}
    assert made[2] not in found
    largest = advice(verdict, v.FREE_LARGEST)
    assert made[2] in {block.address for block in largest.blocks}
    assert len(largest.blocks) == 2
    free(stage, largest)
    stage.do("new", **request)


@pytest.mark.parametrize("cores", [2, 7, 26])
def test_a_global_circular_buffer(stage: Stage, cores: int) -> None:
    """It takes its full size on every core, so the advice is never more cores."""
    stage.do("open")
    low = stage.do("new", kind="L1", per_bank=614_400)
    stage.do("new", kind="DRAM", per_bank=1 << 20)
    verdict = stage.refused("ring", cores=cores, size=1_000_000)
    assert stage.told
    assert isinstance(verdict.failure, OutOfMemory)
    assert verdict.failure.global_circular
    assert (verdict.global_buffer, verdict.unknown) == ((1_000_000, configuration_bytes(cores - 1), None), ())
    assert [one.what for one in verdict.advice] == [v.FREE, v.SMALLER]  # neither more cores nor DRAM
    assert all(stage.fails("ring", cores=more, size=1_000_000) for more in (10, 26, 64))
    largest = advice(verdict, v.SMALLER)
    assert largest.value is not None
    stage.do("ring", cores=cores, size=largest.value)
    # One step more leaves no room for its configuration. Its own data is not advised to be freed.
    nearly = stage.refused("ring", cores=cores, size=largest.value + UNIT)
    assert isinstance(nearly.failure, OutOfMemory)
    assert nearly.failure.per_bank == configuration_bytes(cores - 1)
    assert nearly.global_buffer is not None
    assert nearly.global_buffer.own is not None
    assert nearly.global_buffer.data == largest.value + UNIT
    assert advice(nearly, v.SMALLER)[1:4:2] == (largest.value, v.EXACT)
    for found in (advice(verdict, v.FREE), advice(nearly, v.FREE)):
        assert [block.address for block in found.blocks] == [low]
    free(stage, advice(nearly, v.FREE))
    stage.do("ring", cores=cores, size=1_000_000)


@pytest.mark.parametrize(("board", "seed"), [("n150", 5), ("p150", 6)])
def test_whatever_is_live(board: str, seed: int, folder: Path) -> None:
    """Random buffers in both memories, and requests for more than the largest free piece."""
    chance = random.Random(seed)
    seen, seen_largest = set(), 0
    with staged(folder, board) as stage:
        stage.do("open", l1_small_size=8192)
        for kind, scale in (("L1", 1), ("DRAM", 800)) * 2:
            while not stage.fails("new", kind=kind, per_bank=scale * 64 * chance.randint(200, 3000)):
                pass
            live = stage.live(kind)
            stage.do("free", kind=kind, addresses=chance.sample(live, len(live) // 3))
            for _ in range(4):
                request = {"kind": kind, "per_bank": scale * 64 * chance.randint(3000, 9000)}
                if not stage.fails("new", **request):
                    continue
                verdict = stage.refused("new", **request)
                assert not verdict.unknown
                seen.add((kind, verdict.why, len(advice(verdict, v.FREE).blocks) > 1))
                other = [one for one in verdict.advice if one.what == v.FREE_LARGEST]
                seen_largest += len(other)
                free(stage, other[0] if other and chance.random() < 0.5 else advice(verdict, v.FREE))
                stage.do("new", **request)
            stage.do("free", kind=kind, addresses=stage.live(kind))
    assert {(kind, many) for kind, _, many in seen} >= {("L1", True), ("DRAM", True)}
    assert {why for _, why, _ in seen} == {v.FRAGMENTED, v.TOO_FULL}
    assert seen_largest


# -- circular and dataflow buffers ------------------------------------------------------------------------------------


def test_dataflow_buffers_clash(stage: Stage) -> None:
    stage.do("open")
    high = stage.do("new", kind="L1", per_bank=800_000)
    low = stage.do("new", kind="L1", per_bank=450_000, width=2, height=2)  # lock step: it is on all cores
    verdict = stage.refused("run", name="softmax")
    assert isinstance(verdict.failure, Clash)
    assert (verdict.failure.kind, verdict.failure.floor) == (Kind.DFB, low)
    assert verdict.wall is not None
    assert (verdict.wall.address, verdict.wall.per_bank) == (low, 450_016)
    assert max(piece.end for piece in verdict.pieces) == verdict.failure.end
    assert verdict.program is not None
    assert verdict.program.tag == "ttnn.softmax"
    found = advice(verdict, v.FREE)
    assert [block.address for block in found.blocks] == [low]
    assert found.gives == high - verdict.failure.end
    assert not has(verdict, v.REMAKE)  # it would get the same address again
    free(stage, found)
    stage.do("run", name="softmax")


def test_circular_buffers_clash(stage: Stage) -> None:
    stage.do("open")
    gap, high, low = (stage.do("new", kind="L1", per_bank=size) for size in (300_000, 500_000, 250_000))
    stage.do("free", kind="L1", addresses=[gap])
    sizes = [200_000, 153_600]
    verdict = stage.refused("run", name="circular", sizes=sizes)
    assert stage.told
    assert isinstance(verdict.failure, Clash)
    assert (verdict.failure.kind, verdict.failure.floor) == (Kind.CB, low)
    assert [piece.end - piece.start for piece in verdict.pieces] == sizes
    less = advice(verdict, v.SHRINK).value
    assert less is not None
    assert less == verdict.failure.end - low
    assert stage.fails("run", name="circular", sizes=[sizes[0], sizes[1] - less + 16])
    stage.do("run", name="circular", sizes=[sizes[0], sizes[1] - less])
    # Above it is a gap of sufficient size: after free and allocation it is out of the way.
    again = advice(verdict, v.REMAKE)
    assert [block.address for block in again.blocks] == [low]
    free(stage, again)
    assert [stage.do("new", kind="L1", per_bank=250_000)] == list(again.addresses)
    stage.do("run", name="circular", sizes=sizes)
    assert high > verdict.failure.end


def test_the_largest_buffer_makes_room_for_those_in_the_way(stage: Stage) -> None:
    stage.do("open")
    large, *low = (stage.do("new", kind="L1", per_bank=size) for size in (700_000, 150_016, 200_000))
    sizes = [200_000, 173_600]
    verdict = stage.refused("run", name="circular", sizes=sizes)
    assert not has(verdict, v.REMAKE)  # they would get the same addresses again
    found = advice(verdict, v.FREE_LARGEST)
    largest, *others = found.blocks
    assert (largest.address, [block.address for block in others]) == (large, low[1:])
    free(stage, found)
    assert [stage.do("new", kind="L1", per_bank=block.per_bank) for block in others] == list(found.addresses)
    # The lowest buffer now is as far above the end as advised.
    assert isinstance(verdict.failure, Clash)
    assert found.gives is not None
    assert found.gives == low[0] - verdict.failure.end
    assert stage.fails("run", name="circular", sizes=[sizes[0], sizes[1] + found.gives + UNIT])
    stage.do("run", name="circular", sizes=[sizes[0], sizes[1] + found.gives])


def test_a_smaller_l1_small_moves_the_wall(stage: Stage) -> None:
    def clash(small: int) -> Callable[[str], Any]:
        stage.do("open", l1_small_size=small)
        stage.do("new", kind="L1", per_bank=1_000_000)
        return lambda act: getattr(stage, act)("run", name="circular", sizes=[200_000, 180_000])

    verdict = clash(32768)("refused")
    found = advice(verdict, v.SMALL_SIZE)
    assert (found.basis, found.value is not None) == (v.AT_MOST, True)
    assert found.value is not None
    stage.do("close")
    assert clash(found.value + UNIT)("fails")
    stage.do("close")
    clash(found.value)("do")


def test_circular_buffers_beyond_l1(stage: Stage) -> None:
    stage.do("open")
    verdict = stage.refused("run", name="circular", sizes=[2048, 2_000_000])
    assert isinstance(verdict.failure, PastEndOfL1)
    assert [piece.end - piece.start for piece in verdict.pieces] == [2048, 2_000_000]
    less = advice(verdict, v.SHRINK).value
    assert less is not None
    assert stage.fails("run", name="circular", sizes=[2048, 2_000_000 - less + 16])
    stage.do("run", name="circular", sizes=[2048, 2_000_000 - less])


# -- operations with their own checks ---------------------------------------------------------------------------------

ALIGNMENT = 128  # of the rows of a slice that begins within a row


def test_a_slice_that_finds_too_little_room(stage: Stage) -> None:
    stage.do("open", l1_small_size=32768)
    high, low = (stage.do("new", kind="L1", per_bank=size) for size in (300_000, 400_000))
    width = 200_000
    verdict = stage.refused("run", name="slice", width=width)
    assert stage.told
    found = verdict.failure
    assert isinstance(found, TooLittleL1)
    assert (found.operation, found.counts, verdict.why, verdict.unknown) == ("ttnn.slice", BELOW, v.TOO_FULL, ())
    assert found.need is not None
    assert found.need >= 2 * 2 * width  # two rows, two bytes a number
    assert verdict.wall is not None
    assert verdict.wall.address == low
    less = advice(verdict, v.SHRINK).value
    assert less == found.need - found.have
    assert stage.fails("run", name="slice", width=width - less // 4 + ALIGNMENT)
    stage.do("run", name="slice", width=width - less // 4 - ALIGNMENT)
    release = advice(verdict, v.FREE)
    assert [block.address for block in release.blocks] == [low]
    free(stage, release)
    stage.do("run", name="slice", width=width)
    # The lowest remaining buffer is as far above the end as reported.
    assert release.gives is not None
    more = width + release.gives // 4
    assert stage.fails("run", name="slice", width=more + ALIGNMENT)
    stage.do("run", name="slice", width=more - ALIGNMENT)
    assert high > low


def test_an_error_that_is_not_about_memory(stage: Stage) -> None:
    stage.do("open")
    assert stage.fails("run", name="add_of_other_shapes")
    assert not stage.told


def test_a_concatenation_that_no_freeing_helps(stage: Stage) -> None:
    stage.do("open")
    made = stage.do("new", kind="L1", per_bank=100_000)
    verdict = stage.refused("run", name="concat", width=800_000)
    assert stage.told
    assert isinstance(verdict.failure, TooLittleL1)
    assert (verdict.failure.counts, verdict.why, verdict.unknown) == (FIXED, v.TOO_LARGE, ())
    assert [one.what for one in verdict.advice] == [v.SHRINK]
    stage.do("free", kind="L1", addresses=[made])
    assert stage.fails("run", name="concat", width=800_000)
    less = advice(verdict, v.SHRINK).value
    assert less is not None
    assert stage.fails("run", name="concat", width=800_000 - less // 2 + UNIT)
    stage.do("run", name="concat", width=800_000 - less // 2)


def test_a_layer_norm_that_counts_only_a_part(stage: Stage) -> None:
    stage.do("open")
    stage.do("new", kind="L1", per_bank=1_300_000)
    verdict = stage.refused("run", name="layer_norm", width=96_000)
    assert stage.told
    assert isinstance(verdict.failure, TooLittleL1)
    assert (verdict.failure.counts, verdict.why, verdict.unknown) == (PART_BELOW, v.TOO_FULL, ())
    assert verdict.free is not None
    assert 0.9 * verdict.free < verdict.failure.have < verdict.free
    release = advice(verdict, v.FREE)
    assert release.basis == v.AT_LEAST
    free(stage, release)
    stage.do("run", name="layer_norm", width=96_000)


def test_a_convolution_that_cannot_be_sliced_finely_enough(stage: Stage) -> None:
    stage.do("open", l1_small_size=32768)
    made = [stage.do("new", kind="L1", per_bank=size) for size in (640_000, 700_000)]
    verdict = stage.refused("run", name="conv2d", channels=512, size=64)
    assert stage.told
    assert isinstance(verdict.failure, TooLittleL1)
    assert (verdict.failure.counts, verdict.why, verdict.unknown) == (FREE_IN_BANK, v.TOO_FULL, ())
    assert verdict.free == verdict.failure.have
    assert {block.address for block in held(verdict)} == set(made)
    release = advice(verdict, v.FREE)
    assert release.basis == v.AT_MOST
    free(stage, release)
    stage.do("run", name="conv2d", channels=512, size=64)


# -- regions that are sized when the device is opened -----------------------------------------------------------------


def test_l1_small(stage: Stage) -> None:
    """Each time, the advice is enough for the failed request, and one step less is not. Then comes the next request."""
    small, rounds = 64, 0
    while True:
        stage.do("open", l1_small_size=small)
        if not stage.fails("run", name="conv2d"):
            break
        verdict = stage.refused("run", name="conv2d")
        assert stage.told
        assert isinstance(verdict.failure, OutOfMemory)
        assert verdict.failure.kind is Kind.L1_SMALL
        assert sum(block.per_bank for block in held(verdict)) == verdict.failure.allocated
        assert all(block.cause is Cause.LIKELY_PROGRAM_CACHE for block in held(verdict))
        found = advice(verdict, v.SMALL_SIZE)
        assert found.basis == v.EXACT
        assert found.value is not None
        stage.do("close")
        stage.do("open", l1_small_size=found.value - UNIT)
        nearly = stage.refused("run", name="conv2d").failure
        assert isinstance(nearly, OutOfMemory)
        assert nearly[:4] == verdict.failure[:4]
        assert nearly.allocated == verdict.failure.allocated
        stage.do("close")
        small, rounds = found.value, rounds + 1
    assert rounds > 1
    # The value without an account is at least as large.
    bound = verdict_on(verdict.failure)
    assert advice(bound, v.SMALL_SIZE).basis == v.AT_MOST
    assert (advice(bound, v.SMALL_SIZE).value or 0) >= small


def test_the_kernel_ring(stage: Stage) -> None:
    stage.do("open", ring=2048)
    verdict = stage.refused("run", name="add")
    assert stage.told
    assert isinstance(verdict.failure, RingFull)
    parts = dict(verdict.failure.parts)
    groups = ("runtime args", "semaphores", "circular buffers", "dataflow buffers", "kernel text")
    assert sum(parts[name] for name in groups) == verdict.failure.size
    found = advice(verdict, v.WORKER_SIZE)
    assert found.value is not None
    stage.do("close")
    stage.do("open", worker_l1_size=found.value + UNIT)
    assert stage.fails("run", name="add")
    stage.do("close")
    stage.do("open", worker_l1_size=found.value)
    stage.do("run", name="add")

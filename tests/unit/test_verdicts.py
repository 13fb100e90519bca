# SPDX-License-Identifier: Apache-2.0
"""Verdicts and their texts: with an account, without one, and with one that contradicts the message."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ttmem.account.entities import Source
from ttmem.account.ledger import Ledger
from ttmem.analyze import verdict_types as v
from ttmem.analyze.failure_context import verdict_at
from ttmem.analyze.failure_types import (
    BELOW,
    FIXED,
    FREE_IN_BANK,
    PART_BELOW,
    ArenaFull,
    BelowLimit,
    Clash,
    CutsInto,
    Failure,
    OutOfMemory,
    PastEndOfL1,
    RingFull,
    TooLittleL1,
    TraceFull,
    TraceOverlap,
)
from ttmem.analyze.out_of_memory import is_sharded
from ttmem.analyze.process_layout import ProcessLayout, layout_of
from ttmem.analyze.verdict_types import Advice, Verdict
from ttmem.analyze.verdicts import verdict_on
from ttmem.documents import explanation as data
from ttmem.documents import explanation_text
from ttmem.documents.explanation_summary import headline, held_by
from ttmem.documents.explanation_text import sentences
from ttmem.model.core_sets import CoreRange, mask_of
from ttmem.model.events import Allocated, DeviceOpened, Extra, Failed, ProgramCompiled
from ttmem.model.geometry import BOARDS
from ttmem.model.identity import ChipInfo, ProcessInfo
from ttmem.model.kinds import Confidence, Kind
from ttmem.model.printable import printable
from ttmem.model.units import exact, short
from ttmem.show.explain_text import render
from ttmem.show.text import Style

N150 = BOARDS["n150"]._replace(live=True, l1_small_size=32768)
GRID = CoreRange(0, 0, 7, 7)
TOP = N150.l1_size - N150.l1_small_size
BANK = TOP - N150.l1_base


class Account:
    """A process with an n150, and short names for its allocations."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.source: Source = self.ledger.source(0.0, ProcessInfo(42, 1), "agent", Confidence.EXACT)
        self.apply(DeviceOpened(0, ChipInfo("77", geometry=N150)))

    def apply(self, event: Any) -> None:
        self.ledger.apply(0.0, self.source, event)

    def l1(self, address: int, per_bank: int, kind: Kind = Kind.L1, allocator: int = 1, **more: Any) -> None:
        extra = Extra(per_bank * 64, allocator=allocator, **more)
        self.apply(Allocated(0, kind, address, per_bank * 64, extra=extra))

    def circular(self, program: int, start: int, size: int, tag: str | None = None) -> None:
        self.apply(Allocated(0, Kind.CB, start, size * 64, program, extra=Extra(cores=mask_of([GRID]), tag=tag)))

    @property
    def layout(self) -> ProcessLayout:
        found = layout_of(self.ledger.chips["77"], self.source.process)
        assert found is not None
        return found


def advice(verdict: Verdict, what: str) -> Advice:
    (found,) = [one for one in verdict.advice if one.what == what]
    return found


def text(verdict: Verdict) -> str:
    return render(data.document("x.log", 1, [("x", 1, verdict)]), Style(width=1000))


def full(**more: Any) -> OutOfMemory:
    """A request for 400000 B; 450016 B are free, 300000 B in one piece."""
    numbers = {"bank_size": BANK, "allocated": BANK - 450_016, "free": 450_016, "largest": 300_000, **more}
    return OutOfMemory(Kind.L1, 400_000 * 64, 64, 400_000, **numbers)


@pytest.fixture
def account() -> Account:
    """150016 B are free at the top, and 300000 B at the base."""
    account = Account()
    low = N150.l1_base + 300_000
    high = TOP - 150_016 - 100_000
    account.l1(
        high, 100_000, tag="ttnn.zeros", shape="[1, 1, 8, 8] bfloat16", stack="/me/model.py:7 load\n/me/run.py:1"
    )
    account.l1(low, high - low, tag="ttnn.matmul")
    return account


def test_who_is_in_the_way(account: Account) -> None:
    verdict = verdict_on(full(), account.layout)
    assert (verdict.why, verdict.asked, verdict.there, verdict.missing) == (v.FRAGMENTED, 400_000, 300_000, 100_000)
    assert [group.blocks[0].tag for group in verdict.holders] == ["ttnn.matmul", "ttnn.zeros"]
    found = advice(verdict, v.FREE)
    assert [block.tag for block in found.blocks] == ["ttnn.matmul"]
    assert found.gives == 300_000 + account.layout.blocks[1].per_bank
    shown = text(verdict)
    assert (
        "439.5 KiB (450,016 B) of 1.3 MiB (1,360,544 B) per core is free, but the largest piece has 293.0 KiB" in shown
    )
    assert "[1, 1, 8, 8] bfloat16, ttnn.zeros, me/model.py:7 load" in shown


def test_an_account_that_disagrees_is_not_used(account: Account) -> None:
    account.l1(N150.l1_base + 64, 32)  # according to the account, this was never freed; the message is more accurate
    verdict = verdict_on(full(), account.layout)
    assert (verdict.holders, verdict.why) == ((), v.FRAGMENTED)
    assert "allocated of a bank: 910,560 B according to ttmem, 910,528 B according to the message" in text(verdict)
    assert not [one for one in verdict.advice if one.blocks]


def test_the_allocator_that_the_message_is_of(account: Account) -> None:
    """A submesh has its own allocator, with the same addresses."""
    account.l1(TOP - 64, 64, allocator=2)
    assert verdict_on(full(), account.layout).held == 2
    part = full(allocated=64, free=BANK - 64, largest=BANK - 64)._replace(per_bank=BANK)
    verdict = verdict_on(part, account.layout)
    assert (verdict.held, verdict.unknown) == (1, ())


def test_another_process_on_the_chip_does_not_matter(account: Account) -> None:
    other = account.ledger.source(0.0, ProcessInfo(43, 1), "agent", Confidence.EXACT)
    account.ledger.apply(0.0, other, DeviceOpened(0, ChipInfo("77", geometry=N150)))
    account.ledger.apply(0.0, other, Allocated(0, Kind.L1, TOP - 640, 640 * 64, extra=Extra(640 * 64)))
    assert verdict_on(full(), account.layout).unknown == ()


def test_another_chip_of_the_process_does_not_matter(account: Account) -> None:
    account.apply(DeviceOpened(1, ChipInfo("78", geometry=N150)))
    account.apply(Allocated(1, Kind.L1, TOP - 640, 640 * 64, extra=Extra(640 * 64, allocator=1)))
    assert verdict_on(full(), account.layout).unknown == ()


def test_as_much_is_free_as_was_asked_for() -> None:
    assert verdict_on(full(free=400_000)).why == v.FRAGMENTED
    assert verdict_on(full(free=399_968)).why == v.TOO_FULL


def test_no_cores_are_advised_that_it_had() -> None:
    nothing = full()._replace(size=0, per_bank=0)
    assert not [one for one in verdict_on(nothing).advice if one.what == v.MORE_CORES]


def test_no_more_cores_are_advised_than_any_chip_has() -> None:
    """From a log alone, which does not contain their number."""
    cores = {
        count: [one.value for one in verdict_on(asked).advice if one.what == v.MORE_CORES]
        for count in (100, 120, 121, 395)
        for asked in [OutOfMemory(Kind.L1, 64 * 1000 * count, 64, 1000 * count, 64_000, 0, 64_000, 64_000)]
    }
    assert cores == {100: [100], 120: [120], 121: [], 395: []}


def test_without_an_account_only_the_message() -> None:
    verdict = verdict_on(full())
    assert (verdict.why, verdict.unknown) == (v.FRAGMENTED, (v.NO_LAYOUT,))
    assert advice(verdict, v.SMALLER)[1:4] == (300_000, 300_000 * 64, v.AT_MOST), "the page size is not known"
    old = verdict_on(OutOfMemory(Kind.L1, 64 * 64, 64, 64))
    assert (old.why, old.advice) == (v.NOT_KNOWN, ())
    assert "the message does not contain how much is free" in text(old)
    only = verdict_on(OutOfMemory(Kind.DRAM, 12 * 64, 12, 64, 32))
    assert (only.why, only.there) == (v.TOO_LARGE, None)


def test_an_old_message_with_an_account_has_its_numbers(account: Account) -> None:
    old = OutOfMemory(Kind.L1, 400_000 * 64, 64, 400_000)
    verdict = verdict_on(old, account.layout)
    assert (verdict.why, verdict.free, verdict.there) == (v.FRAGMENTED, 450_016, 300_000)
    dram = verdict_on(OutOfMemory(Kind.DRAM, 12 * 64, 12, 64), account.layout)
    assert "where the banks begin" in dram.unknown[0]


def test_sharded_or_not() -> None:
    assert is_sharded(full(), 64) is None
    assert is_sharded(full()._replace(banks=8, size=8 * 400_000), 64) is True
    assert is_sharded(full()._replace(size=63 * 400_000), 64) is False
    assert is_sharded(full()._replace(banks=8, size=8 * 400_000), None) is None


@pytest.mark.parametrize("per_bank", [1, 31, 32, 33, 5000])
def test_l1_small_without_an_account_is_a_bound(per_bank: int) -> None:
    empty = OutOfMemory(Kind.L1_SMALL, per_bank * 8, 8, per_bank, 0, 0, 0, 0)
    found = advice(verdict_on(empty), v.SMALL_SIZE)
    assert found.basis == v.AT_MOST
    assert found.value is not None
    assert per_bank <= found.value < per_bank + 64
    some = OutOfMemory(Kind.L1_SMALL, per_bank * 8, 8, per_bank, 1024, 960, 64, 64)
    bound = advice(verdict_on(some), v.SMALL_SIZE).value
    assert bound is not None
    assert bound >= 1024 + per_bank
    old = advice(verdict_on(OutOfMemory(Kind.L1_SMALL, 8, 8, 1)), v.SMALL_SIZE)
    assert (old.value, old.gives) == (None, 64)


def test_l1_small_counts_the_gap_at_its_bottom() -> None:
    account = Account()
    account.l1(N150.l1_size - 32768 + 4096, 32768 - 4096, Kind.L1_SMALL)
    failure = OutOfMemory(Kind.L1_SMALL, 8 * 5000, 8, 5000, 32768, 32768 - 4096, 4096, 4096)
    verdict = verdict_on(failure, account.layout)
    assert advice(verdict, v.SMALL_SIZE)[1:4] == (32768 - 4096 + 5024, 5024 - 4096, v.EXACT)
    assert [one.what for one in verdict.advice] == [v.SMALL_SIZE]
    assert "what clear_program_cache() would free" in text(verdict)
    assert "l1_small_size=33696, 928 B more per core: exactly enough for this request (later allocations" in text(
        verdict
    )


def test_a_clash(account: Account) -> None:
    low = N150.l1_base + 300_000
    account.apply(ProgramCompiled(0, 9, 0, 1234, "ttnn.conv2d"))
    account.circular(9, N150.l1_base, 200_000)
    account.circular(9, N150.l1_base + 200_000, 120_000)
    failure = Clash(Kind.CB, 1234, GRID, low, low + 20_000)
    verdict = verdict_on(failure, account.layout)
    assert verdict.wall is not None
    assert verdict.wall.tag == "ttnn.matmul"
    assert [piece.end for piece in verdict.pieces] == [N150.l1_base + 200_000, low + 20_000]
    assert advice(verdict, v.SHRINK).value == 20_000
    assert advice(verdict, v.SMALL_SIZE).value == 32768 - 20_000
    shown = text(verdict)
    assert "program 1234 ttnn.conv2d, cores 0,0 to 7,7" in shown
    assert f"free the buffer at {low:#x} (ttnn.matmul)" in shown


def test_a_clash_with_a_buffer_nobody_knows(account: Account) -> None:
    verdict = verdict_on(Clash(Kind.DFB, 1, GRID, 200_000, 200_001), account.layout)
    assert verdict.wall is None
    assert "which buffer is at 0x30d40: ttmem has recorded none there" in text(verdict)


def test_l1_small_in_use_is_not_given_away(account: Account) -> None:
    account.l1(N150.l1_size - 32768, 32, Kind.L1_SMALL)
    low = N150.l1_base + 300_000
    verdict = verdict_on(Clash(Kind.CB, 1, GRID, low, low + 32), account.layout)
    assert not [one for one in verdict.advice if one.what == v.SMALL_SIZE]


def test_regions(account: Account) -> None:
    trace = verdict_on(TraceFull(1_000_000, 1, 500_000), account.layout)
    assert (trace.missing, advice(trace, v.TRACE_SIZE)[1:4]) == (500_000, (1_000_000, 90112, v.AT_LEAST))
    assert "trace_region_size=1000000 or more, which takes 88 KiB per bank" in text(trace)
    ring = verdict_on(RingFull(80_000, 70_656, "TENSIX"), account.layout)
    assert advice(ring, v.WORKER_SIZE).value == N150.l1_size - N150.map_end - 80_000
    assert verdict_on(RingFull(80_000, 70_656, "ACTIVE_ETH")).advice == ()
    assert "get_max_worker_l1_unreserved_size() - 80000" in text(verdict_on(RingFull(80_000, 70_656, "TENSIX")))


def test_kernel_binaries_go_with_the_cache(account: Account) -> None:
    bank = 1_000_000
    base = N150.dram_bank_size - bank
    extra = Extra(600_000 * 12, allocator=1, binary=True)
    account.apply(Allocated(0, Kind.DRAM, base, 600_000 * 12, extra=extra))
    failure = OutOfMemory(Kind.DRAM, 500_000 * 12, 12, 500_000, bank, 600_000, 400_000, 400_000)
    assert f"clear_program_cache() frees the buffer at {base:#x} (program cache)" in text(
        verdict_on(failure, account.layout)
    )


def test_identical_buffers_are_one_group() -> None:
    account = Account()
    for number in range(1, 21):
        account.l1(TOP - number * 65536, 65536, tag="ttnn.zeros", shape="[1] x", stack="/me/model.py:7 load")
    account.l1(TOP - 20 * 65536 - 1024, 1024, tag="ttnn.ones")
    taken = 20 * 65536 + 1024
    failure = OutOfMemory(Kind.L1, 65536 * 64, 64, 65536, BANK, taken, BANK - taken, BANK - taken)
    verdict = verdict_on(failure, account.layout, "ttnn.zeros", "/me/model.py:7 load")
    assert [(group.buffers, len(group.blocks), group.per_bank) for group in verdict.holders] == [
        (20, 8, 65536), (1, 1, 1024),
    ]  # fmt: skip
    assert verdict.held == 21
    lines = text(verdict).splitlines()
    free = short((BANK - taken) * 64)
    likely = "for a tensor (likely [1] x) at model.py:7 (ttnn.zeros)"
    assert lines[0] == f"out of memory: 4 MiB of L1 over 64 cores {likely}; {free} free"
    assert lines[1] == "held by 20 x 4 MiB from model.py:7 (ttnn.zeros); 64 KiB from ttnn.ones"
    lowest = ", ".join(f"{TOP - number * 65536:#x}" for number in (20, 19, 18, 17))
    made = "20 x 64 KiB per core, L1 buffer, [1] x, ttnn.zeros, me/model.py:7 load"
    assert f"- {made}; at {lowest} and 16 more" in text(verdict)
    # Nothing is known about other lines or sizes.
    assert verdict_on(failure, account.layout, "ttnn.zeros", "/me/model.py:8 load").shape is None
    assert verdict_on(failure, account.layout, "ttnn.zeros").shape is None
    larger = failure._replace(size=failure.size + 64)
    assert verdict_on(larger, account.layout, "ttnn.zeros", "/me/model.py:7 load").shape is None


def test_every_address_to_free_has_its_operation_and_line(account: Account) -> None:
    account.l1(N150.l1_base, 300_000, tag="ttnn.ones", stack="/me/model.py:9 other")
    largest = BANK - 150_016 - 400_000
    failure = OutOfMemory(Kind.L1, 450_000 * 64, 64, 450_000, BANK, BANK - 150_016, 150_016, 150_016)
    verdict = verdict_on(failure, account.layout)
    freed = [one for one in verdict.advice if one.blocks]
    assert [one.what for one in freed] == [v.FREE]
    assert [block.per_bank for block in freed[0].blocks] == [largest]
    asks = failure._replace(per_bank=BANK - 100_000, size=64 * (BANK - 100_000))
    (found,) = [one for one in verdict_on(asks, account.layout).advice if one.what == v.FREE]
    shown = explanation_text.advice_text(found, verdict)
    low = N150.l1_base
    assert (
        f"free the 3 buffers at {low:#x} (ttnn.ones, me/model.py:9 other), {low + 300_000:#x} (ttnn.matmul), " in shown
    )
    assert f"{TOP - 250_016:#x} (ttnn.zeros, me/model.py:7 load), " in shown


def test_the_largest_buffer_is_an_alternative() -> None:
    account = Account()
    account.l1(TOP - 400_000, 400_000, tag="small")
    account.l1(TOP - 1_000_000, 600_000, tag="large")
    account.l1(TOP - 1_300_000, 300_000, tag="low")
    free = BANK - 1_300_000
    failure = OutOfMemory(Kind.L1, 395_008 * 64, 64, 395_008, BANK, 1_300_000, free, free)
    verdict = verdict_on(failure, account.layout)
    assert [block.tag for block in advice(verdict, v.FREE).blocks] == ["small"]
    assert [block.tag for block in advice(verdict, v.FREE_LARGEST).blocks] == ["large"]
    assert f"or free the largest buffer: the buffer at {TOP - 1_000_000:#x} (large), 585.9 KiB" in text(verdict)


def test_less_than_a_page_is_not_advised() -> None:
    def smaller(largest: int, per_bank: int = 400_000) -> list[int | None]:
        failure = OutOfMemory(Kind.DRAM, per_bank * 12, 12, per_bank, 1 << 20, (1 << 20) - largest, largest, largest)
        return [one.value for one in verdict_on(failure).advice if one.what == v.SMALLER]

    assert (smaller(2048), smaller(2047), smaller(0), smaller(1024, 1088)) == ([2048], [], [], [])
    account = Account()
    extra = Extra(600_000 * 12, allocator=1, tag="ttnn.zeros", shape="[9, 9] float32 tile", stack="m.py:1 f")
    account.apply(Allocated(0, Kind.DRAM, N150.dram_bank_size - 600_000, 600_000 * 12, extra=extra))
    for free, fits in ((4000, []), (4096, [4096]), (9000, [8192])):
        failure = OutOfMemory(Kind.DRAM, 600_000 * 12, 12, 600_000, 600_000 + free, 600_000, free, free)
        verdict = verdict_on(failure, account.layout, "ttnn.zeros", "m.py:1 f")
        assert verdict.shape == "[9, 9] float32 tile"
        assert [(one.value, one.basis) for one in verdict.advice if one.what == v.SMALLER] == [
            (value, v.EXACT) for value in fits
        ]


def test_a_global_circular_buffer(account: Account) -> None:
    failure = full(global_circular=True)._replace(banks=7, size=7 * 400_000)
    verdict = verdict_on(failure, account.layout, None, "/me/model.py:9 main")
    assert [one.what for one in verdict.advice] == [v.FREE, v.SMALLER]
    assert advice(verdict, v.SMALLER).value == 300_000  # the configuration goes to the other gap
    shown = text(verdict)
    assert "390.6 KiB of L1 on each of 7 cores for a global circular buffer at model.py:9" in shown
    assert "takes its full size on every core, so more cores do not help" in shown
    log = verdict_on(failure)
    assert [one.what for one in log.advice] == [v.SMALLER]
    # The same without a backtrace may be one: then more cores are advised only for other buffers.
    plain = verdict_on(failure._replace(global_circular=False))
    assert "not for a global circular buffer, which takes its full size on every core" in text(plain)


def test_traces_without_a_region() -> None:
    shown = text(verdict_on(TraceFull(1_000_000, 1, 500_000)))
    assert "ttnn 0.78 or newer, open the device with trace_region_size=0 (the default)" in shown


TWO_LINES: list[tuple[Failure, str, str]] = [
    (
        OutOfMemory(Kind.DRAM, 12 << 20, 12, 1 << 20, 2 << 20, 3 << 19, 1 << 19, 1 << 18),
        "out of memory: 12 MiB of DRAM over 12 banks at model.py:5 (ttnn.add); 6 MiB free",
        "held by: not known from a log; `ttmem run` lists it",
    ),
    (
        OutOfMemory(Kind.L1, 2048, 64, 2048, 1 << 20, (1 << 20) - 4096, 4096, 1024),
        "out of memory: 2 KiB of L1 on each of 64 cores at model.py:5 (ttnn.add); 4 KiB free per core, but the largest "
        "free block has 1 KiB",
        "held by: not known from a log; `ttmem run` lists it",
    ),
    (
        OutOfMemory(Kind.L1_SMALL, 64, 2, 32, 64, 64, 0, 0),
        "out of memory: 32 B of L1_SMALL on each of 2 cores at model.py:5 (ttnn.add); 0 B free per core",
        "held by: not known from a log; `ttmem run` lists it",
    ),
    (
        OutOfMemory(Kind.DRAM, 12 << 20, 12, 1 << 20, 1 << 19, 0, 1 << 19, 1 << 19),
        "out of memory: 12 MiB of DRAM over 12 banks at model.py:5 (ttnn.add); the empty memory has 6 MiB",
        "held by: not known from a log; `ttmem run` lists it",
    ),
    (
        Clash(Kind.DFB, 3, GRID, 0x20000, 0x20400),
        "clash: dataflow buffers of ttnn.add at model.py:5 reach 1 KiB per core into an L1 buffer, on cores 0,0 to 7,7",
        "held by: not known from a log; `ttmem run` lists it",
    ),
    (
        PastEndOfL1(Kind.CB, GRID, 1_600_000, 1_499_136),
        "too much for L1: circular buffers of ttnn.add at model.py:5 end 98.5 KiB above the end of L1, on "
        "cores 0,0 to 7,7",
        "held by the program itself",
    ),
    (
        TooLittleL1("ttnn.slice", 4096, 2048, BELOW),
        "too little L1: ttnn.slice at model.py:5 needs 4 KiB per core; 2 KiB per core available",
        "held by: not known from a log; `ttmem run` lists it",
    ),
    (
        TooLittleL1("ttnn.concat", 4096, 2048, FIXED),
        "too little L1: ttnn.concat at model.py:5 needs 4 KiB per core; 2 KiB per core available",
        "held by no buffer: it does not fit without other buffers either",
    ),
    (
        RingFull(4096, 2048, "TENSIX", (("kernel text", 4000), ("semaphores", 96), ("brisc", 4000))),
        "kernel ring too small: a program of ttnn.add at model.py:5 needs 4 KiB per TENSIX core; the ring has 2 KiB",
        "held by the program itself: 3.9 KiB kernel text, 96 B semaphores",
    ),
    (
        TraceFull(8192, 1, 4096),
        "trace region too small: 8 KiB of traces over all banks at model.py:5 (ttnn.add); the region has 4 KiB",
        "held by: not known from a log; `ttmem run` lists it",
    ),
    (
        TraceOverlap(0x1000, 0x2000),
        "trace overlap: a trace buffer at 0x1000 at model.py:5 (ttnn.add) would overlap DRAM that the traced work uses",
        "held by: not known",
    ),
    (
        ArenaFull(64, 32, "0-0", 0x1000, 0x1020),
        "persistent L1 arena full: 64 B per core at model.py:5 (ttnn.add); the arena has 32 B per core",
        "held by: not known",
    ),
    (
        CutsInto(4096, 1024),
        "no room for a sub-device manager: 4 KiB per core of L1 at model.py:5 (ttnn.add), where a buffer is",
        "held by: not known from a log; `ttmem run` lists it",
    ),
    (
        BelowLimit(4096, 1024),
        "out of memory: a buffer at model.py:5 (ttnn.add) would begin below 0x1000",
        "held by: not known",
    ),
]


@pytest.mark.parametrize(("failure", "requested", "holders"), TWO_LINES)
def test_the_first_two_lines(failure: Failure, requested: str, holders: str) -> None:
    verdict = verdict_on(failure, None, "ttnn.add", "/me/model.py:5 main")
    assert text(verdict).splitlines()[:2] == [requested, holders]


def test_sub_device_managers(account: Account) -> None:
    verdict = verdict_on(CutsInto(300_032, 300_000), account.layout)
    assert [block.tag for block in advice(verdict, v.FREE).blocks] == ["ttnn.matmul"]


def test_an_operation_that_finds_too_little_room(account: Account) -> None:
    low = N150.l1_base + 300_000
    verdict = verdict_on(TooLittleL1("ttnn.slice", 320_000, 300_000, BELOW), account.layout)
    assert (verdict.why, verdict.missing, verdict.unknown) == (v.TOO_FULL, 20_000, ())
    found = advice(verdict, v.FREE)
    assert [block.address for block in found.blocks] == [low]
    shown = text(verdict)
    assert "too little L1: ttnn.slice needs 312.5 KiB per core; 293.0 KiB (300,000 B) per core available" in shown
    assert "needs 312.5 KiB per core; available to it: 293.0 KiB (300,000 B) from the base of L1 to the lowest" in shown
    assert f"free at least the buffer at {low:#x} (ttnn.matmul)" in shown
    # More than there would be without any buffer, so freeing does not help.
    verdict = verdict_on(TooLittleL1("ttnn.slice", BANK + 1, 300_000, BELOW), account.layout)
    assert (verdict.why, [one.what for one in verdict.advice]) == (v.TOO_LARGE, [v.SHRINK])
    assert f"without any L1 buffer it is {exact(BANK)}" in text(verdict)


@pytest.mark.parametrize(
    ("counts", "have", "agrees"),
    [(BELOW, 300_000, True), (BELOW, 299_999, False), (BELOW, 300_001, False), (PART_BELOW, 285_000, True),
     (PART_BELOW, 300_001, False), (FREE_IN_BANK, 450_016, True), (FREE_IN_BANK, 450_000, False)],
)  # fmt: skip
def test_an_operations_account_must_agree(account: Account, counts: str, have: int, agrees: bool) -> None:
    need = None if counts == FREE_IN_BANK else 320_000
    verdict = verdict_on(TooLittleL1("ttnn.slice", need, have, counts), account.layout)
    assert bool(verdict.holders) == agrees
    assert ("ttmem's account does not match the message" in text(verdict)) == (not agrees)
    assert any(one.what == v.FREE for one in verdict.advice) == agrees


def test_what_freeing_does_not_help_is_not_advised(account: Account) -> None:
    fixed = verdict_on(TooLittleL1("ttnn.concat", 1_600_000, 1_393_312, FIXED), account.layout)
    assert (fixed.why, [one.what for one in fixed.advice]) == (v.TOO_LARGE, [v.SHRINK])
    assert "never takes more than 1.3 MiB (1,393,312 B); this does not depend on other buffers" in text(fixed)
    strange = verdict_on(TooLittleL1("moe_fused_swiglu", 1_600_000, 1_393_312), account.layout)
    assert (strange.why, [one.what for one in strange.advice]) == (v.NOT_KNOWN, [v.SHRINK])
    assert "whether freeing L1 would help" in text(strange)


def test_without_any_buffer_there_is_nothing_to_free() -> None:
    empty = Account().layout
    for failure in (TooLittleL1("x", 2 * BANK, BANK, BELOW), TooLittleL1("x", None, BANK, FREE_IN_BANK)):
        verdict = verdict_on(failure, empty)
        assert (verdict.why, verdict.holders) == (v.TOO_LARGE, ())
        assert not [one for one in verdict.advice if one.what == v.FREE]


def test_at_the_moment(account: Account) -> None:
    message = (
        "info:\nOut of Memory: Not enough space to allocate 25600000 B L1 buffer across 64 banks, where each bank "
        "needs to store 400000 B, but bank size is 1360544 B (allocated: 910528 B, free: 450016 B, largest free block: "
        "300000 B)."
    )
    stack = "/venv/site-packages/ttnn/x.py:1 call\n/me/model.py:9 forward"
    for device in (0, None):
        verdict = verdict_at(Failed(device, message, "ttnn.add", stack), account.source.process)
        assert verdict is not None
        assert (verdict.failure, verdict.held) == (full(), 2)
        assert "ttnn.add, me/model.py:9 forward" in text(verdict)
    assert verdict_at(Failed(0, "something else"), account.source.process) is None
    # A device that was never reported: only the message counts.
    alone = verdict_at(Failed(7, message), Ledger().source(0.0, ProcessInfo(1, 1), "agent", Confidence.EXACT).process)
    assert alone is not None
    assert alone.unknown == (v.NO_LAYOUT,)


numbers = st.integers(0, 1 << 40)
maybe = st.none() | numbers
parts = st.sampled_from([Kind.CB, Kind.DFB])
kinds = st.sampled_from([Kind.DRAM, Kind.L1, Kind.L1_SMALL, Kind.TRACE, Kind.HOST])
failures: st.SearchStrategy[Failure] = st.one_of(
    st.builds(
        OutOfMemory, kinds, numbers, numbers, numbers, maybe, maybe, maybe, maybe, maybe, maybe, maybe, st.booleans()
    ),
    st.builds(Clash, parts, numbers, st.just(GRID), numbers, numbers, st.booleans()),
    st.builds(PastEndOfL1, parts, st.just(GRID), numbers, numbers),
    st.builds(RingFull, numbers, numbers, st.sampled_from(["TENSIX", "IDLE_ETH"])),
    st.builds(TraceFull, numbers, numbers, numbers),
    st.builds(TraceOverlap, numbers, maybe, maybe, maybe),
    st.builds(BelowLimit, numbers, maybe),
    st.builds(ArenaFull, numbers, numbers, st.text(), numbers, numbers),
    st.builds(CutsInto, numbers, numbers),
    st.builds(TooLittleL1, st.text(), numbers, numbers, st.sampled_from([BELOW, PART_BELOW, FIXED, None])),
    st.builds(TooLittleL1, st.text(), st.none(), numbers, st.just(FREE_IN_BANK)),
)


@settings(max_examples=200)
@given(failures, st.booleans())
def test_whatever_it_says_there_is_an_answer(failure: Failure, known: bool) -> None:
    """No number in a message, possible or not, causes an error or a None in a sentence."""
    account = Account()
    account.l1(TOP - 6400, 6400)
    verdict = verdict_on(failure, account.layout if known else None)
    shown = text(verdict)
    assert "None" not in shown
    two = [" ".join(printable(line).split()) for line in (headline(verdict), held_by(verdict))]
    assert shown.splitlines()[:2] == two
    assert all(lines for _, lines in sentences(verdict))
    assert json.loads(json.dumps(data.verdict(verdict)))["failure"]["type"] == type(failure).__name__

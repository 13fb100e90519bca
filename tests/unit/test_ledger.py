# SPDX-License-Identifier: Apache-2.0
"""Single facts about the ledger that the property tests do not cover."""

from __future__ import annotations

import pytest

from ttmem.account.entities import Source
from ttmem.account.ledger import Ledger
from ttmem.account.state import Limits
from ttmem.model.events import (
    Allocated,
    ChipFound,
    Described,
    DeviceClosed,
    DeviceOpened,
    Event,
    Extra,
    Freed,
    PeaksReset,
    ProcessExited,
    ProgramRun,
    ResyncBegin,
    ResyncEnd,
)
from ttmem.model.geometry import BOARDS
from ttmem.model.identity import ChipInfo, ProcessInfo
from ttmem.model.kinds import Confidence, Kind

N150 = BOARDS["n150"]


def _one_source(limits: Limits = Limits()) -> tuple[Ledger, Source]:
    ledger = Ledger(limits)
    return ledger, ledger.source(0.0, ProcessInfo(1, 1), "legacy", Confidence.REPORTED)


@pytest.mark.parametrize("shared", [True, False])
def test_a_description_does_not_change_what_is_counted(shared: bool) -> None:
    """Otherwise a free would subtract another size than was added, and take it from others on the chip."""
    ledger, source = _one_source()
    extra = Extra(reserved=4096, shared=shared)
    ledger.apply(0.0, source, Allocated(0, Kind.DRAM, 0x1000, 4000, extra=extra))
    ledger.apply(0.0, source, Described(0, Kind.DRAM, 0x1000, extra._replace(shared=not shared, tag="ttnn.add")))
    total = ledger.chips["assumed:0"].kinds[Kind.DRAM]
    assert total.used == (0 if shared else 4000)
    ledger.apply(0.0, source, Freed(0, Kind.DRAM, 0x1000))
    assert (total.used, total.reserved, total.count) == (0, 0, 0)


def test_frees_and_refused_allocations_invent_no_chips() -> None:
    ledger, source = _one_source()
    for device in range(200):
        ledger.apply(0.0, source, Freed(device, None, 0x1000))
        ledger.apply(0.0, source, Freed(device, Kind.CB, 7))
        ledger.apply(0.0, source, Allocated(device, Kind.DRAM, 0x1000, 0))
    assert not ledger.chips
    assert ledger.anomalies == {"unknown_free": 400, "rejected": 200}


def test_chips_have_a_cap_and_what_is_over_it_is_counted() -> None:
    ledger, source = _one_source(Limits(chips=50))
    for number in range(2000):
        ledger.apply(0.0, source, DeviceOpened(0, ChipInfo(f"X{number}")))
    assert len(ledger.chips) == 50
    assert ledger.anomalies == {"rejected": 1950}
    ledger.apply(0.0, source, Allocated(77, Kind.DRAM, 0x1000, 64))  # nor an assumed one
    assert ledger.live_count() == 0
    assert ledger.anomalies == {"rejected": 1951}


def of_user(ledger: Ledger, pid: int, user: int) -> Source:
    return ledger.source(0.0, ProcessInfo(pid, 1, user), "client", Confidence.REPORTED)


@pytest.mark.parametrize("again", [False, True], ids=["many devices", "one device, opened again and again"])
def test_one_user_does_not_take_the_room_for_all_chips(again: bool) -> None:
    ledger = Ledger(Limits(chips=50, chips_per_user=20))
    ledger.apply(0.0, None, ChipFound(ChipInfo("real")))
    for number in range(100):
        hog = of_user(ledger, 1 + number % 3, user=1000)
        ledger.apply(0.0, hog, DeviceOpened(0 if again else number, ChipInfo(f"X{number}")))
        ledger.apply(0.0, hog, DeviceOpened(1, ChipInfo("real")))  # an existing chip needs no room
    assert len(ledger.chips) == 21
    other = of_user(ledger, 9, user=1001)
    ledger.apply(0.0, other, DeviceOpened(0, ChipInfo("mine")))
    ledger.apply(0.0, other, Allocated(0, Kind.DRAM, 1, 64))
    assert ledger.chips["mine"].kinds[Kind.DRAM].used == 64


def test_another_user_does_not_redefine_a_chip_that_is_in_use() -> None:
    ledger = Ledger()
    small = N150._replace(grid_x=1, grid_y=1)
    owner, other = of_user(ledger, 1, user=1000), of_user(ledger, 2, user=1001)
    ledger.apply(0.0, owner, DeviceOpened(0, ChipInfo("77", board="n150", geometry=N150)))
    ledger.apply(0.0, owner, Allocated(0, Kind.DRAM, 1, 64))
    ledger.apply(0.0, other, DeviceOpened(0, ChipInfo("77", pci="0000:01:00.0", board="fake", geometry=small)))
    chip = ledger.chips["77"]
    assert (chip.geometry, chip.info.board, chip.info.pci) == (N150, "n150", "0000:01:00.0")
    ledger.apply(0.0, owner, ProcessExited())
    ledger.apply(0.0, other, DeviceOpened(0, ChipInfo("77", geometry=small)))
    assert ledger.chips["77"].geometry == small


def test_dead_processes_of_one_user_do_not_push_out_those_of_another() -> None:
    ledger = Ledger(Limits(departed=4))
    for pid, user in [(1, 1000), *((pid, 1001) for pid in range(2, 12))]:
        source = of_user(ledger, pid, user)
        ledger.apply(0.0, source, Allocated(0, Kind.DRAM, 1, 64))
        ledger.apply(0.0, source, ProcessExited())
    assert [process.info.pid for process in ledger.departed] == [1, 9, 10, 11]


def test_a_reset_of_peaks_hides_nothing_from_history() -> None:
    ledger, source = _one_source()
    ledger.apply(0.0, source, Allocated(0, Kind.DRAM, 0x1000, 100))
    ledger.apply(0.1, source, Freed(0, None, 0x1000))
    ledger.apply(0.2, None, PeaksReset())
    ledger.apply(0.3, source, Allocated(0, Kind.DRAM, 0x1000, 30))
    dram = ledger.chips["assumed:0"].kinds[Kind.DRAM]
    assert (dram.take_high(), dram.recent.value, dram.peak.value) == (100, 30, 100)
    assert dram.take_high() == 30


def test_a_resync_makes_no_peak_that_never_was() -> None:
    """Allocations whose frees were lost never count together with newer ones, also if other processes allocate."""
    ledger, source = _one_source()
    other = ledger.source(0.0, ProcessInfo(2, 1), "legacy", Confidence.REPORTED)
    chip = ledger.chips.assumed(0)

    def tell(*events: Event) -> int:
        for event in events:
            ledger.apply(0.0, source, event)
        return chip.kinds[Kind.DRAM].used

    assert tell(Allocated(0, Kind.DRAM, 0x1000, 1000)) == 1000
    assert tell(ResyncBegin(2), Allocated(0, Kind.DRAM, 0x2000, 900, refs=1)) == 1000, "not yet"
    ledger.apply(0.0, other, Allocated(0, Kind.DRAM, 0x1000, 50))
    assert tell(ResyncEnd(2)) == 950
    assert (chip.kinds[Kind.DRAM].peak.value, chip.pools[0].peak.value) == (1050, 1050)
    assert tell(Freed(0, Kind.DRAM, 0x2000)) == 50


def test_what_goes_again_within_a_resync_never_counted() -> None:
    ledger = Ledger()
    agent = ledger.source(0.0, ProcessInfo(1, 1), "agent", Confidence.EXACT)
    for event in (
        ResyncBegin(1), Allocated(0, Kind.DRAM, 0x1000, 64, refs=1), Allocated(1, Kind.L1, 0x1000, 64, refs=1),
        Freed(0, Kind.DRAM, 0x1000), DeviceClosed(1), ResyncEnd(1),
    ):  # fmt: skip
        ledger.apply(0.0, agent, event)
    assert ledger.live_count() == 0
    assert {(total.used, total.peak.value) for chip in ledger.chips.values() for total in chip.totals()} == {(0, 0)}


def test_a_chip_that_gets_its_name_amid_a_resync() -> None:
    ledger, source = _one_source()
    for event in (ResyncBegin(1), Allocated(0, Kind.DRAM, 0x1000, 64, refs=1), DeviceOpened(0, ChipInfo("X"))):
        ledger.apply(0.0, source, event)
    assert ledger.chips["X"].kinds[Kind.DRAM].used == 0
    ledger.apply(0.0, source, ResyncEnd(1))
    assert ledger.chips["X"].kinds[Kind.DRAM].used == 64


def test_a_resync_says_anew_what_is_resident() -> None:
    ledger = Ledger()
    source = ledger.source(0.0, ProcessInfo(1, 1), "client", Confidence.REPORTED)
    held = Allocated(0, Kind.CB, 64, 100, program=1, extra=Extra(cores=1))
    again = held._replace(refs=1)
    for event in (held, ProgramRun(0, 1, 1), ResyncBegin(2), again, ResyncEnd(2)):
        ledger.apply(0.0, source, event)
    chip = ledger.chips["assumed:0"]
    assert (chip.kinds[Kind.CB].used, chip.resident_bytes(Kind.CB)) == (100, 0), "another one ran there since"
    for event in (ResyncBegin(3), again, ProgramRun(0, 1, 1), ResyncEnd(3)):
        ledger.apply(0.0, source, event)
    assert chip.resident_bytes(Kind.CB) == 100


@pytest.mark.parametrize("reserved", [None, 4096])
def test_a_buffer_inside_another_adds_no_bytes_and_takes_none_along(reserved: int | None) -> None:
    ledger = Ledger()
    source = ledger.source(0.0, ProcessInfo(1, 1), "agent", Confidence.EXACT)
    ledger.apply(1.0, source, Allocated(0, Kind.L1, 0x1000, 64, extra=Extra(64)))
    ledger.apply(2.0, source, Allocated(0, Kind.L1, 0x2000, 32, extra=Extra(reserved, shared=True)))
    total = ledger.chips["assumed:0"].kinds[Kind.L1]
    assert (total.used, total.reserved, total.count) == (64, 64, 2)
    ledger.apply(3.0, source, Freed(0, Kind.L1, 0x2000))
    assert (total.used, total.reserved, total.count) == (64, 64, 1)


def _numbered() -> tuple[Ledger, Source]:
    ledger = Ledger()
    return ledger, ledger.source(0.0, ProcessInfo(1, 1), "agent", Confidence.EXACT)


def test_buffers_with_numbers_of_their_own_may_have_one_address() -> None:
    ledger, source = _numbered()
    for ident in (1, 2, 3):
        ledger.apply(0.0, source, Allocated(0, Kind.L1, 0x1000, 100, ident=ident))
    (chip,) = ledger.chips.values()
    total = chip.kinds[Kind.L1]
    assert (total.used, total.count, total.peak.value) == (300, 3, 300)
    ledger.apply(1.0, source, Freed(0, Kind.L1, 0x1000, ident=2))
    ledger.apply(1.0, source, Freed(0, Kind.L1, 0x1000, ident=2))
    assert (total.used, total.count, dict(ledger.anomalies)) == (200, 2, {"double_free": 1})
    ledger.apply(2.0, source, Allocated(0, Kind.L1, 0x2000, 60, ident=3))
    assert (total.used, total.count, ledger.anomalies["replaced"]) == (160, 2, 1)


def test_a_resync_tells_buffers_at_one_address_apart() -> None:
    ledger, source = _numbered()
    for ident in (1, 2, 3):
        ledger.apply(0.0, source, Allocated(0, Kind.L1, 0x1000, 100, ident=ident))
    kept = {id(allocation) for allocation in ledger.allocations()}
    ledger.apply(1.0, source, ResyncBegin(2))
    for ident in (1, 3, 4):
        ledger.apply(1.0, source, Allocated(0, Kind.L1, 0x1000, 100, refs=1, ident=ident))
    ledger.apply(1.0, source, Allocated(0, Kind.L1, 0x2000, 50, refs=1, ident=2))  # another buffer has its slot now
    ledger.apply(1.0, source, ResyncEnd(2))
    assert sorted((allocation.address, allocation.size) for allocation in ledger.allocations()) == [
        (0x1000, 100)
    ] * 3 + [(0x2000, 50)]
    assert len(kept & {id(allocation) for allocation in ledger.allocations()}) == 2
    (chip,) = ledger.chips.values()
    assert (chip.kinds[Kind.L1].used, chip.kinds[Kind.L1].count) == (350, 4)
    assert ledger.anomalies == {"resynced": 1}

# SPDX-License-Identifier: Apache-2.0
"""Headroom of the chips of a mesh: one search finds it for all chips with the same contents."""

from __future__ import annotations

from ttmem.account.entities import Chip
from ttmem.account.ledger import Ledger
from ttmem.l1.headroom import FloorFinder, Headroom, contents_key
from ttmem.model.events import Allocated, DeviceOpened, Extra, ProgramCompiled, ProgramRun
from ttmem.model.geometry import BOARDS
from ttmem.model.identity import ChipInfo, ProcessInfo
from ttmem.model.kinds import Confidence, Kind

MESH = (0, 1, 2)
CORES = 0b11


def account() -> Ledger:
    """A mesh with two programs, of which chip 1 has a lower buffer of its own."""
    ledger = Ledger()
    source = ledger.source(0.0, ProcessInfo(7, 1), "agent", Confidence.EXACT)
    for number in MESH:
        ledger.apply(0.0, source, DeviceOpened(number, ChipInfo(str(number), geometry=BOARDS["n150"])))
    for program, end in ((1, 4096), (2, 8192)):
        ledger.apply(0.0, source, ProgramCompiled(MESH, program, 64, program))
        ledger.apply(0.0, source, Allocated(MESH, Kind.CB, 110_000, 2 * end, program, 0, Extra(cores=CORES)))
    ledger.apply(1.0, source, Allocated(MESH, Kind.L1, 900_000, 64))
    ledger.apply(1.0, source, Allocated(1, Kind.L1, 800_000, 64))
    ledger.apply(2.0, source, ProgramRun(MESH, 1, CORES))
    return ledger


def searched(ledger: Ledger, chip: Chip) -> FloorFinder:
    finder = FloorFinder(chip)
    for allocation in ledger.allocations():
        finder.add(allocation)
    return finder


def test_a_search_holds_for_all_chips_with_the_same_key() -> None:
    ledger = account()
    chips = list(ledger.chips.values())
    alone: list[Headroom] = [searched(ledger, chip).result() for chip in chips]
    assert [found.floor for found in alone] == [900_000, 800_000, 900_000]
    assert [[one.headroom for one in found.launched] for found in alone] == [[785_904], [685_904], [785_904]]
    first, second, third = map(contents_key, chips)
    assert first == third != second
    assert searched(ledger, chips[0]).result(chips[2]) == alone[2]


def test_another_size_of_l1_is_another_key() -> None:
    ledger = account()
    source = next(iter(ledger.processes.values())).sources["agent"]
    smaller = BOARDS["n150"]._replace(l1_size=1_000_000)
    ledger.apply(3.0, source, DeviceOpened(2, ChipInfo("2", geometry=smaller)))
    first, _, third = map(contents_key, ledger.chips.values())
    assert first != third


def test_chips_that_were_opened_one_by_one_have_their_own_keys() -> None:
    ledger = Ledger()
    source = ledger.source(0.0, ProcessInfo(7, 1), "agent", Confidence.EXACT)
    for number in (0, 1):
        ledger.apply(0.0, source, Allocated(number, Kind.L1, 900_000 - number, 64))
    first, second = map(contents_key, ledger.chips.values())
    assert first != second

# SPDX-License-Identifier: Apache-2.0
"""Single facts about the ledger that no law of the property tests covers."""

from __future__ import annotations

from ttmem.account.events import Allocated, DeviceOpened, Freed, PeaksReset
from ttmem.account.identity import ChipInfo, ProcessInfo
from ttmem.account.kinds import Confidence, Kind
from ttmem.account.ledger import Ledger, Limits


def _one_source(limits: Limits = Limits()) -> tuple[Ledger, object]:
    ledger = Ledger(limits)
    return ledger, ledger.source(0.0, ProcessInfo(1, 1), "legacy", Confidence.REPORTED)


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


def test_a_reset_of_peaks_hides_nothing_from_history() -> None:
    ledger, source = _one_source()
    ledger.apply(0.0, source, Allocated(0, Kind.DRAM, 0x1000, 100))
    ledger.apply(0.1, source, Freed(0, None, 0x1000))
    ledger.apply(0.2, None, PeaksReset())
    ledger.apply(0.3, source, Allocated(0, Kind.DRAM, 0x1000, 30))
    dram = ledger.chips["assumed:0"].kinds[Kind.DRAM]
    assert (dram.take_high(), dram.recent.value, dram.peak.value) == (100, 30, 100)
    assert dram.take_high() == 30

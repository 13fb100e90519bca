# SPDX-License-Identifier: Apache-2.0
"""Rows with unknown values have the same keys as reported rows."""

from __future__ import annotations

from typing import Any

from ttmem.account.ledger import Ledger
from ttmem.documents import unknown_rows as blank
from ttmem.documents.snapshot import take_snapshot
from ttmem.model.events import Allocated, ChipFound
from ttmem.model.geometry import Arch
from ttmem.model.identity import ChipInfo, ProcessInfo
from ttmem.model.kinds import KINDS, Confidence, Kind


def keys(value: Any) -> Any:
    """The structure of some data, without its values."""
    if isinstance(value, dict):
        return {key: keys(inner) for key, inner in value.items()}
    return None


def test_an_account_in_which_nothing_happened() -> None:
    assert take_snapshot(Ledger(), time="now", host="box") == blank.snapshot("now", "box")


def test_a_chip_nobody_reported_on() -> None:
    ledger = Ledger()
    info = ChipInfo("0000:01:00.0", "0000:01:00.0", 0, Arch.WORMHOLE_B0, "n300", False)
    ledger.apply(0.0, None, ChipFound(info))
    (chip,) = take_snapshot(ledger, time="now", host="box")["chips"]
    same = {**blank.chip("0000:01:00.0", arch="wormhole_b0", board="n300"), "pci": info.pci, "kmd": 0, "remote": False}
    assert chip == same


def test_a_process_that_reports_and_one_that_does_not() -> None:
    ledger = Ledger()
    source = ledger.source(0.0, ProcessInfo(7, 1), "agent", Confidence.EXACT)
    ledger.apply(0.0, source, Allocated(0, Kind.DRAM, 0x1000, 4096))
    (process,) = take_snapshot(ledger, time="now", host="box")["processes"]
    silent = blank.process(8, "untracked")
    silent["chips"] = [blank.share("x")]
    assert list(process) == list(silent)
    assert keys(process["anomalies"]) == keys(silent["anomalies"])
    assert list(process["chips"][0]) == list(silent["chips"][0])


def test_every_kind_is_named() -> None:
    assert tuple(kind.label for kind in KINDS) == blank.KINDS

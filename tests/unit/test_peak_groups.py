# SPDX-License-Identifier: Apache-2.0
"""Allocations at a peak that are alike: all of them are counted, and a leak of small ones shows beside weights."""

from __future__ import annotations

from ttmem.account.ledger import Ledger
from ttmem.documents.peak_groups import alike
from ttmem.documents.peaks import peaks
from ttmem.model.events import Allocated, DeviceOpened, Extra
from ttmem.model.identity import ChipInfo, ProcessInfo
from ttmem.model.kinds import Confidence, Kind
from ttmem.show.chip_table import Names
from ttmem.show.peaks_text import render
from ttmem.show.text import Style

MIB = 1 << 20


def account() -> Ledger:
    ledger = Ledger()
    source = ledger.source(0.0, ProcessInfo(pid=1, start=1), "agent", Confidence.EXACT)
    for number in (0, 1):
        ledger.apply(0.0, source, DeviceOpened(number, ChipInfo(str(555 + number))))
    for number in range(12):
        extra = Extra(tag=f"w{number}", shape="[1, 32]", stack="model.py:3 load")
        ledger.apply(1.0, source, Allocated((0, 1), Kind.DRAM, 4096 * (1 + number), (20 + number) * MIB, 0, 0, extra))
    for number in range(52):
        extra = Extra(tag="ttnn.add", shape="[1, 64]", stack="leak.py:12 step")
        ledger.apply(2.0, source, Allocated((0, 1), Kind.DRAM, 1 << 30 | number << 12, MIB, 0, 0, extra))
    ledger.apply(3.0, source, Allocated(0, Kind.DRAM, 1 << 40, 7 * MIB))
    return ledger


def test_everything_is_counted() -> None:
    groups = alike(account(), "556", "dram")
    assert sum(group["count"] for group in groups) == 64
    assert sum(group["count"] * group["size"] for group in groups) == (52 + sum(range(20, 32))) * MIB
    assert groups[0] == {
        "count": 52, "size": MIB, "tag": "ttnn.add", "shape": "[1, 64]", "line": "leak.py:12 step",
    }  # fmt: skip
    assert [group["size"] // MIB for group in groups[1:]] == list(range(31, 19, -1))
    assert len(alike(account(), "555", "dram")) == len(groups) + 1
    assert alike(account(), "555", "l1") == []


def test_text() -> None:
    ledger = account()
    found = [row for row in peaks(ledger) if "kind" in row and row["chips"] == ["556"]]
    text = render(found, [alike(ledger, "556", "dram")], Names([], Style(), {}), Style()).splitlines()
    assert text[0].endswith(", 64 allocations") or text[1].endswith("64 allocations")
    assert "  52 x 1.0 MiB, ttnn.add, [1, 64], leak.py:12 step" in text
    assert text[-1] == "  and 5 smaller ones, 110.0 MiB together"

# SPDX-License-Identifier: Apache-2.0
"""Peaks with what was live then: chips of a mesh that have the same peak are one row."""

from __future__ import annotations

from typing import Any

from ttmem.account.ledger import Ledger
from ttmem.documents.peaks import PeakFinder, peaks
from ttmem.model.events import Allocated, Freed
from ttmem.model.identity import ProcessInfo
from ttmem.model.kinds import Confidence, Kind

MESH = (0, 1, 2, 3)
CHIPS = [f"assumed:{number}" for number in MESH]


def account(*events: Any) -> Ledger:
    ledger = Ledger()
    source = ledger.source(0.0, ProcessInfo(7, 1), "agent", Confidence.EXACT)
    for time, event in enumerate(events):
        ledger.apply(float(time), source, event)
    return ledger


def of_kind(rows: Any, kind: str = "dram") -> list[Any]:
    return [row for row in rows if row.get("kind") == kind]


def test_a_peak_of_a_mesh_is_one_row() -> None:
    ledger = account(Allocated(MESH, Kind.DRAM, 0x1000, 64), Allocated(MESH, Kind.DRAM, 0x2000, 32),
                     Freed(MESH, Kind.DRAM, 0x2000))  # fmt: skip
    (row,) = of_kind(peaks(ledger))
    assert (row["chips"], row["per_chip"], row["time"]) == (CHIPS, 96, 1.0)
    assert [(item["size"], item["chips"], item["devices"]) for item in row["largest"]] == [
        *((64, CHIPS, [*MESH]), (32, CHIPS, [*MESH])),
    ]
    finder = PeakFinder(ledger, process=next(iter(ledger.processes.values())))
    for item in ledger.allocations():
        finder.add(item)
    (row,) = of_kind(finder.results())
    assert (row["chips"], row["devices"], row["per_chip"]) == (CHIPS, [*MESH], 96)


def test_a_chip_with_another_peak_is_a_row_of_its_own() -> None:
    """There, an allocation of the mesh is also on the other chips."""
    ledger = account(Allocated(MESH, Kind.DRAM, 0x1000, 64), Allocated(2, Kind.DRAM, 0x9000, 8))
    rows = {tuple(row["chips"]): row for row in of_kind(peaks(ledger))}
    others = ("assumed:0", "assumed:1", "assumed:3")
    assert {chips: row["per_chip"] for chips, row in rows.items()} == {others: 64, ("assumed:2",): 72}
    assert [(item["size"], item["chips"], item["other_chips"]) for item in rows["assumed:2",]["largest"]] == [
        *((64, ["assumed:2"], [*others]), (8, ["assumed:2"], [])),
    ]


def test_chips_reported_one_by_one_have_their_own_allocations() -> None:
    """Also if they reach the same peak at the same time."""
    ledger = account()
    source = ledger.source(0.0, ProcessInfo(7, 1), "agent", Confidence.EXACT)
    for number in (0, 1):
        ledger.apply(1.0, source, Allocated(number, Kind.DRAM, 0x1000, 64))
    assert [(row["chips"], row["per_chip"]) for row in of_kind(peaks(ledger))] == [
        *((["assumed:0"], 64), (["assumed:1"], 64)),
    ]

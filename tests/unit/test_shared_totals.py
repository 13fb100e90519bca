# SPDX-License-Identifier: Apache-2.0
"""The work of sharing totals: a new process on a chip costs the same, however many others there are."""

from __future__ import annotations

import pytest

from ttmem.account import shared_totals
from ttmem.account.allocations import Holding
from ttmem.account.ledger import Ledger
from ttmem.account.totals import Total
from ttmem.model.events import Allocated
from ttmem.model.identity import ProcessInfo
from ttmem.model.kinds import Confidence, Kind


def test_a_process_does_not_relink_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    linked = 0
    real = shared_totals.link

    def link(holding: Holding, kind: Kind, leaf: Total) -> None:
        nonlocal linked
        linked += 1
        real(holding, kind, leaf)

    monkeypatch.setattr(shared_totals, "link", link)
    ledger = Ledger()
    costs = []
    for pid in range(1, 61):
        source = ledger.source(0.0, ProcessInfo(pid=pid, start=1), "client", Confidence.REPORTED)
        for kind in (Kind.DRAM, Kind.L1):
            ledger.apply(0.0, source, Allocated(0, kind, 0x1000, 10 * pid))
        costs.append(linked)
        linked = 0
    assert max(costs[1:]) == min(costs[1:])
    assert ledger.chips["assumed:0"].kinds[Kind.DRAM].used == 10 * sum(range(1, 61))

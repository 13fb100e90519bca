# SPDX-License-Identifier: Apache-2.0
"""The documents of /dump and /breakdown, made at once from an account that no longer changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ttmem.account.ledger import Ledger
from ttmem.account.uncertainty import added
from ttmem.analyze.breakdown import Breakdown
from ttmem.analyze.chip_sums import CountedChips
from ttmem.documents.dump import DumpBuilder, DumpFilter
from ttmem.documents.snapshot import anomalies
from ttmem.ingest.clock import rfc3339

if TYPE_CHECKING:
    from ttmem.model import schema


def dump_of(ledger: Ledger, wanted: DumpFilter, time: float) -> schema.Dump:
    builder = DumpBuilder(wanted)
    for allocation in ledger.allocations():
        builder.add(allocation)
    for _ in builder.describe(lambda user_id: True):
        pass
    return builder.result(
        time=rfc3339(time), anomalies=anomalies(ledger.anomalies), uncertain=added(ledger.processes.values())
    )


def breakdown_of(ledger: Ledger, by: str, wanted: DumpFilter, limit: int | None = None) -> schema.Breakdown:
    breakdown = Breakdown(by, counted=CountedChips(wanted.wants))
    for allocation in ledger.allocations():
        if allocation.refs and allocation.kind in wanted.kinds:
            breakdown.add(allocation)
    return breakdown.document(limit)

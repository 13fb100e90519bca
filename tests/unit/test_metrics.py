# SPDX-License-Identifier: Apache-2.0
"""The metrics page: every number equals the account at the time of the request."""

from __future__ import annotations

from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from tests.unit.test_snapshot import MIB, Account, busy
from ttmem.model.events import Allocated, Freed, PeaksReset, ProcessExited
from ttmem.model.kinds import Kind
from ttmem.server import metrics

SERVER = {"accepted": 3, "clients": 2, "since": 5.0, "version": "1.2.3"}


def values(page: bytes) -> dict[tuple[str, ...], float]:
    """By name and the values of the labels, in the order of the labels' names."""
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(page.decode())
        for sample in family.samples
    }


def page(account: Account, totals: metrics.Totals, snapshot: Any) -> dict[tuple[str, ...], float]:
    return values(metrics.page(totals, SERVER, snapshot, snapshot))  # type: ignore[arg-type]


def test_numbers_are_those_of_the_account() -> None:
    account = busy()
    account.apply(None, PeaksReset())
    account.apply(account.source(), Freed(0, Kind.DRAM, 0x1000))
    account.apply(account.source(), Freed(0, Kind.DRAM, 0x1000))
    found = page(account, metrics.Totals(account.ledger, pids=True), account.snapshot())
    assert found["ttmem_used_bytes", "777", "trace"] == MIB
    assert found["ttmem_used_bytes", "777", "dram"] == 0
    assert found["ttmem_peak_bytes", "777", "dram"] == 9 * MIB
    assert found["ttmem_recent_peak_bytes", "777", "dram"] == 8 * MIB
    assert found["ttmem_reserved_bytes", "777", "l1"] == 3 * MIB
    assert ("ttmem_reserved_bytes", "777", "host") not in found, "nobody said what was taken"
    assert found["ttmem_allocations", "777", "cb"] == 2
    assert found["ttmem_pool_used_bytes", "777", "dram"] == MIB
    assert found["ttmem_pool_peak_bytes", "777", "dram"] == 10 * MIB
    memory = account.snapshot()["chips"][0]["memory"]
    assert found["ttmem_in_use_bytes", "777", "l1"] == memory["l1"]["at_once"] >= 3 * MIB
    assert found["ttmem_in_use_bytes", "777", "dram"] == memory["dram"]["reserved"] > MIB
    assert found["ttmem_bank_free_bytes", "777", "l1"] == memory["l1"]["bank_free"]
    assert ("ttmem_headroom_bytes", "777") not in found, "nobody has looked"
    assert found["ttmem_resident_bytes", "777", "cb"] == 110 * 2048
    assert found["ttmem_processes", "777"] == 1
    assert found["ttmem_process_used_bytes", "777", "42", "dram"] == MIB
    assert found["ttmem_chip_info", "blackhole", "p150a", "777", "known", "0000:01:00.0"] == 1
    assert found["ttmem_anomalies_total", "double_free"] == 1
    assert found["ttmem_events_total",] == account.ledger.seq
    assert found["ttmem_connections_total",] == 3
    trusted = sum(found["ttmem_confidence_bytes", "777", level] for level in ("exact", "reported", "estimated"))
    assert trusted == sum(value for key, value in found.items() if key[0] == "ttmem_used_bytes")


def test_what_comes_after_is_not_on_the_page() -> None:
    account = busy()
    totals, snapshot = metrics.Totals(account.ledger, pids=True), account.snapshot()
    before = page(account, totals, snapshot)
    account.apply(account.source(43), Allocated(0, Kind.DRAM, 0x9000, MIB))
    account.apply(account.source(), Allocated(0, Kind.L1, 0x140000, 5), PeaksReset(), ProcessExited())
    assert page(account, totals, snapshot) == before
    assert page(account, metrics.Totals(account.ledger, pids=True), account.snapshot()) != before

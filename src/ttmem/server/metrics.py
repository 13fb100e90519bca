# SPDX-License-Identifier: Apache-2.0
"""The account for Prometheus: base units, a label per chip and kind, process ids only when asked for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector, CollectorRegistry

from ttmem.account.blank import ANOMALIES
from ttmem.account.kinds import KINDS, POOL_OF, Confidence, Pool
from ttmem.account.ledger import Ledger
from ttmem.account.snapshot import memory, shown_chips
from ttmem.server.machine_metrics import MachineMetrics

CONTENT_TYPE = CONTENT_TYPE_LATEST


class _Account(Collector):
    """Reads the ledger when scraped; nothing is counted twice or kept in between."""

    def __init__(self, ledger: Ledger, server: dict[str, Any], pids: bool) -> None:
        self._ledger = ledger
        self._server = server
        self._pids = pids

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        yield from self._chips()
        if self._pids:
            yield from self._processes()
        yield from self._health()

    def _chips(self) -> Iterator[Metric]:
        def gauge(name: str, text: str, labels: list[str]) -> GaugeMetricFamily:
            return GaugeMetricFamily(f"ttmem_{name}", text, labels=["chip", *labels])

        used = gauge("used_bytes", "Requested bytes of live things", ["kind"])
        reserved = gauge("reserved_bytes", "Bytes the allocator took, where that is known", ["kind"])
        things = gauge("things", "Live things", ["kind"])
        peak = gauge("peak_bytes", "Highest requested bytes since the server started", ["kind"])
        recent = gauge("recent_peak_bytes", "Highest requested bytes since the last reset of peaks", ["kind"])
        capacity = gauge("capacity_bytes", "Size of the pool", ["pool", "basis"])
        pool_used = gauge("pool_used_bytes", "Requested bytes of live things, by pool", ["pool"])
        pool_peak = gauge("pool_peak_bytes", "Highest requested bytes of the pool since the server started", ["pool"])
        resident = gauge("resident_bytes", "Bytes of the programs last run on each core", ["kind"])
        trust = gauge("confidence_bytes", "Requested bytes by how they are known", ["confidence"])
        processes = gauge("processes", "Live processes that hold or held something on the chip", [])
        info = InfoMetricFamily("ttmem_chip", "What the chip is", labels=["chip"])
        for chip in shown_chips(self._ledger):
            uid, picture = chip.uid, memory(chip, chip.geometry)
            missing = set(picture["missing"])
            for kind in KINDS:
                if kind.label in missing:
                    continue
                total = chip.kinds[kind]
                used.add_metric([uid, kind.label], total.used)
                things.add_metric([uid, kind.label], total.count)
                peak.add_metric([uid, kind.label], total.peak.value)
                recent.add_metric([uid, kind.label], total.recent.value)
                if total.known and total.reserved_bytes is not None:
                    reserved.add_metric([uid, kind.label], total.reserved)
            for pool in Pool:
                if any(POOL_OF[kind] is pool and kind.label not in missing for kind in KINDS):
                    pool_used.add_metric([uid, pool.label], chip.pools[pool].used)
                    pool_peak.add_metric([uid, pool.label], chip.pools[pool].peak.value)
            for pool_name in ("dram", "l1"):
                if picture[pool_name]["capacity"] is not None:
                    basis = picture[pool_name]["capacity_basis"]
                    capacity.add_metric([uid, pool_name, basis], picture[pool_name]["capacity"])
            for kind_name in ("cb", "dfb"):
                if picture["l1"][kind_name]["resident"] is not None:
                    resident.add_metric([uid, kind_name], picture["l1"][kind_name]["resident"])
            for level in Confidence:
                trust.add_metric([uid, level.label], picture["confidence"][level.label])
            processes.add_metric([uid], len({holding.source.process for holding in chip.holdings}))
            about = {"pci": chip.info.pci or "", "board": chip.info.board or "", "arch": chip.info.arch.label}
            info.add_metric([uid], {**about, "identity": "assumed" if chip.assumed else "known"})
        yield from (used, reserved, things, peak, recent, capacity, pool_used, pool_peak, resident, trust, processes)
        yield info

    def _processes(self) -> Iterator[Metric]:
        used = GaugeMetricFamily(
            "ttmem_process_used_bytes", "Requested bytes of one process", labels=["chip", "pid", "pool"]
        )
        for process in self._ledger.processes.values():
            for uid, share in process.shares.items():
                for pool in Pool:
                    used.add_metric([uid, str(process.info.pid), pool.label], share.pools[pool].used)
        yield used

    def _health(self) -> Iterator[Metric]:
        odd = CounterMetricFamily("ttmem_anomalies", "Odd events by name", labels=["name"])
        for name in ANOMALIES:
            odd.add_metric([name], self._ledger.anomalies[name])
        yield odd
        yield CounterMetricFamily("ttmem_events", "Events applied", value=self._ledger.seq)
        yield CounterMetricFamily("ttmem_connections", "Client connections accepted", value=self._server["accepted"])
        yield GaugeMetricFamily("ttmem_clients", "Client connections open", value=self._server["clients"])
        yield GaugeMetricFamily("ttmem_start_time_seconds", "When the server started", value=self._server["since"])
        build = InfoMetricFamily("ttmem_build", "The server's version")
        build.add_metric([], {"version": self._server["version"]})
        yield build


def page(ledger: Ledger, server: dict[str, Any], picture: dict[str, Any], *, pids: bool = False) -> bytes:
    """The metrics page. ``picture`` is a snapshot with what the machine shows."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Account(ledger, server, pids))
    registry.register(MachineMetrics(picture))
    return generate_latest(registry)

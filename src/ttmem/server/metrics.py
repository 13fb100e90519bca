# SPDX-License-Identifier: Apache-2.0
"""Metrics of the account for Prometheus: base units, labels for chip and kind, process ids only on request."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple, cast

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector, CollectorRegistry

from ttmem.account.entities import Chip
from ttmem.account.ledger import Ledger
from ttmem.documents.snapshot import shown_chips
from ttmem.model.identity import ChipInfo
from ttmem.model.kinds import KINDS, POOL_OF, Pool
from ttmem.model.printable import printable, printable_data
from ttmem.model.uncertain_reasons import REASONS
from ttmem.server.machine_metrics import MachineMetrics

if TYPE_CHECKING:
    from ttmem.model.schema import ServerFigures, Snapshot

CONTENT_TYPE = CONTENT_TYPE_LATEST

_POOLS = [pool.label for pool in Pool]


class _Kind(NamedTuple):
    """A chip's total of one kind."""

    used: int
    allocations: int
    peak: int
    peak_limit: int | None  # None: the peak is exact
    recent: int
    recent_limit: int | None
    reserved: int | None


class _Chip(NamedTuple):
    """Data of a chip in addition to its row of the snapshot."""

    info: ChipInfo
    assumed: bool
    kinds: list[_Kind]
    pools: list[tuple[int, int, int | None]]  # bytes, their peak, and its limit if it is not exact
    processes: int


class Totals:
    """The data of this moment that the page needs in addition to a snapshot; a thread creates the page from it."""

    def __init__(self, ledger: Ledger, *, pids: bool) -> None:
        self.events = ledger.seq
        self.uncertain = {reason: ledger.uncertain[reason] for reason in REASONS}
        self.chips = [_chip(chip) for chip in shown_chips(ledger)]
        self.processes: list[tuple[str, int, list[int]]] | None = None  # chip, pid, bytes of each pool
        if pids:
            self.processes = [
                (chip_id, process.info.pid, [total.used for total in share.pools])
                for process in ledger.processes.values()
                for chip_id, share in process.shares.items()
            ]


def _chip(chip: Chip) -> _Chip:
    kinds = [
        _Kind(
            total.used,
            total.count,
            total.peak.value,
            total.peak.limit,
            total.recent.value,
            total.recent.limit,
            total.reserved_bytes if total.known else None,
        )
        for total in chip.kinds
    ]
    pools = [(total.used, total.peak.value, total.peak.limit) for total in chip.pools]
    return _Chip(chip.info, chip.assumed, kinds, pools, len({holding.source.process for holding in chip.holdings}))


def _peak_gauges(name: str, text: str, label: str) -> tuple[GaugeMetricFamily, GaugeMetricFamily]:
    """The gauge of a peak, and that of its upper limit, which has a value only while the peak is not exact."""
    limit = f"ttmem_{name}_at_most_bytes"
    labels = ["chip", label]
    return (
        GaugeMetricFamily(f"ttmem_{name}_bytes", f"{text}; a lower limit where {limit} has a value", labels=labels),
        GaugeMetricFamily(limit, f"{text}: the upper limit, only where records were lost", labels=labels),
    )


class _Account(Collector):
    """The metrics of one moment; nothing is kept between requests."""

    def __init__(self, totals: Totals, server: ServerFigures, account: Snapshot) -> None:
        self._totals = totals
        self._server = server
        self._account = account

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        yield from self._chips()
        if self._totals.processes is not None:
            yield from self._processes(self._totals.processes)
        yield from self._health()

    def _chips(self) -> Iterator[Metric]:
        def gauge(name: str, text: str, labels: list[str]) -> GaugeMetricFamily:
            return GaugeMetricFamily(f"ttmem_{name}", text, labels=["chip", *labels])

        used = gauge("used_bytes", "Requested bytes of live allocations", ["kind"])
        reserved = gauge("reserved_bytes", "Bytes that the allocator reserved, where known", ["kind"])
        allocations = gauge("allocations", "Live allocations", ["kind"])
        highest = "Highest requested bytes"
        peak, peak_limit = _peak_gauges("peak", f"{highest} since the server started", "kind")
        recent, recent_limit = _peak_gauges("recent_peak", f"{highest} since the last reset of peaks", "kind")
        capacity = gauge("capacity_bytes", "Size of the pool", ["pool", "basis"])
        pool_used = gauge("pool_used_bytes", "Requested bytes of live allocations, by pool", ["pool"])
        pool_peak, pool_limit = _peak_gauges("pool_peak", f"{highest} of the pool since the server started", "pool")
        in_use = gauge("in_use_bytes", "In use at one time: reserved bytes of buffers, and resident programs", ["pool"])
        largest = gauge("largest_free_bytes", "The largest free block in one bank, where it is known", ["pool"])
        bank_free = gauge("bank_free_bytes", "Free for buffers in one bank, in any number of pieces", ["pool"])
        headroom = gauge(
            "headroom_bytes", "Least distance from the end of a core's program to the lowest L1 buffer", []
        )
        resident = gauge("resident_bytes", "Bytes of the programs that ran last on each core", ["kind"])
        trust = gauge("confidence_bytes", "Requested bytes by confidence", ["confidence"])
        processes = gauge("processes", "Live processes that hold or held something on the chip", [])
        info = InfoMetricFamily("ttmem_chip", "Properties of the chip", labels=["chip"])
        for chip, row in zip(self._totals.chips, self._account["chips"]):
            chip_id, memory = printable(chip.info.id), row["memory"]
            missing = set(memory["missing"])
            for kind, total in zip(KINDS, chip.kinds):
                if kind.label in missing:
                    continue
                used.add_metric([chip_id, kind.label], total.used)
                allocations.add_metric([chip_id, kind.label], total.allocations)
                peak.add_metric([chip_id, kind.label], total.peak)
                recent.add_metric([chip_id, kind.label], total.recent)
                if total.peak_limit is not None:
                    peak_limit.add_metric([chip_id, kind.label], total.peak_limit)
                if total.recent_limit is not None:
                    recent_limit.add_metric([chip_id, kind.label], total.recent_limit)
                if total.reserved is not None:
                    reserved.add_metric([chip_id, kind.label], total.reserved)
            for pool, (size, top, limit) in zip(Pool, chip.pools):
                if any(POOL_OF[kind] is pool and kind.label not in missing for kind in KINDS):
                    pool_used.add_metric([chip_id, pool.label], size)
                    pool_peak.add_metric([chip_id, pool.label], top)
                    if limit is not None:
                        pool_limit.add_metric([chip_id, pool.label], limit)
            dram, l1 = memory["dram"], memory["l1"]
            for pool_name, room, basis in (
                ("dram", dram["capacity"], dram["capacity_basis"]),
                ("l1", l1["capacity"], l1["capacity_basis"]),
            ):
                if room is not None:
                    capacity.add_metric([chip_id, pool_name, basis or ""], room)
            taken = dram["used"] if dram["reserved"] is None else dram["reserved"]
            for family, labels, value in (
                (in_use, ["dram"], taken),
                (in_use, ["l1"], l1["at_once"]),
                (largest, ["dram"], dram["largest_free"]),
                (largest, ["l1"], l1["largest_free"]),
                (bank_free, ["l1"], l1["bank_free"]),
                (headroom, [], l1["physical"]["headroom_min"]),
            ):
                if value is not None:
                    family.add_metric([chip_id, *labels], value)
            for kind_name, program_part in (("cb", l1["cb"]), ("dfb", l1["dfb"])):
                if program_part["resident"] is not None:
                    resident.add_metric([chip_id, kind_name], program_part["resident"])
            known = memory["confidence"]
            for level, bytes_of in (
                ("estimated", known["estimated"]), ("reported", known["reported"]), ("exact", known["exact"])
            ):  # fmt: skip
                trust.add_metric([chip_id, level], bytes_of)
            processes.add_metric([chip_id], chip.processes)
            about = {"pci": chip.info.pci or "", "board": chip.info.board or "", "arch": chip.info.arch.label}
            about["identity"] = "assumed" if chip.assumed else "known"
            info.add_metric([chip_id], printable_data(about))
        yield from (
            used,
            reserved,
            allocations,
            peak,
            peak_limit,
            recent,
            recent_limit,
            capacity,
            pool_used,
            pool_peak,
            pool_limit,
            resident,
            trust,
            processes,
        )
        yield from (in_use, largest, bank_free, headroom)
        yield info

    def _processes(self, found: list[tuple[str, int, list[int]]]) -> Iterator[Metric]:
        used = GaugeMetricFamily(
            "ttmem_process_used_bytes", "Requested bytes of one process", labels=["chip", "pid", "pool"]
        )
        for chip_id, pid, sizes in found:
            for pool, size in zip(_POOLS, sizes):
                used.add_metric([printable(chip_id), str(pid), pool], size)
        yield used

    def _health(self) -> Iterator[Metric]:
        odd = CounterMetricFamily("ttmem_anomalies", "Anomalies by name", labels=["name"])
        for name, count in cast("dict[str, int]", self._account["anomalies"]).items():
            odd.add_metric([name], count)
        yield odd
        text = "Counts of agents that make numbers uncertain, by reason"
        doubt = CounterMetricFamily("ttmem_uncertain", text, labels=["reason"])
        for reason, count in self._totals.uncertain.items():
            doubt.add_metric([reason], count)
        yield doubt
        yield CounterMetricFamily("ttmem_events", "Events applied", value=self._totals.events)
        yield CounterMetricFamily("ttmem_connections", "Client connections accepted", value=self._server["accepted"])
        yield GaugeMetricFamily("ttmem_clients", "Client connections open", value=self._server["clients"])
        yield GaugeMetricFamily("ttmem_start_time_seconds", "When the server started", value=self._server["since"])
        build = InfoMetricFamily("ttmem_build", "The server's version")
        build.add_metric([], {"version": self._server["version"]})
        yield build


def page(totals: Totals, server: ServerFigures, account: Snapshot, snapshot: Snapshot) -> bytes:
    """The metrics page. ``snapshot`` is ``account`` of the same moment, merged with the state of the machine."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Account(totals, server, account))
    registry.register(MachineMetrics(printable_data(snapshot)))
    return generate_latest(registry)

# SPDX-License-Identifier: Apache-2.0
"""Metrics of the machine for Prometheus: telemetry in base units, tt-metal's own counters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from ttmem.documents.merged_processes import COUNTED

if TYPE_CHECKING:
    from ttmem.model.schema import ProcessRow, Snapshot

_Field = Literal[
    "temperature_c", "temperature_max_c", "power_w", "power_max_w", "current_a", "voltage_mv", "fan_rpm", "age_s",
    "aiclk_mhz", "axiclk_mhz", "arcclk_mhz"
]  # fmt: skip
# name, text, field of the telemetry, factor to the base unit, label
_GAUGES: tuple[tuple[str, str, tuple[tuple[_Field, float, str], ...]], ...] = (
    ("temperature_celsius", "Temperature of the chip", (("temperature_c", 1, ""),)),
    ("temperature_limit_celsius", "Temperature at which it throttles", (("temperature_max_c", 1, ""),)),
    ("power_watts", "Power it draws", (("power_w", 1, ""),)),
    ("power_limit_watts", "Power limit", (("power_max_w", 1, ""),)),
    ("current_amperes", "Current of the core", (("current_a", 1, ""),)),
    ("voltage_volts", "Voltage of the core", (("voltage_mv", 1e-3, ""),)),
    ("fan_rpm", "Speed of the fan", (("fan_rpm", 1, ""),)),
    ("telemetry_age_seconds", "Age of the telemetry", (("age_s", 1, ""),)),
    (
        "clock_hertz",
        "Clocks of the chip",
        (("aiclk_mhz", 1e6, "ai"), ("axiclk_mhz", 1e6, "axi"), ("arcclk_mhz", 1e6, "arc")),
    ),
)
_STATES = ("ok", "in reset", "off the bus", "gone", "hangs", "no files")


class MachineMetrics(Collector):
    """Reads a snapshot."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        seen = [(chip["chip"], chip["telemetry"]) for chip in self._snapshot["chips"] if chip["telemetry"]]
        for name, text, fields in _GAUGES:
            gauge = GaugeMetricFamily(f"ttmem_{name}", text, labels=["chip", "clock"] if fields[0][2] else ["chip"])
            for chip_id, telemetry in seen:
                for field, factor, label in fields:
                    if (value := telemetry[field]) is not None:
                        gauge.add_metric([chip_id, label] if label else [chip_id], value * factor)
            yield gauge
        state = GaugeMetricFamily("ttmem_chip_state", "1 for the current state of the chip", labels=["chip", "state"])
        for chip_id, telemetry in seen:
            for one in _STATES:
                state.add_metric([chip_id, one], float(telemetry["state"] == one))
        yield state
        yield from self._counters()

    def _counters(self) -> Iterator[Metric]:
        counted = GaugeMetricFamily(
            "ttmem_shm_bytes", "Bytes in tt-metal's own counters, of living and dead processes",
            labels=["chip", "kind", "of"],
        )  # fmt: skip
        holders = GaugeMetricFamily(
            "ttmem_untracked_processes", "Processes that have the chip open and do not report", labels=["chip"]
        )
        for chip in self._snapshot["chips"]:
            found = chip["shm"]
            if found is not None and found["state"] == "ok":
                for of, sizes in (("live", found["live"]), ("stale", found["stale"])):
                    if sizes is not None:
                        for kind in COUNTED:
                            if (size := sizes[kind]) is not None:
                                counted.add_metric([chip["chip"], kind, of], size)
            silent = [p for p in self._snapshot["processes"] if p["state"] == "untracked" and _has(p, chip["chip"])]
            holders.add_metric([chip["chip"]], len(silent))
        yield counted
        yield holders


def _has(process: ProcessRow, chip_id: str) -> bool:
    return chip_id in process["holds"] or any(share["chip"] == chip_id for share in process["chips"])

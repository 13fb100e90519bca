# SPDX-License-Identifier: Apache-2.0
"""A snapshot as comma-separated values (RFC 4180): a row for each chip, units in the names, empty is "not known"."""

from __future__ import annotations

from ttmem.model.printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ttmem.model.schema import ChipRow, MemoryRow, ProcessRow, Snapshot

_CHIP = ("chip", "kmd", "pci", "board", "arch", "remote", "identity", "unique_id")
_TELEMETRY = (
    *("state", "age_s", "temperature_c", "temperature_max_c", "power_w", "power_max_w", "current_a", "voltage_mv"),
    *("aiclk_mhz", "fan_rpm"),
)
# The path of each number in the chip's memory.
_BYTES = {
    "dram_used": "dram.used",
    "dram_reserved": "dram.reserved",
    "dram_capacity": "dram.capacity",
    "dram_peak": "dram.peak",
    "dram_largest_free": "dram.largest_free",
    "trace": "dram.trace.used",
    "l1_at_once": "l1.at_once",
    "l1_held": "l1.used",
    "l1_capacity": "l1.capacity",
    "l1_peak": "l1.peak",
    "l1_largest_free": "l1.largest_free",
    "l1_buffers": "l1.buffers",
    "l1_small": "l1.small.used",
    "cb_held": "l1.cb.held",
    "cb_resident": "l1.cb.resident",
    "dfb_held": "l1.dfb.held",
    "dfb_resident": "l1.dfb.resident",
    "scratchpad": "l1.scratchpad",
    "kernels": "l1.kernels",
    "firmware": "l1.firmware",
    "fabric_kernels": "system.fabric_kernels",
    "dispatch_kernels": "system.dispatch_kernels",
    "host": "host.used",
    "exact": "confidence.exact",
    "reported": "confidence.reported",
    "estimated": "confidence.estimated",
}
# The upper limit of a peak that is not exact.
_LIMITS = {"dram_peak_at_most": "dram.peak_at_most", "l1_peak_at_most": "l1.peak_at_most"}
# The order never changes; new columns come last.
COLUMNS = (
    *("time", "host"),
    *_CHIP,
    *("telemetry" if name == "state" else name if name != "age_s" else "telemetry_age_s" for name in _TELEMETRY),
    *(f"{name}_bytes" for name in _BYTES),
    *("processes", "untracked_processes"),
    *(f"{name}_bytes" for name in _LIMITS),
)


def header() -> str:
    return _line([*COLUMNS])


def rows(snapshot: Snapshot) -> str:
    """All rows, each with its line end."""
    return "".join(_line(_values(chip, snapshot)) for chip in snapshot["chips"])


def _values(chip: ChipRow, snapshot: Snapshot) -> list[object]:
    telemetry: Mapping[str, object] = chip["telemetry"] or {}
    live = [process for process in snapshot["processes"] if process["state"] in ("tracked", "untracked")]
    here = [process["state"] for process in live if _is_on(process, chip["chip"])]
    seen = chip["held"] is not None
    return [
        *(snapshot["time"], snapshot["host"]),
        *(chip.get(name) for name in _CHIP),
        *(telemetry.get(name) for name in _TELEMETRY),
        *(_at(chip["memory"], path) for path in _BYTES.values()),
        *((len(here), here.count("untracked")) if seen else (None, None)),
        *(_at(chip["memory"], path) for path in _LIMITS.values()),
    ]


def _is_on(process: ProcessRow, chip_id: str) -> bool:
    return chip_id in process.get("holds", []) or any(share["chip"] == chip_id for share in process["chips"])


def _at(memory: MemoryRow, path: str) -> object:
    value: Any = memory
    for key in path.split("."):
        value = value[key]
    return value


def _line(values: list[object]) -> str:
    return ",".join(map(_field, values)) + "\r\n"


def _field(value: object) -> str:
    """
    >>> _field(None), _field(True), _field(0), _field('a "b", c')
    ('', 'true', '0', '"a ""b"", c"')
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    text = printable(str(value))
    return '"' + text.replace('"', '""') + '"' if any(mark in text for mark in '",') else text

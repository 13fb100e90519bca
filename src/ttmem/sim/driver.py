# SPDX-License-Identifier: Apache-2.0
"""Simulates the driver of chips: its files in a folder, with telemetry that follows the load.

A chip that runs programs draws power, and power makes it warm, with a lag. The figures are plausible, not measured. A
simulated chip has no PCI address; it is matched with the reports of its process by the driver's number.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from ttmem.model.geometry import BOARDS, Arch
from ttmem.sim.board_types import MachineType, machine_named

# Set for processes whose chips have a simulated driver. Only then do they report their numbers; otherwise these could
# be the numbers of real chips.
VARIABLE = "TTMEM_SIM_DRIVER"

_VERSION = "2.10.0"
_PERIOD_SECONDS = 0.5  # between two changes of the files; a heartbeat that stands still for 1.5 s counts as stopped
_WARMING_SECONDS = 8.0  # time constant of the temperature: two thirds of a change
_HALF_BUSY_PROGRAMS = 100.0  # programs per second that make a chip half busy
_CHIP_SPREAD = (0.0, 1.0, -0.6, 0.5, -1.0)  # no two chips are quite alike
_VALUE_CHARACTERS = 15  # characters of a value


class _Family(NamedTuple):
    """The values of a chip when idle and when always busy: watts, degrees, millivolts, MHz, rpm."""

    pci_id: str
    watts: tuple[float, float]
    degrees: tuple[float, float]
    millivolts: tuple[float, float]
    mhz: tuple[int, int]
    rpm: tuple[float, float] | None
    limits: Mapping[str, int]
    fixed: Mapping[str, object]


_FIRMWARE = {"tt_fw_bundle_ver": "18.10.0.0", "max_link_width": 16, "current_link_width": 16, "numa_node": 0}
_FAMILIES = {
    Arch.WORMHOLE_B0: _Family(
        "0x401e", (16.0, 118.0), (41.0, 68.0), (730.0, 850.0), (500, 1000), None,
        {"temp1_max": 75_000, "in0_max": 950, "curr1_max": 160_000, "power1_max": 160_000_000},
        {**_FIRMWARE, "tt_axiclk": 900, "tt_arcclk": 540,
         "max_link_speed": "16.0 GT/s PCIe", "current_link_speed": "16.0 GT/s PCIe"},
    ),
    Arch.BLACKHOLE: _Family(
        "0xb140", (34.0, 215.0), (45.0, 79.0), (720.0, 860.0), (800, 1350), (1200.0, 3400.0),
        {"temp1_max": 90_000, "in0_max": 900, "curr1_max": 300_000, "power1_max": 300_000_000},
        {**_FIRMWARE, "tt_axiclk": 960, "tt_arcclk": 800, "tt_therm_trip_count": 0,
         "max_link_speed": "32.0 GT/s PCIe", "current_link_speed": "32.0 GT/s PCIe"},
    ),
}  # fmt: skip


def has_driver(machine: str) -> bool:
    """Whether there is a driver for such chips. There is none for Quasar yet."""
    return BOARDS[machine_named(machine).board.table].arch in _FAMILIES


class Driver:
    """Creates its files once, and changes them twice a second if ``tick`` is called often enough."""

    def __init__(self, root: str, machine: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._due = self._last = clock()
        found = machine_named(machine)
        local = [number for number in range(found.chips) if found.kmd(number) is not None]
        _put(f"{root}/sys/module/tenstorrent/version", _VERSION)
        for folder in ("sys/class/tenstorrent", "dev/shm"):
            os.makedirs(os.path.join(root, folder), exist_ok=True)
        self._chips = {number: _Chip(root, found, number) for number in local}

    def tick(self, launches: Mapping[int, int]) -> None:
        """``launches`` are the programs that each chip has run so far; a chip that is not named has run none."""
        now = self._clock()
        if now >= self._due:
            for number, chip in self._chips.items():
                chip.tick(launches.get(number, 0), now - self._last)
            self._last, self._due = now, now + _PERIOD_SECONDS


class _Chip:
    """One chip's files, and its state."""

    def __init__(self, root: str, machine: MachineType, number: int) -> None:
        kmd = machine.kmd(number)
        self._family = _FAMILIES[BOARDS[machine.board.table].arch]
        self._spread = _CHIP_SPREAD[number % len(_CHIP_SPREAD)]
        self._device = f"{root}/sys/devices/simulated/sim-{machine.name}-{number}"
        self._entry = f"{self._device}/tenstorrent/tenstorrent!{kmd}"
        self._files: dict[str, object] = {}
        self._launches = self._beats = 0
        self._degrees = self._between(self._family.degrees, 0.0) + self._spread
        self._set({"device": self._family.pci_id, "tt_card_type": machine.board.name})
        self._set({**self._family.limits, **self._family.fixed})
        self.tick(0, 0.0)
        _put(f"{root}/proc/driver/tenstorrent/{kmd}/pids", "")  # no process has it open, because there is no device
        os.symlink("../..", f"{self._entry}/device")
        os.symlink(os.path.relpath(self._entry, f"{root}/sys/class/tenstorrent"),
                   f"{root}/sys/class/tenstorrent/tenstorrent!{kmd}")  # fmt: skip

    def tick(self, launches: int, seconds: float) -> None:
        rate = max(0, launches - self._launches) / seconds if seconds else 0.0
        self._launches = launches
        self._beats += 1
        busy = rate / (rate + _HALF_BUSY_PROGRAMS)
        watts = round(self._between(self._family.watts, busy) + self._spread)
        warm = self._between(self._family.degrees, busy) + 2 * self._spread
        self._degrees += (warm - self._degrees) * -math.expm1(-seconds / _WARMING_SECONDS)
        millivolts = round(self._between(self._family.millivolts, busy))
        self._set({
            "temp1_input": round(self._degrees * 1000),
            "in0_input": millivolts,
            "curr1_input": watts * 1000 // millivolts * 1000,  # the firmware reports whole amperes and watts
            "power1_input": watts * 1_000_000,
            "tt_aiclk": self._family.mhz[rate > 0],
            "tt_heartbeat": self._beats,
        })  # fmt: skip
        if self._family.rpm is not None:
            low, high = self._family.degrees
            self._set({"fan1_input": round(self._between(self._family.rpm, (self._degrees - low) / (high - low)))})

    @staticmethod
    def _between(ends: tuple[float, float], share: float) -> float:
        return ends[0] + (ends[1] - ends[0]) * share

    def _set(self, files: Mapping[str, object]) -> None:
        for name, value in files.items():
            if self._files.get(name) != value:
                self._files[name] = value
                hwmon = name.startswith(("temp1", "in0", "curr1", "power1", "fan1"))
                folder = self._entry if name.startswith("tt_") else self._device + "/hwmon/hwmon0" * hwmon
                _put(f"{folder}/{name}", value)


def _put(path: str, value: object) -> None:
    """Write in place and in one call, because a reader keeps the file open and may read at any time."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.pwrite(descriptor, f"{value!s:<{_VALUE_CHARACTERS}}\n".encode(), 0)
    finally:
        os.close(descriptor)

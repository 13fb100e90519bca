# SPDX-License-Identifier: Apache-2.0
"""tt-smi's own dashboard with simulated Blackhole chips, whose readings change each time.

Only the chips of tt-umd are simulated: the program and its screen are tt-smi's. The argument is the number of chips.
"""

from __future__ import annotations

import random
import sys

from tt_smi.backend import TTSMIBackend
from tt_smi.frontend import TTSMI
from tt_tools_common.utils_common import system_utils
from tt_umd import ARCH, TelemetryTag

_STEADY = {
    "BOARD_ID_HIGH": 0x00000403,  # of a p150a
    "BOARD_ID_LOW": 0x319141BB,
    "DDR_SPEED": 16000,
    "DDR_STATUS": 0x5555_5555,
    "FLASH_BUNDLE_VERSION": 0x13080000,
    "VDD_LIMITS": 900 << 16 | 700,
    "TDP_LIMIT_MAX": 160,
    "TDC_LIMIT_MAX": 260,
    "AICLK_LIMIT_MAX": 1350,
    "THM_LIMIT_SHUTDOWN": 95,
}
_MOVING = {
    "VCORE": (700, 900),
    "TDP": (20, 150),
    "TDC": (20, 200),
    "ASIC_TEMPERATURE": (30 << 16, 70 << 16),
    "AICLK": (500, 1350),
    "FAN_RPM": (1000, 3000),
    "TIMER_HEARTBEAT": (0, 1 << 24),
}


class Chip:
    """A device of tt-umd, and the reader of its telemetry."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._names = {int(tag.value): tag.name for tag in TelemetryTag}

    def get_arch(self) -> object:
        return ARCH.BLACKHOLE

    def is_remote(self) -> bool:
        return False

    def get_communication_device_id(self) -> int:
        return self._number

    def get_arc_telemetry_reader(self) -> Chip:
        return self

    def is_entry_available(self, tag: int) -> bool:
        return int(tag) in self._names

    def read_entry(self, tag: int) -> int:
        name = self._names[int(tag)]
        return random.randrange(*_MOVING[name]) if name in _MOVING else _STEADY.get(name, 0)


class Cluster:
    """The chips."""

    def __init__(self, chips: int) -> None:
        self._places = {number: f"0000:{number + 1:02x}:00.0" for number in range(chips)}

    def get_chip_pci_bdfs(self) -> dict[int, str]:
        return self._places


if __name__ == "__main__":
    count = int(sys.argv[1])
    chips = {number: Chip(number) for number in range(count)}
    system_utils.get_driver_version = lambda: "2.10.0"  # tt-smi fails if it is missing
    backend = TTSMIBackend(devices=chips, umd_cluster_descriptor=Cluster(count), pretty_output=False)
    TTSMI(backend=backend, offline=True).run()

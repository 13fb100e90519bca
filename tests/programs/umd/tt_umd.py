# SPDX-License-Identifier: Apache-2.0
"""Stands in for the tt-umd library on a machine without chips: the chips are those in the file $UMD_STAND_IN names.

    {"log": PATH, "chips": {PCI: CHIP}}
    CHIP = {"arch", "board", "board_id", "unique_id", "bundle": [18, 10, 0], "tags": {"11": raw}, "getters": {name: it},
            "dram": ["SUCCESS", ...], "behind": CHIP, "trouble": "hang" | "abort" | "raise" | "exit" | "unhealthy"}

Every opened chip is a line in the log. It chatters where the real one logs, in the form of our own answers.
"""

from __future__ import annotations

import enum
import json
import os
import signal
from typing import Any

with open(os.environ["UMD_STAND_IN"]) as file:
    MACHINE = json.load(file)
for stream in (1, 2):
    os.write(stream, b'{"absent": true}\n{"chip": {}}\x1b[31m\xff rubbish of the library\n')


class DramTrainingStatus(enum.Enum):
    IN_PROGRESS = 0
    FAIL = 1
    SUCCESS = 2


class TopologyDiscoveryOptions:
    class Action(enum.Enum):
        THROW = 0
        IGNORE = 1

    discover_remote_devices = True
    device_init_failure_action = Action.THROW


class Version:
    def __init__(self, major: int, minor: int, patch: int) -> None:
        self.major, self.minor, self.patch = major, minor, patch


class Device:
    def __init__(self, chip: dict[str, Any]) -> None:
        self.chip = chip

    def get_arch(self) -> str:
        return str(self.chip["arch"])

    def get_firmware_info_provider(self) -> Provider:
        return Provider(self.chip)

    def get_firmware_telemetry_reader(self) -> Tags:
        return Tags(self.chip["tags"])


class Tags:
    def __init__(self, tags: dict[str, int]) -> None:
        self.tags = tags

    def is_entry_available(self, tag: int) -> bool:
        return str(tag) in self.tags

    def read_entry(self, tag: int) -> int:
        return self.tags[str(tag)]


class Provider:
    def __init__(self, chip: dict[str, Any]) -> None:
        self.chip = chip

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("get_") or name == "get_asic_temperature":  # which the real one lacks
            raise AttributeError(name)
        return lambda: self.chip["getters"].get(name)

    def get_firmware_version(self) -> Version:
        return Version(*self.chip["bundle"])

    def get_fan_speeds(self) -> list[int | None]:
        return [self.chip["getters"].get("get_fan_speeds"), None]

    def get_fan_rpms(self) -> list[int | None]:
        return [self.chip["getters"].get("get_fan_rpms"), None]

    def get_dram_training_status(self, channels: int) -> list[DramTrainingStatus]:
        return [DramTrainingStatus[name] for name in self.chip.get("dram", [])[:channels]]


class ClusterDescriptor:
    def __init__(self, chips: list[dict[str, Any]], places: list[str]) -> None:
        self.chips = chips
        self.places = places

    def is_chip_remote(self, chip: int) -> bool:
        return chip >= len(self.places)

    def get_chip_pci_bdfs(self) -> dict[int, str]:
        return dict(enumerate(self.places))

    def get_chip_unique_ids(self) -> dict[int, int]:
        return {number: chip["unique_id"] for number, chip in enumerate(self.chips)}

    def get_board_type(self, chip: int) -> str:
        return str(self.chips[chip]["board"])

    def get_board_id_for_chip(self, chip: int) -> int:
        return int(self.chips[chip]["board_id"])

    def get_unhealthy_devices(self) -> list[int]:
        return [number for number, chip in enumerate(self.chips) if chip.get("trouble") == "unhealthy"]

    def get_health_errors(self) -> dict[int, list[Exception]]:
        return {
            chip: [RuntimeError("the firmware did not start\nLocation: x.cpp")] for chip in self.get_unhealthy_devices()
        }


class TopologyDiscovery:
    @staticmethod
    def discover(options: TopologyDiscoveryOptions) -> tuple[ClusterDescriptor, dict[int, Device]]:
        visible = os.environ["TT_VISIBLE_DEVICES"].split(",")
        places = [pci for pci in sorted(MACHINE["chips"]) if pci in visible]
        chips = [MACHINE["chips"][pci] for pci in places]
        for pci, chip in zip(places, chips):
            with open(MACHINE["log"], "a") as log:
                log.write(f"{os.getpid()} {pci} {'remote' if options.discover_remote_devices else 'local'}\n")
            misbehave(chip.get("trouble"), options)
        if options.discover_remote_devices:
            chips = chips + [chip["behind"] for chip in chips if "behind" in chip]
        return ClusterDescriptor(chips, places), {number: Device(chip) for number, chip in enumerate(chips)}


def misbehave(trouble: str | None, options: TopologyDiscoveryOptions) -> None:
    if trouble == "hang":
        while True:
            signal.pause()
    if trouble == "abort":
        os.write(2, b"terminate called after throwing an instance of 'X'\n")
        os.kill(os.getpid(), signal.SIGABRT)
    if trouble == "exit":
        os._exit(3)
    refuses = options.device_init_failure_action is not TopologyDiscoveryOptions.Action.IGNORE
    if trouble == "raise" or (trouble == "unhealthy" and refuses):
        raise RuntimeError("Timed out\nLocation: /project/x.cpp:184\n 1. a stack trace")

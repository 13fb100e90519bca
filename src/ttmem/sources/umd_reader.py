# SPDX-License-Identifier: Apache-2.0
"""A program that opens chips with tt-umd, reads their telemetry and closes them again.

``umd.py`` runs it as a child process, so that a hang or crash of the library does no harm. It writes to a descriptor
that the library does not use, one line of JSON for each chip as soon as the chip is read. So results before a hang are
kept. It is run by its path and imports nothing from ttmem.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


# Values that tt-umd decodes: our name, its method. A method returns None if the firmware lacks the value.
GETTERS = {
    "temperature_max_c": "get_thm_limit_throttle",
    "temperature_shutdown_c": "get_thm_limit_shutdown",
    "board_temperature_c": "get_board_temperature",
    "dram_temperature_c": "get_current_max_dram_temperature",
    "dram_speed": "get_dram_speed",
    "power_w": "get_tdp",
    "power_max_w": "get_tdp_limit",
    "board_power_max_w": "get_board_power_limit",
    "current_a": "get_tdc",
    "voltage_mv": "get_vcore",
    "aiclk_mhz": "get_aiclk",
    "aiclk_max_mhz": "get_max_clock_freq",
    "axiclk_mhz": "get_axiclk",
    "arcclk_mhz": "get_arcclk",
    "heartbeat": "get_heartbeat",
    "therm_trips": "get_therm_trip_count",
}
# Values that it does not decode: get_asic_temperature is not bound, and its list of tags lacks the input power.
VDD_LIMITS, ASIC_TEMPERATURE, ENABLED_GDDR, INPUT_POWER, TDC_LIMIT_MAX = 9, 11, 36, 54, 55
# Wormhole firmware up to this version has other tags; tt-umd decodes all of them except those above.
LEGACY = 18, 3, 0
LEGACY_ASIC_TEMPERATURE = 29
_CHANNELS = {"wormhole_b0": 6, "blackhole": 8}
_QUOTED_CHARACTERS = 200


def main() -> None:
    task = json.loads(sys.argv[1])
    # If the parent is killed, the chip must not stay open. The kernel then kills this process, even inside the library.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, task["seconds"])
    answer: int = task["answer"]
    try:
        tt_umd = importlib.import_module("tt_umd")
    except ModuleNotFoundError as error:
        absent = error.name == "tt_umd"
        _say(answer, {"absent": True} if absent else {"error": f"tt-umd cannot be imported: {_text(error)}"})
        return
    except Exception as error:
        _say(answer, {"error": f"tt-umd cannot be imported: {_text(error)}"})
        return
    for pci in task["local"]:
        _local(tt_umd, answer, pci)
    if task["behind"]:
        _remote(tt_umd, answer, task["behind"])
    _say(answer, {"end": True})


def _say(answer: int, what: dict[str, Any]) -> None:
    line = json.dumps(what).encode() + b"\n"
    while line:
        line = line[os.write(answer, line) :]


def _text(error: object) -> str:
    """The message of an error without the stack trace that the library appends."""
    return (str(error).strip() or repr(error)).splitlines()[0][:_QUOTED_CHARACTERS]


def _local(umd: Any, answer: int, pci: str) -> None:
    """Read each chip separately, so that a broken chip does not prevent reading the others."""
    try:
        descriptor, devices = _discover(umd, [pci], remote=False)
        if not devices:
            _say(answer, {"chip": {"pci": pci, "error": "tt-umd finds no such chip"}})
        for chip, device in devices.items():
            found = descriptor.get_chip_pci_bdfs().get(chip, pci)
            _say(answer, {"chip": {**_read(descriptor, chip, device), "pci": found, "remote": False}})
    except Exception as error:
        _say(answer, {"chip": {"pci": pci, "error": _text(error)}})


def _remote(umd: Any, answer: int, through: list[str]) -> None:
    try:
        descriptor, devices = _discover(umd, through, remote=True)
        for chip, device in devices.items():
            if descriptor.is_chip_remote(chip):
                _say(answer, {"chip": {**_read(descriptor, chip, device), "remote": True, "chip": chip}})
    except Exception as error:
        _say(answer, {"error": f"the remote chips could not be found: {_text(error)}"})


def _discover(umd: Any, pci: list[str], *, remote: bool) -> tuple[Any, dict[int, Any]]:
    """Open only these chips: the library reads the variable each time."""
    os.environ["TT_VISIBLE_DEVICES"] = ",".join(pci)
    options = umd.TopologyDiscoveryOptions()
    options.discover_remote_devices = remote
    options.wait_on_ethernet_link_training = False
    ignore = umd.TopologyDiscoveryOptions.Action.IGNORE
    # By default discovery fails where a workload could fail, but telemetry can be read with old firmware, too.
    options.cmfw_mismatch_action = options.cmfw_unsupported_action = ignore
    options.eth_fw_mismatch_action = options.eth_fw_heartbeat_failure = ignore
    options.unexpected_routing_firmware_config = options.device_init_failure_action = ignore
    found: tuple[Any, dict[int, Any]] = umd.TopologyDiscovery.discover(options)
    return found


def _read(descriptor: Any, chip: int, device: Any) -> dict[str, Any]:
    if chip in descriptor.get_unhealthy_devices():  # its unique id is not real
        reasons = descriptor.get_health_errors().get(chip) or ["it did not start"]
        return {"error": _text(reasons[0])}
    arch = str(device.get_arch())
    row: dict[str, Any] = {
        "arch": arch,
        "board": str(descriptor.get_board_type(chip)),
        "serial": descriptor.get_board_id_for_chip(chip),
        "unique_id": descriptor.get_chip_unique_ids().get(chip),
    }
    try:
        firmware = device.get_firmware_info_provider()
        version = firmware.get_firmware_version()
        row["bundle"] = [version.major, version.minor, version.patch]
        legacy = arch == "wormhole_b0" and tuple(row["bundle"]) <= LEGACY
        row["values"] = _values(firmware, device.get_firmware_telemetry_reader(), arch, legacy)
    except Exception as error:
        row["error"] = _text(error)
    return row


def _values(firmware: Any, tags: Any, arch: str, legacy: bool) -> dict[str, Any]:
    def tag(number: int) -> int | None:
        return int(tags.read_entry(number)) if tags.is_entry_available(number) else None

    values: dict[str, Any] = {name: getattr(firmware, getter)() for name, getter in GETTERS.items()}
    values["fan_percent"] = next(iter(firmware.get_fan_speeds()), None)
    values["fan_rpm"] = next(iter(firmware.get_fan_rpms()), None)
    if legacy:
        raw = tag(LEGACY_ASIC_TEMPERATURE)
        values["temperature_c"] = None if raw is None else (raw & 0xFFFF) / 16
        values["board_temperature_c"] = None  # three bytes for three sensors; tt-umd decodes them as one number
        enabled = None
    else:
        raw = tag(ASIC_TEMPERATURE)
        values["temperature_c"] = None if raw is None else (raw - (raw >> 31 << 32)) / 65536  # signed 16.16
        values["board_power_w"] = tag(INPUT_POWER)
        values["current_max_a"] = tag(TDC_LIMIT_MAX)
        raw = tag(VDD_LIMITS)
        values["voltage_max_mv"] = None if raw is None else raw >> 16
        enabled = tag(ENABLED_GDDR)
    channels = _CHANNELS.get(arch)
    if channels:
        states = [state.name for state in firmware.get_dram_training_status(channels)]
        values["dram_status"] = dram_status(states, channels if enabled is None else enabled.bit_count())
    return values


def dram_status(states: list[str], channels: int) -> str | None:
    """The status of all channels together. A disabled channel looks like one that is not yet trained."""
    if not states:
        return None
    if "FAIL" in states:
        return "failed"
    return "trained" if states.count("SUCCESS") >= channels else "incomplete"


if __name__ == "__main__":
    main()

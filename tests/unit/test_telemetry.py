# SPDX-License-Identifier: Apache-2.0
"""Chips that work, are hot, dead, in reset, gone or do not answer, on machines in a folder."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import machines
from tests.support import ROOT, wait_until
from ttmem.model.machine_rows import DriverChip
from ttmem.sources.telemetry import FORGET_SECONDS, STILL_SECONDS, Telemetry

VALUES = (
    "temperature_c", "temperature_max_c", "power_w", "power_max_w", "current_a", "current_max_a", "voltage_mv",
    "voltage_max_mv", "aiclk_mhz", "axiclk_mhz", "arcclk_mhz", "fan_rpm", "heartbeat", "therm_trips",
)  # fmt: skip


class Clock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def look_at(clock: Clock) -> Iterator[Callable[..., Telemetry]]:
    """Telemetry of a machine. Its time limit is longer than any test, unless one is given."""
    with contextlib.ExitStack() as stack:

        def make(machine: machines.Machine, patience: float = 60.0) -> Telemetry:
            return stack.enter_context(contextlib.closing(Telemetry(str(machine.root), patience, clock=clock)))

        yield make


Look = Callable[..., Telemetry]


def state(chip: DriverChip) -> str:
    return str(chip["telemetry"]["state"])


def values(chip: DriverChip) -> dict[str, object]:
    shown: Mapping[str, object] = chip["telemetry"]
    return {name: shown[name] for name in VALUES}


def test_n150(folder: Path, look_at: Look) -> None:
    machine = machines.n150(folder)
    assert look_at(machine).look() == {
        "driver": {"version": "2.10.0", "loaded": True},
        "state": "ok",
        "why": None,
        "chips": [
            {
                "kmd": 0,
                "pci": "0000:01:00.0",
                "arch": "wormhole_b0",
                "board": "n150",
                "serial": "0100018511703012",
                "asic_id": machine.file(0, "tt_asic_id").read_text().strip(),
                "firmware": {
                    "bundle": "18.10.0.0",
                    "m3app": "5.12.0.0",
                    "m3bl": "129.2.0.0",
                    "arc": "2.36.0.0",
                    "eth": "6.15.0",
                    "ttflash": "3.1.1.0",
                },
                "pcie": {"speed_gts": 16.0, "width": 16, "max_speed_gts": 16.0, "max_width": 16, "numa": 0},
                "telemetry": {
                    "temperature_c": 51.187,
                    "temperature_max_c": 75.0,
                    "power_w": 18.0,
                    "power_max_w": 160.0,
                    "current_a": 21.0,
                    "current_max_a": 160.0,
                    "voltage_mv": 730,
                    "voltage_max_mv": 900,
                    "aiclk_mhz": 1000,
                    "axiclk_mhz": 900,
                    "arcclk_mhz": 540,
                    "fan_rpm": None,
                    "heartbeat": 12345,
                    "therm_trips": None,
                    "alive": None,
                    "state": "ok",
                    "age_s": 0.0,
                    "implausible": {},
                },
            }
        ],
    }


def test_p150(folder: Path, look_at: Look) -> None:
    (chip,) = look_at(machines.p150(folder)).look()["chips"]
    assert (chip["arch"], chip["board"], chip["firmware"]) == (
        "blackhole", "p150a", {"bundle": "18.10.0.0", "m3app": "0.22.0.0"},
    )  # fmt: skip
    assert chip["pcie"]["speed_gts"] == 32.0
    assert (chip["telemetry"]["fan_rpm"], chip["telemetry"]["therm_trips"]) == (2100, 0)
    assert chip["telemetry"]["implausible"] == {}


def test_the_chip_behind_an_n300_is_not_here(folder: Path, look_at: Look) -> None:
    (chip,) = look_at(machines.n300(folder)).look()["chips"]
    assert (chip["board"], state(chip), chip["telemetry"]["voltage_max_mv"]) == ("n300", "ok", 950)


@pytest.mark.parametrize(("build", "count"), [(machines.t3k, 4), (machines.galaxy, 32)])
def test_many_chips(build: Callable[[Path], machines.Machine], count: int, folder: Path, look_at: Look) -> None:
    chips = look_at(build(folder)).look()["chips"]
    assert [chip["kmd"] for chip in chips] == list(range(count))
    assert len({chip["serial"] for chip in chips}) == len({chip["pci"] for chip in chips}) == count
    assert {state(chip) for chip in chips} == {"ok"}
    assert [chip["pcie"]["numa"] for chip in chips] == sorted([0, 1] * (count // 2))
    json.dumps(chips, allow_nan=False)


def test_no_driver(folder: Path, look_at: Look) -> None:
    found = look_at(machines.no_driver(folder)).look()
    assert found["driver"] == {"version": None, "loaded": False}
    assert (found["state"], found["chips"]) == ("absent", [])
    assert "modprobe tenstorrent" in (found["why"] or "")


def test_a_driver_without_chips(folder: Path, look_at: Look) -> None:
    machine = machines.Machine(folder)
    machine.driver("2.9.1")
    found: object = look_at(machine).look()
    assert found == {
        "driver": {"version": "2.9.1", "loaded": True},
        "state": "ok",
        "why": "the driver is loaded, but lists no chip",
        "chips": [],
    }


def test_an_old_driver(folder: Path, look_at: Look) -> None:
    found = look_at(machines.old_driver(folder)).look()
    (chip,) = found["chips"]
    assert found["driver"]["version"] == "1.27"
    assert (chip["arch"], chip["pci"], chip["board"], chip["serial"], chip["firmware"]) == (
        "wormhole_b0", "0000:01:00.0", None, None, {},
    )  # fmt: skip
    assert chip["pcie"]["width"] == 16
    assert (state(chip), chip["telemetry"]["age_s"], set(values(chip).values())) == ("no files", None, {None})


def test_a_driver_that_is_loaded_while_we_look(folder: Path, look_at: Look) -> None:
    machine = machines.no_driver(folder)
    telemetry = look_at(machine)
    assert telemetry.look()["state"] == "absent"
    machine.driver()
    machine.chip(0)
    assert [state(chip) for chip in telemetry.look()["chips"]] == ["ok"]


def test_hwmon_that_is_only_in_its_class(folder: Path, look_at: Look) -> None:
    """Each of two chips gets its own values, although only the class folder exists."""
    machine = machines.n150(folder)
    machine.chip(1, "n150", temp1_input=33000)
    for number, name in ((0, "hwmon5"), (1, "hwmon3")):
        hwmon = machine.file(number, "temp1_input").parent
        shutil.rmtree(folder / "sys/class/hwmon" / name, ignore_errors=True)
        (folder / "sys/class/hwmon" / hwmon.name).unlink()
        hwmon.rename(folder / "sys/class/hwmon" / name)
        hwmon.parent.rmdir()
        link = folder / "sys/class/hwmon" / name / "device"
        link.unlink()
        link.symlink_to(folder / f"sys/devices/pci0000:00/0000:0{number + 1}:00.0")
    (folder / "sys/class/hwmon/hwmon0").mkdir()
    assert [chip["telemetry"]["temperature_c"] for chip in look_at(machine).look()["chips"]] == [51.187, 33.0]


def test_what_changes_is_seen_and_what_is_kept_open_stays_open(folder: Path, look_at: Look) -> None:
    machine = machines.n150(folder)
    telemetry = look_at(machine)
    telemetry.look()
    before = os.listdir("/proc/self/fd")
    machine.set(0, temp1_input=60000, tt_aiclk=500, current_link_width=8, current_link_speed="8.0 GT/s PCIe")
    (chip,) = telemetry.look()["chips"]
    assert (chip["telemetry"]["temperature_c"], chip["telemetry"]["aiclk_mhz"]) == (60.0, 500)
    assert (chip["pcie"]["width"], chip["pcie"]["speed_gts"], chip["pcie"]["max_width"]) == (8, 8.0, 16)
    assert os.listdir("/proc/self/fd") == before


def test_a_file_that_appears_later(folder: Path, look_at: Look) -> None:
    """Wormhole's firmware may publish its values some time after the driver found it."""
    machine = machines.old_driver(folder)
    telemetry = look_at(machine)
    assert state(telemetry.look()["chips"][0]) == "no files"
    machine.set(0, tt_aiclk=800, tt_serial="0100018511703012", temp1_input=40000)
    (chip,) = telemetry.look()["chips"]
    assert (state(chip), chip["telemetry"]["aiclk_mhz"], chip["telemetry"]["temperature_c"]) == ("ok", 800, 40.0)
    assert chip["serial"] == "0100018511703012"


@pytest.mark.parametrize(
    ("file", "raw", "name", "value"),
    [
        # The edges of the table.
        ("temp1_input", "100000", "temperature_c", 100.0),
        ("temp1_input", "-50000", "temperature_c", -50.0),
        ("temp1_input", "-50001", "temperature_c", None),
        ("temp1_input", "0", "temperature_c", 0.0),
        ("power1_input", "300000000", "power_w", 300.0),
        ("power1_input", "300000001", "power_w", None),
        ("power1_input", "0", "power_w", None),
        ("curr1_input", "350000", "current_a", 350.0),
        ("curr1_input", "350001", "current_a", None),
        ("curr1_input", "999", "current_a", None),
        ("in0_input", "1125", "voltage_mv", 1125),  # 1.25 times the chip's own limit of 900
        ("in0_input", "1126", "voltage_mv", None),
        ("tt_aiclk", "1500", "aiclk_mhz", 1500),
        ("tt_aiclk", "1501", "aiclk_mhz", None),
        ("tt_axiclk", "0", "axiclk_mhz", None),
        ("tt_arcclk", "1", "arcclk_mhz", 1),
        ("fan1_input", "0", "fan_rpm", 0),
        ("fan1_input", "19999", "fan_rpm", 19999),
        ("fan1_input", "20000", "fan_rpm", None),
        ("temp1_max", "125001", "temperature_max_c", None),
        ("power1_max", "1000000001", "power_max_w", None),
        ("tt_heartbeat", "65535", "heartbeat", 65535),
        ("tt_therm_trip_count", "3", "therm_trips", 3),
        # Values that no chip reports.
        ("tt_aiclk", "65535", "aiclk_mhz", None),
        ("temp1_input", "65535", "temperature_c", None),
        ("curr1_input", "65535", "current_a", None),
        ("tt_aiclk", "4294967295", "aiclk_mhz", None),
        ("tt_heartbeat", "4294967295", "heartbeat", None),
        ("power1_input", "4294967295", "power_w", None),
        ("power1_input", "4293967296", "power_w", None),
        ("temp1_input", "65535999", "temperature_c", None),
        ("tt_aiclk", "", "aiclk_mhz", None),
        ("tt_aiclk", "abc", "aiclk_mhz", None),
        ("tt_aiclk", "1_000", "aiclk_mhz", None),
        ("tt_aiclk", "1000.5", "aiclk_mhz", None),
        ("tt_aiclk", "0x3e8", "aiclk_mhz", None),
        ("tt_aiclk", "nan", "aiclk_mhz", None),
        ("tt_aiclk", "١٠٠٠", "aiclk_mhz", None),
    ],
)
def test_plausible(file: str, raw: str, name: str, value: float | None, folder: Path, look_at: Look) -> None:
    machine = machines.n150(folder)
    machine.set(0, **{file: raw})
    (chip,) = look_at(machine).look()["chips"]
    shown = values(chip)[name]
    assert shown == value
    assert type(shown) is type(value)
    assert chip["telemetry"]["implausible"] == ({} if value is not None else {name: raw})
    assert state(chip) == "ok"


@pytest.mark.parametrize(
    ("limit", "raw", "value"),
    [
        ("90000", "112500", 112.5),
        ("90000", "112501", None),
        ("75000", "100000", 100.0),  # a low limit takes nothing from the table
        ("125000", "130000", 130.0),
        ("126000", "130000", None),  # an invalid limit does not raise it
        ("4294966296", "130000", None),
        ("", "101000", None),
    ],
)
def test_a_chip_hotter_than_the_table_is_seen(
    limit: str, raw: str, value: float | None, folder: Path, look_at: Look
) -> None:
    machine = machines.n150(folder)
    machine.set(0, temp1_max=limit, temp1_input=raw)
    assert look_at(machine).look()["chips"][0]["telemetry"]["temperature_c"] == value


def test_what_is_not_believed_is_quoted_and_cut(folder: Path, look_at: Look) -> None:
    machine = machines.n150(folder)
    machine.set(0, tt_aiclk=b"\x1b[2J\xff\0" + b"x" * 100)
    quoted = look_at(machine).look()["chips"][0]["telemetry"]["implausible"]
    assert quoted == {"aiclk_mhz": r"\x1b[2J\xff\x00" + "x" * 25}


def test_a_dead_chip(folder: Path, look_at: Look) -> None:
    well, dead = look_at(machines.dead_chip(folder)).look()["chips"]
    assert state(well) == "ok"
    assert (state(dead), dead["telemetry"]["age_s"], dead["telemetry"]["alive"]) == ("off the bus", None, None)
    assert set(values(dead).values()) == {None}
    assert dead["telemetry"]["implausible"]["power_w"] == "4293967296"
    assert dead["telemetry"]["implausible"]["aiclk_mhz"] == "4294967295"
    assert (dead["arch"], dead["pci"], dead["board"], dead["serial"], dead["asic_id"], dead["firmware"]) == (
        "wormhole_b0", "0000:02:00.0", None, None, None, {},
    )  # fmt: skip
    assert (dead["pcie"]["speed_gts"], dead["pcie"]["width"]) == (None, None)


def test_a_chip_that_dies_and_comes_back(folder: Path, look_at: Look) -> None:
    """Its identity stays known, its values do not. Not every driver scales a value of all ones."""
    machine = machines.n150(folder)
    telemetry = look_at(machine)
    before = telemetry.look()["chips"][0]
    numbers = [name for name in machines.FALLEN_OFF if name.endswith(("clk", "heartbeat", "_input", "_max"))]
    machine.set(0, **{**dict.fromkeys(numbers, machines.ALL_ONES), "tt_axiclk": 900, "tt_serial": "F" * 16})
    dead = telemetry.look()["chips"][0]
    assert state(dead) == "off the bus"
    assert set(values(dead).values()) == {None}
    assert (dead["serial"], dead["firmware"]) == (before["serial"], before["firmware"])
    machine.set(0, **{**machines.BOARDS["n150"], "tt_fw_bundle_ver": "19.0.0.0"})
    after = telemetry.look()["chips"][0]
    assert (state(after), values(after)) == ("ok", values(before))
    assert after["firmware"]["bundle"] == "19.0.0.0", "it may have got another firmware meanwhile"


def test_half_of_the_files_is_not_most(folder: Path, look_at: Look) -> None:
    machine = machines.n150(folder)
    machine.set(0, **dict.fromkeys(["in0_input", "tt_aiclk", "tt_axiclk", "tt_arcclk"], 4294967295))
    (chip,) = look_at(machine).look()["chips"]
    assert (state(chip), chip["telemetry"]["temperature_c"]) == ("ok", 51.187)
    assert len(chip["telemetry"]["implausible"]) == 4


def test_in_reset_and_back(folder: Path, look_at: Look, clock: Clock) -> None:
    machine = machines.in_reset(folder)
    telemetry = look_at(machine)
    with machines.failing_reads(machine):
        well, chip = telemetry.look()["chips"]
        assert (state(well), state(chip)) == ("ok", "in reset")
        assert (chip["telemetry"]["age_s"], set(values(chip).values()), chip["serial"]) == (None, {None}, None)
        assert (chip["arch"], chip["pcie"]["width"]) == ("wormhole_b0", 16)
        machine.fail(1, None)
        before = telemetry.look()["chips"][1]
        assert (state(before), before["serial"]) == ("ok", "0100018511703013")
        machine.fail(1, errno.ENODATA)
        clock.now += 2.5
        during = telemetry.look()["chips"][1]
        assert (state(during), during["telemetry"]["age_s"], values(during)) == ("in reset", 2.5, values(before))
        assert (during["serial"], during["telemetry"]["alive"]) == (before["serial"], None)
        machine.fail(1, None)
        machine.set(1, tt_fw_bundle_ver="19.1.0.0", tt_heartbeat=1)
        after = telemetry.look()["chips"][1]
        assert (state(after), after["telemetry"]["age_s"], after["firmware"]["bundle"]) == ("ok", 0.0, "19.1.0.0")
        assert after["telemetry"]["alive"] is None, "a heart that was stopped and started has not beaten yet"


def test_a_value_that_the_firmware_no_longer_has_is_no_reset(folder: Path, look_at: Look) -> None:
    machine = machines.n150(folder)
    machine.failing[str(machine.file(0, "tt_arcclk"))] = errno.ENODATA
    machine.failing[str(machine.file(0, "in0_input"))] = errno.EIO
    with machines.failing_reads(machine):
        (chip,) = look_at(machine).look()["chips"]
    assert (state(chip), chip["telemetry"]["arcclk_mhz"], chip["telemetry"]["voltage_mv"]) == ("ok", None, None)
    assert chip["telemetry"]["temperature_c"] == 51.187


@pytest.mark.parametrize("error", [errno.ENODEV, errno.ESTALE])
def test_descriptors_of_files_that_were_taken_away_are_opened_anew(error: int, folder: Path, look_at: Look) -> None:
    """The kernel creates new files after a rescan; the old descriptors fail forever."""
    machine = machines.n150(folder)
    telemetry = look_at(machine)
    telemetry.look()
    stale = {f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")}
    hwmon = machine.file(0, "temp1_input").parent
    renamed = hwmon.with_name("hwmon7")
    machine.failing.update((f"{path} (deleted)", error) for path in hwmon.glob("*_*"))
    shutil.copytree(hwmon, renamed, symlinks=True)
    shutil.rmtree(hwmon)
    (renamed / "temp1_input").write_text("44000\n")
    with machines.failing_reads(machine):
        (chip,) = telemetry.look()["chips"]
    assert (state(chip), chip["telemetry"]["temperature_c"]) == ("ok", 44.0)
    assert len(os.listdir("/proc/self/fd")) == len(stale)


def test_a_chip_that_is_still_listed_but_gone(folder: Path, look_at: Look, clock: Clock) -> None:
    machine = machines.n150(folder)
    telemetry = look_at(machine)
    before = telemetry.look()["chips"][0]
    clock.now += 4
    machine.fail(0, errno.ENODEV)
    with machines.failing_reads(machine):
        chip = telemetry.look()["chips"][0]
    assert (state(chip), chip["telemetry"]["age_s"], values(chip)) == ("gone", 4.0, values(before))
    assert chip["serial"] == before["serial"]


def test_vanishing_and_coming_back(folder: Path, look_at: Look, clock: Clock) -> None:
    machine = machines.t3k(folder)
    telemetry = look_at(machine)
    before = telemetry.look()["chips"][2]
    machine.remove(2)
    clock.now += 3
    found = telemetry.look()
    assert [state(chip) for chip in found["chips"]] == ["ok", "ok", "gone", "ok"]
    gone = found["chips"][2]
    assert (gone["telemetry"]["age_s"], values(gone), gone["serial"]) == (3.0, values(before), before["serial"])
    machine.chip(2, "n300", tt_serial="0100014511709999", temp1_input=30000)
    back = telemetry.look()["chips"][2]
    assert (state(back), back["telemetry"]["age_s"], back["telemetry"]["temperature_c"]) == ("ok", 0.0, 30.0)
    assert back["serial"] == "0100014511709999"


def test_a_chip_that_vanishes_while_it_is_looked_up(folder: Path, look_at: Look) -> None:
    """It is listed again, but its folder does not exist: its identity stays known."""
    machine = machines.n150(folder)
    telemetry = look_at(machine)
    before = telemetry.look()["chips"][0]
    machine.remove(0)
    telemetry.look()
    (folder / "sys/class/tenstorrent/tenstorrent!0").symlink_to("nowhere")
    (chip,) = telemetry.look()["chips"]
    assert state(chip) == "gone"
    assert (chip["serial"], chip["arch"], chip["pcie"]) == (before["serial"], before["arch"], before["pcie"])


def test_a_chip_exchanged_between_two_looks(folder: Path, look_at: Look) -> None:
    """The number is the same, and no sample saw it missing; kept descriptors would still read the old files here."""
    machine = machines.n150(folder)
    telemetry = look_at(machine)
    telemetry.look()
    (folder / "sys/devices/pci0000:00/0000:01:00.0").rename(folder / "attic")
    (folder / "sys/class/tenstorrent/tenstorrent!0").unlink()
    (folder / "sys/class/hwmon/hwmon0").unlink()
    machine.chip(0, "p150a", tt_aiclk=555)
    (chip,) = telemetry.look()["chips"]
    assert (state(chip), chip["board"], chip["telemetry"]["aiclk_mhz"]) == ("ok", "p150a", 555)


def test_a_chip_exchanged_for_one_that_says_nothing(folder: Path, look_at: Look) -> None:
    """It has neither the address nor the temperature of the previous one."""
    machine = machines.n150(folder)
    telemetry = look_at(machine)
    telemetry.look()
    (folder / "sys/devices/pci0000:00/0000:01:00.0").rename(folder / "attic")
    (folder / "sys/class/tenstorrent/tenstorrent!0").unlink()
    (folder / "sys/class/hwmon/hwmon0").unlink()
    machine.chip(0, "p150a", pci="0000:07:00.0")
    machine.fail(0, errno.ENODATA)
    with machines.failing_reads(machine):
        (chip,) = telemetry.look()["chips"]
    assert (state(chip), chip["pci"], chip["arch"]) == ("in reset", "0000:07:00.0", "blackhole")
    assert (chip["telemetry"]["temperature_c"], chip["telemetry"]["age_s"]) == (None, None)


def test_what_is_gone_for_long_is_forgotten(folder: Path, look_at: Look, clock: Clock) -> None:
    machine = machines.t3k(folder)
    telemetry = look_at(machine)
    telemetry.look()
    machine.remove(1)
    clock.now += FORGET_SECONDS
    assert len(telemetry.look()["chips"]) == 4
    clock.now += 1
    assert [chip["kmd"] for chip in telemetry.look()["chips"]] == [0, 2, 3]


def test_a_driver_that_is_unloaded_while_we_look(folder: Path, look_at: Look) -> None:
    machine = machines.n150(folder)
    telemetry = look_at(machine)
    telemetry.look()
    machine.remove(0)
    shutil.rmtree(folder / "sys/module/tenstorrent")
    (folder / "sys/class/tenstorrent").rmdir()
    found = telemetry.look()
    assert (found["state"], found["driver"], [state(chip) for chip in found["chips"]]) == (
        "absent", {"version": None, "loaded": False}, ["gone"],
    )  # fmt: skip


def test_the_heartbeat(folder: Path, look_at: Look, clock: Clock) -> None:
    machine = machines.n150(folder)
    telemetry = look_at(machine)
    seen = []
    half = STILL_SECONDS / 2
    for passed, heartbeat in [(0, 1), (half, 1), (half / 2, 2), (half, 2), (half, 2), (1, 2), (1, 3), (60, 3), (60, 9)]:
        clock.now += passed
        machine.set(0, tt_heartbeat=heartbeat)
        seen.append(telemetry.look()["chips"][0]["telemetry"]["alive"])
    assert seen == [None, None, True, True, False, False, True, False, True]


@pytest.mark.alone
def test_a_chip_that_hangs_hurts_no_other(folder: Path, look_at: Look, clock: Clock) -> None:
    """A real read that does not return, on one of 32 chips, from the second sample on."""
    machine = machines.galaxy(folder)
    telemetry = look_at(machine, patience=1.0)
    before = telemetry.look()["chips"]
    assert {state(chip) for chip in before} == {"ok"}
    pci = before[7]["pci"]
    machine.remove(7)
    machine.chip(7, "galaxy-wormhole", pci=pci)
    pipe = machine.hang(7, "temp1_input")
    machine.set(3, temp1_input=44444)
    clock.now += 5
    began = time.monotonic()
    chips = telemetry.look()["chips"]
    took = time.monotonic() - began
    assert 1.0 <= took < 31 * 1.0, "the others were not kept waiting one after another"
    assert [chip["kmd"] for chip in chips if state(chip) != "ok"] == [7]
    assert chips[3]["telemetry"]["temperature_c"] == 44.444
    assert {chip["telemetry"]["age_s"] for chip in chips if chip["kmd"] != 7} == {0.0}
    stuck = chips[7]
    assert (state(stuck), stuck["telemetry"]["age_s"], values(stuck)) == ("hangs", 5.0, values(before[7]))
    assert stuck["serial"] == before[7]["serial"]
    clock.now += 1
    telemetry._rounds.patience = 60.0
    began = time.monotonic()
    assert telemetry.look()["chips"][7]["telemetry"]["age_s"] == 6.0
    assert time.monotonic() - began < 60.0, "what is known to hang is not waited for"
    with pipe.open("wb"):  # the read returns
        wait_until(lambda: state(telemetry.look()["chips"][7]) == "ok", "the answer")
    machine.remove(7)
    machine.chip(7, "galaxy-wormhole", pci=pci)
    assert values(telemetry.look()["chips"][7]) == values(before[7])


def test_a_chip_that_hangs_from_the_first_look_on(folder: Path, look_at: Look) -> None:
    machine = machines.n150(folder)
    pipe = machine.hang(0, "tt_heartbeat")
    machine.chip(1)
    stuck, well = look_at(machine, patience=1.0).look()["chips"]
    assert (state(stuck), stuck["telemetry"]["age_s"], set(values(stuck).values())) == ("hangs", None, {None})
    assert (stuck["pci"], stuck["arch"], stuck["board"]) == ("0000:01:00.0", "wormhole_b0", None), "which one it is"
    assert state(well) == "ok"
    with pipe.open("wb"):
        pass


def test_descriptors_do_not_pile_up(folder: Path, look_at: Look) -> None:
    """A hundred samples of chips that vanish, return and are exchanged, with and without a sample in between."""
    machine = machines.t3k(folder)
    before = sorted(os.listdir("/proc/self/fd"))
    telemetry = look_at(machine)
    classes, attic = folder / "sys/class/tenstorrent", folder / "attic"
    attic.mkdir()
    counts = set()
    for turn in range(50):
        entry = f"tenstorrent!{turn % 4}"
        (classes / entry).rename(attic / entry)
        if turn % 2:
            assert state(telemetry.look()["chips"][turn % 4]) == "gone"
        (attic / entry).rename(classes / entry)
        if turn % 10 == 0:
            machine.remove(turn % 4)
            machine.chip(turn % 4, "n300")
        assert {state(chip) for chip in telemetry.look()["chips"]} == {"ok"}
        counts.add(len(os.listdir("/proc/self/fd")))
    there = [name for name in machines.BOARDS["n300"] if name.endswith(("_input", "_max", "clk", "heartbeat"))]
    assert counts == {len(before) + 4 * (len(there) + 2)}, (
        "every value and the two files of the link, once for each chip"
    )
    telemetry.close()
    assert sorted(os.listdir("/proc/self/fd")) == before
    assert {state(chip) for chip in telemetry.look()["chips"]} == {"ok"}, "and a look after closing opens them again"


def test_descriptors_of_a_chip_that_hangs_are_closed_when_it_answers(folder: Path, look_at: Look) -> None:
    machine = machines.n150(folder)
    before = sorted(os.listdir("/proc/self/fd"))
    pipe = machine.hang(0, "tt_heartbeat")
    telemetry = look_at(machine, patience=0.2)
    assert state(telemetry.look()["chips"][0]) == "hangs"
    telemetry.close()
    assert sorted(os.listdir("/proc/self/fd")) != before
    with pipe.open("wb"):
        pass
    wait_until(lambda: sorted(os.listdir("/proc/self/fd")) == before, "the end of the read")


BOUNDS = {
    "temperature_c": (-50, 125 * 1.25), "temperature_max_c": (1, 125), "power_w": (1, 1250), "power_max_w": (1, 1000),
    "current_a": (1, 1250), "current_max_a": (1, 1000), "voltage_mv": (1, 1875), "voltage_max_mv": (1, 1500),
    "aiclk_mhz": (1, 1500), "axiclk_mhz": (1, 1500), "arcclk_mhz": (1, 1500), "fan_rpm": (0, 19999),
    "heartbeat": (0, 2**32 - 2), "therm_trips": (0, 65534),
}  # fmt: skip
LIMITS = {"temperature_c": 100, "power_w": 300, "current_a": 350, "voltage_mv": 900}
FILES = sorted({*machines.BOARDS["p150a"], *machines.BOARDS["n150"], "tt_card_type", "tt_asic_id"})
GARBAGE = st.one_of(
    st.binary(max_size=60),
    st.integers(-(2**70), 2**70).map(lambda number: f"{number}\n".encode()),
    st.integers(0, 400).map(lambda number: f"{number}000\n".encode()),
    st.integers(0, 1500).map(lambda number: f"{number}000000\n".encode()),
    st.sampled_from([b"", b"\n", b"nan", b"-inf", b"1e3", b"0x10", b"65535\n", b"4294967295\n", b"9" * 5000]),
)


@pytest.fixture(scope="module")
def garbage_machine() -> Iterator[machines.Machine]:
    """One for all examples, which reset it: creating one takes longer than reading it."""
    with tempfile.TemporaryDirectory(prefix="ttmem-") as name:
        yield machines.p150(Path(name))


@settings(max_examples=200)
@given(turns=st.lists(st.dictionaries(st.sampled_from(FILES), GARBAGE), min_size=1, max_size=3))
def test_garbage(garbage_machine: machines.Machine, turns: list[dict[str, bytes]]) -> None:
    """For any content of the files: no exception, no impossible number, no control characters, and valid JSON."""
    machine = garbage_machine
    normal = {name: machines.BOARDS["p150a"].get(name) for files in turns for name in files}
    with contextlib.ExitStack() as stack:
        stack.callback(machine.set, 0, **normal)
        telemetry = stack.enter_context(contextlib.closing(Telemetry(str(machine.root), patience=60)))
        for files in turns:
            machine.set(0, **files)
            found = telemetry.look()
            assert json.dumps(found, allow_nan=False, ensure_ascii=False).isprintable()
            (chip,) = found["chips"]
            shown: Any = chip["telemetry"]
            assert state(chip) in ("ok", "off the bus")
            for key, (low, high) in BOUNDS.items():
                value = shown[key]
                if value is None:
                    continue
                assert low <= value <= high
                assert key not in shown["implausible"]
                if key in LIMITS:
                    assert value <= max(LIMITS[key], 1.25 * (shown[key.replace("_", "_max_")] or 0))
            assert all(len(text) <= 40 for text in shown["implausible"].values())
            assert chip["arch"] in (None, "wormhole_b0", "blackhole", "grayskull")
            assert chip["pcie"]["width"] in (None, 1, 2, 4, 8, 12, 16, 32)


AUDITED = """
import sys
opened = []
sys.addaudithook(lambda event, args: opened.append((event, str(args[0]))) if event in ("open", "os.listdir") else None)
from ttmem.model.machine_rows import DriverChip
from ttmem.sources.telemetry import Telemetry
telemetry = Telemetry(sys.argv[1])
for _ in range(3):
    states = [chip["telemetry"]["state"] for chip in telemetry.look()["chips"]]
telemetry.close()
print(states)
print(*(f"{event} {path}" for event, path in opened if path.startswith(sys.argv[1])), sep="\\n")
"""


def test_no_device_is_ever_opened(folder: Path) -> None:
    machines.dead_chip(folder)
    done = subprocess.run(
        [sys.executable, "-c", AUDITED, str(folder)], capture_output=True, text=True, cwd=ROOT, check=True
    )
    states, *opened = done.stdout.splitlines()
    assert states == "['ok', 'off the bus']"
    assert any("tt_heartbeat" in line for line in opened), "the hook sees what is opened"
    assert all(line.split(" ", 1)[1].startswith(f"{folder}/sys/") for line in opened)


def test_as_an_ordinary_user(folder: Path) -> None:
    """All users may read these files."""
    if os.geteuid() != 0:
        pytest.skip("as an ordinary user all other tests show this")
    machines.t3k(folder)
    folder.chmod(0o755)
    program = f"""
import fcntl, os  # now: the interpreter's own files need not be that user's to read
from ttmem.model.machine_rows import DriverChip
from ttmem.sources.telemetry import Telemetry
os.setgroups([]); os.setgid(65534); os.setuid(65534)
print([chip["telemetry"]["state"] for chip in Telemetry({str(folder)!r}).look()["chips"]])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "['ok', 'ok', 'ok', 'ok']\n"

# SPDX-License-Identifier: Apache-2.0
"""The reader of tt-umd in its child process: the real library without chips, a replacement with all kinds of them.

The tests need no chip. They use the types and the cluster descriptor of the real library; devices and errors are
simulated.
"""

from __future__ import annotations

import functools
import json
import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.mock.boards import descriptor
from tests.mock.wheel import ROOT, _locked, _run
from tests.snapshots import driver_chip, holder, machine
from tests.support import PATIENCE, not_none, wait_until
from ttmem.model.machine_rows import UmdLook
from ttmem.model.schema import Telemetry
from ttmem.sources import umd, umd_reader

Json = dict[str, Any]
VERSIONS = ("0.9.12", "0.9.14")  # the version that tt-smi pins, and the newest
FIRST, SECOND, THIRD = "0000:01:00.0", "0000:02:00.0", "0000:03:00.0"


# -- the real library


@functools.cache
def library(version: str) -> str:
    """An interpreter that can import the real tt-umd. It is installed on first use."""
    folder = ROOT / ".cache" / "umd" / f"{version}-py{sys.version_info[0]}.{sys.version_info[1]}"
    python = folder / "bin" / "python"
    with _locked(folder.with_name(f"{folder.name}.lock")):
        if not (folder / ".complete").exists():
            _run([sys.executable, "-m", "venv", "--clear", str(folder)])
            quiet = ["--quiet", "--disable-pip-version-check", "--no-input"]
            _run([str(python), "-m", "pip", "install", *quiet, f"tt-umd=={version}"])
            (folder / ".complete").touch()
    return str(python)


def real(version: str, code: str, **values: object) -> Any:
    """The output of the code, as JSON, with the real library."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("TT_", "PYTHON"))}
    prelude = "import json, sys\nfrom ttmem.sources import umd, umd_reader\nargs = json.loads(sys.argv[1])\n"
    done = subprocess.run(
        [library(version), "-c", prelude + code, json.dumps(values)],
        env={**environment, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_real_library_without_chips(version: str) -> None:
    read = "print(json.dumps(umd.read(args['chips'], [], timeout=60)))"
    nothing = real(version, read, chips=[])
    assert nothing == {
        "state": "ok", "why": "the driver shows no chip to read", "warning": umd.WARNING, "chips": []
    }  # fmt: skip
    one = real(version, read, chips=[driver_chip(0, "n300")])
    assert (one["state"], one["chips"]) == ("failed", [])
    assert one["why"] == f"{FIRST}: tt-umd finds no such chip"


@pytest.mark.parametrize("version", VERSIONS)
def test_the_real_library_has_what_is_called(version: str) -> None:
    called = {
        "FirmwareInfoProvider": [
            *umd_reader.GETTERS.values(), "get_fan_speeds", "get_fan_rpms", "get_dram_training_status",
            "get_firmware_version",
        ],
        "FirmwareTelemetryReader": ["is_entry_available", "read_entry"],
        "TTDevice": ["get_arch", "get_firmware_info_provider", "get_firmware_telemetry_reader"],
    }  # fmt: skip
    code = """
import tt_umd
named = [(kind, name) for kind, names in args["called"].items() for name in names]
lacks = [f"{kind}.{name}" for kind, name in named if not hasattr(getattr(tt_umd, kind), name)]
tags = {name: int(getattr(tt_umd.TelemetryTag, name)) for name in args["tags"]}
legacy = int(tt_umd.wormhole.TelemetryTag.ASIC_TEMPERATURE)
print(json.dumps([lacks, tags, legacy, hasattr(tt_umd.FirmwareInfoProvider, "get_asic_temperature")]))
"""
    names = ("VDD_LIMITS", "ASIC_TEMPERATURE", "ENABLED_GDDR", "TDC_LIMIT_MAX")
    lacks, tags, legacy, bound = real(version, code, called=called, tags=names)
    assert lacks == []
    assert tags == {name: getattr(umd_reader, name) for name in names}
    assert legacy == umd_reader.LEGACY_ASIC_TEMPERATURE
    assert not bound, "then it need not be read by its tag any more"


# The library's own options, cluster descriptor, enumerations and versions; only the devices are simulated.
MADE_UP_DEVICES = """
import os, tt_umd
class Tags:
    def is_entry_available(self, tag): return tag == 11
    def read_entry(self, tag): return 0x00338000
class Firmware:
    def __getattr__(self, name): return lambda: None
    def get_firmware_version(self): return tt_umd.FirmwareBundleVersion(18, 10, 0)
    def get_fan_speeds(self): return [None, None]
    get_fan_rpms = get_fan_speeds
    def get_dram_training_status(self, channels): return [tt_umd.DramTrainingStatus.SUCCESS] * channels
class Device:
    def get_arch(self): return tt_umd.ARCH.WORMHOLE_B0
    def get_firmware_info_provider(self): return Firmware()
    def get_firmware_telemetry_reader(self): return Tags()
class Discovery:
    @staticmethod
    def discover(options):
        assert isinstance(options, RealOptions), options
        found = tt_umd.ClusterDescriptor.create_from_yaml_content(args["yaml"])
        return found, {chip: Device() for chip in sorted(found.get_all_chips())}
RealOptions = tt_umd.TopologyDiscoveryOptions
tt_umd.TopologyDiscovery = Discovery
sys.argv = ["", json.dumps({"local": [], "behind": ["0000:01:00.0"], "answer": 1, "seconds": 60})]
lines = []
umd_reader._say = lambda answer, what: lines.append(what)
umd_reader.main()
print(json.dumps(lines))
"""


@pytest.mark.parametrize("version", VERSIONS)
def test_the_real_librarys_own_types(version: str) -> None:
    large = (1 << 64) - 3  # a unique id has 64 bits
    said, end = real(version, MADE_UP_DEVICES, yaml=descriptor("n300", {0: 4242, 1: large}))
    assert end == {"end": True}
    chip = said["chip"]
    assert (chip["chip"], chip["remote"], chip["unique_id"]) == (1, True, large)
    assert (chip["arch"], chip["board"], chip["bundle"]) == ("wormhole_b0", "n300", [18, 10, 0])
    assert (chip["values"]["temperature_c"], chip["values"]["dram_status"]) == (51.5, "trained")


# -- a stand-in


def chip(**more: Any) -> Json:
    return {"arch": "wormhole_b0", "board": "n150", "board_id": 0x100018511703012, "unique_id": 4242,
            "bundle": [18, 10, 0], "tags": {}, "getters": {}, **more}  # fmt: skip


def fixed_point(degrees: float) -> int:
    """Signed 16.16, as the firmware has it."""
    return int(struct.unpack("<I", struct.pack("<i", round(degrees * 65536)))[0])


class Bench:
    def __init__(self, folder: Path) -> None:
        self.log = folder / "opened"
        self.file = folder / "machine.json"

    def has(self, **chips: Json) -> None:
        places = {"first": FIRST, "second": SECOND, "third": THIRD}
        laid_out = {"log": str(self.log), "chips": {places[name]: chip for name, chip in chips.items()}}
        self.file.write_text(json.dumps(laid_out))

    def opened(self) -> list[list[str]]:
        """[pid, PCI address, "local" or "remote"] of every opened chip."""
        return [line.split() for line in self.log.read_text().splitlines()] if self.log.exists() else []


@pytest.fixture
def bench(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    bench = Bench(folder)
    monkeypatch.setenv("UMD_STAND_IN", str(bench.file))
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}/tests/programs/umd:{ROOT}/src")
    monkeypatch.setenv("TT_VISIBLE_DEVICES", "7")  # a user's own setting is for their job
    return bench


def by_pci(said: UmdLook) -> dict[str | None, Telemetry]:
    return {chip["pci"]: chip["telemetry"] for chip in said["chips"]}


def test_values_of_both_architectures(bench: Bench) -> None:
    blackhole = chip(
        arch="blackhole", board="p150", bundle=[19, 8, 0], dram=["SUCCESS"] * 7 + ["IN_PROGRESS"],
        tags={"11": fixed_point(58.4375), "9": 900 << 16 | 700, "54": 410, "55": 300, "36": 0x7F},
        getters={"get_tdp": 37, "get_tdp_limit": 300, "get_tdc": 48, "get_vcore": 764, "get_aiclk": 1350,
                 "get_thm_limit_throttle": 90.0, "get_dram_speed": 16000, "get_current_max_dram_temperature": 66.0,
                 "get_board_temperature": 41.5, "get_board_power_limit": 450, "get_fan_rpms": 2100,
                 "get_fan_speeds": 35, "get_therm_trip_count": 0, "get_heartbeat": 98765},
    )  # fmt: skip
    bench.has(first=blackhole, second=chip(tags={"11": fixed_point(-3.25)}, dram=["SUCCESS", "FAIL"] * 3))
    said = umd.read([driver_chip(0, "p150a", arch="blackhole"), driver_chip(1)], [], timeout=PATIENCE)
    assert (said["state"], said["why"]) == ("ok", None)
    first, second = said["chips"]
    assert (first["kmd"], first["pci"], first["unique_id"], first["remote"]) == (0, FIRST, "4242", False)
    assert (first["serial"], first["firmware"]) == ("0100018511703012", {"bundle": "19.8.0"})
    known = {name: value for name, value in first["telemetry"].items() if value is not None}
    assert known.pop("temperature_c") == pytest.approx(58.4375, abs=0.001)
    assert known == {
        "temperature_max_c": 90.0, "power_w": 37.0, "power_max_w": 300.0, "current_a": 48.0, "current_max_a": 300.0,
        "voltage_mv": 764, "voltage_max_mv": 900, "aiclk_mhz": 1350, "fan_rpm": 2100, "fan_percent": 35,
        "heartbeat": 98765, "therm_trips": 0, "board_temperature_c": 41.5, "dram_temperature_c": 66.0,
        "dram_speed": 16000, "dram_status": "trained", "board_power_w": 410.0, "board_power_max_w": 450.0,
        "state": "ok", "age_s": 0.0, "implausible": {},
    }  # fmt: skip
    assert (second["telemetry"]["temperature_c"], second["telemetry"]["dram_status"]) == (-3.25, "failed")


def test_old_wormhole_firmware_has_other_tags(bench: Bench) -> None:
    old = chip(bundle=[18, 3, 0], tags={"29": 0x12340000 | 817, "11": 7}, getters={"get_board_temperature": 30.0})
    bench.has(first=old)
    telemetry = by_pci(umd.read([driver_chip(0)], [], timeout=PATIENCE))[FIRST]
    assert telemetry["temperature_c"] == pytest.approx(817 / 16, abs=0.001)
    assert telemetry["board_temperature_c"] is None, "three bytes there, which tt-umd takes for one number"
    bench.has(first=chip(bundle=[18, 4, 0], tags={"29": 1, "11": fixed_point(44)}))
    assert by_pci(umd.read([driver_chip(0)], [], timeout=PATIENCE))[FIRST]["temperature_c"] == 44


def test_a_chip_behind_another(bench: Bench) -> None:
    behind = chip(board="n300", unique_id=99, tags={"11": fixed_point(47.5)})
    bench.has(first=chip(board="n300", behind=behind))
    before = machine(driver_chip(0, "n300"))
    said = umd.read(before["chips"], before["processes"], timeout=PATIENCE)
    assert [(one["unique_id"], one["remote"], one["chip"]) for one in said["chips"]] == [
        ("4242", False, None),
        ("99", True, 1),
    ]
    local, remote = umd.enrich(before, said)["chips"]
    assert (local["unique_id"], remote["unique_id"], remote["telemetry"]["temperature_c"]) == ("4242", "99", 47.5)


def test_only_what_nobody_holds_is_opened(bench: Bench) -> None:
    bench.has(first=chip(board="n300", behind=chip()), second=chip(), third=chip())
    chips = [driver_chip(0, "n300"), driver_chip(1), driver_chip(2)]
    said = umd.read(chips, [holder(7, 1)], foreign={2: 1}, timeout=PATIENCE)
    assert [one["pci"] for one in said["chips"]] == [FIRST]
    assert [opened[1:] for opened in bench.opened()] == [[FIRST, "local"]]
    said = umd.read(chips, [holder(7, 1)], foreign={2: 1}, anyway=True, timeout=PATIENCE)
    assert [one["pci"] for one in said["chips"]] == [FIRST, SECOND, THIRD, None]


def test_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    said = umd.read([driver_chip(0)], [], timeout=PATIENCE)
    assert (said["state"], said["chips"]) == ("absent", [])
    assert "pip install 'ttmem[umd]'" in not_none(said["why"])


def test_the_current_folder_is_no_place_for_libraries(
    bench: Bench, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "tt_umd.py").write_text("import os; os._exit(9)")
    monkeypatch.chdir(folder)
    monkeypatch.delenv("PYTHONPATH")
    assert umd.read([driver_chip(0)], [], timeout=PATIENCE)["state"] == "absent"


def test_a_library_that_cannot_be_loaded(bench: Bench) -> None:
    bench.file.write_text("no JSON")
    said = umd.read([driver_chip(0)], [], timeout=PATIENCE)
    assert said["state"] == "failed"
    assert not_none(said["why"]).startswith("tt-umd cannot be imported: ")


@pytest.mark.parametrize(
    ("trouble", "expected"),
    [("raise", f"{SECOND}: Timed out"), ("unhealthy", f"{SECOND}: the firmware did not start")],
)
def test_one_chip_in_trouble_does_not_keep_us_from_the_others(bench: Bench, trouble: str, expected: str) -> None:
    warm = {"11": fixed_point(50)}
    bench.has(first=chip(tags=warm), second=chip(trouble=trouble), third=chip(tags=warm))
    said = umd.read([driver_chip(0), driver_chip(1), driver_chip(2)], [], timeout=PATIENCE)
    assert (said["state"], said["why"]) == ("ok", expected)
    assert {pci: telemetry["temperature_c"] for pci, telemetry in by_pci(said).items()} == {FIRST: 50, THIRD: 50}


@pytest.mark.parametrize(
    ("trouble", "ending"),
    [
        ("abort", "was ended by SIGABRT; its last output: terminate called after throwing an instance of 'X'"),
        ("exit", "ended with exit code 3; its last output: "),
    ],
)
def test_a_crash_hurts_nobody_and_what_was_read_stays(bench: Bench, trouble: str, ending: str) -> None:
    bench.has(first=chip(tags={"11": fixed_point(50)}), second=chip(trouble=trouble))
    said = umd.read([driver_chip(0), driver_chip(1)], [], timeout=PATIENCE)
    assert said["state"] == "failed"
    assert not_none(said["why"]).startswith(f"the reader {ending}")
    assert not_none(said["why"]).isprintable()
    assert by_pci(said)[FIRST]["temperature_c"] == 50


def gone(pid: int) -> Callable[[], bool]:
    def is_gone() -> bool:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        return False

    return is_gone


def test_a_hang_is_ended_and_what_was_read_stays(bench: Bench) -> None:
    bench.has(first=chip(tags={"11": fixed_point(50)}), second=chip(trouble="hang"))
    for seconds in (3, 10, 60):  # a busy machine may need the first ones to start the reader
        began = time.monotonic()
        said = umd.read([driver_chip(0), driver_chip(1)], [], timeout=seconds)
        assert seconds <= time.monotonic() - began < seconds + PATIENCE
        assert said["state"] == "failed"
        assert not_none(said["why"]).startswith(f"the reader did not answer within {seconds} s and was ended")
        if said["chips"]:
            break
    assert by_pci(said)[FIRST]["temperature_c"] == 50
    assert gone(int(bench.opened()[-1][0]))(), "the chip is no longer open"


def test_the_reader_does_not_outlive_whoever_is_killed(bench: Bench) -> None:
    bench.has(first=chip(trouble="hang"))
    code = "import json, sys\nfrom ttmem.sources import umd\numd.read([json.loads(sys.argv[1])], [], timeout=10)"
    asking = subprocess.Popen([sys.executable, "-c", code, json.dumps(driver_chip(0))])
    try:
        wait_until(bench.opened, "the opening")
        reader = int(bench.opened()[0][0])
    finally:
        asking.send_signal(signal.SIGKILL)
        asking.wait(PATIENCE)
    wait_until(gone(reader), "the reader's end")

# SPDX-License-Identifier: Apache-2.0
"""The data that tt-umd adds, and when it is not called. The reader itself is tested in tests/integration."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.snapshots import driver_chip, holder, machine
from tests.support import not_none
from ttmem.model.machine_rows import UmdChip, UmdLook
from ttmem.sources import umd
from ttmem.sources.umd_reader import dram_status

Json = dict[str, Any]
FIRST, SECOND = "0000:01:00.0", "0000:02:00.0"


def answer(*chips: UmdChip, state: str = "ok", why: str | None = None) -> UmdLook:
    return {"state": state, "why": why, "warning": umd.WARNING, "chips": list(chips)}


def read_chip(pci: str | None, unique_id: str | None = "77", **values: Any) -> UmdChip:
    """A chip as returned by the reader, decoded in the same way."""
    row = {"arch": "wormhole_b0", "board": "n300", "serial": 0xAB00, "unique_id": int(unique_id or 0),
           "bundle": [18, 10, 0], "values": values, "pci": pci, "remote": pci is None}  # fmt: skip
    lines = [json.dumps({"chip": row}).encode(), b'{"end": true}']
    (chip,) = umd._conclude(lines, None, [], {FIRST: 0, SECOND: 1})["chips"]
    return chip


# -- when not to open


def test_no_chip_is_opened_that_somebody_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(umd, "_run", None)  # starting the reader is an error
    chips = [driver_chip(0), driver_chip(1)]
    said = umd.read(chips, [holder(7, 0), holder(8, 1)])
    assert (said["state"], said["chips"]) == ("refused", [])
    assert "held" in not_none(said["why"])
    assert "slower or hung" in said["warning"]
    assert umd.read(chips, [holder(7, 0)], foreign={1: 1})["state"] == "refused", "held from outside our namespace"
    through_json: Any = {"1": 2}
    assert umd.read(chips, [holder(7, 0)], foreign=through_json)["state"] == "refused", "the same, through JSON"
    unsure = umd.read(chips, [], sure=False)
    assert unsure["state"] == "refused"
    assert "as root" in not_none(unsure["why"])


def asked_for(monkeypatch: pytest.MonkeyPatch, *arguments: Any, **keywords: Any) -> tuple[Json, UmdLook]:
    tasks: list[Json] = []

    def run(task: Json, timeout: float) -> tuple[list[bytes], str | None]:
        tasks.append(task)
        return [b'{"end": true}'], None

    monkeypatch.setattr(umd, "_run", run)
    said = umd.read(*arguments, **keywords)
    (task,) = tasks
    return task, said


def test_chips_behind_others_only_if_nobody_holds_any(monkeypatch: pytest.MonkeyPatch) -> None:
    chips = [driver_chip(0, "n300"), driver_chip(1, "n300")]
    assert asked_for(monkeypatch, chips, [])[0] == {"local": [FIRST, SECOND], "behind": [FIRST, SECOND]}
    task, said = asked_for(monkeypatch, chips, [holder(7, 1)])
    assert task == {"local": [FIRST], "behind": []}
    assert said["why"] == (
        "not read, because a process holds them: 1 of 2 chips; "
        "not read, because a process holds another chip: remote chips"
    )
    anyway = asked_for(monkeypatch, chips, [holder(7, 1)], anyway=True, sure=False)
    assert anyway[0] == {"local": [FIRST, SECOND], "behind": [FIRST, SECOND]}
    assert anyway[1]["why"] is None


def test_only_an_n300_is_searched_for_chips_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    chips = [driver_chip(0), driver_chip(1, "galaxy-wormhole"), driver_chip(2, "p150a", arch="blackhole")]
    assert asked_for(monkeypatch, chips, [])[0]["behind"] == []


@pytest.mark.parametrize("state", ["in reset", "off the bus", "gone", "hangs"])
def test_a_chip_in_trouble_is_left_alone(monkeypatch: pytest.MonkeyPatch, state: str) -> None:
    ill = driver_chip(1)
    ill["telemetry"]["state"] = state
    task, said = asked_for(monkeypatch, [driver_chip(0), ill], [], anyway=True)
    assert task["local"] == [FIRST]
    assert "problems with them: 1 of 2" in not_none(said["why"])


def test_the_library_is_never_loaded_here() -> None:
    code = "from ttmem.sources import umd; umd.read([], [], timeout=20); import sys; print('tt_umd' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


# -- what is believed


def test_values_are_believed_within_the_drivers_limits() -> None:
    telemetry: Any = read_chip(
        FIRST, temperature_c=51.1875, temperature_max_c=75.0, power_w=0xFFFFFFFF, voltage_mv=65535, fan_percent=101,
        board_temperature_c=38.5, dram_temperature_c=255.0, dram_speed=16000, board_power_w=320, aiclk_mhz=1000,
        dram_status="trained", heartbeat=None, arcclk_mhz=float("nan"), unheard_of=3,
    )["telemetry"]  # fmt: skip
    believed = {name: telemetry[name] for name in telemetry if telemetry[name] is not None}
    assert believed.pop("temperature_c") == pytest.approx(51.1875, abs=0.001)
    assert believed == {
        "temperature_max_c": 75.0, "board_temperature_c": 38.5, "dram_speed": 16000, "board_power_w": 320.0,
        "aiclk_mhz": 1000, "dram_status": "trained", "state": "ok", "age_s": 0.0,
        "implausible": {"power_w": "4294967295", "voltage_mv": "65535", "fan_percent": "101",
                        "dram_temperature_c": "255.0", "arcclk_mhz": "nan"},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("states", "enabled", "expected"),
    [
        ([], 8, None),
        (["SUCCESS"] * 8, 8, "trained"),
        (["SUCCESS"] * 7 + ["IN_PROGRESS"], 7, "trained"),  # a p100a: one channel is switched off
        (["SUCCESS"] * 7 + ["IN_PROGRESS"], 8, "incomplete"),
        (["SUCCESS"] * 7 + ["FAIL"], 7, "failed"),
    ],
)
def test_dram_status(states: list[str], enabled: int, expected: str | None) -> None:
    assert dram_status(states, enabled) == expected


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from([
        "chip", "error", "end", "absent", "pci", "unique_id", "remote", "arch", "board", "serial", "bundle", "values",
        "power_w", "dram_status", "dram_speed"]), inner, max_size=8),
)  # fmt: skip


@given(st.lists(json_values.map(lambda value: json.dumps(value).encode()) | st.binary(max_size=20), max_size=4))
def test_no_answer_can_upset_us(lines: list[bytes]) -> None:
    said = umd._conclude(lines, None, [], {FIRST: 0})
    assert said["state"] in ("ok", "failed", "absent")
    assert all(c.isprintable() for c in said["why"] or "")
    umd.enrich(machine(driver_chip(0)), said)


# -- what is added


def test_the_drivers_values_stand_and_gaps_are_filled() -> None:
    chip = driver_chip(0)
    chip["telemetry"].update(power_w=None, implausible={"power_w": "4294967295000000"})
    before = machine(chip, driver_chip(1))
    kept = copy.deepcopy(before)
    said = answer(read_chip(FIRST, temperature_c=20.0, power_w=33, dram_temperature_c=64.0), why="a note")
    after = umd.enrich(before, said)
    assert before == kept, "it is pure"
    first, second = after["chips"]
    assert first["telemetry"]["temperature_c"] == kept["chips"][0]["telemetry"]["temperature_c"] != 20.0
    assert (first["telemetry"]["power_w"], first["telemetry"]["dram_temperature_c"]) == (33.0, 64.0)
    assert first["telemetry"]["implausible"] == {}
    assert first["unique_id"] == "77"
    assert second == kept["chips"][1]
    assert after["sources"] == [*kept["sources"], {"name": "umd", "state": "ok", "detail": "a note"}]
    assert {k: v for k, v in after.items() if k not in ("chips", "sources")} == {
        k: v for k, v in kept.items() if k not in ("chips", "sources")
    }


def test_an_old_driver_without_files() -> None:
    chip = driver_chip(0)
    chip["telemetry"] = {**dict.fromkeys(chip["telemetry"]), "state": "no files", "implausible": {}}
    (after,) = umd.enrich(machine(chip), answer(read_chip(FIRST, aiclk_mhz=500)))["chips"]
    assert (after["telemetry"]["aiclk_mhz"], after["telemetry"]["state"], after["telemetry"]["age_s"]) == (500, "ok", 0)


def test_old_values_of_a_chip_in_trouble_are_not_mixed_with_new_ones() -> None:
    chip = driver_chip(0)
    chip["telemetry"].update(state="in reset", age_s=9.0, power_w=None)
    (after,) = umd.enrich(machine(chip), answer(read_chip(FIRST, power_w=33)))["chips"]
    assert after["telemetry"] == chip["telemetry"]


def test_chips_behind_others_are_added() -> None:
    remote = read_chip(None, str((1 << 64) - 2), temperature_c=-3.5)
    after = umd.enrich(machine(driver_chip(0, "n300")), answer(remote, read_chip(None, None)))
    local, added = after["chips"]  # a chip without a unique id cannot be matched
    assert set(added) == {*local, "unique_id", "remote"}
    assert (added["kmd"], added["pci"], added["unique_id"], added["remote"]) == (
        None,
        None,
        "18446744073709551614",
        True,
    )
    assert (added["arch"], added["board"], added["serial"]) == ("wormhole_b0", "n300", "000000000000AB00")
    assert added["firmware"] == {"bundle": "18.10.0"}
    assert added["telemetry"]["temperature_c"] == -3.5
    assert set(added["pcie"]) == set(local["pcie"])


def test_an_answer_without_chips_adds_only_the_source() -> None:
    before = machine(driver_chip(0))
    after = umd.enrich(before, answer(state="absent", why="not there"))
    assert after["chips"] == before["chips"]
    assert after["sources"][-1] == {"name": "umd", "state": "absent", "detail": "not there"}

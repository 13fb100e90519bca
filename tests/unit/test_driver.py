# SPDX-License-Identifier: Apache-2.0
"""The simulated driver's files, read by the code that reads real ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support import not_none
from ttmem.sim.board_types import MACHINES, machine_named
from ttmem.sim.driver import Driver, has_driver
from ttmem.sources.machine import Machine
from ttmem.sources.telemetry import Telemetry


class Bench:
    """A machine with a clock that is set by hand."""

    def __init__(self, root: Path, name: str = "n150") -> None:
        self.now = 100.0
        self.driver = Driver(str(root), name, clock=lambda: self.now)
        self.telemetry = Telemetry(str(root))
        self._launches: dict[int, int] = {}

    def work(self, seconds: float, rates: dict[int, float]) -> list[Any]:
        """Run this many programs per second on these chips. Returns the readings at the end."""
        for _ in range(round(seconds * 2)):
            self.now += 0.5
            for chip, rate in rates.items():
                self._launches[chip] = self._launches.get(chip, 0) + round(rate / 2)
            self.driver.tick(self._launches)
        return [chip["telemetry"] for chip in self.telemetry.look()["chips"]]

    def close(self) -> None:
        self.telemetry.close()


@pytest.fixture
def bench(folder: Path) -> Any:
    found = Bench(folder)
    yield found
    found.close()


@pytest.mark.parametrize("name", [name for name in MACHINES if has_driver(name)])
def test_every_machine_is_read_without_a_doubt(folder: Path, name: str) -> None:
    Driver(str(folder), name)
    machine = Machine(str(folder))
    seen = machine.look()
    machine.close()
    states = {source["name"]: source["state"] for source in seen["sources"]}
    assert (states["sysfs"], states["processes"]) == ("ok", "ok")
    found = machine_named(name)
    assert [chip["kmd"] for chip in seen["chips"]] == list(range(found.chips - len(found.remote)))
    for chip in seen["chips"]:
        assert chip["board"] == found.board.name
        assert chip["pci"] is None
        link = chip["pcie"]
        assert (link["speed_gts"], link["width"]) == (link["max_speed_gts"], link["max_width"])
        assert None not in link.values()
        now: Any = chip["telemetry"]
        assert (now["state"], now["implausible"]) == ("ok", {})
        for value, limit in (("temperature_c", "temperature_max_c"), ("power_w", "power_max_w"),
                             ("current_a", "current_max_a"), ("voltage_mv", "voltage_max_mv")):  # fmt: skip
            assert 0 < now[value] < now[limit]
        assert (now["fan_rpm"] is not None) == (chip["arch"] == "blackhole")


def test_there_is_no_driver_for_quasar() -> None:
    assert [name for name in MACHINES if not has_driver(name)] == ["quasar"]


def test_work_draws_power_at_once_and_warms_with_a_lag(bench: Bench) -> None:
    idle = bench.work(5, {})[0]
    begun = bench.work(0.5, {0: 400})[0]
    warm = bench.work(60, {0: 400})[0]
    assert begun["power_w"] == warm["power_w"] > 3 * idle["power_w"]
    assert begun["aiclk_mhz"] == 2 * idle["aiclk_mhz"]
    assert idle["temperature_c"] < begun["temperature_c"] < idle["temperature_c"] + 4
    assert warm["temperature_c"] > idle["temperature_c"] + 15
    assert bench.work(5, {0: 400})[0]["temperature_c"] == pytest.approx(warm["temperature_c"], abs=0.1)
    over = bench.work(60, {})[0]
    assert (over["power_w"], over["aiclk_mhz"]) == (idle["power_w"], idle["aiclk_mhz"])
    assert over["temperature_c"] == pytest.approx(idle["temperature_c"], abs=1)


def test_only_the_chip_that_works_does_so(bench: Bench) -> None:
    some = [chip["power_w"] for chip in bench.work(20, {1: 50})]
    more = [chip["power_w"] for chip in bench.work(20, {1: 500})]
    assert more[1] > some[1] > 2 * max(some[0], *some[2:])
    assert more[0] == some[0]


def test_the_heart_beats_twice_a_second_however_often_it_is_asked(bench: Bench) -> None:
    before = bench.work(1, {})[0]["heartbeat"]
    for _ in range(100):
        bench.now += 0.01
        bench.driver.tick({})
    after = bench.work(0, {})[0]
    assert after["heartbeat"] in (before + 2, before + 1)
    assert after["alive"]


def test_a_worker_that_has_ended_leaves_no_negative_work(bench: Bench) -> None:
    bench.work(5, {0: 400})
    bench.now += 0.5
    bench.driver.tick({})
    idle = bench.telemetry.look()["chips"][0]["telemetry"]
    assert not_none(idle["power_w"]) < 20
    assert idle["aiclk_mhz"] == 500

# SPDX-License-Identifier: Apache-2.0
"""The history that a dashboard requests from the server: each part once, and drawn as if it had been seen."""

from __future__ import annotations

import json

import pytest

from tests.chart_models import SERVER, T, machine, model_of
from tests.snapshots import WELL, driver_chip
from tests.support import not_none
from ttmem.account.ledger import Ledger
from ttmem.server.history import History
from ttmem.show.chip_table import level
from ttmem.show.top.dashboard_state import Answer, Model
from ttmem.show.top.views.charts import Charts


def answered(view: Charts, model: Model, server: History, rounds: int = 40) -> list[str]:
    """Every request of the view, answered like a server does, until the view has no more requests."""
    asked: list[str] = []
    for _ in range(rounds):
        paths = [path for path in view.wants(model) if path.startswith("/history")]
        if not paths:
            return asked
        for path in paths:
            query = dict(part.split("=") for part in path.partition("?")[2].split("&"))
            step, since = int(query["step"]), float(query["since"])
            series = [
                server.one(step, since, model.past.newest, name) for name in server.names(step, [query["chip"]], None)
            ]
            data = json.loads(json.dumps({"step": step, "since": since, "until": model.past.newest, "series": series}))
            model.answers[path] = Answer(data, None, model.now)
            asked.append(path)
    raise AssertionError(f"still asking for {paths}")


def history_of(chips: int, seconds: range) -> History:
    """As if a server had sampled these chips."""
    out = History()
    for second in seconds:
        values: dict[tuple[str, str], tuple[float, float]] = {}
        for chip in machine(chips, second)["chips"]:
            values[chip["chip"], "dram_taken"] = (not_none(level(chip["memory"]["dram"])),) * 2
            values[chip["chip"], "l1_at_once"] = (chip["memory"]["l1"]["at_once"],) * 2
            values[chip["pci"], "temperature_c"] = (chip["telemetry"]["temperature_c"],) * 2
        for tier in (out.fine, out.coarse):
            tier.put(T + second, values)
    return out


def test_a_dashboard_that_was_just_opened_shows_the_past() -> None:
    view, model, server = Charts(), Model(), history_of(3, range(-400, 1))
    model.take(machine(3, 0), T, 0.0)
    before = model.past.series("880002", "dram", T - 300, T, 60)
    assert before.count(None) == 59
    asked = answered(view, model, server)
    assert len(asked) == len(set(asked)) == 6, "each chip by its id and by its address, each once"
    assert not model.answers, "answers are large, and are not kept"
    for name in ("dram", "l1"):
        found = model.past.series("880002", name, T - 300, T, 60)
        pool = {"dram": "used", "l1": "at_once"}[name]
        for column, one in enumerate(found):
            seconds = range(-295 + 5 * column, -290 + 5 * column)
            values = [machine(3, second)["chips"][1]["memory"][name][pool] for second in seconds if second <= 0]
            assert one == pytest.approx((min(values), max(values)), rel=1e-6)
    assert None not in model.past.series("880003", "temperature_c", T - 300, T, 60)
    assert answered(view, model, server) == []


def test_a_peak_between_two_looks_is_drawn_when_the_server_has_told_of_it() -> None:
    view, model, server = Charts(), Model(), history_of(2, range(-30, 1))
    model.take(machine(2, 0), T, 0.0)
    assert len(answered(view, model, server)) == 4
    most = machine(2, 0)["chips"][0]["memory"]["dram"]["capacity"]
    for second in range(1, 26):
        for tier in (server.fine, server.coarse):
            tier.put(T + second, {("880001", "dram_taken"): (0, most if second == 7 else 0)})
    asked = []
    for second in range(1, 26):
        model.take(machine(2, second), T + second, float(second))
        asked += [(second, path) for path in answered(view, model, server)]
    assert asked == [(20, f"/history?step=1&since={T - 2:.0f}&chip={chip_id}") for chip_id in ("880001", "880002")]
    found = model.past.series("880001", "dram", T + 5, T + 10, 5)
    assert [one is not None and one[1] == most for one in found] == [False, True, False, False, False]


def test_a_longer_window_and_a_new_server_are_asked_again() -> None:
    view, model, server = Charts(), Model(), history_of(1, range(-10000, 1, 10))
    model.take(machine(1, 0), T, 0.0)
    assert len(answered(view, model, server)) == 2
    view.window = 21600
    assert all("step=10&" in path for path in answered(view, model, server))
    assert sum(one is not None for one in model.past.series("880001", "dram", T - 21600, T, 360)) > 160
    view.window = 300
    assert answered(view, model, server) == []
    model.take({**machine(1, 1), "server": {**SERVER, "since": "later"}}, T + 1, 1.0)  # type: ignore[typeddict-item]
    assert len(answered(view, model, server)) == 2


def test_a_server_that_does_not_tell_is_not_asked_over_and_over() -> None:
    view, model = Charts(), model_of(1)
    for path in view.wants(model):
        model.answers[path] = Answer(None, "no such route", 1.0)
    assert view.wants(model) == ["/phases"]
    model.answers.clear()
    model.take({**machine(1, 321), "server": None}, T + 321, 321.0)  # type: ignore[typeddict-item]
    assert view.wants(model) == ["/phases"], "nobody to ask"


def test_what_the_server_samples_is_what_is_asked_for() -> None:
    """The keys in the server's history are those that the view reads."""
    server = History()
    server.sample(T, Ledger(), [driver_chip(0)])
    model = Model()
    model.take(machine(1, 0), T, 0.0)
    series = [server.one(1, T - 9, T, name) for name in server.names(1, ["0000:01:00.0"], None)]
    model.past.fill("880001", {"step": 1, "series": series})  # type: ignore[typeddict-item]
    for name in ("temperature_c", "power_w", "aiclk_mhz"):
        found = model.past.series("880001", name, T - 1, T, 1)[0]
        assert found is not None
        assert found[0] <= WELL[name] <= found[1]

# SPDX-License-Identifier: Apache-2.0
"""The reader of the agent's meters: without an agent, and on rows like those of an agent."""

from __future__ import annotations

import ctypes
import re
from struct import calcsize, pack_into
from typing import Any

import pytest
from native.tests.build import ROOT

from ttmem.collect import agent_meter
from ttmem.collect.agent_meter import AgentMeter
from ttmem.collect.meters import Meter, Reading
from ttmem.model.kinds import Kind

GAUGES = ("dram_pool", "l1_pool", *(kind.label for kind in Kind))
ENTRIES = (ROOT / "native" / "src" / "entries.cpp").read_text()
FORMAT = "<iI" + "Q" * 4 * len(GAUGES)


class Entries:
    """Replaces the agent's entry points, and records the calls."""

    def __init__(self, *rows: tuple[int, int]) -> None:
        self.rows = rows  # device, kinds
        self.calls: list[tuple[object, ...]] = []

    def __call__(self, *arguments: Any) -> int:
        *first, out, room = [getattr(argument, "value", argument) for argument in arguments[:-2]] + [*arguments[-2:]]
        self.calls.append(tuple(first))
        for number, (device, kinds) in enumerate(self.rows):
            if out is not None:
                numbers = range(1000 * number, 1000 * number + 4 * len(GAUGES))
                pack_into(FORMAT, out, number * calcsize(FORMAT), device, kinds, *numbers)
        assert isinstance(room, ctypes.c_size_t)
        return len(self.rows)


@pytest.fixture
def entries(monkeypatch: pytest.MonkeyPatch) -> Entries:
    made = Entries((-1, (1 << len(Kind)) - 1), (0, 1 << Kind.DRAM | 1 << Kind.CB), (31, 0))
    monkeypatch.setattr(agent_meter, "_no_agent", made)
    return made


def test_without_an_agent() -> None:
    meter: Meter = AgentMeter()
    assert not AgentMeter().available()
    assert meter.read() == meter.read_and_reset() == meter.phase_began(1, "x", 0) == meter.phase_ended(1) == {}
    meter.reset_peaks()


def test_what_cannot_be_seen_is_not_nothing(entries: Entries) -> None:
    readings = AgentMeter().read()
    assert {gauge for device, gauge in readings if device is None} == set(GAUGES)
    assert {gauge for device, gauge in readings if device == 0} == {"dram_pool", "l1_pool", "dram", "cb"}
    assert {gauge for device, gauge in readings if device == 31} == {"dram_pool", "l1_pool"}
    for row, device in enumerate((None, 0)):
        at = 1000 * row + 4 * GAUGES.index("cb")
        assert readings[device, "cb"] == Reading(at, at + 1, at + 2, at + 3)


def test_what_is_asked(entries: Entries) -> None:
    meter = AgentMeter()
    large = (1 << 64) - 1
    assert meter.available()
    meter.read()
    meter.reset_peaks()
    assert meter.read_and_reset() == meter.phase_began(large, "sn\N{SNOWMAN}w \udc80", 5) == meter.phase_ended(large)
    marked = (1, large, 5, "sn\N{SNOWMAN}w ?".encode())
    assert entries.calls == [(0,), (0,), (1,), (1,), marked, (0, large, 0, b"")]


def test_a_row_is_the_agents() -> None:
    """The fields are in order, and there is room for the maximum number of them."""
    fields = re.search(r"struct Metered \{(.*?)\};", ENTRIES, re.S)
    assert fields is not None
    assert re.findall(r"(\w[\w:]*) (\w+)(?:\[.*?\])?;", fields[1]) == [
        ("int32_t", "device"),
        ("uint32_t", "kinds"),
        ("ttmem::Figures", "figures"),
    ]
    named = re.search(r"kKindGauges\[\] = \{(.*?)\};", ENTRIES, re.S)
    assert named is not None
    kinds = re.findall(r"Gauge::k(\w+)", named[1])
    assert [kind.lower() for kind in kinds] == [kind.label.replace("_", "") for kind in Kind]
    layout = (ROOT / "native" / "src" / "layout.h").read_text()
    chips = re.search(r"kChips = (\d+);", layout)
    assert chips is not None
    assert int(chips[1]) + 1 == agent_meter._MOST_ROWS

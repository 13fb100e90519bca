# SPDX-License-Identifier: Apache-2.0
"""Minutes of simulated chips, for tests of charts."""

from __future__ import annotations

import math
from typing import Any

from tests.screens import phases
from tests.snapshots import WELL
from ttmem.documents import unknown_rows as blank
from ttmem.show.top.dashboard_state import Model

T, MIB = 1_794_800_040.0, 1 << 20
SERVER = {"pid": 1, "since": "then", "events": 1, "version": "1", "clients": 1, "lost_to_readers": 0}
Json = Any  # a document made by hand, or a part of one


def machine(chips: int, second: float) -> Json:
    """DRAM goes up and down, L1 has the form of a saw; the second chip has problems."""
    out: Json = blank.snapshot("2026-01-02T03:04:05.678901Z", "box")
    out["server"] = SERVER
    for number in range(chips):
        chip: Json = blank.chip(f"{880001 + number}", board="n150", arch="wormhole_b0")
        heat = {"temperature_c": 50 + 20 * math.sin(second / 60 + number), "power_w": 60.0 + number, "aiclk_mhz": 1000}
        state = "in reset" if number == 1 else "ok"
        chip.update(kmd=number, pci=f"0000:{number + 1:02x}:00.0", telemetry={**WELL, **heat, "state": state})
        dram, l1 = chip["memory"]["dram"], chip["memory"]["l1"]
        dram["used"] = int(dram["capacity"] * (0.45 + 0.3 * math.sin(second / 70 + number)))
        dram["trace"]["used"] = 200 * MIB
        l1["at_once"] = int(l1["capacity"] * (0.2 + 0.6 * ((second / 50 + number / 3) % 1)))
        l1["buffers"], l1["cb"]["held"], l1["kernels"] = l1["at_once"] // 2, l1["at_once"] // 4, 3 * MIB
        out["chips"].append(chip)
    return out


def leak(chips: int, second: float) -> Json:
    """DRAM grows by 50 MiB in five minutes, beside 9 GiB."""
    out = machine(chips, second)
    for chip in out["chips"]:
        chip["memory"]["dram"]["used"] = (9 << 30) + int(50 * MIB * second / 300)
    return out


def model_of(chips: int) -> Model:
    """Five minutes, of which forty seconds are missing. A negative number adds a leak."""
    model = Model()
    for second in (*range(150), *range(190, 320)):
        snapshot = leak(-chips, second) if chips < 0 else machine(chips, second)
        model.take(snapshot, T + second, float(second))
    if chips > 0:
        model.past.take_phases(phases("prefill", "prefill/attention", since=T + 60), T + 61)
        model.past.take_phases(phases("decode", since=T + 200), T + 120)
    return model

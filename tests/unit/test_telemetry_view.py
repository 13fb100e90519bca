# SPDX-License-Identifier: Apache-2.0
"""The view of telemetry: screens of some machines, and that no reading is left out or invented.

`make screens` regenerates the files in tests/data/top; then read the diff.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.screens import beside, checked, files_of, forms, lines, many, model_of
from tests.unit.test_smi_machines import PICTURES
from tests.unit.test_smi_properties import snapshots
from ttmem.documents import unknown_rows as blank
from ttmem.show.top.dashboard_state import Model
from ttmem.show.top.parts.rows import Characters, Size
from ttmem.show.top.views.telemetry_view import READINGS, Telemetry

Json = Any  # a document made by hand, or a part of one
SCENES = {"remote": "n300", "reset": "in_reset", "old": "old_driver"}
NO_READINGS = {"state", "age_s", "implausible"}


@pytest.mark.parametrize("scene", SCENES)
def test_the_screen(scene: str, folder: Path) -> None:
    """Machines that test_top_screens does not have."""
    snapshot = PICTURES[SCENES[scene]](folder)
    beside(
        f"telemetry-{scene}", forms(lambda size, signs: Telemetry().rows(model_of(snapshot, signs.ascii), size, signs))
    )


def test_no_screen_is_left_over() -> None:
    assert files_of("telemetry") == {f"telemetry-{scene}" for scene in SCENES}


def test_every_field_of_the_schema_has_its_place() -> None:
    """docs/json.md is compared with real snapshots by another test."""
    page = (Path(__file__).resolve().parent.parent.parent / "docs" / "json.md").read_text()
    documented = set(re.findall(r"`chips\[\]\.telemetry\.(\w+)`", page)) - NO_READINGS
    assert documented == {key for one in READINGS for key in (one.key, one.most) if key}


def chip(**telemetry: Any) -> Json:
    made = {**blank.chip("0000:01:00.0"), "kmd": 0, "pci": "0000:01:00.0"}
    nothing = {key: None for one in READINGS for key in (one.key, one.most) if key}
    made["telemetry"] = {**nothing, "state": "ok", "age_s": 0.2, "implausible": {}, **telemetry}
    return made


def shown(model: Model, size: Size = Size(100, 50), view: Telemetry | None = None) -> list[str]:
    return lines((view or Telemetry()).rows(model, size, Characters()))


def styles_of(model: Model, text: str) -> set[str]:
    rows = Telemetry().rows(model, Size(100, 50), Characters())
    return {part for row in rows for span, name in row if text in span for part in name.split()} - {"select"}


def snapshot(*chips: Json) -> Json:
    made = blank.snapshot("2026-01-02T03:04:05.678901Z", "box")
    made["chips"] = list(chips)
    return made


def test_a_value_stands_beside_its_limit() -> None:
    text = "\n".join(shown(model_of(snapshot(chip(temperature_c=51.4, temperature_max_c=75.0, fan_rpm=2100)))))
    assert re.search(r"temperature +51/75 °C", text)
    assert re.search(r"fan +2100 rpm", text)
    assert re.search(r"age +0\.2 s", text)
    assert "Not known: power, current" in text


@pytest.mark.parametrize(
    ("degrees", "style"), [(67.0, set()), (67.5, {"warn"}), (74.9, {"warn"}), (75.0, {"bad"}), (90.0, {"bad"})]
)
def test_colours_of_heat(degrees: float, style: set[str]) -> None:
    assert styles_of(model_of(snapshot(chip(temperature_c=degrees, temperature_max_c=75.0))), "/75 °C") == style


def test_what_is_wrong_is_said_in_words() -> None:
    odd = chip(state="off the bus", age_s=12.0, temperature_c=50.0)
    text = "\n".join(shown(model_of(snapshot(odd))))
    assert "Chip 0: off the bus: reads return only ones" in text
    assert styles_of(model_of(snapshot(odd)), "50 °C") == {"dim"}, "what was read before is not of now"
    assert styles_of(model_of(snapshot(odd)), "12.0 s") == {"warn"}
    raw = chip(implausible={"temperature_c": 65535})
    text = "\n".join(shown(model_of(snapshot(raw))))
    assert "Chip 0: read, but implausible: temperature_c 65535" in text
    assert re.search(r"temperature +implausible", text)
    dead = model_of(snapshot(chip(alive=False)))
    assert re.search(r"firmware running +NO", "\n".join(shown(dead)))
    assert styles_of(dead, "NO") == {"bad"}


def test_equal_troubles_are_told_once() -> None:
    text = "\n".join(shown(model_of(many(4)), Size(120, 50)))
    assert text.count("no telemetry: not listed by the driver") == 1
    assert "Chips 0-3: no telemetry" in text


def test_a_click_chooses_a_column_or_a_row() -> None:
    view, model = Telemetry(), model_of(many(3))
    first = shown(model, Size(120, 50), view)[0]
    assert view.click(first.index("chip-2"), 5, model)
    assert model.selected == "chip-2"
    assert not view.click(2, 5, model), "the names of readings"
    view, model = Telemetry(), model_of(many(40))
    lines = shown(model, Size(80, 30), view)
    y = next(number for number, line in enumerate(lines) if "chip-3" in line)
    assert view.click(2, y, model)
    assert model.selected == "chip-3"
    assert view.press("right", model)
    assert model.selected == "chip-4"


def test_it_scrolls() -> None:
    view, model = Telemetry(), model_of(snapshot(chip(**{one.key: 1 for one in READINGS if one.key != "dram_status"})))
    small = Size(80, 8)
    assert "  voltage" in "\n".join(shown(model, small, view))
    assert view.press("pagedown", model)
    assert "  voltage" not in "\n".join(shown(model, small, view))
    for _ in range(9):
        view.press("pagedown", model)
    last = shown(model, small, view)
    assert len(last) == 8
    assert last[-1], "no further than to the end"
    rows, model = Telemetry(), model_of(many(40))
    model.choose(39)
    assert "chip-39" in "\n".join(shown(model, Size(80, 20), rows))


@settings(max_examples=50)
@given(snapshots(), st.integers(40, 220), st.integers(1, 60), st.booleans())
def test_every_view(snapshot: Json, width: int, height: int, ascii: bool) -> None:
    size, signs = Size(width, height), Characters("ascii" if ascii else "braille")
    checked(Telemetry().rows(model_of(snapshot, ascii), size, signs), size, ascii)

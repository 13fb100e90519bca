# SPDX-License-Identifier: Apache-2.0
"""The overview: screens of some machines character by character, properties of all screens, and its keys.

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
from ttmem.show.top.dashboard_state import Answer, Model
from ttmem.show.top.parts.rows import Characters, Size, View, text_of
from ttmem.show.top.views.overview import Overview
from ttmem.show.top.views.telemetry_view import Telemetry

Json = Any  # a document made by hand, or a part of one
SCENES = ("tracked", "crowded")
MIB = 1 << 20


@pytest.mark.parametrize("scene", SCENES)
def test_the_screen(scene: str, folder: Path) -> None:
    """Machines that test_top_screens does not have."""
    snapshot = PICTURES[scene](folder)
    beside(
        f"overview-{scene}", forms(lambda size, signs: Overview().rows(model_of(snapshot, signs.ascii), size, signs))
    )


def test_no_screen_is_left_over() -> None:
    assert files_of("overview") == {f"overview-{scene}" for scene in SCENES}


def looked(view: View, snapshot: Json, size: Size, ascii: bool) -> str:
    rows = view.rows(model_of(snapshot, ascii), size, Characters("ascii" if ascii else "braille"))
    return "\n".join(checked(rows, size, ascii))


@settings(max_examples=50)
@given(snapshots(), st.integers(40, 220), st.integers(1, 60), st.booleans(), st.booleans(), st.booleans())
def test_every_overview(snapshot: Json, width: int, height: int, ascii: bool, brief: bool, everybody: bool) -> None:
    view = Overview()
    view.brief, view.everybody = brief, everybody
    text = looked(view, snapshot, Size(width, height), ascii)
    assert all(int(share) <= 100 for share in re.findall(r"(?<!\w)(\d+)%", text)), text


@settings(max_examples=20)
@given(snapshots(st.just("word")), st.integers(40, 220))
def test_nothing_unknown_shows_as_python_would_say_it(snapshot: Json, width: int) -> None:
    for view in (Overview(), Telemetry()):
        text = looked(view, snapshot, Size(width, 60), False)
        assert not re.search(r"\bnan\b|\bNone\b|\binf\b|\bTrue\b|\bFalse\b|[{}]", text), text


def test_before_the_first_picture() -> None:
    for view in (Overview(), Telemetry()):
        (row,) = view.rows(Model(), Size(80, 22), Characters())
        assert text_of(row).startswith("Looking at the machine")


@pytest.mark.parametrize(("loaded", "why"), [(True, "the driver shows none"), (False, "the driver is not loaded")])
def test_without_chips_it_says_why_and_what_to_do(loaded: bool, why: str) -> None:
    snapshot = {**many(0), "driver": {"version": None, "loaded": loaded}}
    text = " ".join(shown(Overview(), model_of(snapshot), Size(80, 22)))
    assert f"No chip is known: {why}, and no process has reported one." in text
    assert "start a server with `ttmem serve`" in text
    told = {**snapshot, "server": {"pid": 9, "events": 1, "version": "1"}}
    assert "ttmem serve" not in " ".join(shown(Overview(), model_of(told), Size(80, 22)))


def test_sums_stay_longest_where_there_is_little_room(folder: Path) -> None:
    view, model = Overview(), model_of(PICTURES["tracked"](folder))
    for height in (14, 18, 22):
        text = "\n".join(shown(view, model, Size(80, height)))
        assert "DRAM total" in text
        assert "L1 total" in text


def shown(view: Overview, model: Model, size: Size = Size(100, 20)) -> list[str]:
    return lines(view.rows(model, size, Characters()))


def chips_in(lines: list[str]) -> list[int]:
    return [int(found[1]) for line in lines[1:] if (found := re.match(r" *\d+ chip-(\d+)", line))]


def test_it_scrolls_to_the_chosen_chip() -> None:
    view, model = Overview(), model_of(many(64))
    first = chips_in(shown(view, model))
    assert first == list(range(len(first)))
    assert len(first) < 64
    assert f"1-{len(first)} of 64 chips" in "\n".join(shown(view, model))
    model.choose(40)
    now = chips_in(shown(view, model))
    assert now[-1] == 40, "no further than it has to"
    model.choose(-1)
    assert chips_in(shown(view, model)) == now, "a step that stays in sight moves nothing"
    assert view.press("end", model)
    assert chips_in(shown(view, model))[-1] == 63
    assert view.press("home", model)
    assert chips_in(shown(view, model)) == first
    assert view.press("pagedown", model)
    assert model.selected == "chip-10"
    assert view.press("m", model)
    assert len(chips_in(shown(view, model))) > len(first), "more chips without the details"
    assert not view.press("x", model)


def test_a_click_chooses_a_chip() -> None:
    view, model = Overview(), model_of(many(4))
    lines = shown(view, model)
    y = next(number for number, line in enumerate(lines) if "chip-2" in line)
    assert view.click(3, y, model)
    assert model.selected == "chip-2"
    assert not view.click(3, 0, model), "the line of titles"
    assert not view.click(3, y + 2, model), "below the table"


def test_who_is_on_the_chosen_chip() -> None:
    snapshot = many(3)
    for pid, chip_id, l1 in ((10, "chip-1", 5), (11, "chip-2", 90), (12, "chip-2", 40), (13, "chip-2", 95)):
        process = {**blank.process(pid, "tracked"), "name": f"job{pid}"}
        process["chips"] = [{**blank.share(chip_id), "l1": l1 * MIB, "dram": (100 - l1) * MIB}]
        snapshot["processes"].append(process)
    view, model = Overview(), model_of(snapshot)
    model.selected = "chip-2"
    text = "\n".join(shown(view, model, Size(100, 40)))
    assert "and 1 on other chips; press a for all" in text
    assert "job10" not in text
    assert set(re.findall(r"job\d+", text)) == {"job11", "job12", "job13"}
    view.press("a", model)
    assert "job10" in "\n".join(shown(view, model, Size(100, 40)))
    model.selected = "chip-0"
    view.press("a", model)
    assert "No process uses chip 0. 4 on other chips" in "\n".join(shown(view, model, Size(100, 40)))


def walls(**more: Any) -> Json:
    """An answer of /headroom: one program ends at 300 KiB, another at 1200; the lowest buffer is at 1300 KiB."""
    near = {"program": 6, "pid": 4711, "end": 1200 << 10, "headroom": 100 << 10}
    far = {"program": 5, "pid": 4711, "end": 300 << 10, "headroom": 1000 << 10}
    holder = {"pid": 4711, "kind": "l1", "tag": "ttnn.add"}
    return {"chip": "a:1", "floor": 1300 << 10, "floor_holder": holder, "launched": [far], "worst_cached": near, **more}


def with_walls(*answers: Json) -> tuple[Overview, Model]:
    snapshot: Json = blank.snapshot("2026-01-02T03:04:05.678901Z", "box")
    chip = blank.chip("a:1")
    chip["memory"]["dram"]["used"] = 0
    snapshot.update(chips=[chip], server={"pid": 9, "events": 1, "version": "1"})
    view, model = Overview(), model_of(snapshot)
    (path,) = view.wants(model)
    assert path == "/headroom?chip=a%3A1"
    model.answers[path] = Answer({"chips": list(answers)}, None, 0.0)
    return view, model


def test_how_close_the_wall_is() -> None:
    view, model = with_walls(walls())
    lines = shown(view, model, Size(120, 30))
    last, cached = (next(line for line in lines if name in line) for name in ("headroom now", "headroom worst"))
    assert re.search(r"1000\.0 KiB left of 1\.3 MiB +below ttnn\.add of pid 4711", last)
    assert re.search(r"100\.0 KiB left of 1\.3 MiB +when program 6 of pid 4711 runs", cached)
    styles = {text: name for row in view.rows(model, Size(120, 30), Characters()) for text, name in row}
    assert [styles[f"{size} left"] for size in ("1000.0 KiB", " 100.0 KiB")] == ["bold good", "bold bad"]
    text = "\n".join(shown(*with_walls(walls(floor_holder=None, worst_cached=None))))
    assert "below the end of L1" in text
    assert "worst" not in text
    over = {"program": 5, "pid": 4711, "end": 1400 << 10, "headroom": -(100 << 10)}
    assert "100.0 KiB TOO MUCH" in "\n".join(shown(*with_walls(walls(launched=[over]))))


@pytest.mark.parametrize(
    "answer", [[], [walls(floor=None)], [walls(launched=[], worst_cached=None)], [walls(chip="b")]]
)
def test_no_wall_is_known(answer: list[Json]) -> None:
    assert "headroom" not in "\n".join(shown(*with_walls(*answer)))


def test_who_eats_l1_stands_beside_the_headroom() -> None:
    """The largest first, on this chip only, and not more than there is room for."""
    snapshot = many(2)
    for pid, chip_id, cb in ((10, "chip-1", 90), (11, "chip-0", 5), (12, "chip-0", 40)):
        process = {**blank.process(pid, "tracked"), "name": f"job{pid}"}
        process["chips"] = [{**blank.share(chip_id), "kinds": {"dram": 7 * MIB, "l1": MIB, "cb": cb * MIB}}]
        snapshot["processes"].append(process)
    snapshot["chips"][0]["memory"]["l1"]["used"] = 45 * MIB
    view, model = Overview(), model_of(snapshot)
    rows = [row for row in view.rows(model, Size(100, 40), Characters()) if "holds in L1" in text_of(row)]
    assert [text_of(row).split()[:2] for row in rows] == [["12", "job12"], ["11", "job11"]]
    assert [(text.strip(", "), name) for text, name in rows[0][2:]] == [
        ("circular buffers 40.0 MiB", "cb"),
        ("L1 buffers 1.0 MiB", "l1"),
    ]
    snapshot["chips"][0]["memory"]["l1"]["at_once"] = 40 * MIB
    rows = [row for row in view.rows(model_of(snapshot), Size(100, 40), Characters()) if "holds in L1" in text_of(row)]
    assert ["circular buffers 40.0 MiB*, L1 buffers 1.0 MiB" in text_of(row) for row in rows] == [True, False], (
        "more than is in use at once: programs use L1 in turn"
    )


def test_spare_rows_show_the_last_minutes() -> None:
    """Lines for little room, a chart for more, and separate charts for DRAM and L1 for much room."""
    snapshot = many(1)
    snapshot["server"] = {"pid": 9, "events": 1, "version": "1", "since": "x"}
    snapshot["chips"][0]["memory"]["dram"].update(used=MIB, capacity=4 * MIB)
    snapshot["chips"][0]["memory"]["l1"].update(used=MIB, at_once=MIB, capacity=2 * MIB)
    view, model = Overview(), model_of(snapshot)
    found = ["\n".join(shown(view, model, Size(100, height))) for height in (8, 16, 24, 40)]
    assert ["-5m" in text for text in found] == [False, False, True, True]
    assert "D " in found[1]
    assert found[3].count("-5m") == 2
    assert [path.split("?")[0] for path in view.wants(model)] == ["/headroom", "/history"]
    shown(view, model, Size(100, 8))
    assert [path.split("?")[0] for path in view.wants(model)] == ["/headroom"], "what is not drawn is not asked for"


def test_the_words_of_the_chart_are_of_the_same_moment_as_the_table() -> None:
    view, model = Overview(), Model()
    for tenth in range(40):
        snapshot = many(1)
        snapshot["chips"][0]["memory"]["dram"].update(used=(tenth + 10) * MIB, capacity=100 * MIB)
        model.take(snapshot, 100 + tenth / 10, tenth / 10)
        text = "\n".join(shown(view, model, Size(100, 40)))
        assert text.count(f" {tenth + 10}%") >= 3, "in the table, in the breakdown, above the chart"


def test_nothing_moves_while_paused() -> None:
    snapshot = many(1)
    snapshot["chips"][0]["memory"]["dram"].update(used=MIB, capacity=4 * MIB)
    view, model = Overview(), model_of(snapshot)
    model.take(snapshot, 100.0, 100.0)
    before = shown(view, model, Size(100, 40))
    assert "-5m" in "\n".join(before)
    model.paused = True
    for second in range(101, 160):
        model.take(snapshot, float(second), float(second))
    assert shown(view, model, Size(100, 40)) == before
    model.paused = False
    model.take(snapshot, 160.0, 160.0)
    assert shown(view, model, Size(100, 40)) != before


def test_without_a_server_nothing_is_asked() -> None:
    view, model = Overview(), model_of(many(2))
    assert view.wants(model) == []

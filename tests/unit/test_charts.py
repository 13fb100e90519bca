# SPDX-License-Identifier: Apache-2.0
"""View 2 as text, compared with the files in tests/data/top, and properties of all its screens.

`make screens` regenerates those files; then read the diff.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.chart_models import Json, T, leak, machine, model_of
from tests.screens import beside, checked, files_of, phases, plain
from tests.support import not_none
from tests.unit.test_smi_properties import snapshots
from ttmem.documents import unknown_rows as blank
from ttmem.show.top.dashboard_state import Answer, Model
from ttmem.show.top.parts.rows import Characters, Size
from ttmem.show.top.views.charts import WINDOWS_SECONDS, Charts, grid


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def text(view: Charts, model: Model, size: Size, signs: Characters = Characters()) -> list[str]:
    return ["".join(part for part, _ in row) for row in view.rows(model, size, signs)]


WAYS = {
    "block": (4, Size(80, 22), Characters("block"), ""),
    "temperature": (4, Size(120, 38), Characters(), "mmm"),
    "temperature of many": (32, Size(120, 38), Characters(), "mmm"),
    "zoomed": (4, Size(120, 38), Characters(), "z"),
    "zoomed, ascii": (4, Size(80, 22), Characters("ascii"), "z"),
    "clock, zoomed": (4, Size(120, 38), Characters(), "zM"),
    "an hour": (1, Size(120, 38), Characters(), "www"),
    "0 to peak": (4, Size(80, 22), Characters(), "r"),
    "0 to capacity": (4, Size(80, 22), Characters(), "rr"),
    "a leak": (-4, Size(80, 22), Characters(), ""),
    "a leak, ascii": (-4, Size(80, 22), Characters("ascii"), ""),
    "a leak, zoomed, with the cursor": (-4, Size(120, 38), Characters(), "z<<<"),
    "the cursor": (4, Size(80, 22), Characters(), "<<<<<<"),
    "the cursor with many": (32, Size(80, 22), Characters(), "<<<"),
}


def test_ways_to_look_at_it() -> None:
    """With keys pressed; test_top_screens has the views without."""
    models = {chips: model_of(chips) for chips in (-4, 1, 4, 32)}
    found = {}
    for name, (chips, size, signs, keys) in WAYS.items():
        view = Charts()
        view.rows(models[chips], size, signs)
        for key in keys:
            assert view.press({"<": "left"}.get(key, key), models[chips])
        rows = view.rows(models[chips], size, signs)
        checked(rows, size, signs.ascii)
        found[name] = plain(rows)
    beside("charts-ways", found)
    assert files_of("charts") == {"charts-ways"}


@settings(max_examples=60)
@given(
    st.lists(snapshots(), min_size=1, max_size=3),
    st.integers(0, 300),
    st.integers(0, 80),
    st.sampled_from(["braille", "block", "ascii"]),
    st.lists(st.sampled_from(["w", "W", "a", "r", "m", "M", "z", "p", "left", "shift+right", "escape"]), max_size=5),
)
def test_every_picture_fits(some: list[Json], width: int, height: int, charts: str, keys: list[str]) -> None:
    view, model = Charts(), Model()
    for number, snapshot in enumerate(some):
        model.take(snapshot, T + number, float(number))
    view.rows(model, Size(80, 24), Characters(charts))
    for key in keys:
        view.press(key, model)
    rows = view.rows(model, Size(width, height), Characters(charts))
    checked(rows, Size(width, height), charts == "ascii")
    assert view.rows(model, Size(width, height), Characters(charts)) == rows, "nothing moves by itself"


@given(st.integers(1, 64), st.integers(80, 300), st.integers(10, 78), st.integers(1, 2))
def test_every_grid_lies_on_the_screen(count: int, width: int, height: int, lines: int) -> None:
    form = grid(count, Size(width, height), lines)
    assert form.across * (form.tile.width + 1) - 1 <= width
    assert form.down * form.tile.height <= height
    if height >= 22 and count <= 32:
        assert form.across * form.down >= count, "a galaxy is seen whole on the smallest screen"


def test_a_chip_that_is_chosen_is_seen() -> None:
    view, model = Charts(), model_of(64)
    names = set()
    for _ in range(64):
        rows = view.rows(model, Size(80, 22), Characters())
        names |= {part.split()[0] for row in rows for part, style in row if style == "bold select"}
        model.choose(1)
    assert names == {str(number) for number in range(64)}


def test_a_running_view_shows_what_a_fresh_one_does() -> None:
    for chips, size in ((2, Size(120, 38)), (32, Size(120, 38))):
        model, view = Model(), Charts()
        for number in range(100):
            model.take(machine(chips, number / 2), T + number / 2, number / 2)
            rows = view.rows(model, size, Characters())
        assert rows == Charts().rows(model, size, Characters())


def test_nothing_moves_while_paused() -> None:
    model, view = model_of(2), Charts()
    before = text(view, model, Size(100, 30))
    model.paused = True
    for second in range(320, 400):
        model.take(machine(2, second), T + second, float(second))
    for row, was in zip(text(view, model, Size(100, 30)), before, strict=True):
        assert sum(a != b for a, b in zip(row, was)) <= 2, "the moment of the pause is the last cell of each chart"
    model.paused = False
    model.take(machine(2, 400), T + 400, 400.0)
    after = text(view, model, Size(100, 30))
    assert sum(a != b for row, was in zip(after, before) for a, b in zip(row, was)) > 200


def test_keys() -> None:
    view, model = Charts(), model_of(2)
    windows = []
    for key in "WWWWWWwwwwwwwwwwwwww":
        view.press(key, model)
        windows.append(view.window)
    assert sorted(set(windows)) == list(WINDOWS_SECONDS)
    assert (min(windows), windows[-1]) == (30, 86400), "it stops at both ends"
    metrics = [view.press("m", model) and view.metric for _ in range(6)]
    assert metrics == ["DRAM", "L1", "temperature", "power", "clock", "memory"]
    ranges = [view.press("r", model) and view.range for _ in range(3)]
    assert ranges == ["peak", "capacity", "auto"]
    assert view.press("a", model)
    assert view.window == 0
    view.window = 300
    assert view.press("escape", model) is False
    assert view.press("z", model) is True
    assert "prefill" in "".join(text(view, model, Size(120, 38)))
    assert view.press("escape", model) is True
    assert view.press("x", model) is False
    with_peaks = text(view, model, Size(120, 38))
    view.press("p", model)
    assert "".join(with_peaks).count("peak") > 1 > "".join(text(view, model, Size(120, 38))[1:]).count("peak ")


def test_a_click_chooses_and_a_second_one_zooms() -> None:
    view, model = Charts(), model_of(4)
    rows = text(view, model, Size(120, 38))
    y, x = next((y, row.index("3 04:00.0")) for y, row in enumerate(rows) if "3 04:00.0" in row)
    assert view.click(x, y, model) is True
    assert (model.selected, view.zoomed) == ("880004", False)
    view.rows(model, Size(120, 38), Characters())
    assert view.click(x, y, model) is True
    assert view.zoomed
    assert "3 04:00.0" in text(view, model, Size(120, 38))[1]
    assert view.click(0, 0, model) is False


# -- range, window, cursor --------------------------------------------------------------------------------------------


def test_a_leak_is_seen_on_the_automatic_range_and_flat_from_0_to_capacity() -> None:
    model, view = model_of(-1), Charts()
    view.metric = "DRAM"
    rows_with_a_line = {}
    for mode in ("auto", "capacity"):
        view.range = mode
        rows = view.rows(model, Size(80, 22), Characters())
        rows_with_a_line[mode] = sum(any(name == "dram" and "peak" not in part for part, name in row) for row in rows)
        assert ("not 0" in "".join(text(view, model, Size(80, 22)))) is (mode == "auto")
    assert rows_with_a_line["auto"] >= 12
    assert rows_with_a_line["capacity"] <= 3


def test_the_automatic_window_is_as_long_as_there_is_data() -> None:
    for seconds, words in ((20, "30 seconds"), (50, "minute"), (100, "2 minutes"), (250, "5 minutes")):
        model = Model()
        for second in range(seconds):
            model.take(machine(2, second), T + second, float(second))
        assert f"Memory, last {words} (automatic)" in text(Charts(), model, Size(120, 38))[0]


def test_the_automatic_window_of_many_chips_is_not_short() -> None:
    model = Model()
    for second in range(20):
        model.take(machine(9, second), T + second, float(second))
    view = Charts()
    assert "last 5 minutes (automatic)" in text(view, model, Size(120, 38))[0]
    view.press("z", model)
    assert "last 30 seconds (automatic)" in text(view, model, Size(120, 38))[0]


def test_the_automatic_window_begins_when_the_chip_was_first_used() -> None:
    model = Model()
    for second in range(300):
        snapshot = machine(1, second)
        if second < 200:
            snapshot["chips"][0]["memory"]["dram"]["used"] = snapshot["chips"][0]["memory"]["l1"]["at_once"] = 0
        model.take(snapshot, T + second, float(second))
    assert "last 2 minutes (automatic)" in text(Charts(), model, Size(120, 38))[0]


def test_what_the_server_saw_before_counts_for_the_automatic_window() -> None:
    model, view = Model(), Charts()
    snapshot = machine(1, 0)
    process: Json = blank.process(7, "tracked")
    process.update(seen=T - 5000, chips=[blank.share("880001")])
    snapshot["processes"] = [process]
    model.take(snapshot, T, 0.0)
    assert "last 2 hours (automatic)" in text(view, model, Size(120, 38))[0]
    assert any("step=10&" in path for path in view.wants(model)), "it is asked for that long"


def test_the_cursor_shows_values_to_the_byte() -> None:
    model, view = model_of(-1), Charts()
    view.metric, view.window = "DRAM", 300
    assert "B)" not in text(view, model, Size(120, 38))[1]
    view.press("left", model)
    rows = text(view, model, Size(120, 38))
    last = leak(1, 319)["chips"][0]["memory"]["dram"]["used"]
    assert f"{last:,} B)" in rows[1], "the newest cell first"
    assert ", 0s ago" in rows[0]
    for _ in range(10):
        view.press("left", model)
    rows = text(view, model, Size(120, 38))
    (since, until), found = not_none(view._drawn).cell_times(view._tiles[0].cells), rows[1]
    # A value is valid until the next one: the first is that of the second before.
    values = [leak(1, s)["chips"][0]["memory"]["dram"]["used"] for s in range(320) if since - 1 <= T + s < until]
    assert f"{min(values):,} to {max(values):,} B)" in found
    clock = time.strftime("%H:%M:%S", time.gmtime(since))
    assert f"cursor {clock} to " in rows[0]
    assert " UTC" in rows[0]
    view.press("escape", model)
    assert "cursor 0" not in text(view, model, Size(120, 38))[0]


def test_the_cursor_stays_at_its_moment_and_in_the_window() -> None:
    model, view = model_of(1), Charts()
    view.window = 30
    for key in ("left", *["shift+left"] * 2):
        text(view, model, Size(80, 22))
        view.press(key, model)
    before = text(view, model, Size(80, 22))
    for second in range(320, 324):
        model.take(machine(1, second), T + second, float(second))
    after = text(view, model, Size(80, 22))
    assert after[0].partition("ago")[0].split(", ")[1] == before[0].partition("ago")[0].split(", ")[1]
    assert before[2].index("│", 8) > after[2].index("│", 8), "it moves to the left with the curve"
    for second in range(324, 400):
        model.take(machine(1, second), T + second, float(second))
    assert text(view, model, Size(80, 22))[2][8] == "│", "as far as there is something to see"
    for _ in range(200):
        view.press("shift+right", model)
    assert text(view, model, Size(80, 22))[0].count(", 0s ago") == 1


def test_a_click_sets_the_cursor() -> None:
    view, model = Charts(), model_of(4)
    text(view, model, Size(120, 38))
    tile = view._tiles[3]
    assert view.click(tile.x + tile.left + 30, tile.y + 4, model) is True
    assert (model.selected, view.zoomed) == ("880004", False)
    rows = text(view, model, Size(120, 38))
    assert rows[tile.y + 1][tile.x + tile.left + 30] == "│"
    assert rows[2][tile.left + 30] == "│", "in every chart"
    assert view.click(tile.x + 2, tile.y + 4, model) is True, "on the axis it only chooses the chip"


def test_settings_of_another_time_do_no_harm() -> None:
    view, model = Charts(), model_of(1)
    view.window, view.metric, view.range = 7, "humidity", "sideways"
    assert "Memory, last 10 minutes (automatic)" in text(view, model, Size(80, 22))[0]
    view.press("w", model)
    view.press("m", model)
    view.press("r", model)
    assert (view.window, view.metric, view.range) == (900, "DRAM", "peak")


@pytest.mark.parametrize("height", range(1, 16))
def test_a_chip_alone_in_a_low_window(height: int) -> None:
    view, model = Charts(), model_of(1)
    view.zoomed = True
    for signs in (Characters(), Characters("ascii")):
        rows = checked(view.rows(model, Size(80, height), signs), Size(80, height), signs.ascii)
        assert height < 4 or any("DRAM" in row for row in rows[1:])


def test_unknown_is_a_dash() -> None:
    model = Model()
    snapshot: Json = blank.snapshot("then", "box")
    snapshot["chips"] = [blank.chip("77")]
    model.take(snapshot, T, 0.0)
    rows = text(Charts(), model, Size(80, 22))
    assert "DRAM -" in rows[1]
    assert sum("L1 -" in row for row in rows) == 1
    assert not any(0x2800 < ord(sign) < 0x2900 for row in rows for sign in row)


def test_a_phase_that_begins_all_the_time_is_no_mark() -> None:
    model, view = model_of(1), Charts()
    before = text(view, model, Size(120, 38))
    assert any("┊" in row for row in before)
    for number in range(30):
        model.past.take_phases(phases("step", since=T + 50 + 5 * number), T + 52 + 5 * number)
    assert text(view, model, Size(120, 38)) == before
    view.zoomed = True
    strip = text(view, model, Size(120, 38))[1]
    assert strip.startswith("phases")
    assert strip.count("╞") > 15


def test_phases_come_from_the_server() -> None:
    view, model = Charts(), Model()
    model.take(machine(1, 0), T, 0.0)
    model.answers["/phases"] = Answer(phases("warmup", since=T - 40), None, 5.0)
    assert "/phases" in view.wants(model)
    view.zoomed = True
    assert "warmup" in "".join(text(view, model, Size(120, 38)))
    many = model_of(32)
    assert "/phases" not in Charts().wants(many), "where they are not drawn"


RISES, LEVELS = st.sampled_from([0.1, 0.5, 2.0, 9.0]), st.sampled_from([None, 0, 0, 11 << 30])
TICKS = st.lists(st.tuples(RISES, LEVELS, st.booleans(), st.booleans()), min_size=3, max_size=20)


@settings(max_examples=60)
@given(TICKS, st.sampled_from(WINDOWS_SECONDS[:3]), st.sampled_from(["memory", "temperature"]))
def test_what_is_kept_is_what_would_be_drawn(
    ticks: list[tuple[float, int | None, bool, bool]], window: int, metric: str
) -> None:
    """One view received every sample, or all but some; another one loads the history for the first time."""
    model, view, time = Model(), Charts(), T
    view.window, view.metric = window, metric
    for rise, used, seen, told in ticks:
        time += rise
        snapshot = machine(2, 0)
        for chip in snapshot["chips"]:
            chip["memory"]["dram"]["used"] = used
            chip["telemetry"]["temperature_c"] = 40.0 if used is None else 50.0 + used / (1 << 30)
        model.take(snapshot, time, time)
        if told:
            before = {"chip": "880001", "kind": "l1_at_once", "time": [time - 8], "last": [0.0], "max": [9e7]}
            model.past.fill("880001", {"step": 1, "series": [before]})  # type: ignore[typeddict-item]
        fresh = Charts()
        fresh.window, fresh.metric = window, metric
        if seen:
            size = Size(60, 5)  # not high enough for charts
            assert view.rows(model, size, Characters()) == fresh.rows(model, size, Characters())

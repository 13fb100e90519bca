# SPDX-License-Identifier: Apache-2.0
"""The lines around a view, the help, and the effects of keys and clicks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.screens import picture_of as snapshot
from tests.unit.test_smi_properties import snapshots, width_of
from ttmem.show.text import Style
from ttmem.show.top.dashboard import Dashboard
from ttmem.show.top.dashboard_state import Model
from ttmem.show.top.frame import COMMON, age, footer, header, help_rows, tab_at
from ttmem.show.top.parts.data_feed import FeedUpdate
from ttmem.show.top.parts.rows import Characters, Row, Size, View, text_of
from ttmem.show.top.settings import Settings
from ttmem.show.top.start import views_of

Json = Any  # a document made by hand, or a part of one


class Plain:
    """A view that reports what happens to it."""

    kept = ("sort",)

    def __init__(self, name: str, takes: str = "") -> None:
        self.name, self._takes = name, takes
        self.keys = (("x", "does nothing"),)
        self.heard: list[Any] = []
        self.sort = "size"
        self.fails = False

    def wants(self, model: Model) -> list[str]:
        return [f"/{self.name}"]

    def rows(self, model: Model, size: Size, signs: Characters) -> list[Row]:
        if self.fails:
            raise ValueError("of no use")
        return [[(f"{self.name} {size.width}x{size.height}", "")]] * (size.height + 5)

    def press(self, key: str, model: Model) -> bool:
        self.heard.append(key)
        return key in self._takes.split()

    def click(self, x: int, y: int, model: Model) -> bool:
        self.heard.append((x, y))
        return True


@pytest.fixture
def dashboard(folder: Path) -> Dashboard:
    views = [Plain("Overview"), Plain("Charts", "up d q"), Plain("Telemetry")]
    made = Dashboard(Model(), views, Settings(str(folder / "top.json")))
    made.model.take(snapshot("a", "b", "c"), 1.0, 1.0)
    return made


def shown(dashboard: Dashboard, width: int = 100, height: int = 10, clock: float = 1.0) -> list[str]:
    rows = dashboard.rows(Size(width, height), clock)
    assert [width_of(text_of(row)) for row in rows] == [width] * height
    return [text_of(row) for row in rows]


def test_the_view_stands_between_header_and_footer(dashboard: Dashboard) -> None:
    first, *body, last = shown(dashboard)
    assert first.startswith(" 1 Overview  2 Charts  3 Telemetry ")
    assert {line.rstrip() for line in body} == {"Overview 100x8"}
    assert last.endswith("h help  q quit")
    assert dashboard.wants() == ["/Overview"]
    for height in (1, 2, 3):
        assert len(shown(dashboard, 80, height)) == height


def test_what_the_header_says(dashboard: Dashboard) -> None:
    model = dashboard.model
    assert text_of(header(model, dashboard.views, 0, 100, 1.0)).endswith("box  no server  0.5 s  03:04:05 UTC")
    assert text_of(header(model, dashboard.views, 0, 60, 1.0)).rstrip().endswith("03:04:05 UTC"), (
        "the time stays longest"
    )
    assert model.snapshot is not None
    model.snapshot["server"] = {"pid": 9, "events": 1234567, "version": "1"}  # type: ignore[typeddict-item]
    model.snapshot["sources"] = [{"name": "server", "state": "ok"}, {"name": "shm", "state": "unreadable"}]  # type: ignore[typeddict-item]
    text = text_of(header(model, dashboard.views, 0, 160, 1.0))
    assert "tt-metal's counters unreadable  server pid 9, 1,234,567 events  box" in text
    assert "no server" not in text


def test_a_source_that_nobody_uses_is_not_told_of(dashboard: Dashboard) -> None:
    model = dashboard.model
    assert model.snapshot is not None
    model.snapshot["sources"] = [{"name": name, "state": "absent"} for name in ("sysfs", "shm", "umd")]  # type: ignore[typeddict-item]
    text = text_of(header(model, dashboard.views, 0, 160, 1.0))
    assert ("counters" in text, "tt-umd absent" in text) == (False, True), "but of one that was asked for"
    model.snapshot["chips"] = []
    missing = "driver files absent, tt-metal's counters absent, tt-umd absent"
    assert missing in text_of(header(model, dashboard.views, 0, 160, 1.0))


def test_the_age_of_a_picture() -> None:
    model = Model()
    assert age(model, 99.0) is None
    model.take(snapshot("a"), 0.0, 100.0)
    assert [age(model, 100.0 + old) for old in (0.0, 2.9, 7.0, 300.0, 7200.0)] == [None, None, "7 s", "5 min", "2 h"]
    model.interval = 10.0
    assert age(model, 107.0) is None, "it is no older than it should be"
    model.paused = True
    assert age(model, 107.0) == "7 s"
    assert "PAUSED 7 s" in text_of(header(model, [], 0, 80, 107.0))
    model.paused, model.interval = False, 0.5
    assert "7 s OLD" in text_of(header(model, [], 0, 80, 107.0))


def test_what_the_footer_says() -> None:
    model = Model()
    assert " ".join(text_of(footer(model, 80, Characters())).split()) == "space pause d chips t theme h help q quit"
    model.trouble = "there is no server"
    assert text_of(footer(model, 80, Characters())).startswith("there is no server")
    model.message = "x" * 200
    for width in (20, 40, 80, 120):
        text = text_of(footer(model, width, Characters()))
        assert width_of(text) == width
        assert "q quit" in text
    assert text_of(footer(model, 80, Characters("ascii"))).isascii()


def test_help(dashboard: Dashboard) -> None:
    dashboard.press("question_mark", "?")
    text = "\n".join(shown(dashboard, 100, 30))
    assert "Keys of Overview" in text
    assert "does nothing" in text
    assert all(what in text for _, what in COMMON)
    assert dashboard.wants() == []
    dashboard.press("q")
    assert not dashboard.done, "it closes the help"
    assert "Keys of" not in "\n".join(shown(dashboard, 100, 30))


def test_views_by_number_and_by_click(dashboard: Dashboard) -> None:
    dashboard.press("2")
    assert dashboard.view.name == "Charts"
    dashboard.press("9")
    assert dashboard.view.name == "Charts"
    for width in (80, 100):
        first = shown(dashboard, width)[0]
        for name in ("Overview", "Charts", "Telemetry"):
            dashboard.click(first.index(name) + 2, 0)
            assert dashboard.view.name == name
        assert tab_at(79, dashboard.views, 0, width) is None
    dashboard.click(5, 4)
    assert dashboard.view.heard[-1] == (5, 3)  # type: ignore[attr-defined]
    shown(dashboard, 100, 10)
    dashboard.click(5, 9)
    assert dashboard.view.heard[-1] == (5, 3), "a click on the footer is none on the view"  # type: ignore[attr-defined]


def test_a_view_has_the_first_word(dashboard: Dashboard) -> None:
    dashboard.press("down")
    assert dashboard.model.selected == "b"
    dashboard.press("2")
    dashboard.press("up")
    dashboard.press("q")
    dashboard.press("d")
    assert (dashboard.model.selected, dashboard.done) == ("b", False)
    dashboard.press("tab")
    assert dashboard.model.selected == "c"
    dashboard.press("shift+tab")
    assert dashboard.model.selected == "b"
    dashboard.press("ctrl+c")
    assert dashboard.done, "but not with Ctrl-C"


def test_refresh_pause_theme(dashboard: Dashboard) -> None:
    model = dashboard.model
    seen = []
    for key in (*["plus"] * 9, *["minus"] * 12):
        dashboard.press(key)
        seen.append(model.interval)
    assert (min(seen), max(seen), seen[0]) == (0.1, 10.0, 0.3)
    dashboard.press("space")
    assert model.paused
    dashboard.press("space")
    assert not model.paused
    themes = []
    for _ in range(4):
        dashboard.press("t")
        themes.append(dashboard.theme)
    assert sorted(themes) == ["dark", "high-contrast", "light", "mono"]


def test_a_theme_that_was_lent_is_not_remembered(dashboard: Dashboard, folder: Path) -> None:
    dashboard.press("t")
    dashboard.lend("mono")
    dashboard.press("2")
    assert (dashboard.theme, Settings(str(folder / "top.json")).get("theme", "")) == ("mono", "light")
    for _ in range(4):
        dashboard.press("t")
    assert Settings(str(folder / "top.json")).get("theme", "") == "mono", "it was chosen"


def test_naming_chips(dashboard: Dashboard) -> None:
    def type_(text: str) -> None:
        for character in text:
            dashboard.press(character, character)

    dashboard.press("d", "d")
    type_("b,q1")
    assert "b,q1_" in shown(dashboard)[-1]
    dashboard.press("backspace")
    dashboard.press("backspace")
    type_("c")
    dashboard.press("enter")
    assert [chip["chip"] for chip in dashboard.model.chips] == ["b", "c"]
    dashboard.press("d", "d")
    dashboard.press("ctrl+u")
    type_("x")
    dashboard.press("escape")
    assert dashboard.model.wanted == ("b", "c")
    dashboard.press("d", "d")
    type_(",nine")
    dashboard.press("enter")
    assert "there is no chip 'nine'" in shown(dashboard)[-1]
    dashboard.press("d", "d")
    dashboard.press("ctrl+u")
    dashboard.press("enter")
    assert len(dashboard.model.chips) == 3


def test_what_is_chosen_is_kept(dashboard: Dashboard, folder: Path) -> None:
    dashboard.press("3")
    dashboard.press("t")
    dashboard.view.sort = "age"  # type: ignore[attr-defined]
    dashboard.press("x")
    views = [Plain("Overview"), Plain("Charts"), Plain("Telemetry")]
    again = Dashboard(Model(), views, Settings(str(folder / "top.json")))
    assert (again.current, again.theme) == (2, "light")
    assert [view.sort for view in views] == ["size", "size", "age"]


@pytest.mark.parametrize("view", views_of("/nowhere"), ids=lambda view: str(view.name))
def test_the_whole_help_fits_on_a_small_screen(view: View) -> None:
    rows = help_rows(view, Size(80, 22))
    text = " ".join(text_of(row).strip() for row in rows)
    assert "any key closes this" in text
    for _, what in (*view.keys, *COMMON[:4]):
        assert " ".join(what.split()) in " ".join(text.split()), "wrapped, but not cut"


def test_a_view_that_needs_a_server_is_not_reopened_without_one(folder: Path) -> None:
    def opened() -> Dashboard:
        views = [Plain("Overview"), Plain("Charts"), Plain("Cores")]
        views[2].needs_server = True  # type: ignore[attr-defined]
        return Dashboard(Model(), views, Settings(str(folder / "top.json")))

    def take(dashboard: Dashboard, server: bool) -> None:
        found = {**snapshot("a"), "server": {"pid": 1, "since": "then", "events": 1} if server else None}
        dashboard.take(FeedUpdate(found, None, {}, 1.0, 1.0), [])  # type: ignore[arg-type]

    first = opened()
    first.press("3")
    alone = opened()
    assert alone.current == 2
    take(alone, server=False)
    assert alone.current == 0
    assert "Cores needs a server and there is none: this is the overview" in shown(alone, 120)[-1]
    take(alone, server=False)
    alone.press("x")
    assert opened().current == 2, "it is still the view that was chosen"
    alone.press("3")
    take(alone, server=False)
    assert alone.current == 2, "who chooses it gets it"
    take(with_server := opened(), server=True)
    assert with_server.current == 2
    take(alone := opened(), server=False)
    alone.press("1")
    assert opened().current == 0, "the overview was chosen"


def test_settings_that_make_no_sense(folder: Path) -> None:
    (folder / "top.json").write_text('{"view": 77, "theme": "pink", "Overview.sort": 5}')
    view = Plain("Overview")
    made = Dashboard(Model(), [view], Settings(str(folder / "top.json")))
    assert (made.current, made.theme, view.sort) == (0, "dark", "size")


def test_a_view_that_fails_is_told_of(dashboard: Dashboard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TTMEM_DEBUG", raising=False)
    dashboard.view.fails = True  # type: ignore[attr-defined]
    assert "Overview: the server's answer cannot be shown (ValueError: of no use)" in shown(dashboard, 120)[-1]
    dashboard.model.trouble = "no server"
    assert "Overview: internal error: ValueError: of no use" in shown(dashboard, 120)[-1]
    dashboard.model.trouble = None
    dashboard.press("3")
    assert "Telemetry" in shown(dashboard)[1]
    dashboard.press("1")
    monkeypatch.setenv("TTMEM_DEBUG", "1")
    with pytest.raises(ValueError, match="of no use"):
        shown(dashboard)


@settings(max_examples=60)
@given(snapshots(), st.integers(1, 200), st.booleans(), st.booleans())
def test_every_header_and_footer(snapshot: Json, width: int, ascii: bool, paused: bool) -> None:
    model = Model()
    model.take(Style(ascii=ascii).clean(snapshot), 0.0, 0.0)
    model.paused = paused
    views = [Plain("Overview"), Plain("Charts")]
    for row in (
        header(model, views, 1, width, 50.0),
        footer(model, width, Characters("ascii" if ascii else "braille")),
    ):
        assert width_of(text_of(row)) == width
        assert text_of(row).isascii() or not ascii

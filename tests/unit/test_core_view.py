# SPDX-License-Identifier: Apache-2.0
"""The view of cores: its requests, its screens character by character, and its keys.

`make screens` regenerates the files in tests/data/top; then read the diff.
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.l1_accounts import Account
from tests.screens import INNER, beside, checked, files_of, forms, lines
from tests.unit.test_l1_text import SCENES, answer, answers, clash, decode, legacy
from ttmem.documents import unknown_rows as blank
from ttmem.model.events import Allocated
from ttmem.model.geometry import BOARDS
from ttmem.model.kinds import Kind
from ttmem.show.top.dashboard_state import Answer, Model
from ttmem.show.top.parts.heat_map import HEADROOM, USED
from ttmem.show.top.parts.rows import HEAT, Characters, Row, Size
from ttmem.show.top.views.core_view import Cores

Json = Any  # a document made by hand, or a part of one


def picture_of(server: bool = True, chips: int = 2) -> Json:
    snapshot: Json = blank.snapshot("2026-01-02T03:04:05.000Z", "box")
    snapshot["chips"] = [{**blank.chip(f"{77 + number}", board="n150"), "kmd": number} for number in range(chips)]
    snapshot["server"] = {"pid": 99, "version": "1.2.3", "events": 5} if server else None
    why = "no ttmem server answers on /run/ttmem/ttmem.sock; start one with `ttmem serve`"
    snapshot["sources"] = [] if server else [{"name": "server", "state": "not running", "detail": why}]
    return snapshot


def asked(view: Cores, model: Model) -> list[str]:
    """The data about cores that the view requests. If there is room, it also draws the history."""
    return [path for path in view.wants(model) if path.startswith("/cores?")]


class Screen:
    """The view with a model in which every request is answered like a server does, from one account."""

    def __init__(
        self, account: Account | None, size: Size = Size(120, 38), board: str | None = "n150", **snapshot: Any
    ):
        self.model, self.view, self.size, self.signs = Model(), Cores(), size, Characters()
        self.model.take(picture_of(**snapshot), 0.0, 0.0)
        self.account, self.board = account, board

    def styled(self) -> list[Row]:
        for _ in range(2):
            for path in asked(self.view, self.model):
                query = {name: values[0] for name, values in parse_qs(urlsplit(path).query).items()}
                assert self.account is not None
                if query["chip"] == "77":
                    data = answer(self.account, query.get("core"), self.board)
                    self.model.answers[path] = Answer(data, None, 0.0)
            rows = self.view.rows(self.model, self.size, self.signs)
        return rows

    def rows(self) -> list[str]:
        return lines(self.styled())

    def press(self, *keys: str) -> list[str]:
        for key in keys:
            assert self.view.press(key, self.model), key
            self.rows()
        return self.rows()

    @property
    def asked(self) -> str | None:
        (path, *_) = self.view.wants(self.model)
        return parse_qs(urlsplit(path).query).get("core", [None])[0]


@pytest.mark.parametrize("scene", SCENES)
def test_the_screen(scene: str) -> None:
    """Accounts that test_top_screens does not have."""
    make, board = SCENES[scene]
    account = make()

    def draw(size: Size, signs: Characters) -> list[Row]:
        screen = Screen(account, size, board)
        screen.signs = signs
        return screen.styled()

    beside(f"cores-{scene}", forms(draw))


def test_no_screen_is_left_over() -> None:
    assert files_of("cores") == {f"cores-{scene}" for scene in SCENES}


@pytest.mark.parametrize("size", INNER)
def test_one_look_says_who_is_on_both_sides_of_the_gap(size: str) -> None:
    screen = Screen(decode(), INNER[size])
    text = "\n".join(screen.rows())
    assert "kv_cache, pid 1" in text
    assert "program 2 ttnn::matmul, pid 1" in text
    assert "program 3 ttnn::conv2d" in text  # cached, with less headroom
    assert "headroom 974.2 KiB" in text
    assert "largest free block 974.2 KiB" in text


def test_arrows_and_clicks_choose_a_core() -> None:
    screen = Screen(decode())
    screen.rows()
    assert screen.asked == "0,0"
    assert "core 2,1" in "\n".join(screen.press("right", "right", "down"))
    assert screen.asked == "2,1"
    screen.press("up", "up", "left", "left", "left")
    assert screen.asked == "0,0"
    for _ in range(20):
        screen.press("right", "j")
    assert screen.asked == "7,7"
    text = screen.rows()
    line = next(number for number, row in enumerate(text) if row.startswith("  5 "))
    x = text[line].index("20%", text[line].index("20%") + 1)  # cells are as large as the room allows
    cell = x - text[line].index("20%")
    assert screen.view.click(4 + 3 * cell + 1, line, screen.model)
    assert "core 3,5" in "\n".join(screen.rows())
    dispatch = next(number for number, row in enumerate(text) if row.startswith("  8 "))
    assert not screen.view.click(4 + 3 * cell + 1, dispatch, screen.model)
    assert not screen.view.click(0, 0, screen.model)


def test_the_heat_map_shows_use_or_headroom() -> None:
    screen = Screen(decode())
    used = screen.rows()
    headroom = screen.press("m")
    assert screen.view.heat == HEADROOM
    # 424 KiB of 1464 are used. 974 KiB of the 1361 for programs and buffers are free between the two.
    assert re.match(r"  0 \[ +29% *\] +29% +29%", next(row for row in used if row.startswith("  0 ")))
    assert re.match(r"  0 \[ +71% *\] +71% +71%", next(row for row in headroom if row.startswith("  0 ")))
    screen.press("m")
    assert screen.view.heat == USED


def test_w_goes_to_the_core_with_the_least_headroom() -> None:
    screen = Screen(decode())
    screen.rows()
    screen.press(*["down"] * 6)
    assert screen.asked == "0,6"
    text = "\n".join(screen.press("w"))
    assert screen.asked == "0,0"
    assert "(least headroom)" in text


def test_dispatch_cores_are_marked_and_harvested_ones_counted() -> None:
    text = Screen(decode()).rows()
    assert re.match(r"  8 ( +D){8} ", next(row for row in text if row.startswith("  8 ")))
    legend = " ".join(row.partition("│")[0].strip() for row in text)
    assert "8 cores switched off" in legend


def test_a_clash_is_red() -> None:
    screen = Screen(clash(), board="p150")
    styles = {style for row in screen.styled() for text, style in row if "97!" in text}
    assert styles == {"heat5", "title"}  # the selected core keeps its sign


def test_the_grounds_follow_the_numbers() -> None:
    """Every number has the background colour that the legend below the grid shows for it."""
    limits = (10, 25, 50, 75, 90, 101)
    for make, board in SCENES.values():
        screen = Screen(make(), Size(200, 60), board)
        for row in screen.styled():
            for text, style in row:
                for number in re.findall(r" (\d+)% ", text) if style in HEAT and "<" not in text else ():
                    step = HEAT.index(style)
                    assert ([0, *limits][step]) <= int(number) <= limits[step]


@pytest.mark.parametrize(("width", "height"), [(80, 22), (120, 38), (200, 58), (300, 78)])
def test_cells_grow_with_the_window(width: int, height: int) -> None:
    """The grid fills its half in at least one direction, and a click finds every core."""
    screen = Screen(decode(), Size(width, height))
    text = screen.rows()
    places = [
        (row, at.start())
        for row, line in enumerate(text)
        if row
        for at in re.finditer(r"\b29(?=%|\]| )", line[: width // 2])
    ]
    form = screen.view._form
    assert form is not None
    high, wide = form.lines * form.cell.height / height, form.width / (width / 2)
    assert width < 120 or max(high, wide) >= 0.7
    assert len(places) >= 32
    for number, (y, x) in enumerate(places[:32]):
        assert screen.view.click(x, y, screen.model)
        assert screen.view._core == (number % 8, number // 8)


@pytest.mark.parametrize("charts", ["block", "ascii"])
def test_the_gap_is_drawn_to_scale_up_to_the_wall(charts: str) -> None:
    screen = Screen(decode())
    screen.signs = Characters(charts)
    (row,) = [row for row in screen.rows() if re.search(r"[-─] headroom 974", row)]
    begin, end = (row.index(sign) for sign in ("<>" if charts == "ascii" else "├┤"))
    strip = 120 - row.index("|" if charts == "ascii" else "│") - 2
    assert abs((end - begin) / strip - 974.2 / 1464) < 2 / strip + 0.01


def test_what_is_not_exact_says_so() -> None:
    screen = Screen(legacy())
    text = " ".join(" ".join(row.partition("│")[0] for row in screen.rows()).split())
    assert "used at least 6.5 MiB" in text
    assert "from the table of boards" not in text
    screen.account = Account(BOARDS["n150"])
    screen.account.buffer(1400000, 2048)
    text = " ".join(" ".join(row.partition("│")[0] for row in screen.rows()).split())
    assert "used 6.6 MiB of" in text
    assert "sizes from the table of boards" in text


def test_where_the_wall_is_may_not_be_known() -> None:
    """A buffer without an address may be lower than all buffers with one."""
    account = decode()
    account.apply(Allocated(0, Kind.L1, 0, 4096))
    text = "\n".join(Screen(account).rows())
    assert re.search(r"least headroom not known ", text)
    assert re.search(r"lowest buffer +- not known", text)
    assert re.search(r"highest end +0xf5900 program 3 ttnn::conv2d", text)
    assert "? 1 allocations are not in the map" not in text
    assert "? 1 allocation is not in the map: no address in L1 was reported" in text


def test_without_a_server_or_a_chip_it_says_so() -> None:
    screen = Screen(None, server=False)
    assert screen.view.wants(screen.model) == []
    assert "start one with `ttmem serve`" in " ".join(" ".join(screen.rows()).split())
    assert "There is no chip." in " ".join(Screen(None, chips=0).rows())


def test_another_chip_is_another_question() -> None:
    screen = Screen(decode())
    screen.rows()
    screen.model.choose(1)
    assert "asking" in " ".join(screen.rows())
    paths = screen.view.wants(screen.model)
    assert all("chip=78" in path for path in paths)
    for path in paths:
        screen.model.answers[path] = Answer(None, "the server reports: there is no chip '78'", 0.0)
    assert "there is no chip '78'" in " ".join(screen.rows())


def test_a_smaller_chip_has_no_such_core() -> None:
    """The next chip does not have the selected core: its last core is selected instead."""
    screen = Screen(clash(), board="p150")
    for _ in range(12):
        screen.press("right", "down") if screen.rows() else None
    assert screen.asked == "10,9"
    screen.model.choose(1)
    with_core, without = asked(screen.view, screen.model)
    screen.model.answers[with_core] = Answer(None, "the server reports: there is no core 10,9", 0.0)
    screen.model.answers[without] = Answer({**answer(decode()), "chip": "78"}, None, 0.0)
    assert "core 7,7" in " ".join(lines(screen.view.rows(screen.model, screen.size, screen.signs)))
    assert screen.asked == "7,7"


KEYS = ["left", "right", "up", "down", "m", "w", "pagedown", "pageup"]


@settings(max_examples=60)
@given(
    answers(), st.integers(40, 300), st.integers(0, 80), st.sampled_from(["braille", "block", "ascii"]),
    st.lists(st.sampled_from(KEYS), max_size=6),
)  # fmt: skip
def test_every_screen_fits(found: Json, width: int, height: int, charts: str, keys: list[str]) -> None:
    model, view = Model(), Cores()
    model.take(picture_of(), 0.0, 0.0)
    for key in [*keys, "m"]:
        for path in asked(view, model):
            model.answers[path] = Answer(found, None, 0.0)
        rows = view.rows(model, Size(width, height), Characters(charts))
        text = checked(rows, Size(width, height), charts == "ascii")
        assert "None" not in "".join(text)
        view.press(key, model)

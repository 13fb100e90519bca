# SPDX-License-Identifier: Apache-2.0
"""Every view in every size of screen, of machines of every size: text, ASCII, and colours.

`make screens` regenerates the files in tests/data/top; then read the diff.
A file has the sizes one after the other; styles, which do not depend on the size, have only the smallest.
"""

from __future__ import annotations

import re

import pytest
from rich.style import Style as Look

from tests.screens import FILES, KEYS, QUIET, SIZES, VIEWS, beside, checked, contrast, plain, styled, whole
from tests.worlds import CHIPS
from ttmem.show.top.parts.rows import Row
from ttmem.show.top.themes import look_of

CHARTS = ("braille", "ascii")
THEMES = ("dark", "light")
every_screen = pytest.mark.parametrize(("view", "chips"), [(view, chips) for chips in CHIPS for view in VIEWS])


@every_screen
def test_the_screens(view: str, chips: int) -> None:
    beside(f"{view.lower()}-{chips}", {size: plain(rows) for size, rows in whole(view, chips, "braille").items()})


@every_screen
def test_the_screens_in_ascii(view: str, chips: int) -> None:
    beside(f"{view.lower()}-{chips}-ascii", {size: plain(rows) for size, rows in whole(view, chips, "ascii").items()})


@every_screen
def test_the_styles(view: str, chips: int) -> None:
    beside(f"{view.lower()}-{chips}-styles", {"80x24": styled(whole(view, chips, "braille")["80x24"])})


def used() -> list[str]:
    """All styles, and styles over styles, that are on any of the screens."""
    screens = [rows for view in VIEWS for chips in CHIPS for rows in whole(view, chips, "braille").values()]
    return sorted({name for rows in screens for row in rows for _, name in row})


def test_what_they_look_like() -> None:
    """Together with the styles above, this is the appearance in each theme."""
    looks = {theme: "".join(f"{name or 'plain':20} {_look(theme, name)}\n" for name in used()) for theme in THEMES}
    beside("looks", looks)


def _look(theme: str, style: str) -> str:
    """Foreground, background and weight, as the terminal gets them."""
    look = Look.parse(look_of(theme, style))
    assert look.color is not None
    assert look.bgcolor is not None
    return f"{look.color.name} on {look.bgcolor.name}{' bold' if look.bold else ''}"


def test_no_screen_is_left_over() -> None:
    wanted = {f"{v.lower()}-{chips}{form}" for v in VIEWS for chips in CHIPS for form in ("", "-ascii", "-styles")}
    found = {file.stem for file in FILES.iterdir()}
    assert {name for name in found if name == "looks" or name.split("-")[1].isdecimal()} == wanted | {"looks"}


@pytest.mark.parametrize("charts", CHARTS)
@every_screen
def test_laws(view: str, chips: int, charts: str) -> None:
    screens = whole(view, chips, charts)
    numbers = set(re.findall(r"\d+", plain(screens["200x60"])))
    for name, rows in screens.items():
        size = SIZES[name]
        texts = checked(rows, size, charts == "ascii")
        assert len(rows) == size.height
        assert _chosen(rows[0]) == ["Allocations" if view in KEYS else view]
        text = "\n".join(texts)
        assert not re.search(r"\bNone\b|\bnan\b|\binf\b|\bTrue\b|\bFalse\b|internal error|asking\.\.\.", text)
        assert set(re.findall(r"(\d+)[…~]", text)) <= numbers, "a number was cut"
        assert all(int(share) <= 100 for share in re.findall(r"(?<!\w)(\d+)%", text))


def _chosen(head: Row) -> list[str]:
    """The tabs that stand out."""
    return [text.split()[1] for text, style in head if style == "title"]


@pytest.mark.parametrize("theme", THEMES)
@every_screen
def test_all_of_it_can_be_read(theme: str, view: str, chips: int) -> None:
    """Also combined styles, such as a warning in the selected row. The name of the current view stands out."""
    for rows in whole(view, chips, "braille").values():
        for name in {name for row in rows for text, name in row if text.strip()}:
            if not QUIET & set(name.split()):
                assert contrast(Look.parse(look_of(theme, name))) >= 3.0, name
        tabs = [Look.parse(look_of(theme, name)) for text, name in rows[0][:6]]
        assert sum(tab.bgcolor != tabs[0].bgcolor for tab in tabs) in (1, 5)

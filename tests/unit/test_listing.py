# SPDX-License-Identifier: Apache-2.0
"""Lists: columns that fit, a cursor that stays with its row, a line to type into."""

from __future__ import annotations

import string
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.keys import _character_to_key

from ttmem.show.text import Style
from ttmem.show.top.parts.listing import Column, Cursor, Prompt, arrange, character, clipped, heading, line
from ttmem.show.top.parts.rows import Characters, Row

COLUMNS = [
    Column("id", "ID", 5, 5, 0, right=True, down=True),
    Column("name", "NAME", 6, 20, 1),
    Column("extra", "EXTRA", 8, 8, 10),
    Column("tail", "TAIL", 4, 10, 2),
]


def text_of(row: Row) -> str:
    return "".join(text for text, _ in row)


def width_of(text: str) -> int:
    """Cells on a terminal, by the Unicode tables alone."""
    wide = sum(unicodedata.east_asian_width(character) in ("W", "F") for character in text)
    return len(text) + wide - sum(unicodedata.category(character) in ("Mn", "Me") for character in text)


def names(width: int) -> list[str]:
    return [one.column.name for one in arrange(COLUMNS, width)]


def test_the_least_important_column_goes_first() -> None:
    assert names(5) == ["id"]
    assert names(12) == ["id", "name"]
    assert names(17) == ["id", "name", "tail"]
    assert names(45) == ["id", "name", "tail"], "what is good to have waits until the others are whole"
    assert names(46) == ["id", "name", "extra", "tail"]


@given(st.integers(1, 300))
def test_columns_fill_the_width(width: int) -> None:
    placed = arrange(COLUMNS, width)
    ends = [one.x + one.width for one in placed]
    assert ends[-1] == max(5, width)
    assert [one.x for one in placed[1:]] == [end + 1 for end in ends[:-1]], "one space between them"
    assert all(one.width >= one.column.low for one in placed)


anything = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cf", "Cs", "Zl", "Zp", "Cn", "Co"]))


@given(st.lists(anything, min_size=4, max_size=4), st.integers(5, 120), st.booleans())
def test_every_line_is_as_wide_as_it_may_be(texts: list[str], width: int, ascii: bool) -> None:
    placed = arrange(COLUMNS, width)
    row = line([(text, "") for text in texts[: len(placed)]], placed, width, Style(width, ascii=ascii))
    assert width_of(text_of(row)) == width


def test_a_line_keeps_its_styles() -> None:
    row = line([("12", "bad"), ("abc", ""), ("z", "")], arrange(COLUMNS, 17), 17, Style(17))
    assert row == [("   12 ", "bad"), ("abc    z   ", "")]
    assert clipped(row, 8) == [("   12 ", "bad"), ("ab", "")]


@pytest.mark.parametrize(
    ("charts", "down", "mark"), [("ascii", True, "v"), ("ascii", False, "^"), ("block", True, "▾")]
)
def test_the_title_that_is_sorted_by(charts: str, down: bool, mark: str) -> None:
    assert text_of(heading(arrange(COLUMNS, 17), 17, Characters(charts), "name", down)) == f"   ID NAME{mark}  TAIL"


def test_before_it_is_moved_the_cursor_is_on_the_first_row() -> None:
    cursor = Cursor()
    cursor.look(["a", "b", "c"], 10)
    cursor.look(["c", "a", "b"], 10)
    assert cursor.place == 0


def test_the_cursor_stays_with_its_row() -> None:
    cursor = Cursor()
    cursor.look("abcde", 10)
    for key in ("down", "j", "down", "k"):
        assert cursor.press(key)
    for keys, place in (("abcde", 2), ("cabde", 0), ("deabc", 4), ("deab", 3), ("d", 0), ("", 0)):
        cursor.look(list(keys), 10)
        assert cursor.place == place, keys


def test_what_is_seen_follows_the_cursor() -> None:
    cursor = Cursor()
    keys = list(range(100))

    def seen(*presses: str) -> tuple[int, int, int]:
        for key in presses:
            assert cursor.press(key)
        found = cursor.look(keys, 10)
        return found.start, found.stop, cursor.place

    assert seen() == (0, 10, 0)
    assert seen("pagedown") == (1, 11, 10)
    assert seen("up") == (1, 11, 9)
    assert seen("end") == (90, 100, 99)
    assert seen("down") == (90, 100, 99)
    assert seen("pageup", "pageup") == (79, 89, 79)
    assert seen("home", "up") == (0, 10, 0)
    assert not cursor.press("x")
    seen("end")
    assert cursor.look(keys, 30) == range(70, 100), "a larger screen is filled"


@given(st.lists(st.sampled_from(["up", "down", "pageup", "pagedown", "home", "end"])), st.integers(0, 50))
def test_the_cursor_is_always_seen(presses: list[str], total: int) -> None:
    cursor = Cursor()
    for key in ["", *presses]:
        cursor.press(key)
        seen = cursor.look(list(range(total)), 7)
        assert len(seen) == min(7, total)
        assert cursor.place in seen or total == 0


def test_a_page_of_a_longer_list() -> None:
    """Only some of its rows are known. The cursor may move to unknown rows."""
    cursor = Cursor()
    cursor.look(list(range(30)), 10, 0, 1000)
    cursor.press("end")
    assert cursor.look(list(range(30)), 10, 0, 1000) == range(990, 1000)
    assert cursor.look(list(range(970, 1000)), 10, 970, 1000) == range(990, 1000)
    assert cursor.place == 999


def test_typing() -> None:
    prompt = Prompt("Filter:")
    for key in ("p", "y", "t", "backspace", "T", "full_stop", "underscore", "minus", "slash", "space", "1", "pageup"):
        assert prompt.press(key) is None
    assert prompt.text == "pyT._-/ 1"
    assert text_of(prompt.row(80, Style(80))).startswith("Filter: pyT._-/ 1")
    assert prompt.press("ctrl+u") is None
    assert prompt.text == ""
    assert prompt.press("enter") is True
    assert prompt.press("escape") is False


def test_the_end_of_a_long_text_is_seen() -> None:
    prompt = Prompt("F:", "x" * 50 + "end")
    assert "end" in text_of(clipped(prompt.row(20, Style(20)), 20))


@pytest.mark.parametrize("one", [*string.punctuation, " ", "a", "Z", "7", "é", "模", "§", "→"])
def test_the_names_of_characters_are_textuals(one: str) -> None:
    """Textual sends "full_stop" for a typed dot; conversion in both directions."""
    assert character(_character_to_key(one)) == one

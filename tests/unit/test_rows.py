# SPDX-License-Identifier: Apache-2.0
"""Rows of spans: how wide they are, cut, filled, and made from lines of the text screens."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.test_smi_properties import width_of as cells_of
from ttmem.show.text import BOLD, DIM, GREEN, RED, YELLOW, Style, cells
from ttmem.show.top.parts.rows import (
    STYLES,
    Characters,
    FineBars,
    Row,
    fitted,
    over,
    shortened,
    spans,
    text_of,
    width_of,
)

texts = st.text(st.sampled_from("ab 模型█░…é́"), max_size=12)
NAMES = {RED: "bad", YELLOW: "warn", GREEN: "good", DIM: "dim", BOLD: "bold", "": ""}
rows = st.lists(st.tuples(texts, st.sampled_from(STYLES)), max_size=6)


@given(rows, st.integers(0, 40), st.sampled_from(["", "select"]))
def test_a_fitted_row_is_as_wide_as_asked(row: Row, width: int, style: str) -> None:
    made = fitted(row, width, style)
    # A wide character with room for only half of it is replaced by a space.
    assert width_of(made) == cells_of(text_of(made)) == width
    whole = text_of(row)
    assert text_of(made).startswith(whole) if cells_of(whole) <= width else True


def test_what_is_cut_keeps_its_style() -> None:
    assert fitted([("abc", "warn"), ("def", "")], 4) == [("abc", "warn"), ("d", "")]
    assert fitted([("abc", "warn")], 5, "select") == [("abc", "warn"), ("  ", "select")]
    assert fitted([("abc", "")], 5) == [("abc  ", "")]
    assert fitted([], 2) == [("  ", "")]


@given(st.text(st.sampled_from("ab 12,模"), max_size=20), st.integers(0, 24), st.booleans())
def test_what_is_shortened_has_whole_numbers(text: str, width: int, ascii: bool) -> None:
    style = Style(ascii=ascii)
    made = shortened(text, width, style)
    assert cells_of(made) <= width
    assert made == text if cells_of(text) <= width else len(made) <= len(style.cut(text, width))
    numbers = re.findall(r"\d+", text)
    assert re.findall(r"\d+", made) == numbers[: len(re.findall(r"\d+", made))]


def test_a_style_over_others() -> None:
    assert over([("a", ""), ("b", "warn")], "select") == [("a", "select"), ("b", "warn select")]


@given(st.lists(st.tuples(st.text(st.sampled_from("ab模 "), min_size=1, max_size=5), st.sampled_from(list(NAMES)))))
def test_lines_of_the_text_screens(parts: list[tuple[str, str]]) -> None:
    style = Style(colour=True)
    row = spans("".join(style.paint(text, colour) for text, colour in parts))
    assert text_of(row) == "".join(text for text, _ in parts)
    painted = [name for text, name in row for _ in text]
    assert painted == [NAMES[colour] for text, colour in parts for _ in text]


def test_bars_have_a_track() -> None:
    for ascii in (False, True):
        style = Style(colour=True, ascii=ascii)
        bar, colour = style.bar(0.3, 10)
        row = spans(f"[{style.paint(bar, colour)}] 30%")
        assert [(len(text), name) for text, name in row] == [(1, ""), (3, "good"), (7, "track"), (5, "")]
        assert spans(style.paint(*style.bar(0.0, 4))) == [(style.bar(0.0, 4)[0], "track")]
    assert spans("\x1b[33mwait...\x1b[0m") == [("wait...", "warn")], "points of a sentence are no track"


def test_signs() -> None:
    assert [Characters(charts).ascii for charts in ("braille", "block", "ascii")] == [False, False, True]
    assert all(re.fullmatch("[a-z0-9_]*", name) for name in STYLES)


@given(st.floats(0, 1.2), st.floats(0, 1.2), st.integers(1, 40))
def test_fine_bars_say_no_less_than_a_cell_of_eight(part: float, other: float, width: int) -> None:
    """As wide as allowed, never longer for a smaller value, and empty or full only if the value is."""
    bars = [FineBars(80).bar(value, width) for value in sorted((part, other))]
    eighths = [sum(8 if sign == "█" else " ▏▎▍▌▋▊▉".find(sign) for sign in text.rstrip("░")) for text, _ in bars]
    assert [cells(text) for text, _ in bars] == [width, width]
    assert eighths[0] <= eighths[1]
    for value, found in zip(sorted((part, other)), eighths):
        assert abs(found - 8 * width * min(1.0, value)) <= 1
        assert (found == 0) is (value == 0)
        assert (found == 8 * width) is (value >= 1)
    plain = Style(80, ascii=True)
    assert FineBars(80, ascii=True).bar(part, width) == plain.bar(part, width), "in ASCII there are no parts of cells"
    assert FineBars(80).bar(None, width) == plain.bar(None, width)

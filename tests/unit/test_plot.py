# SPDX-License-Identifier: Apache-2.0
"""Curves in cells: the values that are read back from the dots are those that were drawn."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ttmem.show.top.parts.chip_history import ColumnCache, Columns, Range
from ttmem.show.top.parts.plot import (
    NOT_ZERO,
    Curve,
    Frame,
    chart,
    dots,
    draw,
    look,
    peak_lines,
    peak_of,
    plot_width,
    spark,
)
from ttmem.show.top.parts.rows import Characters, Row, width_of

BRAILLE, BLOCK, ASCII = Characters(), Characters("block"), Characters("ascii")
# Where the eight dots of a braille sign are: Unicode numbers them by column, the seventh and eighth below.
PLACES = ((0, 3), (0, 2), (0, 1), (1, 3), (1, 2), (1, 1), (0, 0), (1, 0))  # column, height

ranges = st.none() | st.tuples(st.floats(0, 120), st.floats(0, 60)).map(lambda pair: (pair[0], pair[0] + pair[1]))


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Local time differs from UTC."""
    monkeypatch.setenv("TZ", "XYZ-5:30")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def line(values: list[Range | None], top: float = 100.0, style: str = "dram", sign: str = "*") -> Curve:
    """A line whose first column is before the window."""
    return Curve(Columns(values, 1.0, -1, 0), top, style, sign)


def text(rows: list[Row]) -> list[str]:
    return ["".join(part for part, _ in row) for row in rows]


def dots_of(rows: list[str]) -> dict[int, set[int]]:
    """The heights of the dots in each column, read from the characters."""
    out: dict[int, set[int]] = {}
    for row, signs in enumerate(rows):
        for x, sign in enumerate(signs):
            for bit, (column, height) in enumerate(PLACES):
                if sign != " " and (ord(sign) - 0x2800) >> bit & 1:
                    out.setdefault(2 * x + column, set()).add(4 * (len(rows) - 1 - row) + height)
    return out


@settings(max_examples=150)
@given(st.lists(ranges, min_size=3, max_size=41).filter(lambda found: len(found) % 2), st.integers(1, 12))
def test_what_is_drawn_can_be_read_back(values: list[Range | None], height: int) -> None:
    rows = text(draw([line(values)], len(values) // 2, height, BRAILLE))
    found, a_dot = dots_of(rows), 100 / (4 * height)
    for column, here in enumerate(values[1:]):
        if here is None:
            assert column not in found, "a gap is a gap"
            continue
        # A value that was elsewhere in the column before had to pass the nearest of its earlier values.
        before = (values[column] if column else None) or here
        low, high, near = min(here[0], before[1]), max(here[1], before[0]), a_dot + 1e-9
        assert min(found[column]) * a_dot <= min(low, 100) + near
        assert (min(found[column]) + 1) * a_dot >= min(low, 100) - near
        assert (max(found[column]) + 1) * a_dot >= min(high, 100) - near
        assert max(found[column]) * a_dot <= min(high, 100) + near
        assert found[column] == set(range(min(found[column]), max(found[column]) + 1)), "without holes"


@settings(max_examples=60)
@given(st.floats(0, 99.9), st.integers(1, 10), st.sampled_from([BRAILLE, BLOCK, ASCII]))
def test_what_does_not_change_is_flat(value: float, height: int, signs: Characters) -> None:
    columns: list[Range | None] = [(value, value)] * (20 * dots(signs)[0] + 1)
    rows = text(draw([line(columns)], 20, height, signs))
    assert [row for row in rows if row.strip()] == [max(rows)]
    assert len(set(max(rows))) == 1
    assert rows.index(max(rows)) == height - 1 - int(value / 100 * height)


def test_signs_of_each_kind() -> None:
    rise: list[Range | None] = [(value, value) for value in (0, 0, 25, 50, 75, 100, 100)]
    assert text(draw([line(rise)], 3, 1, BRAILLE)) == ["⡠⠊⠉"]
    assert text(draw([line(rise)], 6, 2, BLOCK)) == ["  ▄▀▀▀", "▄▀    "]
    assert text(draw([line(rise)], 6, 4, ASCII)) == ["   ***", "  *   ", " *    ", "*     "]


def test_later_lines_lie_over_earlier_ones() -> None:
    flat: list[Range | None] = [(50, 50)] * 5
    both = draw([line(flat), line(flat, style="l1", sign="+")], 4, 1, ASCII)
    assert both == [[("++++", "l1")]]
    apart = draw([line(flat), line([(0, 0)] * 5, style="l1", sign="+")], 4, 2, ASCII)
    assert apart == [[("****", "dram")], [("++++", "l1")]]


def test_a_mark_and_a_peak_show_where_no_line_is() -> None:
    values: list[Range | None] = [None, (0, 0), (90, 90), None, (0, 0), (0, 0)]
    frame = Frame(0, 5, str, marks=[0, 3])
    rows = text(chart([line(values)._replace(peak=90)], 5, 4, ASCII, frame))
    assert rows == [".*.:.", ":* : ", "*  **", "  now"], "the fall is joined to nothing: there was a gap"
    late = [None] * 3 + values[2:]
    rows = text(chart([line(late)._replace(peak=90)], 6, 3, ASCII, Frame(0, 6, str)))
    assert rows[0] == "  * . ", "a peak begins where there is something that has one"


def test_a_limit_is_a_line() -> None:
    rows = chart([line([None] * 25)], 24, 4, ASCII, Frame(0, 5, str, limit=0.5, times=False))
    assert rows[1] == [("-" * 24, "bad")]


def test_the_axes() -> None:
    columns: list[Range | None] = [(50, 50)] * (2 * 48 + 1)
    labelled = line(columns)._replace(label="DRAM 50%")
    rows = text(chart([labelled], 56, 10, BRAILLE, Frame(0, 300, lambda part: f"{100 * part:.0f}%")))
    marks = {place: row[:8] for place, row in enumerate(rows) if row[:7].strip()}
    assert marks == {0: "   100%┤", 2: "    75%┤", 4: "    50%┤", 6: "    25%┤", 8: "     0%┤"}
    assert rows[-1].split() == ["-5m", "-3m20s", "-1m40s", "now"]
    assert rows[-1].index("-3m20s") == 8 + 48 // 3
    clock = text(chart([line(columns)], 56, 10, BRAILLE, Frame(1_794_800_040 - 21600, 1_794_800_040, str)))[-1]
    ends = [time.strftime("%H:%M", time.localtime(1_794_800_040 - hours * 3600)) for hours in (6, 4, 0)]
    assert clock.split() == [*ends[:2], ends[2] + "+05:30"], "a long window has the local time of day and its zone"


def test_a_line_says_what_it_is_at_its_end() -> None:
    inner = plot_width(80, 10)[1]
    high: list[Range | None] = [(90, 90)] * (inner + 1)
    lines = [line(high)._replace(label="DRAM 90%"), line(high, style="l1")._replace(label="L1 90%")]
    rows = text(chart(lines, 80, 10, ASCII, Frame(0, 300, str)))
    assert {row[8 + inner :].strip() for row in rows[:2]} == {"DRAM 90%", "L1 90%"}, "one below the other"


@settings(max_examples=100)
@given(
    st.lists(ranges, min_size=2, max_size=60),
    st.integers(1, 140),
    st.integers(1, 40),
    st.sampled_from([BRAILLE, BLOCK, ASCII]),
    st.booleans(),
    st.none() | st.floats(0, 1),
    st.lists(st.integers(-5, 200), max_size=3),
)
def test_every_chart_has_its_size(
    some: list[Range | None],
    width: int,
    height: int,
    signs: Characters,
    peaks: bool,
    limit: float | None,
    marks: list[int],
) -> None:
    count = plot_width(width, height)[1] * dots(signs)[0] + 1
    values = (some * count)[:count]
    peak = 70.0 if peaks else None
    lines = [line(values)._replace(peak=peak), line(values[::-1], 50.0, "l1", "+")]
    frame = Frame(1e9, 1e9 + 300, lambda part: f"{part:.2f}", limit, marks)
    rows = chart(lines, width, height, signs, frame)
    assert [width_of(row) for row in rows] == [width] * height
    assert chart(lines, width, height, signs, frame) == rows, "the same data, the same picture"
    if signs.ascii:
        assert "".join(text(rows)).isascii()


@settings(max_examples=60)
@given(st.lists(ranges, min_size=60, max_size=60), st.sampled_from([BRAILLE, BLOCK, ASCII]))
def test_cells_that_were_kept_are_those_drawn_anew(values: list[Range | None], signs: Characters) -> None:
    across, cells = dots(signs)[0], 10
    kept: ColumnCache[tuple[str, str]] = ColumnCache()
    sparks: ColumnCache[str] = ColumnCache()
    for end in range(cells * across + across, 60, across):
        first = end - cells * across - 1
        columns = Columns(values[first:end], 1.0, first, end - 1)
        one = Curve(columns, 100.0, "dram", "*")
        assert draw([one], cells, 5, signs, kept=kept) == draw([one], cells, 5, signs)
        assert spark(columns, 100.0, cells, signs, sparks) == spark(columns, 100.0, cells, signs)


@settings(max_examples=100)
@given(st.lists(ranges, min_size=25, max_size=25), ranges, st.floats(0, 100), st.sampled_from([BRAILLE, BLOCK, ASCII]))
def test_what_looks_the_same_is_drawn_the_same(
    values: list[Range | None], last: Range | None, peak: float, signs: Characters
) -> None:
    """Charts are cached until anything they depend on changes, so nothing else may change them."""
    count = 12 * dots(signs)[0] + 1
    frame, one = Frame(0, 300, str), line(values[:count])._replace(columns=Columns(values[:count], 1.0, -1, count - 2))
    other = one._replace(columns=one.columns._replace(ranges=[*values[: count - 1], last]), peak=peak)
    both = [(look([it], 12, 5, signs, frame), chart([it], 12, 5, signs, frame)) for it in (one, other)]
    assert both[0][0] != both[1][0] or both[0][1] == both[1][1]


def test_a_spark() -> None:
    values: list[Range | None] = [(9, 9), (0, 0), (1, 1), (50, 50), (100, 100), None, (200, 200)]
    columns = Columns(values, 1.0, -1, 0)
    assert spark(columns, 100.0, 6, BLOCK) == "▁▁▄█ █"
    assert spark(columns, 100.0, 6, ASCII) == "..=@ @"
    assert dots_of([spark(columns, 100.0, 3, BRAILLE)]) == {
        0: {0}, 1: {0}, 2: {0, 1}, 3: {0, 1, 2, 3}, 5: {0, 1, 2, 3}
    }  # fmt: skip


# -- the peak -----------------------------------------------------------------------------------------------------


def as_dots(rows: list[Row], signs: Characters, sign: str = "*") -> set[tuple[int, int]]:
    """(column of cells, height in rows of dots) of all dots; in ASCII mode of one character."""
    if signs is BRAILLE:
        return {(x // 2, height) for x, found in dots_of(text(rows)).items() for height in found}
    out = set()
    for row, signs_of_row in enumerate(text(rows)):
        for x, found in enumerate(signs_of_row):
            bits = " ▄▀█".index(found) if signs is BLOCK else int(found == sign)
            up = dots(signs)[1]
            out |= {(x, up * (len(rows) - 1 - row) + bit) for bit in range(up) if bits >> bit & 1}
    return out


@settings(max_examples=200)
@given(
    st.lists(ranges, min_size=2, max_size=41),
    st.floats(0, 50),
    st.integers(1, 12),
    st.sampled_from([BRAILLE, BLOCK, ASCII]),
)
def test_a_peak_line_is_in_the_row_of_dots_of_the_highest_value(
    some: list[Range | None], bottom: float, height: int, signs: Characters
) -> None:
    """Neither below the curve that reached it, nor above it."""
    width = 8
    values = (some * 20)[: width * dots(signs)[0] + 1]
    curve = line(values)._replace(bottom=bottom)
    peak = peak_of(curve.columns)
    alone = draw([curve], width, height, signs)
    lines = peak_lines([curve._replace(peak=peak)], height, signs, inside=True)
    with_peak = draw([curve], width, height, signs, peaks=lines)
    highest = max((dot for _, dot in as_dots(alone, signs)), default=None)
    if highest is None or not peak:
        assert with_peak == alone or lines == []
        return
    added = as_dots(with_peak, signs) - as_dots(alone, signs)
    added |= as_dots(with_peak, signs, ".") if signs.ascii else set()
    assert {dot for _, dot in added} <= {highest}
    drawn = {x for x, dot in as_dots(alone, signs) | added if dot == highest}
    begin = next(at for at, here in enumerate(values[1:]) if here is not None) // dots(signs)[0]
    step = 1 if signs is BRAILLE else 2
    assert drawn >= set(range(begin, width, step)), "it is seen in every cell, or every second one, whatever lies there"


def test_the_peak_of_each_curve_is_seen_in_its_colour_with_its_value() -> None:
    inner = plot_width(80, 12)[1]
    low: list[Range | None] = [(20, 20), (20, 38), *[(20.0, 20.0)] * (2 * inner - 1)]
    high: list[Range | None] = [(60, 60), (60, 81), *[(60.0, 60.0)] * (2 * inner - 1)]
    curves = [
        line(low)._replace(label="DRAM 20%", peak=38, peak_label="DRAM peak 38%"),
        line(high, style="l1")._replace(label="L1 60%", peak=81, peak_label="L1 peak 81%"),
    ]
    rows = chart(curves, 80, 12, BRAILLE, Frame(0, 300, lambda part: f"{100 * part:.0f}%"))
    for words, style in (("DRAM peak 38%", "dram"), ("L1 peak 81%", "l1")):
        row = next(row for row in rows if words in "".join(part for part, _ in row))
        dotted = [part for part, name in row if name == style and set(part) <= set("⠁⠂⠄⡀")]
        assert sum(map(len, dotted)) >= inner - 1, "beside the label, over the whole width but for the curve itself"
    assert next(place for place, row in enumerate(text(rows)) if "peak 38%" in row) == 11 - 1 - int(0.38 * 11)


def test_a_narrow_chart_has_the_value_in_the_peak_line() -> None:
    values: list[Range | None] = [(10, 10), (10, 90), *[(10.0, 10.0)] * 43]
    (first, *_) = text(chart([line(values)._replace(peak=90, peak_label="peak 90%")], 30, 5, BRAILLE, Frame(0, 9, str)))
    assert " peak 90% " in first


def test_a_curve_is_not_drawn_above_its_peak_because_of_what_was_before_the_window() -> None:
    values: list[Range | None] = [(90, 90), *[(10.0, 10.0)] * 8]
    rows = text(draw([line(values)], 8, 10, ASCII))
    assert [row for row in rows if row.strip()] == ["*" * 8]


# -- an axis that does not begin at 0 -------------------------------------------------------------------------------


def test_an_axis_that_does_not_begin_at_0_says_so() -> None:
    values: list[Range | None] = [(78, 79)] * 97
    curve = line(values, top=80)._replace(bottom=76)
    for times in (True, False):
        frame = Frame(0, 300, lambda part: f"{76 + 4 * part:.0f}", from_zero=False, times=times)
        rows = chart([curve], 56, 9, BRAILLE, frame)
        assert [row[0][1] for row in rows if NOT_ZERO in row[0][0]] == ["warn"]
        assert "76" in "".join(text(rows)), "the value at its beginning is there, too"
    assert NOT_ZERO not in "".join(text(chart([curve._replace(bottom=0)], 56, 9, BRAILLE, Frame(0, 300, str))))


def test_what_lies_below_the_axis_is_not_drawn_on_its_first_row() -> None:
    below: list[Range | None] = [(10, 10)] * 133
    main: list[Range | None] = [(78, 78)] * 133
    curves = [
        line(below, 80, "trace")._replace(bottom=76, label="trace 10"),
        line(main, 80)._replace(bottom=76, label="DRAM 78"),
    ]
    rows = chart(curves, 88, 9, BRAILLE, Frame(0, 300, str, from_zero=False))
    assert not any(name == "trace" and "trace" not in part for row in rows for part, name in row)
    assert "↓ trace 10" in "".join(text(rows))


def test_the_cursor_is_a_column_through_everything() -> None:
    values: list[Range | None] = [(0, 100)] * 5 + [(50.0, 50.0)] * 4
    rows = chart([line(values)], 8, 3, ASCII, Frame(0, 8, str, cursor=6))
    found = [span for row in rows for span in row if "select" in span[1]]
    assert found == [("|", "select"), ("*", "dram select"), ("|", "select")]
    assert [row.index("|") for row in text(rows) if "|" in row] == [6, 6]

# SPDX-License-Identifier: Apache-2.0
"""Values of --vary, and the search for the largest that fits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttmem.fit.varied import check_varied, combinations, parse_vary, search


@given(st.integers(1, 200), st.integers(0, 200))
def test_a_border_is_proven_on_both_sides(count: int, limit: int) -> None:
    asked: list[int] = []

    def fits(value: int) -> bool:
        asked.append(value)
        return value <= limit

    values = range(1, count + 1)
    border = search(values, fits)
    largest = min(limit, count)
    assert border.largest == (largest or None)
    assert border.next_value == (largest + 1 if largest < count else None)
    assert {value for value in (largest, largest + 1) if 1 <= value <= count} <= set(asked)
    assert len(asked) == len(set(asked)) <= 14
    assert border.tried == tuple(sorted(asked))
    assert border.fits_again == ()


@given(st.sets(st.integers(1, 40)))
def test_without_order_the_border_is_still_a_border(fitting: set[int]) -> None:
    border = search(range(1, 41), lambda value: value in fitting)
    if border.largest is not None:
        assert border.largest in fitting
    if border.next_value is not None:
        assert border.next_value not in fitting
    assert set(border.fits_again) <= fitting
    assert all(value > (border.largest or 0) for value in border.fits_again)


def test_a_value_that_fits_again_is_found() -> None:
    assert search(range(1, 33), lambda value: value <= 10 or value == 21).fits_again == (21,)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("batch", "is not NAME=FIRST..LAST"),
        ("=1..2", "is not NAME=FIRST..LAST"),
        ("batch=", "is not NAME=FIRST..LAST"),
        ("batch=4..2", "write the smaller number first"),
        ("batch=1..many", "'many' is no number"),
        ("batch=1,,2", "'' is no number"),
        ("batch=0..999m", "too many values"),
    ],
)
def test_wrong_values_are_refused(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_vary(text)


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        (["a=1,2", "a=3"], "occurs twice"),
        (["c=1"], r"does not contain \{c\}"),
        (["a=1..2", "b=1..2"], "only one range"),
        (["a=" + ",".join(map(str, range(20))), "b=" + ",".join(map(str, range(20)))], "400 combinations"),
    ],
)
def test_what_cannot_be_tried_is_refused(texts: list[str], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        check_varied([parse_vary(text) for text in texts], ["model.py", "{a}", "--b={b}"])


def test_combinations_leave_out_the_range() -> None:
    varied = [parse_vary(text) for text in ("batch=1..9", "seq=1k,2k", "layers=2")]
    assert list(combinations(varied)) == [{"seq": 1024, "layers": 2}, {"seq": 2048, "layers": 2}]
    assert list(combinations([])) == [{}]

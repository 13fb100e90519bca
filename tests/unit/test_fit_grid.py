# SPDX-License-Identifier: Apache-2.0
"""The table and the picture of `ttmem fit --vary`."""

from __future__ import annotations

from typing import Any, cast

from ttmem.fit.varied import parse_vary, search
from ttmem.model import schema
from ttmem.show.fit_grid import grid
from ttmem.show.text import RED, Style

WIDE = Style(width=100, ascii=True)


def board(name: str, verdict: str, **values: int) -> dict[str, Any]:
    return {"board": name, "verdict": verdict, "values": {key: str(value) for key, value in values.items()}}


def document(boards: list[dict[str, Any]], borders: list[dict[str, Any]], *varied: str) -> schema.Fit:
    """Only the parts of the document that a grid is made of."""
    rows = []
    for text in varied:
        one = parse_vary(text)
        listed = [] if one.searched else list(one.values)
        rows.append(
            {
                "name": one.name,
                "searched": one.searched,
                "values": listed,
                "first": min(one.values),
                "last": max(one.values),
            }
        )
    return cast("schema.Fit", {"varied": rows, "boards": boards, "borders": borders})


def searched(limits: dict[tuple[str, int], int], last: int, again: int = 0) -> schema.Fit:
    """A search on each machine and for each length; values up to a limit fit, and ``again`` does."""
    boards, borders = [], []
    for (name, seq), limit in limits.items():
        fitting = {*range(1, limit + 1), again}
        found = search(range(1, last + 1), fitting.__contains__)
        boards += [board(name, "fits" if value in fitting else "fails", seq=seq, batch=value) for value in found.tried]
        borders.append(
            {
                "board": name,
                "values": {"seq": str(seq)},
                "name": "batch",
                "largest": found.largest,
                "next": found.next_value,
                "next_verdict": None if found.next_value is None else "fails",
                "tried": list(found.tried),
                "fits_again": list(found.fits_again),
            }
        )
    return document(boards, borders, f"batch=1..{last}", "seq=1k,8k")


def test_borders_are_a_table_and_a_picture() -> None:
    found = searched({("n150", 1024): 9, ("n150", 8192): 0, ("p150", 1024): 16}, last=16)
    assert grid(found, WIDE) == [
        "machine   seq  largest batch  above it          runs",
        "n150     1024              9  10 does not fit      8",
        "n150     8192           none  1 does not fit       3",
        "p150     1024             16  end of the range     2",
        "",
        "batch          1             16",
        "n150 seq=1024  #------##xxxx..x",
        "n150 seq=8192  xx.....x........",
        "p150 seq=1024  #--------------#",
        "               x does not fit, # fits, - not run, below one that fits, . not run",
    ]


def test_a_column_of_the_picture_shows_the_worst_run_in_it() -> None:
    """48 columns for 500 values: the border and the value above it are in one column."""
    lines = grid(searched({("n150", 1024): 101}, last=500), Style(width=63, ascii=True))
    (row,) = [line for line in lines if line.startswith("n150 seq")]
    assert len(row) == 63
    assert row[15 + 100 * 48 // 500] == "x"
    assert {row[15], row[-1]} == {"#", "x"}


def test_a_short_range_has_a_column_for_each_value() -> None:
    lines = grid(searched({("n150", 1024): 2}, last=4), WIDE)
    assert lines[-3:-1] == ["batch          1  4", "n150 seq=1024  ##xx"]


def test_a_value_that_fits_again_is_named() -> None:
    lines = grid(searched({("n150", 1024): 10}, last=32, again=21), WIDE)
    assert "n150 seq=1024: above the border, batch 21 fits again" in lines


def test_marks_have_colours_on_a_terminal() -> None:
    text = "\n".join(grid(searched({("n150", 1024): 4}, last=8), Style(width=100, colour=True)))
    assert f"\x1b[{RED}mx" in text
    assert "█" in text


def test_one_list_has_a_column_for_each_machine() -> None:
    boards = [board("n150", "fits", seq=1), board("n150", "fails", seq=2), board("p150", "unknown", seq=1)]
    assert grid(document(boards, [], "seq=1,2"), WIDE) == [
        "       n150          p150",
        "seq=1  fits          cannot tell",
        "seq=2  does not fit  -",
    ]


def test_two_lists_are_a_matrix_for_each_machine() -> None:
    boards = [
        board(name, "fits" if batch * seq < limit else "fails", batch=batch, seq=seq)
        for name, limit in (("n150", 3), ("p150", 9))
        for batch in (1, 2)
        for seq in (1, 4)
    ]
    assert grid(document(boards, [], "batch=1,2", "seq=1,4"), WIDE) == [
        "n150     seq=1  seq=4",
        "batch=1  fits   does not fit",
        "batch=2  fits   does not fit",
        "",
        "p150     seq=1  seq=4",
        "batch=1  fits   fits",
        "batch=2  fits   fits",
    ]

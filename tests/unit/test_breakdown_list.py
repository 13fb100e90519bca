# SPDX-License-Identifier: Apache-2.0
"""View 6 with allocations put together: what is asked, what is shown, what opens."""

from __future__ import annotations

from typing import Any

import pytest

from tests.snapshots import Account
from ttmem.show.top.dashboard_state import Answer, Model
from ttmem.show.top.parts.breakdown_list import BY
from ttmem.show.top.parts.rows import Characters, Size, text_of
from ttmem.show.top.views.allocation_view import Allocations

Json = Any  # a document made by hand, or a part of one
SIZE = Size(120, 20)
SERVER = {"pid": 1, "since": "then", "events": 1, "version": "1", "clients": 1, "lost_to_readers": 0}


def model_of() -> Model:
    account = Account()
    account.tracked(7, "77", dram=1 << 20)
    model = Model()
    model.take({**account.snapshot(), "server": SERVER}, 0.0, 0.0)  # type: ignore[typeddict-item]
    return model


def row(by: str, key: str | None, size: int, **kinds: int) -> Json:
    return {by: key, "count": 3, "bytes": size, "reserved": None, "largest": size, "kinds": kinds or {"dram": size}}


def answer(model: Model, view: Allocations, rows: list[Json], by: str) -> None:
    (path,) = view.wants(model)
    total = sum(one["bytes"] for one in rows)
    model.answers[path] = Answer({"by": by, "rows": rows, "count": len(rows), "bytes": total}, None, 0.0)


def shown(model: Model, view: Allocations, size: Size = SIZE, ascii: bool = False) -> list[str]:
    return [text_of(row) for row in view.rows(model, size, Characters("ascii" if ascii else "braille"))]


def test_g_goes_through_all_and_back() -> None:
    model, view = model_of(), Allocations()
    asked = []
    for _ in BY:
        (path,) = view.wants(model)
        asked.append(path.partition("by=")[2].partition("&")[0] if path.startswith("/breakdown?") else "")
        assert view.press("g", model)
    assert tuple(asked) == BY
    assert view.wants(model)[0].startswith("/allocations?")


def test_the_largest_has_its_share_and_a_bar() -> None:
    model, view = model_of(), Allocations()
    view.by = "op"
    answer(model, view, [row("op", "ttnn.matmul", 3 << 20, l1=1 << 20, cb=2 << 20), row("op", None, 1 << 20)], "op")
    lines = shown(model, view)
    assert "4.0 MiB by operation, 2 rows" in lines[0]
    assert "OPERATION" in lines[1]
    first, second = lines[2:4]
    assert first.split()[:3] == ["3.0", "MiB", "75%"]
    assert first.count("█") == 12
    assert "ttnn.matmul" in first
    assert "l1 1.0 MiB, cb 2.0 MiB" in first
    assert "no ttnn operation" in second
    assert all(line.isascii() for line in shown(model, view, ascii=True))


def test_a_share_is_one_of_all_rows_not_of_those_listed() -> None:
    model, view = model_of(), Allocations()
    view.by = "op"
    (path,) = view.wants(model)
    listed = [row("op", "ttnn.matmul", 3 << 20)]
    model.answers[path] = Answer({"by": "op", "rows": listed, "count": 1010, "bytes": 30 << 20}, None, 0.0)
    lines = shown(model, view)
    assert "30.0 MiB by operation, 1,010 rows, the 1 largest below" in lines[0]
    assert lines[2].split()[:3] == ["3.0", "MiB", "10%"]


@pytest.mark.parametrize("ascii", [False, True])
def test_the_smallest_has_a_bar_as_well(ascii: bool) -> None:
    model, view = model_of(), Allocations()
    view.by = "op"
    answer(model, view, [row("op", "large", 1 << 40), row("op", "small", 1), row("op", "none", 0)], "op")
    bars = [line.split("%", 1)[1][1:17].strip() for line in shown(model, view, ascii=ascii)[2:5]]
    assert bars == (["#" * 16, "#", ""] if ascii else ["█" * 15 + "▉", "▏", ""])


@pytest.mark.parametrize("by", [by for by in BY if by])
@pytest.mark.parametrize("size", [Size(80, 22), Size(120, 38), Size(40, 5)])
def test_it_fits(by: str, size: Size) -> None:
    model, view = model_of(), Allocations()
    view.by = by
    key = "/home/somebody/" + "x" * 300 + ".py:3 forward" if by == "line" else "y" * 300
    answer(model, view, [row(by, key if by != "kind" else "dram", 5)] * 100, by)
    lines = shown(model, view, size)
    assert len(lines) == size.height
    assert max(map(len, lines)) <= size.width


def test_a_line_is_shown_without_most_of_its_path() -> None:
    model, view = model_of(), Allocations()
    view.by = "line"
    answer(model, view, [row("line", "/home/me/llama/model.py:42 forward", 5)], "line")
    assert " llama/model.py:42 forward" in shown(model, view)[2]


def test_enter_opens_an_operation_and_a_kind() -> None:
    model, view = model_of(), Allocations()
    for by, key, asked in (("op", "ttnn.add", "tag=ttnn.add"), ("kind", "l1", "kind=l1")):
        view.press("escape", model)
        view.by = by
        answer(model, view, [row(by, "other" if by == "op" else "dram", 9), row(by, key, 5)], by)
        shown(model, view)
        view.press("down", model)
        shown(model, view)
        assert view.press("enter", model)
        (path,) = view.wants(model)
        assert path.startswith("/allocations?")
        assert asked in path


def test_what_cannot_be_opened_says_so() -> None:
    model, view = model_of(), Allocations()
    view.by = "shape"
    answer(model, view, [row("shape", "[1, 32] bfloat16 tile", 5)], "shape")
    shown(model, view)
    view.press("enter", model)
    assert model.message == "only operations and kinds can be opened"
    assert view.by == "shape"


def test_filters_hold_for_a_breakdown_as_well() -> None:
    model, view = model_of(), Allocations()
    view.press("f", model)
    view.by = "op"
    assert "kind=dram" in view.wants(model)[0]
    model.answers[view.wants(model)[0]] = Answer(None, "the server says: no", 0.0)
    assert "the server says: no" in "\n".join(shown(model, view))


def test_remembered_nonsense_is_nothing() -> None:
    model, view = model_of(), Allocations()
    view.by = "colour"
    assert view.wants(model)[0].startswith("/allocations?")

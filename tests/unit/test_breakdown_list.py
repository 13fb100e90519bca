# SPDX-License-Identifier: Apache-2.0
"""View 6 with grouped allocations: requests, rows, and opened groups."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl

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
    sums = {"count": 3, "bytes": size, "per_chip": size, "reserved": None, "chips": 1, "other_chips": 0}
    sums |= {"largest": size}
    return {by: key, **sums, "kinds": kinds or {"dram": size}}


def pool(name: str, rows: list[Json], **more: int) -> Json:
    size, count = sum(one["bytes"] for one in rows), sum(one["count"] for one in rows)
    sums = {"count": count, "bytes": size, "per_chip": size, "reserved": None, "chips": 1, "other_chips": 0}
    sums |= {"groups": len(rows)}
    return {"pool": name, **sums, **more, "rows": rows}


def answer(model: Model, view: Allocations, by: str, *pools: Json) -> None:
    (path,) = view.wants(model)
    model.answers[path] = Answer({"by": by, "pools": pools}, None, 0.0)


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


def test_no_group_is_said() -> None:
    model, view = model_of(), Allocations()
    view.by = "op"
    answer(model, view, "op")
    assert "Nothing is allocated" in shown(model, view)[2]
    view.press("slash", model)
    for key in ("k", "v", "enter"):
        view.press(key, model)
    answer(model, view, "op")
    assert shown(model, view)[2].strip() == "No allocation matches the filters; escape clears them."


def test_each_pool_has_its_rows_and_its_sum() -> None:
    model, view = model_of(), Allocations()
    view.by = "op"
    dram = pool("dram", [row("op", "ttnn.matmul", 3 << 20), row("op", None, 1 << 20)])
    programs = pool("programs", [row("op", "ttnn.matmul", 2 << 20, cb=1 << 20, kernel=1 << 20)])
    answer(model, view, "op", dram, programs)
    lines = [line.rstrip() for line in shown(model, view)]
    assert lines[0] == "BREAKDOWN  by operation, 3 groups  DRAM 4.0M, programs 2.0M"
    assert "OPERATION" in lines[1]
    assert lines[2] == "DRAM: 4.0 MiB in 6 allocations"
    assert lines[3].split()[:3] == ["3.0", "MiB", "75%"]
    assert lines[3].count("█") == 12
    assert lines[3].endswith("ttnn.matmul" + lines[3].partition("ttnn.matmul")[2])
    assert "no ttnn operation" in lines[4]
    words = "cached programs, which use L1 in turn: 2.0 MiB in 3 allocations, sum over all cores"
    assert lines[5] == words
    assert lines[6].split()[:3] == ["2.0", "MiB", "100%"]
    assert "cb 1.0 MiB, kernel 1.0 MiB" in lines[6]
    assert "6.0 MiB" not in "\n".join(lines), "the sizes of pools are not added up"
    assert all(line.isascii() for line in shown(model, view, ascii=True))


def test_a_share_is_one_of_all_rows_of_the_pool_not_of_those_listed() -> None:
    model, view = model_of(), Allocations()
    view.by = "op"
    answer(model, view, "op", pool("dram", [row("op", "ttnn.matmul", 3 << 20)], groups=1010, bytes=30 << 20))
    lines = shown(model, view)
    assert "by operation, 1,010 groups, the 500 largest of each pool below" in lines[0]
    assert lines[2].startswith("DRAM: 30.0 MiB ")
    assert lines[3].split()[:3] == ["3.0", "MiB", "10%"]


@pytest.mark.parametrize("ascii", [False, True])
def test_the_smallest_has_a_bar_as_well(ascii: bool) -> None:
    model, view = model_of(), Allocations()
    view.by = "op"
    answer(model, view, "op", pool("dram", [row("op", "large", 1 << 40), row("op", "small", 1), row("op", "none", 0)]))
    bars = [line.split("%", 1)[1][1:17].strip() for line in shown(model, view, ascii=ascii)[3:6]]
    assert bars == (["#" * 16, "#", ""] if ascii else ["█" * 15 + "▉", "▏", ""])


@pytest.mark.parametrize("by", [by for by in BY if by])
@pytest.mark.parametrize("size", [Size(80, 22), Size(120, 38), Size(40, 5)])
def test_it_fits(by: str, size: Size) -> None:
    model, view = model_of(), Allocations()
    view.by = by
    key = "/home/somebody/" + "x" * 300 + ".py:3 forward" if by == "line" else "y" * 300
    answer(model, view, by, pool("dram", [row(by, key if by != "kind" else "dram", 5)] * 100))
    lines = shown(model, view, size)
    assert len(lines) == size.height
    assert max(map(len, lines)) <= size.width


def test_a_line_is_shown_without_most_of_its_path() -> None:
    model, view = model_of(), Allocations()
    view.by = "line"
    answer(model, view, "line", pool("dram", [row("line", "/home/me/llama/model.py:42 forward", 5)]))
    assert " llama/model.py:42 forward" in shown(model, view)[3]


LINE = "/home/me/llama/model.py:42 forward"
PROGRAM = "pid 7 program 3 ttnn.add"
OPENED = (
    ("op", "ttnn.add", "dram", {"op": "ttnn.add", "kind": "dram,trace"}, "DRAM, ttnn.add"),
    ("op", None, "l1_buffers", {"op": "", "kind": "l1,l1_small"}, "L1 buffers, no ttnn operation"),
    ("line", LINE, "dram", {"line": LINE, "kind": "dram,trace"}, "DRAM, llama/model.py:42 forward"),
    ("shape", "[1] tile", "dram", {"shape": "[1] tile", "kind": "dram,trace"}, "DRAM, [1] tile"),
    ("program", PROGRAM, "programs", {"program": PROGRAM, "kind": "cb,dfb,scratchpad,kernel"}, f"programs, {PROGRAM}"),
    ("kind", "l1", "l1_buffers", {"kind": "l1"}, "L1 buffers, l1"),
)


def query_of(path: str) -> dict[str, str]:
    assert path.startswith("/allocations?")
    asked = dict(parse_qsl(path.partition("?")[2], keep_blank_values=True))
    return {name: value for name, value in asked.items() if name not in ("sort", "limit")}


@pytest.mark.parametrize(("by", "key", "name", "asked", "words"), OPENED)
def test_enter_opens_a_group_and_escape_goes_back(by: str, key: Json, name: str, asked: Json, words: str) -> None:
    model, view = model_of(), Allocations()
    view.by = by
    answer(model, view, by, pool(name, [row(by, "other", 9), row(by, key, 5)]))
    shown(model, view)
    for _ in range(2):
        view.press("down", model)
        shown(model, view)
    assert view.press("enter", model)
    (path,) = view.wants(model)
    assert query_of(path) == asked
    assert f"only {'cached ' if by == 'program' else ''}{words}" in shown(model, view)[0]
    assert view.press("escape", model)
    assert view.by == by
    assert "kind=" not in view.wants(model)[0]
    chosen = view._breakdown.chosen
    assert chosen is not None
    assert chosen.row is not None
    assert chosen.row[by] == key  # type: ignore[literal-required]


def test_enter_on_the_title_of_a_pool_opens_all_of_it() -> None:
    model, view = model_of(), Allocations()
    view.by = "op"
    answer(model, view, "op", pool("dram", [row("op", "a", 9)]), pool("programs", [row("op", "b", 5)]))
    shown(model, view)
    view.press("down", model)
    view.press("down", model)
    shown(model, view)
    view.press("enter", model)
    assert query_of(view.wants(model)[0]) == {"kind": "cb,dfb,scratchpad,kernel"}


def test_other_filters_hold_in_an_opened_group() -> None:
    model, view = model_of(), Allocations()
    view.press("f", model)
    view.by = "op"
    answer(model, view, "op", pool("dram", [row("op", "ttnn.add", 9)]))
    shown(model, view)
    view.press("down", model)
    shown(model, view)
    view.press("enter", model)
    assert query_of(view.wants(model)[0]) == {"op": "ttnn.add", "kind": "dram"}
    view.press("e", model)
    assert view.wants(model) == ["/events"]
    view.press("e", model)
    view.press("g", model)
    assert "op=" not in view.wants(model)[0].replace("by=op", ""), "another breakdown is of everything again"


def test_nothing_to_open() -> None:
    model, view = model_of(), Allocations()
    view.by = "shape"
    answer(model, view, "shape")
    shown(model, view)
    view.press("enter", model)
    assert model.message == "there is nothing to open"
    assert view.by == "shape"


def test_filters_hold_for_a_breakdown_as_well() -> None:
    model, view = model_of(), Allocations()
    view.press("f", model)
    view.by = "op"
    assert "kind=dram" in view.wants(model)[0]
    model.answers[view.wants(model)[0]] = Answer(None, "the server reports: no", 0.0)
    assert "the server reports: no" in "\n".join(shown(model, view))


def test_remembered_nonsense_is_nothing() -> None:
    model, view = model_of(), Allocations()
    view.by = "colour"
    assert view.wants(model)[0].startswith("/allocations?")

# SPDX-License-Identifier: Apache-2.0
"""A breakdown as text: a table for each pool, whose sizes are never added up."""

from __future__ import annotations

from typing import Any

import pytest

from tests.screens import world
from ttmem.show.breakdown_table import WORDS, render
from ttmem.show.text import Style, cells

Json = Any  # a document made by hand, or a part of one
MIB = 1 << 20
TTNN, MINE, MAIN = "/v/site-packages/ttnn/decorators.py:9 call", "/me/llama/model.py:42 forward", "/me/run.py:7 main"


def row(by: str, key: str | None, size: int, count: int = 1, chips: int = 1, **kinds: int) -> Json:
    sums = {"count": count, "bytes": size, "per_chip": size // chips, "reserved": None, "chips": chips}
    sums |= {"other_chips": 0, "largest": size}
    return {by: key, **sums, "kinds": kinds or {"dram": size}}


def pool(name: str, *rows: Json, **more: int) -> Json:
    size, count = sum(one["bytes"] for one in rows), sum(one["count"] for one in rows)
    sums = {"count": count, "bytes": size, "reserved": None, "chips": 1, "other_chips": 0, "groups": len(rows)}
    most = max((one["per_chip"] for one in rows), default=0)
    sums["per_chip"] = most if more.get("chips", 1) > 1 else size
    return {"pool": name, **sums, **more, "rows": list(rows)}


def shown(by: str, *pools: Json) -> list[str]:
    return render({"schema": "ttmem.breakdown/1", "by": by, "pools": [*pools]}, Style(100)).splitlines()


def test_a_table_for_each_pool() -> None:
    dram = pool("dram", row("line", MINE, 8 * MIB, 32, 8), row("line", None, MIB, 2), chips=9)
    l1 = pool("l1_buffers", row("line", MINE, MIB))
    uneven = row("line", MINE, 3 * MIB, 6, 2, cb=MIB, kernel=2 * MIB) | {"per_chip": 2 * MIB}
    programs = pool("programs", uneven, chips=2)
    assert shown("line", dram, l1, programs) == [
        "DRAM: 9.0 MiB on 9 chips (1.0 MiB per chip) in 34 allocations",
        " ALL CHIPS  PER CHIP  COUNT  CHIPS  LINE",
        "   8.0 MiB   1.0 MiB     32      8  llama/model.py:42 forward",
        "   1.0 MiB   1.0 MiB      2      1  no line is known",
        "",
        "L1 buffers: 1.0 MiB in 1 allocation, sum over all cores",
        "      SIZE  COUNT  LINE",
        "   1.0 MiB      1  llama/model.py:42 forward",
        "",
        "cached programs, which use L1 in turn: 3.0 MiB on 2 chips (up to 2.0 MiB per chip) in 6 allocations,",
        "  sum over all cores",
        " ALL CHIPS   PER CHIP  COUNT  CHIPS  LINE                       KINDS, ALL CHIPS",
        "   3.0 MiB  ≤ 2.0 MiB      6      2  llama/model.py:42 forward  cb 1.0 MiB, kernel 2.0 MiB",
    ]


def test_frames_of_ttnn_in_a_stack_are_one_line() -> None:
    stack = "\n".join([TTNN, TTNN, MINE, TTNN, MAIN])
    assert shown("stack", pool("dram", row("stack", stack, MIB), row("stack", None, 1))) == [
        "DRAM: 1.0 MiB in 2 allocations",
        "      SIZE  COUNT  STACK",
        "   1.0 MiB      1  llama/model.py:42 forward",
        "                     ... 2 frames in ttnn",
        f"                     {MINE}",
        "                     ... 1 frame in ttnn",
        f"                     {MAIN}",
        "       1 B      1  no stack is known",
    ]


def test_frames_stand_below_the_stack_whatever_comes_before_it() -> None:
    assert shown("stack", pool("dram", row("stack", f"{MINE}\n{MAIN}", MIB, 123_456, 8), chips=8)) == [
        "DRAM: 1.0 MiB on 8 chips (128.0 KiB per chip) in 123,456 allocations",
        " ALL CHIPS   PER CHIP    COUNT  CHIPS  STACK",
        "   1.0 MiB  128.0 KiB  123,456      8  llama/model.py:42 forward",
        f"                                         {MINE}",
        f"                                         {MAIN}",
    ]


def test_rows_that_are_not_listed_are_counted() -> None:
    lines = shown("op", pool("dram", row("op", "ttnn.add", MIB), groups=12, bytes=5 * MIB))
    assert lines[-1] == "   4.0 MiB  in 11 more"


def test_nothing() -> None:
    assert shown("op") == ["Nothing is allocated."]


@pytest.mark.parametrize("by", WORDS)
@pytest.mark.parametrize("width", [60, 100, 200])
def test_a_real_breakdown_fits(by: str, width: int) -> None:
    text = render(world(4).get(f"/breakdown?by={by}"), Style(width))
    assert max(cells(line) for line in text.splitlines()) <= width
    assert "DRAM: " in text

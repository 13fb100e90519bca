# SPDX-License-Identifier: Apache-2.0
"""The text of `ttmem dump`: equal chips once, the largest allocations of each kind, and their origins."""

from __future__ import annotations

from typing import Any

import pytest

from tests.screens import world
from ttmem.documents import unknown_rows as blank
from ttmem.show.dump_text import render
from ttmem.show.text import Style, cells

Json = Any  # a document made by hand, or a part of one
KIB, MIB = 1 << 10, 1 << 20
NOW = 1_767_323_045.0  # the second of TIME
TIME = "2026-01-02T03:04:05.678Z"
MINE = "/home/me/llama/model.py:42 forward"


def allocation(chip: str, kind: str, address: int, size: int, **values: Any) -> Json:
    return {
        "pid": 4711, "chips": [chip], "other_chips": [], "devices": [0], "kind": kind, "id": hex(address),
        "address": address, "size": size, "reserved": None, "refs": 1, "since": NOW - 90, "program": None,
        "cores": None, "core": None, "shared": False,
        "layout": None, "core_count": None, "per_core": False, "tag": None, "operation": None, "shape": None,
        "line": None, "stack": None, "source": "agent", "confidence": "exact", "not_counted": [], **values,
    }  # fmt: skip


def entry(kind: str, rows: list[Json], more: int = 0, more_bytes: int = 0, reserved: int | None = None) -> Json:
    size = sum(0 if row["shared"] else row["size"] for row in rows) + more_bytes
    nothing = {"count": 0, "bytes": 0}
    sums = {"count": len(rows) + more, "bytes": size, "per_chip": size, "chips": 1, "reserved": reserved}
    return {"kind": kind, **sums, "large": nothing, "small": nothing, "allocations": rows}


def dump_of(*devices: tuple[int, str, list[Json]], **more: Any) -> Json:
    total = sum(kind["count"] for _, _, kinds in devices for kind in kinds)
    listed = [
        {"devices": [number], "chips": [chip], "other_chips": [], "kinds": kinds} for number, chip, kinds in devices
    ]
    return {
        "schema": "ttmem.dump/1", "time": TIME, "total": total, "groups": listed, "anomalies": {"dropped": 0},
        "uncertain": [], **more,
    }  # fmt: skip


def snapshot_of(*chips: str) -> Json:
    snapshot: Json = blank.snapshot(TIME, "box")
    snapshot["chips"] = [
        {**blank.chip(chip, board="n150"), "kmd": number, "identity": "known"} for number, chip in enumerate(chips)
    ]
    return snapshot


def lines_of(dump: Json, *chips: str, width: int = 120, top: int = 10) -> list[str]:
    return render(dump, snapshot_of(*chips), Style(width), top).splitlines()


def test_the_screen_of_one_chip() -> None:
    made = {"operation": "ttnn.zeros", "tag": "ttnn.zeros", "line": MINE, "shape": "[1024, 1024] bfloat16 tile"}
    dram = [allocation("u0", "dram", 0x100040, 2 * MIB, **made), allocation("u0", "dram", 0x12B040, MIB)]
    part = {"operation": "ttnn.add", "line": MINE, "cores": "{[0-0 - 7-7]}", "core_count": 64, "program": 4}
    kernel = allocation("u0", "kernel", 2, 6400, tag="reader (BRISC)", **part)
    kinds = [
        entry("dram", dram, 33, 640 * KIB, reserved=4 * MIB),
        entry("cb", [allocation("u0", "cb", 0x19D60, 256 * KIB, **part)]),
        entry("kernel", [kernel]),
    ]
    assert lines_of(dump_of((0, "u0", kinds)), "u0") == [
        "37 live allocations on 1 chip   2026-01-02 03:04:05 UTC",
        "─" * 120,
        "n150 chip 0 (id u0)",
        "  DRAM buffers: 35, 3.6 MiB (3,801,088 B), 4.0 MiB reserved by the allocator",
        "       SIZE   ADDRESS   PID   AGE  OPERATION   LINE                       SHAPE",
        "    2.0 MiB  0x100040  4711  90 s  ttnn.zeros  llama/model.py:42 forward  [1024, 1024] bfloat16 tile",
        "    1.0 MiB  0x12b040  4711  90 s  -           -                          -",
        "    and 33 more, 640.0 KiB",
        "  circular buffers of cached programs: 1, 256.0 KiB (262,144 B), sum over all cores",
        "         SIZE  PER CORE  CORES  ADDRESS   PID   AGE  PROGRAM  OPERATION  LINE",
        "    256.0 KiB   4.0 KiB     64  0x19d60  4711  90 s        4  ttnn.add   llama/model.py:42 forward",
        "  kernels of cached programs: 1, 6.2 KiB (6,400 B), sum over all cores",
        "       SIZE  PER CORE  CORES   PID   AGE  PROGRAM  OPERATION  LINE                       KERNEL",
        "    6.2 KiB     100 B     64  4711  90 s        4  ttnn.add   llama/model.py:42 forward  reader (BRISC)",
        "",
        "Cached programs use L1 in turn: not all of their memory is in use at one time.",
        "--top N lists more of each kind; --by groups them by operation, line or shape.",
        "Anomalies: none",
    ]


def test_chips_that_hold_the_same_are_shown_once() -> None:
    def on(chip: str, number: int, *more: Json) -> tuple[int, str, list[Json]]:
        return number, chip, [entry("dram", [allocation(chip, "dram", 0x1000, MIB)]), *more]

    extra = entry("fabric_kernel", [allocation("u2", "fabric_kernel", 7, KIB)])
    lines = lines_of(dump_of(on("u0", 0), on("u1", 1), on("u2", 2, extra), on("u3", 3)), "u0", "u1", "u2", "u3")
    assert lines[2:4] == [
        "n150 chips 0-3: the same on each of 4 chips",
        "  DRAM buffers: 1, 1.0 MiB (1,048,576 B) on each chip, 4.0 MiB on all 4",
    ]
    assert "n150 chip 2 (id u2)" in lines
    assert sum("0x1000" in line for line in lines) == 1


@pytest.mark.parametrize(
    "other",
    [
        {"size": MIB + 1}, {"id": "0x2000"}, {"pid": 1}, {"tag": "other"}, {"line": "/me/x.py:1 f"}, {"shape": "[1]"},
        {"operation": "ttnn.add"}, {"program": 7}, {"cores": "{[0-0 - 1-1]}"},
    ],
)  # fmt: skip
def test_chips_that_differ_are_shown_apart(other: Json) -> None:
    first, second = (entry("dram", [allocation(chip, "dram", 0x1000, MIB)]) for chip in ("a", "b"))
    second["allocations"][0] |= other
    lines = lines_of(dump_of((0, "a", [first]), (1, "b", [second])), "a", "b")
    assert {"n150 chip 0 (id a)", "n150 chip 1 (id b)"} <= set(lines)


def test_a_chip_with_two_numbers_is_one_chip() -> None:
    """Two processes may use different numbers for it. Of all allocations in the list, the largest are shown."""
    first = entry("dram", [allocation("a", "dram", 0x1000 * n, n * MIB) for n in (9, 5, 1)], reserved=15 * MIB)
    second = entry("dram", [allocation("a", "dram", 0x1000 * n, n * MIB, pid=2) for n in (8, 2)], reserved=10 * MIB)
    lines = lines_of(dump_of((0, "a", [first]), (3, "a", [second])), "a", top=3)
    assert "  DRAM buffers: 5, 25.0 MiB (26,214,400 B), 25.0 MiB reserved by the allocator" in lines
    assert [line.split()[2] for line in lines[5:8]] == ["0x9000", "0x8000", "0x5000"]
    assert lines[8] == "    and 2 more, 3.0 MiB"


def test_what_is_odd_is_noted() -> None:
    rows = [
        allocation("a", "l1", 0x2000, 100, shared=True),
        allocation("a", "l1", 0x5000300008000, 50, core={"x": 5, "y": 3, "address": 0x8000, "what": "firmware"}),
        allocation("a", "l1", 0x3000, 40, confidence="estimated", refs=3),
        allocation("a", "l1", 0x4000, 30, per_core=True),
    ]
    lines = lines_of(dump_of((0, "a", [entry("l1", rows)])), "a")
    assert "  L1 buffers: 4, 120 B, sum over all cores" in lines
    for words in (
        "0x2000 4711 90 s - inside an L1 buffer, adds nothing",
        "5,3 0x8000 4711 90 s - firmware",
        "0x3000 4711 90 s 3 estimated",
        "0x4000 4711 90 s - address of the first core",
    ):
        assert any(" ".join(line.split()).endswith(words) for line in lines), (words, lines)


def test_nothing_and_doubt() -> None:
    lines = lines_of(dump_of())
    assert (lines[0], lines[2]) == ("0 live allocations   2026-01-02 03:04:05 UTC", "Nothing is allocated.")
    doubt = [{"reason": "replaced", "count": 143}]
    lines = lines_of(dump_of(uncertain=doubt, anomalies={"dropped": 5}))
    assert lines[2] == "Nothing is known to be allocated."
    assert "Anomalies: dropped events 5" in lines
    assert any(line.startswith("uncertain: the agent counted replaced 143 (") for line in lines)


@pytest.mark.parametrize("chips", [0, 1, 4, 32])
@pytest.mark.parametrize("width", [40, 80, 100, 200])
def test_a_real_dump_fits(chips: int, width: int) -> None:
    found = world(chips)
    text = render(found.get("/dump?limit=5"), found.snapshot, Style(width), 5) if chips else ""
    assert max(map(cells, text.splitlines()), default=0) <= width
    ascii = render(found.get("/dump?limit=5"), found.snapshot, Style(width, ascii=True), 5) if chips else ""
    assert ascii.isascii()


def test_an_allocation_on_one_core_names_the_core() -> None:
    """Its coordinates are NOC coordinates, which `ttmem l1` does not use. Therefore the column names them."""
    core = {"x": 1, "y": 6, "address": 0x8000, "what": "firmware"}
    rows = [
        allocation("u0", "firmware", 0x8000, KIB, core=core, operation="firmware"),
        allocation("u0", "firmware", 0x9000, KIB, core={**core, "what": "kernel text"}, operation="firmware"),
    ]
    titles, first, second = lines_of(dump_of((0, "u0", [entry("firmware", rows)])), "u0")[4:7]
    assert titles.split() == ["SIZE", "NOC", "CORE", "ADDRESS", "PID", "AGE", "OPERATION", "NOTE"]
    assert first.split()[2:] == ["1,6", "0x8000", "4711", "90", "s", "firmware", "-"]
    assert second.split()[-2:] == ["kernel", "text"]


def test_a_mesh_is_shown_once_and_apart_from_what_is_on_one_of_its_chips() -> None:
    chips = ["u0", "u1", "u2", "u3"]
    dump = dump_of((1, "u1", [entry("dram", [allocation("u1", "dram", 0x9000, MIB)])]))
    rows = [allocation("u0", "dram", 0x1000, 2 * MIB, chips=chips)]
    sums = {"bytes": 8 * MIB, "chips": 4, "reserved": 16 * MIB}
    mesh = {"chips": chips, "other_chips": [], "devices": [0, 1, 2, 3], "kinds": [entry("dram", rows) | sums]}
    dump["groups"].append(mesh)
    lines = lines_of(dump, *chips)
    assert lines[2:4] == [
        "mesh of n150 chips 0-3: sizes are those on each of 4 chips",
        "  DRAM buffers: 1, 2.0 MiB (2,097,152 B) on each chip, 8.0 MiB on all 4, 4.0 MiB reserved by the "
        "allocator on each chip",
    ]
    assert "n150 chip 1 (id u1)" in lines
    assert sum("0x1000" in line for line in lines) == sum("0x9000" in line for line in lines) == 1


def test_one_chip_of_a_mesh_names_the_others() -> None:
    dump = dump_of((1, "u1", [entry("dram", [allocation("u1", "dram", 0x9000, MIB)])]))
    dump["groups"][0]["other_chips"] = ["u0", "u2", "u3"]
    assert "n150 chip 1 (id u1), also on chips 0,2-3" in lines_of(dump, "u0", "u1", "u2", "u3")

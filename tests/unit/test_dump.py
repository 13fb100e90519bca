# SPDX-License-Identifier: Apache-2.0
"""The dump, as data and as the text that tools for the proof of concept parse."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from ttmem.account.ledger import Ledger
from ttmem.documents.common_text import anomaly_line
from ttmem.documents.dump import EVERYTHING, KERNELS, DumpBuilder, DumpFilter, Viewer, kernels_text, remaining_text
from ttmem.model.core_sets import CoreRange, core_id, mask_of
from ttmem.model.events import Allocated, Event, Extra
from ttmem.model.identity import ProcessInfo
from ttmem.model.kinds import Confidence, Kind

MIB = 1 << 20


def build(
    *events: Event,
    wanted: DumpFilter = EVERYTHING,
    may_see: Viewer = lambda user_id: True,
    anomalies: Any = None,  # some of the counts
) -> Any:
    ledger = Ledger()
    source = ledger.source(100.0, ProcessInfo(4242, 7, 1000), "legacy", Confidence.REPORTED)
    for time, event in enumerate(events, start=100):
        ledger.apply(float(time), source, event)
    counts: Any = anomalies or {}
    builder = DumpBuilder(wanted)
    for item in ledger.allocations():
        if wanted.wants(item.holding):
            builder.add(item)
    for _ in builder.describe(may_see):
        pass
    dump = builder.result(time="now", anomalies=counts, uncertain=[])
    assert json.loads(json.dumps(dump)) == dump
    return dump


BUSY = (
    Allocated(0, Kind.DRAM, 0x1000, 3 * MIB),
    Allocated(0, Kind.DRAM, 0x1000, 3 * MIB),
    Allocated(0, Kind.DRAM, 0x400000, 1024, extra=Extra(tag="layers.0.weight")),
    Allocated(0, Kind.L1, core_id(1, 2, 64), 512),
    Allocated(0, Kind.HOST, 0x9000, 2048),
    Allocated(0, Kind.CB, 0x1A000, 208896, 5, 0, Extra(cores=mask_of([CoreRange(0, 0, 7, 7)]))),
    Allocated(0, Kind.FABRIC_KERNEL, 0x77, 917504),
    Allocated(2, Kind.L1_SMALL, 0x5000, MIB),
)


def test_nothing_left() -> None:
    dump = build()
    nothing = {"total": 0, "groups": [], "anomalies": {}, "uncertain": []}
    assert dump == {"schema": "ttmem.dump/1", "time": "now", **nothing}
    assert remaining_text(dump).splitlines() == [
        "╔══════════════════════════════════════════════════════════════╗",
        "║                 REMAINING ALLOCATED BUFFERS                  ║",
        "╚══════════════════════════════════════════════════════════════╝",
        "Total tracked allocations: 0",
        "No buffers remaining: everything that was allocated has been freed.",
        "",
        "Total remaining buffers: 0",
        "Anomalies: none",
    ]


def test_text() -> None:
    dump = build(*BUSY, anomalies={"unknown_free": 3, "double_free": 0, "rejected": 1})
    assert remaining_text(dump).splitlines()[3:] == [
        "Total tracked allocations: 7",
        "",
        "Device 0:",
        "  Chip: assumed:0",
        "  DRAM: 2 buffers, 3.00098 MB total",
        "    - Buffer 0x1000: 3072 KB (PID 4242, ref_count=2)",
        "    - Buffer 0x400000: 1 KB (PID 4242, ref_count=1) [layers.0.weight]",
        "  SYSTEM_MEMORY: 1 buffers, 0.00195312 MB total",
        "    - Buffer 0x9000: 2 KB (PID 4242, ref_count=1)",
        "  CB: 1 circular buffers, 0.199219 MB total",
        "    - CB 0x1a000: 204 KB (PID 4242, ref_count=1) on {[0-0 - 7-7]}",
        "  FABRIC_KERNEL: 1 kernels, 0.875 MB total",
        "    - Fabric kernel 0x77: 896 KB (PID 4242, ref_count=1)",
        "  FIRMWARE: 1 buffers, 0.000488281 MB total",
        "    - Buffer 0x1000200000040: 0.5 KB (PID 4242, ref_count=1) core (1,2) at 0x40: launch message",
        "  Breakdown:",
        "    - large buffers (1 MiB and more): 1, 3 MB",
        "    - small buffers: 3, 0.00341797 MB",
        "",
        "Device 2:",
        "  Chip: assumed:2",
        "  L1_SMALL: 1 buffers, 1 MB total",
        "    - Buffer 0x5000: 1024 KB (PID 4242, ref_count=1)",
        "  Breakdown:",
        "    - large buffers (1 MiB and more): 1, 1 MB",
        "    - small buffers: 0, 0 MB",
        "",
        "Total remaining buffers: 5",
        "Anomalies: frees of unknown allocations 3, invalid records 1",
    ]


def test_data() -> None:
    dump = build(*BUSY)
    assert dump["total"] == 7
    assert [(g["devices"], g["chips"]) for g in dump["groups"]] == [([0], ["assumed:0"]), ([2], ["assumed:2"])]
    dram = dump["groups"][0]["kinds"][0]
    assert {key: dram[key] for key in ("kind", "count", "bytes", "reserved", "large", "small")} == {
        "kind": "dram",
        "count": 2,
        "bytes": 3 * MIB + 1024,
        "reserved": None,
        "large": {"count": 1, "bytes": 3 * MIB},
        "small": {"count": 1, "bytes": 1024},
    }
    assert dram["allocations"][1] == {
        "pid": 4242,
        "chips": ["assumed:0"],
        "other_chips": [],
        "devices": [0],
        "kind": "dram",
        "id": "0x400000",
        "address": 0x400000,
        "size": 1024,
        "reserved": None,
        "refs": 1,
        "since": 102.0,
        "program": None,
        "cores": None,
        "core": None,
        "layout": None,
        "core_count": None,
        "per_core": False,
        "shared": False,
        "tag": "layers.0.weight",
        "operation": "layers.0.weight",
        "shape": None,
        "line": None,
        "stack": None,
        "source": "legacy",
        "confidence": "reported",
        "not_counted": [],
    }


def test_tags_are_for_those_who_may_see_them() -> None:
    hidden = build(*BUSY, may_see=lambda user_id: user_id == 4321)
    shown = build(*BUSY, may_see=lambda user_id: user_id == 1000)
    for said in (json.dumps(hidden), remaining_text(hidden)):
        assert "layers.0.weight" not in said
    for said in (json.dumps(shown), remaining_text(shown)):
        assert "layers.0.weight" in said
    assert hidden["total"] == shown["total"]


@pytest.mark.parametrize(("count", "listed"), [(9, 9), (10, 10), (11, 0), (5000, 0)])
def test_single_buffers_are_listed_up_to_ten_of_a_type(count: int, listed: int) -> None:
    dump = build(*(Allocated(0, Kind.DRAM, 0x1000 * (n + 1), 1024) for n in range(count)))
    assert dump["groups"][0]["kinds"][0]["count"] == count
    assert remaining_text(dump).count("    - Buffer ") == listed


def test_kernels() -> None:
    events = (
        Allocated(0, Kind.FABRIC_KERNEL, 0xA, 917504),
        Allocated(0, Kind.DISPATCH_KERNEL, 0xB, 94208),
        Allocated(0, Kind.KERNEL, 0xDEADBEEF00000001, 8192000),
        Allocated(0, Kind.DRAM, 0x1000, 64),
        Allocated(1, Kind.CB, 0x1000, 64),
    )
    dump = build(*events, wanted=KERNELS)
    assert dump["total"] == 3
    assert kernels_text(dump, 110.4).splitlines() == [
        "╔══════════════════════════════════════════════════════════════╗",
        "║                 DETAILED KERNEL ALLOCATIONS                  ║",
        "╚══════════════════════════════════════════════════════════════╝",
        "",
        "Device 0: 8.77734 MB in 3 kernels",
        "    - Kernel 0xdeadbeef00000001: Application, 8000 KB, PID 4242, age 8 s",
        "    - Kernel 0xa: Fabric, 896 KB, PID 4242, age 10 s",
        "    - Kernel 0xb: Dispatch, 92 KB, PID 4242, age 9 s",
    ]


def test_no_kernels() -> None:
    assert kernels_text(build(Allocated(0, Kind.DRAM, 1, 64), wanted=KERNELS), 0.0).endswith("No kernels loaded.")


def test_very_many_kernels_are_cut_and_counted() -> None:
    dump = build(*(Allocated(0, Kind.KERNEL, n, 64) for n in range(1, 1503)), wanted=KERNELS)
    lines = kernels_text(dump, 0.0).splitlines()
    assert sum(line.startswith("    - Kernel") for line in lines) == 1000
    assert lines[-1] == "    - and 502 more"


def test_age_is_never_negative() -> None:
    assert "age 0 s" in kernels_text(build(Allocated(0, Kind.KERNEL, 1, 64), wanted=KERNELS), 5.0)


def test_anomaly_line() -> None:
    assert anomaly_line({}) == anomaly_line({"replaced": 0}) == "Anomalies: none"
    assert anomaly_line({"a": 1, "b": 0, "c": 22}) == "Anomalies: a 1, c 22"


def test_what_lies_in_an_l1_buffer_adds_nothing() -> None:
    cores = mask_of([CoreRange(0, 0, 0, 0)])
    inside = Allocated(0, Kind.CB, 0x20000, 4096, 5, 1, Extra(cores=cores, shared=True))
    dump = build(Allocated(0, Kind.CB, 0x1A000, 2048, 5, 0, Extra(cores=cores)), inside)
    (entry,) = dump["groups"][0]["kinds"]
    assert (entry["count"], entry["bytes"]) == (2, 2048)
    text = remaining_text(dump)
    assert "CB: 2 circular buffers, 0.00195312 MB total" in text
    assert text.count(" in an L1 buffer, which is counted") == 1


def test_large_numbers_are_whole() -> None:
    text = remaining_text(build(Allocated(0, Kind.DRAM, 0x1000, 5 << 30)))
    assert "Buffer 0x1000: 5242880 KB" in text


def test_a_tag_cannot_move_the_cursor() -> None:
    text = remaining_text(build(Allocated(0, Kind.L1, 0x1000, 64, extra=Extra(tag="act\x1b[31mred\n evil"))))
    assert "[act\\x1b[31mred\\n evil]" in text
    assert "\x1b" not in text


def test_the_largest_are_listed_and_of_equal_size_the_oldest() -> None:
    sizes = (64, 512, 64, 256, 512, 128)
    events = [Allocated(0, Kind.DRAM, 0x1000 * (n + 1), size) for n, size in enumerate(sizes)]
    (entry,) = build(*events, wanted=DumpFilter(limit=5))["groups"][0]["kinds"]
    assert [(row["id"], row["size"]) for row in entry["allocations"]] == [
        *(("0x2000", 512), ("0x5000", 512), ("0x4000", 256), ("0x6000", 128), ("0x1000", 64)),
    ]
    assert (entry["count"], entry["bytes"]) == (6, sum(sizes))
    (entry,) = build(*events, wanted=DumpFilter(limit=0))["groups"][0]["kinds"]
    assert (entry["count"], entry["allocations"]) == (6, [])


def test_what_the_allocator_took_is_known_of_all_or_not_at_all() -> None:
    known = [Allocated(0, Kind.DRAM, 0x1000 * n, 64, extra=Extra(reserved=4096)) for n in (1, 2)]
    assert build(*known)["groups"][0]["kinds"][0]["reserved"] == 8192
    assert build(*known, Allocated(0, Kind.DRAM, 0x9000, 64))["groups"][0]["kinds"][0]["reserved"] is None


def test_filters() -> None:
    def found(**wanted: Any) -> list[tuple[str, ...]]:
        dump = build(*BUSY, wanted=DumpFilter(**wanted))
        return [(*group["chips"], entry["kind"]) for group in dump["groups"] for entry in group["kinds"]]

    kinds = [("assumed:0", kind) for kind in ("dram", "host", "cb", "fabric_kernel", "firmware")]
    small = ("assumed:2", "l1_small")
    assert found() == [*kinds, small]
    assert found(chips=frozenset({"assumed:2"})) == [small]
    assert found(pids=frozenset({4242, 1})) == [*kinds, small]
    assert found(pids=frozenset({1})) == []
    assert found(kinds=frozenset({Kind.CB, Kind.L1_SMALL})) == [("assumed:0", "cb"), small]


ON_MESH = (
    Allocated((0, 1, 2), Kind.DRAM, 0x1000, 3 * MIB, extra=Extra(reserved=4 * MIB)),
    Allocated((0, 1, 2), Kind.DRAM, 0x2000, 1024, extra=Extra(reserved=2048)),
    Allocated(1, Kind.DRAM, 0x9000, 2 * MIB, extra=Extra(reserved=2 * MIB)),
    Allocated((0, 1, 2), Kind.KERNEL, 0x77, 640, 5),
)


def test_an_allocation_on_a_mesh_is_in_one_group() -> None:
    dump = build(*ON_MESH)
    assert dump["total"] == 4
    mesh, alone = dump["groups"]
    assert (mesh["chips"], mesh["other_chips"], mesh["devices"]) == (
        ["assumed:0", "assumed:1", "assumed:2"],
        [],
        [0, 1, 2],
    )
    dram, kernel = mesh["kinds"]
    each = 3 * MIB + 1024
    assert (dram["count"], dram["bytes"], dram["per_chip"], dram["chips"]) == (2, 3 * each, each, 3)
    assert (dram["reserved"], dram["large"]) == (3 * (4 * MIB + 2048), {"count": 1, "bytes": 9 * MIB})
    assert [(row["size"], row["chips"], row["devices"]) for row in dram["allocations"]] == [
        (3 * MIB, mesh["chips"], [0, 1, 2]),
        (1024, mesh["chips"], [0, 1, 2]),
    ]
    assert (kernel["count"], kernel["bytes"]) == (1, 3 * 640)
    assert (alone["chips"], alone["kinds"][0]["bytes"]) == (["assumed:1"], 2 * MIB)


def test_a_request_for_one_chip_names_the_others() -> None:
    """Sums are those of the requested chip; what is only there is a group of its own."""
    dump = build(*ON_MESH, wanted=DumpFilter(chips=frozenset({"assumed:1"})))
    groups = {tuple(group["other_chips"]): group for group in dump["groups"]}
    assert groups.keys() == {("assumed:0", "assumed:2"), ()}
    assert {tuple(group["chips"]) for group in dump["groups"]} == {("assumed:1",)}
    shared = groups["assumed:0", "assumed:2"]
    assert (shared["devices"], shared["kinds"][0]["bytes"]) == ([1], 3 * MIB + 1024)
    assert [row["other_chips"] for row in shared["kinds"][0]["allocations"]] == [["assumed:0", "assumed:2"]] * 2


@pytest.mark.parametrize("wanted", [EVERYTHING, KERNELS, DumpFilter(chips=frozenset({"assumed:1"}))])
def test_the_boxes_are_the_same_whether_a_mesh_is_reported_once_or_chip_by_chip(wanted: DumpFilter) -> None:
    """Tools parse them: each device has all that is on it."""
    single = [
        event._replace(device=number)
        for event in ON_MESH
        for number in (event.device if isinstance(event.device, tuple) else (event.device,))
    ]
    once, each = build(*ON_MESH, wanted=wanted), build(*single, wanted=wanted)
    assert remaining_text(once) == remaining_text(each)
    if wanted.kernels:
        ages = re.compile(r"age \d+ s")
        assert ages.sub("", kernels_text(once, 900.0)) == ages.sub("", kernels_text(each, 900.0))
    assert remaining_text(once).count("Device ") == len({1} if wanted.chips else {0, 1, 2})

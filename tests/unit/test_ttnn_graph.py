# SPDX-License-Identifier: Apache-2.0
"""Data from captured graphs, in the form that ttnn returns."""

from __future__ import annotations

from typing import Any

from ttmem.collect.ttnn_graph import GraphBuffer, GraphPart, GraphProgram, hidden_parts, pairs, read
from ttmem.model.core_sets import CoreRange, mask_of
from ttmem.model.kinds import Kind

BASE = 105824
Nodes = list[dict[str, Any]]
ALL = "{[0-0 - 7-7]}"
GRID = mask_of([CoreRange(0, 0, 7, 7)])


def node(what: str, **params: Any) -> dict[str, Any]:
    return {"node_type": what, "params": params or None}


def buffer(came: bool, address: int, kind: int = 0, size: int = 8192) -> dict[str, Any]:
    what = "buffer_allocate" if came else "buffer_deallocate"
    return node(what, device_id=1, buffer_type=kind, address=address, size=size, max_size_per_bank=2048)


def cb(device: int, size: int, address: int = 0, shared: str = "0", cores: str = ALL) -> dict[str, Any]:
    what = "circular_buffer_allocate"
    return node(what, device_id=device, address=address, size=size, core_range_set=cores, globally_allocated=shared)


def dfb(size: int, shared: str = "0", cores: str = ALL) -> dict[str, Any]:
    what = "dataflow_buffer_allocate"
    return node(what, device_id=1, address=0, size=size, core_range_set=cores, borrows_memory=shared)


def scratchpad(size: int) -> dict[str, Any]:
    return node("scratchpad_allocate", device_id=1, address=0, size=size, core_range_set=ALL)


def start(name: str, hit: Any = None) -> dict[str, Any]:
    more = {} if hit is None else {"program_cache_hit": hit}
    return node("function_start", name=name, inputs="2", **more)


END = node("function_end", name="any")
PROGRAM = node("circular_buffer_deallocate_all", device_id=1)


def ran(chip: int) -> dict[str, Any]:
    return node("program_execution", device_id=1, physical_device_id=chip)


def operation(name: str, hit: Any, *inside: dict[str, Any]) -> list[dict[str, Any]]:
    return [start(name, hit), PROGRAM, *inside, END]


def programs(*nodes: dict[str, Any]) -> list[GraphProgram]:
    return [event for event in read(nodes) if isinstance(event, GraphProgram)]


def test_everything_comes_in_its_order() -> None:
    nodes = [
        node("capture_start"),
        start("Pad", False),
        start("create_device_tensor"),
        buffer(True, 4096, size=100),
        END,
        node("tensor", address=4096),
        PROGRAM,
        cb(0, 2048, BASE),
        cb(0, 64, 1394688, shared="1", cores="{[0-0 - 0-0]}"),
        ran(0),
        END,
        start("deallocate"),
        buffer(False, 4096, size=100),
        END,
        node("capture_end"),
    ]
    assert list(read(nodes)) == [
        GraphBuffer(True, 1, Kind.DRAM, 4096, 100, 2048),
        GraphProgram(
            "Pad",
            1,
            False,
            [[GraphPart(0, Kind.CB, BASE, 2048, GRID, False), GraphPart(0, Kind.CB, 1394688, 64, 1, True)]],
            [0],
        ),
        GraphBuffer(False, 1, Kind.DRAM, 4096, 100, 2048),
    ]


def test_kinds_of_buffers() -> None:
    kinds = [
        event.kind for event in read([buffer(True, 1, kind) for kind in (0, 1, 3, 4)]) if isinstance(event, GraphBuffer)
    ]
    assert kinds == [Kind.DRAM, Kind.L1, Kind.L1_SMALL, Kind.TRACE]


def test_an_operation_that_failed_still_tells() -> None:
    """The ends of its functions are missing."""
    assert [p.name for p in programs(start("outer"), start("Matmul", False), PROGRAM, cb(0, 32, BASE))] == ["Matmul"]
    assert not programs(start("Matmul", False))  # no program was made


def test_words_for_true_and_false() -> None:
    hits = [p.cached for hit in (True, False, "1", "0", 1, 0, "true", "false") for p in programs(*operation("A", hit))]
    assert hits == [True, False] * 4


def test_ends_without_a_start_are_no_trouble() -> None:
    assert [p.name for p in programs(END, END, PROGRAM, ran(0), *operation("A", False), END)] == ["A"]


def test_pairs_follow_the_order_of_each_name() -> None:
    real = programs(*operation("A", False), *operation("B", True), *operation("Move", False), *operation("A", False))
    virtual = programs(*operation("A", True, dfb(1)), *operation("A", True, dfb(2)), *operation("B", True))
    found = pairs(real, virtual)
    assert [program for program, _ in found] == real
    assert [other for _, other in found] == [virtual[0], virtual[2], None, virtual[1]]


def test_an_uncertain_pair_is_none() -> None:
    real = programs(*operation("A", False), *operation("A", False))
    assert pairs(real, programs(*operation("A", True))) == [(real[0], None), (real[1], None)]


def hidden(made: Nodes, virtual: Nodes, unit: int = 32) -> list[tuple[Kind, int, int]] | None:
    (first,), (second,) = programs(*made), programs(*virtual)
    parts = hidden_parts(first, second, BASE, unit)
    return None if parts is None else [(part.kind, part.address, part.size) for part in parts]


def test_dataflow_buffers_lie_above_the_circular_ones() -> None:
    made = operation("A", False, cb(0, 100, BASE), cb(0, 8192, 1394688, shared="1"))
    virtual = operation("A", True, cb(1, 100), cb(1, 8192, shared="1"), dfb(4096), dfb(512, shared="1"), scratchpad(16))
    top = BASE + 128
    assert hidden(made, virtual) == [(Kind.DFB, top, 4096), (Kind.SCRATCHPAD, top + 4096, 16)]
    top = (BASE + 100 + 63) // 64 * 64
    assert hidden(made, virtual, unit=64) == [(Kind.DFB, top, 4096), (Kind.SCRATCHPAD, top + 4096, 16)]


def test_what_is_on_other_cores_may_lie_at_the_same_address() -> None:
    virtual = operation("A", True, dfb(64, cores="{[0-0 - 0-0]}"), dfb(64, cores="{[1-0 - 1-0]}"), dfb(64))
    assert hidden(operation("A", False), virtual) == [
        (Kind.DFB, BASE, 64),
        (Kind.DFB, BASE, 64),
        (Kind.DFB, BASE + 64, 64),
    ]


def test_another_program_tells_nothing() -> None:
    virtual = operation("A", True, cb(1, 200), dfb(64))
    assert hidden(operation("A", False, cb(0, 100, BASE)), virtual) is None
    assert hidden(operation("A", False), virtual) is None
    assert hidden_parts(programs(*operation("A", False))[0], None, BASE, 32) is None


def test_one_program_for_all_chips() -> None:
    made = operation("A", False, cb(0, 96, BASE), cb(1, 96, BASE), ran(0), ran(1))
    assert hidden(made, operation("A", True, cb(1, 96), dfb(64))) == [(Kind.DFB, BASE + 96, 64)]
    unequal = operation("A", False, cb(0, 96, BASE), cb(1, 64, BASE))
    assert hidden(unequal, operation("A", True, cb(1, 96), dfb(64))) is None


def test_a_program_for_each_chip() -> None:
    """They are created where the capture does not see it. Equal ones are still recognised."""
    made = operation("A", False, PROGRAM, ran(0), ran(1))
    equal = operation("A", True, cb(1, 96), dfb(64), PROGRAM, cb(1, 96), dfb(64))
    assert hidden(made, equal) == [(Kind.CB, BASE, 96), (Kind.DFB, BASE + 96, 64)]
    unequal = operation("A", True, cb(1, 96), dfb(64), PROGRAM, cb(1, 96), dfb(32))
    assert hidden(made, unequal) is None

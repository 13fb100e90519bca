# SPDX-License-Identifier: Apache-2.0
"""The agent's account, compared with ttnn's own after every step of random programs and of difficult scenes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.agents import watched
from tests.mock.wheel import in_turn
from tests.oracle import Oracle, check_audit
from ttmem.documents.chip_memory import completeness
from ttmem.model.kinds import Kind
from ttmem.wire.agent_ring import NO_MESH_ID

LOOK_CLOSELY = 10  # steps between comparisons of the table with all records ever written
SCENES = {
    "capture_without_dispatch": "n150",
    "freed_wholesale": "n150",
    "closed_with_live_tensors": "n150",
    "two_devices": "n300",
    "part_of_a_mesh": "n300",
    "global_allocations": "n150",
    "out_of_memory": "n150",
    "opened_often": "n150",
}
# Tensors that are destroyed after their buffers were freed in bulk, and find nothing at their address.
UNKNOWN_FREES = {"freed_wholesale": 2}
HYBRID = {"TT_METAL_ALLOCATOR_MODE_HYBRID": "1"}


@pytest.mark.parametrize(
    ("python", "board", "steps", "arguments"),
    [
        # Both wheels are built from the same C++: one program runs on each, the others run on one.
        pytest.param("3.10", "n150", 300, ("--seed", "11", "--threads", "4"), id="n150-threads-3.10"),
        pytest.param("3.12", "n150", 300, ("--seed", "11", "--threads", "4"), id="n150-threads-3.12"),
        pytest.param("3.12", "n150", 300, ("--seed", "12", "--trace-region-size", "1048576"), id="n150-trace-region"),
        pytest.param("3.12", "n300", 100, ("--seed", "13"), id="n300"),
        pytest.param("3.10", "t3k", 60, ("--seed", "14"), id="t3k"),
        pytest.param("3.12", "p150", 100, ("--seed", "15"), id="p150"),
    ],
)
def test_a_random_program(python: str, board: str, steps: int, arguments: tuple[str, ...], folder: Path) -> None:
    seen = Counter[str]()
    last: dict[str, Any] = {}
    with watched(python, "ttnn_random", board, folder, "--steps", str(steps), *arguments) as (collector, program):
        oracle = Oracle(collector, program)
        for record in program.records():
            assert record["error"] is None
            oracle.compare([record] if record["views"] else [])
            if record["step"] % LOOK_CLOSELY == 0:
                oracle.look_closely()
            oracle.nothing_odd()
            seen[record["what"]] += 1
            if record["views"]:
                last = record
        oracle.nothing_live()
        check_audit(oracle.agent.ring.mesh(0), last["views"])  # of the closing, when everything still exists
    assert oracle.compared == steps + 2
    assert seen["out_of_memory"]
    assert seen["threads"] or steps < 300
    assert seen["trace"] or "--trace-region-size" not in arguments
    assert last["program_cache"]


@pytest.mark.parametrize(("scene", "python"), in_turn(SCENES))
def test_a_scene(scene: str, python: str, folder: Path, request: pytest.FixtureRequest) -> None:
    states: dict[str, tuple[int, list[Any]]] = {}
    with watched(python, "ttnn_scenes", SCENES[scene], folder, "--scene", scene) as (collector, program):
        oracle = Oracle(collector, program)
        for record in program.records():
            oracle.compare(record["meshes"], record["listed"])
            oracle.look_closely()
            states[record["what"]] = len(oracle.agent.history), oracle.agent.live_in_account()
            if "failed" in record:
                assert "Out of Memory" in record["failed"]
        oracle.nothing_odd(UNKNOWN_FREES.get(scene, 0))
        oracle.nothing_live()
    assert oracle.compared == len(states) > 1
    if scene == "capture_without_dispatch":
        # No additional record: a capture allocates nothing.
        assert states["before"] == states["inside"] == states["captured"] == states["its tensors gone"]
    if scene == "global_allocations":
        assert oracle.fresh  # the first buffer of a device is audited at once
    if scene == "part_of_a_mesh":
        _, live = states["both at one address"]
        assert len({allocation.address for allocation in live}) == 1
        assert Counter(allocation.number for allocation in live) == {0: 1, 1: 2}


def test_a_random_program_on_the_hybrid_allocator(folder: Path) -> None:
    """The workload is not affected, and if the amounts differ, the audit at the end reports it."""
    with watched("3.12", "ttnn_random", "n150", folder, "--steps", "60", "--seed", "16", environment=HYBRID) as (
        collector,
        program,
    ):
        equal = False
        for record in program.records():
            assert record["error"] is None
            collector.drain()
            if record["views"]:
                allocations = [allocation for allocation in collector.ledger.allocations() if allocation.kind < Kind.CB]
                ours = Counter((int(allocation.kind), allocation.address) for allocation in allocations)
                assert ours == Counter(tuple(buffer) for buffer in record["buffers"])
                view = record["views"]["L1"]
                reserved = sum(t.extra.reserved or 0 for t in allocations if t.kind is Kind.L1 and t.extra is not None)
                equal = reserved == view["banks"] * view["allocated_per_bank"]
        oracle = Oracle(collector, program)
        oracle.nothing_odd()
        oracle.nothing_live()
        mesh = oracle.agent.ring.mesh(0)
    closing = mesh.banks[Kind.L1]
    assert closing.theirs == view["allocated_per_bank"]
    assert (closing.ours == closing.theirs) == equal
    assert equal or mesh.mismatches


def test_a_buffer_with_an_address_for_each_core(folder: Path) -> None:
    """It is counted in addition to the mesh. If its reserved size is unknown, the audit does not count as complete."""
    with watched("3.12", "ttnn_scenes", "n150", folder, "--scene", "by_core", environment=HYBRID) as (
        collector,
        program,
    ):
        for record in program.records():
            collector.drain()
            meshes = collector.agents[program.pid].ring.meshes()
            in_lock_step, by_core, taken = 0, 0, 0
            for allocation in collector.ledger.allocations():
                assert allocation.extra is not None
                if allocation.kind is Kind.L1 and meshes[allocation.extra.allocator - 1].mesh_id == NO_MESH_ID:
                    by_core += allocation.size
                    taken += allocation.extra.reserved or 0
                elif allocation.kind is Kind.L1:
                    in_lock_step += allocation.extra.reserved or 0
            views = [mesh["views"]["L1"] for mesh in record["meshes"]]
            assert in_lock_step == sum(view["banks"] * view["allocated_per_bank"] for view in views)
            assert by_core == record["by_core"]
            if taken != by_core:
                assert completeness(collector.ledger.chips[str(program.chip_ids[0])]) != 1.0
        assert not collector.ledger.anomalies


def test_narrow_rows_on_the_hybrid_allocator(folder: Path) -> None:
    with watched("3.12", "ttnn_scenes", "n150", folder, "--scene", "narrow_rows", environment=HYBRID) as (
        collector,
        program,
    ):
        oracle = Oracle(collector, program)
        for record in program.records():
            oracle.compare(record["meshes"])


def test_narrow_rows_on_the_plain_allocator(folder: Path) -> None:
    with watched("3.12", "ttnn_scenes", "n150", folder, "--scene", "narrow_rows") as (collector, program):
        oracle = Oracle(collector, program)
        for record in program.records():
            oracle.compare(record["meshes"])

# SPDX-License-Identifier: Apache-2.0
"""The agent's account, compared with ttnn's own after every step of random programs and of difficult scenes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.agents import Agent, Collector, watched
from tests.mock.program import Program
from tests.mock.wheel import PYTHONS
from ttmem.account.entities import Chip
from ttmem.documents.snapshot import completeness, memory
from ttmem.model.kinds import Kind
from ttmem.wire.agent_ring import NO_MESH_ID, Mesh

BUFFER_KINDS = ("DRAM", "L1", "L1_SMALL", "TRACE")
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
# Tensors that die after their buffers were freed wholesale, and find nothing at their address.
UNKNOWN_FREES = {"freed_wholesale": 2}
HYBRID = {"TT_METAL_ALLOCATOR_MODE_HYBRID": "1"}


def check_audit(mesh: Mesh, views: dict[str, Any]) -> None:
    """The audit that nothing has changed since says what ttnn says."""
    for name in BUFFER_KINDS:
        bank, view = mesh.banks[Kind[name]], views[name]
        if view["total_per_bank"]:
            assert bank.ours == bank.theirs == view["allocated_per_bank"]
            assert bank.largest_free == view["largest_free_per_bank"]
            assert (bank.banks, bank.size) == (view["banks"], view["total_per_bank"])


class Oracle:
    """Compares one process's account with what ttnn says in a record."""

    def __init__(self, collector: Collector, program: Program) -> None:
        self._collector = collector
        self._pid = program.pid
        self._chip_ids: Mapping[int, int] = program.chip_ids
        self.compared = 0
        self.fresh = 0  # audits that nothing had changed since

    @property
    def agent(self) -> Agent:
        return self._collector.agents[self._pid]

    def compare(self, meshes: list[dict[str, Any]], listed: bool = True) -> None:
        self._collector.drain()
        for number, chip_id in self._chip_ids.items():
            here = [mesh for mesh in meshes if number in mesh["chips"]]
            chip = self._collector.ledger.chips.get(str(chip_id))
            allocations = [
                allocation
                for holding in self.agent.source.holdings.values()
                if number in holding.numbers
                for allocation in holding.buffers.values()
            ]
            reserved = dict.fromkeys(Kind, 0)
            for allocation in allocations:
                assert allocation.extra is not None
                assert allocation.extra.reserved is not None
                reserved[allocation.kind] += allocation.extra.reserved
            for name in BUFFER_KINDS:
                views = [mesh["views"][name] for mesh in here]
                allocated = sum(view["banks"] * view["allocated_per_bank"] for view in views)
                assert reserved[Kind[name]] == allocated, (number, name)
                if chip is not None:
                    assert chip.kinds[Kind[name]].reserved_bytes == allocated
            if listed:
                ours = Counter((int(allocation.kind), allocation.address) for allocation in allocations)
                assert ours == Counter(tuple(buffer) for mesh in here for buffer in mesh["buffers"]), number
            if chip is not None:
                assert completeness(chip) in (None, 1.0)
                if len(here) == 1:
                    self._check_free(chip, here[0]["views"])
        self._check_audits(meshes)
        self.compared += 1

    def _check_free(self, chip: Chip, views: dict[str, Any]) -> None:
        """What is free now, however long ago the allocator was asked for its largest block."""
        l1, view = memory(chip, chip.geometry)["l1"], views["L1"]
        if l1["used"] is not None or view["allocated_per_bank"]:
            assert l1["bank_free"] is not None
            assert l1["at_once"] is not None
            assert l1["bank_free"] == view["total_per_bank"] - view["allocated_per_bank"]
            assert l1["bank_free"] >= (l1["largest_free"] or 0)
            assert l1["at_once"] >= view["banks"] * view["allocated_per_bank"]

    def _check_audits(self, meshes: list[dict[str, Any]]) -> None:
        for number, mesh in enumerate(self.agent.ring.meshes()):
            assert mesh.mismatches == 0
            if mesh.state != 1 or mesh.parent != number or not mesh.audits:
                continue
            if mesh.audited < self.agent.last_change(number).time:
                continue  # an audit shows what was there at its time
            numbers = [chip.number for chip in self.agent.ring.chips_of(mesh)]
            views = [mesh["views"] for mesh in meshes if mesh["chips"] == numbers]
            if len(views) != 1:
                continue
            self.fresh += 1
            check_audit(mesh, views[0])

    def look_closely(self) -> None:
        """Table, records and account name the same allocations, and the totals are their sums."""
        in_table = self.agent.live_in_table()
        assert in_table == self.agent.live_in_records()
        assert in_table == self.agent.live_in_account()
        used = Counter[tuple[Chip, Kind]]()
        for holding in self.agent.source.holdings.values():
            for allocation in holding.allocations():
                for chip in holding.chips:
                    used[chip, allocation.kind] += allocation.counted
        for chip in self._collector.ledger.chips.values():
            assert [chip.kinds[kind].used for kind in Kind] == [used[chip, kind] for kind in Kind], chip.id

    def nothing_odd(self, unknown_frees: int = 0) -> None:
        counts = {
            name: self.agent.ring.field(name)
            for name in ("unknown_frees", "replaced", "table_full", "blobs_full", "failures")
        }
        assert counts == {**dict.fromkeys(counts, 0), "unknown_frees": unknown_frees}
        assert self.agent.ring.text("trouble") == ""
        assert self.agent.fold.lost == 0
        assert not self._collector.ledger.anomalies

    def nothing_live(self) -> None:
        assert self.agent.live_in_table() == self.agent.live_in_records() == self.agent.live_in_account() == []
        assert not any(holding.programs for holding in self.agent.source.holdings.values())


@pytest.mark.parametrize(
    ("python", "board", "steps", "arguments"),
    [
        # Both wheels are built from the same C++: one program and all scenes run on each, the other programs on one.
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
        check_audit(oracle.agent.ring.mesh(0), last["views"])  # of the closing, with everything still there
    assert oracle.compared == steps + 2
    assert seen["out_of_memory"]
    assert seen["threads"] or steps < 300
    assert seen["trace"] or "--trace-region-size" not in arguments
    assert last["program_cache"]


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("scene", SCENES)
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
        # Not a record more: a capture allocates nothing.
        assert states["before"] == states["inside"] == states["captured"] == states["its tensors gone"]
    if scene == "global_allocations":
        assert oracle.fresh  # the first buffer of a device is audited at once
    if scene == "part_of_a_mesh":
        _, live = states["both at one address"]
        assert len({allocation.address for allocation in live}) == 1
        assert Counter(allocation.number for allocation in live) == {0: 1, 1: 2}


def test_a_random_program_on_the_hybrid_allocator(folder: Path) -> None:
    """The workload does not care, and where the amounts differ the audit at the end says so."""
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
    """It is counted beside the mesh's own; if what it takes is not known, nobody says that all was checked."""
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

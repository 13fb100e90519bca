# SPDX-License-Identifier: Apache-2.0
"""Which buffer is which, on the real ttnn: several at one address, some from before tracking; kernels on no core."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.agents import Agent, fold_into, read_all, watched
from tests.runs import Bench, ttmem
from ttmem.account.ledger import Ledger
from ttmem.documents.chip_memory import completeness, memory
from ttmem.l1.core_map import OWN_ADDRESSES, CoreMapBuilder
from ttmem.model.kinds import Kind
from ttmem.wire.agent_ring import NO_MESH_ID, PER_CORE

HYBRID = {"TT_METAL_ALLOCATOR_MODE_HYBRID": "1"}


@pytest.fixture
def bench(folder: Path) -> Iterator[Bench]:
    with Bench(folder) as bench:
        yield bench


def per_core(ledger: Ledger) -> list[list[int]]:
    """Chip, address and size of buffers with a different address on each core."""
    allocations = [
        allocation for allocation in ledger.allocations() if allocation.extra is not None and allocation.extra.per_core
    ]
    assert all(allocation.kind is Kind.L1 and allocation.refs == 1 for allocation in allocations)
    return sorted(
        [number, allocation.address, allocation.size]
        for allocation in allocations
        for number in allocation.holding.numbers
    )


def from_the_table(agent: Agent) -> Ledger:
    """The account of a reader that is too late for the records."""
    ledger = Ledger()
    fold = fold_into(ledger, agent.reader(), agent.pid)
    fold.catch_up()
    read_all(fold)
    fold.ring.close()
    return ledger


# -- several buffers at one address ---------------------------------------------------------------------------------


@pytest.mark.parametrize("board", ["n150", "n300"])
def test_buffers_with_an_address_of_their_own_on_each_core(board: str, folder: Path) -> None:
    shared = chips_with_some = asked = 0
    with watched("3.12", "ttnn_per_core", board, folder, "--steps", "60", "--left", "4", environment=HYBRID) as (
        collector,
        program,
    ):
        for record in program.records():
            collector.drain()
            agent, ledger = collector.agents[program.pid], collector.ledger
            assert per_core(ledger) == record["per_core"]
            assert agent.live_in_table() == agent.live_in_records() == agent.live_in_account()
            shared += max(Counter((chip, address) for chip, address, _ in record["per_core"]).values(), default=0) > 1
            counters = agent.fold.counters()
            assert not any(counters.values()), counters
            assert not ledger.anomalies
            if not record["meshes"]:
                continue
            (view,) = [mesh["views"]["L1"] for mesh in record["meshes"]]
            for number, chip_id in program.chip_ids.items():
                chip = ledger.chips[str(chip_id)]
                own = sum(size for device, _, size in record["per_core"] if device == number)
                assert chip.kinds[Kind.L1].reserved == view["banks"] * view["allocated_per_bank"] + own
                assert completeness(chip) in (None, 1.0)
                chips_with_some += bool(own)
                # Their addresses are unknown, so the free memory beside them is unknown, too.
                assert (memory(chip, chip.geometry)["l1"]["bank_free"] is None) == bool(own)
            late = from_the_table(agent)
            assert per_core(late) == record["per_core"]
            assert [chip.kinds[Kind.L1].used for chip in late.chips.values()] == [
                chip.kinds[Kind.L1].used for chip_id, chip in ledger.chips.items() if chip_id in late.chips
            ]
            asked += _same_count(agent, record["per_core"])
        assert not list(ledger.allocations())
    assert shared > 10
    assert chips_with_some > 10
    assert asked


def _same_count(agent: Agent, listed: list[list[int]]) -> int:
    """The number of chips on which tt-metal was asked for its number of buffers since the last change."""
    fresh = 0
    for number, mesh in enumerate(agent.ring.meshes()):
        changes = [record.time for record in agent.history if record.mesh == number and record.flags & PER_CORE]
        if mesh.mesh_id == NO_MESH_ID and mesh.state == 1 and changes and mesh.audited > changes[-1]:
            (chip,) = agent.ring.chips_of(mesh)
            assert mesh.buffers_ours == mesh.buffers_theirs == sum(chip.number == one[0] for one in listed)
            fresh += 1
    return fresh


def test_a_map_with_them_says_what_it_does_not_know(folder: Path) -> None:
    with watched("3.12", "ttnn_per_core", "n150", folder, "--steps", "0", "--left", "3", environment=HYBRID) as (
        collector,
        program,
    ):
        for record in program.records():
            collector.drain()
            if record["what"] != "left":
                continue
            chip = collector.ledger.chips[str(program.chip_ids[0])]
            assert chip.geometry is not None
            survey = CoreMapBuilder(chip, chip.geometry)
            for allocation in collector.ledger.allocations():
                survey.add(allocation)
            for _ in survey.finish():
                pass
            found = survey.map
            assert dict(found.unplaced) == {OWN_ADDRESSES: 3}
            assert found.headroom_min is None
            assert {(core.free, core.unknown) for core in found.cores} == {
                (
                    chip.geometry.l1_small_size,
                    chip.geometry.l1_size - chip.geometry.l1_base - chip.geometry.l1_small_size,
                )
            }


def test_those_that_are_left_are_listed(bench: Bench) -> None:
    ran = bench.run("ttnn_per_core", "--left", "5", options=["--fail-on-leak"], **HYBRID)
    assert ran.code == 0, ran.err
    sizes = [size for _, _, size in ran.records[-2]["per_core"]]
    assert len(sizes) == 5
    assert sorted(row["size"] for row in ran.data["left"] if row["cause"] == "tensor") == sorted(sizes)
    assert not any(ran.data["agent"].values())
    assert not any(ran.data["anomalies"].values())


def test_a_run_that_leaves_none_lists_none(bench: Bench) -> None:
    ran = bench.run("ttnn_per_core", options=["--fail-on-leak"], **HYBRID)
    assert ran.code == 0, ran.err
    assert [row for row in ran.data["left"] if row["cause"] == "tensor"] == []


def test_a_recording_tells_them_apart(bench: Bench) -> None:
    path = bench.folder / "events"
    ran = bench.run("ttnn_per_core", "--left", "5", options=["--record", str(path)], **HYBRID)
    assert ran.code == 0, ran.err
    replayed = json.loads(ttmem("replay", str(path), "--peaks", "--json").out)
    assert _peaks(replayed) == _peaks(ran.data["peaks"])
    anomalies = json.loads(ttmem("replay", str(path), "--json").out)["anomalies"]
    assert not any(anomalies.values())


def _peaks(found: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return sorted(((p.get("pool"), p.get("kind"), p["per_chip"], len(p["largest"])) for p in found), key=repr)


# -- kernels on no core ---------------------------------------------------------------------------------------------


def test_a_kernel_on_no_core_is_nothing_odd(bench: Bench) -> None:
    ran = bench.run("ttnn_empty")
    assert ran.code == 0, ran.err
    assert ran.records[-1]["count"]  # there were programs
    assert not any(ran.data["anomalies"].values())
    assert "Anomalies: none" in ran.err


# -- buffers from before tracking began -----------------------------------------------------------------------------


def test_frees_of_buffers_from_before_are_counted_by_themselves(folder: Path) -> None:
    with watched("3.12", "ttnn_late", "n150", folder) as (collector, program):
        for record in program.records():
            collector.drain()
            agent = collector.agents[program.pid]
            buffers = [allocation for allocation in collector.ledger.allocations() if allocation.kind < Kind.CB]
            assert sorted([int(allocation.kind), allocation.address] for allocation in buffers) == record["seen"]
            counters = agent.fold.counters()
            assert counters == dict.fromkeys(counters, 0) | {"earlier_frees": record["freed"]}
            (chip,) = collector.ledger.chips.values()
            assert completeness(chip) in (None, 1.0)
        assert not any(mesh.mismatches for mesh in agent.ring.meshes())
        assert agent.ring.meshes()[0].audits

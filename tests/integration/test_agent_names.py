# SPDX-License-Identifier: Apache-2.0
"""The agent's data about devices and operations, compared with the real ttnn."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.agents import watched
from tests.mock.wheel import PYTHONS
from ttmem.model.kinds import Kind
from ttmem.wire.agent_ring import RingEvent

BOARDS = ("n150", "n300", "t3k", "p150")


@pytest.mark.parametrize("python", PYTHONS)
def test_what_is_allocated_bears_the_name_of_its_operation(python: str, folder: Path) -> None:
    """In all threads, through operators, after a failed operation. The cleared cache is reported, too."""
    with watched(python, "ttnn_names", "n150", folder) as (collector, program):
        for record in program.records():
            collector.drain()
            (agent,) = collector.agents.values()
            if "address" in record:
                (allocation,) = (
                    t for t in collector.ledger.allocations() if t.kind is Kind.DRAM and t.address == record["address"]
                )
                assert allocation.extra is not None
                assert allocation.extra.tag == record["what"]
            told = [r.event for r in agent.history if r.event == RingEvent.CACHE_CLEARED]
            assert len(told) == (record["what"] in ("cleared", "close"))
        assert agent.ring.field("names") == 1
        tags = {program.tag for holding in agent.source.holdings.values() for program in holding.programs.values()}
        assert tags == set()  # closed
        ran = {agent.ring.name(r.name) for r in agent.history if r.event == RingEvent.RUN}
        assert ran == {"ttnn.matmul", "ttnn.add", "ttnn.relu", "ttnn.gelu"}
        threads = {agent.ring.name(r.name): r.thread for r in agent.history if r.event == RingEvent.RUN}
        assert threads["ttnn.matmul"] == program.pid != threads["ttnn.gelu"]


@pytest.mark.parametrize("board", BOARDS)
def test_geometry_is_read_from_the_device(board: str, folder: Path) -> None:
    with watched("3.12", "ttnn_names", board, folder, "--trace-region-size", "1048576") as (collector, program):
        opened = next(iter(program.records()))
        collector.drain()
        (agent,) = collector.agents.values()
        said = opened["geometry"]
        for number in opened["chips"]:
            chip = agent.source.process.numbers[number]
            geometry = chip.geometry
            assert geometry is not None
            assert geometry.live
            assert chip.id == str(program.chip_ids[number])
            assert chip.info.board == {"t3k": "n300"}.get(board, board)
            mine = {name: getattr(geometry, name) for name in said if hasattr(geometry, name)}
            assert mine == {name: value for name, value in said.items() if name in mine}
            assert geometry.dram_bank_size == said["dram_base"] + said["dram_usable"] + said["trace_size"]
            assert geometry.ring_size == said["l1_base"] - said["map_end"] == 70656

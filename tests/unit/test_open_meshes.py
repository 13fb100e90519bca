# SPDX-License-Identifier: Apache-2.0
"""Meshes of a recording that have the same index one after the other: each has an allocator of its own."""

from __future__ import annotations

import pytest

from tests.recordings import RingRecording
from tests.scripted_agent import BANKS, SLOTS, Agent
from ttmem.model.kinds import Kind
from ttmem.recording.allocation_table import AllocationTable, End


def dram_banks(table: AllocationTable) -> list[int]:
    """For each allocation, the banks of DRAM that its allocator has."""
    return [table.allocators[place].regions[Kind.DRAM].banks for place in table.allocator.tolist()]


@pytest.mark.parametrize("written", [False, True], ids=["in one block", "in two blocks"])
@pytest.mark.parametrize("lost", [False, True])
def test_a_mesh_that_is_closed_and_opened_again(agent: Agent, lost: bool, written: bool) -> None:
    """Only the record that opened it distinguishes the new mesh from the old one: its chips are the same."""
    recording = RingRecording(agent)
    agent.put_mesh(0, opened=agent.head + 1)
    agent.opened()
    agent.allocate(0, 100)
    agent.allocate(1, 200)
    recording.poll(flush=written)
    agent.free(0)
    agent.reopen(banks=BANKS // 2)  # the second buffer ends with its device
    if lost:
        agent.free(1)
        agent.churn(2 * SLOTS)
    agent.allocate(1, 300)
    table = recording.recording().lifetimes().allocations
    old, new = table.where(table.size < 300), table.where(table.size == 300)
    assert old.ended_by.tolist() == ([End.LOST] * 2 if lost else [End.FREED, End.DEVICE_CLOSED])
    assert (old.reserved.tolist(), new.reserved.tolist()) == ([32 * BANKS] * 2, [32 * BANKS // 2])
    assert dram_banks(old) == [BANKS] * 2
    assert dram_banks(new) == [BANKS // 2]
    assert len(table.allocators) == 2
    assert len(table.chip_sets) == 1


def test_allocators_of_equal_meshes(agent: Agent) -> None:
    """Two meshes that have everything in common but their time, with a buffer each at the same address."""
    recording = RingRecording(agent)
    agent.put_mesh(0, opened=agent.head + 1)
    agent.opened()
    for size in (100, 300):
        agent.allocate(0, size)
        recording.poll(flush=True)
        agent.free(0)
        agent.reopen()
    table = recording.recording().lifetimes().allocations
    assert table.allocator.tolist() == [0, 1]
    assert table.allocators[0] == table.allocators[1]


def test_submeshes(agent: Agent) -> None:
    """A submesh uses the allocator of its parent. That is another one when the parent is opened again."""
    agent.chip(1, 777, 1)
    agent.mesh(0, [0, 1])
    recording = RingRecording(agent)
    agent.put_mesh(0, opened=agent.head + 1)
    agent.opened()
    for slot, chip in enumerate((0, 1, 1)):
        agent.mesh(1, [chip], parent=0)
        agent.put_mesh(1, opened=agent.head + 1)
        agent.opened(1)
        agent.allocate(slot, 100 + slot, mesh=1)
        recording.poll(flush=True)
        if slot == 1:
            for live in (0, 1):
                agent.free(live)
            agent.reopen(banks=BANKS // 2)
    table = recording.recording().lifetimes().allocations
    assert [table.chip_sets[chips] for chips in table.chips.tolist()] == [("555",), ("777",), ("777",)]
    assert table.allocator.tolist() == [0, 0, 1]
    assert dram_banks(table) == [BANKS, BANKS, BANKS // 2]
    assert [one.chips for one in table.allocators] == [("555", "777")] * 2

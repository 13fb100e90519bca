# SPDX-License-Identifier: Apache-2.0
"""Meshes of a recording that have the same index one after the other: each has an allocator of its own."""

from __future__ import annotations

from math import inf

import pytest

from tests.metered_agent import MeteredAgent
from tests.recordings import RingRecording, live_in_account, live_in_table, peaks_agree, samples_agree
from tests.scripted_agent import BANKS, SLOTS, Agent
from ttmem.model.kinds import Kind
from ttmem.recording.allocation_table import AllocationTable, End
from ttmem.recording.blocks import BlockWriter
from ttmem.recording.ring_copier import RingCopier

_STEP = 10_000_000  # ns


def dram_banks(table: AllocationTable) -> list[int]:
    """For each allocation, the banks of DRAM that its allocator has."""
    return [table.allocators[place].regions[Kind.DRAM].banks for place in table.allocator.tolist()]


def replace(agent: MeteredAgent) -> None:
    agent.close_mesh(1)
    agent.open_mesh(1, [1])
    agent.take(1, 5, Kind.DRAM, 1)


@pytest.mark.parametrize("written", [False, True], ids=["in one block", "in two blocks"])
@pytest.mark.parametrize("lost", [False, True])
def test_a_mesh_that_is_closed_and_opened_again(agent: Agent, lost: bool, written: bool) -> None:
    """Only the record that opened it distinguishes the new mesh from the old one: its chips are the same."""
    recording = RingRecording(agent)
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
    agent.opened()
    for slot, chip in enumerate((0, 1, 1)):
        agent.mesh(1, [chip], parent=0)
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


@pytest.mark.parametrize("lost", [False, True])
def test_a_mesh_without_a_description(lost: bool) -> None:
    """The agent had no room for it, or its record was lost. The row of now is used, and not an earlier description."""
    agent = MeteredAgent([555, 777], [[0], [0]])
    recording = RingRecording(agent)
    agent.take(0, 100, Kind.DRAM, 1)
    recording.poll(flush=True)
    agent.close_mesh(1)
    agent.mesh(1, [1])
    agent.opened(1, described=False)
    if lost:
        agent.churn(2 * SLOTS)
    agent.allocate(0, 60, mesh=1)
    table = recording.recording().lifetimes().allocations
    of_size = {size: table.chip_sets[chips] for size, chips in zip(table.size.tolist(), table.chips.tolist())}
    assert (of_size[100], of_size[60]) == (("555",), ("777",))


@pytest.mark.parametrize("first_before", [False, True])
@pytest.mark.parametrize("second_after", [False, True])
def test_samples_of_a_mesh_that_is_replaced_before_the_recorder_looks(
    first_before: bool, second_after: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the description of the first mesh says that it had the chip of another one, where both were highest."""
    agent = MeteredAgent([555, 777], [[0]])
    recording = RingRecording(agent)
    agent.open_mesh(1, [0])
    if first_before:
        recording.poll(flush=True)
    agent.clock += _STEP
    agent.take(0, 100, Kind.DRAM, 0)
    agent.take(1, 10, Kind.DRAM, 1)
    agent.give_back(1)
    agent.give_back(0)
    agent.take(1, 30, Kind.DRAM, 1)
    agent.give_back(1)
    agent.clock += _STEP
    if second_after:
        write_state = RingCopier._write_state

        def replaced_before(copier: RingCopier, file: BlockWriter) -> None:
            replace(agent)
            write_state(copier, file)

        with monkeypatch.context() as patch:
            patch.setattr(RingCopier, "_write_state", replaced_before)  # rows are copied after records
            recording.poll(flush=True)
    else:
        replace(agent)
    assert samples_agree(recording.recording(), _STEP * 1e-9)


def test_a_mesh_that_is_used_after_a_loss_and_replaced_before_the_recorder_looks() -> None:
    """At the first record that uses it, its row is that of a later mesh."""
    agent = MeteredAgent([555, 777], [[0]])
    recording = RingRecording(agent)
    recording.poll(flush=True)
    agent.open_mesh(1, [0])
    agent.churn(2 * SLOTS)
    recording.poll(flush=True)
    agent.take(0, 100, Kind.DRAM, 1)
    agent.close_mesh(1)
    agent.open_mesh(1, [1])
    agent.take(0, 60, Kind.DRAM, 1)
    table = recording.recording().lifetimes().allocations
    of_size = {size: table.chip_sets[chips] for size, chips in zip(table.size.tolist(), table.chips.tolist())}
    assert (of_size[100], of_size[60]) == (("555",), ("777",))


def test_a_submesh_that_is_used_after_a_loss_and_replaced_before_the_recorder_looks() -> None:
    """Its index is lower than that of its parent."""
    agent = MeteredAgent([555, 777], [[0]])
    recording = RingRecording(agent)
    recording.poll(flush=True)
    agent.open_mesh(2, [0, 1])
    agent.open_mesh(1, [1], parent=2)
    agent.churn(2 * SLOTS)
    recording.poll(flush=True)
    agent.take(0, 100, Kind.DRAM, 1)
    agent.close_mesh(2)
    agent.open_mesh(1, [0])
    recorded = recording.recording()
    table = recorded.lifetimes().allocations
    (used,) = table.where(table.size == 100).chips.tolist()
    assert table.chip_sets[used] == ("777",)
    peaks_agree(recorded, recorded.at().ledger)


def test_a_mesh_that_is_replaced_while_a_checkpoint_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table and the rows of the meshes are copied again, so that they are of one moment."""
    agent = MeteredAgent([555, 777], [[0]])
    recording = RingRecording(agent)
    agent.open_mesh(1, [0])
    agent.take(0, 100, Kind.DRAM, 1)
    (copier,) = recording.copiers
    copied, copies = copier._ring.table, 0

    def table() -> tuple[int, bytearray, int]:
        nonlocal copies
        copies += 1
        found = copied()
        if copies == 1:
            agent.close_mesh(1)
            agent.open_mesh(1, [1])
            agent.take(0, 60, Kind.DRAM, 1)
        return found

    monkeypatch.setattr(copier._ring, "table", table)
    recording.table()
    assert copies == 2
    agent.take(1, 7, Kind.DRAM, 0)
    head = recording.recording()
    assert live_in_account(head.at().ledger) == live_in_table(head, inf)


def test_a_mesh_that_is_closed_while_a_checkpoint_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records after the table use it, although its row is that of a closed mesh. Then its index is another mesh's."""
    agent = MeteredAgent([555, 777], [[0]])
    recording = RingRecording(agent)
    recording.poll(flush=True)
    agent.open_mesh(1, [0])
    agent.churn(2 * SLOTS)
    write_state = RingCopier._write_state

    def closed_before(copier: RingCopier, file: BlockWriter) -> None:
        agent.take(0, 100, Kind.DRAM, 1)
        agent.close_mesh(1)
        write_state(copier, file)

    with monkeypatch.context() as patch:
        patch.setattr(RingCopier, "_write_state", closed_before)
        recording.poll(flush=True)
    agent.open_mesh(1, [1])
    agent.take(0, 60, Kind.DRAM, 1)
    recorded = recording.recording()
    table = recorded.lifetimes().allocations
    chips = [table.chip_sets[place] for place in table.chips.tolist()]
    assert dict(zip(table.size.tolist(), chips)) == {100: ("555",), 60: ("777",)}
    peaks_agree(recorded, recorded.at().ledger)


def test_meshes_that_are_opened_during_every_copy_for_a_checkpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    """After some attempts the last copy is used. A mesh that was replaced after it is still the earlier one there."""
    agent = MeteredAgent([555, 777], [[0]])
    recording = RingRecording(agent)
    recording.poll(flush=True)
    agent.open_mesh(1, [0])
    agent.take(0, 100, Kind.DRAM, 1)
    agent.churn(2 * SLOTS)
    (copier,) = recording.copiers
    copied, copies = copier._ring.table, 0

    def table() -> tuple[int, bytearray, int]:
        nonlocal copies
        copies += 1
        found = copied()
        agent.open_mesh(1 + copies, [0])
        if copies == 3:
            agent.close_mesh(1)
            agent.open_mesh(1, [1])
            agent.take(0, 60, Kind.DRAM, 1)
        return found

    monkeypatch.setattr(copier._ring, "table", table)
    recording.poll(flush=True)
    assert copies == 3
    recorded = recording.recording()
    allocations = recorded.lifetimes().allocations
    chips = [allocations.chip_sets[place] for place in allocations.chips.tolist()]
    assert dict(zip(allocations.size.tolist(), chips)) == {100: ("555",), 60: ("777",)}
    ledger = recorded.at().ledger
    dram = {
        chip.id: (total.used, *total.peak.bounds) for chip in ledger.chips.values() for total in [chip.kinds[Kind.DRAM]]
    }
    assert dram == {"555": (0, 107, 107), "777": (60, 60, 60)}


@pytest.mark.parametrize("flush", [False, True])
def test_a_mesh_that_is_replaced_before_the_recorder_looks(flush: bool) -> None:
    """Its row is that of a later mesh in the whole recording. The record of its opening describes it."""
    agent = MeteredAgent([555, 777], [[0]])
    recording = RingRecording(agent)
    recording.poll(flush=flush)
    for members, size in (([0], 100), ([1], 200)):
        agent.open_mesh(1, [0, 1])
        agent.open_mesh(2, members, parent=1)
        agent.take(0, size, Kind.DRAM, 2)
        if members == [0]:
            agent.close_mesh(1)
            agent.open_mesh(1, members)
            agent.close_mesh(1)
    recorded = recording.recording()
    table = recorded.lifetimes().allocations
    assert table.size.tolist() == [100, 200]
    assert [table.chip_sets[place] for place in table.chips.tolist()] == [("555",), ("777",)]
    assert [one.chips for one in table.allocators] == [("555", "777")] * 2
    ledger = recorded.at().ledger
    dram = {chip.id: (chip.kinds[Kind.DRAM].used, chip.kinds[Kind.DRAM].peak.value) for chip in ledger.chips.values()}
    assert dram == {"555": (0, 100), "777": (200, 200)}
    assert not any(ledger.anomalies.values())
    assert samples_agree(recorded, 1e-6)

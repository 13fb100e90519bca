# SPDX-License-Identifier: Apache-2.0
"""Meshes that have the same index one after the other, with and without a loss of the records in between."""

from __future__ import annotations

import pytest

from tests.metered_agent import MeteredAgent
from tests.scripted_agent import BANKS, SLOTS, Agent, Reader
from ttmem.account.entities import Source
from ttmem.ingest import ring_fold
from ttmem.model.kinds import Kind
from ttmem.wire.agent_ring import Ring
from ttmem.wire.ring_meters import Measured, measured
from ttmem.wire.table_copy import TableCopy, copy_table


@pytest.mark.parametrize("lost", [False, True])
@pytest.mark.parametrize("audited", [False, True])
def test_a_mesh_that_is_closed_and_opened_again(agent: Agent, reader: Reader, lost: bool, audited: bool) -> None:
    """Only the record that opened it distinguishes the new mesh from the old one: its chips are the same."""
    source = reader.adopt(agent)
    agent.opened()
    agent.allocate(0, 100)
    agent.allocate(1, 50)
    agent.audit(0, 64, 64, largest_free=10)
    reader.follow()
    (holding,) = source.holdings.values()
    assert [audit.largest_free[0] for audit in holding.audits.values()] == [10]
    agent.free(0)
    agent.free(1)
    agent.reopen(banks=BANKS // 2)
    agent.allocate(0, 300)
    if lost:
        agent.churn(2 * SLOTS)
    if audited:
        agent.audit(0, 32, 32, largest_free=999)  # also the first one of its mesh
    reader.follow()
    dram = reader.ledger.chips["555"].kinds[Kind.DRAM]
    assert (reader.sizes(source), dram.used, dram.reserved) == ([300], 300, 32 * BANKS // 2)
    found = [(audit.largest_free[0], audit.banks[0]) for audit in holding.audits.values()]
    assert found == ([(999, BANKS // 2)] if audited else [])
    (listener,) = reader.listeners
    assert len(listener.sizes) == 2, "its allocator is another one"
    assert listener.left_known is not lost, "what was left in it is known if its records were read"
    assert reader.rings.completeness() == 1.0


def test_an_audit_that_is_being_written_is_not_waited_for(
    agent: Agent, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its writer may have been killed. To try again in each look would take long if there are many such meshes."""
    source = reader.adopt(agent)
    agent.opened()
    reader.follow()
    with monkeypatch.context() as patch:
        patch.setattr(Ring, "mesh", lambda ring, number: pytest.fail(f"mesh {number} is read"))
        agent.put_mesh(0, turn=1)
        agent.audit(0, 32, 32, largest_free=10)
        reader.follow()
    agent.put_mesh(0, turn=2)
    reader.follow()
    (holding,) = source.holdings.values()
    assert [audit.largest_free[0] for audit in holding.audits.values()] == [10]


def test_a_mesh_that_stays_open_during_a_loss(agent: Agent, reader: Reader) -> None:
    source = reader.adopt(agent)
    agent.opened()
    agent.allocate(0, 100)
    agent.audit(0, 32, 32, largest_free=10)
    reader.follow()
    agent.churn(2 * SLOTS)
    reader.follow()
    (holding,) = source.holdings.values()
    assert [audit.largest_free[0] for audit in holding.audits.values()] == [10]
    (listener,) = reader.listeners
    assert (len(listener.sizes), listener.left_known, reader.sizes(source)) == (1, True, [100])


def test_a_submesh_whose_parent_is_opened_again(agent: Agent, reader: Reader) -> None:
    """Its own row is that of a new submesh, because a submesh is closed with its parent."""
    agent.chip(1, 777, 1)
    agent.mesh(0, [0, 1])
    agent.mesh(1, [1], parent=0)
    source = reader.adopt(agent)
    for index in (0, 1):
        agent.opened(index)
    agent.allocate(0, 100, kind=Kind.CB, program=1, mesh=1)
    agent.allocate(1, 50)
    reader.follow()
    agent.free(0)
    agent.free(1)
    agent.reopen(0)
    agent.opened(1)
    agent.allocate(0, 30, kind=Kind.CB, program=1, mesh=1)
    agent.churn(2 * SLOTS)
    reader.follow()
    used = {
        chip_id: (chip.kinds[Kind.DRAM].used, chip.kinds[Kind.CB].used) for chip_id, chip in reader.ledger.chips.items()
    }
    assert used == {"555": (0, 0), "777": (0, 30)}
    assert reader.sizes(source) == [30]
    assert reader.listeners[0].left_known is False


# -- An index that is used again before its first mesh was seen


def dram_of(reader: Reader) -> dict[str, tuple[int, int, int]]:
    """What is used of each chip, and the limits of its peak."""
    of_kind = {chip_id: chip.kinds[Kind.DRAM] for chip_id, chip in reader.ledger.chips.items()}
    return {chip_id: (total.used, *total.peak.bounds) for chip_id, total in of_kind.items()}


def audits_of(source: Source) -> dict[int | tuple[int, ...], list[int]]:
    """Of each device or mesh, the largest free block of DRAM according to its audits."""
    return {
        device: [audit.largest_free[0] for audit in holding.audits.values()]
        for device, holding in source.holdings.items()
    }


def replace_mesh(agent: MeteredAgent) -> None:
    """A mesh that has one chip, and one with the same index that has the other chip."""
    agent.open_mesh(1, [0])
    agent.take(0, 100, Kind.DRAM, 1)
    agent.close_mesh(1)
    agent.open_mesh(1, [1])
    agent.take(0, 60, Kind.DRAM, 1)


def test_a_mesh_that_is_replaced_before_its_record_is_read(reader: Reader) -> None:
    """The record of its opening describes it."""
    agent = MeteredAgent([555, 777], [[0]])
    source = reader.adopt(agent)
    agent.take(5, 30, Kind.DRAM, 0)
    replace_mesh(agent)
    agent.audit(1, 7, 7, largest_free=9)
    reader.follow()
    assert dram_of(reader) == {"555": (30, 130, 130), "777": (60, 60, 60)}
    assert reader.sizes(source) == [30, 60]
    assert reader.rings.counts() == (9, 0)
    assert reader.anomalies() == {}
    assert audits_of(source) == {0: [], 1: [9]}


def test_a_submesh_that_is_replaced_before_its_record_is_read(reader: Reader) -> None:
    agent = MeteredAgent([555, 777], [[0, 1]])
    reader.adopt(agent)
    for index, members in ((1, [0]), (1, [1]), (2, [1])):
        if index in agent.members:
            agent.close_mesh(0)
            agent.open_mesh(0, [1, 0])
        agent.open_mesh(index, members, parent=0)
        agent.take(index, 100 * index, Kind.DRAM, index)
    reader.follow()
    assert dram_of(reader) == {"555": (0, 100, 100), "777": (300, 300, 300)}
    assert reader.anomalies() == {}


@pytest.mark.parametrize(("parent", "submesh"), [(1, 2), (2, 1)])
def test_a_submesh_that_was_opened_in_a_loss_is_replaced(reader: Reader, parent: int, submesh: int) -> None:
    """The rows after the loss describe it, also if its index is lower than that of its parent."""
    agent = MeteredAgent([555, 777], [[0]])
    reader.adopt(agent)
    reader.follow()
    agent.open_mesh(parent, [0, 1])
    agent.open_mesh(submesh, [1], parent=parent)
    agent.churn(2 * SLOTS)
    reader.follow()
    agent.take(0, 100, Kind.DRAM, submesh)
    agent.close_mesh(parent)
    agent.open_mesh(submesh, [0])
    reader.follow()
    assert dram_of(reader) == {"555": (0, 7, 7), "777": (0, 100, 100)}


def test_a_mesh_without_a_description(reader: Reader) -> None:
    """The agent had no room for it. Then the row of now has its chips."""
    agent = MeteredAgent([555, 777], [[0]])
    reader.adopt(agent)
    agent.mesh(1, [1])
    agent.opened(1, described=False)
    agent.allocate(0, 60, mesh=1)
    agent.audit(1, 7, 7, largest_free=9)
    reader.follow()
    assert dram_of(reader) == {"555": (0, 0, 0), "777": (60, 60, 60)}
    assert reader.anomalies() == {}


def test_a_mesh_that_is_replaced_while_others_use_its_chips(reader: Reader) -> None:
    """Rings that share chips are read in turns."""
    agents = [MeteredAgent([555, 777], [[0]]) for _ in range(2)]
    first, second = (reader.adopt(agent, pid) for pid, agent in enumerate(agents, 1))
    for size in (10, 20):
        agents[1].take(size, size, Kind.DRAM, 0)
    replace_mesh(agents[0])
    agents[1].take(2, 5, Kind.DRAM, 0)
    reader.follow()
    assert (reader.sizes(first), reader.sizes(second)) == ([60], [5, 10, 20])
    assert dram_of(reader) == {"555": (35, 135, 135), "777": (60, 60, 60)}
    assert reader.anomalies() == {}


def test_a_mesh_that_was_seen_is_replaced(reader: Reader) -> None:
    """Its records are still to be read, and mean the mesh as it was."""
    agent = MeteredAgent([555, 777], [[0]])
    reader.adopt(agent)
    agent.open_mesh(1, [0])
    reader.follow()
    agent.take(0, 100, Kind.DRAM, 1)
    agent.close_mesh(1)
    agent.open_mesh(1, [1])
    agent.take(0, 60, Kind.DRAM, 1)
    agent.audit(1, 1, 1, largest_free=7)
    reader.follow()
    assert dram_of(reader) == {"555": (0, 100, 100), "777": (60, 60, 60)}
    assert reader.anomalies() == {}


@pytest.mark.parametrize("known", [False, True])
def test_a_mesh_that_is_replaced_after_the_table_was_copied(
    reader: Reader, monkeypatch: pytest.MonkeyPatch, known: bool
) -> None:
    """The table and the meshes that are used to correct the account are of one moment."""
    agent = MeteredAgent([555, 777], [[0]])
    reader.adopt(agent)
    if known:
        agent.open_mesh(1, [0])
        reader.follow()
    else:
        reader.follow()
        agent.open_mesh(1, [0])
    agent.take(0, 100, Kind.DRAM, 1)
    agent.churn(2 * SLOTS)
    copies: list[TableCopy] = []

    def copied(ring: Ring) -> TableCopy:
        copies.append(copy_table(ring))
        if len(copies) == 1:
            agent.close_mesh(1)
            agent.open_mesh(1, [1])
            agent.take(0, 60, Kind.DRAM, 1)
        return copies[-1]

    monkeypatch.setattr(ring_fold, "copy_table", copied)
    reader.follow()
    assert len(copies) == 2
    assert dram_of(reader) == {"555": (0, 107, 107), "777": (60, 60, 60)}


def test_meshes_that_are_opened_during_every_copy(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    """After some attempts the last copy is used. A mesh that was replaced after it is still the earlier one there."""
    agent = MeteredAgent([555, 777], [[0], [0]])
    reader.adopt(agent)
    reader.follow()
    agent.take(0, 100, Kind.DRAM, 1)
    agent.churn(2 * SLOTS)
    copies: list[TableCopy] = []

    def copied(ring: Ring) -> TableCopy:
        copies.append(copy_table(ring))
        agent.open_mesh(1 + len(copies), [0])
        if len(copies) == 3:
            agent.close_mesh(1)
            agent.open_mesh(1, [1])
            agent.take(0, 60, Kind.DRAM, 1)
        return copies[-1]

    monkeypatch.setattr(ring_fold, "copy_table", copied)
    reader.follow()
    assert len(copies) == 3
    assert dram_of(reader) == {"555": (0, 107, 107), "777": (60, 60, 60)}


@pytest.mark.parametrize(("lost", "size"), [(False, 100), (True, 40)])
def test_a_mesh_that_is_closed_after_the_table_was_copied(
    reader: Reader, monkeypatch: pytest.MonkeyPatch, lost: bool, size: int
) -> None:
    """It was open at that moment, although its row is that of a closed one. Its index is soon another mesh's."""
    agent = MeteredAgent([555, 777], [[0]])
    reader.adopt(agent)
    reader.follow()
    agent.open_mesh(1, [0])
    agent.churn(2 * SLOTS)
    if lost:
        agent.take(0, size, Kind.DRAM, 1)
    copies = 0

    def table_copied(ring: Ring) -> TableCopy:
        nonlocal copies
        copies += 1
        found = copy_table(ring)
        if not lost:
            agent.take(0, size, Kind.DRAM, 1)
        agent.close_mesh(1)
        return found

    def rows_copied(ring: Ring, windows_after: int) -> Measured:
        if copies == 1:
            agent.open_mesh(1, [1])
            agent.take(0, 60, Kind.DRAM, 1)
            if lost:
                agent.churn(2 * SLOTS)
        return measured(ring, windows_after=windows_after)

    monkeypatch.setattr(ring_fold, "copy_table", table_copied)
    monkeypatch.setattr(ring_fold, "measured", rows_copied)
    reader.follow()
    assert copies == 1 + lost
    assert dram_of(reader) == {"555": (0, size, size), "777": (0 if lost else 60, 60, 60)}

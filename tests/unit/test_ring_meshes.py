# SPDX-License-Identifier: Apache-2.0
"""Meshes that have the same index one after the other, with and without a loss of the records in between."""

from __future__ import annotations

import pytest

from tests.scripted_agent import BANKS, SLOTS, Agent, Reader
from ttmem.model.kinds import Kind


@pytest.mark.parametrize("lost", [False, True])
@pytest.mark.parametrize("audited", [False, True])
def test_a_mesh_that_is_closed_and_opened_again(agent: Agent, reader: Reader, lost: bool, audited: bool) -> None:
    """Only the record that opened it distinguishes the new mesh from the old one: its chips are the same."""
    source = reader.adopt(agent)
    agent.put_mesh(0, opened=agent.head + 1)
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


def test_a_mesh_that_stays_open_during_a_loss(agent: Agent, reader: Reader) -> None:
    source = reader.adopt(agent)
    agent.put_mesh(0, opened=agent.head + 1)
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
        agent.put_mesh(index, opened=agent.head + 1)
        agent.opened(index)
    agent.allocate(0, 100, kind=Kind.CB, program=1, mesh=1)
    agent.allocate(1, 50)
    reader.follow()
    agent.free(0)
    agent.free(1)
    agent.reopen(0)
    agent.put_mesh(1, opened=agent.head + 1)
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

# SPDX-License-Identifier: Apache-2.0
"""The lifetimes of a ring's allocations have what later records say about them."""

from __future__ import annotations

from contextlib import closing

import pytest

from tests.recordings import RingRecording
from tests.scripted_agent import SLOTS, Agent
from ttmem.wire.agent_ring import KEPT, RingEvent


@pytest.mark.parametrize("lost", [False, True])
@pytest.mark.parametrize("later", [False, True])
def test_a_buffer_that_a_cached_program_keeps(lost: bool, later: bool) -> None:
    """The agent learns this only when the operation has ended. The record may be lost; then the live table has it."""
    with closing(Agent()) as agent:
        recording = RingRecording(agent)
        agent.chip(0, 555, 0)
        agent.mesh(0, [0])
        agent.opened()
        agent.allocate(0, 100)
        agent.allocate(1, 200)
        if later or lost:
            recording.poll(flush=True)
        name = agent.blob(b"ttnn.reshape")
        kept = agent.live[0]._replace(name=name, flags=KEPT)
        fields = {field: value for field, value in kept._asdict().items() if field not in ("sequence", "time", "event")}
        agent.record(RingEvent.NAMED, **fields)
        agent.keep(0, kept)
        if lost:
            agent.churn(3 * SLOTS)
        table = recording.recording().lifetimes().allocations
        found = {int(size): place for place, size in enumerate(table.size.tolist())}
        assert [int(table.flags[found[size]]) for size in (100, 200)] == [KEPT, 0]
        assert [table.sites[table.site[found[size]]].op for size in (100, 200)] == ["ttnn.reshape", None]

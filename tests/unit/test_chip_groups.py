# SPDX-License-Identifier: Apache-2.0
"""Chips with the same buffers are one group, whatever programs they have."""

from __future__ import annotations

import pytest

from tests.recordings import RingRecording
from tests.scripted_agent import Agent
from ttmem.model.kinds import Kind
from ttmem.pages.chip_groups import chip_groups, differences, group_name


@pytest.mark.parametrize(("single", "expected"), [(False, [("1", "2", "3")]), (True, [("1",), ("2", "3")])])
def test_a_mesh_is_one_group_and_a_chip_with_more_is_another(single: bool, expected: list[tuple[str, ...]]) -> None:
    agent = Agent()
    for chip in range(3):
        agent.chip(chip, chip + 1, chip)
    agent.mesh(0, [0, 1, 2])
    agent.mesh(1, [0], parent=0)
    agent.opened(0)
    agent.allocate(1, 1000, name=agent.blob(b"ttnn.add\n\n"))
    cores = agent.blob((0xFF).to_bytes(8, "little"))
    agent.allocate(2, 800, 1 << 18, kind=Kind.KERNEL, program=1, per_bank=100, cores=cores, mesh=1)
    if single:
        agent.allocate(3, 500, mesh=1)
    recording = RingRecording(agent).recording()
    table, ledger = recording.lifetimes().allocations, recording.at().ledger
    groups = chip_groups(table, sorted(ledger.chips))
    assert [group.chips for group in groups] == expected
    assert [table.size[group.rows].tolist() for group in groups] == (
        [[1000, 800, 500], [1000]] if single else [[1000, 800]]
    )
    found = [differences(group, ledger, {"1": "chip 0"}) for group in groups]
    assert found[0] == ([] if single else ["peak of kernel: 0 B to 800 B per chip, most on chip 0"])
    agent.close()


def test_names() -> None:
    assert group_name({"n150"}, [3], ["a"]) == "n150 chip 3"
    assert group_name({"n300"}, [0, 1], ["a", "b"]) == "n300 chips 0, 1"
    assert group_name({"n300", "n150"}, [0, 1, 2, 7], ["a", "b", "c", "d"]) == "chips 0 to 2, 7"
    assert group_name(set(), [], ["assumed:0", "assumed:1"]) == "chips assumed:0, assumed:1"

# SPDX-License-Identifier: Apache-2.0
"""Compares the account of a process on real ttnn with ttnn's own allocators."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from tests.agents import Agent, Collector
from tests.mock.program import Program
from ttmem.account.entities import Chip
from ttmem.documents.chip_memory import completeness, memory
from ttmem.model.kinds import Kind
from ttmem.wire.agent_ring import Mesh

BUFFER_KINDS = ("DRAM", "L1", "L1_SMALL", "TRACE")


def check_audit(mesh: Mesh, views: dict[str, Any]) -> None:
    """An audit after which nothing changed has the same figures as ttnn."""
    for name in BUFFER_KINDS:
        bank, view = mesh.banks[Kind[name]], views[name]
        if view["total_per_bank"]:
            assert bank.ours == bank.theirs == view["allocated_per_bank"]
            assert bank.largest_free == view["largest_free_per_bank"]
            assert (bank.banks, bank.size) == (view["banks"], view["total_per_bank"])


class Oracle:
    """Compares the account of one process with the figures of ttnn in a record."""

    def __init__(self, collector: Collector, program: Program, chip_ids: Mapping[int, int] | None = None) -> None:
        """``chip_ids`` has the process's own numbers of chips if they are not those of the board."""
        self._collector = collector
        self._pid = program.pid
        self._chip_ids: Mapping[int, int] = program.chip_ids if chip_ids is None else chip_ids
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
        """What is free now, even if the last audit of the largest free block is old."""
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

    def look_closely(self, *, alone: bool = True) -> None:
        """Table, records and account name the same allocations, and the totals are their sums.

        If it is not ``alone``, other chips may have what other processes hold.
        """
        in_table = self.agent.live_in_table()
        assert in_table == self.agent.live_in_records()
        assert in_table == self.agent.live_in_account()
        used = Counter[tuple[Chip, Kind]]()
        for holding in self.agent.source.holdings.values():
            for allocation in holding.allocations():
                for chip in holding.chips:
                    used[chip, allocation.kind] += allocation.counted
        own = {str(chip_id) for chip_id in self._chip_ids.values()}
        for chip in self._collector.ledger.chips.values():
            if alone or chip.id in own:
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

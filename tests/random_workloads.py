# SPDX-License-Identifier: Apache-2.0
"""Random workloads whose records may be lost, and what they really held: since the start, a reset, in open phases."""

from __future__ import annotations

import random
from collections import defaultdict

import pytest

from tests.metered_agent import PHASES, MeteredAgent, counted, reserved
from ttmem.account.entities import Source
from ttmem.account.ledger import Ledger
from ttmem.account.totals import Total
from ttmem.model.kinds import KINDS, POOL_OF, Kind, Pool
from ttmem.model.schema import OpenPhaseRow
from ttmem.wire.agent_ring import PROGRAM_FRAME, Record

# Chips of an agent, and the meshes that it opens first.
PAIR = (555, 777), [[0], [1], [0, 1]]
FOUR = (555, 777, 888, 999), [[0, 1, 2, 3], [0, 1], [2]]
LAYOUTS = pytest.mark.parametrize("layout", [PAIR, FOUR], ids=["two chips", "four chips"])
CHIPS = FOUR[0]
Layout = tuple[tuple[int, ...], list[list[int]]]
Corner = tuple[object, ...]  # of the truth: who (None: everyone), which chip, which kind or pool

_OWN_MESHES, _ALL_MESHES = 4, 7  # the first ones have allocators of their own, the others are submeshes
_BUFFER_SLOTS = 12
_FRAMES = (20, 24, 28, 32)  # slots of programs; their parts are in the slots that follow
_MOST_PARTS = 3
_SYSTEM = (Kind.FABRIC_KERNEL, Kind.DISPATCH_KERNEL)
_BUFFERS = (Kind.DRAM, Kind.L1, Kind.L1_SMALL)
_PARTS = (Kind.CB, Kind.CB, Kind.DFB, Kind.KERNEL, Kind.FABRIC_KERNEL, Kind.DISPATCH_KERNEL)


class Truth:
    """What processes hold on chips, and how high that was: since the start, since a reset, in open phases."""

    def __init__(self) -> None:
        self.used: dict[Corner, int] = defaultdict(int)
        self.peak: dict[Corner, int] = defaultdict(int)
        self.recent: dict[Corner, int] = defaultdict(int)
        self.reserved: dict[Corner, int] = defaultdict(int)
        self.reserved_peak: dict[Corner, int] = defaultdict(int)
        self.phases: dict[tuple[int, int], dict[Corner, int]] = {}
        self.begins: dict[tuple[int, int], dict[Corner, int]] = {}
        self.began: dict[tuple[int, int], int] = {}  # the agent's time

    def add(self, pid: int, agent: MeteredAgent, record: Record, sign: int = 1) -> None:
        """A process has something more on each chip of a mesh, or something less."""
        kind, size, taken = Kind(record.kind), sign * counted(record), sign * reserved(record)
        for chip in agent.members[record.mesh]:
            for who in (pid, None):
                for what in (kind, POOL_OF[kind]):
                    corner = who, CHIPS[chip], type(what), what
                    used = self.used[corner] = self.used[corner] + size
                    self.reserved[corner] += taken
                    self.peak[corner] = max(self.peak[corner], used)
                    self.recent[corner] = max(self.recent[corner], used)
                    self.reserved_peak[corner] = max(self.reserved_peak[corner], self.reserved[corner])
                    for (owner, _), peaks in self.phases.items():
                        if owner == who:
                            peaks[corner] = max(peaks[corner], used)

    def remove(self, pid: int, agent: MeteredAgent, record: Record) -> None:
        self.add(pid, agent, record, -1)

    def leave(self, pid: int) -> None:
        """A process exits."""
        for corner in [corner for corner in self.used if corner[0] == pid]:
            everyone: Corner = (None, *corner[1:])
            self.used[everyone] -= self.used.pop(corner)
            self.reserved[everyone] -= self.reserved.pop(corner)
            for highest in (self.peak, self.recent, self.reserved_peak):
                highest.pop(corner, None)
        for owner, ident in [key for key in self.phases if key[0] == pid]:
            self.end(owner, ident)

    def reset(self) -> None:
        self.recent = defaultdict(int, self.used)

    def begin(self, pid: int, ident: int, time: int) -> None:
        mine = {corner: used for corner, used in self.used.items() if corner[0] == pid}
        self.phases[pid, ident] = defaultdict(int, mine)
        self.begins[pid, ident] = mine
        self.began[pid, ident] = time

    def end(self, pid: int, ident: int) -> None:
        del self.phases[pid, ident], self.begins[pid, ident], self.began[pid, ident]


def totals(ledger: Ledger, sources: dict[int, Source]) -> dict[Corner, Total]:
    found: dict[Corner, Total] = {}
    for chip_id, chip in ledger.chips.items():
        for kind in KINDS:
            found[None, int(chip_id), Kind, kind] = chip.kinds[kind]
        for pool in Pool:
            found[None, int(chip_id), Pool, pool] = chip.pools[pool]
    for pid, source in sources.items():
        for chip_id, share in source.process.shares.items():
            for pool in Pool:
                found[pid, int(chip_id), Pool, pool] = share.pools[pool]
        for (number, kind), total in source.totals.items():
            found[pid, int(source.process.numbers[number].id), Kind, kind] = total
    return found


def compare(ledger: Ledger, sources: dict[int, Source], truth: Truth, shared: bool) -> int:
    """Everything the account says must be true. Returns how many peaks are not exact."""
    inexact = 0
    found = totals(ledger, sources)
    for corner, peak in truth.peak.items():
        if not peak and corner not in found:
            continue  # it had only parts that lie inside buffers
        total = found[corner]
        assert (total.used, total.reserved) == (truth.used[corner], truth.reserved[corner]), corner
        for known, real in ((total.peak, peak), (total.recent, truth.recent[corner])):
            assert known.value <= real <= known.at_most, (corner, known.value, real, known.at_most)
            inexact += known.at_most > known.value
        at_least, at_most = total.highs.reserved
        assert at_least <= truth.reserved_peak[corner] <= at_most, corner
        if corner[0] is not None or not shared:
            assert total.reserved_peak == truth.reserved_peak[corner], corner
            if corner[3] is not Pool.SYSTEM:  # it has no meter
                assert total.peak.value == total.peak.at_most == peak, corner
    for (pid, ident), peaks in truth.phases.items():
        process = sources[pid].process
        phase = process.phases.open[sources[pid], ident]
        rows: dict[Corner, OpenPhaseRow] = {
            (pid, int(row["chip"]), Pool if "pool" in row else Kind, row.get("pool") or row.get("kind")): row
            for row in process.phases.rows(phase)
        }
        assert phase.began == pytest.approx(truth.began[pid, ident] / 1e9, abs=1e-6)
        for (_, chip, sort, what), real in peaks.items():
            row = rows.get((pid, chip, sort, label_of(what)))
            known_begin, known_peak, end = (row["begin"], row["peak"], row["end"]) if row else (0, 0, 0)
            assert known_begin == truth.begins[pid, ident].get((pid, chip, sort, what), 0), (ident, chip, what)
            assert end == truth.used[pid, chip, sort, what], (ident, chip, what)
            if what is Pool.SYSTEM and not phase.complete:
                assert known_peak <= real, (ident, chip)
            else:
                assert known_peak == real, (ident, chip, what)
        if not phase.complete:  # the highest sum of both kinds is not known
            both = [{chip for (_, chip, _, what), peak in peaks.items() if what is kind and peak} for kind in _SYSTEM]
            assert both[0] & both[1]
    return inexact


def label_of(what: object) -> str:
    assert isinstance(what, (Kind, Pool))
    return what.label


class Workload:
    """A process that does things at random, and the truth about it.

    A reader learns from the row of a mesh what its index means. Here an index is often used again before it has looked.
    """

    def __init__(self, pid: int, layout: Layout, truth: Truth, dice: random.Random) -> None:
        self.agent = MeteredAgent(*layout)
        self.pid = pid
        self.truth = truth
        self.reopened = 0
        self._dice = dice
        self._phases = 0
        self._programs = 0
        self._chips = len(layout[0])

    def act(self) -> None:
        chosen = self._dice.random()
        if chosen < 0.1:
            self._phase()
        elif chosen < 0.15:
            self._mesh(self._dice.randrange(_ALL_MESHES))
        elif chosen < 0.25:
            self._program(self._dice.choice(_FRAMES))
        elif self.agent.members:
            self._buffer(self._dice.randrange(_BUFFER_SLOTS))

    def _phase(self) -> None:
        agent, dice = self.agent, self._dice
        if dice.random() < 0.5 and len(agent.open_phases) < PHASES:
            self._phases += 1
            parent = dice.choice([0, *agent.open_phases])
            agent.begin_phase(self._phases, dice.choice(("prefill", "decode")), parent)
            self.truth.begin(self.pid, self._phases, agent.clock)
        elif agent.open_phases:
            ident = agent.open_phases[-1]
            agent.end_phase(ident)
            self.truth.end(self.pid, ident)

    def _mesh(self, index: int) -> None:
        """Close a mesh, or open one with an index that another mesh may have had."""
        agent, dice = self.agent, self._dice
        if index in agent.members:
            if agent.parents[index] == index:
                for record in agent.on(index):
                    self._gone(record)
                agent.close_mesh(index)
        elif index < _OWN_MESHES:
            agent.open_mesh(index, self._some(list(range(self._chips))))
            self.reopened += 1
            if dice.random() < 0.4:
                for slot in range(3):
                    self._buffer(slot)
                self._mesh(index)
                self._mesh(index)
        else:
            parents = [own for own, chips in agent.members.items() if agent.parents[own] == own and len(chips) > 1]
            if parents:
                parent = dice.choice(parents)
                agent.open_mesh(index, self._some(agent.members[parent][dice.randrange(2) :]), parent)

    def _some(self, chips: list[int]) -> list[int]:
        """Neighbours of these chips, most often more than one."""
        first = self._dice.randrange(len(chips))
        return chips[first : self._dice.randrange(first + 1, len(chips) + 1)] if self._dice.random() < 0.7 else chips

    def _program(self, slot: int) -> None:
        agent, dice = self.agent, self._dice
        if slot in agent.live:
            frame = agent.live[slot]
            for record in [one for one in agent.live.values() if one.program == frame.program]:
                self._gone(record)
            agent.destroyed(slot, frame.program, frame.mesh)
        elif agent.members:
            self._programs += 1
            mesh = dice.choice(list(agent.members))
            agent.program(slot, self._programs, mesh=mesh)
            for part in range(slot + 1, slot + 1 + dice.randrange(1, _MOST_PARTS + 1)):
                size, shared = dice.randrange(1, 1000), dice.random() < 0.1
                agent.place(part, size, dice.choice(_PARTS), mesh, self._programs, shared=shared)
                self.truth.add(self.pid, agent, agent.live[part])

    def _buffer(self, slot: int) -> None:
        agent, dice = self.agent, self._dice
        if slot in agent.live:
            self._gone(agent.live[slot])
            agent.give_back(slot)
        else:
            meshes = [index for index, parent in agent.parents.items() if index == parent]
            agent.take(slot, dice.randrange(1, 1000), dice.choice(_BUFFERS), dice.choice(meshes), dice.randrange(99))
            self.truth.add(self.pid, agent, agent.live[slot])

    def _gone(self, record: Record) -> None:
        if record.kind != PROGRAM_FRAME:
            self.truth.remove(self.pid, self.agent, record)

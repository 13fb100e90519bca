# SPDX-License-Identifier: Apache-2.0
"""Peaks and phases after records were lost: compared with what really was held, record by record."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from contextlib import ExitStack, closing
from math import inf

import pytest

from tests.metered_agent import PHASES, MeteredAgent, counted, reserved
from tests.scripted_agent import SLOTS, Reader
from tests.unit.test_shed_rings import Ticking
from ttmem.account.entities import Source
from ttmem.account.totals import Total
from ttmem.model.events import PeaksReset, ProcessExited
from ttmem.model.kinds import KINDS, POOL_OF, Kind, Pool
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
        for key in [key for key in self.phases if key[0] == pid]:
            del self.phases[key]

    def reset(self) -> None:
        self.recent = defaultdict(int, self.used)

    def begin(self, pid: int, ident: int) -> None:
        mine = {corner: used for corner, used in self.used.items() if corner[0] == pid}
        self.phases[pid, ident] = defaultdict(int, mine)


def totals(reader: Reader, sources: dict[int, Source]) -> dict[Corner, Total]:
    found: dict[Corner, Total] = {}
    for chip_id, chip in reader.ledger.chips.items():
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


def compare(reader: Reader, sources: dict[int, Source], truth: Truth, shared: bool) -> int:
    """Everything the account says must be true. Returns how many peaks are not exact."""
    inexact = 0
    found = totals(reader, sources)
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
        rows: dict[Corner, int] = {
            (pid, int(row["chip"]), Pool if "pool" in row else Kind, row.get("pool") or row.get("kind")): row["peak"]
            for row in process.phases.rows(phase)
        }
        for (_, chip, sort, what), real in peaks.items():
            known_peak = rows.get((pid, chip, sort, label_of(what)), 0)
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

    A reader learns from the row of a mesh what its index means. So an index is used again only when the reader has
    looked since, or can only find that the records were lost.
    """

    def __init__(self, pid: int, layout: Layout, truth: Truth, dice: random.Random) -> None:
        self.agent = MeteredAgent(*layout)
        self.pid = pid
        self.truth = truth
        self.closed: dict[int, int] = {}  # meshes, since the reader looked: the last record of each
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
            self.truth.begin(self.pid, self._phases)
        elif agent.open_phases:
            ident = agent.open_phases[-1]
            agent.end_phase(ident)
            del self.truth.phases[self.pid, ident]

    def _mesh(self, index: int) -> None:
        """Close a mesh, or open one with an index that another mesh may have had."""
        agent, dice = self.agent, self._dice
        if index in agent.members:
            if agent.parents[index] == index:
                for record in agent.on(index):
                    self._gone(record)
                family = agent.family(index)
                agent.close_mesh(index)
                self.closed.update(dict.fromkeys(family, agent.head))
        elif index in self.closed and agent.head < self.closed[index] + SLOTS:
            return
        elif index < _OWN_MESHES:
            agent.open_mesh(index, self._some(list(range(self._chips))))
            self.reopened += 1
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


class Unhurried(Ticking):
    """A reader in ticks that reads everything in each of them."""

    def tick(self, count: int = 1) -> None:
        for _ in range(count):
            self.clock.now += 0.05
            self.rings.tick()
            self.rings.follow(inf)


class Play:
    """Some workloads and the reader of their rings."""

    def __init__(self, seed: int, layout: Layout, reader: Reader) -> None:
        self.dice = random.Random(seed)
        self.truth = Truth()
        self.reader = reader
        self.workloads: dict[int, Workload] = {}
        self.sources: dict[int, Source] = {}
        self._layout = layout
        self._stack = ExitStack()

    def start(self, pid: int) -> None:
        workload = self.workloads[pid] = Workload(pid, self._layout, self.truth, self.dice)
        self._stack.enter_context(closing(workload.agent))
        self.sources[pid] = self.reader.adopt(workload.agent, pid)

    def act(self, pid: int) -> None:
        """One clock, so that records of two rings have an order."""
        self.workloads[pid].agent.clock = max(workload.agent.clock for workload in self.workloads.values())
        self.workloads[pid].act()

    def reset(self) -> None:
        self.reader.sink.apply(self.reader.sink.now(), None, PeaksReset())
        self.truth.reset()

    def exit(self, pid: int) -> None:
        self.reader.rings.finish(pid)  # type: ignore[arg-type]
        self.reader.sink.apply(self.reader.sink.now(), self.sources.pop(pid), ProcessExited())
        del self.workloads[pid]
        self.truth.leave(pid)

    def compare(self, *, shared: bool) -> None:
        compare(self.reader, self.sources, self.truth, shared)
        for workload in self.workloads.values():
            workload.closed.clear()

    def end(self) -> None:
        self.reader.rings.close()
        self._stack.close()


@LAYOUTS
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("processes", [1, 2])
def test_peaks_are_true_whatever_was_lost(seed: int, processes: int, layout: Layout) -> None:
    play = Play(seed, layout, Reader())
    with closing(play.reader), ExitStack() as stack:
        stack.callback(play.end)
        for pid in range(1, processes + 1):
            play.start(pid)
        play.reader.follow()
        for _ in range(40):
            for _ in range(play.dice.choice((3, SLOTS - 4, SLOTS + 4, 3 * SLOTS, 6 * SLOTS))):
                play.act(play.dice.choice(list(play.workloads)))
            play.reader.follow()
            play.compare(shared=processes > 1)
            if play.dice.random() < 0.2:
                play.reset()
        assert play.reader.rings.counts()[1] > 10 * SLOTS
        assert play.reader.warnings == []
        assert all(workload.reopened > 2 for workload in play.workloads.values())


@LAYOUTS
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("processes", [1, 2])
def test_peaks_are_true_if_they_are_reset_while_rings_are_not_read(seed: int, processes: int, layout: Layout) -> None:
    """A reset is then somewhere among the records that are never read."""
    reader = Unhurried()
    play = Play(seed, layout, reader)
    dice, resets = play.dice, Counter[bool]()
    with ExitStack() as stack:
        stack.callback(play.end)
        for pid in range(1, processes + 1):
            play.start(pid)
        reader.tick()
        for _ in range(40):
            for _ in range(dice.randrange(4)):
                for _ in range(dice.choice((3, SLOTS // 2, 3 * SLOTS))):
                    play.act(dice.choice(list(play.workloads)))
                reader.tick(dice.choice((1, 1, 25)))
                if dice.random() < 0.4:
                    if all(source.in_gap for source in play.sources.values()):
                        for _ in range(dice.choice((0, 5, SLOTS))):  # a client resets the peaks between two looks
                            play.act(1)
                    resets[any(source.in_gap for source in play.sources.values())] += 1
                    play.reset()
            reader.tick(25)  # now all rings are read to their ends, or were renewed
            play.compare(shared=processes > 1)
    assert min(resets[True], resets[False]) > 0
    assert reader.warnings == []


@LAYOUTS
@pytest.mark.parametrize("seed", range(4))
def test_peaks_are_true_if_processes_exit_while_another_ring_is_not_read(seed: int, layout: Layout) -> None:
    """What they held raised no peak then."""
    reader = Unhurried()
    play = Play(seed, layout, reader)
    dice, exits = play.dice, Counter[bool]()
    with ExitStack() as stack:
        stack.callback(play.end)
        play.start(1)
        reader.tick()
        for guest in range(2, 30):
            if dice.random() < 0.7:
                play.start(guest)
            for _ in range(dice.randrange(4)):
                weights = [3 if pid == 1 else 1 for pid in play.workloads]
                for pid in dice.choices(list(play.workloads), weights, k=dice.choice((3, SLOTS // 2, 6 * SLOTS))):
                    play.act(pid)
                reader.tick(dice.choice((1, 1, 25)))
                if dice.random() < 0.2:
                    play.reset()
            for pid in [pid for pid in play.workloads if pid > 1 and dice.random() < 0.5]:
                exits[play.sources[1].in_gap] += 1
                play.exit(pid)
            reader.tick(25)
            play.compare(shared=True)
    assert min(exits[True], exits[False]) > 0
    assert reader.warnings == []


def test_chips_share_a_meter_until_one_of_them_counts_something_alone() -> None:
    """The split, and what was counted before and after it, are all among lost records."""
    reader = Reader()
    with closing(MeteredAgent(*FOUR)) as agent, closing(reader):
        source = reader.adopt(agent)
        reader.follow()
        agent.begin_phase(1, "prefill")
        agent.take(0, 1000, Kind.L1, 0)
        agent.place(20, 70, Kind.CB, 1, program=7)
        agent.give_back(0)
        assert (agent.sharing(Kind.L1), agent.sharing(Kind.CB)) == ([{0, 1, 2, 3}], [{0, 1}])
        agent.take(1, 30, Kind.L1, 2)
        assert (agent.sharing(Kind.L1), agent.sharing(Kind.CB)) == ([{0, 1, 3}, {2}], [{0, 1}])
        agent.take(2, 2000, Kind.L1, 1)
        agent.give_back(2)
        assert agent.sharing(Kind.L1) == [{3}, {2}, {0, 1}]
        agent.churn(3 * SLOTS)
        reader.follow()
        kinds = [reader.ledger.chips[str(chip)].kinds for chip in CHIPS]
        assert [(one[Kind.L1].used, one[Kind.L1].peak.value) for one in kinds] == [
            (0, 2000), (0, 2000), (30, 1000), (0, 1000)
        ]  # fmt: skip
        assert [(one[Kind.CB].used, one[Kind.CB].peak.value) for one in kinds] == [(70, 70), (70, 70), (0, 0), (0, 0)]
        process = source.process
        rows = {
            (row["chip"], row.get("kind")): row["peak"] for row in process.phases.rows(process.phases.open[source, 1])
        }
        assert [rows[str(chip), "l1"] for chip in CHIPS] == [2000, 2000, 1000, 1000]
        assert [rows.get((str(chip), "cb")) for chip in CHIPS] == [70, 70, None, None]

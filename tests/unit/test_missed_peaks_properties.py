# SPDX-License-Identifier: Apache-2.0
"""Peaks and phases after records were lost: compared with what really was held, record by record."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import ExitStack, closing

import pytest

from tests.metered_agent import MeteredAgent
from tests.random_workloads import CHIPS, FOUR, LAYOUTS, Layout, Truth, Workload, compare
from tests.scripted_agent import SLOTS, Reader
from tests.unit.naive_model import Key
from tests.unit.test_arbitration import MESHES, NUMBERS, BothOncePerChip
from tests.unit.test_shed_rings import Ticking
from ttmem.account.entities import Source
from ttmem.model.events import (
    Allocated,
    CaughtUp,
    Device,
    DeviceOpened,
    Event,
    Extra,
    Freed,
    GapBegan,
    MissedHigh,
    PeaksReset,
    ProcessExited,
    ProgramRun,
)
from ttmem.model.identity import ChipInfo
from ttmem.model.kinds import POOL_GAUGES, Kind


class Unhurried(Ticking):
    """A reader in ticks that reads everything in each of them."""

    def tick(self, count: int = 1) -> None:
        for _ in range(count):
            self.clock.now += 0.05
            self.rings.tick()
            self.follow()


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
        compare(self.reader.ledger, self.sources, self.truth, shared)

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


Place = tuple[Device, Kind, int]


def _allocated(place: Place, size: int) -> Allocated:
    return Allocated(*place, size, extra=Extra(2 * size))


class Moving(BothOncePerChip):
    """Records of process 0 are lost, and devices of process 1 turn out to be other chips."""

    def __init__(self, dice: random.Random) -> None:
        super().__init__()
        self._dice = dice
        self._lossy, self._voice = self._source(0, "agent", False)
        self._missing = False

    def act(self, *, exits: bool) -> str:
        """Do something, and return what."""
        chance = self._dice.random()
        if chance < 0.2:
            self._of_other(DeviceOpened(self._dice.choice(NUMBERS), ChipInfo(self._dice.choice("ABCD"))))
            return "move"
        if chance < 0.23 and exits:
            self._of_other(ProcessExited())
            for number in NUMBERS:
                self._of_other(DeviceOpened(number, ChipInfo("ABC"[number])))
            for device in MESHES:
                self._of_other(ProgramRun(device, 1, 1))
            return "exit"
        process, device = self._dice.randrange(2), self._dice.choice(MESHES)
        kind = self._dice.choice((Kind.DRAM, Kind.DRAM, Kind.TRACE, Kind.L1))
        address = 0x1000 * (1 + 4 * kind + self._dice.randrange(3))
        event: Event = _allocated((device, kind, address), self._dice.choice((10, 30, 50, 100)))
        if (device, kind, address) in self._held(process):
            event = Freed(device, kind, address)
        if process == 1:
            self._of_other(event)
        elif self._missing:
            self.time += 1.0
            self.model.apply(self.time, self._voice, event)
        else:
            self.tell(0, "agent", False, event)
        return "allocate or free"

    def lose(self, acts: int) -> Counter[str]:
        """Lose the records of process 0 while so much happens; then correct its account, as from its live table."""
        before, since = self._held(0), self.time
        meters: list[tuple[int, str, Key]]
        meters = [(number, kind.label, ("source", self._voice, number, kind)) for number in NUMBERS for kind in Kind]
        meters += [
            (number, gauge, ("share", self._voice.party, self._voice.party.numbers[number], pool))
            for number in NUMBERS for pool, gauge in POOL_GAUGES.items()
        ]  # fmt: skip
        for _, _, key in meters:
            self.model.take_high(key)
        self.ledger.apply(self.time, self._lossy, GapBegan())
        self._missing = True
        done = Counter(self.act(exits=True) for _ in range(acts))
        self._missing = False
        now = self._held(0)
        for place, size in before.items():
            if now.get(place) != size:
                self.ledger.apply(self.time, self._lossy, Freed(*place))
        for place, size in now.items():
            if before.get(place) != size:
                self.ledger.apply(self.time, self._lossy, _allocated(place, size))
        highs = []
        for number, gauge, key in meters:
            if key in self.model.peak:
                among = self.model.take_high(key)
                ever, reserved = self.model.peak[key].value, self.model.reserved_peak[key]
                highs.append(MissedHigh((number,), gauge, among, among, 0, 0, ever, reserved))
        self.ledger.apply(self.time, self._lossy, CaughtUp(since, tuple(highs), (), 0, False))
        return done

    def compare_limits(self) -> int:
        """Returns the number of totals whose peaks have limits."""
        sums, limited = self.model.sums(), 0
        for key, total in self.totals():
            if key[0] in ("kind", "pool"):
                assert total.used == (sums[key].used if key in sums else 0)
                for peak, best in ((total.peak, self.model.peak), (total.recent, self.model.recent)):
                    assert peak.value <= (best[key].value if key in best else 0) <= peak.at_most, key
                reserved = total.highs.reserved
                assert reserved.at_least <= self.model.reserved_peak.get(key, 0) <= reserved.at_most, key
                limited += total.peak.limit is not None
        return limited

    def _held(self, process: int) -> dict[Place, int]:
        voice = self._source(process, "agent", False)[1]
        return {(item.device, item.kind, item.address): item.size for item in self.model.live if item.voice is voice}

    def _of_other(self, event: Event) -> None:
        self.tell(1, "agent", False, event)


@pytest.mark.parametrize("seed", range(4))
def test_limits_are_true_if_devices_of_others_turn_out_to_be_other_chips(seed: int) -> None:
    """What they held on another chip is no lower limit, whether they moved before or after the loss began."""
    dice, done = random.Random(seed), Counter[str]()
    for _ in range(60):
        moving = Moving(dice)
        for _ in range(dice.randint(1, 3)):
            for _ in range(dice.randint(2, 10)):
                done["before: " + moving.act(exits=False)] += 1
            done.update(moving.lose(dice.randint(2, 14)))
            done["limited"] += moving.compare_limits()
            if dice.random() < 0.3:
                moving.tell(1, "agent", False, PeaksReset())
    assert min(done[what] for what in ("before: move", "move", "exit", "limited")) > 20

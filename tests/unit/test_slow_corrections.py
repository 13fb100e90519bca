# SPDX-License-Identifier: Apache-2.0
"""Corrections of a ring that take many slices: what may happen between two of them, and what others notice of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import inf
from time import CLOCK_MONOTONIC, clock_gettime_ns

import pytest

from tests.metered_agent import MeteredAgent
from tests.scripted_agent import SLOTS
from tests.unit.test_shed_rings import _TICK_SECONDS, Ticking
from ttmem.account.entities import Source
from ttmem.account.totals import Total
from ttmem.ingest import ring_fold, rings
from ttmem.ingest.followed_ring import LAST_SECONDS, PATIENT_TICKS, FollowedRing
from ttmem.ingest.ring_fold import RingFold
from ttmem.model.events import PeaksReset, ProcessExited
from ttmem.model.kinds import Kind, Pool

Agents = Callable[..., MeteredAgent]


class Slow(Ticking):
    """A reader with one short turn in each call, and with a tick of a few turns."""

    def __init__(self) -> None:
        super().__init__()
        self.clock.step = 1e-6
        self.turns = 4

    def tick(self, count: int = 1) -> None:
        for _ in range(count):
            self.clock.now += _TICK_SECONDS
            self.rings.tick()
            for _ in range(self.turns):
                self.rings.follow(0.0)

    def follower(self, pid: int) -> FollowedRing:
        return self.rings._followers[pid]  # type: ignore[index]

    def dram(self, chip: int = 555) -> Total:
        return self.ledger.chips[str(chip)].kinds[Kind.DRAM]


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Iterator[Slow]:
    monkeypatch.setattr(ring_fold, "_EVENTS_PER_LOOK", 1)
    monkeypatch.setattr(ring_fold, "monotonic", lambda: inf)  # each slice ends after one correction
    made = Slow()
    yield made
    made.rings.close()


@pytest.fixture
def agents() -> Iterator[Agents]:
    made: list[MeteredAgent] = []

    def make(*chips: int) -> MeteredAgent:
        made.append(MeteredAgent(chips or (555,)))
        return made[-1]

    yield make
    for agent in made:
        agent.close()


def shed(agent: MeteredAgent, source: Source, reader: Slow) -> None:
    """Write more than can be read until the ring is shed, and its first correction is over."""
    while not source.shed:
        agent.churn(3 * SLOTS)
        reader.tick()
    while reader.follower(1).fold.correcting or not source.in_gap:
        reader.tick()


def now(agent: MeteredAgent) -> MeteredAgent:
    """The records that follow are of now."""
    agent.clock = clock_gettime_ns(CLOCK_MONOTONIC)
    return agent


@pytest.mark.parametrize("slices", range(12))
@pytest.mark.parametrize("again", [False, True], ids=["exit", "exec"])
def test_a_process_that_ends_between_two_slices(agents: Agents, slow: Slow, slices: int, again: bool) -> None:
    """Its chips are not in a gap for ever: what others allocate then makes peaks."""
    first, other = agents(), agents()
    source = slow.adopt(first)
    for slot in range(3):
        first.take(slot, 100, Kind.DRAM, 0)
    slow.tick()
    shed(first, source, slow)
    for slot in range(3):
        first.give_back(slot)
        first.take(slot, 50, Kind.DRAM, 0)
    slow.clock.now += 5
    slow.rings.tick()
    assert slow.follower(1).fold.correcting
    for _ in range(slices):
        slow.follower(1).fold.fold(1 << 64, -inf)
    if again:
        slow.adopt(now(agents()))
        slow.tick(8)
    else:
        while not slow.rings.finish(1, 0.0):  # type: ignore[arg-type]
            pass
        slow.sink.apply(slow.sink.now(), source, ProcessExited())
    assert not slow.dram().gaps
    slow.adopt(other, 2)
    now(other).take(1, 10_000_000, Kind.DRAM, 0)
    slow.tick(4)
    assert (slow.dram().used, slow.dram().peak.value) == (10_000_000, 10_000_000)


def test_others_do_not_wait_for_long_corrections(agents: Agents, slow: Slow) -> None:
    heavy, light = agents(), agents()
    heavies, lights = slow.adopt(heavy), slow.adopt(light, 2)
    light.take(1, 100, Kind.DRAM, 0)
    slow.tick(4)
    shed(heavy, heavies, slow)
    for slot in range(60):
        heavy.take(slot, 50, Kind.DRAM, 0)
    slow.clock.now += 5
    slow.tick()
    ticks = 0
    while slow.follower(1).fold.correcting:
        now(light).churn(2, slot=2)
        slow.tick()
        ticks += 1
        assert lights.unread <= 2 * (PATIENT_TICKS + 2)
    assert ticks > 10
    assert slow.follower(2).fold.lost == 0
    assert not lights.shed
    assert slow.dram().used == 3100


@pytest.mark.parametrize("first", [False, True], ids=["shed", "first"])
def test_sums_of_different_times_are_no_peaks(agents: Agents, slow: Slow, first: bool) -> None:
    """``first``: the process was there before its reader."""
    heavy, light = agents(), agents()
    slow.adopt(light, 2)
    light.take(1, 100, Kind.DRAM, 0)
    slow.tick(4)
    if not first:
        shed(heavy, slow.adopt(heavy), slow)
    for slot in range(60):
        heavy.take(slot, 50, Kind.DRAM, 0)
    if first:
        slow.adopt(heavy)
    slow.clock.now += 5
    slow.tick()  # what is live is copied
    assert slow.follower(1).fold.correcting
    for slot in range(60):
        now(heavy).give_back(slot)
    now(light).take(2, 1000, Kind.DRAM, 0)
    while slow.follower(1).fold.correcting:
        slow.tick()
    total = slow.dram()
    assert total.used == 4100, "3000 of the copy and 1100 of now"
    assert total.peak.value <= 3100, "these were never live together"
    assert total.peak.at_most >= 4100, "which the reader does not know yet"
    slow.clock.now += 5
    slow.tick(60)
    assert total.used == 1100
    assert total.peak.value <= 3100


def test_a_long_first_correction(agents: Agents, slow: Slow) -> None:
    """The process was there before its reader. Others on its chips are read meanwhile."""
    heavy, light = agents(), agents()
    for slot in range(40):
        heavy.take(slot, 50, Kind.DRAM, 0)
    heavies, lights = slow.adopt(heavy), slow.adopt(light, 2)
    ticks = 0
    while slow.follower(1).fold.loaded or not ticks:
        now(light).churn(2, slot=2)
        slow.tick()
        ticks += 1
    assert ticks > 4
    assert (slow.follower(2).fold.lost, lights.shed) == (0, False)
    slow.tick(100)
    assert not heavies.shed, "it is read again when it is written slowly"
    assert (slow.dram().used, bool(slow.dram().gaps)) == (2000, False)
    assert slow.dram().peak.value <= 2007


def test_a_head_that_goes_back_and_forth(agents: Agents, slow: Slow, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rings on the same chip do not wait for records that cannot be read."""
    bad, good = agents(), agents()
    slow.adopt(bad)
    slow.adopt(good, 2)
    for agent in (bad, good):
        agent.take(1, 100, Kind.DRAM, 0)
    slow.tick(4)
    begin_turn = FollowedRing.begin_turn

    def misled(self: FollowedRing) -> None:
        if self is slow.follower(1):
            bad.put(head=head + 4)
        begin_turn(self)
        bad.put(head=head)

    head = bad.head
    monkeypatch.setattr(FollowedRing, "begin_turn", misled)
    for _ in range(20):
        now(good).churn(4, slot=2)
        slow.tick()
    assert slow.follower(2).fold.lost == 0
    assert good.head - slow.follower(2).fold.applied <= 4


def test_a_head_that_goes_back_makes_no_loss_smaller(agents: Agents, slow: Slow) -> None:
    agent = agents()
    source = slow.adopt(agent)
    agent.take(1, 100, Kind.DRAM, 0)
    slow.tick()
    shed(agent, source, slow)
    before = slow.ledger.anomalies["dropped"], slow.rings.counts()[1]
    agent.put(head=19)
    agent.record(5)  # its record 20
    slow.tick(25)
    after = slow.ledger.anomalies["dropped"], slow.rings.counts()[1]
    assert after >= before
    assert source.process.anomalies["dropped"] >= before[0]


def test_few_tables_are_copied_in_a_tick(agents: Agents, slow: Slow, monkeypatch: pytest.MonkeyPatch) -> None:
    """To copy one takes 7 ms here. The others have their turn in later ticks: copies take a fifth of the time."""
    made = [agents(600 + index) for index in range(6)]
    sources = [slow.adopt(agent, 1 + pid) for pid, agent in enumerate(made)]
    slow.tick()
    while not all(source.shed for source in sources):
        for agent in made:
            agent.churn(3 * SLOTS)
        slow.tick()
    slow.tick(40)
    while any(slow.follower(pid).fold.correcting for pid in range(1, 7)):
        slow.rings.follow(0.0)
    catch_up = RingFold.catch_up

    def long(self: RingFold, *, skip: bool = False) -> None:
        slow.clock.now += 0.007
        copied.append(self)
        catch_up(self, skip=skip)

    monkeypatch.setattr(RingFold, "catch_up", long)
    slow.clock.now += 5
    start = slow.clock.now
    copied: list[RingFold] = []
    counts = []
    while len(copied) < 6:
        slow.clock.now = round((slow.clock.now - start) / _TICK_SECONDS + 1) * _TICK_SECONDS + start
        before = len(copied)
        slow.rings.tick()
        counts.append(len(copied) - before)
    assert len(set(copied)) == 6
    assert counts == [2, 0, 2, 0, 2]


def test_a_ring_is_shed_before_its_records_are_applied(agents: Agents, slow: Slow) -> None:
    """The gap begins with the last record that is loaded: others on the chip do not wait for those after it."""
    slow.turns = 1
    heavy, light = agents(), agents()
    source, _ = slow.adopt(heavy), slow.adopt(light, 2)
    now(heavy).take(1, 1000, Kind.DRAM, 0)
    slow.tick(12)
    for slot in range(2, 7):  # in turns, so that a slice of both applies one record
        now(heavy).take(slot, 1, Kind.DRAM, 0)
        now(light).take(slot, 1, Kind.DRAM, 0)
    slow.tick()
    now(heavy).churn(SLOTS - 2)
    while not source.shed:
        slow.tick()
    assert slow.follower(1).fold.loaded
    assert not source.in_gap
    slow.turns = 40
    now(heavy).give_back(1)  # now the chip holds 10 bytes
    now(light).take(7, 10_000, Kind.DRAM, 0)
    now(light).give_back(7)
    for _ in range(200):
        slow.clock.now += 0.1
        slow.tick()
    assert slow.dram().used == 10
    assert slow.dram().peak.value <= 10_010


@pytest.mark.parametrize("again", [False, True], ids=["exit", "exec"])
def test_a_process_ends_while_others_pass_its_corrections(agents: Agents, slow: Slow, again: bool) -> None:
    """Its last records are older than what others on the chip have applied."""
    heavy, light = agents(), agents()
    slow.adopt(light, 2)
    light.take(1, 100, Kind.DRAM, 0)
    slow.tick(4)
    source = slow.adopt(heavy)
    shed(heavy, source, slow)
    heavy.take(0, 3000, Kind.DRAM, 0)
    for slot in range(1, 60):
        heavy.take(slot, 1, Kind.DRAM, 0)
    slow.clock.now += 5
    slow.tick()
    assert slow.follower(1).fold.correcting
    now(heavy).take(60, 10, Kind.DRAM, 0)  # 3169 on the chip
    now(heavy).give_back(0)
    now(light).take(2, 1000, Kind.DRAM, 0)  # 1169
    while not slow.follower(1).fold.apart:
        slow.tick()
    slow.tick(3)
    assert slow.follower(1).fold.correcting
    if again:
        slow.adopt(now(agents()))
        slow.tick(40)
    else:
        while not slow.rings.finish(1, 0.0):  # type: ignore[arg-type]
            pass
        slow.sink.apply(slow.sink.now(), source, ProcessExited())
    assert slow.dram().used == 1100
    assert slow.dram().peak.value <= 3169 <= slow.dram().peak.at_most


def test_peaks_are_reset_while_corrections_are_applied(agents: Agents, slow: Slow) -> None:
    """What they add was there before the reset, and is not a peak since then."""
    heavy = agents()
    source = slow.adopt(heavy)
    slow.tick(2)
    shed(heavy, source, slow)
    for slot in range(60):
        heavy.take(slot, 50, Kind.DRAM, 0)
    slow.clock.now += 5
    slow.tick()
    assert slow.follower(1).fold.correcting
    for slot in range(60):
        now(heavy).give_back(slot)
    heavy.churn(3 * SLOTS)
    slow.tick(4)
    assert slow.follower(1).fold.correcting
    slow.ledger.apply(slow.sink.now(), None, PeaksReset())
    slow.tick()
    now(heavy).take(1, 10, Kind.DRAM, 0)
    while slow.follower(1).fold.correcting:
        slow.tick()
    slow.clock.now += 5
    slow.tick(200)
    for total in (slow.dram(), source.process.shares["555"].pools[Pool.DRAM]):
        assert (total.used, total.peak.value) == (10, 3000)
        assert total.recent.value <= 10 <= total.recent.at_most


def test_a_process_exits_after_older_records_of_others(agents: Agents) -> None:
    """The records of both are read before the exit, because together they make the peak of the chip."""
    reader = Ticking()
    first, other = agents(), agents()
    source = reader.adopt(first)
    reader.adopt(other, 2)
    reader.tick(4)
    now(first).take(1, 100, Kind.DRAM, 0)
    now(other).take(1, 1000, Kind.DRAM, 0)
    now(other).give_back(1)
    while not reader.rings.finish(1, 0.0):  # type: ignore[arg-type]
        pass
    reader.sink.apply(reader.sink.now(), source, ProcessExited())
    reader.tick(4)
    total = reader.ledger.chips["555"].kinds[Kind.DRAM]
    reader.rings.close()
    assert (total.used, total.peak.value, total.peak.limit) == (0, 1100, None)


def test_a_ring_that_was_read_to_its_end_is_not_corrected(agents: Agents, monkeypatch: pytest.MonkeyPatch) -> None:
    """It only waits for older records of another. After a second it is late, but nothing of it was lost."""
    monkeypatch.setattr(rings, "_SLICE_RECORDS", 2)
    monkeypatch.setattr(rings, "_LEAST_SLICE_RECORDS", 2)
    reader = Ticking()
    first, other = agents(), agents()
    source = reader.adopt(first)
    reader.adopt(other, 2)
    now(other).take(1, 500, Kind.DRAM, 0)
    now(other).give_back(1)
    reader.tick(4)
    now(first).take(1, 100, Kind.DRAM, 0)
    now(first).give_back(1)
    for slot in range(6):
        now(other).take(slot, 10, Kind.DRAM, 0)
    assert not reader.rings.finish(1, 0.0)  # type: ignore[arg-type]
    reader.rings.tick()
    (follower, _) = reader.rings._followers.values()
    assert follower.read_to_its_end
    reader.clock.now += LAST_SECONDS + _TICK_SECONDS
    reader.rings.tick()
    assert follower.late
    assert reader.rings.finish(1, 0.0)  # type: ignore[arg-type]
    reader.sink.apply(reader.sink.now(), source, ProcessExited())
    reader.tick(4)
    total = reader.ledger.chips["555"].kinds[Kind.DRAM]
    reader.rings.close()
    assert (total.used, total.peak.value, total.peak.limit) == (60, 500, None)
    assert reader.anomalies() == {}


def test_a_process_exits_after_its_corrections_and_older_records_of_others(agents: Agents, slow: Slow) -> None:
    """Others pass its corrections, so they are not read together with it. Their records still count before its exit."""
    heavy, light = agents(), agents()
    slow.adopt(light, 2)
    light.take(1, 100, Kind.DRAM, 0)
    slow.tick(4)
    source = slow.adopt(heavy)
    shed(heavy, source, slow)
    for slot in range(60):
        heavy.take(slot, 50, Kind.DRAM, 0)
    slow.clock.now += 5
    while not slow.follower(1).fold.apart:
        slow.tick()
    now(light).take(2, 1000, Kind.DRAM, 0)  # 4100 on the chip
    now(light).give_back(2)
    while not slow.rings.finish(1, 0.0):  # type: ignore[arg-type]
        pass
    slow.sink.apply(slow.sink.now(), source, ProcessExited())
    slow.tick(4)
    assert slow.dram().used == 100
    assert slow.dram().peak.value <= 4100 <= slow.dram().peak.at_most

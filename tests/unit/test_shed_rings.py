# SPDX-License-Identifier: Apache-2.0
"""Rings that are written faster than they are read: shed, renewed, followed again, and without a loss for others."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from math import inf

import pytest

from tests.metered_agent import MeteredAgent
from tests.scripted_agent import SLOTS, Agent, Reader
from ttmem.account.entities import Source
from ttmem.ingest import followed_ring, ring_fold, rings
from ttmem.ingest.shed_rings import ShedState
from ttmem.model.kinds import Kind
from ttmem.wire.agent_ring import Ring, RingEvent

_TICK_SECONDS = 0.05


class Clock:
    """A clock that the test sets. A tick is 50 ms, as in the server."""

    def __init__(self) -> None:
        self.now = 100.0
        self.step = 0.0  # seconds that pass between two looks at it

    def __call__(self) -> float:
        self.now += self.step
        return self.now


class Ticking(Reader):
    """A reader that works in ticks."""

    def __init__(self) -> None:
        self.clock = Clock()
        super().__init__(self.clock)

    def tick(self, count: int = 1) -> None:
        for _ in range(count):
            self.clock.now += _TICK_SECONDS
            self.rings.tick()
            self.rings.follow(self.clock.now + 1.0)

    def lost_of(self, source: Source) -> int:
        (found,) = [one for one in self.rings._followers.values() if one.source is source]
        return found.fold.lost

    def read_of(self, source: Source) -> int:
        """The number of the last record that was read."""
        (found,) = [one for one in self.rings._followers.values() if one.source is source]
        return found.fold.ring.cursor


@pytest.fixture
def ticking() -> Iterator[Ticking]:
    made = Ticking()
    yield made
    made.rings.close()


def overrun(agent: Agent, ticking: Ticking) -> None:
    """Write more than the ring holds, in two ticks."""
    for _ in range(2):
        agent.churn(3 * SLOTS)
        ticking.tick()


def test_a_ring_that_is_overwritten_is_shed(agent: Agent, ticking: Ticking) -> None:
    source = ticking.adopt(agent)
    agent.opened()
    ticking.tick()
    assert not source.shed
    overrun(agent, ticking)
    assert source.shed
    ticking.tick()  # renews it for the first time
    agent.allocate(0, 100)
    lost = ticking.lost_of(source)
    ticking.tick(5)
    assert (ticking.sizes(source), ticking.lost_of(source)) == ([], lost), "it is not read"
    assert source.unread > 0
    ticking.tick(25)
    assert ticking.sizes(source) == [100], "it is renewed once a second"
    assert ticking.lost_of(source) > lost


SLICE = 4  # records that a slow reader reads in a tick
HALF = SLOTS // 2


class Slow(Ticking):
    """A reader that has time for one slice in a tick."""

    def tick(self, count: int = 1, *, read: bool = True) -> None:
        for _ in range(count):
            self.clock.now += _TICK_SECONDS
            self.rings.tick()
            if read:
                self.rings.follow(self.clock.now)
            else:  # others take all the time
                for follower in self.rings._followers.values():
                    follower.begin_turn()


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Iterator[Slow]:
    monkeypatch.setattr(rings, "_SLICE_RECORDS", SLICE)
    monkeypatch.setattr(rings, "_LEAST_SLICE_RECORDS", SLICE)
    made = Slow()
    made.clock.step = 1e-6  # reading takes time
    yield made
    made.rings.close()


def test_a_ring_that_stays_more_than_half_full_is_shed(agent: Agent, slow: Slow) -> None:
    source = slow.adopt(agent)
    agent.opened()
    slow.tick(2)
    agent.churn(HALF + 2)
    slow.tick()
    assert not source.shed, "it may become emptier"
    agent.churn(SLICE)
    slow.tick()
    assert source.shed
    assert slow.lost_of(source) == HALF + 2, "what was unread is skipped; nothing was overwritten"
    slow.tick()  # renews it for the first time
    agent.allocate(0, 100)
    slow.tick(5)
    assert slow.sizes(source) == [], "it is not read"
    assert source.unread == 1


def test_a_ring_that_becomes_emptier_is_read(agent: Agent, slow: Slow) -> None:
    source = slow.adopt(agent)
    agent.opened()
    slow.tick(2)
    agent.churn(SLOTS - 2)
    looks: list[int] = []
    while not looks or source.unread:
        looks.append(agent.head - slow.read_of(source))
        slow.tick()
        assert not source.shed
        if len(looks) < 3:
            agent.churn(SLICE - 2)
    assert looks[:2] == [SLOTS - 2, SLOTS - 4], "twice more than half full"
    assert slow.lost_of(source) == 0


@pytest.mark.parametrize("read", [False, True], ids=["no time for it", "half full"])
def test_a_ring_is_not_shed(agent: Agent, slow: Slow, read: bool) -> None:
    """It may be half full for long. If others took all the time, it is unknown whether it is written too fast."""
    source = slow.adopt(agent)
    agent.opened()
    slow.tick(2)
    agent.churn(HALF if read else HALF + 2)
    for _ in range(20):
        slow.tick(read=read)
        if read:
            agent.churn(SLICE)
        assert not source.shed
    assert source.unread > 0, "the ring never became empty"
    assert slow.lost_of(source) == 0


def test_it_is_read_again_when_it_is_written_slowly(agent: Agent, ticking: Ticking) -> None:
    source = ticking.adopt(agent)
    agent.opened()
    ticking.tick()
    overrun(agent, ticking)
    assert source.shed
    ticking.tick(100)
    assert not source.shed
    lost = ticking.lost_of(source)
    for slot in range(8):
        agent.allocate(slot, 100 + slot)
        ticking.tick()
    assert ticking.sizes(source) == [100 + slot for slot in range(8)]
    assert ticking.lost_of(source) == lost


def test_it_stays_shed_while_it_is_written_fast(agent: Agent, ticking: Ticking) -> None:
    source = ticking.adopt(agent)
    agent.opened()
    ticking.tick()
    overrun(agent, ticking)
    ticking.rings._cost.seconds_per_record = 1e-3
    for _ in range(100):
        agent.churn(2 * SLOTS)  # 640 a second, of 600 that could be read
        ticking.tick()
    assert source.shed
    assert ticking.anomalies()["resynced"] >= 4


def test_renewals_take_a_twentieth_of_the_time(agent: Agent) -> None:
    with closing(Ring(os.dup(agent.fd))) as ring:
        state = ShedState(ring)
    state.renew(head=0, now=100.0, seconds_per_record=1e-6, busy=1)
    for _ in range(2):
        state.cost(0.1)
    assert 103.9 < state.due < 104.1


def test_the_cost_of_a_record_is_cpu_time(agent: Agent, ticking: Ticking) -> None:
    """A second between two looks at the clock is the time of other processes."""
    ticking.adopt(agent)
    agent.opened()
    ticking.tick()
    ticking.clock.step = 1.0
    for _ in range(10):
        agent.churn(6)
        ticking.tick()
    assert ticking.rings._cost.seconds_per_record < 1e-4


@pytest.mark.parametrize("full", [False, True])
def test_the_cost_of_a_record_is_that_without_observers(
    agent: Agent, ticking: Ticking, monkeypatch: pytest.MonkeyPatch, full: bool
) -> None:
    """Observers give way when there is too much for them."""

    class Backlog:
        def is_full(self) -> bool:
            return full

        def left_out(self, count: int) -> None:
            pass

    noted: list[int] = []
    monkeypatch.setattr(ticking.rings._cost, "note", lambda records, seconds: noted.append(records))
    ticking.sink.add_observer(lambda *_: None, backlog=Backlog())
    ticking.adopt(agent)
    agent.opened()
    ticking.tick()
    noted.clear()
    agent.churn(6)
    ticking.tick()
    assert sum(noted) == (6 if full else 0)


def test_idle_rings_need_no_share(agents: Callable[[], Agent], ticking: Ticking) -> None:
    ticking.clock.step = 1e-6  # a look at a ring takes time, too
    heavy, *idle = [agents() for _ in range(4)]
    source = ticking.adopt(heavy)
    for pid, agent in enumerate((heavy, *idle), 1):
        agent.opened()
        ticking.adopt(agent, pid)
    ticking.tick()
    overrun(heavy, ticking)
    assert source.shed
    ticking.rings._cost.seconds_per_record = 5e-4
    for _ in range(100):
        heavy.churn(SLOTS)  # 320 a second: of 1,200 that could be read, but not of a quarter of them
        ticking.tick()
        if not source.shed:
            return
    raise AssertionError("it is never read again")


def test_others_lose_nothing(agents: Callable[[], Agent], ticking: Ticking) -> None:
    heavy, light = agents(), agents()
    sources = [ticking.adopt(agent, pid) for pid, agent in enumerate((heavy, light), 1)]
    heavy.opened()
    light.opened()
    ticking.tick()
    for step in range(60):
        heavy.churn(3 * SLOTS)
        light.allocate(step % 20, 100 + step) if step % 20 not in light.live else light.free(step % 20)
        ticking.tick()
        assert ticking.sizes(sources[1]) == sorted(record.size for record in light.live.values())
    assert sources[0].shed
    assert not sources[1].shed
    assert ticking.lost_of(sources[1]) == 0


def test_a_burst_that_fits_is_read(agent: Agent, ticking: Ticking) -> None:
    """A ring may be nearly full for a moment, as when a model is loaded."""
    source = ticking.adopt(agent)
    agent.opened()
    ticking.tick()
    for slot in range(SLOTS - 2):
        agent.allocate(slot, 100)
    ticking.tick()
    assert not source.shed
    assert ticking.lost_of(source) == 0
    assert len(ticking.sizes(source)) == SLOTS - 2


def test_a_shed_process_that_dies(agent: Agent, ticking: Ticking) -> None:
    source = ticking.adopt(agent)
    agent.opened()
    ticking.tick()
    overrun(agent, ticking)
    assert source.shed
    agent.allocate(3, 300)
    agent.churn(4 * SLOTS)
    ticking.rings.finish(1)  # type: ignore[arg-type]
    assert ticking.closings[-1] == [300]
    assert len(ticking.rings) == 0


class Dying(Ticking):
    """A reader that reads so slowly that it reads one record of each dead process in a tick."""

    def tick_dead(self, pids: range) -> None:
        self.clock.now += _TICK_SECONDS
        self.rings.tick()
        for pid in pids:
            self.rings.finish(pid, self.clock.now)  # type: ignore[arg-type]


@pytest.fixture
def dying(monkeypatch: pytest.MonkeyPatch) -> Iterator[Dying]:
    monkeypatch.setattr(rings, "_SLICE_RECORDS", 1)
    monkeypatch.setattr(rings, "_LEAST_SLICE_RECORDS", 1)
    monkeypatch.setattr(followed_ring, "LAST_SECONDS", 4 * _TICK_SECONDS)
    made = Dying()
    made.clock.step = 1e-9
    yield made
    made.rings.close()


def fill(agent: MeteredAgent, others: int = 0) -> None:
    """What is live at the end is 30 and 5, and so many others of 1; the peak is 900."""
    agent.take(0, 30, Kind.DRAM, 0)
    agent.take(1, 870, Kind.DRAM, 0)
    agent.give_back(1)
    agent.take(2, 5, Kind.DRAM, 0)
    for slot in range(others):
        agent.take(3 + slot, 1, Kind.DRAM, 0)
    while agent.head < SLOTS - 2:
        agent.take(1, 7, Kind.DRAM, 0)
        agent.give_back(1)


def test_full_rings_of_dead_processes(dying: Dying) -> None:
    """They are read for some time. Then the live table has what is left, and the meters have the peaks."""
    pids = range(1, 4)
    agents = [MeteredAgent((100 + pid,)) for pid in pids]
    sources = [dying.adopt(agent, pid) for pid, agent in zip(pids, agents, strict=True)]
    for agent in agents:
        fill(agent)
    for _ in range(4):
        dying.tick_dead(pids)
        assert len(dying.rings) == 3
    for _ in range(4):  # to read all takes 14
        dying.tick_dead(pids)
    assert len(dying.rings) == 0
    for pid, agent, source in zip(pids, agents, sources, strict=True):
        total = dying.ledger.chips[str(100 + pid)].kinds[Kind.DRAM]
        assert (total.used, total.peak.value, total.peak.at_most) == (35, 900, 900)
        assert dying.sizes(source) == [5, 30]
        assert 0 < source.process.anomalies["dropped"] < agent.head
        assert source.unread == 0, "nothing waits to be read"
        agent.close()


def test_a_ring_that_was_never_read_before_its_process_died(dying: Dying) -> None:
    agent = MeteredAgent((555,))
    source = dying.adopt(agent)
    fill(agent)
    (follower,) = dying.rings._followers.values()
    follower.end_here()
    for _ in range(5):
        dying.clock.now += _TICK_SECONDS
        dying.rings.tick()
    dying.rings.finish(1)  # type: ignore[arg-type]
    total = dying.ledger.chips["555"].kinds[Kind.DRAM]
    assert (total.used, total.peak.value, source.process.anomalies["dropped"]) == (35, 900, agent.head)
    agent.close()


def test_a_live_table_that_takes_too_long(dying: Dying, monkeypatch: pytest.MonkeyPatch) -> None:
    """The peaks of its process are exact even so. What it held at its end is not known."""
    monkeypatch.setattr(ring_fold, "_EVENTS_PER_LOOK", 1)
    monkeypatch.setattr(ring_fold, "monotonic", lambda: inf)  # each slice ends after one correction
    agent = MeteredAgent((555,))
    source = dying.adopt(agent)
    fill(agent, others=8)
    for _ in range(12):
        dying.tick_dead(range(1, 2))
    assert len(dying.rings) == 0
    total = dying.ledger.chips["555"].kinds[Kind.DRAM]
    assert (total.peak.value, total.peak.at_most) == (900, 900)
    assert 30 <= total.used < 43
    assert source.process.anomalies["dropped"] > 0
    agent.close()


def test_a_reader_that_does_not_shed_reads_everything(dying: Dying) -> None:
    """As `ttmem run` does."""
    agent = MeteredAgent((555,))
    source = dying.adopt(agent)
    fill(agent)
    for _ in range(2 * SLOTS):
        dying.clock.now += _TICK_SECONDS
        dying.rings.finish(1, dying.clock.now)  # type: ignore[arg-type]
    assert len(dying.rings) == 0
    assert source.process.anomalies["dropped"] == 0
    assert dying.sizes(source) == [5, 30]
    agent.close()


def test_a_shed_process_that_runs_another_program(agents: Callable[[], Agent], ticking: Ticking) -> None:
    first, second = agents(), agents()
    source = ticking.adopt(first)
    first.opened()
    ticking.tick()
    overrun(first, ticking)
    assert source.shed
    first.allocate(3, 300)
    first.churn(4 * SLOTS)
    ticking.adopt(second)
    second.opened()
    second.allocate(0, 70)
    ticking.tick(2)
    assert ticking.closings[-1] == [300]
    assert ticking.sizes(source) == [70]
    assert not source.shed


def test_peaks_of_a_shed_process_are_exact(ticking: Ticking) -> None:
    agent = MeteredAgent((555,))
    source = ticking.adopt(agent)
    ticking.tick()
    peak = 0
    for size in (500, 900, 200, 1500, 100):
        for _ in range(2 * SLOTS):
            agent.take(0, size, Kind.DRAM, 0)
            agent.give_back(0)
        peak = max(peak, size)
        ticking.tick(30)
        chip = ticking.ledger.chips["555"]
        assert chip.kinds[Kind.DRAM].peak.value == chip.kinds[Kind.DRAM].peak.at_most == peak
        assert chip.kinds[Kind.DRAM].used == 0
    assert source.process.anomalies["dropped"] > 0
    agent.close()


def test_a_ring_that_is_given_up_while_it_is_shed(agents: Callable[[], Agent], ticking: Ticking) -> None:
    """What others hold on the same chip makes peaks again."""
    heavy, light = agents(), agents()
    for agent in (heavy, light):
        agent.chip(0, 555, 0)
    for pid, agent in enumerate((heavy, light), 1):
        ticking.adopt(agent, pid)
        agent.opened()
    heavy.allocate(0, 50)
    ticking.tick()
    overrun(heavy, ticking)
    light.allocate(0, 100)
    ticking.tick()
    total = ticking.ledger.chips["555"].kinds[Kind.DRAM]
    light.allocate(2, 70)
    ticking.tick()
    assert total.gaps
    assert total.used == 220
    assert total.peak.value < 220, "what the shed process holds may be less by now"
    heavy.record(99)  # no such event
    heavy.put(table_high=0xFFFFFFFF)
    heavy.record(RingEvent.FAILED, mesh=200)
    ticking.rings._give_up(1, ticking.rings._followers[1], ValueError("nonsense"))  # type: ignore[arg-type,index]
    light.allocate(1, 400)
    ticking.tick()
    assert not total.gaps
    assert total.peak.value == 620

# SPDX-License-Identifier: Apache-2.0
"""Records of rings that share chips are applied in the order of their times, however they are read."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from math import inf
from time import CLOCK_MONOTONIC, clock_gettime_ns, monotonic
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.scripted_agent import START, Agent, Reader
from tests.whole_account import everything
from ttmem.account.entities import Source
from ttmem.account.ledger import Ledger
from ttmem.ingest import rings
from ttmem.ingest.followed_ring import FollowedRing
from ttmem.ingest.ring_merge import in_order
from ttmem.ingest.rings import Rings
from ttmem.ingest.sink import Sink
from ttmem.model.identity import ProcessInfo
from ttmem.model.kinds import Confidence, Kind
from ttmem.wire.agent_ring import NO_SLOT, Record, RingEvent

PROCESSES = 3
CHIPS = (555, 777)
SLOTS = 512  # of a ring; none of them is overwritten


@given(st.lists(st.lists(st.integers(0, 20)).map(sorted), max_size=4))
def test_runs_are_in_the_order_of_time(times: list[list[int]]) -> None:
    unread = [list(own) for own in times]
    order = []
    for ring, count in in_order(times):
        order += [(unread[ring].pop(0), ring) for _ in range(count)]
    assert order == sorted((time, ring) for ring, own in enumerate(times) for time in own)


class Server:
    """What a server makes of some rings."""

    def __init__(self, agents: list[Agent]) -> None:
        self.ledger = Ledger()
        self.rings = Rings(Sink(self.ledger, now=lambda: 0.0))
        self.sources: list[Source] = []
        for pid, agent in enumerate(agents, 1):
            source = self.ledger.source(0.0, ProcessInfo(pid=pid, start=1), "agent", Confidence.EXACT)
            with mock.patch.object(rings, "clock_gettime", return_value=0.0):  # both accounts have the same times
                self.rings.adopt(pid, source, os.dup(agent.fd))  # type: ignore[arg-type]
            self.sources.append(source)

    def read(self, seconds: float = inf) -> None:
        while self.rings.follow(monotonic() + seconds):
            pass

    def account(self) -> list[object]:
        return [everything(self.ledger, source) for source in self.sources]


class Machine:
    """Some processes that share chips: mesh 0 is both chips, mesh 1 the first one."""

    def __init__(self) -> None:
        self.agents = [Agent(slots=SLOTS) for _ in range(PROCESSES)]
        self.clock = START
        for agent in self.agents:
            for index, unique in enumerate(CHIPS):
                agent.chip(index, unique, index)
            agent.mesh(0, [0, 1])
            agent.mesh(1, [0])
            for mesh in range(2):
                agent.opened(mesh)

    def act(self, which: int, slot: int, size: int, step: int, mesh: int, kind: Kind) -> None:
        """Allocate or free what a slot has, ``step`` microseconds after the last act of any process."""
        agent = self.agents[which]
        agent.clock = self.clock = self.clock + step * 1000
        if slot in agent.live:
            agent.free(slot)
        else:
            agent.allocate(slot, size, kind=kind, mesh=mesh)
        self.clock = agent.clock

    def close(self) -> None:
        for agent in self.agents:
            agent.close()


acts = st.tuples(
    st.integers(0, PROCESSES - 1),
    st.integers(0, 3),
    st.sampled_from([32, 64, 4096]),
    st.integers(0, 2),
    st.sampled_from([0, 0, 0, 1]),
    st.sampled_from([Kind.DRAM, Kind.DRAM, Kind.L1]),
)
bursts = st.tuples(st.integers(0, PROCESSES - 1), st.sampled_from([0, 0, 7, 40]))  # of one process, before all others
stories = st.lists(st.tuples(bursts, st.lists(acts, min_size=4, max_size=25)), min_size=1, max_size=6)


def small_slices(records: int) -> ExitStack:
    stack = ExitStack()
    for name in ("_SLICE_RECORDS", "_GROUP_RECORDS", "_LEAST_SLICE_RECORDS"):
        stack.enter_context(mock.patch.object(rings, name, min(records, getattr(rings, name))))
    return stack


@pytest.mark.parametrize("slice_records", [8, rings._SLICE_RECORDS])
@settings(max_examples=60)
@given(story=stories, seconds=st.sampled_from([0.0, inf]))
def test_the_account_is_that_of_records_read_at_once(slice_records: int, story: list[Any], seconds: float) -> None:
    """One server reads each record when it was written, the other one reads many records together."""
    with small_slices(slice_records) as stack:
        machine = stack.enter_context(closing(Machine()))
        at_once, together = (Server(machine.agents) for _ in range(2))
        stack.callback(at_once.rings.close)
        stack.callback(together.rings.close)
        at_once.read()
        together.read()
        for (which, count), later in story:
            for act in [(which, 5, 64, 1, 0, Kind.DRAM)] * count + later:
                machine.act(*act)
                at_once.read()
            together.read(seconds)
            assert together.account() == at_once.account()


@pytest.fixture
def sharing(agents: Callable[[], Agent]) -> Iterator[tuple[list[Agent], Reader, list[Source]]]:
    """Two agents on the same chip, and their reader."""
    both = [agents() for _ in range(2)]
    reader = Reader()
    for agent in both:
        agent.chip(0, 555, 0)
        agent.opened()
    sources = [reader.adopt(agent, pid) for pid, agent in enumerate(both, 1)]
    reader.follow()
    yield both, reader, sources
    reader.close()


@pytest.mark.parametrize("slice_records", [2, rings._SLICE_RECORDS])
def test_times_that_decrease_delay_nobody(
    sharing: tuple[list[Agent], Reader, list[Source]], slice_records: int
) -> None:
    """The order within a ring is that of its records, whatever their times are."""
    (one, other), reader, sources = sharing
    for slot, clock in enumerate((9, 2, 5, 1)):
        one.clock = START + clock * 1_000_000
        one.allocate(slot, 100 + slot)
    other.clock = START + 3_000_000
    other.allocate(0, 200)
    with small_slices(slice_records):
        assert not reader.rings.follow(monotonic() + 5)
    assert [reader.sizes(source) for source in sources] == [[100, 101, 102, 103], [200]]


def test_a_fault_costs_only_the_ring_that_has_it(sharing: tuple[list[Agent], Reader, list[Source]]) -> None:
    (one, other), reader, sources = sharing
    for slot in range(3):
        other.clock = one.clock
        other.allocate(slot, 200 + slot)
        one.clock = other.clock
        one.allocate(slot, 100 + slot, kind=Kind.DRAM if slot != 1 else 77)
    reader.follow()
    assert [reader.sizes(source) for source in sources] == [[100], [200, 201, 202]]
    assert len(reader.rings) == 1
    (warning,) = reader.warnings
    assert warning.startswith("pid 1: its agent's memory is invalid")


def test_the_clock_is_read_after_each_run(sharing: tuple[list[Agent], Reader, list[Source]]) -> None:
    """A record may take long, so that few of them are more than there is time for."""
    both, reader, _ = sharing
    for slot in range(4):
        for agent in both:
            agent.clock = START + (100 + slot) * 1_000_000
            agent.allocate(slot)
    before = reader.ledger.seq
    assert reader.rings.follow(0.0)
    assert reader.ledger.seq == before + 1


@pytest.mark.parametrize("later", [False, True])
def test_a_correction_has_its_place_in_the_order(
    sharing: tuple[list[Agent], Reader, list[Source]], later: bool
) -> None:
    """What was lost is corrected at the time of the look: after older records of the other ring, before later ones."""
    (one, other), reader, sources = sharing
    one.churn(64)
    one.allocate(0, 1000)
    other.allocate(1, 50)
    other.clock += 1 << 50 if later else 0  # a time in the future counts as that of the look at this ring
    other.allocate(0, 100)
    reader.rings._followers[2].spent = 1.0  # type: ignore[index]  # it is looked at last
    reader.follow()
    (corrected,), (earlier, last) = (next(iter(source.holdings.values())).buffers.values() for source in sources)
    assert earlier.born < corrected.born
    assert (corrected.born < last.born) == later


@pytest.mark.parametrize("ended", [False, True])
@pytest.mark.parametrize("what", ["records", "corrections"])
def test_what_is_later_than_a_turn_waits_for_the_next_one(
    sharing: tuple[list[Agent], Reader, list[Source]], monkeypatch: pytest.MonkeyPatch, what: str, ended: bool
) -> None:
    """Both rings have records with times in the future, more than are loaded at once, or lost records."""
    both, reader, sources = sharing
    for agent in both:
        agent.clock += 1 << 50
        for slot in range(4):
            agent.allocate(slot, 100 + slot)
        if what == "corrections":
            agent.churn(64)
    followers = list(reader.rings._followers.values())
    if ended:
        for follower in followers:
            follower.end_here()
    rounds, read = 0, reader.rings._read

    def counted(group: list[Any], deadline: float) -> None:
        nonlocal rounds
        rounds += 1
        assert rounds < 100, "it reads on without progress"
        read(group, deadline)

    monkeypatch.setattr(reader.rings, "_read", counted)
    with small_slices(2):
        for _ in range(4):
            assert not reader.rings.follow(inf)
    assert [reader.sizes(source) for source in sources] == [[100, 101, 102, 103]] * 2
    assert len(reader.rings) == (0 if ended else 2)


def test_a_dead_process_does_not_wait_for_a_writer_of_old_times(
    agents: Callable[[], Agent], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process writes faster than it is read, with times before all others. The exit waits for a ring of it only."""
    clock = 0.0
    reader = Reader(lambda: clock)
    dead, writer = agents(), agents()
    writer.chip(0, 555, 0)
    sources = [reader.adopt(agent, pid) for pid, agent in enumerate((dead, writer), 1)]
    for agent in (dead, writer):
        agent.opened()
    reader.follow()
    dead.allocate(0, 100)
    begin_turn = FollowedRing.begin_turn

    def write_and_begin(follower: FollowedRing) -> None:
        if follower.source is sources[1]:
            while writer.head - follower.fold.ring.cursor < 6:  # more than a slice, but not enough to be shed
                writer.write(RingEvent.ALLOCATED, 3, time=1, size=7, per_bank=32, address=4096, layout=255)
                writer.write(RingEvent.FREED, 3, time=1, size=7, per_bank=32, address=4096, layout=255)
        begin_turn(follower)

    monkeypatch.setattr(FollowedRing, "begin_turn", write_and_begin)
    with small_slices(4):
        while not reader.rings.finish(1, deadline=-1.0):  # type: ignore[arg-type]
            reader.rings.tick()
            clock += 0.05
            assert clock < 1, "its exit waits until it is late"
    assert reader.sizes(sources[0]) == [100]
    reader.close()


class TimedAgent(Agent):
    """Its records have the time of now."""

    def record(self, event: int, slot: int = NO_SLOT, **fields: int) -> Record:
        self.clock = clock_gettime_ns(CLOCK_MONOTONIC) - 1000
        return super().record(event, slot, **fields)


def test_records_of_after_a_look_wait_for_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """One frees 1000 bytes after its ring was read, then the other allocates 900 before its ring is read."""
    reader = Reader()
    with ExitStack() as stack:
        stack.callback(reader.close)
        one, other = (stack.enter_context(closing(TimedAgent())) for _ in range(2))
        for pid, agent in enumerate((one, other), 1):
            agent.chip(0, 555, 0)
            agent.mesh(0, [0])
            agent.opened()
            reader.adopt(agent, pid)
        one.allocate(0, 1000)
        reader.follow()
        one.allocate(1, 1)
        other.allocate(1, 1)
        ring = reader.rings._followers[2].fold.ring  # type: ignore[index]
        reader.rings._followers[2].spent = 1.0  # type: ignore[index]  # it is read last
        read, meanwhile = ring.read, [lambda: one.free(0), lambda: other.allocate(0, 900)]

        def read_later(limit: int) -> tuple[int, list[tuple[int, ...]]]:
            while meanwhile:
                meanwhile.pop(0)()
            return read(limit)

        monkeypatch.setattr(ring, "read", read_later)
        reader.rings.follow(inf)
        total = reader.ledger.chips["555"].kinds[Kind.DRAM]
        assert (total.used, meanwhile) == (1002, [])
        reader.follow()
        assert (total.used, total.peak.value, total.peak.limit) == (902, 1002, None)

# SPDX-License-Identifier: Apache-2.0
"""Ends of rings: what is read after a process died or ran another program, and what of other rings comes before it."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import pairwise
from math import inf
from time import CLOCK_MONOTONIC, clock_gettime_ns

import pytest

from tests.scripted_agent import Agent, Reader
from ttmem.account.entities import Source
from ttmem.ingest import rings
from ttmem.model.events import ProcessExited
from ttmem.model.kinds import Kind
from ttmem.wire.agent_ring import RingError


def test_the_ring_of_a_dead_process_is_read_in_the_order_of_time(agents: Callable[[], Agent], reader: Reader) -> None:
    """One process frees what it has, then another allocates as much and dies, all between two looks."""
    dying, living = agents(), agents()
    living.chip(0, 555, 0)
    sources = [reader.adopt(one, pid) for pid, one in enumerate((dying, living), 1)]
    for one in (dying, living):
        one.opened()
    living.allocate(1, 1000)
    reader.follow()
    living.free(1)
    dying.clock = living.clock
    dying.allocate(1, 1000)
    leave(reader, 1, sources[0])
    reader.follow()
    total = reader.ledger.chips["555"].kinds[Kind.DRAM]
    assert (total.peak.value, total.peak.limit) == (1000, None)


class Sharing:
    """A process with 100 bytes, which ends, and another one on the same chip. Slices have two records, without ticks.

    The records of both are of now.
    """

    def __init__(self, agents: Callable[[], Agent], reader: Reader) -> None:
        self.reader = reader
        self.dying, self.other = agents(), agents()
        self.other.chip(0, 555, 0)
        self.source = reader.adopt(self.dying)
        self.dying.opened()
        now(self.dying).allocate(0, 100)
        self.other.opened()

    def adopt_other(self) -> None:
        self.reader.adopt(self.other, 2)

    def spike(self, size: int) -> None:
        """The other process allocates a buffer and frees it at once."""
        now(self.other).allocate(9, size)
        now(self.other).free(9)

    def finish(self) -> bool:
        """Read a slice of what is left of the dead process. At the end its exit is applied."""
        return leave(self.reader, 1, self.source, 0.0)

    def exit_now(self) -> None:
        """Read all that is left of the dead process, and apply its exit."""
        for _ in range(100):
            if self.finish():
                break
        else:
            raise AssertionError("its exit is never applied")

    def exit(self) -> None:
        """The same, then read the other process."""
        self.exit_now()
        self.reader.follow()

    def peak(self) -> tuple[int, int | None]:
        total = self.reader.ledger.chips["555"].kinds[Kind.DRAM]
        return total.peak.value, total.peak.limit


def leave(reader: Reader, pid: int, source: Source, deadline: float = inf) -> bool:
    """The process is dead: read what is left of its ring, and apply its exit."""

    def exited() -> None:
        reader.sink.apply(reader.sink.now(), source, ProcessExited())

    return reader.rings.finish(pid, deadline, exited)  # type: ignore[arg-type]


def now(agent: Agent) -> Agent:
    """The next record is of now."""
    agent.clock = clock_gettime_ns(CLOCK_MONOTONIC) - 1000
    return agent


@pytest.fixture
def sharing(agents: Callable[[], Agent], reader: Reader, monkeypatch: pytest.MonkeyPatch) -> Sharing:
    monkeypatch.setattr(rings, "_SLICE_RECORDS", 2)
    monkeypatch.setattr(rings, "_LEAST_SLICE_RECORDS", 2)
    return Sharing(agents, reader)


def test_an_exit_does_not_wait_for_younger_records(sharing: Sharing) -> None:
    """The other process writes as fast as it is read, so there is always more."""
    sharing.adopt_other()
    sharing.reader.follow()
    for _ in range(2):
        sharing.spike(10)
    turns = 0
    while not sharing.finish():
        sharing.spike(10)
        turns += 1
        assert turns < 10, "it waits for records that were written after its end"


def test_an_exit_waits_for_the_older_records_of_a_ring_only(sharing: Sharing) -> None:
    """Some were there when it was looked at before. It has younger ones by the time these are read."""
    sharing.adopt_other()
    sharing.reader.follow()
    for _ in range(3):
        sharing.spike(10)
    assert sharing.reader.rings.follow(0.0)
    assert not sharing.finish()
    for _ in range(4):
        sharing.spike(10)
    sharing.exit_now()
    assert sharing.reader.rings.behind() > 4


@pytest.mark.parametrize("look", [False, True])
def test_younger_records_do_not_count_before_an_exit(sharing: Sharing, look: bool) -> None:
    """To read the rest of the ring takes several turns. What was freed at the end was not live together with these.

    ``look``: a tick or a request comes meanwhile, and reads all rings.
    """
    sharing.adopt_other()
    sharing.reader.follow()
    for slot in range(1, 7):
        now(sharing.dying).allocate(slot, 1)
    for slot in range(3):
        now(sharing.other).allocate(slot, 1)
    assert not sharing.finish()
    sharing.spike(1000)
    if look:
        sharing.reader.follow()
        assert not sharing.reader.rings.behind()
    sharing.exit()
    assert sharing.peak() == (1003, None)


@pytest.mark.parametrize("deadline", [0.0, inf])
def test_the_first_of_two_dead_processes_leaves_first(sharing: Sharing, deadline: float) -> None:
    """The second one allocated after the death of the first, whose ring takes several turns."""
    other = sharing.reader.adopt(sharing.other, 2)
    sharing.reader.follow()
    for slot in range(1, 7):
        now(sharing.dying).allocate(slot, 1)
    assert not sharing.finish()
    sharing.spike(1000)
    while not leave(sharing.reader, 2, other, deadline):
        pass
    assert sharing.finish()
    assert sharing.peak() == (1000, None)


def test_a_program_ends_before_younger_records_of_others(agents: Callable[[], Agent], sharing: Sharing) -> None:
    """Its process runs another program now, so what it held was not live together with these."""
    sharing.adopt_other()
    sharing.reader.follow()
    for slot in range(1, 7):
        now(sharing.dying).allocate(slot, 1)
    sharing.reader.adopt(agents())
    sharing.spike(1000)
    sharing.reader.follow()
    assert sharing.peak() == (1000, None)


@pytest.mark.parametrize("seed", range(20))
def test_exits_among_records_of_others(
    agents: Callable[[], Agent], reader: Reader, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Processes that share a chip write, die and are read in random slices. The peak is that of the order of time."""
    dice = random.Random(seed)
    for name in ("_SLICE_RECORDS", "_LEAST_SLICE_RECORDS"):
        monkeypatch.setattr(rings, name, dice.choice((1, 2, 4)))
    made = {pid: agents() for pid in range(1, dice.randrange(3, 6))}
    for agent in made.values():
        agent.chip(0, 555, 0)
    sources = {pid: reader.adopt(agent, pid) for pid, agent in made.items()}
    for agent in made.values():
        agent.opened()
    reader.follow()
    held: dict[int, dict[int, int]] = {pid: {} for pid in made}
    alive, peak = list(made), 0
    exiting: list[int] = []
    while alive or exiting:
        act = dice.random()
        if alive and act < 0.5:
            pid, slot = dice.choice(alive), dice.randrange(8)
            if slot in held[pid]:
                del held[pid][slot]
                now(made[pid]).free(slot)
            else:
                size = held[pid][slot] = dice.randrange(1, 1000)
                now(made[pid]).allocate(slot, size)
            peak = max(peak, sum(sum(sizes.values()) for sizes in held.values()))
        elif alive and act < 0.55:
            exiting.append(pid := alive.pop(dice.randrange(len(alive))))
            held[pid] = {}
            leave(reader, pid, sources[pid], 0.0)
        elif exiting and act < 0.75:
            pid = exiting.pop(0)
            if not leave(reader, pid, sources[pid], 0.0):
                exiting.append(pid)
        else:
            reader.rings.follow(dice.choice((0.0, inf)))
    total = reader.ledger.chips["555"].kinds[Kind.DRAM]
    assert (total.used, total.peak.value, total.peak.limit) == (0, peak, None)


def test_an_exit_waits_for_a_ring_of_which_nothing_was_read_yet(sharing: Sharing) -> None:
    """Its records may be older."""
    sharing.reader.follow()
    for size in (10, 10, 1000):
        sharing.spike(size)
    sharing.adopt_other()
    sharing.exit()
    assert sharing.peak() == (1100, None)


def test_a_ring_that_is_read_for_the_exit_of_another_process(agents: Callable[[], Agent], sharing: Sharing) -> None:
    """Its own process died later. That exit waits for records that were written between the two deaths."""
    sharing.adopt_other()
    first = agents()
    first.chip(0, 555, 0)
    first.opened()
    sharing.reader.adopt(first, 3)
    sharing.reader.follow()
    followers = sharing.reader.rings._followers
    now(sharing.dying).allocate(1, 1)
    followers[3].end_here()  # type: ignore[index]
    sharing.spike(1000)
    followers[1].end_here()  # type: ignore[index]
    assert sharing.reader.rings.finish(3)  # type: ignore[arg-type]
    sharing.exit()
    assert sharing.peak() == (1101, None)


@pytest.mark.parametrize("last", [False, True])
def test_a_program_ends_after_older_records_of_others(
    agents: Callable[[], Agent], sharing: Sharing, last: bool
) -> None:
    """All of its own were read before. ``last``: its ring is looked at after the other one."""
    if last:
        sharing.reader.rings.close()
        sharing.adopt_other()
        sharing.source = sharing.reader.adopt(sharing.dying)
    else:
        sharing.adopt_other()
    sharing.reader.follow()
    sharing.spike(1000)
    sharing.reader.adopt(agents())
    for _ in range(2):  # in the first turn, the other ring is read
        sharing.reader.follow()
    assert sharing.peak() == (1100, None)
    assert sharing.reader.sizes(sharing.source) == []


def test_what_a_dead_process_left_is_read_in_slices(
    agents: Callable[[], Agent], reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rings, "_SLICE_RECORDS", 4)
    monkeypatch.setattr(rings, "_LEAST_SLICE_RECORDS", 1)
    agent = agents()
    reader.adopt(agent)
    agent.opened()
    for slot in range(12):
        agent.allocate(slot, 100 + slot)
    applied = [reader.ledger.seq]
    while not reader.rings.finish(1, deadline=0.0):  # type: ignore[arg-type]
        applied.append(reader.ledger.seq)
    steps = [after - before for before, after in pairwise(applied)]
    assert len(steps) >= 2
    assert max(steps[1:]) <= 4  # the first also has the data before the records
    assert reader.closings == [[100 + slot for slot in range(12)]]
    assert len(reader.rings) == 0


def test_a_process_that_runs_another_program(agents: Callable[[], Agent], reader: Reader) -> None:
    """Its earlier memory is read to the end, and what it held is removed. Then its new memory is read."""
    first, second = agents(), agents()
    source = reader.adopt(first)
    first.opened()
    first.allocate(0, 100)
    reader.follow()
    first.allocate(1, 200)
    reader.adopt(second)
    reader.adopt(second)  # twice is once
    second.opened()
    second.allocate(0, 300)
    reader.follow()
    assert reader.closings == [[100, 200]]
    assert reader.sizes(source) == [300]
    assert reader.rings.counts() == (5, 0)


def test_a_process_that_runs_two_other_programs_at_once(agents: Callable[[], Agent], reader: Reader) -> None:
    """The memory of the second one is complete when it is read, because there is a third."""
    made = [agents() for _ in range(3)]
    for agent, size in zip(made, (100, 200, 300)):
        source = reader.adopt(agent)
        agent.opened()
        agent.allocate(0, size)
    for _ in range(3):
        reader.follow()
    assert reader.closings == [[100], [200]]
    assert reader.sizes(source) == [300]


def test_an_invalid_ring_whose_successor_has_other_chips(agents: Callable[[], Agent]) -> None:
    """A living process on the same chip shares it with no other from then on. Its newest records are later."""
    looks = 0

    def clock() -> float:
        nonlocal looks
        looks += 1
        assert looks < 10_000, "it never comes to an end"
        return 0.0

    reader = Reader(clock)
    bad, good, successor = agents(), agents(), agents()
    good.chip(0, 555, 0)
    reader.adopt(bad, 1)
    source = reader.adopt(good, 2)
    for agent in (bad, good):
        agent.opened()
    reader.follow()
    bad.record(99)
    good.clock += 10**12
    good.allocate(0, 100)
    reader.adopt(successor, 1)
    reader.rings.end()
    assert len(reader.warnings) == 1
    assert reader.sizes(source) == [100]
    reader.close()


def test_memory_that_is_handed_over_faster_than_it_is_read(agents: Callable[[], Agent], reader: Reader) -> None:
    made = [agents() for _ in range(7)]
    for agent in made[:5]:
        reader.adopt(agent)
    for agent in made[5:]:
        with pytest.raises(RingError, match="it hands over memory faster than that can be read"):
            reader.adopt(agent)
    reader.follow()
    assert len(reader.rings) == 1
    assert reader.warnings == []

# SPDX-License-Identifier: Apache-2.0
"""Rings whose records are missing for a while: samples and peaks meanwhile, when a ring is given up, and new phases."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any, NoReturn

import pytest

from tests.metered_agent import MeteredAgent
from tests.scripted_agent import SLOTS
from tests.unit.test_shed_rings import Ticking
from ttmem.account.entities import Source
from ttmem.account.totals import Total
from ttmem.documents.peaks import peaks
from ttmem.ingest import ring_fold
from ttmem.model.events import MAX_SIZE, PeaksReset
from ttmem.model.kinds import KINDS_OF, Kind, Pool
from ttmem.server.history import sampled
from ttmem.wire.agent_ring import Ring, RingError
from ttmem.wire.ring_meters import Measured, measured
from ttmem.wire.table_copy import TableCopy, copy_table

DRAM = Kind.DRAM
SECOND = 25  # ticks in which a shed ring is read again, and some more


class Processes:
    """Processes on chips of their own choice, and the server."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self.reader = Ticking()
        stack.callback(self.reader.rings.close)

    def start(self, pid: int, *chips: int) -> tuple[MeteredAgent, Source]:
        agent = self._stack.enter_context(closing(MeteredAgent(chips)))
        return agent, self.reader.adopt(agent, pid)

    def overrun(self, agent: MeteredAgent, source: Source, size: int) -> None:
        """Write until the ring is shed."""
        for _ in range(100):
            if source.in_gap:
                return
            use(agent, size, 3 * SLOTS)
            self.reader.tick()
        raise AssertionError("it is never shed")

    def reset(self) -> None:
        self.reader.sink.apply(self.reader.sink.now(), None, PeaksReset())

    def totals(self, chip: int, kind: Kind = DRAM) -> list[Total]:
        """Of a chip: of a kind, and of its pool."""
        found = self.reader.ledger.chips[str(chip)]
        (pool,) = (pool for pool in Pool if kind in KINDS_OF[pool])
        return [found.kinds[kind], found.pools[pool]]

    def sample(self) -> Any:
        """The last and the highest value of DRAM on each chip."""
        return {chip: value for (chip, name), value in sampled(self.reader.ledger, set())[0].items() if name == "dram"}


@pytest.fixture
def processes() -> Iterator[Processes]:
    with ExitStack() as stack:
        yield Processes(stack)


def use(agent: MeteredAgent, size: int, rounds: int = 1) -> None:
    """Allocate and free."""
    for _ in range(rounds):
        agent.take(0, size, DRAM, 0)
        agent.give_back(0)


def own_totals(source: Source, chip: int, kind: Kind = DRAM) -> list[Total]:
    (pool,) = (pool for pool in Pool if kind in KINDS_OF[pool])
    return [source.totals[0, kind], source.process.shares[str(chip)].pools[pool]]


# -- samples of the history


def test_samples_while_a_ring_is_shed(processes: Processes) -> None:
    """What another process held long ago was not held then."""
    agent, source = processes.start(1, 555)
    other, _ = processes.start(2, 555)
    other.take(2, 30, DRAM, 0)
    use(other, 90_000)
    processes.reader.tick()
    agent.take(1, 100, DRAM, 0)
    use(agent, 5000)
    processes.reader.tick(5)
    last, highest = processes.sample()["555"]
    assert (last, highest) == (130, 90_030), "of both"
    processes.overrun(agent, source, 700)
    processes.sample()
    caught_up = 0
    for _ in range(4):
        for _ in range(SECOND):
            use(agent, 700, SLOTS)
            processes.reader.tick()
        last, highest = processes.sample()["555"]
        assert (last, source.in_gap) == (130, True)
        assert 130 <= highest <= 830, "what both hold, and what the one held for a moment"
        caught_up += highest >= 800
    assert caught_up


# -- peaks


@pytest.mark.parametrize("shared", [True, False], ids=["shared", "alone"])
@pytest.mark.parametrize("reset", [False, True], ids=["", "reset"])
def test_a_ring_that_is_given_up_in_a_gap(
    processes: Processes, monkeypatch: pytest.MonkeyPatch, reset: bool, shared: bool
) -> None:
    """How high the process was in the gap is not known, so no peak that it was part of is exact."""
    agent, source = processes.start(1, 555)
    other, neighbour = processes.start(2, *((555, 777) if shared else (777,)))
    agent.take(1, 100, DRAM, 0)
    other.take(1, 40, DRAM, 0)
    other.take(2, 40, DRAM, 1 if shared else 0)
    use(agent, 50_000)
    processes.reader.tick()
    processes.overrun(agent, source, 9000)
    use(other, 90_000)
    use(agent, 777_000, 3 * SLOTS)
    if reset:
        processes.reset()
        use(agent, 8000)
    busy(monkeypatch)
    processes.reader.tick(SECOND)
    assert len(processes.reader.warnings) == 1
    assert not source.in_gap
    for total in (*processes.totals(555), *own_totals(source, 555)):
        for peak in (total.peak, total.recent):
            assert peak.limit is not None
            assert peak.value < 777_100 < MAX_SIZE <= peak.limit
        assert not total.reserved_peak_exact
    assert [total.peak.limit for total in own_totals(neighbour, 777)] == [None, None]
    assert [limit for total in processes.totals(777) for limit in (total.peak.limit, total.recent.limit)] == [None] * 4
    rows = [row for row in peaks(processes.reader.ledger) if row.get("kind") == "dram" and row["chips"] == ["555"]]
    assert [row["at_most"] is not None for row in rows] == [True]


def busy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table cannot be copied."""

    def copy(ring: Ring) -> NoReturn:
        raise RingError("the live table changes faster than it can be copied")

    monkeypatch.setattr(ring_fold, "copy_table", copy)


def test_a_ring_that_is_given_up_without_a_gap(processes: Processes) -> None:
    agent, source = processes.start(1, 555)
    agent.take(1, 100, DRAM, 0)
    use(agent, 50_000)
    processes.reader.tick()
    agent.record(99)  # no such event
    processes.reader.tick()
    assert len(processes.reader.warnings) == 1
    totals = (*processes.totals(555), *own_totals(source, 555))
    assert [(total.peak.value, total.peak.limit) for total in totals] == [(50_100, None)] * 4


def test_a_peak_of_0_since_a_reset_in_a_gap(processes: Processes) -> None:
    """Nothing is known of it, so it has neither a time nor allocations."""
    agent, source = processes.start(1, 555)
    agent.take(1, 100, DRAM, 0)
    use(agent, 50_000)
    processes.reader.tick()
    processes.overrun(agent, source, 9000)
    processes.reset()
    agent.give_back(1)
    use(agent, 300, 3)
    unread = recent_rows(processes)
    assert [row["per_chip"] for row in unread] == [0]
    assert source.in_gap
    processes.reader.tick(4 * SECOND)
    assert not source.in_gap
    for row in (*unread, *recent_rows(processes)):
        assert row["per_chip"] <= 300 <= row["at_most"]
        assert (row["time"], row["largest"]) == (None, [])


def recent_rows(processes: Processes) -> list[Any]:
    return [row for row in peaks(processes.reader.ledger, recent=True) if row.get("kind") == "dram"]


# -- phases that begin while the agent's memory is copied


def step(agent: MeteredAgent) -> None:
    agent.begin_phase(1, "step")


def step_and_allocation(agent: MeteredAgent) -> None:
    agent.begin_phase(1, "step")
    use(agent, 10)


def short_step(agent: MeteredAgent) -> None:
    agent.begin_phase(1, "step")
    agent.end_phase(1)


@pytest.mark.parametrize(
    ("act", "still_open", "missed"),
    [(step, ["step"], 0), (step_and_allocation, ["step"], 0), (short_step, [], 1)],
    ids=["step", "step with an allocation", "short step"],
)
@pytest.mark.parametrize("moment", ["before", "before the table", "after the table", "after the meters"])
def test_phases_that_begin_while_the_table_is_copied(
    processes: Processes,
    monkeypatch: pytest.MonkeyPatch,
    moment: str,
    act: Callable[[MeteredAgent], None],
    still_open: list[str],
    missed: int,
) -> None:
    """They are known: as open phases, or by their records. A later loss does not count them again."""
    agent, source = processes.start(1, 555)
    agent.take(1, 100, DRAM, 0)
    processes.reader.tick()
    use(agent, 9000, 3 * SLOTS)
    acts = [moment]

    def at(now: str) -> None:
        if acts == [now]:
            acts.clear()
            act(agent)

    def copy(ring: Ring) -> TableCopy:
        at("before the table")
        found = copy_table(ring)
        at("after the table")
        return found

    def measure(ring: Ring, **keywords: Any) -> Measured:
        found = measured(ring, **keywords)
        at("after the meters")
        return found

    monkeypatch.setattr(ring_fold, "copy_table", copy)
    monkeypatch.setattr(ring_fold, "measured", measure)
    at("before")
    processes.reader.tick(3)
    assert not acts
    for _ in range(2):
        use(agent, 9000, 3 * SLOTS)
        processes.reader.tick(2 * SECOND)
    phases = source.process.phases
    ended = sum(path.runs for path in phases.ended.values())
    assert [phase.path for phase in phases.open.values()] == still_open
    assert (phases.missed, ended) in ((missed, 0), (0, missed)), "its records may have been read"

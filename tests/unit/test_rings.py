# SPDX-License-Identifier: Apache-2.0
"""Rings in the account: from the start, late, with a loss, several at once, and with hostile memory."""

from __future__ import annotations

import itertools
import os
import random
import struct
from collections.abc import Callable
from math import inf
from struct import pack_into
from time import CLOCK_MONOTONIC, clock_gettime
from typing import Any

import pytest

from tests.scripted_agent import BANKS, MESHES, SLOTS, START, Agent, Reader
from ttmem.account.allocations import Allocation
from ttmem.account.entities import Source
from ttmem.documents.run_document import cause_of
from ttmem.ingest import rings
from ttmem.ingest.ring_fold import RingFold
from ttmem.model.events import Allocated, Event, PhaseBegan, PhaseEnded, Sees
from ttmem.model.identity import ProcessInfo
from ttmem.model.kinds import KINDS, Confidence, Kind
from ttmem.wire.agent_ring import (
    BINARY,
    KEPT,
    WHOLESALE,
    Ring,
    RingEvent,
)

# -- from the start -------------------------------------------------------------------------------------------------


def test_from_the_first_record(agent: Agent, reader: Reader) -> None:
    source = reader.adopt(agent)
    agent.opened()
    agent.allocate(0, 100)
    agent.allocate(1, 200, kind=Kind.L1, per_bank=64)
    reader.follow()
    chip = reader.ledger.chips["555"]
    assert (chip.kinds[Kind.DRAM].used, chip.kinds[Kind.DRAM].reserved) == (100, 32 * BANKS)
    assert (chip.kinds[Kind.L1].used, chip.kinds[Kind.L1].reserved) == (200, 64 * BANKS)
    assert source.covered >= {Kind.DRAM, Kind.CB}
    agent.free(0)
    reader.follow()
    assert chip.kinds[Kind.DRAM].used == 0
    assert reader.rings.counts() == (4, 0)
    assert reader.anomalies() == {}


@pytest.mark.parametrize("seed", range(8))
def test_it_makes_no_difference_whether_somebody_looks_on(agent: Agent, seed: int) -> None:
    """Nearly all records take a fast path into the account, unless every event is passed to observers."""
    dice = random.Random(seed)
    agent.chip(1, 777, 1)
    agent.mesh(0, [0, 1])
    agent.mesh(1, [1])
    alone, watched = Reader(), Reader()
    watched.sink.add_observer(lambda *_: None)
    sources = [reader.adopt(agent) for reader in (alone, watched)]
    agent.opened(0)
    agent.opened(1)
    agent.allocate(40, kind=Kind.CB, program=4, per_bank=1000)
    agent.program(41, 4)
    for _ in range(60):
        for _ in range(dice.randrange(1, SLOTS // 2)):
            slot = dice.randrange(20)
            if slot in agent.live:
                agent.live[slot] = agent.live[slot]._replace(flags=dice.choice((0, WHOLESALE)))
                agent.free(slot)
            else:
                kind = dice.choice((Kind.DRAM, Kind.L1, Kind.L1_SMALL))
                agent.allocate(slot, dice.randrange(1, 999), 5000 + 64 * slot, kind=kind, mesh=slot % 2)
        last = dice.choice((RingEvent.CLOSING, RingEvent.RUN, RingEvent.PHASE_BEGAN))
        if last == RingEvent.RUN:
            agent.run(41)
        else:
            agent.record(last, mesh=dice.randrange(2))
        for reader in (alone, watched):
            reader.follow()

    def state(reader: Reader, source: Source) -> object:
        totals = [total for chip in reader.ledger.chips.values() for total in chip.totals()]
        (listener,) = reader.listeners
        (follower,) = reader.rings._followers.values()
        freed = listener.tensors_freed_by_close, listener.bytes_freed_by_close
        return (
            [(total.used, total.count, total.reserved, total.peak.value, total.peak.seq) for total in totals],
            [(size.numbers, size.least, size.lowest_small, size.scatters[Kind.L1].worst) for size in listener.sizes],
            (reader.closings, freed, follower.fold._events.used, reader.anomalies(), reader.sizes(source)),
        )

    assert state(alone, sources[0]) == state(watched, sources[1])
    assert len(alone.closings) > 1
    for freed in (alone.listeners[0].tensors_freed_by_close, alone.listeners[0].bytes_freed_by_close):
        assert {kind for kind, amount in zip(KINDS, freed) if amount} == {Kind.DRAM, Kind.L1}, "and no L1_SMALL"
    assert any(size.least for size in alone.listeners[0].sizes)
    for reader in (alone, watched):
        reader.rings.close()


def test_a_mesh_is_its_chips(agent: Agent, reader: Reader) -> None:
    """A buffer of a mesh is on each of its chips, a buffer of a submesh only on the chips of the submesh."""
    agent.chip(1, 777, 1)
    agent.mesh(0, [0, 1])
    agent.mesh(1, [1], parent=0)
    reader.adopt(agent)
    agent.opened()
    agent.allocate(0, 100)
    agent.allocate(1, 30, kind=Kind.CB, mesh=1, program=4)
    reader.follow()
    used = {
        chip_id: [chip.kinds[kind].used for kind in (Kind.DRAM, Kind.CB)]
        for chip_id, chip in reader.ledger.chips.items()
    }
    assert used == {"555": [100, 0], "777": [100, 30]}


def test_kernel_binaries_in_dram_are_the_program_caches(agent: Agent, reader: Reader) -> None:
    """On hardware, every cached program has some. They are not leaks."""
    reader.adopt(agent)
    agent.opened()
    agent.allocate(0, 100)
    agent.allocate(1, 200, flags=BINARY)
    reader.follow()
    causes = {allocation.size: cause_of(allocation) for allocation in reader.ledger.allocations()}
    assert causes == {100: "tensor", 200: "program cache"}


def test_phases_are_of_no_mesh(agent: Agent) -> None:
    """A phase may begin before any device is opened. A name for which there was no room is empty."""
    agent.record(RingEvent.PHASE_BEGAN, address=1, name=agent.blob("prefill \N{SNOWMAN}".encode()), mesh=MESHES - 1)
    agent.record(RingEvent.PHASE_BEGAN, address=(1 << 64) - 1, size=1)
    last = agent.record(RingEvent.PHASE_ENDED, address=1)
    seen: list[tuple[float, Event]] = []
    reader = Reader()
    reader.sink.add_observer(lambda time, source, event, allocation: seen.append((time, event)))
    source = reader.ledger.source(0.0, ProcessInfo(pid=1, start=1), "agent", Confidence.EXACT)
    fold = RingFold(Ring(os.dup(agent.fd)), 10.0, reader.sink, source)
    fold.load(SLOTS)
    fold.fold(1 << 64, inf)
    fold.ring.close()
    events = [(time, event) for time, event in seen if not isinstance(event, Sees)]
    assert [event for _, event in events] == [
        PhaseBegan(1, "prefill \N{SNOWMAN}", 0),
        PhaseBegan((1 << 64) - 1, "", 1),
        PhaseEnded(1),
    ]
    assert events[-1][0] == last.time * 1e-9 + 10.0


def test_phases_reach_the_account(agent: Agent, reader: Reader) -> None:
    """They take the general path for records into the account."""
    source = reader.adopt(agent)
    agent.record(RingEvent.PHASE_BEGAN, address=1, name=agent.blob(b"prefill"))
    agent.opened()
    agent.allocate(0, 100)
    agent.record(RingEvent.PHASE_ENDED, address=1)
    agent.free(0)
    agent.allocate(1, 50)
    reader.follow()
    assert reader.sizes(source) == [50]
    assert reader.rings.counts() == (6, 0)
    assert reader.anomalies() == {}


def test_handed_over_twice_is_followed_once(agent: Agent, reader: Reader) -> None:
    source = reader.adopt(agent)
    reader.adopt(agent)
    agent.opened()
    agent.allocate(0)
    reader.follow()
    assert (len(reader.rings), reader.sizes(source)) == (1, [100])


# -- lost records ---------------------------------------------------------------------------------------------------


def test_a_reader_that_comes_late(agent: Agent, reader: Reader) -> None:
    agent.opened()
    agent.allocate(0, 100)
    agent.program(1, 5)
    agent.allocate(2, 40, kind=Kind.CB, program=5, cores=agent.blob(b"\x03"))
    agent.program(3, 6, ran=True)
    agent.allocate(4, 60, kind=Kind.CB, program=6, cores=agent.blob(b"\x03"))
    agent.churn(2 * SLOTS)
    source = reader.adopt(agent)
    reader.follow()
    assert reader.sizes(source) == [40, 60, 100]
    chip = reader.ledger.chips["555"]
    assert chip.resident_bytes(Kind.CB) == 60
    assert {p.ident: p.metal_id for p in source.holdings[0].programs.values()} == {5: 77, 6: 77}
    agent.free(0)
    agent.destroyed(1, 5)
    reader.follow()
    assert reader.sizes(source) == [60]


def launched(reader: Reader) -> dict[str, int | None]:
    """Resident circular buffers, by chip."""
    return {chip_id: chip.resident_bytes(Kind.CB) for chip_id, chip in reader.ledger.chips.items()}


@pytest.mark.parametrize("late", [False, True])
def test_a_workload_with_a_program_for_each_chip(agent: Agent, reader: Reader, late: bool) -> None:
    """One record launches both, each on its own chip, or one program on both chips."""
    agent.chip(1, 556, 1)
    agent.mesh(0, [0, 1])
    for index in (1, 2):
        agent.mesh(index, [index - 1], parent=0)
    source = reader.adopt(agent)
    cores = agent.blob(b"\x03")
    agent.opened()
    for index, slot in ((1, 1), (2, 3)):
        agent.opened(index)
        agent.program(slot, 10 + index, workload=7, mesh=index)
        agent.allocate(slot + 1, 100 * index, kind=Kind.CB, program=10 + index, cores=cores, mesh=index)
    agent.program(5, 13)
    agent.allocate(6, 40, kind=Kind.CB, program=13, cores=cores)

    def after(act: Callable[[], None]) -> dict[str, int | None]:
        act()
        if late:
            agent.churn(2 * SLOTS)
        reader.follow()
        return launched(reader)

    assert after(lambda: None) == {"555": None, "556": None}
    assert after(lambda: agent.run(3)) == {"555": 100, "556": 200}
    assert after(lambda: agent.run(5)) == {"555": 40, "556": 40}
    assert after(lambda: agent.run(1)) == {"555": 100, "556": 200}  # marked on two frames: the later one counts
    left = 40 if late else 0  # the table does not show that another program ran there since
    assert after(lambda: agent.destroyed(3, 12, mesh=2)) == {"555": 100, "556": left}
    assert after(lambda: agent.program(1, 11, workload=8, mesh=1))  # it belongs to another workload now
    agent.run(5)
    assert after(lambda: agent.run(1)) == {"555": 100, "556": 40}
    here = [holding for holding in source.holdings.values() if 0 in holding.numbers]
    assert {program for holding in here for program in holding.programs} == {11, 13}
    assert late or reader.anomalies() == {}


def test_an_index_that_another_submesh_has(agent: Agent, reader: Reader) -> None:
    agent.chip(1, 556, 1)
    agent.mesh(0, [0, 1])
    agent.mesh(1, [0], parent=0)
    reader.adopt(agent)
    agent.opened()
    agent.opened(1)
    agent.allocate(0, 100, kind=Kind.CB, program=1, mesh=1)
    reader.follow()
    agent.free(0)
    agent.mesh(1, [1], parent=0)
    agent.opened(1)
    agent.allocate(0, 30, kind=Kind.CB, program=1, mesh=1)
    reader.follow()
    used = {chip_id: chip.kinds[Kind.CB].used for chip_id, chip in reader.ledger.chips.items()}
    assert used == {"555": 0, "556": 30}
    assert reader.anomalies() == {}


def test_what_a_late_reader_missed_is_counted(agent: Agent, reader: Reader) -> None:
    agent.opened()
    agent.churn(2 * SLOTS)
    reader.adopt(agent)
    reader.follow()
    assert reader.rings.counts()[1] == 1 + 2 * SLOTS
    assert reader.anomalies()["dropped"] == 1 + 2 * SLOTS


def test_a_ring_that_is_just_full_is_read_from_its_start(agent: Agent, reader: Reader) -> None:
    agent.opened()
    agent.churn(SLOTS - 2)
    assert agent.head == SLOTS - 1
    reader.adopt(agent)
    reader.follow()
    assert reader.rings.counts() == (SLOTS - 1, 0)
    assert reader.anomalies() == {}


def test_a_loss_in_the_middle(agent: Agent, reader: Reader) -> None:
    source = reader.adopt(agent)
    agent.opened()
    for slot in range(4):
        agent.allocate(slot, 100 + slot)
    agent.program(4, 9)
    agent.allocate(5, 50, kind=Kind.DFB, program=9)
    reader.follow()
    before = agent.head
    agent.free(0)
    agent.destroyed(4, 9)
    agent.allocate(0, 999)  # the same slot and address, another size
    agent.churn(3 * SLOTS)
    agent.allocate(6, 7777, kind=Kind.L1)
    reader.follow()
    assert reader.sizes(source) == [101, 102, 103, 999, 7777]
    records, lost = reader.rings.counts()
    assert records >= before
    assert lost >= 2 * SLOTS
    assert reader.anomalies()["dropped"] == lost
    agent.free(6)
    reader.follow()
    assert reader.sizes(source) == [101, 102, 103, 999]
    assert source.holdings[0].programs == {}


def test_every_record_is_read_or_counted_as_lost(agent: Agent, reader: Reader) -> None:
    """Also those that still existed when the live table was read instead."""
    reader.adopt(agent)
    agent.opened()
    for count in (4, 2 * SLOTS, 6, SLOTS, 5 * SLOTS, 2):
        agent.churn(count)
        reader.follow()
        assert sum(reader.rings.counts()) == agent.head
    assert reader.anomalies()["dropped"] == reader.rings.counts()[1]


def test_every_resync_is_counted(agent: Agent, reader: Reader) -> None:
    reader.adopt(agent)
    agent.opened()
    for count in range(1, 4):
        reader.follow()
        agent.churn(2 * SLOTS)
        reader.follow()
        assert reader.anomalies()["resynced"] == count


def test_a_device_closed_and_opened_during_a_loss(agent: Agent, reader: Reader) -> None:
    """The last audit of the old allocator is removed with it."""
    source = reader.adopt(agent)
    agent.opened()
    agent.allocate(0, 100)
    agent.audit(0, 32, 32, largest_free=10)
    reader.follow()
    assert list(source.holdings[0].audits) == [1]
    agent.free(0)
    agent.record(RingEvent.CLOSED, mesh=0)
    agent.mesh(0, [0], state=2)
    agent.mesh(1, [0])
    agent.opened(1)
    agent.allocate(1, 300, mesh=1)
    agent.churn(2 * SLOTS)
    agent.audit(1, 32, 32, largest_free=999)
    reader.follow()
    assert reader.sizes(source) == [300]
    assert [audit.largest_free[0] for audit in source.holdings[0].audits.values()] == [999]
    agent.free(1)
    agent.record(RingEvent.CLOSED, mesh=1)
    reader.follow()
    assert source.holdings[0].audits == {}


# -- what was left --------------------------------------------------------------------------------------------------


def test_closing_is_told_once_while_everything_is_there(agent: Agent, reader: Reader) -> None:
    reader.adopt(agent)
    agent.opened()
    agent.allocate(0, 100)
    agent.record(RingEvent.CLOSING, mesh=0)
    agent.record(RingEvent.CLOSING, mesh=0)
    agent.free(0)
    agent.record(RingEvent.CLOSED, mesh=0)
    agent.record(RingEvent.CLOSING, mesh=0)
    reader.follow()
    assert reader.closings == [[100]]
    reader.rings.finish(1)  # type: ignore[arg-type]
    assert reader.closings == [[100]]


def test_opened_again_it_is_told_again(agent: Agent, reader: Reader) -> None:
    reader.adopt(agent)
    for sizes in ([100, 200], []):
        agent.opened()
        for slot, size in enumerate(sizes):
            agent.allocate(slot, size)
        agent.record(RingEvent.CLOSING, mesh=0)
        for slot in range(len(sizes)):
            agent.free(slot)
        agent.record(RingEvent.CLOSED, mesh=0)
    reader.follow()
    assert reader.closings == [[100, 200], []]


def test_a_process_that_ends_without_closing(agent: Agent, reader: Reader) -> None:
    reader.adopt(agent)
    agent.opened()
    agent.allocate(0, 100)
    reader.rings.finish(1)  # type: ignore[arg-type]
    assert reader.closings == [[100]]
    assert len(reader.rings) == 0
    assert reader.rings.counts() == (2, 0)


def test_records_after_the_end_are_not_read(agent: Agent, reader: Reader) -> None:
    """A process may outlive a run."""
    source = reader.adopt(agent)
    agent.opened()
    agent.allocate(0, 100)
    (follower,) = reader.rings._followers.values()
    follower.end_here()
    agent.allocate(1, 200)
    reader.rings.end()
    assert reader.sizes(source) == [100]
    assert reader.rings.counts() == (2, 0)


def test_nothing_was_ever_opened(agent: Agent, reader: Reader) -> None:
    reader.adopt(agent)
    reader.rings.end()
    assert reader.closings == []


def test_a_late_reader_is_told_what_was_left(agent: Agent, reader: Reader) -> None:
    agent.opened()
    agent.allocate(0, 100)
    agent.churn(2 * SLOTS)
    reader.adopt(agent)
    reader.follow()
    agent.record(RingEvent.CLOSING, mesh=0)
    agent.free(0)
    agent.record(RingEvent.CLOSED, mesh=0)
    reader.rings.end()
    assert reader.closings == [[100]]


def test_audits_are_the_worst_of_all(agents: Callable[[], Agent], reader: Reader) -> None:
    for pid, theirs in ((1, 32), (2, 128), (3, 64)):
        agent = agents()
        reader.adopt(agent, pid)
        agent.opened()
        agent.audit(0, 32, theirs, 9)
        reader.follow()
        agent.audit(0, 32, 32, 9)
        reader.follow()
    assert reader.rings.completeness() == 0.25
    reader.rings.end()
    assert reader.rings.completeness() == 0.25


# -- several at once ------------------------------------------------------------------------------------------------


def test_rings_that_share_a_chip_are_merged_by_time(agents: Callable[[], Agent], reader: Reader) -> None:
    """Otherwise the peak of the chip would be one that never was."""
    made = [agents() for _ in range(3)]
    for pid, agent in enumerate(made, 1):
        agent.chip(0, 555, 0)
        agent.opened()
        reader.adopt(agent, pid)
    reader.follow()
    seen: list[tuple[float, int]] = []

    def observe(time: float, source: Source | None, event: Event, allocation: Allocation | None) -> None:
        if type(event) is Allocated:
            seen.append((time, event.size))

    reader.sink.add_observer(observe)
    order = random.Random(1).choices(range(3), k=30)
    for number, which in enumerate(order):
        agent = made[which]
        agent.clock = START + number * 1_000_000  # far more than two successive clock readings differ
        agent.allocate(number, 1000 + number)
    reader.follow()
    assert [size for _, size in seen] == [1000 + number for number in range(30)]
    assert seen == sorted(seen)


@pytest.mark.parametrize("lost", [False, True])
def test_a_buffer_that_a_cached_program_keeps(agent: Agent, reader: Reader, lost: bool) -> None:
    """The agent sees that only later. It changes the flags of the row, and writes a record."""
    source = reader.adopt(agent)
    agent.opened()
    agent.allocate(1, name=agent.blob(b"ttnn.reshape"))
    reader.follow()
    row = agent.live[1]._replace(flags=KEPT)
    fields = row._asdict()
    for name in ("sequence", "time", "event", "slot"):
        del fields[name]
    agent.record(RingEvent.NAMED, 1, **fields)
    agent.keep(1, row)
    if lost:
        agent.churn(2 * SLOTS)
    reader.follow()
    (buffer,) = next(iter(source.holdings.values())).buffers.values()
    assert buffer.extra is not None
    assert buffer.extra.kept


def test_a_fault_met_in_a_merged_ring_costs_that_ring(agents: Callable[[], Agent], reader: Reader) -> None:
    """If an event of one ring causes an error, the other rings are still read."""
    made = [agents() for _ in range(3)]
    sources = [reader.adopt(agent, pid) for pid, agent in enumerate(made, 1)]
    real = reader.ledger.allocated

    def allocated(time: float, source: Source, *what: Any) -> Allocation | None:
        if what[3] == 666:
            raise ZeroDivisionError("division by zero")
        return real(time, source, *what)

    reader.ledger.allocated = allocated  # type: ignore[method-assign, assignment]
    reader.sink.add_observer(lambda *_: None)
    for agent in made:
        agent.opened()
        agent.allocate(0, 100)
    made[1].allocate(1, 666)
    for agent in made:
        agent.allocate(2, 200)
    reader.follow()
    assert [reader.sizes(source) for source in sources] == [[100, 200], [100], [100, 200]]
    assert reader.warnings == ["pid 2: its agent's memory is invalid and is not read any more: division by zero"]
    assert len(reader.rings) == 2


def test_an_observer_that_fails_costs_nobody_their_ring(agents: Callable[[], Agent], reader: Reader) -> None:
    seen: list[Event] = []

    def broken(time: float, source: Source | None, event: Event, allocation: Allocation | None) -> None:
        raise struct.error("argument out of range")

    reader.sink.add_observer(broken)
    reader.sink.add_observer(lambda time, source, event, allocation: seen.append(event))
    made = [agents() for _ in range(2)]
    sources = [reader.adopt(agent, pid) for pid, agent in enumerate(made, 1)]
    for agent in made:
        agent.opened()
        agent.allocate(0, 100)
    reader.follow()
    assert [reader.sizes(source) for source in sources] == [[100], [100]]
    assert len([event for event in seen if type(event) is Allocated]) == 2
    (warning,) = reader.warnings
    assert "failed at an event: error: argument out of range" in warning


# -- in slices ------------------------------------------------------------------------------------------------------


def test_records_that_take_long_are_applied_in_turns(agent: Agent, reader: Reader) -> None:
    """Opening a mesh may be hundreds of events."""
    source = reader.adopt(agent)
    for _ in range(5):
        agent.opened()
    agent.allocate(0, 100)
    for left in (5, 4, 3, 2, 1, 0):
        assert reader.rings.follow(deadline=0.0) == (left > 0)
        assert source.unread == left
    assert reader.sizes(source) == [100]
    assert reader.rings.counts() == (6, 0)


@pytest.mark.parametrize("wrong", [0, 1 << 60], ids=["low", "high"])
def test_records_with_wrong_numbers_are_applied_once(agent: Agent, reader: Reader, wrong: int) -> None:
    """A record that takes long ends a turn. The next one begins after it, whatever number it has."""
    source = reader.adopt(agent)
    agent.opened()
    agent.allocate(0, 100)
    agent.allocate(1, 200)
    agent.record(RingEvent.CLOSING, sequence=wrong)
    agent.allocate(2, 300)
    for left in (4, 1, 0):
        assert reader.rings.follow(deadline=0.0) == (left > 0)
        assert source.unread == left
    assert reader.sizes(source) == [100, 200, 300]
    assert reader.anomalies() == {}


def test_a_process_that_goes_on_writing_does_not_keep_the_reader_busy(agent: Agent) -> None:
    """What is written during a turn is read in the next one."""

    def clock() -> float:
        agent.churn(2)
        return 0.0

    reader = Reader(clock=clock)
    source = reader.adopt(agent)
    agent.opened()
    agent.allocate(0, 100)
    assert not reader.rings.follow(deadline=1.0)
    assert reader.sizes(source) == [100]
    assert source.unread >= 2
    reader.rings.close()


def test_rings_have_equal_shares(agents: Callable[[], Agent], monkeypatch: pytest.MonkeyPatch) -> None:
    """A slice costs as much of this clock for each ring, so they take turns."""
    ticks = itertools.count()
    reader = Reader(clock=lambda: next(ticks))
    monkeypatch.setattr(rings, "_SLICE_RECORDS", 8)
    monkeypatch.setattr(rings, "_LEAST_SLICE_RECORDS", 1)
    made = [agents() for _ in range(4)]
    for pid, agent in enumerate(made, 1):
        reader.adopt(agent, pid)
        agent.opened()
    reader.follow()
    for agent in made:
        for slot in range(12):
            agent.allocate(slot, 100 + slot)
    sources = [follower.source for follower in reader.rings._followers.values()]
    reader.rings.tick()
    before = reader.ledger.seq
    for turn in range(1, 5):
        assert reader.rings.follow(deadline=0.0) or turn == 4
        assert reader.ledger.seq - before == 8 * turn
        assert sorted(len(reader.sizes(source)) for source in sources) == [0] * (4 - turn) + [8] * turn
    assert [source.unread for source in sources] == [4] * 4
    reader.rings.close()


def test_each_ring_is_read_although_a_tick_is_too_short_for_all(agents: Callable[[], Agent]) -> None:
    """None was given time in the new tick. So the one that was not read for the longest time is next."""
    now = 0.0

    def clock() -> float:
        nonlocal now
        now += 0.001
        return now

    reader = Reader(clock)
    several = [agents() for _ in range(10)]
    sources = [reader.adopt(agent, pid) for pid, agent in enumerate(several, 1)]
    for agent in several:
        agent.opened()
    reader.follow()
    for agent in several:
        agent.allocate(0, 100)
    ticks = 0
    while not all(reader.sizes(source) for source in sources):
        for agent in several:
            agent.churn(2)
        reader.rings.tick()
        reader.rings.follow(now + 0.003)  # time for one or two of them
        ticks += 1
        assert ticks <= 10
    reader.close()
    assert ticks > 3
    assert reader.rings.counts()[1] == 0


def test_a_writer_that_never_stops_does_not_hold_up_the_clock(agent: Agent, reader: Reader) -> None:
    reader.adopt(agent)
    agent.opened()
    reader.follow()
    (follower,) = reader.rings._followers.values()
    ring, reads = follower.fold.ring, 0
    real = ring.read

    def read(limit: int) -> Any:
        nonlocal reads
        reads += 1
        agent.churn(2)
        return real(1)

    ring.read = read  # type: ignore[method-assign]
    agent.churn(2)
    assert reader.rings.follow(deadline=0.0)
    assert reads == 1
    assert reader.rings.behind() > 0


def test_a_time_in_the_future_is_now(agents: Callable[[], Agent], reader: Reader) -> None:
    """A container may have another clock, and a hostile process any clock: no peak is in the future."""
    agent = agents()
    source = reader.adopt(agent)
    agent.opened()
    agent.allocate(0, 100, time=(1 << 64) - 1)
    agent.record(RingEvent.PHASE_BEGAN, address=1, time=(1 << 64) - 1)
    agent.churn(2 * SLOTS)
    reader.follow()
    (allocation,) = (allocation for holding in source.holdings.values() for allocation in holding.allocations())
    assert allocation.time <= clock_gettime(CLOCK_MONOTONIC)


def test_a_grid_that_is_not_known_is_not_one_without_cores(agents: Callable[[], Agent], reader: Reader) -> None:
    agent = agents()
    reader.adopt(agent)
    pack_into("<I", agent.map, agent.at["meshes_at"] + 28, 0)
    agent.opened()
    agent.allocate(0, 100, kind=Kind.L1)
    reader.follow()
    chip = reader.ledger.chips["555"]
    assert chip.info.geometry is None
    assert chip.kinds[Kind.L1].used == 100
    assert reader.warnings == []

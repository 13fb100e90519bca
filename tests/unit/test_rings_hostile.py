# SPDX-License-Identifier: Apache-2.0
"""Rings that no agent would write: their owner loses the ring, and no other process is affected."""

from __future__ import annotations

import random
from collections.abc import Callable
from struct import pack_into
from time import CLOCK_MONOTONIC, clock_gettime_ns
from typing import Any

import pytest

from tests.scripted_agent import L1_SIZE, MESHES, SLOTS, TABLE, Agent, Reader
from ttmem.ingest import ring_programs, rings
from ttmem.ingest.followed_ring import LAST_SECONDS, FollowedRing
from ttmem.model.kinds import Kind
from ttmem.wire.agent_ring import (
    BANK_SIZE,
    BANKS_AT,
    MESH_FIELDS,
    MESH_SIZE,
    NO_SLOT,
    PROGRAM_FRAME,
    RECORD,
    RECORD_SIZE,
    Record,
    RingEvent,
)


def say(**fields: int) -> Callable[[Agent], None]:
    def said(agent: Agent) -> None:
        agent.record(**fields)

    return said


def late(act: Callable[[Agent], None]) -> Callable[[Agent], None]:
    """The same, found in the live table by a reader that starts late."""

    def acts(agent: Agent) -> None:
        act(agent)
        record = Record._make(RECORD.unpack_from(agent.map, agent.at["ring_at"] + agent.head % SLOTS * RECORD_SIZE))
        agent.keep(9, record)
        agent.churn(2 * SLOTS)

    return acts


def wild_chips(agent: Agent) -> None:
    agent.mesh(2, [60000])
    agent.record(RingEvent.OPENED, mesh=2)


def mesh_of(**fields: int) -> Callable[[Agent], None]:
    """A mesh with impossible values, and a buffer there."""

    def acts(agent: Agent) -> None:
        agent.mesh(2, [0])
        offsets = {name: (offset, code) for name, offset, code in MESH_FIELDS}
        for name, value in fields.items():
            offset, code = offsets[name]
            pack_into("<" + code, agent.map, agent.at["meshes_at"] + 2 * MESH_SIZE + offset, value)
        agent.record(RingEvent.OPENED, mesh=2)
        agent.allocate(9, 4, mesh=2)

    return acts


def chip_of_number(number: int) -> Callable[[Agent], None]:
    def acts(agent: Agent) -> None:
        agent.chip(1, 999, number)
        agent.mesh(2, [1])
        agent.record(RingEvent.OPENED, mesh=2)

    return acts


def core_outside(agent: Agent) -> None:
    cores = agent.blob((1 << 32767).to_bytes(4096, "little"))
    agent.record(RingEvent.ALLOCATED, 9, kind=Kind.CB, size=4, program=3, cores=cores)


def many_banks(agent: Agent) -> None:
    agent.mesh(2, [0])
    at = agent.at["meshes_at"] + 2 * MESH_SIZE + BANKS_AT
    pack_into("<I", agent.map, at + 32, 0xFFFFFFFF)
    agent.allocate(9, 4, mesh=2)


def bank_of_everything(agent: Agent) -> None:
    agent.audit(0, (1 << 64) - 1, 1, 1)
    agent.record(RingEvent.CLOSING, mesh=0)
    agent.record(RingEvent.CLOSED, mesh=0)


def half_a_kernel(agent: Agent) -> None:
    agent.record(RingEvent.ALLOCATED, 9, kind=Kind.KERNEL, size=4, program=3, name=agent.blob(b"name\tclass"))


NONSENSE: dict[str, Callable[[Agent], None]] = {
    "a mesh there is not": say(event=RingEvent.ALLOCATED, mesh=60000, size=4),
    "a mesh never opened": say(event=RingEvent.ALLOCATED, mesh=5, size=4),
    "a kind there is not": say(event=RingEvent.ALLOCATED, kind=200, size=4),
    "a kind just out of range": say(event=RingEvent.ALLOCATED, kind=12, size=4),
    "a frame that is allocated": say(event=RingEvent.ALLOCATED, kind=PROGRAM_FRAME, size=4),
    "a freed kind there is not": say(event=RingEvent.FREED, kind=99),
    "an unknown event": say(event=77),
    "no event": say(event=0),
    "chips there are not": wild_chips,
    "half a kernel": half_a_kernel,
    "a chip's number that is none": chip_of_number(1 << 31),
    "a submesh of a mesh there cannot be": mesh_of(parent=(1 << 32) - 1),
    "an L1 larger than there is": mesh_of(l1_size=1 << 40),
    "an L1 that begins after its end": mesh_of(l1_base=L1_SIZE + 1),
    "a DRAM larger than there is": mesh_of(dram_base=1 << 63),
    "a core outside every grid": core_outside,
    "more banks than there are": many_banks,
    "an audit of everything": bank_of_everything,
    "a reserved size that no chip has": say(
        event=RingEvent.ALLOCATED, size=4, per_bank=0xFFFFFFFF, kind=Kind.L1, core_count=0xFFFF, mesh=3
    ),
    "a head far away": lambda agent: agent.put(head=agent.head + 5),
    "late: a mesh there is not": late(say(event=RingEvent.ALLOCATED, mesh=60000, size=4)),
    "late: a kind there is not": late(say(event=RingEvent.ALLOCATED, kind=200, size=4)),
    "late: half a kernel": late(half_a_kernel),
}


@pytest.mark.parametrize("observed", [False, True])
@pytest.mark.parametrize("what", NONSENSE)
def test_memory_that_makes_no_sense_costs_its_owner_only(
    agents: Callable[[], Agent], reader: Reader, what: str, observed: bool
) -> None:
    if observed:
        reader.sink.add_observer(lambda *_: None)
    bad, good = agents(), agents()
    bad.mesh(3, [0])
    pack_into("<I", bad.map, bad.at["meshes_at"] + 3 * MESH_SIZE + BANKS_AT + BANK_SIZE + 32, 1 << 16)
    sources = [reader.adopt(bad, 1)] if not what.startswith("late") else []
    for agent in (bad, good):
        agent.opened()
        agent.allocate(0, 100)
    NONSENSE[what](bad)
    sources = sources or [reader.adopt(bad, 1)]
    sources.append(reader.adopt(good, 2))
    reader.follow()
    (warning,) = reader.warnings
    assert warning.startswith("pid 1: its agent's memory is invalid and is not read any more:")
    assert len(reader.rings) == 1
    assert sources[0].process.anomalies["rejected"] == 1
    good.allocate(1, 50)
    bad.allocate(1, 50)
    reader.follow()
    assert reader.sizes(sources[1]) == [50, 100]
    assert 50 not in reader.sizes(sources[0])
    assert len(reader.warnings) == 1


@pytest.mark.parametrize("size", [0, (100 << 30) + 1, (1 << 64) - 1])
def test_absurd_sizes_are_refused_one_by_one(agent: Agent, reader: Reader, size: int) -> None:
    source = reader.adopt(agent)
    agent.opened()
    agent.record(RingEvent.ALLOCATED, 1, kind=Kind.DRAM, size=size, address=(1 << 64) - 1, per_bank=0xFFFFFFFF)
    agent.allocate(0, 100)
    reader.follow()
    assert reader.sizes(source) == [100]
    assert reader.anomalies() == {"rejected": 1}
    assert reader.warnings == []


def test_a_workload_of_more_programs_than_there_are_chips(
    agent: Agent, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One record must not cause unlimited work."""
    monkeypatch.setattr(ring_programs, "_MOST_LAUNCHES", 3)
    reader.adopt(agent)
    agent.opened()
    for slot in range(4):
        agent.program(slot, 10 + slot, workload=5)
        reader.follow()
    agent.run(0)
    reader.follow()
    (warning,) = reader.warnings
    assert warning.endswith("workload 5 has more than 3 programs")


@pytest.mark.parametrize("slot", [0, TABLE, NO_SLOT])
def test_a_launch_of_nothing(agent: Agent, reader: Reader, slot: int) -> None:
    reader.adopt(agent)
    agent.opened()
    agent.record(RingEvent.RUN, slot, program=3, per_bank=77)
    agent.record(RingEvent.PROGRAM, NO_SLOT, kind=PROGRAM_FRAME, program=3, per_bank=77)  # the table is full
    agent.record(RingEvent.RUN, slot, program=3, per_bank=77)
    reader.follow()
    assert (reader.warnings, reader.anomalies()) == ([], {})


def test_a_head_from_nowhere(agent: Agent, reader: Reader) -> None:
    """The live table is still correct."""
    source = reader.adopt(agent)
    agent.opened()
    agent.allocate(0, 100)
    for head in (1 << 63, 3, (1 << 64) - 1):
        agent.put(head=head)
        reader.follow()
        assert reader.sizes(source) in ([100], [])
    reader.rings.end()


def test_an_audit_that_is_invalid_while_nothing_is_new(agents: Callable[[], Agent], reader: Reader) -> None:
    """It must not affect the audits of the others."""
    bad, good = agents(), agents()
    bad.opened()
    bad.churn(2 * SLOTS)
    for pid, agent in enumerate((bad, good), 1):
        reader.adopt(agent, pid)
    reader.follow()
    bad.audit(0, 1 << 63, 1, 1)
    good.opened()
    good.allocate(0, 100)
    reader.follow()
    assert len(reader.rings) == 1
    assert len(reader.warnings) == 1
    assert reader.ledger.chips["556"].kinds[Kind.DRAM].used == 100


def test_a_mesh_that_turns_bad_while_nothing_is_new(agents: Callable[[], Agent], reader: Reader) -> None:
    """It is a later mesh, the record of which is not read yet: neither its chips nor its audit are used."""
    bad, good = agents(), agents()
    sources = []
    for pid, agent in enumerate((bad, good), 1):
        agent.opened()
        agent.allocate(0, 100)
        sources.append(reader.adopt(agent, pid))
    reader.follow()
    bad.mesh(0, [60000])
    bad.audit(0, 1, 1, 1)
    reader.follow()
    assert reader.warnings == []
    assert [holding.audits for holding in sources[0].holdings.values()] == [{}]
    bad.opened()
    good.allocate(1, 50)
    reader.follow()
    assert [warning.partition(" ")[2] for warning in reader.warnings] == [
        "1: its agent's memory is invalid and is not read any more: there is no chip 60000"
    ]
    assert reader.sizes(sources[1]) == [50, 100]


def test_an_agent_that_always_claims_to_have_replaced_its_mesh(agents: Callable[[], Agent], reader: Reader) -> None:
    """Its records count on the mesh that the record of the opening describes; its row and its audits do not matter."""
    bad, good = agents(), agents()
    sources = [reader.adopt(agent, pid) for pid, agent in enumerate((bad, good), 1)]
    good.opened()
    for slot in range(4):
        bad.opened()
        bad.put_mesh(0, opened=1 << 60)
        bad.audit(0, 1, 1, 1)
        bad.allocate(slot, 100)
        good.allocate(slot, 100)
        reader.follow()
        assert [reader.sizes(source) for source in sources] == [[100] * (slot + 1)] * 2
    assert reader.rings.counts() == (13, 0)
    assert [holding.audits for holding in sources[0].holdings.values()] == [{}]
    assert reader.anomalies() == {}


@pytest.mark.parametrize("description", [b"\0", b"\xff" * 312, b"\xff" * 4000], ids=["short", "invalid", "long"])
def test_a_description_of_a_mesh_that_is_none(description: bytes, agents: Callable[[], Agent], reader: Reader) -> None:
    bad, good = agents(), agents()
    sources = [reader.adopt(agent, pid) for pid, agent in enumerate((bad, good), 1)]
    good.opened()
    good.allocate(0, 100)
    bad.record(RingEvent.OPENED, mesh=0, name=bad.blob(description))
    bad.allocate(0, 100)
    reader.follow()
    assert reader.sizes(sources[1]) == [100]
    assert reader.ledger.chips["556"].kinds[Kind.DRAM].used == 100
    assert "555" not in reader.ledger.chips or not reader.ledger.chips["555"].kinds[Kind.DRAM].used


def test_a_writer_that_never_stops_does_not_hold_up_the_end(agent: Agent, reader: Reader) -> None:
    """A process may outlive a run, and write faster than it is read."""
    reader.adopt(agent)
    agent.opened()
    reader.follow()
    (follower,) = reader.rings._followers.values()
    ring, reads = follower.fold.ring, 0
    real = ring.read

    def read(limit: int) -> Any:
        nonlocal reads
        reads += 1
        if reads > 1000:
            raise TimeoutError("it still reads")
        agent.churn(2)
        answer = real(limit)
        agent.churn(2)
        return answer

    ring.read = read  # type: ignore[method-assign]
    reader.rings.end()
    assert len(reader.rings) == 0


def always_old(clock: int) -> int:
    return 1000


def back_and_forth(clock: int) -> int:
    return 1000 if clock != 1000 else clock_gettime_ns(CLOCK_MONOTONIC)


def in_the_future(clock: int) -> int:
    return 1 << 63


@pytest.mark.parametrize("time", [always_old, back_and_forth, in_the_future])
@pytest.mark.parametrize("whose", ["others", "others, with a wrong head", "its own"])
def test_a_writer_of_wrong_times_does_not_hold_up_an_exit(
    agents: Callable[[], Agent],
    reader: Reader,
    monkeypatch: pytest.MonkeyPatch,
    time: Callable[[int], int],
    whose: str,
) -> None:
    """It writes as much as is read, and nothing calls `tick`, as in `ttmem run`. A child may write a dead one's."""
    monkeypatch.setattr(rings, "_SLICE_RECORDS", 2)
    monkeypatch.setattr(rings, "_LEAST_SLICE_RECORDS", 2)
    dying, other = agents(), agents()
    other.chip(0, 555, 0)
    for pid, agent in enumerate((dying, other), 1):
        reader.adopt(agent, pid)
        agent.opened()
    reader.follow()
    writer = dying if whose == "its own" else other

    def write() -> None:
        for act in (writer.allocate, writer.free):
            writer.clock = time(writer.clock)
            act(9)

    for _ in range(4):
        write()
    for slot in range(4):
        dying.allocate(slot)
    ring, reads = reader.rings._followers[1 if writer is dying else 2].fold.ring, 0  # type: ignore[index]
    real = ring.read

    def read(limit: int) -> Any:
        nonlocal reads
        reads += 1
        assert reads < 2 * SLOTS, "the exit waits for ever"
        answer = real(limit)
        write()
        return answer

    monkeypatch.setattr(ring, "read", read)
    begin_turn = FollowedRing.begin_turn

    def misled(follower: FollowedRing) -> None:
        head = writer.head
        if whose == "others, with a wrong head":
            writer.put(head=head + (1 << 40))
        begin_turn(follower)
        writer.put(head=head)

    monkeypatch.setattr(FollowedRing, "begin_turn", misled)
    while not reader.rings.finish(1, 0.0):  # type: ignore[arg-type]
        pass
    assert len(reader.rings) == 1
    assert reader.warnings == []


def test_a_head_that_goes_back_after_the_end(agents: Callable[[], Agent]) -> None:
    """A child of a dead process may write its ring."""
    looks = 0

    def clock() -> float:
        nonlocal looks
        looks += 1
        assert looks < 1000, "it never comes to an end"
        return 0.0

    reader = Reader(clock)
    agent = agents()
    reader.adopt(agent)
    agent.opened()
    reader.follow()
    head = agent.head
    agent.put(head=head + 4)
    (follower,) = reader.rings._followers.values()
    follower.end_here()
    agent.put(head=head)
    assert reader.rings.finish(1)  # type: ignore[arg-type]
    assert reader.warnings == []
    reader.close()


def test_a_head_that_goes_back_after_the_end_is_late(
    agents: Callable[[], Agent], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is live is then loaded instead of the rest, once."""
    clock = 0.0
    reader = Reader(lambda: clock)
    agent = agents()
    source = reader.adopt(agent)
    agent.opened()
    reader.follow()
    agent.allocate(0, 100)
    head = agent.head
    agent.put(head=head + 4)
    (follower,) = reader.rings._followers.values()
    follower.end_here()
    agent.put(head=head)
    for _ in range(2):
        reader.rings.tick()
        clock += LAST_SECONDS
    assert follower.late
    copies, table_rows = 0, follower.fold.ring.table_rows

    def copied() -> bytearray:
        nonlocal copies
        copies += 1
        if copies > 1:
            raise TimeoutError("it copies the table again")
        return table_rows()

    monkeypatch.setattr(follower.fold.ring, "table_rows", copied)
    assert reader.rings.finish(1)  # type: ignore[arg-type]
    assert (copies, reader.sizes(source), reader.warnings) == (1, [100], [])
    reader.close()


@pytest.mark.parametrize("seed", range(40))
def test_random_memory_never_reaches_the_server(seed: int) -> None:
    """For any content, at first and later: the ring is read or dropped, and nothing is raised."""
    numbers = random.Random(seed)
    agent, reader = Agent(), Reader()
    agent.chip(0, 555, 0)
    agent.mesh(0, [0])
    try:
        source = reader.adopt(agent)
        for _ in range(30):
            if numbers.random() < 0.2:
                agent.mesh(numbers.randrange(MESHES), [numbers.choice([0, 1, 60000])], numbers.choice([0, 1, 2]))
            if numbers.random() < 0.2:
                at = numbers.randrange(agent.at["table_at"], agent.size - 64)
                agent.map[at : at + 64] = numbers.randbytes(64)
                agent.put(table_high=numbers.choice([0, 5, TABLE, 1 << 31]))
            if numbers.random() < 0.1:
                agent.put(head=agent.head + numbers.choice([1, SLOTS, 3 * SLOTS]))
            for _ in range(numbers.choice([1, 5, 40])):
                agent.record(
                    numbers.choice([1, 2, 3, 4, 4, 4, 5, 6, 7, 8, 9]),
                    numbers.choice([0, 1, 2, NO_SLOT]),
                    **{name: numbers.getrandbits(numbers.choice([1, 2, 8])) for name in ("kind", "flags", "layout")},
                    **{name: numbers.getrandbits(numbers.choice([1, 8, 32])) for name in ("per_bank", "cores", "name")},
                    **{name: numbers.getrandbits(numbers.choice([1, 8, 64])) for name in ("address", "size")},
                    mesh=numbers.choice([0, 0, 0, 0, numbers.getrandbits(3)]),
                    program=numbers.randrange(3),
                )
            reader.follow()
            if not len(reader.rings):
                break
        reader.rings.end()
        assert source.process.count >= 0
        assert all(total.used >= 0 for chip in reader.ledger.chips.values() for total in chip.totals())
    finally:
        reader.rings.close()
        agent.close()

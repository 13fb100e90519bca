# SPDX-License-Identifier: Apache-2.0
"""Plain records of a ring give the same account as records that are applied one by one; others are left alone."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import closing
from math import inf
from typing import Any
from unittest import mock

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from tests.scripted_agent import TABLE, Agent, Reader
from tests.whole_account import everything, take_highs
from ttmem.account.allocations import REMEMBERED_FREES
from ttmem.account.free_matching import NUMBERED
from ttmem.account.ledger import Ledger
from ttmem.account.size_extremes import Sizes
from ttmem.account.state import Limits
from ttmem.ingest import ring_records
from ttmem.ingest.ring_fold import RingFold
from ttmem.ingest.sink import Sink
from ttmem.model.events import MAX_SIZE, Allocated, DeviceOpened, Event, Extra, PeaksReset, ProcessExited, ResyncBegin
from ttmem.model.identity import ChipInfo, ProcessInfo
from ttmem.model.kinds import Confidence, Kind
from ttmem.wire.agent_ring import BINARY, KEPT, NO_SLOT, PER_CORE, SHARED, WHOLESALE, Record, Ring, RingEvent

SLOTS = 64
MANY_BANKS = 64  # on mesh 2, in DRAM
NEWEST = 1_000_000_000
LIMITS = Limits(allocations_per_process=9, programs_per_process=3)
CHIPS = (555, 777, 999)
FRAMES, PARTS = range(40, 44), range(50, 54)  # slots of programs and of their circular buffers


class Account:
    """What a server makes of a ring. ``singly``: every record is applied by itself."""

    def __init__(self, agent: Agent, *, singly: bool, limits: Limits = LIMITS) -> None:
        self.singly = singly
        self.ledger = Ledger(limits)
        self.sink = Sink(self.ledger, now=lambda: 0.0)
        self.source = self.ledger.source(0.0, ProcessInfo(1, 1), "agent", Confidence.EXACT)
        self.neighbour = self.ledger.source(0.0, ProcessInfo(2, 2), "agent", Confidence.EXACT)
        self.ledger.apply(0.0, self.neighbour, DeviceOpened(0, ChipInfo(str(CHIPS[0]))))
        self.ring = Ring(os.dup(agent.fd))
        self.fold = RingFold(self.ring, 0.0, self.sink, self.source)
        # The time of a catch-up is the present, which both accounts should have in common.
        self.fold._now = lambda: 1.0  # type: ignore[method-assign]
        self.plain = 0  # records that were applied as plain ones
        self._apply_plain = self.fold._loops._plain.apply
        self.fold._loops._plain.apply = self._count_plain  # type: ignore[method-assign]

    def apply_plain(self, *records: tuple[int, ...]) -> int:
        return self._apply_plain(records, NEWEST)

    def _count_plain(self, batch: Sequence[tuple[int, ...]], newest: int) -> int:
        done = self._apply_plain(batch, newest)
        self.plain += done
        return done

    def read(self) -> str | None:
        """Apply all records; returns the error if one is invalid."""
        few = SLOTS if self.singly else 1
        try:
            with mock.patch.multiple(ring_records, FEW=few, _MANY=few):
                while self.fold.unread:
                    self.fold.load(SLOTS)
                    self.fold._newest = 1 << 62
                    self.fold.fold(1 << 64, inf)
        except (ValueError, IndexError) as error:
            return repr(error)
        return None

    def picture(self) -> object:
        live = {(key >> 2) - 1 for holding in self.source.holdings.values() for key in holding.buffers}
        slots = self.fold._slots
        known = [(slot, slots.sequences[slot], slots.names[slot]) for slot in sorted(live) if 0 <= slot < TABLE]
        return everything(self.ledger, self.source), self.fold._programs.ran, self.fold._events.used, known

    def sums(self) -> list[tuple[int, ...]]:
        """Of each kind on mesh 2."""
        leaves = self.source.holdings[2].leaves
        return [(leaf.used, leaf.reserved, leaf.known, leaf.unknown) for leaf in leaves if leaf is not None]


class Process:
    """A process on three chips: mesh 0 has two of them, mesh 1 is a part of it, mesh 2 is the third chip."""

    def __init__(self) -> None:
        self.agent = Agent(slots=SLOTS)
        self.names = [0, *(self.agent.blob(text) for text in (b"ttnn.add", b"ttnn.add\n[1, 32]\nmodel.py:3"))]
        for index, unique in enumerate(CHIPS):
            self.agent.chip(index, unique, index)
        self.agent.mesh(0, [0, 1])
        self.agent.mesh(1, [1], parent=0)
        self.agent.mesh(2, [2])
        self.agent.put_mesh(2, [{"banks": MANY_BANKS}])
        for mesh in range(3):
            self.agent.opened(mesh)
        self.phases = 0
        for kind, mesh in ((Kind.DRAM, 0), (Kind.DRAM, 2), (Kind.L1, 0), (Kind.L1, 2), (Kind.L1_SMALL, 2)):
            self.take(0, kind, 1 << 14, mesh, 0, 0)  # later totals are lower
            self.give(0, False)

    def take(self, slot: int, kind: int, size: int, mesh: int, flags: int, name: int) -> None:
        if slot not in self.agent.live:
            fields = {"per_bank": size // 4, "core_count": 2, "flags": flags, "name": self.names[name]}
            self.agent.allocate(slot, size, 4096 * (slot + 1), kind=kind, mesh=mesh, **fields)

    def give(self, slot: int, wholesale: bool) -> None:
        if slot in self.agent.live:
            allocation = self.agent.live[slot]
            self.agent.live[slot] = allocation._replace(flags=allocation.flags | WHOLESALE * wholesale)
            self.agent.free(slot)

    def name(self, slot: int, name: int) -> None:
        if slot in self.agent.live:
            record = self.agent.live[slot]._replace(name=self.names[name])
            fields = record._asdict()
            for field in ("sequence", "time", "event", "slot"):
                del fields[field]
            self.agent.record(RingEvent.NAMED, slot, **fields)
            self.agent.keep(slot, record)

    def run(self, program: int) -> None:
        slot = FRAMES[program]
        if slot in self.agent.live:
            self.agent.run(slot)
        else:
            self.agent.program(slot, program + 1, mesh=program % 2, workload=1 + program // 2)
            self.agent.allocate(PARTS[program], 64, kind=Kind.CB, program=program + 1, mesh=program % 2)

    def destroy(self, program: int) -> None:
        if FRAMES[program] in self.agent.live:
            self.agent.destroyed(FRAMES[program], program + 1, mesh=program % 2)

    def phase(self, begin: bool) -> None:
        if begin:
            self.phases += 1
            self.agent.record(RingEvent.PHASE_BEGAN, address=self.phases, name=self.names[1])
        else:
            self.agent.record(RingEvent.PHASE_ENDED, address=self.phases)

    def invent(self, happened: int, slot: int, kind: int, size: int, mesh: int, address: int, per_bank: int) -> None:
        """A record that the agent would not write now; its table stays as it is."""
        fields = {"kind": kind, "size": size, "mesh": mesh, "address": address, "per_bank": per_bank}
        self.agent.record(happened, slot, **fields)


slots = st.integers(0, 5)
kinds = st.sampled_from([Kind.DRAM] * 5 + [Kind.L1] * 3 + [Kind.L1_SMALL, Kind.TRACE])
meshes = st.sampled_from([0] * 5 + [1, 2, 2])
names = st.integers(0, 2)
sizes = st.sampled_from([64] * 4 + [32, 4096])
flags = st.sampled_from([0] * 12 + [BINARY, KEPT, PER_CORE, SHARED])
programs = st.integers(0, len(FRAMES) - 1)
acts = (
    [st.tuples(st.just("take"), slots, kinds, sizes, meshes, flags, names)] * 6
    + [st.tuples(st.just("give"), slots, st.sampled_from([False] * 9 + [True]))] * 6
    + [st.tuples(st.just("run"), programs)] * 4
)
rare_acts = st.one_of(
    st.tuples(st.just("name"), slots, names),
    st.tuples(st.just("destroy"), programs),
    st.tuples(st.just("phase"), st.booleans()),
    st.tuples(
        st.just("invent"),
        st.sampled_from([RingEvent.ALLOCATED, RingEvent.FREED, RingEvent.FREED, RingEvent.RUN]),
        slots | st.sampled_from([NO_SLOT, NO_SLOT - 1, TABLE, FRAMES[0]]),
        kinds | st.sampled_from([Kind.HOST, Kind.CB]),
        sizes | st.sampled_from([0, 1 << 50]),
        meshes,
        st.sampled_from([0, 4096, 8192, 1 << 40]),
        st.sampled_from([0, 1, 16, 77]),
    ),
)
# Records with an invalid kind, mesh or reserved size, after which the ring is not read any more.
last_acts = st.tuples(
    st.just("invent"),
    st.sampled_from([RingEvent.ALLOCATED, RingEvent.FREED]),
    slots,
    *(st.sampled_from(values) for values in ([Kind.DRAM, 77], [64], [0, 3], [4096], [16, (1 << 32) - 1])),
)
looks = st.sampled_from(["read", "read", "compare", "compare", "sample", "reset", "neighbour", "lose"])
chapters = st.tuples(
    st.lists(st.one_of(*acts), min_size=6, max_size=20),
    st.lists(rare_acts, max_size=1),
    st.lists(st.one_of(*acts), max_size=6),
    looks,
)
stories = st.lists(chapters, max_size=8)
endings = st.lists(last_acts, max_size=1)


@settings(max_examples=250)
@given(stories, endings)
def test_the_account_is_the_same_as_of_records_one_by_one(story: list[Any], ending: list[Any]) -> None:
    process = Process()
    accounts = [Account(process.agent, singly=singly) for singly in (False, True)]
    plain, single = accounts
    with closing(process.agent), closing(plain.ring), closing(single.ring):
        for before, rare, after, look in (*story, (ending, [], [], "compare")):
            for name, *arguments in (*before, *rare, *after):
                getattr(process, name)(*arguments)
            if look == "lose":
                process.agent.churn(2 * SLOTS)
            errors = [account.read() for account in accounts]
            assert errors[0] == errors[1]
            assert errors[0] is None or ending
            if look == "compare":
                assert plain.picture() == single.picture()
            elif look == "sample":
                assert take_highs(plain.source) == take_highs(single.source)
            for account in accounts:
                if look == "reset":
                    account.sink.apply(0.0, None, PeaksReset())
                elif look == "neighbour":
                    address = 64 * process.agent.head
                    account.ledger.apply(0.0, account.neighbour, Allocated(0, Kind.DRAM, address, 1 << 12))
    event(f"plain records: {plain.plain // 20 * 20} and more")


# -- when the loop is used ------------------------------------------------------------------------------------------


@pytest.fixture
def busy() -> Iterator[tuple[Process, Account]]:
    """A process that has had buffers, and a reader that has seen them."""
    made = Process()
    reader = Account(made.agent, singly=False)
    assert reader.read() is None
    reader.plain = 0
    yield made, reader
    reader.ring.close()
    made.agent.close()


def work(process: Process, mesh: int = 0) -> int:
    """Allocate and free; returns the number of records."""
    before = process.agent.head
    for _ in range(10):
        process.take(1, Kind.DRAM, 64, mesh, 0, 0)
        process.give(1, False)
    return process.agent.head - before


def test_nearly_all_records_of_a_loop_are_plain(busy: tuple[Process, Account]) -> None:
    process, reader = busy
    written = work(process)
    assert reader.read() is None
    assert reader.plain > written / 2


def test_an_observer_gets_every_record(busy: tuple[Process, Account]) -> None:
    process, reader = busy
    seen: list[Any] = []
    reader.sink.add_observer(lambda time, source, event, found: seen.append(event))
    written = work(process)
    assert reader.read() is None
    assert (len(seen), reader.plain) == (written, 0)


def test_no_record_is_plain_while_sizes_are_followed(busy: tuple[Process, Account]) -> None:
    process, reader = busy
    reader.fold._meshes.sizes[0] = Sizes()
    work(process)
    assert reader.read() is None
    assert reader.plain == 0


def test_no_record_is_plain_after_a_mesh_with_sizes_was_opened() -> None:
    """`ttmem run` follows sizes from the opening of a mesh on, also in the batch that has the opening."""
    with closing(Agent(slots=256)) as agent, closing(Reader()) as reader:
        agent.chip(0, 555, 0)
        agent.mesh(0, [0])
        agent.opened(0)
        for program in (1, 2):
            agent.program(40 + program, program, ran=True)
            agent.allocate(50 + program, 64, 200_000, kind=Kind.CB, program=program, per_bank=1000 * program)
        agent.allocate(1, 64, 1_400_000, kind=Kind.L1)
        while agent.head < ring_records.FEW - 1:
            agent.run(41 + agent.head % 2)
        agent.allocate(2, 64, 300_000, kind=Kind.L1)  # near the end of the programs
        for _ in range(50):
            agent.run(41)
            agent.run(42)
        reader.adopt(agent)
        assert not reader.rings.follow(inf)  # all records in one turn
        (sizes,) = reader.listeners[0].sizes
        assert sizes.least is not None
        assert sizes.least.room == 300_000 - 202_000


def test_a_device_is_used_again_after_another_was_closed(busy: tuple[Process, Account]) -> None:
    process, reader = busy
    for happened in (RingEvent.CLOSING, RingEvent.CLOSED):
        process.agent.record(happened, mesh=2)
    assert reader.read() is None
    assert not reader.fold._events.used
    work(process)
    assert reader.read() is None
    assert reader.fold._events.used
    assert reader.plain


def test_reading_stops_at_the_deadline(busy: tuple[Process, Account]) -> None:
    """A record that may have taken long is the last of this turn."""
    process, reader = busy
    work(process)
    process.phase(True)
    work(process)
    with mock.patch.multiple(ring_records, FEW=1, _MANY=1):
        reader.fold.load(SLOTS)
        reader.fold.fold(1 << 64, 0.0)
        assert reader.fold.unread == 20
        reader.fold.fold(1 << 64, inf)
        assert not reader.fold.unread


def test_the_loop_is_tried_less_often_if_no_record_is_plain(busy: tuple[Process, Account]) -> None:
    process, reader = busy
    for _ in range(SLOTS // 4):
        process.take(1, Kind.DRAM, 64, 0, PER_CORE, 0)
        process.give(1, False)
    with (
        mock.patch.multiple(ring_records, FEW=1, _MANY=16),
        mock.patch.object(reader.fold._loops._plain, "apply", return_value=0) as tried,
    ):
        reader.fold._loops._singly = 1
        reader.fold.load(SLOTS)
        reader.fold.fold(1 << 64, inf)
    assert not reader.fold.unread
    assert tried.call_count == 5, "after 0, 2, 6, 14 and 30 records"


# -- single records -------------------------------------------------------------------------------------------------


@pytest.fixture
def process() -> Iterator[Process]:
    """Program 1 of workload 1 was launched; on mesh 2 a buffer is live in each of these slots: DRAM 1, 2 and L1 3."""
    made = Process()
    made.agent.program(FRAMES[0], 1, workload=1, ran=True)
    made.agent.program(FRAMES[1], 2, workload=2, ran=True)
    for slot, kind in ((1, Kind.DRAM), (2, Kind.DRAM), (3, Kind.L1)):
        made.take(slot, kind, 64, 2, 0, 0)
    yield made
    made.agent.close()


@pytest.fixture
def account(process: Process) -> Iterator[Account]:
    made = Account(process.agent, singly=True)
    assert made.read() is None
    yield made
    made.ring.close()


def record(happened: int, slot: int = 5, **fields: int) -> tuple[int, ...]:
    values = {"sequence": 1000, "time": 5, "size": 64, "per_bank": 16, "mesh": 2, "address": 4096, "layout": 255}
    return Record(**dict.fromkeys(Record._fields, 0) | values | {"event": int(happened), "slot": slot} | fields)


ALLOCATED, FREED, RUN = RingEvent.ALLOCATED, RingEvent.FREED, RingEvent.RUN


def test_plain_records_are_applied(account: Account) -> None:
    sent = [
        record(ALLOCATED, 5), record(ALLOCATED, 6, kind=Kind.L1), record(RUN, per_bank=1), record(FREED, 1),
        record(FREED, 6, kind=Kind.L1), record(RUN, per_bank=1), record(FREED, 3, kind=Kind.L1),
    ]  # fmt: skip
    before, freed = account.ledger.seq, account.source.holdings[2].buffers[1 + 1 << 2 | NUMBERED]
    assert account.apply_plain(*sent) == len(sent)
    assert account.ledger.seq == before + len(sent) - 1, "the second launch changes nothing"
    assert freed.refs == 0
    assert list(account.source.holdings[2].buffers) == [2 + 1 << 2 | NUMBERED, 5 + 1 << 2 | NUMBERED]


@pytest.mark.parametrize(
    "special",
    [
        pytest.param(record(RingEvent.PHASE_BEGAN), id="phase"),
        pytest.param(record(RingEvent.NAMED, 1), id="name"),
        pytest.param(record(ALLOCATED, program=1), id="allocated for a program"),
        pytest.param(record(FREED, 1, program=1), id="freed for a program"),
        pytest.param(record(ALLOCATED, kind=Kind.CB), id="no buffer"),
        pytest.param(record(ALLOCATED, kind=77), id="invalid kind"),
        pytest.param(record(ALLOCATED, kind=Kind.TRACE), id="new kind"),
        pytest.param(record(ALLOCATED, mesh=1), id="new mesh"),
        pytest.param(record(ALLOCATED, mesh=3), id="invalid mesh"),
        pytest.param(record(ALLOCATED, flags=SHARED), id="shared"),
        pytest.param(record(ALLOCATED, flags=PER_CORE), id="an address for each core"),
        pytest.param(record(FREED, 1, flags=WHOLESALE), id="freed by closing the device"),
        pytest.param(record(ALLOCATED, NO_SLOT), id="no slot"),
        pytest.param(record(ALLOCATED, TABLE), id="invalid slot"),
        pytest.param(record(ALLOCATED, 1), id="the same slot again"),
        pytest.param(record(ALLOCATED, size=0), id="no size"),
        pytest.param(record(ALLOCATED, size=1 << 15), id="new high"),
        pytest.param(record(ALLOCATED, per_bank=1 << 15), id="new high of reserved bytes"),
        pytest.param(record(ALLOCATED, kind=Kind.L1, address=1 << 40), id="write to one core"),
        pytest.param(record(FREED, 5), id="unknown free"),
        pytest.param(record(FREED, 1, mesh=0), id="freed on another mesh"),
        pytest.param(record(FREED, 1, kind=Kind.L1), id="freed as another kind"),
        pytest.param(record(RUN, per_bank=77), id="unknown workload"),
    ],
)
def test_other_records_have_no_effect(account: Account, special: tuple[int, ...]) -> None:
    assert account.apply_plain(special, record(FREED, 1)) == 0
    before = account.picture()
    assert account.apply_plain(special, record(FREED, 1)) == 0
    assert account.picture() == before


@pytest.mark.parametrize(
    "special",
    [
        pytest.param(record(ALLOCATED, 5), id="the same slot again"),
        pytest.param(record(FREED, 5, mesh=0), id="freed on another mesh"),
        pytest.param(record(FREED, 5, kind=Kind.L1), id="freed as another kind"),
    ],
)
def test_records_that_do_not_fit_an_earlier_one(account: Account, special: tuple[int, ...]) -> None:
    assert account.apply_plain(record(ALLOCATED, 5), special, record(FREED, 1)) == 1


def test_two_kinds_of_one_pool_are_not_plain_together(account: Account) -> None:
    """Both change the total of the pool."""
    assert account.apply_plain(record(ALLOCATED, 5, kind=Kind.L1), record(ALLOCATED, 6, kind=Kind.L1_SMALL)) == 1
    assert account.apply_plain(record(ALLOCATED, 6, kind=Kind.L1_SMALL)) == 1


@pytest.mark.parametrize("extra", [Extra(768, shared=True), Extra(768, per_core=True), Extra(None), None])
def test_a_buffer_that_counts_in_another_way_is_not_plain(account: Account, extra: Extra | None) -> None:
    account.ledger.apply(0.0, account.source, Allocated(2, Kind.DRAM, 4096, 64, extra=extra, ident=9))
    assert account.apply_plain(record(FREED, 8)) == 0


def test_a_buffer_with_two_references_is_not_plain(account: Account) -> None:
    account.source.holdings[2].buffers[1 + 1 << 2 | NUMBERED].refs = 2
    assert account.apply_plain(record(FREED, 1)) == 0


def test_a_buffer_that_was_part_of_a_peak_is_not_plain(account: Account) -> None:
    account.sink.apply(0.0, None, PeaksReset())
    assert account.apply_plain(record(FREED, 1)) == 0


def test_no_more_allocations_than_allowed(account: Account) -> None:
    free = LIMITS.allocations_per_process - account.source.process.count
    sent = [record(ALLOCATED, 10 + number) for number in range(free + 1)]
    assert account.apply_plain(*sent) == free


@pytest.mark.parametrize("happened", [ResyncBegin(2), ProcessExited()])
def test_nothing_is_plain_in_a_resync_or_after_the_exit(account: Account, happened: Event) -> None:
    account.ledger.apply(0.0, account.source, happened)
    assert account.apply_plain(record(RUN, per_bank=1)) == 0


def test_impossible_sizes_are_left_to_the_ledger(process: Process, account: Account) -> None:
    """Also if totals have been high enough to have room for them."""
    per_bank = MAX_SIZE // MANY_BANKS
    for slot in (10, 11):
        process.agent.allocate(slot, MAX_SIZE, kind=Kind.DRAM, mesh=2, per_bank=per_bank)
    for slot in (10, 11):
        process.agent.free(slot)
    assert account.read() is None
    assert account.apply_plain(record(ALLOCATED, size=MAX_SIZE + 1)) == 0
    assert account.apply_plain(record(ALLOCATED, size=64, per_bank=per_bank + 1)) == 0
    assert account.apply_plain(record(ALLOCATED, size=MAX_SIZE, per_bank=per_bank)) == 1


@pytest.mark.parametrize(
    ("highest", "higher"),
    [
        ({"size": (1 << 14) - 128, "per_bank": 0}, {"size": (1 << 14) - 127, "per_bank": 0}),
        ({"size": 1, "per_bank": (1 << 12) - 32}, {"size": 1, "per_bank": (1 << 12) - 31}),
    ],
)
def test_a_total_can_be_as_high_as_before(account: Account, highest: dict[str, int], higher: dict[str, int]) -> None:
    """Two buffers of 64 bytes, 16 in a bank, are live in DRAM; it has had one of 1 << 14, 1 << 12 in a bank."""
    assert account.apply_plain(record(ALLOCATED, **higher)) == 0
    assert account.apply_plain(record(ALLOCATED, **highest)) == 1


def test_the_size_is_that_of_the_allocation(account: Account) -> None:
    """A free may have any size, or none."""
    before = account.sums()
    sent = [record(ALLOCATED, 5), record(FREED, 5, size=7, per_bank=9), record(ALLOCATED, 6), record(FREED, 6, size=0)]
    assert account.apply_plain(*sent) == len(sent)
    assert account.sums() == before


def test_the_freed_addresses_are_remembered(account: Account) -> None:
    sent = []
    for number in range(REMEMBERED_FREES + 1):
        sent += [record(happened, 5, address=64 * number) for happened in (ALLOCATED, FREED)]
    assert account.apply_plain(*sent) == len(sent)
    holding = account.source.holdings[2]
    assert holding.just_freed(0)
    assert holding.freed == {64 * REMEMBERED_FREES}


def test_no_time_is_later_than_the_reading(account: Account) -> None:
    account.apply_plain(record(ALLOCATED, 5, time=1 << 63))
    assert account.source.holdings[2].buffers[5 + 1 << 2 | NUMBERED].time == NEWEST * 1e-9


def test_the_last_launch_is_resident(process: Process, account: Account) -> None:
    """Both programs have the same cores."""
    for last, other in ((1, 2), (2, 1)):
        launches = [record(RUN, per_bank=workload) for workload in (last, other, last)]
        assert account.apply_plain(*launches) == 3
        (chip, *_) = account.source.holdings[0, 1].chips
        assert [program.ident for program, _ in chip.resident_programs()] == [last]
        times = [launch.seq for launch in account.source.launches.values()]
        assert times == sorted(times), "the latest is last"

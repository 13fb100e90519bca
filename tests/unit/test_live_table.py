# SPDX-License-Identifier: Apache-2.0
"""The client's table and the ledger: after a resync, the server has the same account as before."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from ttmem.account.ledger import Ledger
from ttmem.collect.live_table import LiveTable
from ttmem.model.core_sets import core_id
from ttmem.model.events import (
    Allocated,
    Device,
    DeviceClosed,
    DeviceOpened,
    Event,
    Extra,
    Freed,
    Mark,
    PhaseBegan,
    PhaseEnded,
    ProgramCompiled,
    ProgramDestroyed,
    ProgramRun,
    ResyncBegin,
    ResyncEnd,
    Viewed,
)
from ttmem.model.geometry import BOARDS
from ttmem.model.identity import ChipInfo, ProcessInfo
from ttmem.model.kinds import BUFFER_KINDS, POOL_OF, Confidence, Kind, Pool

LAW = settings(max_examples=200, phases=[Phase.explicit, Phase.generate, Phase.shrink])
BUFFERS = [*BUFFER_KINDS, Kind.FIRMWARE]
PARTS = [Kind.CB, Kind.CB, Kind.DFB, Kind.SCRATCHPAD, Kind.KERNEL, Kind.FABRIC_KERNEL, Kind.DISPATCH_KERNEL]

# Few places, so that everything collides. The per-core ids have the same meaning on every board.
NUMBERS = st.sampled_from([0, 0, 0, 1])
DEVICES: st.SearchStrategy[Device] = st.sampled_from([0, 0, 0, 1, (0, 1), (0, 1), (1, 2)])
ADDRESSES = st.sampled_from([0, 0x1000, 0x1000, 0x2000])
WRITES = st.sampled_from([core_id(1, 2, 64), core_id(1, 2, 20_000), core_id(1, 2, 60_000), core_id(1, 2, 500_000)])
SIZES = st.sampled_from([64, 64, 96])
PROGRAMS = st.integers(0, 1)
CORES = st.sampled_from([0, 0b1, 0b11])
ALLOCATORS = st.sampled_from([0, 0, 1])
BUFFER_EXTRAS = st.none() | st.tuples(st.sampled_from([None, 128, 256]), st.just(0), ALLOCATORS).map(
    lambda fields: Extra(*fields)
)
PART_EXTRAS = st.none() | st.tuples(CORES, st.booleans()).map(lambda fields: Extra(cores=fields[0], shared=fields[1]))
CHIPS = [ChipInfo("chip-a", geometry=BOARDS["n150"]), ChipInfo("chip-b", geometry=BOARDS["p150"]), ChipInfo("chip-c")]

COMING = st.one_of(
    st.tuples(DEVICES, st.sampled_from(BUFFERS), ADDRESSES, SIZES, st.just(0), st.just(0), BUFFER_EXTRAS).map(
        lambda fields: Allocated(*fields)
    ),
    st.tuples(DEVICES, st.just(Kind.L1), WRITES, SIZES, st.just(0), st.just(0), st.none()).map(
        lambda fields: Allocated(*fields)
    ),
    st.tuples(DEVICES, st.sampled_from(PARTS), ADDRESSES, SIZES, PROGRAMS, st.just(0), PART_EXTRAS).map(
        lambda fields: Allocated(*fields)
    ),
)
GOING = st.one_of(
    st.tuples(
        DEVICES, st.none() | st.sampled_from(BUFFERS), ADDRESSES | WRITES, st.just(0), st.just(0), ALLOCATORS
    ).map(lambda fields: Freed(*fields)),
    st.tuples(DEVICES, st.sampled_from(PARTS), ADDRESSES, st.just(0), PROGRAMS, st.just(0), CORES).map(
        lambda fields: Freed(*fields)
    ),
)
TURNING = st.one_of(
    st.tuples(DEVICES, PROGRAMS).map(ProgramDestroyed._make),
    st.tuples(DEVICES, PROGRAMS, CORES).map(ProgramRun._make),
    st.tuples(DEVICES, PROGRAMS, st.sampled_from([0, 512, 1024]), PROGRAMS, st.sampled_from([None, "matmul"])).map(
        lambda fields: ProgramCompiled(*fields)
    ),
    st.tuples(
        DEVICES, ALLOCATORS, st.sampled_from([Kind.DRAM, Kind.L1]), st.sampled_from([0, 8]), st.just(4096), SIZES, SIZES
    ).map(Viewed._make),
    st.tuples(st.integers(1, 3), st.sampled_from(["prefill", "decode"]), st.integers(0, 2)).map(PhaseBegan._make),
    st.tuples(st.integers(1, 3)).map(PhaseEnded._make),
    # No two numbers are the same chip: a mesh could not be over both.
    st.tuples(NUMBERS, st.sampled_from(CHIPS)).map(
        lambda one: DeviceOpened(one[0], one[1]._replace(id=f"{one[1].id} {one[0]}"))
    ),
    st.tuples(DEVICES).map(DeviceClosed._make),
)
EVENTS: st.SearchStrategy[Event] = st.one_of(COMING, COMING, COMING, GOING, GOING, TURNING)
STREAMS = st.lists(EVENTS, max_size=20)


class Server:
    """A ledger that receives the events of one client."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.source = self.ledger.source(0.0, ProcessInfo(1, 1), "client", Confidence.REPORTED)

    def hear(self, *events: Event) -> None:
        for event in events:
            self.ledger.apply(0.0, self.source, event)

    def resync(self, table: LiveTable, generation: int = 1) -> None:
        self.hear(*table.resend(generation))

    def totals(self) -> dict[str, Any]:
        """Every total that is not empty, and every live allocation with its references."""
        chips = {
            chip.id: [(total.used, total.count, total.reserved, total.known) for total in chip.totals()]
            for chip in self.ledger.chips.values()
            if any(total.count for total in chip.totals())
        }
        allocations = Counter((t.holding.device, t.kind, t.address, t.size, t.refs) for t in self.ledger.allocations())
        holdings = list(self.ledger.holdings())
        programs = Counter(
            (holding.device, p.ident, p.ring, p.metal_id, p.tag)
            for holding in holdings
            for p in holding.programs.values()
            if p.metal_id is not None
        )
        views = {(holding.device, *key): view for holding in holdings for key, view in holding.views.items()}
        phases = {ident: phase.path.split("/")[-1] for (_, ident), phase in self.source.process.phases.open.items()}
        return {"chips": chips, "allocations": allocations, "programs": programs, "views": views, "phases": phases}


@LAW
@given(STREAMS)
def test_a_server_that_missed_everything(events: list[Event]) -> None:
    table, followed, fresh = LiveTable(), Server(), Server()
    for event in events:
        followed.hear(table.fold(event))
    fresh.resync(table)
    assert fresh.totals() == followed.totals()
    assert len(table) == followed.ledger.live_count()
    compare_tally(table, followed)


def residents(server: Server) -> set[tuple[int, int]]:
    """Programs with parts, and the cores on which they ran last."""
    chips = server.ledger.chips.values()
    return {(one.ident, cores) for chip in chips for one, cores in chip.resident_programs() if one.parts}


@LAW
@given(STREAMS)
def test_a_server_that_missed_every_launch(events: list[Event]) -> None:
    """Programs that are destroyed as a whole: only the account drops a program with its last part.

    They run on one device, and on meshes with it: the order of launches decides which of them is resident.
    """
    table, followed, fresh = LiveTable(), Server(), Server()
    for event in events:
        if not (isinstance(event, Freed) and event.kind in PARTS) and getattr(event, "device", 0) in (0, (0, 1)):
            followed.hear(table.fold(event))
    fresh.resync(table)
    assert residents(fresh) == residents(followed)


def test_launches_on_a_mesh_and_on_one_of_its_devices_are_sent_again_in_their_order() -> None:
    table, mesh = LiveTable(), (0, 1)
    events: list[Event] = [
        *(ProgramCompiled(mesh, 1, 0, 1), ProgramCompiled(0, 2, 0, 2)),
        *(ProgramRun(mesh, 1, 0b11), ProgramRun(0, 2, 0b01), ProgramRun(mesh, 1, 0b10)),
    ]
    for event in events:
        table.fold(event)
    runs = [event for event in table.resend(1) if isinstance(event, ProgramRun)]
    assert runs == [ProgramRun(mesh, 1, 0b01), ProgramRun(0, 2, 0b01), ProgramRun(mesh, 1, 0b10)]
    table.fold(ProgramDestroyed(mesh, 1))
    assert [event for event in table.resend(2) if isinstance(event, ProgramRun)] == [ProgramRun(0, 2, 0b01)]


def test_a_closed_device_is_not_told_again() -> None:
    table = LiveTable()
    for event in (DeviceOpened(0, CHIPS[0]), DeviceOpened(1, CHIPS[1]), DeviceClosed(0)):
        table.fold(event)
    assert table.resend(3) == [ResyncBegin(3), DeviceOpened(1, CHIPS[1]), ResyncEnd(3)]


def compare_tally(table: LiveTable, server: Server) -> None:
    """The running totals are the sums of what the account has."""
    allocations = list(server.ledger.allocations())
    for (device, label), reading in table.tally.read().items():
        kinds = {"dram_pool": [Pool.DRAM], "l1_pool": [Pool.L1, Pool.PROGRAM]}
        mine = [
            allocation
            for allocation in allocations
            for number in allocation.holding.numbers
            if device in (None, number)
            and (POOL_OF[allocation.kind] in kinds[label] if label in kinds else allocation.kind.label == label)
            and not (allocation.extra and allocation.extra.shared)
        ]
        assert reading.used == sum(allocation.size for allocation in mine)
        buffers = [
            allocation.extra and allocation.extra.reserved for allocation in mine if allocation.kind in BUFFER_KINDS
        ]
        assert reading.reserved == (None if None in buffers else sum(size for size in buffers if size))
        assert reading.peak >= reading.used


@LAW
@given(STREAMS)
def test_peaks_are_those_of_a_look_after_every_event(events: list[Event]) -> None:
    table = LiveTable()
    highest: dict[Any, int] = {}
    for event in events:
        table.fold(event)
        for key, reading in table.tally.read().items():
            highest[key] = max(highest.get(key, 0), reading.used)
    assert {key: reading.peak for key, reading in table.tally.read().items()} == highest
    table.tally.reset_peaks()
    for reading in table.tally.read().values():
        assert (reading.peak, reading.reserved_peak) == (reading.used, reading.reserved)


@LAW
@given(STREAMS, STREAMS)
def test_a_server_that_missed_the_end(seen: list[Event], missed: list[Event]) -> None:
    table, followed, late = LiveTable(), Server(), Server()
    for event in seen:
        told = table.fold(event)
        followed.hear(told)
        late.hear(told)
    for event in missed:
        followed.hear(table.fold(event))
    late.resync(table, 2)
    assert late.totals() == followed.totals()


@LAW
@given(STREAMS)
def test_sending_again_changes_nothing(events: list[Event]) -> None:
    table, server = LiveTable(), Server()
    for event in events:
        server.hear(table.fold(event))
    before = server.totals()
    server.resync(table, 2)
    server.resync(table, 3)
    assert server.totals() == before


@pytest.mark.parametrize(
    ("then", "now"),
    [
        (Allocated(0, Kind.CB, 0x1000, 64, 1, 0, Extra(shared=True)), Extra()),
        (Allocated(0, Kind.DRAM, 0x1000, 64, 0, 0, Extra(reserved=128)), Extra(reserved=256)),
        (Allocated(0, Kind.DRAM, 0x1000, 64, 0, 0, Extra(tag="old")), Extra(tag="new")),
    ],
)
def test_a_place_that_was_used_anew_while_the_server_did_not_look(then: Allocated, now: Extra) -> None:
    """Same place, kind and size, but a different allocation: the resync sends the properties of the new one."""
    table, followed, late = LiveTable(), Server(), Server()
    late.hear(then)
    for event in (then, Freed(then.device, then.kind, then.address, program=then.program), then._replace(extra=now)):
        followed.hear(table.fold(event))
    late.resync(table, 2)
    assert late.totals() == followed.totals()
    assert [allocation.extra for allocation in late.ledger.allocations()] == [now]


def resent(*events: Event) -> list[Event]:
    table = LiveTable()
    for event in events:
        table.fold(event)
    return [event for event in table.resend(1) if not isinstance(event, (ResyncBegin, ResyncEnd))]


def test_references_are_sent_with_the_allocation() -> None:
    here = Allocated(0, Kind.DRAM, 0x1000, 64)
    assert resent(here, here, here, Freed(0, None, 0x1000)) == [here._replace(refs=2)]


def test_a_kernel_loaded_twice_is_one_load() -> None:
    kernel = Allocated(0, Kind.KERNEL, 7, 64, 1)
    assert resent(kernel, kernel) == [kernel._replace(refs=1)]
    assert resent(kernel, kernel, Freed(0, Kind.KERNEL, 7, program=1)) == []


def test_a_shared_place_keeps_what_was_first_said_of_it() -> None:
    """As in the ledger: one more reference does not change the properties of the allocation."""
    first = Allocated(0, Kind.CB, 0x1000, 64, 1, 0, Extra(shared=True))
    assert resent(first, first._replace(extra=Extra(shared=False))) == [first._replace(refs=2)]


def test_a_new_size_replaces() -> None:
    assert resent(Allocated(0, Kind.L1, 0x1000, 64), Allocated(0, Kind.L1, 0x1000, 96)) == [
        Allocated(0, Kind.L1, 0x1000, 96, refs=1)
    ]


def test_a_surplus_free_of_a_part_at_address_0_frees_no_buffer() -> None:
    """Kernel handle 0 is common, and a buffer of a graph capture has address 0; they are not the same allocation."""
    buffer = Allocated(0, Kind.DRAM, 0, 64)
    assert resent(buffer, Freed(0, Kind.KERNEL, 0)) == [buffer._replace(refs=1)]


def test_firmware_without_an_address_is_a_buffer() -> None:
    """For the ledger, firmware is a buffer, not part of a program, although its number follows those of parts."""
    table, followed = LiveTable(), Server()
    for event in (Allocated(0, Kind.FIRMWARE, 0, 64), Freed(0, Kind.FIRMWARE, 0)):
        followed.hear(table.fold(event))
    assert followed.ledger.live_count() == 0
    assert len(table) == 0


def test_a_size_the_server_refuses_replaces_nothing() -> None:
    table, followed, fresh = LiveTable(), Server(), Server()
    for event in (Allocated(0, Kind.DRAM, 0x1000, 64), Allocated(0, Kind.DRAM, 0x1000, (100 << 30) + 1)):
        followed.hear(table.fold(event))
    fresh.resync(table)
    assert fresh.totals() == followed.totals()


@pytest.mark.parametrize("kind", BUFFER_KINDS)
def test_a_free_without_a_kind_gets_it(kind: Kind) -> None:
    table = LiveTable()
    table.fold(Allocated(0, kind, 0x1000, 64))
    assert table.fold(Freed(0, None, 0x1000)) == Freed(0, kind, 0x1000)
    assert table.fold(Freed(0, None, 0x1000)) == Freed(0, None, 0x1000), "nothing there any more"
    assert len(table) == 0


def test_devices_come_before_what_lies_on_them() -> None:
    opened, buffer = DeviceOpened(3, CHIPS[0]), Allocated(3, Kind.DRAM, 0x1000, 64)
    assert resent(buffer, opened) == [opened, buffer._replace(refs=1)]
    assert resent(opened, buffer, DeviceClosed(3)) == []


def test_a_program_is_named_before_its_parts_and_goes_with_it() -> None:
    compiled, part = ProgramCompiled(0, 7, 512, 3, "matmul"), Allocated(0, Kind.CB, 0x1000, 64, 7)
    assert resent(part, compiled) == [compiled, part._replace(refs=1)]
    assert resent(compiled, part, ProgramDestroyed(0, 7)) == []
    assert resent(compiled, part, DeviceClosed(0)) == []
    assert resent(compiled, DeviceClosed(1)) == [compiled]


class Unwalked(dict[Any, Any]):
    """A table that is only queried, not iterated."""

    def __iter__(self) -> Any:
        raise AssertionError("every allocation was looked at")

    items = keys = values = __iter__


def test_the_end_of_a_program_costs_its_parts_only() -> None:
    table = LiveTable()
    for event in (
        Allocated(0, Kind.DRAM, 0x1000, 64),
        *(Allocated(0, kind, 0x1000, 64, program) for kind in (Kind.CB, Kind.KERNEL) for program in (7, 8)),
    ):
        table.fold(event)
    table._allocations = Unwalked(table._allocations)
    table.fold(ProgramDestroyed(0, 7))
    assert len(table) == 3
    table.fold(Freed(0, Kind.CB, 0x1000, program=8))
    table.fold(ProgramDestroyed(0, 8))
    table.fold(ProgramDestroyed(0, 9))
    assert (len(table), table.tally.read()[None, "l1_pool"].used) == (1, 0)


@pytest.mark.parametrize(
    ("chip", "kinds"),
    [
        (None, ["firmware", "kernel", "l1"]),
        (ChipInfo("u", geometry=BOARDS["n150"]), ["firmware", "kernel", "l1"]),
        (ChipInfo("u", board="quasar"), ["firmware", "firmware", "l1"]),
    ],
)
def test_a_core_that_is_written_to_holds_what_the_account_says(chip: ChipInfo | None, kinds: list[str]) -> None:
    table, server = LiveTable(), Server()
    writes = [Allocated(0, Kind.L1, core_id(1, 2, place), 64 + place) for place in (20_000, 60_000, 500_000)]
    opened: list[Event] = [DeviceOpened(0, chip)] if chip else []
    for event in [*opened, *writes]:
        server.hear(table.fold(event))
    expected = dict.fromkeys(kinds, 0)
    for kind, write in zip(kinds, writes):
        expected[kind] += write.size
    tally = table.tally.read()
    assert {label: tally[0, label].used for label in expected} == expected
    assert {allocation.kind.label for allocation in server.ledger.allocations()} == {*kinds}
    table.fold(DeviceOpened(0, ChipInfo("v", geometry=BOARDS["quasar"])))  # a counted kernel is freed as a kernel
    for write in writes:
        table.fold(Freed(0, Kind.L1, write.address))
    assert not any(reading.used for reading in table.tally.read().values())


def test_a_phase_begins_with_what_is_there() -> None:
    """If it were sent before the allocations, it would seem to have made all of them."""
    outer, inner = PhaseBegan(1, "decode"), PhaseBegan(2, "attention", 1)
    buffer = Allocated(0, Kind.DRAM, 0x1000, 64, refs=1)
    assert resent(outer, inner, buffer) == [buffer, outer, inner]
    assert resent(outer, inner, PhaseEnded(2)) == [outer]


def test_the_last_view_is_sent_again_after_what_it_is_compared_with() -> None:
    first, last = Viewed(0, 1, Kind.L1, 64, 4096, 1024, 3072), Viewed(0, 1, Kind.L1, 64, 4096, 2048, 2048)
    buffer = Allocated(0, Kind.L1, 0x1000, 64, refs=1)
    assert resent(first, DeviceClosed(0)) == []
    table = LiveTable()
    for event in (first, last, buffer):
        table.fold(event)
    assert table.resend(2) == [ResyncBegin(2), buffer, ResyncEnd(2), last], "also after what is there no more"


def test_other_events_pass_through() -> None:
    table = LiveTable()
    for event in (Mark("x"), ProgramRun(0, 1, 1)):
        assert table.fold(event) is event
    assert table.resend(1) == [ResyncBegin(1), ResyncEnd(1)]

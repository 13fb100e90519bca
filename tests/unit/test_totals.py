# SPDX-License-Identifier: Apache-2.0
"""The allocations at the peak of a TotalWithContents, compared with a log of all live allocations after every event."""

from __future__ import annotations

from typing import NamedTuple, Union

from hypothesis import given, settings
from hypothesis import strategies as st

from ttmem.account.allocations import Allocation
from ttmem.account.entities import Source
from ttmem.account.ledger import Ledger
from ttmem.account.live_set import counted_chips, counts
from ttmem.account.totals import TotalWithContents
from ttmem.model import events as ev
from ttmem.model.identity import ChipInfo, ProcessInfo
from ttmem.model.kinds import BUFFER_KINDS, Confidence, Kind


class Release(NamedTuple):
    """Not an event: one of the allocations that the process holds is freed."""

    which: int


Act = Union[ev.Event, Release]

LAW = settings(max_examples=200)
ON_CHIP = tuple(kind for kind in BUFFER_KINDS if kind is not Kind.HOST)
PARTS = (Kind.CB, Kind.DFB, Kind.SCRATCHPAD, Kind.KERNEL, Kind.FABRIC_KERNEL)

# Small pools, so that everything collides.
DEVICES, ADDRESSES, PROGRAMS = st.sampled_from([0, 1, (0, 1), (0, 1)]), st.integers(1, 3), st.integers(1, 3)
SIZES, ALLOCATORS = st.sampled_from([64, 64, 128, 4096]), st.integers(1, 2)
EXTRAS = st.builds(ev.Extra, st.sampled_from([2048, 8192]), st.just(0), ALLOCATORS)
PART_EXTRAS = st.builds(ev.Extra, st.none(), st.sampled_from([1, 3]), st.just(0), st.none(), st.booleans())
EVENTS = st.one_of(
    st.builds(ev.Allocated, DEVICES, st.sampled_from(BUFFER_KINDS), ADDRESSES, SIZES, st.just(0), st.just(0), EXTRAS),
    st.builds(ev.Allocated, DEVICES, st.sampled_from(ON_CHIP), ADDRESSES, SIZES, st.just(0), st.just(0), EXTRAS),
    *(st.builds(Release, st.integers(0, 20)) for _ in range(3)),
    st.builds(ev.Allocated, DEVICES, st.sampled_from(PARTS), ADDRESSES, SIZES, PROGRAMS, st.just(0), PART_EXTRAS),
    st.builds(ev.ProgramCompiled, DEVICES, PROGRAMS, SIZES, st.just(9)),
    st.builds(ev.ProgramRun, DEVICES, PROGRAMS, st.sampled_from([1, 3])),
    st.builds(ev.ProgramDestroyed, DEVICES, PROGRAMS),
    st.builds(ev.DeviceOpened, st.just(0), st.builds(ChipInfo, st.sampled_from(["a", "b"]))),
    st.builds(ev.DeviceOpened, st.just(1), st.builds(ChipInfo, st.sampled_from(["c", "d"]))),
    st.builds(ev.DeviceClosed, DEVICES),
    st.builds(ev.ResyncBegin, st.just(2)),
    st.builds(ev.ResyncEnd, st.just(2)),
    st.just(ev.ProcessExited()),
)
STREAMS = st.lists(st.tuples(st.sampled_from([0, 0, 0, 1, 2]), EVENTS), max_size=60)


class Recorder:
    """Keeps the live allocations of the event at which the total of buffers first reached its maximum."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.highest = 0
        self.time = 0.0
        self.live: set[Allocation] = set()

    def look(self, time: float) -> None:
        live = {allocation for allocation in self._ledger.allocations() if counts(allocation)}
        total = sum(a.counted * len(counted_chips(a)) for a in live if a.kind in ON_CHIP)
        if total > self.highest:
            self.highest, self.time, self.live = total, time, live


def fold(stream: list[tuple[int, Act]], *, thin: bool) -> tuple[Ledger, TotalWithContents, Recorder]:
    """Three processes in turn. A process that has exited is followed by another with the same pid."""
    all_chips = TotalWithContents()
    ledger = Ledger(all_chips=all_chips)
    recorder = Recorder(ledger)
    starts = [1, 1, 1]
    for number, (who, act) in enumerate(stream, 1):
        source: Source = ledger.source(0.0, ProcessInfo(pid=who + 1, start=starts[who]), "agent", Confidence.EXACT)
        event = released(source, act.which) if isinstance(act, Release) else act
        if event is None:
            continue
        ledger.apply(float(number), source, event)
        starts[who] += type(event) is ev.ProcessExited
        recorder.look(float(number))
        if thin:
            ledger.dead_allocations._cap = 0
            ledger.thin_dead_allocations(2)
    return ledger, all_chips, recorder


def released(source: Source, which: int) -> ev.Freed | None:
    allocations = [
        (holding.device, allocation) for holding in source.holdings.values() for allocation in holding.allocations()
    ]
    if not allocations:
        return None
    device, allocation = allocations[which % len(allocations)]
    assert allocation.extra is not None
    allocator, cores = (0, allocation.extra.cores) if allocation.program else (allocation.extra.allocator, 0)
    return ev.Freed(device, allocation.kind, allocation.address, allocation.size, allocation.program, allocator, cores)


def described(allocations: set[Allocation]) -> list[tuple[object, ...]]:
    """For a message that can be read."""
    return sorted((t.holding.numbers, t.kind, t.address, t.size, t.program, t.born) for t in allocations)


@LAW
@given(STREAMS, st.booleans())
def test_everything_live_at_the_peak_and_nothing_else(stream: list[tuple[int, Act]], thin: bool) -> None:
    ledger, all_chips, recorder = fold(stream, thin=thin)
    assert all_chips.peak.value == recorder.highest
    if recorder.highest:
        assert all_chips.peak.time == recorder.time
        found = [allocation for allocation in all_chips.allocations(ledger.allocations()) if counts(allocation)]
        assert len(found) == len(set(found)), "one allocation twice"
        assert described(set(found)) == described(recorder.live)
        assert set(found) == recorder.live


@LAW
@given(STREAMS)
def test_the_total_is_that_of_the_live_buffers(stream: list[tuple[int, Act]]) -> None:
    ledger, all_chips, _ = fold(stream, thin=False)
    live = [allocation for allocation in ledger.allocations() if counts(allocation)]
    assert all_chips.total.used == sum(a.counted * len(counted_chips(a)) for a in live if a.kind in ON_CHIP)
    assert all_chips.beside.used == sum(a.counted * len(counted_chips(a)) for a in live if a.kind not in ON_CHIP)


def test_a_peak_that_a_parts_end_cannot_touch() -> None:
    """Programs do not count, but those that were live at the peak are listed, also after they are gone."""
    stream: list[tuple[int, Act]] = [
        (0, ev.Allocated(0, Kind.CB, 1, 999, 7, 0, ev.Extra(None, 1))),
        (0, ev.Allocated(0, Kind.DRAM, 1, 64, 0, 0, ev.Extra(64, 0, 1))),
        (0, ev.Allocated(0, Kind.CB, 1, 111, 8, 0, ev.Extra(None, 1))),
        (0, ev.Freed(0, Kind.DRAM, 1, 64, 0, 1)),
        (0, ev.ProgramDestroyed(0, 7)),
        (0, ev.Allocated(0, Kind.DRAM, 2, 32, 0, 0, ev.Extra(64, 0, 1))),
        (0, ev.ProcessExited()),
    ]
    ledger, all_chips, _ = fold(stream, thin=False)
    assert {(allocation.kind, allocation.size) for allocation in all_chips.allocations(ledger.allocations())} == {
        (Kind.CB, 999),
        (Kind.DRAM, 64),
    }


def test_what_went_before_a_higher_peak_is_no_part_of_it() -> None:
    stream: list[tuple[int, Act]] = [
        (0, ev.Allocated(0, Kind.L1, 1, 64, 0, 0, ev.Extra(64, 0, 1))),
        (0, Release(0)),
        (0, ev.Allocated(0, Kind.L1, 2, 128, 0, 0, ev.Extra(64, 0, 1))),
    ]
    ledger, all_chips, _ = fold(stream, thin=False)
    assert [allocation.address for allocation in all_chips.allocations(ledger.allocations())] == [2]


def test_an_equal_height_later_is_no_new_peak() -> None:
    stream: list[tuple[int, Act]] = [
        (0, ev.Allocated(0, Kind.L1, 1, 64, 0, 0, ev.Extra(64, 0, 1))),
        (0, ev.Freed(0, Kind.L1, 1, 64, 0, 1)),
        (1, ev.Allocated(0, Kind.L1, 2, 64, 0, 0, ev.Extra(64, 0, 1))),
    ]
    ledger, all_chips, _ = fold(stream, thin=False)
    assert [allocation.address for allocation in all_chips.allocations(ledger.allocations())] == [1]
    assert all_chips.peak.time == 1.0

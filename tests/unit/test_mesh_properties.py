# SPDX-License-Identifier: Apache-2.0
"""Meshes in the ledger against the naive model, in which every chip has allocations and totals of its own."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.mesh_situations import Situations
from tests.unit.test_ledger_properties import (
    ALLOCATORS,
    NONE,
    OTHER_EVENTS,
    PHASE_EVENTS,
    REFS,
    RESERVED,
    SOME_CORES,
    ZERO,
    Both,
    Sample,
    Step,
    Stream,
    Thin,
    weighted,
)
from ttmem.account.ledger import Ledger
from ttmem.account.phases import phases_json
from ttmem.account.state import Limits
from ttmem.documents.peaks import peaks
from ttmem.documents.snapshot import take_snapshot
from ttmem.model import events as ev
from ttmem.model.identity import ChipInfo, ProcessInfo
from ttmem.model.kinds import Confidence, Kind, Pool
from ttmem.recording.event_recording import EventRecordingWriter
from ttmem.recording.recording_file import Recording

# Long streams, because little happens on a mesh that only a few steps are about.
LAW = settings(max_examples=20, report_multiple_bugs=False)
LESS = settings(LAW, max_examples=15)

NUMBERS = range(4)
ALL = (0, 1, 2, 3)
# The mesh of all chips, its parts, one that overlaps them, the same chips in another order, and single chips.
MESHES: tuple[Any, ...] = (ALL, (0, 1), (2, 3), (1, 2), (3, 2, 1, 0), 0, 1, 3)
DEVICES = st.sampled_from([ALL, ALL, ALL, ALL, *MESHES])
SINGLE = st.sampled_from([0, 1, 2, 3])
SIZES = st.sampled_from([64, 64, 96, 128, 4096, 5000])
ADDRESSES = st.sampled_from([0, 0x1000, 0x2000, 0x3000])
IDENTS = st.sampled_from([0, 1, 2, 3, 4])
KINDS_OF_BUFFERS = st.sampled_from([Kind.DRAM, Kind.DRAM, Kind.L1, Kind.L1, Kind.L1_SMALL, Kind.TRACE])
KINDS_OF_PARTS = st.sampled_from([Kind.CB, Kind.CB, Kind.CB, Kind.DFB, Kind.KERNEL, Kind.FABRIC_KERNEL])
EXTRAS = st.builds(lambda reserved, allocator: ev.Extra(reserved, 0, allocator), RESERVED, ALLOCATORS)
SHARED = st.sampled_from([False, False, False, True])
PART_EXTRAS = st.builds(lambda cores, shared: ev.Extra(None, cores, shared=shared), SOME_CORES, SHARED)

# Programs that are launched together: one for each chip, as in collective operations; one for each half; the same
# workloads after they were created again, with other programs or on other cores.
WORKLOADS = [
    ev.WorkloadRun(1, tuple(ev.ProgramRun(number, 1, 0b11) for number in NUMBERS)),
    ev.WorkloadRun(1, tuple(ev.ProgramRun(number, number % 2, 0b10) for number in NUMBERS)),
    ev.WorkloadRun(2, (ev.ProgramRun((0, 1), 1, 0b11), ev.ProgramRun((2, 3), 2, 0b110))),
    ev.WorkloadRun(2, (ev.ProgramRun((0, 1), 2, 0b110), ev.ProgramRun((2, 3), 1, 0b10))),
    ev.WorkloadRun(3, (ev.ProgramRun(ALL, 1, 0b110),)),
    ev.WorkloadRun(3, (ev.ProgramRun(ALL, 2, 0b11),)),
]

BUFFERS = st.one_of(
    st.builds(ev.Allocated, DEVICES, KINDS_OF_BUFFERS, ADDRESSES, SIZES, ZERO, REFS, EXTRAS, IDENTS),
    st.builds(ev.Allocated, DEVICES, KINDS_OF_BUFFERS, ADDRESSES, SIZES, ZERO, ZERO, EXTRAS, IDENTS),
    st.builds(ev.Freed, DEVICES, KINDS_OF_BUFFERS, ADDRESSES, SIZES, ZERO, ALLOCATORS, ZERO, IDENTS),
)
PROGRAMS = st.sampled_from([1, 1, 2])
NEW_PARTS = st.builds(ev.Allocated, DEVICES, KINDS_OF_PARTS, ADDRESSES, SIZES, PROGRAMS, REFS, PART_EXTRAS, ZERO)
LAUNCHES = weighted(st.builds(ev.ProgramRun, DEVICES, PROGRAMS, SOME_CORES), st.sampled_from(WORKLOADS))
PARTS = weighted(
    *[NEW_PARTS] * 4,
    *[LAUNCHES] * 4,
    st.builds(ev.Freed, DEVICES, KINDS_OF_PARTS, ADDRESSES, SIZES, PROGRAMS, ZERO, SOME_CORES, ZERO),
    st.builds(ev.ProgramDestroyed, DEVICES, PROGRAMS),
)
CLOSING = st.builds(ev.DeviceClosed, DEVICES)
# No two numbers of a process refer to the same chip.
MOVING = SINGLE.flatmap(
    lambda number: st.builds(
        ev.DeviceOpened, st.just(number), st.sampled_from([ChipInfo(f"{name}{number}") for name in "AB"])
    )
)
EXITS = st.just(ev.ProcessExited())
# BEGIN takes the programs of its source from the cores, so most resyncs end soon.
RESYNC_BEGINS = st.builds(ev.ResyncBegin, st.just(2))
RESYNC_ENDS = st.builds(ev.ResyncEnd, st.just(2))
OTHERS = weighted(*[OTHER_EVENTS] * 3, *[RESYNC_BEGINS] * 3, *[RESYNC_ENDS] * 5, EXITS, CLOSING)
THINNING = st.builds(Thin, st.integers(1, 9))
SOURCES = ("agent", "agent", "agent", "client")
# A few sizes and addresses of buffers on the whole mesh, so that its chips share totals of several processes.
GATHERING = st.builds(
    ev.Allocated, st.just(ALL), st.sampled_from([Kind.DRAM, Kind.L1]), st.integers(1, 4), SIZES, ZERO, ZERO, NONE, ZERO
)


def programs_of(*acts: st.SearchStrategy[Any], sources: tuple[str, ...] = ("agent",)) -> st.SearchStrategy[Stream]:
    """Streams of these acts, each as often as it is listed, with incidents among them.

    All processes hold something on the mesh before some of its parts are used. In most streams, one of them exits then.
    Programs have parts before most of them run.
    """

    def some(least: int) -> st.SearchStrategy[list[Step]]:
        return st.lists(_step(weighted(*acts), sources), min_size=least, max_size=2 * least)

    return st.tuples(
        st.lists(_step(GATHERING, sources, processes=(0, 1, 2)), min_size=3, max_size=5),
        weighted(st.just([]), *[_death(sources)] * 3),
        st.lists(_step(NEW_PARTS, sources), min_size=8, max_size=12),
        some(8),
        _reopening(sources),
        some(8),
        _resync(sources),
        some(5),
    ).map(list)


def _step(
    act: st.SearchStrategy[Any], sources: tuple[str, ...], processes: tuple[int, ...] = (0, 0, 0, 1, 2)
) -> st.SearchStrategy[Step]:
    return st.builds(Step, st.sampled_from(processes), st.sampled_from(sources), st.booleans(), act)


def _death(sources: tuple[str, ...]) -> st.SearchStrategy[list[Step]]:
    """A process exits while it holds something on the whole mesh."""
    held = _step(GATHERING, sources, processes=(1, 2))
    return held.map(lambda step: [step._replace(late=False), _same(step, ev.ProcessExited())])


def _reopening(sources: tuple[str, ...]) -> st.SearchStrategy[list[Step]]:
    """A device or mesh is closed while a process holds something on it, is opened again, and is used again."""

    def steps(held: Step, after: ev.Allocated) -> list[Step]:
        device: Any = held.act.device  # type: ignore[union-attr]
        return [
            held._replace(late=False), _same(held, ev.DeviceClosed(device)), *_opens(held, ev.device_numbers(device)),
            _same(held, after._replace(device=device)),
        ]  # fmt: skip

    where = st.sampled_from([ALL, (2, 3), 0, 3])
    buffer = st.builds(ev.Allocated, where, KINDS_OF_BUFFERS, ADDRESSES, SIZES, ZERO, ZERO, EXTRAS, IDENTS)
    return st.builds(steps, _step(buffer, sources), buffer)


def _resync(sources: tuple[str, ...]) -> st.SearchStrategy[list[Step]]:
    """A source reports its allocations again: some that it had, without the others, and some that are new."""

    def steps(first: Step, held: list[ev.Allocated], new: list[ev.Event]) -> list[Step]:
        again = [event._replace(refs=event.refs or 1) for event in held]
        return [_same(first, event) for event in (*held, ev.ResyncBegin(3), *again, *new, ev.ResyncEnd(3))]

    buffer = st.builds(ev.Allocated, DEVICES, KINDS_OF_BUFFERS, ADDRESSES, SIZES, ZERO, REFS, EXTRAS, IDENTS)
    part = st.builds(ev.Allocated, DEVICES, KINDS_OF_PARTS, ADDRESSES, SIZES, PROGRAMS, ZERO, PART_EXTRAS, ZERO)
    held = st.lists(weighted(buffer, part), min_size=1, max_size=3)
    return st.builds(steps, _step(CLOSING, sources), held, st.lists(BUFFERS, max_size=2))


def _same(step: Step, event: ev.Event) -> Step:
    """The same source, of a process that lives."""
    return step._replace(late=False, act=event)


def _opens(step: Step, numbers: Iterable[int]) -> list[Step]:
    return [_same(step, ev.DeviceOpened(number, ChipInfo(f"A{number}"))) for number in numbers]


def opened(stream: Stream) -> Stream:
    """A process that opens a mesh reports its chips. All processes share these chips."""
    first = [Step(process, "agent", False, Sample()) for process in range(3)]
    found = [[step for one in first for step in _opens(one, NUMBERS)]]
    for steps in stream:
        found.append([])
        for step in steps:
            found[-1].append(step)
            if isinstance(step.act, ev.ProcessExited):
                found[-1] += _opens(step, NUMBERS)  # the next process with this number
    return found


def follow(stream: Stream, limits: Limits = Limits(), *, residency: bool = True) -> Both:
    both = Both(limits)
    for _ in both.play(opened(stream)):
        both.compare()
        both.compare_phases()
        both.compare_peaks()
        if residency:
            both.compare_residency()
    both.sample()
    both.compare_peaks()
    both.compare_departed()
    return both


ALLOCATING = programs_of(*[BUFFERS] * 7, OTHERS)
RUNNING = programs_of(BUFFERS, *[PARTS] * 5, OTHERS)
IN_PHASES = programs_of(*[BUFFERS] * 4, *[PHASE_EVENTS] * 3, PARTS, OTHERS)
TWO_SOURCES = programs_of(*[BUFFERS] * 3, *[PARTS] * 3, PHASE_EVENTS, OTHERS, sources=SOURCES)
MOVED = programs_of(*[BUFFERS] * 3, *[PARTS] * 3, MOVING, PHASE_EVENTS, OTHERS, sources=SOURCES)
THINNED = programs_of(*[BUFFERS] * 3, *[PARTS] * 3, OTHERS, THINNING, st.just(Sample()))
MIXED = programs_of(*[BUFFERS] * 3, *[PARTS] * 3, OTHERS)
# The least number of times in all examples of a law.
REACHED = {
    "splits": 30,
    "splits with a peak of several processes": 20,
    "splits with a peak of a dead process": 3,
    "exits of a process that shares a total with others": 5,
    "devices closed with allocations, opened and used again": 2,
    "meshes closed with allocations, opened and used again": 2,
    "resyncs that keep something": 3,
    "resyncs that add something": 3,
    "resyncs that remove something": 3,
}
THIN, FULL = Limits(dead_allocations=0), Limits(allocations_per_process=7)


@LAW
@given(ALLOCATING)
def test_buffers(stream: Stream) -> None:
    follow(stream)


@LAW
@given(RUNNING)
def test_programs(stream: Stream) -> None:
    follow(stream)


@LESS
@given(IN_PHASES)
def test_phases(stream: Stream) -> None:
    follow(stream)


@LESS
@given(TWO_SOURCES)
def test_two_sources(stream: Stream) -> None:
    follow(stream)


@LESS
@given(MOVED)
def test_chips_that_turn_out_to_be_others(stream: Stream) -> None:
    follow(stream, residency=False)


@LESS
@given(THINNED)
def test_thinning(stream: Stream) -> None:
    both = follow(stream, THIN)
    while both.ledger.thin_dead_allocations(3):
        pass
    both.compare_peaks()
    both.compare_departed()


@LESS
@given(MIXED)
def test_a_full_process(stream: Stream) -> None:
    follow(stream, FULL)


@LESS
@given(TWO_SOURCES)
def test_a_replayed_recording_gives_the_same_account(stream: Stream) -> None:
    """A mesh is written once; the programs of a workload are written one by one."""
    file = io.BytesIO()
    journal = EventRecordingWriter(file)
    both = Both(journal=journal)
    for _ in both.play([[step._replace(late=False) for step in steps] for steps in opened(stream)]):
        pass
    journal.finish()
    again = Ledger()
    Recording(file).replay(again)
    assert take_snapshot(again, time="", host="") == take_snapshot(both.ledger, time="", host="")
    for one, other in zip(again.processes.values(), both.ledger.processes.values()):
        assert phases_json(one) == phases_json(other)
    for recent in (False, True):
        assert peaks(again, recent=recent) == peaks(both.ledger, recent=recent)


@pytest.mark.parametrize(
    ("streams", "examples", "limits"),
    [
        pytest.param(ALLOCATING, LAW, Limits(), id="buffers"),
        pytest.param(RUNNING, LAW, Limits(), id="programs"),
        pytest.param(IN_PHASES, LESS, Limits(), id="phases"),
        pytest.param(TWO_SOURCES, LESS, Limits(), id="two sources"),
        pytest.param(MOVED, LESS, Limits(), id="moved chips"),
        pytest.param(THINNED, LESS, THIN, id="thinning"),
        pytest.param(MIXED, LESS, FULL, id="a full process"),
    ],
)
def test_the_streams_of_a_law_contain_what_it_is_about(
    streams: st.SearchStrategy[Stream], examples: settings, limits: Limits
) -> None:
    """In as many streams as the law has."""
    seen = Counter[str]()

    def play(stream: Stream) -> None:
        for _ in Situations(seen, limits).play(opened(stream)):
            pass

    examples(given(streams)(play))()
    assert {situation: seen[situation] for situation, least in REACHED.items() if seen[situation] < least} == {}
    assert seen["events while processes share a total"] > seen["events"] / 3
    assert bool(seen["allocations above the limit"]) == (limits is FULL)


def test_programs_are_resident_in_many_ways() -> None:
    seen = Counter[str]()

    def play(stream: Stream) -> None:
        both = Both()
        for _ in both.play(opened(stream)):
            residencies = both.residencies()
            chips = {chip_id for chip_id, _, resident in residencies if resident}
            running = {last.device for chip_id in chips for last in both.model.ran[chip_id].values()}
            seen["residencies"] += len(residencies)
            seen["positive residencies"] += sum(bool(resident) for _, _, resident in residencies)
            seen["positive on several chips"] += len(chips) > 1
            seen["programs of meshes and of chips"] += len({isinstance(device, tuple) for device in running}) == 2

    settings(LAW, max_examples=40)(given(RUNNING)(play))()
    assert seen["positive residencies"] > seen["residencies"] / 30
    assert seen["positive on several chips"] > 200
    assert seen["programs of meshes and of chips"] > 80


def test_opening_a_mesh_splits_nothing_and_a_part_splits_its_kind_only() -> None:
    both = Both()
    for step in opened([])[0]:
        both.tell(step.process, step.source, False, step.act)  # type: ignore[arg-type]
    both.tell(0, "agent", False, ev.Allocated(ALL, Kind.L1, 0x1000, 64))
    both.tell(0, "agent", False, ev.Allocated(ALL, Kind.CB, 0x1000, 64, 1))
    source = both.ledger.source(0.0, ProcessInfo(100, 0), "agent", Confidence.EXACT)
    both.ledger.apply(9.0, source, ev.Audited((0, 1), 2, (0, 0), (0, 0), (9, 9), (1, 1)))
    chips = [both.ledger.chips[f"A{number}"] for number in NUMBERS]

    def totals(kind: Kind) -> int:
        return len({chip.kinds[kind] for chip in chips})

    assert [totals(Kind.L1), totals(Kind.CB)] == [1, 1]
    for number in NUMBERS:
        both.tell(0, "agent", False, ev.Allocated(number, Kind.CB, 0x2000, 64, 2))
    assert [totals(Kind.L1), totals(Kind.CB)] == [1, 4]
    assert len({chip.pools[Pool.L1] for chip in chips}) == 1
    (holding,) = [holding for holding in both.ledger.holdings() if holding.device == ALL]
    leaf = holding.leaves[Kind.L1]
    assert leaf is not None
    assert len(leaf.chain) == 4, "as many totals as on one chip"


def test_a_launch_on_a_mesh_is_noted_once() -> None:
    both = Both()
    runs = tuple(ev.ProgramRun(number, number, 1) for number in NUMBERS)
    for _ in range(10):
        both.tell(0, "agent", False, ev.WorkloadRun(1, runs))
        both.tell(0, "agent", False, ev.ProgramRun(ALL, 9, 1))
    (source,) = {holding.source for holding in both.ledger.holdings()}
    assert len(source.launches) == 2
    both.compare_residency()


def test_a_mesh_that_cannot_be() -> None:
    both = Both()
    source = both.ledger.source(0.0, ProcessInfo(7, 1), "agent", Confidence.EXACT)
    for device in ((0, -1), (0, 0)):
        assert both.ledger.apply(0.0, source, ev.Allocated(device, Kind.L1, 0x1000, 64)) is None
    assert both.ledger.anomalies == {"rejected": 2}
    # All chips of a mesh may belong to another machine.
    assert both.ledger.apply(0.0, source, ev.Allocated((), Kind.L1, 0x1000, 64)) is None
    assert both.ledger.apply(0.0, source, ev.Freed((), Kind.L1, 0x1000)) is None
    assert both.ledger.anomalies == {"rejected": 2}


def on(device: Any, address: int, size: int, kind: Kind = Kind.DRAM) -> ev.Allocated:
    return ev.Allocated(device, kind, address, size)


def off(device: Any, address: int, kind: Kind = Kind.DRAM) -> ev.Freed:
    return ev.Freed(device, kind, address)


Told = tuple[int, str, Any]
SPLITS: dict[str, list[Told]] = {
    "what was freed after the peak is part of the peak of the copy": [
        (0, "agent", on(ALL, 1, 5000)), (0, "agent", on(ALL, 2, 4096)), (0, "agent", off(ALL, 2)),
        (0, "agent", on(0, 3, 64)),
    ],
    "what is freed after the split was part of both peaks": [
        (0, "agent", on(ALL, 1, 5000)), (0, "agent", on(ALL, 2, 4096)), (0, "agent", off(ALL, 2)),
        (0, "agent", on(0, 3, 64)), (0, "agent", off(ALL, 1)),
    ],
    "what a dead process held is part of the peak of the copy": [
        (1, "agent", on(ALL, 1, 5000)), (1, "agent", on(ALL, 2, 4096)), (1, "agent", ev.ProcessExited()),
        (0, "agent", on(ALL, 1, 64)), (0, "agent", on((0, 1), 3, 64)),
    ],
    "a dead process is thinned after the split": [
        (1, "agent", on(ALL, 1, 5000)), (1, "agent", on(ALL, 2, 4096)), (1, "agent", ev.ProcessExited()),
        (0, "agent", on(ALL, 1, 64)), (0, "agent", on((0, 1), 3, 64)), (0, "agent", Thin(1)), (0, "agent", Thin(9)),
    ],
    "a closed mesh is part of the peak of the copy": [
        (0, "agent", on(ALL, 1, 5000)), (0, "agent", ev.DeviceClosed(ALL)), (0, "agent", on(3, 1, 64)),
    ],
    "the copy has the highest value since the last sample": [
        (0, "agent", on(ALL, 1, 5000)), (0, "agent", off(ALL, 1)), (0, "agent", on(0, 3, 64)), (0, "agent", Sample()),
    ],
    "an open phase keeps its begin and its peak, and stays complete": [
        (0, "agent", on(ALL, 1, 5000)), (0, "agent", ev.PhaseBegan(1, "prefill")), (0, "agent", on(ALL, 2, 4096)),
        (0, "agent", off(ALL, 2)), (0, "agent", ev.PhaseBegan(2, "decode", 1)), (0, "agent", on(0, 3, 64)),
        (0, "agent", off(0, 3)), (0, "agent", ev.PhaseEnded(2)), (0, "agent", ev.PhaseEnded(1)),
    ],
    "phases that ended keep what they were on all chips": [
        (0, "agent", ev.PhaseBegan(1, "prefill")), (0, "agent", on(ALL, 2, 4096)), (0, "agent", ev.PhaseEnded(1)),
        (0, "agent", on(0, 3, 64)), (0, "agent", ev.PhaseBegan(2, "prefill")), (0, "agent", off(0, 3)),
        (0, "agent", ev.PhaseEnded(2)),
    ],
    "a stronger source takes over one chip of a mesh, and what it pushed out was part of the peak": [
        (0, "client", on(ALL, 1, 5000)), (0, "client", on(ALL, 2, 4096)), (0, "agent", on(1, 1, 64)),
        (0, "client", off(ALL, 1)),
    ],
    "one chip of a mesh turns out to be another": [
        (0, "agent", on(ALL, 1, 5000)), (0, "agent", on(ALL, 2, 4096)), (0, "agent", off(ALL, 2)),
        (0, "agent", ev.DeviceOpened(2, ChipInfo("B2"))), (0, "agent", on(ALL, 4, 128)),
    ],
    "the total of a resync": [
        (0, "agent", on(ALL, 1, 5000)), (0, "agent", on(0, 3, 64)), (0, "agent", ev.ResyncBegin(2)),
        (0, "agent", on(ALL, 7, 128)), (0, "agent", ev.ResyncEnd(2)),
    ],
    "peaks since a reset": [
        (0, "agent", on(ALL, 1, 5000)), (0, "agent", on(ALL, 2, 64)), (0, "agent", off(ALL, 1)),
        (0, "agent", ev.PeaksReset()), (0, "agent", on(ALL, 3, 128)), (0, "agent", off(ALL, 3)),
        (0, "agent", on(0, 4, 64)),
    ],
    "a reset after a split also resets the totals of the source": [
        (0, "agent", on(ALL, 1, 5000)), (0, "agent", on(0, 2, 4096)), (0, "agent", off(0, 2)),
        (0, "agent", off(ALL, 1)), (0, "agent", ev.PeaksReset()), (0, "agent", on((0, 1), 3, 64)),
    ],
    "a total of the source that was split is split again": [
        (0, "agent", on(ALL, 1, 5000)), (0, "agent", on((3, 2, 1, 0), 2, 64)), (0, "agent", on((0, 1), 3, 128)),
        (0, "agent", on(0, 4, 96)), (0, "agent", off((0, 1), 3)), (0, "agent", off(ALL, 1)),
    ],
}  # fmt: skip


@pytest.mark.parametrize("told", SPLITS.values(), ids=SPLITS)
def test_a_split(told: list[Told]) -> None:
    for length in range(1, len(told) + 1):
        steps = [Step(process, source, False, act) for process, source, act in told[:length]]
        follow([steps], Limits(dead_allocations=0), residency=False)

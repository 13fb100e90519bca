# SPDX-License-Identifier: Apache-2.0
"""The ledger and the naive model agree after every event of any stream."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, NamedTuple, Union

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.naive_model import KEPT, Best, Item, Key, NaiveAccount, Party, Sum, Voice, largest, whole
from ttmem.account.allocations import Allocation
from ttmem.account.entities import Process, Source
from ttmem.account.ledger import Ledger
from ttmem.account.live_set import counted_chips
from ttmem.account.phases import phases_json
from ttmem.account.state import Limits
from ttmem.account.totals import Peak, Total
from ttmem.documents.peaks import peaks
from ttmem.documents.snapshot import take_snapshot
from ttmem.model import events as ev
from ttmem.model.core_sets import CoreRange, core_id, mask_of
from ttmem.model.geometry import BOARDS, Arch
from ttmem.model.identity import ChipInfo, ProcessInfo
from ttmem.model.kinds import BUFFER_KINDS, KIND_BY_LABEL, KINDS, POOL_OF, Confidence, Kind, Pool
from ttmem.recording.event_recording import EventRecordingWriter
from ttmem.recording.recording_file import Recording

LAW = settings(max_examples=60, report_multiple_bugs=False)
LESS = settings(LAW, max_examples=100)
CONFIDENCE = {"legacy": Confidence.REPORTED, "client": Confidence.REPORTED, "agent": Confidence.EXACT}


class Burst(NamedTuple):
    """Not an event: many buffers of different sizes, so that the list of the largest has to leave some out."""

    device: int
    kind: Kind
    first: int
    count: int  # type: ignore[assignment]  # a NamedTuple may have a field of this name


class Sample(NamedTuple):
    """Not an event: the history requests the highest values since its last request."""


class Thin(NamedTuple):
    """Not an event: the server drops this many dead allocations."""

    limit: int


Act = Union[ev.Event, Burst, Sample, Thin]


class Step(NamedTuple):
    """One of three processes, and one of its sources. ``late``: even if that process has exited."""

    process: int
    source: str
    late: bool
    act: Act


# -- streams -----------------------------------------------------------------------------------------------------

# Small pools, so that everything collides.
DEVICES = st.sampled_from([0, 0, 0, 1, 1, 2, 3, -1])
ADDRESSES = st.sampled_from([0, 0x1000, 0x1000, 0x2000, 0x3000])
# Per-core writes: on both sides of every border of the NOC grids (10 x 12, 17 x 12) and of the L1 of both families.
CORE_IDS = st.builds(
    core_id,
    st.sampled_from([1, 1, 9, 10, 16, 17]),
    st.sampled_from([2, 2, 11, 12]),
    st.sampled_from([64, 35_167, 35_168, 41_087, 41_088, 105_823, 105_824, 111_744, 1_499_135, 1_499_136, 1_572_864]),
)
SIZES = st.sampled_from([64, 64, 96, 128, 4096, 5000, 0, (100 << 30) + 1])
CORES = st.sampled_from([0, 1, 0b11, 0b110, mask_of([CoreRange(0, 0, 3, 3)])])
SOME_CORES = st.sampled_from([1, 0b11, 0b110, mask_of([CoreRange(0, 0, 3, 3)])])
PROGRAMS = st.integers(0, 2)
REFS = st.sampled_from([0, 0, 0, 0, 1, 2, 3])
RESERVED = st.sampled_from([None, 2048, 8192])

DRAM, L1, CB, KERNEL = Kind.DRAM, Kind.L1, Kind.CB, Kind.KERNEL
# builds() would invent values for all arguments that are not given, so all are given.
NONE, ZERO = st.none(), st.just(0)
ALLOCATORS = st.integers(0, 1)
IDENTS = st.sampled_from([0, 0, 0, 1, 2])  # some sources give buffers numbers of their own
BUFFER_EXTRAS = NONE | st.builds(ev.Extra, RESERVED, ZERO, ALLOCATORS, NONE, st.just(False), NONE, ZERO, st.just(False))
PART_EXTRAS = NONE | st.builds(ev.Extra, RESERVED, CORES, ZERO, NONE, st.booleans(), NONE, ZERO, st.just(False))
BUFFERS = st.sampled_from(BUFFER_KINDS)
PARTS = st.sampled_from(
    [Kind.CB, Kind.CB, Kind.DFB, Kind.SCRATCHPAD, Kind.KERNEL, Kind.FABRIC_KERNEL, Kind.DISPATCH_KERNEL]
)

BUFFER_EVENTS = st.one_of(
    st.builds(ev.Allocated, DEVICES, BUFFERS, ADDRESSES, SIZES, ZERO, REFS, BUFFER_EXTRAS, IDENTS),
    st.builds(ev.Allocated, DEVICES, st.just(Kind.L1), CORE_IDS, SIZES, ZERO, ZERO, NONE, ZERO),
    st.builds(ev.Allocated, DEVICES, st.just(Kind.FIRMWARE), ADDRESSES, SIZES, ZERO, ZERO, NONE, ZERO),
    st.builds(ev.Freed, DEVICES, BUFFERS, ADDRESSES | CORE_IDS, SIZES, ZERO, ALLOCATORS, ZERO, IDENTS),
    st.builds(ev.Freed, DEVICES, NONE, ADDRESSES, st.sampled_from([0, 64, 4096]), ZERO, ZERO, ZERO, ZERO),
    st.builds(Burst, st.integers(0, 3), BUFFERS, st.integers(0, 2), st.integers(1, 30)),
)
PART_EVENTS = st.one_of(
    st.builds(ev.Allocated, DEVICES, PARTS, ADDRESSES, SIZES, PROGRAMS, REFS, PART_EXTRAS, ZERO),
    st.builds(ev.Freed, DEVICES, PARTS, ADDRESSES, SIZES, PROGRAMS, ZERO, CORES, ZERO),
    st.builds(ev.ProgramRun, DEVICES, PROGRAMS, SOME_CORES),
    st.builds(ev.ProgramDestroyed, DEVICES, PROGRAMS),
)
# Few enough values of each kind that events often refer to the same allocation.
LEGACY_EVENTS = st.builds(
    ev.Allocated, st.integers(0, 2), st.sampled_from([DRAM, L1, Kind.HOST, Kind.TRACE]), st.integers(0, 2),
    st.sampled_from([64, 96]), ZERO, ZERO, NONE, ZERO,
) | st.builds(
    ev.Freed, st.sampled_from([0, 0, 0, 1]), NONE | st.sampled_from([L1, Kind.TRACE]), st.integers(0, 2),
    st.sampled_from([0, 0, 64, 96]), ZERO, ZERO, ZERO, ZERO,
)  # fmt: skip
LAUNCH_EVENTS = st.one_of(
    st.builds(
        ev.Allocated, ZERO, st.sampled_from([CB, CB, Kind.DFB, KERNEL]), st.integers(1, 3), st.sampled_from([64, 100]),
        PROGRAMS, ZERO, st.builds(ev.Extra, NONE, SOME_CORES, ZERO, NONE, st.sampled_from([False, False, True])),
        ZERO,
    ),
    st.builds(ev.ProgramRun, ZERO, PROGRAMS, SOME_CORES),
    st.builds(ev.ProgramRun, ZERO, PROGRAMS, SOME_CORES),
)  # fmt: skip
OTHER_EVENTS = st.one_of(
    st.builds(ev.DeviceClosed, DEVICES),
    st.builds(ev.ResyncBegin, st.integers(1, 2)),
    st.builds(ev.ResyncEnd, st.integers(1, 2)),
    st.builds(ev.Lost, st.integers(1, 9)),
    st.builds(ev.Rejected, st.integers(1, 9)),
    st.builds(ev.Claimed, st.integers(1, 9)),
    st.builds(ev.Mark, st.just("here")),
    st.just(ev.ProcessExited()),
    st.just(ev.PeaksReset()),
    st.just(Sample()),
)
PHASE_EVENTS = st.one_of(
    st.builds(ev.PhaseBegan, st.integers(1, 3), st.sampled_from(["prefill", "decode"]), st.integers(0, 3)),
    st.builds(ev.PhaseEnded, st.integers(1, 3)),
)
FEW_KINDS, FEW_PLACES = st.sampled_from([DRAM, DRAM, L1, Kind.TRACE]), st.integers(1, 2)
COMING_AND_GOING = st.one_of(
    st.builds(
        ev.Allocated, st.integers(0, 1), FEW_KINDS, FEW_PLACES, st.sampled_from([64, 96, 4096]), ZERO, ZERO, NONE, ZERO
    ),
    st.builds(ev.Freed, st.integers(0, 1), FEW_KINDS, FEW_PLACES, ZERO, ZERO, ZERO, ZERO, ZERO),
)
CHIPS = st.sampled_from(
    [
        ChipInfo("A", kmd=0, arch=Arch.BLACKHOLE, geometry=BOARDS["p150"]._replace(live=True)),
        ChipInfo("B", kmd=1, board="n150"),
        ChipInfo("C"),
        ChipInfo("assumed:1", arch=Arch.BLACKHOLE),
    ]
)
CHIP_EVENTS = st.builds(ev.DeviceOpened, DEVICES, CHIPS) | st.builds(ev.ChipFound, CHIPS)
CORE_WRITES = st.builds(ev.Allocated, st.integers(0, 1), st.just(L1), CORE_IDS, st.just(64), ZERO, ZERO, NONE, ZERO)


Stream = list[list[Step]]  # a list of lists grows longer than a list, and shrinks as well


def weighted(*acts: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Each of these as often as it is listed. one_of() takes all parts of all of them equally often, each once."""
    return st.integers(0, len(acts) - 1).flatmap(acts.__getitem__)


def steps(*acts: st.SearchStrategy[Any], sources: tuple[str, ...] = ()) -> st.SearchStrategy[Stream]:
    """Streams of these acts. If no sources are given, each process has its own source."""
    names = st.sampled_from(sources or ("",))
    step = st.builds(Step, st.integers(0, 2), names, st.booleans(), weighted(*acts))
    return st.lists(st.lists(step, max_size=12), max_size=12)


def long_steps(*acts: st.SearchStrategy[Any], sources: tuple[str, ...] = ()) -> st.SearchStrategy[Stream]:
    """The same for one process instead of three, and never short."""
    names = st.sampled_from(sources or ("",))
    step = st.builds(Step, st.sampled_from([0, 0, 0, 1]), names, st.just(False), weighted(*acts))
    return st.lists(step, min_size=20, max_size=60).map(lambda stream: [stream])


EVERY_SOURCE = ("legacy", "client", "agent")
ONE_SOURCE = steps(BUFFER_EVENTS, BUFFER_EVENTS, PART_EVENTS, OTHER_EVENTS)
MOVING_CHIPS = steps(BUFFER_EVENTS, BUFFER_EVENTS, PART_EVENTS, CHIP_EVENTS, OTHER_EVENTS)
TWO_SOURCES = steps(BUFFER_EVENTS, BUFFER_EVENTS, PART_EVENTS, OTHER_EVENTS, sources=EVERY_SOURCE)
EVERYTHING = steps(BUFFER_EVENTS, PART_EVENTS, CHIP_EVENTS, OTHER_EVENTS, sources=EVERY_SOURCE)
# Long and mostly of one process, so that phases contain some events.
PHASE_STEPS = (*[COMING_AND_GOING] * 6, *[PHASE_EVENTS] * 4, OTHER_EVENTS)
PHASES_OF_ONE = long_steps(*PHASE_STEPS)
WITH_PHASES = long_steps(*PHASE_STEPS, PART_EVENTS, *[CHIP_EVENTS] * 2, sources=EVERY_SOURCE)
WITH_THINNING = steps(BUFFER_EVENTS, PART_EVENTS, OTHER_EVENTS, st.builds(Thin, st.integers(1, 9)))


def as_said_by(name: str, event: ev.Event) -> ev.Event:
    """A legacy source does not report what the legacy protocol cannot express."""
    if name == "legacy" and isinstance(event, ev.Allocated):
        kind = event.kind if event.kind not in (Kind.DFB, Kind.SCRATCHPAD, Kind.FIRMWARE) else Kind.CB
        return ev.Allocated(event.device, kind, event.address, event.size)
    if name == "legacy" and isinstance(event, ev.Freed):
        return ev.Freed(event.device, event.kind or None, event.address, event.size)
    return event


class Both:
    """The ledger and the model, with the same events."""

    def __init__(self, limits: Limits = Limits(), journal: EventRecordingWriter | None = None) -> None:
        self.ledger = Ledger(limits)
        self.model = NaiveAccount(limits.allocations_per_process)
        self.time = 0.0
        self.journal = journal
        self.processes: dict[Party, Process] = {}
        self._lives = Counter[int]()
        self._sources: dict[tuple[int, int, str], tuple[Source, Voice]] = {}

    def play(self, stream: Stream) -> Iterator[None]:
        """Yields after every event."""
        for process, source, late, act in chain.from_iterable(stream):
            name = source or EVERY_SOURCE[process]
            if isinstance(act, Burst):
                for i in range(act.count):
                    address = 0x10_0000 * (act.first + 1) + i
                    self.tell(process, name, late, ev.Allocated(act.device, act.kind, address, 10 + i * 7))
                    yield
            elif isinstance(act, Sample):
                self.sample()
            elif isinstance(act, Thin):
                self.ledger.thin_dead_allocations(act.limit)
                yield
            else:
                self.tell(process, name, late, as_said_by(name, act))
                yield

    def tell(self, process: int, name: str, late: bool, event: ev.Event) -> Allocation | None:
        self.time += 1.0
        source: Source | None = None
        voice: Voice | None = None
        if not isinstance(event, (ev.ChipFound, ev.PeaksReset, ev.Mark)):  # these are about the machine
            source, voice = self._source(process, name, late)
        if self.journal is not None:
            self.journal.write(self.time, source, event)
        self.model.apply(self.time, voice, event)
        return self.apply(source, event)

    def apply(self, source: Source | None, event: ev.Event) -> Allocation | None:
        return self.ledger.apply(self.time, source, event)

    def _source(self, process: int, name: str, late: bool) -> tuple[Source, Voice]:
        found = self._sources.get((process, self._lives[process], name))
        if found is not None and found[1].party.exited and not late:
            found = None
        if found is None:
            if any(voice.party.exited for (p, life, _), (_, voice) in self._sources.items() if p == process):
                self._lives[process] = sum(
                    1 for snapshot in self.model.departed if snapshot.party.info.pid == 100 + process
                )
            info = ProcessInfo(100 + process, self._lives[process])
            found = (
                self.ledger.source(self.time, info, name, CONFIDENCE[name]),
                self.model.voice(info, name, CONFIDENCE[name]),
            )
            self._sources[process, self._lives[process], name] = found
            self.processes[found[1].party] = found[0].process
        return found

    # -- comparing -----------------------------------------------------------------------------------------------

    def totals(self) -> Iterator[tuple[Key, Total]]:
        for chip_id, chip in self.ledger.chips.items():
            yield from ((("kind", chip_id, kind), chip.kinds[kind]) for kind in KINDS)
            yield from ((("pool", chip_id, pool), chip.pools[pool]) for pool in Pool)
        for party in self.model.parties.values():
            process = self.processes[party]
            for chip_id, share in process.shares.items():
                yield from ((("share", party, chip_id, pool), share.pools[pool]) for pool in Pool)
            for voice in party.voices.values():
                for (number, kind), total in process.sources[voice.name].totals.items():
                    yield ("source", voice, number, kind), total

    def compare(self) -> None:
        """Everything that can be queried at any moment."""
        sums = self.model.sums()
        totals = list(self.totals())
        assert {k: (t.used, t.count, t.reserved, t.known) for k, t in totals if t.count or t.used or t.known} == sums
        assert [(k, t.reserved_peak) for k, t in totals] == [(k, self.model.reserved_peak.get(k, 0)) for k, _ in totals]
        for recent, best in ((False, self.model.peak), (True, self.model.recent)):
            highest = [(k, (t.recent if recent else t.peak).value) for k, t in totals]
            assert highest == [(k, best[k].value if k in best else 0) for k, _ in totals]
        self._compare_allocations(sums)
        for party, process in self.processes.items():
            assert +process.anomalies == +party.anomalies, party.info
            if not party.exited:
                assert process.count == self.model.live_count(party)
        assert +self.ledger.anomalies == sum((party.anomalies for party in self.processes), Counter())
        assert self.ledger.live_count() == len(whole(self.model.live))
        used = self.model.used_by_number()
        for number in range(4):
            assert self.ledger.used_by_number(number) == [used[number, kind] for kind in KINDS]

    def _compare_allocations(self, sums: dict[Key, Sum]) -> None:
        allocations = list(self.ledger.allocations())
        faces = Counter((*face(t, number), t.refs) for t in allocations for number in t.holding.numbers)
        assert faces == Counter((*i.face, i.refs) for i in self.model.live)
        counted = Counter[Key]()
        for allocation in allocations:
            for chip in counted_chips(allocation):
                counted["kind", chip.id, allocation.kind] += allocation.counted
        assert +counted == +Counter({key: total.used for key, total in sums.items() if key[0] == "kind"})

    def compare_residency(self) -> None:
        known = self.residencies()
        assert known == [(chip_id, kind, self.model.resident(chip_id, kind)) for chip_id, kind, _ in known]

    def residencies(self) -> list[tuple[str, Kind, int | None]]:
        return [
            (chip_id, kind, chip.resident_bytes(kind))
            for chip_id, chip in self.ledger.chips.items() for kind in (Kind.CB, Kind.DFB, Kind.KERNEL)
        ]  # fmt: skip

    def compare_phases(self) -> None:
        for party, process in self.processes.items():
            said: Any = phases_json(process)
            assert [(p["path"], p["complete"], rows_in(p["rows"])) for p in said["open"]] == [
                (p.path, p.complete, self.model.rows(p, party)) for p in party.phases.values()
            ]
            for path in said["ended"]:
                runs = party.runs[path["path"]]
                assert (path["runs"], path["partial"]) == (len(runs), sum(not run.complete for run in runs))
                assert path["seconds"] == sum(run.seconds for run in runs)
                corners = {corner for run in runs for corner in run.rows}
                assert rows_in(row["last"] | row for row in path["rows"]).keys() == corners
                for row in path["rows"]:
                    ((corner, _),) = rows_in([row | row["last"]]).items()
                    done = [run.rows.get(corner, (0, 0, 0)) for run in runs]
                    assert row["peak"] == max(peak for _, peak, _ in done)
                    assert row["delta"] == sum(end - begin for begin, _, end in done)
                    last = row["last"]
                    assert (last["begin"], last["peak"], last["end"]) == done[-1]
                    assert last["delta"] == last["end"] - last["begin"]
            assert {path["path"] for path in said["ended"]} == party.runs.keys()

    def sample(self) -> None:
        highs: dict[Total, int] = {}
        for key, total in self.totals():
            if key[0] in ("kind", "pool"):
                if total not in highs:
                    highs[total] = total.take_high()
                assert highs[total] == self.model.take_high(key), key

    def compare_peaks(self) -> None:
        for recent, best in ((False, self.model.peak), (True, self.model.recent)):
            found: dict[Key, Any] = {}
            for row in peaks(self.ledger, recent=recent):
                for chip in row["chips"]:
                    kind = next((("kind", chip, kind) for kind in KINDS if kind.label == row.get("kind")), None)
                    pool = next((("pool", chip, pool) for pool in Pool if pool.label == row.get("pool")), None)
                    assert (kind or pool or ()) not in found, "a chip is in one row"
                    found[kind or pool or ()] = row
            assert found.keys() == {key for key, it in best.items() if key[0] in ("kind", "pool") and it.value}
            for key, row in found.items():
                assert (key, row["per_chip"], row["time"]) == (key, best[key].value, best[key].time)
                same_largest(key, [face_in(allocation, key[1]) for allocation in row["largest"]], best[key].items)
            for key, total in self.totals():
                if key[0] in ("share", "source"):
                    self._compare_peak_of_a_process(key, total.recent if recent else total.peak, best)

    def _compare_peak_of_a_process(self, key: Key, peak: Peak, best: dict[Key, Best]) -> None:
        expected = best.get(key, Best(0, 0.0, []))
        assert (key, peak.value) == (key, expected.value)
        if peak.value:
            assert (key, peak.time) == (key, expected.time)
            found = self._share_faces(key, peak) if key[0] == "share" else self._source_faces(key, peak)
            same_largest(key, found, expected.items)

    def _share_faces(self, key: Key, peak: Peak) -> list[Face]:
        """The largest allocations of a peak of a pool of a process on a chip."""
        _, party, chip_id, pool = key
        chip = self.ledger.chips[chip_id]
        live = [
            t for h in self.processes[party].holdings() for t in h.allocations()
            if chip in counted_chips(t) and POOL_OF[t.kind] is pool
        ]  # fmt: skip
        return [face(t, t.holding.number_on(chip)) for t in peak.largest(live)]

    def _source_faces(self, key: Key, peak: Peak) -> list[Face]:
        """The largest allocations of a peak of a kind of a source on a device."""
        _, voice, number, kind = key
        holdings = self.processes[voice.party].sources[voice.name].holdings.values()
        live = [t for h in holdings for t in h.allocations() if number in h.numbers and t.kind is kind]
        return [face(t, number) for t in peak.largest(live)]

    def compare_departed(self) -> None:
        """The last snapshot of each process that has exited."""
        assert len(self.ledger.departed) == len(self.model.departed)
        for process, snapshot in zip(self.ledger.departed, self.model.departed):
            assert process is self.processes[snapshot.party]
            assert process.count == len(whole(snapshot.items))
            left = [face(t, t.holding.numbers[0]) for t in process.largest_left(KEPT)]
            same_largest(process.info, left, whole(snapshot.items))
            held = Counter[tuple[str, int, Kind]]()
            for item in snapshot.items:
                held[item.voice.name, item.number, item.kind] += 0 if item.waiting else item.counted
            leaves = Counter[tuple[str, int, Kind]]()
            for h in process.holdings():
                for kind, leaf in zip(KINDS, h.leaves):
                    for number in h.numbers:
                        leaves[h.source.name, number, kind] += 0 if leaf is None else leaf.used
            assert +leaves == +held
            totals = {
                (s.name, *key): total.used for s in process.sources.values() for key, total in s.totals.items()
            }  # fmt: skip
            assert +Counter(totals) == +held
            shares = {
                ("share", snapshot.party, chip_id, pool): share.pools[pool].used
                for chip_id, share in process.shares.items() for pool in Pool
            }  # fmt: skip
            assert +Counter(shares) == +Counter({key: total.used for key, total in snapshot.sums.items()})


def rows_in(rows: Iterable[dict[str, Any]]) -> dict[tuple[str, Any], tuple[int, int, int]]:
    """Rows of a phase, by their totals."""
    found = {}
    for row in rows:
        what = (row["device"], KIND_BY_LABEL[row["kind"]]) if "kind" in row else POOLS[row["pool"]]
        found[row["chip"], what] = (row["begin"], row["peak"], row["end"])
    return found


POOLS = {pool.label: pool for pool in Pool}
Face = tuple[int, int, Kind, int, int]


def face(allocation: Allocation, number: int) -> Face:
    pid = allocation.holding.source.process.info.pid
    return pid, number, allocation.kind, allocation.address, allocation.size


def face_in(row: dict[str, Any], chip: str) -> Face:
    """The row of an allocation, on one of its chips."""
    number = row["devices"][row["chips"].index(chip)]
    return row["pid"], number, KIND_BY_LABEL[row["kind"]], row["address"], row["size"]


def same_largest(about: object, found: list[Any], items: list[Item]) -> None:
    """The largest allocations. Of those with equal size at the cut, any may be in the list."""
    expected = list(largest(items))
    assert sorted(f[-1] for f in found) == sorted(i.size for i in expected), about
    cut = expected[-1].size if len(items) > len(expected) else 0
    assert Counter(f for f in found if f[-1] > cut) == Counter(i.face for i in expected if i.size > cut), about


def follow(stream: Stream, limits: Limits = Limits()) -> Both:
    both = Both(limits)
    for _ in both.play(stream):
        both.compare()
        both.compare_phases()
    both.sample()
    both.compare_peaks()
    both.compare_departed()
    return both


# -- laws --------------------------------------------------------------------------------------------------------


@LAW
@given(ONE_SOURCE)
def test_totals_peaks_and_anomalies(stream: Stream) -> None:
    follow(stream)


@LAW
@given(steps(LEGACY_EVENTS, sources=("legacy",)))
def test_frees_that_do_not_say_the_kind(stream: Stream) -> None:
    follow(stream)


@LAW
@given(steps(LAUNCH_EVENTS, LAUNCH_EVENTS, LAUNCH_EVENTS, PART_EVENTS, OTHER_EVENTS))
def test_residency(stream: Stream) -> None:
    both = Both()
    for _ in both.play(stream):
        both.compare_residency()


@LESS
@given(steps(CORE_WRITES, CORE_WRITES, CHIP_EVENTS, sources=("legacy",)))
def test_writes_to_one_core(stream: Stream) -> None:
    follow(stream)


@LESS
@given(MOVING_CHIPS)
def test_a_device_number_that_turns_out_to_be_another_chip(stream: Stream) -> None:
    follow(stream)


@LESS
@given(TWO_SOURCES)
def test_two_sources_of_one_process(stream: Stream) -> None:
    follow(stream)


@LESS
@given(PHASES_OF_ONE)
def test_phases(stream: Stream) -> None:
    follow(stream)


@LESS
@given(WITH_PHASES)
def test_phases_while_sources_and_chips_change(stream: Stream) -> None:
    follow(stream)


@LAW
@given(EVERYTHING)
def test_everything_at_once(stream: Stream) -> None:
    follow(stream)


@LESS
@given(WITH_THINNING)
def test_thinning_graves_changes_no_answer(stream: Stream) -> None:
    both = follow(stream, Limits(dead_allocations=0))
    while both.ledger.thin_dead_allocations(3):
        pass
    both.compare_peaks()
    both.compare_departed()


@LESS
@given(EVERYTHING)
def test_a_full_process_drops_and_counts(stream: Stream) -> None:
    follow(stream, Limits(allocations_per_process=5))


@LESS
@given(WITH_PHASES)
def test_a_replayed_journal_gives_the_same_picture(stream: Stream) -> None:
    file = io.BytesIO()
    journal = EventRecordingWriter(file)
    both = Both(journal=journal)
    for _ in both.play(stream):
        pass
    journal.finish()
    again = Ledger()
    recording = Recording(file)
    last = recording.replay(again)
    assert not recording.problems
    assert last == both.time
    assert take_snapshot(again, time="", host="") == take_snapshot(both.ledger, time="", host="")
    for one, other in zip(again.processes.values(), both.ledger.processes.values()):
        assert phases_json(one) == phases_json(other)
    for recent in (False, True):
        assert peaks(again, recent=recent) == peaks(both.ledger, recent=recent)


# -- cases that the laws found, reduced --------------------------------------------------------------------------

A, B, ASSUMED = ChipInfo("A"), ChipInfo("B"), ChipInfo("assumed:0")
Told = tuple[int, str, ev.Event]

CASES: dict[str, list[Told]] = {
    "a kernel is one load, however many references it is re-sent with": [
        (0, "agent", ev.Allocated(0, KERNEL, 1, 64, refs=2)),
        (0, "agent", ev.Freed(0, KERNEL, 1)),
    ],
    "without an address, the kind still says which one goes": [
        (0, "agent", ev.Allocated(0, DRAM, 0, 64)),
        (0, "agent", ev.Allocated(0, L1, 0, 64)),
        (0, "agent", ev.Freed(0, DRAM, 0, 64)),
    ],
    "without an address, the allocator still says whose it is": [
        (0, "agent", ev.Allocated(0, DRAM, 0, 64, extra=ev.Extra(allocator=1))),
        (0, "agent", ev.Freed(0, DRAM, 0, 64, allocator=0)),
    ],
    "without an address, the last reference frees": [
        (0, "agent", ev.Allocated(0, DRAM, 0, 64, refs=2)),
        (0, "agent", ev.Freed(0, DRAM, 0, 64)),
        (0, "agent", ev.Freed(0, DRAM, 0, 64)),
    ],
    "what is set aside after a peak was part of it": [
        (0, "legacy", ev.Allocated(0, L1, 0x1000, 64)),
        (0, "agent", ev.Allocated(0, L1, 0x1000, 32)),
    ],
    "what moves to another chip was part of the old one's peak": [
        (0, "agent", ev.Allocated(0, L1, 0x1000, 64)),
        (1, "agent", ev.Allocated(0, L1, 0x1000, 32)),
        (0, "agent", ev.DeviceOpened(0, A)),
    ],
    "what moves in was not part of the new chip's earlier peak": [
        (0, "agent", ev.Allocated(0, L1, 0x1000, 64)),
        (1, "agent", ev.DeviceOpened(0, A)),
        (1, "agent", ev.Allocated(0, L1, 0x2000, 128)),
        (1, "agent", ev.Freed(0, L1, 0x2000)),
        (0, "agent", ev.DeviceOpened(0, A)),
    ],
    "the weaker source makes no peak while both move": [
        (0, "legacy", ev.Allocated(0, L1, 0x1000, 128)),
        (0, "agent", ev.Allocated(0, L1, 0x1000, 64)),
        (0, "agent", ev.DeviceOpened(0, A)),
    ],
    "the first that spoke still counts after a move": [
        (0, "client", ev.Lost(1)),
        (0, "legacy", ev.Allocated(0, L1, 0x1000, 64)),
        (0, "client", ev.Allocated(0, L1, 0x1000, 32)),
        (0, "client", ev.DeviceOpened(0, A)),
    ],
    "the weaker source counts once the stronger has left the chip": [
        (0, "agent", ev.DeviceOpened(1, A)),
        (0, "agent", ev.DeviceOpened(2, A)),
        (0, "agent", ev.Allocated(1, L1, 0x1000, 64)),
        (0, "client", ev.Allocated(2, L1, 0x1000, 32)),
        (0, "agent", ev.DeviceOpened(1, B)),
    ],
    "the stronger source is still there under its other number": [
        (0, "agent", ev.DeviceOpened(1, A)),
        (0, "agent", ev.DeviceOpened(2, A)),
        (0, "agent", ev.Allocated(1, L1, 0x1000, 64)),
        (0, "agent", ev.Allocated(2, L1, 0x1000, 64)),
        (0, "agent", ev.DeviceOpened(1, B)),
        (0, "client", ev.Allocated(2, L1, 0x1000, 32)),
    ],
    "no peak is made of one source's L1 and another's CBs while they change places": [
        (0, "client", ev.DeviceOpened(1, A)),
        (0, "client", ev.Allocated(1, L1, 0x1000, 50)),
        (0, "client", ev.Allocated(1, CB, 0x1000, 90)),
        (0, "agent", ev.Allocated(0, L1, 0x1000, 100)),
        (0, "agent", ev.Allocated(0, CB, 0x1000, 10)),
        (0, "agent", ev.DeviceOpened(0, A)),
    ],
    "the first that spoke is next when the strongest leaves": [
        (0, "client", ev.DeviceOpened(1, A)),
        (0, "client", ev.DeviceOpened(2, A)),
        (0, "client", ev.Lost(1)),
        (0, "legacy", ev.Allocated(2, L1, 0x1000, 64)),
        (0, "client", ev.Allocated(2, L1, 0x1000, 32)),
        (0, "agent", ev.Allocated(1, L1, 0x1000, 16)),
        (0, "agent", ev.DeviceOpened(1, B)),
    ],
    "the youngest is still the youngest after a move": [
        (0, "legacy", ev.Allocated(0, DRAM, 0x1000, 64)),
        (0, "legacy", ev.Allocated(0, L1, 0x1000, 64)),
        (0, "legacy", ev.DeviceOpened(0, A)),
        (0, "legacy", ev.Freed(0, None, 0x1000)),
    ],
    "the youngest after a move may have replaced an older one": [
        (0, "legacy", ev.Allocated(0, L1, 0x1000, 64)),
        (0, "legacy", ev.Allocated(0, DRAM, 0x1000, 64)),
        (0, "legacy", ev.Allocated(0, L1, 0x1000, 96)),
        (0, "legacy", ev.DeviceOpened(0, A)),
        (0, "legacy", ev.Freed(0, None, 0x1000)),
    ],
    "allocations of one size that moved together are told apart": [
        (0, "agent", ev.Allocated(0, DRAM, 0x1000, 64)),
        (0, "agent", ev.Allocated(0, DRAM, 0x2000, 64)),
        (0, "agent", ev.DeviceOpened(0, A)),
        (0, "agent", ev.Freed(0, DRAM, 0x1000)),
        (0, "agent", ev.Freed(0, DRAM, 0x2000)),
    ],
    "an assumed chip is not forgotten while somebody means it": [
        (0, "agent", ev.DeviceOpened(0, ASSUMED)),
        (1, "agent", ev.DeviceOpened(0, ASSUMED)),
        (0, "agent", ev.DeviceOpened(0, A)),
        (1, "agent", ev.Allocated(0, L1, 0x1000, 64)),
    ],
    "an assumed chip is forgotten once": [
        (0, "agent", ev.DeviceOpened(0, ASSUMED)),
        (1, "agent", ev.DeviceOpened(0, ASSUMED)),
        (0, "agent", ev.DeviceOpened(0, A)),
        (1, "agent", ev.DeviceOpened(0, A)),
    ],
}  # fmt: skip
FULL_CASES: dict[str, list[Told]] = {
    "an allocation without an address that was dropped cannot be freed": [
        (0, "agent", ev.Allocated(0, DRAM, 0x1000, 64)),
        (0, "agent", ev.Allocated(0, DRAM, 0, 64)),
        (0, "agent", ev.Freed(0, DRAM, 0, 64)),
    ],
    "a program whose only part was dropped is not known": [
        (0, "agent", ev.Allocated(0, DRAM, 0x1000, 64)),
        (0, "agent", ev.Allocated(0, CB, 0x1000, 64, program=7)),
        (0, "agent", ev.ProgramDestroyed(0, 7)),
    ],
}


@pytest.mark.parametrize("told", CASES.values(), ids=CASES)
def test_case(told: list[Told]) -> None:
    follow([[Step(process, source, False, event) for process, source, event in told]])


@pytest.mark.parametrize("told", FULL_CASES.values(), ids=FULL_CASES)
def test_case_of_a_full_process(told: list[Told]) -> None:
    follow(
        [[Step(process, source, False, event) for process, source, event in told]], Limits(allocations_per_process=1)
    )


def held_and_resident(chip_id: str, *told: Told) -> tuple[int, int | None]:
    both = Both()
    for process, source, event in told:
        both.tell(process, source, False, event)
    chip = both.ledger.chips[chip_id]
    return chip.kinds[CB].used, chip.resident_bytes(CB)


BUFFER = ev.Allocated(0, CB, 0x1000, 64, program=1, extra=ev.Extra(cores=1))


def test_residency_moves_with_the_device_number() -> None:
    moved = ((0, "agent", BUFFER), (0, "agent", ev.ProgramRun(0, 1, 1)), (0, "agent", ev.DeviceOpened(0, A)))
    assert held_and_resident("A", *moved) == (64, 64)


def test_what_is_set_aside_is_not_resident() -> None:
    """Both sources report the same launch, but only the buffers of the stronger one count (rule 12)."""
    weaker = BUFFER._replace(size=200)
    sources: list[Told] = [(0, "agent", BUFFER), (0, "client", weaker)]
    launches: list[Told] = [(0, "agent", ev.ProgramRun(0, 1, 1)), (0, "client", ev.ProgramRun(0, 1, 1))]
    assert held_and_resident("assumed:0", *sources, *launches) == (64, 64)


def test_a_chip_that_moves_takes_along_only_what_its_own_sources_see() -> None:
    """The agent of another process saw no dataflow buffers on the assumed chip. For this process, they are unknown."""
    both = Both()
    both.tell(0, "legacy", False, ev.Allocated(0, L1, 0x1000, 64))
    both.tell(1, "agent", False, ev.Allocated(0, L1, 0x1000, 64))
    both.tell(0, "legacy", False, ev.DeviceOpened(0, A))
    missing = {
        chip["chip"]: chip["memory"]["missing"] for chip in take_snapshot(both.ledger, time="", host="")["chips"]
    }
    assert "dfb" in missing["A"]
    assert "dfb" not in missing["assumed:0"]


def test_who_has_exited_does_not_come_back() -> None:
    """The first bytes of its second connection may be read after its death was seen."""
    ledger, info = Ledger(), ProcessInfo(7, 1)
    agent = ledger.source(0.0, info, "agent", Confidence.EXACT)
    ledger.apply(1.0, agent, ev.ProcessExited())
    legacy = ledger.source(2.0, info, "legacy", Confidence.REPORTED)
    assert ledger.apply(2.0, legacy, ev.Allocated(0, L1, 0x1000, 64)) is None
    assert ledger.live_count() == 0
    assert ledger.anomalies == {"after_exit": 1}


@pytest.mark.parametrize("held", [0, 1])
@pytest.mark.parametrize("end", [ev.DeviceClosed(0), ev.ProcessExited()])
def test_the_dead_leave_little_behind(held: int, end: ev.Event) -> None:
    """A server runs for months (rule 15): allocations of dead processes are dropped when they are no longer needed."""
    both = Both(Limits(dead_allocations=0, departed=2))
    both.tell(1, "agent", False, ev.Allocated(0, L1, 0x1000, 10_000))
    for _ in range(300):
        both.tell(0, "agent", False, ev.Allocated(0, L1, 0x2000, 64))
        if not held:
            both.tell(0, "agent", False, ev.Freed(0, L1, 0x2000))
        both.tell(0, "agent", False, end)
        while both.ledger.thin_dead_allocations(10):
            pass
    chip = both.ledger.chips["assumed:0"]
    kept = [dead for total in chip.totals() for peak in (total.peak, total.recent) for dead in peak.dead_allocations]
    assert len(kept) < 100
    assert len(both.ledger.dead_allocations) < 100


def test_programs_have_a_cap() -> None:
    ledger = Ledger(Limits(programs_per_process=10))
    source = ledger.source(0.0, ProcessInfo(7, 1), "agent", Confidence.EXACT)
    for program in range(300):
        ledger.apply(0.0, source, ev.ProgramRun(program % 3, program, 1))
    for program in range(1000, 1005):
        ledger.apply(0.0, source, ev.ProgramCompiled(0, program, 64, program, "relu"))
    assert sum(len(holding.programs) for holding in ledger.holdings()) == 10
    assert ledger.anomalies == {"dropped": 295}

# SPDX-License-Identifier: Apache-2.0
"""Devices that turn out to be other chips, also if a process reports one chip for several device numbers.

A mesh may then have two devices on one chip. What is on such a mesh is in the totals of that chip once.
"""

from __future__ import annotations

import itertools
import sys
from collections import Counter
from types import FrameType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.naive_model import Item, Key, NaiveAccount, largest
from tests.unit.test_ledger_properties import Both, Sample, Step, Stream, face, weighted
from ttmem.account.entities import Source
from ttmem.account.ledger import Ledger
from ttmem.account.live_set import counted_chips
from ttmem.model import events as ev
from ttmem.model.identity import ChipInfo, ProcessInfo
from ttmem.model.kinds import POOL_OF, Confidence, Kind, Pool

LAW = settings(max_examples=60, report_multiple_bugs=False)

NUMBERS = range(3)
MESHES: tuple[Any, ...] = ((0, 1, 2), (0, 1), (1, 2), (2, 0), 0, 1, 2)
ADDRESSES = st.integers(1, 3)
KINDS_OF_BUFFERS = st.sampled_from([Kind.DRAM, Kind.DRAM, Kind.TRACE, Kind.L1])
RESERVED = st.sampled_from([None, ev.Extra(2048), ev.Extra(8192)])
BUFFERS = weighted(
    *[
        st.builds(
            ev.Allocated, st.sampled_from(MESHES), KINDS_OF_BUFFERS, ADDRESSES, st.sampled_from([64, 96, 4096]),
            st.just(0), st.just(0), RESERVED,
        )
    ] * 3,
    st.builds(ev.Freed, st.sampled_from(MESHES), KINDS_OF_BUFFERS, ADDRESSES),
)  # fmt: skip
MOVES = st.builds(ev.DeviceOpened, st.sampled_from(NUMBERS), st.sampled_from([ChipInfo(name) for name in "ABCD"]))
OTHERS = st.one_of(
    st.builds(ev.DeviceClosed, st.sampled_from(MESHES)),
    st.builds(ev.PhaseBegan, st.integers(1, 2), st.just("prefill"), st.just(0)),
    st.builds(ev.PhaseEnded, st.integers(1, 2)),
    st.builds(ev.ResyncBegin, st.just(2)),
    st.builds(ev.ResyncEnd, st.just(2)),
    st.just(ev.PeaksReset()),
    st.just(Sample()),
)
SOURCES = ("agent", "client")
STREAMS = st.lists(
    st.builds(
        Step, st.sampled_from([0, 0, 0, 1]), st.sampled_from(SOURCES), st.just(False),
        weighted(*[BUFFERS] * 4, *[MOVES] * 3, OTHERS),
    ),
    min_size=15, max_size=50,
).map(lambda steps: [steps])  # fmt: skip


class OncePerChip(NaiveAccount):
    """The naive account has an item for each device of a mesh. Of those on one chip, only the first counts there."""

    def _keys(self, item: Item) -> list[Key]:
        keys, numbers = super()._keys(item), ev.device_numbers(item.device)
        before = numbers[: numbers.index(item.number)]
        again = any(item.voice.party.numbers[number] == item.chip for number in before)
        return [key for key in keys if key[0] == "source"] if again else keys


class BothOncePerChip(Both):
    """The ledger and the model, after each source has used each mesh: two devices on one chip cannot become a mesh."""

    def __init__(self) -> None:
        super().__init__()
        self.model = OncePerChip()
        for process in range(2):
            for number in NUMBERS:
                self.tell(process, "agent", False, ev.DeviceOpened(number, ChipInfo("ABC"[number])))
            for source, device in itertools.product(SOURCES, MESHES):
                self.tell(process, source, False, ev.ProgramRun(device, 1, 1))

    def _compare_allocations(self, sums: dict[Key, Any]) -> None:
        allocations = list(self.ledger.allocations())
        faces = Counter((*face(t, number), t.refs) for t in allocations for number in t.holding.numbers)
        assert faces == Counter((*i.face, i.refs) for i in self.model.live)
        holdings = list(self.ledger.holdings())
        for chip in self.ledger.chips.values():
            assert Counter(chip.holdings) == Counter(holding for holding in holdings if chip in holding.chips)

    def compare_contents(self) -> None:
        """The peaks of chips: when, and how large what was live then is. A chip may have other numbers than then."""
        live = list(self.ledger.allocations())
        for key, total in self.totals():
            if key[0] not in ("kind", "pool"):
                continue
            here = [
                t for t in live
                if key[2] is (t.kind if key[0] == "kind" else POOL_OF[t.kind])
                and any(chip.id == key[1] for chip in counted_chips(t))
            ]  # fmt: skip
            for peak, best in ((total.peak, self.model.peak), (total.recent, self.model.recent)):
                if peak.value:
                    assert (key, peak.time) == (key, best[key].time)
                    assert [t.size for t in peak.largest(here)] == [i.size for i in largest(best[key].items)], key


@LAW
@given(STREAMS)
def test_one_chip_for_several_device_numbers(stream: Stream) -> None:
    both = BothOncePerChip()
    for _ in both.play(stream):
        both.compare()
        both.compare_phases()
        both.compare_contents()
    both.sample()
    for process in range(2):
        both.tell(process, "agent", False, ev.ProcessExited())
        both.compare()
    both.compare_departed()


def test_the_streams_contain_meshes_with_two_devices_on_one_chip() -> None:
    seen = Counter[str]()

    def play(stream: Stream) -> None:
        both = BothOncePerChip()
        before = Counter[Key]()
        for _ in both.play(stream):
            now = Counter[Key]()
            for item in both.model.live:
                if isinstance(item.device, tuple) and both.model.counts(item):
                    now[(item.voice, item.device, item.kind, item.address), item.chip] += 1
            twice = [key for key, count in now.items() if count > 1]
            seen["one of two devices left the chip"] += sum(before[key] == 2 and now[key] == 1 for key in before)
            seen["a second device came to the chip"] += sum(before[key] == 1 for key in twice)
            before = now

    LAW(given(STREAMS)(play))()
    assert min(seen[what] for what in ("one of two devices left the chip", "a second device came to the chip")) > 20


Told = tuple[str, ev.Event]


def opened(number: int, chip: str) -> Told:
    return "agent", ev.DeviceOpened(number, ChipInfo(chip))


def dram(device: Any, size: int, source: str = "agent") -> Told:
    return source, ev.Allocated(device, Kind.DRAM, 0x1000, size)


# What is used after each event, on the chips A, B, C and D. In the beginning, devices 0, 1 and 2 are A, B and C.
CONTRADICTIONS: dict[str, list[tuple[Told, list[int]]]] = {
    "a mesh comes to one chip twice, and leaves it device by device": [
        (dram((0, 1), 100), [100, 100, 0, 0]),
        (opened(1, "A"), [100, 0, 0, 0]),
        (opened(0, "D"), [100, 0, 0, 100]),
        (opened(1, "B"), [0, 100, 0, 100]),
    ],
    "the other device leaves first": [
        (dram((0, 1), 100), [100, 100, 0, 0]),
        (opened(1, "A"), [100, 0, 0, 0]),
        (opened(1, "D"), [100, 0, 0, 100]),
        (opened(0, "B"), [0, 100, 0, 100]),
    ],
    "two devices move to the same new chip": [
        (dram((0, 1), 100), [100, 100, 0, 0]),
        (opened(0, "D"), [0, 100, 0, 100]),
        (opened(1, "D"), [0, 0, 0, 100]),
        (opened(0, "A"), [100, 0, 0, 100]),
    ],
    "a device of its own leaves the chip on which the mesh stays": [
        (dram((0, 1), 100), [100, 100, 0, 0]),
        (dram(1, 30), [100, 130, 0, 0]),
        (opened(1, "A"), [130, 0, 0, 0]),
        (opened(1, "C"), [100, 0, 130, 0]),
    ],
    "another mesh of the same source leaves the chip": [
        (dram((0, 1, 2), 100), [100, 100, 100, 0]),
        (dram((1, 2), 7), [100, 107, 107, 0]),
        (opened(2, "A"), [107, 107, 0, 0]),
        (opened(0, "D"), [107, 107, 0, 100]),
        (opened(2, "C"), [0, 107, 107, 100]),
    ],
    "the source with less confidence still does not count where the mesh of the other one stays": [
        (dram((0, 1), 100), [100, 100, 0, 0]),
        (dram((0, 1), 30, "client"), [100, 100, 0, 0]),
        (opened(1, "A"), [100, 0, 0, 0]),
        (opened(1, "D"), [100, 0, 0, 100]),
    ],
    "the source with less confidence counts where only its mesh stays": [
        (dram((0, 1), 30, "client"), [30, 30, 0, 0]),
        (dram(1, 100), [30, 100, 0, 0]),
        (opened(1, "A"), [100, 0, 0, 0]),
        (opened(1, "D"), [30, 0, 0, 100]),
    ],
    "it is freed everywhere": [
        (dram((0, 1), 100), [100, 100, 0, 0]),
        (opened(1, "A"), [100, 0, 0, 0]),
        (opened(0, "D"), [100, 0, 0, 100]),
        (("agent", ev.Freed((0, 1), Kind.DRAM, 0x1000)), [0, 0, 0, 0]),
    ],
}


def tracked() -> tuple[Ledger, dict[str, Source]]:
    ledger, info = Ledger(), ProcessInfo(1, 7)
    sources = {
        "agent": ledger.source(0.0, info, "agent", Confidence.EXACT),
        "client": ledger.source(0.0, info, "client", Confidence.REPORTED),
    }
    for number, chip in enumerate("ABC"):
        ledger.apply(0.0, sources["agent"], ev.DeviceOpened(number, ChipInfo(chip)))
    return ledger, sources


@pytest.mark.parametrize("told", CONTRADICTIONS.values(), ids=CONTRADICTIONS)
def test_totals_of_a_process_that_contradicts_itself(told: list[tuple[Told, list[int]]]) -> None:
    ledger, sources = tracked()
    ledger.apply(0.0, None, ev.ChipFound(ChipInfo("D")))
    for (source, event), used in told:
        ledger.apply(1.0, sources[source], event)
        assert [ledger.chips[chip].kinds[Kind.DRAM].used for chip in "ABCD"] == used, event
        assert [ledger.chips[chip].pools[Pool.DRAM].used for chip in "ABCD"] == used, event
        listed = Counter[str]()
        for allocation in ledger.allocations():
            for chip in counted_chips(allocation):
                listed[chip.id] += allocation.size
        assert [listed[chip] for chip in "ABCD"] == used, event


def test_a_program_stays_resident_on_the_chip_of_the_other_device() -> None:
    ledger, sources = tracked()
    agent = sources["agent"]
    for event in (
        ev.Allocated((0, 1), Kind.CB, 0x1000, 64, 1, extra=ev.Extra(cores=0b11)),
        ev.Allocated(0, Kind.CB, 0x1000, 100, 2, extra=ev.Extra(cores=0b10)),
        ev.ProgramRun((0, 1), 1, 0b11),
        ev.ProgramRun(0, 2, 0b10),
        ev.DeviceOpened(1, ChipInfo("A")),
    ):
        ledger.apply(1.0, agent, event)

    def resident(chip: str) -> list[tuple[int, int]]:
        return [(program.ident, cores) for program, cores in ledger.chips[chip].resident_programs()]

    assert resident("A") == [(1, 0b01), (2, 0b10)], "what ran last there did so before device 1 came"
    assert resident("B") == []
    ledger.apply(1.0, agent, ev.DeviceOpened(1, ChipInfo("D")))
    assert resident("A") == [(1, 0b01), (2, 0b10)]
    assert resident("D") == [(1, 0b01)]


@pytest.mark.parametrize("while_it_moves", [False, True])
def test_a_phase_does_not_have_the_maximum_of_a_chip_before_everything_left_it(while_it_moves: bool) -> None:
    """Device 0 stays on the chip. It has only L1 until it allocates DRAM, too."""
    both = Both()
    phase = ev.PhaseBegan(1, "prefill")
    events: list[ev.Event] = [
        ev.DeviceOpened(0, ChipInfo("A")),
        ev.DeviceOpened(1, ChipInfo("A")),
        ev.Allocated(0, Kind.L1, 0x1000, 64),
        *([phase] if while_it_moves else []),
        ev.Allocated(1, Kind.DRAM, 0x1000, 128),
        ev.DeviceOpened(1, ChipInfo("B")),
        *([] if while_it_moves else [phase]),
        ev.Allocated(0, Kind.DRAM, 0x1000, 64),
    ]
    for event in events:
        both.tell(0, "agent", False, event)
        both.compare()
        both.compare_phases()


def calls_of_a_move(meshes: int, *, launched: bool, stays: bool) -> int:
    """The number of function calls for a device that turns out to be another chip.

    ``stays``: the device that moves is not one of the meshes, which all stay on its old chip.
    """
    ledger, sources = tracked()
    for number in range(3, 6):
        ledger.apply(0.0, sources["agent"], ev.DeviceOpened(number, ChipInfo(str(number))))
    for number, mesh in enumerate(itertools.islice(itertools.permutations(range(1, 6)), meshes)):
        for source in ("client",) if stays else sources:
            ledger.apply(1.0, sources[source], ev.Allocated(mesh, Kind.DRAM, 0x1000, 64))
            if launched:
                ledger.apply(1.0, sources[source], ev.ProgramRun(mesh, 1, 1 << number))
    ledger.apply(1.0, sources["agent"], ev.Allocated(0, Kind.DRAM, 0x1000, 64))
    if stays:
        ledger.apply(1.0, sources["agent"], ev.DeviceOpened(0, ChipInfo("B")))
    calls = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        ledger.apply(2.0, sources["agent"], ev.DeviceOpened(0 if stays else 1, ChipInfo("D")))
    finally:
        sys.setprofile(before)
    assert ledger.chips["D"].kinds[Kind.DRAM].used == (64 if stays else 64 * meshes)
    return calls


@pytest.mark.parametrize("stays", [False, True])
@pytest.mark.parametrize("launched", [False, True])
def test_the_cost_of_a_move_is_proportional_to_the_number_of_meshes(launched: bool, stays: bool) -> None:
    few, many = (calls_of_a_move(meshes, launched=launched, stays=stays) for meshes in (30, 120))
    assert many < 4.5 * few

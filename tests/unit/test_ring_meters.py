# SPDX-License-Identifier: Apache-2.0
"""The reader of meters, windows and open phases: on memory that is written by hand, sensible or not, or by an agent."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator

import pytest
from native.tests.build import build

from tests.ring_memory import RingMemory
from ttmem.wire.agent_ring import GAUGES, Ring, RingError
from ttmem.wire.ring_meters import Measured, Meter, MeterGroup, OpenPhase, Window, measured, meters

ALL = len(GAUGES)
DRAM = GAUGES.index("dram")
NOTHING = Meter(0, 0, 0, 0, 0, 0)


@pytest.fixture
def memory() -> Iterator[RingMemory]:
    made = RingMemory(meters=ALL + 4, windows=3, phases=3)
    for index, number in enumerate((7, 3, 5)):
        made.put_chip(index, number=number)
    made.put(meters_turn=2)
    yield made
    made.close()


@pytest.fixture
def ring(memory: RingMemory) -> Iterator[Ring]:
    made = memory.open()
    yield made
    made.close()


def two_groups(memory: RingMemory) -> None:
    memory.put_meter(DRAM, gauge=DRAM, used=50)
    memory.put_meter(ALL, chips=0b101, gauge=DRAM, used=20, reserved=24, high=30, reserved_high=32, peak=28,
                     reserved_peak=40, ever=90, reserved_ever=32)  # fmt: skip
    memory.put_meter(ALL + 1, gauge=DRAM)  # a number that was skipped
    memory.put_meter(ALL + 2, chips=0b010, gauge=DRAM, used=10, high=10)


def test_a_meter_is_brought_up_to_date_from_its_high(memory: RingMemory, ring: Ring) -> None:
    two_groups(memory)
    groups = measured(ring).groups
    assert [group.gauge for group in groups[:ALL]] == list(GAUGES)
    assert {group.numbers for group in groups[:ALL]} == {None}
    assert groups[ALL:] == (
        MeterGroup("dram", (7, 5), Meter(20, 24, 30, 40, 90, 32)),
        MeterGroup("dram", (3,), Meter(10, 0, 10, 0, 10, 0)),
    )


def test_a_chip_has_one_meter_of_a_gauge(memory: RingMemory, ring: Ring) -> None:
    """Invalid memory: with thousands of meters for the same chips, a reader would be busy for seconds."""
    two_groups(memory)
    memory.put_meter(ALL + 3, chips=0b111, gauge=DRAM, used=77)
    memory.put_meter(ALL + 1, chips=0b001, gauge=DRAM + 1, used=5)
    assert [(group.gauge, group.numbers, group.meter.used) for group in measured(ring).groups[ALL:]] == [
        ("dram", (7, 5), 20),
        (GAUGES[DRAM + 1], (7,), 5),
        ("dram", (3,), 10),
    ]


def test_meters_are_by_the_number_of_a_chip(memory: RingMemory, ring: Ring) -> None:
    two_groups(memory)
    found = meters(ring)
    assert found.keys() == {(number, gauge) for number in (None, 7, 3, 5) for gauge in GAUGES}
    assert found[7, "dram"] == found[5, "dram"] == Meter(20, 24, 30, 40, 90, 32)
    assert (found[3, "dram"].used, found[None, "dram"].used, found[3, "l1"]) == (10, 50, NOTHING)


def test_windows_are_those_after_a_record(memory: RingMemory, ring: Ring) -> None:
    """The open window overwrote the oldest of three rows."""
    two_groups(memory)
    memory.put(window=4)
    for number, first, last in ((2, 11, 20), (3, 21, 30), (4, 31, 0)):
        memory.put_window(number % 3, {ALL: (number, 29), ALL + 2: (15, 0)}, number=number, first=first, last=last)
    nothing = (0,) * ALL
    everything = [
        Window(2, 11, 20, (*nothing, 2, 15)),
        Window(3, 21, 30, (*nothing, 3, 15)),
        Window(4, 31, None, (*nothing, 30, 15)),
    ]
    for after, expected in ((0, everything), (19, everything), (20, everything[1:]), (30, everything[2:])):
        assert measured(ring, windows_after=after).windows == tuple(expected)
    assert measured(ring, windows_after=None).windows == ()


def test_open_phases_are_in_the_order_of_their_begin(memory: RingMemory, ring: Ring) -> None:
    two_groups(memory)
    name = memory.blob(b"decode")
    memory.put_phase(0, {ALL: (5, 6)}, began=9, ident=2, parent=1, time=900, name=name)
    memory.put_phase(2, {ALL: (5, 60)}, began=8, ident=1, parent=0, time=800)
    nothing = (0,) * ALL
    assert measured(ring).phases == (
        OpenPhase(1, 0, 8, 800, "", (*nothing, 5, 0), (*nothing, 60, 10)),
        OpenPhase(2, 1, 9, 900, "decode", (*nothing, 5, 0), (*nothing, 30, 10)),
    )
    assert measured(ring, phases=False).phases == ()


def test_a_copy_that_was_changed_meanwhile_is_made_again(memory: RingMemory, ring: Ring) -> None:
    two_groups(memory)
    memory.put(meters_turn=3)  # during a change
    copy, looks = ring.copy, 0

    def meanwhile(at: int, length: int) -> bytes:
        nonlocal looks
        answer = copy(at, length)
        if at == memory.at["groups_at"]:
            looks += 1
            memory.put_meter(ALL, chips=0b101, peak=100 + looks)
            memory.put(meters_turn=4 if looks == 1 else 6)
        return answer

    ring.copy = meanwhile  # type: ignore[method-assign]
    assert measured(ring).groups[ALL].meter.peak == 102
    assert looks == 3  # during a change; changed; the same before and after


def test_a_writer_that_was_killed_amid_a_change(memory: RingMemory, ring: Ring) -> None:
    two_groups(memory)
    memory.put(meters_turn=5)
    assert measured(ring).groups[ALL].meter.used == 20


# -- memory that no agent writes ------------------------------------------------------------------------------------


def test_more_meters_than_there_is_room_for(memory: RingMemory, ring: Ring) -> None:
    memory.put(meters_used=1 << 40, window=1 << 63)  # read as far as there is room for them
    found = measured(ring)
    assert (len(found.groups), found.windows) == (ALL, ())


def test_too_few_meters(memory: RingMemory, ring: Ring) -> None:
    memory.put(meters_used=3)
    with pytest.raises(RingError, match=f"it has 3 meters; there are {ALL} for all chips together"):
        measured(ring)


def test_a_gauge_that_does_not_exist(memory: RingMemory, ring: Ring) -> None:
    memory.put_meter(ALL, chips=1, gauge=ALL)
    with pytest.raises(RingError, match=f"meter {ALL} is of gauge {ALL}; there are {ALL}"):
        measured(ring)


@pytest.mark.parametrize("field", ["used", "ever", "reserved_ever"])
def test_more_bytes_than_a_process_can_hold(memory: RingMemory, ring: Ring, field: str) -> None:
    """They would be a peak of a chip that others use as well."""
    two_groups(memory)
    memory.put_meter(ALL, chips=0b101, gauge=DRAM, **{field: 1 << 53})
    assert measured(ring).groups[ALL].gauge == "dram"
    memory.put_meter(ALL, chips=0b101, gauge=DRAM, **{field: (1 << 53) + 1})
    with pytest.raises(RingError, match=f"meter {ALL} has counted {(1 << 53) + 1} bytes"):
        measured(ring)


def test_a_chip_that_does_not_exist(memory: RingMemory, ring: Ring) -> None:
    memory.put_meter(ALL, chips=1 << 200, gauge=DRAM)
    with pytest.raises(RingError, match="there is no chip 200"):
        meters(ring)


# -- written by the agent's own code --------------------------------------------------------------------------------


class Written:
    """native/tests/ring_writer.cpp changes meters, one command per line."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            self._process = subprocess.Popen(
                [build().program("ring_writer"), "meters", str(theirs.fileno())],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, pass_fds=[theirs.fileno()],
            )  # fmt: skip
            _, fds, _, _ = socket.recv_fds(ours, 1, 1)
        self.ring = Ring(fds[0])

    def say(self, *commands: str) -> Measured:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        for command in commands:
            self._process.stdin.write(command + "\n")
            self._process.stdin.flush()
            assert self._process.stdout.readline() == "done\n", command
        return measured(self.ring)

    def close(self) -> None:
        self.ring.close()
        self._process.communicate()
        assert self._process.returncode == 0


@pytest.fixture
def written() -> Iterator[Written]:
    made = Written()
    yield made
    made.close()


def of(found: Measured, gauge: str, chip: int | None) -> int:
    """The position of a chip's meter in each row."""
    for place, group in enumerate(found.groups):
        if group.gauge == gauge and (group.numbers is None if chip is None else chip in (group.numbers or ())):
            return place
    raise AssertionError(f"chip {chip} has no meter of {gauge}")


HALF = 1 << 15


def test_peaks_of_records_that_nobody_read(written: Written) -> None:
    """A ring that is overwritten many times: totals, windows and open phases still have the maximum and its time."""
    written.say("mesh 0 0 1", "begin 11", "put 0 dram 1000", "free 0", "reset", "put 0 dram 10", "begin 12")
    found = written.say("skip 100000", "put 1 dram 400", "free 1", "skip 100000")
    place = of(found, "dram", 1)
    assert (found.groups[place].meter.ever, found.groups[place].meter.peak) == (1000, 410)  # the latter since the reset
    assert [window.first for window in found.windows] == [1 + HALF * i for i in range(len(found.windows))]
    assert [window.last for window in found.windows] == [HALF * (i + 1) for i in range(len(found.windows) - 1)] + [None]
    highs = {window.number: window.highs[place] for window in found.windows}
    reached = 100_000 // HALF + 1
    assert highs == {number: {1: 1000, reached: 410}.get(number, 10) for number in highs}
    assert {phase.ident: (phase.begins[place], phase.peaks[place]) for phase in found.phases} == {
        11: (0, 1000),
        12: (10, 410),
    }
    found = written.say("end 11")
    assert [phase.ident for phase in found.phases] == [12]
    assert written.ring.fields("phases_began", "phases_full") == {"phases_began": 2, "phases_full": 0}


def test_a_part_of_the_chips_goes_its_own_way(written: Written) -> None:
    """The values of the meter until then are the same on all its chips."""
    written.say("mesh 0 0 1 2", "begin 5", "put 0 l1 100", "free 0", f"skip {HALF}", "mesh 1 2")
    found = written.say("put 1 l1 7 1")
    alone, others = of(found, "l1", 2), of(found, "l1", 0)
    assert alone != others == of(found, "l1", 1)
    assert [found.groups[place].meter.used for place in (alone, others, of(found, "l1", None))] == [7, 0, 7]
    for place in (alone, others):
        assert found.groups[place].meter.ever == 100
        assert found.windows[0].highs[place] == 100
        assert (found.phases[0].begins[place], found.phases[0].peaks[place]) == (0, 100)
    assert (found.windows[1].highs[alone], found.windows[1].highs[others]) == (7, 0)

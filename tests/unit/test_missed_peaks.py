# SPDX-License-Identifier: Apache-2.0
"""Peaks and phases after records were lost: single cases. Random ones are in test_missed_peaks_properties.py."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from math import inf

import pytest

from tests.metered_agent import MeteredAgent
from tests.ring_memory import RingMemory
from tests.scripted_agent import SLOTS, Reader
from tests.unit.test_shed_rings import Ticking
from ttmem.account.entities import Source
from ttmem.account.ledger import Ledger
from ttmem.account.phases import phases_json
from ttmem.model.events import (
    Allocated,
    CaughtUp,
    DeviceOpened,
    Extra,
    Freed,
    GapBegan,
    MissedHigh,
    PeaksReset,
    ProcessExited,
)
from ttmem.model.identity import ChipInfo, ProcessInfo
from ttmem.model.kinds import Confidence, Kind

CHIPS = (555, 777)


def use(agent: MeteredAgent, size: int, rounds: int) -> None:
    for _ in range(rounds):
        agent.take(0, size, Kind.DRAM, 0)
        agent.give_back(0)


@pytest.fixture
def shed() -> Iterator[tuple[MeteredAgent, Ticking, Source]]:
    """A process that holds 100 bytes, had 50,000 more, and writes too much for its ring to be read."""
    agent, reader = MeteredAgent((555,)), Ticking()
    source = reader.adopt(agent)
    agent.take(1, 100, Kind.DRAM, 0)
    use(agent, 50_000, 1)
    reader.tick()
    while not source.in_gap:
        use(agent, 9000, 3 * SLOTS)
        reader.tick()
    yield agent, reader, source
    reader.rings.close()
    agent.close()


def limits(reader: Reader, source: Source) -> list[tuple[int, int]]:
    """Of DRAM since the reset: of the process, and of the chip."""
    totals = source.totals[0, Kind.DRAM], reader.ledger.chips["555"].kinds[Kind.DRAM]
    return [(total.recent.value, total.recent.at_most) for total in totals]


@pytest.mark.parametrize("ticks", [1, 10, 19, 20, 21])
def test_a_reset_while_a_ring_is_not_read(shed: tuple[MeteredAgent, Ticking, Source], ticks: int) -> None:
    agent, reader, source = shed
    reader.tick(ticks)
    use(agent, 9000, 5)
    reader.sink.apply(reader.sink.now(), None, PeaksReset())
    assert source.in_gap
    assert all(value < most for value, most in limits(reader, source)), "not shown as exact before it is renewed"
    reader.tick()
    use(agent, 20, SLOTS // 2)
    reader.tick(25)
    assert limits(reader, source) == [(120, 9100)] * 2, "the window with the reset had 9,000 at first"
    reader.sink.apply(reader.sink.now(), None, PeaksReset())
    reader.tick(25)
    assert limits(reader, source) == [(100, 120)] * 2, "it held 100 all the time"


def test_a_reset_before_a_loss_that_began_before_it() -> None:
    agent, reader = MeteredAgent((555,)), Ticking()
    with closing(agent), closing(reader.rings):
        source = reader.adopt(agent)
        agent.take(1, 100, Kind.DRAM, 0)
        reader.tick()
        use(agent, 9000, 2)
        reader.sink.apply(reader.sink.now(), None, PeaksReset())
        assert not source.in_gap
        use(agent, 20, 3 * SLOTS)
        reader.tick()
        for value, most in limits(reader, source):
            assert value <= 120 <= most


@pytest.mark.parametrize("holding", [True, False])
def test_a_process_that_exits_while_another_ring_is_not_read(
    shed: tuple[MeteredAgent, Ticking, Source], holding: bool
) -> None:
    """The chip held 100 bytes of the one and 90,000 of the other at the same time."""
    _, reader, source = shed
    with closing(MeteredAgent((555,))) as other:
        leaving = reader.adopt(other, 2)
        other.take(1, 90_000, Kind.DRAM, 0)
        if not holding:
            other.give_back(1)
        reader.rings.finish(2)  # type: ignore[arg-type]
        assert source.in_gap
        reader.sink.apply(reader.sink.now(), leaving, ProcessExited())
        reader.tick(25)
    peak = reader.ledger.chips["555"].kinds[Kind.DRAM].peak
    assert (peak.value, peak.at_most) == (90_000, 90_000 + 9_100), "at least the one, at most both"


def test_a_process_that_exits_while_chips_still_share_their_totals() -> None:
    """Among the lost records is the first buffer on one of two chips: its total is then a copy of the other's."""
    ledger = Ledger()
    staying, leaving = (ledger.source(0.0, ProcessInfo(pid, 1), "agent", Confidence.EXACT) for pid in (1, 2))
    for source in (staying, leaving):
        for number, chip in enumerate(CHIPS):
            ledger.apply(0.0, source, DeviceOpened(number, ChipInfo(str(chip))))
    ledger.apply(1.0, staying, Allocated((0, 1), Kind.DRAM, 0x1000, 100))
    totals = [ledger.chips[str(chip)].kinds for chip in CHIPS]
    assert totals[0][Kind.DRAM] is totals[1][Kind.DRAM]
    ledger.apply(2.0, staying, GapBegan())
    ledger.apply(3.0, leaving, Allocated((0, 1), Kind.DRAM, 0x2000, 90_000))
    ledger.apply(4.0, leaving, ProcessExited())
    highs = [MissedHigh((number,), "dram", 100, 100 + most, 0, 0, 100 + most, 0) for number, most in enumerate((5, 0))]
    ledger.apply(5.0, staying, CaughtUp(1.5, tuple(highs), (), 0, False))
    assert totals[0][Kind.DRAM] is not totals[1][Kind.DRAM]
    for kinds, most in zip(totals, (90_105, 90_100)):
        assert (kinds[Kind.DRAM].peak.value, kinds[Kind.DRAM].peak.at_most) == (90_000, most)


def of_mover(ledger: Ledger, leaving: Source, size: int) -> None:
    """The device of this source holds 500 bytes on one chip, then so much; then it turns out to be the other chip."""
    for event in (
        Allocated(0, Kind.DRAM, 0x1000, 500, extra=Extra(2000)),
        Freed(0, Kind.DRAM, 0x1000),
        Allocated(0, Kind.DRAM, 0x2000, size, extra=Extra(4 * size)),
        DeviceOpened(0, ChipInfo(str(CHIPS[0]))),
    ):
        ledger.apply(2.0, leaving, event)


@pytest.mark.parametrize("then", ["before the gap", "in the gap", "exits in the gap"])
def test_what_a_device_held_on_another_chip_is_no_lower_limit(then: str) -> None:
    """Nothing happened among the lost records."""
    ledger = Ledger()
    lossy, mover = (ledger.source(0.0, ProcessInfo(pid, 1), "agent", Confidence.EXACT) for pid in (1, 2))
    for source, chip in zip((lossy, mover), CHIPS):
        ledger.apply(0.0, source, DeviceOpened(0, ChipInfo(str(chip))))
    ledger.apply(1.0, lossy, Allocated(0, Kind.DRAM, 0x1000, 10, extra=Extra(40)))
    if then == "before the gap":
        of_mover(ledger, mover, 20)
    ledger.apply(3.0, lossy, GapBegan())
    if then != "before the gap":
        of_mover(ledger, mover, 20)
    if then == "exits in the gap":
        ledger.apply(4.0, mover, ProcessExited())
    ledger.apply(5.0, lossy, CaughtUp(2.9, (MissedHigh((0,), "dram", 10, 10, 0, 0, 10, 40),), (), 0, False))
    total = ledger.chips[str(CHIPS[0])].kinds[Kind.DRAM]
    least = 20 if then == "exits in the gap" else 30
    assert (total.peak.value, total.peak.at_most) == (least, 510)
    assert total.recent.value == least
    assert total.highs.reserved == (4 * least, 2040)


def test_what_a_device_held_after_it_moved_is_a_lower_limit() -> None:
    """It was reached since a reset, or is higher than what the device held on the other chip."""
    ledger = Ledger()
    lossy, mover = (ledger.source(0.0, ProcessInfo(pid, 1), "agent", Confidence.EXACT) for pid in (1, 2))
    for source, chip in zip((lossy, mover), CHIPS):
        ledger.apply(0.0, source, DeviceOpened(0, ChipInfo(str(chip))))
    of_mover(ledger, mover, 20)
    total = ledger.chips[str(CHIPS[0])].kinds[Kind.DRAM]
    ledger.apply(2.5, None, PeaksReset())
    for time, size in ((3.0, 300), (6.0, 900)):
        ledger.apply(time, lossy, GapBegan())
        ledger.apply(time, mover, Allocated(0, Kind.DRAM, 0x3000, size))
        ledger.apply(time, mover, Freed(0, Kind.DRAM, 0x3000))
        ledger.apply(time + 1, lossy, CaughtUp(time, (MissedHigh((0,), "dram", 10, 10, 0, 0, 10, 0),), (), 0, False))
        assert total.peak.value == total.recent.value == 20 + size


@pytest.mark.parametrize("first", [False, True], ids=["after a gap", "at the first look"])
def test_a_reset_while_a_catch_up_is_applied(first: bool) -> None:
    """What was lost was all before the reset."""
    agent, reader = MeteredAgent((555,)), Reader()
    with closing(agent), closing(reader.rings):
        source = reader.adopt(agent)
        if not first:
            agent.take(1, 100, Kind.DRAM, 0)
            reader.follow()
        use(agent, 9000, 3 * SLOTS)
        if first:
            agent.take(1, 100, Kind.DRAM, 0)
        (follower,) = reader.rings._followers.values()
        follower.begin_turn()
        follower.load(SLOTS)
        follower.fold.fold(1 << 64, -inf)
        assert follower.fold.loaded, "a part of the corrections is not applied yet"
        reader.sink.apply(reader.sink.now(), None, PeaksReset())
        reader.follow()
        assert limits(reader, source) == [(100, 100)] * 2
        assert reader.ledger.chips["555"].kinds[Kind.DRAM].peak.value >= 9000


def test_windows_that_are_above_the_highest_value(shed: tuple[MeteredAgent, Ticking, Source]) -> None:
    """Invalid memory: the peak since the start of a chip that others use would never rise again."""
    agent, reader, source = shed
    reader.sink.apply(reader.sink.now(), None, PeaksReset())
    reader.tick()
    use(agent, 20, 3 * SLOTS)
    agent.exaggerate_windows(1 << 60)
    reader.tick(25)
    total = reader.ledger.chips["555"].kinds[Kind.DRAM]
    assert total.recent.at_most <= total.peak.at_most < 1 << 20
    assert max(most for _, most in limits(reader, source)) < 1 << 20


@pytest.fixture
def lossy() -> Iterator[tuple[MeteredAgent, Reader, Source]]:
    """A process that has a device, and whose records were all read."""
    agent, reader = MeteredAgent((555,)), Reader()
    source = reader.adopt(agent)
    reader.follow()
    yield agent, reader, source
    reader.rings.close()
    agent.close()


def test_phases_among_lost_records(lossy: tuple[MeteredAgent, Reader, Source]) -> None:
    agent, reader, source = lossy
    agent.begin_phase(1, "prefill")
    reader.follow()
    agent.end_phase(1)
    for ident in (2, 3):
        agent.begin_phase(ident, "decode")
        agent.end_phase(ident)
    agent.begin_phase(4, "decode")
    use(agent, 20, 3 * SLOTS)
    reader.follow()
    phases = source.process.phases
    assert [ident for _, ident in phases.open] == [4]
    assert [(path, runs.runs, runs.partial) for path, runs in phases.ended.items()] == [("prefill", 1, 1)]
    assert phases.missed == 2
    assert phases_json(source.process)["missed"] == 2


def test_reserved_bytes_among_lost_records(lossy: tuple[MeteredAgent, Reader, Source]) -> None:
    agent, reader, source = lossy
    agent.take(1, 100, Kind.DRAM, 0)
    reader.follow()
    use(agent, 20, 3 * SLOTS)
    agent.put_meter(agent.meter_of(0, Kind.DRAM), chips=1, reserved_ever=4096)
    reader.follow()
    assert source.totals[0, Kind.DRAM].reserved_peak == 4096
    assert reader.ledger.chips["555"].kinds[Kind.DRAM].reserved_peak == 4096


def test_a_process_that_left_the_chip_among_lost_records(lossy: tuple[MeteredAgent, Reader, Source]) -> None:
    """It may have held its 500 bytes while the other process held 300."""
    agent, reader, _ = lossy
    other = MeteredAgent((555,))
    with closing(other):
        leaving = reader.adopt(other, 2)
        other.take(0, 500, Kind.DRAM, 0)
        reader.follow()
        use(agent, 300, 3 * SLOTS)
        reader.sink.apply(reader.sink.now(), leaving, ProcessExited())
        reader.follow()
    peak = reader.ledger.chips["555"].kinds[Kind.DRAM].peak
    assert peak.value == 500
    assert peak.at_most >= 800


def test_a_device_that_is_another_chip_after_the_loss() -> None:
    """The chip that the process left raises its peaks again."""
    reader = Reader()
    with ExitStack() as stack:
        stack.callback(reader.rings.close)
        lossy, other = (stack.enter_context(closing(MeteredAgent((555,)))) for _ in range(2))
        for pid, agent in enumerate((lossy, other), 1):
            reader.adopt(agent, pid)
        lossy.take(0, 100, Kind.DRAM, 0)
        other.take(0, 10, Kind.DRAM, 0)
        reader.follow()
        lossy.give_back(0)
        for index in (0, 1):
            lossy.chip(0, 888, 0)
            lossy.mesh(index, [0])
            lossy.opened(index)
        for _ in range(2 * SLOTS):
            lossy.take(0, 50, Kind.DRAM, 0)
            lossy.give_back(0)
        reader.follow()
        for _ in range(3):
            other.give_back(0)
            other.take(0, 500, Kind.DRAM, 0)
        reader.follow()
        left = reader.ledger.chips["555"].kinds[Kind.DRAM]
        assert (left.used, left.gaps) == (500, frozenset())
        assert left.peak.value == 500
        assert reader.warnings == []


@pytest.mark.parametrize("first", [True, False])
def test_memory_that_turns_out_to_be_invalid_during_a_catch_up(first: bool) -> None:
    """The ring is given up, and nothing gives an upper limit."""
    reader = Reader()
    with ExitStack() as stack:
        stack.callback(reader.rings.close)
        agent = stack.enter_context(closing(MeteredAgent((555,))))
        if not first:
            reader.adopt(agent)
            agent.take(3, 10, Kind.DRAM, 0)
            reader.follow()
        use(agent, 9000, SLOTS)
        agent.take(1, 100, Kind.DRAM, 0)
        agent.take(2, 50, Kind.DRAM, 0)
        agent.churn(2 * SLOTS)
        RingMemory.put_live(agent, 2, agent.live[2]._replace(mesh=7))
        if first:
            reader.adopt(agent)
        reader.follow()
        assert len(reader.warnings) == 1
        peak = reader.ledger.chips["555"].kinds[Kind.DRAM].peak
        assert peak.value < 9000 < peak.at_most

# SPDX-License-Identifier: Apache-2.0
"""An account that lacks records of a process (rule 17): samples of the history, peaks since a reset, phases."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.unit.test_inexact_peaks import CHIP
from tests.unit.test_snapshot import Account
from ttmem.account.entities import Source
from ttmem.account.phases import phases_json
from ttmem.account.totals import Total
from ttmem.documents.chip_memory import memory
from ttmem.documents.peaks import peaks
from ttmem.documents.run_document import _chips as run_chips
from ttmem.model.events import (
    MAX_SIZE,
    Allocated,
    CaughtUp,
    DeviceOpened,
    Event,
    Extra,
    Freed,
    GapBegan,
    MissedHigh,
    OpenPhaseHighs,
    PeaksReset,
    PhaseBegan,
    PhaseEnded,
    ProcessExited,
    Sees,
)
from ttmem.model.kinds import POOL_GAUGES, POOL_OF, Kind, Pool
from ttmem.server.history import sampled

DRAM = Kind.DRAM
Range = tuple[int, int]


def high(
    kind: Kind, among: Range, since_reset: Range = (0, 0), ever: int = 0, reserved_ever: int = 0
) -> tuple[MissedHigh, ...]:
    """The meters of a kind and of its pool, with the limits among lost records."""
    gauges = kind.label, POOL_GAUGES[POOL_OF[kind]]
    return tuple(MissedHigh((0,), gauge, *among, *since_reset, ever or among[1], reserved_ever) for gauge in gauges)


def caught_up(*highs: MissedHigh, since: float = 3.0) -> CaughtUp:
    return CaughtUp(since, highs, (), 0, False)


def two_processes(name: str = "agent") -> tuple[Account, Source, Source]:
    made = Account()
    first, second = made.source(1), made.source(2, name)
    for source in (first, second):
        made.apply(source, DeviceOpened(0, CHIP))
    return made, first, second


def total_of(made: Account, kind: Kind = DRAM) -> Total:
    return made.ledger.chips[CHIP.id].kinds[kind]


# -- samples of the history


def sample(made: Account) -> Any:
    """The last and the highest value."""
    return sampled(made.ledger, set())[0][CHIP.id, "dram"]


def test_the_highest_value_of_a_sample_is_not_below_the_last() -> None:
    made, first, second = two_processes()
    made.apply(first, Allocated(0, DRAM, 0x1000, 1000))
    assert sample(made) == (1000, 1000)
    made.apply(first, GapBegan())
    assert [sample(made) for _ in range(3)] == [(1000, 1000)] * 3
    made.apply(second, Allocated(0, DRAM, 0x2000, 30))
    assert [sample(made) for _ in range(2)] == [(1030, 1030)] * 2
    made.apply(None, PeaksReset())
    assert [sample(made) for _ in range(2)] == [(1030, 1030)] * 2
    made.apply(first, caught_up(*high(DRAM, (1000, 1000))))
    assert [sample(made) for _ in range(2)] == [(1030, 1030)] * 2


def test_a_sample_has_no_peak_of_long_ago() -> None:
    made, first, second = two_processes()
    made.apply(second, Allocated(0, DRAM, 0x2000, 90_000), Freed(0, DRAM, 0x2000), Allocated(0, DRAM, 0x2000, 30))
    made.apply(first, Allocated(0, DRAM, 0x1000, 100), Allocated(0, DRAM, 0x3000, 5000), Freed(0, DRAM, 0x3000))
    sample(made)
    for _ in range(3):
        made.apply(first, GapBegan())
        last, highest = sample(made)
        assert last == highest == 130
        made.apply(first, caught_up(*high(DRAM, (800, 800), ever=5100)))
        last, highest = sample(made)
        assert last == 130
        assert 800 <= highest <= 830, "what the one held then, and what both may have held"


def test_a_sample_has_no_peak_of_before_the_first_look() -> None:
    """The process may have had it hours before the server was started."""
    made, first, _ = two_processes()
    made.apply(first, Allocated(0, DRAM, 0x1000, 100))
    sample(made)
    made.apply(first, caught_up(*high(DRAM, (9000, 9000)))._replace(first=True))
    assert sample(made) == (100, 100)
    assert total_of(made).peak.value == 9000


# -- peaks of chips that share totals


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_limits_do_not_depend_on_the_order_of_chips(order: tuple[int, int]) -> None:
    """The chips share the total of the process, but only one of them has something of another process."""
    made, ids = Account(), ("0", "1")
    first, second = made.source(1), made.source(2)
    made.apply(first, *(DeviceOpened(number, CHIP._replace(id=ids[number])) for number in order))
    made.apply(second, DeviceOpened(0, CHIP._replace(id="1")))
    made.apply(first, Allocated((0, 1), DRAM, 0x1000, 100))
    made.apply(second, Allocated(0, DRAM, 0x1000, 30))
    lost = [each._replace(numbers=(0, 1)) for each in high(DRAM, (0, 150))]
    made.apply(first, GapBegan(), caught_up(*lost))
    for pool in (False, True):
        chips = [made.ledger.chips[one] for one in ids]
        totals = [chip.pools[Pool.DRAM] if pool else chip.kinds[DRAM] for chip in chips]
        assert [(total.peak.value, total.peak.limit) for total in totals] == [(150, None), (150, 180)]
        assert [total.take_high() for total in totals] == [150, 150]


def test_a_source_that_gives_way_during_the_gap_of_another_process() -> None:
    """What its client had reported, before its agent took over, is part of what may have been."""
    made, first, agent = two_processes()
    client = made.source(2, "client")
    made.apply(first, Allocated(0, DRAM, 0x1000, 100), GapBegan())
    made.apply(client, Allocated(0, DRAM, 0x2000, 700), Freed(0, DRAM, 0x2000))
    made.apply(agent, Allocated(0, DRAM, 0x3000, 10))
    made.apply(first, caught_up(*high(DRAM, (0, 150))))
    assert total_of(made).peak.value <= 150 + 700 <= total_of(made).peak.at_most


def test_a_device_that_is_another_chip_during_the_gap_of_another_process() -> None:
    made, first, second = two_processes()
    made.apply(first, Allocated(0, DRAM, 0x1000, 100), GapBegan())
    made.apply(second, Allocated(0, DRAM, 0x2000, 700), DeviceOpened(0, CHIP._replace(id="other")))
    made.apply(first, caught_up(*high(DRAM, (0, 150))))
    assert total_of(made).peak.value <= 150 + 700 <= total_of(made).peak.at_most


@pytest.mark.parametrize("goes", [DeviceOpened(0, CHIP._replace(id="other")), ProcessExited()], ids=["moves", "exits"])
def test_what_left_the_chip_before_the_process_of_the_gap_held_anything(goes: Event) -> None:
    """No total of the chip was in a gap then. What was missed may still have been there together with it."""
    made, first, second = two_processes()
    made.apply(second, Allocated(0, DRAM, 0x2000, 700))
    made.apply(first, GapBegan())
    made.apply(second, goes)
    made.apply(first, caught_up(*high(DRAM, (0, 150))))
    assert total_of(made).peak.value <= 150 + 700 <= total_of(made).peak.at_most


def test_a_device_that_is_another_chip_is_in_the_gap_there() -> None:
    """What the process held may have been freed before it came to the other chip."""
    made, first, second = two_processes()
    other = CHIP._replace(id="other")
    made.apply(second, DeviceOpened(0, other), Allocated(0, DRAM, 0x2000, 30))
    made.apply(first, Allocated(0, DRAM, 0x1000, 5000), GapBegan(), DeviceOpened(0, other))
    for total in (made.ledger.chips["other"].kinds[DRAM], made.ledger.chips["other"].pools[Pool.DRAM]):
        assert total.peak.value == 30
    made.apply(first, Freed(0, DRAM, 0x1000), caught_up(*high(DRAM, (0, 5000))))
    for total in (made.ledger.chips["other"].kinds[DRAM], made.ledger.chips["other"].pools[Pool.DRAM]):
        assert (total.used, total.gaps) == (30, frozenset())
        assert total.peak.value <= 5000 < total.peak.at_most


def test_two_devices_of_a_process_that_are_one_chip() -> None:
    made, first, _ = two_processes()
    made.apply(first, DeviceOpened(1, CHIP), *(Allocated(number, DRAM, 0x1000, 100) for number in (0, 1)), GapBegan())
    lost = [each._replace(numbers=(number,)) for number in (0, 1) for each in high(DRAM, (0, 150))]
    made.apply(first, caught_up(*lost))
    chip = made.ledger.chips[CHIP.id]
    for total in (chip.kinds[DRAM], chip.pools[Pool.DRAM]):
        assert total.peak.value <= 300 <= total.peak.at_most


class Sampled:
    """Processes that each hold one buffer on one chip; records of some of them are lost."""

    def __init__(self, dice: random.Random, count: int) -> None:
        self.made = Account()
        self.dice = dice
        self.sources = [self.made.source(pid) for pid in range(1, count + 1)]
        self.held = [0] * count
        self.seen = [0] * count  # as of the last record that was read
        self.missed = [0] * count  # the highest since the last gap began
        self.highest = [0] * count  # since the last sample; of one in a gap, since the sample before the gap
        self.ever = [0] * count
        self.sum = 0  # the highest since the last sample
        self.lost = False  # were records lost since then
        for source in self.sources:
            self.made.apply(source, DeviceOpened(0, CHIP))

    def change(self, which: int) -> None:
        self.held[which] = self.dice.choice((0, 10, 500, 9000))
        self.missed[which] = max(self.missed[which], self.held[which])
        self.highest[which] = max(self.highest[which], self.held[which])
        self.ever[which] = max(self.ever[which], self.held[which])
        self.sum = max(self.sum, sum(self.held))
        if not self.sources[which].in_gap:
            self.correct(which)

    def correct(self, which: int) -> None:
        source, held = self.sources[which], self.held[which]
        if self.seen[which]:
            self.made.apply(source, Freed(0, DRAM, 0x1000 * (which + 1)))
        if held:
            self.made.apply(source, Allocated(0, DRAM, 0x1000 * (which + 1), held))
        self.seen[which] = held

    def lose(self, which: int) -> None:
        source = self.sources[which]
        self.lost = True
        if source.in_gap:
            self.correct(which)
            among = self.missed[which], self.missed[which]
            self.made.apply(source, caught_up(*high(DRAM, among, (0, among[1]), self.ever[which]), since=10.0))
        else:
            self.missed[which] = self.held[which]
            self.made.apply(source, GapBegan())

    def check(self) -> None:
        last, highest = sample(self.made)
        assert last <= highest <= sum(self.highest)
        if not self.lost:
            assert highest == self.sum
        self.sum = sum(self.held)
        self.lost = any(source.in_gap for source in self.sources)
        for which, source in enumerate(self.sources):
            if not source.in_gap:
                self.highest[which] = self.held[which]


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("seed", range(20))
def test_samples_are_between_what_was_held_and_what_was_possible(seed: int, count: int) -> None:
    story = Sampled(random.Random(seed), count)
    for which in range(count):
        story.made.apply(story.sources[which], Allocated(0, DRAM, 0x1000 * (which + 1), 1))
        story.held[which] = story.seen[which] = story.highest[which] = story.ever[which] = 1
    story.sum = count
    for _ in range(150):
        which, choice = story.dice.randrange(count), story.dice.random()
        if choice < 0.6:
            story.change(which)
        elif choice < 0.75:
            story.lose(which)
        elif choice < 0.8:
            story.made.apply(None, PeaksReset())
        else:
            story.check()


# -- reserved bytes


def reserve(kind: Kind, shared: bool, reserved_ever: int, *, leaves: bool = False) -> tuple[Account, Total, Any]:
    """The highest requested bytes were seen; among the lost records, more bytes were reserved for fewer."""
    made, first, second = two_processes()
    if shared:
        made.apply(second, Allocated(0, kind, 0x9000, 30, extra=Extra(32)))
    made.apply(first, Allocated(0, kind, 0x1000, 1000, extra=Extra(1024)), Freed(0, kind, 0x1000), GapBegan())
    if leaves:
        made.apply(second, ProcessExited())
    made.apply(first, caught_up(*high(kind, (0, 100), ever=1000, reserved_ever=reserved_ever)))
    chip = made.ledger.chips[CHIP.id]
    (row,) = run_chips(made.ledger, [])
    pool = POOL_OF[kind]
    return made, chip.pools[pool], row["dram" if pool is Pool.DRAM else "l1"]


def shown_peak(made: Account, kind: Kind) -> int | None:
    chip = made.ledger.chips[CHIP.id]
    known = memory(chip, chip.geometry)
    return (known["dram"] if kind is DRAM else known["l1"])["reserved_peak"]


@pytest.mark.parametrize("kind", [Kind.DRAM, Kind.L1])
def test_reserved_bytes_of_one_process(kind: Kind) -> None:
    made, total, row = reserve(kind, False, 3200)
    assert (row["reserved_peak"], row["reserved_peak_exact"]) == (3200, True)
    assert shown_peak(made, kind) == 3200
    assert total.peak.limit is None


@pytest.mark.parametrize("leaves", [False, True])
@pytest.mark.parametrize("kind", [Kind.DRAM, Kind.L1])
def test_reserved_bytes_of_two_processes(kind: Kind, leaves: bool) -> None:
    """At least those of the one that lost records, at most those of both."""
    made, total, row = reserve(kind, True, 3200, leaves=leaves)
    assert (row["reserved_peak"], row["reserved_peak_exact"]) == (3200, False)
    assert shown_peak(made, kind) is None
    assert total.reserved_bound == 3232 if not leaves else total.reserved_bound >= 3232
    made.apply(made.source(3), DeviceOpened(0, CHIP), Allocated(0, kind, 0xA000, 9000, extra=Extra(9000)))
    (run,) = run_chips(made.ledger, [])
    row = run["dram" if kind is DRAM else "l1"]
    assert row["reserved_peak_exact"], "it is above the upper limit"
    assert row["reserved_peak"] == 9000 + (0 if leaves else 32)


def test_reserved_bytes_of_chips_that_have_totals_of_their_own_from_then_on() -> None:
    made = Account()
    pair, owners = (0, 1), (made.source(1), made.source(2))
    for source in owners:
        made.apply(source, *(DeviceOpened(number, CHIP._replace(id=str(number))) for number in pair))
        made.apply(source, Allocated(pair, DRAM, 0x1000, 30, extra=Extra(32)))
    lost = [each._replace(numbers=pair) for each in high(DRAM, (0, 0), ever=30, reserved_ever=3200)]
    made.apply(owners[0], GapBegan(), caught_up(*lost))
    made.apply(owners[1], Allocated(1, DRAM, 0x2000, 10, extra=Extra(32)))
    totals = [made.ledger.chips[str(number)].pools[Pool.DRAM] for number in pair]
    assert totals[0] is not totals[1]
    assert [(total.reserved_peak, total.reserved_bound) for total in totals] == [(3200, 3232)] * 2


def test_reserved_bytes_of_a_process_beside_another() -> None:
    made, _, _ = reserve(DRAM, True, 3200)
    totals = [made.source(1).totals[0, DRAM], made.source(1).process.shares[CHIP.id].pools[Pool.DRAM]]
    assert [(total.reserved_peak, total.reserved_peak_exact) for total in totals] == [(3200, True)] * 2


def test_reserved_bytes_that_were_seen_at_the_upper_limit() -> None:
    made, _, row = reserve(DRAM, True, 1024)
    assert (row["reserved_peak"], row["reserved_peak_exact"]) == (1056, True)
    assert shown_peak(made, DRAM) == 1056


def test_kinds_that_may_have_been_used() -> None:
    """Nothing was seen of them, and nothing measured how high they were among the lost records."""
    made, first, _ = two_processes()
    made.apply(first, Sees(1 << DRAM | 1 << Kind.L1))
    made.apply(first, GapBegan(), caught_up()._replace(unmetered=True))
    (row,) = run_chips(made.ledger, [])
    unknown = {"peak": 0, "peak_at_most": MAX_SIZE, "end": 0}
    assert row["kinds"] == {"dram": unknown, "l1": unknown}


# -- a reset in a gap


def of_dram(made: Account) -> list[Any]:
    return [row for row in peaks(made.ledger, recent=True) if row.get("kind") == "dram"]


def test_a_peak_of_0_has_neither_time_nor_allocations() -> None:
    made, first, _ = two_processes()
    made.apply(first, Allocated(0, DRAM, 0x1000, 100), GapBegan())
    made.apply(None, PeaksReset())
    assert [(row["per_chip"], row["at_most"], row["time"], row["largest"]) for row in of_dram(made)] == [
        (0, 100, None, [])
    ]
    made.apply(first, Freed(0, DRAM, 0x1000), caught_up(*high(DRAM, (100, 100), (0, 60))))
    assert [(row["per_chip"], row["at_most"], row["time"], row["largest"]) for row in of_dram(made)] == [
        (0, 60, None, [])
    ]


def test_a_reset_changes_nothing_of_the_pools_of_another_source() -> None:
    """Each source of a process may have other kinds. Only those of the source with a gap are not known."""
    made, agent, _ = two_processes()
    client = made.source(1, "client")
    made.apply(agent, Allocated(0, DRAM, 0x1000, 100))
    made.apply(client, Allocated(0, Kind.HOST, 0x5000, 5000), Allocated(0, Kind.HOST, 0x6000, 9000))
    made.apply(client, Freed(0, Kind.HOST, 0x6000))
    made.apply(agent, GapBegan())
    made.apply(None, PeaksReset())
    pools = agent.process.shares[CHIP.id].pools
    chip = made.ledger.chips[CHIP.id]
    for _ in range(2):
        host = (pools[Pool.HOST], chip.pools[Pool.HOST], chip.kinds[Kind.HOST], client.totals[0, Kind.HOST])
        assert [(total.recent.value, total.recent.limit) for total in host] == [(5000, None)] * 4
        made.apply(agent, caught_up(*high(DRAM, (100, 100), (100, 100))))
    assert (pools[Pool.DRAM].recent.value, pools[Pool.DRAM].recent.limit) == (100, None)


def test_a_reset_in_a_pool_of_two_sources() -> None:
    """The one that has no gap does not make the sum known."""
    made, agent, _ = two_processes()
    client = made.source(1, "client")
    made.apply(agent, Allocated(0, DRAM, 0x1000, 100))
    made.apply(client, Allocated(0, Kind.TRACE, 0x5000, 5000))
    made.apply(agent, GapBegan())
    made.apply(None, PeaksReset())
    total = agent.process.shares[CHIP.id].pools[Pool.DRAM]
    assert (total.recent.value, total.recent.limit) == (0, 5100)
    made.apply(agent, caught_up(*high(DRAM, (100, 700), (100, 700))))
    assert total.recent.value < 5700 <= total.recent.at_most


# -- phases


def missed_phase(made: Account, source: Source, begin: int, peak: int) -> Any:
    """The agent's phase is open after a gap in which it held that much of DRAM at most."""
    highs = high(DRAM, (0, peak))
    phase = OpenPhaseHighs(7, "step", 0, 3.5, (begin,) * len(highs), (peak,) * len(highs))
    event = caught_up(*highs)._replace(phases=(phase,))
    made.apply(source, event)
    (row,) = phases_json(source.process)["open"]
    return row


def test_what_another_source_held_when_a_phase_began_unseen_is_not_known() -> None:
    made, agent, _ = two_processes()
    client = made.source(1, "client")
    made.apply(agent, Allocated(0, DRAM, 0x1000, 100))
    made.apply(client, Allocated(0, Kind.HOST, 0x5000, 500))
    made.apply(agent, GapBegan())
    made.apply(client, Freed(0, Kind.HOST, 0x5000))
    assert not missed_phase(made, agent, 100, 100)["complete"]


@pytest.mark.parametrize("kind", [Kind.HOST, Kind.TRACE])
def test_the_peak_of_a_phase_in_a_pool_of_two_sources_is_not_known(kind: Kind) -> None:
    """TRACE is in the pool of DRAM, HOST is not."""
    made, agent, _ = two_processes()
    client = made.source(1, "client")
    made.apply(agent, Allocated(0, DRAM, 0x1000, 100), PhaseBegan(7, "step"))
    made.apply(client, Allocated(0, kind, 0x5000, 10))
    made.apply(agent, GapBegan())
    assert missed_phase(made, agent, 100, 900)["complete"] == (kind is Kind.HOST)


BEGIN, END = PhaseBegan(7, "step"), PhaseEnded(7)


def phase_of(client: list[Event | None]) -> Any:
    """What a client of the process tells; at the first None, the gap of its agent begins, at the second it ends."""
    made, agent, _ = two_processes()
    made.apply(agent, Allocated(0, DRAM, 0x1000, 100))
    source = made.source(1, "client")
    gap: list[Event] = [GapBegan(), caught_up(*high(DRAM, (5000, 5000)))]
    for event in client:
        made.apply(*((agent, gap.pop(0)) if event is None else (source, event)))
    (row,) = phases_json(agent.process)["ended"]
    return row


@pytest.mark.parametrize(
    "told",
    [
        [BEGIN, None, None, END],
        [BEGIN, None, END, None],
        [None, BEGIN, END, None],
        [None, BEGIN, None, END],
    ],
    ids=["around it", "until it", "inside", "after it"],
)
def test_a_phase_of_another_source_during_a_gap_is_partial(told: list[Event | None]) -> None:
    row = phase_of(told)
    assert (row["runs"], row["partial"]) == (1, 1)


@pytest.mark.parametrize("told", [[BEGIN, END, None, None], [None, None, BEGIN, END]], ids=["before", "after"])
def test_a_phase_of_another_source_without_a_gap_is_not_partial(told: list[Event | None]) -> None:
    row = phase_of(told)
    assert (row["runs"], row["partial"]) == (1, 0)


def test_a_phase_of_another_process_is_not_partial() -> None:
    made, agent, other = two_processes("client")
    made.apply(agent, Allocated(0, DRAM, 0x1000, 100))
    made.apply(other, BEGIN)
    made.apply(agent, GapBegan(), caught_up(*high(DRAM, (5000, 5000))))
    made.apply(other, END)
    (row,) = phases_json(other.process)["ended"]
    assert row["partial"] == 0

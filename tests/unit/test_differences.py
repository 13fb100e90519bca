# SPDX-License-Identifier: Apache-2.0
"""Differences between the account and tt-metal's counters: lasting ones are reported, short ones are not."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.snapshots import Account, counters, machine, slot
from ttmem.documents.differences import LASTS_SECONDS, Amounts, Differences, Where
from ttmem.documents.merge import merge
from ttmem.model.events import Allocated, Freed
from ttmem.model.kinds import Kind

Json = dict[str, Any]
MIB = 1 << 20
NEWS = {(7, "77"): {"dram": (4 * MIB, 3 * MIB)}}


class Looks:
    """A tracked process that tt-metal counts, read with a clock of the test."""

    def __init__(self) -> None:
        self.differences = Differences()

    def look(
        self, at: float, tracked: int, counted: int, changed: float, account_at: float | None = None
    ) -> dict[Where, Amounts]:
        account = Account()
        account.tracked(7, "77")
        account.apply(account.source(7), Allocated(0, Kind.DRAM, 0x1000, 1))  # so that 0 is a known value
        account.apply(account.source(7), Freed(0, Kind.DRAM, 0x1000))
        if tracked:
            account.apply(account.source(7), Allocated(0, Kind.DRAM, 0x2000, tracked))
        seen = machine(shm=[counters(77, {**slot(7, counted), "updated": changed})])
        merged = merge(account.snapshot(), seen)
        self.differences.take(merged, seen["shm"], at, at + 0.01 if account_at is None else account_at)
        return dict(self.differences.lasting)


def test_a_process_at_rest() -> None:
    """Reported after it has lasted, and no longer when it has ended."""
    looks = Looks()
    assert looks.look(0, 4 * MIB, 3 * MIB, changed=-5) == {}
    assert looks.differences.open
    assert looks.look(1, 4 * MIB, 3 * MIB, changed=-5) == {}
    assert looks.look(2, 4 * MIB, 3 * MIB, changed=-5) == NEWS
    assert looks.look(3, 4 * MIB, 4 * MIB, changed=2.5) == NEWS, "moved: nothing can be said"
    assert looks.look(4, 4 * MIB, 4 * MIB, changed=2.5) == {}
    assert not looks.differences.open


def test_a_process_that_goes_away() -> None:
    looks = Looks()
    for second in range(4):
        looks.look(second, 4 * MIB, 3 * MIB, changed=-5)
    assert looks.differences.lasting == NEWS
    looks.differences.take(Account().snapshot(), [], 5, 5.1)
    assert looks.differences.lasting == {}
    assert looks.look(6, 4 * MIB, 3 * MIB, changed=-5) == {}, "and its successor starts anew"


def test_a_process_that_is_never_still_is_not_blamed_for_ever() -> None:
    looks = Looks()
    for second in range(3):
        looks.look(second, 4 * MIB, 3 * MIB, changed=-5)
    assert looks.look(11, 5 * MIB, 3 * MIB, changed=10.9) == NEWS
    assert looks.look(13, 5 * MIB, 3 * MIB, changed=12.9) == {}


def test_the_same_numbers_at_another_time_are_no_rest() -> None:
    """It allocates and frees in step with the readings: each time, counted before and tracked after."""
    looks = Looks()
    for second in range(20):
        assert looks.look(second, MIB, 0, changed=second - 0.4) == {}


def test_an_account_that_is_taken_late_proves_nothing() -> None:
    """The server was busy: both readings of the account are later than both readings of the counters."""
    looks = Looks()
    for second in range(0, 40, 2):
        assert looks.look(second, MIB, 0, changed=second - 0.1, account_at=second + 1.5) == {}
        assert looks.look(second + 0.2, MIB, 0, changed=second - 0.1, account_at=second + 1.6) == {}


def test_amounts_that_change_start_anew() -> None:
    looks = Looks()
    for second in range(20):
        changed = second - second % 2 - 0.5  # every second reading
        assert looks.look(second, second // 2 * MIB, 0, changed) == {}


class Worker:
    """A process that allocates and frees one buffer at these moments."""

    def __init__(self, moments: list[float]) -> None:
        self.moments = sorted(moments)

    def at(self, time: float) -> tuple[int, float]:
        """Its bytes, and the time of the last change."""
        past = [moment for moment in self.moments if moment <= time]
        return len(past) % 2 * MIB, past[-1] if past else -1.0


LOOKS = st.lists(
    st.tuples(st.floats(0.05, 1.2), st.floats(0.0, 0.5), st.floats(0.0, 0.5)), min_size=4, max_size=30
)  # to the next reading; from its begin to the counters; from there to the account
RHYTHM = st.builds(
    lambda first, each, count: [first + each * number for number in range(count)],
    st.floats(0, 1), st.sampled_from([0.05, 0.25, 0.5, 1.0, 1.1]) | st.floats(0.01, 3), st.integers(0, 200),
)  # fmt: skip


@given(RHYTHM | st.lists(st.floats(0, 30), max_size=60), LOOKS)
def test_no_rhythm_makes_a_difference_where_there_is_none(moments: list[float], rounds: Any) -> None:
    """The law: if both have the same bytes at every moment, no difference is reported, whenever they are read."""
    worker, looks, now = Worker(moments), Looks(), 0.0
    for pause, reading, taking in rounds:
        counted, changed = worker.at(now + reading)
        tracked, _ = worker.at(now + reading + taking)
        assert looks.look(now, tracked, counted, changed, now + reading + taking) == {}
        now += reading + taking + pause


@given(RHYTHM, st.integers(1, 8))
def test_a_lasting_difference_is_found_in_a_rest_long_enough(moments: list[float], missed: int) -> None:
    """After any activity: tt-metal misses some bytes, and for a while nothing changes."""
    worker, looks = Worker(moments), Looks()
    rest = max(moments, default=0.0) + 1
    for step in range(int(rest + LASTS_SECONDS + 3)):
        counted, changed = worker.at(step)
        tracked, _ = worker.at(step + 0.01)
        found = looks.look(step, tracked + missed * MIB, counted, changed)
    ((tracked, counted),) = found[7, "77"].values()
    assert tracked - counted == missed * MIB

# SPDX-License-Identifier: Apache-2.0
"""Samples over time: buckets, wrap-around, gaps, and peaks shorter than a second."""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.snapshots import WELL, driver_chip
from ttmem.account.ledger import Ledger
from ttmem.documents.snapshot import take_snapshot
from ttmem.model.events import Allocated, DeviceOpened, Extra, Freed, ProgramRun
from ttmem.model.identity import ChipInfo, ProcessInfo
from ttmem.model.kinds import KINDS, Confidence, Kind
from ttmem.server.history import AT_ONCE, DRAM_TAKEN, L1_TAKEN, MOST_SERIES, TELEMETRY, History, Tier

if TYPE_CHECKING:
    from ttmem.model.schema import HistorySeries

A, B = ("chip", "dram"), ("chip", "l1")


def read(
    history: History, step: int, since: float, until: float, chip: str | None = None, kind: str | None = None
) -> list[HistorySeries]:
    """The series of a chip, or of all; of a kind, or of all."""
    names = history.names(step, chip and [chip], kind and [kind])
    return [history.one(step, since, until, name) for name in names]


def test_last_and_highest_of_a_bucket() -> None:
    tier = Tier(10, 6)
    tier.put(100.0, {A: (5, 9)})
    tier.put(103.9, {A: (7, 7)})
    tier.put(109.999, {A: (2, 30)})
    assert tier.read(A, 0, 109) == [(100, 2, 30)]
    tier.put(110.0, {A: (1, 1)})
    assert tier.read(A, 0, 110) == [(100, 2, 30), (110, 1, 1)]


def test_the_last_may_fall_while_the_highest_stays() -> None:
    tier = Tier(1, 10)
    tier.put(1.0, {A: (8, 8)})
    tier.put(1.5, {A: (0, 3)})
    assert tier.read(A, 0, 1) == [(1, 0, 8)]


def test_zero_is_a_value_and_a_gap_is_none() -> None:
    tier = Tier(1, 10)
    tier.put(1, {A: (4, 4)})
    tier.put(4, {A: (0, 0)})
    assert tier.read(A, 0, 9) == [(1, 4, 4), (4, 0, 0)]


def test_since_and_until() -> None:
    tier = Tier(1, 10)
    for second in range(10):
        tier.put(second, {A: (second, second)})
    assert [row[0] for row in tier.read(A, 3.5, 6.5)] == [3, 4, 5, 6]
    assert tier.read(A, 20, 30) == []
    assert tier.read(A, 7, 6) == []
    assert tier.read(B, 0, 9) == []


def test_old_buckets_are_overwritten() -> None:
    tier = Tier(1, 4)
    for second in range(10):
        tier.put(second, {A: (second, second)})
    assert tier.read(A, 0, 9) == [(6, 6, 6), (7, 7, 7), (8, 8, 8), (9, 9, 9)]


def test_a_round_later_old_values_do_not_show_through() -> None:
    tier = Tier(1, 4)
    for second in range(4):
        tier.put(second, {A: (second, 100), B: (1, 1)})
    tier.put(5, {A: (5, 5)})
    assert tier.read(A, 0, 5) == [(2, 2, 100), (3, 3, 100), (5, 5, 5)], "4 was never sampled; slot 0 is of 0"
    assert tier.read(B, 0, 5) == [(2, 1, 1), (3, 1, 1)], "B was not noted at 5; slot 1 held an older value"


def test_after_a_long_sleep_nothing_old_remains() -> None:
    tier = Tier(1, 4)
    for second in range(4):
        tier.put(second, {A: (1, 1)})
    tier.put(1_000_000, {A: (2, 2)})
    assert tier.read(A, 0, 1_000_000) == [(1_000_000, 2, 2)]


def test_a_quantity_that_appears_within_a_bucket() -> None:
    tier = Tier(10, 4)
    tier.put(1, {A: (1, 1)})
    tier.put(2, {A: (1, 1), B: (6, 7)})
    tier.put(3, {A: (1, 1)})
    assert tier.read(B, 0, 9) == [(0, 6, 7)]


NOTES = st.lists(st.tuples(st.floats(0, 60, width=16), st.integers(0, 9), st.integers(0, 9)), max_size=40)


@settings(max_examples=100)
@given(st.sampled_from([1, 3, 10]), st.integers(1, 8), NOTES)
def test_any_notes_in_order(step: int, length: int, notes: list[tuple[float, int, int]]) -> None:
    """Compared with a simple model: a dict of buckets, of which the newest ``length`` are kept."""
    tier = Tier(step, length)
    plain: dict[int, tuple[int, int]] = {}
    for time, last, rise in sorted(notes):
        tier.put(time, {A: (last, last + rise)})
        bucket = int(time // step)
        plain[bucket] = (last, max(last + rise, plain.get(bucket, (0, -1))[1]))
    newest = max(plain, default=0)
    kept = [(b * step, *plain[b]) for b in sorted(plain) if b > newest - length]
    assert tier.read(A, 0, newest * step) == kept


class Account:
    """A ledger with one process and one chip."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.source = self.ledger.source(0.0, ProcessInfo(1, 1), "legacy", Confidence.REPORTED)

    def alloc(self, kind: Kind, address: int, size: int, device: int = 0) -> None:
        self.ledger.apply(0.0, self.source, Allocated(device, kind, address, size))

    def free(self, address: int) -> None:
        self.ledger.apply(0.0, self.source, Freed(0, None, address))


def test_two_tiers() -> None:
    history = History()
    assert (history.fine.step, history.fine.length) == (1, 3600), "every second for an hour"
    assert (history.coarse.step, history.coarse.length) == (10, 8640), "every ten seconds for a day"
    assert history.series(1) is history.fine
    assert history.series(10) is history.coarse


def test_a_short_peak_is_kept() -> None:
    account, history = Account(), History()
    account.alloc(Kind.DRAM, 0x1000, 100)
    history.sample(1000.0, account.ledger)
    account.alloc(Kind.DRAM, 0x2000, 900)
    account.free(0x2000)
    history.sample(1001.0, account.ledger)
    history.sample(1002.0, account.ledger)
    fine = {"chip": "assumed:0", "time": [1000, 1001, 1002], "last": [100] * 3, "max": [100, 1000, 100]}
    coarse = {"chip": "assumed:0", "time": [1000], "last": [100], "max": [1000]}
    assert read(history, 1, 1000, 1002) == [{**fine, "kind": kind} for kind in ("dram", DRAM_TAKEN)]
    assert read(history, 10, 1000, 1002) == [{**coarse, "kind": kind} for kind in ("dram", DRAM_TAKEN)]


@pytest.mark.parametrize(("kind", "name"), [(Kind.DRAM, DRAM_TAKEN), (Kind.TRACE, DRAM_TAKEN), (Kind.L1, L1_TAKEN)])
def test_what_was_taken_where_it_is_known(kind: Kind, name: str) -> None:
    account, history = Account(), History()
    account.ledger.apply(0.0, account.source, Allocated(0, kind, 0x1000, 100, extra=Extra(reserved=4096)))
    history.sample(1.0, account.ledger)
    account.alloc(kind, 0x2000, 10)
    account.free(0x2000)
    history.sample(2.0, account.ledger)
    account.alloc(kind, 0x3000, 20)
    history.sample(3.0, account.ledger)
    (found,) = read(history, 1, 0, 9, kind=name)
    assert found["last"] == [4096, 4096, 120], "of the third nobody said what was taken"
    assert found["max"] == [4096, 4106, 120]


def test_only_what_was_ever_used_takes_space() -> None:
    account, history = Account(), History()
    history.sample(1.0, account.ledger)
    assert not history.fine.columns
    account.alloc(Kind.L1, 0x1000, 64)
    account.free(0x1000)
    history.sample(2.0, account.ledger)
    assert set(history.fine.columns) == set(history.coarse.columns) == {("assumed:0", "l1"), ("assumed:0", L1_TAKEN)}
    assert read(history, 1, 0, 2)[0]["max"] == [64]
    assert read(history, 1, 0, 2)[0]["last"] == [0]


def test_filters() -> None:
    account, history = Account(), History()
    for device in (0, 1):
        account.alloc(Kind.DRAM, 0x1000, 64, device)
        account.alloc(Kind.CB, 0x1000, 64, device)
    history.sample(5.0, account.ledger)

    def names(chip: str | None, kind: str | None) -> list[tuple[str, str]]:
        return [(series["chip"], series["kind"]) for series in read(history, 1, 0, 9, chip, kind)]

    kinds = ("cb", "dram", "dram_taken", "l1_at_once")
    assert names(None, None) == [(chip, kind) for chip in ("assumed:0", "assumed:1") for kind in kinds]
    assert names("assumed:1", None) == [("assumed:1", kind) for kind in kinds]
    assert names(None, "cb") == [("assumed:0", "cb"), ("assumed:1", "cb")]
    assert names("assumed:0", "dram") == [("assumed:0", "dram")]
    assert names("nobody", None) == []


def test_a_chip_that_got_its_name() -> None:
    """Old samples stay under the old id, new samples have the new id."""
    account, history = Account(), History()
    account.alloc(Kind.DRAM, 0x1000, 64)
    history.sample(1.0, account.ledger)
    account.ledger.apply(0.0, account.source, DeviceOpened(0, ChipInfo("0000:01:00.0")))
    history.sample(2.0, account.ledger)
    found = {series["chip"]: series["time"] for series in read(history, 1, 0, 9, kind="dram")}
    assert found == {"assumed:0": [1], "0000:01:00.0": [2]}


def test_l1_at_once_is_that_of_the_snapshot() -> None:
    """Of two cached programs, only the one that ran last is in L1."""
    account, history = Account(), History()

    def sampled(time: float) -> int | None:
        history.sample(time, account.ledger)
        rows = history.fine.read(("assumed:0", AT_ONCE), time, time)
        chip = take_snapshot(account.ledger, time="", host="")["chips"][0]
        assert [row[1] for row in rows] == [chip["memory"]["l1"]["at_once"]]
        return int(rows[0][1])

    for program, address in ((1, 0x1000), (2, 0x2000)):
        event = Allocated(0, Kind.CB, address, 64 * program, program, extra=Extra(cores=1))
        account.ledger.apply(0.0, account.source, event)
    assert sampled(1.0) == 64 + 128, "no launch was seen"
    account.ledger.apply(0.0, account.source, ProgramRun(0, 2, 1))
    assert sampled(2.0) == 128
    assert read(history, 1, 0, 9, kind=AT_ONCE)[0]["max"] == [192, 128]


@pytest.mark.parametrize("kind", [Kind.DRAM, Kind.L1])
@pytest.mark.parametrize(
    ("split", "last", "highest"),
    [
        (None, [100, 100, 100, 100], [100, 1000, 100, 100]),
        ("before the peak", [100, 107, 107, 107], [100, 1007, 107, 107]),
        ("after the peak", [100, 107, 107, 107], [100, 1000, 107, 107]),
        ("after the sample", [100, 100, 107, 107], [100, 1000, 107, 107]),
    ],
)
def test_a_short_peak_of_a_mesh_is_that_of_each_chip(
    kind: Kind, split: str | None, last: list[int], highest: list[int]
) -> None:
    """The chips share a total until something is allocated on one of them only, here on the third."""
    ledger, history = Ledger(), History()
    source = ledger.source(0.0, ProcessInfo(1, 1), "agent", Confidence.EXACT)
    mesh, chips = (0, 1, 2, 3), ("A", "B", "C", "D")

    def at(moment: str) -> None:
        if moment == split:
            ledger.apply(0.0, source, Allocated(2, kind, 0x3000, 7))

    for number, chip in enumerate(chips):
        ledger.apply(0.0, source, DeviceOpened(number, ChipInfo(chip)))
    ledger.apply(0.0, source, Allocated(mesh, kind, 0x1000, 100))
    history.sample(1.0, ledger)
    at("before the peak")
    ledger.apply(0.0, source, Allocated(mesh, kind, 0x2000, 900))
    ledger.apply(0.0, source, Freed(mesh, kind, 0x2000))
    at("after the peak")
    history.sample(2.0, ledger)
    at("after the sample")
    history.sample(3.0, ledger)
    history.sample(4.0, ledger)

    assert len({chip.kinds[kind] for chip in ledger.chips.values()}) == (1 if split is None else 2)
    expected = {chip: ([100] * 4, [100, 1000, 100, 100]) for chip in chips} | {"C": (last, highest)}
    for name in (kind.label, DRAM_TAKEN if kind is Kind.DRAM else L1_TAKEN):
        assert {one["chip"]: (one["last"], one["max"]) for one in read(history, 1, 0, 9, kind=name)} == expected


def test_telemetry_is_kept_while_it_is_true() -> None:
    account, history = Account(), History()
    chip = driver_chip(3, telemetry={**WELL, "temperature_c": 51.25, "power_w": 0.0, "aiclk_mhz": None})
    history.sample(1.0, account.ledger, [chip])
    odds: list[dict[str, object]] = [{"state": "in reset"}, {"state": "off the bus"}, {"age_s": 6.0}]
    for number, odd in enumerate(odds):
        history.sample(2.0 + number, account.ledger, [driver_chip(3, telemetry={**chip["telemetry"], **odd})])
    chip["telemetry"]["temperature_c"] = -1.5
    history.sample(5.0, account.ledger, [chip])
    found = {(one["chip"], one["kind"]): one for one in read(history, 1, 0, 9)}
    assert set(found) == {("0000:04:00.0", "temperature_c"), ("0000:04:00.0", "power_w")}
    temperature = found["0000:04:00.0", "temperature_c"]
    assert (temperature["time"], temperature["last"]) == ([1, 5], [51.25, -1.5]), "also below freezing"
    assert found["0000:04:00.0", "power_w"]["last"] == [0.0, 0.0], "nothing is a value"


def test_there_is_room_for_a_galaxy() -> None:
    assert 32 * (len(KINDS) + 1 + len(TELEMETRY)) < MOST_SERIES


# -- more series than the limit --------------------------------------------------------------------------------------


def full(tier: Tier, time: float, chips: str = "claimed") -> None:
    tier.put(time, {(f"{chips}{number}", "dram"): (1, 1) for number in range(MOST_SERIES)})


def test_chips_that_clients_name_do_not_take_the_place_of_real_ones() -> None:
    tier = Tier(1, 10)
    full(tier, 1.0)
    tier.put(2.0, {A: (5, 9), ("other", "dram"): (1, 1)}, machine=frozenset({"chip"}))
    assert tier.read(A, 0, 9) == [(2, 5, 9)]
    assert tier.read(("other", "dram"), 0, 9) == []
    assert (len(tier.columns), tier.left_out) == (MOST_SERIES, 1)


def test_a_series_that_is_long_unused_gives_its_place_to_another() -> None:
    tier = Tier(1, 100)
    full(tier, 1.0)
    tier.put(30.0, {A: (5, 9)})
    assert tier.read(A, 0, 99) == []
    tier.put(62.0, {A: (5, 9)})
    assert tier.read(A, 0, 99) == [(62, 5, 9)]
    assert len(tier.columns) == MOST_SERIES


def test_a_series_that_is_used_again_keeps_its_place() -> None:
    tier = Tier(1, 100)
    full(tier, 1.0)
    again = ("claimed0", "dram")
    tier.put(99.0, {again: (7, 8), **{(f"other{number}", "dram"): (2, 3) for number in range(MOST_SERIES)}})
    assert tier.read(again, 0, 99) == [(1, 1, 1), (99, 7, 8)]
    assert (len(tier.columns), tier.left_out) == (MOST_SERIES, 1)


def test_very_many_chips_are_compared_with_the_series_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sample blocks the server."""
    searches = []
    unused = Tier._unused

    def search(tier: Tier, bucket: int, values: Container[tuple[str, str]]) -> list[tuple[str, str]]:
        searches.append(bucket)
        return unused(tier, bucket, values)

    monkeypatch.setattr(Tier, "_unused", search)
    tier = Tier(1, 100)
    full(tier, 1.0)
    tier.put(99.0, {(f"{some}{number}", "dram"): (2, 3) for number in range(MOST_SERIES) for some in ("real", "other")},
             machine=frozenset(f"real{number}" for number in range(MOST_SERIES)))  # fmt: skip
    assert searches == [99]
    assert (len(tier.columns), tier.left_out) == (MOST_SERIES, MOST_SERIES // 2)
    assert all(chip.startswith("real") for chip, _ in tier.columns)


def test_no_value_is_too_large() -> None:
    """Many processes may each report the largest possible value."""
    tier = Tier(1, 10)
    tier.put(1.0, {A: (1 << 70, 1 << 80)})
    ((_, last, highest),) = tier.read(A, 0, 9)
    assert last == highest == (1 << 62) - 1

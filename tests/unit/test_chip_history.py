# SPDX-License-Identifier: Apache-2.0
"""The dashboard's history: buckets that become coarser, gaps, chip ids that change, bounded memory."""

from __future__ import annotations

import functools
import math
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import screens
from tests.snapshots import WELL
from ttmem.documents import unknown_rows as blank
from ttmem.documents.recorded_moments import RecordedHistory, Series
from ttmem.show.top.parts.chip_history import MOST_PHASES, NAMES, ChipHistory, Range

Json = Any  # a document made by hand, or a part of one
T = 1_794_800_040.0  # a whole minute
phases = functools.partial(screens.phases, since=T)


def snapshot(dram: int | None = None, chip_id: str = "880001", **facts: Any) -> Json:
    """One chip, with this amount of DRAM in use."""
    out = blank.snapshot("then", "box")
    chip: Json = blank.chip(chip_id, board="n150", arch="wormhole_b0")
    chip.update(pci="0000:01:00.0", telemetry={**WELL})
    chip.update(facts)
    chip["memory"]["dram"]["used"] = dram
    out["chips"] = [chip]
    return out


def seen(
    past: ChipHistory, since: float, until: float, points: int, name: str = "dram", chip_id: str = "880001"
) -> list[Any]:
    """The highest of each column; the last column begins at ``until``."""
    ranges = past.series(chip_id, name, since, until, points)
    return [None if one is None else one[1] for one in ranges]


def test_a_value_lasts_until_the_next() -> None:
    past = ChipHistory()
    for second, used in ((0, 10), (2, 30), (4, 20)):
        past.add(T + second, snapshot(used), interval=2.0)
    assert past.series("880001", "dram", T - 2, T + 4, 6) == [None, (10, 10), (10, 10), (30, 30), (30, 30), (20, 20)]
    assert past.newest == T + 4


def test_a_gap_stays_a_gap() -> None:
    past = ChipHistory()
    for second in (*range(10), *range(60, 70)):
        past.add(T + second, snapshot(second), interval=1.0)
    ranges = seen(past, T - 1, T + 69, 70)
    assert ranges == [*range(10), *[None] * 50, *range(60, 70)]
    # The same in the buckets of five seconds and of a minute.
    assert seen(past, T - 905, T + 65, 194)[-15:] == [None, 4, 9, *[None] * 10, 64, 69]
    assert seen(past, T - 7200, T + 60, 121)[-3:] == [None, 9, 69]


def test_a_slow_rhythm_is_no_gap() -> None:
    past = ChipHistory()
    for second in (0, 10, 20, 30):
        past.add(T + second, snapshot(second), interval=10.0)
    assert None not in seen(past, T, T + 30, 30)
    past.add(T + 60, snapshot(60), interval=10.0)
    assert seen(past, T + 30, T + 60, 3) == [None, None, 60]


def test_unknown_is_not_zero() -> None:
    past = ChipHistory()
    for second, used in enumerate((5, None, 0, 7)):
        past.add(T + second, snapshot(used))
    assert past.series("880001", "l1", T - 1, T + 3, 4) == [None] * 4
    assert past.series("880001", "dram", T - 1, T + 3, 4) == [(5, 5), (5, 5), (0, 0), (7, 7)]
    for second in range(4, 14):
        past.add(T + second, snapshot(None))
    past.add(T + 14, snapshot(9))
    assert seen(past, T + 3, T + 14, 11) == [*[None] * 10, 9], "a moment without a word is bridged, ten seconds are not"


def test_a_chip_that_tells_its_unique_id_has_one_line() -> None:
    past = ChipHistory()
    past.add(T, snapshot(1, chip_id="0000:01:00.0"))
    past.add(T + 1, snapshot(2, chip_id="880001"))
    assert seen(past, T - 1, T + 1, 2) == [1, 2]


@pytest.mark.parametrize("odd", [{"state": "in reset"}, {"state": "gone"}, {"age_s": 30.0}, {"temperature_c": None}])
def test_telemetry_that_is_not_of_now_is_left_out(odd: Json) -> None:
    past = ChipHistory()
    past.add(T, snapshot(telemetry={**WELL, "temperature_c": 40.0}))
    for second in range(1, 20):
        past.add(T + second, snapshot(telemetry={**WELL, **odd}))
    assert seen(past, T - 1, T + 9, 10, "temperature_c") == [40, *[None] * 9]


def test_programs_share_l1_in_time() -> None:
    """Circular buffers: the resident ones, if known."""
    one = snapshot(0)
    one["chips"][0]["memory"]["l1"]["cb"] = {"held": 100, "resident": None}
    two = snapshot(0)
    two["chips"][0]["memory"]["l1"]["cb"] = {"held": 100, "resident": 40}
    past = ChipHistory()
    past.add(T, one)
    past.add(T + 1, two)
    assert seen(past, T - 1, T + 1, 2, "cb") == [100, 40]


def test_a_clock_that_is_set_back_starts_anew() -> None:
    past = ChipHistory()
    past.add(T, snapshot(1))
    past.add(T - 7200, snapshot(2))
    assert past.newest == T - 7200
    assert seen(past, T - 7201, T - 7200, 1) == [2]
    assert seen(past, T - 1, T, 1) == [None]


SAMPLES = st.lists(st.tuples(st.floats(0.1, 2.5), st.integers(0, 1 << 24)), min_size=1, max_size=40)


@settings(max_examples=60)
@given(SAMPLES, st.sampled_from([30, 60, 300, 900, 3600, 21600, 86400]), st.integers(4, 120))
def test_any_samples_in_any_window(samples: list[tuple[float, int]], window: int, points: int) -> None:
    """Compared with a simple model: a step function, and each bucket of the ring has its lowest and highest value."""
    past, time = ChipHistory(), T
    plain: list[tuple[float, int]] = []
    for rise, value in samples:
        time += rise
        past.add(time, snapshot(value))
        plain.append((time, value))
    found = past.series("880001", "dram", time - window, time, points)
    width = window / points
    first = int(time // width) + 1 - points
    assert len(found) == points
    lows = [one[0] for one in found if one]
    inside = [value for when, value in plain if when >= (first + 1) * width]
    assert max(one[1] for one in found if one) >= max(inside, default=plain[-1][1]), "nothing is lost"
    assert set(lows) <= {float(value) for _, value in plain}, "and nothing made up"
    assert {one[1] for one in found if one} <= {float(value) for _, value in plain}
    assert found[-1] is not None
    assert found[-1][0] <= plain[-1][1] <= found[-1][1]
    # A second query and a first query give the same result.
    again = ChipHistory()
    for when, value in plain:
        again.add(when, snapshot(value))
        again.series("880001", "dram", when - window, when, points)
    assert again.series("880001", "dram", time - window, time, points) == found


@settings(max_examples=40)
@given(st.lists(st.integers(0, 9), min_size=30, max_size=30), st.sampled_from([1, 2, 3, 5, 10]))
def test_the_columns_of_whole_seconds(values: list[int], width: int) -> None:
    past = ChipHistory()
    for second, value in enumerate(values):
        past.add(T + second, snapshot(value))
    found = past.series("880001", "dram", T + 30 - 30 - 0.5, T + 29.5, 30 // width)
    parts = [values[at : at + width] for at in range(0, 30, width)]
    assert found == [(min(part), max(part)) for part in parts]


def history(step: int, kind: str, values: dict[int, tuple[float, float]]) -> Json:
    times = sorted(values)
    lasts, highs = ([values[time][at] for time in times] for at in (0, 1))
    series = {"chip": "880001", "kind": kind, "time": times, "last": lasts, "max": highs}
    return {"step": step, "since": 0.0, "until": T, "series": [series], "left_out": 0}


def test_the_servers_history_comes_before_our_own() -> None:
    past, t = ChipHistory(), int(T)
    past.add(T, snapshot(50))
    past.fill("880001", history(1, "dram_taken", {t - 4: (10, 99), t - 3: (20, 20), t - 1: (40, 40)}))
    assert past.series("880001", "dram", T - 5, T, 5) == [(10, 99), (20, 20), (20, 20), (40, 40), (50, 50)]


def test_a_gap_in_the_servers_history_stays_one() -> None:
    past, t = ChipHistory(), int(T)
    past.add(T, snapshot(50))
    past.fill("880001", history(1, "dram_taken", {t - 9: (10, 10), t - 1: (40, 40)}))
    assert seen(past, T - 9, T, 9) == [*[None] * 7, 40, 50]
    assert seen(past, T - 10, T, 10) == [10, *[None] * 7, 40, 50]


def test_dram_is_what_was_taken_as_in_the_snapshot() -> None:
    past, t = ChipHistory(), int(T)
    past.add(T, snapshot(50))
    answer = history(10, "dram_taken", {t - 60: (15, 35)})
    answer["series"] += history(10, "dram", {t - 60: (3, 4)})["series"]
    answer["series"] += history(10, "trace", {t - 60: (5, 5)})["series"]
    past.fill("880001", answer)
    assert past.series("880001", "dram", T - 7200, T, 120)[-2:] == [(15, 35), (50, 50)]
    assert past.series("880001", "trace", T - 7200, T, 120)[-2:] == [(5, 5), None]


def test_the_clocks_may_differ() -> None:
    past, t = ChipHistory(), int(T)
    past.add(T, snapshot(50))
    past.fill("880001", history(1, "dram_taken", {t - 3601: (10, 10)}), shift=3600.0)
    assert seen(past, T - 2, T, 2) == [10, 50]


def test_history_again_changes_nothing() -> None:
    past, t = ChipHistory(), int(T)
    past.add(T, snapshot(50))
    answer = history(1, "temperature_c", {t - second: (second, second + 1) for second in range(1, 600)})
    past.fill("880001", answer)
    before = past.series("880001", "temperature_c", T - 600, T, 60)
    past.fill("880001", answer)
    assert past.series("880001", "temperature_c", T - 600, T, 60) == before
    assert before.count(None) == 0


def test_a_phase_ends_when_it_is_no_longer_open() -> None:
    past = ChipHistory()
    past.take_phases(phases("prefill", "prefill/attention"), T + 1)
    past.take_phases(phases("prefill"), T + 5)
    assert [(one.path, one.until) for one in past.phases("880001", T)] == [
        ("prefill", None),
        ("prefill/attention", T + 5),
    ]
    assert [one.path for one in past.phases("880001", T + 6)] == ["prefill"], "that one has ended before"
    assert past.phases("elsewhere", T) == []
    past.take_phases({"processes": []}, T + 9)  # type: ignore[typeddict-item]
    assert [one.until for one in past.phases("880001", T)] == [T + 9, T + 5]


def test_a_phase_that_ended_between_two_looks_is_drawn_with_its_own_times() -> None:
    past = ChipHistory()
    answer = phases("prefill", since=T)
    rows = [{"chip": "880001", "pool": "dram"}]
    ended = {"path": "load", "runs": 1, "partial": 0, "seconds": 2.0, "since": T - 5, "until": T - 3, "rows": rows}
    answer["processes"][0]["ended"].append(ended)
    past.take_phases(answer, T + 1)
    past.take_phases(answer, T + 2)
    assert [(one.path, one.since, one.until) for one in past.phases("880001", T - 4)] == [
        ("load", T - 5, T - 3),
        ("prefill", T, None),
    ]


def test_phases_are_bounded() -> None:
    past = ChipHistory()
    for second in range(MOST_PHASES + 50):
        past.take_phases(phases("step", since=T + second), T + second)
    found = past.phases("880001", 0)
    assert len(found) == MOST_PHASES
    assert found[-1].since == T + MOST_PHASES + 49, "the newest are kept"


def test_a_day_of_many_chips_takes_a_few_megabytes() -> None:
    """A quarter of a Galaxy. After a few samples, the rings have their full size."""
    snapshots = []
    for phase in range(2):
        one: Json = blank.snapshot("then", "box")
        for number in range(8):
            chip = snapshot(phase, chip_id=f"{number}", pci=f"0000:{number:02x}:00.0")["chips"][0]
            memory = chip["memory"]
            memory["dram"]["trace"]["used"] = memory["l1"]["at_once"] = memory["l1"]["buffers"] = 1
            memory["l1"]["cb"]["held"] = memory["l1"]["kernels"] = 1
            one["chips"].append(chip)
        snapshots.append(one)
    tracemalloc.start()
    past = ChipHistory()
    for number, second in enumerate((0, 1, 2, 43200, 86400)):
        past.add(T + second, snapshots[number % 2])
    size = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert all(past.series("3", name, T, T + 86400, 10) for name in NAMES)
    assert 4 * size < 12_000_000, "of 32 chips"


def test_values_that_are_no_numbers_are_left_out() -> None:
    past = ChipHistory()
    past.add(T, snapshot(telemetry={**WELL, "power_w": math.nan}))
    past.add(T, snapshot(telemetry={**WELL, "power_w": math.inf}))
    found: list[Range | None] = past.series("880001", "power_w", T - 1, T, 1)
    assert found == [None]


def test_a_round_later_old_values_do_not_show_through() -> None:
    past = ChipHistory()
    for second in (*range(6), 330):
        past.add(T + second, snapshot(7))
    assert seen(past, T + 310, T + 330, 20) == [*[None] * 19, 7]


def test_history_changes_what_was_looked_at_already() -> None:
    past, t = ChipHistory(), int(T)
    for second in range(3):
        past.add(T + second, snapshot(50))
    assert seen(past, T - 8, T + 2, 10) == [*[None] * 7, 50, 50, 50]
    past.fill("880001", history(1, "dram_taken", {t - second: (1, 1) for second in range(1, 8)}))
    assert seen(past, T - 8, T + 2, 10) == [*[1] * 7, 50, 50, 50]


@pytest.mark.parametrize("missing", [(), (5, 6, 40)])
def test_the_history_of_a_recording(missing: tuple[int, ...]) -> None:
    """Each interval is there as it was read, also around the end of the ring, and a gap is a gap."""
    step, first = 2.0**-7, 229_632_000_003
    places = [first + n for n in range(300) if n not in missing]
    series = Series([n * step for n in places], [float(n % 50) for n in places], [float(n % 50 + 7) for n in places])
    begin, until = first * step, (first + 300) * step
    past = ChipHistory.of_recording(RecordedHistory(step, begin, until, {("a", "dram_taken"): series}), [])
    found = past.columns("a", "dram", step, first, first + 300).ranges
    assert found == [
        None if n in missing else (float((first + n) % 50), float((first + n) % 50 + 7)) for n in range(300)
    ]
    whole = past.columns("a", "dram", 300 * step, first // 300, first // 300 + 2).ranges
    assert max(high for one in whole if one is not None for high in one) == 56.0
    assert past.began(["a"], ["dram"]) == begin

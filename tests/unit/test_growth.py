# SPDX-License-Identifier: Apache-2.0
"""The rule by which a group of allocations grows, on times alone."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttmem.analyze.growth import MIN_STEPS, Growth, Ruler, Steps, time_steps

STEPS = st.integers(MIN_STEPS, 200)


def phases(count: int) -> Steps:
    """Steps of one second each, from 0."""
    return Steps("phase", "step", tuple(float(number) for number in range(count + 1)))


def judged(steps: Steps, live: Iterable[float], lives: Iterable[tuple[float, float]] | None = None) -> Growth | None:
    """How a group grows: the times at which what is live was made; if its past is known, begins and ends of all."""
    ruler = Ruler(steps)
    counts = ruler.empty()
    for time in live:
        counts[ruler.place(time)] += 1
    if lives is None:
        return ruler.growth(counts)
    return ruler.growth(counts, lambda until: most(list(lives), until))


def most(lives: list[tuple[float, float]], until: float) -> int:
    """The most that were live at once up to a time, one moment after the other."""
    moments = [begin for begin, _ in lives if begin <= until]
    return max((sum(begin <= moment < end for begin, end in lives) for moment in moments), default=0)


def kept(live: list[float]) -> list[tuple[float, float]]:
    return [(time, 1e9) for time in live]


@given(STEPS, st.data())
def test_what_was_made_only_in_the_first_half_never_grows(count: int, data: st.DataObject) -> None:
    steps = phases(count)
    live = data.draw(st.lists(st.floats(0, count / 2, exclude_max=True), max_size=100))
    assert judged(steps, live) is None
    assert judged(steps, live, kept(live)) is None


@given(STEPS, st.integers(1, 3), st.data())
def test_a_leak_in_each_step_is_found_with_its_rate(count: int, rate: int, data: st.DataObject) -> None:
    """From any step on that leaves four of them, with a past; the order within a step does not matter."""
    since = data.draw(st.integers(0, count - 4))
    live = [
        step + data.draw(st.floats(0, 1, exclude_max=True)) * 0.999 for step in range(since, count) for _ in range(rate)
    ]
    found = judged(phases(count), live, kept(live))
    assert found is not None
    assert found.per_step == rate
    assert found.per_minute == pytest.approx(rate * 60)
    assert found == judged(phases(count), reversed(live), kept(live))


@given(STEPS, st.integers(1, 40), st.integers(1, 3))
def test_a_window_of_constant_length_never_grows_if_its_past_is_known(count: int, length: int, rate: int) -> None:
    """As soon as it was filled before the steps that are judged."""
    made = [step + 0.1 + 0.1 * number for step in range(-length - 1, count) for number in range(rate)]
    width = length * rate
    lives = [(time, made[place + width] if place + width < len(made) else 1e9) for place, time in enumerate(made)]
    assert judged(phases(count), made[-width:], lives) is None


@given(st.integers(20, 200), st.integers(5, 19))
def test_a_list_that_is_cleared_now_and_then_does_not_grow_if_its_past_is_known(count: int, period: int) -> None:
    lives = [(step + 0.5, (step // period + 1.0) * period) for step in range(-2 * period, count)]
    assert judged(phases(count), [begin for begin, end in lives if end > count], lives) is None


@pytest.mark.parametrize(
    ("made", "grows"),
    [
        (range(60), True),
        (range(0, 60, 4), True),  # seldom
        (range(0, 60, 13), True),  # very seldom: one in each quarter of the steps
        (range(45), False),  # it has stopped
        ([*range(15), 59], False),  # a warm-up, and something late
        ([56, 57, 58, 59], True),
        ([57, 58, 59], False),  # too few
        ([59.0] * 40, False),  # a batch
        ([], False),
    ],
)
def test_steps_with_a_past(made: list[float], grows: bool) -> None:
    live = [float(step) for step in made]
    assert (judged(phases(60), live, kept(live)) is not None) is grows


@pytest.mark.parametrize(
    ("made", "grows"),
    [
        ([10.0 * n for n in range(64)], True),
        ([640 - 160 + 40.0 * n for n in range(4)], True),  # one in each sixteenth of the last quarter
        ([640 - 120 + 10.0 * n for n in range(12)], False),  # only lately: these may be temporary
        ([300.0 + n for n in range(200)], False),  # a model was loaded, and then nothing was made
        ([640.0] * 10, False),  # made after the question was asked
        ([-5.0] * 10, False),  # made before the process was seen
    ],
)
def test_times_without_a_past(made: list[float], grows: bool) -> None:
    assert (judged(time_steps(0.0, 640.0), made) is not None) is grows


@pytest.mark.parametrize("steps", [phases(MIN_STEPS - 1), time_steps(5.0, 5.0), time_steps(5.0, 4.0)])
def test_too_few_steps(steps: Steps) -> None:
    assert not steps.enough
    assert judged(steps, [0.5, 1.5, 2.5, 3.5, 4.5, 5.0]) is None


def test_more_than_ever_before_means_three_more() -> None:
    """A queue whose length varies by one or two does not grow."""
    live = [56.5, 57.5, 58.5, 59.5]
    for before, grows in ((1, True), (2, False)):
        lives = [*((1.0, 2.0) for _ in range(before)), *kept(live)]
        assert (judged(phases(60), live, lives) is not None) is grows

# SPDX-License-Identifier: Apache-2.0
"""The ends of an axis: all values are on it, and its labels are correct."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttmem.model.units import parse
from ttmem.show.top.parts.value_axis import RANGES, Scale, nice, scale

MIB, GIB = 1 << 20, 1 << 30
SIZES = Scale(0.0, 12.0 * GIB, 1.0, "", None)
PERCENTS = Scale(0.0, 100.0, 1.0, "%", 0)
READINGS = Scale(0.0, 100.0, 1.0, "", 0)
sizes = st.integers(1, 12 * GIB)


def labels(axis: Scale) -> list[str]:
    return [axis.label(part / 4) for part in range(5)]


@given(sizes, sizes, st.sampled_from(list(RANGES)), st.sampled_from([SIZES, PERCENTS, READINGS]))
def test_all_values_are_on_the_axis(one: int, other: int, mode: str, full: Scale) -> None:
    high = max(one, other) / SIZES.top * full.top
    low = min(one, other) / SIZES.top * full.top
    axis = scale(mode, low, high, full, 0.01)
    assert axis.bottom <= low * (1 + 1e-9)
    assert axis.top >= high * (1 - 1e-9)
    assert axis.top <= full.top or axis.bottom > 0
    assert axis.from_zero or mode == "auto"
    assert all(len(label) <= 7 for label in labels(axis)), "there is no room for more"
    assert len(set(labels(axis))) == 5 or full is SIZES, "no two labels are the same"


@given(st.integers(1, 11 * GIB), st.integers(0, 50 * MIB))
def test_a_small_change_is_seen(low: int, change: int) -> None:
    """A change of 1/4096 of the whole takes at least a sixth of the height."""
    axis = scale("auto", low, low + change, SIZES, 1.0)
    if change >= max(4 * MIB, (low + change) / 4096):
        assert change >= (axis.top - axis.bottom) / 6


def test_a_leak_of_50_mib_in_12_gib() -> None:
    axis = scale("auto", 9.41 * GIB, 9.41 * GIB + 50 * MIB, SIZES, 1.0)
    assert labels(axis) == ["9.40G", "9.42G", "9.44G", "9.46G", "9.48G"]
    assert not axis.from_zero
    assert axis.precise(9.41 * GIB + 50 * MIB) == "9.459G"


@given(sizes, sizes)
def test_labels_of_a_close_axis_are_exact(one: int, other: int) -> None:
    axis = scale("auto", min(one, other), max(one, other), SIZES, 1.0)
    if not axis.from_zero:
        for part in range(5):
            value = axis.bottom + part / 4 * (axis.top - axis.bottom)
            assert parse(axis.label(part / 4)) == pytest.approx(value, abs=2)


def test_what_does_not_change_begins_at_0() -> None:
    for full in (SIZES, PERCENTS, READINGS):
        assert scale("auto", 50.0, 50.0, full, 1.0).from_zero
    assert scale("auto", 0.0, 0.0, SIZES, 1.0) == SIZES
    assert scale("no such mode", 3.0, 50.0, PERCENTS, 1.0).from_zero


@given(st.floats(0, 1e9))
def test_a_nice_end_is_above_and_not_far(value: float) -> None:
    assert value <= nice(value) <= max(1.0, 1.5 * value)

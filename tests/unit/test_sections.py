# SPDX-License-Identifier: Apache-2.0
"""Columns are read back by an independent decoder, whatever their values are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.page_data import decoded
from ttmem.pages.sections import MAX_EXACT, Column, Sections

RANGES = {
    "u8": (0, 255),
    "u16": (0, (1 << 16) - 1),
    "u32": (0, (1 << 32) - 1),
    "i64": (-MAX_EXACT, MAX_EXACT),
}


@st.composite
def columns(draw: st.DrawFn) -> list[Column]:
    found = []
    for number in range(draw(st.integers(0, 4))):
        kind = draw(st.sampled_from(list(RANGES)))
        values = draw(st.lists(st.integers(*RANGES[kind]), max_size=30))
        found.append(Column(f"c{number}", kind, np.array(values, object), draw(st.booleans())))  # type: ignore[arg-type]
    return found


@given(columns())
def test_an_independent_reader_gets_the_same_values(written: list[Column]) -> None:
    sections = Sections()
    assert sections.add_columns("some/name", written) == "some/name"
    found = decoded(sections.payloads["some/name"], sections.index["some/name"])
    assert found == {column.name: list(column.values) for column in written}
    assert sections.index["some/name"]["bytes"] == len(sections.payloads["some/name"])


@pytest.mark.parametrize(
    ("kind", "value"), [("u8", 256), ("u8", -1), ("u32", 1 << 32), ("i64", MAX_EXACT + 1), ("i64", -MAX_EXACT - 1)]
)
def test_a_value_that_does_not_fit_is_refused(kind: str, value: int) -> None:
    with pytest.raises(ValueError, match=f"column size has values from {value}"):
        Sections().add_columns("x", [Column("size", kind, np.array([value], np.int64))])  # type: ignore[arg-type]


def test_sums_over_time_take_few_bytes() -> None:
    """Differences of a sum that grows steadily are all alike."""
    values = np.arange(100_000, dtype=np.int64) * 4096
    sections = Sections()
    sections.add_columns("delta", [Column("x", "i64", values, delta=True)])
    sections.add_columns("plain", [Column("x", "i64", values)])
    assert len(sections.payloads["delta"]) < 2_000 < len(sections.payloads["plain"])

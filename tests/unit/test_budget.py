# SPDX-License-Identifier: Apache-2.0
"""KV budgets: the arithmetic, and wrong arguments. tests/integration/test_fit.py compares them with ttnn."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttmem.collect.budget import kv_budget, most_pages


@given(st.lists(st.integers(0, 400), max_size=6), st.integers(1, 9))
def test_as_many_pages_as_fit_and_not_one_more(free: list[int], tensors: int) -> None:
    pages = most_pages(free, 7, tensors)

    def fit(count: int) -> bool:
        return sum(block // (count * 7) for block in free) >= tensors

    assert pages == 0 or fit(pages)
    assert not fit(pages + 1)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"bytes_per_token": 0}, "bytes_per_token is 0"),
        ({"bytes_per_token": 1, "tensors": 0}, "tensors is 0"),
        ({"bytes_per_token": 1, "tile_bytes": -1}, "tile_bytes is -1"),
        ({"bytes_per_token": 1, "reserve": -1}, "reserve is -1"),
    ],
)
def test_wrong_arguments_are_named(arguments: dict[str, int], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        kv_budget(None, **arguments)


def test_without_ttnn_there_is_no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "ttnn", raising=False)
    with pytest.raises(RuntimeError, match="ttnn is not imported"):
        kv_budget(None, 1)

# SPDX-License-Identifier: Apache-2.0
"""Sums by group are exact, also of more amounts than are added at a time."""

from __future__ import annotations

import numpy as np
import pytest

from ttmem.statistics import exact_sums
from ttmem.statistics.exact_sums import sums_by


@pytest.mark.parametrize("at_a_time", [1, 3, 100])
def test_sums_are_exact_however_many_are_added_at_a_time(monkeypatch: pytest.MonkeyPatch, at_a_time: int) -> None:
    monkeypatch.setattr(exact_sums, "_AT_A_TIME", at_a_time)
    groups = np.array([0, 3, 0, 1, 3, 3, 0])
    amounts = [2**53, 1, 1, -5, 2**40, 2**62 - 2**41, 2**53]
    found = sums_by(groups, np.array(amounts), 5).tolist()
    assert found == [sum(n for n, group in zip(amounts, groups) if group == one) for one in range(5)]
    assert sums_by(np.zeros(0, np.int64), np.zeros(0, np.int64), 2).tolist() == [0, 0]

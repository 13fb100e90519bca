# SPDX-License-Identifier: Apache-2.0
"""The charts below a table of chips."""

from __future__ import annotations

import re

import pytest

from tests.chart_models import T, machine
from ttmem.show.top.dashboard_state import Model
from ttmem.show.top.parts.recent_history import MEMORY, RecentHistory
from ttmem.show.top.parts.rows import Characters, Size


@pytest.mark.parametrize("height", [12, 20])
def test_no_peak_is_below_the_current_value(height: int) -> None:
    """Memory that grows all the time: curves are up to two seconds old, numbers are not."""
    view, model = RecentHistory(), Model()
    for tick in range(40):
        snapshot = machine(1, 0)
        snapshot["chips"][0]["memory"]["dram"]["used"] = (1 + tick) << 27
        model.take(snapshot, T + tick / 2, tick / 2)
        rows = view.rows(model, MEMORY, Size(120, height), Characters())
        text = "\n".join("".join(part for part, _ in row) for row in rows)
        found = re.search(r"DRAM (\d+)% .* peak (\d+)%", text)
        assert found is not None, text
        assert int(found[2]) >= int(found[1]), text

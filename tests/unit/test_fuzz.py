# SPDX-License-Identifier: Apache-2.0
"""Fuzz cases by the ten thousand; `make fuzz` runs more."""

from __future__ import annotations

import pytest

from tests import fuzz

CASES = 6000


@pytest.mark.parametrize("start", range(0, 60_000, CASES))
def test_no_input_breaks_the_decoders_or_the_account(start: int) -> None:
    assert fuzz.run(CASES, start) == CASES

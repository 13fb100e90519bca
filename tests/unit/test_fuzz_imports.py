# SPDX-License-Identifier: Apache-2.0
"""Slightly wrong files of ttnn: `ttmem import` accepts them or refuses them with one sentence."""

from __future__ import annotations

from tests import fuzz_imports


def test_damaged_files() -> None:
    """Always the same cases. `python -m tests.fuzz_imports` tries other ones for as long as you want."""
    found = fuzz_imports.run(seed=0, cases=200)
    assert min(found.values()) > 50, "most files are either always fine or always broken"

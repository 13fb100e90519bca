# SPDX-License-Identifier: Apache-2.0
"""Files that are nearly what ttnn writes: `ttmem import` takes them or refuses them in one sentence."""

from __future__ import annotations

from tests import fuzz_imports


def test_damaged_files() -> None:
    """Always the same cases; `python -m tests.fuzz_imports` tries others for as long as wanted."""
    found = fuzz_imports.run(seed=0, cases=400)
    assert min(found.values()) > 100, "most files are either always fine or always broken"

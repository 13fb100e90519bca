# SPDX-License-Identifier: Apache-2.0
"""Well-formed input with extreme values against a real server."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz_server import server_case


@pytest.mark.parametrize("seed", range(8))
def test_attackers_do_not_hurt_the_witness(folder: Path, seed: int) -> None:
    server_case(seed, folder)

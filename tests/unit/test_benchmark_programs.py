# SPDX-License-Identifier: Apache-2.0
"""The C++ programs of the benchmarks compile: they use the agent's code, and nothing else would notice a change."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from benchmarks import agent, ingest, many_rings

BUILDERS: dict[str, Callable[[Path], object]] = {
    "agent_events": agent.build,
    "meter_cost": agent.build_meters,
    "ring_load": many_rings.build,
    **{name: partial(ingest.build, name) for name in ("load", "reference_server", "sink")},
}
BUILT_WITH = {"tiny_metal": "agent_events"}


@pytest.mark.parametrize("name", BUILDERS)
def test_a_program_compiles(name: str, tmp_path: Path) -> None:
    BUILDERS[name](tmp_path)
    assert (tmp_path / name).is_file()


def test_all_programs_are_compiled() -> None:
    assert {path.stem for path in ingest.PROGRAMS.glob("*.cpp")} == {*BUILDERS, *BUILT_WITH}

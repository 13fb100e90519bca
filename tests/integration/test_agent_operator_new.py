# SPDX-License-Identifier: Apache-2.0
"""Memory of tt-metal's operator new is freed by tt-metal's operator delete, also if they are replaced.

The agent has its own C++ runtime. Its operator delete may free only memory of its own operator new. Otherwise,
AddressSanitizer ends the workload, and free() fails for memory of a replaced operator new.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from native.tests.build import build

from tests.native_stage import Stage, stage_of
from tests.runs import Bench
from ttmem.agent import require

__all__ = ["stage_of"]


def libasan() -> str:
    found = subprocess.run(["g++", "-print-file-name=libasan.so"], check=True, capture_output=True, text=True)
    return str(Path(found.stdout.strip()).resolve())


def odd_new() -> str:
    return str(build().folder / "tests" / "libodd_new.so")


@pytest.mark.parametrize("library", [libasan, odd_new], ids=["libasan", "another operator new"])
def test_a_ttnn_program(library: Callable[[], str], folder: Path) -> None:
    """A mesh is opened and kernels are compiled: the agent requests a list of devices, and names."""
    with Bench(folder) as bench:
        ran = bench.plain("ttnn_names", LD_PRELOAD=f"{library()}:{require()}", ASAN_OPTIONS="detect_leaks=0")
    assert ran.code == 0, ran.err
    assert "AddressSanitizer" not in ran.err


@pytest.mark.parametrize("program", ["workload", "workload_open"])
@pytest.mark.parametrize("wheel", ["metal", "before_75"])
def test_a_program_that_replaces_operator_new(wheel: str, program: str, stage_of: Callable[[str], Stage]) -> None:
    """Also with a list after the allocator's statistics, as in wheels before 0.75."""
    stage = stage_of("plain")
    fake = stage.built.fake(wheel)
    environment: dict[str, Any] = {"FAKE_METAL": fake, "LD_LIBRARY_PATH": str(Path(fake).parent)}
    ran = stage.run("life", program=program, LD_PRELOAD=f"{stage.built.agent} {odd_new()}", **environment)
    assert ran.code == 0, ran.err
    ring = stage.ring(ran.pid)
    assert ring.text("wheel") == fake
    assert ring.meshes()[0].audits

# SPDX-License-Identifier: Apache-2.0
"""The CSV reports of a simulated device, compared with those of ttnn 0.81.1 in the same state."""

from __future__ import annotations

from pathlib import Path

import pytest

from ttmem.model.geometry import BOARDS
from ttmem.model.kinds import Kind
from ttmem.sim.allocator import Allocator
from ttmem.sim.reports import dump_device_memory_state
from ttmem.sim.tensors import TensorSpec

DATA = Path(__file__).parent.parent / "data" / "memory_reports"
NAMES = ("memory_usage_summary.csv", "l1_usage_summary.csv", "detailed_memory_usage.csv")


@pytest.fixture
def memory() -> Allocator:
    """One matrix of 1024 x 1024 in DRAM, and the second of two in L1."""
    memory = Allocator(
        BOARDS["n150"], dram_base=1048640, dram_alignment=32, l1_small_size=32768, trace_region_size=4 << 20
    )
    matrix = TensorSpec((1024, 1024))
    memory.allocate(Kind.DRAM, memory.need(Kind.DRAM, matrix))
    first = memory.allocate(Kind.L1, memory.need(Kind.L1, matrix))
    memory.allocate(Kind.L1, memory.need(Kind.L1, matrix))
    memory.free(Kind.L1, first)
    return memory


@pytest.mark.parametrize("prefix", ["", "after_"])
def test_they_are_those_of_ttnn(memory: Allocator, tmp_path: Path, prefix: str) -> None:
    dump_device_memory_state(memory, tmp_path, prefix)
    reports = tmp_path / "generated" / "reports"
    assert sorted(path.name for path in reports.iterdir()) == sorted(prefix + name for name in NAMES)
    for name in NAMES:
        assert (reports / (prefix + name)).read_bytes() == (DATA / name).read_bytes()


def test_a_second_dump_replaces_the_first(memory: Allocator, tmp_path: Path) -> None:
    dump_device_memory_state(memory, tmp_path)
    for address in memory.blocks(Kind.DRAM).live():
        memory.free(Kind.DRAM, address)
    dump_device_memory_state(memory, tmp_path)
    summary = (tmp_path / "generated" / "reports" / NAMES[0]).read_text().splitlines()
    assert summary[1] == ",1072340928,0,1072340928,1072340928"
    assert len(summary) == 4


def test_released_ids_are_listed(memory: Allocator, tmp_path: Path) -> None:
    for address in memory.blocks(Kind.L1).live():
        memory.free(Kind.L1, address)
    dump_device_memory_state(memory, tmp_path)
    details = (tmp_path / "generated" / "reports" / NAMES[2]).read_text()
    _, _, l1 = details.partition(",L1\n")
    assert "Free slots in block table: 1 0 \n" in l1

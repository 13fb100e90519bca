# SPDX-License-Identifier: Apache-2.0
"""The mock setup itself: an unmodified ttnn opens every board on both Pythons, and its programs report correctly."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from tests.mock.boards import BOARDS
from tests.mock.program import Program
from tests.mock.wheel import PYTHONS, SHARED_MEMORY, in_turn, statistics, wheel

STEPS = 30


@pytest.mark.parametrize(("board", "python"), in_turn(BOARDS))
def test_a_random_program_runs(board: str, python: str, folder: Path) -> None:
    arguments = ("--steps", str(STEPS), "--seed", "1")
    with Program(wheel(python), "ttnn_random", board, folder, *arguments) as program:
        records = list(program.records())
    assert [record["what"] for record in records[:: STEPS + 1]] == ["open", "close"]
    assert [record["step"] for record in records] == list(range(STEPS + 2))
    assert [record["error"] for record in records if record["error"]] == []
    assert any(record["views"]["L1"]["allocated_per_bank"] for record in records[:-1])
    assert any(record["program_cache"] for record in records)


def test_the_same_seed_gives_the_same_program(folder: Path) -> None:
    def run(python: str) -> list[object]:
        arguments = ("--steps", str(STEPS), "--seed", "2", "--threads", "0")
        with Program(wheel(python), "ttnn_random", "n150", folder, *arguments) as program:
            return list(program.records())

    assert run(PYTHONS[0]) == run(PYTHONS[1])


@pytest.mark.parametrize(("board", "chips"), [("n150", 1), ("n300", 2), ("t3k", 8), ("p150", 1)])
def test_every_opened_chip_has_statistics_until_they_are_removed(board: str, chips: int, folder: Path) -> None:
    with Program(wheel("3.12"), "ttnn_random", board, folder, "--steps", "0") as program:
        files = statistics(board, program.chip_id_seed)
        for _ in program.records():
            assert [path.exists() for path in files.values()] == [True] * chips
    assert not any(path.exists() for path in files.values())


def test_two_processes_call_different_chips_device_0(folder: Path) -> None:
    """Each process sees one of the two boards, as its device 0."""
    with contextlib.ExitStack() as stack:
        programs: list[Program] = []
        for chip in (0, 1):
            own = folder / str(chip)
            own.mkdir()
            program = Program(
                *(wheel("3.12"), "ttnn_random", "n150x2", own, "--steps", "0"),
                environment={"TT_VISIBLE_DEVICES": str(chip)},
                chip_id_seed=programs[0].chip_id_seed if programs else None,
            )
            programs.append(stack.enter_context(program))
        for chip, program in enumerate(programs):
            next(program.records())
            files = statistics("n150x2", program.chip_id_seed)
            assert [str(path) in program.mapped for path in files.values()] == [chip == 0, chip == 1]


def test_the_kernels_of_an_operation_are_told_with_their_sizes(folder: Path) -> None:
    with Program(wheel("3.12"), "ttnn_capture", "n150", folder, "--ops", "add,matmul,slice") as program:
        records = {(record["op"], record["phase"]): record for record in program.records()}
    kernels = records["add", "ran"]["kernels"]
    assert sorted(elf["core"] for kernel in kernels for elf in kernel["elfs"]) == [
        *("brisc", "ncrisc"),
        *("trisc0", "trisc1", "trisc2"),
    ]
    sizes = [elf["packed"] for kernel in kernels for elf in kernel["elfs"]]
    assert len(set(sizes)) == len(sizes)
    assert all(1024 < size < 8192 for size in sizes)
    kinds = {
        op: {b["kind"] for p in records[op, "captured"]["programs"] for b in p} for op in ("add", "matmul", "slice")
    }
    assert kinds == {
        "add": {"circular_buffer"},
        "matmul": {"dataflow_buffer"},
        "slice": {"dataflow_buffer", "scratchpad"},
    }


def test_fabric_routers_are_built_for_every_ethernet_link(folder: Path) -> None:
    with Program(wheel("3.12"), "ttnn_capture", "t3k", folder, "--fabric", "--ops", "add") as program:
        opened = next(program.records())
    ends = 2 * sum(len(link.channels) for link in BOARDS["t3k"].links)
    assert len(opened["kernels"]) == ends
    assert {elf["core"] for kernel in opened["kernels"] for elf in kernel["elfs"]} == {"erisc"}


def test_nothing_is_written_outside_the_folder(folder: Path) -> None:
    with Program(wheel("3.10"), "ttnn_random", "n150", folder, "--steps", "3") as program:
        for _ in program.records():
            mapped = {line.split()[-1] for line in program.mapped.splitlines() if str(SHARED_MEMORY) in line}
            assert mapped <= {str(path) for path in statistics("n150", program.chip_id_seed).values()}
    assert {path.name for path in folder.iterdir()} == {
        *("cache", "home", "logs", "tmp"),
        *("n150.yaml", "ttnn_random.err"),
    }

# SPDX-License-Identifier: Apache-2.0
"""The simulated allocator, compared with ttnn's own: random tensors, a new sequence in each test run."""

from __future__ import annotations

import secrets
from pathlib import Path

import pytest

from tests.mock.program import Program
from tests.mock.wheel import wheel
from tests.sequences import Replay

STEPS = 400


@pytest.mark.parametrize("board", ["n150", "p150", "t3k"])
def test_a_random_sequence(board: str, folder: Path) -> None:
    seed = secrets.randbits(32)
    print(f"--board {board} --seed {seed}")  # pytest shows it when the test fails
    arguments = ("--seed", str(seed), "--steps", str(STEPS), "--reports-every", "50", "--trace-region-size", "4000000")
    with Program(wheel("3.12"), "ttnn_sequence", board, folder, *arguments) as program:
        records = program.records()
        header = next(records)["header"]
        replay = Replay(header, header["bases"]["DRAM"], folder / "sim")
        for record in records:
            replay.step(record)
    assert replay.seen["alloc"] + replay.seen["free"] + replay.seen["oom"] + replay.seen["refused"] == STEPS
    assert min(replay.seen[what] for what in ("alloc", "free", "oom", "pages")) > 0
    assert replay.seen["tables"] == STEPS
    assert replay.seen["reports"] == STEPS // 50

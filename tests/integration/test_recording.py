# SPDX-License-Identifier: Apache-2.0
"""A recorded random program of the real ttnn: at every moment the recording is what ttnn reported then."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections import Counter
from math import inf
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.naive_stats import Naive, Walk, check, check_fragmentation
from tests.recordings import live_in_account, live_in_table, samples_agree
from tests.runs import Bench, ttmem
from tests.support import wait_until
from ttmem.documents.recorded_snapshot import recorded_snapshot
from ttmem.model.kinds import Kind
from ttmem.recording.recording_file import Opened, Recording
from ttmem.recording.timeline import free_space
from ttmem.server.recorded_api import RecordedApi
from ttmem.statistics.stats_document import stats_of, window_of

BUFFER_KINDS = ("DRAM", "L1", "L1_SMALL", "TRACE")
MOMENTS = 200


def end_of(path: str) -> float:
    with Recording(path) as recording:
        return recording.end


def agrees(opened: Opened, said: dict[str, Any], chip_ids: dict[int, str]) -> None:
    """The account has the buffers that ttnn listed, and the bytes that its allocators reported."""
    for number in said["chips"]:
        chip = opened.ledger.chips[chip_ids[number]]
        for name in BUFFER_KINDS:
            view = said["views"][name]
            assert chip.kinds[Kind[name]].reserved_bytes == view["banks"] * view["allocated_per_bank"], name
        buffers = Counter(
            (int(allocation.kind), allocation.address)
            for holding in chip.holdings
            for allocation in holding.buffers.values()
        )
        assert buffers == Counter(tuple(buffer) for buffer in said["buffers"])


def free_blocks_agree(recording: Recording, said: list[tuple[float, dict[str, Any]]]) -> None:
    """After every step, the largest free block of each kind is what ttnn's allocator said."""
    table = recording.lifetimes().allocations
    times = np.array([table.at(moment) for moment, _ in said])
    (allocator,) = range(len(table.allocators))
    for name in BUFFER_KINDS:
        if Kind[name] in table.allocators[allocator].regions:
            found = free_space(table, allocator, Kind[name], times)
            assert found.largest.tolist() == [record["views"][name]["largest_free_per_bank"] for _, record in said]


def stats_agree(recording: Recording) -> None:
    """Every figure of the statistics is that of a naive count over all events, of everything and of a part."""
    walk, ledger = Walk(recording), recording.at().ledger
    length = recording.end - recording.begin
    for after, until in ((None, inf), (recording.begin + 0.5 * length, recording.begin + 0.9 * length)):
        window = window_of(recording, after, until, None)
        found = stats_of(recording, window, ledger, top=5, is_failure=lambda text: True)
        naive = Naive(
            walk, set(window.chips), None if after is None else window.after, None if after is None else window.until
        )
        check(found, naive, most=5, tolerance=1000)
        if after is None:
            assert {row["kind"] for row in found["kinds"]} >= {"dram", "l1", "cb", "kernel"}
            check_fragmentation(found, naive, recording, wanted=2, slack=400)


@pytest.mark.parametrize(("board", "steps"), [("n150", 220), ("n300", 60)])
def test_any_moment_is_what_ttnn_reported(board: str, steps: int, folder: Path) -> None:
    path = str(folder / "run.ttmem")
    said: list[tuple[float, dict[str, Any]]] = []
    with Bench(folder, board) as bench:
        arguments = ("--steps", str(steps), "--seed", "21")
        with bench.in_step("ttnn_random", *arguments, options=("--record", path)) as running:
            # The program waits after each record: nothing changes now.
            said += ((time.time(), record) for record in running.records() if record["views"])
            assert running.ran.code == 0
        assert len(said) >= steps
        with Recording(path) as recording:
            assert recording.finished
            assert not recording.problems
            assert not recording.gaps
            for moment, record in random.Random(1).sample(said, min(MOMENTS, len(said))):
                opened = recording.at(moment)
                agrees(opened, record, bench.chip_ids)
                assert live_in_table(recording, moment) == live_in_account(opened.ledger)
            free_blocks_agree(recording, said)
            stats_agree(recording)
            step = 0.1 * (recording.end - recording.begin)  # some operations of a step are over before it ends
            assert samples_agree(recording, step) < 1, "the history of charts needs not every record"
            shown = RecordedApi(recording)
            for moment, _ in sorted(random.Random(2).sample(said, 20), key=itemgetter(0)) + random.Random(3).sample(
                said, 5
            ):
                # However the dashboard got there, it shows what the commands show.
                shown.seek_time(moment)
                opened = recording.at(moment)
                assert shown.snapshot() == recorded_snapshot(recording, opened.ledger, opened.time)
            shown.seek_text("end")
            failed = shown.step("failure", -1)
            assert failed.time == recording.failures()[-1].time
            shown.close()
            assert any("Out of Memory" in failure.event.text for failure in recording.failures())  # type: ignore[union-attr]


def test_a_killed_ttmem_leaves_what_was_written(folder: Path) -> None:
    """At most the last second is missing, and the reader says that the file was not closed."""
    path = str(folder / "run.ttmem")
    said: list[tuple[float, dict[str, Any]]] = []
    with Bench(folder) as bench:
        arguments = ("--steps", "60", "--seed", "22")
        with bench.in_step("ttnn_random", *arguments, options=("--record", path)) as running:
            for record in running.records():
                if record["views"]:
                    said.append((time.time(), record))
                if record["step"] == 40:
                    wait_until(lambda: end_of(path) >= said[10][0], "the first steps in the file")
                    os.kill(running.process.pid, signal.SIGKILL)
                    break
        with Recording(path) as recording:
            assert not recording.finished
            assert not recording.problems
            written = [(moment, record) for moment, record in said if moment <= recording.end]
            assert len(written) > 10
            for moment, record in written:
                agrees(recording.at(moment), record, bench.chip_ids)
        shown = ttmem("replay", path, "--json")
        assert shown.code == 0
        assert "was not closed; it is read up to its last block" in shown.err
        assert json.loads(shown.out)["sources"] == [{"name": "recording", "state": "cut off", "detail": None}]

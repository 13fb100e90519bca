# SPDX-License-Identifier: Apache-2.0
"""The two lines of a verdict: what happened, and what made the peak."""

from __future__ import annotations

from typing import Any

import pytest

from ttmem.pages.report_verdict import verdict

SITES: Any = [{"op": 0, "line": 1}, {"op": -1, "line": -1}, {"op": 0, "line": 1}]
STRINGS = ["ttnn.add", "models/llama/model.py:42 forward"]


def group(name: str, pool: str = "dram", peak: int = 3 << 30, capacity: int | None = 12 << 30, chips: int = 1) -> Any:
    shares = [{"site": 0, "bytes": peak // 2}, {"site": 1, "bytes": peak // 4}, {"site": 2, "bytes": peak // 4}]
    row = {"pool": pool, "peak": peak, "peak_at_most": None, "capacity": capacity, "at_peak": shares if peak else []}
    return {"name": name, "chips": ["x"] * chips, "pools": [row]}


def lines(
    *groups: Any,
    leaks: Any = None,
    explained: Any = (),
    failures: int = 0,
    code: int | None = 0,
    complete: bool = True,
) -> Any:
    return verdict(groups, explained, failures, leaks, SITES, STRINGS, code, complete=complete)


def test_it_fits() -> None:
    assert lines(group("n150 chip 0")) == {
        "status": "fits",
        "lines": [
            "Fits: DRAM at most 3.0 GiB of 12.0 GiB (25 %) per chip.",
            "At the peak of DRAM: 2.2 GiB of ttnn.add (llama/model.py:42 forward), 768.0 MiB of unknown operations.",
        ],
    }


def test_a_small_part_is_not_nothing() -> None:
    small = group("n150 chip 0", "dram", 8 << 20)
    assert lines(small)["lines"][0] == "Fits: DRAM at most 8.0 MiB of 12.0 GiB (0.065 %) per chip."


def test_a_peak_that_is_only_a_lower_limit() -> None:
    inexact = group("n150 chip 0")
    inexact["pools"][0]["peak_at_most"] = 4 << 30
    assert lines(inexact)["lines"][0] == "Fits: DRAM peak ≥ 3.0 GiB of 12.0 GiB (≥ 25 %) per chip."


def test_an_incomplete_recording_may_have_missed_a_failure() -> None:
    found = lines(group("n150 chip 0"), complete=False)
    assert found["status"] == "cannot_tell"
    assert found["lines"][0] == (
        "The recording is incomplete. The part that can be read: DRAM at most 3.0 GiB of 12.0 GiB (25 %) per chip."
    )
    assert found["lines"][1].startswith("At the peak of DRAM:")


def test_nothing_of_an_incomplete_recording_can_be_read() -> None:
    assert lines(complete=False) == {
        "status": "cannot_tell",
        "lines": [
            "The recording is incomplete.",
            "The part that can be read contains no allocation on a device.",
        ],
    }


def test_a_mesh_and_an_exit_code() -> None:
    found = lines(group("n300 chips 0 to 7", chips=8), group("n300 chip 8", "l1_buffers", 9 << 20, None), code=1)
    assert found["lines"][0] == (
        "Fits: DRAM at most 3.0 GiB of 12.0 GiB (25 %) per chip on n300 chips 0 to 7; "
        "L1 buffers at most 9.0 MiB per chip on n300 chip 8; the command ended with exit code 1."
    )


@pytest.mark.parametrize("groups", [(), (group("n150 chip 0", peak=0),)])
def test_nothing_was_recorded(groups: tuple[Any, ...]) -> None:
    assert lines(*groups)["status"] == "cannot_tell"


def test_a_leak_and_a_failure() -> None:
    pools = {"dram": {"count": 60, "bytes": 60 << 20, "per_chip": 60 << 20, "chips": 1}}
    growing = [{"op": "ttnn.add", "line": None}]
    leaks = {"verdict": {"leak": True, "groups": 1, "pools": pools}, "growing": growing}
    found = lines(group("n150 chip 0"), leaks=leaks)
    assert found["status"] == "leaks"
    assert found["lines"] == [
        "Leak: 60.0 MiB of DRAM in 60 allocations grow from step to step.",
        "Most grows at ttnn.add.",
    ]
    explained: Any = [{"verdict": {"headline": "out of memory: 4 MiB of L1", "held_by": "held by 3 x 1 MiB"}}]
    found = lines(group("n150 chip 0"), leaks=leaks, explained=explained, failures=1)
    assert found == {"status": "out_of_memory", "lines": ["Out of memory: 4 MiB of L1.", "Held by 3 x 1 MiB."]}
    found = lines(group("n150 chip 0"), explained=explained, failures=3)
    assert found["lines"][0] == "3 allocations failed. The last: out of memory: 4 MiB of L1."

# SPDX-License-Identifier: Apache-2.0
"""The verdict on a run follows from what was seen, and nothing uncertain is called an answer."""

from __future__ import annotations

from typing import Any

import pytest

from ttmem.fit.fit_listener import FitSizes
from ttmem.fit.fit_verdict import exit_code, verdict_on
from ttmem.fit.mock_boards import BOARDS
from ttmem.fit.mock_environment import Machine
from ttmem.fit.mock_run import AllocatorUse, MockRun
from ttmem.model.kinds import Pool
from ttmem.run.result import RunResult

SEEN: dict[str, Any] = {"failed": 0, "dropped": 0, "unseen": [], "uncertain": [], "completeness": 1.0, "trouble": []}
USE = AllocatorUse(FitSizes(None, None, True, 0), None, None, None)
DRAM: Any = {"banks": 12, "bank_size": 1000, "peak": 600, "largest_free_min": 400}


def run(code: int = 0, document: dict[str, Any] | None = None, **fields: Any) -> MockRun:
    result = RunResult(
        document={**SEEN, **(document or {})},  # type: ignore[typeddict-item]
        exit_code=code, events=1, seen_completely=True, uncertain=[], reserved_peaks=dict.fromkeys(Pool, 0),
    )  # fmt: skip
    known: dict[str, Any] = {"allocators": [USE], "reported": [], "foreign_chips": [], "stopped": False}
    return MockRun(Machine("n150", BOARDS["n150"]), result, output=[], warnings=[], **{**known, **fields})


CASES = {
    "all succeeded": (run(), "fits", "every allocation succeeded"),
    "stopped": (run(137, stopped=True), "fits", "until the run was stopped"),
    "failed": (run(1, {"failed": 2}), "fails", "an allocation failed"),
    "handled": (run(0, {"failed": 1}), "fails", "handled it and went on"),
    "other error": (run(1), "unknown", "no allocation did; its exit code was 1"),
    "no device": (run(0, allocators=[]), "unknown", "opened no device"),
    "real device": (run(0, {"failed": 1}, foreign_chips=["77"]), "unknown", "no mock devices: 77"),
    "unsupported": (run(70, reported=[("create_sub_device_manager", 0)]), "unknown", "create_sub_device_manager"),
    "lost": (run(0, {"dropped": 3}), "unknown", "3 records were lost"),
    "unseen": (run(0, {"unseen": [{"pid": 7, "name": "x"}]}), "unknown", "pid 7 (x)"),
    "uncertain": (run(0, {"uncertain": [{"reason": "table_full", "count": 2}]}), "unknown", "counted"),
    "incomplete": (run(0, {"completeness": 0.9}), "unknown", "differs"),
    "older than 0.75": (run(0, {"trouble": ["programs are not tracked"]}), "fits", "an answer for buffers only"),
}


@pytest.mark.parametrize("name", CASES)
def test_the_verdict(name: str) -> None:
    seen, verdict, words = CASES[name]
    found = verdict_on(seen, DRAM, [])
    assert found.verdict == verdict
    assert words in found.reason


@pytest.mark.parametrize(("bounds", "verdict"), [([400, None], "fits"), ([300, 101], "unknown")])
def test_the_unknown_must_fit_into_the_largest_free_block(bounds: list[int | None], verdict: str) -> None:
    unknown: Any = [{"what": "traces", "text": "", "bound": bound} for bound in bounds]
    assert verdict_on(run(), DRAM, unknown).verdict == verdict


@pytest.mark.parametrize(
    ("verdicts", "code"),
    [(["fits"], 0), (["fits", "fails"], 4), (["unknown", "fits"], 5), (["unknown", "fails"], 4), ([], 5)],
)
def test_the_exit_code(verdicts: list[str], code: int) -> None:
    rows: Any = [{"verdict": verdict} for verdict in verdicts]
    assert exit_code(rows) == code

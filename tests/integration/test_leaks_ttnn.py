# SPDX-License-Identifier: Apache-2.0
"""Leaks of a real ttnn program that keeps memory in many ways: exactly its leaks are found."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.runs import Bench, ttmem

ROOT = Path(__file__).parents[2]
LEAKS = {"leak_every_step": 2.0, "leak_in_thread": 1.0, "leak_late": 1.0, "leak_seldom": 0.25}  # as in the program


@pytest.fixture
def bench(folder: Path) -> Iterator[Bench]:
    with Bench(folder, "n150") as bench:
        yield bench


def caller_of(row: Any) -> str:
    """The function that called the one that makes all tensors."""
    functions = [frame.rpartition(" ")[2] for frame in row["stack"]]
    return str(functions[functions.index("make") + 1])


def rates_of(found: Any) -> dict[str, float]:
    """The rate of each function that leaks: the sum over its lines."""
    rates: dict[str, float] = {}
    for row in found["growing"]:
        caller = caller_of(row)
        rates[caller] = rates.get(caller, 0.0) + row["growth"]["per_step"]
    return rates


def test_exactly_the_leaks_grow(bench: Bench) -> None:
    """With weights, a cache of keys and values, a program cache, a window, a warm-up, and a list that is cleared."""
    path = str(bench.folder / "leaks.ttmem")
    options = ("--max-l1", "1K", "--max-dram", "1K", "--fail-on-leak", "--quiet", "--stacks", "--record", path)
    ran = bench.run("ttnn_leaks", "--phases", options=options, PYTHONPATH=str(ROOT / "src"))
    assert ran.code == 3, "a leak counts more than a budget"
    assert [line.split(" ")[3] for line in ran.err.splitlines()] == ["DRAM", "leak:"]
    assert ran.err.splitlines()[-1].startswith("ttmem run: verdict: leak: +1 per step at programs/ttnn_leaks.py:")
    shown = ttmem("leaks", "--file", path, "--json")
    assert shown.code == 3
    found = json.loads(shown.out)
    assert rates_of(found) == LEAKS
    assert [(row["by"], row["name"], row["steps"]) for row in found["judged"]] == [("phase", "step", 60)]
    held = Counter(caller_of(row) for row in found["held"] for _ in range(row["count"]))
    assert held == {"weight": 12, "kv_cache": 1, "warm_up": 15, "slide_window": 8}
    assert found["doubts"] == []
    assert found["program_cache"]["count"] > 0

    def again(*options: str) -> tuple[int, dict[str, float]]:
        done = ttmem("leaks", "--file", path, "--json", *options)
        return done.code, rates_of(json.loads(done.out))

    baseline = bench.folder / "baseline.json"
    baseline.write_bytes(shown.out)
    assert ttmem("leaks", "--file", path, "--baseline", str(baseline)).code == 0
    assert again("--ignore", "*leak_in_thread", "--ignore", "leak_every_step") == (
        3, {"leak_late": 1.0, "leak_seldom": 0.25},
    )  # fmt: skip
    assert again("--since", "phase:step") == (0, {})
    late = next(row["growth"]["since"] for row in found["growing"] if caller_of(row) == "leak_late")
    code, earlier = again("--at", str(late))
    assert (code, LEAKS | earlier) == (3, LEAKS), "the same rates while it runs"
    assert earlier.keys() >= {"leak_every_step", "leak_in_thread", "leak_seldom"}
    assert again("--at", "end") == (0, {}), "everything was freed when the device was closed"
    text = " ".join(ttmem("leaks", "--file", path, "--growing").out.decode().split())
    assert "+0.25 per step 120.0 KiB 15 dram" in text
    assert "make, called at :52 leak_seldom, ttnn.zeros, [1, 128] bfloat16 tile" in text


def test_the_program_cache_is_found_as_the_run_reported_it(bench: Bench) -> None:
    """Also if every tensor was freed before the device was closed."""
    path = str(bench.folder / "model.ttmem")
    ran = bench.run_command([bench.python, str(ROOT / "examples/model.py")], options=("--record", path))
    assert ran.code == 0, ran.err
    left = [row["cause"] for row in ran.data["left"]]
    found = json.loads(ttmem("leaks", "--file", path, "--json").out)
    assert left == ["program cache"] * found["program_cache"]["count"]
    assert left


def test_a_sound_program_has_no_leak(bench: Bench) -> None:
    """The same without the leaks, without stacks and without phases."""
    path = str(bench.folder / "sound.ttmem")
    options = ("--fail-on-leak", "--quiet", "--record", path)
    ran = bench.run("ttnn_leaks", "--sound", options=options)
    assert (ran.code, ran.err) == (0, "")
    found = json.loads(ttmem("leaks", "--file", path, "--json").out)
    assert (found["growing"], found["doubts"]) == ([], [])
    assert sum(row["count"] for row in found["held"]) == 12 + 1 + 15 + 8
    assert [(row["by"], row["name"], row["steps"]) for row in found["judged"]] == [("line", "ttnn.add", 60)]

# SPDX-License-Identifier: Apache-2.0
"""The programs in examples/, each run as its first lines say, on the real ttnn with mock devices."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.mock.wheel import ROOT, wheel
from tests.runs import Bench
from tests.support import PATIENCE, Server, wait_until
from ttmem.agent import require

EXAMPLES = ROOT / "examples"
BIN = Path(sys.executable).parent  # of the `ttmem` that is tested


@pytest.fixture
def example(folder: Path) -> Bench:
    bench = Bench(folder)
    bench.environment |= {"PYTHONPATH": str(ROOT / "src"), "PATH": f"{BIN}:{os.environ['PATH']}"}
    return bench


def command(bench: Bench, name: str, *arguments: str) -> list[str]:
    return [bench.python, str(EXAMPLES / name), *arguments]


@contextmanager
def started(words: list[str], environment: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    """A program with input from the test; it is killed if the test fails."""
    process = subprocess.Popen(words, env=environment, stdin=-1, stdout=-1, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_all_are_listed_and_tested() -> None:
    programs = {path.name for path in EXAMPLES.glob("*.py")}
    page, tests = (EXAMPLES / "README.md").read_text(), Path(__file__).read_text()
    assert len(programs) == 7
    assert all(f"[{name}]({name})" in page and f'"{name}"' in tests for name in programs)


def test_a_model_under_run(example: Bench) -> None:
    ran = example.run_command(command(example, "model.py"), options=["--stacks", "--fail-on-leak"])
    assert (ran.code, ran.out.decode()) == (0, "result: [1, 1, 128, 1024]\n")
    assert ran.data["dropped"] == 0
    lines = {row["line"] for pool in ran.data["breakdown"]["line"] for row in pool["rows"]}
    assert any("model.py" in (line or "") for line in lines)


def test_phases(example: Bench) -> None:
    ran = example.run_command(command(example, "phases.py"))
    assert (ran.code, ran.out.decode().splitlines()) == (
        0,
        [
            "DRAM now: 4194304 B",
            "load: DRAM +2097152 B, L1 buffers at most 0 B",
            "prefill: DRAM +2097152 B, L1 buffers at most 524288 B",
            "attention: DRAM +0 B, L1 buffers at most 524288 B",
        ],
    )


def test_phases_without_ttmem_run_say_what_to_do(example: Bench) -> None:
    done = subprocess.run(
        command(example, "phases.py"), env=example.environment, capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 1
    assert "ttmem run" in done.stderr


def test_a_tracker_of_ones_own(server: Server) -> None:
    environment = {**os.environ, "TTMEM_SOCKET": server.path, "TT_ALLOC_TRACKING_ENABLED": "1"}
    with started([sys.executable, str(EXAMPLES / "own_tracker.py")], environment) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == "reported; press Enter to end\n"
        held = server.process_of(process.pid)
        assert held is not None
        assert held["chips"][0]["dram"] == (64 << 20) + 7 * (4 << 20)
        assert [chip["chip"] for chip in server.snapshot()["chips"]] == ["assumed:0"]
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.wait(PATIENCE) == 0
        wait_until(lambda: server.process_of(process.pid)["state"] == "exited", "its end")  # type: ignore[index]
    peak = (64 << 20) + 8 * (4 << 20)
    assert server.snapshot()["chips"] == [], "a device number that no living process uses is no chip"
    assert server.process_of(process.pid)["chips"][0]["peak_dram"] == peak  # type: ignore[index]
    for path in ("/peaks", f"/peaks?pid={process.pid}"):
        found = [row["per_chip"] for row in server.get(path)["peaks"] if row.get("pool") == "dram"]
        assert found == [peak], path
    shown = subprocess.run([sys.executable, "-m", "ttmem", "smi"], env=environment, capture_output=True, text=True)
    assert shown.returncode == 0
    assert "No chip is known: the processes that used one have exited." in shown.stdout
    assert [chip["chip"] for chip in again(server, environment)] == ["assumed:0"]


def again(server: Server, environment: dict[str, str]) -> list[dict[str, Any]]:
    """The chips while the example runs again."""
    with started([sys.executable, str(EXAMPLES / "own_tracker.py")], environment) as process:
        assert process.stdout is not None
        process.stdout.readline()
        return list(server.snapshot()["chips"])


@pytest.mark.parametrize(("budget", "code", "verdict"), [("16MiB", 0, "within budget"), ("1MiB", 4, "over budget")])
def test_a_budget_in_ci(example: Bench, folder: Path, budget: str, code: int, verdict: str) -> None:
    script = folder / "ci_budget.py"
    script.write_text(
        (EXAMPLES / "ci_budget.py")
        .read_text()
        .replace('DRAM_BUDGET, L1_BUDGET = "16MiB"', f'DRAM_BUDGET, L1_BUDGET = "{budget}"')
    )
    done = subprocess.run(
        [sys.executable, str(script), *command(example, "model.py")],
        env=example.environment, capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip
    lines = done.stdout.splitlines()
    assert (done.returncode, lines[-1]) == (code, f"verdict: {verdict}"), done.stderr
    assert any(line.endswith(": dram at most 8,388,608 B") for line in lines), lines
    assert any("ttnn.empty" in line for line in lines)


def test_a_service(example: Bench, server: Server) -> None:
    environment = example.environment | {"TTMEM_SOCKET": server.path, "LD_PRELOAD": str(require())}
    with started(command(example, "service.py"), environment) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == "ready\n"
        process.stdin.write("first\n")
        process.stdin.flush()
        assert process.stdout.readline() == "first: [1, 1, 32, 1024] (keeps 0 B of DRAM)\n"
        wait_until(lambda: (server.process_of(process.pid) or {"chips": []})["chips"], "its account")
        process.kill()  # what it held is still listed
        wait_until(lambda: server.process_of(process.pid)["state"] == "exited", "its death")  # type: ignore[index]
    held = server.process_of(process.pid)
    assert held is not None
    assert held["chips"][0]["dram"] >= 2 << 20


@pytest.mark.parametrize(
    ("name", "arguments", "printed"),
    [("decoder.py", ["--layers", "1", "--batch", "2"], "tokens: "), ("convnet.py", [], "scores: [1, 1, 1, 1000]")],
)
def test_a_model_under_fit(name: str, arguments: list[str], printed: str, folder: Path) -> None:
    """Once with one layer: prefill, trace, second queue and sampling run; and once all convolutions."""
    done = subprocess.run(
        [sys.executable, "-m", "ttmem", "fit", "--board", "n150", "-v", "--", wheel("3.12").python,
         str(EXAMPLES / name), *arguments],
        cwd=folder, capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert printed in done.stderr
    assert done.stdout.endswith("ttmem fit: n150 fits\n")
    assert list(folder.iterdir()) == []


# The tensors that examples/decoder.py keeps, on one chip: shape and number.
HIDDEN, FEED_FORWARD, LAYERS, VOCABULARY = 4096, 14336, 32, 128256
BY_HAND = """
import sys, ttnn
device = ttnn.open_device(device_id=0, num_command_queues=2, l1_small_size=32768, trace_region_size=32 << 20)
held = [ttnn.empty([1, 1, 128256, 4096], ttnn.bfloat16, ttnn.ROW_MAJOR_LAYOUT, device)]
for dtype, shape, count in eval(sys.argv[1]):
    for _ in range(count):
        held.append(ttnn.empty(shape, getattr(ttnn, dtype), ttnn.TILE_LAYOUT, device))
"""


def kept(batch: int, length: int) -> list[tuple[str, list[int], int]]:
    shapes = [
        ("bfloat8_b", [1, 1, HIDDEN, VOCABULARY], 1),
        ("bfloat16", [1, 1, 32, HIDDEN], 2 * LAYERS),
        ("bfloat8_b", [1, 1, HIDDEN, 48 * 128], LAYERS),
        ("bfloat8_b", [1, 1, HIDDEN, HIDDEN], LAYERS),
        ("bfloat8_b", [1, 1, HIDDEN, FEED_FORWARD], 2 * LAYERS),
        ("bfloat8_b", [1, 1, FEED_FORWARD, HIDDEN], LAYERS),
        ("bfloat8_b", [batch, 8, length, 128], 2 * LAYERS),
    ]
    return [(dtype, list(shape), count) for dtype, shape, count in shapes]


def bytes_in_a_bank(batch: int, length: int) -> int:
    """Pages are spread over 12 banks: rows of the embedding, tiles of everything else."""
    total = -(-VOCABULARY // 12) * HIDDEN * 2
    for dtype, shape, count in kept(batch, length):
        tiles = math.prod(shape) // 1024
        total += count * -(-tiles // 12) * (2048 if dtype == "bfloat16" else 1088)
    return total


def test_the_border_of_the_decoder_that_is_published(folder: Path) -> None:
    """docs/fit.md: on an n150, with length 8192, batch 6 fits and 7 does not. By hand, the same."""
    done = subprocess.run(
        [sys.executable, "-m", "ttmem", "fit", "--board", "n150", "--vary", "batch=6,7", "--fresh", "--json", "--",
         wheel("3.12").python, str(EXAMPLES / "decoder.py"), "--batch", "{batch}", "--length", "8192"],
        cwd=folder, capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip
    assert done.returncode == 4, done.stderr
    six, seven = json.loads(done.stdout)["boards"]
    assert (six["verdict"], seven["verdict"]) == ("fits", "fails")
    bank = six["dram"]["bank_size"]
    assert bytes_in_a_bank(6, 8192) <= six["dram"]["peak"] <= bank < bytes_in_a_bank(7, 8192)
    assert bytes_in_a_bank(26, 2048) <= bank < bytes_in_a_bank(27, 2048), "also published"
    (folder / "by_hand.py").write_text(BY_HAND)
    with Bench(folder / "bench", "n150") as bench:
        for batch, words in ((6, ""), (7, "Out of Memory")):
            ran = subprocess.run(
                [bench.python, str(folder / "by_hand.py"), repr(kept(batch, 8192))], env=bench.environment, cwd=folder,
                capture_output=True, text=True, timeout=PATIENCE,
            )  # fmt: skip
            assert (ran.returncode == 0) == (batch == 6), ran.stderr
            assert words in ran.stderr

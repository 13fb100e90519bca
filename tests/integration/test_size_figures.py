# SPDX-License-Identifier: Apache-2.0
"""The sizing advice of `ttmem run` on real ttnn: tests apply it, and measure its figures in another way."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.runs import Bench, Ran, Watched
from ttmem.model.units import exact


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with Bench(Path(tmp_path_factory.mktemp("sizes"))) as made:
        yield made


@pytest.fixture(scope="module")
def ran(bench: Bench) -> Ran:
    done = bench.run("ttnn_sizes")
    assert done.code == 0, done.err
    return done


def said(ran: Ran) -> dict[str, dict[str, Any]]:
    (entry,) = ran.data["sizing"]
    assert entry["chips"] == ran.data["peaks"][0]["chips"]
    return {line["what"]: line for line in entry["lines"]}


def test_the_suggested_l1_small_size_is_the_least_that_does(bench: Bench, ran: Ran) -> None:
    advice = said(ran)["l1_small_size"]
    assert advice["basis"] == "exact"
    enough = advice["value"]
    assert 0 < enough < 16384
    assert bench.run("ttnn_sizes", "--l1-small-size", str(enough)).code == 0
    less = bench.run("ttnn_sizes", "--l1-small-size", str(enough - 32))
    assert less.code != 0
    assert less.data["failed"] >= 1
    verdict = less.data["failures"][-1]["verdict"]
    assert f"l1_small_size={enough}" in less.err, verdict
    line = said(less)["l1_small_size"]
    assert line["value"] is None
    assert line["text"].endswith(f"of {exact(enough - 32)} per core used, and a request for more failed: too small")


def test_the_least_headroom_is_between_the_buffers_and_programs_that_ttnn_names(ran: Ran) -> None:
    (record,) = ran.records
    line = said(ran)["headroom"]
    assert line["value"] == record["floor"] - record["end"]
    assert "ttnn.add, below ttnn.zeros" in line["text"]


def test_the_ring_has_the_largest_program(ran: Ran) -> None:
    line = said(ran)["kernel_ring"]
    used = ran.data["final"]["chips"][0]["memory"]["l1"]["ring"]
    assert 0 < line["value"] <= used["size"] == 70656
    assert line["text"] in " ".join(ran.err.split())


def test_the_summary_has_the_same_sentences_and_none_is_too_wide(ran: Ran) -> None:
    for line in said(ran).values():
        assert line["text"] in " ".join(ran.err.split())
    assert max(map(len, ran.err.splitlines())) <= 100  # of a pipe


# -- ttnn's own numbers ---------------------------------------------------------------------------------------------

SCATTERED = """
import json
import random

import ttnn

device = ttnn.open_device(device_id=0)
dice, live, worst = random.Random(5), [], (0, 0, 0)


def ask(tiles):
    global worst
    view = ttnn.get_memory_view(device, ttnn.BufferType.L1)
    free, largest = view.total_bytes_free_per_bank, view.largest_contiguous_bytes_free_per_bank
    worst = max(worst, (free - largest, free, largest))
    return ttnn.empty(
        [32, 32 * 64 * tiles], dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device,
        memory_config=ttnn.L1_MEMORY_CONFIG,
    )


for _ in range(300):
    if live and dice.random() < 0.45:
        live.pop(dice.randrange(len(live)))
        continue
    try:
        live.append(ask(dice.randrange(1, 60)))
    except RuntimeError:
        live.pop(dice.randrange(len(live)))
while live:  # as scattered as can be, and nobody asks
    live.pop(dice.randrange(len(live)))
print(json.dumps(worst))
ttnn.close_device(device)
"""
OPENED_ANEW = """
import ttnn

for small in (0, 16384, 65536, 16384):
    device = ttnn.open_device(device_id=0, l1_small_size=small)
    a = ttnn.zeros([32, 32], dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)
    ttnn.add(a, a)
    ttnn.close_device(device)
"""
FORKED = """
import os

import ttnn

device = ttnn.open_device(device_id=0, l1_small_size=16384)
make = lambda: ttnn.empty(
    [32, 32 * 64 * 100], dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device,
    memory_config=ttnn.L1_MEMORY_CONFIG,
)
held = [make() for _ in range(4)]
child = os.fork()
if child == 0:
    own = make()
    del own
    make()
    print("{}", flush=True)
    os.read(0, 1)  # until the test has seen that its agent is heard
    os._exit(0)
os.waitpid(child, 0)
"""


def ran_text(bench: Bench, text: str) -> Ran:
    program = bench.folder / "program.py"
    program.write_text(text)
    done = bench.run_command([bench.python, str(program)])
    assert done.code == 0, done.err
    return done


def test_the_most_fragmented_is_the_worst_that_a_request_met(bench: Bench) -> None:
    done = ran_text(bench, SCATTERED)
    _, free, largest = json.loads(done.out.splitlines()[-1])  # ttnn's log is printed before
    text = said(done)["fragmentation"]["text"]
    assert (
        f"fragmentation of L1: at the worst request {exact(free)} per bank free, the largest piece {exact(largest)}"
        in text
    )


def test_each_opening_by_its_own_sizes(bench: Bench) -> None:
    """A device that is opened again with the same sizes is one entry."""
    entries = ran_text(bench, OPENED_ANEW).data["sizing"]
    small = [[line["text"] for line in entry["lines"] if line["what"] == "l1_small_size"] for entry in entries]
    unused = "L1_SMALL: never used; l1_small_size=0 saves {} KiB per core"
    assert small == [[], [unused.format(16)], [unused.format(64)]]


def test_a_child_that_was_born_with_buffers_tells_no_sizes(bench: Bench) -> None:
    """Memory that is free beside its own buffers may not be free."""
    program = bench.folder / "forked.py"
    program.write_text(FORKED)
    with Watched(bench, [bench.python, str(program)]) as running:
        next(running.records())
        running.wait_for_agents(2)
        ran = running.ran
    assert len(ran.data["peak"]["processes"]) == 2
    (entry,) = ran.data["sizing"]
    assert [line["what"] for line in entry["lines"]] == ["l1_small_size"]

# SPDX-License-Identifier: Apache-2.0
"""The sizing advice of `ttmem run` on real ttnn: what it suggests is tried, its figures are found in another way."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.runs import Bench, Ran


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
    assert entry["chips"] == [ran.data["peaks"][0]["chip"]]
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


def test_the_least_headroom_is_between_the_buffers_and_programs_that_ttnn_names(ran: Ran) -> None:
    (record,) = ran.records
    line = said(ran)["headroom"]
    assert line["value"] == record["floor"] - record["end"]
    assert "ttnn.add, below ttnn.zeros" in line["text"]


def test_the_ring_has_the_largest_program(ran: Ran) -> None:
    line = said(ran)["kernel_ring"]
    used = ran.data["final"]["chips"][0]["memory"]["l1"]["ring"]
    assert 0 < line["value"] <= used["size"] == 70656
    assert f"{line['text']}\n" in ran.err


def test_the_summary_has_the_same_lines(ran: Ran) -> None:
    for line in said(ran).values():
        assert f"  {line['text']}\n" in ran.err

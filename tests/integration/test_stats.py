# SPDX-License-Identifier: Apache-2.0
"""`ttmem stats` and `ttmem tree` on the recording of a simulated workload: numbers, text, and wrong uses."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.naive_stats import Naive, Walk, check
from tests.schema_conformance import problems
from tests.support import PATIENCE, Server
from ttmem.cli import main
from ttmem.model import schema
from ttmem.recording.recording_file import Recording


class Ran(NamedTuple):
    code: int
    out: str
    err: str


def ttmem(*arguments: str) -> Ran:
    """Run a command in this process: nothing here depends on a process of its own."""
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            code = main(arguments)
        except SystemExit as error:
            code = int(error.code or 0)
    return Ran(code, out.getvalue(), err.getvalue())


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Four simulated processes on four chips, recorded by a server."""
    folder = tmp_path_factory.mktemp("stats")
    server = Server(folder, "--record", str(folder / "demo.ttmem"))
    demo = [sys.executable, "-m", "ttmem", "demo", "decode", "--once", "--socket", server.path]
    subprocess.run(demo, check=True, capture_output=True, timeout=PATIENCE)
    server.stop()
    return str(folder / "demo.ttmem")


def stats(*arguments: str) -> Any:
    done = ttmem("stats", *arguments, "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert problems(found, schema.Stats) == []
    return found


def test_the_figures_are_those_of_a_naive_count(file: str) -> None:
    with Recording(file) as recording:
        walk = Walk(recording)
        length, end = recording.end - recording.begin, recording.end - recording.begin - 0.5
        table = recording.lifetimes().allocations
    everything = stats(file)
    check(everything, Naive(walk, set(everything["chips"])), most=5, tolerance=1000)
    assert len(everything["chips"]) == everything["processes"] == 4
    assert everything["until_s"] == pytest.approx(length, abs=1e-6)
    part = stats(
        file, "--from", f"+{length / 2:.6f}s", "--until", "-0.5s", "--chip", everything["chips"][1], "--top", "7"
    )
    assert (part["chips"], part["other_chips"]) == (everything["chips"][1:2], 3)
    after, until = round(length / 2, 6), end
    naive = Naive(walk, set(part["chips"]), table.at(table.start + after), table.at(table.start + until))
    check(part, naive, most=7, tolerance=1000)


def test_the_tree_has_the_totals_of_the_dump(file: str) -> None:
    for at in ("peak", "peak:l1", "-0.2s"):
        dumped = json.loads(ttmem("dump", "--file", file, "--at", at, "--by", "op", "--json").out)
        done = ttmem("tree", file, "--at", at, "--json")
        found = json.loads(done.out)
        assert problems(found, schema.CallTree) == []
        keys = ("pool", "count", "bytes", "per_chip", "chips")
        assert [[pool[key] for key in keys] for pool in found["pools"]] == [
            [pool[key] for key in keys] for pool in dumped["pools"]
        ]
        for pool, rows in zip(found["pools"], dumped["pools"]):
            by_op = {row["op"]: (row["count"], row["bytes"]) for row in rows["rows"]}
            named = {one["name"]: (one["count"], one["bytes"]) for one in pool["children"] if one["type"] == "op"}
            assert named == {op: figures for op, figures in by_op.items() if op is not None}


def test_parts_of_a_tree(file: str) -> None:
    every = ttmem("tree", file, "--at", "peak").out
    dram = ttmem("tree", file, "--at", "peak", "--pool", "dram", "--min", "1G").out
    assert every.count("allocations") == 4
    assert dram.count("allocations") == 1
    assert "tok_embeddings" in dram
    assert "smaller than 1 GiB" in dram
    assert "layers.0" not in dram
    found = ttmem("tree", file, "--at", "peak", "--search", "FEED_forward.w1", "--json")
    (pool,) = json.loads(found.out)["pools"]
    assert pool["count"] == sum(one["count"] for one in pool["children"]) == 4 * 32
    assert all("feed_forward.w1" in one["name"] for one in pool["children"])
    assert "Nothing with 'nowhere' was live." in ttmem("tree", file, "--search", "nowhere").out


@pytest.mark.parametrize("columns", [60, 80, 160])
@pytest.mark.parametrize("command", ["stats", "tree"])
def test_no_line_is_longer_than_the_terminal(
    file: str, command: str, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    done = ttmem(command, file, "--ascii")
    assert done.code == 0
    assert done.out.isascii()
    assert all(len(line) <= columns for line in done.out.splitlines())


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--from", "+3s", "--until", "+1s"), 2, "--from +3s is later than --until +1s; swap them"),
        (("--from", "+1h"), 1, "--from: +1h is outside the recording, which is "),
        (("--until", "+1h"), 1, "--until: +1h is outside the recording, which is "),
        (("--until", "soon"), 2, "--until: 'soon' is not a moment: use +2.3s after the start"),
        (("--from", "phase:warm-up"), 1, "--from: the recording has no phase 'warm-up'; it has load, prefill"),
        (("--chip", "99"), 1, "there is no chip '99'; there are n150 chip 0"),
        (("--top", "0"), 2, "'0' is not a number from 1 to 10000"),
    ],
)
def test_wrong_uses(file: str, arguments: tuple[str, ...], code: int, words: str) -> None:
    refused(ttmem("stats", file, *arguments), code, words)


@pytest.mark.parametrize("command", ["stats", "tree"])
def test_files_that_are_none(command: str, folder: Path) -> None:
    (folder / "text").write_text("hello")
    refused(ttmem(command, str(folder / "nowhere")), 1, "nowhere: No such file or directory")
    refused(ttmem(command, str(folder / "text")), 1, "text: not a ttmem recording")
    refused(ttmem(command, str(folder)), 1, "a folder without segments of a recording")
    refused(ttmem(command), 2, "FILE is missing")


def refused(done: Ran, code: int, words: str) -> None:
    assert done.code == code
    assert not done.out
    assert words in done.err
    assert done.err.count("\n") == 1

# SPDX-License-Identifier: Apache-2.0
"""The agent's Python stacks and shapes, compared with Python and ttnn."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.agents import Agent, fold_into, read_all, watched
from tests.mock.program import Program
from tests.mock.wheel import PYTHONS, ROOT, wheel
from tests.runs import Bench
from tests.support import Server, wait_until
from ttmem.account.allocations import Allocation
from ttmem.account.call_sites import operation_of, stack_of
from ttmem.account.ledger import Ledger
from ttmem.account.live_set import counted_chips
from ttmem.agent import require
from ttmem.documents.snapshot import allocation as described
from ttmem.model.kinds import KIND_BY_LABEL, Kind
from ttmem.recording.recording_file import Recording
from ttmem.wire.agent_ring import Ring, RingEvent

DEPTH, DEEPEST = 24, 64
PATH = 300  # bytes of a path
MAZE = 64  # lines of the function that tests/programs/ttnn_many_stacks.py calls
MANY = 70_000  # one stack more than the agent remembers, and some
GROWTH = 128 << 20
_ALL = 1 << 16


# -- the oracle -----------------------------------------------------------------------------------------------------


def expected(note: dict[str, Any], stack: list[str], depth: int) -> list[str]:
    """The expected stack: ttnn's own frames, which only the agent reports, then those from Python."""
    own = next((at for at, frame in enumerate(stack) if "/site-packages/ttnn/" not in frame), len(stack))
    theirs = [f"{as_told(file)}:{line} {function}" for file, line, function in note["frames"]]
    return (stack[:own] + theirs)[:depth]


def as_told(file: str) -> str:
    """The end of a long path; a name that is not text is empty."""
    try:
        raw = file.encode()
    except UnicodeEncodeError:
        return "?"
    return file if len(raw) <= PATH else "…" + raw[-(PATH - len("…".encode())) :].decode(errors="ignore")


def found(agent: Agent, note: dict[str, Any]) -> list[tuple[str, Allocation]]:
    """The buffer, with the id of each chip on which it counts."""
    kind, address = KIND_BY_LABEL[note["kind"]], note["address"]
    buffers = (allocation for holding in agent.source.holdings.values() for allocation in holding.buffers.values())
    these = [allocation for allocation in buffers if allocation.kind is kind and allocation.address == address]
    return [(chip.id, allocation) for allocation in these for chip in counted_chips(allocation)]


def of_buffer(allocation: Allocation) -> tuple[str | None, str | None, list[str]]:
    extra = allocation.extra
    assert extra is not None
    return extra.tag, extra.shape, (extra.stack or "").split("\n")


def new_parts(agent: Agent, seen: set[int]) -> Iterator[Allocation]:
    for holding in agent.source.holdings.values():
        for ident, program in holding.programs.items():
            if ident not in seen:
                yield from program.parts.values()


@pytest.mark.parametrize(
    ("python", "board", "wish", "depth"),
    [
        *((python, "n150", str(DEPTH), DEPTH) for python in PYTHONS),
        ("3.12", "t3k", str(DEPTH), DEPTH),
        ("3.12", "n150", "3", 3),
        ("3.10", "n150", "999", DEEPEST),
    ],
)
def test_every_buffer_bears_its_operation_stack_and_shape(
    python: str, board: str, wish: str, depth: int, folder: Path
) -> None:
    """Every part of a program has the stack of the call that compiled it."""
    environment = {"TTMEM_STACKS": wish}
    seen: set[int] = set()
    count = 0
    with watched(python, "ttnn_stacks", board, folder, "--folder", str(folder), environment=environment) as running:
        collector, program = running
        chip_ids = sorted(str(chip_id) for chip_id in program.chip_ids.values())
        for record in program.records():
            collector.drain()
            (agent,) = collector.agents.values()
            for note in record["noted"]:
                by_chip = found(agent, note)
                assert sorted(chip_id for chip_id, _ in by_chip) == chip_ids
                for _, allocation in by_chip:
                    tag, shape, stack = of_buffer(allocation)
                    known = None if note["shape"] is None else f"{note['shape']} {note['dtype']} {note['layout']}"
                    assert (tag, shape, stack) == (note["operation"], known, expected(note, stack, depth))
                    count += 1
            if record["programs"]:
                (note,) = record["noted"]
                parts = list(new_parts(agent, seen))
                assert {part.kind for part in parts} & {Kind.CB, Kind.DFB}
                assert Kind.KERNEL in {part.kind for part in parts}
                for part in parts:
                    stack = (stack_of(part) or "").split("\n")
                    assert (operation_of(part), stack) == (note["operation"], expected(note, stack, depth))
            seen |= {ident for holding in agent.source.holdings.values() for ident in holding.programs}
        assert count >= 100 * len(program.chip_ids)
        assert agent.ring.text("trouble") == ""
        assert not any(agent.fold.counters().values())


@pytest.mark.parametrize("wish", ["", "x", "-1", "0"])
def test_what_is_no_depth_takes_no_stacks(wish: str, folder: Path) -> None:
    with watched("3.12", "ttnn_names", "n150", folder, environment={"TTMEM_STACKS": wish}) as (collector, program):
        for record in program.records():
            collector.drain()
            buffers = [
                t for t in collector.ledger.allocations() if t.extra is not None and t.address == record.get("address")
            ]
            assert [(t.extra.tag, t.extra.shape, t.extra.stack) for t in buffers if t.extra] == [
                (record["what"], None, None) for _ in buffers
            ]
            assert bool(buffers) == ("address" in record)


# -- no effect on the workload --------------------------------------------------------------------------------------


def printed(text: str) -> list[str]:
    """Without pids, and without references to code: an object that keeps a stack keeps its code."""
    return [re.sub(r"pid=\d+", "pid", line) for line in text.splitlines() if not line.startswith("code ")]


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("ending", [("--fork", "--exit", "7"), ("--unclosed",)])
def test_the_workload_is_what_it_was(python: str, ending: tuple[str, ...], folder: Path) -> None:
    """Output, exit code, references, collections, tracers, threads, a forked child, leaks reported by nanobind."""
    with Bench(folder, python=python) as bench:
        plain = bench.plain("ttnn_undisturbed", *ending)
        agent = bench.preloaded("ttnn_undisturbed", *ending, TTMEM_STACKS=str(DEPTH))
    assert plain.code == agent.code == (7 if "--exit" in ending else 0), agent.err
    assert printed(agent.out.decode()) == printed(plain.out.decode())
    assert printed(agent.err) == printed(plain.err)
    assert b"references True" in plain.out


def in_maze(path: int, turns: int = 3) -> list[str]:
    """The frames of a walk, by how the function was written: two lines, then one for each way, then the call."""
    digits = [path // MAZE**turn % MAZE for turn in range(turns)]
    return [f"/maze.py:{line} walk" for line in (MAZE + 3, *(digit + 3 for digit in reversed(digits)))]


def kept_in_maze(ledger: Ledger, record: dict[str, Any]) -> Allocation:
    (allocation,) = (t for t in ledger.allocations() if t.kind is Kind.DRAM and t.address == record["address"])
    return allocation


def test_more_stacks_than_can_be_kept(folder: Path) -> None:
    """The operation is kept, what could not be kept is counted, and the memory of the workload is limited."""
    begin, stacks = 0, {"TTMEM_STACKS": "6"}
    with watched("3.12", "ttnn_many_stacks", "n150", folder, "--stacks", str(MANY), environment=stacks) as running:
        collector, program = running
        for record in program.records():
            collector.drain()
            (agent,) = collector.agents.values()
            full = agent.fold.counters()["blobs_full"]
            begin = begin or record["memory"]
            if record["what"] == "begin":
                assert full == 0
        assert full > 0
        assert {name for name, count in agent.fold.counters().items() if count} == {"blobs_full"}
        made = [record for record in agent.history if record.event == RingEvent.ALLOCATED]
        assert len(made) > MANY
        assert {agent.ring.cause(record.name).tag for record in made} == {"ttnn.empty"}
        assert record["memory"] - begin < GROWTH


def test_code_that_is_gone_is_not_mistaken_for_what_came_after(folder: Path) -> None:
    """Python reuses the memory of freed code for other code, which then has the same address."""
    last, stacks = 3000, {"TTMEM_STACKS": "3"}
    arguments = ("--codes", "--stacks", str(last + 1))
    with watched("3.12", "ttnn_many_stacks", "n150", folder, *arguments, environment=stacks) as (collector, program):
        for record in program.records():
            collector.drain()
            if record["what"] == "end":
                _, _, stack = of_buffer(kept_in_maze(collector.ledger, record))
                assert stack[1] == f"/code/{last}.py:1 <module>"


# -- readers that start late, lose records, or read from a file -----------------------------------------------------


def test_late_and_slow_readers_see_stacks_and_shapes(folder: Path) -> None:
    """One that falls a ring behind, and one that starts when the start is overwritten."""
    paths, stacks = 30_001, {"TTMEM_STACKS": "4"}
    with watched("3.12", "ttnn_many_stacks", "n150", folder, "--stacks", str(paths), environment=stacks) as running:
        collector, program = running
        for record in program.records():
            if record["what"] == "begin":
                collector.drain()
                (agent,) = collector.agents.values()
            if record["what"] != "end":
                continue
            ledger = Ledger()
            late = fold_into(ledger, Ring(os.dup(agent._fd)), program.pid)
            with closing(late.ring):
                read_all(late)
                read_all(agent.fold)
                assert late.lost > _ALL
                assert agent.fold.lost > 0
            for account in (ledger, collector.ledger):
                tag, shape, stack = of_buffer(kept_in_maze(account, record))
                assert (tag, shape) == ("ttnn.empty", "[32, 32] bfloat16 tile")
                assert stack[2:] == in_maze(paths - 1)[:2]


def has_all(server: Server, noted: list[dict[str, Any]]) -> bool:
    """Whether the server has received all records; shapes come last."""
    allocations = server.get("/allocations?limit=10000")["allocations"]
    known = {
        (allocation["kind"], allocation["address"])
        for allocation in allocations
        if allocation["shape"] or not allocation["tag"]
    }
    return known >= {(note["kind"], note["address"]) for note in noted}


def test_a_recording_keeps_stacks_and_shapes(serve: Callable[..., Server], folder: Path) -> None:
    file = folder / "events.ttmem"
    server = serve("--quiet", "--record", str(file), name="recording")
    environment = {"LD_PRELOAD": str(require()), "TTMEM_SOCKET": server.path, "TTMEM_STACKS": str(DEPTH)}
    arguments = ("--folder", str(folder))
    with Program(wheel("3.12"), "ttnn_stacks", "n150", folder, *arguments, environment=environment) as program:
        for record in program.records():
            if record["scene"] != "ways":
                continue
            wait_until(partial(has_all, server, record["noted"]), "the scene")
            said = server.get("/allocations?limit=10000")["allocations"]
            server.stop()
    ledger = Ledger()
    with Recording(str(file)) as recorded:
        recorded.replay(ledger)
    words = ("chips", "kind", "address", "size", "program", "cores", "tag", "shape", "line", "stack")
    again = [described(allocation) for allocation in ledger.allocations()]

    def sorted_words(rows: Sequence[Mapping[str, object]]) -> list[str]:
        return sorted(repr([row[word] for word in words]) for row in rows)

    assert sorted_words(again) == sorted_words(said)
    assert sum(1 for row in said if row["stack"] and row["shape"]) > 20


# -- the page -------------------------------------------------------------------------------------------------------


def steady(text: str) -> str:
    """Without values that differ from run to run and between machines: the sizes of the mock kernels."""
    text = re.sub(r"after [\d.]+ s", "after T s", re.sub(r"chip \d+ \(id \d+\)", "chip N (id ID)", text))
    text = re.sub(r"(which use L1 in turn: )[\d.]+ \wiB", r"\1SIZE", text)
    text = re.sub(r"(?m)^ +[\d.]+ \wiB( +[\d,]+ .*)kernel [\d.]+ \wiB", r"SIZE\1kernel SIZE", text)
    return re.sub(r"(?m)^( +kernels) +[\d.]+ \wiB +[\d.]+ \wiB", r"\1 SIZE", text)


def test_the_page_shows_what_happens(folder: Path) -> None:
    """docs/attribution.md: its program runs, and prints the output on the page."""
    page = (ROOT / "docs" / "attribution.md").read_text()
    (source,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    examples = re.findall(r"```\n\$ ttmem run (.*?) -- python demo/model.py\n(.*?)```", page, re.DOTALL)
    assert len(examples) == 2
    (folder / "demo").mkdir()
    (folder / "demo" / "model.py").write_text(source)
    with Bench(folder) as bench:
        for options, shown in examples:
            ran = bench.run_command([bench.python, "demo/model.py"], options=options.split())
            assert ran.code == 0, ran.err
            for part in steady(shown).strip().split("\n\n"):
                assert part in steady(ran.err), ran.err

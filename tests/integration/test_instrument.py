# SPDX-License-Identifier: Apache-2.0
"""`ttmem.instrument()` and the native agent track one process, and agree after every step."""

from __future__ import annotations

import json
import secrets
import subprocess
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.agents import Agent, watched
from tests.mock.wheel import PYTHONS, remove_statistics, wheel
from tests.support import ROOT, Server
from ttmem.agent import require
from ttmem.model.core_sets import mask_of, parse_ranges
from ttmem.model.kinds import KIND_BY_LABEL, KINDS, Kind

PARTS = (Kind.CB, Kind.DFB, Kind.SCRATCHPAD)
Buffers = Counter[tuple[int, Kind, int, int, "int | None"]]  # chip, kind, address, size, reserved
Layout = frozenset[tuple[tuple[Kind, int, int, int, bool], int]]  # kind, address, size, cores, shared; number of them


def layouts(parts: Iterable[tuple[int, int, Kind, int, int, int, bool]]) -> Counter[tuple[int, Layout]]:
    """What each program holds on each chip, regardless of the number from its source."""
    programs: dict[tuple[int, int], Counter[tuple[Kind, int, int, int, bool]]] = {}
    for chip, program, kind, address, size, cores, shared in parts:
        programs.setdefault((chip, program), Counter())[kind, address, size, cores, shared] += 1
    return Counter((chip, frozenset(held.items())) for (chip, _), held in programs.items())


def by_the_agent(agent: Agent) -> tuple[Buffers, Counter[tuple[int, Layout]]]:
    live = agent.live_in_account()
    buffers = Counter((t.number, t.kind, t.address, t.size, t.reserved) for t in live if t.kind < Kind.CB)
    parts = ((t.number, t.program, t.kind, t.address, t.size, t.cores, t.shared) for t in live if t.kind in PARTS)
    return buffers, layouts(parts)


def by_the_instrument(server: Server, pid: int) -> tuple[Buffers, Counter[tuple[int, Layout]]]:
    answer = server.get(f"/allocations?pid={pid}&limit=10000")
    assert answer["matched"] == len(answer["allocations"])
    allocations = [allocation for allocation in answer["allocations"] if allocation["source"] == "instrument"]
    assert {allocation["confidence"] for allocation in allocations} <= {"reported"}
    assert {KIND_BY_LABEL[allocation["kind"]] for allocation in allocations} <= {*KINDS[:5], *PARTS}
    buffers, parts = Buffers(), []
    on_chips = ((allocation, number) for allocation in allocations for number in allocation["devices"])
    for allocation, number in on_chips:
        kind = KIND_BY_LABEL[allocation["kind"]]
        if kind in PARTS:
            cores = mask_of(parse_ranges(allocation["cores"]))
            part = (
                number,
                allocation["program"],
                kind,
                allocation["address"],
                allocation["size"],
                cores,
                allocation["shared"],
            )
            parts += [part] * allocation["refs"]
        else:
            buffers[number, kind, allocation["address"], allocation["size"], allocation["reserved"]] += allocation[
                "refs"
            ]
    return buffers, layouts(parts)


def by_ttnn(meshes: list[dict[str, Any]]) -> Counter[tuple[int, int, int]]:
    return Counter((chip, *buffer) for mesh in meshes for chip in mesh["chips"] for buffer in mesh["buffers"])


def places(buffers: Buffers) -> Counter[tuple[int, int, int]]:
    return Counter((chip, int(kind), address) for chip, kind, address, _, _ in buffers.elements())


def check_described(described: list[Any], held: Counter[tuple[int, Layout]], made: bool) -> None:
    """The circular buffers in the descriptor of a program are those that it has, on every chip."""
    parts = Counter((Kind.CB, at, size, mask_of(parse_ranges(cores)), shared) for at, size, cores, shared in described)
    assert parts
    chips = {chip for chip, layout in held if layout == frozenset(parts.items())}
    assert chips == ({chip for chip, _ in held} if made else set())


@pytest.mark.parametrize(
    ("board", "python"),
    [*(("n150", python) for python in PYTHONS), ("p150", "3.12"), ("n300", "3.12"), ("t3k", "3.12")],
)
def test_it_tells_what_the_agent_tells(board: str, python: str, folder: Path, server: Server) -> None:
    held, errors, stats = Counter[Kind](), {}, {}
    environment = {"TTMEM_SOCKET": server.path, "PYTHONPATH": str(ROOT / "src")}
    with watched(python, "ttnn_instrument", board, folder, environment=environment) as (collector, program):
        for record in program.records():
            what, stats = record["what"], record["stats"]
            assert record["flushed"], what
            assert (stats["errors"], stats["lost"], stats["trouble"]) == (0, 0, None), what
            collector.drain()
            buffers, parts = by_the_instrument(server, program.pid)
            if what == "stopped":
                assert record["meshes"][0]["buffers"]
                assert not buffers
                assert not parts
                continue
            true_buffers, true_parts = by_the_agent(collector.agents[program.pid])
            assert places(true_buffers) == by_ttnn(record["meshes"]), what
            assert places(buffers) == places(true_buffers), what
            if record["exact"]:
                assert buffers == true_buffers, what
                assert parts == true_parts, what
            if record["described"]:
                check_described(record["described"], true_parts, made=record["error"] is None)
            errors[what] = record["error"]
            held.update(kind for _, layout in parts for (kind, *_), _ in layout)
        process = server.process_of(program.pid)
        assert process is not None
        assert not any(process["anomalies"].values())
    assert "captured" in errors  # the workload's own capture was complete
    assert (stats["skipped"], stats["found"]) == (1, 1)
    assert all(held[kind] for kind in PARTS)
    failures = {what: error for what, error in errors.items() if error}
    assert failures.keys() == {f"no memory for {what}" for what in ("a buffer", "circular buffers", "dataflow buffers")}
    assert "Out of Memory" in failures["no memory for a buffer"]
    assert "circular buffers in program" in failures["no memory for circular buffers"]
    assert "dataflow buffers in program" in failures["no memory for dataflow buffers"]


@pytest.mark.parametrize("operation", ["matmul", "add"])
def test_the_first_operation_it_sees(operation: str, folder: Path) -> None:
    """On a device that was opened before, and with a new program: it is counted in the same way as by the agent."""
    bench = wheel("3.12")
    env = {**bench.environment("n150", folder, chip_id_seed := secrets.randbits(63)), "PYTHONPATH": str(ROOT / "src")}
    command = [bench.python, str(ROOT / "tests" / "programs" / "ttnn_first.py"), operation]
    told = {}
    try:
        for tracker, more in (("instrument", {}), ("agent", {"LD_PRELOAD": str(require())})):
            run = subprocess.run([*command, tracker], env={**env, **more}, cwd=folder, capture_output=True, text=True)
            told[tracker] = json.loads(run.stdout.splitlines()[-1])
    finally:
        remove_statistics("n150", chip_id_seed)
    assert told["instrument"] == told["agent"]
    assert told["agent"]["cb"] + told["agent"]["dfb"] > 0

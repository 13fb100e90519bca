# SPDX-License-Identifier: Apache-2.0
"""Every chip of a T3K and of a Galaxy has what ttnn's own allocators have, after every step of random programs.

The programs use the fabric, collective operations, parts of the mesh with allocators of their own, and workloads with
different programs on different chips. Two processes may share the machine, each with half of the chips.
"""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest

from tests.agents import Collector, watched
from tests.mock.program import Program
from tests.mock.wheel import wheel
from tests.oracle import Oracle

LOOK_CLOSELY = 10  # steps between comparisons of the table with all records ever written
CHIP_ID_SEED = 4711
STEPS = (8, 14)  # of two processes


class Programs:
    """Compares the programs that a step made with those that it reports."""

    def __init__(self, oracle: Oracle) -> None:
        self._oracle = oracle
        self._known: set[int] = set()
        self.compared = 0

    def compare(self, record: dict[str, Any]) -> None:
        new = Counter[str]()  # chip -> cores of the parts of its new programs
        known = set()
        for holding in self._oracle.agent.source.holdings.values():
            for ident, program in holding.programs.items():
                known.add(ident)
                if ident not in self._known:
                    for number in holding.numbers:
                        for part in program.parts.values():
                            assert part.extra is not None
                            new[str(number)] |= part.extra.cores
        self._known = known
        if record["programs"] is not None and new:  # none is new if the same workload ran before
            assert new == {chip: 1 << 64 * y + x for chip, (x, y) in record["programs"].items()}
            self.compared += len(set(new.values())) > 1


@pytest.mark.parametrize(
    ("board", "shape", "operations", "steps", "seed"),
    [
        ("t3k", "2x4", "whole", 80, 5),
        ("t3k", "2x4", "parts", 80, 5),
        ("galaxy", "8x4", "both", 40, 6),
    ],
)
def test_a_random_program(board: str, shape: str, operations: str, steps: int, seed: int, folder: Path) -> None:
    seen = Counter[str]()
    most_meshes = 0
    arguments = ("--shape", shape, "--operations", operations, "--steps", str(steps), "--seed", str(seed))
    with watched("3.12", "ttnn_random_meshes", board, folder, *arguments) as (collector, program):
        oracle = Oracle(collector, program)
        programs = Programs(oracle)
        for record in program.records():
            assert record["error"] is None
            oracle.compare(record["meshes"])
            programs.compare(record)
            if oracle.compared % LOOK_CLOSELY == 0:
                oracle.look_closely()
            oracle.nothing_odd()
            seen[record["what"]] += 1
            most_meshes = max(most_meshes, len(record["meshes"]))
        if operations != "both":  # it does not close its meshes
            oracle.nothing_live()
    assert oracle.compared == steps + (1 if operations == "both" else 2)
    assert {"all_gather", "reduce_scatter", "all_reduce", "programs_on_parts", "open_part"} <= set(seen)
    assert most_meshes > 2
    assert programs.compared


@pytest.mark.parametrize(
    ("board", "shape", "halves"),
    [
        # TT_VISIBLE_DEVICES names chips on PCIe; on an n300 each brings its neighbour.
        ("t3k", "2x2", (("0,1", (0, 4, 1, 5)), ("2,3", (2, 6, 3, 7)))),
        ("galaxy", "4x4", tuple((",".join(map(str, half)), tuple(half)) for half in (range(16), range(16, 32)))),
    ],
)
def test_two_processes_with_half_of_the_chips_each(
    board: str, shape: str, halves: tuple[tuple[str, tuple[int, ...]], ...], folder: Path
) -> None:
    """Each numbers its chips from 0, so only the unique ids say that these are different chips."""
    with Collector(folder) as collector, ExitStack() as stack:
        running = []
        for number, (visible, chips) in enumerate(halves):
            own = folder / str(number)
            own.mkdir()
            program = Program(
                *(wheel("3.12"), "ttnn_random_meshes", board, own),
                *("--shape", shape, "--steps", str(STEPS[number]), "--seed", str(number)),
                environment={**collector.environment, "TT_VISIBLE_DEVICES": visible},
                chip_id_seed=CHIP_ID_SEED,
            )
            stack.enter_context(program)
            running.append((program, {program.chip_ids[chip] for chip in chips}))
        oracles: dict[int, Oracle] = {}
        last: dict[int, list[dict[str, Any]]] = {}  # the meshes of each process
        for records in zip_longest(*(program.records() for program, _ in running)):
            collector.drain()
            for (program, expected), record in zip(running, records, strict=True):
                if record is None:  # the first ends before the second
                    continue
                assert record["error"] is None
                last[program.pid] = record["meshes"]
                if program.pid not in oracles:
                    ring = collector.agents[program.pid].ring
                    numbers = {chip.number: chip.unique_id for mesh in ring.meshes() for chip in ring.chips_of(mesh)}
                    assert set(numbers.values()) == expected
                    oracles[program.pid] = Oracle(collector, program, numbers)
            for pid, oracle in oracles.items():  # a step of one does not change the chips of the other
                oracle.compare(last[pid])
        for oracle in oracles.values():
            oracle.look_closely()
            oracle.nothing_odd()
            oracle.nothing_live()
        assert [oracle.compared for oracle in oracles.values()] == [max(STEPS) + 2] * 2
        assert len(collector.ledger.chips) == sum(len(chips) for _, chips in halves)

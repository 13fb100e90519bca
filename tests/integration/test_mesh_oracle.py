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
KINDS = {"all_gather", "reduce_scatter", "all_reduce", "programs_on_parts", "open_part", "close_part"}
# Operations, steps and seed of two processes. With these seeds each kind of step occurs, and the first ends earlier.
PROGRAMS = (("whole", 18, 389), ("parts", 24, 8))


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
        ("galaxy", "8x4", "whole", 16, 76),
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
    assert set(seen) >= (KINDS if operations != "both" else KINDS - {"close_part"})
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
        for number, ((visible, chips), (operations, steps, seed)) in enumerate(zip(halves, PROGRAMS, strict=True)):
            own = folder / str(number)
            own.mkdir()
            program = Program(
                *(wheel("3.12"), "ttnn_random_meshes", board, own),
                *("--shape", shape, "--operations", operations, "--steps", str(steps), "--seed", str(seed)),
                environment={**collector.environment, "TT_VISIBLE_DEVICES": visible},
                chip_id_seed=CHIP_ID_SEED,
            )
            stack.enter_context(program)
            running.append((program, {program.chip_ids[chip] for chip in chips}))
        oracles: dict[int, Oracle] = {}
        programs: dict[int, Programs] = {}
        last: dict[int, list[dict[str, Any]]] = {}  # the meshes of each process
        seen = {program.pid: Counter[str]() for program, _ in running}
        most_meshes = dict.fromkeys(seen, 0)
        compared_live = Counter[int]()  # by process
        for records in zip_longest(*(program.records() for program, _ in running)):
            collector.drain()
            for (program, expected), record in zip(running, records, strict=True):
                if record is None:  # the first ends before the second
                    continue
                assert record["error"] is None
                last[program.pid] = record["meshes"]
                seen[program.pid][record["what"]] += 1
                most_meshes[program.pid] = max(most_meshes[program.pid], len(record["meshes"]))
                if program.pid not in oracles:
                    ring = collector.agents[program.pid].ring
                    numbers = {chip.number: chip.unique_id for mesh in ring.meshes() for chip in ring.chips_of(mesh)}
                    assert set(numbers.values()) == expected
                    oracles[program.pid] = Oracle(collector, program, numbers)
                    programs[program.pid] = Programs(oracles[program.pid])
            for pid, oracle in oracles.items():  # a step of one does not change the chips of the other
                oracle.compare(last[pid])
                if oracle.compared % LOOK_CLOSELY == 0:
                    oracle.look_closely(alone=False)
                    compared_live[pid] += len(oracle.agent.live_in_table())
                oracle.nothing_odd()
            for (program, _), record in zip(running, records, strict=True):
                if record is not None:
                    programs[program.pid].compare(record)
        assert all(compared_live[pid] for pid in seen), "of each process, something was live in a close look"
        for oracle in oracles.values():
            oracle.look_closely()
            oracle.nothing_odd()
            oracle.nothing_live()
        assert [oracle.compared for oracle in oracles.values()] == [max(steps for _, steps, _ in PROGRAMS) + 2] * 2
        assert all(set(kinds) >= KINDS for kinds in seen.values())
        assert all(meshes > 2 for meshes in most_meshes.values())
        assert all(one.compared for one in programs.values())
        assert len(collector.ledger.chips) == sum(len(chips) for _, chips in halves)

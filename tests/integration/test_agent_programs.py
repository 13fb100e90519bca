# SPDX-License-Identifier: Apache-2.0
"""The L1 of programs, compared with ttnn's captures, its ELF files, and its error when the ring is too small."""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.agents import Agent, Kernel, fold_into, read_all, watched
from tests.mock.boards import BOARDS
from tests.mock.program import Program
from tests.mock.wheel import in_turn, wheel
from ttmem.account import allocations as allocations
from ttmem.account.allocations import Allocation
from ttmem.account.entities import Source
from ttmem.account.ledger import Ledger
from ttmem.model.events import Event, ProgramRun, WorkloadRun, device_numbers
from ttmem.model.kinds import KERNEL_KINDS, POOL_OF, Kind, Pool
from ttmem.wire.agent_ring import PROGRAM_FRAME, RAN, RingEvent
from ttmem.wire.table_copy import copy_table

RING_SIZE = 70656
TINY_RING = 64  # the least that both architectures align to
KINDS = {"circular_buffer": Kind.CB, "dataflow_buffer": Kind.DFB, "scratchpad": Kind.SCRATCHPAD}
TOO_LARGE = re.compile(rf"Program size \((\d+)\) too large for kernel config buffer \({TINY_RING}\) on TENSIX")
TEXT = re.compile(r" kernel text (\d+) B")

Layout = tuple[tuple[tuple[int, Kind], int], ...]  # (core, kind) -> bytes, sorted; a core is its bit in a mask


def bits(mask: int) -> list[int]:
    return [bit for bit in range(mask.bit_length()) if mask >> bit & 1]


def cores_of(ranges: Iterable[list[int]]) -> set[int]:
    return {y * 64 + x for left, top, right, low in ranges for x in range(left, right + 1) for y in range(top, low + 1)}


def programs_of(agent: Agent) -> dict[int, allocations.Program]:
    """Every program once. A program that runs on several chips is held on each of them."""
    return {
        ident: program
        for holding in agent.source.holdings.values()
        for ident, program in holding.programs.items()
        if any(allocation.kind not in KERNEL_KINDS[1:] for allocation in program.parts.values())
    }


def our_layout(program: allocations.Program) -> Layout:
    """The bytes that it adds to each core."""
    layout = Counter[tuple[int, Kind]]()
    for allocation in program.parts.values():
        assert allocation.extra is not None
        if allocation.kind in KINDS.values() and not allocation.extra.shared:
            cores = bits(allocation.extra.cores)
            layout.update({(core, allocation.kind): allocation.size // len(cores) for core in cores})
            assert allocation.counted == allocation.size
    return tuple(sorted(layout.items()))


def captured_layout(buffers: list[dict[str, Any]]) -> Layout:
    layout = Counter[tuple[int, Kind]]()
    for buffer in buffers:
        if not buffer["borrowed"]:
            layout.update({(core, KINDS[buffer["kind"]]): buffer["size"] for core in cores_of(buffer["ranges"])})
    return tuple(sorted(layout.items()))


def shared(program: allocations.Program) -> Iterator[tuple[int, frozenset[int]]]:
    """The circular buffers that lie inside tensors, which must add nothing."""
    for allocation in program.parts.values():
        assert allocation.extra is not None
        if allocation.extra.shared:
            assert allocation.kind is Kind.CB
            assert allocation.counted == 0
            cores = bits(allocation.extra.cores)
            yield from [(allocation.size // len(cores), frozenset(cores))] * allocation.refs


def binaries(kernels: Iterable[Kernel]) -> list[tuple[str, list[int]]]:
    """Name and binary sizes of each kernel."""
    found = []
    for kernel in kernels:
        assert kernel.per_core == sum(kernel.sizes)
        found.append((kernel.name, kernel.sizes))
    return sorted(found)


def elfs(kernels: list[dict[str, Any]]) -> list[tuple[str, list[int]]]:
    return sorted((Path(kernel["name"]).stem, [elf["packed"] for elf in kernel["elfs"]]) for kernel in kernels)


def text_size(kernels: Iterable[Kernel], program: int) -> int:
    """Bytes of the ring for the kernels of a program, on the core with the most of them."""
    by_core = Counter[int]()
    for kernel in kernels:
        if kernel.program == program:
            taken = sum((size + 15) // 16 * 16 for size in kernel.sizes)
            by_core.update(dict.fromkeys(bits(kernel.cores), taken))
    return max(by_core.values())


def ring_needs(python: str, board: str, folder: Path) -> dict[str, tuple[int, int]]:
    """What the first program of each operation needs of the ring according to ttnn, and the part of its kernels."""
    needs = {}
    with Program(wheel(python), "ttnn_capture", board, folder, "--ring-size", str(TINY_RING)) as program:
        for record in program.records():
            if record["phase"] == "ran" and record["op"] not in ("open", "close"):
                size, text = TOO_LARGE.search(record["error"]), TEXT.search(record["error"])
                assert size, record["error"]
                assert text, record["error"]
                needs[record["op"]] = int(size[1]), int(text[1])
    return needs


@pytest.mark.parametrize(("board", "python"), in_turn(("n150", "p150")))
def test_what_operations_hold_of_l1(board: str, python: str, folder: Path) -> None:
    needs = ring_needs(python, board, folder)
    seen = Counter[str]()
    with watched(python, "ttnn_capture", board, folder) as (collector, program):
        for record in program.records():
            collector.drain()
            agent, op = collector.agents[program.pid], record["op"]
            kernels, found = agent.kernels(), programs_of(agent)
            assert record["error"] is None
            if op in ("open", "close"):
                assert not found
            elif record["phase"] == "ran":
                assert len(found) == record["program_cache"] > 0
                assert binaries(kernels) == elfs(record["kernels"]), op
                first = min(found)
                assert (found[first].ring, text_size(kernels, first)) == needs[op]
                for ident, other in found.items():
                    assert other.ring is not None
                    assert text_size(kernels, ident) < other.ring <= RING_SIZE
            else:
                ours = Counter(our_layout(p) for p in found.values())
                theirs = Counter(captured_layout(buffers) for buffers in record["programs"])
                del ours[()], theirs[()]  # a capture does not show a program without such buffers
                assert ours == theirs, op
                inside = Counter(pair for p in found.values() for pair in shared(p))
                borrowed = Counter(
                    (buffer["size"], frozenset(cores_of(buffer["ranges"])))
                    for buffers in record["programs"]
                    for buffer in buffers
                    if buffer["borrowed"]
                )
                assert inside <= borrowed, op
                seen["shared"] += inside.total()
                chip = collector.ledger.chips[str(program.chip_ids[0])]
                for kind in KINDS.values():
                    used = sum(size for layout in ours.elements() for (_, what), size in layout if what is kind)
                    assert chip.kinds[kind].used == used
                    seen[kind.label] += bool(used)
                seen["operations"] += 1
        assert not collector.ledger.anomalies
    assert seen["operations"] == len(needs) >= 20
    assert min(seen["shared"], seen["cb"], seen["dfb"], seen["scratchpad"]) >= 1


def test_fabric_kernels_and_a_program_for_each_chip(folder: Path) -> None:
    ends = Counter(end for link in BOARDS["t3k"].links for end in (link.chip, link.other) for _ in link.channels)
    with watched("3.12", "ttnn_capture", "t3k", folder, "--fabric", "--ops", "all_gather,add") as (collector, program):
        records = program.records()
        opened = next(records)
        collector.drain()
        agent = collector.agents[program.pid]
        source = agent.source
        assert binaries(agent.kernels()) == elfs(opened["kernels"])
        assert {kernel.kind for kernel in agent.kernels()} == {Kind.FABRIC_KERNEL}
        for number, chip_id in program.chip_ids.items():
            here = [t for h in source.holdings.values() if number in h.numbers for t in h.allocations()]
            fabric = [t for t in here if t.kind is Kind.FABRIC_KERNEL]
            assert len(fabric) == ends[number] == len({t.extra and t.extra.cores for t in fabric})
            chip = collector.ledger.chips[str(chip_id)]
            assert chip.pools[Pool.SYSTEM].used == sum(t.size for t in fabric) > 0
            assert chip.pools[Pool.L1].used == 0
        assert POOL_OF[Kind.FABRIC_KERNEL] is Pool.SYSTEM
        for record in records:
            collector.drain()
            if (record["op"], record["phase"]) in (("open", "ran"), ("close", "ran")):
                continue
            assert record["error"] is None
            found = programs_of(agent)
            kernels = [kernel for kernel in agent.kernels() if kernel.kind is Kind.KERNEL]
            if record["phase"] == "ran":
                assert binaries(kernels) == elfs(record["kernels"])
            else:
                ours = Counter(our_layout(p) for p in found.values())
                assert ours == Counter(captured_layout(buffers) for buffers in record["programs"])
            holdings = source.holdings.values()
            held_on = Counter(ident for holding in holdings for ident in holding.programs for _ in holding.numbers)
            chips = {"all_gather": 1, "add": 8}[record["op"]]
            assert sorted(held_on[ident] for ident in found) == [chips] * (8 // chips)
            # Programs of one workload share a layout of the ring, so each needs as much as the largest one.
            ring, *others = {p.ring for p in found.values()}
            assert not others
            assert ring is not None
            assert max(text_size(kernels, ident) for ident in found) < ring <= RING_SIZE
        assert not collector.ledger.anomalies


@pytest.mark.parametrize("board", ["t3k", "galaxy"])
def test_a_launch_is_one_record_and_none_if_it_changes_nothing(board: str, folder: Path) -> None:
    """For any number of programs in a workload. The account still has the program of each chip."""
    seen = []
    with watched("3.12", "ttnn_launches", board, folder, "--fabric") as (collector, program):
        done, fold = 0, None
        resident: dict[int, int] = {}  # chip -> program that was launched there last

        def observed(time: float, source: Source | None, event: Event, allocation: Allocation | None) -> None:
            for run in event.runs if isinstance(event, WorkloadRun) else [event]:
                if isinstance(run, ProgramRun):
                    resident.update(dict.fromkeys(device_numbers(run.device), run.program))

        for record in program.records():
            collector.drain()
            agent = collector.agents[program.pid]
            fold = fold or fold_into(Ledger(), agent.reader(), program.pid, observed)
            read_all(fold)
            launches = [r for r in agent.history[done:] if r.event == RingEvent.RUN]
            done = len(agent.history)
            with contextlib.closing(agent.reader()) as ring:
                frames = [frame for frame in copy_table(ring).records() if frame.kind == PROGRAM_FRAME]
                last = max((frame for frame in frames if frame.flags & RAN), key=lambda frame: frame.time)
                programs = {
                    chip.number: frame.program
                    for frame in frames
                    if frame.per_bank == last.per_bank
                    for chip in ring.chips_of(ring.mesh(frame.mesh))
                }
            assert resident == programs
            assert sorted(resident) == sorted(record["chips"])
            seen.append((record["what"], record["last"], len(launches), len(set(programs.values()))))
        assert fold is not None
        fold.ring.close()
        assert not collector.ledger.anomalies
        count = len(record["chips"])
    assert seen == [
        ("first", "all_gather", 1, count),
        ("first", "add", 1, 1),
        ("again", "add", 0, 1),
        ("again", "all_gather", 1, count),
        ("in turn", "all_gather", 10, count),
        ("beside an L1 buffer", "all_gather", 1, count),
        ("beside one at the same address", "all_gather", 0, count),
        ("beside a lower one", "all_gather", 1, count),
    ]

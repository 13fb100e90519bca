# SPDX-License-Identifier: Apache-2.0
"""Simulated workloads in step with a test, and the server's figures in the format of the simulator's own."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from tests.support import PATIENCE, ROOT, Server
from ttmem.model.core_sets import cores_of, mask_of, parse_ranges
from ttmem.model.kinds import KIND_BY_LABEL, WORKER_L1
from ttmem.sim.board_types import MACHINES, MachineType
from ttmem.sim.workloads import WORKLOADS, parts_of

_PAGE = 10_000

Sizes = dict[str, int]  # bytes by the label of their kind


class Step(NamedTuple):
    """A step of all processes, and the memory that each of them holds, by pid and chip_id."""

    did: str
    held: bool
    truths: dict[int, dict[str, Any]]

    @property
    def chips(self) -> dict[str, dict[str, Any]]:
        """The memory of all chips; no two processes share one."""
        return {chip_id: held for truth in self.truths.values() for chip_id, held in truth.items()}


class Simulation:
    """Processes that simulate devices, report to a server, and wait for the test after each step.

    >>> with workload(server, "decode", "n150", folder) as running:
    ...     for step in running.steps():
    ...         assert_account(server, step)
    ... assert running.codes == [0, 0, 0, 0]
    """

    def __init__(self, server: Server, machine: str, folder: Path, *commands: list[str]) -> None:
        self.machine: MachineType = MACHINES[machine]
        self._errors = folder / "sim.err"
        environment = {**os.environ, "TTMEM_SOCKET": server.path, "TT_ALLOC_TRACKING_ENABLED": "1"}
        self.processes: list[subprocess.Popen[bytes]] = []
        self._standing = False
        with open(self._errors, "ab") as errors:
            for command in commands:
                started = subprocess.Popen(
                    [sys.executable, *command], env=environment, cwd=folder, stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE, stderr=errors,
                )  # fmt: skip
                self.processes.append(started)

    def steps(self) -> Iterator[Step]:
        """Its remaining steps."""
        while (step := self.step()) is not None:
            yield step

    def step(self) -> Step | None:
        """The next step, None when the processes have ended. They wait after it."""
        if self._standing:
            self.go_on()
        lines = [self._read(process) for process in self.processes]
        if not any(lines):
            return None
        self._standing = True
        said = [json.loads(line) for line in lines]
        assert len({line["did"] for line in said}) == 1, "the processes are not in step"
        assert all(line["applied"] for line in said), "the server did not apply everything in time"
        truths = {process.pid: line["truth"] for process, line in zip(self.processes, said)}
        return Step(said[0]["did"], said[0]["held"], truths)

    def step_to(self, did: str) -> Step:
        """The next step with this text."""
        for step in self.steps():
            if step.did == did:
                return step
        raise AssertionError(f"there was no step {did!r}\n{self._errors.read_text()}")

    def go_on(self) -> None:
        """Start the next step without waiting for it."""
        self._standing = False
        for process in self.processes:
            assert process.stdin is not None
            process.stdin.write(b"\n")
            process.stdin.flush()

    def _read(self, process: subprocess.Popen[bytes]) -> bytes:
        assert process.stdout is not None
        ready, _, _ = select.select([process.stdout], [], [], PATIENCE)  # a process writes one line at a time
        assert ready, f"no step within {PATIENCE:g} s\n{self._errors.read_text()}"
        return process.stdout.readline()

    @property
    def codes(self) -> list[int]:
        """The exit codes."""
        return [process.wait(PATIENCE) for process in self.processes]

    def __enter__(self) -> Simulation:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait(PATIENCE)
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdout.close()
            try:
                process.stdin.close()
            except BrokenPipeError:  # it was killed before it read the last line
                pass


def workload(server: Server, name: str, machine: str, folder: Path, *, rounds: int | None = None) -> Simulation:
    """All processes of a workload on a simulated machine."""
    parts = parts_of(name, machine)
    rounds = WORKLOADS[name].rounds if rounds is None else rounds
    command = ["-m", "ttmem.demo.worker", name, "--devices", machine, "--rounds", str(rounds), "--truth"]
    return Simulation(
        server, machine, folder, *([*command, "--part", str(part), "--parts", str(parts)] for part in range(parts))
    )


def program(server: Server, name: str, machine: str, folder: Path) -> Simulation:
    """A program of tests/programs with the protocol of the simulator's runner."""
    return Simulation(server, machine, folder, [str(ROOT / "tests" / "programs" / f"{name}.py")])


# -- the server's figures in the format of the simulator -------------------------------------------------------------


def _present(sizes: Mapping[str, int]) -> Sizes:
    return {label: size for label, size in sizes.items() if size}


def used_of(memory: Mapping[str, Any]) -> Sizes:
    """Requested bytes by kind, from a chip's part of a snapshot."""
    dram, l1, system = memory["dram"], memory["l1"], memory["system"]
    used = {
        "dram": dram["used"] - dram["trace"]["used"],
        "trace": dram["trace"]["used"],
        "l1": l1["buffers"],
        "l1_small": l1["small"]["used"],
        "cb": l1["cb"]["held"],
        "dfb": l1["dfb"]["held"],
        "scratchpad": l1["scratchpad"],
        "kernel": l1["kernels"],
        "firmware": l1["firmware"],
        "fabric_kernel": system["fabric_kernels"],
        "dispatch_kernel": system["dispatch_kernels"],
    }
    assert l1["used"] == sum(size for label, size in used.items() if KIND_BY_LABEL[label] in WORKER_L1)
    return _present(used)


def reserved_of(memory: Mapping[str, Any]) -> Sizes:
    """Reserved bytes by kind; a kind that was never allocated is None in a snapshot."""
    dram, l1 = memory["dram"], memory["l1"]
    trace, small = dram["trace"]["reserved"] or 0, l1["small"]["reserved"] or 0
    return _present(
        {
            "dram": (dram["reserved"] or 0) - trace,
            "trace": trace,
            "l1": (l1["reserved"] or 0) - small,
            "l1_small": small,
        }
    )


def allocations(server: Server, **filters: str) -> list[dict[str, Any]]:
    """Every live allocation, page by page."""
    found: list[dict[str, Any]] = []
    query = "".join(f"&{name}={value}" for name, value in filters.items())
    while True:
        page = server.get(f"/allocations?limit={_PAGE}&offset={len(found)}{query}")
        found += page["allocations"]
        if len(found) >= page["matched"]:
            return found


def cores_by_allocations(server: Server, machine: MachineType) -> dict[str, dict[str, Sizes]]:
    """Bytes by kind on each logical core of each chip, summed from the live allocations."""
    columns, rows = machine.board.compute_grid
    grid = [(x, y) for y in range(rows) for x in range(columns)]
    logical = {machine.board.noc_of(x, y): (x, y) for x, y in grid}
    chips: dict[str, dict[str, Sizes]] = {}
    for allocation in allocations(server):
        assert allocation["refs"] == 1, allocation  # the simulator reports everything once
        kind, on_each = allocation["kind"], allocation["size"]
        if kind == "firmware":
            cores = [logical[allocation["core"]["x"], allocation["core"]["y"]]]
        elif kind in ("l1", "l1_small"):
            cores, on_each = grid, allocation["reserved"] // len(grid)
        elif kind in ("cb", "dfb", "scratchpad", "kernel"):
            cores = list(cores_of(mask_of(parse_ranges(allocation["cores"]))))
            on_each = 0 if allocation["shared"] else allocation["size"] // len(cores)
        else:
            continue
        for chip in allocation["chips"]:
            for x, y in cores:
                sizes = chips.setdefault(chip, {}).setdefault(f"{x},{y}", {})
                sizes[kind] = sizes.get(kind, 0) + on_each
    return {chip: {core: _present(sizes) for core, sizes in cores.items()} for chip, cores in chips.items()}


def assert_account(server: Server, step: Step) -> dict[str, Any]:
    """Check that the server's figures of all chips and processes are exact; returns its snapshot."""
    snapshot = server.snapshot()
    used, reserved = {}, {}
    for chip in snapshot["chips"]:
        used[chip["chip"]], reserved[chip["chip"]] = used_of(chip["memory"]), reserved_of(chip["memory"])
    assert used == {chip_id: truth["used"] for chip_id, truth in step.chips.items()}, step.did
    assert reserved == {chip_id: truth["reserved"] for chip_id, truth in step.chips.items()}, step.did
    assert kinds_of(snapshot) == {
        pid: {chip_id: truth["used"] for chip_id, truth in truths.items()} for pid, truths in step.truths.items()
    }, step.did
    return snapshot


def assert_cores(server: Server, machine: MachineType, step: Step) -> None:
    """The same check for every core."""
    assert cores_by_allocations(server, machine) == {
        chip_id: truth["cores"] for chip_id, truth in step.chips.items()
    }, step.did


def kinds_of(snapshot: Mapping[str, Any]) -> dict[int, dict[str, Sizes]]:
    """Bytes by kind that each process holds on each of its chips, or held when it ended."""
    return {
        process["pid"]: {chip["chip"]: _present(chip["kinds"]) for chip in process["chips"]}
        for process in snapshot["processes"]
    }

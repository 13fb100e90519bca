# SPDX-License-Identifier: Apache-2.0
"""Workloads for simulated devices: each is a generator that yields a description of each step."""

from __future__ import annotations

from collections.abc import Callable, Generator
from importlib import import_module
from typing import NamedTuple

from ttmem.sim.board_types import machine_named
from ttmem.sim.device import AnyDevice, create_device
from ttmem.sim.errors import SimError
from ttmem.sim.mesh import create_mesh_device


class WorkerPart(NamedTuple):
    """The share of one process in a machine."""

    machine: str
    number: int = 0
    parts: int = 1

    @property
    def chips(self) -> range:
        machine = machine_named(self.machine)
        count = min(machine.linked, machine.chips // self.parts)
        return range(self.number * count, (self.number + 1) * count)

    def open(self, *, l1_small_size: int = 0, trace_region_size: int = 0, system_dram: int = 0) -> AnyDevice:
        """Open the device of this share, or the mesh if there are several."""
        if len(self.chips) == 1:
            return create_device(
                self.chips[0], self.machine, l1_small_size=l1_small_size, trace_region_size=trace_region_size,
                system_dram=system_dram,
            )  # fmt: skip
        return create_mesh_device(
            self.machine, (1, len(self.chips)), first=self.chips[0], l1_small_size=l1_small_size,
            trace_region_size=trace_region_size, system_dram=system_dram,
        )  # fmt: skip


HELD = "holds all it will hold"  # every workload that lives so long says this once, before it lets go
Steps = Generator[str, None, None]
Workload = Callable[[WorkerPart, int], Steps]


class WorkloadEntry(NamedTuple):
    """A workload: its number of processes, its length, and whether it can run forever."""

    summary: str
    parts: int
    rounds: int
    endless: bool = False


WORKLOADS = {
    "decode": WorkloadEntry(
        "Llama-like decode, data parallel: program cache, trace, growing KV cache", 4, 64, endless=True
    ),
    "matmul": WorkloadEntry("a matrix multiplication on one core", 1, 1, endless=True),
    "conv": WorkloadEntry("a convolutional net with halo tables in L1_SMALL", 1, 8, endless=True),
    "leak": WorkloadEntry("every round forgets to free a tensor", 1, 10, endless=True),
    "crash": WorkloadEntry("killed with SIGKILL in the middle of a run", 1, 3),
    "fragmentation": WorkloadEntry("enough of L1 is free, but no block is large enough", 1, 1),
    "clash": WorkloadEntry("circular buffers grow until they meet an L1 buffer", 1, 1),
}


def find(name: str) -> Workload:
    """The workload with this name: called with a share and a number of rounds, it yields its steps."""
    if name not in WORKLOADS:
        raise SimError(f"there is no workload {name!r}; there are {', '.join(WORKLOADS)}")
    run: Workload = import_module(f"ttmem.sim.workloads.{name}").run
    return run


def parts_of(name: str, machine: str) -> int:
    """The number of processes of a workload on this machine."""
    return min(WORKLOADS[name].parts, machine_named(machine).chips)

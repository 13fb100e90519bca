# SPDX-License-Identifier: Apache-2.0
"""A random program on a mesh and on parts of it, with collective operations; the same seed gives the same program.

After every step it reports what ttnn's allocators have on each open mesh. A part has an allocator of its own.

On mock devices ttnn refuses to close a part if operations ran both there and on the whole mesh. So operations run on
the whole mesh only, and parts come and go with their tensors (--operations whole); or they run on parts only (parts);
or on all meshes, and then the process ends without closing anything (both).
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ttnn
from ttnn_bench import L1_SMALL_SIZE, Reporter, account, first_line, parser

MAX_LIVE = 24
MAX_PARTS = 4
SIDES = (32, 64, 128, 256)
DRAM, L1 = ttnn.DRAM_MEMORY_CONFIG, ttnn.L1_MEMORY_CONFIG
Step = Callable[["Meshes"], Any]
STEPS: dict[str, tuple[Step, int]] = {}


def step(weight: int = 2) -> Callable[[Step], Step]:
    """Register a kind of step."""

    def register(function: Step) -> Step:
        STEPS[function.__name__] = (function, weight)
        return function

    return register


class Meshes:
    """The whole mesh, its open parts, and the tensors on them."""

    def __init__(self, whole: Any, seed: int, operations: str) -> None:
        self.random = random.Random(seed)
        self.whole = whole
        self.meshes = [whole]
        self.operations = operations
        self.live: list[tuple[Any, Any]] = []  # mesh and tensor
        self._kernel = Path("nothing.cpp").absolute()
        self._kernel.write_text("void kernel_main() {}\n")

    def mesh(self) -> Any:
        """Any mesh, for tensors."""
        return self.random.choice(self.meshes)

    def busy(self) -> Any:
        """A mesh on which operations may run; opens a part if that needs one."""
        if self.operations == "parts" and len(self.meshes) == 1:
            open_part(self)
        return self.random.choice(
            {"whole": self.meshes[:1], "parts": self.meshes[1:]}.get(self.operations, self.meshes)
        )

    def wide(self) -> tuple[Any, int] | None:
        """A mesh for collective operations, and an axis on which it has several chips."""
        mesh = self.busy()
        axes = [axis for axis in (0, 1) if mesh.shape[axis] > 1]
        return (mesh, self.random.choice(axes)) if axes else None

    def new(self, mesh: Any, height: int = 0, width: int = 0, memory: Any = None) -> Any:
        shape = [1, 1, height or self.random.choice(SIDES), width or self.random.choice(SIDES)]
        place = memory or self.random.choice((DRAM, L1))
        return ttnn.empty(shape, ttnn.bfloat16, ttnn.TILE_LAYOUT, mesh, place)

    def pop(self) -> Any:
        return self.live.pop(self.random.randrange(len(self.live)))[1] if self.live else None

    def descriptor(self, core: tuple[int, int]) -> Any:
        """A program with one circular buffer and an empty kernel on one core."""
        cores = ttnn.CoreRangeSet({ttnn.CoreRange(ttnn.CoreCoord(*core), ttnn.CoreCoord(*core))})
        page = ttnn.CBFormatDescriptor(buffer_index=0, data_format=ttnn.bfloat16, page_size=2048)
        kernel = ttnn.KernelDescriptor(
            kernel_source=str(self._kernel),
            source_type=ttnn.KernelDescriptor.SourceType.FILE_PATH,
            core_ranges=cores,
            config=ttnn.ReaderConfigDescriptor(),
        )
        buffer = ttnn.CBDescriptor(total_size=2048, core_ranges=cores, format_descriptors=[page])
        return ttnn.ProgramDescriptor(kernels=[kernel], semaphores=[], cbs=[buffer])

    def run(self) -> dict[str, Any]:
        """One step; `programs` has the core of the program on each chip, if the step knows it."""
        kinds = list(STEPS)
        kind = self.random.choices(kinds, [weight for _, weight in STEPS.values()])[0]
        made = error = None
        try:
            made = STEPS[kind][0](self)
        except Exception as problem:
            error = first_line(problem)
        while len(self.live) > MAX_LIVE:
            self.pop()
        return {"what": kind, "programs": made, "error": error}

    def repeat(self, rounds: int) -> None:
        """Run the same operations again and again; each frees what the one before it made."""
        if not rounds:
            return
        mesh, axis = self.wide() or (self.busy(), None)
        a, b = self.new(mesh, 64, 64, DRAM), self.new(mesh, 64, 64, L1)
        for _ in range(rounds):
            c = ttnn.add(a, b, memory_config=DRAM)
            if axis is not None:
                ttnn.deallocate(ttnn.all_gather(c, dim=3, cluster_axis=axis))


@step(5)
def allocate(m: Meshes) -> None:
    mesh = m.mesh()
    m.live.append((mesh, m.new(mesh)))


@step(3)
def add(m: Meshes) -> None:
    mesh = m.busy()
    a = m.new(mesh)
    m.live.append((mesh, ttnn.add(a, m.new(mesh, a.shape[2], a.shape[3]))))


@step()
def matmul(m: Meshes) -> None:
    mesh = m.busy()
    a = m.new(mesh)
    m.live.append((mesh, ttnn.matmul(a, m.new(mesh, a.shape[3]))))


@step(3)
def all_gather(m: Meshes) -> None:
    if found := m.wide():
        mesh, axis = found
        m.live.append((mesh, ttnn.all_gather(m.new(mesh, 64, 64), dim=3, cluster_axis=axis)))


@step(3)
def reduce_scatter(m: Meshes) -> None:
    if found := m.wide():
        mesh, axis = found
        m.live.append((mesh, ttnn.reduce_scatter(m.new(mesh, 64, 32 * mesh.shape[axis]), dim=3, cluster_axis=axis)))


@step()
def all_reduce(m: Meshes) -> None:
    if found := m.wide():
        mesh, axis = found
        m.live.append((mesh, ttnn.all_reduce(m.new(mesh, 64, 32 * mesh.shape[axis]), cluster_axis=axis)))


@step(3)
def programs_on_parts(m: Meshes) -> dict[int, list[int]]:
    """One workload with another program for each of several groups of columns; returns the core of each chip's program.

    On mock the groups must cover the whole mesh.
    """
    mesh = m.busy()
    rows, columns = mesh.shape[0], mesh.shape[1]
    ends = [*sorted(m.random.sample(range(1, columns), m.random.randrange(columns))), columns]
    programs, cores, first = {}, {}, 0
    for number, end in enumerate(ends):
        core = m.random.randrange(4), number
        programs[_columns(rows, first, end)] = m.descriptor(core)
        for row in range(rows):
            for column in range(first, end):
                cores[mesh.get_device_id(ttnn.MeshCoordinate(row, column))] = list(core)
        first = end
    a, b = m.new(mesh, 32, 32), m.new(mesh, 32, 32)
    m.live.append((mesh, ttnn.generic_op([a, b], ttnn.MeshProgramDescriptor(programs))))
    return cores


def _columns(rows: int, first: int, end: int) -> Any:
    return ttnn.MeshCoordinateRange(ttnn.MeshCoordinate(0, first), ttnn.MeshCoordinate(rows - 1, end - 1))


@step(3)
def open_part(m: Meshes) -> None:
    if len(m.meshes) > MAX_PARTS:
        return
    rows, columns = m.whole.shape[0], m.whole.shape[1]
    high, wide = m.random.randint(1, rows), m.random.randint(1, columns)
    place = ttnn.MeshCoordinate(m.random.randint(0, rows - high), m.random.randint(0, columns - wide))
    m.meshes.append(m.whole.create_submesh(ttnn.MeshShape(high, wide), place))


@step()
def close_part(m: Meshes) -> None:
    if len(m.meshes) > 1 and m.operations != "both":
        part = m.meshes.pop(m.random.randrange(1, len(m.meshes)))
        m.live = [(mesh, tensor) for mesh, tensor in m.live if mesh is not part]
        ttnn.close_mesh_device(part)


@step(4)
def deallocate(m: Meshes) -> None:
    a = m.pop()
    if a is not None:
        ttnn.deallocate(a)


@step(4)
def delete(m: Meshes) -> None:
    for _ in range(m.random.randint(1, 4)):
        m.pop()


@step(1)
def clear_program_cache(m: Meshes) -> None:
    m.mesh().clear_program_cache()


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--steps", type=int, default=100)
    options.add_argument("--repeat", type=int, default=0, help="rounds of cached operations after each step")
    options.add_argument("--operations", choices=("whole", "parts", "both"), default="whole")
    options.add_argument("--shape", required=True, help="ROWSxCOLUMNS of the mesh")
    chosen = options.parse_args()
    report = Reporter(chosen.report_fd, chosen.ack_fd)
    ttnn.set_fabric_config(ttnn.FabricConfig.FABRIC_1D)
    whole = ttnn.open_mesh_device(
        ttnn.MeshShape(*map(int, chosen.shape.split("x"))),
        dispatch_core_config=ttnn.DispatchCoreConfig(ttnn.DispatchCoreType.WORKER),
        l1_small_size=L1_SMALL_SIZE,
    )
    meshes = Meshes(whole, chosen.seed, chosen.operations)
    report(what="open", programs=None, error=None, meshes=[account(whole)])
    for _ in range(chosen.steps):
        done = meshes.run()
        meshes.repeat(chosen.repeat)
        report(**done, meshes=[account(mesh) for mesh in meshes.meshes])
    if chosen.operations == "both":
        os._exit(0)
    meshes.live.clear()
    for mesh in reversed(meshes.meshes):
        ttnn.close_mesh_device(mesh)
    report(what="close", programs=None, error=None, meshes=[])


if __name__ == "__main__":
    main()

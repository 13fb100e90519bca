# SPDX-License-Identifier: Apache-2.0
"""Short scenes in which buffers come and go in ways that are easy to count wrongly; ttnn's own account after each act.

A record has the account of every open mesh. Where `listed` is false ttnn's list of buffers is out of date and only its
memory view counts.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import Any

import ttnn
from ttnn_bench import L1_SMALL_SIZE, Reporter, account, first_line, parser

DRAM, L1 = ttnn.DRAM_MEMORY_CONFIG, ttnn.L1_MEMORY_CONFIG
Scene = Callable[["Stage"], None]
SCENES: dict[str, Scene] = {}


def scene(function: Scene) -> Scene:
    SCENES[function.__name__] = function
    return function


class Stage:
    """The open meshes, and the reports to the test."""

    def __init__(self, report: Reporter) -> None:
        self._report = report
        self.meshes: list[Any] = []
        self.listed = True

    def show(self, what: str, error: str | None = None, **more: Any) -> None:
        meshes = [account(mesh, self.listed) for mesh in self.meshes]
        self._report(what=what, error=error, listed=self.listed, meshes=meshes, **more)

    def open(self, number: int = 0) -> Any:
        return self._add(ttnn.open_device(device_id=number, l1_small_size=L1_SMALL_SIZE))

    def open_mesh(self, rows: int, columns: int) -> Any:
        dispatch = ttnn.DispatchCoreConfig(ttnn.DispatchCoreType.WORKER)
        shape = ttnn.MeshShape(rows, columns)
        return self._add(ttnn.open_mesh_device(shape, dispatch_core_config=dispatch, l1_small_size=L1_SMALL_SIZE))

    def part(self, mesh: Any, rows: int, columns: int, row: int, column: int) -> Any:
        return self._add(mesh.create_submesh(ttnn.MeshShape(rows, columns), ttnn.MeshCoordinate(row, column)))

    def close(self, mesh: Any) -> None:
        self.meshes = [other for other in self.meshes if other is not mesh]
        ttnn.close_mesh_device(mesh)

    def _add(self, mesh: Any) -> Any:
        self.meshes.append(mesh)
        return mesh


def new(mesh: Any, memory: Any = L1, rows: int = 64, columns: int = 64) -> Any:
    return ttnn.zeros(
        [1, 1, rows, columns], dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=mesh, memory_config=memory
    )


def cores(width: int, height: int) -> Any:
    return ttnn.CoreRangeSet({ttnn.CoreRange(ttnn.CoreCoord(0, 0), ttnn.CoreCoord(width - 1, height - 1))})


@scene
def capture_without_dispatch(stage: Stage) -> None:
    """Buffers of a capture are not real; ttnn's shared-memory counters add them."""
    device = stage.open()
    a, b = new(device), new(device, DRAM)
    c = ttnn.add(a, b)
    stage.show("before")
    ttnn.graph.begin_graph_capture(ttnn.graph.RunMode.NO_DISPATCH)
    d = ttnn.add(a, b)
    e = new(device, L1, 256, 256)
    stage.show("inside")
    ttnn.graph.end_graph_capture()
    stage.show("captured")
    del d, e
    stage.show("its tensors gone")
    del c
    stage.show("a real one gone")
    stage.close(device)
    stage.show("closed")


@scene
def freed_wholesale(stage: Stage) -> None:
    """After deallocate_buffers the death of an old tensor frees whatever now lies at its address."""
    device = stage.open()
    a, b = new(device), new(device)
    old = a.buffer_address()
    stage.show("two")
    ttnn._ttnn.device.deallocate_buffers(device)
    stage.listed = False
    stage.show("freed wholesale")
    c = new(device)
    if c.buffer_address() != old:
        raise AssertionError("the new buffer is not where the old one was")
    stage.show("a new one at the old address")
    del a
    stage.show("the old one's tensor gone")
    d = new(device)
    stage.show("another at that address")
    del b, c, d
    stage.show("all gone")
    stage.close(device)
    stage.show("closed")


@scene
def closed_with_live_tensors(stage: Stage) -> None:
    device = stage.open()
    kept = [new(device, memory) for memory in (DRAM, L1, DRAM)]
    stage.show("three")
    stage.close(device)
    stage.show("closed")
    kept.clear()
    stage.show("their tensors gone")
    device = stage.open()
    kept.append(new(device))
    stage.show("open again")
    stage.close(device)
    stage.show("closed again")


@scene
def two_devices(stage: Stage) -> None:
    """Two meshes of one chip each; to close the first closes both chips."""
    first, second = stage.open(0), stage.open(1)
    one = [new(first), new(first, DRAM)]
    stage.show("one on the first")
    other = [new(second), new(second, DRAM, 256, 256), ttnn.add(new(second), new(second))]
    stage.show("others on the second")
    one.pop()
    stage.show("one gone")
    stage.close(first)
    stage.show("first closed")
    stage.listed = False  # with the chips closed ttnn no longer takes a dead buffer off its list
    other.pop()
    stage.show("one gone on the second")
    stage.close(second)
    stage.show("second closed")


@scene
def part_of_a_mesh(stage: Stage) -> None:
    """A part has an allocator of its own, which hands out the same addresses on the same chips."""
    whole = stage.open_mesh(1, 2)
    part = stage.part(whole, 1, 1, 0, 1)
    a, b = new(whole), new(part)
    if a.buffer_address() != b.buffer_address():
        raise AssertionError("the part's allocator knows of the whole's")
    stage.show("both at one address", address=a.buffer_address())
    c = new(part, DRAM)
    stage.show("one more on the part")
    del b
    stage.show("the part's gone")
    b = new(part)
    del a
    stage.show("the whole's gone")
    stage.close(part)
    stage.show("part closed")
    a = new(whole)
    stage.show("again on the whole")
    stage.close(whole)
    stage.show("closed")
    del a, b, c


@scene
def global_allocations(stage: Stage) -> None:
    """Semaphores and circular buffers that outlive programs are L1 buffers."""
    device = stage.open()
    semaphore = ttnn.create_global_semaphore(device, cores(4, 4), 0)
    stage.show("semaphore")
    pairs = [(ttnn.CoreCoord(0, 0), ttnn.CoreRangeSet({ttnn.CoreRange(ttnn.CoreCoord(1, 0), ttnn.CoreCoord(3, 0))}))]
    ring = ttnn.create_global_circular_buffer(device, pairs, 4096)
    stage.show("circular buffer")
    del semaphore
    stage.show("semaphore gone")
    del ring
    stage.show("circular buffer gone")
    stage.close(device)
    stage.show("closed")


@scene
def out_of_memory(stage: Stage) -> None:
    device = stage.open()
    kept = []
    try:
        while True:
            kept.append(ttnn.empty([1, 1, 2048, 4096], ttnn.bfloat16, ttnn.TILE_LAYOUT, device, L1))
    except RuntimeError as error:
        stage.show("full", failed=first_line(error))
    del kept[::2]
    try:
        ttnn.empty([1, 1, 4096, 8192], ttnn.bfloat16, ttnn.TILE_LAYOUT, device, L1)
        raise AssertionError("there was room where there should be holes")
    except RuntimeError as error:
        stage.show("holes", failed=first_line(error))
    kept.clear()
    stage.show("empty")
    stage.close(device)
    stage.show("closed")


@scene
def opened_often(stage: Stage) -> None:
    """Like a test suite that reopens the device for each of its tests."""
    for _ in range(300):
        ttnn.close_mesh_device(ttnn.open_device(device_id=0))
    device = stage.open()
    kept = new(device)
    stage.show("open once more")
    stage.close(device)
    stage.show("closed")
    del kept


@scene
def by_core(stage: Stage) -> None:
    """The hybrid allocator gives each core of a sharded buffer an address of its own, outside the mesh's allocator."""
    device = stage.open()
    kept = [new(device), new(device, DRAM)]
    stage.show("in lock step", by_core=0)
    shard = ttnn.ShardSpec(cores(4, 1), [64, 64], ttnn.ShardOrientation.ROW_MAJOR)
    memory = ttnn.MemoryConfig(ttnn.TensorMemoryLayout.HEIGHT_SHARDED, ttnn.BufferType.L1, shard)
    memory.experimental_set_per_core_allocation(True)
    own = new(device, memory, 256, 64)
    stage.show("one by core", by_core=4 * 64 * 64 * 2)
    kept.append(ttnn.add(kept[0], kept[1]))
    stage.show("an operation", by_core=4 * 64 * 64 * 2)
    del own
    stage.show("it is gone", by_core=0)
    del kept
    stage.show("all gone", by_core=0)
    stage.close(device)
    stage.show("closed", by_core=0)


@scene
def narrow_rows(stage: Stage) -> None:
    """Of 48 bytes each; the hybrid allocator rounds every one of them."""
    device = stage.open()
    rows = ttnn.zeros(
        [1, 1, 256, 24], dtype=ttnn.bfloat16, layout=ttnn.ROW_MAJOR_LAYOUT, device=device, memory_config=L1
    )
    stage.show("rows")
    del rows
    stage.show("gone")
    stage.close(device)
    stage.show("closed")


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--scene", choices=SCENES, required=True)
    chosen = options.parse_args()
    # Captures look for torch's tensors; the wheel does not bring torch, and after `import ttnn` nothing else wants it.
    sys.modules.setdefault("torch", types.SimpleNamespace(Tensor=type("Tensor", (), {})))  # type: ignore[arg-type]
    stage = Stage(Reporter(chosen.report_fd, chosen.ack_fd))
    SCENES[chosen.scene](stage)


if __name__ == "__main__":
    main()

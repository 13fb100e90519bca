# SPDX-License-Identifier: Apache-2.0
"""Random tensors on a whole mesh and on two parts of it at the same time, of which one is closed half way.

The first line has the meshes; each other is a step on one of them, and a free names the step that allocated.
"""

from __future__ import annotations

import random
from typing import Any

import ttnn
from ttnn_bench import L1_SMALL_SIZE, MESHES, Reporter, parser

PARTS = (((1, 2), (0, 0)), ((2, 2), (0, 1)))  # shape and offset; one chip is in both
KINDS = ("DRAM", "L1")


class Meshes:
    """The meshes, and the tensors alive by the step that made them."""

    def __init__(self, whole: Any, seed: int) -> None:
        self.random = random.Random(seed)
        self.meshes = [whole]
        for shape, offset in PARTS:
            self.meshes.append(whole.create_submesh(ttnn.MeshShape(*shape), ttnn.MeshCoordinate(*offset)))
        self.live: dict[int, tuple[Any, int]] = {}

    def step(self, number: int) -> dict[str, Any]:
        if self.live and self.random.random() < 0.4:
            of = self.random.choice(list(self.live))
            del self.live[of]
            return {"op": "free", "of_step": of}
        mesh = self.random.randrange(len(self.meshes))
        kind = self.random.choice(KINDS)
        shape = [32 * self.random.randint(1, 40), 32 * self.random.randint(1, 40)]
        memory = getattr(ttnn, f"{kind}_MEMORY_CONFIG")
        tensor = ttnn.zeros(
            shape, dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=self.meshes[mesh], memory_config=memory
        )
        self.live[number] = tensor, mesh
        return {"op": "alloc", "mesh": mesh, "kind": kind, "shape": shape, "address": tensor.buffer_address()}

    def close_last(self) -> dict[str, Any]:
        """The last part goes, and the tensors on it with it."""
        last = len(self.meshes) - 1
        self.live = {number: (tensor, mesh) for number, (tensor, mesh) in self.live.items() if mesh != last}
        ttnn.close_mesh_device(self.meshes.pop())
        return {"op": "close", "mesh": last}

    def buffers(self) -> list[list[list[int]]]:
        """Type and address of every buffer of each mesh, from ttnn's own list."""
        listed = [ttnn._ttnn.reports.get_buffers([mesh]) for mesh in self.meshes]
        return [sorted([buffer.buffer_type.value, buffer.address] for buffer in buffers) for buffers in listed]

    def allocated(self) -> list[dict[str, int]]:
        """Bytes in one bank of each kind on each mesh."""
        return [
            {
                kind: ttnn.get_memory_view(mesh, getattr(ttnn.BufferType, kind)).total_bytes_allocated_per_bank
                for kind in KINDS
            }
            for mesh in self.meshes
        ]


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--steps", type=int, default=100)
    options.add_argument("--seed", type=int, default=0)
    arguments = options.parse_args()
    report = Reporter(arguments.report_fd, arguments.ack_fd)
    shape = MESHES[arguments.board]
    whole = ttnn.open_mesh_device(ttnn.MeshShape(*shape), l1_small_size=L1_SMALL_SIZE)
    meshes = Meshes(whole, arguments.seed)
    grid = whole.compute_with_storage_grid_size()
    chips = [list(mesh.get_device_ids()) for mesh in meshes.meshes]
    report(header={"l1_small_size": L1_SMALL_SIZE, "parts": PARTS, "chips": chips, "compute_grid": [grid.x, grid.y]})
    for number in range(arguments.steps):
        record = meshes.close_last() if number == arguments.steps // 2 else meshes.step(number)
        report(step=number, **record, allocated=meshes.allocated(), buffers=meshes.buffers())
    meshes.live.clear()
    for mesh in reversed(meshes.meshes):
        ttnn.close_mesh_device(mesh)


if __name__ == "__main__":
    main()

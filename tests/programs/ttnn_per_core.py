# SPDX-License-Identifier: Apache-2.0
"""Tensors with an address of their own on each core come and go in a random order; many share their first address.

A record has what ttnn says of the tensors in lock step, and of each of the others the first address and the size on
every chip. For TT_METAL_ALLOCATOR_MODE_HYBRID=1.
"""

from __future__ import annotations

import random
from typing import Any

import ttnn
from ttnn_bench import MESHES, Reporter, account, close_board, open_board, parser

ROWS, COLUMNS = 32, 64
SHARD_BYTES = ROWS * COLUMNS * 2


class Tensors:
    """Those that are live."""

    def __init__(self, mesh: Any, board: str) -> None:
        self._mesh = mesh
        rows, columns = MESHES.get(board, (1, 1))
        self._chips = [ttnn.MeshCoordinate(row, column) for row in range(rows) for column in range(columns)]
        self.own: list[tuple[Any, int, int, int]] = []  # the tensor, where its cores begin, and how many they are
        self.in_lock_step: list[Any] = []

    def make(self, x: int, y: int, cores: int, per_core: bool) -> None:
        ranges = ttnn.CoreRangeSet({ttnn.CoreRange(ttnn.CoreCoord(x, y), ttnn.CoreCoord(x + cores - 1, y))})
        shard = ttnn.ShardSpec(ranges, [ROWS, COLUMNS], ttnn.ShardOrientation.ROW_MAJOR)
        memory = ttnn.MemoryConfig(ttnn.TensorMemoryLayout.HEIGHT_SHARDED, ttnn.BufferType.L1, shard)
        memory.experimental_set_per_core_allocation(per_core)
        tensor = ttnn.zeros(
            [1, 1, ROWS * cores, COLUMNS], dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=self._mesh,
            memory_config=memory,
        )  # fmt: skip
        assert tensor.is_per_core_allocated() == per_core
        if per_core:
            self.own.append((tensor, x, y, cores))
        else:
            self.in_lock_step.append(tensor)

    def listed(self) -> list[list[int]]:
        """Chip, first address and size of each that has an address of its own on each core, as ttnn says."""
        numbers = list(self._mesh.get_device_ids())
        return sorted(
            [number, tensor.experimental_per_core_buffer_address(chip, ttnn.CoreCoord(x, y)), SHARD_BYTES * cores]
            for tensor, x, y, cores in self.own
            for number, chip in zip(numbers, self._chips)
        )


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--steps", type=int, default=40)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--left", type=int, default=0, help="so many of them are left when the device is closed")
    chosen = options.parse_args()
    report = Reporter(chosen.report_fd, chosen.ack_fd)
    mesh = open_board(chosen)
    tensors, choose = Tensors(mesh, chosen.board), random.Random(chosen.seed)

    def show(what: str) -> None:
        report(what=what, per_core=tensors.listed(), meshes=[account(mesh)])

    for _ in range(chosen.steps):
        if choose.random() < 0.6 or not tensors.own:
            cores = choose.randint(1, 3)
            tensors.make(choose.randint(0, 7 - cores), choose.randint(0, 5), cores, choose.random() < 0.8)
        else:
            some = tensors.own if choose.random() < 0.8 or not tensors.in_lock_step else tensors.in_lock_step
            del some[choose.randrange(len(some))]
        show("step")
    tensors.in_lock_step.clear()
    del tensors.own[chosen.left :]
    while len(tensors.own) < chosen.left:
        tensors.make(len(tensors.own) % 6, 0, 1, True)
    show("left")
    close_board(chosen, mesh)
    report(what="closed", per_core=[], meshes=[])


if __name__ == "__main__":
    main()

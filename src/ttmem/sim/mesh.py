# SPDX-License-Identifier: Apache-2.0
"""Meshes: several chips with one allocator, and submeshes, which have allocators of their own."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from ttmem.collect.graph_tracker import GraphTracker
from ttmem.sim.board_types import machine_named
from ttmem.sim.device import AnyDevice, Chip, Options, default_tracker
from ttmem.sim.errors import SimError

_numbers = itertools.count(1)


class MeshDevice(AnyDevice):
    """Chips in rows and columns. A buffer has one address on all of them."""

    def __init__(
        self, chips: Sequence[Chip], shape: tuple[int, int], options: Options, tracker: GraphTracker,
        parent: MeshDevice | None = None,
    ) -> None:  # fmt: skip
        number = next(_numbers)
        # The chips are opened as this mesh and share its allocator.
        super().__init__(chips, number, options, tracker, number if parent is not None else 0)
        self.shape = shape
        self.parent = parent
        self._submeshes: list[MeshDevice] = []

    def create_submesh(self, shape: tuple[int, int], offset: tuple[int, int] = (0, 0)) -> MeshDevice:
        """A part of the mesh as a separate mesh.

        Its allocator is new and empty and independent of the parent's, as in tt-metal: both give out the same
        addresses.
        """
        self.check_open()
        rows, columns = self.shape
        (height, width), (top, left) = shape, offset
        if not (0 < height <= rows - top and 0 < width <= columns - left and top >= 0 and left >= 0):
            raise SimError(f"a {height}x{width} submesh at {top},{left} does not fit a {rows}x{columns} mesh")
        chips = [self._chips[y * columns + x] for y in range(top, top + height) for x in range(left, left + width)]
        options = self.options._replace(system_dram=0, kernel_writes=False)
        submesh = MeshDevice(chips, shape, options, self.tracker, self)
        self._submeshes.append(submesh)
        return submesh

    def close(self) -> None:
        """A submesh frees what it holds; closing the whole mesh also closes the chips."""
        for submesh in self._submeshes:
            submesh.close()
        if self.parent is None:
            super().close()
        elif self.is_open:
            for program in self.programs():
                program.leave(self)
            self.program_cache.clear()
            for buffer in self.buffers():
                buffer.deallocate()
            self.is_open = False


def create_mesh_device(
    machine: str = "t3k", shape: tuple[int, int] | None = None, *, first: int = 0, l1_small_size: int = 0,
    trace_region_size: int = 0, worker_l1_size: int | None = None, system_dram: int = 0, kernel_writes: bool = False,
    tracker: GraphTracker | None = None,
) -> MeshDevice:  # fmt: skip
    """Open a simulated machine as a mesh, or the chips from ``first`` on in this shape."""
    found = machine_named(machine)
    rows, columns = shape or found.mesh
    if rows <= 0 or columns <= 0 or first < 0 or first + rows * columns > found.chips:
        raise SimError(f"a {rows}x{columns} mesh from device {first} on needs more than the {found.chips} of {machine}")
    chips = [Chip(number, found) for number in range(first, first + rows * columns)]
    options = Options(l1_small_size, trace_region_size, worker_l1_size, system_dram, kernel_writes)
    mesh = MeshDevice(chips, (rows, columns), options, tracker or default_tracker())
    mesh.boot()
    return mesh

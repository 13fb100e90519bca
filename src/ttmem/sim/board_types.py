# SPDX-License-Identifier: Apache-2.0
"""The boards that can be simulated: their chips, harvesting, and how their cores are used and numbered.

Sizes are those of ``ttmem.model.geometry``. The compute grid is computed here: the cores of the chip, minus the
harvested cores, minus the dispatch cores.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from ttmem.model.geometry import BOARDS, Arch, Geometry
from ttmem.sim.errors import SimError


class Dispatch(Enum):
    """The cores that tt-metal reserves for dispatch; dispatch on ethernet cores uses no Tensix cores."""

    ROW = "row"
    COLUMN = "column"
    ETHERNET = "ethernet"
    NONE = "none"


class Silicon(NamedTuple):
    """A chip before harvesting: the NOC coordinates of its Tensix cores, and sizes for the allocator."""

    noc_x: tuple[int, ...]
    noc_y: tuple[int, ...]
    harvests_rows: bool
    dram_base: int
    dram_alignment: int
    mailbox: int  # launch messages and the like, at the bottom of every core's L1


_WORMHOLE = Silicon((1, 2, 3, 4, 6, 7, 8, 9), (1, 2, 3, 4, 5, 7, 8, 9, 10, 11), True, 1048640, 32, 13328)
_BLACKHOLE = Silicon((*range(1, 8), *range(10, 17)), tuple(range(2, 12)), False, 1048704, 64, 13536)
_QUASAR = Silicon(tuple(range(1, 9)), tuple(range(1, 5)), False, 17825920, 64, 59632)
SILICON = {Arch.WORMHOLE_B0: _WORMHOLE, Arch.BLACKHOLE: _BLACKHOLE, Arch.QUASAR: _QUASAR}


class Board(NamedTuple):
    """One type of chip as sold: its harvested cores, and its dispatch cores."""

    name: str
    table: str  # its row in model.boards
    harvested: tuple[int, ...]  # disabled rows (Wormhole) or columns (Blackhole)
    dispatch: Dispatch

    @property
    def silicon(self) -> Silicon:
        return SILICON[BOARDS[self.table].arch]

    @property
    def noc(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """NOC columns and rows of the cores that are left, dispatch cores included."""
        xs, ys, rows = self.silicon.noc_x, self.silicon.noc_y, self.silicon.harvests_rows
        left = tuple(at for number, at in enumerate(ys if rows else xs) if number not in self.harvested)
        return (xs, left) if rows else (left, ys)

    @property
    def grid(self) -> tuple[int, int]:
        """Columns and rows of logical cores, dispatch cores included."""
        xs, ys = self.noc
        return len(xs), len(ys)

    @property
    def compute_grid(self) -> tuple[int, int]:
        x, y = self.grid
        return x - (self.dispatch is Dispatch.COLUMN), y - (self.dispatch is Dispatch.ROW)

    def noc_of(self, x: int, y: int) -> tuple[int, int]:
        """The NOC coordinates of a logical core, as used in per-core ids."""
        xs, ys = self.noc
        return xs[x], ys[y]

    def geometry(self, *, l1_small_size: int = 0, trace_size: int = 0, worker_l1_size: int | None = None) -> Geometry:
        """The geometry that a runtime would report after opening the chip in this way. ``trace_size`` is per bank."""
        known = BOARDS[self.table]
        x, y = self.compute_grid
        base = known.l1_base
        if worker_l1_size is not None:
            step, largest = self.silicon.dram_alignment, known.l1_size - known.map_end
            if not 0 < worker_l1_size <= largest:
                raise SimError(f"worker_l1_size {worker_l1_size} is not between 1 and {largest}")
            base = -(-(known.l1_size - worker_l1_size) // step) * step
        return known._replace(
            grid_x=x, grid_y=y, l1_base=base, l1_small_size=l1_small_size, trace_size=trace_size, live=True
        )


N150 = Board("n150", "n150", (9,), Dispatch.ROW)
N300 = Board("n300", "n300", (8, 9), Dispatch.ETHERNET)
GALAXY = Board("galaxy-wormhole", "galaxy-wormhole", (), Dispatch.ROW)
P100 = Board("p100", "p100", (12, 13), Dispatch.COLUMN)
P150 = Board("p150", "p150", (12, 13), Dispatch.COLUMN)
QUASAR = Board("quasar", "quasar", (), Dispatch.NONE)


class MachineType(NamedTuple):
    """A computer: one type of board, and the mesh of all its chips.

    ``linked`` is the number of chips in a row that are joined by ethernet; ``remote`` are chips without PCIe.
    """

    name: str
    board: Board
    mesh: tuple[int, int]
    linked: int = 1
    remote: frozenset[int] = frozenset()

    @property
    def chips(self) -> int:
        rows, columns = self.mesh
        return rows * columns

    def kmd(self, number: int) -> int | None:
        """The driver's number for a chip: the driver counts the chips on PCIe."""
        return None if number in self.remote else number - sum(other < number for other in self.remote)


MACHINES = {
    machine.name: machine
    for machine in (
        MachineType("n150", N150, (1, 4)),
        MachineType("n300", N300, (2, 2), linked=2, remote=frozenset({1, 3})),
        MachineType("t3k", N300, (2, 4), linked=8, remote=frozenset({4, 5, 6, 7})),
        MachineType("galaxy", GALAXY, (8, 4), linked=32),
        MachineType("p100", P100, (1, 4)),
        MachineType("p150", P150, (1, 4)),
        MachineType("quasar", QUASAR, (1, 4)),
    )
}


def machine_named(name: str) -> MachineType:
    try:
        return MACHINES[name]
    except KeyError:
        raise SimError(f"there is no machine {name!r} to simulate; there are {', '.join(MACHINES)}") from None

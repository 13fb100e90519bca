# SPDX-License-Identifier: Apache-2.0
"""The Tensix cores of a board that are not in the compute grid: reserved for dispatch, or disabled."""

from __future__ import annotations

from typing import NamedTuple

from ttmem.model import boards
from ttmem.model.geometry import Geometry

# Columns and rows of the cores that software can reach, by board, as ttnn 0.81.1 reports them.
_REACHABLE = {
    "n150": (8, 9),
    "n300": (8, 8),
    "galaxy-wormhole": (8, 10),
    "p100": (12, 10),
    "p150": (12, 10),
    "p300": (12, 10),
    "galaxy-blackhole": (13, 10),
    "quasar": (8, 4),
}
_MADE = {"wormhole_b0": 8 * 10, "blackhole": 14 * 10, "quasar": 8 * 4}  # before any are disabled


class Outside(NamedTuple):
    """Cores outside the compute grid. Disabled cores have no coordinates, so only their number is known."""

    dispatch: list[tuple[int, int]]
    harvested: int | None


def outside(board: str | None, geometry: Geometry) -> Outside:
    """The cores of a board outside its compute grid; none for a board that is not in the table.

    >>> from ttmem.model.geometry import BOARDS
    >>> cores = outside("n150", BOARDS["n150"])
    >>> cores.dispatch[0], len(cores.dispatch), cores.harvested
    ((0, 8), 8, 8)
    """
    name = boards.table_name(board, None)
    if name is None:
        return Outside([], None)
    width, height = _REACHABLE[name]
    inside = geometry.grid_x, geometry.grid_y
    if inside[0] > width or inside[1] > height:  # the board is not of the reported type
        return Outside([], None)
    dispatch = [(x, y) for y in range(height) for x in range(width) if x >= inside[0] or y >= inside[1]]
    return Outside(dispatch, _MADE[boards.SIZES[name][0]] - width * height)

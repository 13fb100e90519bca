# SPDX-License-Identifier: Apache-2.0
"""The machines that `ttmem fit` knows, and the cluster descriptor of each, as ttnn's mock devices read it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class BoardKind(NamedTuple):
    """A type of board; its code is in bits 36 to 55 of every board id, and ttnn refuses a code it does not know."""

    name: str
    arch: str
    code: int
    harvested: int  # mask of the rows (Wormhole) or columns (Blackhole) of cores that are switched off
    harvested_ethernet: int = 0
    harvested_pcie: int = 0
    harvested_dram: int = 0
    ethernet_dispatch: bool = False  # by default ttnn dispatches from ethernet cores


class Link(NamedTuple):
    """An ethernet cable or trace between two chips; the k-th channel of one end meets the k-th of the other."""

    chip: int
    channels: tuple[int, ...]
    other: int
    other_channels: tuple[int, ...]


class MockBoard(NamedTuple):
    """A machine: what stands in it, how its chips are linked, and the mesh it opens as."""

    kind: BoardKind
    boards: tuple[tuple[int, ...], ...]  # the chips of each board; the first has PCIe
    places: Mapping[int, tuple[int, int]]  # x and y of each chip
    links: tuple[Link, ...] = ()
    mesh: tuple[int, int] = (1, 1)
    buses: tuple[int, ...] = ()  # the PCI bus of each chip, if all have PCIe; ttnn knows a Galaxy's trays by it

    @property
    def chips(self) -> list[int]:
        return sorted(chip for board in self.boards for chip in board)

    @property
    def on_pcie(self) -> list[int]:
        return self.chips if self.buses else [chips[0] for chips in self.boards]


N150 = BoardKind("n150", "wormhole_b0", 0x18, harvested=1 << 6)
N300 = BoardKind("n300", "wormhole_b0", 0x14, harvested=1 << 0 | 1 << 9, ethernet_dispatch=True)
UBB = BoardKind("ubb", "wormhole_b0", 0x35, harvested=0)
P100 = BoardKind(
    "p100",
    "blackhole",
    0x36,
    harvested=1 << 6 | 1 << 7,
    harvested_ethernet=1 << 5 | 1 << 8,
    harvested_pcie=2,
    harvested_dram=1 << 7,  # it has seven banks
)
P150 = BoardKind(
    "p150", "blackhole", 0x40, harvested=1 << 6 | 1 << 7, harvested_ethernet=1 << 5 | 1 << 8, harvested_pcie=2
)


def _on_board(near: int, far: int) -> Link:
    """What joins the two chips of an n300."""
    return Link(near, (8, 9), far, (0, 1))


#   y   x: 0   1   2   3      Four n300. The chips with PCIe, 0 to 3, are the inner ones.
#   0      4 - 0 - 2 - 6
#          |   |   |   |
#   1      5 - 1 - 3 - 7
_T3K = MockBoard(
    kind=N300,
    boards=((0, 4), (1, 5), (2, 6), (3, 7)),
    places={chip: (x, y) for y, row in enumerate(((4, 0, 2, 6), (5, 1, 3, 7))) for x, chip in enumerate(row)},
    links=(
        *(_on_board(near, near + 4) for near in range(4)),
        Link(0, (6, 7), 2, (6, 7)),
        Link(1, (0, 1), 3, (0, 1)),
        Link(0, (14, 15), 1, (14, 15)),
        Link(2, (14, 15), 3, (14, 15)),
        Link(4, (6, 7), 5, (6, 7)),
        Link(6, (6, 7), 7, (6, 7)),
    ),
    mesh=(2, 4),
)


def _galaxy() -> MockBoard:
    """32 chips in four trays of 2 x 4, which are mirrored: where two trays meet, the same places face each other.

    All of them show one board id. Four channels go each way: 0 to 3 and 12 to 15 along x, 4 to 7 and 8 to 11 along y.

        y   x: 0   1   2   3
        0      1 - 5 - 5 - 1     The numbers are places in a tray: tray 1 is the upper left one, 2 the upper right,
        1      2 - 6 - 6 - 2     3 the lower left. A chip's PCI bus is that of its tray plus its place.
        2      3 - 7 - 7 - 3
        3      4 - 8 - 8 - 4
        4      4 - 8 - 8 - 4     and so on down to 1 - 5 - 5 - 1
    """
    wide, high = 4, 8
    outer_x, inner_x, outer_y, inner_y = (tuple(range(first, first + 4)) for first in (0, 12, 4, 8))
    places = {wide * y + x: (x, y) for y in range(high) for x in range(wide)}
    links, buses = [], []
    for chip, (x, y) in places.items():
        if x + 1 < wide:  # towards the middle by the inner channels, away from it by the outer ones
            links.append(Link(chip, (inner_x, inner_x, outer_x)[x], chip + 1, (outer_x, inner_x, inner_x)[x]))
        if y + 1 < high:
            near, far = (inner_y, outer_y) if y < 3 else (inner_y, inner_y) if y == 3 else (outer_y, inner_y)
            links.append(Link(chip, near, chip + wide, far))
        place = 1 + min(y, high - 1 - y) + 4 * min(x, wide - 1 - x)
        buses.append((0xC0, 0x80, 0x00, 0x40)[y // 4 * 2 + x // 2] + place)
    return MockBoard(UBB, (tuple(places),), places, tuple(links), (high, wide), tuple(buses))


# Smallest machine first.
BOARDS: dict[str, MockBoard] = {
    "n150": MockBoard(N150, ((0,),), {0: (0, 0)}),
    "n300": MockBoard(N300, ((0, 1),), {0: (0, 0), 1: (1, 0)}, (_on_board(0, 1),), mesh=(1, 2)),
    "p100": MockBoard(P100, ((0,),), {0: (0, 0)}),
    "p150": MockBoard(P150, ((0,),), {0: (0, 0)}),
    "t3k": _T3K,
    "galaxy": _galaxy(),
}


def descriptor(board: MockBoard, chip_ids: Mapping[int, int]) -> str:
    """The machine in the form that TT_METAL_MOCK_CLUSTER_DESC_PATH wants, with a unique id for each chip."""
    kind = board.kind
    lines = ["arch:", *(f"  {chip}: {kind.arch}" for chip in board.chips), "chips:"]
    lines += (f"  {chip}: [{x}, {y}, 0, 0]" for chip, (x, y) in sorted(board.places.items()))
    lines += ("chip_unique_ids:", *(f"  {chip}: {chip_ids[chip]}" for chip in board.chips))
    lines += ("ethernet_connections:", *_connections(board.links)) if board.links else ("ethernet_connections: []",)
    lines += ("chips_with_mmio:", *(f"  - {chip}: {number}" for number, chip in enumerate(board.on_pcie)))
    if board.buses:
        lines += ("chip_to_bus_id:", *(f"  {chip}: {bus:#04x}" for chip, bus in enumerate(board.buses)))
    lines.append("harvesting:")
    for chip in board.chips:
        lines.append(
            f"  {chip}: {{noc_translation: true, harvest_mask: {kind.harvested}, "
            f"dram_harvesting_mask: {kind.harvested_dram}, eth_harvesting_mask: {kind.harvested_ethernet}, "
            f"pcie_harvesting_mask: {kind.harvested_pcie}}}"
        )
    lines.append("boards:")
    for number, chips in enumerate(board.boards, 1):
        lines.append(f"  - [board_id: {kind.code << 36 | number}, board_type: {kind.name}, chips: {list(chips)}]")
    return "\n".join(lines) + "\n"


def _connections(links: tuple[Link, ...]) -> list[str]:
    return [
        f"  - [{{chip: {link.chip}, chan: {channel}}}, {{chip: {link.other}, chan: {other}}}]"
        for link in links
        for channel, other in zip(link.channels, link.other_channels, strict=True)
    ]

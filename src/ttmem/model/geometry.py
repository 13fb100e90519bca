# SPDX-License-Identifier: Apache-2.0
"""How much memory a chip has and how a core's L1 is laid out.

Live figures come from the runtime that opened the device. The figures of ``boards.py`` are used only until the live
ones are known, and numbers derived from them are marked.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from ttmem.model import boards
from ttmem.model.kinds import Kind


class Arch(IntEnum):
    """Chip families, numbered as on the legacy wire."""

    UNKNOWN = 0
    GRAYSKULL = 1
    WORMHOLE_B0 = 2
    BLACKHOLE = 3
    QUASAR = 4

    @property
    def label(self) -> str:
        return self.name.lower()


ARCH_BY_LABEL = {arch.label: arch for arch in Arch}


class Geometry(NamedTuple):
    """Sizes of one chip as its allocator reports them: per bank and per core, not multiplied."""

    arch: Arch
    grid_x: int
    grid_y: int
    l1_size: int
    l1_base: int
    map_end: int
    dram_banks: int
    dram_bank_size: int
    l1_small_size: int = 0
    trace_size: int = 0
    live: bool = False

    @property
    def cores(self) -> int:
        return self.grid_x * self.grid_y

    @property
    def l1_capacity(self) -> int:
        """All L1 of the compute grid, firmware and kernel ring included."""
        return self.cores * self.l1_size

    @property
    def dram_capacity(self) -> int:
        return self.dram_banks * self.dram_bank_size

    @property
    def ring_size(self) -> int:
        """Bytes of the kernel config ring on one core."""
        return self.l1_base - self.map_end


BOARDS: dict[str, Geometry] = {
    name: Geometry(ARCH_BY_LABEL[arch], x, y, l1_size, l1_base, map_end, banks, bank_size)
    for name, (arch, x, y, l1_size, l1_base, map_end, banks, bank_size) in boards.SIZES.items()
}


def board_geometry(board: str | None, arch: Arch = Arch.UNKNOWN) -> Geometry | None:
    """Figures from the table for a board name of the driver (``p150a``), else for the family's common board."""
    name = boards.table_name(board, arch.label)
    return None if name is None else BOARDS[name]


class NocGrid(NamedTuple):
    """The grid of the whole network-on-chip, which the proof of concept used as the compute grid."""

    x: int
    y: int


NOC_GRIDS: dict[Arch, NocGrid] = {
    Arch.WORMHOLE_B0: NocGrid(10, 12),
    Arch.BLACKHOLE: NocGrid(17, 12),
}
_ANY_NOC = NocGrid(17, 12)
_ANY_L1 = 1572864
# Mailboxes (launch messages) lie at the very bottom of L1, before the firmware images.
_MAILBOX_END = {Arch.WORMHOLE_B0: 13328, Arch.BLACKHOLE: 13536}


def noc_capacity(geometry: Geometry) -> int:
    """L1 as the proof of concept counted it: the whole NOC grid, 171.6 MiB on Wormhole, 306 MiB on Blackhole."""
    x, y = NOC_GRIDS.get(geometry.arch, NocGrid(geometry.grid_x, geometry.grid_y))
    return x * y * geometry.l1_size


def noc_limits(geometry: Geometry | None) -> tuple[tuple[int, int], int]:
    """NOC grid and L1 size that limit a per-core id on this chip; the largest known ones for an unknown chip."""
    if geometry is None:
        return _ANY_NOC, _ANY_L1
    return NOC_GRIDS.get(geometry.arch, _ANY_NOC), geometry.l1_size


class Region(NamedTuple):
    """A region of a core's L1."""

    name: str
    kind: Kind


_LAUNCH = Region("launch message", Kind.FIRMWARE)
_FIRMWARE = Region("firmware", Kind.FIRMWARE)
_RING = Region("kernel", Kind.KERNEL)
_DATA = Region("data", Kind.L1)


def region_at(geometry: Geometry | None, address: int) -> Region:
    """The region an address of one core falls in: launch messages, firmware, the kernel ring, or data."""
    g = geometry or BOARDS["n150"]
    if address < _MAILBOX_END.get(g.arch, 0):
        return _LAUNCH
    if address < g.map_end:
        return _FIRMWARE
    return _RING if address < g.l1_base else _DATA

# SPDX-License-Identifier: Apache-2.0
"""Finds the chips of a recording and their sizes: from its own figures, else from the table of boards."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from ttmem.imports.graph import MOST_BYTES, GraphCapture, NotACapture
from ttmem.model.geometry import BOARDS, Arch, Geometry
from ttmem.model.identity import ChipInfo, assumed_chip_id
from ttmem.model.kinds import Kind

# Blocks in a bank and parts of programs are aligned to DRAM's alignment, also in L1.
_UNITS = {Arch.WORMHOLE_B0: 32, Arch.BLACKHOLE: 64, Arch.QUASAR: 64}


class ClusterDescription(NamedTuple):
    """The chips of a cluster descriptor."""

    chip_ids: dict[int, str]
    boards: dict[int, str]


class BoardLookup:
    """The meshes of a recording and their chips. ``board`` is the board type given by the user."""

    def __init__(self, recording: GraphCapture, board: str | None) -> None:
        self._rows = {int(row["device_id"]): row for row in recording.devices if row.get("device_id") is not None}
        self._board = board
        self._described = describe(recording.descriptor)
        self.meshes = _meshes(recording)
        self.chips = sorted({chip for chips in self.meshes.values() for chip in chips})
        ran = set().union(*recording.executed.values())
        # A database renumbers devices. Then a chip has its original id only if the programs confirm it.
        self._named = not recording.renumbered or (bool(ran) and ran <= set(self.chips))
        self._geometries = {chip: self._geometry_of(chip) for chip in self.chips}

    def info(self, chip: int) -> ChipInfo:
        geometry = self._geometries[chip]
        chip_id = self._described.chip_ids.get(chip) if self._named else None
        arch = Arch.UNKNOWN if geometry is None else geometry.arch
        return ChipInfo(chip_id or assumed_chip_id(chip), arch=arch, board=self._board_of(chip), geometry=geometry)

    def geometry(self, mesh: int) -> Geometry | None:
        """The geometry of the chips of a mesh, which are in lock step."""
        return next((self._geometries[chip] for chip in self.meshes.get(mesh, ())), None)

    def unit(self, mesh: int) -> int | None:
        geometry = self.geometry(mesh)
        return None if geometry is None else _UNITS.get(geometry.arch)

    def reserved(self, mesh: int, kind: Kind, per_bank: int) -> int | None:
        """Bytes that an allocator in lock step reserves in all banks; None if the banks are not known."""
        geometry, unit = self.geometry(mesh), self.unit(mesh)
        if geometry is None or unit is None or not per_bank or kind is Kind.HOST:
            return None
        banks = geometry.dram_banks if kind in (Kind.DRAM, Kind.TRACE) else geometry.cores
        return -(-per_bank // unit) * unit * banks

    def _board_of(self, chip: int) -> str | None:
        return self._board or (self._described.boards.get(chip) if self._named else None)

    def _geometry_of(self, chip: int) -> Geometry | None:
        mesh = next(mesh for mesh, chips in self.meshes.items() if chip in chips)
        row = self._rows.get(chip) or self._rows.get(mesh)
        table = BOARDS.get(self._board_of(chip) or "")
        return table if row is None else _live(row, table)


def _meshes(recording: GraphCapture) -> dict[int, list[int]]:
    """The chips of each mesh that has buffers or programs; chip 0 if they are not in the file."""
    named = {mesh for listing in recording.listings.values() for mesh, *_ in listing}
    for step in recording.steps:
        mesh = getattr(step.item, "mesh", None)
        if mesh is not None and mesh >= 0:
            named.add(mesh)
    return {mesh: sorted(recording.meshes.get(mesh) or recording.executed.get(mesh) or {0}) for mesh in sorted(named)}


def _live(row: Mapping[str, Any], table: Geometry | None) -> Geometry | None:
    """The geometry from ttnn's figures of a device. A database has neither family nor DRAM; they come from a table."""
    number = {name: int(value) for name, value in row.items() if isinstance(value, int)}
    if odd := [name for name, value in number.items() if not 0 <= value < MOST_BYTES]:
        raise NotACapture(f"the figures of device {row.get('device_id')} are invalid: {odd[0]} {number[odd[0]]}")
    try:
        l1_size, base = number["worker_l1_size"], number["address_at_first_l1_cb_buffer"]
        grid = number["num_x_compute_cores"], number["num_y_compute_cores"]
        small = l1_size - base - number["l1_bank_size"]
    except KeyError:
        return table
    arch = Arch.__members__.get(str(row.get("arch")), Arch.UNKNOWN)
    fitting = [one for one in BOARDS.values() if one.arch is arch or (not arch and one.l1_size == l1_size)]
    drams = {(one.dram_banks, one.dram_bank_size) for one in fitting}
    if "num_dram_channels" in number and "dram_size_per_channel" in number:
        dram = number["num_dram_channels"], number["dram_size_per_channel"]
    elif table is not None:
        dram = table.dram_banks, table.dram_bank_size
    elif len(drams) == 1:
        (dram,) = drams
    else:
        return None
    if not fitting:
        return None
    # No file has the end of the firmware. It changes little between releases, and no number depends on it.
    map_end = min(fitting[0].map_end, base)
    return Geometry(fitting[0].arch, *grid, l1_size, base, map_end, *dram, l1_small_size=max(0, small), live=True)


_ENTRY = re.compile(r"^\s*(\d+):\s*(\d+)\s*$")
_BOARD = re.compile(r"^\s*-?\s*board_type:\s*(\w+)\s*$")
_CHIP = re.compile(r"^\s*-\s*(\d+)\s*$")


def describe(descriptor: str) -> ClusterDescription:
    """Unique ids and boards of chips, from the YAML that ttnn writes, one value per line.

    >>> describe("chip_unique_ids:\\n  0: 880001\\nboards:\\n  - board_type: n150\\n    chips:\\n      - 0")
    ClusterDescription(chip_ids={0: '880001'}, boards={0: 'n150'})
    """
    section, board = "", ""
    found = ClusterDescription({}, {})
    for line in descriptor.splitlines():
        if line[:1].strip():
            section = line.partition(":")[0]
        elif section == "chip_unique_ids" and (entry := _ENTRY.match(line)):
            found.chip_ids[int(entry[1])] = entry[2]
        elif section == "boards" and (entry := _BOARD.match(line)):
            board = entry[1]
        elif section == "boards" and (entry := _CHIP.match(line)):
            found.boards[int(entry[1])] = board
    return found

# SPDX-License-Identifier: Apache-2.0
"""The meshes of a recorded ring as they are open: their chips, their allocators and the banks of these."""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

from ttmem.model.kinds import Kind
from ttmem.recording.allocation_table import Allocator, BankRegion
from ttmem.recording.recorded_ring import RecordedRing
from ttmem.recording.table_indexes import Indexes
from ttmem.wire.agent_ring import Mesh, RingError, chip_id


class OpenMesh(NamedTuple):
    """A mesh while it is open."""

    chips: int  # index of its chip set
    allocator: int
    parent: int  # index of the mesh whose allocator it uses
    banks: tuple[int, ...]


class OpenMeshes:
    """The meshes of one process by their index, which is used again after a mesh is closed."""

    def __init__(self, ring: RecordedRing, source: int, indexes: Indexes) -> None:
        self._ring = ring
        self._source = source
        self._indexes = indexes
        self._open: dict[int, OpenMesh] = {}
        self._rows: dict[int, Mesh] = {}  # that records mean; in the ring they may be those of later meshes

    def __getitem__(self, number: int) -> OpenMesh:
        """RingError if the recording does not describe it."""
        found = self._open.get(number)
        if found is None:
            ring, indexes = self._ring, self._indexes
            mesh = self._mesh(number)
            chips = tuple(chip_id(chip) for chip in ring.chips_of(mesh))
            parent = mesh if mesh.parent == number else self._mesh(mesh.parent)
            allocator = self._describe(parent)
            place = indexes.allocator(allocator, (self._source, mesh.parent, parent.opened))
            found = self._open[number] = OpenMesh(indexes.chips(chips), place, mesh.parent, allocator.banks)
        return found

    def opened(self, number: int, description: int, sequence: int) -> list[OpenMesh]:
        """A mesh was opened. Returns the one that had its index until now, with its submeshes."""
        family = self.closed(number)
        with suppress(RingError):  # it is raised again when the mesh is used
            self._rows[number] = self._ring.opened_mesh(number, description, sequence)
        return family

    def closed(self, number: int) -> list[OpenMesh]:
        """A mesh was closed. Returns it with its submeshes."""
        family = [index for index, mesh in self._open.items() if number in (index, mesh.parent)]
        return [self._open.pop(index) for index in family]

    def forget(self) -> None:
        """Records were lost: any mesh may have been closed. The records after the table mean the meshes as of then."""
        self._open.clear()
        self._rows = {number: mesh for number, mesh in enumerate(self._ring.meshes_of_table()) if mesh.state}

    def _mesh(self, number: int) -> Mesh:
        return self._rows.get(number) or self._ring.mesh(number)

    def _describe(self, mesh: Mesh) -> Allocator:
        dram, l1, _, small, trace = mesh.banks
        bases = {Kind.DRAM: mesh.dram_base, Kind.L1: mesh.l1_base, Kind.L1_SMALL: mesh.l1_base + l1.size,
                 Kind.TRACE: mesh.dram_base + dram.size}  # fmt: skip
        sizes = {Kind.DRAM: dram, Kind.L1: l1, Kind.L1_SMALL: small, Kind.TRACE: trace}
        return Allocator(
            tuple(chip_id(chip) for chip in self._ring.chips_of(mesh)),
            {kind: BankRegion(bases[kind], one.size, one.banks) for kind, one in sizes.items() if one.size},
            tuple(one.banks for one in mesh.banks),
        )

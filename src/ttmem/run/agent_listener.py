# SPDX-License-Identifier: Apache-2.0
"""Data of each agent that a run needs besides the account: sizes of allocators, and what only a close freed."""

from __future__ import annotations

from collections.abc import Callable

from ttmem.account.entities import Source
from ttmem.account.size_extremes import Sizes
from ttmem.model.geometry import Geometry
from ttmem.model.kinds import KINDS, Kind
from ttmem.wire.agent_ring import NO_MESH_ID, Mesh, Ring

_DRAM, _L1 = int(Kind.DRAM), int(Kind.L1)


class AgentListener:
    """Listens to the ring of one agent (see `ttmem.ingest.ring_listener`)."""

    def __init__(self, source: Source, ring: Ring, closing: Callable[[Source], None]) -> None:
        """``closing`` is called when the process is about to close its devices, or ended without closing them."""
        self.source = source
        self.ring = ring
        self.sizes: list[Sizes] = []  # of each allocator so far
        self.lost = False  # whether records were lost
        self.left_known = True  # False: a device was closed among the lost records
        self.tensors_freed_by_close = [0] * len(KINDS)  # by kind
        self.bytes_freed_by_close = [0] * len(KINDS)
        self._closing = closing

    def opened(self, mesh: Mesh, geometry: Geometry, before: int) -> Sizes | None:
        sizes = Sizes(geometry, mesh.banks[_L1].unit, complete=not before)
        if mesh.mesh_id != NO_MESH_ID:
            sizes.has_bank(_DRAM, mesh.dram_base, mesh.banks[_DRAM].size)
            sizes.has_bank(_L1, mesh.l1_base, mesh.banks[_L1].size)
        self.sizes.append(sizes)
        return sizes

    def closing(self) -> None:
        self._closing(self.source)

    def freed_by_close(self, kind: int, size: int) -> None:
        self.tensors_freed_by_close[kind] += 1
        self.bytes_freed_by_close[kind] += size

    def lost_records(self) -> None:
        self.lost = True

    def lost_close(self) -> None:
        self.left_known = False

# SPDX-License-Identifier: Apache-2.0
"""The sizes of each allocator of a run that an answer of `ttmem fit` needs beside those of `ttmem run`."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ttmem.account.size_extremes import Sizes
from ttmem.fit.bank_use import BankUse
from ttmem.model.geometry import Geometry
from ttmem.model.kinds import Kind
from ttmem.run.agent_listener import AgentListener
from ttmem.wire.agent_ring import NO_MESH_ID, Mesh

_DRAM, _L1, _L1_SMALL = int(Kind.DRAM), int(Kind.L1), int(Kind.L1_SMALL)


class PhaseUse:
    """The use of a DRAM bank in all runs of one phase."""

    def __init__(self, bank: BankUse) -> None:
        self.peak, self.least_largest = bank.used, bank.largest

    def look(self, bank: BankUse) -> None:
        self.peak = max(self.peak, bank.used)
        self.least_largest = min(self.least_largest, bank.largest)


class FitSizes(Sizes):
    """Adds the use of banks, and the tightest program where no L1 buffer limits it."""

    def __init__(
        self,
        geometry: Geometry | None,
        unit: int | None,
        complete: bool,
        l1_end: int,
        open_phases: Callable[[], Iterable[str]] = tuple,
    ) -> None:
        """``open_phases`` returns the paths of the phases that are open now."""
        super().__init__(geometry, unit, complete)
        self._open_phases = open_phases
        self.phases: dict[str, PhaseUse] = {}
        self.banks: dict[int, BankUse] = {}
        self.l1_end = l1_end
        self.l1_reserved_peak: int | None = 0  # bytes of L1 and L1_SMALL together; None: differs between cores
        self._l1_reserved = 0
        self._l1_blocks: dict[tuple[int, int], int] = {}  # by kind and address
        self.room_below_end: tuple[int, int] | None = (
            None  # least room below the end of L1, and the blob of the program
        )

    def took(self, kind: int, address: int, per_bank: int, name: int) -> None:
        super().took(kind, address, per_bank, name)
        if kind in (_L1, _L1_SMALL) and self.l1_reserved_peak is not None:
            self._l1_reserved += per_bank - self._l1_blocks.get((kind, address), 0)
            self._l1_blocks[kind, address] = per_bank
            self.l1_reserved_peak = max(self.l1_reserved_peak, self._l1_reserved)
        bank = self.banks.get(kind)
        if bank is not None:
            if kind == _DRAM:
                self._look(bank)
            bank.took(address, per_bank)
            if kind == _DRAM:
                self._look(bank)

    def gave_back(self, kind: int, address: int) -> None:
        super().gave_back(kind, address)
        self._l1_reserved -= self._l1_blocks.pop((kind, address), 0)
        bank = self.banks.get(kind)
        if bank is not None:
            if kind == _DRAM:
                self._look(bank)
            bank.gave_back(address)

    def _look(self, bank: BankUse) -> None:
        """Consider the state before and after each change: a phase may begin when much is in use."""
        for path in self._open_phases():
            if path in self.phases:
                self.phases[path].look(bank)
            else:
                self.phases[path] = PhaseUse(bank)

    def took_per_core(self) -> None:
        super().took_per_core()
        self.banks.pop(_L1, None)
        self.l1_reserved_peak = None

    def ran(self, program: int) -> None:
        super().ran(program)
        end = self._ends.get(program)
        if end is not None and self.l1_known:
            room = self.l1_end - end
            if self.room_below_end is None or room < self.room_below_end[0]:
                self.room_below_end = room, self._names.get(program, 0)


class FitListener(AgentListener):
    """Listens to the ring of one agent."""

    def opened(self, mesh: Mesh, geometry: Geometry, before: int) -> Sizes | None:
        small = geometry.l1_small_size
        sizes = FitSizes(
            geometry, mesh.banks[_L1].unit, not before, geometry.l1_size - small, open_phases=self._open_phases
        )
        if mesh.mesh_id != NO_MESH_ID:
            for kind, base in ((_DRAM, mesh.dram_base), (_L1, mesh.l1_base)):
                sizes.has_bank(kind, base, mesh.banks[kind].size)
                sizes.banks[kind] = BankUse(base, mesh.banks[kind].size)
        self.sizes.append(sizes)
        return sizes

    def _open_phases(self) -> Iterable[str]:
        return [phase.path for phase in self.source.process.phases.open.values()]

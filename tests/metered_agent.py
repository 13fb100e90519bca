# SPDX-License-Identifier: Apache-2.0
"""A scripted agent that also keeps meters, windows and open phases, and whose meshes are closed and opened again."""

from __future__ import annotations

from collections.abc import Sequence

from tests.agent_meters import AgentMeters
from tests.scripted_agent import BANKS, SLOTS, Agent
from ttmem.model.kinds import POOL_OF, Kind, Pool
from ttmem.wire.agent_ring import GAUGES, NO_SLOT, PROGRAM_FRAME, SHARED, Record, RingEvent

WINDOWS, PHASES = 4, 8
WINDOW_RECORDS = SLOTS // 2


class MeteredAgent(Agent):
    """An agent with some chips. By default each of them is a mesh, and a last mesh has all of them."""

    def __init__(self, chips: Sequence[int], meshes: Sequence[list[int]] | None = None) -> None:
        self._blobs: dict[bytes, int] = {}
        super().__init__(meters=(len(GAUGES) + 3) * (len(chips) + 1), windows=WINDOWS, phases=PHASES)
        self._meters = AgentMeters(self, WINDOWS)
        self._metered: dict[int, Record] = {}  # what the meters count, by slot
        self.members: dict[int, list[int]] = {}  # of open meshes
        self.parents: dict[int, int] = {}
        self._rows: dict[int, int] = {}  # ident of an open phase -> row
        for index, unique in enumerate(chips):
            self.chip(index, unique, index)
        for index, members in enumerate(meshes or [*([i] for i in range(len(chips))), list(range(len(chips)))]):
            self.open_mesh(index, members)

    # -- what it does --------------------------------------------------------------------------------------------

    def take(self, slot: int, size: int, kind: Kind, mesh: int, per_bank: int = 32) -> None:
        self.allocate(slot, size, kind=kind, mesh=mesh, per_bank=per_bank)

    def give_back(self, slot: int) -> None:
        self.free(slot)

    def place(self, slot: int, size: int, kind: Kind, mesh: int, program: int, *, shared: bool = False) -> None:
        """A part of a program. ``shared``: it lies inside a buffer that is counted already."""
        flags = SHARED if shared else 0
        self.allocate(slot, size, kind=kind, mesh=mesh, program=program, flags=flags, cores=self.blob(b"\x03"))

    def open_mesh(self, index: int, members: list[int], parent: int | None = None) -> None:
        """Open a mesh, or a submesh. The index may have been another mesh's."""
        self.mesh(index, members, parent=parent)
        self.put_mesh(index, audits=0)
        self.members[index], self.parents[index] = members, index if parent is None else parent
        self.opened(index)

    def family(self, mesh: int) -> list[int]:
        """An open mesh and its submeshes."""
        return [index for index, parent in self.parents.items() if mesh in (index, parent)]

    def on(self, mesh: int) -> list[Record]:
        """What is live on a mesh and its submeshes: buffers, frames and parts of programs."""
        family = self.family(mesh)
        return [record for record in self.live.values() if record.mesh in family]

    def close_mesh(self, mesh: int) -> None:
        """Free everything on a mesh and its submeshes, and close them."""
        self.record(RingEvent.CLOSING, mesh=mesh)
        for record in self.on(mesh):
            if record.kind == PROGRAM_FRAME:
                self.destroyed(record.slot, record.program, record.mesh)
        for record in self.on(mesh):
            self.free(record.slot)
        self.record(RingEvent.CLOSED, mesh=mesh)
        for index in self.family(mesh):
            self.put_mesh(index, state=2)
            del self.members[index], self.parents[index]

    def begin_phase(self, ident: int, name: str, parent: int = 0) -> None:
        row = next(row for row in range(PHASES) if row not in self._rows.values())
        blob = self.blob(name.encode())
        record = self.record(RingEvent.PHASE_BEGAN, address=ident, size=parent, name=blob)
        self._rows[ident] = row
        self._meters.phase_began(
            row, ident=ident, parent=parent, time=record.time, name=blob, began=record.sequence
        )  # fmt: skip
        self.put(phases_began=self.get("phases_began") + 1)

    def end_phase(self, ident: int) -> None:
        self.record(RingEvent.PHASE_ENDED, address=ident)
        self._meters.phase_ended(self._rows.pop(ident))

    @property
    def open_phases(self) -> list[int]:
        return list(self._rows)

    def meter_of(self, chip: int, kind: Kind) -> int:
        """The number of a meter."""
        return self._meters.number(kind.label, chip)

    def sharing(self, kind: Kind) -> list[set[int]]:
        """The groups of chips that share a meter."""
        return self._meters.sharing(kind.label)

    def exaggerate_windows(self, high: int) -> None:
        """Write a high into all windows that no meter has ever reached."""
        for number in range(max(1, self._meters.window - WINDOWS + 1), self._meters.window + 1):
            self.put_window(number % WINDOWS, dict.fromkeys(range(self.get("meters_used")), (high, 0)))

    # -- what the meters follow ----------------------------------------------------------------------------------

    def mesh(self, index: int, chips: list[int], state: int = 1, parent: int | None = None) -> None:
        super().mesh(index, chips, state, parent)
        self._meters.set_mesh(index, chips)

    def write(self, event: int = RingEvent.ALLOCATED, slot: int = NO_SLOT, **fields: int) -> Record:
        if self.head + 1 - self._meters.first >= WINDOW_RECORDS:
            self._meters.next_window(self.head + 1)
        return super().write(event, slot, **fields)

    def put_live(self, slot: int, record: Record) -> None:
        super().put_live(slot, record)
        self._count(slot, record)

    def clear_live(self, slot: int) -> None:
        super().clear_live(slot)
        self._count(slot, None)

    def _count(self, slot: int, record: Record | None) -> None:
        """The row of the table has changed."""
        old = self._metered.pop(slot, None)
        for one, sign in ((old, -1), (record, 1)):
            if one is not None and one.kind != PROGRAM_FRAME:
                self._meters.change(one.mesh, Kind(one.kind), sign * counted(one), sign * reserved(one))
        if record is not None:
            self._metered[slot] = record

    def blob(self, data: bytes) -> int:
        """A blob is written once."""
        if data not in self._blobs:
            self._blobs[data] = super().blob(data)
        return self._blobs[data]


def counted(record: Record) -> int:
    """Bytes that it adds to each of its chips."""
    return 0 if record.flags & SHARED else record.size


def reserved(record: Record) -> int:
    """Bytes that its allocator reserved on each chip. Parts of programs lie outside the banks."""
    return record.per_bank * BANKS if POOL_OF[record.kind] in (Pool.DRAM, Pool.L1) else 0

# SPDX-License-Identifier: Apache-2.0
"""A scripted agent that also keeps meters, windows and open phases, in the simplest way: one meter for each chip."""

from __future__ import annotations

from collections.abc import Sequence

from tests.scripted_agent import SLOTS, Agent
from ttmem.model.kinds import POOL_GAUGES, POOL_OF, Kind
from ttmem.wire.agent_ring import GAUGES, RingEvent

WINDOWS, PHASES = 4, 8
WINDOW_RECORDS = SLOTS // 2
_KINDS = (Kind.DRAM, Kind.L1, Kind.L1_SMALL, Kind.TRACE)


class MeteredAgent(Agent):
    """An agent on some chips, each of which is a mesh; a last mesh has all of them."""

    def __init__(self, chips: Sequence[int]) -> None:
        gauges = [*(kind.label for kind in _KINDS), *(POOL_GAUGES[pool] for pool in {POOL_OF[kind] for kind in _KINDS})]
        self._numbers = {
            (index, gauge): len(GAUGES) + position
            for position, (index, gauge) in enumerate((i, g) for i in range(len(chips)) for g in gauges)
        }
        super().__init__(meters=len(GAUGES) + len(self._numbers), windows=WINDOWS, phases=PHASES)
        self.members: list[list[int]] = [*([i] for i in range(len(chips))), list(range(len(chips)))]
        for index, unique in enumerate(chips):
            self.chip(index, unique, index)
        for index, members in enumerate(self.members):
            self.mesh(index, members)
        self._used = dict.fromkeys(self._numbers, 0)
        self._ever = dict(self._used)
        self._highs = dict(self._used)  # of the open window
        self._first = 1
        self._window = 1
        self._rows: dict[int, int] = {}  # ident of an open phase -> row
        self._figures: dict[int, dict[tuple[int, str], list[int]]] = {}
        for (index, gauge), number in self._numbers.items():
            self.put_meter(number, chips=1 << index, gauge=GAUGES.index(gauge))
        self.put(window=1)
        self._write_window(0)
        for index in range(len(self.members)):
            self.opened(index)
            self._next_record()

    def take(self, slot: int, size: int, kind: Kind, mesh: int) -> None:
        self._next_record()
        self.allocate(slot, size, kind=kind, mesh=mesh)
        self._change(mesh, kind, size)

    def give_back(self, slot: int) -> None:
        allocation = self.live[slot]
        self._next_record()
        self.free(slot)
        self._change(allocation.mesh, Kind(allocation.kind), -allocation.size)

    def begin_phase(self, ident: int, name: str, parent: int = 0) -> None:
        self._next_record()
        row = next(row for row in range(PHASES) if row not in self._rows.values())
        blob = self.blob(name.encode())
        record = self.record(RingEvent.PHASE_BEGAN, address=ident, size=parent, name=blob)
        self._rows[ident] = row
        self._figures[ident] = {key: [used, used] for key, used in self._used.items()}
        self.put_phase(
            row, {}, ident=ident, parent=parent, time=record.time, name=blob, began=record.sequence
        )  # fmt: skip
        self.put(phases_began=self.get("phases_began") + 1)
        self._publish()

    def end_phase(self, ident: int) -> None:
        self._next_record()
        self.record(RingEvent.PHASE_ENDED, address=ident)
        self.put_phase(self._rows.pop(ident), {}, began=0)
        del self._figures[ident]
        self._publish()

    @property
    def open_phases(self) -> list[int]:
        return list(self._rows)

    def _change(self, mesh: int, kind: Kind, size: int) -> None:
        for index in self.members[mesh]:
            for gauge in (kind.label, POOL_GAUGES[POOL_OF[kind]]):
                key = index, gauge
                used = self._used[key] = self._used[key] + size
                self._ever[key] = max(self._ever[key], used)
                self._highs[key] = max(self._highs[key], used)
                for figures in self._figures.values():
                    figures[key][1] = max(figures[key][1], used)
        self._publish()

    def _next_record(self) -> None:
        """Close the window if the next record does not belong to it."""
        following = self.head + 1
        if following - self._first >= WINDOW_RECORDS:
            self._write_window(following - 1)
            self._window += 1
            self._first = following
            self._highs = dict(self._used)
            self._write_window(0)
            self.put(window=self._window)

    def _write_window(self, last: int) -> None:
        highs = {self._numbers[key]: (high, 0) for key, high in self._highs.items()}
        self.put_window(self._window % WINDOWS, highs, number=self._window, first=self._first, last=last)

    def _publish(self) -> None:
        for key, number in self._numbers.items():
            self.put_meter(
                number, chips=1 << key[0], used=self._used[key], high=self._used[key], ever=self._ever[key],
                peak=self._ever[key],
            )  # fmt: skip
        self._write_window(0)
        for ident, row in self._rows.items():
            figures = self._figures[ident]
            self.put_phase(row, {number: (figures[key][0], figures[key][1]) for key, number in self._numbers.items()})

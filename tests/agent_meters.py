# SPDX-License-Identifier: Apache-2.0
"""The meters in a scripted agent's memory, kept as native/src/metering.cpp keeps them.

Chips that always counted the same of a gauge share a meter. It is split when something is first counted on some of them
and not on the others. A change is only in the row of the meter; windows, phases and the highest value since the start
are brought up to date later, when the meters are folded.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from struct import Struct

from tests.ring_memory import RingMemory
from ttmem.model.kinds import POOL_GAUGES, POOL_OF, Kind
from ttmem.wire.agent_ring import GAUGES, METER_FIELDS, METER_SIZE

_ROW = Struct("<" + "".join(code for _, _, code in METER_FIELDS))
_POOLS = frozenset(POOL_GAUGES.values())


@dataclass
class _Meter:
    """A meter, its group, and its figures in all rows of windows and phases."""

    gauge: str
    chips: set[int] = field(default_factory=set)
    used: int = 0
    reserved: int = 0
    high: int = 0  # since the last fold
    reserved_high: int = 0
    ever: int = 0  # up to the last fold
    reserved_ever: int = 0
    windows: dict[int, tuple[int, int]] = field(default_factory=dict)
    phases: dict[int, tuple[int, int]] = field(default_factory=dict)  # of open phases: at the start, and highest


class AgentMeters:
    """All meters. Meshes are known by their index, chips by theirs."""

    def __init__(self, memory: RingMemory, windows: int) -> None:
        self._memory = memory
        self._windows = windows
        self._meters: list[_Meter] = []
        self._meter_of: dict[tuple[str, int], int] = {}  # by gauge and chip
        self._of_mesh: dict[tuple[int, str], list[int]] = {}  # meshes on which something of a gauge was counted
        self._chips: dict[int, frozenset[int]] = {}
        self._changed: set[int] = set()  # since the last fold
        self.window = 1
        self.first = 1  # record of the open window
        for gauge in GAUGES:
            self._new(gauge)
        memory.put(window=1)
        memory.put_window(1 % windows, {}, number=1, first=1)

    def set_mesh(self, index: int, chips: list[int]) -> None:
        """The index means a mesh of these chips from now on. Nothing is live there."""
        self._chips[index] = frozenset(chips)
        for gauge in GAUGES:
            self._of_mesh.pop((index, gauge), None)

    def number(self, gauge: str, chip: int) -> int:
        """The number of the meter that a chip has for a gauge."""
        return self._meter_of[gauge, chip]

    def sharing(self, gauge: str) -> list[set[int]]:
        """The groups of chips that share a meter of a gauge."""
        return [meter.chips for meter in self._meters if meter.gauge == gauge and meter.chips]

    def change(self, mesh: int, kind: Kind, used: int, reserved: int) -> None:
        """Something was allocated; with negative numbers, it was freed."""
        if not (used or reserved):
            return  # it counts nothing, so it splits nothing
        pool = POOL_GAUGES.get(POOL_OF[kind])
        for gauge in (kind.label,) if pool is None else (pool, kind.label):
            chips = len(self._chips[mesh])
            self._add(GAUGES.index(gauge), used * chips, reserved * chips)
            for number in self._meters_of_mesh(mesh, gauge):
                self._add(number, used, reserved)

    def next_window(self, first: int) -> None:
        """The open window ends before this record."""
        self._fold()
        self._memory.put_window(self._row, {}, last=first - 1)
        self.window, self.first = self.window + 1, first
        for meter in self._meters:
            meter.windows[self._row] = meter.used, meter.reserved
        self._memory.put_window(self._row, self._figures_of_window(), number=self.window, first=first, last=0)
        self._memory.put(window=self.window)

    def phase_began(self, row: int, **fields: int) -> None:
        self._fold()
        for meter in self._meters:
            meter.phases[row] = meter.used, meter.used
        self._memory.put_phase(row, self._figures_of_phase(row), **fields)

    def phase_ended(self, row: int) -> None:
        for meter in self._meters:
            del meter.phases[row]
        self._memory.put_phase(row, {}, began=0)

    # -- pieces --------------------------------------------------------------------------------------------------

    @property
    def _row(self) -> int:
        return self.window % self._windows

    def _figures_of_window(self) -> dict[int, tuple[int, int]]:
        return {number: meter.windows[self._row] for number, meter in enumerate(self._meters)}

    def _figures_of_phase(self, row: int) -> dict[int, tuple[int, int]]:
        return {number: meter.phases[row] for number, meter in enumerate(self._meters)}

    def _add(self, number: int, used: int, reserved: int) -> None:
        meter = self._meters[number]
        meter.used += used
        meter.reserved += reserved
        meter.high = max(meter.high, meter.used)
        meter.reserved_high = max(meter.reserved_high, meter.reserved)
        self._changed.add(number)
        self._write_row(number)

    def _new(self, gauge: str, twin_of: _Meter | None = None) -> int:
        """Add a meter. One of a pool has an even number; a number that is left out has no chips."""
        if gauge in _POOLS and len(self._meters) > len(GAUGES) and len(self._meters) % 2:
            self._append(self._empty(gauge))
        return self._append(self._empty(gauge) if twin_of is None else deepcopy(twin_of))

    def _empty(self, gauge: str) -> _Meter:
        meter = _Meter(gauge, windows=dict.fromkeys(range(self._windows), (0, 0)))
        if self._meters:
            meter.phases = dict.fromkeys(self._meters[0].phases, (0, 0))
        return meter

    def _append(self, meter: _Meter) -> int:
        number = len(self._meters)
        self._meters.append(meter)
        self._changed.add(number)
        self._write(number)
        self._write_figures(number)
        return number

    def _write_row(self, number: int) -> None:
        memory, meter = self._memory, self._meters[number]
        at = memory.at["meters_at"] + number * METER_SIZE
        _ROW.pack_into(memory.map, at, meter.used, meter.reserved, meter.high, meter.reserved_high)

    def _write(self, number: int) -> None:
        """The row of a meter, and its group."""
        self._write_row(number)
        meter = self._meters[number]
        self._memory.put_meter(
            number, chips=sum(1 << chip for chip in meter.chips), gauge=GAUGES.index(meter.gauge), ever=meter.ever,
            reserved_ever=meter.reserved_ever, peak=meter.ever, reserved_peak=meter.reserved_ever,
        )  # fmt: skip

    def _fold(self) -> None:
        """Bring everything up to date that is kept of a meter."""
        for number in self._changed:
            meter = self._meters[number]
            meter.ever = max(meter.ever, meter.high)
            meter.reserved_ever = max(meter.reserved_ever, meter.reserved_high)
            used, reserved = meter.windows[self._row]
            meter.windows[self._row] = max(used, meter.high), max(reserved, meter.reserved_high)
            meter.phases = {row: (begin, max(peak, meter.high)) for row, (begin, peak) in meter.phases.items()}
            meter.high, meter.reserved_high = meter.used, meter.reserved
            self._write(number)
            self._write_figures(number)
        self._changed.clear()

    def _write_figures(self, number: int) -> None:
        """Those of a meter in all rows of windows and phases."""
        meter = self._meters[number]
        for row, highs in meter.windows.items():
            self._memory.put_window(row, {number: highs})
        for row, figures in meter.phases.items():
            self._memory.put_phase(row, {number: figures})

    def _meters_of_mesh(self, mesh: int, gauge: str) -> list[int]:
        """The meters of the chips of a mesh. When they are first needed, they become meters of these chips only."""
        known = self._of_mesh.get((mesh, gauge))
        if known is None:
            chips = self._chips[mesh]
            fresh = {chip for chip in chips if (gauge, chip) not in self._meter_of}
            for number in {self._meter_of[gauge, chip] for chip in chips - fresh}:
                inside = self._meters[number].chips & chips
                if inside != self._meters[number].chips:
                    self._split(number, inside)
            if fresh:
                self._give(self._new(gauge), fresh)
            known = self._of_mesh[mesh, gauge] = sorted({self._meter_of[gauge, chip] for chip in chips})
        return known

    def _split(self, number: int, chips: set[int]) -> None:
        """These chips of a meter get one of their own, with the same figures."""
        old = self._meters[number]
        made = self._new(old.gauge, old)
        self._give(number, old.chips - chips)
        self._give(made, chips)
        for (_, gauge), meters in self._of_mesh.items():
            if gauge == old.gauge and number in meters:
                meters.append(made)

    def _give(self, number: int, chips: set[int]) -> None:
        meter = self._meters[number]
        meter.chips = chips
        for chip in chips:
            self._meter_of[meter.gauge, chip] = number
        self._write(number)

# SPDX-License-Identifier: Apache-2.0
"""Headroom: the distance from the circular buffers of a program to the lowest L1 buffer.

On every core L1 buffers grow down from the top, in lock step, so the lowest address of any of them is the floor on
all cores. Circular and dataflow buffers and scratchpads of a program grow up from the base. ttnn refuses to run a
program that would reach above the floor. Headroom is computed in the same way (rule 9): for the program that was
launched last on each core, and for the cached program that reaches highest.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from ttmem.account.allocations import Allocation, Program
from ttmem.account.entities import Chip
from ttmem.model.kinds import Kind

GROWING_UP = (Kind.CB, Kind.DFB, Kind.SCRATCHPAD)


class ProgramExtent(NamedTuple):
    """The highest address of a program on a core, and the room left below the floor; None if a size is not known."""

    program: Program
    end: int
    headroom: int | None


class Headroom(NamedTuple):
    """The headroom of one chip. ``floor`` is None if the lowest L1 buffer is not known."""

    floor: int | None
    holder: Allocation | None
    launched: list[ProgramExtent]
    worst: ProgramExtent | None


def end_of(part: Allocation) -> int | None:
    """Where a part of a program ends on its cores; None if it does not, or possibly does not, grow up from the base."""
    extra = part.extra
    if part.kind not in GROWING_UP or extra is None or not extra.cores or extra.shared:
        return None
    return part.address + part.size // extra.cores.bit_count()


def contents_key(chip: Chip) -> Hashable:
    """The same for chips with the same L1 buffers and programs, such as those of a mesh: one search is enough."""
    leaves = [holding.leaves[kind] for holding in chip.holdings for kind in (Kind.L1, *GROWING_UP)]
    counted = tuple(leaf is not None and chip in leaf.chips for leaf in leaves)
    return tuple(chip.holdings), counted, chip.geometry and chip.geometry.l1_size


class FloorFinder:
    """Finds the lowest L1 buffer of a chip and the highest address of programs; allocations are added one by one."""

    def __init__(self, chip: Chip) -> None:
        self.chip = chip
        self.holder: Allocation | None = None
        self._end_of_l1 = chip.geometry.l1_size if chip.geometry else 1 << 32
        self._lost = False  # an L1 buffer has no reported address; it may be the lowest
        self._ends: dict[Program, dict[int, int]] = {}  # for each program, its highest address by cores
        self._highest: tuple[int, Program | None] = (0, None)

    def add(self, allocation: Allocation) -> None:
        """Add a live allocation. Per-core writes have ids, not addresses, and are ignored."""
        holding, kind = allocation.holding, allocation.kind
        if not (kind is Kind.L1 or kind in GROWING_UP):
            return
        leaf = holding.leaves[kind]
        if leaf is None or self.chip not in leaf.chips:
            return
        if kind is Kind.L1:
            if allocation.extra is not None and allocation.extra.per_core:
                self._lost = True
            elif not 0 < allocation.address < self._end_of_l1:
                self._lost = self._lost or allocation.address <= 0xFFFFFFFF
            elif self.holder is None or allocation.address < self.holder.address:
                self.holder = allocation
            return
        end, program = end_of(allocation), holding.programs.get(allocation.program)
        if end is not None and program is not None and allocation.extra is not None:
            ends = self._ends.setdefault(program, {})
            ends[allocation.extra.cores] = max(end, ends.get(allocation.extra.cores, 0))
            if end > self._highest[0]:
                self._highest = end, program

    def result(self, chip: Chip | None = None) -> Headroom:
        """The headroom of the chip, or of another one with the same ``contents_key``."""
        chip = chip or self.chip
        geometry = chip.geometry
        holder = None if self._lost else self.holder
        floor = holder.address if holder is not None else geometry.l1_size if geometry and not self._lost else None

        def reach(program: Program, end: int) -> ProgramExtent:
            return ProgramExtent(program, end, None if floor is None else floor - end)

        launched = []
        for program, here in chip.resident_programs():  # on other cores, other programs have run since
            ends = [end for cores, end in self._ends.get(program, {}).items() if cores & here]
            if ends:
                launched.append(reach(program, max(ends)))
        end, worst = self._highest
        return Headroom(floor, holder, launched, None if worst is None else reach(worst, end))

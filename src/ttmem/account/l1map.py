# SPDX-License-Identifier: Apache-2.0
"""Headroom: how far the circular buffers of a program are from the lowest L1 buffer.

On every core L1 buffers grow down from the top, in lock step, so the lowest address of any of them is the floor on
all cores. Circular and dataflow buffers and scratchpads of a program grow up from the base. ttnn refuses a program
whose top would pass the floor, program by program; so headroom is judged the same way (rule 9): for the program last
launched on each core, and for the cached one that comes closest.
"""

from __future__ import annotations

from typing import NamedTuple

from ttmem.account.kinds import Kind
from ttmem.account.parties import Chip
from ttmem.account.things import Program, Thing

_GROWING_UP = (Kind.CB, Kind.DFB, Kind.SCRATCHPAD)


class Reach(NamedTuple):
    """How high a program reaches on a core, and what is left below the floor; None where a size is not known."""

    program: Program
    end: int
    headroom: int | None


class Headroom(NamedTuple):
    """One chip's picture. ``floor`` is None if neither an L1 buffer nor the size of L1 is known."""

    floor: int | None
    holder: Thing | None
    launched: list[Reach]
    worst: Reach | None


class FloorFinder:
    """Finds the lowest L1 buffer of a chip, thing by thing, so that it can be done in slices."""

    def __init__(self, chip: Chip) -> None:
        self.chip = chip
        self.holder: Thing | None = None

    def add(self, thing: Thing) -> None:
        """Look at one live thing. Per-core writes have ids, not addresses, and are left out."""
        if thing.kind is not Kind.L1 or thing.holding.chip is not self.chip or not 0 < thing.address <= 0xFFFFFFFF:
            return
        leaf = thing.holding.leaves[Kind.L1]
        if leaf is not None and leaf.counts and (self.holder is None or thing.address < self.holder.address):
            self.holder = thing

    def result(self) -> Headroom:
        geometry = self.chip.geometry
        floor = self.holder.address if self.holder is not None else geometry.l1_size if geometry else None
        reaches = {
            program: reach
            for holding in self.chip.holdings
            for program in holding.programs.values()
            if (reach := _reach(program, floor)) is not None
        }
        launched = [reaches[program] for program, _ in self.chip.resident if program in reaches]
        worst = max(reaches.values(), key=lambda reach: reach.end, default=None)
        return Headroom(floor, self.holder, launched, worst)


def _reach(program: Program, floor: int | None) -> Reach | None:
    """None for a program that places nothing, or nothing of known extent, above the base."""
    ends = []
    for thing in program.parts.values():
        leaf, extra = program.holding.leaves[thing.kind], thing.extra
        if thing.kind not in _GROWING_UP or leaf is None or not leaf.counts:
            continue
        if extra is not None and extra.cores and not extra.shared:
            ends.append(thing.address + thing.size // extra.cores.bit_count())
    if not ends:
        return None
    end = max(ends)
    return Reach(program, end, None if floor is None else floor - end)

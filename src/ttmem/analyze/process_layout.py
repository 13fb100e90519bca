# SPDX-License-Identifier: Apache-2.0
"""The memory layout of one process on a chip: blocks in a bank, gaps between them, buffers of programs.

All banks of a kind are in lock step: a buffer has the same addresses in each of them. So one bank represents all,
and its free space follows from its live buffers, independent of their order of allocation (docs/accounting.md).
"""

from __future__ import annotations

from typing import NamedTuple

from ttmem.account.entities import Chip, Process
from ttmem.analyze.hold_reasons import Cause, cause_of
from ttmem.l1.headroom import end_of
from ttmem.model.address_ranges import Span, union
from ttmem.model.geometry import Arch, Geometry
from ttmem.model.kinds import Kind
from ttmem.model.stack_frames import line_of

BANKED = (Kind.DRAM, Kind.L1, Kind.L1_SMALL, Kind.TRACE)
_UNITS = {Arch.WORMHOLE_B0: 32}  # 64 for all others so far


class Block(NamedTuple):
    """A buffer in a bank. ``size`` is the request over all banks, ``per_bank`` the bytes in each of them."""

    kind: Kind
    address: int
    size: int
    per_bank: int
    allocator: int = 0
    tag: str | None = None  # the operation that allocated it
    shape: str | None = None  # of the tensor
    line: str | None = None  # of the workload's source, if stacks were recorded
    cause: Cause = Cause.HELD
    born: int = 0  # later allocations have a higher number

    @property
    def end(self) -> int:
        return self.address + self.per_bank


class Bank(NamedTuple):
    """One bank, which represents all of its kind. ``blocks`` are sorted by address."""

    kind: Kind
    base: int
    size: int
    banks: int
    unit: int
    blocks: tuple[Block, ...] = ()

    @property
    def end(self) -> int:
        return self.base + self.size

    @property
    def gaps(self) -> list[Span]:
        """The free ranges, lowest first.

        >>> Bank(Kind.L1, 0, 100, 64, 32, (Block(Kind.L1, 40, 640, 10),)).gaps
        [(0, 40), (50, 100)]
        """
        found, last = [], self.base
        for start, end in union((block.address, block.end) for block in self.blocks):
            if start > last:
                found.append((last, start))
            last = max(last, end)
        return [*found, (last, self.end)] if last < self.end else found

    @property
    def free(self) -> int:
        return sum(end - start for start, end in self.gaps)

    @property
    def allocated(self) -> int:
        return self.size - self.free

    @property
    def largest(self) -> int:
        return max((end - start for start, end in self.gaps), default=0)

    def takes(self, per_bank: int) -> int:
        """The bytes that a request takes in each bank."""
        return round_up(max(per_bank, self.unit), self.unit)

    def without(self, gone: tuple[Block, ...]) -> Bank:
        """The bank after these blocks are freed."""
        return self._replace(blocks=tuple(block for block in self.blocks if block not in gone))

    def with_new(self, per_bank: int) -> Bank | None:
        """The bank after an allocation of this size; None if it does not fit."""
        address = self.place(per_bank)
        if address is None:
            return None
        new = Block(self.kind, address, 0, self.takes(per_bank))
        return self._replace(blocks=tuple(sorted((*self.blocks, new), key=lambda block: block.address)))

    def place(self, per_bank: int) -> int | None:
        """The address that the allocator would choose: in the first gap that is large enough, from its own side."""
        need = self.takes(per_bank)
        fitting = [(start, end) for start, end in self.gaps if end - start >= need]
        if not fitting:
            return None
        return fitting[-1][1] - need if self.kind in (Kind.L1, Kind.L1_SMALL) else fitting[0][0]


class ProgramBuffer(NamedTuple):
    """A circular or dataflow buffer or scratchpad of a program, on each of its cores (a mask, see grid)."""

    kind: Kind
    start: int
    end: int
    cores: int
    tag: str | None = None


class ProgramLayout(NamedTuple):
    """A compiled program: its buffers above the base of L1, and its size in the kernel ring."""

    metal_id: int | None
    tag: str | None
    ring: int | None
    pieces: tuple[ProgramBuffer, ...]


class ProcessLayout(NamedTuple):
    """What a process holds on a chip. ``unplaced`` are buffers whose address or extent is not known."""

    geometry: Geometry
    blocks: tuple[Block, ...] = ()
    programs: tuple[ProgramLayout, ...] = ()
    unplaced: int = 0

    @property
    def unit(self) -> int:
        """The unit of sizes and addresses in all banks."""
        return _UNITS.get(self.geometry.arch, 64)

    def bank(self, kind: Kind, size: int | None = None, allocated: int | None = None) -> Bank | None:
        """A bank of this kind, None if too little is known about it.

        A part of a mesh has its own allocator. If there are several, ``allocated`` selects the one with this sum. The
        ``size`` of a DRAM bank, and thus its base, is known only from a message.
        """
        geometry = self.geometry
        small, trace = geometry.l1_small_size, geometry.trace_size
        top = geometry.dram_bank_size - trace
        if kind is Kind.L1:
            base, known, banks = geometry.l1_base, geometry.l1_size - small - geometry.l1_base, geometry.cores
        elif kind is Kind.L1_SMALL:
            base, known, banks = geometry.l1_size - small, small, geometry.cores
        elif kind is Kind.TRACE:
            base, known, banks = top, trace, geometry.dram_banks
        elif kind is Kind.DRAM and size is not None:
            # No buffer is below the base. If one seems to be, there is a trace region that was not reported.
            lowest = min((block.address for block in self.blocks if block.kind is kind), default=top)
            base, known, banks = min(top - size, lowest), size, geometry.dram_banks
        else:
            return None
        empty = Bank(kind, base, known, banks, self.unit)
        found: dict[int, list[Block]] = {}
        for block in self.blocks:
            if block.kind is kind:
                found.setdefault(block.allocator, []).append(block)
        several = [empty._replace(blocks=tuple(sorted(b, key=lambda one: one.address))) for b in found.values()]
        fits = [bank for bank in several if bank.allocated == allocated]
        if allocated == 0 or not several:
            return empty
        return fits[0] if fits else max(several, key=lambda bank: bank.allocated)

    def program(self, metal_id: int) -> ProgramLayout | None:
        return next((one for one in reversed(self.programs) if one.metal_id == metal_id), None)


def layout_of(chip: Chip, process: Process) -> ProcessLayout | None:
    """The layout of a process on a chip, from the account; None if the sizes of the chip are not known.

    Other processes on the chip have their own, independent allocators.
    """
    geometry = chip.geometry
    if geometry is None:
        return None
    blocks, programs, unplaced = [], [], 0
    banks = {kind: geometry.dram_banks if kind in (Kind.DRAM, Kind.TRACE) else geometry.cores for kind in BANKED}
    for holding in process.holdings():
        if chip not in holding.chips:
            continue
        for allocation in holding.buffers.values():
            leaf = holding.leaves[allocation.kind]
            if allocation.kind not in banks or leaf is None or chip not in leaf.chips:
                continue  # another source of the process has priority for this kind
            extra, taken = allocation.extra, allocation.taken
            if (
                extra is None
                or extra.per_core
                or not taken
                or taken % banks[allocation.kind]
                or allocation.address <= 0
            ):
                unplaced += 1
                continue
            blocks.append(
                Block(allocation.kind, allocation.address, allocation.size, taken // banks[allocation.kind],
                      extra.allocator, extra.tag,
                      extra.shape, line_of(extra.stack), cause_of(allocation), allocation.born)
            )  # fmt: skip
        for program in holding.programs.values():
            pieces = []
            for part in program.parts.values():
                end = end_of(part)
                if end is not None and part.extra is not None:
                    pieces.append(ProgramBuffer(part.kind, part.address, end, part.extra.cores, part.extra.tag))
            pieces.sort(key=lambda piece: piece.start)
            programs.append(ProgramLayout(program.metal_id, program.tag, program.ring, tuple(pieces)))
    return ProcessLayout(geometry, tuple(blocks), tuple(programs), unplaced)


def round_up(value: int, step: int) -> int:
    """
    >>> round_up(33, 32)
    64
    """
    return -(-value // step) * step

# SPDX-License-Identifier: Apache-2.0
"""The allocator of a simulated mesh: four kinds of banks, with the addresses and errors of ttnn 0.81.1."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from ttmem.model.geometry import Geometry
from ttmem.model.kinds import Kind
from ttmem.sim.errors import OutOfMemory, SimError
from ttmem.sim.free_list import FreeList, Statistics, round_up
from ttmem.sim.tensors import BufferNeed, TensorSpec, need_of, need_of_bytes

_TRACE_STEP_BYTES = 8192
_NO_BLOCK = str(2**64 - 1)
_SMALL_FULL = " The L1_SMALL region is sized at device open; increase l1_small_size when opening the device."
_SMALL_NONE = (
    " The L1_SMALL region is 0 B because it is reserved at device open;"
    " set l1_small_size large enough for this allocation when opening the device."
)


class MemoryView(NamedTuple):
    """The same fields as the result of ``ttnn.get_memory_view``."""

    num_banks: int
    total_bytes_per_bank: int
    total_bytes_allocated_per_bank: int
    total_bytes_free_per_bank: int
    largest_contiguous_bytes_free_per_bank: int
    block_table: list[dict[str, str]]


class PagePlace(NamedTuple):
    """The location of one page of a buffer; DRAM banks have no core."""

    bank: int
    core: tuple[int, int] | None
    address: int


class Marks(NamedTuple):
    """The highest end addresses of DRAM allocations and of DRAM frees during a trace capture; 0 if there were none."""

    allocated: int = 0
    freed: int = 0


class _Banks(NamedTuple):
    blocks: FreeList
    number: int
    alignment: int
    bottom_up: bool


class Allocator:
    """Gives out addresses that are used in every bank of a kind, whether or not the bank gets pages.

    >>> from ttmem.model.geometry import BOARDS
    >>> memory = Allocator(BOARDS["n150"], dram_base=1048640, dram_alignment=32)
    >>> need = memory.need(Kind.L1, TensorSpec((1, 1, 64, 64)))
    >>> memory.allocate(Kind.L1, need)
    1497088
    >>> memory.reserved(Kind.L1)
    131072
    """

    def __init__(
        self,
        geometry: Geometry,
        *,
        dram_base: int,
        dram_alignment: int,
        l1_alignment: int = 16,
        l1_small_size: int = 0,
        trace_region_size: int = 0,
    ) -> None:
        self.geometry = geometry
        unit = dram_alignment  # of L1 too
        small = round_up(l1_small_size, unit)
        self.trace_region_size = round_up(trace_region_size, unit)
        trace = round_up(-(-self.trace_region_size // geometry.dram_banks), _TRACE_STEP_BYTES)
        dram = geometry.dram_bank_size - dram_base - trace
        l1 = geometry.l1_size - geometry.l1_base - small
        if l1 <= 0:
            raise SimError("Reserved size must be less than bank size")
        if dram <= 0:
            raise SimError(f"trace_region_size {trace_region_size} leaves nothing of a DRAM bank; make it smaller")
        banks, cores = geometry.dram_banks, geometry.cores
        self._banks = {
            Kind.DRAM: _Banks(FreeList(dram_base, dram, unit), banks, dram_alignment, True),
            Kind.TRACE: _Banks(FreeList(dram_base + dram, trace, unit), banks, dram_alignment, True),
            Kind.L1: _Banks(FreeList(geometry.l1_base, l1, unit), cores, l1_alignment, False),
            Kind.L1_SMALL: _Banks(
                FreeList(geometry.l1_base + l1, small, unit), cores if small else 0, l1_alignment, False
            ),
        }
        self._marks: Marks | None = None

    def need(self, kind: Kind, spec: TensorSpec) -> BufferNeed | None:
        """What a tensor would need of a kind; None if it has no elements."""
        banks = self._of(kind)
        return need_of(spec, banks.number, banks.alignment)

    def need_bytes(self, kind: Kind, size: int, page_size: int) -> BufferNeed:
        """What an interleaved buffer of this size would need."""
        banks = self._of(kind)
        return need_of_bytes(size, page_size, banks.number, banks.alignment)

    def allocate(self, kind: Kind, need: BufferNeed | None, *, bottom_up: bool | None = None) -> int:
        """The address of a new buffer; 0 if it needs no memory."""
        if need is None:
            return 0
        self._check(kind, need)
        banks = self._of(kind)
        address = banks.blocks.allocate(need.per_bank, bottom_up=banks.bottom_up if bottom_up is None else bottom_up)
        return self._allocated(kind, need, address)

    def allocate_at(self, kind: Kind, address: int, need: BufferNeed) -> int:
        """A new buffer at exactly this address."""
        self._check(kind, need)
        return self._allocated(kind, need, self._of(kind).blocks.allocate_at(address, need.per_bank))

    def free(self, kind: Kind, address: int) -> bool:
        """Free a buffer; returns whether there was one."""
        blocks = self._of(kind).blocks
        before = blocks.allocated
        freed = blocks.free(address)
        if freed and kind is Kind.DRAM and self._marks is not None:
            end = address + before - blocks.allocated
            self._marks = self._marks._replace(freed=max(self._marks.freed, end))
        return freed

    def blocks(self, kind: Kind) -> FreeList:
        """The free list of a kind."""
        return self._of(kind).blocks

    def banks(self, kind: Kind) -> int:
        """The number of banks of a kind."""
        return self._of(kind).number

    def statistics(self, kind: Kind) -> Statistics:
        return self._of(kind).blocks.statistics()

    def reserved(self, kind: Kind) -> int:
        """Reserved bytes in all banks together."""
        return self._of(kind).blocks.allocated * self.banks(kind)

    def lowest_l1(self) -> int | None:
        """The lowest address of an L1 buffer: where circular buffers must end."""
        return self._banks[Kind.L1].blocks.lowest()

    def view(self, kind: Kind) -> MemoryView:
        table = [
            {
                "blockID": str(block.ident),
                "address": str(block.address),
                "size": str(block.size),
                "prevID": _NO_BLOCK if block.previous is None else str(block.previous),
                "nextID": _NO_BLOCK if block.following is None else str(block.following),
                "allocated": "yes" if block.used else "no",
            }
            for block in self._of(kind).blocks.blocks()
        ]
        return MemoryView(self.banks(kind), *self.statistics(kind), table)

    def page_place(self, kind: Kind, address: int, need: BufferNeed, page: int) -> PagePlace:
        """Where a page of an interleaved buffer lies: pages go round the banks."""
        row, bank = divmod(page, need.banks)
        core = bank_cores(self.geometry.grid_x, self.geometry.grid_y)[bank] if kind is Kind.L1 else None
        return PagePlace(bank, core, address + row * need.aligned_page)

    def _of(self, kind: Kind) -> _Banks:
        try:
            return self._banks[kind]
        except KeyError:
            raise SimError(
                f"there is no memory of kind {kind!r}; there is {', '.join(map(str, self._banks))}"
            ) from None

    def begin_capture(self) -> None:
        """From now on DRAM's marks are kept."""
        self._marks = Marks()

    def end_capture(self) -> Marks:
        marks, self._marks = self._marks or Marks(), None
        return marks

    def _check(self, kind: Kind, need: BufferNeed) -> None:
        if kind is Kind.L1_SMALL and not need.sharded:
            raise SimError("L1_SMALL only supports sharded allocations, see validate_num_banks")
        if need.sharded and need.banks > self.geometry.cores:
            raise SimError(
                f"Expected number of shards {need.banks} to be less than or equal to total number of L1 banks "
                f"{self.geometry.cores} in compute cores"
            )

    def _allocated(self, kind: Kind, need: BufferNeed, address: int | None) -> int:
        if address is None:
            raise OutOfMemory(self._refusal(kind, need))
        if kind is Kind.DRAM and self._marks is not None:
            self._marks = self._marks._replace(allocated=max(self._marks.allocated, address + need.per_bank))
        return address

    def _refusal(self, kind: Kind, need: BufferNeed) -> str:
        size, allocated, free, largest = self.statistics(kind)
        hint = "" if kind is not Kind.L1_SMALL else _SMALL_FULL if size else _SMALL_NONE
        return (
            f"Out of Memory: Not enough space to allocate {need.total} B {kind.name} buffer across {need.banks} banks, "
            f"where each bank needs to store {need.per_bank} B, but bank size is {size} B "
            f"(allocated: {allocated} B, free: {free} B, largest free block: {largest} B).{hint}"
        )


@cache
def bank_cores(grid_x: int, grid_y: int) -> tuple[tuple[int, int], ...]:
    """The core (x, y) behind each L1 bank of a compute grid.

    >>> bank_cores(8, 8)[:4]
    ((1, 4), (4, 4), (4, 1), (2, 2))
    """
    cores: list[tuple[int, int]] = [(0, 0)] * (grid_x * grid_y)
    for number, bank in enumerate(_shuffled(len(cores))):
        cores[bank] = (number % grid_x, number // grid_x)
    return tuple(cores)


def _shuffled(n: int) -> list[int]:
    """0 to n-1 as tt-metal shuffles them: libstdc++'s std::shuffle on a minimal standard generator with seed 0."""
    multiplier, modulus = 16807, 2147483647
    state = 1

    def uniform(count: int) -> int:
        nonlocal state
        width = (modulus - 2) // count
        while True:
            state = state * multiplier % modulus
            if state - 1 < count * width:
                return (state - 1) // width

    order = list(range(n))
    first = 1
    if n % 2 == 0 and n:
        swap = uniform(2)
        order[1], order[swap] = order[swap], order[1]
        first = 2
    # libstdc++ draws the partners of two elements at once.
    for i in range(first, n, 2):
        low, high = divmod(uniform((i + 1) * (i + 2)), i + 2)
        order[i], order[low] = order[low], order[i]
        order[i + 1], order[high] = order[high], order[i + 1]
    return order

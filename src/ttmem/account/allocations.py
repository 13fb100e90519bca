# SPDX-License-Identifier: Apache-2.0
"""Live allocations, the programs they belong to, and who holds them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain as join
from typing import TYPE_CHECKING

from ttmem.account.totals import Total
from ttmem.model.events import Device, device_numbers
from ttmem.model.kinds import KINDS, Kind

if TYPE_CHECKING:
    from ttmem.account.allocator_views import Agreement
    from ttmem.account.entities import Chip, Source
    from ttmem.model.events import Audited, Extra, Viewed

_REMEMBERED_FREES = 512  # of a holding, to tell a second free from one of an unknown address


class Allocation:
    """One allocation: a buffer, a circular buffer, a kernel, a per-core write."""

    __slots__ = ("address", "born", "extra", "holding", "kind", "refs", "size", "time")
    program = 0  # the one it is a part of

    def __init__(
        self, holding: Holding, kind: Kind, address: int, size: int, born: int, time: float, extra: Extra | None
    ) -> None:
        self.holding = holding
        self.kind = kind
        self.address = address
        self.size = size
        self.refs = 1
        self.born = born
        self.time = time
        self.extra = extra

    def __lt__(self, other: Allocation) -> bool:
        """An order for heaps of (size, birth, allocation) where both are equal, the same whenever events are folded."""
        mine, others = self.holding, other.holding
        return (self.address, self.kind, mine.numbers, mine.source.name) < (
            other.address,
            other.kind,
            others.numbers,
            others.source.name,
        )

    @property
    def counted(self) -> int:
        """The bytes it adds: none if it lies inside an L1 buffer that is counted itself."""
        return 0 if self.extra is not None and self.extra.shared else self.size

    @property
    def taken(self) -> int | None:
        """The bytes the allocator took for it, None if that is not known."""
        extra = self.extra
        return None if extra is None or extra.reserved is None else 0 if extra.shared else extra.reserved


class Origin:
    """Who made a program. It outlives the program in what was a part of it."""

    __slots__ = ("stack", "tag")

    def __init__(self) -> None:
        self.tag: str | None = None  # the operation
        self.stack: str | None = None


class Part(Allocation):
    """An allocation that belongs to a program, and remembers which when both are gone."""

    __slots__ = ("origin", "program")
    origin: Origin


# Parts of programs are found by (family, address, cores): one program may place two circular buffers at one
# address on different cores.
PartKey = tuple[int, int, int]


class Program:
    """The circular buffers, dataflow buffers, scratchpads and kernels of one program."""

    __slots__ = ("destroyed", "holding", "ident", "metal_id", "origin", "parts", "ring")

    def __init__(self, ident: int, holding: Holding) -> None:
        self.ident = ident
        self.holding = holding
        self.parts: dict[PartKey, Allocation] = {}
        self.destroyed = False
        self.forget()

    def forget(self) -> None:
        """What was said of it when it was compiled."""
        self.ring: int | None = None  # bytes of a core's kernel ring
        self.metal_id: int | None = None  # as tt-metal's messages name it
        self.origin = Origin()

    @property
    def tag(self) -> str | None:
        return self.origin.tag

    def resident(self, kind: Kind, cores: int) -> int | None:
        """Bytes of a kind on these cores; None if the cores of some part are not known."""
        total = 0
        for allocation in self.parts.values():
            if allocation.kind != kind:
                continue
            extra = allocation.extra
            if extra is None or not extra.cores:
                return None
            if not extra.shared:
                total += allocation.size * (extra.cores & cores).bit_count() // extra.cores.bit_count()
        return total


class Holding:
    """What one source of one process holds on one device: a chip, or all chips of a mesh.

    An allocation on a mesh is one allocation, and lies on each of its chips at the same address.
    """

    __slots__ = ("agreements", "audits", "buffers", "chips", "device", "former", "freed", "freed_before", "launched",
                 "leaves", "numbers", "per_core", "programs", "source", "unplaced", "views")  # fmt: skip

    def __init__(self, source: Source, device: Device, chips: tuple[Chip, ...]) -> None:
        self.source = source
        self.device = device  # as the source names it
        self.numbers = device_numbers(device)  # the source's own
        self.chips = chips  # that these numbers mean, in the same order
        self.former: dict[Chip, int] = {}  # chips that were taken for one of these numbers before
        self.launched = False  # was it noted on its chips that launches are seen there
        self.leaves: list[Total | None] = [None] * len(KINDS)
        self.buffers: dict[int, Allocation] = {}
        self.programs: dict[int, Program] = {}
        self.unplaced: list[int] = []  # keys of allocations reported at address 0, which are not one allocation
        self.per_core = 0  # how many of the buffers have an address of their own on each core
        self.freed: set[object] = set()
        self.freed_before: set[object] = set()
        self.audits: dict[int, Audited] = {}  # the last one of each allocator
        self.views: dict[tuple[int, Kind], Viewed] = {}  # the last one of each allocator and kind
        self.agreements: dict[Kind, Agreement] = {}  # of what was tracked with what the views said, when they came

    @property
    def chip(self) -> Chip:
        """The first of its chips. Those of a mesh have the same geometry."""
        return self.chips[0]

    def number_on(self, chip: Chip) -> int:
        """What the source calls one of its chips, or one that was thought to be its."""
        if chip in self.chips:
            return self.numbers[self.chips.index(chip)]
        return self.former.get(chip, self.numbers[0])

    def note_freed(self, key: object) -> None:
        """Once the set of just freed keys is full it is kept as the older generation; the one before is forgotten."""
        self.freed.add(key)
        if len(self.freed) >= _REMEMBERED_FREES:
            self.freed_before = self.freed
            self.freed = set()

    def just_freed(self, key: object) -> bool:
        return key in self.freed or key in self.freed_before

    def tables(self) -> list[dict[int, Allocation] | dict[PartKey, Allocation]]:
        return [self.buffers, *(program.parts for program in self.programs.values())]

    def allocations(self) -> Iterator[Allocation]:
        return join.from_iterable(table.values() for table in self.tables())

    def clear(self) -> None:
        """Forget everything; the tables themselves now belong to a dead."""
        self.buffers = {}
        self.programs = {}
        self.unplaced = []
        self.per_core = 0
        self.audits = {}
        self.views = {}
        self.agreements = {}
        for leaf in self.leaves:
            if leaf is not None:
                leaf.used = leaf.reserved = leaf.known = leaf.unknown = 0

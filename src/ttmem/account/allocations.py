# SPDX-License-Identifier: Apache-2.0
"""Live allocations, the programs they belong to, and the holdings that contain them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain as join
from typing import TYPE_CHECKING

from ttmem.account.totals import Total
from ttmem.account.unplaced_buffers import UnplacedBuffers
from ttmem.model.events import Device, device_numbers
from ttmem.model.kinds import KINDS, Kind

if TYPE_CHECKING:
    from ttmem.account.allocator_views import Agreement
    from ttmem.account.entities import Chip, Source
    from ttmem.model.events import Audited, Extra, Viewed

REMEMBERED_FREES = 512  # per holding; distinguishes a second free from a free of an unknown address


class Allocation:
    """One allocation: a buffer, a circular buffer, a kernel, or a write to one core."""

    __slots__ = ("address", "born", "extra", "holding", "kind", "refs", "size", "time")
    program = 0  # the program that it is a part of, or 0

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
        """Orders entries (size, birth, allocation) of a heap whose size and birth are equal.

        The order depends on the events only, so applying the same events again gives the same result.
        """
        mine, others = self.holding, other.holding
        return (self.address, self.kind, mine.numbers, mine.source.name) < (
            other.address,
            other.kind,
            others.numbers,
            others.source.name,
        )

    @property
    def counted(self) -> int:
        """The bytes that it adds to totals: 0 if it is inside an L1 buffer, which is counted itself."""
        return 0 if self.extra is not None and self.extra.shared else self.size

    @property
    def taken(self) -> int | None:
        """The bytes that the allocator reserved for it; None if unknown."""
        extra = self.extra
        return None if extra is None or extra.reserved is None else 0 if extra.shared else extra.reserved


class Origin:
    """The operation and the stack that made a program. The parts of a program keep it after the program is gone."""

    __slots__ = ("stack", "tag")

    def __init__(self) -> None:
        self.tag: str | None = None  # the operation
        self.stack: str | None = None


class Part(Allocation):
    """An allocation that belongs to a program. It keeps the program's number and origin after both are gone."""

    __slots__ = ("origin", "program")
    origin: Origin


# Identifies a part within its program: (family, address, cores). One program may place two circular buffers at the
# same address on different cores.
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
        """Reset what a compilation reports: kernel ring, tt-metal's id, operation and stack."""
        self.ring: int | None = None  # bytes of the kernel ring that it takes on a core
        self.metal_id: int | None = None  # the id in tt-metal's messages; None: not compiled
        self.origin = Origin()

    @property
    def tag(self) -> str | None:
        return self.origin.tag

    def resident(self, kind: Kind, cores: int) -> int | None:
        """Bytes of a kind on these cores; None if the cores of any part are unknown."""
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
    """The allocations that one source of one process reports on one device: a chip, or all chips of a mesh.

    An allocation on a mesh is one allocation that has the same address on each of its chips.
    """

    __slots__ = ("agreements", "arriving", "audits", "buffers", "chips", "device", "former", "freed", "freed_before",
                 "launched", "leaves", "numbers", "per_core", "programs", "source", "unplaced", "views")  # fmt: skip

    def __init__(self, source: Source, device: Device, chips: tuple[Chip, ...]) -> None:
        self.source = source
        self.device = device  # the device number, or those of a mesh, as reported by the source
        self.numbers = device_numbers(device)  # the same as a tuple
        self.chips = chips  # the chips with these numbers, in the same order
        self.former: dict[Chip, int] = {}  # chips that were assumed for a number before its chip was known
        self.launched = False  # whether `Chip.launched` is set on its chips
        self.leaves: list[Total | None] = [None] * len(KINDS)
        self.buffers: dict[int, Allocation] = {}
        self.programs: dict[int, Program] = {}
        self.unplaced = UnplacedBuffers()  # buffers at address 0, each an allocation of its own (rule 1)
        self.arriving: dict[Kind, Total] = {}  # what was added during a resync, which counts when that ends
        self.per_core = 0  # number of buffers with a different address on each core
        self.freed: set[object] = set()
        self.freed_before: set[object] = set()
        self.audits: dict[int, Audited] = {}  # the latest audit of each allocator
        self.views: dict[tuple[int, Kind], Viewed] = {}  # the latest view of each allocator and kind
        self.agreements: dict[Kind, Agreement] = {}  # tracked bytes compared with views, when these arrived

    @property
    def chip(self) -> Chip:
        """The first of its chips. All chips of a mesh have the same geometry."""
        return self.chips[0]

    def number_on(self, chip: Chip, chips: tuple[Chip, ...] = ()) -> int:
        """The device number of the source for one of its chips, or for a chip that was assumed to be one of them.

        ``chips`` are those at an earlier moment, if that one is meant.
        """
        chips = chips or self.chips
        if chip in chips:
            return self.numbers[chips.index(chip)]
        return self.former.get(chip, self.numbers[0])

    def note_freed(self, key: object) -> None:
        """Remember a freed key. When the set is full, it replaces the older set, and a new one is started."""
        self.freed.add(key)
        if len(self.freed) >= REMEMBERED_FREES:
            self.forget_old_frees()

    def forget_old_frees(self) -> None:
        self.freed_before = self.freed
        self.freed = set()

    def just_freed(self, key: object) -> bool:
        return key in self.freed or key in self.freed_before

    def tables(self) -> list[dict[int, Allocation] | dict[PartKey, Allocation]]:
        return [self.buffers, *(program.parts for program in self.programs.values())]

    def allocations(self) -> Iterator[Allocation]:
        return join.from_iterable(table.values() for table in self.tables())

    def clear(self) -> None:
        """Start with empty tables. The old tables are not emptied: `DeadAllocations` keeps them."""
        self.buffers = {}
        self.programs = {}
        self.arriving = {}
        self.unplaced = UnplacedBuffers()
        self.per_core = 0
        self.audits = {}
        self.views = {}
        self.agreements = {}
        for leaf in self.leaves:
            if leaf is not None:
                leaf.used = leaf.reserved = leaf.known = leaf.unknown = 0

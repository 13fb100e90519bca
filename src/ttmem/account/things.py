# SPDX-License-Identifier: Apache-2.0
"""Live things, who holds them, and what is kept of them when they go all at once."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import nlargest
from itertools import chain as join
from typing import TYPE_CHECKING

from ttmem.account.kinds import KINDS, Kind
from ttmem.account.totals import KEPT, Leaf, Peak, keep_largest

if TYPE_CHECKING:
    from ttmem.account.events import Extra
    from ttmem.account.parties import Chip, Source


class Thing:
    """One allocation: a buffer, a circular buffer, a kernel, a per-core write."""

    __slots__ = ("address", "born", "extra", "holding", "kind", "refs", "size", "time")

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

    def __lt__(self, other: Thing) -> bool:
        """Some order, for heaps of (size, birth, thing) where both are equal."""
        return id(self) < id(other)

    @property
    def counted(self) -> int:
        """The bytes it adds: none if it lies inside an L1 buffer that is counted itself."""
        return 0 if self.extra is not None and self.extra.shared else self.size

    @property
    def taken(self) -> int | None:
        """The bytes the allocator took for it, None if that is not known."""
        extra = self.extra
        return None if extra is None or extra.reserved is None else 0 if extra.shared else extra.reserved


# Parts of programs are found by (family, address, cores): one program may place two circular buffers at one
# address on different cores.
PartKey = tuple[int, int, int]


class Program:
    """The circular buffers, dataflow buffers, scratchpads and kernels of one program."""

    __slots__ = ("holding", "ident", "parts")

    def __init__(self, ident: int, holding: Holding) -> None:
        self.ident = ident
        self.holding = holding
        self.parts: dict[PartKey, Thing] = {}

    def resident(self, kind: Kind, cores: int) -> int | None:
        """Bytes of a kind on these cores; None if the cores of some part are not known."""
        total = 0
        for thing in self.parts.values():
            if thing.kind != kind:
                continue
            extra = thing.extra
            if extra is None or not extra.cores:
                return None
            if not extra.shared:
                total += thing.size * (extra.cores & cores).bit_count() // extra.cores.bit_count()
        return total


class Holding:
    """What one source of one process holds on the chip it calls by one number."""

    __slots__ = ("buffers", "chip", "freed", "freed_before", "leaves", "number", "programs", "released", "source",
                 "unplaced")  # fmt: skip

    REMEMBERED = 512

    def __init__(self, source: Source, number: int, chip: Chip) -> None:
        self.source = source
        self.number = number
        self.chip = chip
        self.leaves: list[Leaf | None] = [None] * len(KINDS)
        self.buffers: dict[int, Thing] = {}
        self.programs: dict[int, Program] = {}
        self.unplaced: list[int] = []  # keys of things reported at address 0, which are not one thing
        self.released = False  # has this device number ever been named in a FREE
        self.freed: set[object] = set()
        self.freed_before: set[object] = set()

    def forget_older_frees(self) -> None:
        """The set of just freed keys is full: keep it as the older generation, forget the one before."""
        self.freed_before = self.freed
        self.freed = set()

    def just_freed(self, key: object) -> bool:
        return key in self.freed or key in self.freed_before

    def tables(self) -> list[dict[int, Thing] | dict[PartKey, Thing]]:
        return [self.buffers, *(program.parts for program in self.programs.values())]

    def things(self) -> Iterator[Thing]:
        return join.from_iterable(table.values() for table in self.tables())

    def clear(self) -> None:
        """Forget everything; the tables themselves now belong to a grave."""
        self.buffers = {}
        self.programs = {}
        self.unplaced = []
        for leaf in self.leaves:
            if leaf is not None:
                leaf.used = leaf.count = leaf.reserved = leaf.known = 0


class Grave:
    """Things that went all at once at ``died``. Their tables are kept as they are and thinned out in slices."""

    __slots__ = ("died", "largest_kept", "peaks", "tables")

    def __init__(self, holding: Holding, died: int) -> None:
        self.died = died
        self.tables = [table for table in holding.tables() if table]
        self.largest_kept: list[tuple[int, int, Thing]] = []
        self.peaks: dict[Peak, int] = {}  # who may ask for these things, and for which kinds (a bit each)

    def __len__(self) -> int:
        return sum(map(len, self.tables))

    def expect(self, peak: Peak, kind: int) -> bool:
        """A peak counted the things of that kind; True if it had not been noted before."""
        known = self.peaks.get(peak, 0)
        self.peaks[peak] = known | 1 << kind
        return not known

    def things_of(self, peak: Peak) -> Iterator[Thing]:
        """The things a peak counted."""
        kinds = self.peaks[peak]
        return (thing for thing in self.things() if kinds >> thing.kind & 1)

    def things(self) -> Iterator[Thing]:
        return join.from_iterable(table.values() for table in self.tables)

    def largest(self, count: int = KEPT) -> list[Thing]:
        candidates = join(((t.size, t.born, t) for t in self.things()), self.largest_kept)
        return [item[2] for item in nlargest(count, candidates)]

    def close(self) -> None:
        """Nothing is left to look through: those who kept it to ask need not any more."""
        for peak in self.peaks:
            if self in peak.graves:
                peak.graves.remove(self)

    def thin(self, limit: int) -> int:
        """Give up to ``limit`` things back to the memory, keeping what peaks and pictures will be asked for."""
        done = 0
        # A peak reached after the death knows nothing of these things.
        peaks = [(peak, kinds) for peak, kinds in self.peaks.items() if peak.seq < self.died]
        while self.tables and done < limit:
            table = self.tables[-1]
            while table and done < limit:
                thing = table.popitem()[1]
                done += 1
                keep_largest(self.largest_kept, thing)
                for peak, kinds in peaks:
                    if kinds >> thing.kind & 1:
                        peak.leave(thing)
            if not table:
                self.tables.pop()
        return done

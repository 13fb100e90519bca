# SPDX-License-Identifier: Apache-2.0
"""The physical L1 of chips: maps that are built in slices on request, and the numbers of the snapshot.

Building a map examines every live allocation of its chip. So a recent map is used again: as long as there was no event,
and under load for nine times as long as it took to build, with its age.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterator
from functools import partial
from itertools import islice
from time import monotonic
from typing import TYPE_CHECKING, Final, NamedTuple

from ttmem.account.allocations import Allocation, Program
from ttmem.account.entities import Chip
from ttmem.account.ledger import Ledger
from ttmem.documents.snapshot import shown_chips
from ttmem.ingest.time_slices import in_turns, pause, slices
from ttmem.l1.core_map import Core, CoreMapBuilder, L1Map, complete_map
from ttmem.l1.core_segments import Segment, has_data, segments
from ttmem.model.core_sets import ROW
from ttmem.model.geometry import Geometry
from ttmem.model.kinds import KERNEL_KINDS, WORKER_L1
from ttmem.model.unavailable_cores import outside
from ttmem.model.units import exact

if TYPE_CHECKING:
    from ttmem.model import schema

Sees = Callable[[int | None], bool]

SCHEMA: Final = "ttmem.cores/1"
_REST = 9  # a map may be used again for this many times the time it took to build
_EVERY = 1.0  # seconds between two refreshes of the snapshot's numbers, at least
_WAIT = 0.005  # seconds that a snapshot waits for them
_FIRST_WAIT = 0.1  # if some chip has none yet
_KEPT = 4  # maps
_MOST_SEGMENTS = 500
_MOST_KERNELS = 100


class _BuiltMap(NamedTuple):
    map: L1Map
    seq: int  # of the last event in it
    time: float
    cost: float  # seconds to build it


class _Numbers(NamedTuple):
    used: int | None
    max_core: int | None
    headroom_min: int | None
    seq: int
    time: float


class Cores:
    """Maps of the chips of one ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._made: dict[Chip, _BuiltMap] = {}
        self._making: dict[Chip, asyncio.Task[_BuiltMap]] = {}
        self._numbers: dict[Chip, _Numbers] = {}
        self._refresh: asyncio.Task[None] | None = None
        self._next = 0.0

    # -- for the snapshot ----------------------------------------------------------------------------------------

    async def refresh(self) -> None:
        """Update the numbers of all chips, at most once a second; long work continues in the background."""
        if self._refresh is None and monotonic() >= self._next:
            self._refresh = asyncio.create_task(self._renew())
        if self._refresh is not None:
            known = all(chip in self._numbers for chip in shown_chips(self._ledger) if _mappable(chip))
            await asyncio.wait([self._refresh], timeout=_WAIT if known else _FIRST_WAIT)

    async def _renew(self) -> None:
        began = monotonic()
        try:
            shown = shown_chips(self._ledger)
            self._numbers = {chip: found for chip, found in self._numbers.items() if chip in shown}
            alike: dict[Hashable, list[Chip]] = {}
            for chip in shown:
                if _mappable(chip) is not None:
                    alike.setdefault(_contents(chip), []).append(chip)
            for chips in alike.values():
                await self._renew_alike(chips)
        finally:
            self._next = monotonic() + max(_EVERY, _REST * (monotonic() - began))
            self._refresh = None

    async def _renew_alike(self, chips: list[Chip]) -> None:
        """Update the numbers of chips with the same contents, such as those of a mesh: one map is enough for them."""
        while chips:
            first, geometry, last = chips[0], _mappable(chips[0]), self._numbers.get(chips[0])
            if geometry is None or (last is not None and last.seq == self._ledger.seq):
                chips = chips[1:]
                continue
            made = await self._make(first, geometry)
            found = made.map
            numbers = _Numbers(found.total_used, found.max_core, found.headroom_min, made.seq, made.time)
            contents = _contents(first)  # events may have come meanwhile
            same = {first, *(chip for chip in chips if _contents(chip) == contents)}
            self._numbers |= dict.fromkeys(same, numbers)
            chips = [chip for chip in chips if chip not in same]
            await pause()

    def physical(self, chip: Chip) -> schema.PhysicalL1 | None:
        """The current numbers of a chip, with their age; only a table lookup."""
        found = self._numbers.get(chip)
        if found is None:
            return None
        return {
            "used": found.used,
            "max_core": found.max_core,
            "headroom_min": found.headroom_min,
            "age_s": self._age(found),
        }

    def _age(self, found: _BuiltMap | _Numbers) -> float:
        """The age; 0.0 only if no event came since."""
        return 0.0 if found.seq == self._ledger.seq else max(0.001, round(monotonic() - found.time, 3))

    # -- the document --------------------------------------------------------------------------------------------

    async def document(self, chip_id: str, core: tuple[int, int] | None, may_see: Sees) -> schema.Cores:
        """The cores of a chip, and one of them in detail; LookupError if there is no such chip or core."""
        return (await self.prepared(chip_id, core, may_see))()

    async def prepared(self, chip_id: str, core: tuple[int, int] | None, may_see: Sees) -> Callable[[], schema.Cores]:
        """A function that makes the same document.

        The segments of a core may have a hundred thousand owners, so a server calls it in a thread.
        """
        chip = next((chip for chip in shown_chips(self._ledger) if chip.id == chip_id), None)
        if chip is None:
            raise LookupError(
                f"no tracked process has used chip {chip_id!r}, so the use of its L1 by core is not known"
            )
        geometry = chip.geometry
        if geometry is None:
            return lambda: _unknown(chip_id, "the type of this board is not known")
        if core is not None and not (core[0] < geometry.grid_x and core[1] < geometry.grid_y):
            grid = f"{geometry.grid_x} x {geometry.grid_y}"
            raise LookupError(f"there is no core {core[0]},{core[1]}; the grid of this chip is {grid}")
        made = await self._map(chip, geometry)
        return partial(_DocumentBuilder(made.map, may_see).chip, self._age(made), core)

    async def _map(self, chip: Chip, geometry: Geometry) -> _BuiltMap:
        """A map that is recent enough, or is being built, or a new one."""
        made = self._made.get(chip)
        if (
            made is not None
            and made.map.geometry == geometry
            and (made.seq == self._ledger.seq or monotonic() - made.time < _REST * made.cost)
        ):
            return made
        task = self._making.get(chip)
        if task is None:
            task = self._making[chip] = asyncio.create_task(self._make(chip, geometry))
            task.add_done_callback(lambda _: self._making.pop(chip, None))
        made = await asyncio.shield(task)
        self._made.pop(chip, None)
        self._made[chip] = made
        while len(self._made) > _KEPT:
            del self._made[next(iter(self._made))]
        return made

    async def _make(self, chip: Chip, geometry: Geometry) -> _BuiltMap:
        began, seq = monotonic(), self._ledger.seq
        survey = CoreMapBuilder(chip, geometry)
        async for allocations in slices(chip.holdings):
            for allocation in allocations:
                survey.add(allocation)
        await in_turns(survey.finish())
        now = monotonic()
        return _BuiltMap(survey.map, seq, now, now - began)


def all_cores(chip: Chip, geometry: Geometry) -> tuple[schema.Cores, list[tuple[list[Core], schema.CoreDetail]]]:
    """The document of a chip and every core in detail, built at once, for an account that does not change.

    Cores with the same contents have one detail, that of the first.
    """
    found = complete_map(chip, geometry)
    builder = _DocumentBuilder(found, lambda user_id: True)
    document = builder.chip(0.0, None)
    alike: dict[Hashable, list[Core]] = {}
    for core in found.cores:
        alike.setdefault(_core_contents(found, core), []).append(core)
    return document, [(cores, builder.detail(cores[0])) for cores in alike.values()]


def _core_contents(found: L1Map, core: Core) -> Hashable:
    """Equal for cores whose details differ in nothing but the place of the core."""
    bit = 1 << (core.y * ROW + core.x)
    program = core.program
    kernels = [] if program is None else [part.extra.cores & bit for part in program.parts.values() if part.extra]
    buffers = [has_data(one, core, found.geometry.cores) for one in found.allocations]
    parts = [mask for masks in (found.parts, found.shared) for mask in masks if mask & bit]
    return id(program), tuple(map(bool, kernels)), tuple(buffers), tuple(parts)


def _mappable(chip: Chip) -> Geometry | None:
    """The geometry of a chip if it is known well enough for a map."""
    return chip.geometry if chip.covered else None


def _contents(chip: Chip) -> Hashable:
    """The same for chips whose maps are the same: what counts on them, and which programs ran last."""
    counted = tuple(
        (holding, kind)
        for holding in chip.holdings
        for kind in WORKER_L1
        if (leaf := holding.leaves[kind]) is not None and chip in leaf.chips
    )
    resident = tuple((program.holding, program.ident, mask) for program, mask in chip.resident_programs())
    return counted, resident, chip.launched, bool(chip.covered), chip.geometry


def parse_core(text: str) -> tuple[int, int]:
    """Parse a core as users write it; ValueError if it is invalid.

    >>> parse_core("3,4")
    (3, 4)
    """
    x, comma, y = text.partition(",")
    if not (comma and x.isdecimal() and y.isdecimal() and x.isascii() and y.isascii()) or len(text) > 9:
        raise ValueError(f"core is X,Y in logical coordinates such as 3,4, not {text!r}")
    return int(x), int(y)


def _unknown(chip_id: str, why: str) -> schema.Cores:
    """The document of a chip whose grid is not known."""
    return {
        "schema": SCHEMA,
        "chip": chip_id,
        "why": why,
        "age_s": None,
        "basis": None,
        "grid": None,
        "dispatch": [],
        "harvested": None,
        "l1": None,
        "used": None,
        "max_core": None,
        "headroom_min": None,
        "floor": {"address": None, "owner": None},
        "overlaps": [],
        "unplaced": [],
        "warnings": [],
        "programs": [],
        "cores": [],
        "core": None,
    }


class _DocumentBuilder:
    """Builds the document from a map, for one reader."""

    def __init__(self, found: L1Map, may_see: Sees) -> None:
        self._map = found
        self._may_see = may_see
        self._programs: dict[Program, int] = {}

    def chip(self, age: float, wanted: tuple[int, int] | None) -> schema.Cores:
        found = self._map
        geometry, chip = found.geometry, found.chip
        beside = outside(chip.info.board, geometry)
        cores = [self._core(core) for core in found.cores]
        core = None if wanted is None else found.core(*wanted)
        detail = None if core is None else self.detail(core)
        return {
            "schema": SCHEMA,
            "chip": chip.id,
            "why": None if found.known else "no process has reported on this chip",
            "age_s": age,
            "basis": "live" if geometry.live else "table",
            "grid": {"x": geometry.grid_x, "y": geometry.grid_y},
            "dispatch": [{"x": x, "y": y} for x, y in beside.dispatch],
            "harvested": beside.harvested,
            "l1": {
                "size": geometry.l1_size,
                "map_end": geometry.map_end,
                "base": geometry.l1_base,
                "small_start": found.small_start,
            },
            "used": found.total_used,
            "max_core": found.max_core,
            "headroom_min": found.headroom_min,
            "floor": self._floor(),
            "overlaps": [[self._owner(allocation) for allocation in pair] for pair in found.overlaps],
            "unplaced": [
                {"why": why, "allocations": count, "bytes": found.unplaced_bytes[why]}
                for why, count in found.unplaced.items()
            ],
            "warnings": [*_warnings(found)],
            "programs": [self._program(program) for program in self._programs],
            "cores": cores,
            "core": detail,
        }

    def _floor(self) -> schema.FloorRow:
        """The floor; null if the address of some L1 buffer was not reported, because it may be the lowest."""
        found = self._map
        if not found.known or not found.floor_known:
            return {"address": None, "owner": None}
        return {"address": found.floor, "owner": None if found.holder is None else self._owner(found.holder)}

    def _core(self, core: Core) -> schema.CoreRow:
        if not self._map.known:
            return _unknown_core(core)
        worst = core.worst
        return {
            "x": core.x,
            "y": core.y,
            "used": core.used,
            "free": core.free,
            "unknown": core.unknown,
            "largest_free": core.largest_free,
            "overlap": core.overlap,
            "headroom": core.headroom,
            "end": core.end,
            "program": self._number(core.program),
            "worst": None if worst is None else {
                "program": self._number(worst.program), "end": worst.end, "headroom": worst.headroom,
            },
        }  # fmt: skip

    def _number(self, program: Program | None) -> int | None:
        return None if program is None else self._programs.setdefault(program, len(self._programs))

    def detail(self, core: Core) -> schema.CoreDetail:
        found = self._map
        listed = [*islice(segments(found, core), _MOST_SEGMENTS)] if found.known else []
        left_out = bool(listed) and listed[-1].end < found.geometry.l1_size
        return {
            "x": core.x,
            "y": core.y,
            "top": None if core.top is None else self._owner(core.top),
            "segments": [self._segment(segment, core) for segment in listed],
            "listed_to": listed[-1].end if left_out else None,
            "kernels": self._kernels(core),
        }

    def _segment(self, segment: Segment, core: Core) -> schema.SegmentRow:
        banks = self._map.geometry.cores
        return {
            "start": segment.start,
            "end": segment.end,
            "kind": segment.kind,
            "owners": [
                {**self._owner(allocation), "data": has_data(allocation, core, banks)}
                for allocation in segment.allocations
            ],
            "inside": [self._owner(allocation) for allocation in segment.inside],
        }

    def _kernels(self, core: Core) -> list[schema.KernelRow]:
        """Kernels of the program that ran last on the core: they are in the ring, at unknown addresses."""
        if core.program is None:
            return []
        bit = 1 << (core.y * ROW + core.x)
        here: Iterator[schema.KernelRow] = (
            {"tag": self._owner(part)["tag"], "size": part.size // part.extra.cores.bit_count()}
            for part in list(core.program.parts.values())  # in a thread: an event may change it meanwhile
            if part.kind in KERNEL_KINDS and part.extra is not None and part.extra.cores & bit
        )
        return [*islice(here, _MOST_KERNELS)]

    def _program(self, program: Program) -> schema.CoreProgram:
        process = program.holding.source.process.info
        return {
            "pid": process.pid or None,
            "name": process.name,
            "device": program.holding.number_on(self._map.chip),
            "program": program.ident,
            "metal_id": program.metal_id,
            "operation": program.tag if self._may_see(process.user_id) else None,
            "ring": program.ring,
        }

    def _owner(self, allocation: Allocation) -> schema.OwnerRow:
        process, extra = allocation.holding.source.process.info, allocation.extra
        program = allocation.holding.programs.get(allocation.program) if allocation.program else None
        sees = self._may_see(process.user_id)
        return {
            "pid": process.pid or None,
            "name": process.name,
            "kind": allocation.kind.label,
            "address": allocation.address,
            "size": allocation.size,
            "tag": extra.tag if extra is not None and sees else None,
            "program": allocation.program or None,
            "operation": program.tag if program is not None and sees else None,
            "allocator": extra.allocator if extra is not None else None,
            "source": allocation.holding.source.name,
        }


def _unknown_core(core: Core) -> schema.CoreRow:
    return {
        "x": core.x,
        "y": core.y,
        "used": None,
        "free": None,
        "unknown": None,
        "largest_free": None,
        "overlap": None,
        "headroom": None,
        "end": None,
        "program": None,
        "worst": None,
    }


def _warnings(found: L1Map) -> list[str]:
    """Sentences about states that should not occur."""
    out = []
    over = [core for core in found.cores if core.overlap]
    if over:
        most = max(core.overlap for core in over)
        out.append(
            f"live allocations overlap on {len(over)} cores, by up to {exact(most)} on one: "
            "the last write there overwrites the others"
        )
    small = found.small_start
    if small < found.geometry.l1_size:
        past = [core for core in found.cores if core.end is not None and core.end > small]
        if past:
            out.append(
                f"circular buffers reach into the region of L1_SMALL on {len(past)} cores, which ttnn does not check"
            )
    return out

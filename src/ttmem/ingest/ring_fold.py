# SPDX-License-Identifier: Apache-2.0
"""The agent's records as events of the account: meshes become chips, losses become a resync.

A reader starts with the oldest record the ring still has. If that is not the first, or if it falls a whole ring
behind, it takes the live table instead and counts what it missed: the state is exact again, its course is not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import CLOCK_MONOTONIC, clock_gettime, clock_gettime_ns

from ttmem.account.entities import Source
from ttmem.account.ledger import Ledger
from ttmem.account.size_extremes import Sizes
from ttmem.model.events import (
    Allocated,
    Audited,
    Described,
    DeviceClosed,
    DeviceOpened,
    Event,
    Extra,
    Failed,
    Freed,
    Lost,
    Mark,
    PhaseBegan,
    PhaseEnded,
    ProgramCompiled,
    ProgramDestroyed,
    ProgramRun,
    ResyncBegin,
    ResyncEnd,
    Sees,
    Uncertain,
)
from ttmem.model.kinds import KINDS, Kind
from ttmem.model.uncertain_reasons import REASONS
from ttmem.model.validation import MAX_BANKS, MAX_COUNT, check, check_reserved
from ttmem.wire.agent_ring import (
    BINARY,
    KEPT,
    NO_MESH_ID,
    PER_CORE,
    PROGRAM_FRAME,
    RAN,
    SHARED,
    WHOLESALE,
    Mesh,
    Ring,
    RingError,
    RingEvent,
    chip_info,
    geometry_of,
)

_ALLOCATED, _FREED, _RUN = int(RingEvent.ALLOCATED), int(RingEvent.FREED), int(RingEvent.RUN)
_PHASES = (int(RingEvent.PHASE_BEGAN), int(RingEvent.PHASE_ENDED))
_NAMED, _FAILED, _NOWHERE = int(RingEvent.NAMED), int(RingEvent.FAILED), 0xFFFF
_UNKNOWN_LAYOUT = 255
_IDENT_MASK = 0xFFFFFFFF  # a buffer is known by its slot of the table plus 1, by its address (0) if it has no slot
COUNTERS = ("unknown_frees", "earlier_frees", "replaced", "table_full", "blobs_full", "meshes_full", "failures")
_GONE = (0, 0)
_FIRST_PART, _DRAM, _L1, _L1_SMALL = int(Kind.CB), int(Kind.DRAM), int(Kind.L1), int(Kind.L1_SMALL)
_IN_L1 = (int(Kind.CB), int(Kind.DFB), int(Kind.SCRATCHPAD))
_MOST_EXTRAS = 50_000


class _Spot:
    """What is needed of a mesh for each record."""

    __slots__ = ("allocator", "banks", "numbers", "sizes")

    def __init__(self, mesh: Mesh, numbers: tuple[int, ...], sizes: Sizes | None) -> None:
        self.numbers = numbers  # Metal's, of its chips
        self.allocator = mesh.parent + 1
        self.banks = tuple(bank.banks for bank in mesh.banks)  # by buffer kind
        self.sizes = sizes


class RingFold:
    """Turns what one agent writes into events, in order. ``offset`` makes wall time of the agent's clock."""

    def __init__(self, ring: Ring, offset: float, closing: Callable[[], None] = lambda: None) -> None:
        self.ring = ring
        self.lost = 0
        self.records = 0
        self.width = 1  # chips of the widest mesh: how many events a record may become
        self.completeness: float | None = None  # the worst of all audits so far
        self._offset = offset
        self._newest = 0  # the agent's clock when it was last read; no record is younger
        self._closing = closing  # a device that got something since the last call is about to be closed
        self.fresh = False  # has anything been opened, allocated, or freed by the program since
        self.blind = False  # was a closing among what was lost: what was left then is not known
        self.wholesale: tuple[int, int] = (0, 0)  # tensors that only a closing freed, and their bytes
        self._ending: set[int] = set()  # meshes that are being closed
        self._spots: dict[int, _Spot] = {}
        self._open: dict[int, set[int]] = {}  # Metal's number -> meshes open there
        self._ran: dict[int, int] = {}  # Metal's number -> program launched last
        self._audits: dict[int, int] = {}  # mesh -> audits seen
        self._extras: dict[tuple[int, ...], Extra] = {}  # the same few are met over and over
        self._batch: list[tuple[int, ...]] = []
        self._counted = dict.fromkeys(REASONS, 0)  # what was reported of the agent's counters
        self._generation = 0
        self._greeted = False
        self.sizes: list[Sizes] | None = None  # of each allocator there ever was, for whoever wants them
        self._sizes: dict[int, Sizes] = {}  # by mesh, of those that are open

    def keep_sizes(self) -> None:
        """From the beginning: what came before is not in them."""
        self.sizes = []

    def events(self, limit: int) -> Iterator[tuple[float, Event]]:
        """The events of at most ``limit`` records. Apply each before asking for the next."""
        yield from self._begin(limit)
        for record in self._batch:
            yield from self._one(record)
        if len(self._batch) < limit:
            yield from self._audited()

    def fold(self, limit: int, ledger: Ledger, source: Source) -> None:
        """The same, straight into an account: nearly all records are buffers that come or go."""
        for time, event in self._begin(limit):
            ledger.apply(time, source, event)
        allocated, freed = ledger.allocated, ledger.freed
        offset, newest, spots, extras, kinds = self._offset, self._newest, self._spots, self._extras, KINDS
        for record in self._batch:
            (_, nanoseconds, happened, code, layout, flags, _, address, size, per_bank, slot, mesh, core_count, _,
             program, name) = record  # fmt: skip
            if program or (happened != _ALLOCATED and happened != _FREED):
                for time, event in self._one(record):
                    ledger.apply(time, source, event)
                continue
            spot = spots.get(mesh) or self._spot(mesh)
            if nanoseconds > newest:
                nanoseconds = newest
            time, kind, sizes = nanoseconds * 1e-9 + offset, kinds[code], spot.sizes
            ident = slot + 1 & _IDENT_MASK
            if happened == _ALLOCATED:
                self.fresh = True
                if sizes is not None:
                    if flags & PER_CORE:
                        self._size(sizes, record)
                    else:
                        sizes.took(code, address, per_bank, name)
                known = extras.get((mesh, code, layout, flags, per_bank, core_count, name))
                extra = known or self._extra(spot, record)
                for number in spot.numbers:
                    allocated(time, source, number, kind, address, size, 0, 0, extra, ident)
            else:
                if flags or not self.fresh:
                    self._freed(code, flags, size)
                if sizes is not None and not flags & PER_CORE:
                    sizes.gave_back(code, address)
                for number in spot.numbers:
                    freed(time, source, number, kind, address, size, 0, spot.allocator, 0, ident)
        if len(self._batch) < limit:
            for time, event in self._audited():
                ledger.apply(time, source, event)

    @property
    def behind(self) -> bool:
        """Is there more to read?"""
        return self.ring.head > self.ring.cursor

    # -- pieces --------------------------------------------------------------------------------------------------

    def _now(self) -> float:
        return clock_gettime(CLOCK_MONOTONIC) + self._offset

    def _time(self, nanoseconds: int) -> float:
        """Wall time of an agent's time, which is not later than the reading of it."""
        return min(nanoseconds, self._newest) * 1e-9 + self._offset

    def open_numbers(self) -> list[int]:
        """Metal's numbers of the chips that are open."""
        return [number for number, meshes in self._open.items() if meshes]

    def _spot(self, number: int) -> _Spot:
        mesh = self.ring.mesh(number)
        if mesh.state == 0:
            raise RingError(f"mesh {number} was never opened")
        if mesh.parent >= self.ring.mesh_count:
            raise RingError(f"mesh {number} is a submesh of mesh {mesh.parent}, which cannot be")
        if any(bank.banks > MAX_BANKS for bank in mesh.banks):
            raise RingError(f"mesh {number} has more than {MAX_BANKS} banks")
        numbers = tuple(chip.number for chip in self.ring.chips_of(mesh))
        self.width = max(self.width, len(numbers))
        sizes = self._sizes.get(mesh.parent)
        if sizes is not None and len(numbers) > len(sizes.numbers):
            sizes.numbers = numbers
        spot = self._spots[number] = _Spot(mesh, numbers, sizes)
        return spot

    def _begin(self, limit: int) -> Iterator[tuple[float, Event]]:
        """Reads the next batch; what has to be said before it."""
        if not self._greeted:
            self._greeted = True
            yield self._now(), Sees(self.ring.field("coverage"), self.ring.text("trouble") or None)
            if self.ring.head >= self.ring.slots:  # we come late: the beginning is gone
                yield from self._resync()
            self._generation = 1  # whatever comes now is a gap in what we follow
        before = self.ring.cursor
        lost, self._batch = self.ring.read(limit)
        if lost:
            self.ring.cursor = before
            yield from self._resync()
            _, self._batch = self.ring.read(limit)
        self._newest = clock_gettime_ns(CLOCK_MONOTONIC)
        self.records += len(self._batch)
        yield from self._uncertain()

    def _uncertain(self) -> Iterator[tuple[float, Event]]:
        """What the agent counted since the last look that makes its numbers uncertain."""
        for reason, count in self.ring.fields(*self._counted).items():
            new = min(count - self._counted[reason], MAX_COUNT)
            if new > 0:
                self._counted[reason] = count
                yield self._now(), Uncertain(reason, new)
                if reason == "table_full":  # live, but in no table: counted as lost
                    yield self._now(), Lost(new)
                    self.lost += new

    def counters(self) -> dict[str, int]:
        """What the agent itself found odd."""
        return self.ring.fields(*COUNTERS)

    def _one(self, record: tuple[int, ...]) -> Iterator[tuple[float, Event]]:
        """The events of one record: one for each chip."""
        (_, nanoseconds, happened, kind, _, flags, _, address, size, _, slot, mesh, _, cores, program, _) = record
        ident = 0 if program else slot + 1 & _IDENT_MASK
        time = self._time(nanoseconds)
        if happened in _PHASES:
            yield time, self._phase(record)
            return
        if happened == _FAILED:
            yield time, self._failed(record)
            return
        spot = self._spots.get(mesh) or self._spot(mesh)
        if spot.sizes is not None:
            self._size(spot.sizes, record)
        if happened == _ALLOCATED:
            self.fresh = True
            extra = self._extra(spot, record)
            for number in spot.numbers:
                yield time, Allocated(number, KINDS[kind], address, size, program, 0, extra, ident)
        elif happened == _FREED:
            if not program:
                self._freed(kind, flags, size)
            mask = self.ring.mask(cores) if program else 0
            allocator = 0 if program else spot.allocator
            for number in spot.numbers:
                yield time, Freed(number, KINDS[kind], address, size, program, allocator, mask, ident)
        elif happened == _NAMED:
            extra = self._extra(spot, record)
            for number in spot.numbers:
                yield time, Described(number, KINDS[kind], address, extra, ident)
        elif happened == _RUN:
            for number in spot.numbers:
                if self._ran.get(number) != program:
                    self._ran[number] = program
                    yield time, ProgramRun(number, program, self.ring.mask(cores))
        else:
            for rare in self._rare(record, spot):
                yield time, rare

    def _size(self, sizes: Sizes, record: tuple[int, ...]) -> None:
        """What the sizes have of a record that is no plain buffer, or of any where each event is looked at."""
        (_, _, happened, kind, _, flags, _, address, size, per_bank, _, mesh, _, _, program, name) = record
        if flags & PER_CORE and not program:
            chips = set(self._spots[mesh].numbers)
            for other in self._sizes.values():
                if chips.intersection(other.numbers):
                    other.took_per_core()
        elif happened == _ALLOCATED and program:
            if kind in _IN_L1 and not flags & SHARED:
                sizes.placed(program, address + per_bank)
        elif happened == _ALLOCATED:
            sizes.took(kind, address, per_bank, name)
        elif happened == _FREED and not program:
            sizes.gave_back(kind, address)
        elif happened == _RUN:
            sizes.ran(program)
        elif happened == RingEvent.PROGRAM:
            sizes.compiled(program, size, name)
        elif happened == RingEvent.DESTROYED:
            sizes.destroyed(program)

    def _phase(self, record: tuple[int, ...]) -> Event:
        """A mark of the workload itself, which belongs to no mesh."""
        ident, parent = record[7], record[8]
        if record[2] == RingEvent.PHASE_ENDED:
            return PhaseEnded(ident)
        return PhaseBegan(ident, self.ring.name(record[15]) or "", parent)

    def _failed(self, record: tuple[int, ...]) -> Event:
        cause = self.ring.cause(record[13])
        spot = None if record[11] == _NOWHERE else self._spots.get(record[11]) or self._spot(record[11])
        numbers = () if spot is None else spot.numbers
        text = self.ring.name(record[15]) or ""
        if spot is not None and spot.sizes is not None:
            spot.sizes.refused(text)
        return Failed(numbers[0] if numbers else None, text, cause.tag, cause.stack)

    def _freed(self, kind: int, flags: int, size: int) -> None:
        """A buffer went: by the program, or because its device is being closed."""
        if flags & WHOLESALE:
            # The others belong to the program cache: ttmem.analyze.hold_reasons.cause_of has the same rule.
            if kind != _L1_SMALL and not flags & (BINARY | KEPT):
                count, total = self.wholesale
                self.wholesale = count + 1, total + size
        elif not self._ending:
            self.fresh = True

    def _extra(self, spot: _Spot, record: tuple[int, ...]) -> Extra:
        """What is known of an allocation beside where it is; the same for many, so they share one."""
        (_, _, _, kind, layout, flags, _, _, _, per_bank, _, mesh, core_count, cores, _, name) = record
        tag, shape, stack = self.ring.cause(name)
        if kind >= _FIRST_PART:
            if tag is not None and "\t" in tag:  # a kernel: name, class, bytes of each binary
                tag = "{} ({}: {} B)".format(*tag.split("\t", 2))
            return Extra(None, self.ring.mask(cores), 0, tag, bool(flags & SHARED), stack=stack)
        known = None if layout == _UNKNOWN_LAYOUT else layout
        banks = core_count if flags & PER_CORE else spot.banks[kind]
        reserved = per_bank * banks
        check_reserved(reserved)
        extra = Extra(
            reserved,
            0,
            spot.allocator,
            tag,
            False,
            known,
            core_count,
            bool(flags & BINARY),
            False,
            shape,
            stack,
            bool(flags & KEPT),
            bool(flags & PER_CORE),
        )
        if len(self._extras) >= _MOST_EXTRAS:
            self._extras.clear()
        self._extras[mesh, kind, layout, flags, per_bank, core_count, name] = extra
        return extra

    def _rare(self, record: tuple[int, ...], spot: _Spot) -> Iterator[Event]:
        event, mesh, program = record[2], record[11], record[14]
        if event == RingEvent.OPENED:
            self.fresh = True
            yield from self._opened(mesh, record[8])
        elif event == RingEvent.CLOSING:
            self._ending.add(mesh)
            if self.fresh:
                self.fresh = False
                self._closing()
        elif event == RingEvent.CLOSED:
            yield from self._closed(mesh, spot)
        elif event == RingEvent.PROGRAM:
            cause = self.ring.cause(record[15])
            for number in spot.numbers:
                yield ProgramCompiled(number, program, record[8], record[7], cause.tag, cause.stack)
        elif event == RingEvent.DESTROYED:
            for number in spot.numbers:
                if self._ran.get(number) == program:
                    del self._ran[number]
                yield ProgramDestroyed(number, program)
        elif event == RingEvent.CACHE_CLEARED:
            yield Mark("program cache cleared")
        else:
            raise RingError(f"record {record[0]} says {event}, which means nothing")

    def _opened(self, number: int, before: int = 0) -> Iterator[Event]:
        """``before`` is what was in a bank already, and is not told."""
        self._forget(number)  # the number may have been another mesh's
        mesh = self.ring.mesh(number)
        geometry = geometry_of(mesh, self.ring.mask(mesh.cores))
        if self.sizes is not None and geometry is not None and number not in self._sizes:
            sizes = self._sizes[number] = Sizes(geometry, mesh.banks[_L1].unit, complete=not before)
            if mesh.mesh_id != NO_MESH_ID:
                sizes.has_bank(_DRAM, mesh.dram_base, mesh.banks[_DRAM].size)
                sizes.has_bank(_L1, mesh.l1_base, mesh.banks[_L1].size)
            self.sizes.append(sizes)
        for chip in self.ring.chips_of(mesh):
            self._open.setdefault(chip.number, set()).add(number)
            yield DeviceOpened(chip.number, chip_info(chip, geometry))

    def _forget(self, number: int) -> None:
        """What was remembered of a mesh and its submeshes."""
        gone = {index for index, spot in self._spots.items() if index == number or spot.allocator == number + 1}
        for index in gone:
            del self._spots[index]
        for key in [key for key in self._extras if key[0] in gone]:
            del self._extras[key]

    def _closed(self, number: int, spot: _Spot) -> Iterator[Event]:
        self._take_audit(number)  # the last one, made when it began to close
        self._audits.pop(number, None)
        self._ending.discard(number)
        self._forget(number)
        self._sizes.pop(number, None)
        for chip in spot.numbers:
            left = self._open.get(chip, set())
            left.discard(number)
            if left:
                yield Audited(chip, spot.allocator, _GONE, _GONE, _GONE, _GONE)
            else:
                yield DeviceClosed(chip)

    def _audited(self) -> Iterator[tuple[float, Event]]:
        for number in {mesh for meshes in self._open.values() for mesh in meshes}:
            mesh = self.ring.mesh(number)
            event = self._take_audit(number) if mesh.state == 1 else None
            if event is not None:
                for chip in (self._spots.get(number) or self._spot(number)).numbers:
                    yield self._time(mesh.audited), event._replace(device=chip)

    def _take_audit(self, number: int) -> Audited | None:
        """A mesh's last audit, if it is a new one."""
        mesh = self.ring.mesh(number)
        if mesh.turn & 1 or mesh.audits == self._audits.get(number, 0):
            return None  # what its writer is amid of, or was killed amid of, is not looked at
        self._audits[number] = mesh.audits
        event = _audit_of(mesh)
        check(event)
        both, either = event.agreement
        share = both / either if either else 1.0
        self.completeness = share if self.completeness is None else min(share, self.completeness)
        return event

    def _resync(self) -> Iterator[tuple[float, Event]]:
        """All that is live, instead of a history that is gone."""
        start = self.ring.cursor
        allocations = self.ring.live()
        missed = self.ring.cursor - start
        self._generation += 1
        self.lost += missed
        now = self._now()
        self._newest = clock_gettime_ns(CLOCK_MONOTONIC)
        yield now, Lost(min(missed, MAX_COUNT))
        yield now, ResyncBegin(self._generation)
        before, self._open = self._open, {}
        self._audits.clear()
        self._ran.clear()
        self._ending.clear()
        for number, mesh in enumerate(self.ring.meshes()):
            if mesh.state == 1 and mesh.parent == number:
                for event in self._opened(number):
                    yield now, event
        self.fresh = bool(allocations or self._open)
        for chip, meshes in before.items():
            for closed in meshes - self._open.get(chip, set()):
                self.blind = True
                yield now, Audited(chip, closed + 1, _GONE, _GONE, _GONE, _GONE)
        ran = []
        for record in allocations:
            spot = self._spots.get(record[11]) or self._spot(record[11])
            kind, program = record[3], record[14]
            time = self._time(record[1])
            if kind == PROGRAM_FRAME:
                cause = self.ring.cause(record[15])
                for number in spot.numbers:
                    yield time, ProgramCompiled(number, program, record[8], record[7], cause.tag, cause.stack)
                if record[5] & RAN:
                    ran.append((record[1], spot, program, record[13]))
                continue
            extra = self._extra(spot, record)
            for number in spot.numbers:
                ident = 0 if program else record[10] + 1 & _IDENT_MASK
                yield time, Allocated(number, KINDS[kind], record[7], record[8], program, 1, extra, ident)
        for nanoseconds, spot, program, cores in sorted(ran):
            for number in spot.numbers:
                self._ran[number] = program
                yield self._time(nanoseconds), ProgramRun(number, program, self.ring.mask(cores))
        yield now, ResyncEnd(self._generation)


def _audit_of(mesh: Mesh) -> Audited:
    dram, l1, _, small, trace = (mesh.banks[i] for i in range(5))
    return Audited(
        0,
        mesh.parent + 1,
        (dram.ours + trace.ours, l1.ours + small.ours),
        (dram.theirs + trace.theirs, l1.theirs + small.theirs),
        (dram.largest_free, l1.largest_free),
        (dram.banks, l1.banks),
        mesh.mismatches,
    )

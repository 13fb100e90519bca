# SPDX-License-Identifier: Apache-2.0
"""Turns the records of an agent's ring into events of the account: one for each chip of the record's mesh.

A reader starts with the first record. If that is overwritten already, or if the reader falls a whole ring behind, it
takes the table of live allocations instead and counts the records it missed. The account is then exact again, but its
history has a gap.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import CLOCK_MONOTONIC, clock_gettime, clock_gettime_ns
from typing import NamedTuple

from ttmem.account.entities import Source
from ttmem.account.ledger import Ledger
from ttmem.account.size_extremes import Sizes
from ttmem.ingest.ring_listener import NoListener, RingListener
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
    PER_CORE,
    PROGRAM_FRAME,
    RAN,
    SHARED,
    WHOLESALE,
    Mesh,
    Record,
    Ring,
    RingError,
    RingEvent,
    chip_info,
    geometry_of,
)

_ALLOCATED, _FREED, _RUN = int(RingEvent.ALLOCATED), int(RingEvent.FREED), int(RingEvent.RUN)
_NO_MESH, _UNKNOWN_LAYOUT = 0xFFFF, 255
_NO_LISTENER = NoListener()
_IDENT_MASK = 0xFFFFFFFF  # a buffer is known by its slot of the table plus 1, by its address (0) if it has no slot
COUNTERS = ("unknown_frees", "earlier_frees", "replaced", "table_full", "blobs_full", "meshes_full", "failures")
_GONE = (0, 0)
_FIRST_PART, _L1_SMALL = int(Kind.CB), int(Kind.L1_SMALL)
_IN_L1 = (int(Kind.CB), int(Kind.DFB), int(Kind.SCRATCHPAD))
_MOST_EXTRAS = 50_000
_MOST_LAUNCHES = 1024  # programs of one workload, each once for each of its chips; they share no chip as a rule


class _Frame(NamedTuple):
    """A live program."""

    program: int
    workload: int
    mesh: int
    cores: int  # blob


class _MeshView:
    """What each record of a mesh needs to know of it."""

    __slots__ = ("allocator", "banks", "numbers", "sizes")

    def __init__(self, mesh: Mesh, numbers: tuple[int, ...], sizes: Sizes | None) -> None:
        self.numbers = numbers  # Metal's, of its chips
        self.allocator = mesh.parent + 1
        self.banks = tuple(bank.banks for bank in mesh.banks)  # by buffer kind
        self.sizes = sizes


class RingFold:
    """Turns what one agent writes into events, in order. ``offset`` added to the agent's clock gives wall time."""

    def __init__(self, ring: Ring, offset: float, listener: RingListener = _NO_LISTENER) -> None:
        self.ring = ring
        self.lost = 0
        self.records = 0
        self.width = 1  # chips of the widest mesh: how many events a record may become
        self.completeness: float | None = None  # the worst of all audits so far
        self._offset = offset
        self._newest = 0  # the agent's clock when it was last read; no record is younger
        self._listener = listener
        self._used = False  # was anything opened, allocated, or freed by the program since the last closing
        self._ending: set[int] = set()  # meshes that are being closed
        self._views: dict[int, _MeshView] = {}
        self._open: dict[int, set[int]] = {}  # Metal's number -> meshes open there
        self._ran: dict[int, int] = {}  # Metal's number -> program launched last
        self._frames: dict[int, _Frame] = {}  # of live programs, by slot of the table
        self._workloads: dict[int, dict[int, _Frame]] = {}  # number -> the frames of its programs, by slot
        self._audits: dict[int, int] = {}  # mesh -> audits seen
        self._extras: dict[tuple[int, ...], Extra] = {}  # buffers share them: the same few occur again and again
        self._batch: list[tuple[int, ...]] = []
        self._counted = dict.fromkeys(REASONS, 0)  # the agent's counters as far as they were reported
        self._generation = 0
        self._greeted = False
        self._sizes: dict[int, Sizes] = {}  # by mesh, of those that are open and of which the listener wants them

    def events(self, limit: int) -> Iterator[tuple[float, Event]]:
        """The events of at most ``limit`` records. Apply each before asking for the next."""
        return self._read(limit, None, None)

    def fold(self, limit: int, ledger: Ledger, source: Source) -> None:
        """Apply the same to an account, without making an event of each buffer that is allocated or freed."""
        for time, event in self._read(limit, ledger, source):
            ledger.apply(time, source, event)

    def _read(self, limit: int, ledger: Ledger | None, source: Source | None) -> Iterator[tuple[float, Event]]:
        """The one place where records are unpacked. This is the hot path: nearly all records are buffers.

        With a ledger, what is allocated or freed is applied to it at its place in the order, and is no event.
        """
        yield from self._begin(limit)
        allocated: Callable[..., object] | None = None
        freed: Callable[..., object] | None = None
        if ledger is not None:
            allocated, freed = ledger.allocated, ledger.freed
        offset, newest, views, extras, kinds = self._offset, self._newest, self._views, self._extras, KINDS
        for record in self._batch:
            (_, nanoseconds, happened, code, layout, flags, _, address, size, per_bank, slot, mesh, core_count, cores,
             program, name) = record  # fmt: skip
            if nanoseconds > newest:
                nanoseconds = newest
            time = nanoseconds * 1e-9 + offset
            if happened == _ALLOCATED:
                view = views[mesh] if mesh in views else self._view(mesh)
                sizes, kind = view.sizes, kinds[code]
                self._used = True
                known = extras.get((mesh, code, layout, flags, per_bank, core_count, name))
                extra = known or self._extra(view, Record._make(record))
                if program:
                    ident = 0
                    if sizes is not None and code in _IN_L1 and not flags & SHARED:
                        sizes.placed(program, address + per_bank)
                else:
                    ident = slot + 1 & _IDENT_MASK
                    if sizes is not None:
                        if flags & PER_CORE:
                            self._took_per_core(view)
                        else:
                            sizes.took(code, address, per_bank, name)
                if allocated is not None:
                    for number in view.numbers:
                        allocated(time, source, number, kind, address, size, program, 0, extra, ident)
                else:
                    for number in view.numbers:
                        yield time, Allocated(number, kind, address, size, program, 0, extra, ident)
            elif happened == _FREED:
                view = views[mesh] if mesh in views else self._view(mesh)
                sizes, kind = view.sizes, kinds[code]
                if program:
                    ident, allocator, mask = 0, 0, self.ring.mask(cores)
                else:
                    ident, allocator, mask = slot + 1 & _IDENT_MASK, view.allocator, 0
                    if flags or not self._used:
                        self._freed(code, flags, size)
                    if sizes is not None and not flags & PER_CORE:
                        sizes.gave_back(code, address)
                if freed is not None:
                    for number in view.numbers:
                        freed(time, source, number, kind, address, size, program, allocator, mask, ident)
                else:
                    for number in view.numbers:
                        yield time, Freed(number, kind, address, size, program, allocator, mask, ident)
            elif happened == _RUN:
                for event in self._launched(per_bank):
                    yield time, event
            else:
                for event in self._rare(Record._make(record)):
                    yield time, event
        if len(self._batch) < limit:
            yield from self._audited()

    @property
    def behind(self) -> bool:
        """Is there more to read?"""
        return self.ring.head > self.ring.cursor

    def end(self) -> None:
        """The last record was read: what is still open was never closed."""
        self._close_if_used()

    # -- pieces --------------------------------------------------------------------------------------------------

    def _now(self) -> float:
        return clock_gettime(CLOCK_MONOTONIC) + self._offset

    def _time(self, nanoseconds: int) -> float:
        """Wall time of an agent's time, which is not later than the reading of it."""
        return min(nanoseconds, self._newest) * 1e-9 + self._offset

    def open_numbers(self) -> list[int]:
        """Metal's numbers of the chips that are open."""
        return [number for number, meshes in self._open.items() if meshes]

    def _close_if_used(self) -> None:
        if self._used:
            self._used = False
            self._listener.closing()

    def _view_of(self, number: int) -> _MeshView:
        return self._views.get(number) or self._view(number)

    def _view(self, number: int) -> _MeshView:
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
        view = self._views[number] = _MeshView(mesh, numbers, sizes)
        return view

    def _begin(self, limit: int) -> Iterator[tuple[float, Event]]:
        """Read the next batch. Gives the events that come before those of its records."""
        if not self._greeted:
            self._greeted = True
            yield self._now(), Sees(self.ring.field("coverage"), self.ring.text("trouble") or None)
            if self.ring.head >= self.ring.slots:  # the first records are overwritten already
                yield from self._resync()
            self._generation = 1  # a later resync is because of a gap in what was followed
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
                    self._lose(new)

    def counters(self) -> dict[str, int]:
        """What the agent itself found odd."""
        return self.ring.fields(*COUNTERS)

    def _lose(self, records: int) -> None:
        self.lost += records
        if records:
            self._listener.lost_records()

    def _took_per_core(self, view: _MeshView) -> None:
        """A buffer has an address of its own on each core: no allocator of these chips has the same free L1 on all."""
        chips = set(view.numbers)
        for sizes in self._sizes.values():
            if chips.intersection(sizes.numbers):
                sizes.took_per_core()

    def _failed(self, record: Record) -> Event:
        cause = self.ring.cause(record.cores)
        view = None if record.mesh == _NO_MESH else self._view_of(record.mesh)
        numbers = () if view is None else view.numbers
        text = self.ring.name(record.name) or ""
        if view is not None and view.sizes is not None:
            view.sizes.refused(text)
        return Failed(numbers[0] if numbers else None, text, cause.tag, cause.stack)

    def _freed(self, kind: int, flags: int, size: int) -> None:
        """A buffer was freed by the program, or because its device is being closed."""
        if flags & WHOLESALE:
            # The others belong to the program cache: ttmem.analyze.hold_reasons.cause_of has the same rule.
            if kind != _L1_SMALL and not flags & (BINARY | KEPT):
                self._listener.freed_by_close(size)
        elif not self._ending:
            self._used = True

    def _extra(self, view: _MeshView, record: Record) -> Extra:
        """What is known of an allocation beside where it is. Buffers of which the same is known share one."""
        flags = record.flags
        tag, shape, stack = self.ring.cause(record.name)
        if record.kind >= _FIRST_PART:
            if tag is not None and "\t" in tag:  # a kernel: name, class, bytes of each binary
                tag = "{} ({}: {} B)".format(*tag.split("\t", 2))
            return Extra(None, self.ring.mask(record.cores), 0, tag, bool(flags & SHARED), stack=stack)
        reserved = record.per_bank * (record.core_count if flags & PER_CORE else view.banks[record.kind])
        check_reserved(reserved)
        extra = Extra(
            reserved,
            allocator=view.allocator,
            tag=tag,
            layout=None if record.layout == _UNKNOWN_LAYOUT else record.layout,
            core_count=record.core_count,
            binary=bool(flags & BINARY),
            shape=shape,
            stack=stack,
            kept=bool(flags & KEPT),
            per_core=bool(flags & PER_CORE),
        )
        if len(self._extras) >= _MOST_EXTRAS:
            self._extras.clear()
        key = record.mesh, record.kind, record.layout, flags, record.per_bank, record.core_count, record.name
        self._extras[key] = extra
        return extra

    def _rare(self, record: Record) -> Iterator[Event]:
        """The events of a record that is no buffer, part or launch."""
        event, mesh, program = record.event, record.mesh, record.program
        if event == RingEvent.PHASE_BEGAN:  # phases belong to no mesh
            yield PhaseBegan(record.address, self.ring.name(record.name) or "", record.size)
            return
        if event == RingEvent.PHASE_ENDED:
            yield PhaseEnded(record.address)
            return
        if event == RingEvent.FAILED:
            yield self._failed(record)
            return
        view = self._view_of(mesh)
        sizes = view.sizes
        if event == RingEvent.NAMED:
            if sizes is not None and record.flags & PER_CORE and not program:
                self._took_per_core(view)
            extra = self._extra(view, record)
            ident = 0 if program else record.slot + 1 & _IDENT_MASK
            for number in view.numbers:
                yield Described(number, KINDS[record.kind], record.address, extra, ident)
        elif event == RingEvent.OPENED:
            yield from self._opened(mesh, record.size)
        elif event == RingEvent.CLOSING:
            self._ending.add(mesh)
            self._close_if_used()
        elif event == RingEvent.CLOSED:
            yield from self._closed(mesh, view)
        elif event == RingEvent.PROGRAM:
            if sizes is not None:
                sizes.compiled(program, record.size, record.name)
            self._keep_frame(record)
            yield from self._compiled(view, record)
        elif event == RingEvent.DESTROYED:
            if sizes is not None:
                sizes.destroyed(program)
            self._drop_frame(record.slot)
            for number in view.numbers:
                if self._ran.get(number) == program:
                    del self._ran[number]
                yield ProgramDestroyed(number, program)
        elif event == RingEvent.CACHE_CLEARED:
            yield Mark("program cache cleared")
        else:
            raise RingError(f"record {record.sequence} says {event}, which means nothing")

    def _keep_frame(self, record: Record) -> None:
        """A program is there, or something about it has changed."""
        self._drop_frame(record.slot)
        if record.slot < self.ring.table_slots:  # one that the table has no room for is never reported as launched
            frame = _Frame(record.program, record.per_bank, record.mesh, record.cores)
            self._frames[record.slot] = frame
            self._workloads.setdefault(frame.workload, {})[record.slot] = frame

    def _drop_frame(self, slot: int) -> None:
        frame = self._frames.pop(slot, None)
        if frame is not None:
            others = self._workloads[frame.workload]
            del others[slot]
            if not others:
                del self._workloads[frame.workload]

    def _launched(self, workload: int) -> Iterator[Event]:
        """All programs of a workload were launched, each on its own chips and cores."""
        launches = 0
        for frame in list(self._workloads.get(workload, {}).values()):
            view = self._view_of(frame.mesh)
            launches += len(view.numbers)
            if launches > _MOST_LAUNCHES:
                raise RingError(f"workload {workload} has more than {_MOST_LAUNCHES} programs")
            if view.sizes is not None:
                view.sizes.ran(frame.program)
            for number in view.numbers:
                if self._ran.get(number) != frame.program:
                    self._ran[number] = frame.program
                    yield ProgramRun(number, frame.program, self.ring.mask(frame.cores))

    def _compiled(self, view: _MeshView, record: Record) -> Iterator[Event]:
        cause = self.ring.cause(record.name)
        for number in view.numbers:
            yield ProgramCompiled(number, record.program, record.size, record.address, cause.tag, cause.stack)

    def _opened(self, number: int, before: int = 0) -> Iterator[Event]:
        """``before`` is the bytes in its banks that were there before the agent could see them."""
        self._forget(number)  # the number may have been another mesh's
        mesh = self.ring.mesh(number)
        if mesh.parent != number:
            return  # a submesh: its chips are open already
        self._used = True
        geometry = geometry_of(mesh, self.ring.mask(mesh.cores))
        if geometry is not None and number not in self._sizes:
            sizes = self._listener.opened(mesh, geometry, before)
            if sizes is not None:
                self._sizes[number] = sizes
        for chip in self.ring.chips_of(mesh):
            self._open.setdefault(chip.number, set()).add(number)
            yield DeviceOpened(chip.number, chip_info(chip, geometry))

    def _forget(self, number: int) -> None:
        """What was remembered of a mesh and its submeshes."""
        gone = {index for index, view in self._views.items() if index == number or view.allocator == number + 1}
        for index in gone:
            del self._views[index]
        for key in [key for key in self._extras if key[0] in gone]:
            del self._extras[key]

    def _closed(self, number: int, view: _MeshView) -> Iterator[Event]:
        self._take_audit(number)  # the last one, made when it began to close
        self._audits.pop(number, None)
        self._ending.discard(number)
        self._forget(number)
        self._sizes.pop(number, None)
        for chip in view.numbers:
            left = self._open.get(chip, set())
            left.discard(number)
            if left:
                yield Audited(chip, view.allocator, _GONE, _GONE, _GONE, _GONE)
            else:
                yield DeviceClosed(chip)

    def _audited(self) -> Iterator[tuple[float, Event]]:
        for number in {mesh for meshes in self._open.values() for mesh in meshes}:
            mesh = self.ring.mesh(number)
            event = self._take_audit(number) if mesh.state == 1 else None
            if event is not None:
                for chip in self._view_of(number).numbers:
                    yield self._time(mesh.audited), event._replace(device=chip)

    def _take_audit(self, number: int) -> Audited | None:
        """A mesh's last audit, if it is a new one."""
        mesh = self.ring.mesh(number)
        if mesh.turn & 1 or mesh.audits == self._audits.get(number, 0):
            return None  # its writer is changing it now, or was killed while it did
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
        allocations = [Record._make(record) for record in self.ring.live()]
        missed = self.ring.cursor - start
        self._generation += 1
        self._lose(missed)
        now = self._now()
        self._newest = clock_gettime_ns(CLOCK_MONOTONIC)
        yield now, Lost(min(missed, MAX_COUNT))
        yield now, ResyncBegin(self._generation)
        before, self._open = self._open, {}
        self._audits.clear()
        self._ran.clear()
        self._ending.clear()
        self._views.clear()  # a number may be another mesh's by now
        self._extras.clear()
        for number, mesh in enumerate(self.ring.meshes()):
            if mesh.state == 1 and mesh.parent == number:
                for event in self._opened(number):
                    yield now, event
        self._used = bool(allocations or self._open)
        for chip, meshes in before.items():
            for closed in meshes - self._open.get(chip, set()):
                self._listener.lost_close()
                yield now, Audited(chip, closed + 1, _GONE, _GONE, _GONE, _GONE)
        launched: dict[int, int] = {}  # workload -> when it was launched last
        self._frames.clear()
        self._workloads.clear()
        for record in allocations:
            view = self._view_of(record.mesh)
            time = self._time(record.time)
            if record.kind == PROGRAM_FRAME:
                for event in self._compiled(view, record):
                    yield time, event
                self._keep_frame(record)
                if record.flags & RAN:
                    launched[record.per_bank] = max(record.time, launched.get(record.per_bank, 0))
                continue
            kind, program = KINDS[record.kind], record.program
            extra = self._extra(view, record)
            ident = 0 if program else record.slot + 1 & _IDENT_MASK
            for number in view.numbers:
                yield time, Allocated(number, kind, record.address, record.size, program, 1, extra, ident)
        for workload in sorted(launched, key=launched.__getitem__):
            for event in self._launched(workload):
                yield self._time(launched[workload]), event
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

# SPDX-License-Identifier: Apache-2.0
"""The ledger: applies events, keeps totals equal to the sum of live things, and answers questions.

It has no clock and does no I/O: whoever feeds it says when and for whom. docs/accounting.md explains each rule
with an example; the rule numbers in comments are those of that page.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from ttmem.account import views
from ttmem.account.chips import Chips
from ttmem.account.events import (
    MAX_SIZE,
    Allocated,
    Audited,
    ChipFound,
    Claimed,
    Described,
    DeviceClosed,
    DeviceOpened,
    Event,
    Extra,
    Failed,
    Freed,
    Lost,
    Mark,
    PeaksReset,
    PhaseBegan,
    PhaseEnded,
    ProcessExited,
    ProgramCompiled,
    ProgramDestroyed,
    ProgramRun,
    Rejected,
    ResyncBegin,
    ResyncEnd,
    Sees,
    Viewed,
)
from ttmem.account.geometry import noc_limits, region_at
from ttmem.account.graves import Graveyard
from ttmem.account.grid import split_core_id
from ttmem.account.identity import ChipInfo, ProcessInfo, assumed_uid
from ttmem.account.kinds import FAMILY_OF, Confidence, Kind
from ttmem.account.matching import SPACE_OF, find_elsewhere, match
from ttmem.account.parties import Chip, Process, Source
from ttmem.account.things import Holding, Part, PartKey, Program, Thing
from ttmem.account.totals import NOT_YET, Total, WholeTotal
from ttmem.account.voices import new_leaf, rehome


class Limits(NamedTuple):
    """Caps on everything that can grow (rule 15). What goes over one is counted, not kept."""

    things_per_process: int = 4_000_000
    programs_per_process: int = 250_000  # that are compiled or ran
    devices_per_process: int = 1024
    chips: int = 4096  # above half of that, chips that are not in the machine and nobody means are forgotten
    departed: int = 64
    buried_things: int = 10_000
    claimed_pids: int = 16
    marks: int = 1000
    audits: int = 256  # allocators of one process on one chip
    views: int = 1024  # the same, of each kind
    open_phases: int = 64  # of one process, as are these
    phase_paths: int = 256
    phase_rows: int = 20_000
    size: int = MAX_SIZE


_KERNEL = int(Kind.KERNEL)
_L1 = Kind.L1
_FIRST_PART, _FIRMWARE = Kind.CB, Kind.FIRMWARE
_NOWHERE = Chip(ChipInfo("nowhere"))  # where things are that were never allocated


class Ledger:
    """Who holds what.

    >>> ledger = Ledger()
    >>> source = ledger.source(0.0, ProcessInfo(pid=42, start=7), "legacy", Confidence.REPORTED)
    >>> _ = ledger.apply(0.0, source, Allocated(0, Kind.DRAM, 0x1000, 4096))
    >>> ledger.chips["assumed:0"].kinds[Kind.DRAM].used
    4096
    """

    def __init__(self, limits: Limits = Limits(), whole: WholeTotal | None = None) -> None:
        """``whole`` is a total of the caller's in which the buffers of all chips are to count."""
        self.limits = limits
        self._max_size = limits.size
        self._max_things = limits.things_per_process
        self.seq = 0
        self.chips = Chips(limits.chips, whole)
        self.processes: dict[tuple[int, int | None, int], Process] = {}
        self.departed: deque[Process] = deque()
        self.anomalies: Counter[str] = Counter()
        self.marks: deque[tuple[float, str]] = deque(maxlen=limits.marks)
        self.peaks_since: float | None = None
        self.failing: Callable[[float, Process, Failed], None] = lambda *_: None  # for whoever wants to look then
        self._graves = Graveyard(limits.buried_things)
        self._handlers: dict[type, Callable[[float, Any, Any], Thing | None]] = {
            Described: self._described,
            Failed: self._failed,
            ProgramRun: self._program_run,
            ProgramCompiled: self._program_compiled,
            ProgramDestroyed: self._program_destroyed,
            DeviceOpened: self._device_opened,
            DeviceClosed: self._device_closed,
            ChipFound: self._chip_found,
            ResyncBegin: self._resync_begin,
            ResyncEnd: self._resync_end,
            Lost: self._lost,
            Sees: self._sees,
            Audited: self._audited,
            Rejected: self._rejected,
            Claimed: self._claimed,
            Mark: self._mark,
            PhaseBegan: self._phase_began,
            PhaseEnded: self._phase_ended,
            Viewed: self._viewed,
            ProcessExited: self._process_exited,
            PeaksReset: self._peaks_reset,
        }

    def source(self, time: float, info: ProcessInfo, name: str, confidence: Confidence) -> Source:
        """The source of that name of that process, made on first use."""
        process = self.processes.get(info.key)
        if process is None:  # who has exited does not come back: a late connection of theirs finds them dead
            process = next((dead for dead in reversed(self.departed) if dead.info.key == info.key), None)
        if process is None:
            process = self.processes[info.key] = Process(info, time)
        source = process.sources.get(name)
        if source is None:
            source = process.sources[name] = Source(process, name, confidence)
        return source

    def apply(self, time: float, source: Source | None, event: Event) -> Thing | None:
        """Fold one event in. Returns the thing it was about, None if it changed nothing.

        Events about the machine, not a process, have no source.
        """
        if type(event) is Allocated:
            return self.allocated(time, source, *event)  # type: ignore[arg-type]
        if type(event) is Freed:
            return self.freed(time, source, *event)  # type: ignore[arg-type]
        self.seq += 1
        if source is not None and source.process.exited is not None:
            return self._anomaly(source.process, "posthumous")
        return self._handlers[type(event)](time, source, event)

    # -- things come ---------------------------------------------------------------------------------------------

    def allocated(
        self,
        time: float,
        source: Source,
        device: int,
        kind: Kind,
        address: int,
        size: int,
        program: int = 0,
        refs: int = 0,
        extra: Extra | None = None,
    ) -> Thing | None:
        """The same as applying an ``Allocated``, without making one: nearly all events are this or ``freed``."""
        self.seq += 1
        process = source.process
        if process.exited is not None:
            return self._anomaly(process, "posthumous")
        if not 0 < size <= self._max_size:
            return self._anomaly(process, "rejected")
        holding = source.holdings.get(device) or self._holding(source, device)
        if holding is None:
            return self._anomaly(process, "rejected")
        if kind >= _FIRST_PART and kind != _FIRMWARE:
            return self._part_allocated(time, holding, kind, address, size, program, refs, extra)
        if kind == _L1 and address > 0xFFFFFFFF:
            kind = self._kind_of_core_write(holding, address)
        key = (address << 2 if extra is None else (extra.allocator << 66) | (address << 2)) | SPACE_OF[kind]
        if not address:  # virtual allocations of a graph capture: each its own thing
            key = -self.seq
        thing = holding.buffers.get(key)
        if thing is not None:
            if thing.size == size and thing.kind == kind and not (refs and thing.extra != extra):
                thing.refs = refs or thing.refs + 1  # rule 4
                if source.generation is not None:
                    source.confirmed.add(thing)
                return thing
            self._remove(holding, thing)
            del holding.buffers[key]  # the new one is the youngest in the table, too
            if not refs:
                self._anomaly(process, "replaced")
        elif process.count >= self._max_things:
            return self._anomaly(process, "dropped")
        elif not address:
            holding.unplaced.append(key)
        if (
            not refs
            and source.generation is None
            and (extra is None or (extra.reserved is not None and not extra.shared))
        ):
            # What _place does, for nearly every event.
            thing = holding.buffers[key] = Thing(holding, kind, address, size, self.seq, time, extra)
            leaf = holding.leaves[kind] or new_leaf(holding, kind, self.seq, time)
            if extra is None:
                leaf.add(size, self.seq, time)
            else:
                leaf.add_taken(size, extra.reserved, self.seq, time)  # type: ignore[arg-type]
            process.count += 1
            return thing
        thing = self._place(holding, kind, address, size, time, refs, extra)
        holding.buffers[key] = thing
        return thing

    def _part_allocated(
        self,
        time: float,
        holding: Holding,
        kind: Kind,
        address: int,
        size: int,
        ident: int,
        refs: int,
        extra: Extra | None,
    ) -> Thing | None:
        """Circular and dataflow buffers, scratchpads and kernels belong to a program."""
        source = holding.source
        program = holding.programs.get(ident)
        key: PartKey = (FAMILY_OF[kind], address, extra.cores if extra is not None else 0)
        if key[0] == _KERNEL:  # loaded twice is one load (rule 7)
            refs = min(refs, 1)
        thing = program.parts.get(key) if program is not None else None
        if thing is not None:
            if thing.size == size and thing.kind == kind and not (refs and thing.extra != extra):
                if key[0] != _KERNEL:
                    thing.refs = refs or thing.refs + 1
                if source.generation is not None:
                    source.confirmed.add(thing)
                return thing
            self._remove(holding, thing)
            if not refs:
                self._anomaly(source.process, "replaced")
        elif source.process.count >= self._max_things:
            return self._anomaly(source.process, "dropped")
        if program is None:
            program = holding.programs[ident] = Program(ident, holding)
        thing = self._place(holding, kind, address, size, time, refs, extra, program)
        program.parts[key] = thing
        return thing

    def _place(
        self,
        holding: Holding,
        kind: Kind,
        address: int,
        size: int,
        time: float,
        refs: int,
        extra: Extra | None,
        program: Program | None = None,
    ) -> Thing:
        """Make a thing and count it, unless its source is telling anew what it holds; the caller files it."""
        if program is None:
            thing = Thing(holding, kind, address, size, self.seq, time, extra)
        else:
            thing = Part(holding, kind, address, size, self.seq, time, extra)
            thing.program, thing.origin = program.ident, program.origin
        leaf = holding.leaves[kind] or new_leaf(holding, kind, self.seq, time)
        source = holding.source
        source.process.count += 1
        if refs:
            thing.refs = refs
        taken = thing.taken
        if source.generation is not None:
            thing.born = NOT_YET
            source.confirmed.add(thing)
        elif taken is None:
            leaf.add(thing.counted, self.seq, time)
        else:
            leaf.add_taken(thing.counted, taken, self.seq, time)
        return thing

    def _count_arrivals(self, holding: Holding, time: float) -> None:
        """What a resync brought counts from now on, all of a kind at once."""
        new = [Total() for _ in Kind]
        for thing in holding.things():
            if thing.born == NOT_YET:
                thing.born = self.seq
                total = new[thing.kind]
                total.count += 1
                if thing.extra is None:
                    total.used += thing.size
                    continue
                total.used += thing.counted
                taken = thing.taken
                if taken is not None:
                    total.reserved += taken
                    total.known += 1
        for leaf, arrived in zip(holding.leaves, new):
            if leaf is not None and arrived.count:
                for total in leaf.chain:
                    total.merge(arrived)
                    if total.used > total.high:
                        total.rise(total.used, self.seq, time)

    def _kind_of_core_write(self, holding: Holding, ident: int) -> Kind:
        """A per-core write is what its address says: firmware, kernel, or data (rule 10)."""
        geometry = holding.chip.geometry
        place = split_core_id(ident, *noc_limits(geometry))
        return _L1 if place is None else region_at(geometry, place.address).kind

    def _described(self, time: float, source: Source, event: Described) -> Thing | None:
        """A buffer is what it was, and more is known of it."""
        holding = source.holdings.get(event.device)
        key = (event.extra.allocator << 66) | (event.address << 2) | SPACE_OF[event.kind]
        thing = None if holding is None else holding.buffers.get(key)
        if thing is None or thing.extra is None or thing.extra.reserved != event.extra.reserved:
            return None  # freed meanwhile, or among what was lost
        thing.extra = event.extra
        return thing

    def _failed(self, time: float, source: Source, event: Failed) -> None:
        """The runtime could not have what it asked for; why is for others to say."""
        source.process.failures.append((time, event))
        self.failing(time, source.process, event)

    # -- things go -----------------------------------------------------------------------------------------------

    def freed(
        self,
        time: float,
        source: Source,
        device: int,
        kind: Kind | None,
        address: int,
        size: int = 0,
        program: int = 0,
        allocator: int = 0,
        cores: int = 0,
    ) -> Thing | None:
        """The same as applying a ``Freed``, without making one."""
        self.seq += 1
        if source.process.exited is not None:
            return self._anomaly(source.process, "posthumous")
        if device < 0:
            return self._anomaly(source.process, "rejected")
        holding = source.holdings.get(device) or Holding(source, device, _NOWHERE)  # a free alone makes no chip
        if kind is not None and kind >= _FIRST_PART and kind != _FIRMWARE:
            return self._part_freed(holding, kind, address, program, cores)
        if device:
            source.frees_elsewhere = True
        buffers = holding.buffers
        if source.kindless:
            key = address << 2
            if key not in buffers or (key | 1) in buffers or (key | 2) in buffers:  # not simply one in DRAM
                key, certain = match(holding, kind, address, size)
                if not certain:
                    self._anomaly(source.process, "ambiguous")
        else:
            key = (allocator << 66) | (address << 2) | SPACE_OF[kind or 0]
        thing = buffers.get(key)
        if thing is None:
            found, odd = find_elsewhere(holding, kind, address, size, allocator)
            if odd is not None:
                self._anomaly(source.process, odd)
            if found is None:
                return None
            holding, key = found
            thing = holding.buffers[key]
        if thing.refs > 1:
            thing.refs -= 1
            return thing
        del holding.buffers[key]
        if not address:
            holding.unplaced.remove(key)
        thing.refs = 0
        leaf = holding.leaves[thing.kind]
        extra = thing.extra
        if leaf is None or thing.born == NOT_YET:
            self._remove(holding, thing)
        elif extra is None:  # what _remove does, for nearly every event
            leaf.remove(thing, thing.size)
            source.process.count -= 1
        elif extra.reserved is not None and not extra.shared:
            leaf.remove_taken(thing, thing.size, extra.reserved)
            source.process.count -= 1
        else:
            self._remove(holding, thing)
        freed = holding.freed
        freed.add(address)
        if len(freed) >= holding.REMEMBERED:
            holding.forget_older_frees()
        return thing

    def _part_freed(self, holding: Holding, kind: Kind, address: int, ident: int, cores: int) -> Thing | None:
        key: PartKey = (FAMILY_OF[kind], address, cores)
        program = holding.programs.get(ident)
        thing = program.parts.get(key) if program is not None else None
        if program is None or thing is None:
            known = holding.just_freed((ident, key))
            return self._anomaly(holding.source.process, "double_free" if known else "unknown_free")
        if thing.refs > 1:
            thing.refs -= 1
            return thing
        del program.parts[key]
        if not program.parts and program.metal_id is None:  # a compiled one exists until it is destroyed
            self._forget_program(holding, program)
        thing.refs = 0
        self._remove(holding, thing)
        holding.freed.add((ident, key))
        if len(holding.freed) >= holding.REMEMBERED:
            holding.forget_older_frees()
        return thing

    def _remove(self, holding: Holding, thing: Thing) -> None:
        """Stop counting a thing, with the size it was counted with (rules 6, 7); the caller unfiles it."""
        leaf = holding.leaves[thing.kind]
        assert leaf is not None
        holding.source.process.count -= 1
        if thing.born == NOT_YET:
            return
        taken = thing.taken
        if taken is None:
            leaf.remove(thing, thing.counted)
        else:
            leaf.remove_taken(thing, thing.counted, taken)

    def thin_graves(self, limit: int) -> bool:
        """Give back the memory of at most ``limit`` buried things beyond the cap; True if there is more to do."""
        return self._graves.thin(limit)

    # -- programs ------------------------------------------------------------------------------------------------

    def _program_run(self, time: float, source: Source, event: ProgramRun) -> None:
        holding = source.holdings.get(event.device) or self._holding(source, event.device)
        if holding is None:
            self._anomaly(source.process, "rejected")
            return
        holding.chip.run(self._program(holding, event.program), event.cores)

    def _program_compiled(self, time: float, source: Source, event: ProgramCompiled) -> None:
        holding = source.holdings.get(event.device) or self._holding(source, event.device)
        if holding is None:
            self._anomaly(source.process, "rejected")
            return
        program = self._program(holding, event.program)
        if source.generation is not None and program not in source.confirmed_programs:
            program.forget()  # another one may have taken its number while nobody looked
            source.confirmed_programs.add(program)
        program.ring, program.metal_id = event.ring or program.ring, event.metal_id
        origin = program.origin
        origin.tag, origin.stack = event.tag or origin.tag, event.stack or origin.stack

    def _program(self, holding: Holding, ident: int) -> Program:
        """A program of which nothing need be known yet, except that it exists."""
        program = holding.programs.get(ident)
        if program is None:
            program = Program(ident, holding)
            process = holding.source.process
            if sum(len(other.programs) for other in process.holdings()) < self.limits.programs_per_process:
                holding.programs[ident] = program
            else:
                self._anomaly(process, "dropped")
        return program

    def _program_destroyed(self, time: float, source: Source, event: ProgramDestroyed) -> None:
        holding = source.holdings.get(event.device)
        program = holding.programs.get(event.program) if holding is not None else None
        if holding is None or program is None:
            self._anomaly(source.process, "unknown_free")
            return
        self._forget_program(holding, program)
        for thing in program.parts.values():
            thing.refs = 0
            self._remove(holding, thing)

    def _forget_program(self, holding: Holding, program: Program) -> None:
        holding.chip.evict(program)
        del holding.programs[program.ident]

    # -- chips and devices ---------------------------------------------------------------------------------------

    def _holding(self, source: Source, number: int) -> Holding | None:
        """What the source holds on its device of that number; the chip is assumed unless it is known."""
        process = source.process
        if number < 0 or (number not in process.numbers and len(process.numbers) >= self.limits.devices_per_process):
            return None
        chip = process.numbers.get(number)
        if chip is None:
            if not self.chips.has_room_for(assumed_uid(number)):
                return None
            chip = process.numbers[number] = self.chips.assumed(number)
        holding = source.holdings[number] = Holding(source, number, chip)
        chip.holdings.append(holding)
        chip.covered |= source.covered
        return holding

    def _device_opened(self, time: float, source: Source, event: DeviceOpened) -> None:
        process, number = source.process, event.device
        if number < 0 or (number not in process.numbers and len(process.numbers) >= self.limits.devices_per_process):
            self._anomaly(process, "rejected")
            return
        if not self.chips.has_room_for(event.chip.uid):
            self._anomaly(process, "rejected")
            return
        chip = self.chips.described(event.chip)
        old = process.numbers.get(number)
        process.numbers[number] = chip
        if old is not None and old is not chip:
            rehome(process, number, chip, self.seq, time)
            if old.assumed:
                self._forget_chip(old)

    def _device_closed(self, time: float, source: Source, event: DeviceClosed) -> None:
        holding = source.holdings.get(event.device)
        if holding is not None:
            self._graves.bury(holding, self.seq, exited=False)

    def _forget_chip(self, chip: Chip) -> None:
        """A chip that was only assumed to exist goes when nobody means it any more."""
        meant = any(chip is other for process in self.processes.values() for other in process.numbers.values())
        if not meant:
            self.chips.forget(chip)

    def _chip_found(self, time: float, source: Source | None, event: ChipFound) -> None:
        self.chips.described(event.chip)

    # -- sources -------------------------------------------------------------------------------------------------

    def _resync_begin(self, time: float, source: Source, event: ResyncBegin) -> None:
        source.generation = event.generation
        for holding in source.holdings.values():
            holding.views, holding.agreements = {}, {}
            holding.chip.leaving(holding)  # what is still resident is run again
        source.confirmed = set()
        source.confirmed_programs = set()
        source.confirmed_phases = set()

    def _resync_end(self, time: float, source: Source, event: ResyncEnd) -> None:
        """What the source did not name again is gone; an end that belongs to no open resync is ignored.

        What it named for the first time counts only now: beside what is gone it would make peaks that never were.
        """
        if source.generation != event.generation:
            return
        confirmed = source.confirmed
        for holding in source.holdings.values():
            for table in holding.tables():
                stale = [key for key, thing in table.items() if thing not in confirmed]
                for key in stale:
                    self._remove(holding, table.pop(key))  # type: ignore[arg-type]
        for holding in source.holdings.values():
            self._count_arrivals(holding, time)
            holding.unplaced = [key for key in holding.unplaced if key in holding.buffers]
            for program in [p for p in holding.programs.values() if p not in source.confirmed_programs]:
                program.forget()
                if not program.parts:
                    self._forget_program(holding, program)
        for other, ident in list(source.process.phases.open):
            if other is source and ident not in source.confirmed_phases:
                self._end_phase(time, source, ident, seen=False)
        source.process.phases.begin_anew(source)
        for holding in source.holdings.values():
            views.compare(holding)
        if event.generation > 1:
            self._anomaly(source.process, "resynced")
        source.generation = None
        source.confirmed = set()
        source.confirmed_programs = set()
        source.confirmed_phases = set()

    def _sees(self, time: float, source: Source, event: Sees) -> None:
        source.covered = frozenset(kind for kind in Kind if event.kinds >> kind & 1)
        source.trouble = event.trouble
        for holding in source.holdings.values():
            holding.chip.covered |= source.covered

    def _audited(self, time: float, source: Source, event: Audited) -> None:
        holding = source.holdings.get(event.device) or self._holding(source, event.device)
        if holding is None:
            return
        if event.banks == (0, 0):
            holding.audits.pop(event.allocator, None)  # that allocator is gone
        elif event.allocator in holding.audits or len(holding.audits) < self.limits.audits:
            holding.audits[event.allocator] = event

    def _viewed(self, time: float, source: Source, event: Viewed) -> None:
        holding = source.holdings.get(event.device) or self._holding(source, event.device)
        if holding is None:
            self._anomaly(source.process, "rejected")
            return
        views.keep(holding, event, self.limits.views)

    def _lost(self, time: float, source: Source, event: Lost) -> None:
        self._anomaly(source.process, "dropped", event.events)

    def _rejected(self, time: float, source: Source, event: Rejected) -> None:
        self._anomaly(source.process, "rejected", event.records)

    def _claimed(self, time: float, source: Source, event: Claimed) -> None:
        if len(source.process.claimed) < self.limits.claimed_pids:
            source.process.claimed.add(event.pid)

    def _mark(self, time: float, source: Source | None, event: Mark) -> None:
        self.marks.append((time, event.text))

    # -- phases --------------------------------------------------------------------------------------------------

    def _phase_began(self, time: float, source: Source, event: PhaseBegan) -> None:
        phases = source.process.phases
        phases.begin(source, event.ident, event.name, event.parent, time, self.limits.open_phases)
        if source.generation is not None:
            source.confirmed_phases.add(event.ident)

    def _phase_ended(self, time: float, source: Source, event: PhaseEnded) -> None:
        self._end_phase(time, source, event.ident, seen=True)

    def _end_phase(self, time: float, source: Source, ident: int, *, seen: bool) -> None:
        limits = self.limits
        source.process.phases.end(source, ident, time, limits.phase_paths, limits.phase_rows, seen=seen)

    def _process_exited(self, time: float, source: Source, event: ProcessExited) -> None:
        process = source.process
        for other, ident in reversed(list(process.phases.open)):
            self._end_phase(time, other, ident, seen=False)
        process.exited = time
        for holding in process.holdings():
            process.graves.append(self._graves.bury(holding, self.seq, exited=True))
            holding.chip.holdings.remove(holding)
        del self.processes[process.info.key]
        for chip in list(process.numbers.values()):
            if chip.info.kmd is None and self.chips.crowded:
                self._forget_chip(chip)
        self.departed.append(process)
        while len(self.departed) > self.limits.departed:
            self.departed.popleft()

    def _peaks_reset(self, time: float, source: Source | None, event: PeaksReset) -> None:
        self.peaks_since = time
        for chip in self.chips.values():
            for total in chip.totals():
                total.reset_recent(self.seq, time)
        for process in self.processes.values():
            process.phases.turn()
            for share in process.shares.values():
                for total in share.pools:
                    total.reset_recent(self.seq, time)
            for holding in process.holdings():
                for leaf in holding.leaves:
                    if leaf is not None:
                        leaf.reset_recent(self.seq, time)

    def _anomaly(self, process: Process, name: str, count: int = 1) -> Thing | None:
        """Count something odd; the event was about no thing."""
        process.anomalies[name] += count
        self.anomalies[name] += count
        return None

    # -- answers -------------------------------------------------------------------------------------------------

    def holdings(self) -> Iterator[Holding]:
        """Every holding of every live process."""
        for process in self.processes.values():
            yield from process.holdings()

    def things(self) -> Iterator[Thing]:
        """Every live thing, set-aside ones included."""
        for holding in self.holdings():
            yield from holding.things()

    def live_count(self) -> int:
        return sum(process.count for process in self.processes.values())

    def used_by_number(self, number: int) -> list[int]:
        """Bytes by kind over all processes' devices of one number: what a legacy query asks for, and only that."""
        used = [0] * len(Kind)
        for process in self.processes.values():
            for holding in process.holdings():
                if holding.number == number:
                    for kind, leaf in enumerate(holding.leaves):
                        if leaf is not None and leaf.counts:
                            used[kind] += leaf.used
        return used

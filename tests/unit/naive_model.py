# SPDX-License-Identifier: Apache-2.0
"""A second, very simple account for comparison: a list of live allocations that is summed at each query.

Written from the accounting rules, not from the ledger, and slow on purpose. The rule numbers are those of the design.
An event about a mesh is an event on each of its chips here: nothing is shared between chips.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ttmem.model import events as ev
from ttmem.model.geometry import Arch, Geometry, board_geometry
from ttmem.model.identity import ChipInfo, ProcessInfo
from ttmem.model.kinds import Confidence, Kind, Pool

KEPT = 20
LARGEST_SIZE = 100 << 30

_PARTS = (Kind.CB, Kind.DFB, Kind.SCRATCHPAD, Kind.KERNEL, Kind.FABRIC_KERNEL, Kind.DISPATCH_KERNEL)
_KERNELS = (Kind.KERNEL, Kind.FABRIC_KERNEL, Kind.DISPATCH_KERNEL)


def pool_of(kind: Kind) -> Pool:
    """Rule 8: traces are in DRAM; L1 without an allocator has its own pool; fabric kernels are outside the grid."""
    if kind in (Kind.DRAM, Kind.TRACE):
        return Pool.DRAM
    if kind in (Kind.L1, Kind.L1_SMALL):
        return Pool.L1
    if kind is Kind.HOST:
        return Pool.HOST
    return Pool.SYSTEM if kind in (Kind.FABRIC_KERNEL, Kind.DISPATCH_KERNEL) else Pool.PROGRAM


def space_of(kind: Kind) -> str:
    """Rule 1: the address space in which an address is unique."""
    if kind in (Kind.DRAM, Kind.TRACE):
        return "dram"
    return "host" if kind is Kind.HOST else "l1"


@dataclass(eq=False, repr=False)
class Party:
    """A process."""

    info: ProcessInfo
    numbers: dict[int, str] = field(default_factory=dict)
    voices: dict[str, Voice] = field(default_factory=dict)
    anomalies: Counter[str] = field(default_factory=Counter)
    phases: dict[tuple[Voice, int], Open] = field(default_factory=dict)
    runs: dict[str, list[Run]] = field(default_factory=dict)  # by path, of phases that have ended
    exited: bool = False

    def __repr__(self) -> str:
        return f"Party({self.info.pid}, {self.info.start})"


@dataclass(eq=False, repr=False)
class Voice:
    """A source of a process."""

    party: Party
    name: str
    confidence: Confidence
    heard: set[int] = field(default_factory=set)  # device numbers in any of its reports
    spoke: dict[tuple[int, Kind], tuple[int, ...]] = field(default_factory=dict)  # first report, on the present chip
    released: set[int] = field(default_factory=set)  # device numbers in its frees
    freed: set[tuple[Device, Hashable]] = field(default_factory=set)
    launched: set[tuple[Device, int, int]] = field(default_factory=set)  # (device in the event, device number, program)
    generation: int | None = None
    confirmed: list[Item] = field(default_factory=list)
    renewed: set[int] = field(default_factory=set)  # phases reported since the resync began

    @property
    def kindless(self) -> bool:
        return self.name == "legacy"

    def __repr__(self) -> str:
        return f"{self.name} of {self.party}"


@dataclass(eq=False)
class Item:
    """One live allocation. ``place`` identifies it within its source and device number (rule 1)."""

    voice: Voice
    device: Device  # the device in the event: one number, or all numbers of a mesh
    number: int
    place: tuple[Hashable, ...]
    kind: Kind
    address: int
    size: int
    refs: int
    program: int | None  # None for buffers, which belong to no program
    extra: ev.Extra | None
    born: int
    waiting: bool  # it was added during a resync of its source, and counts when the resync ends

    @property
    def chip(self) -> str:
        return self.voice.party.numbers[self.number]

    @property
    def shared(self) -> bool:
        return self.extra is not None and self.extra.shared

    @property
    def counted(self) -> int:
        """Rule 9: an allocation inside an L1 buffer is not added again."""
        return 0 if self.shared else self.size

    @property
    def reserved(self) -> int | None:
        """None if its source did not report it."""
        taken = self.extra.reserved if self.extra is not None else None
        return 0 if taken is not None and self.shared else taken

    @property
    def face(self) -> tuple[int, int, Kind, int, int]:
        return self.voice.party.info.pid, self.number, self.kind, self.address, self.size


class Sum(NamedTuple):
    """The values of one total."""

    used: int = 0
    count: int = 0  # type: ignore[assignment]  # a NamedTuple may have a field of this name
    reserved: int = 0
    known: int = 0


class Best(NamedTuple):
    """The highest value of a total, and all allocations that it counted then."""

    value: int
    time: float
    items: list[Item]


class Picture(NamedTuple):
    """What a process held directly before it exited."""

    party: Party
    items: list[Item]
    sums: dict[Key, Sum]


Device = Any  # an int or a tuple of them
OnChip = Any  # an event with one device number, also if it was on a mesh
# ("kind", chip, kind), ("pool", chip, pool), ("share", party, chip, pool) or ("source", voice, device number, kind)
Key = tuple[Any, ...]


class Open(NamedTuple):
    """A phase that has not ended: the value of every total of its process at its begin, and the maximum since."""

    path: str
    complete: bool
    began: float
    begin: dict[Key, int]
    peak: dict[Key, int]


class Running(NamedTuple):
    """A program on one chip."""

    voice: Voice
    device: Device
    number: int
    program: int


class Run(NamedTuple):
    """A phase that ended."""

    complete: bool
    seconds: float
    rows: Rows


Rows = dict[tuple[str, Any], tuple[int, int, int]]  # (chip, pool or (device, kind)) -> begin, peak, end


class NaiveAccount:
    """The account, computed by searching all allocations at each query."""

    def __init__(self, allocations_per_process: int = 4_000_000) -> None:
        self.allocations_per_process = allocations_per_process
        self.seq = 0
        self.live: list[Item] = []
        self.parties: dict[tuple[int, int | None, int], Party] = {}
        self.chips: dict[str, ChipInfo] = {}
        self.departed: list[Picture] = []
        self.peak: dict[Key, Best] = {}
        self.recent: dict[Key, Best] = {}
        self.high: dict[Key, int] = {}
        self.reserved_peak: dict[Key, int] = {}
        self.ran: dict[str, dict[tuple[int, Voice], Running]] = {}  # chip -> core and voice -> program run last there
        self._time = 0.0
        self._device: Device = 0  # device of the current event, as in the event
        self._full = False  # whether the process had reached its limit of allocations before the event
        self._moved: set[Party] = set()  # processes whose allocations moved with this event
        self._members: dict[Key, list[Item]] = {}
        self._sums: dict[Key, Sum] = {}
        self._believed: dict[tuple[Party, str, Kind], Voice] = {}

    def voice(self, info: ProcessInfo, name: str, confidence: Confidence) -> Voice:
        party = self.parties.setdefault(info.key, Party(info))
        return party.voices.setdefault(name, Voice(party, name, confidence))

    def apply(self, time: float, voice: Voice | None, event: ev.Event) -> None:
        self.seq += 1
        self._time = time
        if voice is not None and voice.party.exited:
            voice.party.anomalies["after_exit"] += 1  # rule 3
        else:
            self._handle(voice, event)
        self._look(time)
        if isinstance(event, ev.PeaksReset):
            self.recent = {key: Best(total.used, time, self._members[key]) for key, total in self._sums.items()}

    def _handle(self, voice: Voice | None, event: ev.Event) -> None:
        """An event about a mesh is applied on each of its chips, but its anomalies are counted once."""
        handler: Callable[[Any, Any], None] = getattr(self, "_on_" + type(event).__name__)
        self._device = getattr(event, "device", 0)
        if voice is not None:
            self._full = self.live_count(voice.party) >= self.allocations_per_process
        if not isinstance(self._device, tuple):
            handler(voice, event)
            return
        assert voice is not None
        for number in self._device:
            before = voice.party.anomalies.copy()
            handler(voice, event._replace(device=number))  # type: ignore[call-arg]
            if number != self._device[0]:
                voice.party.anomalies = before

    # -- questions -----------------------------------------------------------------------------------------------

    def sums(self) -> dict[Key, Sum]:
        """Every total that is not 0."""
        return self._sums

    def counts(self, item: Item) -> bool:
        """Rule 12: for each chip and kind, the source with the highest confidence counts; of equals, the first one."""
        return self._believed[item.voice.party, item.chip, item.kind] is item.voice and not item.waiting

    def take_high(self, key: Key) -> int:
        now = self._sums.get(key, Sum()).used
        high = max(self.high.get(key, 0), now)
        self.high[key] = now
        return high

    def used_by_number(self) -> Counter[tuple[int, Kind]]:
        """The answer to a legacy query: bytes by device number of the processes."""
        used = Counter[tuple[int, Kind]]()
        for item in self.live:
            if self.counts(item):
                used[item.number, item.kind] += item.counted
        return used

    def resident(self, chip: str, kind: Kind) -> int | None:
        """Rule 9: bytes of the program that ran last on each core; None if no launch was seen, or cores are unknown.

        Of a kind, only those of the source that counts (rule 12).
        """
        if chip not in self.ran:
            return None
        total = 0
        for program in set(self.ran[chip].values()):
            cores = {core for (core, _), last in self.ran[chip].items() if last == program}
            for item in self._parts(program):
                if item.kind is kind and self._believed[item.voice.party, chip, kind] is item.voice:
                    mine = _cores(item.extra.cores) if item.extra else set()
                    if not mine:
                        return None
                    total += 0 if item.shared else item.size * len(mine & cores) // len(mine)
        return total

    def rows(self, phase: Open, party: Party) -> Rows:
        """The current values of a phase, without kinds of sources that do not count."""
        now, rows = self._held(party), Rows()
        for key in {*now, *phase.begin, *phase.peak}:
            if key[0] == "share":
                corner = (key[2], key[3])
            else:
                _, voice, number, kind = key
                corner = (party.numbers[number], (number, kind))
                if self._believed[party, corner[0], kind] is not voice:
                    continue
            row = (phase.begin.get(key, 0), phase.peak.get(key, 0), now.get(key, 0))
            if any(row):
                rows[corner] = row
        return rows

    def held_by(self, party: Party) -> list[Item]:
        return [item for item in self.live if item.voice.party is party]

    def live_count(self, party: Party) -> int:
        """Live allocations. One on a mesh is one allocation, regardless of its number of chips."""
        return len(whole(self.held_by(party)))

    # -- allocations --------------------------------------------------------------------------------------------------

    def _on_Allocated(self, voice: Voice, event: OnChip) -> None:
        if not 0 < event.size <= LARGEST_SIZE or not self._hear(voice, event.device):
            voice.party.anomalies["rejected"] += 1
            return
        kind = event.kind
        if kind is Kind.L1:
            kind = kind_of_id(self._geometry(voice.party.numbers[event.device]), event.address)
        if event.kind in _PARTS:
            program: int | None = event.program
            place = _part_place(event.program, kind, event.address, event.extra.cores if event.extra else 0)
        else:
            program = None
            allocator = event.extra.allocator if event.extra else 0
            place = ("buffer", space_of(kind), event.address, allocator) if event.address else ("nowhere", self.seq)
            if event.ident:  # rule 1: only the number from the source identifies it
                place = ("number", event.ident)
        old = self._at(voice, event.device, place)
        if old is not None and place[0] == "number" and not (event.refs and old.address == event.address):
            again = False
        else:
            again = old is not None and (old.size, old.kind) == (event.size, kind)
            if old is not None and event.refs and old.extra != event.extra:  # sent again, with other properties
                again = False
        if old is not None and again:
            if event.kind not in _KERNELS:  # rule 7: a kernel loaded twice is one load
                old.refs = event.refs or old.refs + 1  # rule 4
            voice.confirmed.append(old)
            return
        if old is not None:
            self.live.remove(old)
            if not event.refs:
                voice.party.anomalies["replaced"] += 1
        elif self._full:
            voice.party.anomalies["dropped"] += 1
            return
        refs = 1 if event.kind in _KERNELS else event.refs or 1
        item = Item(
            voice, self._device, event.device, place, kind, event.address, event.size, refs, program, event.extra,
            self.seq, voice.generation is not None,
        )  # fmt: skip
        self.live.append(item)
        voice.confirmed.append(item)
        voice.spoke.setdefault((event.device, kind), (self.seq,))

    # -- frees --------------------------------------------------------------------------------------------------------

    def _on_Freed(self, voice: Voice, event: OnChip) -> None:
        if event.device < 0:
            voice.party.anomalies["rejected"] += 1
            return
        if event.kind in _PARTS:
            assert event.kind is not None
            place = _part_place(event.program, event.kind, event.address, event.cores)
            item = self._at(voice, event.device, place)
            if item is None:
                self._surplus(voice, event.device, place)
            elif self._release(item, place):
                program = Running(voice, self._device, event.device, event.program)
                if not self._parts(program):
                    self._forget_program(program)
            return
        voice.released.add(event.device)
        found = self._matching(voice, event)
        if found:
            self._release(self._choose(voice, event, found), event.address)
            return
        # Rule 5: one known client allocates on several devices and frees everything on device 0.
        spread = len({number for number, _ in voice.spoke}) > 1
        elsewhere = [i for i in self._buffers(voice) if i.address == event.address and event.address]
        just_freed = (self._device, event.address) in voice.freed
        if voice.kindless and spread and voice.released == {0} and not just_freed and len(elsewhere) == 1:
            voice.party.anomalies["misrouted"] += 1
            self._release(elsewhere[0], event.address)
        else:
            self._surplus(voice, event.device, event.address)

    def _matching(self, voice: Voice, event: OnChip) -> list[Item]:
        """The buffers that a FREE may refer to: with a kind, those in its space; without, all at the address."""
        here = [i for i in self._buffers(voice) if (i.device, i.number) == (self._device, event.device)]
        if event.ident:
            return [i for i in here if i.place == ("number", event.ident)]
        here = [i for i in here if i.address == event.address and i.place[0] != "number"]
        if voice.kindless:
            return here
        space = space_of(event.kind or Kind.DRAM)
        return [
            i for i in here if space_of(i.kind) == space and (i.extra.allocator if i.extra else 0) == event.allocator
        ]

    def _choose(self, voice: Voice, event: ev.Freed, found: list[Item]) -> Item:
        of_size = [i for i in found if i.size == event.size]
        if not event.address:  # allocations without an address: the youngest of that size, else the youngest
            return (of_size or found)[-1]
        if len(found) == 1:
            return found[0]
        of_kind = [i for i in found if event.kind and i.kind is event.kind]
        for narrowed in (of_kind, of_size):
            if len(narrowed) == 1:
                return narrowed[0]
        voice.party.anomalies["ambiguous"] += 1
        return max(found, key=lambda i: i.born)

    def _release(self, item: Item, place: Hashable) -> bool:
        item.refs -= 1
        if item.refs:
            return False
        self.live.remove(item)
        item.voice.freed.add((item.device, place))
        return True

    def _surplus(self, voice: Voice, number: int, place: Hashable) -> None:
        voice.party.anomalies["double_free" if (self._device, place) in voice.freed else "unknown_free"] += 1

    # -- programs ------------------------------------------------------------------------------------------------

    def _on_ProgramRun(self, voice: Voice, event: OnChip) -> None:
        if not self._hear(voice, event.device):
            voice.party.anomalies["rejected"] += 1
            return
        program = Running(voice, self._device, event.device, event.program)
        voice.launched.add(program[1:])
        chip = self.ran.setdefault(voice.party.numbers[event.device], {})
        cores = _cores(event.cores)
        # Two sources of one process report the same launches: a launch of one does not remove programs of the other.
        for core, other in list(chip):
            if core in cores and other.party is not voice.party:
                del chip[core, other]
        chip.update({(core, voice): program for core in cores})

    def _on_WorkloadRun(self, voice: Voice, event: ev.WorkloadRun) -> None:
        for run in event.runs:
            self._handle(voice, run)

    def _on_ProgramDestroyed(self, voice: Voice, event: OnChip) -> None:
        program = Running(voice, self._device, event.device, event.program)
        parts = self._parts(program)
        if not parts and program[1:] not in voice.launched:
            voice.party.anomalies["unknown_free"] += 1
            return
        self._remove(parts)
        self._forget_program(program)

    def _forget_program(self, program: Running) -> None:
        program.voice.launched.discard(program[1:])
        for cores in self.ran.values():
            for place in [place for place, last in cores.items() if last == program]:
                del cores[place]

    # -- chips and devices ---------------------------------------------------------------------------------------

    def _on_DeviceOpened(self, voice: Voice, event: ev.DeviceOpened) -> None:
        party, number, new = voice.party, event.device, event.chip.id
        if number < 0:
            party.anomalies["rejected"] += 1
            return
        self._describe(event.chip)
        old = party.numbers.get(number)
        party.numbers[number] = new
        if old is None or old == new:
            return
        if any(number in other.heard for other in party.voices.values()):
            self._moved.add(party)
        for other in party.voices.values():  # on the new chip, the sources that were already there come first
            other.spoke = {
                (n, kind): (self.seq, *order) if n == number else order for (n, kind), order in other.spoke.items()
            }
        if not any(party.numbers[n] == old for v in party.voices.values() for n in v.heard):
            self._forget_totals(lambda key: key[:3] == ("share", party, old))
        if old.startswith("assumed:") and not any(old in p.numbers.values() for p in self.parties.values()):
            del self.chips[old]
            self._forget_totals(lambda key: key[1] == old)

    def _on_DeviceClosed(self, voice: Voice, event: OnChip) -> None:
        here = (self._device, event.device)
        gone = [i for i in self.live if i.voice is voice and (i.device, i.number) == here]
        for program in {i.program for i in gone} | {last[2] for last in voice.launched if last[:2] == here}:
            if program is not None:
                self._forget_program(Running(voice, *here, program))
        self._remove(gone)

    def _on_ChipFound(self, voice: Voice | None, event: ev.ChipFound) -> None:
        self._describe(event.chip)

    # -- sources -------------------------------------------------------------------------------------------------

    def _on_ResyncBegin(self, voice: Voice, event: ev.ResyncBegin) -> None:
        voice.generation, voice.confirmed, voice.renewed = event.generation, [], set()
        for cores in self.ran.values():
            for place in [place for place, last in cores.items() if last.voice is voice]:
                del cores[place]

    def _on_ResyncEnd(self, voice: Voice, event: ev.ResyncEnd) -> None:
        if voice.generation != event.generation:
            return
        self._remove([i for i in self.live if i.voice is voice and i not in voice.confirmed])
        for item in self.live:
            if item.voice is voice:
                item.waiting = False
        running = {last for last in self._running() if last.voice is voice}
        for program in running | {Running(voice, *last) for last in voice.launched}:
            if not self._parts(program):
                self._forget_program(program)
        self._look(self._time)
        for other, ident in list(voice.party.phases):
            if other is voice and ident not in voice.renewed:
                self._end_phase(voice, ident, complete=False)
        unseen = [key for key, phase in voice.party.phases.items() if key[0] is voice and not phase.complete]
        for key in unseen:
            phase, now = voice.party.phases.pop(key), self._held(voice.party)
            voice.party.phases[key] = phase._replace(begin=now, peak=dict(now))
        if event.generation > 1:
            voice.party.anomalies["resynced"] += 1
        voice.generation = None

    def _on_Lost(self, voice: Voice, event: ev.Lost) -> None:
        voice.party.anomalies["dropped"] += event.events

    def _on_Rejected(self, voice: Voice, event: ev.Rejected) -> None:
        voice.party.anomalies["rejected"] += event.records

    def _on_ProcessExited(self, voice: Voice, event: ev.ProcessExited) -> None:
        party = voice.party
        for key in reversed(list(party.phases)):
            self._end_phase(*key, complete=False)
        held = self.held_by(party)
        shares = {key: total for key, total in self._sums.items() if key[:2] == ("share", party)}
        self.departed.append(Picture(party, held, shares))
        for last in self._running():
            if last.voice.party is party:
                self._forget_program(last)
        self._remove(held)
        party.exited = True
        del self.parties[party.info.key]

    # -- phases --------------------------------------------------------------------------------------------------

    def _on_PhaseBegan(self, voice: Voice, event: ev.PhaseBegan) -> None:
        phases = voice.party.phases
        voice.renewed.add(event.ident)
        if (voice, event.ident) not in phases:
            outer = phases.get((voice, event.parent))
            path = f"{outer.path}/{event.name}" if outer else event.name
            now = self._held(voice.party)
            phases[voice, event.ident] = Open(path, voice.generation is None, self._time, now, dict(now))

    def _on_PhaseEnded(self, voice: Voice, event: ev.PhaseEnded) -> None:
        if (voice, event.ident) in voice.party.phases:
            self._end_phase(voice, event.ident, complete=True)

    def _end_phase(self, voice: Voice, ident: int, *, complete: bool) -> None:
        phase, party = voice.party.phases.pop((voice, ident)), voice.party
        run = Run(complete and phase.complete, self._time - phase.began, self.rows(phase, party))
        party.runs.setdefault(phase.path, []).append(run)

    def _held(self, party: Party) -> dict[Key, int]:
        """Every total of a process that is not 0: by pool, and for each source by kind."""
        return self._sum_of(item for item in self.held_by(party) if not item.waiting)

    def _sum_of(self, items: Iterable[Item]) -> dict[Key, int]:
        held = Counter[Key]()
        for item in items:
            for key in self._keys(item):
                if key[0] in ("share", "source"):
                    held[key] += item.counted
        return dict(held)

    def _begin_anew(self, party: Party) -> None:
        """Its allocations count in other totals now: open phases begin with the values before this event."""
        old = [item for item in self.held_by(party) if not item.waiting and item.born < self.seq]
        for key, phase in party.phases.items():
            now = self._sum_of(old)
            party.phases[key] = phase._replace(complete=False, begin=now, peak=dict(now))

    def _on_PeaksReset(self, voice: Voice | None, event: ev.PeaksReset) -> None:
        """Done in apply(), when the totals are known."""

    def _on_Claimed(self, voice: Voice, event: ev.Claimed) -> None:
        """A label."""

    def _on_Mark(self, voice: Voice | None, event: ev.Mark) -> None:
        """A label."""

    # -- sums ----------------------------------------------------------------------------------------------------

    def _look(self, time: float) -> None:
        """Compute all sums again, and store new peaks."""
        believed, self._believed = self._believed, {}
        for party in self.parties.values():
            for voice in party.voices.values():
                for (number, kind), order in voice.spoke.items():
                    self._consider((party, party.numbers[number], kind), voice, order)
        self._members = {}
        for item in self.live:
            for key in self._keys(item):
                self._members.setdefault(key, []).append(item)
        self._sums = {key: _sum(items) for key, items in self._members.items()}
        for key, total in self._sums.items():
            for best in (self.peak, self.recent):
                if total.used > (best[key].value if key in best else 0):
                    best[key] = Best(total.used, time, self._members[key])
            self.high[key] = max(self.high.get(key, 0), total.used)
            self.reserved_peak[key] = max(self.reserved_peak.get(key, 0), total.reserved)
        unseated = {corner[0] for corner, voice in believed.items() if self._believed.get(corner, voice) is not voice}
        for party in self._moved | unseated:
            self._begin_anew(party)
        self._moved = set()
        for party in self.parties.values():
            for phase in party.phases.values():
                for key, used in self._held(party).items():
                    phase.peak[key] = max(phase.peak.get(key, 0), used)

    def _consider(self, corner: tuple[Party, str, Kind], voice: Voice, order: tuple[int, ...]) -> None:
        """Use this source if its confidence is higher than that of the present one, or if it is equal and earlier."""
        now = self._believed.get(corner)
        if now is None:
            self._believed[corner] = voice
            return
        party, chip, kind = corner
        first = min(o for (n, k), o in now.spoke.items() if k is kind and party.numbers[n] == chip)
        if (voice.confidence, [-part for part in order]) > (now.confidence, [-part for part in first]):
            self._believed[corner] = voice

    def _keys(self, item: Item) -> list[Key]:
        """The totals that include it. That of its source does so even if another source counts (rule 12)."""
        if item.waiting:
            return []
        own: Key = ("source", item.voice, item.number, item.kind)
        if not self.counts(item):
            return [own]
        pool = pool_of(item.kind)
        return [
            ("kind", item.chip, item.kind), ("pool", item.chip, pool), ("share", item.voice.party, item.chip, pool),
            own,
        ]  # fmt: skip

    def _forget_totals(self, of: Callable[[Key], bool]) -> None:
        tables: list[dict[Key, Any]] = [self.peak, self.recent, self.high, self.reserved_peak]
        tables += [table for p in self.parties.values() for phase in p.phases.values() for table in phase[-2:]]
        for table in tables:
            for key in [key for key in table if of(key)]:
                del table[key]

    def _buffers(self, voice: Voice) -> list[Item]:
        return [i for i in self.live if i.voice is voice and i.program is None]

    def _parts(self, program: Running) -> list[Item]:
        return [i for i in self.live if (i.voice, i.device, i.number, i.program) == program]

    def _running(self) -> set[Running]:
        return {last for cores in self.ran.values() for last in cores.values()}

    def _at(self, voice: Voice, number: int, place: Hashable) -> Item | None:
        here = (self._device, number, place)
        return next((i for i in self.live if i.voice is voice and (i.device, i.number, i.place) == here), None)

    def _remove(self, items: list[Item]) -> None:
        self.live = [item for item in self.live if item not in items]

    def _hear(self, voice: Voice, number: int) -> bool:
        """A device number was used. Its chip is assumed unless the process reported it."""
        if number < 0:
            return False
        if number not in voice.party.numbers:
            chip_id = voice.party.numbers[number] = f"assumed:{number}"
            if chip_id not in self.chips:
                same = (c for c in self.chips.values() if c.kmd == number and not c.id.startswith("assumed:"))
                self.chips[chip_id] = next(same, ChipInfo(chip_id))._replace(id=chip_id)
        voice.heard.add(number)
        return True

    def _describe(self, news: ChipInfo) -> None:
        old = self.chips.get(news.id, ChipInfo(news.id))
        known = {
            name: value for name, value in news._asdict().items() if value is not None and value is not Arch.UNKNOWN
        }
        self.chips[news.id] = old._replace(**known)

    def _geometry(self, chip: str) -> Geometry | None:
        info = self.chips[chip]
        return info.geometry or board_geometry(info.board, info.arch)


def whole(items: Iterable[Item]) -> list[Item]:
    """One item for each allocation: the one on the first chip of its mesh."""
    return [item for item in items if not isinstance(item.device, tuple) or item.number == item.device[0]]


def _sum(items: list[Item]) -> Sum:
    known = [item.reserved for item in items if item.reserved is not None]
    return Sum(sum(item.counted for item in items), len(items), sum(known), len(known))


def _part_place(program: int, kind: Kind, address: int, cores: int) -> tuple[Hashable, ...]:
    """An unload does not include the type of the kernel, so the three types are one."""
    return "part", program, Kind.KERNEL if kind in _KERNELS else kind, address, cores


def _cores(mask: int) -> set[int]:
    return {bit for bit in range(mask.bit_length()) if mask >> bit & 1}


def kind_of_id(geometry: Geometry | None, ident: int) -> Kind:
    """Rule 10: (x<<48)|(y<<32)|address is memory of one core if x, y and the address exist on the chip."""
    x, y, address = ident >> 48, ident >> 32 & 0xFFFF, ident & 0xFFFF_FFFF
    columns, rows, l1_size = 17, 12, 1_572_864
    map_end, base = 35_168, 105_824  # an unknown chip is treated as a Wormhole
    if geometry is not None:
        columns = 10 if geometry.arch is Arch.WORMHOLE_B0 else 17
        l1_size, map_end, base = geometry.l1_size, geometry.map_end, geometry.l1_base
    if ident < 1 << 32 or x >= columns or y >= rows or address >= l1_size:
        return Kind.L1
    if address < map_end:
        return Kind.FIRMWARE
    return Kind.KERNEL if address < base else Kind.L1


def largest(items: list[Item]) -> Iterator[Item]:
    """The allocations that a list of the largest ones must contain, except for ties."""
    return iter(sorted(items, key=lambda item: -item.size)[:KEPT])

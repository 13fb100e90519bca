# SPDX-License-Identifier: Apache-2.0
"""The client's table of live allocations. It is sent again to a server that missed events."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ttmem.collect.client_totals import ClientTotals
from ttmem.model.core_sets import split_core_id
from ttmem.model.events import (
    MAX_SIZE,
    Allocated,
    Device,
    DeviceClosed,
    DeviceOpened,
    Event,
    Freed,
    PhaseBegan,
    PhaseEnded,
    ProgramCompiled,
    ProgramDestroyed,
    ProgramRun,
    ResyncBegin,
    ResyncEnd,
    Viewed,
    device_numbers,
)
from ttmem.model.geometry import board_geometry, noc_limits, region_at
from ttmem.model.kinds import BUFFER_KINDS, FAMILY_OF, SPACE_OF, Kind

Key = tuple[Device, int, int, int, int]
_FIRST_PART = int(Kind.CB)
_L1 = int(Kind.L1)
_LAST_ADDRESS = 0xFFFFFFFF  # above it, an id also contains a core
_SPACES = tuple(-1 - space for space in SPACE_OF)  # of buffers; negative, unlike the families of parts
_new = tuple.__new__  # a NamedTuple's own constructor costs three times as much


def _key(device: Device, kind: Kind, address: int, program: int, allocator: int, cores: int) -> Key:
    if kind < _FIRST_PART or kind == Kind.FIRMWARE:
        return device, _SPACES[kind], address, allocator, 0
    return device, FAMILY_OF[kind], address, program, cores


def _taken(allocation: Allocated, kind: Kind) -> int | None:
    """Reserved bytes: unknown unless reported, and 0 for what no allocator manages."""
    if kind >= _FIRST_PART:
        return 0
    return None if allocation.extra is None else allocation.extra.reserved


class _Launch(NamedTuple):
    number: int
    program: int
    cores: int


class LiveTable:
    """Applies events as the server does, as far as needed to send the live allocations again."""

    def __init__(self) -> None:
        self.devices: dict[int, DeviceOpened] = {}
        self.tally = ClientTotals()
        self._allocations: dict[Key, Allocated] = {}
        self._parts: dict[tuple[Device, int], set[Key]] = {}  # of a device's program
        self._writes: dict[Key, Kind] = {}  # the kind of each per-core write
        self._programs: dict[tuple[Device, int], ProgramCompiled] = {}
        self._resident: dict[Device, list[_Launch]] = {}  # the programs that ran last there, each with its cores
        self._launches = 0
        self._closed: set[Device] = set()
        self._views: dict[tuple[Device, int, Kind], Viewed] = {}
        self._phases: dict[int, PhaseBegan] = {}
        self._unplaced = 0

    def __len__(self) -> int:
        return len(self._allocations)

    def fold(self, event: Event) -> Event:
        """Apply an event; returns it, with the kind filled in if a free lacks it."""
        if type(event) is Allocated:
            self._allocated(event)
        elif type(event) is Freed:
            return self._freed(event)
        else:
            self._other(event)
        return event

    def resend(self, generation: int) -> list[Event]:
        """Events that rebuild the table in the server.

        Allocations come before runs and phases, because a program run needs its parts, and a phase begins with the live
        allocations. A view is compared with all live allocations, so it comes after the end of the resync has removed
        the others.
        """
        used = {number for device in {key[0] for key in self._allocations} for number in device_numbers(device)}
        exist = {*self._parts, *self._programs}
        tables: tuple[Iterable[Event], ...] = (
            [ResyncBegin(generation)],
            [device for number, device in self.devices.items() if number not in self._closed or number in used],
            self._programs.values(),
            self._allocations.values(),
            [run for run in self._runs() if (run.device, run.program) in exist],
            self._phases.values(),
            [ResyncEnd(generation)],
            self._views.values(),
        )
        return [event for table in tables for event in table]

    def _other(self, event: Event) -> None:
        if isinstance(event, ProgramCompiled):
            known = self._programs.get((event.device, event.program), event)  # which the new event does not revoke
            merged = event._replace(ring=event.ring or known.ring, tag=event.tag or known.tag)
            self._programs[event.device, event.program] = merged
        elif isinstance(event, ProgramDestroyed):
            self._programs.pop((event.device, event.program), None)
            if event.device in self._resident:
                before = self._resident[event.device]
                self._resident[event.device] = [one for one in before if one.program != event.program]
            self._drop(self._parts.get((event.device, event.program), ()))
        elif isinstance(event, DeviceOpened):
            self.devices[event.device] = event
            self._closed.discard(event.device)
        elif isinstance(event, ProgramRun):
            self._run(event)
        elif isinstance(event, DeviceClosed):
            self._closed.add(event.device)
            self._resident.pop(event.device, None)
            self._programs = {key: known for key, known in self._programs.items() if key[0] != event.device}
            self._views = {key: known for key, known in self._views.items() if key[0] != event.device}
            self._drop(key for key in self._allocations if key[0] == event.device)
        elif isinstance(event, Viewed):
            self._views[event.device, event.allocator, event.kind] = event
        elif isinstance(event, PhaseBegan):
            self._phases.setdefault(event.ident, event)
        elif isinstance(event, PhaseEnded):
            self._phases.pop(event.ident, None)

    def _run(self, event: ProgramRun) -> None:
        """The program is now resident on these cores, and what ran there before on the same device or mesh is not.

        Launches on other meshes of the same chips are kept in their order, so that the server gets the same result.
        """
        before = self._resident.get(event.device, ())
        left = [one._replace(cores=one.cores & ~event.cores) for one in before if one.cores & ~event.cores]
        self._launches += 1
        self._resident[event.device] = [*left, _Launch(self._launches, event.program, event.cores)]

    def _runs(self) -> list[ProgramRun]:
        """The launches that are still resident, in their order."""
        found = [(launch, device) for device, launches in self._resident.items() for launch in launches]
        found.sort(key=lambda one: one[0].number)
        return [ProgramRun(device, launch.program, launch.cores) for launch, device in found]

    def _allocated(self, event: Allocated) -> None:
        device, kind, address, size, program, _, extra, _ = event
        if not 0 < size <= MAX_SIZE:
            return
        allocator, cores = (extra.allocator, extra.cores) if extra is not None else (0, 0)
        key = _key(device, kind, address, program, allocator, cores)
        if not address and key[1] < 0:
            self._unplaced += 1
            key = (device, key[1], -self._unplaced, allocator, 0)
        lies = self._lies(device, address) if kind == _L1 and address > _LAST_ADDRESS else kind
        known = self._allocations.get(key)
        if known is None or known.size != size or known.kind != kind or self._writes.get(key, kind) != lies:
            if known is not None:
                self._remove(key)
            if extra is None or not extra.shared:
                for number in device_numbers(device):
                    self.tally.add(number, lies, size, _taken(event, lies))
            self._allocations[key] = _new(Allocated, (device, kind, address, size, program, 1, extra, 0))
            if key[1] >= 0:
                self._parts.setdefault((device, program), set()).add(key)
            elif lies != kind:
                self._writes[key] = lies
        elif key[1] != Kind.KERNEL:
            self._allocations[key] = known._replace(refs=known.refs + 1)

    def _lies(self, device: Device, ident: int) -> Kind:
        """The kind of a per-core write, as the server will determine it."""
        geometry, first = None, device_numbers(device)[0]  # the chips of a mesh have the same geometry
        if first in self.devices:
            chip = self.devices[first].chip
            geometry = chip.geometry or board_geometry(chip.board, chip.arch)
        place = split_core_id(ident, *noc_limits(geometry))
        return Kind.L1 if place is None else region_at(geometry, place.address).kind

    def _freed(self, event: Freed) -> Freed:
        device, kind, address, size, program, allocator, cores, _ = event
        key = self._find(event)
        if key is None:
            return event
        allocation = self._allocations[key]
        if allocation.refs > 1:
            self._allocations[key] = allocation._replace(refs=allocation.refs - 1)
        else:
            self._remove(key)
        if kind is not None:
            return event
        return _new(Freed, (device, allocation.kind, address, size, program, allocator, cores, 0))

    def _find(self, event: Freed) -> Key | None:
        kinds = (event.kind,) if event.kind is not None else BUFFER_KINDS
        for kind in kinds:
            key = _key(event.device, kind, event.address, event.program, event.allocator, event.cores)
            if key in self._allocations:
                return key
        reported = event.kind
        if event.address or (reported is not None and reported >= _FIRST_PART and reported != Kind.FIRMWARE):
            return None
        # Allocations reported at address 0 are distinguished by size, as in the server; the newest is freed first.
        spaces = set(_SPACES) if reported is None else {_SPACES[reported]}
        wanted = [
            k
            for k in self._allocations
            if k[0] == event.device and k[1] in spaces and k[2] < 0 and k[3] == event.allocator
        ]
        sized = [k for k in wanted if self._allocations[k].size == event.size]
        return (sized or wanted or [None])[-1]  # type: ignore[list-item]

    def _drop(self, keys: Iterable[Key]) -> None:
        for key in list(keys):
            self._remove(key)

    def _remove(self, key: Key) -> None:
        allocation = self._allocations.pop(key)
        kind = allocation.kind
        if key[1] >= 0:
            parts = self._parts[key[0], allocation.program]
            parts.discard(key)
            if not parts:
                del self._parts[key[0], allocation.program]
        elif key[2] > _LAST_ADDRESS:
            kind = self._writes.pop(key, kind)
        if allocation.extra is None or not allocation.extra.shared:
            for number in device_numbers(allocation.device):
                self.tally.remove(number, kind, allocation.size, _taken(allocation, kind))

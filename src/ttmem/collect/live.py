# SPDX-License-Identifier: Apache-2.0
"""The client's own table of what is live, which it re-sends to a server that missed something."""

from __future__ import annotations

from ttmem.account.events import MAX_SIZE, Allocated, DeviceClosed, DeviceOpened, Event, Freed, ProgramDestroyed
from ttmem.account.kinds import BUFFER_KINDS, FAMILY_OF, POOL_OF, Kind

Key = tuple[int, int, int, int, int]
_FIRST_PART = int(Kind.CB)
_SPACES = tuple(-1 - int(POOL_OF[kind]) for kind in Kind)  # of buffers; negative, to differ from families of parts
_new = tuple.__new__  # a NamedTuple's own constructor costs three times as much


def _key(device: int, kind: Kind, address: int, program: int, allocator: int, cores: int) -> Key:
    if kind < _FIRST_PART or kind == Kind.FIRMWARE:
        return device, _SPACES[kind], address, allocator, 0
    return device, FAMILY_OF[kind], address, program, cores


class LiveTable:
    """Folds events the way the server does, as far as needed to say again what is live."""

    def __init__(self) -> None:
        self.devices: dict[int, DeviceOpened] = {}
        self._things: dict[Key, Allocated] = {}
        self._unplaced = 0

    def __len__(self) -> int:
        return len(self._things)

    def fold(self, event: Event) -> Event:
        """Apply an event; returns it, with the kind filled in if a free left it out."""
        if type(event) is Allocated:
            self._allocated(event)
        elif type(event) is Freed:
            return self._freed(event)
        elif isinstance(event, ProgramDestroyed):
            self._drop(lambda key, thing: key[0] == event.device and key[1] >= 0 and thing.program == event.program)
        elif isinstance(event, DeviceOpened):
            self.devices[event.device] = event
        elif isinstance(event, DeviceClosed):
            self._drop(lambda key, thing: key[0] == event.device)
        return event

    def resend(self) -> list[Event]:
        """Events that build the table anew on the other side."""
        return [*self.devices.values(), *self._things.values()]

    def _allocated(self, event: Allocated) -> None:
        device, kind, address, size, program, _, extra = event
        if not 0 < size <= MAX_SIZE:
            return
        allocator, cores = (extra.allocator, extra.cores) if extra is not None else (0, 0)
        key = _key(device, kind, address, program, allocator, cores)
        if not address and key[1] < 0:
            self._unplaced += 1
            key = (device, key[1], -self._unplaced, allocator, 0)
        known = self._things.get(key)
        if known is None or known.size != size or known.kind != kind:
            self._things[key] = _new(Allocated, (device, kind, address, size, program, 1, extra))
        elif key[1] != Kind.KERNEL:
            self._things[key] = known._replace(refs=known.refs + 1)

    def _freed(self, event: Freed) -> Freed:
        device, kind, address, size, program, allocator, cores = event
        key = self._find(event)
        if key is None:
            return event
        thing = self._things[key]
        if thing.refs > 1:
            self._things[key] = thing._replace(refs=thing.refs - 1)
        else:
            del self._things[key]
        if kind is not None:
            return event
        return _new(Freed, (device, thing.kind, address, size, program, allocator, cores))

    def _find(self, event: Freed) -> Key | None:
        kinds = (event.kind,) if event.kind is not None else BUFFER_KINDS
        for kind in kinds:
            key = _key(event.device, kind, event.address, event.program, event.allocator, event.cores)
            if key in self._things:
                return key
        said = event.kind
        if event.address or (said is not None and said >= _FIRST_PART and said != Kind.FIRMWARE):
            return None
        # Things reported at address 0 are told apart by size, as the server does; the youngest goes.
        spaces = set(_SPACES) if said is None else {_SPACES[said]}
        wanted = [
            k for k in self._things if k[0] == event.device and k[1] in spaces and k[2] < 0 and k[3] == event.allocator
        ]
        sized = [k for k in wanted if self._things[k].size == event.size]
        return (sized or wanted or [None])[-1]  # type: ignore[list-item]

    def _drop(self, gone: object) -> None:
        assert callable(gone)
        for key in [key for key, thing in self._things.items() if gone(key, thing)]:
            del self._things[key]

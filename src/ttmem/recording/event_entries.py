# SPDX-License-Identifier: Apache-2.0
"""Events of sources other than agents' rings, as the entries of EVENTS blocks.

    entry    u32 length of what follows, f64 time, u32 source (0: the machine), record
    source   an entry whose record starts with 0xB0: the source of that number, JSON {process, name, confidence, seen}
    stack    an entry whose record starts with 0xB1: the stack that has, from here on, the number in the source field
    mesh     an entry whose record starts with 0xB2: the mesh that has, from here on, the number in the source field,
             JSON list of its device numbers
    on mesh  a record that starts with 0xB3: u32 number of a mesh, then the record of an event on it

Records are those of ttmem's own protocol. Stacks are long and few: each is written once, before the first record that
refers to it by number. The number of numbered stacks is limited, so that the memory of writer and reader does not grow
with the file: beyond the limit, a new stack takes the number of the oldest.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator
from struct import Struct
from struct import error as StructError
from typing import Any, NamedTuple

from ttmem.account.entities import Source
from ttmem.account.ledger import Ledger
from ttmem.model.events import (
    ChipFound,
    Device,
    DeviceOpened,
    Event,
    Failed,
    Mark,
    PeaksReset,
    PhaseBegan,
    PhaseEnded,
    WorkloadRun,
)
from ttmem.model.identity import ProcessInfo
from ttmem.model.kinds import Confidence
from ttmem.model.validation import check_device, check_time
from ttmem.recording.blocks import RecordingError
from ttmem.recording.columns import FAILED, PHASES
from ttmem.wire import client_records as native
from ttmem.wire.client_decode import decode, read_text
from ttmem.wire.client_encode import encode, stack_of

_NoneType = type(None)
_ENTRY = Struct("<IdI")
_STAMP_BYTES = _ENTRY.size - 4  # of the length that an entry states
_SOURCE, _STACK, _MESH, _ON_MESH = 0xB0, 0xB1, 0xB2, 0xB3
_MESH_NUMBER = Struct("<BI")
_OF_THE_MACHINE = (ChipFound, Mark, PeaksReset)  # the only events without a source
_EXITED_KEPT = 4096
_STACKS_KEPT = 8192
_MESHES_KEPT = 8192


class EventEncoder:
    """Collects the entries of a block. Nothing is kept for an event beyond that."""

    def __init__(self) -> None:
        self._entries: list[bytes] = []
        # The source itself is the key, because its id() could be reused.
        self._numbers: dict[Source, int] = {}
        self._exited: deque[Source] = deque()
        self._next = 1
        self._stacks: dict[str, int] = {}  # the oldest first
        self._meshes: dict[Device, int] = {}  # as well
        self.size = 0  # bytes
        self.events = 0  # so far, over all blocks
        self.time = 0.0  # of the last event
        self.flags = 0

    def add(self, time: float, source: Source | None, event: Event) -> None:
        if type(event) is WorkloadRun:
            for run in event.runs:
                self.add(time, source, run)
            return
        number = 0
        if source is not None:
            number = self._numbers.get(source) or self._introduce(source)
        head = b""
        device: Device = getattr(event, "device", 0)
        if type(device) is tuple:
            mesh = self._meshes.get(device)
            if mesh is None:
                mesh = self._define_mesh(time, device)
            head, event = _MESH_NUMBER.pack(_ON_MESH, mesh), event._replace(device=0)  # type: ignore[call-arg]
        stack = stack_of(event)
        known = None
        if stack is not None:
            known = self._stacks.get(stack)
            if known is None:
                known = self._define(time, stack)
        if type(event) is Failed:
            self.flags |= FAILED
        elif type(event) is PhaseBegan or type(event) is PhaseEnded:
            self.flags |= PHASES
        self._entry(time, number, head + encode(event, known))
        self.events += 1
        self.time = max(self.time, time)

    def exited(self, source: Source) -> None:
        """The source has ended. Late events may still come, so it is forgotten only after enough others have ended."""
        self._exited.append(source)
        if len(self._exited) > _EXITED_KEPT:
            self._numbers.pop(self._exited.popleft(), None)

    def take(self) -> tuple[bytes, int]:
        """The entries so far and the flags of their block; the next block begins."""
        taken, flags = b"".join(self._entries), self.flags
        self._entries, self.size, self.flags = [], 0, 0
        return taken, flags

    def begin_anew(self) -> None:
        """Define everything again in the next entries, so that a reader can begin there."""
        self._numbers.clear()
        self._exited.clear()
        self._stacks.clear()
        self._meshes.clear()

    def _introduce(self, source: Source) -> int:
        number = self._numbers[source] = self._next
        self._next += 1
        process = source.process
        about = {"process": list(process.info), "name": source.name, "confidence": int(source.confidence)}
        self._entry(process.seen, number, bytes([_SOURCE]) + json.dumps(about).encode())
        return number

    def _define(self, time: float, stack: str) -> int:
        number = len(self._stacks)
        if number == _STACKS_KEPT:
            number = self._stacks.pop(next(iter(self._stacks)))
        self._stacks[stack] = number
        self._entry(time, number, bytes([_STACK]) + native.packed_text(stack, native.MAX_LINES_BYTES))
        return number

    def _define_mesh(self, time: float, device: Device) -> int:
        number = len(self._meshes)
        if number == _MESHES_KEPT:
            number = self._meshes.pop(next(iter(self._meshes)))
        self._meshes[device] = number
        self._entry(time, number, bytes([_MESH]) + json.dumps(device).encode())
        return number

    def _entry(self, time: float, number: int, record: bytes) -> None:
        entry = _ENTRY.pack(_STAMP_BYTES + len(record), time, number) + record
        self._entries.append(entry)
        self.size += len(entry)


class SourceName(NamedTuple):
    """A source as a recording describes it."""

    seen: float
    info: ProcessInfo
    name: str
    confidence: Confidence

    def of(self, ledger: Ledger) -> Source:
        """That source in an account, made on first use."""
        return ledger.source(self.seen, self.info, self.name, self.confidence)


class EventDecoder:
    """Reads entries. What they define is kept from block to block."""

    def __init__(self) -> None:
        self._sources: dict[int, SourceName] = {}
        self._stacks: dict[int, str] = {}
        self._meshes: dict[int, tuple[int, ...]] = {}

    def events(
        self, block: bytes, *, only_define: bool = False
    ) -> Iterator[tuple[float, SourceName | None, Event]]:  # fmt: skip
        """The events of a block; RecordingError if one is invalid.

        ``only_define``: none of them, but what they define is needed by later blocks.
        """
        at = 0
        while at < len(block):
            try:
                length, time, number = _ENTRY.unpack_from(block, at)
                end = at + 4 + length
                if end > len(block) or length <= _STAMP_BYTES:
                    raise ValueError("it is longer than its block")
                record = block[at + _ENTRY.size : end]
                at = end
                check_time(time)
                if record[0] == _SOURCE:
                    self._sources[number] = source_name(time, json.loads(record[1:]))
                    continue
                if record[0] == _STACK:
                    self._stacks[number] = read_text(record[1:], native.MAX_LINES_BYTES)
                    continue
                if record[0] == _MESH:
                    self._meshes[number] = _mesh(record[1:])
                    continue
                if only_define:
                    continue
                if record[0] == _ON_MESH:
                    mesh = self._meshes[_MESH_NUMBER.unpack_from(record)[1]]
                    event = _on_mesh(decode(record[_MESH_NUMBER.size :], self._stacks), mesh)
                else:
                    event = decode(record, self._stacks)
                source = self._sources[number] if number else None
                if source is None and not isinstance(event, _OF_THE_MACHINE):
                    raise ValueError(f"{type(event).__name__} needs a source")
            except (ValueError, KeyError, TypeError, AttributeError, IndexError, StructError) as error:
                raise RecordingError(f"an event of it is invalid: {type(error).__name__}: {error}") from None
            yield time, source, event


def source_name(seen: float, about: Any) -> SourceName:
    """A source from its JSON; ValueError, KeyError or TypeError if that is invalid."""
    return SourceName(seen, _process_info(about["process"]), str(about["name"]), Confidence(about["confidence"]))


def _on_mesh(event: Any, mesh: tuple[int, ...]) -> Event:
    """An event that was written about a mesh; AttributeError or ValueError if it can be about none."""
    if isinstance(event, (DeviceOpened, Failed)):
        raise ValueError(f"{type(event).__name__} is about one device")
    found: Event = event._replace(device=mesh)
    return found


def _mesh(text: bytes) -> tuple[int, ...]:
    """The device numbers of a mesh; ValueError if they are none."""
    numbers = json.loads(text)
    if not isinstance(numbers, list) or not all(type(number) is int for number in numbers):
        raise ValueError("a mesh is a list of device numbers")
    for number in numbers:
        check_device(number)
    return tuple(numbers)


def _process_info(fields: list[Any]) -> ProcessInfo:
    """The process of a source entry; ValueError if a field has the wrong type."""
    info = ProcessInfo(*fields)
    numbers, texts = (info.pid, info.start, info.user_id, info.connection), (info.name, info.command)
    if not all(type(number) in (int, _NoneType) for number in numbers) or info.pid is None:
        raise ValueError(f"a process is described by numbers, not {numbers}")
    if not all(isinstance(text, (str, _NoneType)) for text in texts):
        raise ValueError(f"a process has a name and a command line, not {texts}")
    return info

# SPDX-License-Identifier: Apache-2.0
"""The event file: every applied event, so that applying them again gives the same account.

    header   8 bytes "TTMEMEVT", u32 version, u32 zero
    entry    u32 length of what follows, u32 CRC-32 of it, f64 time, u32 source (0: the machine), record
    source   an entry whose record starts with 0xB0: the source of that number, JSON {process, name, confidence}
    stack    an entry whose record starts with 0xB1: the stack that has, from here on, the number in the source field
    mesh     an entry whose record starts with 0xB2: the mesh that has, from here on, the number in the source field,
             JSON list of its device numbers
    on mesh  a record that starts with 0xB3: u32 number of a mesh, then the record of an event on it

A file that is cut off is readable up to its last complete entry. Stacks are long and few: each is written once, before
the first record that refers to it by number. The number of numbered stacks is limited, so that the memory of writer and
reader does not grow with the file: beyond the limit, a new stack takes the number of the oldest.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator
from struct import Struct
from struct import error as StructError
from typing import Any, BinaryIO
from zlib import crc32

from ttmem.account.entities import Source
from ttmem.account.ledger import Ledger
from ttmem.model.events import Device, DeviceOpened, Event, Failed, WorkloadRun
from ttmem.model.identity import ProcessInfo
from ttmem.model.kinds import Confidence
from ttmem.model.validation import check_device, check_time
from ttmem.wire import client_records as native
from ttmem.wire.client_decode import decode, read_text
from ttmem.wire.client_encode import encode, stack_of

_NoneType = type(None)
MAGIC = b"TTMEMEVT"
VERSION = 4  # 1 had the stack in every record; 2 identified buffers by address only; 3 had no meshes
_HEADER = Struct("<8sII")
_ENVELOPE = Struct("<II")
_STAMP = Struct("<dI")
_SOURCE, _STACK, _MESH, _ON_MESH = 0xB0, 0xB1, 0xB2, 0xB3
_MESH_NUMBER = Struct("<BI")
_MAX_ENTRY_BYTES = 1 << 20
_EXITED_KEPT = 4096
_STACKS_KEPT = 8192
_MESHES_KEPT = 8192


class EventFileError(ValueError):
    """The file is not an event file this version can read."""


class EventFileWriter:
    """Appends events. Nothing is kept per event beyond the file's own buffer."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        # The source itself is the key, because its id() could be reused.
        self._numbers: dict[Source, int] = {}
        self._exited: deque[Source] = deque()
        self._next = 1
        self._stacks: dict[str, int] = {}  # the oldest first
        self._meshes: dict[Device, int] = {}  # as well
        file.write(_HEADER.pack(MAGIC, VERSION, 0))

    def write(self, time: float, source: Source | None, event: Event) -> None:
        if type(event) is WorkloadRun:
            for run in event.runs:
                self.write(time, source, run)
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
        self._entry(time, number, head + encode(event, known))

    def exited(self, source: Source) -> None:
        """The source has ended. Late events may still come, so it is forgotten only after enough others have ended."""
        self._exited.append(source)
        if len(self._exited) > _EXITED_KEPT:
            self._numbers.pop(self._exited.popleft(), None)

    def flush(self) -> None:
        self._file.flush()

    def _introduce(self, source: Source) -> int:
        number = self._numbers[source] = self._next
        self._next += 1
        about = {"process": list(source.process.info), "name": source.name, "confidence": int(source.confidence)}
        self._entry(source.process.seen, number, bytes([_SOURCE]) + json.dumps(about).encode())
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
        payload = _STAMP.pack(time, number) + record
        self._file.write(_ENVELOPE.pack(len(payload), crc32(payload)) + payload)


class EventFileReader:
    """Reads an event file; ``cut`` is true afterwards if it ended inside an entry."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.cut = False
        head = file.read(_HEADER.size)
        if len(head) < _HEADER.size or head[:8] != MAGIC:
            raise EventFileError("not a ttmem event file; `ttmem run --record` and `ttmem serve --record` write them")
        version = _HEADER.unpack(head)[1]
        if not 1 <= version <= VERSION:
            raise EventFileError(f"event file of version {version}; this ttmem reads versions 1 to {VERSION}")

    def entries(self) -> Iterator[tuple[float, int, bytes]]:
        """(time, number, record) of every complete entry."""
        while True:
            head = self._file.read(_ENVELOPE.size)
            if len(head) < _ENVELOPE.size:
                self.cut = bool(head)
                return
            length, checksum = _ENVELOPE.unpack(head)
            payload = self._file.read(min(length, _MAX_ENTRY_BYTES))
            if not _STAMP.size < length == len(payload) or crc32(payload) != checksum:
                self.cut = True
                return
            time, number = _STAMP.unpack_from(payload)
            yield time, number, payload[_STAMP.size :]

    def replay(self, ledger: Ledger, until: float | None = None) -> float | None:
        """Apply the events to a ledger, up to a time if one is given. Returns the time of the last event applied."""
        sources: dict[int, Source] = {}
        stacks: dict[int, str] = {}
        meshes: dict[int, tuple[int, ...]] = {}
        last = None
        for time, number, record in self.entries():
            if until is not None and time > until:
                break
            try:
                check_time(time)
                if record[0] == _SOURCE:
                    about = json.loads(record[1:])
                    sources[number] = ledger.source(
                        time, _process_info(about["process"]), str(about["name"]), Confidence(about["confidence"])
                    )
                elif record[0] == _STACK:
                    stacks[number] = read_text(record[1:], native.MAX_LINES_BYTES)
                elif record[0] == _MESH:
                    meshes[number] = _mesh(record[1:])
                else:
                    if record[0] == _ON_MESH:
                        mesh = meshes[_MESH_NUMBER.unpack_from(record)[1]]
                        event = _on_mesh(decode(record[_MESH_NUMBER.size :], stacks), mesh)
                    else:
                        event = decode(record, stacks)
                    ledger.apply(time, sources[number] if number else None, event)
                    last = time
            except (ValueError, KeyError, TypeError, AttributeError, StructError) as error:
                raise EventFileError(f"an entry is complete but invalid: {type(error).__name__}: {error}") from None
        return last


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

# SPDX-License-Identifier: Apache-2.0
"""Our own records: what the legacy ones cannot say (kind, program, cores, tag, chip), with a length and a version.

Every record starts with ``op u8, kind u8, length u16, device i32``; length covers the whole record and is a
multiple of 8. A connection opens with HELLO, whose first byte no legacy record can have. docs/protocol.md lists the
bodies. The same records, in an envelope, make up the event file (see journal).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import lru_cache
from struct import Struct
from struct import error as StructError
from typing import Any, NamedTuple

from ttmem.account.events import (
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
from ttmem.account.geometry import Arch, Geometry
from ttmem.account.grid import MAX_Y, ROW, CoreRange, mask_of, ranges_of
from ttmem.account.identity import ChipInfo
from ttmem.account.kinds import KINDS, Confidence

VERSION = 1
MAGIC = 0xF7
_HELLO_MARK = 0x54

ALLOCATED, FREED, PROGRAM_RUN, PROGRAM_DESTROYED = 0x81, 0x82, 0x83, 0x84
DEVICE_OPENED, DEVICE_CLOSED = 0x85, 0x86
RESYNC_BEGIN, RESYNC_END, LOST, MARK = 0x87, 0x88, 0x89, 0x8A
SYNC, SYNCED, WELCOME = 0x8B, 0x8C, 0x8D
PROGRAM_COMPILED, PHASE_BEGAN, PHASE_ENDED, VIEWED = 0x8E, 0x8F, 0x90, 0x91
# Only in event files: what the server itself found out.
CHIP_FOUND, REJECTED, CLAIMED, PROCESS_EXITED, PEAKS_RESET = 0xA0, 0xA1, 0xA2, 0xA3, 0xA4
# Only in event files: what the agent said through its ring.
SEES, AUDITED, FAILED, DESCRIBED = 0xA6, 0xA7, 0xA8, 0xA9

PREFIX = Struct("<BBHi")
_ALLOCATED = Struct("<BBHiQQQQIIHHHH")
_FREED = Struct("<BBHiQQQIHH")
_RUN = Struct("<BBHiQHHI")
_NUMBER = Struct("<BBHiQ")
_RANGE = Struct("<4H")
_VIEWED = Struct("<BBHiIIQQQ")
_PHASE = Struct("<QQ")
ANSWER_SIZE = _NUMBER.size  # of everything a server sends

_NO_KIND, _NO_TEXT = 255, 0xFFFF
_HAS_EXTRA, _SHARED, _RESERVED_KNOWN, _BINARY, _SYSTEM, _LINES = 1, 2, 4, 8, 16, 32
MAX_TEXT = 1024
MAX_LINES = 8192  # of a stack, and of what the runtime said when it threw
MAX_NAME = 128  # of a chip, a board
MAX_RECORD = 0xFFF8


class NativeError(ValueError):
    """A record that cannot be understood; the text says why."""


class Hello(NamedTuple):
    """How a client introduces itself: what it is, and how far it should be believed."""

    version: int
    source: str
    confidence: Confidence


def _padded(length: int) -> int:
    return (length + 7) & ~7


def _text(text: str, most: int = MAX_TEXT) -> bytes:
    """UTF-8, cut to the limit without leaving half a character."""
    raw = text.encode("utf-8", "replace")
    return raw if len(raw) <= most else raw[:most].decode("utf-8", "ignore").encode()


def _read_text(raw: bytes, most: int = MAX_TEXT) -> str:
    """Text as it would be written again: what is not UTF-8 grows when it is replaced."""
    return _text(raw[:most].decode("utf-8", "replace"), most).decode()


def _tag(tag: str | None, most: int = MAX_TEXT) -> str | None:
    return None if tag is None else _text(tag, most).decode()


def _counted(text: str | None) -> bytes:
    """A text with its length before it, for records that have several."""
    raw = b"" if text is None else _text(text, MAX_LINES)
    return (_NO_TEXT if text is None else len(raw)).to_bytes(2, "little") + raw


def _read_counted(record: bytes, at: int) -> tuple[str | None, int]:
    """Such a text, and where it ends."""
    length = int.from_bytes(record[at : at + 2], "little")
    if length == _NO_TEXT:
        return None, at + 2
    if at + 2 + length > len(record):
        raise NativeError(f"a text of {length} bytes does not fit a record of {len(record)} bytes")
    return _read_text(record[at + 2 : at + 2 + length], MAX_LINES), at + 2 + length


def _with_body(op: int, device: int, body: bytes, kind: int = 0) -> bytes:
    length = _padded(PREFIX.size + 2 + len(body))
    if length > MAX_RECORD:
        raise NativeError(f"a record of {length} bytes is longer than {MAX_RECORD}")
    return (PREFIX.pack(op, kind, length, device) + len(body).to_bytes(2, "little") + body).ljust(length, b"\0")


@lru_cache(maxsize=1024)  # a workload uses few sets of cores, over and over
def _pack_ranges(mask: int) -> bytes:
    return b"".join(_RANGE.pack(*one) for one in ranges_of(mask)) if mask else b""


@lru_cache(maxsize=1024)
def _mask_of_packed(ranges: bytes) -> int:
    rows = sum(abs(y1 - y0) + 1 for _, y0, _, y1 in _RANGE.iter_unpack(ranges))
    if rows > ROW * MAX_Y:  # a row of a range is a core at least, and each core need be named only once
        raise NativeError(f"core ranges of {rows} rows name more cores than the {ROW * MAX_Y} there can be")
    return mask_of(CoreRange(*one) for one in _RANGE.iter_unpack(ranges))


def hello(source: str, confidence: Confidence) -> bytes:
    return _with_body(MAGIC, VERSION, bytes([confidence]) + _text(source), _HELLO_MARK)


def sync(token: int) -> bytes:
    """Asks the server to say when everything sent so far has been applied."""
    return _NUMBER.pack(SYNC, 0, _NUMBER.size, 0, token)


def synced(token: int) -> bytes:
    return _NUMBER.pack(SYNCED, 0, _NUMBER.size, 0, token)


def welcome() -> bytes:
    return _NUMBER.pack(WELCOME, 0, _NUMBER.size, VERSION, 0)


def allocated(event: Allocated, op: int = ALLOCATED) -> bytes:
    device, kind, address, size, program, refs, extra = event
    if extra is None:
        return _ALLOCATED.pack(op, kind, 56, device, address, size, 0, program, 0, refs, 0, 0, 0, 0)
    ranges = _pack_ranges(extra.cores)
    tag = b"" if extra.tag is None else _text(extra.tag)
    known = extra.shape is not None or extra.stack is not None
    lines = _counted(extra.shape) + _counted(extra.stack) if known else b""
    flags = _HAS_EXTRA | (_SHARED if extra.shared else 0) | (0 if extra.reserved is None else _RESERVED_KNOWN)
    flags |= (_BINARY if extra.binary else 0) | (_SYSTEM if extra.system else 0) | (_LINES if lines else 0)
    length = _padded(_ALLOCATED.size + len(ranges) + len(tag) + len(lines))
    head = _ALLOCATED.pack(
        op, kind, length, device, address, size, extra.reserved or 0, program, extra.allocator, refs, flags,
        len(ranges) // _RANGE.size, _NO_TEXT if extra.tag is None else len(tag),
        (0 if extra.layout is None else extra.layout + 1) & 15 | (extra.core_count & 0xFFF) << 4,
    )  # fmt: skip
    return (head + ranges + tag + lines).ljust(length, b"\0")


def freed(event: Freed) -> bytes:
    device, kind, address, size, program, allocator, cores = event
    ranges = _pack_ranges(cores)
    code = _NO_KIND if kind is None else kind
    length, count = _FREED.size + len(ranges), len(ranges) // _RANGE.size
    return _FREED.pack(FREED, code, length, device, address, size, program, allocator, count, 0) + ranges


def _run(event: ProgramRun) -> bytes:
    ranges = _pack_ranges(event.cores)
    length, count = _RUN.size + len(ranges), len(ranges) // _RANGE.size
    return _RUN.pack(PROGRAM_RUN, 0, length, event.device, event.program, count, 0, 0) + ranges


def _viewed(event: Viewed) -> bytes:
    device, allocator, kind, banks, *sizes = event
    return _VIEWED.pack(VIEWED, kind, _VIEWED.size, device, allocator, banks, *sizes)


def _number(op: int, device: int, value: int) -> bytes:
    return _NUMBER.pack(op, 0, _NUMBER.size, device, value)


def _chip_json(chip: ChipInfo) -> bytes:
    fields: dict[str, Any] = chip._asdict()
    fields["arch"] = int(chip.arch)
    fields["geometry"] = list(chip.geometry) if chip.geometry is not None else None
    return json.dumps(fields, separators=(",", ":")).encode()


def _chip_of(body: bytes) -> ChipInfo:
    fields = json.loads(body)
    geometry = fields.get("geometry")
    text = {name: fields.get(name) for name in ("pci", "board")}
    if not isinstance(fields["uid"], str) or not all(v is None or isinstance(v, str) for v in text.values()):
        raise ValueError("uid, pci and board must be text")
    text = {name: value and value[:MAX_NAME] for name, value in text.items()}
    kmd, remote = fields.get("kmd"), fields.get("remote")
    return ChipInfo(
        fields["uid"][:MAX_NAME],
        text["pci"],
        None if kmd is None else int(kmd),
        Arch(fields.get("arch", 0)),
        text["board"],
        None if remote is None else bool(remote),
        None if geometry is None else _geometry_of(geometry),
    )


def _geometry_of(values: list[Any]) -> Geometry:
    arch, *sizes, live = values
    if len(sizes) != len(Geometry._fields) - 2:
        raise ValueError(f"geometry has {len(Geometry._fields)} values, not {len(values)}")
    if any(not isinstance(size, int) or not 0 <= size < 1 << 63 for size in sizes):
        raise ValueError("geometry sizes must be whole numbers")
    return Geometry._make([Arch(arch), *sizes, bool(live)])


def _compiled_json(event: ProgramCompiled) -> bytes:
    return json.dumps([*event[1:4], _tag(event.tag), _tag(event.stack, MAX_LINES)]).encode()


def _failed_json(event: Failed) -> bytes:
    return json.dumps([_tag(event.text, MAX_LINES), _tag(event.tag), _tag(event.stack, MAX_LINES)]).encode()


_ENCODERS: dict[type, Callable[[Any], bytes]] = {
    Allocated: allocated,
    Freed: freed,
    Described: lambda e: allocated(Allocated(e.device, e.kind, e.address, 0, 0, 0, e.extra), DESCRIBED),
    Failed: lambda e: _with_body(FAILED, -1 if e.device is None else e.device, _failed_json(e)),
    ProgramRun: _run,
    ProgramDestroyed: lambda e: _number(PROGRAM_DESTROYED, e.device, e.program),
    DeviceOpened: lambda e: _with_body(DEVICE_OPENED, e.device, _chip_json(e.chip)),
    DeviceClosed: lambda e: _number(DEVICE_CLOSED, e.device, 0),
    ResyncBegin: lambda e: _number(RESYNC_BEGIN, 0, e.generation),
    ResyncEnd: lambda e: _number(RESYNC_END, 0, e.generation),
    Lost: lambda e: _number(LOST, 0, e.events),
    ProgramCompiled: lambda e: _with_body(PROGRAM_COMPILED, e.device, _compiled_json(e)),
    Sees: lambda e: _with_body(SEES, 0, json.dumps(e).encode()),
    Audited: lambda e: _with_body(AUDITED, e.device, json.dumps(e[1:]).encode()),
    Mark: lambda e: _with_body(MARK, 0, _text(e.text)),
    PhaseBegan: lambda e: _with_body(PHASE_BEGAN, 0, _PHASE.pack(e.ident, e.parent) + _text(e.name)),
    PhaseEnded: lambda e: _number(PHASE_ENDED, 0, e.ident),
    Viewed: _viewed,
    ChipFound: lambda e: _with_body(CHIP_FOUND, 0, _chip_json(e.chip)),
    Rejected: lambda e: _number(REJECTED, 0, e.records),
    Claimed: lambda e: _number(CLAIMED, e.pid, 0),
    ProcessExited: lambda e: _number(PROCESS_EXITED, 0, 0),
    PeaksReset: lambda e: _number(PEAKS_RESET, 0, 0),
}


def encode(event: Event) -> bytes:
    """The record of any event."""
    return _ENCODERS[type(event)](event)


def _unpack_ranges(record: bytes, at: int, count: int) -> int:
    if count > ROW * MAX_Y:
        raise NativeError(f"{count} core ranges are more than the {ROW * MAX_Y} cores there can be")
    if at + count * _RANGE.size > len(record):
        raise NativeError(f"{count} core ranges do not fit a record of {len(record)} bytes")
    return _mask_of_packed(bytes(record[at : at + count * _RANGE.size]))


def _decode_allocated(record: bytes) -> Allocated:
    (_, kind, _, device, address, size, reserved, program, allocator, refs, flags, count, tag_length, spread) = (
        _ALLOCATED.unpack_from(record)
    )
    if kind >= len(KINDS):
        raise NativeError(f"kind {kind} does not exist")
    if not flags & _HAS_EXTRA:
        return Allocated(device, KINDS[kind], address, size, program, refs)
    at = _ALLOCATED.size
    cores = _unpack_ranges(record, at, count)
    at += count * _RANGE.size
    tag = shape = stack = None
    if tag_length != _NO_TEXT:
        tag = _read_text(record[at : at + tag_length])
        at += tag_length
    if flags & _LINES:
        shape, at = _read_counted(record, at)
        stack, at = _read_counted(record, at)
    extra = Extra(
        reserved if flags & _RESERVED_KNOWN else None, cores, allocator, tag, bool(flags & _SHARED),
        (spread & 15) - 1 if spread & 15 else None, spread >> 4, bool(flags & _BINARY), bool(flags & _SYSTEM),
        shape, stack,
    )  # fmt: skip
    return Allocated(device, KINDS[kind], address, size, program, refs, extra)


def _decode_freed(record: bytes) -> Freed:
    _, kind, _, device, address, size, program, allocator, count, _ = _FREED.unpack_from(record)
    if kind >= len(KINDS) and kind != _NO_KIND:
        raise NativeError(f"kind {kind} does not exist")
    cores = _unpack_ranges(record, _FREED.size, count) if count else 0
    return Freed(device, None if kind == _NO_KIND else KINDS[kind], address, size, program, allocator, cores)


def _decode_run(record: bytes) -> ProgramRun:
    _, _, _, device, program, count, _, _ = _RUN.unpack_from(record)
    return ProgramRun(device, program, _unpack_ranges(record, _RUN.size, count))


def _decode_compiled(record: bytes) -> ProgramCompiled:
    program, ring, metal_id, tag, *more = json.loads(_body(record))  # files before stacks have no more
    numbers = int(program), int(ring), int(metal_id)
    if not all(0 <= number < 1 << 64 for number in numbers):
        raise NativeError("the numbers of a compiled program must fit 64 bits")
    stack = more[0] if more else None
    return ProgramCompiled(_device(record), *numbers, _words(tag), _words(stack, MAX_LINES))


def _words(value: object, most: int = MAX_TEXT) -> str | None:
    return _tag(None if value is None else str(value), most)


def _decode_described(record: bytes) -> Described:
    event = _decode_allocated(record)
    if event.extra is None:
        raise NativeError("a description without anything in it")
    return Described(event.device, event.kind, event.address, event.extra)


def _decode_failed(record: bytes) -> Failed:
    text, tag, stack = json.loads(_body(record))
    device = _device(record)
    return Failed(None if device < 0 else device, _words(text, MAX_LINES) or "", _words(tag), _words(stack, MAX_LINES))


def _decode_phase(record: bytes) -> PhaseBegan:
    body = _body(record)
    ident, parent = _PHASE.unpack_from(body)
    return PhaseBegan(ident, _read_text(body[_PHASE.size :]), parent)


def _decode_viewed(record: bytes) -> Viewed:
    _, kind, _, device, allocator, banks, *sizes = _VIEWED.unpack_from(record)
    if kind >= len(KINDS):
        raise NativeError(f"kind {kind} does not exist")
    return Viewed(device, allocator, KINDS[kind], banks, *sizes)


def _decode_sees(record: bytes) -> Sees:
    kinds, trouble = json.loads(_body(record))
    return Sees(int(kinds), None if trouble is None else str(trouble))


def _decode_audited(record: bytes) -> Audited:
    allocator, *pairs, mismatches = json.loads(_body(record))
    ours, theirs, free, banks = ((int(a), int(b)) for a, b in pairs)
    return Audited(_device(record), int(allocator), ours, theirs, free, banks, int(mismatches))


def _body(record: bytes) -> bytes:
    length = int.from_bytes(record[8:10], "little")
    if 10 + length > len(record):
        raise NativeError(f"a body of {length} bytes does not fit a record of {len(record)} bytes")
    return record[10 : 10 + length]


def _device(record: bytes) -> int:
    return int(PREFIX.unpack_from(record)[3])


def _value(record: bytes) -> int:
    return int(_NUMBER.unpack_from(record)[4])


_DECODERS: dict[int, Callable[[bytes], Event]] = {
    ALLOCATED: _decode_allocated,
    FREED: _decode_freed,
    DESCRIBED: _decode_described,
    FAILED: _decode_failed,
    PROGRAM_RUN: _decode_run,
    PROGRAM_DESTROYED: lambda r: ProgramDestroyed(_device(r), _value(r)),
    DEVICE_OPENED: lambda r: DeviceOpened(_device(r), _chip_of(_body(r))),
    DEVICE_CLOSED: lambda r: DeviceClosed(_device(r)),
    RESYNC_BEGIN: lambda r: ResyncBegin(_value(r)),
    RESYNC_END: lambda r: ResyncEnd(_value(r)),
    LOST: lambda r: Lost(_value(r)),
    PROGRAM_COMPILED: _decode_compiled,
    SEES: _decode_sees,
    AUDITED: _decode_audited,
    MARK: lambda r: Mark(_read_text(_body(r))),
    PHASE_BEGAN: _decode_phase,
    PHASE_ENDED: lambda r: PhaseEnded(_value(r)),
    VIEWED: _decode_viewed,
    CHIP_FOUND: lambda r: ChipFound(_chip_of(_body(r))),
    REJECTED: lambda r: Rejected(_value(r)),
    CLAIMED: lambda r: Claimed(_device(r)),
    PROCESS_EXITED: lambda r: ProcessExited(),
    PEAKS_RESET: lambda r: PeaksReset(),
}
_FROM_CLIENTS = frozenset((*range(ALLOCATED, SYNC + 1), PROGRAM_COMPILED, PHASE_BEGAN, PHASE_ENDED, VIEWED))


def decode(record: bytes) -> Event:
    """The event of one whole record."""
    decoder = _DECODERS.get(record[0]) if record else None
    if decoder is None:
        raise NativeError(f"record type 0x{record[:1].hex()} is not known to version {VERSION}")
    try:
        return decoder(record)
    except NativeError:
        raise
    except (StructError, ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError) as error:
        raise NativeError(f"record type 0x{record[0]:02x} of {len(record)} bytes is damaged: {error}") from None


def decode_hello(record: bytes) -> Hello:
    if record[1] != _HELLO_MARK:
        raise NativeError("this is neither a legacy record nor a ttmem hello")
    version = _device(record)
    if version != VERSION:
        raise NativeError(f"the client speaks version {version} of the protocol, this server version {VERSION}")
    body = _body(record)
    try:
        hello = Hello(version, body[1:65].decode("utf-8", "replace"), Confidence(body[0]))
    except (ValueError, IndexError):
        raise NativeError("the hello does not say what the client is") from None
    if not hello.source or hello.source == "legacy":
        raise NativeError(f"a client cannot call itself {hello.source!r}")
    return hello


def sync_token(record: bytes) -> int:
    try:
        return _value(record)
    except StructError:
        raise NativeError("a sync without a token") from None


class NativeStream:
    """Cuts a connection's bytes into records. A record that cannot be right raises: there is no way to resume."""

    def __init__(self) -> None:
        self._carry = b""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Every whole record, hello and sync among them; those before a damaged one are still given."""
        data, self._carry = self._carry + data, b""
        at, end = 0, len(data)
        while end - at >= PREFIX.size:
            op, _, length, _ = PREFIX.unpack_from(data, at)
            if length < PREFIX.size or length & 7:
                raise NativeError(f"a record cannot be {length} bytes long")
            if op not in _FROM_CLIENTS and op != MAGIC:
                raise NativeError(f"record type 0x{op:02x} is not one a client may send")
            if end - at < length:
                break
            yield data[at : at + length]
            at += length
        self._carry = data[at:]

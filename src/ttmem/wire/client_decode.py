# SPDX-License-Identifier: Apache-2.0
"""Splits a byte stream into records of ttmem's own protocol (see client_records), and decodes them to events."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from struct import error as StructError
from struct import unpack_from
from typing import Any

from ttmem.model.core_sets import MAX_Y, ROW, CoreRange, mask_of
from ttmem.model.events import (
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
    ResyncStep,
    Sees,
    Uncertain,
    Viewed,
)
from ttmem.model.geometry import Arch, Geometry
from ttmem.model.identity import ChipInfo
from ttmem.model.kinds import KINDS
from ttmem.model.uncertain_reasons import REASONS
from ttmem.model.validation import InvalidValue, check, check_device
from ttmem.wire import client_records as native
from ttmem.wire.client_records import (
    ALLOCATED_FORM,
    FREED_FORM,
    MAX_LINES_BYTES,
    MAX_NAME_BYTES,
    MAX_TEXT_BYTES,
    PREFIX_FORM,
    RANGE_FORM,
    RUN_FORM,
    NativeError,
    body_in,
    cut_text,
    device_in,
    value_in,
)

Stacks = Mapping[int, str]
_NO_STACKS: Stacks = {}


def decode(record: bytes, stacks: Stacks = _NO_STACKS) -> Event:
    """The event of one complete record; ``stacks`` are the stacks that a recording has numbered so far.

    Raises NativeError if the record is damaged, InvalidValue if it is intact but has an impossible value.
    """
    decoder = _DECODERS.get(record[0]) if record else None
    if decoder is None:
        raise NativeError(f"record type 0x{record[:1].hex()} is not known to version {native.VERSION}")
    try:
        event = decoder(record, stacks)
        check(event)
    except (NativeError, InvalidValue):
        raise
    except (StructError, ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError) as error:
        raise NativeError(f"record type 0x{record[0]:02x} of {len(record)} bytes is damaged: {error}") from None
    return event


def read_text(raw: bytes, most: int = MAX_TEXT_BYTES) -> str:
    """Text with a length that can be written again: replacing bytes that are not UTF-8 makes it longer."""
    return native.packed_text(raw[:most].decode("utf-8", "replace"), most).decode()


def _allocated(record: bytes, stacks: Stacks) -> Allocated:
    (_, kind, _, device, address, size, reserved, program, allocator, refs, flags, count, tag_length, spread) = (
        ALLOCATED_FORM.unpack_from(record)
    )
    if kind >= len(KINDS):
        raise NativeError(f"kind {kind} does not exist")
    ident, at = _ident(record, ALLOCATED_FORM.size, flags)
    if not flags & native.HAS_EXTRA:
        return Allocated(device, KINDS[kind], address, size, program, refs, None, ident)
    cores = _cores(record, at, count)
    at += count * RANGE_FORM.size
    tag = shape = stack = None
    if tag_length != native.NO_TEXT:
        tag = read_text(record[at : at + tag_length])
        at += tag_length
    if flags & native.LINES:
        shape, at = _counted(record, at)
        if flags & native.NUMBERED:
            stack = _numbered(stacks, int.from_bytes(record[at : at + 4], "little"))
        else:
            stack, at = _counted(record, at)
    extra = Extra(
        reserved if flags & native.RESERVED_KNOWN else None, cores, allocator, tag, bool(flags & native.SHARED),
        (spread & 15) - 1 if spread & 15 else None, spread >> 4, bool(flags & native.BINARY),
        bool(flags & native.SYSTEM), shape, stack, bool(flags & native.KEPT), bool(flags & native.PER_CORE),
    )  # fmt: skip
    return Allocated(device, KINDS[kind], address, size, program, refs, extra, ident)


def _ident(record: bytes, at: int, flags: int) -> tuple[int, int]:
    """The number that the source gave to a buffer (0 if none), and the offset of the rest."""
    if not flags & native.IDENT:
        return 0, at
    end = at + native.IDENT_BYTES
    if end > len(record):
        raise NativeError(f"the number of a buffer does not fit a record of {len(record)} bytes")
    return int.from_bytes(record[at:end], "little"), end


def _described(record: bytes, stacks: Stacks) -> Described:
    event = _allocated(record, stacks)
    if event.extra is None:
        raise NativeError("a description without anything in it")
    return Described(event.device, event.kind, event.address, event.extra, event.ident)


def _compiled(record: bytes, stacks: Stacks) -> ProgramCompiled:
    program, ring, metal_id, tag, *more = json.loads(body_in(record))  # files from before stacks end here
    numbers = int(program), int(ring), int(metal_id)
    if not all(0 <= number < 1 << 64 for number in numbers):
        raise NativeError("the numbers of a compiled program must fit 64 bits")
    return ProgramCompiled(device_in(record), *numbers, _words(tag), _stack(more[0] if more else None, stacks))


def _failed(record: bytes, stacks: Stacks) -> Failed:
    text, tag, stack = json.loads(body_in(record))
    device = device_in(record)
    return Failed(
        None if device < 0 else device, _words(text, MAX_LINES_BYTES) or "", _words(tag), _stack(stack, stacks)
    )


def _words(value: object, most: int = MAX_TEXT_BYTES) -> str | None:
    return cut_text(None if value is None else str(value), most)


def _stack(value: object, stacks: Stacks) -> str | None:
    return _numbered(stacks, value) if isinstance(value, int) else _words(value, MAX_LINES_BYTES)


def _numbered(stacks: Stacks, number: int) -> str:
    stack = stacks.get(number)
    if stack is None:
        raise NativeError(f"stack {number} is not defined before this record")
    return stack


def _counted(record: bytes, at: int) -> tuple[str | None, int]:
    """A text with its length before it, and the offset of its end."""
    length = int.from_bytes(record[at : at + 2], "little")
    if length == native.NO_TEXT:
        return None, at + 2
    if at + 2 + length > len(record):
        raise NativeError(f"a text of {length} bytes does not fit a record of {len(record)} bytes")
    return read_text(record[at + 2 : at + 2 + length], MAX_LINES_BYTES), at + 2 + length


def _cores(record: bytes, at: int, count: int) -> int:
    if count > ROW * MAX_Y:
        raise NativeError(f"{count} core ranges are more than the {ROW * MAX_Y} cores there can be")
    if at + count * RANGE_FORM.size > len(record):
        raise NativeError(f"{count} core ranges do not fit a record of {len(record)} bytes")
    return _mask_of_packed(bytes(record[at : at + count * RANGE_FORM.size]))


@lru_cache(maxsize=1024)
def _mask_of_packed(ranges: bytes) -> int:
    rows = sum(abs(y1 - y0) + 1 for _, y0, _, y1 in RANGE_FORM.iter_unpack(ranges))
    if rows > ROW * MAX_Y:  # each row has at least one core, and each core needs to be listed only once
        raise NativeError(f"core ranges of {rows} rows name more cores than the {ROW * MAX_Y} there can be")
    return mask_of(CoreRange(*one) for one in RANGE_FORM.iter_unpack(ranges))


def _freed(record: bytes, stacks: Stacks) -> Freed:
    _, kind, _, device, address, size, program, allocator, count, flags = FREED_FORM.unpack_from(record)
    if kind >= len(KINDS) and kind != native.NO_KIND:
        raise NativeError(f"kind {kind} does not exist")
    ident, at = _ident(record, FREED_FORM.size, flags)
    cores = _cores(record, at, count) if count else 0
    known = None if kind == native.NO_KIND else KINDS[kind]
    return Freed(device, known, address, size, program, allocator, cores, ident)


def _run(record: bytes, stacks: Stacks) -> ProgramRun:
    _, _, _, device, program, count, _, _ = RUN_FORM.unpack_from(record)
    return ProgramRun(device, program, _cores(record, RUN_FORM.size, count))


def _on_mesh(record: bytes, stacks: Stacks) -> Event:
    """An event on several devices at once."""
    count = device_in(record)
    if not 2 <= count <= native.MAX_MESH_DEVICES:
        raise NativeError(f"a mesh of {count} devices; it must have 2 to {native.MAX_MESH_DEVICES}")
    numbers = unpack_from(f"<{count}I", record, PREFIX_FORM.size)
    inner = record[native.padded(PREFIX_FORM.size + 4 * count) :]
    op, _, length, _ = PREFIX_FORM.unpack_from(inner)
    if op not in native.ABOUT_MESHES or length != len(inner):
        raise NativeError(f"a record of type 0x{op:02x} and {length} bytes cannot be about a mesh")
    for number in numbers:
        check_device(number)
    event: Any = _DECODERS[op](inner, stacks)
    found: Event = event._replace(device=numbers)
    return found


def _phase(record: bytes, stacks: Stacks) -> PhaseBegan:
    body = body_in(record)
    ident, parent = native.PHASE_FORM.unpack_from(body)
    return PhaseBegan(ident, read_text(body[native.PHASE_FORM.size :]), parent)


def _viewed(record: bytes, stacks: Stacks) -> Viewed:
    _, kind, _, device, allocator, banks, *sizes = native.VIEWED_FORM.unpack_from(record)
    if kind >= len(KINDS):
        raise NativeError(f"kind {kind} does not exist")
    return Viewed(device, allocator, KINDS[kind], banks, *sizes)


def _sees(record: bytes, stacks: Stacks) -> Sees:
    kinds, trouble = json.loads(body_in(record))
    return Sees(int(kinds), _words(trouble))


def _uncertain(record: bytes, stacks: Stacks) -> Uncertain:
    reason, count = json.loads(body_in(record))
    if reason not in REASONS or not isinstance(count, int) or not 0 < count < 1 << 64:
        raise NativeError(f"{reason!r}, {count!r} is no reason with a count")
    return Uncertain(reason, count)


def _audited(record: bytes, stacks: Stacks) -> Audited:
    allocator, *pairs, mismatches = json.loads(body_in(record))
    ours, theirs, free, banks = ((int(a), int(b)) for a, b in pairs)
    return Audited(device_in(record), int(allocator), ours, theirs, free, banks, int(mismatches))


def _chip(record: bytes) -> ChipInfo:
    fields = json.loads(body_in(record))
    geometry = fields.get("geometry")
    text = {name: fields.get(name) for name in ("pci", "board")}
    if not isinstance(fields["chip"], str) or not all(v is None or isinstance(v, str) for v in text.values()):
        raise ValueError("chip, pci and board must be text")
    text = {name: _name(value) for name, value in text.items()}
    kmd, remote = fields.get("kmd"), fields.get("remote")
    return ChipInfo(
        _name(fields["chip"]) or "",
        text["pci"],
        None if kmd is None else int(kmd),
        Arch(fields.get("arch", 0)),
        text["board"],
        None if remote is None else bool(remote),
        None if geometry is None else _geometry(geometry),
    )


def _name(text: str | None) -> str | None:
    """A name of limited length. Lone surrogates, which JSON allows but files do not, are replaced."""
    return None if text is None else text[:MAX_NAME_BYTES].encode("utf-8", "replace").decode()


def _geometry(values: list[Any]) -> Geometry:
    arch, *sizes, live = values
    if len(sizes) != len(Geometry._fields) - 2:
        raise ValueError(f"geometry has {len(Geometry._fields)} values, not {len(values)}")
    if any(not isinstance(size, int) or not 0 <= size < 1 << 63 for size in sizes):
        raise ValueError("geometry sizes must be whole numbers")
    return Geometry._make([Arch(arch), *sizes, bool(live)])


_DECODERS: dict[int, Callable[[bytes, Stacks], Event]] = {
    native.ALLOCATED: _allocated,
    native.DESCRIBED: _described,
    native.PROGRAM_COMPILED: _compiled,
    native.FAILED: _failed,
    native.FREED: _freed,
    native.PROGRAM_RUN: _run,
    native.PROGRAM_DESTROYED: lambda r, _: ProgramDestroyed(device_in(r), value_in(r)),
    native.DEVICE_OPENED: lambda r, _: DeviceOpened(device_in(r), _chip(r)),
    native.DEVICE_CLOSED: lambda r, _: DeviceClosed(device_in(r)),
    native.RESYNC_BEGIN: lambda r, _: ResyncBegin(value_in(r)),
    native.RESYNC_STEP: lambda r, _: ResyncStep(value_in(r)),
    native.RESYNC_END: lambda r, _: ResyncEnd(value_in(r)),
    native.LOST: lambda r, _: Lost(value_in(r)),
    native.SEES: _sees,
    native.UNCERTAIN: _uncertain,
    native.AUDITED: _audited,
    native.MARK: lambda r, _: Mark(read_text(body_in(r))),
    native.PHASE_BEGAN: _phase,
    native.PHASE_ENDED: lambda r, _: PhaseEnded(value_in(r)),
    native.VIEWED: _viewed,
    native.ON_MESH: _on_mesh,
    native.CHIP_FOUND: lambda r, _: ChipFound(_chip(r)),
    native.REJECTED: lambda r, _: Rejected(value_in(r)),
    native.CLAIMED: lambda r, _: Claimed(device_in(r)),
    native.PROCESS_EXITED: lambda r, _: ProcessExited(),
    native.PEAKS_RESET: lambda r, _: PeaksReset(),
}


class NativeStream:
    """Splits the bytes of a connection into records. A malformed record raises, because decoding cannot be resumed."""

    def __init__(self) -> None:
        self._carry = b""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yields every complete record, including hello and sync. Records before a damaged one are yielded too."""
        data, self._carry = self._carry + data, b""
        at, end = 0, len(data)
        while end - at >= PREFIX_FORM.size:
            op, _, length, _ = PREFIX_FORM.unpack_from(data, at)
            if length < PREFIX_FORM.size or length & 7:
                raise NativeError(f"a record cannot be {length} bytes long")
            if op not in native.FROM_CLIENTS and op != native.MAGIC:
                raise NativeError(f"record type 0x{op:02x} is not one a client may send")
            if end - at < length:
                break
            yield data[at : at + length]
            at += length
        self._carry = data[at:]

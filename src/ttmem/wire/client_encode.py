# SPDX-License-Identifier: Apache-2.0
"""Encodes events as records of ttmem's own protocol (client_records has their layout)."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from ttmem.model.core_sets import ranges_of
from ttmem.model.events import (
    Allocated,
    Audited,
    ChipFound,
    Claimed,
    Described,
    Device,
    DeviceClosed,
    DeviceOpened,
    Event,
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
from ttmem.model.identity import ChipInfo
from ttmem.wire import client_records as native
from ttmem.wire.client_records import (
    ALLOCATED_FORM,
    FREED_FORM,
    MAX_LINES_BYTES,
    NO_TEXT,
    RANGE_FORM,
    RUN_FORM,
    VIEWED_FORM,
    body_record,
    cut_text,
    number_record,
    packed_text,
    padded,
)


def encode(event: Event, stack: int | None = None) -> bytes:
    """The record of an event. In a recording, ``stack`` is the number that is written instead of its stack."""
    device = getattr(event, "device", None)
    if type(device) is tuple:
        return _on_mesh(device, encode(event._replace(device=0), stack))  # type: ignore[call-arg]
    return _ENCODERS[type(event)](event) if stack is None else _WITH_STACKS[type(event)](event, stack)


def _on_mesh(numbers: tuple[int, ...], record: bytes) -> bytes:
    """The record of an event on a mesh: the device numbers, then the record as it is for one device."""
    if not 2 <= len(numbers) <= native.MAX_MESH_DEVICES:
        raise native.NativeError(f"a mesh of {len(numbers)} devices; it must have 2 to {native.MAX_MESH_DEVICES}")
    if record[0] not in native.ABOUT_MESHES:
        raise native.NativeError(f"record type 0x{record[0]:02x} is about one device, not a mesh")
    listed = b"".join(number.to_bytes(4, "little") for number in numbers)
    start = padded(native.PREFIX_FORM.size + len(listed))
    length = start + len(record)
    if length > native.MAX_RECORD_BYTES:
        raise native.NativeError(f"a record of {length} bytes is longer than {native.MAX_RECORD_BYTES}")
    return (native.PREFIX_FORM.pack(native.ON_MESH, 0, length, len(numbers)) + listed).ljust(start, b"\0") + record


def stack_of(event: Event) -> str | None:
    """The stack of an event that may have one. isinstance() would be slow for the many events without a stack."""
    if type(event) is Allocated or type(event) is Described:
        return None if event.extra is None else event.extra.stack
    if type(event) is ProgramCompiled or type(event) is Failed:
        return event.stack
    return None


def _allocated(event: Allocated, stack: int | None = None, op: int = native.ALLOCATED) -> bytes:
    device, kind, address, size, program, refs, extra, ident = event
    named, flag = _ident(ident)
    if extra is None:
        length = ALLOCATED_FORM.size + len(named)
        return ALLOCATED_FORM.pack(op, kind, length, device, address, size, 0, program, 0, refs, flag, 0, 0, 0) + named
    ranges = _packed_ranges(extra.cores)
    tag = b"" if extra.tag is None else packed_text(extra.tag)
    flags = native.HAS_EXTRA | (native.SHARED if extra.shared else 0) | (native.BINARY if extra.binary else 0)
    flags |= (0 if extra.reserved is None else native.RESERVED_KNOWN) | (native.SYSTEM if extra.system else 0)
    flags |= flag | (native.KEPT if extra.kept else 0) | (native.PER_CORE if extra.per_core else 0)
    lines = b""
    if stack is not None:
        flags |= native.LINES | native.NUMBERED
        lines = _counted(extra.shape) + stack.to_bytes(4, "little")
    elif extra.shape is not None or extra.stack is not None:
        flags |= native.LINES
        lines = _counted(extra.shape) + _counted(extra.stack)
    length = padded(ALLOCATED_FORM.size + len(named) + len(ranges) + len(tag) + len(lines))
    head = ALLOCATED_FORM.pack(
        op, kind, length, device, address, size, extra.reserved or 0, program, extra.allocator, refs, flags,
        len(ranges) // RANGE_FORM.size, NO_TEXT if extra.tag is None else len(tag),
        (0 if extra.layout is None else extra.layout + 1) & 15 | (extra.core_count & 0xFFF) << 4,
    )  # fmt: skip
    return (head + named + ranges + tag + lines).ljust(length, b"\0")


def _ident(ident: int) -> tuple[bytes, int]:
    """The number of a buffer and the flag for it; empty for a buffer that is identified by its address."""
    return (ident.to_bytes(native.IDENT_BYTES, "little"), native.IDENT) if ident else (b"", 0)


def _number(device: Device) -> int:
    """A record has one device. The record of a mesh contains that of an event on device 0."""
    assert isinstance(device, int)
    return device


def _described(event: Described, stack: int | None = None) -> bytes:
    device, kind, address, extra, ident = event
    return _allocated(Allocated(device, kind, address, 0, 0, 0, extra, ident), stack, native.DESCRIBED)


def _compiled(event: ProgramCompiled, stack: int | None = None) -> bytes:
    words = cut_text(event.tag), cut_text(event.stack, MAX_LINES_BYTES) if stack is None else stack
    return body_record(native.PROGRAM_COMPILED, _number(event.device), json.dumps([*event[1:4], *words]).encode())


def _failed(event: Failed, stack: int | None = None) -> bytes:
    words = cut_text(event.tag), cut_text(event.stack, MAX_LINES_BYTES) if stack is None else stack
    body = json.dumps([cut_text(event.text, MAX_LINES_BYTES), *words]).encode()
    return body_record(native.FAILED, -1 if event.device is None else event.device, body)


def _counted(text: str | None) -> bytes:
    """A text with its length before it, for records that have several."""
    raw = b"" if text is None else packed_text(text, MAX_LINES_BYTES)
    return (NO_TEXT if text is None else len(raw)).to_bytes(2, "little") + raw


@lru_cache(maxsize=1024)  # a workload uses few sets of cores again and again
def _packed_ranges(mask: int) -> bytes:
    return b"".join(RANGE_FORM.pack(*one) for one in ranges_of(mask)) if mask else b""


def _freed(event: Freed) -> bytes:
    device, kind, address, size, program, allocator, cores, ident = event
    named, flag = _ident(ident)
    ranges = _packed_ranges(cores)
    code = native.NO_KIND if kind is None else kind
    length, count = FREED_FORM.size + len(named) + len(ranges), len(ranges) // RANGE_FORM.size
    head = FREED_FORM.pack(native.FREED, code, length, device, address, size, program, allocator, count, flag)
    return head + named + ranges


def _run(event: ProgramRun) -> bytes:
    ranges = _packed_ranges(event.cores)
    length, count = RUN_FORM.size + len(ranges), len(ranges) // RANGE_FORM.size
    return RUN_FORM.pack(native.PROGRAM_RUN, 0, length, event.device, event.program, count, 0, 0) + ranges


def _viewed(event: Viewed) -> bytes:
    device, allocator, kind, banks, *sizes = event
    return VIEWED_FORM.pack(native.VIEWED, kind, VIEWED_FORM.size, device, allocator, banks, *sizes)


def _phase(event: PhaseBegan) -> bytes:
    body = native.PHASE_FORM.pack(event.ident, event.parent) + packed_text(event.name)
    return body_record(native.PHASE_BEGAN, 0, body)


def _chip(chip: ChipInfo) -> bytes:
    fields: dict[str, Any] = chip._asdict()
    fields["chip"] = fields.pop("id")
    fields["arch"] = int(chip.arch)
    fields["geometry"] = list(chip.geometry) if chip.geometry is not None else None
    return json.dumps(fields, separators=(",", ":")).encode()


_WITH_STACKS: dict[type, Callable[..., bytes]] = {
    Allocated: _allocated,
    Described: _described,
    ProgramCompiled: _compiled,
    Failed: _failed,
}
_ENCODERS: dict[type, Callable[[Any], bytes]] = {
    **_WITH_STACKS,
    Freed: _freed,
    ProgramRun: _run,
    ProgramDestroyed: lambda e: number_record(native.PROGRAM_DESTROYED, e.device, e.program),
    DeviceOpened: lambda e: body_record(native.DEVICE_OPENED, e.device, _chip(e.chip)),
    DeviceClosed: lambda e: number_record(native.DEVICE_CLOSED, e.device, 0),
    ResyncBegin: lambda e: number_record(native.RESYNC_BEGIN, 0, e.generation),
    ResyncStep: lambda e: number_record(native.RESYNC_STEP, 0, e.generation),
    ResyncEnd: lambda e: number_record(native.RESYNC_END, 0, e.generation),
    Lost: lambda e: number_record(native.LOST, 0, e.events),
    Uncertain: lambda e: body_record(native.UNCERTAIN, 0, json.dumps(e).encode()),
    Sees: lambda e: body_record(native.SEES, 0, json.dumps(e).encode()),
    Audited: lambda e: body_record(native.AUDITED, e.device, json.dumps(e[1:]).encode()),
    Mark: lambda e: body_record(native.MARK, 0, packed_text(e.text)),
    PhaseBegan: _phase,
    PhaseEnded: lambda e: number_record(native.PHASE_ENDED, 0, e.ident),
    Viewed: _viewed,
    ChipFound: lambda e: body_record(native.CHIP_FOUND, 0, _chip(e.chip)),
    Rejected: lambda e: number_record(native.REJECTED, 0, e.records),
    Claimed: lambda e: number_record(native.CLAIMED, e.pid, 0),
    ProcessExited: lambda e: number_record(native.PROCESS_EXITED, 0, 0),
    PeaksReset: lambda e: number_record(native.PEAKS_RESET, 0, 0),
}

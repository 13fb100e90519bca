# SPDX-License-Identifier: Apache-2.0
"""The stream of events for readers of the API. A slow reader loses events and gets their number.

An event is kept as it is, and encoded when it is sent. A loop repeats the same events all the time, so their texts are
kept for a while, without the time. Events that no reader has room for are only counted: a stream must not take the
time that the account needs.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from ttmem.account.allocations import Allocation
from ttmem.account.entities import Source
from ttmem.account.observer import Observable
from ttmem.model.core_sets import format_ranges, ranges_of
from ttmem.model.events import (
    Allocated,
    Claimed,
    Described,
    Device,
    DeviceOpened,
    Event,
    Freed,
    ProgramRun,
    Viewed,
    WorkloadRun,
    device_numbers,
)
from ttmem.model.kinds import Kind
from ttmem.model.stack_frames import line_of

if TYPE_CHECKING:
    from ttmem.account.entities import Chip

BACKLOG = 10_000  # events that wait for one reader
KEEPALIVE_SECONDS = 15.0
_PIECE_EVENTS = 200
_TEXTS = 4096

Item = dict[str, Any]


class BufferEvent(NamedTuple):
    """An allocation or a free, with what is known of the buffer right after it."""

    name: str
    device: Device
    kind: Kind | None
    address: int
    size: int
    refs: int | None
    program: int
    tag: str | None
    chips: tuple[Chip, ...]


class LostEvents(NamedTuple):
    """Events that a reader had no room for."""

    events: int


class Kept(NamedTuple):
    """An event that waits for a reader."""

    time: float
    pid: int | None
    user_id: int | None
    event: BufferEvent | Event


class Subscription:
    """One reader's backlog.

    When it is full, the reader gets no events until it has read half of it. So it gets long stretches without a gap.
    """

    def __init__(self) -> None:
        self.items: deque[Kept | LostEvents] = deque()
        self.lost = 0  # since the last of the items
        self.wake = asyncio.Event()
        self._full = False

    def is_full(self) -> bool:
        if self._full:
            self._full = len(self.items) > BACKLOG // 2
        return self._full

    def put(self, item: Kept) -> None:
        if self._full and self.is_full():
            self.lost += 1
            return
        if self.lost:
            self.items.append(self.take_lost())
        self.items.append(item)
        self._full = len(self.items) >= BACKLOG
        if not self.wake.is_set():
            self.wake.set()

    def take_lost(self) -> LostEvents:
        lost, self.lost = self.lost, 0
        return LostEvents(lost)


class EventStream:
    """Passes each event to all readers. It observes events only while there are readers."""

    def __init__(self, observed: Observable) -> None:
        self._observed = observed
        self._readers: set[Subscription] = set()
        self._text = lru_cache(_TEXTS)(_text)
        self.lost = 0

    def add(self, reader: Subscription) -> None:
        if not self._readers:
            self._observed.add_observer(self._publish, backlog=self)
        self._readers.add(reader)

    def remove(self, reader: Subscription) -> None:
        self._readers.discard(reader)
        if not self._readers:
            self._observed.remove_observer(self._publish)
            self._text.cache_clear()

    def is_full(self) -> bool:
        return all(reader.is_full() for reader in self._readers)

    def left_out(self, count: int) -> None:
        for reader in self._readers:
            reader.lost += count

    def _publish(self, time: float, source: Source | None, event: Event, allocation: Allocation | None) -> None:
        item = _kept(time, source, event, allocation)
        for reader in self._readers:
            reader.put(item)

    async def stream(self, reader: Subscription, may_see: Callable[[int | None], bool]) -> AsyncIterator[bytes]:
        """Server-sent events for one reader, many per piece."""
        yield b": ttmem events\n\n"
        while True:
            try:
                await asyncio.wait_for(reader.wake.wait(), KEEPALIVE_SECONDS)
            except (asyncio.TimeoutError, TimeoutError):
                yield b": still here\n\n"
                continue
            reader.wake.clear()
            while reader.items:
                batch = [reader.items.popleft() for _ in range(min(_PIECE_EVENTS, len(reader.items)))]
                yield "".join([self._sse(item, may_see) for item in batch]).encode()
            if reader.lost:
                yield self._sse(reader.take_lost(), may_see).encode()

    def _sse(self, item: Kept | LostEvents, may_see: Callable[[int | None], bool]) -> str:
        if isinstance(item, LostEvents):
            self.lost += item.events
            return f'event: lost\ndata: {{"count":{item.events}}}\n\n'
        time, pid, user_id, event = item
        text = self._text if type(event) in _REPEATED else _text
        return f'data: {{"time":{time!r},{text(pid, user_id, event, may_see(user_id))}\n\n'


_REPEATED = (BufferEvent, ProgramRun)


def _kept(time: float, source: Source | None, event: Event, allocation: Allocation | None) -> Kept:
    """An event with the properties of the allocation that change when it is freed."""
    info = source.process.info if source is not None else None
    kept: BufferEvent | Event = event
    if isinstance(event, (Allocated, Freed)):
        name, program = type(event).__name__, event.program
        if allocation is None:
            kept = BufferEvent(name, event.device, event.kind, event.address, event.size, None, program, None, ())
        else:
            extra = allocation.extra
            kept = BufferEvent(
                name, event.device, allocation.kind, event.address, allocation.size, allocation.refs, program,
                None if extra is None else extra.tag, allocation.holding.chips,
            )  # fmt: skip
    return Kept(time, None if info is None else info.pid or None, None if info is None else info.user_id, kept)


_encode = json.JSONEncoder(separators=(",", ":")).encode


def _text(pid: int | None, user_id: int | None, event: BufferEvent | Event, visible: bool) -> str:
    """An event as JSON, without its time and the brace before it."""
    item = _document(pid, user_id, event)
    if not visible:
        item = {name: None if name in _PRIVATE else value for name, value in item.items()}
    return _encode(item)[1:]


_PRIVATE = ("tag", "text", "name", "shape", "line", "stack", "trouble")  # text of the workload


def event_json(time: float, source: Source | None, event: Event, allocation: Allocation | None) -> Item:
    """An event as data."""
    _, pid, user_id, kept = _kept(time, source, event, allocation)
    return {"time": time, **_document(pid, user_id, kept)}


def _document(pid: int | None, user_id: int | None, event: BufferEvent | Event) -> Item:
    """An event without its time."""
    out: Item = {"event": type(event).__name__, "pid": pid, "user_id": user_id}
    if isinstance(event, BufferEvent):
        out["event"] = event.name
        out |= {
            **_where(event.device),
            "chip": event.chips[0].id if event.chips else None,
            "kind": event.kind.label if event.kind is not None else None,
            "id": hex(event.address),
            "size": event.size,
            "refs": event.refs,
            "program": event.program or None,
            "tag": event.tag,
        }
        if len(event.chips) > 1:
            out["chips"] = [chip.id for chip in event.chips]
    elif isinstance(event, Described):
        out |= {**_where(event.device), "kind": event.kind.label, "id": hex(event.address)}
        out |= {"tag": event.extra.tag, "shape": event.extra.shape, "line": line_of(event.extra.stack)}
    elif isinstance(event, DeviceOpened):
        out |= {"device": event.device, "chip": event.chip.id}
    elif isinstance(event, ProgramRun):
        cores = format_ranges(ranges_of(event.cores))
        out |= {**_where(event.device), "program": event.program, "cores": cores}
    elif isinstance(event, WorkloadRun):
        out |= {"workload": event.ident, "programs": len(event.runs)}
    elif isinstance(event, Claimed):
        out["claimed"] = event.pid
    else:
        plain = (int, str, tuple, type(None))
        out |= {name: value for name, value in event._asdict().items() if isinstance(value, plain)}
        if "device" in out:
            out |= _where(out["device"])
        if isinstance(event, Viewed):
            out["kind"] = event.kind.label
    return out


def _where(device: Device) -> Item:
    """The device, and all devices of a mesh, of which the first stands for the others."""
    numbers = device_numbers(device)
    return {"device": numbers[0], "devices": numbers} if len(numbers) > 1 else {"device": numbers[0]}

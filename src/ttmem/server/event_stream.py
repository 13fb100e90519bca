# SPDX-License-Identifier: Apache-2.0
"""The stream of events for readers of the API. A slow reader loses events and gets their number."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Any

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
from ttmem.model.stack_frames import line_of

BACKLOG = 10_000  # events that wait for one reader
KEEPALIVE_SECONDS = 15.0

Item = dict[str, Any]


class Subscription:
    """One reader's backlog."""

    def __init__(self) -> None:
        self.items: deque[Item] = deque()
        self.lost = 0
        self.wake = asyncio.Event()

    def put(self, item: Item) -> None:
        if len(self.items) >= BACKLOG:
            self.lost += 1
            return
        self.items.append(item)
        if not self.wake.is_set():
            self.wake.set()


class EventStream:
    """Passes each event to all readers. It observes events only while there are readers."""

    def __init__(self, observed: Observable) -> None:
        self._observed = observed
        self._readers: set[Subscription] = set()
        self.lost = 0

    def add(self, reader: Subscription) -> None:
        if not self._readers:
            self._observed.add_observer(self._publish)
        self._readers.add(reader)

    def remove(self, reader: Subscription) -> None:
        self._readers.discard(reader)
        if not self._readers:
            self._observed.remove_observer(self._publish)

    def _publish(self, time: float, source: Source | None, event: Event, allocation: Allocation | None) -> None:
        """Build the document now, because the allocation may be freed before the reader gets it."""
        item = event_json(time, source, event, allocation)
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
            if reader.lost:
                lost, reader.lost = reader.lost, 0
                self.lost += lost
                yield f'event: lost\ndata: {{"count":{lost}}}\n\n'.encode()
            while reader.items:
                batch = [reader.items.popleft() for _ in range(min(200, len(reader.items)))]
                yield b"".join(_sse(item, may_see) for item in batch)


def _sse(item: Item, may_see: Callable[[int | None], bool]) -> bytes:
    if not may_see(item["user_id"]):
        item = {name: None if name in _PRIVATE else value for name, value in item.items()}
    return b"data: " + json.dumps(item, separators=(",", ":")).encode() + b"\n\n"


_PRIVATE = ("tag", "text", "name", "shape", "line", "stack", "trouble")  # text of the workload


def event_json(time: float, source: Source | None, event: Event, allocation: Allocation | None) -> Item:
    """An event as data."""
    info = source.process.info if source is not None else None
    out: Item = {
        "time": time,
        "event": type(event).__name__,
        "pid": info.pid or None if info is not None else None,
        "user_id": info.user_id if info is not None else None,
    }
    if isinstance(event, (Allocated, Freed)):
        kind = allocation.kind if allocation is not None else event.kind
        extra = allocation.extra if allocation is not None else None
        out |= {
            **_where(event.device),
            "chip": allocation.holding.chip.id if allocation is not None else None,
            "kind": kind.label if kind is not None else None,
            "id": hex(event.address),
            "size": allocation.size if allocation is not None else event.size,
            "refs": allocation.refs if allocation is not None else None,
            "program": event.program or None,
            "tag": extra.tag if extra is not None else None,
        }
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

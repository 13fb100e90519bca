# SPDX-License-Identifier: Apache-2.0
"""Dumps of everything that is live at one moment, made in slices and one at a time.

What is live is captured at once: a dump that a client requests between two of its records shows what was live between
them. A capture holds references, not copies. Requests that wait are answered together, so that thousands of them cost
no more than a few.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from ttmem.account.allocations import Allocation
from ttmem.account.entities import Chip
from ttmem.account.ledger import Ledger
from ttmem.account.totals import NOT_YET
from ttmem.account.uncertainty import added
from ttmem.documents import snapshot as snap
from ttmem.documents.dump import DumpBuilder, kernels_text, remaining_text
from ttmem.ingest.clock import Clock, rfc3339
from ttmem.ingest.time_slices import SLICE_ALLOCATIONS, pause
from ttmem.server.request import sees
from ttmem.wire.legacy_records import Type

if TYPE_CHECKING:
    from ttmem.model import schema

_MAX_WAITING = 8  # dumps of different moments that clients requested in their streams
_MAX_CAPTURED = 200_000  # allocations that all but the first of those may refer to
_PAUSE_SECONDS = 0.2  # before a dump that answers requests which came too fast


class Capture(NamedTuple):
    """Everything that was live at one moment."""

    time: float
    event: int  # the number of the last event before it
    tables: list[tuple[list[frozenset[Chip]], list[Allocation]]]  # by kind, where it counts; and what was live
    live: int
    anomalies: schema.Anomalies
    uncertain: list[schema.UncertainRow]


def capture(ledger: Ledger, time: float) -> Capture:
    """What is live now; some milliseconds for a million allocations."""
    tables = []
    for holding in ledger.holdings():
        counted = [frozenset() if leaf is None else leaf.chips for leaf in holding.leaves]
        tables += [(counted, list(table.values())) for table in holding.tables() if table]
    live = sum(len(allocations) for _, allocations in tables)
    return Capture(time, ledger.seq, tables, live, snap.anomalies(ledger.anomalies), added(ledger.processes.values()))


class _Request:
    """A dump that clients requested in their streams, and how many requested it."""

    def __init__(self, op: Type, captured: Capture | None) -> None:
        self.op = op
        self.captured = captured  # None: as it is when its turn comes
        self.requests = 1


class Dumps:
    """Makes dumps for the API and for clients that request them in their streams."""

    def __init__(
        self, ledger: Ledger, clock: Clock, write: Callable[[str], None], failed: Callable[[Exception], None]
    ) -> None:
        """``write`` gets the text of each requested dump, ``failed`` the error if one cannot be made or written."""
        self._ledger = ledger
        self._clock = clock
        self._write = write
        self._failed = failed
        self._lock = asyncio.Lock()
        self._documents: dict[tuple[bool, int | None], asyncio.Task[schema.Dump]] = {}
        self._requests: list[_Request] = []
        self._printing: asyncio.Task[None] | None = None

    async def document(self, *, kernels: bool, user_id: int | None) -> schema.Dump:
        """The dump as that user may see it, of a moment after the call. Callers that wait at the same time share it."""
        key = kernels, user_id
        task = self._documents.get(key)
        if task is None:
            task = self._documents[key] = asyncio.get_running_loop().create_task(self._make_document(kernels, user_id))
        return await asyncio.shield(task)

    async def text(self, *, kernels: bool, user_id: int | None) -> str:
        return self._text(await self.document(kernels=kernels, user_id=user_id), kernels, self._clock.now())

    def request(self, op: Type) -> None:
        """A client requests a dump in its stream: capture what is live now, and write it as text later."""
        last = self._requests[-1] if self._requests else None
        same = last is not None and last.op == op
        if last is not None and same and (last.captured is None or last.captured.event == self._ledger.seq):
            last.requests += 1
            return
        captured = sum(one.captured.live for one in self._requests if one.captured is not None)
        room = len(self._requests) < _MAX_WAITING and captured + self._ledger.live_count() <= _MAX_CAPTURED
        if not self._requests or room:
            self._requests.append(_Request(op, capture(self._ledger, self._clock.now())))
        else:
            late = next((one for one in self._requests if one.captured is None and one.op == op), None)
            if late is not None:
                late.requests += 1
            else:
                self._requests.append(_Request(op, None))
        if self._printing is None or self._printing.done():
            self._printing = asyncio.get_running_loop().create_task(self._print())

    # -- inside --------------------------------------------------------------------------------------------------

    async def _make_document(self, kernels: bool, user_id: int | None) -> schema.Dump:
        async with self._lock:
            del self._documents[kernels, user_id]  # requests from now on get a later moment
            return await self._build(capture(self._ledger, self._clock.now()), kernels, user_id)

    async def _print(self) -> None:
        while self._requests:
            request = self._requests[0]
            try:
                if request.captured is None:
                    await asyncio.sleep(_PAUSE_SECONDS)
                async with self._lock:
                    captured = request.captured or capture(self._ledger, self._clock.now())
                    kernels = request.op == Type.DUMP_KERNELS
                    text = self._text(await self._build(captured, kernels, 0), kernels, captured.time)
                together = f" ({request.requests} requests, answered together)" if request.requests > 1 else ""
                self._write(f"Received {request.op.name} request...{together}\n{text}\n{request.op.name} complete.")
            except Exception as error:
                self._failed(error)
            self._requests.remove(request)

    async def _build(self, captured: Capture, kernels: bool, user_id: int | None) -> schema.Dump:
        builder = DumpBuilder(kernels_only=kernels)
        done = 0
        for counted, allocations in captured.tables:
            for start in range(0, len(allocations), SLICE_ALLOCATIONS):
                for item in allocations[start : start + SLICE_ALLOCATIONS]:
                    if item.born != NOT_YET:
                        builder.add(item, counted[item.kind])
                done += min(SLICE_ALLOCATIONS, len(allocations) - start)
                if done >= SLICE_ALLOCATIONS:
                    done = 0
                    await pause()
        return builder.result(
            time=rfc3339(captured.time),
            anomalies=captured.anomalies,
            uncertain=captured.uncertain,
            may_see=sees(user_id),
        )

    @staticmethod
    def _text(dump: schema.Dump, kernels: bool, now: float) -> str:
        return kernels_text(dump, now) if kernels else remaining_text(dump)

# SPDX-License-Identifier: Apache-2.0
"""Dumps of everything that is live at one moment, made in slices and one at a time.

Live allocations are captured at once: a dump that a client requests between two of its records shows the state between
them. For the API they are captured in pieces, and again if an event came between two pieces. A capture has references,
not copies. Waiting requests are answered together, so thousands cost no more than a few.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, NamedTuple

from ttmem.account.allocations import Allocation, Holding
from ttmem.account.entities import Chip
from ttmem.account.ledger import Ledger
from ttmem.account.totals import NOT_YET
from ttmem.account.uncertainty import added
from ttmem.analyze.chip_sums import select
from ttmem.documents import snapshot as snap
from ttmem.documents.dump import EVERYTHING, KERNELS, DumpBuilder, DumpFilter, kernels_text, remaining_text
from ttmem.ingest.clock import Clock, rfc3339
from ttmem.ingest.time_slices import SLICE_ALLOCATIONS, in_turns, pause
from ttmem.server.request import sees
from ttmem.wire.legacy_records import Type

if TYPE_CHECKING:
    from ttmem.model import schema

_MAX_WAITING = 8  # dumps of different moments that clients requested in their streams
_MAX_CAPTURED = 200_000  # allocations that all captures except the first may refer to
_PAUSE_SECONDS = 0.2  # before a dump, if requests come too fast
_PIECE = 50_000  # allocations that are captured without a pause
_TRIES = 3  # to capture in pieces; then all at once


class Piece(NamedTuple):
    """Live allocations of a holding, and where they were: a device may turn out to be another chip later."""

    holding: Holding
    chips: tuple[Chip, ...]
    counted: list[frozenset[Chip]]  # by kind: the chips on which it counts
    allocations: list[Allocation]


class Capture(NamedTuple):
    """Everything that was live at one moment."""

    time: float
    event: int  # number of the last event before it
    pieces: deque[Piece]  # removed one by one, because to drop a million references takes long, too
    live: int
    anomalies: schema.Anomalies
    uncertain: list[schema.UncertainRow]


def capture(ledger: Ledger, time: float) -> Capture:
    """Capture the live allocations at once; takes about 25 ms for a million."""
    return _captured(ledger, time, _pieces(ledger))


def _captured(ledger: Ledger, time: float, pieces: Iterable[Piece]) -> Capture:
    found = deque(pieces)
    live = sum(len(piece.allocations) for piece in found)
    return Capture(time, ledger.seq, found, live, snap.anomalies(ledger.anomalies), added(ledger.processes.values()))


def _pieces(ledger: Ledger) -> Iterator[Piece]:
    """Capture the live allocations in pieces; ends early if there was an event between two of them."""
    event = ledger.seq
    for holding in list(ledger.holdings()):
        counted = [frozenset() if leaf is None else leaf.chips for leaf in holding.leaves]
        for allocations in _copies(holding):
            if holding.arriving:  # a resync; this takes as long as the copy
                allocations = [item for item in allocations if item.born != NOT_YET]
            yield Piece(holding, holding.chips, counted, allocations)
            if ledger.seq != event:
                return


def _copies(holding: Holding) -> Iterator[list[Allocation]]:
    """The allocations of a holding, many small tables together."""
    tables: Iterable[Mapping[Any, Allocation]]
    tables = chain((holding.buffers,), (program.parts for program in holding.programs.values()))
    piece: list[Allocation] = []
    for table in tables:
        if len(table) <= _PIECE:
            piece += table.values()  # takes less time than an iterator
            if len(piece) >= _PIECE:
                yield piece
                piece = []
        else:
            if piece:
                yield piece
                piece = []
            values = iter(table.values())
            while some := list(islice(values, _PIECE)):
                yield some
    if piece:
        yield piece


class _Request:
    """A dump that clients requested in their streams, and the number of requests."""

    def __init__(self, op: Type, captured: Capture | None) -> None:
        self.op = op
        self.captured = captured  # None: captured when its turn comes
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
        self._documents: dict[tuple[DumpFilter, int | None], asyncio.Task[schema.Dump]] = {}
        self._requests: list[_Request] = []
        self._printing: asyncio.Task[None] | None = None

    async def document(self, wanted: DumpFilter, *, user_id: int | None) -> schema.Dump:
        """The dump as that user may see it, of a moment after the call. Callers that wait at the same time share it."""
        key = wanted, user_id
        task = self._documents.get(key)
        if task is None:
            task = self._documents[key] = asyncio.get_running_loop().create_task(self._make_document(wanted, user_id))
        return await asyncio.shield(task)

    async def text(self, wanted: DumpFilter, *, user_id: int | None) -> str:
        """The same, as the proof of concept printed it."""
        return self._text(await self.document(wanted, user_id=user_id), wanted, self._clock.now())

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

    async def _make_document(self, wanted: DumpFilter, user_id: int | None) -> schema.Dump:
        async with self._lock:
            del self._documents[wanted, user_id]  # requests from now on get a later moment
            return await self._build(await self._capture(), wanted, user_id)

    async def _capture(self) -> Capture:
        """Everything live at one moment, with pauses if there is no event meanwhile."""
        for _ in range(_TRIES):
            event, time = self._ledger.seq, self._clock.now()
            pieces = await in_turns(_pieces(self._ledger))
            if self._ledger.seq == event:
                return _captured(self._ledger, time, pieces)
            del pieces
            await pause()  # to drop them took time
        return capture(self._ledger, self._clock.now())

    async def _print(self) -> None:
        while self._requests:
            request = self._requests[0]
            try:
                if request.captured is None:
                    await asyncio.sleep(_PAUSE_SECONDS)
                async with self._lock:
                    captured = request.captured = request.captured or await self._capture()
                    wanted = KERNELS if request.op == Type.DUMP_KERNELS else EVERYTHING
                    text = self._text(await self._build(captured, wanted, 0), wanted, captured.time)
                together = f" ({request.requests} requests, answered together)" if request.requests > 1 else ""
                self._write(f"Received {request.op.name} request...{together}\n{text}\n{request.op.name} complete.")
            except Exception as error:
                self._failed(error)
            self._requests.remove(request)

    async def _build(self, captured: Capture, wanted: DumpFilter, user_id: int | None) -> schema.Dump:
        builder = DumpBuilder(wanted)
        done = 0
        while captured.pieces:
            holding, all_chips, counted, allocations = captured.pieces.popleft()
            builder.locate(holding, all_chips)
            chips = wanted.wants(holding, all_chips)
            where = [select(all_chips, on, chips) for on in counted] if chips else []
            for start in range(0, len(allocations), SLICE_ALLOCATIONS):
                for item in allocations[start : start + SLICE_ALLOCATIONS] if chips else ():
                    builder.add(item, where[item.kind])
                done += min(SLICE_ALLOCATIONS, len(allocations) - start)
                if done >= SLICE_ALLOCATIONS:
                    done = 0
                    await pause()
        await in_turns(builder.describe(sees(user_id)))
        return builder.result(time=rfc3339(captured.time), anomalies=captured.anomalies, uncertain=captured.uncertain)

    @staticmethod
    def _text(dump: schema.Dump, wanted: DumpFilter, now: float) -> str:
        return kernels_text(dump, now) if wanted.kernels else remaining_text(dump)

# SPDX-License-Identifier: Apache-2.0
"""Routes about the past: peaks, phases, history, and the stream of events."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Final

from ttmem.account.ledger import Ledger
from ttmem.account.phases import ended_phases, open_phases, phases_head
from ttmem.documents.peaks import SCHEMA as PEAKS_SCHEMA
from ttmem.documents.peaks import PeakFinder
from ttmem.ingest.clock import Clock, rfc3339
from ttmem.ingest.sink import Sink
from ttmem.ingest.time_slices import in_turns, pause, slices, thin
from ttmem.model.events import PeaksReset
from ttmem.server import request as query
from ttmem.server.event_stream import EventStream, Subscription
from ttmem.server.history import SAMPLED, History
from ttmem.server.history import SCHEMA as HISTORY_SCHEMA
from ttmem.server.http_server import HttpError, Request, Response, json_response, json_text, rows_response
from ttmem.server.request import Route, sees

if TYPE_CHECKING:
    from ttmem.model import schema

PHASES_SCHEMA: Final = "ttmem.phases/1"
RESET_SCHEMA: Final = "ttmem.peaks_reset/1"
_MOST_ROWS = 50_000  # of phases in one answer; a phase that was begun is completed
_ROWS_AT_ONCE = 500


class HistoryRoutes:
    """Routes about the past, and the stream of events."""

    def __init__(self, ledger: Ledger, sink: Sink, history: History, feed: EventStream, clock: Clock) -> None:
        self._ledger = ledger
        self._sink = sink
        self._history = history
        self._feed = feed
        self._clock = clock
        self.routes = [
            Route("GET", "/peaks", self._peaks, ("since", "pid"), lists=True),
            Route("POST", "/peaks/reset", self._reset_peaks),
            Route("GET", "/phases", self._phases, ("pid",), lists=True),
            Route("GET", "/history", self._get_history, ("step", "since", "until", "chip", "kind"), lists=True),
            Route("GET", "/events", self._events),
        ]

    async def _peaks(self, request: Request) -> Response:
        since = request.query.get("since", "start")
        if since not in ("start", "reset"):
            raise HttpError(400, f"since is 'start' or 'reset', not {since!r}")
        reset = self._ledger.peaks_since
        await thin(self._ledger)
        process = None
        if "pid" in request.query:
            process = query.processes(self._ledger, query.integer(request.query["pid"], "pid"))[0]
        finder = PeakFinder(self._ledger, recent=since == "reset", process=process)
        async for items in slices(self._ledger.holdings()):
            for item in items:
                finder.add(item)
        peaks = await in_turns(finder.results(sees(request.user_id)))
        document: schema.Peaks = {
            "schema": PEAKS_SCHEMA,
            "since": since,
            "reset": None if reset is None else rfc3339(reset),
            "peaks": peaks,
        }
        return await rows_response(lambda: document)

    async def _reset_peaks(self, request: Request) -> Response:
        """All users share the peaks.

        Root and the server's user may reset them, and a user who is alone on the machine.
        """
        known = (*self._ledger.processes.values(), *self._ledger.departed)
        if request.user_id not in (0, os.getuid()) and any(
            process.info.user_id != request.user_id for process in known
        ):
            raise HttpError(
                403, "other users' processes have peaks, too: only root and the user who runs the server may reset them"
            )
        self._sink.apply(self._clock.now(), None, PeaksReset())
        document: schema.PeaksReset = {"schema": RESET_SCHEMA, "reset": rfc3339(self._clock.now())}
        return json_response(document)

    async def _phases(self, request: Request) -> Response:
        ledger, pid = self._ledger, request.query.get("pid")
        if pid is None:
            found = [p for p in (*ledger.processes.values(), *ledger.departed) if p.phases.open or p.phases.ended]
        else:
            found = query.processes(ledger, query.integer(pid, "pid"))
        listed = 0
        processes: list[str] = []
        for process in found:
            may_see, phases, not_listed = sees(request.user_id), "", 0
            both = ("open", open_phases(process, may_see)), ("ended", ended_phases(process, may_see))
            for state, with_rows in both:
                entries: list[str] = []
                for entry, rows in with_rows:
                    if listed >= _MOST_ROWS:
                        not_listed += 1
                        continue
                    pieces: list[str] = []
                    while some := list(islice(rows, _ROWS_AT_ONCE)):
                        pieces.append(json_text(some)[1:-1])
                        listed += len(some)
                        await pause()
                    entries.append(f'{json_text(entry)[:-1]},"rows":[{",".join(pieces)}]}}')
                phases += f',"{state}":[{",".join(entries)}]'
            processes.append(f"{json_text(phases_head(process, not_listed))[:-1]}{phases}}}")
        return Response(f'{{"schema":"{PHASES_SCHEMA}","processes":[{",".join(processes)}]}}\n'.encode())

    async def _get_history(self, request: Request) -> Response:
        asked, now = request.query, self._clock.now()
        step = query.integer(asked.get("step", "1"), "step")
        if step not in (1, 10):
            raise HttpError(400, f"step is 1 (for an hour) or 10 (for a day), not {step}")
        until = query.moment(asked.get("until"), now, "until")
        since = query.moment(asked.get("since"), until - (3600 if step == 1 else 86400), "since")
        chips = asked["chip"].split(",") if "chip" in asked else None
        kinds = _series_kinds(asked["kind"]) if "kind" in asked else None
        names = self._history.names(step, chips, kinds)
        about: schema.HistoryHead = {
            "schema": HISTORY_SCHEMA,
            "step": step,
            "since": since,
            "until": until,
            "left_out": self._history.series(step).left_out,
        }
        head = json_text(about)

        def rows() -> Iterator[bytes]:
            for number, name in enumerate(names):
                series = self._history.one(step, since, until, name)
                yield b"," if number else b""  # each half takes long enough for a separate turn
                yield json_text(series).encode()

        # Written as text, piece by piece: a large machine has millions of numbers.
        pieces = [f'{head[:-1]},"series":['.encode(), *await in_turns(rows()), b"]}\n"]
        return Response(_pieces(pieces), length=sum(map(len, pieces)))

    async def _events(self, request: Request) -> Response:
        reader = Subscription()
        return Response(self._follow(reader, request.user_id), content_type="text/event-stream")

    async def _follow(self, reader: Subscription, user_id: int | None) -> AsyncIterator[bytes]:
        self._feed.add(reader)
        try:
            async for piece in self._feed.stream(reader, sees(user_id)):
                yield piece
        finally:
            self._feed.remove(reader)


def _series_kinds(text: str) -> list[str]:
    """The kinds that a request for the history names, separated by commas."""
    names = text.split(",")
    for name in names:
        if name not in SAMPLED:
            query.kind(name)
    return names


async def _pieces(pieces: list[bytes]) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece

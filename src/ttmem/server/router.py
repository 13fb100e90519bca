# SPDX-License-Identifier: Apache-2.0
"""The API: finds the route for a request. docs/api.md describes each route; a test compares the two."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from ttmem.account.ledger import Ledger
from ttmem.documents.cores import Cores
from ttmem.ingest.clock import Clock
from ttmem.ingest.sink import Sink
from ttmem.server.current_snapshot import CurrentSnapshot
from ttmem.server.dumps import Dumps
from ttmem.server.event_stream import EventStream
from ttmem.server.history import History
from ttmem.server.http_server import HttpError, Request, Response
from ttmem.server.routes_allocations import AllocationRoutes
from ttmem.server.routes_history import HistoryRoutes
from ttmem.server.routes_now import NowRoutes

if TYPE_CHECKING:
    from ttmem.model.schema import ServerFigures

# At the same time. Each of them gets a turn of the loop in every round, and refers to all live allocations.
_LISTINGS_PER_USER = 2


class Api:
    """The routes of one server."""

    def __init__(
        self,
        *,
        ledger: Ledger,
        sink: Sink,
        current: CurrentSnapshot,
        cores: Cores,
        dumps: Dumps,
        history: History,
        feed: EventStream,
        clock: Clock,
        server: Callable[[], ServerFigures],
        catch_up: Callable[[], None],
    ) -> None:
        """``server`` returns the figures of the server itself; ``catch_up`` is called before each answer."""
        self._catch_up = catch_up
        self._listing: dict[int | None, asyncio.Semaphore] = {}  # by user
        now = NowRoutes(ledger, cores, current, server)
        allocations = AllocationRoutes(ledger, clock, dumps, server)
        past = HistoryRoutes(ledger, sink, history, feed, clock)
        self.routes = [*now.routes, *allocations.routes, *past.routes]

    async def handle(self, request: Request) -> Response:
        known = [route for route in self.routes if route.matches(request.path)]
        method = "GET" if request.method == "HEAD" else request.method
        for route in known:
            if route.method == method:
                unknown = set(request.query) - set(route.parameters)
                if unknown:
                    allowed = ", ".join(route.parameters) or "none"
                    raise HttpError(400, f"unknown parameter {sorted(unknown)[0]!r}; {route.path} takes: {allowed}")
                self._catch_up()
                if not route.lists:
                    return await route.handler(request)
                async with self._listing.setdefault(request.user_id, asyncio.Semaphore(_LISTINGS_PER_USER)):
                    return await route.handler(request)
        if known:
            raise HttpError(405, f"{request.path} takes {known[0].method}, not {request.method}")
        raise HttpError(404, f"there is no {request.path}; there are {', '.join(route.path for route in self.routes)}")

    async def handle_metrics_only(self, request: Request) -> Response:
        """The only page that is served over TCP."""
        if request.path != "/metrics":
            raise HttpError(404, "only /metrics is served here; the API is on the Unix socket")
        return await self.handle(request)

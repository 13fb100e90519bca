# SPDX-License-Identifier: Apache-2.0
"""Routes about the current state: the snapshot, processes, chips and their cores, the metrics page.

The account is captured at one moment. A thread builds the answer, because with many chips and processes that takes
long, and the loop has other requests to serve.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, cast

from ttmem.account.entities import Process
from ttmem.account.ledger import Ledger
from ttmem.documents import snapshot as snap
from ttmem.documents.cores import Cores, parse_core
from ttmem.documents.host_totals import STATES
from ttmem.ingest.clock import rfc3339
from ttmem.ingest.time_slices import slices, thin
from ttmem.l1.headroom import FloorFinder, ProgramExtent, contents_key
from ttmem.server import metrics
from ttmem.server import request as query
from ttmem.server.current_snapshot import CurrentSnapshot
from ttmem.server.http_server import HttpError, Request, Response, json_response, rows_response
from ttmem.server.request import Route, sees

if TYPE_CHECKING:
    from ttmem.model import schema

HEALTH_SCHEMA: Final = "ttmem.health/1"
PROCESSES_SCHEMA: Final = "ttmem.processes/1"
HEADROOM_SCHEMA: Final = "ttmem.headroom/1"


class NowRoutes:
    """Routes about the current state."""

    def __init__(
        self, ledger: Ledger, cores: Cores, current: CurrentSnapshot, server: Callable[[], schema.ServerFigures]
    ) -> None:
        self._ledger = ledger
        self._cores = cores
        self._current = current
        self._server = server
        self.routes = [
            Route("GET", "/health", self._health),
            Route("GET", "/snapshot", self._snapshot, ("machine",)),
            Route("GET", "/processes", self._processes, ("state",)),
            Route("GET", "/processes/{pid}", self._process),
            Route("GET", "/headroom", self._headroom, ("chip",), lists=True),
            Route("GET", "/cores", self._get_cores, ("chip", "core"), lists=True),
            Route("GET", "/metrics", self._metrics, ("pids",)),
        ]

    async def _health(self, request: Request) -> Response:
        server = self._server()
        document: schema.Health = {
            "schema": HEALTH_SCHEMA,
            "status": server["status"],
            "parts": server["parts"],
            "pid": server["pid"],
            "since": rfc3339(server["since"]),
            "version": server["version"],
            "clients": server["clients"],
            "accepted": server["accepted"],
            "live_allocations": server["live_allocations"],
            "unread_replies": server["unread_replies"],
            "socket": server["socket"],
            "events": self._ledger.seq,
        }
        return json_response(document)

    async def _snapshot(self, request: Request) -> Response:
        alone = request.query.get("machine") in ("0", "false")
        await self._cores.refresh()
        take = self._current.account if alone else self._current.merged
        return await rows_response(take(request.user_id))

    async def _processes(self, request: Request) -> Response:
        state = request.query.get("state")
        if state not in (None, *STATES):
            raise HttpError(400, f"state is one of {', '.join(STATES)}, not {state!r}")
        merged = self._current.merged(request.user_id)

        def document() -> schema.Processes:
            return _processes_document([row for row in merged()["processes"] if state in (None, row["state"])])

        return await rows_response(document)

    async def _process(self, request: Request) -> Response:
        pid = query.integer(request.path.rsplit("/", 1)[1], "pid")
        may_see = sees(request.user_id)
        parties = query.processes(self._ledger, pid)
        await thin(self._ledger)
        found: list[schema.ProcessRow] = []
        known: dict[tuple[int | None, int | None, float | None], Process]
        known = {(party.info.pid, party.info.start, party.exited): party for party in parties}  # they may exit soon
        for row in (await asyncio.to_thread(self._current.merged(request.user_id)))["processes"]:
            party = known.get((row["pid"], row["start"], row["exited"]))
            if party is not None:
                if row["exited"] is not None:
                    tags = may_see(party.info.user_id)
                    detail = cast("schema.ProcessDetail", row)
                    detail["largest"] = [snap.allocation(item, see_tag=tags) for item in party.largest_left(20)]
                found.append(row)
        return json_response(_processes_document(found))

    async def _headroom(self, request: Request) -> Response:
        wanted = request.query.get("chip")
        chips = {chip: contents_key(chip) for chip in snap.shown_chips(self._ledger) if wanted in (None, chip.id)}
        if wanted is not None and not chips:
            raise HttpError(404, f"there is no chip {wanted!r}; the snapshot lists all chips")
        finders = {key: FloorFinder(chip) for chip, key in reversed(chips.items())}
        for finder in finders.values():
            async for items in slices(finder.chip.holdings):
                for item in items:
                    finder.add(item)
        may_see = sees(request.user_id)

        out: list[schema.ChipHeadroom] = []
        for chip, key in chips.items():
            found = finders[key].result(chip)
            holder = found.holder
            shown = None
            if holder is not None:
                sees_tag = may_see(holder.holding.source.process.info.user_id)
                shown = snap.allocation(holder, (chip,), see_tag=sees_tag)
            out.append(
                {
                    "chip": chip.id,
                    "floor": found.floor,
                    "floor_holder": shown,
                    "launched": [_program_headroom(one) for one in found.launched],
                    "worst_cached": None if found.worst is None else _program_headroom(found.worst),
                }
            )
        document: schema.Headroom = {"schema": HEADROOM_SCHEMA, "chips": out}
        return json_response(document)

    async def _get_cores(self, request: Request) -> Response:
        chip, core = request.query.get("chip"), request.query.get("core")
        if chip is None:
            raise HttpError(400, "chip is missing: specify one; the snapshot lists all chips")
        try:
            wanted = None if core is None else parse_core(core)
            return await rows_response(await self._cores.prepared(chip, wanted, sees(request.user_id)))
        except ValueError as error:
            raise HttpError(400, str(error)) from None
        except LookupError as error:
            raise HttpError(404, str(error.args[0])) from None

    async def _metrics(self, request: Request) -> Response:
        pids = request.query.get("pids", "0") not in ("", "0", "false")
        account, totals, server = self._current.account(0), metrics.Totals(self._ledger, pids=pids), self._server()

        def page() -> bytes:
            snapshot = account()
            return metrics.page(totals, server, snapshot, self._current.merge(snapshot, 0))

        return Response(await asyncio.to_thread(page), content_type=metrics.CONTENT_TYPE)


def _processes_document(rows: list[schema.ProcessRow]) -> schema.Processes:
    """The document of rows that may have ``largest``."""
    return {"schema": PROCESSES_SCHEMA, "processes": cast("list[schema.ProcessDetail]", rows)}


def _program_headroom(extent: ProgramExtent) -> schema.ProgramHeadroom:
    pid = extent.program.holding.source.process.info.pid or None
    return {"program": extent.program.ident, "pid": pid, "end": extent.end, "headroom": extent.headroom}

# SPDX-License-Identifier: Apache-2.0
"""Routes that examine all live allocations: the list, the breakdown, the dump and the leaks."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ttmem.account.allocations import Allocation
from ttmem.account.entities import Chip, Process
from ttmem.account.ledger import Ledger
from ttmem.analyze.breakdown import KEYS, Breakdown
from ttmem.analyze.chip_sums import ChipSums, CountedChips
from ttmem.documents import snapshot as snap
from ttmem.documents.dump import KERNELS_LISTED, LISTED, DumpFilter
from ttmem.documents.leaks import ByAge, LeakFinder
from ttmem.documents.leaks import Request as LeakRequest
from ttmem.ingest.clock import Clock, rfc3339
from ttmem.ingest.time_slices import in_turns, pause, slices, thin
from ttmem.model.kinds import BREAKDOWN_POOL_OF, KERNEL_KINDS, KINDS, BreakdownPool
from ttmem.model.validation import check_time
from ttmem.server import request as query
from ttmem.server.dumps import Dumps
from ttmem.server.http_server import HttpError, Request, Response, json_response, rows_response
from ttmem.server.request import Route, sees

if TYPE_CHECKING:
    from ttmem.model.schema import Allocations, ServerFigures

ALLOCATIONS_SCHEMA: Final = "ttmem.allocations/1"
_FILTERS = (*query.HOLDING_FILTERS, *query.ALLOCATION_FILTERS)
_SORTS: dict[str, Callable[[Allocation], tuple[int, int]]] = {
    "size": lambda allocation: (allocation.size, allocation.born),
    "newest": lambda allocation: (allocation.born, 0),
    "oldest": lambda allocation: (-allocation.born, 0),
}


class AllocationRoutes:
    """Routes about single allocations."""

    def __init__(self, ledger: Ledger, clock: Clock, dumps: Dumps, server: Callable[[], ServerFigures]) -> None:
        self._ledger = ledger
        self._clock = clock
        self._dumps = dumps
        self._server = server
        self.routes = [
            Route("GET", "/allocations", self._allocations, (*_FILTERS, "sort", "limit", "offset"), lists=True),
            Route("GET", "/breakdown", self._breakdown, ("by", *_FILTERS, "limit"), lists=True),
            Route("GET", "/dump", self._dump, ("format", "what", "chip", "pid", "kind", "limit"), lists=True),
            Route("GET", "/leaks", self._leaks, ("since", "pid", "chip", "ignore"), lists=True),
        ]

    async def _allocations(self, request: Request) -> Response:
        asked = request.query
        may_see = sees(request.user_id)
        here, wanted = query.chips_filter(asked), query.allocations_filter(asked, may_see)
        order = _SORTS.get(asked.get("sort", "size"))
        if order is None:
            raise HttpError(400, f"sort is one of {', '.join(_SORTS)}, not {asked['sort']!r}")
        limit = query.limit(asked)
        offset = query.integer(asked.get("offset", "0"), "offset")
        keep = min(limit + offset, 100_000)
        best: list[tuple[tuple[int, int], int, int, Allocation]] = []
        matched, counted = 0, CountedChips(here)
        sums: list[ChipSums[Chip]] = [ChipSums() for _ in BreakdownPool]
        async for items in slices(filter(here, self._ledger.holdings())):
            for item in items:
                if not (item.refs and wanted(item)):
                    continue
                matched += 1
                chips = counted.of(item).chips
                if chips:
                    sums[BREAKDOWN_POOL_OF[item.kind]].add(chips, item.counted)
                place = (order(item), item.born, -matched)
                if len(best) < keep:
                    heapq.heappush(best, (*place, item))
                elif best and place > best[0][:3]:
                    heapq.heapreplace(best, (*place, item))
        found = await in_turns(heapq.heappop(best)[3] for _ in range(len(best)))  # the last first
        found.reverse()
        page = await in_turns(
            snap.allocation(item, here(item.holding), see_tag=may_see(item.holding.source.process.info.user_id))
            for item in found[offset : offset + limit]
        )
        document: Allocations = {
            "schema": ALLOCATIONS_SCHEMA,
            "matched": matched,
            "pools": {pool.label: one.sums() for pool, one in zip(BreakdownPool, sums) if one.bytes},
            "offset": offset,
            "allocations": page,
        }
        return await rows_response(lambda: document)

    async def _breakdown(self, request: Request) -> Response:
        asked = request.query
        by = asked.get("by", "op")
        if by not in KEYS:
            raise HttpError(400, f"by is one of {', '.join(KEYS)}, not {by!r}")
        may_see = sees(request.user_id)
        here, wanted = query.chips_filter(asked), query.allocations_filter(asked, may_see)
        limit = query.limit(asked)
        breakdown = Breakdown(by, may_see, CountedChips(here))
        async for items in slices(filter(here, self._ledger.holdings())):
            for item in items:
                if item.refs and wanted(item):
                    breakdown.add(item)
        return json_response(breakdown.document(limit))

    async def _dump(self, request: Request) -> Response:
        form, what = request.query.get("format", "json"), request.query.get("what", "all")
        if form not in ("json", "text") or what not in ("all", "kernels"):
            raise HttpError(400, "format is 'json' or 'text', what is 'all' or 'kernels'")
        wanted = self._dump_filter(request, kernels=what == "kernels")
        if form == "text":
            text = await self._dumps.text(wanted, user_id=request.user_id)
            return Response(text.encode() + b"\n", content_type="text/plain; charset=utf-8")
        document = await self._dumps.document(wanted, user_id=request.user_id)
        return await rows_response(lambda: document)

    def _dump_filter(self, request: Request, kernels: bool) -> DumpFilter:
        asked = request.query
        chips = frozenset(asked["chip"].split(",")) if "chip" in asked else None
        pids = frozenset(query.integer(text, "pid") for text in asked["pid"].split(",")) if "pid" in asked else None
        for pid in pids or ():
            query.processes(self._ledger, pid)
        for chip in chips or ():
            if chip not in self._ledger.chips:
                raise HttpError(404, f"there is no chip {chip!r}; /snapshot lists those there are")
        kinds = query.kinds(asked.get("kind")) & (frozenset(KERNEL_KINDS) if kernels else frozenset(KINDS))
        limit = query.limit({"limit": str(KERNELS_LISTED if kernels else LISTED), **asked})
        return DumpFilter(kernels, chips, pids, kinds, limit)

    async def _leaks(self, request: Request) -> Response:
        asked, ledger = request.query, self._ledger
        named = asked["pid"].split(",") if "pid" in asked else ()
        pids = frozenset(query.integer(text, "pid") for text in named)
        for pid in pids:
            query.processes(ledger, pid)
        chip = asked.get("chip")
        if chip is not None and chip not in ledger.chips:
            raise HttpError(404, f"there is no chip {chip!r}; the snapshot lists all chips")
        await thin(ledger)
        now, since = self._clock.now(), self._server()["since"]
        may_see = sees(request.user_id)
        seen = [p for p in ledger.processes.values() if may_see(p.info.user_id) and (not pids or p.info.pid in pids)]
        after = _after(asked["since"], seen, now) if "since" in asked else 0.0
        ignored = asked.get("ignore", "").split("\n")
        wanted = LeakRequest(pids, chip, after, tuple(pattern for pattern in ignored if pattern))
        finder = LeakFinder(now, ByAge(now, after), wanted, may_see=may_see)
        async for items in slices(ledger.holdings()):
            for item in items:
                finder.add(item)
        for process in reversed([*ledger.departed]):
            finder.add_dead(process)
            await pause()
        await in_turns(finder.judge())
        found = finder.result(ledger.processes.values(), time=rfc3339(now), since=rfc3339(since), tracked=now - since)
        await pause()
        return json_response(found)


def _after(text: str, processes: list[Process], now: float) -> float:
    """The time that a request for leaks begins with: seconds since 1970, or "phase:NAME", the start of its last run.

    ``processes`` are those whose phases the reader may see.
    """
    if text.startswith("phase:"):
        found = [began for process in processes if (began := process.phases.began(text[6:])) is not None]
        if not found:
            raise HttpError(404, f"there is no phase {text[6:]!r}")
        return max(found)
    try:
        check_time(seconds := float(text))
    except ValueError:
        raise HttpError(400, f"since is seconds since 1970 or phase:NAME, not {text!r}") from None
    return min(seconds, now)

# SPDX-License-Identifier: Apache-2.0
"""What the API answers. docs/api.md describes each route; a test compares the two."""

from __future__ import annotations

import asyncio
import heapq
import math
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import islice
from typing import Any, NamedTuple

from ttmem.account import snapshot as snap
from ttmem.account.events import PeaksReset
from ttmem.account.groups import KEYS, Groups
from ttmem.account.kinds import KIND_BY_LABEL, KINDS
from ttmem.account.l1map import FloorFinder, Reach
from ttmem.account.ledger import Ledger
from ttmem.account.parties import Process
from ttmem.account.phases import phase_entries, phases_head
from ttmem.account.things import Holding, Thing
from ttmem.api.dump import DumpBuilder, kernels_text, remaining_text
from ttmem.api.leaks import OLDER, LeakFinder
from ttmem.server import metrics
from ttmem.server.clock import Clock, rfc3339
from ttmem.server.cores import Cores
from ttmem.server.feed import Feed, Subscription
from ttmem.server.history import History
from ttmem.server.http import HttpError, Request, Response, json_response, json_text
from ttmem.server.ingest import Ingest
from ttmem.server.lookout import Lookout
from ttmem.server.slices import SLICE, in_turns, slices
from ttmem.sources.processes import user

_MAX_LIMIT = 10_000
_STATES = ("tracked", "untracked", "stale", "exited")
_MOST_ROWS = 50_000  # of phases in one answer, and a few more to end what was begun
_ROWS_AT_ONCE = 500
_SORTS: dict[str, Callable[[Thing], tuple[int, int]]] = {
    "size": lambda thing: (thing.size, thing.born),
    "newest": lambda thing: (thing.born, 0),
    "oldest": lambda thing: (-thing.born, 0),
}


def sees(uid: int | None) -> Callable[[int | None], bool]:
    """Whose command lines and tags a reader may be shown: their own, or everybody's if they are root."""
    return lambda owner: uid == 0 or (uid is not None and uid == owner)


class Route(NamedTuple):
    method: str
    path: str
    handler: Callable[[Request], Awaitable[Response]]
    parameters: tuple[str, ...] = ()


class Api:
    """The routes over one server's state."""

    def __init__(
        self,
        ledger: Ledger,
        ingest: Ingest,
        history: History,
        feed: Feed,
        clock: Clock,
        lookout: Lookout,
        server: Callable[[], Any],
    ) -> None:
        self._ledger = ledger
        self._ingest = ingest
        self._history = history
        self._feed = feed
        self._clock = clock
        self._lookout = lookout
        self._server = server
        self._cores = Cores(ledger)
        self.routes = [
            Route("GET", "/health", self._health),
            Route("GET", "/snapshot", self._snapshot, ("machine",)),
            Route("GET", "/processes", self._processes, ("state",)),
            Route("GET", "/processes/{pid}", self._process),
            Route(
                "GET",
                "/things",
                self._things,
                ("chip", "device", "kind", "pid", "min_size", "tag", "sort", "limit", "offset"),
            ),
            Route("GET", "/groups", self._groups, ("by", "chip", "device", "kind", "pid", "min_size", "tag", "limit")),
            Route("GET", "/peaks", self._peaks, ("since", "pid")),
            Route("POST", "/peaks/reset", self._reset_peaks),
            Route("GET", "/phases", self._phases, ("pid",)),
            Route("GET", "/headroom", self._headroom, ("chip",)),
            Route("GET", "/cores", self._get_cores, ("chip", "core")),
            Route("GET", "/history", self._get_history, ("step", "since", "until", "chip", "kind")),
            Route("GET", "/events", self._events),
            Route("GET", "/dump", self._dump, ("format", "what")),
            Route("GET", "/leaks", self._leaks, ("older", "pid", "chip")),
            Route("GET", "/metrics", self._metrics, ("pids",)),
        ]

    async def handle(self, request: Request) -> Response:
        known = [route for route in self.routes if _matches(route.path, request.path)]
        method = "GET" if request.method == "HEAD" else request.method
        for route in known:
            if route.method == method:
                unknown = set(request.query) - set(route.parameters)
                if unknown:
                    allowed = ", ".join(route.parameters) or "none"
                    raise HttpError(400, f"unknown parameter {sorted(unknown)[0]!r}; {route.path} takes: {allowed}")
                self._ingest.catch_up()
                return await route.handler(request)
        if known:
            raise HttpError(405, f"{request.path} takes {known[0].method}, not {request.method}")
        raise HttpError(404, f"there is no {request.path}; there are {', '.join(route.path for route in self.routes)}")

    async def handle_metrics_only(self, request: Request) -> Response:
        """The one page that is served over TCP."""
        if request.path != "/metrics":
            raise HttpError(404, "only /metrics is served here; the API is on the Unix socket")
        return await self.handle(request)

    async def snapshot(self, uid: int | None = 0) -> dict[str, Any]:
        """The snapshot as that user may see it."""
        return await asyncio.to_thread(self._lookout.merged, self.account(uid), sees(uid))

    def account(self, uid: int | None = 0) -> dict[str, Any]:
        """The snapshot of the account alone."""
        server = self._server()
        return snap.snapshot(
            self._ledger,
            time=rfc3339(self._clock.now(), digits=6),
            host=socket.gethostname(),
            server={
                "pid": server["pid"],
                "since": rfc3339(server["since"]),
                "events": self._ledger.seq,
                "version": server["version"],
                "clients": server["clients"],
                "lost_to_readers": self._feed.lost,
            },
            sources=[{"name": "server", "state": "ok", "detail": None}],
            user_of=user,
            may_see=sees(uid),
            physical=self._cores.physical,
        )

    async def build_dump(self, *, kernels: bool = False, uid: int | None = 0) -> dict[str, Any]:
        """Everything live, gathered without holding the loop."""
        builder = DumpBuilder(kernels_only=kernels)
        async for items in self._slices():
            for item in items:
                builder.add(item)
        return builder.result(
            time=rfc3339(self._clock.now()), anomalies=snap.anomalies(self._ledger.anomalies), may_see=sees(uid)
        )

    async def dump_text(self, *, kernels: bool = False, uid: int | None = 0) -> str:
        dump = await self.build_dump(kernels=kernels, uid=uid)
        return kernels_text(dump, self._clock.now()) if kernels else remaining_text(dump)

    def _slices(self) -> AsyncIterator[list[Thing]]:
        """Every live thing, a slice at a time."""
        return slices(self._ledger.holdings())

    async def _thin(self) -> None:
        """Let what a large dead process left shrink to what is kept of it, before looking through it."""
        while self._ledger.thin_graves(SLICE):
            await asyncio.sleep(0)

    # -- handlers ------------------------------------------------------------------------------------------------

    async def _health(self, request: Request) -> Response:
        server = self._server()
        return json_response({"status": "ok", **server, "since": rfc3339(server["since"]), "events": self._ledger.seq})

    async def _snapshot(self, request: Request) -> Response:
        alone = request.query.get("machine") in ("0", "false")
        await self._cores.refresh()
        picture, may_see = self.account(request.uid), sees(request.uid)
        return await _written(lambda: picture if alone else self._lookout.merged(picture, may_see))

    async def _processes(self, request: Request) -> Response:
        state = request.query.get("state")
        if state not in (None, *_STATES):
            raise HttpError(400, f"state is one of {', '.join(_STATES)}, not {state!r}")
        found = (await self.snapshot(request.uid))["processes"]
        return await _written(lambda: {"processes": [p for p in found if state in (None, p["state"])]})

    async def _process(self, request: Request) -> Response:
        pid = _whole(request.path.rsplit("/", 1)[1], "pid")
        may_see = sees(request.uid)
        parties = self._parties(pid)
        await self._thin()
        found = []
        known = {(party.info.pid, party.info.start, party.exited): party for party in parties}  # they may die meanwhile
        for data in (await self.snapshot(request.uid))["processes"]:
            party = known.get((data["pid"], data["start"], data["exited"]))
            if party is not None:
                if data["exited"] is not None:
                    tags = may_see(party.info.uid)
                    data["largest"] = [snap.thing(item, see_tag=tags) for item in party.largest_left(20)]
                found.append(data)
        return json_response({"processes": found})

    def _parties(self, pid: int) -> list[Process]:
        """Processes of that pid, the living first, then those that departed last."""
        known = (*self._ledger.processes.values(), *reversed(self._ledger.departed))
        found = [process for process in known if process.info.pid == pid]
        if not found:
            raise HttpError(404, f"no process {pid} has reported; /processes lists those that have")
        return found

    async def _things(self, request: Request) -> Response:
        query = request.query
        may_see = sees(request.uid)
        here, wanted = _holdings_filter(query), _filter(query, may_see)
        order = _SORTS.get(query.get("sort", "size"))
        if order is None:
            raise HttpError(400, f"sort is one of {', '.join(_SORTS)}, not {query['sort']!r}")
        limit = min(_whole(query.get("limit", "100"), "limit"), _MAX_LIMIT)
        offset = _whole(query.get("offset", "0"), "offset")
        keep = min(limit + offset, 100_000)
        best: list[tuple[tuple[int, int], int, Thing]] = []
        matched = size = 0
        async for items in slices(filter(here, self._ledger.holdings())):
            for item in items:
                if item.refs and wanted(item):
                    matched += 1
                    size += item.size
                    entry = (order(item), item.born, item)
                    if len(best) < keep:
                        heapq.heappush(best, entry)
                    elif best and entry[:2] > best[0][:2]:
                        heapq.heapreplace(best, entry)
        best.sort(reverse=True)
        page = [
            snap.thing(item, see_tag=may_see(item.holding.source.process.info.uid))
            for _, _, item in best[offset : offset + limit]
        ]
        return json_response({"matched": matched, "bytes": size, "offset": offset, "things": page})

    async def _groups(self, request: Request) -> Response:
        query = request.query
        by = query.get("by", "op")
        if by not in KEYS:
            raise HttpError(400, f"by is one of {', '.join(KEYS)}, not {by!r}")
        may_see = sees(request.uid)
        here, wanted = _holdings_filter(query), _filter(query, may_see)
        limit = min(_whole(query.get("limit", "100"), "limit"), _MAX_LIMIT)
        groups = Groups(by, may_see)
        async for items in slices(filter(here, self._ledger.holdings())):
            for item in items:
                if item.refs and wanted(item):
                    groups.add(item)
        return json_response({"by": by, "groups": groups.result(limit), "count": len(groups), "bytes": groups.bytes})

    async def _peaks(self, request: Request) -> Response:
        since = request.query.get("since", "start")
        if since not in ("start", "reset"):
            raise HttpError(400, f"since is 'start' or 'reset', not {since!r}")
        reset = self._ledger.peaks_since
        await self._thin()
        process = None
        if "pid" in request.query:
            process = self._parties(_whole(request.query["pid"], "pid"))[0]
        finder = snap.PeakFinder(self._ledger, recent=since == "reset", process=process)
        async for items in self._slices():
            for item in items:
                finder.add(item)
        peaks = await in_turns(finder.results(sees(request.uid)))
        told = {"since": since, "reset": None if reset is None else rfc3339(reset), "peaks": peaks}
        return await _written(lambda: told)

    async def _phases(self, request: Request) -> Response:
        ledger, pid = self._ledger, request.query.get("pid")
        if pid is None:
            found = [p for p in (*ledger.processes.values(), *ledger.departed) if p.phases.open or p.phases.ended]
        else:
            found = self._parties(_whole(pid, "pid"))
        listed = 0
        processes: list[str] = []
        for process in found:
            states: dict[str, list[str]] = {"open": [], "ended": []}
            not_listed = 0
            for state, entry, rows in phase_entries(process, sees(request.uid)):
                if listed >= _MOST_ROWS:
                    not_listed += 1
                    continue
                pieces: list[str] = []
                while some := list(islice(rows, _ROWS_AT_ONCE)):
                    pieces.append(json_text(some)[1:-1])
                    listed += len(some)
                    await asyncio.sleep(0)
                states[state].append(f'{json_text(entry)[:-1]},"rows":[{",".join(pieces)}]}}')
            phases = ",".join(f'"{state}":[{",".join(entries)}]' for state, entries in states.items())
            processes.append(f"{json_text(phases_head(process, not_listed))[:-1]},{phases}}}")
        return Response(f'{{"processes":[{",".join(processes)}]}}\n'.encode())

    async def _headroom(self, request: Request) -> Response:
        wanted = request.query.get("chip")
        finders = {c.uid: FloorFinder(c) for c in snap.shown_chips(self._ledger) if wanted in (None, c.uid)}
        if wanted is not None and not finders:
            raise HttpError(404, f"there is no chip {wanted!r}; /snapshot lists those there are")
        for finder in finders.values():
            async for items in slices(finder.chip.holdings):
                for item in items:
                    finder.add(item)
        may_see = sees(request.uid)

        def reach(one: Reach | None) -> dict[str, Any] | None:
            if one is None:
                return None
            pid = one.program.holding.source.process.info.pid or None
            return {"program": one.program.ident, "pid": pid, "end": one.end, "headroom": one.headroom}

        out = []
        for finder in finders.values():
            found = finder.result()
            holder = found.holder
            shown = None
            if holder is not None:
                shown = snap.thing(holder, see_tag=may_see(holder.holding.source.process.info.uid))
            out.append(
                {
                    "chip": finder.chip.uid,
                    "floor": found.floor,
                    "floor_holder": shown,
                    "launched": [reach(one) for one in found.launched],
                    "worst_cached": reach(found.worst),
                }
            )
        return json_response({"chips": out})

    async def _get_cores(self, request: Request) -> Response:
        return await self._cores.answer(request, sees(request.uid))

    async def _reset_peaks(self, request: Request) -> Response:
        self._ingest.emit(self._clock.now(), None, PeaksReset())
        return json_response({"reset": rfc3339(self._clock.now())})

    async def _get_history(self, request: Request) -> Response:
        query, now = request.query, self._clock.now()
        step = _whole(query.get("step", "1"), "step")
        if step not in (1, 10):
            raise HttpError(400, f"step is 1 (for an hour) or 10 (for a day), not {step}")
        until = _moment(query.get("until"), now, "until")
        since = _moment(query.get("since"), until - (3600 if step == 1 else 86400), "since")
        series = self._history.json(step, since, until, query.get("chip"), _kind(query.get("kind")))
        left_out = self._history.series(step).left_out
        return json_response({"step": step, "since": since, "until": until, "series": series, "left_out": left_out})

    async def _events(self, request: Request) -> Response:
        reader = Subscription()
        return Response(self._follow(reader, request.uid), content_type="text/event-stream")

    async def _follow(self, reader: Subscription, uid: int | None) -> AsyncIterator[bytes]:
        if not self._feed.readers:
            self._ingest.observers.append(self._feed.publish)
        self._feed.readers.add(reader)
        try:
            async for piece in self._feed.stream(reader, sees(uid)):
                yield piece
        finally:
            self._feed.readers.discard(reader)
            if not self._feed.readers:
                self._ingest.observers.remove(self._feed.publish)

    async def _dump(self, request: Request) -> Response:
        form, what = request.query.get("format", "json"), request.query.get("what", "all")
        if form not in ("json", "text") or what not in ("all", "kernels"):
            raise HttpError(400, "format is 'json' or 'text', what is 'all' or 'kernels'")
        if form == "text":
            text = await self.dump_text(kernels=what == "kernels", uid=request.uid)
            return Response(text.encode() + b"\n", content_type="text/plain; charset=utf-8")
        return json_response(await self.build_dump(kernels=what == "kernels", uid=request.uid))

    async def _leaks(self, request: Request) -> Response:
        query = request.query
        older = _whole(query.get("older", str(OLDER)), "older")
        pids = frozenset(_whole(text, "pid") for text in query["pid"].split(",")) if "pid" in query else frozenset()
        for pid in pids:
            self._parties(pid)
        chip = query.get("chip")
        if chip is not None and chip not in self._ledger.chips:
            raise HttpError(404, f"there is no chip {chip!r}; /snapshot lists those there are")
        await self._thin()
        now, since = self._clock.now(), self._server()["since"]
        finder = LeakFinder(now, older, pids=pids, chip=chip, may_see=sees(request.uid))
        async for items in self._slices():
            for item in items:
                finder.add(item)
        for process in reversed([*self._ledger.departed]):
            finder.add_dead(process)
            await asyncio.sleep(0)
        found = finder.result(self._ledger, time=rfc3339(now), since=rfc3339(since), tracked=now - since)
        await asyncio.sleep(0)
        return json_response(found)

    async def _metrics(self, request: Request) -> Response:
        pids = request.query.get("pids", "0") not in ("", "0", "false")
        page = metrics.page(self._ledger, self._server(), await self.snapshot(), pids=pids)
        return Response(page, content_type=metrics.CONTENT_TYPE)


async def _written(make: Callable[[], dict[str, Any]]) -> Response:
    """In a thread: with many chips and processes it is megabytes, and the loop has others to serve."""
    return await asyncio.to_thread(lambda: Response(_rows_text(make()).encode() + b"\n"))


def _rows_text(picture: dict[str, Any]) -> str:
    """The same as ``json_text``, row by row: while the encoder is at work no other thread can run.

    >>> _rows_text({"host": "box", "chips": [{"uid": "77"}, {}], "driver": None})
    '{"host":"box","chips":[{"uid":"77"},{}],"driver":null}'
    """
    parts = []
    for key, value in picture.items():
        rows = f"[{','.join([json_text(row) for row in value])}]" if isinstance(value, list) else json_text(value)
        parts.append(f"{json_text(key)}:{rows}")
    return f"{{{','.join(parts)}}}"


def _matches(pattern: str, path: str) -> bool:
    if pattern.endswith("{pid}"):
        head = pattern[: -len("{pid}")]
        return path.startswith(head) and "/" not in path[len(head) :] and len(path) > len(head)
    return path == pattern


def _whole(text: str, name: str) -> int:
    try:
        value = int(text, 0)
    except ValueError:
        raise HttpError(400, f"{name} must be a whole number, not {text!r}") from None
    if not 0 <= value < 1 << 63:
        raise HttpError(400, f"{name} must not be negative or huge, but is {text}")
    return value


def _moment(text: str | None, default: float, name: str) -> float:
    if text is None:
        return default
    try:
        moment = float(text)
    except ValueError:
        moment = math.nan
    if not math.isfinite(moment):
        raise HttpError(400, f"{name} is seconds since 1970, not {text!r}")
    return moment


def _kind(text: str | None) -> str | None:
    if text is not None and text not in KIND_BY_LABEL:
        raise HttpError(400, f"kind is one of {', '.join(kind.label for kind in KINDS)}, not {text!r}")
    return text


def _holdings_filter(query: dict[str, str]) -> Callable[[Holding], bool]:
    """Whose things a /things request is about."""
    chip = query.get("chip")
    device = _whole(query["device"], "device") if "device" in query else None
    pid = _whole(query["pid"], "pid") if "pid" in query else None
    return lambda holding: (
        (chip is None or holding.chip.uid == chip)
        and (device is None or holding.number == device)
        and (pid is None or holding.source.process.info.pid == pid)
    )


def _filter(query: dict[str, str], may_see: Callable[[int | None], bool]) -> Callable[[Thing], bool]:
    """What a /things request asks of each thing; a tag that the reader may not see matches nothing."""
    label = _kind(query.get("kind"))
    kind = KIND_BY_LABEL[label] if label is not None else None
    tag = query.get("tag")
    least = _whole(query.get("min_size", "0"), "min_size")

    def wanted(item: Thing) -> bool:
        return (kind is None or item.kind is kind) and item.size >= least and (tag is None or tagged(item))

    def tagged(item: Thing) -> bool:
        found = item.extra.tag if item.extra is not None else None
        return found is not None and str(tag) in found and may_see(item.holding.source.process.info.uid)

    return wanted

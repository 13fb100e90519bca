# SPDX-License-Identifier: Apache-2.0
"""The documents of the live page: asked from the server once for all tabs, or made by this process without a server."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import NamedTuple
from urllib.parse import urlencode

from ttmem.doctor.checks import document, examine
from ttmem.doctor.context import DoctorContext
from ttmem.documents.local_snapshot import LocalSnapshot, no_account
from ttmem.pages.web_events import RecentEvents
from ttmem.server.http_server import HttpError, json_text
from ttmem.wire.api_client import ApiError, NoServer, OutOfReach, get

# Paths of the API that a page may read. Nothing here changes anything, and none takes long for what it says.
FORWARDED = frozenset(
    {"health", "snapshot", "processes", "allocations", "breakdown", "peaks", "phases", "headroom", "cores", "history"}
    | {"leaks"}
)
_ASK_SECONDS = 10.0
_KEPT_SECONDS = 0.4  # an answer, for other tabs: less than the interval of a page
_REST_RATIO = 5  # an answer that took long is kept for so many times that long, to limit the load of the server
_DOCTOR_SECONDS = 15.0  # its findings are kept
_MOST_KEPT = 64
_MOST_QUERY_CHARACTERS = 4096
_THREADS = 6


class _Kept(NamedTuple):
    body: asyncio.Future[bytes]
    until: float  # monotonic; infinity while it is being made


class WebDocuments:
    """Answers of the server for any number of pages. Everything is called from one loop."""

    def __init__(self, api: str | None, *, root: str = "/") -> None:
        """``api`` is the API socket, None for the usual ones; ``root`` the folder of a simulated machine."""
        self._api, self._root = api, root
        self._local = LocalSnapshot(root)
        self._local_lock = threading.Lock()
        self._events = RecentEvents(api)
        self._kept: dict[str, _Kept] = {}
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="ask")

    async def answer(self, name: str, query: dict[str, str]) -> bytes:
        """The JSON text of a document; HttpError if it is not one of those that a page may read."""
        if name == "events":
            return await self._in_thread(lambda: self._events.answer(_number(query.get("after", "0"))))
        if name == "doctor":
            return await self._shared("doctor", self._doctor, _DOCTOR_SECONDS)
        route, slash, rest = name.partition("/")
        by_pid = route == "processes" and rest.isascii() and rest.isdecimal()
        if route not in FORWARDED or (slash and not by_pid):
            known = ", ".join(sorted(FORWARDED | {"doctor", "events"}))
            raise HttpError(404, f"there is no api/{name[:100]}; there are {known}")
        path = f"/{name}" + (f"?{urlencode(query)}" if query else "")
        if len(path) > _MOST_QUERY_CHARACTERS:
            raise HttpError(400, f"the parameters have {len(path)} characters; the limit is {_MOST_QUERY_CHARACTERS}")
        make = self._snapshot if path == "/snapshot" else lambda: self._ask(path)
        return await self._shared(path, make, _KEPT_SECONDS)

    def tick(self) -> None:
        """Drop answers and streams that no page uses any more."""
        self._events.tick()
        self._drop(monotonic())

    def close(self) -> None:
        self._events.close()
        self._pool.shutdown(wait=False, cancel_futures=True)

    # -- inside --------------------------------------------------------------------------------------------------

    async def _shared(self, key: str, make: Callable[[], bytes], seconds: float) -> bytes:
        """The answer of a question; the same question meanwhile, or shortly after, gets the same answer."""
        now = monotonic()
        kept = self._kept.get(key)
        if kept is None or kept.until <= now:
            if len(self._kept) >= _MOST_KEPT:
                self._drop(float("inf"))
            if len(self._kept) >= _MOST_KEPT:
                raise HttpError(503, f"{_MOST_KEPT} different questions are being answered; try again later")
            task = asyncio.ensure_future(self._in_thread(make))
            kept = self._kept[key] = _Kept(task, float("inf"))
            task.add_done_callback(lambda done: self._made(key, task, now, seconds))
        return await asyncio.shield(kept.body)

    def _made(self, key: str, task: asyncio.Future[bytes], began: float, seconds: float) -> None:
        now = monotonic()
        if task.cancelled() or task.exception() is not None:
            self._kept.pop(key, None)  # the next one asks again
        else:
            self._kept[key] = _Kept(task, max(began + seconds, now + _REST_RATIO * (now - began) - seconds))

    def _drop(self, now: float) -> None:
        """Drop answers that are old at a time. What is being made stays."""
        self._kept = {key: kept for key, kept in self._kept.items() if kept.until > now or not kept.body.done()}

    async def _in_thread(self, make: Callable[[], bytes]) -> bytes:
        return await asyncio.get_running_loop().run_in_executor(self._pool, make)

    def _ask(self, path: str) -> bytes:
        try:
            return get(path, socket_path=self._api, timeout=_ASK_SECONDS)
        except (NoServer, OutOfReach) as error:
            raise HttpError(503, str(error)) from None
        except ApiError as error:
            raise HttpError(502, str(error)) from None

    def _snapshot(self) -> bytes:
        """The server's snapshot, or what the machine alone shows if there is no server for us."""
        try:
            return get("/snapshot", socket_path=self._api, timeout=_ASK_SECONDS)
        except NoServer as error:
            return self._alone("not running", str(error))
        except OutOfReach as error:
            return self._alone("out of reach", str(error))
        except ApiError as error:
            raise HttpError(502, str(error)) from None

    def _alone(self, state: str, why: str) -> bytes:
        with self._local_lock:
            return json_text(self._local.snapshot(no_account(state, why))).encode() + b"\n"

    def _doctor(self) -> bytes:
        found = document(examine(DoctorContext(self._root, os.environ, api=self._api)))
        return json.dumps(found).encode() + b"\n"


def _number(text: str) -> int:
    if not text.isdecimal() or len(text) > 15:
        raise HttpError(400, f"after is the number of an event, not {text[:40]!r}")
    return int(text)

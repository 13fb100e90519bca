# SPDX-License-Identifier: Apache-2.0
"""Loads the data of the dashboard in a thread: from the server, or from the machine without a server."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from urllib.parse import parse_qsl, urlencode

from ttmem.documents import unknown_rows as blank
from ttmem.documents.local_snapshot import LocalSnapshot, no_account
from ttmem.model.printable import printable
from ttmem.show.text import Style
from ttmem.show.top.dashboard_state import Answer
from ttmem.wire.api_client import ApiError, NoServer, get
from ttmem.wire.event_tail import EventTail

if TYPE_CHECKING:
    from ttmem.model.schema import Snapshot
    from ttmem.show.top.playback import RecordedUpdate, Request

EVENTS = "/events"
_ANSWER_SECONDS = 2.0  # for a server
_LONG_ANSWER_SECONDS = 10.0  # for requests that may examine every live allocation
_REST_RATIO = 5  # pause after an answer, as a multiple of its time, to limit the load of the server
_KEPT_EVENTS = 1000
_ESCAPE = re.compile(rb'\\[^"\\/]')  # in JSON, of a character that may not be printable


class FeedUpdate(NamedTuple):
    """The data of one round; ``snapshot`` is None if there is no newer one. Times as in the model."""

    snapshot: Snapshot | None
    trouble: str | None
    answers: dict[str, Answer]
    time: float
    now: float
    recorded: RecordedUpdate | None = None  # of a recording: the moment that is shown


class Feed(Protocol):
    """Where the documents of the dashboard come from: a server and the machine, or a recording.

    It calls a function with each update, from a thread of its own.
    """

    def start(self) -> None: ...

    def want(self, paths: list[str], interval: float) -> None:
        """Set the paths of the API to answer in addition to the snapshot, and the interval."""

    def seek(self, requests: list[Request]) -> None:
        """Show other moments; without a recording, there are no such requests."""

    def close(self) -> None:
        """End the thread, without waiting for it."""

    def join(self, seconds: float) -> None:
        """Wait until the thread has ended, if it reads a file."""


class DataFeed:
    """A thread that loads an update at each interval and calls ``on_update``, until it is closed."""

    def __init__(
        self, on_update: Callable[[FeedUpdate], None], *, api: str | None, root: str = "/", ascii: bool = False
    ) -> None:
        self.interval = 0.5
        self._on_update, self._api = on_update, api
        self._style = Style(ascii=ascii)
        self._look = LocalSnapshot(root)
        self._wants: tuple[str, ...] = ()
        self._rests: dict[str, float] = {}  # for slow paths: not requested again before this time
        self._wake = threading.Event()
        self._closed = False
        self._answered = False  # whether the server has answered since it was last absent
        self._stream: EventTail[Any] | None = None
        self._chip_ids: dict[str, str] = {}  # real ids of chips whose shown ids differ
        self._thread = threading.Thread(target=self._run, daemon=True, name="feed")

    def start(self) -> None:
        self._thread.start()

    def want(self, paths: list[str], interval: float) -> None:
        """Set the paths to request in addition to the snapshot, and the interval. New paths are requested at once."""
        changed = tuple(paths) != self._wants or interval < self.interval
        self._wants, self.interval = tuple(paths), interval
        if changed:
            self._wake.set()

    def seek(self, requests: list[Request]) -> None:
        """A server shows the current state only."""

    def close(self) -> None:
        """End the thread, without waiting for a server that does not answer."""
        self._closed = True
        self._wake.set()
        if self._stream is not None:
            self._stream.close()

    def join(self, seconds: float) -> None:
        """Nothing that it reads is closed by others."""

    def _run(self) -> None:
        due = time.monotonic()
        while not self._closed:
            self._wake.clear()
            update = self.round()
            if self._closed:
                break
            self._on_update(update)
            due = max(due + self.interval, time.monotonic())
            while not self._wake.is_set() and (left := due - time.monotonic()) > 0:
                self._wake.wait(left)
            due = min(due, time.monotonic())
        self._look.close()

    def round(self) -> FeedUpdate:
        """Request everything once."""
        trouble = None
        try:
            snapshot: Snapshot | None = self._ask("/snapshot", _ANSWER_SECONDS)
            if snapshot is None or snapshot.get("schema") != blank.SCHEMA:
                raise ApiError(f"the server does not answer with {blank.SCHEMA}; it may be another version of ttmem")
            self._answered = True
        except NoServer as error:
            snapshot, trouble, self._answered = self._alone("not running", str(error)), str(error), False
        except ApiError as error:
            # Wait for a slow server, because it has more data than the machine shows. The last snapshot stays
            # meanwhile.
            trouble = str(error)
            snapshot = None if self._answered else self._alone("does not answer", trouble)
        stamp = time.time(), time.monotonic()
        return FeedUpdate(snapshot, trouble and printable(trouble), {} if trouble else self._answers(), *stamp)

    def _alone(self, state: str, why: str) -> Snapshot:
        found: Snapshot = self._clean(self._look.snapshot(no_account(state, why)))
        return found

    def _answers(self) -> dict[str, Answer]:
        answers = {}
        wants = self._wants
        rests, self._rests = self._rests, {}
        for path in wants:
            began = time.monotonic()
            if began < rests.get(path, began):
                self._rests[path] = rests[path]
                continue
            try:
                found = self._events() if path == EVENTS else self._ask(path, _LONG_ANSWER_SECONDS)
                answers[path] = Answer(found, None, time.monotonic())
            except ApiError as error:
                answers[path] = Answer(None, printable(str(error)), time.monotonic())
            now = time.monotonic()
            if _REST_RATIO * (now - began) > self.interval:
                self._rests[path] = now + _REST_RATIO * (now - began)
        if EVENTS not in wants and self._stream is not None:
            self._stream.close()
            self._stream = None
        return answers

    def _events(self) -> dict[str, Any]:
        if self._stream is None:
            self._stream = EventTail(self._api, lambda text: self._clean(json.loads(text)), _KEPT_EVENTS)
        return {"events": self._stream.events()[0], "lost": self._stream.lost, "since": self._stream.since}

    def _ask(self, path: str, patience: float) -> Any:
        body = get(with_real_ids(path, self._chip_ids), socket_path=self._api, timeout=patience)
        try:
            found = json.loads(body)
        except (ValueError, RecursionError):
            raise ApiError("the program that answers is not a ttmem server: its answer is not JSON") from None
        if not isinstance(found, dict):
            raise ApiError("the program that answers is not a ttmem server: its answer is not a JSON object")
        # Checking all values takes longer than all the rest, and is almost never necessary.
        doubtful = not body.isascii() or b"\x7f" in body or _ESCAPE.search(body)
        if path == "/snapshot":
            self._chip_ids = odd_chip_ids(found) if doubtful else {}
        return self._clean(found) if doubtful else found

    def _clean(self, found: Any) -> Any:
        return self._style.clean(found)


def odd_chip_ids(snapshot: Mapping[str, Any]) -> dict[str, str]:
    """Chip ids as shown, with the real ids."""
    chips = snapshot.get("chips")
    chip_ids = [chip.get("chip") for chip in chips if isinstance(chip, dict)] if isinstance(chips, list) else []
    return {
        printable(chip_id): chip_id for chip_id in chip_ids if isinstance(chip_id, str) and not chip_id.isprintable()
    }


def with_real_ids(path: str, chip_ids: dict[str, str]) -> str:
    """A path with the real ids of chips, by their shown ids."""
    route, _, query = path.partition("?")
    if not chip_ids or not query:
        return path
    return f"{route}?{urlencode([(name, chip_ids.get(value, value)) for name, value in parse_qsl(query)])}"

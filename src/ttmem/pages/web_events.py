# SPDX-License-Identifier: Apache-2.0
"""The last events of a server, shared by all tabs: one stream, open only while a page asks for events."""

from __future__ import annotations

import threading
from time import monotonic

from ttmem.wire.event_tail import EventTail

_KEPT_EVENTS = 2000
_MOST_EVENTS = 500  # in an answer: more than a screen shows
_UNUSED_SECONDS = 10.0


class RecentEvents:
    """Opens the stream at the first request. Events are passed on as the server wrote them, without decoding."""

    def __init__(self, api: str | None) -> None:
        self._api = api
        self._tail: EventTail[bytes] | None = None
        self._asked = 0.0
        self._lock = threading.Lock()

    def answer(self, after: int) -> bytes:
        """The events after the one with this number, as JSON: ``events``, ``number`` of the last one, ``lost``."""
        with self._lock:
            self._asked = monotonic()
            if self._tail is None:
                self._tail = EventTail(self._api, bytes.strip, _KEPT_EVENTS)
            events, number = self._tail.events(after)
            since = "null" if self._tail.since is None else repr(self._tail.since)
            left_out = max(0, number - after - min(len(events), _MOST_EVENTS)) if after else 0
            head = f'"number":{number},"lost":{self._tail.lost},"left_out":{left_out},"since":{since}'
        return b'{"events":[%s],%s}\n' % (b",".join(events[-_MOST_EVENTS:]), head.encode())

    def tick(self) -> None:
        """Close the stream if no page has asked for a while."""
        with self._lock:
            if self._tail is not None and monotonic() - self._asked > _UNUSED_SECONDS:
                self._tail.close()
                self._tail = None

    def close(self) -> None:
        with self._lock:
            if self._tail is not None:
                self._tail.close()
                self._tail = None

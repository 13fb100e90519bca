# SPDX-License-Identifier: Apache-2.0
"""Reads the event stream of a server in a thread, and keeps the last events."""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from ttmem.wire.api_client import api_paths
from ttmem.wire.endpoint import connect_any

Kept = TypeVar("Kept")
_PATH = "/events"
_SILENCE_SECONDS = 20.0  # the server sends something every 15 s
_RETRY_SECONDS = 1.0  # until a broken stream is opened again


class EventTail(Generic[Kept]):
    """The last events of a server. A broken stream is opened again until it is closed."""

    def __init__(self, api: str | None, keep: Callable[[bytes], Kept], most: int) -> None:
        """``keep`` makes what is kept of the JSON text of an event; ``most`` events are kept."""
        self.lost = 0  # events that the server dropped, because they were not read fast enough
        self.since: float | None = None  # when the stream was first opened, in seconds since 1970
        self.number = 0  # of the last event, counted from 1
        self._api, self._keep = api, keep
        self._events: deque[Kept] = deque(maxlen=most)
        self._lock = threading.Lock()
        self._sock: Any = None
        self._closed = threading.Event()
        threading.Thread(target=self._run, daemon=True, name="events").start()

    def events(self, after: int = 0) -> tuple[list[Kept], int]:
        """The kept events with a number above this, and the number of the last one."""
        with self._lock:
            new = min(len(self._events), self.number - after) if after <= self.number else len(self._events)
            return (list(self._events)[-new:] if new else []), self.number

    def close(self) -> None:
        """End the thread, without waiting for it."""
        self._closed.set()
        sock = self._sock
        if sock is not None:
            try:
                sock.shutdown(2)
            except OSError:
                pass

    def _run(self) -> None:
        while not self._closed.is_set():
            try:
                self._read()
            except (OSError, ValueError, AttributeError, TypeError, RecursionError):
                pass  # it is opened again; requests for the snapshot report a missing server
            self._closed.wait(_RETRY_SECONDS)

    def _read(self) -> None:
        paths = [self._api] if self._api is not None else api_paths()
        sock, _ = connect_any(paths, _SILENCE_SECONDS, check=self._api is None)
        with sock, sock.makefile("rb") as lines:
            self._sock = sock
            self.since = self.since or time.time()
            sock.sendall(f"GET {_PATH} HTTP/1.1\r\nHost: ttmem\r\n\r\n".encode("ascii"))
            told_lost = False
            for line in lines:
                if self._closed.is_set():
                    return
                if line.startswith(b"data:"):
                    if told_lost:
                        self.lost += json.loads(line[5:]).get("count", 0)
                    else:
                        event = self._keep(line[5:])
                        with self._lock:
                            self._events.append(event)
                            self.number += 1
                told_lost = line.startswith(b"event: lost")

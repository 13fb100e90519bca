# SPDX-License-Identifier: Apache-2.0
"""Sends events to the server from a separate thread; the workload never waits.

``put`` only appends to a queue, which is safe anywhere: in a destructor that the garbage collector calls, in a signal
handler. A thread applies the queued events to a table of live allocations and sends them. If the server is unavailable,
slow or stopped, events are only applied to the table. When the server is available again, the whole table is sent with
the number of missed events. Then the account is exact again.
"""

from __future__ import annotations

import _thread
import threading
import time
from collections import deque
from collections.abc import Iterator
from queue import Empty, SimpleQueue

from ttmem.collect.client_totals import ClientTotals
from ttmem.collect.live_table import LiveTable
from ttmem.collect.meters import Reading
from ttmem.collect.server_connection import ServerConnection
from ttmem.model.events import Event, Lost
from ttmem.wire.client_encode import encode
from ttmem.wire.endpoint import search_paths
from ttmem.wire.handshake import sync

_BATCH_SECONDS = 0.002
_IDLE_SECONDS = 1.0
_RETRY_SECONDS = 0.5
_PIECE_EVENTS = 1024
_BACKLOG_BYTES = 1 << 20
_MEASURED_BYTES = 8 << 20  # of backlog while the workload takes readings, which cannot leave events in the queue
_QUEUE_LIMIT_EVENTS = 1 << 17  # events beyond the backlog, for a server that reads too slowly
_QUEUE_HELP_EVENTS = 1 << 18
_HELP_EVENTS = 16
_DECIDE_SECONDS = 0.5
_FOLD_SECONDS = 2.0  # limit for waiting on the lock; a query that interrupted the lock's holder would wait forever
_LAST_SECONDS = 1.0  # to send the rest after the last client is closed


class _LiveQuery:
    """A query in the queue: the totals after all events before it. A mark is put at its position."""

    def __init__(self, reset: bool, mark: Event | None) -> None:
        self._reset = reset
        self._mark = mark
        self.readings: dict[tuple[int | None, str], Reading] | None = None

    def answer(self, tally: ClientTotals) -> Event | None:
        self.readings = tally.read()
        if self._reset:
            tally.reset_peaks()
        return self._mark


class Sender:
    """Sends the events of one source: a queue, a thread, a connection, and the table of live allocations."""

    def __init__(self, paths: list[str] | None, hello: bytes) -> None:
        self._paths = paths
        self._hello = hello
        self.users = 1  # number of clients that share it (see sender_pool)
        self.open = True
        self._queue: deque[Event | int | _LiveQuery] = deque()  # an int is a flush that waits for its answer
        self._folding = threading.Lock()  # not reentrant: the table must not change during a change
        self._starting = threading.Lock()
        self._running = False
        self._next_start = 0.0
        self._bell: SimpleQueue[None] = SimpleQueue()  # an Event must not be set by code that interrupts its set()
        self._rung = False
        self._live = LiveTable()
        self._line: ServerConnection | None = None
        self._head_events = 0  # events in the piece that is being sent
        self._resending: Iterator[bytes] | None = None
        self._pieces: deque[tuple[bytes, int]] = deque()  # to be sent next: records and their number of events
        self._backlog = 0
        self._token = 0
        self._gap = True  # the server has missed events: send the table first
        self._generation = 0
        self._urgent = False
        self._asked = 0
        self._synced = 0
        self._answered = threading.Condition()
        self._decided = False  # whether it is known that there is a server; earlier events could not be sent
        self._waiting = 0  # number of waiting flushes; the thread does not rest meanwhile
        self._sent = 0
        self._lost = 0
        self._unreported = 0
        self._rejected = 0
        self._trouble: str | None = None
        self._next_try = 0.0

    # -- the workload's side -------------------------------------------------------------------------------------

    def put(self, event: Event) -> None:
        """Queue an event; the only cost to the workload."""
        queue = self._queue
        queue.append(event)
        if not self._running:
            if not self._start():
                self._help()
        elif len(queue) > _QUEUE_HELP_EVENTS:  # the thread does not get time to run
            self._help()
        if not self._rung:
            self._ring()

    def flush(self, timeout: float | None = 5.0) -> bool:
        """Wait until the server has applied everything reported before this call. False if it did not in time."""
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._answered:
            self._asked += 1
            token = self._asked
            self._queue.append(token)
            self._urgent = True
            self._start()
            self._ring()
            self._waiting += 1
            try:
                while self._synced < token:
                    rest = None if deadline is None else deadline - time.monotonic()
                    if rest is not None and rest <= 0:
                        return False
                    self._answered.wait(rest)
            finally:
                self._waiting -= 1
        return True

    def measure(self, *, reset: bool = False, mark: Event | None = None) -> dict[tuple[int | None, str], Reading]:
        """The totals after everything put so far. A mark is put by this call, and the totals are those at the mark."""
        look = _LiveQuery(reset, mark)
        self._queue.append(look)
        if self.open and self._start():
            self._ring()
            with self._answered:
                self._answered.wait_for(lambda: self._decided, _DECIDE_SECONDS)
        while look.readings is None:  # answered by the thread that applies the queue
            if not self._folding.acquire(timeout=_FOLD_SECONDS):
                return self._live.tally.read()
            try:
                if self._backlog > _MEASURED_BYTES:
                    self._fall_behind()
                self._fold(_PIECE_EVENTS)
            finally:
                self._folding.release()
        return look.readings

    def stats(self) -> dict[str, int | bool | str | None]:
        """Statistics of the sending, with the last problem as text."""
        return {
            "connected": self._line is not None,
            "queued": len(self._queue),
            "live": len(self._live),
            "sent": self._sent,
            "unsent": self._lost,
            "rejected": self._rejected,
            "resyncs": max(0, self._generation - 1),
            "trouble": self._trouble,
        }

    def close(self) -> None:
        """Stop after everything is sent."""
        self.open = False
        self._ring()

    def abandon(self) -> None:
        """Drop a connection that belongs to the parent of this forked process."""
        if self._line is not None:
            self._line.close()

    @property
    def promising(self) -> bool:
        """Whether there is something to send, and no error so far."""
        return self._running and self._trouble is None

    def _ring(self) -> None:
        self._rung = True
        self._bell.put(None)

    def _start(self) -> bool:
        """Start the thread if needed. False if that is impossible; then the workload must apply its events itself.

        Not a ``threading.Thread``: starting one takes a lock that the interrupted code may hold.
        """
        if self._running:
            return True
        if not self._starting.acquire(blocking=False):
            return True  # another call is about to start it, perhaps the code that we interrupted
        try:
            now = time.monotonic()
            if not self._running and now >= self._next_start:
                self._next_start = now + _RETRY_SECONDS
                _thread.start_new_thread(self._run, ())
                self._running = True
        except RuntimeError:  # the interpreter is shutting down, or there are no threads left
            self._trouble = "no thread could be started to send reports"
        finally:
            self._starting.release()
        return self._running

    # -- the thread's side ---------------------------------------------------------------------------------------

    def _run(self) -> None:
        end: float | None = (
            None  # from the first look after it is closed: a busy machine may have kept the thread waiting
        )
        while self.open or self._queue or self._busy():
            if not self.open:
                now = time.monotonic()
                end = now + _LAST_SECONDS if end is None else end
                if now > end:
                    break
            self._rest(0.0 if self._busy() else _IDLE_SECONDS)
            self._urgent = False
            try:
                self._step()
            except OSError as error:
                self._disconnect(f"lost the server: {error.strerror or error}")
            except Exception as error:  # an error in reporting must not stop the workload
                self._disconnect(f"internal error: {type(error).__name__}: {error}")
        self._disconnect("closed")

    def _rest(self, seconds: float) -> None:
        """Wait for the bell, and a moment longer, so that one send carries many events."""
        try:
            self._bell.get(timeout=seconds)
            while True:
                self._bell.get_nowait()
        except Empty:
            pass
        if seconds and self._queue and not self._urgent:
            time.sleep(_BATCH_SECONDS)
        self._rung = False  # before the queue is read: a later event rings again

    def _busy(self) -> bool:
        """Whether there is work that no new event will announce."""
        if self._waiting:
            return True
        line = self._line
        return line is not None and bool(line.sending or self._pieces or self._resending or self._gap or self._queue)

    def _step(self) -> None:
        line = self._line or self._connect()
        if line is None:
            self._decide()
            self._take()
            time.sleep(0.01 if self._waiting else 0.0)
            return
        if self._gap and not line.sending:
            self._begin_resync()
        self._take()
        if not line.send(self._next_piece) and len(self._queue) > _QUEUE_LIMIT_EVENTS:
            with self._folding:
                self._fall_behind()
        self._receive(line)

    def _take(self) -> None:
        """Apply the queue in pieces, so that no thread waits long for the lock."""
        while self._queue and (self._gap or self._backlog < _BACKLOG_BYTES):
            with self._folding:
                self._fold(_PIECE_EVENTS)

    def _fold(self, limit: int) -> None:
        """Apply queued events to the live table, and encode them if the server is up to date. The lock is held."""
        queue, live = self._queue, self._live
        follows = self._line is not None and not self._gap
        records: list[bytes] = []
        events = 0
        try:
            for _ in range(min(limit, len(queue))):
                event = queue.popleft()
                if not isinstance(event, tuple):
                    if isinstance(event, int):
                        self._token = event
                        if follows:
                            records.append(sync(event))
                        continue
                    mark = event.answer(live.tally)
                    if mark is None:
                        continue
                    event = mark
                try:
                    event = live.fold(event)
                    if follows:
                        records.append(encode(event))
                except Exception:  # an event that cannot be encoded must not block the others
                    self._rejected += 1
                else:
                    events += 1
        except BaseException:  # the workload was interrupted here: applied events were not sent
            self._fall_behind()
            self._lose(events)
            raise
        if not follows:
            self._lose(events)
        elif records:
            piece = b"".join(records)
            self._pieces.append((piece, events))
            self._backlog += len(piece)

    def _lose(self, events: int) -> None:
        self._lost += events
        self._unreported += events

    def _fall_behind(self) -> None:
        """The server reads too slowly: drop what is unsent, and send the whole table when it can read again.

        The lock is held.
        """
        self._lose(sum(events for _, events in self._pieces))
        self._pieces.clear()
        self._backlog = 0
        self._resending = None
        self._gap = True
        self._trouble = "the server does not keep up"

    def _help(self) -> None:
        """The workload is faster than the thread: for each event put on the queue, apply a few, without waiting."""
        if self._folding.acquire(blocking=False):
            try:
                if not self._gap:
                    self._fall_behind()
                self._fold(_HELP_EVENTS)
            finally:
                self._folding.release()
        else:
            time.sleep(0)  # let the applying thread run, instead of queueing ever more

    def _connect(self) -> ServerConnection | None:
        now = time.monotonic()
        if now < self._next_try:
            return None
        self._next_try = now + _RETRY_SECONDS
        try:
            line = ServerConnection(self._paths or search_paths(), self._hello)
        except OSError as error:
            self._trouble = f"no server: {error}"
            return None
        self._decided = False  # until the table is being sent
        self._line = line
        self._trouble = None
        line.send(self._next_piece)
        return line

    def _begin_resync(self) -> None:
        """Send the whole table, and after it the events that happen meanwhile."""
        with self._folding:
            self._generation += 1
            events = self._live.resend(self._generation)
            if self._unreported:
                events.append(Lost(self._unreported))
                self._unreported = 0
            self._resending = self._encoded(events, self._token if self._token > self._synced else 0)
            self._gap = False
        self._decide()

    def _decide(self) -> None:
        with self._answered:
            self._decided = True
            self._answered.notify_all()

    def _encoded(self, events: list[Event], token: int) -> Iterator[bytes]:
        for start in range(0, len(events), 512):
            yield b"".join(map(self._record, events[start : start + 512]))
        if token:
            yield sync(token)

    def _record(self, event: Event) -> bytes:
        try:
            return encode(event)
        except Exception:
            self._rejected += 1
            return b""

    def _next_piece(self) -> bytes | None:
        """The next run of complete records, after the last one was sent."""
        with self._folding:
            self._sent += self._head_events
            self._head_events = 0
            if self._resending is not None:
                piece = next(self._resending, None)
                if piece is not None:
                    return piece
                self._resending = None
                self._trouble = None  # the server is up to date again
            if not self._pieces:
                return None
            piece, self._head_events = self._pieces.popleft()
            self._backlog -= len(piece)
            return piece

    def _receive(self, line: ServerConnection) -> None:
        """Read acknowledgements, and detect that the server has closed the connection."""
        token = line.receive(wait=bool(self._waiting) and not line.sending)
        if token is not None:
            with self._answered:
                self._synced = max(self._synced, token)
                self._answered.notify_all()

    def _disconnect(self, why: str) -> None:
        line, self._line = self._line, None
        if line is not None:
            line.close()
        with self._folding:
            self._fall_behind()
        self._lose(self._head_events)
        self._head_events = 0
        self._trouble = why

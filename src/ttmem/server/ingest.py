# SPDX-License-Identifier: Apache-2.0
"""Events in: accepts connections, reads fairly, stamps owners, and sees to it that the dead are heard to the end.

All event sockets and pidfds hang on epolls of our own, which the server's loop watches as one descriptor. So the
order is ours: the dead first, then each readable connection one bounded read, then back to the loop. What was read
and takes long waits for the next turn.
"""

from __future__ import annotations

import math
import select
import socket
from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import Protocol

from ttmem.account.events import Event, ProcessExited
from ttmem.account.identity import ChipInfo
from ttmem.account.ledger import Ledger
from ttmem.account.parties import Source
from ttmem.account.things import Thing
from ttmem.server.connection import Connection
from ttmem.server.legacy_log import LegacyLog
from ttmem.server.owners import Owner, Owners
from ttmem.server.records import Records
from ttmem.server.rings import Rings
from ttmem.wire.legacy import Record, Type
from ttmem.wire.stream import READ_SIZE

TURN_SECONDS = 0.008
_ACCEPTS_PER_TURN = 64


class Observer(Protocol):
    """Somebody who wants to see each event as it is applied."""

    def __call__(self, time: float, source: Source | None, event: Event, thing: Thing | None) -> None: ...


class Ingest:
    """The event side of the server."""

    def __init__(
        self,
        ledger: Ledger,
        log: LegacyLog,
        *,
        now: Callable[[], float],
        machine: list[ChipInfo] | None = None,
        root: str = "/",
    ) -> None:
        self.ledger = ledger
        self.log = log
        self.observers: list[Observer] = []
        self.answer: Callable[[Record, int], bytes | None] = lambda record, size: None
        self.dump_asked: Callable[[Type], None] = lambda op: None
        self.warn: Callable[[str], None] = lambda text: None
        self.connections: dict[int, Connection] = {}
        self.accepted = 0
        self.unread_replies = 0  # dropped, because the asker did not fetch those before
        self.now = now
        self._owners = Owners(root)
        self._records = Records(self, machine or [], root)
        self.rings = Rings(self)
        self._listeners: dict[int, socket.socket] = {}
        self._epoll = select.epoll()
        self._epoll.register(self._owners.fileno(), select.EPOLLIN)
        self._waiting: deque[tuple[int, int]] = deque()
        self._buffer = bytearray(READ_SIZE)
        self._accept_paused = False

    # -- the loop's side -----------------------------------------------------------------------------------------

    def fileno(self) -> int:
        return self._epoll.fileno()

    def listen(self, sock: socket.socket) -> None:
        self._listeners[sock.fileno()] = sock
        self._epoll.register(sock.fileno(), select.EPOLLIN)

    def turn(self) -> bool:
        """One round of work, a few milliseconds long; True if there is more to do at once."""
        deadline = monotonic() + TURN_SECONDS
        self.log.tick(self.now())
        self.bury_dead()
        waiting = self._waiting
        if not waiting:
            waiting.extend(self._epoll.poll(0, 256))
        while waiting:
            fd, mask = waiting.popleft()
            connection = self.connections.get(fd)
            if connection is not None:
                if mask & select.EPOLLOUT:
                    connection.reply()
                if mask & ~select.EPOLLOUT:
                    self._read_safely(connection, deadline)
                    if connection.pending is not None:
                        waiting.append((fd, select.EPOLLIN))
                    if monotonic() > deadline:
                        break
            elif fd in self._listeners:
                self._accept(self._listeners[fd])
        return bool(waiting)

    def tick(self) -> None:
        """Now and then: what no descriptor tells."""
        if self._accept_paused:
            self._accept_paused = False
            for fd in self._listeners:
                self._epoll.modify(fd, select.EPOLLIN)
        if self._owners.check_unwatched():
            self.bury_dead()

    def emit(self, time: float, source: Source | None, event: Event) -> Thing | None:
        """Apply one event that the server itself found out or was told."""
        thing = self.ledger.apply(time, source, event)
        for observer in self.observers:
            observer(time, source, event, thing)
        return thing

    def close(self) -> None:
        for connection in list(self.connections.values()):
            connection.close()
        self.connections.clear()
        self.rings.close()
        self._owners.close()
        self._epoll.close()

    # -- connections ---------------------------------------------------------------------------------------------

    def _accept(self, listener: socket.socket) -> None:
        for _ in range(_ACCEPTS_PER_TURN):
            try:
                sock, _ = listener.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError as error:  # out of descriptors: clients wait in the backlog
                self.warn(f"cannot accept more clients for now: {error.strerror}")
                for fd in self._listeners:
                    self._epoll.modify(fd, 0)
                self._accept_paused = True
                return
            self.accepted += 1
            connection = Connection(self.accepted, sock, self._epoll)
            self.connections[sock.fileno()] = connection
            if connection.peer_pid:  # watch it from the start: it may die before it is heard
                self._own(connection, connection.peer_pid, connection.peer_uid)

    def _own(self, connection: Connection, pid: int, uid: int | None) -> Owner:
        """The process that a stamp on this connection names."""
        owner = connection.owners.get(pid)
        if owner is None:
            owner = self._owners.find(pid, uid) if pid else self._owners.foreign(connection.number, uid)
            connection.owners[pid] = owner
            owner.connections.add(connection)
        if uid != owner.info.uid and not owner.sources:  # it changed its user after it connected
            owner.info = owner.info._replace(uid=uid)
        return owner

    def _read_safely(self, connection: Connection, deadline: float = math.inf) -> int:
        """A fault of ours, met on one connection, costs that connection and not the account."""
        try:
            if connection.pending is not None:
                self._records.native(connection, *connection.pending, deadline)
                return 0
            return self._read(connection, deadline)
        except Exception as error:
            self.warn(
                f"connection {connection.number} (pid {connection.peer_pid}) is closed after an internal error: "
                f"{type(error).__name__}: {error}"
            )
            if connection.open:
                self.end(connection)
            return 0

    def _read(self, connection: Connection, deadline: float) -> int:
        """One bounded read. Returns the number of bytes, 0 at the end of the stream, -1 if there was nothing."""
        chunk = connection.receive(self._buffer)
        if chunk is None:
            return -1
        if not chunk.data:
            self.end(connection)
            return 0
        owner = self._own(connection, chunk.pid, chunk.uid)
        self._records.take(connection, chunk.data, owner, chunk.pid, deadline)
        return len(chunk.data)

    def end(self, connection: Connection) -> None:
        """The client closed. That alone frees nothing, unless the connection is all we know of its process."""
        self._records.finish(connection)
        for pid, owner in connection.owners.items():
            owner.connections.discard(connection)
            if pid == 0:
                self._exit(owner)
        del self.connections[connection.sock.fileno()]
        connection.close()

    # -- deaths --------------------------------------------------------------------------------------------------

    def bury_dead(self) -> None:
        """Deaths take effect after everything the dead had sent by then (rule 3)."""
        for owner in self._owners.died():
            for listener in self._listeners.values():
                self._accept(listener)  # it may have connected, sent and died before it was accepted
            for connection in list(owner.connections):
                self._drain(connection)
            self._exit(owner)

    def catch_up(self) -> None:
        """Be as up to date as a few milliseconds allow: before somebody looks."""
        self.rings.follow(monotonic() + TURN_SECONDS)
        self.bury_dead()

    def _drain(self, connection: Connection) -> None:
        """Read what is there now, not what others on the same connection go on sending."""
        if connection.pending is not None:
            self._read_safely(connection)
        left = connection.waiting_bytes() if connection.open else 0
        while left > 0:
            count = self._read_safely(connection)
            if count <= 0:
                return
            left -= count

    def _exit(self, owner: Owner) -> None:
        self.rings.finish(owner)
        now = self.now()
        self._owners.bury(owner)
        for connection in owner.connections:
            connection.owners = {pid: o for pid, o in connection.owners.items() if o is not owner}
        if not owner.sources:
            return
        source = next(iter(owner.sources.values()))
        if source.process.exited is None:
            self.emit(now, source, ProcessExited())
            self.log.note_exit(now, source.process)

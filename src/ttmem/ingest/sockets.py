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
from collections import Counter, deque
from collections.abc import Callable
from time import monotonic

from ttmem.account.allocations import Allocation
from ttmem.account.entities import Source
from ttmem.account.ledger import Ledger
from ttmem.account.observer import Observer
from ttmem.ingest import file_descriptors as descriptors
from ttmem.ingest.client_connection import Connection
from ttmem.ingest.client_messages import ClientMessages
from ttmem.ingest.legacy_log import LegacyLog
from ttmem.ingest.peers import Peer, Peers
from ttmem.ingest.rings import Rings
from ttmem.model.events import Event, ProcessExited
from ttmem.model.identity import ChipInfo
from ttmem.wire.endpoint import peer
from ttmem.wire.legacy_records import Record, Type
from ttmem.wire.legacy_stream import READ_SIZE

TURN_SECONDS = 0.008
_DEATH_SECONDS = 0.002  # of a turn, for what one dead process left
_ACCEPTS_PER_TURN = 64
_MAX_USER_CONNECTIONS = 8192
_REPORT_SECONDS = 60.0  # between two reports that descriptors are scarce


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
        self._owners = Peers(root)
        self._records = ClientMessages(self, machine or [], root)
        self.rings = Rings(self)
        self._listeners: dict[int, socket.socket] = {}
        self._epoll = select.epoll()
        self._epoll.register(self._owners.fileno(), select.EPOLLIN)
        self._waiting: deque[tuple[int, int]] = deque()
        self._buffer = bytearray(READ_SIZE)
        self.accept_paused = False  # there are no file descriptors for more clients
        self._pause_reported = -math.inf
        self._by_user: Counter[int | None] = Counter()  # connections
        self._crowding: set[int | None] = set()  # users who were told that they have too many
        self._reading: Connection | None = None  # whose records are being applied
        self._dying: dict[Peer, None] = {}  # dead, and their memory is not read to its end yet
        self._failed_observers: set[tuple[str, str]] = set()

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
        self.bury_dead(deadline)
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
        return bool(waiting or self._dying)

    def tick(self) -> str | None:
        """Now and then: what no descriptor tells. Returns what clients wait for, if they do."""
        if self.accept_paused and not descriptors.scarce(self._epoll.fileno(), slack=True):
            self.accept_paused = False
            for fd in self._listeners:
                self._epoll.modify(fd, select.EPOLLIN)
        if self._owners.check_unwatched() or self._dying:
            self.bury_dead()
        return "new clients wait for file descriptors" if self.accept_paused else None

    def emit(self, time: float, source: Source | None, event: Event) -> Allocation | None:
        """Apply one event that the server itself found out or was told."""
        allocation = self.ledger.apply(time, source, event)
        if self.observers:
            for observer in tuple(self.observers):  # one that fails may leave
                try:
                    observer(time, source, event, allocation)
                except Exception as error:
                    self._observer_failed(observer, error)
        return allocation

    def _observer_failed(self, observer: Observer, error: Exception) -> None:
        """Whoever looks on does not stop what they look at; each kind of failure is reported once."""
        kind = getattr(observer, "__qualname__", type(observer).__name__), type(error).__name__
        if kind not in self._failed_observers:
            self._failed_observers.add(kind)
            self.warn(
                f"{kind[0]} failed at an event: {kind[1]}: {error}; further failures of this kind are not reported"
            )

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
            if descriptors.scarce(self._epoll.fileno()):
                self._pause_accepting()
                return
            try:
                sock, _ = listener.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError:
                self._pause_accepting()
                return
            if self._crowds(sock):
                continue
            self.accepted += 1
            connection = Connection(self.accepted, sock, self._epoll)
            self.connections[sock.fileno()] = connection
            self._by_user[connection.peer_user_id] += 1
            if connection.peer_pid:  # watch it from the start: it may die before it is heard
                self._own(connection, connection.peer_pid, connection.peer_user_id)

    def _pause_accepting(self) -> None:
        """Out of descriptors: clients wait in the backlog until some are free again."""
        for fd in self._listeners:
            self._epoll.modify(fd, 0)
        self.accept_paused = True
        if monotonic() - self._pause_reported > _REPORT_SECONDS:
            self._pause_reported = monotonic()
            self.warn(
                f"cannot accept more clients for now: {len(self.connections)} of them use all file descriptors but the "
                f"reserve; the limit of {descriptors.limit()} is raised by `ulimit -n` or LimitNOFILE="
            )

    def _crowds(self, sock: socket.socket) -> bool:
        """One user may not take the places of all others: above the limit, a connection is closed."""
        user_id = peer(sock)[1]
        if self._by_user[user_id] < _MAX_USER_CONNECTIONS:
            return False
        sock.close()
        if user_id not in self._crowding:
            self._crowding.add(user_id)
            self.warn(f"user {user_id} has {_MAX_USER_CONNECTIONS} connections, the most there may be; more are closed")
        return True

    def _own(self, connection: Connection, pid: int, user_id: int | None) -> Peer:
        """The process that a stamp on this connection names."""
        owner = connection.owners.get(pid)
        if owner is None:
            owner = self._owners.find(pid, user_id) if pid else self._owners.foreign(connection.number, user_id)
            connection.owners[pid] = owner
            owner.connections.add(connection)
        if user_id != owner.info.user_id and not owner.sources:  # it changed its user after it connected
            owner.info = owner.info._replace(user_id=user_id)
        return owner

    def _read_safely(self, connection: Connection, deadline: float = math.inf) -> int:
        """A fault of ours, met on one connection, costs that connection and not the account."""
        outer, self._reading = self._reading, connection
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
        finally:
            self._reading = outer

    def _read(self, connection: Connection, deadline: float) -> int:
        """One bounded read. Returns the number of bytes, 0 at the end of the stream, -1 if there was nothing."""
        chunk = connection.receive(self._buffer)
        if chunk is None:
            return -1
        if not chunk.data:
            self.end(connection)
            return 0
        owner = self._own(connection, chunk.pid, chunk.user_id)
        self._records.take(connection, chunk.data, owner, chunk.pid, deadline)
        return len(chunk.data)

    def end(self, connection: Connection) -> None:
        """The client closed. That alone frees nothing, unless the connection is all we know of its process."""
        self._records.finish(connection)
        for pid, owner in connection.owners.items():
            owner.connections.discard(connection)
            if pid == 0:
                self._dying[owner] = None
        del self.connections[connection.sock.fileno()]
        self._by_user[connection.peer_user_id] -= 1
        connection.close()

    # -- deaths --------------------------------------------------------------------------------------------------

    def bury_dead(self, deadline: float | None = None) -> None:
        """Deaths take effect after everything the dead had sent by then (rule 3).

        What a dead process left in its ring may be seconds of work, so it is read in turns with the others.
        """
        if deadline is None:
            deadline = monotonic() + TURN_SECONDS
        for owner in self._owners.died():
            if self._reading in owner.connections:  # it died amid what is being read: that comes first
                self._owners.postpone(owner)
                continue
            for listener in self._listeners.values():
                self._accept(listener)  # it may have connected, sent and died before it was accepted
            for connection in list(owner.connections):
                self._drain(connection)
            self._owners.keep(owner)  # another process may get its pid at any time
            self._dying[owner] = None
        for owner in list(self._dying):
            del self._dying[owner]
            if self.rings.finish(owner, min(deadline, monotonic() + _DEATH_SECONDS)):
                self._exit(owner)
            else:
                self._dying[owner] = None  # behind the others
            if monotonic() > deadline:
                return

    def catch_up(self) -> None:
        """Be as up to date as a few milliseconds allow: before somebody looks."""
        deadline = monotonic() + TURN_SECONDS
        self.rings.follow(deadline)
        self.bury_dead(deadline)

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

    def _exit(self, owner: Peer) -> None:
        now = self.now()
        for connection in owner.connections:
            connection.owners = {pid: o for pid, o in connection.owners.items() if o is not owner}
        if not owner.sources:
            return
        source = next(iter(owner.sources.values()))
        if source.process.exited is None:
            self.emit(now, source, ProcessExited())
            self.log.note_exit(now, source.process)

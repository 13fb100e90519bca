# SPDX-License-Identifier: Apache-2.0
"""The event sockets: accepts connections, reads them in turn, and applies the exits of their processes.

All event sockets and pidfds are registered with epolls of this module, which the server's loop watches as one
descriptor. So this module decides the order of work: exits first, then one bounded read of each readable connection,
then back to the loop. Longer work continues in the next turn.
"""

from __future__ import annotations

import math
import select
import socket
from collections import Counter, deque
from collections.abc import Callable
from functools import partial
from time import monotonic

from ttmem.ingest import file_descriptors as descriptors
from ttmem.ingest.client_connection import Connection
from ttmem.ingest.client_messages import ClientMessages
from ttmem.ingest.peers import Peer, Peers
from ttmem.ingest.rings import Rings
from ttmem.ingest.sink import Sink
from ttmem.model.events import ProcessExited
from ttmem.model.identity import ChipInfo
from ttmem.wire.endpoint import peer_credentials
from ttmem.wire.legacy_records import Record, Type
from ttmem.wire.legacy_stream import READ_BYTES

TURN_SECONDS = 0.008
_EXIT_SECONDS = 0.002  # of each turn, for the ring of one dead process; also if the turn has no time left
_ACCEPTS_PER_TURN = 64  # of each listener
_TURNS_TO_ACCEPT = 17  # until all that were waiting are accepted: no listener keeps more than 1,024
_MAX_USER_CONNECTIONS = 8192
_REPORT_SECONDS = 60.0  # between two reports that descriptors are scarce


class EventSockets:
    """All clients of one server, from connecting to exit."""

    def __init__(
        self,
        sink: Sink,
        rings: Rings,
        *,
        answer: Callable[[Record, int], bytes | None] = lambda record, size: None,
        dump: Callable[[Type], None] = lambda op: None,
        machine: list[ChipInfo] | None = None,
        root: str = "/",
    ) -> None:
        """``answer`` and ``dump`` handle requests of legacy clients. ``machine`` lists the driver's chips.

        ``root`` is the folder that contains ``proc``.
        """
        self._sink = sink
        self._rings = rings
        self._messages = ClientMessages(
            sink, rings, answer=answer, dump=dump, machine=machine if machine is not None else [], root=root
        )
        self.connections: dict[int, Connection] = {}
        self.accepted = 0
        self._peers = Peers(root)
        self._listeners: dict[int, socket.socket] = {}
        self._epoll = select.epoll()
        self._epoll.register(self._peers.fileno(), select.EPOLLIN)
        self._waiting: deque[tuple[int, int]] = deque()
        self._buffer = bytearray(READ_BYTES)
        self.accept_paused = False  # no file descriptors are left for more clients
        self._pause_reported = -math.inf
        self._by_user: Counter[int | None] = Counter()  # connections
        self._over_limit: set[int | None] = set()  # users who were reported for too many connections
        self._reading: Connection | None = None  # the connection whose records are being applied
        # Dead processes, with the connections that may have data of them, and the byte up to which these are read.
        self._draining: dict[Peer, dict[Connection, int]] = {}
        self._unaccepted: dict[Peer, int] = {}  # turns until all connections that these had made are accepted
        self._in_drain = False  # one of these connections is being read
        self._exiting: dict[Peer, None] = {}  # and those whose rings are not read to the end yet

    # -- called by the loop --------------------------------------------------------------------------------------

    def fileno(self) -> int:
        return self._epoll.fileno()

    def listen(self, sock: socket.socket) -> None:
        self._listeners[sock.fileno()] = sock
        self._epoll.register(sock.fileno(), select.EPOLLIN)

    def turn(self) -> bool:
        """Work for a few milliseconds. Returns True if there is more to do immediately."""
        deadline = monotonic() + TURN_SECONDS
        self.apply_exits(deadline)
        waiting = self._waiting
        known = {fd for fd, _ in waiting}  # what takes several turns does not keep others waiting
        waiting.extend(one for one in self._epoll.poll(0, 256) if one[0] not in known)
        while waiting:
            fd, mask = waiting.popleft()
            connection = self.connections.get(fd)
            if connection is not None:
                if mask & select.EPOLLOUT:
                    connection.reply()
                if mask & ~select.EPOLLOUT and not self._drains(connection):
                    self._read_safely(connection, deadline)
                    if connection.pending is not None:
                        waiting.append((fd, select.EPOLLIN))
                    if monotonic() > deadline:
                        break
            elif fd in self._listeners:
                self._accept(self._listeners[fd])
        return bool(waiting or self._draining or self._exiting)

    @property
    def unread_replies(self) -> int:
        """The number of replies that were dropped, because the client did not read earlier ones."""
        return self._messages.unread_replies

    def tick(self) -> str | None:
        """Called at intervals, for checks that no descriptor triggers. Returns the reason if clients must wait."""
        if self.accept_paused and not descriptors.scarce(self._epoll.fileno(), slack=True):
            self.accept_paused = False
            for fd in self._listeners:
                self._epoll.modify(fd, select.EPOLLIN)
        if self._peers.check_unwatched() or self._draining or self._exiting:
            self.apply_exits()
        return "new clients wait for file descriptors" if self.accept_paused else None

    def close(self) -> None:
        for connection in list(self.connections.values()):
            connection.close()
        self.connections.clear()
        self._rings.close()
        self._peers.close()
        self._epoll.close()

    # -- connections ---------------------------------------------------------------------------------------------

    def _accept(self, listener: socket.socket) -> bool:
        """Accept some connections. Returns True if more may be waiting that can be accepted."""
        for _ in range(_ACCEPTS_PER_TURN):
            if descriptors.scarce(self._epoll.fileno()):
                self._pause_accepting()
                return False
            try:
                sock, _ = listener.accept()
            except BlockingIOError:
                return False
            except ConnectionAbortedError:
                continue
            except OSError:
                self._pause_accepting()
                return False
            if self._exceeds_limit(sock):
                continue
            self.accepted += 1
            connection = Connection(self.accepted, sock, self._epoll)
            self.connections[sock.fileno()] = connection
            self._by_user[connection.peer_user_id] += 1
            if connection.peer_pid:  # watch the process from the start: it may die before its first record is read
                self._peer(connection, connection.peer_pid, connection.peer_user_id)
        return True

    def _pause_accepting(self) -> None:
        """Stop accepting clients: they wait in the backlog until descriptors are free again."""
        for fd in self._listeners:
            self._epoll.modify(fd, 0)
        self.accept_paused = True
        if monotonic() - self._pause_reported > _REPORT_SECONDS:
            self._pause_reported = monotonic()
            self._sink.warn(
                f"cannot accept more clients for now: {len(self.connections)} of them use all file descriptors but the "
                f"reserve; the limit of {descriptors.limit()} is raised by `ulimit -n` or LimitNOFILE="
            )

    def _exceeds_limit(self, sock: socket.socket) -> bool:
        """Limit the connections of one user, so that others can connect. A connection above the limit is closed."""
        user_id = peer_credentials(sock)[1]
        if self._by_user[user_id] < _MAX_USER_CONNECTIONS:
            return False
        sock.close()
        if user_id not in self._over_limit:
            self._over_limit.add(user_id)
            self._sink.warn(
                f"user {user_id} has {_MAX_USER_CONNECTIONS} connections, the most there may be; more are closed"
            )
        return True

    def _peer(self, connection: Connection, pid: int, user_id: int | None) -> Peer:
        """The process with that pid, which sends on this connection."""
        peer = connection.peers.get(pid)
        if peer is None:
            peer = self._peers.find(pid, user_id) if pid else self._peers.foreign(connection.number, user_id)
            connection.peers[pid] = peer
            peer.connections.add(connection)
            if peer in self._draining or peer.dead:  # first seen on this connection after its death
                self._draining.setdefault(peer, {})[connection] = connection.newest_byte()
        if user_id != peer.info.user_id and not peer.sources:  # the process changed its user after it connected
            peer.info = peer.info._replace(user_id=user_id)
        return peer

    def _read_safely(self, connection: Connection, deadline: float = math.inf) -> int:
        """An internal error while a connection is read closes that connection, and leaves the account alone."""
        outer, self._reading = self._reading, connection
        try:
            if connection.pending is not None:
                if not connection.pending(deadline):
                    self.end(connection)
                return 0
            return self._read(connection, deadline)
        except Exception as error:
            self._sink.warn(
                f"connection {connection.number} (pid {connection.peer_pid}) is closed after an internal error: "
                f"{type(error).__name__}: {error}"
            )
            if connection.open:
                self.end(connection)
            return 0
        finally:
            self._reading = outer

    def _read(self, connection: Connection, deadline: float) -> int:
        """Read once. Returns the number of bytes, 0 if the connection was closed, -1 if there was nothing to read."""
        chunk = connection.receive(self._buffer)
        if chunk is None:
            return -1
        if not chunk.data:
            self.end(connection)
            return 0
        peer = self._peer(connection, chunk.pid, chunk.user_id)
        if not self._messages.take(connection, chunk.data, peer, chunk.pid, deadline):
            self.end(connection)
            return 0
        return len(chunk.data)

    def end(self, connection: Connection) -> None:
        """Close a connection. This frees nothing, unless its process is known only by this connection."""
        self._messages.finish(connection)
        for pid, peer in connection.peers.items():
            peer.connections.discard(connection)
            if pid == 0:
                self._exiting[peer] = None
        del self.connections[connection.sock.fileno()]
        self._by_user[connection.peer_user_id] -= 1
        connection.close()

    # -- exits ---------------------------------------------------------------------------------------------------

    def apply_exits(self, deadline: float | None = None) -> None:
        """Apply the exit of each process that died, after all events that it had sent (rule 3).

        The rest of a ring, or the end of a resync, may take seconds, so this is done in turns. A client's request for a
        dump leads to this call, too. While the data of a dead process is read, such a call reads no data: everything
        before the request is applied already, what follows it must wait, and the calls would nest without limit.
        """
        if deadline is None:
            deadline = monotonic() + TURN_SECONDS
        if not self._in_drain:
            self._notice_deaths()
        self._continue_exits(deadline)

    def _continue_exits(self, deadline: float) -> None:
        if not self._in_drain:
            self._in_drain = True
            try:
                self._accept_from_dead()
                self._drain(deadline)
            finally:
                self._in_drain = False
        self._finish_rings(max(deadline, monotonic() + _EXIT_SECONDS))

    def finish(self) -> None:
        """Called once, at the end: read the data of dead processes and all rings to the end, and apply all exits.

        What living processes sent on connections is not read. Exits come before the rest of the rings: what others
        allocated after a death was not live together with what the dead process held.
        """
        self._finish_exits()
        self._rings.end()
        self._finish_exits()

    def _finish_exits(self) -> None:
        self.apply_exits(math.inf)
        while self._draining or self._exiting:  # no more deaths are noticed meanwhile: they might never end
            self._continue_exits(math.inf)

    def catch_up(self) -> None:
        """Read rings and the data of dead processes for a few milliseconds. Called before a request is answered."""
        deadline = monotonic() + TURN_SECONDS
        self._rings.follow(deadline)
        self.apply_exits(deadline)

    def _finish_rings(self, deadline: float) -> None:
        """Read what is left of the rings of dead processes, a slice of each, and apply the exits of these processes."""
        for peer in list(self._exiting):
            del self._exiting[peer]
            if not self._rings.finish(peer, min(deadline, monotonic() + _EXIT_SECONDS), partial(self._exit, peer)):
                self._exiting[peer] = None  # it continues after the others
            if monotonic() > deadline:
                return

    def _notice_deaths(self) -> None:
        for peer in self._peers.died():
            if peer not in self._draining:  # `died` returns it again until it is remembered as dead
                self._draining[peer] = {connection: connection.newest_byte() for connection in peer.connections}
                self._unaccepted[peer] = _TURNS_TO_ACCEPT

    def _accept_from_dead(self) -> None:
        """Dead processes may have connected and sent before they were accepted."""
        if not self._unaccepted:
            return
        more = [self._accept(listener) for listener in self._listeners.values()]
        self._unaccepted = {peer: turns - 1 for peer, turns in self._unaccepted.items() if turns > 1 and any(more)}

    def _drains(self, connection: Connection) -> bool:
        """Is there data of a dead process on this connection? Then only `_drain` reads it, and counts the bytes."""
        if not self._draining:
            return False
        return any(connection in self._draining.get(peer, ()) for peer in connection.peers.values())

    def _drain(self, deadline: float) -> None:
        """Read what dead processes had sent, in the order of their deaths as far as time permits."""
        for peer, left in list(self._draining.items()):
            if self._reading in left:
                continue  # its own records led to this call: they are applied first
            drained = self._drained(left, deadline) and peer not in self._unaccepted
            del self._draining[peer]
            if drained:
                self._peers.remember_dead(peer)
                self._exiting[peer] = None
            else:
                self._draining[peer] = left  # it continues after the others
            if monotonic() > deadline:
                return

    def _drained(self, left: dict[Connection, int], deadline: float) -> bool:
        """Read what a dead process had sent; False if there is more at the deadline.

        Other processes may continue to send on the same connections, so only the bytes that were there when the death
        was noticed count.
        """
        late = False
        while left:
            connection = next(iter(left))
            while connection.pending is not None or (connection.open and connection.received < left[connection]):
                if late:
                    return False
                if connection.pending is not None:
                    self._read_safely(connection, deadline)
                elif self._read_safely(connection, deadline) <= 0:
                    left[connection] = 0
                late = monotonic() > deadline
            del left[connection]
        return True

    def _exit(self, peer: Peer) -> None:
        """Called at the end of the ring of a dead process, if it has one."""
        if peer in self._draining:
            return  # something else that it had sent was found meanwhile: its exit follows that
        for connection in peer.connections:
            connection.peers = {pid: other for pid, other in connection.peers.items() if other is not peer}
        if not peer.sources:
            return
        source = next(iter(peer.sources.values()))
        if source.process.exited is None:
            self._sink.apply(self._sink.now(), source, ProcessExited())

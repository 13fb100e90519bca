# SPDX-License-Identifier: Apache-2.0
"""Events in: accepts connections, reads fairly, decodes, stamps owners, and folds into the account.

All event sockets and pidfds hang on epolls of our own, which the server's loop watches as one descriptor. So the
order is ours: the dead first, then each readable connection one bounded read, then back to the loop. What was read
and takes long waits for the next turn.
"""

from __future__ import annotations

import array
import fcntl
import math
import os
import select
import socket
import struct
import termios
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from time import monotonic
from typing import Protocol

from ttmem.account.events import Allocated, Claimed, DeviceOpened, Event, Mark, ProcessExited, Rejected, Sees
from ttmem.account.identity import ChipInfo
from ttmem.account.kinds import BUFFER_KINDS, Confidence
from ttmem.account.ledger import Ledger
from ttmem.account.parties import Source
from ttmem.account.things import Thing
from ttmem.server.legacy_log import LegacyLog
from ttmem.server.owners import Owner, Owners
from ttmem.server.resolve import chips_of_visible
from ttmem.server.rings import AGENT, Rings
from ttmem.sources import processes
from ttmem.wire import native
from ttmem.wire.endpoint import peer
from ttmem.wire.legacy import Record, Type, event_of
from ttmem.wire.ring import RingError
from ttmem.wire.stream import READ_SIZE, LegacyStream

TURN_SECONDS = 0.008
_GARBAGE_READ = 16 * 1024  # looking for records in garbage is slow: smaller bites for that connection
_MAX_UNREAD_REPLIES = 64 * 1024
_ACCEPTS_PER_TURN = 64
_MAX_COMPLAINTS = 16
_MOST_SOURCES = 16
_CREDENTIALS = struct.Struct("3i")
_MOST_DESCRIPTORS = 4  # one is all an agent sends; room for those of somebody who sends more, to close them
_ANCILLARY = socket.CMSG_SPACE(_CREDENTIALS.size) + socket.CMSG_SPACE(4 * _MOST_DESCRIPTORS)
_ALLOC, _FREE = int(Type.ALLOC), int(Type.FREE)
_QUERIES = (Type.QUERY, Type.DEVICE_INFO_QUERY)
_ASKS = (*_QUERIES, Type.DUMP_REMAINING, Type.DUMP_KERNELS)
_SILENT = (Type.RESPONSE, Type.DEVICE_INFO_RESPONSE)


class Observer(Protocol):
    """Somebody who wants to see each event as it is applied."""

    def __call__(self, time: float, source: Source | None, event: Event, thing: Thing | None) -> None: ...


class Connection:
    """One client's socket."""

    __slots__ = (
        "complaints",
        "confidence",
        "descriptors",
        "legacy",
        "native",
        "number",
        "outgoing",
        "owners",
        "peer_pid",
        "pending",
        "sock",
        "source_name",
    )  # fmt: skip

    def __init__(self, number: int, sock: socket.socket) -> None:
        self.number = number
        self.sock = sock
        self.peer_pid = peer(sock)[0]
        self.legacy: LegacyStream | None = None
        self.native: native.NativeStream | None = None
        self.source_name = "legacy"
        self.confidence = Confidence.REPORTED
        self.owners: dict[int, Owner] = {}
        self.outgoing = b""
        self.complaints: set[str] = set()
        self.descriptors: list[int] = []  # received, and not yet asked for by a hello
        self.pending: tuple[Iterator[bytes], Owner] | None = None  # records that were read and must wait for a turn

    def close_descriptors(self) -> None:
        for fd in self.descriptors:
            os.close(fd)
        self.descriptors = []


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
        self._machine = machine or []
        self._root = root
        self._owners = Owners(root)
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
                    self._send(connection, b"")
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
            connection.close_descriptors()
            connection.sock.close()
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
            sock.setblocking(False)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
            self.accepted += 1
            connection = Connection(self.accepted, sock)
            self.connections[sock.fileno()] = connection
            self._epoll.register(sock.fileno(), select.EPOLLIN)
            if connection.peer_pid:  # watch it from the start: it may die before it is heard
                self._own(connection, connection.peer_pid, peer(sock)[1])

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
                self._native(connection, *connection.pending, deadline)
                return 0
            return self._read(connection, deadline)
        except Exception as error:
            self.warn(
                f"connection {connection.number} (pid {connection.peer_pid}) is closed after an internal error: "
                f"{type(error).__name__}: {error}"
            )
            if connection.sock.fileno() >= 0:
                self._end(connection)
            return 0

    def _read(self, connection: Connection, deadline: float) -> int:
        """One bounded read. Returns the number of bytes, 0 at the end of the stream, -1 if there was nothing."""
        lost = connection.legacy is not None and connection.legacy.lost
        view = memoryview(self._buffer)[: _GARBAGE_READ if lost else READ_SIZE]
        try:
            count, ancillary, _, _ = connection.sock.recvmsg_into([view], _ANCILLARY)
        except BlockingIOError:
            return -1
        except OSError:
            count, ancillary = 0, []
        pid, uid = 0, None
        for level, what, data in ancillary:
            if level == socket.SOL_SOCKET and what == socket.SCM_CREDENTIALS:
                pid, uid, _ = _CREDENTIALS.unpack(data[: _CREDENTIALS.size])
            elif level == socket.SOL_SOCKET and what == socket.SCM_RIGHTS:
                connection.descriptors = list(array.array("i", data[: len(data) // 4 * 4]))
        if count == 0:
            self._end(connection)
            return 0
        self._decode(connection, bytes(view[:count]), self._own(connection, pid, uid), pid, deadline)
        return count

    def _decode(self, connection: Connection, data: bytes, owner: Owner, pid: int, deadline: float) -> None:
        if connection.legacy is None and connection.native is None:
            if data[0] == native.MAGIC:
                connection.native = native.NativeStream()
            else:
                connection.legacy = LegacyStream()
        if connection.native is not None:
            self._native(connection, connection.native.feed(data), owner, deadline)
            return
        connection.close_descriptors()
        stream = connection.legacy
        assert stream is not None
        rejected = stream.rejected
        source = self._source(connection, owner)
        for size, records in stream.feed(data, pid):
            self._records(connection, source, size, records, pid)
        if stream.rejected != rejected:
            self.emit(self.now(), source, Rejected(stream.rejected - rejected))
            self._complain(connection, owner, "garbage", "sends bytes that are no records of any known size; skipped")

    def _end(self, connection: Connection) -> None:
        """The client closed. That alone frees nothing, unless the connection is all we know of its process."""
        stream = connection.legacy
        for pid, owner in connection.owners.items():
            if stream is not None:
                before = stream.rejected
                for size, records in stream.finish(pid):
                    self._records(connection, self._source(connection, owner), size, records, pid)
                if stream.rejected != before:
                    self.emit(self.now(), self._source(connection, owner), Rejected(stream.rejected - before))
                    self._complain(connection, owner, "truncated", "ended inside a record; the rest is dropped")
                stream = None
            owner.connections.discard(connection)
            if pid == 0:
                self._exit(owner)
        self._epoll.unregister(connection.sock.fileno())
        del self.connections[connection.sock.fileno()]
        connection.pending = None
        connection.close_descriptors()
        connection.sock.close()

    # -- what records say ----------------------------------------------------------------------------------------

    def _source(self, connection: Connection, owner: Owner) -> Source:
        source = owner.sources.get(connection.source_name)
        if source is None:
            now = self.now()
            first = not owner.sources
            source = self.ledger.source(now, owner.info, connection.source_name, connection.confidence)
            owner.sources[connection.source_name] = source
            if (
                first and owner.info.pid and connection.source_name != AGENT
            ):  # an agent says itself which chips it opened
                visible = processes.visible_devices(owner.info.pid, self._root)
                for number, chip in chips_of_visible(visible or [], self._machine):
                    self.emit(now, source, DeviceOpened(number, chip))
        return source

    def _records(self, connection: Connection, source: Source, size: int, records: Iterable[Record], pid: int) -> None:
        """The hot path: legacy records to the account."""
        ledger, log = self.ledger, self.log
        before = ledger.seq
        if self.observers or log.quota > 0:
            for record in records:
                self._record(connection, source, record, size, pid)
        else:
            allocated, freed, now = ledger.allocated, ledger.freed, self.now()
            kinds = BUFFER_KINDS
            for op, device, length, code, claimed, ident, stamp in records:
                if op == _ALLOC and claimed == pid and code < 5:
                    if allocated(now, source, device, kinds[code], ident, length) is None:
                        self._refused(connection, source, device, length)
                        log.left_out -= 1  # no line for it
                elif op == _FREE and claimed == pid and code < 5:
                    freed(now, source, device, kinds[code] if code else None, ident, length)
                else:
                    record = (op, device, length, code, claimed, ident, stamp)
                    plain = ledger.seq
                    self._record(connection, source, record, size, pid)  # says itself whether it left out a line
                    log.left_out -= ledger.seq - plain
            log.left_out += ledger.seq - before

    def _record(self, connection: Connection, source: Source, record: Record, size: int, pid: int) -> None:
        """One record, whatever it says, seen by whoever wants to see."""
        event = event_of(record)
        if event is None:
            self._unevent(connection, source, record, size)
            return
        now, claimed = self.now(), record[4]
        if claimed != pid and claimed and claimed not in source.process.claimed:
            self.emit(now, source, Claimed(claimed))
        thing = self.emit(now, source, event)
        self.log.note(now, source, event, thing)
        if thing is None and type(event) is Allocated:
            self._refused(connection, source, event.device, event.size)

    def _unevent(self, connection: Connection, source: Source, record: Record, size: int) -> None:
        """A record that is no event: a question, a reply sent to us, or a code that means nothing."""
        op, device, _, code = record[:4]
        if op in _QUERIES:
            answer = self.answer(record, size)
            if answer is not None:
                self._send(connection, answer)
        elif op in _ASKS:
            self.bury_dead()
            self.dump_asked(Type(op))
        elif op not in _SILENT:
            self.emit(self.now(), source, Rejected(1))
            what = "kernel type" if op == Type.KERNEL_LOAD else "buffer_type"
            self._complain(connection, None, what, f"Invalid {what} {code} - ignoring message (device {device})")

    def _refused(self, connection: Connection, source: Source, device: int, size: int) -> None:
        """Say once per connection and cause why an allocation was not counted."""
        if source.process.exited is not None:
            return
        if not 0 < size <= self.ledger.limits.size:
            self._complain(connection, None, "size", f"Invalid size {size} - ignoring message")
        elif device not in source.holdings:
            self._complain(connection, None, "device_id", f"Invalid device_id {device} - ignoring message")
        else:
            self._complain(connection, None, "limit", "holds more things than the account keeps for one process")

    def _native(self, connection: Connection, records: Iterator[bytes], owner: Owner, deadline: float) -> None:
        """Our own records, one at least, and as many as there is time for."""
        connection.pending = None
        try:
            for record in records:
                op = record[0]
                if op == native.MAGIC:
                    hello = native.decode_hello(record)
                    if hello.source not in owner.sources and len(owner.sources) >= _MOST_SOURCES:
                        raise native.NativeError(f"one process cannot have more than {_MOST_SOURCES} sources")
                    connection.source_name, connection.confidence = hello.source, hello.confidence
                    if hello.source == AGENT:
                        self._adopt(connection, owner)
                    self._send(connection, native.welcome())
                elif op == native.SYNC:
                    self._send(connection, native.synced(native.sync_token(record)))
                else:
                    source = self._source(connection, owner)
                    event, now = native.decode(record), self.now()
                    if type(event) is Mark or self.observers or self.log.quota > 0:
                        thing = self.emit(now, source, event)
                        self.log.note(now, source, event, thing)
                    else:
                        thing = self.ledger.apply(now, source, event)
                        self.log.left_out += 1
                    if thing is None and type(event) is Allocated:
                        self._refused(connection, source, event.device, event.size)
                if monotonic() > deadline:
                    connection.pending = records, owner
                    return
            connection.close_descriptors()  # whoever wanted one has taken it
        except native.NativeError as error:
            source = self._source(connection, owner)
            self.emit(self.now(), source, Rejected(1))
            self._complain(connection, owner, "native", f"sent a damaged record: {error}; closing the connection")
            self._end(connection)  # our client reconnects and re-sends what is live

    def _adopt(self, connection: Connection, owner: Owner) -> None:
        """An agent handed over its memory, or says that it has none to hand over."""
        if not connection.descriptors:
            text = "its agent cannot share memory (no memfd or no descriptor left); nothing of it is seen"
            self._complain(connection, owner, "ring", text)
            self.emit(self.now(), self._source(connection, owner), Sees(0, f"nothing is tracked: {text}"))
            return
        try:
            self.rings.adopt(owner, self._source(connection, owner), connection.descriptors.pop(0))
        except RingError as error:
            self.emit(self.now(), self._source(connection, owner), Rejected(1))
            self._complain(connection, owner, "ring", f"its agent handed over memory that cannot be read: {error}")

    def _complain(self, connection: Connection, owner: Owner | None, cause: str, text: str) -> None:
        """One line per connection and cause."""
        if cause in connection.complaints or len(connection.complaints) >= _MAX_COMPLAINTS:
            return
        connection.complaints.add(cause)
        pid = owner.info.pid if owner is not None else connection.peer_pid
        self.warn(f"connection {connection.number} (pid {pid}): {text}")

    def _send(self, connection: Connection, data: bytes) -> None:
        """Reply without ever waiting; replies that a client does not fetch are dropped and counted."""
        if connection.sock.fileno() < 0:
            return
        if data and len(connection.outgoing) + len(data) > _MAX_UNREAD_REPLIES:
            self.unread_replies += 1
            self._complain(connection, None, "unread", "does not read its replies; further ones are dropped")
            return
        waiting = bool(connection.outgoing)
        data = connection.outgoing + data
        try:
            sent = connection.sock.send(data, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
        except BlockingIOError:
            sent = 0
        except OSError:
            sent = len(data)  # the reader is gone; reading will tell
        connection.outgoing = data[sent:]
        if waiting != bool(connection.outgoing):
            wanted = select.EPOLLIN | (select.EPOLLOUT if connection.outgoing else 0)
            self._epoll.modify(connection.sock.fileno(), wanted)

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
        if connection.sock.fileno() < 0:
            return
        pending = array.array("i", [0])
        try:
            fcntl.ioctl(connection.sock.fileno(), termios.FIONREAD, pending)
        except OSError:
            pending[0] = READ_SIZE
        left = pending[0]
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

# SPDX-License-Identifier: Apache-2.0
"""The socket of one client: reads bytes and descriptors with the sender's pid, and sends replies without waiting."""

from __future__ import annotations

import array
import fcntl
import os
import select
import socket
import struct
import termios
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from ttmem.model.kinds import Confidence
from ttmem.wire.client_decode import NativeStream
from ttmem.wire.endpoint import peer_credentials
from ttmem.wire.legacy_stream import READ_BYTES, LegacyStream

if TYPE_CHECKING:
    from ttmem.ingest.peers import Peer

_GARBAGE_READ_BYTES = 16 * 1024  # searching garbage for records is slow, so one read takes less of it
_MAX_UNREAD_REPLY_BYTES = 64 * 1024
_MAX_COMPLAINTS = 16
_CREDENTIALS = struct.Struct("3i")
_MOST_DESCRIPTORS = 4  # an agent sends one; any further ones are received and closed
_ANCILLARY = socket.CMSG_SPACE(_CREDENTIALS.size) + socket.CMSG_SPACE(4 * _MOST_DESCRIPTORS)


class Chunk(NamedTuple):
    """The data of one read, empty at the end of the stream, and the sender according to the kernel."""

    data: bytes
    pid: int
    user_id: int | None


class Connection:
    """A connected client. Its socket is registered with an epoll until it is closed."""

    __slots__ = (
        "_complaints",
        "_epoll",
        "_outgoing",
        "confidence",
        "descriptors",
        "legacy",
        "native",
        "number",
        "peer_pid",
        "peer_user_id",
        "peers",
        "pending",
        "received",
        "sock",
        "source_name",
    )  # fmt: skip

    def __init__(self, number: int, sock: socket.socket, epoll: select.epoll) -> None:
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self.number = number
        self.sock = sock
        self.peer_pid, self.peer_user_id, _ = peer_credentials(sock)
        self.legacy: LegacyStream | None = None
        self.native: NativeStream | None = None
        self.source_name = "legacy"
        self.confidence = Confidence.REPORTED
        self.peers: dict[int, Peer] = {}  # by pid: the processes that have sent on this connection
        self.received = 0  # bytes, so far
        self.descriptors: list[int] = []  # received, and not yet used by a hello
        # Applies records that were read, until a deadline. Returns False to close the connection.
        self.pending: Callable[[float], bool] | None = None
        self._outgoing = b""
        self._complaints: set[str] = set()
        self._epoll = epoll
        epoll.register(sock.fileno(), select.EPOLLIN)

    @property
    def open(self) -> bool:
        return self.sock.fileno() >= 0

    def receive(self, buffer: bytearray) -> Chunk | None:
        """Read once, up to the size of the buffer. Returns None if there was nothing to read."""
        lost = self.legacy is not None and self.legacy.lost
        view = memoryview(buffer)[: _GARBAGE_READ_BYTES if lost else len(buffer)]
        try:
            count, ancillary, _, _ = self.sock.recvmsg_into([view], _ANCILLARY)
        except BlockingIOError:
            return None
        except OSError:
            count, ancillary = 0, []
        pid, user_id = 0, None
        for level, what, data in ancillary:
            if level == socket.SOL_SOCKET and what == socket.SCM_CREDENTIALS:
                pid, user_id, _ = _CREDENTIALS.unpack(data[: _CREDENTIALS.size])
            elif level == socket.SOL_SOCKET and what == socket.SCM_RIGHTS:
                self.descriptors = list(array.array("i", data[: len(data) // 4 * 4]))
        self.received += count
        return Chunk(bytes(view[:count]), pid, user_id)

    def newest_byte(self) -> int:
        """The number of bytes that were received or can be received now."""
        found = array.array("i", [0])
        try:
            fcntl.ioctl(self.sock.fileno(), termios.FIONREAD, found)
        except OSError:
            return self.received + READ_BYTES
        return self.received + found[0]

    def reply(self, data: bytes = b"") -> bool:
        """Send without waiting, after any earlier unsent data. Returns False if the client has too much unread."""
        if not self.open:
            return True
        if data and len(self._outgoing) + len(data) > _MAX_UNREAD_REPLY_BYTES:
            return False
        waiting = bool(self._outgoing)
        data = self._outgoing + data
        try:
            sent = self.sock.send(data, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
        except BlockingIOError:
            sent = 0
        except OSError:
            sent = len(data)  # the reader is gone; the next read returns the end of the stream
        self._outgoing = data[sent:]
        if waiting != bool(self._outgoing):
            self._epoll.modify(self.sock.fileno(), select.EPOLLIN | (select.EPOLLOUT if self._outgoing else 0))
        return True

    def is_news(self, complaint: str) -> bool:
        """True if this cause must be reported. Each cause is reported once, up to a limit for each connection."""
        if complaint in self._complaints or len(self._complaints) >= _MAX_COMPLAINTS:
            return False
        self._complaints.add(complaint)
        return True

    def close_descriptors(self) -> None:
        for fd in self.descriptors:
            os.close(fd)
        self.descriptors = []

    def close(self) -> None:
        self.pending = None
        self.close_descriptors()
        self._epoll.unregister(self.sock.fileno())
        self.sock.close()

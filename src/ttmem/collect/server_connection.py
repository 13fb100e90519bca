# SPDX-License-Identifier: Apache-2.0
"""A client's connection to the server: sends records without blocking, and reads acknowledgements."""

from __future__ import annotations

import errno
import select
import socket
from collections.abc import Callable

from ttmem.wire import client_records as native
from ttmem.wire.endpoint import connect_any
from ttmem.wire.handshake import ANSWER_SIZE, sync_token

_CONNECT_SECONDS = 0.5
_SEND_WAIT_MS = 20


class ServerConnection:
    """One connection. Its errors are all OSError."""

    def __init__(self, paths: list[str], hello: bytes) -> None:
        self._sock, _ = connect_any(paths, _CONNECT_SECONDS)
        self._sock.setblocking(False)
        self._head = memoryview(hello)  # being sent, perhaps partly
        self._incoming = b""

    @property
    def sending(self) -> bool:
        """Whether a piece is only partly sent."""
        return bool(self._head)

    def send(self, next_piece: Callable[[], bytes | None]) -> bool:
        """Send all pieces; False if the socket accepted no more.

        The next piece is requested when the last one is sent.
        """
        while True:
            if not self._head:
                piece = next_piece()
                if piece is None:
                    return True
                self._head = memoryview(piece)
            try:
                sent = self._sock.send(self._head, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
            except BlockingIOError:
                self._wait(select.POLLOUT)
                return False
            self._head = self._head[sent:]

    def receive(self, *, wait: bool) -> int | None:
        """The token of the last answered sync, None if there was no answer; ``wait`` waits a moment for one."""
        if wait:
            self._wait(select.POLLIN)
        try:
            data = self._sock.recv(4096, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return None
        if not data:
            raise ConnectionResetError(errno.ECONNRESET, "the server closed the connection")
        self._incoming += data
        token = None
        while len(self._incoming) >= ANSWER_SIZE:
            record, self._incoming = self._incoming[:ANSWER_SIZE], self._incoming[ANSWER_SIZE:]
            if record[0] == native.SYNCED:
                token = sync_token(record)
        return token

    def close(self) -> None:
        self._sock.close()

    def _wait(self, what: int) -> None:
        """Wait a moment, or until the socket is ready. Not with select(), which fails for descriptors above 1023."""
        poll = select.poll()
        poll.register(self._sock, what)
        poll.poll(_SEND_WAIT_MS)

# SPDX-License-Identifier: Apache-2.0
"""What the attacks share: connecting, saying that the deed is done, and holding still until they are killed."""

from __future__ import annotations

import contextlib
import socket
import sys

from ttmem.wire import handshake

_PATIENCE = 180.0


def connect(path: str) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(_PATIENCE)
    sock.connect(path)
    return sock


def send(path: str, data: bytes) -> socket.socket:
    """Send, and wait until the server has applied it or closed the connection."""
    sock = connect(path)
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        sock.sendall(data + handshake.sync(99))
        wait_for_sync(sock)
    return sock


def wait_for_sync(sock: socket.socket) -> None:
    """Until the answer to sync(99); a connection that was closed has none."""
    data = b""
    while handshake.synced(99) not in data:
        piece = sock.recv(4096)
        if not piece:
            return
        data = (data + piece)[-4096:]


def hold() -> None:
    """Say that it is done and stay alive: what a dead process held is nobody's trouble any more."""
    print("ready", flush=True)
    sys.stdin.readline()

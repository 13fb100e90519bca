# SPDX-License-Identifier: Apache-2.0
"""Shared code of the attacks: connect, report that the attack is done, and wait until killed."""

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
    """Wait for the answer to sync(99), or until the connection is closed."""
    data = b""
    while handshake.synced(99) not in data:
        piece = sock.recv(4096)
        if not piece:
            return
        data = (data + piece)[-4096:]


def hold() -> None:
    """Report that the attack is done and stay alive, because the server cleans up after dead processes."""
    print("ready", flush=True)
    sys.stdin.readline()

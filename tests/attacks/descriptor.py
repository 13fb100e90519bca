# SPDX-License-Identifier: Apache-2.0
"""Sends a descriptor that is not an agent's memory, or whose memory changes while it is read."""

from __future__ import annotations

import ctypes
import os
import socket
import sys
import tempfile
import time
from collections.abc import Callable

from tests.attacks.client import connect, hold, wait_for_sync
from tests.ring_memory import RingMemory
from ttmem.model.kinds import Confidence
from ttmem.wire import handshake

_KEEP_SIZE, _PUNCH_HOLE = 1, 2
_PUNCHES = 2000
_libc = ctypes.CDLL(None, use_errno=True)
_libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long]


def punch(memory: RingMemory) -> None:
    if _libc.fallocate(memory.fd, _KEEP_SIZE | _PUNCH_HOLE, 0, memory.size):
        raise OSError(ctypes.get_errno(), "fallocate")


def _filled(flags: int = 0) -> RingMemory:
    memory = RingMemory(flags=flags)
    memory.plain()
    for slot in range(30):
        memory.append(slot=slot, kind=0, address=slot << 12, size=64, per_bank=64)
    return memory


def punched() -> int:
    memory = _filled()
    punch(memory)
    return memory.fd


def punched_huge_pages() -> int:
    memory = _filled(os.MFD_HUGETLB)
    punch(memory)
    return memory.fd


def write_only() -> int:
    return os.open(f"/proc/self/fd/{_filled().fd}", os.O_WRONLY)


def path_only() -> int:
    return os.open(f"/proc/self/fd/{_filled().fd}", os.O_PATH)


def empty_pipe() -> int:
    """A pipe whose reads block forever, because its other end stays open here."""
    return os.pipe()[0]


def fifo() -> int:
    path = os.path.join(tempfile.mkdtemp(), "fifo")
    os.mkfifo(path)
    fd = os.open(path, os.O_RDWR)
    os.unlink(path)
    os.rmdir(os.path.dirname(path))
    return fd


def a_socket() -> int:
    ours, theirs = socket.socketpair()
    ours.detach()
    return theirs.detach()


def terminal() -> int:
    return os.openpty()[1]


def own_memory() -> int:
    return os.open("/proc/self/mem", os.O_RDONLY)


def directory() -> int:
    return os.open("/", os.O_RDONLY | os.O_DIRECTORY)


def endless_file() -> int:
    return os.open("/dev/zero", os.O_RDONLY)


KINDS: dict[str, Callable[[], int]] = {
    one.__name__: one
    for one in (
        punched,
        write_only,
        path_only,
        empty_pipe,
        fifo,
        a_socket,
        terminal,
        own_memory,
        directory,
        endless_file,
    )
}
HUGE: dict[str, Callable[[], int]] = {"punched_huge_pages": punched_huge_pages}


def punches_while_read(path: str, flags: int) -> None:
    """The memory is complete when it is sent; then pages of it come and go while the server reads."""
    memory = _filled(flags)
    content = bytes(memory.map)
    with connect(path) as sock:
        memory.hand_over(sock)
        sock.sendall(handshake.sync(99))
        wait_for_sync(sock)
        print("punching", flush=True)
        for number in range(_PUNCHES):
            punch(memory)
            memory.map[:] = content
            memory.put(head=31 + number % 30)
            time.sleep(0.0005)
        hold()


def main(path: str, name: str) -> None:
    if name.startswith("punches"):
        punches_while_read(path, os.MFD_HUGETLB if name.endswith("huge_pages") else 0)
        return
    fd = (KINDS | HUGE)[name]()
    with connect(path) as sock:
        socket.send_fds(sock, [handshake.hello("agent", Confidence.EXACT)], [fd])
        sock.sendall(handshake.sync(99))
        wait_for_sync(sock)
        hold()


if __name__ == "__main__":
    main(*sys.argv[1:])

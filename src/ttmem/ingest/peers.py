# SPDX-License-Identifier: Apache-2.0
"""The processes that send to the server, found by the kernel's pid. Pidfds report their exit."""

from __future__ import annotations

import os
import select
from collections import OrderedDict
from typing import TYPE_CHECKING

from ttmem.model.identity import ProcessInfo
from ttmem.sources import process_lookup as processes

if TYPE_CHECKING:
    from ttmem.account.entities import Source
    from ttmem.ingest.client_connection import Connection

_REMEMBERED_DEAD = 1024


class Peer:
    """A process that sends to the server."""

    __slots__ = ("connections", "dead", "gone", "info", "pidfd", "sources")

    def __init__(self, info: ProcessInfo, pidfd: int | None, gone: bool = False) -> None:
        self.info = info
        self.pidfd = pidfd
        self.gone = gone  # when it was found
        self.dead = False  # `remember_dead` was called
        self.connections: set[Connection] = set()
        self.sources: dict[str, Source] = {}


class Peers:
    """Finds the process of a pid, and lists the processes that died since the last call."""

    def __init__(self, root: str = "/") -> None:
        self._root = root
        self._by_pid: dict[int, Peer] = {}
        self._by_pidfd: dict[int, Peer] = {}
        self._unwatched: set[Peer] = set()  # without a pidfd: checked in /proc at intervals
        self._gone: list[Peer] = []
        self._dead: OrderedDict[int, Peer] = OrderedDict()
        self._epoll = select.epoll()

    def fileno(self) -> int:
        """Readable when a process died."""
        return self._epoll.fileno()

    def __len__(self) -> int:
        return len(self._by_pid)

    def find(self, pid: int, user_id: int | None) -> Peer:
        """The process that has this pid now, or the last one that had it."""
        peer = self._by_pid.get(pid)
        if peer is not None:
            return peer
        pidfd = self._open(pid)
        info = processes.describe(pid, user_id, self._root)
        late = self._dead.get(pid)
        if late is not None and (info.start is None or info.start == late.info.start):
            if pidfd is not None:
                os.close(pidfd)
            return late
        peer = self._by_pid[pid] = Peer(info, pidfd, gone=info.start is None)
        if peer.gone:
            self._gone.append(peer)
        elif pidfd is None:
            self._unwatched.add(peer)
        if pidfd is not None:
            self._by_pidfd[pidfd] = peer
            self._epoll.register(pidfd, select.EPOLLIN)
        return peer

    def foreign(self, connection: int, user_id: int | None) -> Peer:
        """A sender in another pid namespace, whose pid is not visible here. Only its connection identifies it."""
        return Peer(ProcessInfo(0, None, user_id, connection=connection), None)

    def died(self) -> list[Peer]:
        """The processes that died since the last call. Those with a pidfd are returned until `remember_dead`."""
        dead, self._gone = self._gone, []
        dead += [self._by_pidfd[fd] for fd, _ in self._epoll.poll(0)]
        return list(dict.fromkeys(dead))

    def check_unwatched(self) -> bool:
        """Check the processes without a pidfd. Returns True if one of them died."""
        for peer in list(self._unwatched):
            now = processes.start_and_state(peer.info.pid, self._root)
            if now is None or now[0] != peer.info.start or now[1] in "ZX":
                self._unwatched.discard(peer)
                self._gone.append(peer)
        return bool(self._gone)

    def remember_dead(self, peer: Peer) -> None:
        """Release the pid of a dead process for others. Late records of the dead process are still assigned to it."""
        peer.dead = True
        if self._by_pid.get(peer.info.pid) is peer:
            del self._by_pid[peer.info.pid]
            self._dead[peer.info.pid] = peer
            while len(self._dead) > _REMEMBERED_DEAD:
                self._dead.popitem(last=False)
        if peer.pidfd is not None:
            self._epoll.unregister(peer.pidfd)
            del self._by_pidfd[peer.pidfd]
            os.close(peer.pidfd)
            peer.pidfd = None

    def close(self) -> None:
        for fd in self._by_pidfd:
            os.close(fd)
        self._by_pidfd.clear()
        self._epoll.close()

    @staticmethod
    def _open(pid: int) -> int | None:
        try:
            return os.pidfd_open(pid)
        except OSError:
            return None  # dead already, or no descriptors left; /proc shows which

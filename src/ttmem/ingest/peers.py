# SPDX-License-Identifier: Apache-2.0
"""Who sends, and when they die: processes by the kernel's stamp, watched through pidfds."""

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

_REMEMBERED = 1024


class Peer:
    """A process that sends to us."""

    __slots__ = ("connections", "gone", "info", "pidfd", "sources")

    def __init__(self, info: ProcessInfo, pidfd: int | None, gone: bool = False) -> None:
        self.info = info
        self.pidfd = pidfd
        self.gone = gone
        self.connections: set[Connection] = set()
        self.sources: dict[str, Source] = {}


class Peers:
    """Finds the process behind a stamp, and tells who has died since it was last asked."""

    def __init__(self, root: str = "/") -> None:
        self._root = root
        self._by_pid: dict[int, Peer] = {}
        self._by_pidfd: dict[int, Peer] = {}
        self._unwatched: set[Peer] = set()  # no pidfd to be had: looked up in /proc now and then
        self._gone: list[Peer] = []
        self._dead: OrderedDict[int, Peer] = OrderedDict()
        self._epoll = select.epoll()

    def fileno(self) -> int:
        """Readable when somebody died."""
        return self._epoll.fileno()

    def __len__(self) -> int:
        return len(self._by_pid)

    def find(self, pid: int, user_id: int | None) -> Peer:
        """The process with that pid now; a dead one's last words still find their sender."""
        owner = self._by_pid.get(pid)
        if owner is not None:
            return owner
        pidfd = self._open(pid)
        info = processes.describe(pid, user_id, self._root)
        late = self._dead.get(pid)
        if late is not None and (info.start is None or info.start == late.info.start):
            if pidfd is not None:
                os.close(pidfd)
            return late
        owner = self._by_pid[pid] = Peer(info, pidfd, gone=info.start is None)
        if owner.gone:
            self._gone.append(owner)
        elif pidfd is None:
            self._unwatched.add(owner)
        if pidfd is not None:
            self._by_pidfd[pidfd] = owner
            self._epoll.register(pidfd, select.EPOLLIN)
        return owner

    def foreign(self, connection: int, user_id: int | None) -> Peer:
        """A sender whose pid we cannot see (another pid namespace): its connection is all we know of it."""
        return Peer(ProcessInfo(0, None, user_id, connection=connection), None)

    def died(self) -> list[Peer]:
        """Who died since the last call; each is named once."""
        dead, self._gone = self._gone, []
        dead += [self._by_pidfd[fd] for fd, _ in self._epoll.poll(0)]
        return list(dict.fromkeys(dead))

    def postpone(self, owner: Peer) -> None:
        """Name that process again the next time."""
        self._gone.append(owner)

    def check_unwatched(self) -> bool:
        """Look after the processes without a pidfd; True if one of them died."""
        for owner in list(self._unwatched):
            now = processes.start_and_state(owner.info.pid, self._root)
            if now is None or now[0] != owner.info.start or now[1] in "ZX":
                self._unwatched.discard(owner)
                self._gone.append(owner)
        return bool(self._gone)

    def keep(self, owner: Peer) -> None:
        """The account knows; from now on its records are posthumous."""
        if self._by_pid.get(owner.info.pid) is owner:
            del self._by_pid[owner.info.pid]
            self._dead[owner.info.pid] = owner
            while len(self._dead) > _REMEMBERED:
                self._dead.popitem(last=False)
        if owner.pidfd is not None:
            self._epoll.unregister(owner.pidfd)
            del self._by_pidfd[owner.pidfd]
            os.close(owner.pidfd)
            owner.pidfd = None

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
            return None  # dead already, or no descriptors left; /proc tells which

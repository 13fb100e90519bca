# SPDX-License-Identifier: Apache-2.0
"""What processes use of the host itself: CPU time and resident memory, from /proc/PID/stat.

Few imports: every start of `ttmem smi` loads this module.
"""

from __future__ import annotations

import os
import time

from ttmem.sources.process_lookup import read

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ttmem.model.machine_rows import HostUse

_LEAST_SECONDS = 0.5  # between two looks that are compared: the kernel counts CPU time in steps of 10 ms
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class _Seen:
    """A process as it was when its CPU time was last compared."""

    __slots__ = ("percent", "start", "ticks", "time")

    def __init__(self, start: int, ticks: int, time: float) -> None:
        self.start, self.ticks, self.time = start, ticks, time
        self.percent: float | None = None


class HostUsage:
    """Looks again and again. The CPU time of a process is known from the second look at it on.

    >>> usage = HostUsage()
    >>> me = usage.look([os.getpid()])[os.getpid()]
    >>> me["cpu_percent"], me["rss"] > 1_000_000
    (None, True)
    """

    def __init__(self, root: str = "/", clock: Callable[[], float] = time.monotonic) -> None:
        self._root = root
        self._clock = clock
        self._seen: dict[int, _Seen] = {}

    def look(self, pids: Iterable[int]) -> dict[int, HostUse]:
        """Of each process that can be read: one file each."""
        before, self._seen = self._seen, {}
        out: dict[int, HostUse] = {}
        for pid in pids:
            found = _read(pid, self._root)
            if found is None:
                continue
            start, ticks, rss = found
            now = self._clock()
            seen = before.get(pid)
            if seen is None or seen.start != start:
                seen = _Seen(start, ticks, now)
            elif now - seen.time >= _LEAST_SECONDS:
                seen.percent = round(100.0 * max(0, ticks - seen.ticks) / _TICKS / (now - seen.time), 1)
                seen.ticks, seen.time = ticks, now
            self._seen[pid] = seen
            out[pid] = {"start": start, "cpu_percent": seen.percent, "rss": rss}
        return out


def _read(pid: int, root: str) -> tuple[int, int, int] | None:
    """(start, CPU time of all its threads in ticks, resident bytes), None if that cannot be read."""
    line = read(os.path.join(root, f"proc/{pid}/stat"))
    if line is None:
        return None
    fields = line[line.rfind(b")") + 2 :].split()  # the name before may hold spaces and parentheses
    try:
        if fields[0] in (b"Z", b"X", b"x") and int(fields[17]) <= 1:
            return None  # it has ended, and what it had is given back
        return int(fields[19]), int(fields[11]) + int(fields[12]), int(fields[21]) * _PAGE_BYTES
    except (IndexError, ValueError):
        return None

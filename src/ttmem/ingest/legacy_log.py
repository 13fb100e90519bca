# SPDX-License-Identifier: Apache-2.0
"""One line on standard output for each event of a client, in the forms that tools for the proof of concept parse.

The server's loop only queues the values of a line. A thread formats and writes the lines, so that a slow terminal does
not delay the server. Above the limit, lines are left out and counted.
"""

from __future__ import annotations

import os
import select
import threading
from collections import deque
from time import sleep
from typing import Any

from ttmem.account.allocations import Allocation
from ttmem.account.entities import Process, Source
from ttmem.ingest.legacy_lines import Lines, json_line
from ttmem.model.events import Allocated, Device, Event, Freed, ProcessExited
from ttmem.model.kinds import AGENT, KERNEL_KINDS, KINDS, Kind

LINES_PER_SECOND = 10_000
_WRITE_SECONDS = 0.02
_LINES_PER_WRITE = 500
_CB_KINDS = (Kind.CB, Kind.DFB, Kind.SCRATCHPAD)
_LINE_OF = tuple("cb" if k in _CB_KINDS else "kernel" if k in KERNEL_KINDS else "buffer" for k in KINDS)


class LegacyLog:
    """Queues lines and writes them in a thread. Events of agents have no lines."""

    def __init__(self, *, fd: int = 1, style: str = "newest", as_json: bool = False, quiet: bool = False) -> None:
        self._fd = fd
        self._lines = Lines(style)
        self._json = as_json
        self._quiet = quiet
        self._quota = 0 if quiet else LINES_PER_SECOND  # lines that may still be written this second
        self.left_out = 0
        self._second = 0.0
        self._queue: deque[tuple[float, str, tuple[Any, ...]]] = deque()
        self._wake = threading.Event()
        self._woken = False  # whether `_wake` is set; reading an attribute costs less than asking the event
        self._idle = threading.Event()
        self._idle.set()
        self._closing = False
        self._thread: threading.Thread | None = None

    def wants(self, source: Source) -> bool:
        """True if an event of this source gets a line now. Otherwise it is only counted."""
        return self._quota > 0 and source.name != AGENT

    def leave_out(self, lines: int) -> None:
        """Count events that would have a line and were not passed to `note`."""
        if not self._quiet:
            self.left_out += lines

    def note(self, time: float, source: Source, event: Event, allocation: Allocation | None) -> None:
        """Queue the line of an event, as the values that the line needs."""
        if self._quiet:
            return
        came = type(event) is Allocated
        if not came and type(event) is not Freed:
            if type(event) is ProcessExited:
                self._note_exit(time, source.process)
            return
        if source.name == AGENT or (came and allocation is None):
            return
        assert isinstance(event, (Allocated, Freed))
        device, reported = event.device, event.kind
        form = "buffer" if reported is None or allocation is None else _LINE_OF[reported]
        if allocation is None or form == "buffer":
            self.note_buffer(time, source, device, reported if came else None, event.address, allocation)
        elif form == "cb":
            used = allocation.holding.chip.kinds[reported or 0].used
            self._put(time, "cb", (came, device, allocation.size, used))
        else:
            kinds = allocation.holding.chip.kinds
            total = sum(kinds[k].used for k in KERNEL_KINDS)
            self._put(time, "kernel", (came, allocation.kind, device, allocation.size, total))

    def note_buffer(
        self,
        time: float,
        source: Source,
        device: Device,
        kind: Kind | None,
        address: int,
        allocation: Allocation | None,
    ) -> None:
        """Queue the line of a buffer. ``kind`` is that of a new buffer, as it was reported; None for a free.

        A write to one core is reported as L1, and its address may show another kind.
        """
        pid = source.process.info.pid
        if allocation is None:
            self._put(time, "unknown", (pid, device, address))
        elif kind is None:
            self._put(time, "freed", (pid, allocation.size, device, allocation.address, allocation.refs))
        else:
            self._put(time, "allocated", (pid, allocation.size, kind, device, allocation.address, allocation.refs))

    def _note_exit(self, time: float, process: Process) -> None:
        """Queue the lines about the memory that a dead process held."""
        sums = [[0, 0], [0, 0], [0, 0]]
        for holding in process.holdings():
            for kind, leaf in zip(KINDS, holding.leaves):
                if leaf is not None and leaf.chips:
                    group = sums[2 if kind in KERNEL_KINDS else 1 if kind in (Kind.CB, Kind.DFB) else 0]
                    group[0] += leaf.count * len(leaf.chips)
                    group[1] += leaf.used * len(leaf.chips)
        if sum(group[0] for group in sums):
            self._put(time, "cleanup", (process.info.pid, *sums[0], *sums[1], *sums[2]))

    def tick(self, time: float) -> None:
        """Called often: starts the next second, and writes how many lines were left out in the last one."""
        if time - self._second < 1.0:
            return
        self._second = time
        if self._quiet:
            return
        if self.left_out and self._has_room():
            count, self.left_out = self.left_out, 0
            self._push(time, "left_out", (count, LINES_PER_SECOND))
        self._quota = LINES_PER_SECOND

    def say(self, time: float, text: str) -> None:
        """Write a text that was requested, such as a dump, even when quiet."""
        self._push(time, "text", (text,))

    def drain(self, timeout: float) -> None:
        """Wait until all queued lines are written, up to the timeout."""
        self._idle.wait(timeout)

    def close(self, timeout: float = 2.0) -> None:
        self._closing = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join(timeout)

    def _put(self, time: float, name: str, values: tuple[Any, ...]) -> None:
        """Queue a line, unless this second has no lines left."""
        if self._quota <= 0:
            self.left_out += 1
            return
        self._quota -= 1
        if self._woken and len(self._queue) < LINES_PER_SECOND:  # most lines: the thread is awake, and not far behind
            self._queue.append((time, name, values))
        else:
            self._push(time, name, values)

    def _push(self, time: float, name: str, values: tuple[Any, ...]) -> None:
        """Queue a line, unless the reader of the output has stopped reading. Wake the thread if it waits."""
        if not self._has_room():
            self.left_out += 1
            return
        self._queue.append((time, name, values))
        if not self._woken:
            self._woken = True
            self._idle.clear()
            self._wake.set()
            if self._thread is None:
                self._thread = threading.Thread(target=self._write, name="ttmem-log", daemon=True)
                self._thread.start()

    def _write_all(self, data: bytes) -> None:
        while data:
            try:
                data = data[os.write(self._fd, data) :]
            except BlockingIOError:  # a supervisor made the descriptor non-blocking, and it is full
                select.select([], [self._fd], [])

    def _has_room(self) -> bool:
        """False when the reader of our output has stopped reading."""
        return len(self._queue) <= 2 * LINES_PER_SECOND

    def _write(self) -> None:
        queue, forms = self._queue, self._lines.by_name()
        while True:
            self._wake.wait()
            self._wake.clear()
            self._woken = False
            if not self._closing:
                sleep(_WRITE_SECONDS)  # many lines for each write, and fewer switches between threads
            while queue:
                batch = [queue.popleft() for _ in range(min(len(queue), _LINES_PER_WRITE))]
                if self._json:
                    lines = [json_line(*line) for line in batch]
                else:
                    lines = [forms[name](*values) for _, name, values in batch]
                try:
                    self._write_all(b"\n".join((*lines, b"")))
                except OSError:
                    queue.clear()  # the output is closed; the account continues
            self._idle.set()
            if queue:
                self._idle.clear()
                self._woken = True
                self._wake.set()
            elif self._closing:
                return

# SPDX-License-Identifier: Apache-2.0
"""One line on standard output for each event of a client, in the forms that tools for the proof of concept parse.

The server's loop only queues the values of a line. A thread formats and writes the lines, so that a slow terminal does
not delay the server. Above the limit, lines are left out and counted.
"""

from __future__ import annotations

import json
import os
import select
import threading
from collections import deque
from collections.abc import Callable
from time import sleep
from typing import Any

from ttmem.account.allocations import Allocation
from ttmem.account.entities import Process, Source
from ttmem.ingest.clock import rfc3339
from ttmem.model.events import Allocated, Event, Freed, ProcessExited
from ttmem.model.kinds import AGENT, KERNEL_KINDS, KINDS, Kind

LINES_PER_SECOND = 10_000
_WRITE_SECONDS = 0.02
STYLES = ("newest", "untyped", "bytes", "decimal")
_MEGABYTE = 1048576

_CB_KINDS = (Kind.CB, Kind.DFB, Kind.SCRATCHPAD)
_LINE_OF = tuple("cb" if k in _CB_KINDS else "kernel" if k in KERNEL_KINDS else "buffer" for k in KINDS)
_KERNEL_NAMES = {Kind.KERNEL: "Application", Kind.FABRIC_KERNEL: "Fabric", Kind.DISPATCH_KERNEL: "Dispatch"}


# By kind, because reading the name of an Enum's member is slow.
_TYPE_NAMES = tuple("SYSTEM_MEMORY" if kind is Kind.HOST else kind.name for kind in KINDS)


def type_name(kind: Kind) -> str:
    """A buffer kind as the proof of concept spelled it."""
    return _TYPE_NAMES[kind]


def mega(size: int) -> str:
    """Megabytes as a C++ stream prints them: six significant digits."""
    return f"{size / _MEGABYTE:g}"


class _Lines:
    """The text of each line. ``style`` selects one of the forms that versions of the proof of concept used."""

    def __init__(self, style: str) -> None:
        self._ident: Callable[[int], str] = str if style == "decimal" else hex
        self._typed = style == "newest" or style == "decimal"
        self._bytes = style == "bytes"

    def allocated(self, pid: int, size: int, kind: Kind, device: int, ident: int, refs: int) -> str:
        shared = f", ref_count={refs}" if refs > 1 else ""
        return (
            f"✓ [PID {pid}] Allocated {size} bytes of {_TYPE_NAMES[kind]} on device {device} "
            f"(buffer_id={self._ident(ident)}{shared})"
        )

    def freed(self, pid: int, size: int, device: int, ident: int, refs: int) -> str:
        rest = f"ref_count={refs} remaining" if refs else "FINAL"
        return f"✗ [PID {pid}] Freed buffer {self._ident(ident)} on device {device} ({size} bytes, {rest})"

    def unknown(self, pid: int, device: int, ident: int) -> str:
        return (
            f"⚠ [PID {pid}] Deallocation for unknown buffer {self._ident(ident)} on device {device} "
            f"(allocated before tracking started)"
        )

    def cb(self, came: bool, device: int, size: int, total: int) -> str:
        sign = "+" if came else "-"
        if self._bytes:
            return f"{'✓' if came else '✗'} [CB] Device {device}: {sign}{size} bytes"
        head = "✓ [CB_ALLOC]" if came else "✗ [CB_FREE]"
        return f"{head} Device {device}: {sign}{mega(size)} MB (Total: {mega(total)} MB)"

    def kernel(self, came: bool, kind: Kind, device: int, size: int, total: int) -> str:
        sign = "+" if came else "-"
        if self._bytes:
            return f"{'✓' if came else '✗'} [KERN] Device {device}: {sign}{size} bytes"
        head = "✓ [KERNEL_LOAD]" if came else "✗ [KERNEL_UNLOAD]"
        where = f"{_KERNEL_NAMES[kind]} kernel on Device {device}" if self._typed else f"Device {device}"
        return f"{head} {where}: {sign}{mega(size)} MB (Total: {mega(total)} MB)"

    def cleanup(self, pid: int, buffers: int, size: int, cbs: int, cb_size: int, kernels: int, kernel_size: int) -> str:
        lines = ["⚠️  Dead processes detected:", f"⚠️  PID {pid} is dead, removing its buffers..."]
        lines.append(f"   ✓ Removed {buffers} buffers ({mega(size)} MB) from PID {pid}")
        if cbs:
            lines.append(f"   ✓ Removed {cbs} CBs ({mega(cb_size)} MB) from PID {pid}")
        if kernels:
            lines.append(f"   ✓ Removed {kernels} kernels ({mega(kernel_size)} MB) from PID {pid}")
        return "\n".join(lines)

    def left_out(self, count: int) -> str:
        return f"… {count} more events, not shown (the log is limited to {LINES_PER_SECOND} lines a second)"

    def text(self, text: str) -> str:
        return text


_FIELDS = {
    "allocated": ("pid", "size", "kind", "device", "id", "refs"),
    "freed": ("pid", "size", "device", "id", "refs"),
    "unknown": ("pid", "device", "id"),
    "cb": ("came", "device", "size", "total"),
    "kernel": ("came", "kind", "device", "size", "total"),
    "cleanup": ("pid", "buffers", "bytes", "cbs", "cb_bytes", "kernels", "kernel_bytes"),
    "left_out": ("count",),
    "text": ("text",),
}


def _json_line(time: float, name: str, values: tuple[Any, ...]) -> str:
    fields = {key: value.label if isinstance(value, Kind) else value for key, value in zip(_FIELDS[name], values)}
    return json.dumps({"time": rfc3339(time), "event": name, **fields})


class LegacyLog:
    """Queues lines and writes them in a thread. Events of agents have no lines."""

    def __init__(self, *, fd: int = 1, style: str = "newest", as_json: bool = False, quiet: bool = False) -> None:
        self._fd = fd
        self._lines = _Lines(style)
        self._json = as_json
        self._quiet = quiet
        self._quota = 0 if quiet else LINES_PER_SECOND  # lines that may still be written this second
        self.left_out = 0
        self._second = 0.0
        self._queue: deque[tuple[float, str, tuple[Any, ...]]] = deque()
        self._wake = threading.Event()
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
        if self._quota <= 0:
            self.left_out += 1
            return
        assert isinstance(event, (Allocated, Freed))
        pid, device, reported = source.process.info.pid, event.device, event.kind
        if allocation is None:
            self._put(time, "unknown", (pid, device, event.address))
        elif reported is not None and _LINE_OF[reported] == "cb":
            used = allocation.holding.chip.kinds[reported].used
            self._put(time, "cb", (came, device, allocation.size, used))
        elif reported is not None and _LINE_OF[reported] == "kernel":
            kinds = allocation.holding.chip.kinds
            total = sum(kinds[k].used for k in KERNEL_KINDS)
            self._put(time, "kernel", (came, allocation.kind, device, allocation.size, total))
        elif came:
            # The kind as it was reported: a per-core write is reported as L1, and its address may show another kind.
            values = pid, allocation.size, reported, device, allocation.address, allocation.refs
            self._put(time, "allocated", values)
        else:
            self._put(time, "freed", (pid, allocation.size, device, allocation.address, allocation.refs))

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
            self._push(time, "left_out", (count,))
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
        self._push(time, name, values)

    def _push(self, time: float, name: str, values: tuple[Any, ...]) -> None:
        """Queue a line, unless the reader of the output has stopped reading. Wake the thread if it waits."""
        if len(self._queue) > 2 * LINES_PER_SECOND:
            self.left_out += 1
            return
        self._queue.append((time, name, values))
        if not self._wake.is_set():
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
        queue = self._queue
        while True:
            self._wake.wait()
            self._wake.clear()
            if not self._closing:
                sleep(_WRITE_SECONDS)  # many lines for each write, and fewer switches between threads
            while queue:
                lines: list[str] = []
                while queue and len(lines) < 500:
                    time, name, values = queue.popleft()
                    lines.append(_json_line(time, name, values) if self._json else getattr(self._lines, name)(*values))
                data = ("\n".join(lines) + "\n").encode("utf-8", "replace")
                try:
                    self._write_all(data)
                except OSError:
                    queue.clear()  # the output is closed; the account continues
            self._idle.set()
            if queue:
                self._idle.clear()
                self._wake.set()
            elif self._closing:
                return

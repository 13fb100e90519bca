# SPDX-License-Identifier: Apache-2.0
"""The text of each line of the legacy log, in the forms that tools for the proof of concept parse, and as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from ttmem.ingest.clock import rfc3339
from ttmem.model.events import Device
from ttmem.model.kinds import KINDS, Kind

STYLES = ("newest", "untyped", "bytes", "decimal")
_MEGABYTE = 1048576
_KERNEL_NAMES = {Kind.KERNEL: "Application", Kind.FABRIC_KERNEL: "Fabric", Kind.DISPATCH_KERNEL: "Dispatch"}
# As the proof of concept spelled them. By kind, because reading the name of an Enum's member is slow.
_TYPE_NAMES = tuple("SYSTEM_MEMORY" if kind is Kind.HOST else kind.name for kind in KINDS)


def mega(size: int) -> str:
    """Megabytes as a C++ stream prints them: six significant digits."""
    return f"{size / _MEGABYTE:g}"


class Lines:
    """The text of each line. ``style`` selects one of the forms that versions of the proof of concept used."""

    def __init__(self, style: str) -> None:
        self._ident: Callable[[int], str] = str if style == "decimal" else hex
        self._typed = style == "newest" or style == "decimal"
        self._bytes = style == "bytes"
        # Nearly all lines are one of these two. Templates of bytes need less than half the time of an f-string with
        # characters that must be encoded. A device may be a tuple: %a prints both.
        ident = "%d" if style == "decimal" else "%#x"
        self._allocated = tuple(
            f"✓ [PID %d] Allocated %d bytes of {name} on device %a (buffer_id={ident})".encode() for name in _TYPE_NAMES
        )
        self._freed = f"✗ [PID %d] Freed buffer {ident} on device %a (%d bytes, FINAL)".encode()

    def allocated(self, pid: int, size: int, kind: Kind, device: Device, ident: int, refs: int) -> bytes:
        if refs <= 1:
            return self._allocated[kind] % (pid, size, device, ident)
        return (
            f"✓ [PID {pid}] Allocated {size} bytes of {_TYPE_NAMES[kind]} on device {device} "
            f"(buffer_id={self._ident(ident)}, ref_count={refs})"
        ).encode()

    def freed(self, pid: int, size: int, device: Device, ident: int, refs: int) -> bytes:
        if not refs:
            return self._freed % (pid, ident, device, size)
        return (
            f"✗ [PID {pid}] Freed buffer {self._ident(ident)} on device {device} "
            f"({size} bytes, ref_count={refs} remaining)"
        ).encode()

    def unknown(self, pid: int, device: Device, ident: int) -> bytes:
        return (
            f"⚠ [PID {pid}] Deallocation for unknown buffer {self._ident(ident)} on device {device} "
            f"(allocated before tracking started)"
        ).encode()

    def cb(self, came: bool, device: Device, size: int, total: int) -> bytes:
        sign = "+" if came else "-"
        if self._bytes:
            return f"{'✓' if came else '✗'} [CB] Device {device}: {sign}{size} bytes".encode()
        head = "✓ [CB_ALLOC]" if came else "✗ [CB_FREE]"
        return f"{head} Device {device}: {sign}{mega(size)} MB (Total: {mega(total)} MB)".encode()

    def kernel(self, came: bool, kind: Kind, device: Device, size: int, total: int) -> bytes:
        sign = "+" if came else "-"
        if self._bytes:
            return f"{'✓' if came else '✗'} [KERN] Device {device}: {sign}{size} bytes".encode()
        head = "✓ [KERNEL_LOAD]" if came else "✗ [KERNEL_UNLOAD]"
        where = f"{_KERNEL_NAMES[kind]} kernel on Device {device}" if self._typed else f"Device {device}"
        return f"{head} {where}: {sign}{mega(size)} MB (Total: {mega(total)} MB)".encode()

    def cleanup(
        self, pid: int, buffers: int, size: int, cbs: int, cb_size: int, kernels: int, kernel_size: int
    ) -> bytes:
        lines = ["⚠️  Dead processes detected:", f"⚠️  PID {pid} is dead, removing its buffers..."]
        lines.append(f"   ✓ Removed {buffers} buffers ({mega(size)} MB) from PID {pid}")
        if cbs:
            lines.append(f"   ✓ Removed {cbs} CBs ({mega(cb_size)} MB) from PID {pid}")
        if kernels:
            lines.append(f"   ✓ Removed {kernels} kernels ({mega(kernel_size)} MB) from PID {pid}")
        return "\n".join(lines).encode()

    def left_out(self, count: int, limit: int) -> bytes:
        return f"… {count} more events, not shown (the log is limited to {limit} lines a second)".encode()

    def text(self, text: str) -> bytes:
        return text.encode("utf-8", "replace")

    def by_name(self) -> dict[str, Callable[..., bytes]]:
        """The methods above, by the name of a line."""
        return {name: getattr(self, name) for name in _FIELDS}


_FIELDS = {
    "allocated": ("pid", "size", "kind", "device", "id", "refs"),
    "freed": ("pid", "size", "device", "id", "refs"),
    "unknown": ("pid", "device", "id"),
    "cb": ("came", "device", "size", "total"),
    "kernel": ("came", "kind", "device", "size", "total"),
    "cleanup": ("pid", "buffers", "bytes", "cbs", "cb_bytes", "kernels", "kernel_bytes"),
    "left_out": ("count",),  # the limit is in the text only
    "text": ("text",),
}


def json_line(time: float, name: str, values: tuple[Any, ...]) -> bytes:
    fields = {key: value.label if isinstance(value, Kind) else value for key, value in zip(_FIELDS[name], values)}
    return json.dumps({"time": rfc3339(time), "event": name, **fields}).encode()

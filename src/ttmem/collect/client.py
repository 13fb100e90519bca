# SPDX-License-Identifier: Apache-2.0
"""AllocationClient: the calls to report allocations and frees of a workload."""

from __future__ import annotations

import atexit
import itertools
import os
import weakref
from collections.abc import Callable
from operator import index
from typing import Any, Union

from ttmem.collect import sender_pool as shared
from ttmem.collect.meters import Reading
from ttmem.collect.sender import Sender
from ttmem.model.core_sets import MAX_Y, ROW
from ttmem.model.events import (
    Allocated,
    Device,
    DeviceClosed,
    DeviceOpened,
    Event,
    Extra,
    Freed,
    Mark,
    ProgramCompiled,
    ProgramDestroyed,
    ProgramRun,
    Viewed,
)
from ttmem.model.identity import ChipInfo
from ttmem.model.kinds import KERNEL_KINDS, KIND_BY_LABEL, KINDS, Confidence, Kind, covers
from ttmem.model.validation import MAX_DEVICE_NUMBER
from ttmem.wire.client_decode import decode
from ttmem.wire.client_encode import encode
from ttmem.wire.client_records import MAX_MESH_DEVICES
from ttmem.wire.handshake import hello

DeviceId = Union[int, tuple[int, ...]]  # a device, or the devices of a mesh
ENABLE_VARIABLE = "TT_ALLOC_TRACKING_ENABLED"
_EXIT_SECONDS = 0.2
_MAX = 1 << 64
_new = tuple.__new__  # a NamedTuple's own constructor costs three times as much
_CORES_END = 1 << (ROW * MAX_Y)

_clients: weakref.WeakSet[AllocationClient] = weakref.WeakSet()
_numbers = itertools.count()


class AllocationClient:
    """Reports what a process allocates on its devices.

    >>> client = AllocationClient(enabled=False)
    >>> client.report_allocation(device_id=0, size=4096, buffer_type="dram", buffer_id=0x1000)
    >>> client.is_enabled()
    False

    ``device_id`` is a device number of the process, or a tuple of the numbers of a mesh: what is reported on a mesh is
    one allocation that is on all its devices. ``buffer_type`` is a kind's name, its number, or a ``Kind``. It reports
    only if TT_ALLOC_TRACKING_ENABLED is "1" or ``enabled`` is true. Reporting never raises for a bad value: it is
    counted in ``stats()["rejected"]``. Clients of a process with the same source name are one source: they share the
    live table and the connection.
    """

    def __init__(
        self,
        *,
        enabled: bool | None = None,
        socket_path: str | None = None,
        source: str = "client",
        confidence: Confidence = Confidence.REPORTED,
    ) -> None:
        self._enabled = os.environ.get(ENABLE_VARIABLE) == "1" if enabled is None else enabled
        self._paths = [socket_path] if socket_path is not None else None
        self.source = source
        self._confidence = confidence
        self._number = next(_numbers)
        self._rejected = 0
        if self._enabled:
            self._share_sender()
            _clients.add(self)
        else:
            self._sender = Sender(self._paths, hello(source, confidence))
            self._sender.close()

    def is_enabled(self) -> bool:
        return self._enabled

    def report_allocation(
        self, *, device_id: DeviceId, size: int, buffer_type: Kind | int | str, buffer_id: int,
        reserved: int | None = None, allocator: int = 0, tag: str | None = None, system: bool = False,
    ) -> None:  # fmt: skip
        """A buffer was allocated at address ``buffer_id``.

        ``system`` if the runtime allocated it for itself at open.
        """
        if self._enabled:
            self._put_allocated(device_id, buffer_type, buffer_id, size, 0, reserved, 0, allocator, tag, False, system)

    def report_deallocation(
        self, *, device_id: DeviceId, buffer_id: int, buffer_type: Kind | int | str | None = None, allocator: int = 0
    ) -> None:
        """A buffer is about to be freed. Without a type, it is looked up by its address."""
        if self._enabled:
            self._put_freed(device_id, buffer_type, buffer_id, 0, allocator)

    def report_cb_allocation(
        self, *, device_id: DeviceId, size: int, cb_id: int, program: int = 0, cores: int = 0, shared: bool = False,
        tag: str | None = None,
    ) -> None:  # fmt: skip
        """A circular buffer exists. ``cores`` is a mask (``ttmem.model.core_sets``), ``size`` its bytes on all of them.

        ``shared`` marks a globally allocated circular buffer, which lies inside an L1 buffer and is not counted again.
        """
        if self._enabled:
            self._put_allocated(device_id, Kind.CB, cb_id, size, program, None, cores, 0, tag, shared)

    def report_cb_deallocation(self, *, device_id: DeviceId, cb_id: int, program: int = 0, cores: int = 0) -> None:
        if self._enabled:
            self._put_freed(device_id, Kind.CB, cb_id, program, 0, cores)

    def report_dfb_allocation(
        self, *, device_id: DeviceId, size: int, dfb_id: int, program: int = 0, cores: int = 0, shared: bool = False,
        tag: str | None = None,
    ) -> None:  # fmt: skip
        """A dataflow buffer exists; parameters as for a circular buffer. It is freed with its program."""
        if self._enabled:
            self._put_allocated(device_id, Kind.DFB, dfb_id, size, program, None, cores, 0, tag, shared)

    def report_scratchpad_allocation(
        self, *, device_id: DeviceId, size: int, address: int, program: int = 0, cores: int = 0, tag: str | None = None
    ) -> None:
        """A program has a scratchpad on these cores; ``size`` is its bytes on all of them."""
        if self._enabled:
            self._put_allocated(device_id, Kind.SCRATCHPAD, address, size, program, None, cores, 0, tag)

    def report_kernel_load(
        self, *, device_id: DeviceId, size: int, kernel_id: int, kernel_type: int = 0, program: int = 0,
        cores: int = 0, tag: str | None = None,
    ) -> None:  # fmt: skip
        """A kernel was loaded: ``size`` is its binary times its cores; type 0 application, 1 fabric, 2 dispatch."""
        if self._enabled:
            try:
                kind = KERNEL_KINDS[_integer(kernel_type)]
            except Exception:
                self._rejected += 1
                return
            self._put_allocated(device_id, kind, kernel_id, size, program, None, cores, 0, tag)

    def report_kernel_unload(self, *, device_id: DeviceId, kernel_id: int, program: int = 0, cores: int = 0) -> None:
        if self._enabled:
            self._put_freed(device_id, Kind.KERNEL, kernel_id, program, 0, cores)

    def report_program_compiled(
        self, *, device_id: DeviceId, program: int, ring: int = 0, metal_id: int = 0, tag: str | None = None
    ) -> None:
        """A program exists: the bytes it needs in a core's kernel ring, tt-metal's number for it, and its name."""
        if self._enabled:
            self._put_checked(ProgramCompiled, device_id, program, ring, metal_id, tag)

    def report_program_run(self, *, device_id: DeviceId, program: int, cores: int) -> None:
        """A program was launched on these cores: its circular buffers are resident there."""
        if self._enabled:
            self._put_checked(ProgramRun, device_id, program, cores)

    def report_program_destroyed(self, *, device_id: DeviceId, program: int) -> None:
        """A program was destroyed, with its circular buffers and kernels."""
        if self._enabled:
            self._put_checked(ProgramDestroyed, device_id, program)

    def report_device_open(self, *, device_id: int, chip: ChipInfo) -> None:
        """Maps a device number of this process to a chip, so that "device 0" of two processes can be distinguished."""
        if self._enabled:
            self._put_checked(DeviceOpened, device_id, chip)

    def report_device_close(self, *, device_id: DeviceId) -> None:
        if self._enabled:
            self._put_checked(DeviceClosed, device_id)

    def report_memory_view(
        self, *, device_id: DeviceId, buffer_type: Kind | int | str, banks: int, size: int, allocated: int,
        largest_free: int, allocator: int = 0,
    ) -> None:  # fmt: skip
        """The numbers of an allocator for one kind of memory, in bytes of one bank; 0 banks if it has none."""
        if self._enabled:
            kind = KIND_BY_LABEL.get(buffer_type.lower(), -1) if isinstance(buffer_type, str) else buffer_type
            self._put_checked(Viewed, device_id, allocator, kind, banks, size, allocated, largest_free)

    def mark(self, text: str) -> None:
        """Add a named mark to the event stream."""
        if self._enabled:
            self._put_checked(lambda value: Mark(str(value)), text)

    def flush(self, timeout: float | None = 5.0) -> bool:
        """Wait until the server has applied everything reported before this call. False if it did not in time."""
        return self._sender.flush(timeout) if self._enabled else True

    def measure(self, *, reset: bool = False, mark: Event | None = None) -> dict[tuple[int | None, str], Reading]:
        """Totals of the reported live allocations, for a meter (``ttmem.collect.meters``)."""
        return self._sender.measure(reset=reset, mark=mark if self._enabled else None)

    @property
    def table(self) -> object:
        """The object that holds the numbers for ``measure``: one for all clients of a source."""
        return self._sender

    def stats(self) -> dict[str, int | bool | str | None]:
        """Statistics of the reporting: events sent, not sent, rejected; live allocations; the last problem as text."""
        sender = self._sender.stats()
        return {**sender, "enabled": self._enabled, "rejected": self._rejected + int(sender.get("rejected") or 0)}

    def close(self, timeout: float = 1.0) -> None:
        """Send the remaining events and stop reporting. Live allocations stay in the account until the process ends."""
        if self._enabled:
            self.flush(timeout)
            self._enabled = False
            self._leave()

    def _share_sender(self) -> None:
        self._sender = shared.join(self._paths, self.source, self._confidence)
        self._leave = weakref.finalize(self, shared.leave, self._sender)  # also if the client is garbage collected
        self._leave.atexit = False

    def _put_allocated(
        self, device: DeviceId, kind: Kind | int | str, address: int, size: int, program: int,
        reserved: int | None = None, cores: int = 0, allocator: int = 0, tag: str | None = None, shared: bool = False,
        system: bool = False,
    ) -> None:  # fmt: skip
        try:
            known = kind if type(kind) is Kind else _kind(kind)
            where = _device(device)
            address, size, program = index(address), index(size), index(program)
            if not (0 <= address < _MAX and 0 < size < _MAX and 0 <= program < _MAX):
                raise ValueError
            extra = None
            if reserved is not None or tag is not None or cores or allocator or shared or system:
                extra = _extra(reserved, cores, allocator, tag, shared, system)
        except Exception:  # a check of a bad value may raise anything
            self._rejected += 1
            return
        self._sender.put(_new(Allocated, (where, known, address, size, program, 0, extra, 0)))

    def _put_freed(
        self, device: DeviceId, kind: Kind | int | str | None, address: int, program: int, allocator: int = 0,
        cores: int = 0,
    ) -> None:  # fmt: skip
        try:
            known = None if kind is None else _kind(kind)
            where = _device(device)
            address, program, allocator = index(address), index(program), index(allocator)
            if not (0 <= address < _MAX and 0 <= program < _MAX and 0 <= allocator < 1 << 32):
                raise ValueError
            cores = _integer(cores, _CORES_END)
        except Exception:
            self._rejected += 1
            return
        self._sender.put(_new(Freed, (where, known, address, 0, program, allocator, cores, 0)))

    def _put_checked(self, make: Callable[..., Event], *values: Any) -> None:
        """For rare events: put the event as the server will decode it."""
        try:
            event = decode(encode(make(*map(_plain, values))))
        except Exception:
            self._rejected += 1
        else:
            self._sender.put(event)


def _device(device: DeviceId) -> Device:
    """The number of a device, or the numbers of a mesh; ValueError or TypeError if it is neither."""
    if type(device) is not tuple:
        number = index(device)  # type: ignore[arg-type]
        if not 0 <= number < 1 << 31:
            raise ValueError
        return number
    numbers = tuple(map(index, device))
    if not numbers or len(numbers) > MAX_MESH_DEVICES or len(set(numbers)) < len(numbers):
        raise ValueError
    if min(numbers) < 0 or max(numbers) > MAX_DEVICE_NUMBER:
        raise ValueError
    return numbers if len(numbers) > 1 else numbers[0]


def _kind(kind: Kind | int | str) -> Kind:
    if isinstance(kind, str):
        return KIND_BY_LABEL[kind.lower()]
    number = index(kind)
    if number < 0:
        raise ValueError
    return KINDS[number]


def _integer(value: int, end: int = _MAX) -> int:
    """The number itself if it is an integer that can be encoded; a float is not."""
    number = index(value)
    if not 0 <= number < end:
        raise ValueError
    return number


def _plain(value: Any) -> Any:
    """A field of an event: text, a chip or None unchanged, the devices of a mesh, anything else as a number."""
    if type(value) is tuple:
        return _device(value)
    return value if value is None or isinstance(value, (str, ChipInfo)) else _integer(value, _CORES_END)


def _extra(reserved: int | None, cores: int, allocator: int, tag: str | None, shared: bool, system: bool) -> Extra:
    if tag is not None and not isinstance(tag, str):
        raise TypeError
    return Extra(
        None if reserved is None else _integer(reserved), _integer(cores, _CORES_END), _integer(allocator, 1 << 32),
        tag, bool(shared), system=bool(system),
    )  # fmt: skip


def newest() -> AllocationClient | None:
    """The newest client that tracks buffers and is not closed."""
    found = [client for client in _clients if client.is_enabled() and Kind.DRAM in covers(client.source)]
    return max(found, key=lambda client: client._number, default=None)


def _after_fork() -> None:
    """A child has its own connection, thread and table. Allocations of the parent stay with the parent."""
    shared.forget_all()
    for client in list(_clients):
        client._leave.detach()
        if client._enabled:
            client._share_sender()


atexit.register(shared.flush_all, _EXIT_SECONDS)
os.register_at_fork(after_in_child=_after_fork)

# SPDX-License-Identifier: Apache-2.0
"""GraphTracker: the calls of a fully integrated runtime when it allocates, compiles, launches and destroys.

The names are those of tt-metal's GraphTracker with the additions of the proof of concept. A runtime in Python calls
them from its allocator and its programs, as ``ttmem.sim`` does. A mesh is reported on each of its devices.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
import traceback
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, TextIO, TypeVar, Union

from ttmem.collect.client import AllocationClient, DeviceId
from ttmem.model.core_sets import Cores, core_id, mask_from
from ttmem.model.identity import ChipInfo
from ttmem.model.kinds import KERNEL_KINDS, Confidence, Kind

BACKTRACE_VARIABLE = "TTMEM_KERNEL_BACKTRACE"
_KERNEL_TYPES = ("Application", "Fabric", "Dispatch")


class Chip(Protocol):
    """A single device."""

    @property
    def id(self) -> int: ...


class Mesh(Protocol):
    """A device that consists of several; what is reported on it is on each of them, at the same address."""

    def get_devices(self) -> Sequence[Chip]: ...


Device = Union[Chip, Mesh]


class Buffer(Protocol):
    """The attributes that a buffer must have. It may also have ``reserved``, ``allocator_id``, ``tag`` and ``system``,
    and ``owns_data``, which is False for a view of another buffer, such as a mesh buffer's part on one device.
    """

    @property
    def device(self) -> Any: ...
    @property
    def address(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def buffer_type(self) -> Kind | int | str: ...


class _Loaded(NamedTuple):
    """A loaded kernel: the values that identify it, and that are needed to report its unload."""

    cores: int
    size: int


class _Held:
    """What was reported about a program on a device."""

    def __init__(self) -> None:
        self.cbs: dict[tuple[int, int], int] = {}  # bytes by address and cores
        self.kernels: dict[int, _Loaded] = {}
        self.end_reported = False  # whether its end must be reported, because more than these was reported


def cores_or_none(cores: Cores) -> int:
    """The cores as a mask, 0 for invalid values.

    Without cores there is no size, and the client counts it as rejected.
    """
    try:
        return mask_from(cores)
    except ValueError:
        return 0


_F = TypeVar("_F", bound=Callable[..., Any])


def _guarded(method: _F) -> _F:
    """Invalid arguments of a tracking call must not stop the runtime."""

    @functools.wraps(method)
    def call(self: GraphTracker, *arguments: Any, **keywords: Any) -> Any:
        try:
            with self._lock:
                return method(self, *arguments, **keywords)
        except Exception:
            self.rejected += 1
            return 0 if method.__name__ == "track_kernel_load" else None

    return call  # type: ignore[return-value]


class GraphTracker:
    """Reports the memory use of a runtime.

    >>> tracker = GraphTracker(AllocationClient(enabled=False))
    >>> class Device:
    ...     id = 0
    >>> tracker.track_kernel_load(57344, kernel_id=1, device=Device(), kernel_type=1, num_cores=16)
    917504

    No call ever raises. Invalid arguments are counted in ``rejected``, or by the client.

    ``backtrace`` prints a line and the stack for every kernel that is loaded; by default if TTMEM_KERNEL_BACKTRACE
    is "1".
    """

    _instance: GraphTracker | None = None
    _making = threading.Lock()

    def __init__(
        self, client: AllocationClient | None = None, *, backtrace: bool | None = None, stream: TextIO | None = None
    ) -> None:
        self.client = client or AllocationClient(source="graph_tracker", confidence=Confidence.EXACT)
        self._backtrace = os.environ.get(BACKTRACE_VARIABLE) == "1" if backtrace is None else backtrace
        self._stream = stream
        self.rejected = 0
        self._programs: dict[tuple[DeviceId, int], _Held] = {}  # by device or mesh, and program
        self._homes: dict[tuple[DeviceId, int], list[int]] = {}  # programs that loaded a kernel, by device and kernel
        self._writes: dict[tuple[DeviceId, int], int] = {}
        self._meshes: set[tuple[int, ...]] = set()  # about which something was reported
        self._lock = threading.RLock()  # reentrant, because a finalizer may take it again
        _trackers.add(self)

    @classmethod
    def instance(cls) -> GraphTracker:
        """The tracker of this process, created on first use."""
        with cls._making:
            if cls._instance is None:
                cls._instance = cls()
            return cls._instance

    # -- devices -------------------------------------------------------------------------------------------------

    @_guarded
    def track_device_open(self, device: Chip, chip: ChipInfo) -> None:
        self.client.report_device_open(device_id=device.id, chip=chip)

    @_guarded
    def track_device_close(self, device: Chip) -> None:
        """The device was closed, with everything on it, and with every mesh that it is a part of."""
        meshes = [mesh for mesh in self._meshes if device.id in mesh]
        self._meshes.difference_update(meshes)
        devices: list[DeviceId] = [*meshes, device.id]
        for closed in devices:
            self._programs = {key: held for key, held in self._programs.items() if key[0] != closed}
            self._homes = {key: programs for key, programs in self._homes.items() if key[0] != closed}
            self._writes = {key: size for key, size in self._writes.items() if key[0] != closed}
            self.client.report_device_close(device_id=closed)

    def _where(self, device: Device) -> DeviceId:
        """The number of a device, or the numbers of the devices of a mesh."""
        listed = getattr(device, "get_devices", None)
        chips: Sequence[Chip] = listed() if listed is not None else [device]  # type: ignore[list-item]
        numbers = tuple(chip.id for chip in chips)
        if len(numbers) == 1:
            return numbers[0]
        self._meshes.add(numbers)
        return numbers

    # -- buffers -------------------------------------------------------------------------------------------------

    @_guarded
    def track_allocate(self, buffer: Buffer) -> None:
        """A buffer was allocated. Views are ignored."""
        if not getattr(buffer, "owns_data", True):
            return
        self.client.report_allocation(
            device_id=self._where(buffer.device), size=buffer.size, buffer_type=buffer.buffer_type,
            buffer_id=buffer.address, reserved=getattr(buffer, "reserved", None),
            allocator=getattr(buffer, "allocator_id", 0), tag=getattr(buffer, "tag", None),
            system=getattr(buffer, "system", False),
        )  # fmt: skip

    @_guarded
    def track_deallocate(self, buffer: Buffer) -> None:
        """A buffer's memory is about to be freed."""
        if not getattr(buffer, "owns_data", True):
            return
        self.client.report_deallocation(
            device_id=self._where(buffer.device), buffer_id=buffer.address, buffer_type=buffer.buffer_type,
            allocator=getattr(buffer, "allocator_id", 0),
        )  # fmt: skip

    # -- programs ------------------------------------------------------------------------------------------------

    @_guarded
    def track_allocate_cb(
        self, core_range: Cores, address: int, size: int, device: Device, *, program: int = 0,
        globally_allocated: bool = False, tag: str | None = None,
    ) -> None:  # fmt: skip
        """A circular buffer of ``size`` bytes on each of these cores got its address."""
        if not self.client.is_enabled():
            return
        cores = cores_or_none(core_range)
        total = size * cores.bit_count()
        where = self._where(device)
        known = self._held(where, program).cbs
        if known.get((address, cores)) == total or (globally_allocated and (address, cores) in known):
            return  # already reported, or inside a buffer that is counted anyway
        if (address, cores) in known:
            self.client.report_cb_deallocation(device_id=where, cb_id=address, program=program, cores=cores)
        if total > 0:
            known[address, cores] = total
        self.client.report_cb_allocation(
            device_id=where, size=total, cb_id=address, program=program, cores=cores, shared=globally_allocated,
            tag=tag,
        )  # fmt: skip

    @_guarded
    def track_deallocate_cb(self, device: Device, program: int = 0) -> None:
        """The circular buffers of a program were freed.

        tt-metal calls this without a program before every launch. This does not free the circular buffers of cached
        programs, only those that were reported without a program.
        """
        where = self._where(device)
        held = self._programs.get((where, program))
        cbs, held_cbs = (held.cbs, list(held.cbs)) if held is not None else ({}, [])
        cbs.clear()
        for address, cores in held_cbs:
            self.client.report_cb_deallocation(device_id=where, cb_id=address, program=program, cores=cores)

    @_guarded
    def track_allocate_dataflow_buffer(
        self, core_range: Cores, address: int, size: int, device: Device, *, program: int = 0,
        borrows_memory: bool = False, tag: str | None = None,
    ) -> None:  # fmt: skip
        """A dataflow buffer was placed; as for a circular buffer. It is freed with its program."""
        if not self.client.is_enabled():
            return
        cores = cores_or_none(core_range)
        where = self._where(device)
        self._held(where, program).end_reported = True
        self.client.report_dfb_allocation(
            device_id=where, size=size * cores.bit_count(), dfb_id=address, program=program, cores=cores,
            shared=borrows_memory, tag=tag,
        )  # fmt: skip

    @_guarded
    def track_allocate_scratchpad(
        self, core_range: Cores, address: int, size: int, device: Device, *, program: int = 0, tag: str | None = None
    ) -> None:
        if not self.client.is_enabled():
            return
        cores = cores_or_none(core_range)
        where = self._where(device)
        self._held(where, program).end_reported = True
        self.client.report_scratchpad_allocation(
            device_id=where, size=size * cores.bit_count(), address=address, program=program, cores=cores, tag=tag
        )

    @_guarded
    def track_kernel_load(
        self, kernel_size: int, kernel_id: int, device: Device, kernel_type: int = 0, num_cores: int = 1, *,
        program: int = 0, cores: int = 0, tag: str | None = None,
    ) -> int:  # fmt: skip
        """Kernels were loaded: they occupy their binaries times the number of cores, on each device.

        A second load with the same id counts as the same load. Returns the bytes on each device.
        """
        total = kernel_size * num_cores
        loaded = _Loaded(cores, total)
        where = self._where(device)
        if self._backtrace:
            for number in where if isinstance(where, tuple) else (where,):
                self._print_backtrace(number, kernel_size, kernel_id, kernel_type, num_cores)
        before = self._held(where, program).kernels.get(kernel_id)
        if before == loaded:
            return total
        if before is not None:
            self._unload(where, kernel_id, program)
        if total > 0 and 0 <= kernel_type < len(KERNEL_KINDS):
            self._held(where, program).kernels[kernel_id] = loaded
            self._homes.setdefault((where, kernel_id), []).append(program)
        self.client.report_kernel_load(
            device_id=where, size=total, kernel_id=kernel_id, kernel_type=kernel_type, program=program, cores=cores,
            tag=tag,
        )  # fmt: skip
        return total

    @_guarded
    def track_kernel_unload(self, kernel_id: int, device: Device, program: int | None = None) -> None:
        """Kernels were unloaded; their size is known from the load.

        Without a program, the last one that loaded them.
        """
        where = self._where(device)
        programs = self._homes.get((where, kernel_id), [])
        if programs and (program is None or program in programs):
            self._unload(where, kernel_id, programs[-1] if program is None else program)

    def _unload(self, where: DeviceId, kernel_id: int, program: int) -> None:
        loaded = self._programs[where, program].kernels.pop(kernel_id)
        programs = self._homes[where, kernel_id]
        programs.remove(program)
        if not programs:
            del self._homes[where, kernel_id]
        self.client.report_kernel_unload(device_id=where, kernel_id=kernel_id, program=program, cores=loaded.cores)

    def _held(self, where: DeviceId, program: int) -> _Held:
        held = self._programs.get((where, program))
        if held is None:
            held = self._programs[where, program] = _Held()
        return held

    @_guarded
    def track_program_compiled(self, program: int, device: Device, *, ring: int = 0, tag: str | None = None) -> None:
        """A program exists and needs ``ring`` bytes of a core's kernel ring."""
        where = self._where(device)
        self._held(where, program).end_reported = True
        self.client.report_program_compiled(device_id=where, program=program, ring=ring, metal_id=program, tag=tag)

    @_guarded
    def track_program(self, program: int, device: Device, core_range: Cores) -> None:
        """A program was launched on these cores."""
        if not self.client.is_enabled():
            return
        cores = cores_or_none(core_range)
        self.client.report_program_run(device_id=self._where(device), program=program, cores=cores)

    @_guarded
    def track_program_destroyed(self, program: int, device: Device) -> None:
        """A program was destroyed, with its circular and dataflow buffers and its kernels."""
        self.track_deallocate_cb(device, program)
        where = self._where(device)
        held = self._programs.get((where, program))
        if held is not None:
            for kernel in list(held.kernels):
                self._unload(where, kernel, program)
            del self._programs[where, program]
            if held.end_reported:
                self.client.report_program_destroyed(device_id=where, program=program)

    # -- cores ---------------------------------------------------------------------------------------------------

    @_guarded
    def track_core_write(
        self, device: Device, core: tuple[int, int], address: int, size: int, tag: str | None = None
    ) -> None:
        """Firmware, a kernel or a launch message was written to one core, given by its NOC coordinates.

        The address determines which of these it is. A second write of the same size changes nothing; one of another
        size replaces the first.
        """
        ident = core_id(*core, address)
        where = self._where(device)
        before = self._writes.get((where, ident))
        if before == size:
            return
        if before is not None:
            self.client.report_deallocation(device_id=where, buffer_id=ident, buffer_type=Kind.L1)
        self._writes[where, ident] = size
        self.client.report_allocation(
            device_id=where, size=size, buffer_type=Kind.L1, buffer_id=ident, tag=tag, system=True
        )

    def _print_backtrace(self, device: int, size: int, ident: int, kernel_type: int, cores: int) -> None:
        name = _KERNEL_TYPES[kernel_type] if 0 <= kernel_type < len(KERNEL_KINDS) else str(kernel_type)
        print(
            f"🔍 KERNEL_LOAD Backtrace (Device {device}, Type: {name}, Binary Size: {size / 1024:g} KB, "
            f"Cores: {cores}, Total L1: {size * cores / 1024:g} KB, ID: {ident:#x})",
            file=self._stream or sys.stderr,
        )
        # The runtime is above this call, the tracking call and its guard.
        traceback.print_stack(sys._getframe(3), file=self._stream or sys.stderr)


_trackers: weakref.WeakSet[GraphTracker] = weakref.WeakSet()


def _after_fork() -> None:
    """Replace the lock: if another thread of the parent held it, it would never be released here."""
    GraphTracker._making = threading.Lock()
    for tracker in list(_trackers):
        tracker._lock = threading.RLock()


os.register_at_fork(after_in_child=_after_fork)

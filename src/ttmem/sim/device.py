# SPDX-License-Identifier: Apache-2.0
"""Simulated devices: an allocator, a program cache, traces, and the runtime's own memory on a chip."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache
from typing import NamedTuple, TypeVar

from ttmem.collect.client import AllocationClient
from ttmem.collect.graph_tracker import GraphTracker
from ttmem.model.core_sets import CoreRange, cores_of
from ttmem.model.identity import ChipInfo
from ttmem.model.kinds import Confidence, Kind
from ttmem.sim.allocator import Allocator
from ttmem.sim.board_types import MachineType, machine_named
from ttmem.sim.buffer import Buffer
from ttmem.sim.driver import VARIABLE
from ttmem.sim.errors import SimError
from ttmem.sim.program import SimProgram
from ttmem.sim.tensors import BufferNeed
from ttmem.sim.traces import Trace, Traces

# Kernels that serve every program: type, name, bytes on a core, cores (ethernet cores for the fabric).
SYSTEM_KERNELS = ((1, "fabric router", 57344, 16), (2, "dispatch", 47104, 2))
_SYSTEM_PAGE_BYTES = 4096
_TRACE_HEADER_BYTES, _TRACE_COMMAND_BYTES = 1024, 256  # per trace, and per part of a launch


class Options(NamedTuple):
    """Options for opening a device. ``system_dram`` is allocated by the runtime itself; about 14 MiB on real boards.

    With ``kernel_writes``, kernels are reported as writes to each core's ring at a launch, not as loads.
    """

    l1_small_size: int = 0
    trace_region_size: int = 0
    worker_l1_size: int | None = None
    system_dram: int = 0
    kernel_writes: bool = False


_devices: weakref.WeakSet[AnyDevice] = weakref.WeakSet()


def opened() -> list[AnyDevice]:
    """The devices and meshes that this process has open."""
    return [device for device in _devices if device.is_open]


@lru_cache(maxsize=1)
def default_tracker() -> GraphTracker:
    """The default target for reports of simulated devices: the server, if TT_ALLOC_TRACKING_ENABLED is 1."""
    return GraphTracker(AllocationClient(source="sim", confidence=Confidence.EXACT))


class Chip:
    """One chip: its cores with their firmware, and the kernels that serve every program."""

    def __init__(self, number: int, machine: MachineType) -> None:
        self.id = number
        self.board = machine.board
        self.unique_id = f"sim-{machine.name}-{number}"
        self.remote = number in machine.remote
        self.kmd = machine.kmd(number) if os.environ.get(VARIABLE) == "1" else None

    def boot(self, tracker: GraphTracker, allocator: Allocator) -> None:
        """Report the chip and its sizes."""
        geometry = allocator.geometry._replace(
            l1_small_size=allocator.statistics(Kind.L1_SMALL).size, trace_size=allocator.statistics(Kind.TRACE).size
        )
        info = ChipInfo(
            self.unique_id,
            kmd=self.kmd,
            arch=geometry.arch,
            board=self.board.name,
            remote=self.remote,
            geometry=geometry,
        )
        tracker.track_device_open(self, info)


_P = TypeVar("_P", bound="AnyDevice")


class _Captured(NamedTuple):
    trace: Trace
    buffer: Buffer
    programs: list[SimProgram]


class AnyDevice:
    """A device, mesh or submesh: anything with its own allocator."""

    is_open = False

    def __init__(
        self, chips: Sequence[Chip], number: int, options: Options, tracker: GraphTracker, allocator_id: int = 0
    ) -> None:
        silicon = chips[0].board.silicon
        self.id = number
        self.allocator_id = allocator_id
        self.options = options
        self.tracker = tracker
        self.allocator = Allocator(
            chips[0].board.geometry(worker_l1_size=options.worker_l1_size),
            dram_base=silicon.dram_base,
            dram_alignment=silicon.dram_alignment,
            l1_small_size=options.l1_small_size,
            trace_region_size=options.trace_region_size,
        )
        self.program_cache: dict[Hashable, SimProgram] = {}
        self.launches = 0  # launches of programs so far; a trace counts each program that it replays
        self._chips = list(chips)
        self._buffers: weakref.WeakSet[Buffer] = weakref.WeakSet()
        self._programs: weakref.WeakSet[SimProgram] = weakref.WeakSet()
        self._traces = Traces(self.allocator, number)
        self._captured: dict[int, _Captured] = {}
        self._capturing: list[SimProgram] | None = None
        self._last_trace = 0
        self.written: dict[tuple[int, int], int] = {}  # with kernel writes: bytes in the ring of each core
        self.is_open = True
        _devices.add(self)

    def get_devices(self) -> list[Chip]:
        return self._chips

    @property
    def numbers(self) -> list[int]:
        """The device numbers of its chips in this process."""
        return [chip.id for chip in self._chips]

    @property
    def chips(self) -> list[str]:
        """The unique ids of its chips."""
        return [chip.unique_id for chip in self._chips]

    @property
    def grid(self) -> list[CoreRange]:
        """The whole compute grid."""
        geometry = self.allocator.geometry
        return [CoreRange(0, 0, geometry.grid_x - 1, geometry.grid_y - 1)]

    @property
    def unit(self) -> int:
        """The alignment of addresses."""
        return self._chips[0].board.silicon.dram_alignment

    def check_open(self) -> None:
        if not self.is_open:
            raise SimError(f"device {self.id} is closed; open it again with create_device")

    # -- memory --------------------------------------------------------------------------------------------------

    def allocate(
        self,
        kind: Kind,
        need: BufferNeed,
        *,
        tag: str | None = None,
        system: bool = False,
        bottom_up: bool | None = None,
    ) -> Buffer:
        """Allocate memory for a buffer, or raise the error that ttnn would raise."""
        self.check_open()
        return self._made(kind, need, self.allocator.allocate(kind, need, bottom_up=bottom_up), tag, system)

    def _made(self, kind: Kind, need: BufferNeed, address: int, tag: str | None, system: bool = False) -> Buffer:
        buffer = Buffer(self, kind, need, address, tag, system)
        self._buffers.add(buffer)
        self.tracker.track_allocate(buffer)
        return buffer

    def give_back(self, buffer: Buffer) -> None:
        """Free a buffer. Does nothing after the device was closed."""
        if self.is_open:
            self.tracker.track_deallocate(buffer)
            self.allocator.free(buffer.buffer_type, buffer.address)

    def buffers(self) -> list[Buffer]:
        """Every live buffer."""
        return [buffer for buffer in self._buffers if buffer.is_allocated]

    # -- programs ------------------------------------------------------------------------------------------------

    def run(self, key: Hashable, build: Callable[[], SimProgram]) -> SimProgram:
        """Launch a program from the cache; the first time it is built and compiled."""
        program = self.program_cache.get(key)
        if program is None:
            program = build()
            self.launch(program)
            self.program_cache[key] = program
        else:
            self.launch(program)
        return program

    def launch(self, program: SimProgram) -> None:
        """Compile a program if necessary, check its buffers against L1, and make it resident."""
        self.check_open()
        self._programs.add(program)
        program.compile(self)
        program.check(self)
        self.tracker.track_program(program.id, self, program.cores)
        if self.options.kernel_writes:
            self._write_kernels(program, program.cores)
        self.launches += 1
        if self._capturing is not None:
            self._capturing.append(program)

    def _write_kernels(self, program: SimProgram, where: int) -> None:
        """Write kernels into the ring of each of these cores, replacing earlier ones."""
        ring, board = self.allocator.geometry.map_end, self._chips[0].board
        for group in program.groups():
            for core in cores_of(group.cores & where):
                self.written[core] = group.size
                self.tracker.track_core_write(self, board.noc_of(*core), ring, group.size, program.name)

    def programs(self) -> list[SimProgram]:
        """Every program on this device, cached or held by the workload."""
        return [program for program in self._programs if program.is_compiled(self)]

    def clear_program_cache(self) -> None:
        for program in self.program_cache.values():
            program.destroy()
        self.program_cache.clear()

    # -- traces --------------------------------------------------------------------------------------------------

    def begin_trace_capture(self) -> int:
        self.check_open()
        if self._capturing is not None:
            raise SimError("a trace is being captured already; end it with end_trace_capture")
        self._capturing = []
        self._traces.begin()
        self._last_trace += 1
        return self._last_trace

    def end_trace_capture(self, trace_id: int) -> None:
        """Allocate a buffer for the recorded commands: in the trace region, or at the top of DRAM if there is none."""
        if self._capturing is None or trace_id != self._last_trace:
            raise SimError(f"trace {trace_id} is not being captured")
        programs, self._capturing = self._capturing, None
        size = _TRACE_HEADER_BYTES + sum(_TRACE_COMMAND_BYTES * (1 + program.parts) for program in programs)
        trace = self._traces.end(size)
        buffer = self._made(trace.kind, trace.need, trace.address, f"trace {trace_id}")
        self._captured[trace_id] = _Captured(trace, buffer, programs)

    def execute_trace(self, trace_id: int) -> None:
        """Replay a trace. This allocates no memory; on each core the trace's last program is resident again."""
        self.check_open()
        covered = 0
        last: list[tuple[SimProgram, int]] = []
        programs = self._find(trace_id).programs
        self.launches += len(programs)
        for program in reversed(programs):
            if program.cores & ~covered:
                last.append((program, program.cores & ~covered))
                covered |= program.cores
        for program, cores in reversed(last):
            self.tracker.track_program(program.id, self, cores)
            if self.options.kernel_writes:
                self._write_kernels(program, cores)

    def release_trace(self, trace_id: int) -> None:
        self.check_open()
        trace, buffer, _ = self._find(trace_id)
        del self._captured[trace_id]
        buffer.is_allocated = False
        self.tracker.track_deallocate(buffer)
        self._traces.release(trace)

    def _find(self, trace_id: int) -> _Captured:
        if trace_id not in self._captured:
            raise SimError(f"there is no trace {trace_id}; there are {sorted(self._captured) or 'none'}")
        return self._captured[trace_id]

    # -- opening and closing -------------------------------------------------------------------------------------

    def boot(self) -> None:
        """Open the chips, and allocate the runtime's own memory."""
        others = [device for device in opened() if device is not self and device.tracker is self.tracker]
        taken = {number for device in others for number in device.numbers}
        for chip in self._chips:
            if chip.id in taken:
                self.is_open = False
                raise SimError(f"device {chip.id} is open already in this process; close it first")
        for chip in self._chips:
            chip.boot(self.tracker, self.allocator)
        self._load_firmware()
        if self.options.system_dram:
            need = self.allocator.need_bytes(Kind.DRAM, self.options.system_dram, _SYSTEM_PAGE_BYTES)
            self._system = self.allocate(Kind.DRAM, need, tag="runtime", system=True)

    def _load_firmware(self) -> None:
        """Put on each chip what opening a device puts there: firmware on all cores, and the runtime's kernels."""
        board, geometry = self._chips[0].board, self.allocator.geometry
        mailbox = board.silicon.mailbox
        for y in range(geometry.grid_y):
            for x in range(geometry.grid_x):
                core = board.noc_of(x, y)
                self.tracker.track_core_write(self, core, 0, mailbox, "launch messages")
                self.tracker.track_core_write(self, core, mailbox, geometry.map_end - mailbox, "firmware")
        for kernel_type, name, size, cores in SYSTEM_KERNELS:
            self.tracker.track_kernel_load(size, kernel_type, self, kernel_type, cores, tag=name)

    def close(self) -> None:
        """Close the devices; this frees everything on them."""
        if self.is_open:
            self.is_open = False
            for program in list(self._programs):
                program.forget(self)
            for chip in self._chips:
                self.tracker.track_device_close(chip)

    def __enter__(self: _P) -> _P:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __del__(self) -> None:
        if self.is_open:
            self.close()


class Device(AnyDevice):
    """One chip, opened by itself."""


def create_device(
    device_id: int = 0, machine: str = "n150", *, l1_small_size: int = 0, trace_region_size: int = 0,
    worker_l1_size: int | None = None, system_dram: int = 0, kernel_writes: bool = False,
    tracker: GraphTracker | None = None,
) -> Device:  # fmt: skip
    """Open one device of a simulated machine.

    >>> device = create_device(0, "n150", tracker=GraphTracker(AllocationClient(enabled=False)))
    >>> device.allocator.geometry.cores
    64
    """
    found = machine_named(machine)
    if not 0 <= device_id < found.chips:
        raise SimError(f"{machine} has devices 0 to {found.chips - 1}, not {device_id}")
    options = Options(l1_small_size, trace_region_size, worker_l1_size, system_dram, kernel_writes)
    device = Device([Chip(device_id, found)], device_id, options, tracker or default_tracker())
    device.boot()
    return device


def close_device(device: AnyDevice) -> None:
    device.close()

# SPDX-License-Identifier: Apache-2.0
"""Programs: circular and dataflow buffers, scratchpads and kernels on ranges of cores, from compile to destruction."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from ttmem.model.core_sets import CoreRange, mask_of
from ttmem.sim.errors import SimError
from ttmem.sim.kernels import Group, Kernel, RingUse, check_ring, groups_of, ring_use
from ttmem.sim.placement import Tracks, rectangles

if TYPE_CHECKING:
    from ttmem.sim.buffer import Buffer
    from ttmem.sim.device import AnyDevice

_CB_INDICES = 32
_numbers = itertools.count(1)


class CircularBufferConfig(NamedTuple):
    """A number of tiles of a size on each core, with the index that kernels use."""

    num_tiles: int
    tile_size: int
    buffer_index: int = 0

    @property
    def total_size(self) -> int:
        return self.num_tiles * self.tile_size


class CircularBuffer(NamedTuple):
    """A circular or dataflow buffer of a program; with a ``backing`` buffer it is globally allocated."""

    ranges: tuple[CoreRange, ...]
    size: int  # on each core
    buffer_index: int
    backing: Buffer | None = None
    offset: int = 0

    @property
    def cores(self) -> int:
        return mask_of(self.ranges)


class _Compiled:
    """The compiled form of a program on one device or mesh."""

    def __init__(self, cbs: Tracks, dfbs: Tracks, ring: RingUse) -> None:
        self.cbs = cbs
        self.dfbs = dfbs
        self.ring = ring
        self.addresses: list[int] = []


class SimProgram:
    """A program. It holds its circular buffers and kernels from its first launch until it is destroyed.

    >>> from ttmem.sim.kernels import compute_kernel
    >>> program = SimProgram("matmul")
    >>> grid = [CoreRange(0, 0, 7, 7)]
    >>> _ = create_circular_buffer(program, grid, CircularBufferConfig(num_tiles=2, tile_size=2048))
    >>> program.add_kernel(compute_kernel("mm", (6000, 5000, 4000)), grid)
    0
    """

    def __init__(self, name: str = "program") -> None:
        self.id = next(_numbers)
        self.name = name
        self.circular_buffers: list[CircularBuffer] = []
        self.dataflow_buffers: list[CircularBuffer] = []
        self.scratchpads: list[CircularBuffer] = []
        self.kernels: list[tuple[Kernel, tuple[CoreRange, ...]]] = []
        self.semaphores = 0
        self._compiled: dict[AnyDevice, _Compiled] = {}

    # -- making one ----------------------------------------------------------------------------------------------

    def add_kernel(self, kernel: Kernel, core_ranges: Sequence[CoreRange]) -> int:
        """Add a kernel on these cores; returns its handle."""
        self._check_unfinished()
        self.kernels.append((kernel, tuple(core_ranges)))
        return len(self.kernels) - 1

    def add_circular_buffer(self, one: CircularBuffer) -> int:
        self._check_unfinished()
        if self.dataflow_buffers:
            raise SimError("a program has circular buffers or dataflow buffers, not both")
        self._check_inside(one)
        if not 0 <= one.buffer_index < _CB_INDICES:
            raise SimError(f"circular buffer index {one.buffer_index} is not between 0 and {_CB_INDICES - 1}")
        if any(two.buffer_index == one.buffer_index and two.cores & one.cores for two in self.circular_buffers):
            raise SimError(f"circular buffer index {one.buffer_index} is taken on some of these cores")
        self.circular_buffers.append(one)
        return len(self.circular_buffers) - 1

    def add_dataflow_buffer(
        self, core_ranges: Sequence[CoreRange], size: int, *, borrowed: Buffer | None = None
    ) -> int:
        """Add a dataflow buffer, with its own memory or in the memory of a tensor."""
        self._check_unfinished()
        if self.circular_buffers:
            raise SimError("a program has circular buffers or dataflow buffers, not both")
        one = CircularBuffer(tuple(rectangles(core_ranges)), size, len(self.dataflow_buffers), borrowed)
        self._check_inside(one)
        self.dataflow_buffers.append(one)
        return one.buffer_index

    def add_scratchpad(self, core_ranges: Sequence[CoreRange], size: int) -> None:
        """Add memory for the kernels' own use, above the dataflow buffers."""
        self._check_unfinished()
        self.scratchpads.append(CircularBuffer(tuple(rectangles(core_ranges)), size, len(self.scratchpads)))

    def create_semaphore(self) -> int:
        self._check_unfinished()
        self.semaphores += 1
        return self.semaphores - 1

    def _check_unfinished(self) -> None:
        if self._compiled:
            raise SimError(f"program {self.id} ({self.name}) is compiled and cannot be changed any more")

    def _check_inside(self, one: CircularBuffer) -> None:
        if one.backing is not None and one.offset + one.size > one.backing.need.per_bank:
            raise SimError(
                f"a circular buffer of {one.size} B at offset {one.offset} does not fit a buffer of "
                f"{one.backing.need.per_bank} B per bank"
            )

    # -- what it is ----------------------------------------------------------------------------------------------

    @property
    def cores(self) -> int:
        """All cores it runs on, as a mask."""
        mask = 0
        for _, ranges in self.kernels:
            mask |= mask_of(ranges)
        for one in (*self.circular_buffers, *self.dataflow_buffers, *self.scratchpads):
            mask |= one.cores
        return mask

    @property
    def parts(self) -> int:
        return len(self.kernels) + len(self.circular_buffers) + len(self.dataflow_buffers) + len(self.scratchpads)

    def groups(self) -> list[Group]:
        return groups_of(self.kernels)

    def ring(self) -> RingUse:
        """The bytes that it needs in a core's kernel ring."""
        cbs: dict[int, int] = {}
        for one in self.circular_buffers:
            cbs[one.buffer_index] = cbs.get(one.buffer_index, 0) | one.cores
        return ring_use(self.groups(), semaphores=self.semaphores, cbs=cbs, dfbs=len(self.dataflow_buffers))

    def is_compiled(self, device: AnyDevice) -> bool:
        return device in self._compiled

    def addresses(self, device: AnyDevice) -> list[int]:
        """The addresses of its circular buffers, dataflow buffers and scratchpads, in the order they were added."""
        return self._compiled[device].addresses

    # -- on a device ---------------------------------------------------------------------------------------------

    def compile(self, device: AnyDevice) -> None:
        """Give every buffer its address and load the kernels. Only the first call does anything."""
        if device in self._compiled:
            return
        if any(not set(device.chips).isdisjoint(other.chips) for other in self._compiled):
            raise SimError(f"program {self.id} ({self.name}) exists on these chips already, on another mesh")
        base, unit = device.allocator.geometry.l1_base, device.unit
        ring, groups = self.ring(), self.groups()
        if self.cores & ~mask_of(device.grid):
            raise SimError(f"program {self.id} ({self.name}) has cores outside the compute grid {device.grid[0]}")
        compiled = self._compiled[device] = _Compiled(
            Tracks(base, unit, [one.ranges for one in self.circular_buffers]),
            Tracks(base, unit, [one.ranges for one in (*self.dataflow_buffers, *self.scratchpads)]),
            ring,
        )
        device.tracker.track_program_compiled(self.id, device, ring=ring.total, tag=self.name)
        self.allocate_circular_buffers(device, compiled)
        self.allocate_dataflow_buffers(device, compiled)
        if not device.options.kernel_writes:
            self.load_kernels(device, groups)

    def allocate_circular_buffers(self, device: AnyDevice, compiled: _Compiled) -> None:
        for one in self.circular_buffers:
            backing = one.backing
            address = compiled.cbs.place(one.ranges, one.size) if backing is None else backing.address + one.offset
            compiled.addresses.append(address)
            device.tracker.track_allocate_cb(
                one.ranges, address, one.size, device, program=self.id, globally_allocated=backing is not None,
                tag=f"{self.name} c_{one.buffer_index}",
            )  # fmt: skip

    def allocate_dataflow_buffers(self, device: AnyDevice, compiled: _Compiled) -> None:
        for one in self.dataflow_buffers:
            borrowed = one.backing
            address = compiled.dfbs.place(one.ranges, one.size) if borrowed is None else borrowed.address
            compiled.addresses.append(address)
            device.tracker.track_allocate_dataflow_buffer(
                one.ranges, address, one.size, device, program=self.id, borrows_memory=borrowed is not None,
                tag=f"{self.name} d_{one.buffer_index}",
            )  # fmt: skip
        for one in self.scratchpads:
            address = compiled.dfbs.place_above(one.ranges, one.size)
            compiled.addresses.append(address)
            device.tracker.track_allocate_scratchpad(
                one.ranges, address, one.size, device, program=self.id, tag=f"{self.name} scratchpad"
            )

    def load_kernels(self, device: AnyDevice, groups: Sequence[Group]) -> None:
        """Compute and data-movement binaries together, once for each group of cores that share them."""
        for number, group in enumerate(groups):
            device.tracker.track_kernel_load(
                group.size, self.id << 16 | number, device, 0, group.cores.bit_count(), program=self.id,
                cores=group.cores, tag=self.name,
            )  # fmt: skip

    def check(self, device: AnyDevice) -> None:
        """tt-metal's checks at every launch: the program must not overlap L1 buffers, and must fit into the ring."""
        l1_size, lowest = device.allocator.geometry.l1_size, device.allocator.lowest_l1()
        compiled = self._compiled[device]
        compiled.cbs.check("circular", self.id, l1_size, lowest)
        compiled.dfbs.check("dataflow", self.id, l1_size, lowest)
        check_ring(compiled.ring, device.allocator.geometry.ring_size, self.groups())

    def destroy(self) -> None:
        """Destroy the program, with everything that it holds."""
        for device in list(self._compiled):
            self.leave(device)

    def leave(self, device: AnyDevice) -> None:
        """Remove the program from one device or mesh."""
        if self.forget(device):
            device.tracker.track_program_destroyed(self.id, device)

    def forget(self, device: AnyDevice) -> bool:
        """The device was closed, with the program's memory on it; returns whether the program held anything there."""
        return self._compiled.pop(device, None) is not None

    def __del__(self) -> None:
        self.destroy()


def create_circular_buffer(
    program: SimProgram, core_ranges: Sequence[CoreRange], config: CircularBufferConfig, *,
    buffer: Buffer | None = None, address_offset: int = 0,
) -> int:  # fmt: skip
    """Add a circular buffer on these cores, with its own memory or inside an L1 buffer (globally allocated)."""
    if config.total_size <= 0:
        raise SimError(f"a circular buffer of {config.num_tiles} tiles of {config.tile_size} B has no size")
    if address_offset % 16:
        raise SimError(f"address_offset {address_offset} is not a multiple of 16")
    ranges = tuple(rectangles(core_ranges))
    return program.add_circular_buffer(
        CircularBuffer(ranges, config.total_size, config.buffer_index, buffer, address_offset)
    )


def launch_program(device: AnyDevice, program: SimProgram) -> None:
    """Compile the program if necessary, and make it resident on its cores."""
    device.launch(program)

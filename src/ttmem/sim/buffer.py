# SPDX-License-Identifier: Apache-2.0
"""Buffers of a simulated device: allocated when they are created, freed when the last reference goes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ttmem.model.kinds import Kind
from ttmem.sim.errors import SimError
from ttmem.sim.tensors import BufferNeed, TensorSpec

if TYPE_CHECKING:
    from ttmem.sim.device import AnyDevice, Chip
    from ttmem.sim.mesh import MeshDevice


class Buffer:
    """A buffer on a device, or the same buffer on every device of a mesh. Devices and meshes create it."""

    owns_data = True

    def __init__(
        self,
        device: AnyDevice,
        kind: Kind,
        need: BufferNeed,
        address: int,
        tag: str | None = None,
        system: bool = False,
    ) -> None:
        self.device = device
        self.buffer_type = kind
        self.need = need
        self.address = address
        self.tag = tag
        self.system = system
        self.allocator_id = device.allocator_id
        self.is_allocated = True

    @property
    def size(self) -> int:
        """Requested bytes on one device."""
        return self.need.pages * self.need.page

    @property
    def per_bank(self) -> int:
        """Reserved bytes in every bank of its kind."""
        return self.device.allocator.blocks(self.buffer_type).taken(self.need.per_bank)

    @property
    def reserved(self) -> int:
        """Reserved bytes on one device: the same in every bank, whether it has pages or not."""
        return self.per_bank * self.device.allocator.banks(self.buffer_type)

    def deallocate(self) -> None:
        """Free the memory; a second call does nothing, as in ttnn."""
        if self.is_allocated:
            self.is_allocated = False
            self.device.give_back(self)

    def __del__(self) -> None:
        self.deallocate()


class DeviceBuffer:
    """The part of a mesh buffer on one device: a view without its own memory."""

    owns_data = False

    def __init__(self, device: Chip, backing: Buffer) -> None:
        self.device = device
        self.address = backing.address
        self.size = backing.size
        self.buffer_type = backing.buffer_type


class ReplicatedBufferConfig(NamedTuple):
    """The whole buffer on every device."""

    size: int


class ShardedBufferConfig(NamedTuple):
    """An equal part of the buffer on each device."""

    global_size: int


class MeshBuffer:
    """A buffer over a mesh: one address, held by a backing buffer, and a view of it on each device."""

    def __init__(
        self, mesh: MeshDevice, config: ReplicatedBufferConfig | ShardedBufferConfig, page_size: int,
        kind: Kind = Kind.DRAM, *, tag: str | None = None,
    ) -> None:  # fmt: skip
        devices = mesh.get_devices()
        if isinstance(config, ReplicatedBufferConfig):
            size = config.size
        elif config.global_size % len(devices):
            raise SimError(f"a buffer of {config.global_size} B cannot be cut into {len(devices)} equal parts")
        else:
            size = config.global_size // len(devices)
        self.backing = mesh.allocate(kind, mesh.allocator.need_bytes(kind, size, page_size), tag=tag)
        self._views = {device.id: DeviceBuffer(device, self.backing) for device in devices}
        for view in self._views.values():
            mesh.tracker.track_allocate(view)

    @property
    def address(self) -> int:
        return self.backing.address

    @property
    def device_local_size(self) -> int:
        return self.backing.size

    def get_device_buffer(self, device_id: int) -> DeviceBuffer:
        return self._views[device_id]

    def deallocate(self) -> None:
        for view in self._views.values():
            self.backing.device.tracker.track_deallocate(view)
        self.backing.deallocate()


class InterleavedBufferConfig(NamedTuple):
    """Pages are distributed to all banks in turn."""

    device: AnyDevice
    size: int
    page_size: int
    buffer_type: Kind = Kind.DRAM


def create_buffer(config: InterleavedBufferConfig, *, tag: str | None = None) -> Buffer:
    """Create a buffer by its size and page size."""
    device, size, page_size, kind = config
    if size <= 0 or page_size <= 0:
        raise SimError(f"a buffer of {size} B in pages of {page_size} B cannot be made; both must be positive")
    return device.allocate(kind, device.allocator.need_bytes(kind, size, page_size), tag=tag)


def allocate_tensor(device: AnyDevice, spec: TensorSpec, kind: Kind = Kind.DRAM, *, tag: str | None = None) -> Buffer:
    """Create the buffer of a tensor, interleaved or sharded according to its specification."""
    need = device.allocator.need(kind, spec)
    if need is None:
        raise SimError(f"a tensor of shape {spec.shape} has no elements, and so no buffer")
    return device.allocate(kind, need, tag=tag)


def deallocate_buffer(buffer: Buffer | MeshBuffer) -> None:
    buffer.deallocate()

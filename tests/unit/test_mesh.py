# SPDX-License-Identifier: Apache-2.0
"""Meshes: one address on every chip, submeshes with separate allocators, and each chip reported once."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.heard import Heard
from ttmem.model.events import Allocated, Freed
from ttmem.model.kinds import Kind
from ttmem.sim.buffer import (
    Buffer,
    InterleavedBufferConfig,
    MeshBuffer,
    ReplicatedBufferConfig,
    ShardedBufferConfig,
    create_buffer,
    deallocate_buffer,
)
from ttmem.sim.device import AnyDevice, create_device
from ttmem.sim.errors import SimError
from ttmem.sim.kernels import data_movement_kernel
from ttmem.sim.mesh import MeshDevice, create_mesh_device
from ttmem.sim.program import CircularBufferConfig, SimProgram, create_circular_buffer

CHIPS = [f"sim-t3k-{number}" for number in range(8)]
KINDS = (Kind.DRAM, Kind.L1)


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def mesh(heard: Heard) -> MeshDevice:
    return create_mesh_device("t3k", tracker=heard.tracker)


def buffer_on(device: AnyDevice, size: int = 4096, kind: Kind = Kind.L1) -> Buffer:
    return create_buffer(InterleavedBufferConfig(device, size, 2048, kind))


def used(heard: Heard, *kinds: Kind) -> list[int]:
    return [heard.used(chip_id, *kinds) for chip_id in CHIPS]


def ids(mesh: MeshDevice) -> list[int]:
    return [chip.id for chip in mesh.get_devices()]


def small_program(device: AnyDevice) -> Callable[[], SimProgram]:
    def build() -> SimProgram:
        program = SimProgram()
        create_circular_buffer(program, device.grid, CircularBufferConfig(2, 2048))
        program.add_kernel(data_movement_kernel("reader", 1000), device.grid)
        return program

    return build


@pytest.mark.parametrize("kind", KINDS)
def test_addresses_are_those_of_one_chip(heard: Heard, mesh: MeshDevice, kind: Kind) -> None:
    device = create_device(0, "n300", tracker=Heard().tracker)
    sizes = (4096, 1 << 20, 100)
    on_mesh = [buffer_on(mesh, size, kind) for size in sizes]
    on_device = [buffer_on(device, size, kind) for size in sizes]
    assert [buffer.address for buffer in on_mesh] == [buffer.address for buffer in on_device]
    assert used(heard, kind) == [sum(buffer.size for buffer in on_mesh)] * 8
    assert heard.agrees_with([mesh])


def test_programs_are_on_every_chip(heard: Heard, mesh: MeshDevice) -> None:
    program = mesh.run("key", small_program(mesh))
    assert program.addresses(mesh) == [mesh.allocator.geometry.l1_base]
    assert used(heard, Kind.CB) == [4096 * 64] * 8
    assert used(heard, Kind.KERNEL) == [1000 * 64] * 8
    assert heard.agrees_with([mesh])


@pytest.mark.parametrize(
    ("config", "on_each"), [(ReplicatedBufferConfig(8 << 20), 8 << 20), (ShardedBufferConfig(8 << 20), 1 << 20)]
)
def test_a_mesh_buffer_is_reported_once_for_all_its_chips(
    heard: Heard, mesh: MeshDevice, config: ReplicatedBufferConfig | ShardedBufferConfig, on_each: int
) -> None:
    before = len(heard.events)
    buffer = MeshBuffer(mesh, config, 2048, tag="weights")
    told = heard.events[before:]
    assert [(event.device, event.size, event.address) for event in told if isinstance(event, Allocated)] == [
        (tuple(range(8)), on_each, buffer.address)
    ]
    assert len(told) == 1
    assert used(heard, Kind.DRAM) == [on_each] * 8
    assert buffer.device_local_size == on_each
    for number in range(8):
        part = buffer.get_device_buffer(number)
        assert (part.device.id, part.address, part.size) == (number, buffer.address, on_each)
    before = len(heard.events)
    deallocate_buffer(buffer)
    assert [type(event) for event in heard.events[before:]] == [Freed]
    assert heard.agrees_with([mesh])


def test_a_mesh_buffer_that_cannot_be_cut(mesh: MeshDevice) -> None:
    with pytest.raises(SimError, match="a buffer of 100 B cannot be cut into 8 equal parts"):
        MeshBuffer(mesh, ShardedBufferConfig(100), 4)


def test_parts_hand_out_the_addresses_of_the_whole(heard: Heard, mesh: MeshDevice) -> None:
    """Allocators are independent: on one chip, three live buffers may have the same address, as with tt-metal."""
    parts = [mesh.create_submesh((1, 2)), mesh.create_submesh((2, 2), (0, 1))]
    buffers = [buffer_on(device) for device in (mesh, *parts)]
    assert len({buffer.address for buffer in buffers}) == 1
    assert [ids(part) for part in parts] == [[0, 1], [1, 2, 5, 6]]
    assert used(heard, Kind.L1) == [4096 * n for n in (2, 3, 2, 1, 1, 2, 2, 1)]
    assert len({buffer.allocator_id for buffer in buffers}) == 3
    assert heard.agrees_with([mesh, *parts])
    buffers[2].deallocate()
    assert used(heard, Kind.L1) == [4096 * n for n in (2, 2, 1, 1, 1, 1, 1, 1)]
    assert heard.agrees_with([mesh, *parts])


def test_a_part_is_opened_as_the_whole_was(heard: Heard) -> None:
    mesh = create_mesh_device("t3k", l1_small_size=32768, system_dram=1 << 20, tracker=heard.tracker)
    part = mesh.create_submesh((1, 1))
    assert part.allocator.geometry == mesh.allocator.geometry
    assert part.allocator.view(Kind.L1_SMALL) == mesh.allocator.view(Kind.L1_SMALL)
    assert used(heard, Kind.DRAM) == [1 << 20] * 8, "what the runtime took is there once"
    assert heard.agrees_with([mesh, part])


def test_closing_a_part_frees_what_is_on_it_and_no_more(heard: Heard, mesh: MeshDevice) -> None:
    part = mesh.create_submesh((1, 2))
    kept, gone = buffer_on(mesh), buffer_on(part, 8192)
    cached = part.run("key", small_program(part))
    outside = mesh.run("key", small_program(mesh))
    part.close()
    part.close()
    assert used(heard, Kind.L1) == [4096] * 8
    assert used(heard, Kind.CB) == [4096 * 64] * 8
    assert not gone.is_allocated
    assert kept.is_allocated
    assert not cached.is_compiled(part)
    assert outside.is_compiled(mesh)
    assert mesh.is_open
    with pytest.raises(SimError, match="is closed"):
        buffer_on(part)
    assert heard.agrees_with([mesh, part])


def test_closing_the_whole_closes_its_parts(heard: Heard, mesh: MeshDevice) -> None:
    part = mesh.create_submesh((2, 2))
    inner = part.create_submesh((1, 1), (1, 1))
    assert ids(inner) == [5]
    buffers = [buffer_on(device) for device in (mesh, part, inner)]
    mesh.close()
    assert not any(device.is_open for device in (mesh, part, inner))
    assert used(heard, *Kind) == [0] * 8
    for buffer in buffers:
        buffer.deallocate()
    assert heard.agrees_with([mesh, part, inner])


def test_two_meshes_side_by_side(heard: Heard) -> None:
    first = create_mesh_device("t3k", (1, 4), tracker=heard.tracker)
    second = create_mesh_device("t3k", (2, 2), first=4, tracker=heard.tracker)
    assert (ids(first), ids(second)) == ([0, 1, 2, 3], [4, 5, 6, 7])
    buffers = [buffer_on(first), buffer_on(second, 8192)]
    assert used(heard, Kind.L1) == [4096] * 4 + [8192] * 4
    first.close()
    assert used(heard, Kind.L1) == [0] * 4 + [8192] * 4
    assert buffers[1].is_allocated
    assert heard.agrees_with([first, second])


@pytest.mark.parametrize(
    ("shape", "offset"),
    [((3, 1), (0, 0)), ((1, 5), (0, 0)), ((1, 1), (2, 0)), ((1, 2), (0, 3)), ((0, 1), (0, 0)), ((1, 1), (-1, 0))],
)
def test_parts_that_do_not_fit(mesh: MeshDevice, shape: tuple[int, int], offset: tuple[int, int]) -> None:
    with pytest.raises(SimError, match=rf"a {shape[0]}x{shape[1]} submesh at .* does not fit a 2x4 mesh"):
        mesh.create_submesh(shape, offset)


@pytest.mark.parametrize(("shape", "first"), [((3, 3), 0), ((2, 4), 1), ((0, 4), 0), ((1, 1), -1)])
def test_meshes_that_do_not_fit(shape: tuple[int, int], first: int) -> None:
    with pytest.raises(SimError, match="needs more than the 8 of t3k"):
        create_mesh_device("t3k", shape, first=first)


def test_a_part_of_a_closed_mesh(mesh: MeshDevice) -> None:
    mesh.close()
    with pytest.raises(SimError, match="is closed"):
        mesh.create_submesh((1, 1))

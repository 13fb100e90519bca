# SPDX-License-Identifier: Apache-2.0
"""Programs on a simulated device: the addresses of their buffers, their reports, their errors."""

from __future__ import annotations

import pytest

from tests.heard import Heard
from ttmem.model.core_sets import CoreRange, mask_of
from ttmem.model.events import ProgramCompiled, ProgramDestroyed, ProgramRun
from ttmem.model.kinds import Kind
from ttmem.sim.buffer import Buffer, InterleavedBufferConfig, create_buffer
from ttmem.sim.device import Device, create_device
from ttmem.sim.errors import Clash, RingTooSmall, SimError
from ttmem.sim.kernels import compute_kernel, data_movement_kernel
from ttmem.sim.program import CircularBuffer, CircularBufferConfig, SimProgram, create_circular_buffer, launch_program

BASE, UNIT, L1_SIZE, RING = 105824, 32, 1499136, 70656
CHIP = "sim-n150-0"
GRID, LEFT, RIGHT = CoreRange(0, 0, 7, 7), CoreRange(0, 0, 3, 7), CoreRange(4, 0, 7, 7)


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def device(heard: Heard) -> Device:
    return create_device(0, "n150", tracker=heard.tracker)


def l1_buffer(device: Device, per_bank: int) -> Buffer:
    return create_buffer(InterleavedBufferConfig(device, 64 * per_bank, 2048, Kind.L1))


def with_buffer(size: int, *ranges: CoreRange) -> SimProgram:
    program = SimProgram()
    create_circular_buffer(program, ranges or [GRID], CircularBufferConfig(1, size))
    return program


def test_circular_buffers_lie_one_above_the_other(device: Device) -> None:
    program = SimProgram()
    for index, tiles in enumerate((2, 1, 3)):
        handle = create_circular_buffer(program, [GRID], CircularBufferConfig(tiles, 100, index))
        assert handle == index
    launch_program(device, program)
    assert program.addresses(device) == [BASE, BASE + 224, BASE + 224 + 128]


def test_every_program_starts_at_the_base(heard: Heard, device: Device) -> None:
    programs = [with_buffer(4096), with_buffer(8192)]
    for program in programs:
        launch_program(device, program)
    assert [program.addresses(device) for program in programs] == [[BASE], [BASE]]
    assert heard.used(CHIP, Kind.CB) == (4096 + 8192) * 64
    assert heard.agrees_with([device])


def test_ranges_are_merged_unless_a_program_is_given_them_as_they_are(device: Device) -> None:
    merged, kept = SimProgram(), SimProgram()
    create_circular_buffer(merged, [RIGHT, LEFT], CircularBufferConfig(1, 100))
    kept.add_circular_buffer(CircularBuffer((RIGHT, LEFT), 100, 0))
    assert [one.ranges for one in merged.circular_buffers] == [(GRID,)]
    assert [one.ranges for one in kept.circular_buffers] == [(RIGHT, LEFT)]


def test_a_globally_allocated_buffer_takes_nothing(heard: Heard, device: Device) -> None:
    tensor = l1_buffer(device, 8192)
    program = SimProgram()
    inside = CircularBufferConfig(2, 2048, 0)
    create_circular_buffer(program, [LEFT], inside, buffer=tensor, address_offset=4096)
    create_circular_buffer(program, [LEFT], CircularBufferConfig(1, 2048, 1))
    launch_program(device, program)
    assert program.addresses(device) == [tensor.address + 4096, BASE]
    assert heard.used(CHIP, Kind.CB) == 2048 * 32
    assert sorted(allocation.counted for allocation in heard.allocations(Kind.CB)) == [0, 2048 * 32]
    assert heard.agrees_with([device])


@pytest.mark.parametrize(
    ("config", "offset", "words"),
    [
        (CircularBufferConfig(0, 2048), 0, "a circular buffer of 0 tiles of 2048 B has no size"),
        (CircularBufferConfig(1, 2048), 8, "address_offset 8 is not a multiple of 16"),
        (CircularBufferConfig(4, 2048), 16, "a circular buffer of 8192 B at offset 16 does not fit a buffer of 8192 B"),
    ],
)
def test_what_does_not_fit(device: Device, config: CircularBufferConfig, offset: int, words: str) -> None:
    with pytest.raises(SimError, match=words):
        create_circular_buffer(SimProgram(), [GRID], config, buffer=l1_buffer(device, 8192), address_offset=offset)


def test_circular_or_dataflow_buffers(device: Device) -> None:
    program = with_buffer(64)
    with pytest.raises(SimError, match="circular buffers or dataflow buffers, not both"):
        program.add_dataflow_buffer([GRID], 64)
    other = SimProgram()
    other.add_dataflow_buffer([GRID], 64)
    with pytest.raises(SimError, match="circular buffers or dataflow buffers, not both"):
        create_circular_buffer(other, [GRID], CircularBufferConfig(1, 64))


def test_dataflow_buffers_and_scratchpads(heard: Heard, device: Device) -> None:
    tensor = l1_buffer(device, 8192)
    program = SimProgram()
    assert program.add_dataflow_buffer([LEFT], 1000) == 0
    assert program.add_dataflow_buffer([LEFT], 2048, borrowed=tensor) == 1
    program.add_scratchpad([GRID], 100)
    assert program.add_dataflow_buffer([RIGHT], 50) == 2
    launch_program(device, program)
    assert program.addresses(device) == [BASE, tensor.address, BASE, BASE + 1024]
    assert heard.used(CHIP, Kind.DFB) == (1000 + 50) * 32
    assert heard.used(CHIP, Kind.SCRATCHPAD) == 100 * 64
    assert heard.agrees_with([device])
    program.destroy()
    assert heard.agrees_with([device])


def test_kernels_are_loaded_for_the_cores_that_share_them(heard: Heard, device: Device) -> None:
    program = SimProgram()
    assert program.add_kernel(data_movement_kernel("reader", 1000), [GRID]) == 0
    assert program.add_kernel(compute_kernel("mm", (100, 200, 300)), [LEFT]) == 1
    launch_program(device, program)
    loads = [
        (allocation.size, allocation.extra.cores if allocation.extra else 0)
        for allocation in heard.allocations(Kind.KERNEL)
    ]
    assert sorted(loads) == [(1000 * 32, mask_of([RIGHT])), (1600 * 32, mask_of([LEFT]))]
    assert heard.agrees_with([device])


def test_what_it_needs_of_the_ring(heard: Heard, device: Device) -> None:
    program = SimProgram("matmul")
    create_circular_buffer(program, [LEFT], CircularBufferConfig(1, 64, buffer_index=16))
    program.add_kernel(data_movement_kernel("reader", 1000, args=3), [GRID])
    assert [program.create_semaphore() for _ in range(2)] == [0, 1]
    assert program.ring() == (16, 32, 17 * 16, 0, 1008)
    launch_program(device, program)
    compiled = [event for event in heard.events if isinstance(event, ProgramCompiled)]
    assert compiled == [ProgramCompiled(0, program.id, program.ring().total, program.id, "matmul")]


def test_it_is_compiled_once_and_then_unchangeable(heard: Heard, device: Device) -> None:
    program = with_buffer(64)
    before = len(heard.events)
    launch_program(device, program)
    after_first = len(heard.events)
    launch_program(device, program)
    assert after_first > before + 1
    assert heard.events[after_first:] == [ProgramRun(0, program.id, mask_of([GRID]))]
    changes = [
        lambda: create_circular_buffer(program, [GRID], CircularBufferConfig(1, 64)),
        lambda: program.add_kernel(data_movement_kernel("late", 1), [GRID]),
        lambda: program.add_scratchpad([GRID], 64),
        lambda: program.add_dataflow_buffer([GRID], 64),
        program.create_semaphore,
    ]
    for change in changes:
        with pytest.raises(SimError, match="is compiled and cannot be changed any more"):
            change()


def test_it_holds_its_parts_until_it_is_gone(heard: Heard, device: Device) -> None:
    program = with_buffer(4096)
    program.add_kernel(data_movement_kernel("reader", 1000), [GRID])
    launch_program(device, program)
    assert heard.used(CHIP, Kind.CB, Kind.KERNEL) == (4096 + 1000) * 64
    ident = program.id
    del program
    assert heard.used(CHIP, Kind.CB, Kind.KERNEL) == 0
    assert [event for event in heard.events if isinstance(event, ProgramDestroyed)] == [ProgramDestroyed(0, ident)]


def test_a_clash_is_found_at_every_launch(device: Device) -> None:
    program = with_buffer(1_000_000, LEFT)
    launch_program(device, program)
    tensor = l1_buffer(device, 512 * 1024)
    with pytest.raises(Clash) as error:
        launch_program(device, program)
    assert str(error.value) == (
        f"Statically allocated circular buffers in program {program.id} clash with L1 buffers on core range "
        f"[0-0 - 3-7]. L1 buffer allocated at {tensor.address} and static circular buffer region ends at "
        f"{BASE + 1_000_000}"
    )
    tensor.deallocate()
    launch_program(device, program)


def test_dataflow_buffers_clash_in_their_own_words(device: Device) -> None:
    program = SimProgram()
    program.add_dataflow_buffer([LEFT], L1_SIZE)
    with pytest.raises(Clash, match=r"^Statically allocated dataflow buffers on core range \[0-0 - 3-7\] grow to"):
        launch_program(device, program)


def test_the_cores_of_a_globally_allocated_buffer_count_in_a_clash(device: Device) -> None:
    """ttnn checks every rectangle of the program in its order, also those of buffers inside tensors."""
    tensor = l1_buffer(device, 512 * 1024)
    program = SimProgram()
    create_circular_buffer(program, [LEFT], CircularBufferConfig(1, 2048, 0), buffer=tensor)
    create_circular_buffer(program, [GRID], CircularBufferConfig(1, 1_000_000, 1))
    with pytest.raises(Clash, match=r"on core range \[0-0 - 3-7\]\."):
        launch_program(device, program)


def test_l1_small_is_not_looked_at(heard: Heard) -> None:
    device = create_device(0, "n150", l1_small_size=32768, tracker=heard.tracker)
    program = with_buffer(L1_SIZE - BASE)
    launch_program(device, program)
    assert program.addresses(device) == [BASE]


def test_a_program_too_large_for_the_ring(device: Device) -> None:
    program = SimProgram()
    program.add_kernel(data_movement_kernel("reader", RING + 1), [GRID])
    with pytest.raises(RingTooSmall, match=rf"^Program size \({RING + 16}\) .* \({RING}\) on TENSIX, 16 B over:"):
        launch_program(device, program)
    fits = SimProgram()
    fits.add_kernel(data_movement_kernel("reader", RING), [GRID])
    launch_program(device, fits)


def test_a_clash_comes_before_the_ring(device: Device) -> None:
    """As in ttnn, which places and checks the buffers of a program before it packs the rest."""
    program = with_buffer(L1_SIZE)
    program.add_kernel(data_movement_kernel("reader", RING + 1), [GRID])
    with pytest.raises(Clash):
        launch_program(device, program)


@pytest.mark.parametrize("size", [L1_SIZE, 64])
def test_a_program_that_was_refused_leaves_nothing(heard: Heard, device: Device, size: int) -> None:
    program = with_buffer(size)
    program.add_kernel(data_movement_kernel("reader", RING + 1), [GRID])
    with pytest.raises(SimError):
        launch_program(device, program)
    del program
    assert heard.used(CHIP, Kind.CB, Kind.KERNEL) == 0
    assert heard.agrees_with([device])


def test_cores_and_parts() -> None:
    program = with_buffer(64, LEFT)
    program.add_kernel(data_movement_kernel("reader", 1), [CoreRange(7, 7, 7, 7)])
    assert program.cores == mask_of([LEFT, CoreRange(7, 7, 7, 7)])
    assert program.parts == 2


def test_indices_and_cores_that_tt_metal_refuses(device: Device) -> None:
    grid = [GRID]
    program = SimProgram()
    create_circular_buffer(program, grid, CircularBufferConfig(1, 2048, 3))
    with pytest.raises(SimError, match="index 3 is taken on some of these cores"):
        create_circular_buffer(program, [CoreRange(7, 7, 7, 7)], CircularBufferConfig(1, 2048, 3))
    with pytest.raises(SimError, match="index 32 is not between 0 and 31"):
        create_circular_buffer(program, grid, CircularBufferConfig(1, 2048, 32))
    outside = SimProgram()
    create_circular_buffer(outside, [CoreRange(0, 0, 8, 0)], CircularBufferConfig(1, 2048))
    with pytest.raises(SimError, match="outside the compute grid"):
        launch_program(device, outside)

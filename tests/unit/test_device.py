# SPDX-License-Identifier: Apache-2.0
"""Simulated devices: memory taken by opening, program cache, traces, closing. All of it is reported."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.heard import Heard
from ttmem.model.core_sets import CoreRange, mask_of
from ttmem.model.events import DeviceOpened
from ttmem.model.kinds import Kind
from ttmem.sim.buffer import Buffer, InterleavedBufferConfig, allocate_tensor, create_buffer, deallocate_buffer
from ttmem.sim.device import Device, close_device, create_device, opened
from ttmem.sim.errors import Clash, SimError
from ttmem.sim.kernels import data_movement_kernel
from ttmem.sim.mesh import create_mesh_device
from ttmem.sim.program import CircularBufferConfig, SimProgram, create_circular_buffer
from ttmem.sim.tensors import TensorSpec

LAW = settings(max_examples=60, phases=[Phase.explicit, Phase.generate, Phase.shrink])
CHIP = "sim-n150-0"
GRID, LEFT, RIGHT = CoreRange(0, 0, 7, 7), CoreRange(0, 0, 3, 7), CoreRange(4, 0, 7, 7)
L1_SIZE, MAP_END = 1499136, 35168


@pytest.fixture
def heard() -> Heard:
    return Heard()


def dram(device: Device, size: int = 1 << 20) -> Buffer:
    return create_buffer(InterleavedBufferConfig(device, size, 2048))


def program_on(ranges: CoreRange = GRID, size: int = 4096) -> Callable[[], SimProgram]:
    def build() -> SimProgram:
        program = SimProgram()
        create_circular_buffer(program, [ranges], CircularBufferConfig(1, size))
        program.add_kernel(data_movement_kernel("reader", 1000), [ranges])
        return program

    return build


# -- opening and closing ---------------------------------------------------------------------------------------------


def test_what_opening_puts_on_a_chip(heard: Heard) -> None:
    device = create_device(0, "n150", tracker=heard.tracker)
    assert heard.used(CHIP, Kind.FABRIC_KERNEL) == 57344 * 16
    assert heard.used(CHIP, Kind.DISPATCH_KERNEL) == 47104 * 2
    assert heard.used(CHIP, Kind.FIRMWARE) == MAP_END * 64
    assert heard.used(CHIP, Kind.DRAM, Kind.L1) == 0
    assert heard.agrees_with([device])


def test_the_sizes_it_was_opened_with_are_reported(heard: Heard) -> None:
    create_device(1, "n150", l1_small_size=1000, trace_region_size=4 << 20, tracker=heard.tracker)
    (opening,) = [event for event in heard.events if isinstance(event, DeviceOpened)]
    geometry = opening.chip.geometry
    assert geometry is not None
    assert (opening.device, opening.chip.id, opening.chip.board) == (1, "sim-n150-1", "n150")
    assert (geometry.l1_small_size, geometry.trace_size, geometry.live) == (1024, 352256, True)


def test_a_smaller_ring_moves_the_base(heard: Heard) -> None:
    largest = L1_SIZE - MAP_END
    device = create_device(0, "n150", worker_l1_size=largest - 1000, tracker=heard.tracker)
    assert device.allocator.geometry.l1_base == 36192
    assert device.allocator.geometry.ring_size == 1024
    program = device.run("key", program_on(size=64))
    assert program.addresses(device) == [36192]


@pytest.mark.parametrize("worker_l1_size", [0, -1, L1_SIZE - MAP_END + 1])
def test_an_l1_that_is_not_there(heard: Heard, worker_l1_size: int) -> None:
    with pytest.raises(SimError, match=f"worker_l1_size {worker_l1_size} is not between 1 and {L1_SIZE - MAP_END}"):
        create_device(0, "n150", worker_l1_size=worker_l1_size, tracker=heard.tracker)


def test_what_the_runtime_takes_for_itself(heard: Heard) -> None:
    device = create_device(0, "n150", system_dram=14 << 20, tracker=heard.tracker)
    (allocation,) = heard.allocations(Kind.DRAM)
    assert allocation.size == 14 << 20
    assert allocation.extra is not None
    assert allocation.extra.system
    assert heard.agrees_with([device])


@pytest.mark.parametrize(("number", "machine"), [(-1, "n150"), (4, "n150"), (32, "galaxy")])
def test_a_device_that_is_not_there(number: int, machine: str) -> None:
    with pytest.raises(SimError, match=f"{machine} has devices 0 to .*, not {number}"):
        create_device(number, machine)


def test_a_machine_that_is_not_there() -> None:
    with pytest.raises(SimError, match="no machine 'grayskull' to simulate; there are n150, "):
        create_device(0, "grayskull")


def test_closing_takes_everything(heard: Heard) -> None:
    device = create_device(0, "n150", trace_region_size=1 << 20, tracker=heard.tracker)
    kept = dram(device)
    device.run("key", program_on())
    trace = device.begin_trace_capture()
    device.end_trace_capture(trace)
    assert device in opened()
    close_device(device)
    close_device(device)
    assert device not in opened()
    assert heard.agrees_with([device])
    assert not any(chip.kinds[kind].used for chip in heard.ledger.chips.values() for kind in Kind)
    before = len(heard.events)
    deallocate_buffer(kept)
    assert heard.events[before:] == []
    for use in (lambda: dram(device), lambda: device.run("other", program_on()), device.begin_trace_capture):
        with pytest.raises(SimError, match="device 0 is closed; open it again with create_device"):
            use()


def test_leaving_a_block_closes() -> None:
    heard = Heard()
    with create_device(0, "n150", tracker=heard.tracker) as device:
        assert device.is_open
    assert not device.is_open


def test_closing_one_device_leaves_the_other(heard: Heard) -> None:
    first, second = (create_device(number, "n150", tracker=heard.tracker) for number in (0, 1))
    kept = [dram(first), dram(second)]
    first.close()
    assert heard.used("sim-n150-0", Kind.DRAM) == 0
    assert heard.used("sim-n150-1", Kind.DRAM) == kept[1].size
    assert heard.agrees_with([first, second])


# -- buffers ---------------------------------------------------------------------------------------------------------


def test_a_buffer_is_given_back_once(heard: Heard) -> None:
    device = create_device(0, "n150", tracker=heard.tracker)
    first = dram(device)
    address = first.address
    first.deallocate()
    second = dram(device)
    assert second.address == address
    first.deallocate()
    del first
    assert device.buffers() == [second]
    assert heard.agrees_with([device])


def test_a_buffer_nobody_holds_is_given_back(heard: Heard) -> None:
    device = create_device(0, "n150", tracker=heard.tracker)
    buffer = dram(device)
    assert heard.used(CHIP, Kind.DRAM) == buffer.size
    del buffer
    assert heard.used(CHIP, Kind.DRAM) == 0


def test_what_was_taken_is_more_than_what_was_asked_for(heard: Heard) -> None:
    device = create_device(0, "n150", tracker=heard.tracker)
    buffer = create_buffer(InterleavedBufferConfig(device, 100, 100))
    assert (buffer.size, buffer.per_bank, buffer.reserved) == (100, 128, 128 * 12)
    chip = heard.ledger.chips[CHIP]
    assert (chip.kinds[Kind.DRAM].used, chip.kinds[Kind.DRAM].reserved) == (100, 128 * 12)


@pytest.mark.parametrize(("size", "page"), [(0, 2048), (2048, 0), (-1, 2048)])
def test_a_buffer_of_nothing(heard: Heard, size: int, page: int) -> None:
    device = create_device(0, "n150", tracker=heard.tracker)
    with pytest.raises(SimError, match=f"a buffer of {size} B in pages of {page} B cannot be made"):
        create_buffer(InterleavedBufferConfig(device, size, page))


def test_a_tensor_of_nothing(heard: Heard) -> None:
    device = create_device(0, "n150", tracker=heard.tracker)
    with pytest.raises(SimError, match=r"a tensor of shape \(0, 32\) has no elements"):
        allocate_tensor(device, TensorSpec((0, 32)))


# -- programs --------------------------------------------------------------------------------------------------------


def test_the_cache_builds_a_program_once(heard: Heard) -> None:
    device = create_device(0, "n150", tracker=heard.tracker)
    first = device.run("matmul", program_on())
    assert device.run("matmul", lambda: pytest.fail("built again")) is first
    assert device.programs() == [first]
    assert heard.used(CHIP, Kind.CB) == 4096 * 64
    del first
    assert heard.used(CHIP, Kind.CB) == 4096 * 64, "the cache holds it"
    held = device.program_cache["matmul"]
    device.clear_program_cache()
    assert not held.is_compiled(device)
    assert heard.used(CHIP, Kind.CB, Kind.KERNEL) == 0
    assert heard.agrees_with([device])


def test_a_program_that_clashes_is_not_cached(heard: Heard) -> None:
    device = create_device(0, "n150", tracker=heard.tracker)
    with pytest.raises(Clash):
        device.run("large", program_on(size=L1_SIZE))
    assert device.program_cache == {}
    assert heard.agrees_with([device])


def test_a_cached_program_may_clash_later_and_stays_cached(heard: Heard) -> None:
    device = create_device(0, "n150", tracker=heard.tracker)
    device.run("large", program_on(size=1_000_000))
    buffer = create_buffer(InterleavedBufferConfig(device, 64 << 19, 2048, Kind.L1))
    with pytest.raises(Clash):
        device.run("large", program_on())
    assert list(device.program_cache) == ["large"]
    buffer.deallocate()
    device.run("large", program_on())
    assert heard.agrees_with([device])


def resident(heard: Heard) -> dict[int, int]:
    """The cores on which each program ran last."""
    return {program.ident: cores for program, cores in heard.ledger.chips[CHIP].resident_programs() if cores}


def test_the_last_program_on_a_core_is_the_resident_one(heard: Heard) -> None:
    device = create_device(0, "n150", tracker=heard.tracker)
    whole = device.run("whole", program_on())
    left = device.run("left", program_on(LEFT))
    assert resident(heard) == {whole.id: mask_of([RIGHT]), left.id: mask_of([LEFT])}
    device.run("whole", program_on())
    assert resident(heard) == {whole.id: mask_of([GRID])}


# -- traces ----------------------------------------------------------------------------------------------------------


def test_a_replay_takes_no_memory_and_leaves_the_last_programs(heard: Heard) -> None:
    device = create_device(0, "n150", trace_region_size=1 << 20, tracker=heard.tracker)
    for key, ranges in (("whole", GRID), ("left", LEFT), ("right", RIGHT)):
        device.run(key, program_on(ranges))
    trace = device.begin_trace_capture()
    whole, left = device.run("whole", program_on()), device.run("left", program_on(LEFT))
    device.end_trace_capture(trace)
    assert heard.used(CHIP, Kind.TRACE) > 0
    device.run("right", program_on(RIGHT))
    before = heard.ledger.live_count()
    device.execute_trace(trace)
    assert heard.ledger.live_count() == before
    assert resident(heard) == {whole.id: mask_of([RIGHT]), left.id: mask_of([LEFT])}
    assert heard.agrees_with([device])
    device.release_trace(trace)
    assert heard.used(CHIP, Kind.TRACE) == 0
    assert heard.agrees_with([device])


def test_traces_that_are_not_there(heard: Heard) -> None:
    device = create_device(0, "n150", trace_region_size=1 << 20, tracker=heard.tracker)
    with pytest.raises(SimError, match="trace 0 is not being captured"):
        device.end_trace_capture(0)
    trace = device.begin_trace_capture()
    with pytest.raises(SimError, match="a trace is being captured already"):
        device.begin_trace_capture()
    device.end_trace_capture(trace)
    device.release_trace(trace)
    for use in (device.release_trace, device.execute_trace):
        with pytest.raises(SimError, match=f"there is no trace {trace}; there are none"):
            use(trace)


# -- everything ------------------------------------------------------------------------------------------------------

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["buffer", "buffer", "free", "run", "run", "clear", "trace", "release"]), st.integers(0, 7)
    ),
    max_size=25,
)


@pytest.mark.parametrize("machine", ["n150", "t3k"])
@LAW
@given(steps=STEPS)
def test_what_is_heard_is_what_is_there(machine: str, steps: list[tuple[str, int]]) -> None:
    heard = Heard()
    device = (
        create_mesh_device("t3k", trace_region_size=1 << 20, tracker=heard.tracker)
        if machine == "t3k"
        else create_device(0, machine, trace_region_size=1 << 20, tracker=heard.tracker)
    )
    buffers: list[Buffer] = []
    traces: list[int] = []
    for what, choice in steps:
        if what == "buffer":
            kind = (Kind.DRAM, Kind.L1)[choice % 2]
            buffers.append(create_buffer(InterleavedBufferConfig(device, 1000 * (choice + 1), 100, kind)))
        elif what == "free" and buffers:
            buffers.pop(choice % len(buffers))
        elif what == "run":
            device.run(choice % 3, program_on((GRID, LEFT, RIGHT)[choice % 3]))
        elif what == "clear" and not traces:  # a trace keeps its programs
            device.clear_program_cache()
        elif what == "trace":
            traces.append(device.begin_trace_capture())
            device.run(choice % 3, program_on((GRID, LEFT, RIGHT)[choice % 3]))
            device.end_trace_capture(traces[-1])
        elif what == "release" and traces:
            device.release_trace(traces.pop(choice % len(traces)))
        assert heard.agrees_with([device])
    device.close()
    assert heard.agrees_with([device])


def test_kernels_as_writes_to_each_core() -> None:
    """As in the kernel rings: the next program overwrites them, and the end of a program changes nothing."""
    heard = Heard()
    device = create_device(0, "n150", kernel_writes=True, tracker=heard.tracker)
    one, two = SimProgram("one"), SimProgram("two")
    one.add_kernel(data_movement_kernel("reader", 5000), [CoreRange(0, 0, 7, 7)])
    two.add_kernel(data_movement_kernel("writer", 7000), [CoreRange(0, 0, 7, 0)])
    device.launch(one)
    assert heard.used("sim-n150-0", Kind.KERNEL) == 64 * 5000
    device.launch(two)
    device.launch(two)
    assert heard.used("sim-n150-0", Kind.KERNEL) == 56 * 5000 + 8 * 7000
    assert heard.agrees_with([device])
    one.destroy()
    two.destroy()
    assert heard.agrees_with([device])
    ring = [allocation for allocation in heard.allocations(Kind.KERNEL) if allocation.address >> 32]
    assert len(ring) == 64
    assert {allocation.address & 0xFFFFFFFF for allocation in ring} == {35168}
    assert not heard.ledger.anomalies


def test_a_chip_is_opened_once(heard: Heard) -> None:
    with create_device(0, "n150", tracker=heard.tracker):
        for again in (lambda: create_device(0, "n150", tracker=heard.tracker),
                      lambda: create_mesh_device("t3k", tracker=heard.tracker)):  # fmt: skip
            with pytest.raises(SimError, match="device 0 is open already in this process"):
                again()
    create_device(0, "n150", tracker=heard.tracker).close()
    assert not heard.ledger.anomalies


def test_a_forgotten_device_is_closed(heard: Heard) -> None:
    device = create_device(0, "n150", tracker=heard.tracker)
    assert heard.used("sim-n150-0", Kind.FIRMWARE)
    del device
    assert not heard.used("sim-n150-0", *Kind)


def test_a_trace_goes_with_its_device(heard: Heard) -> None:
    device = create_device(0, "n150", trace_region_size=1 << 20, tracker=heard.tracker)
    trace = device.begin_trace_capture()
    device.end_trace_capture(trace)
    device.close()
    with pytest.raises(SimError, match="device 0 is closed"):
        device.release_trace(trace)

# SPDX-License-Identifier: Apache-2.0
"""Calls of a runtime in the account: kernels count on each core, meshes on each device, views not at all."""

from __future__ import annotations

import io
import re
import threading
from typing import NamedTuple

import pytest

from tests.heard import Heard
from ttmem.collect.graph_tracker import BACKTRACE_VARIABLE, GraphTracker
from ttmem.model.core_sets import CoreRange, mask_of
from ttmem.model.events import Allocated, Freed, ProgramRun
from ttmem.model.geometry import BOARDS
from ttmem.model.identity import ChipInfo
from ttmem.model.kinds import Kind
from ttmem.model.units import human

GRID, LEFT = CoreRange(0, 0, 7, 7), CoreRange(0, 0, 3, 7)
CHIP = "assumed:0"
KIB = 1024


class Chip(NamedTuple):
    id: int


class Mesh(NamedTuple):
    id: int
    chips: list[Chip]

    def get_devices(self) -> list[Chip]:
        return self.chips


class Buffer(NamedTuple):
    device: Chip | Mesh
    address: int
    size: int
    buffer_type: Kind | int | str = Kind.DRAM


class Told(NamedTuple):
    """A buffer with every method that may be called."""

    device: Chip | Mesh
    address: int
    size: int
    buffer_type: Kind
    reserved: int = 0
    allocator_id: int = 0
    tag: str = "weights"
    system: bool = False
    owns_data: bool = True


DEVICE = Chip(0)
MESH = Mesh(7, [Chip(0), Chip(1), Chip(2)])


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def tracker(heard: Heard) -> GraphTracker:
    return heard.tracker


def kernels(heard: Heard, chip_id: str = CHIP) -> int:
    return heard.used(chip_id, Kind.KERNEL, Kind.FABRIC_KERNEL, Kind.DISPATCH_KERNEL)


# -- kernels ---------------------------------------------------------------------------------------------------------


def test_kernels_take_their_binary_on_every_core(heard: Heard, tracker: GraphTracker) -> None:
    """The numbers of the proof of concept: 896 KB of fabric and 92 KB of dispatch, 988 KB on each device."""
    for device in MESH.chips:
        assert tracker.track_kernel_load(57344, 0x10, device, 1, 16) == 917504 == 896 * KIB
        assert tracker.track_kernel_load(47104, 0x20, device, 2, 2) == 94208 == 92 * KIB
    for number in range(3):
        assert heard.used(f"assumed:{number}", Kind.FABRIC_KERNEL) == 896 * KIB
        assert heard.used(f"assumed:{number}", Kind.DISPATCH_KERNEL) == 92 * KIB
        assert kernels(heard, f"assumed:{number}") == 988 * KIB


def test_an_application_kernel_on_80_cores(heard: Heard, tracker: GraphTracker) -> None:
    assert tracker.track_kernel_load(100 * KIB, 1, DEVICE, num_cores=80) == 8000 * KIB
    assert heard.used(CHIP, Kind.KERNEL) == 8000 * KIB
    assert human(heard.used(CHIP, Kind.KERNEL)) == "7.8 MiB"


def test_loaded_twice_is_one_load(heard: Heard, tracker: GraphTracker) -> None:
    for _ in range(2):
        assert tracker.track_kernel_load(1000, 1, DEVICE, num_cores=4) == 4000
    assert kernels(heard) == 4000
    assert len(heard.events) == 1
    tracker.track_kernel_unload(1, DEVICE)
    assert kernels(heard) == 0


def test_loaded_anew_in_another_size_it_is_replaced(heard: Heard, tracker: GraphTracker) -> None:
    tracker.track_kernel_load(1000, 1, DEVICE, num_cores=4)
    tracker.track_kernel_load(1000, 1, DEVICE, num_cores=8)
    assert kernels(heard) == 8000
    tracker.track_kernel_unload(1, DEVICE)
    assert kernels(heard) == 0


@pytest.mark.parametrize("kernel_type", [0, 1, 2])
def test_an_unload_takes_away_what_the_load_added(heard: Heard, tracker: GraphTracker, kernel_type: int) -> None:
    tracker.track_kernel_load(500, 2, DEVICE, num_cores=3)
    tracker.track_kernel_load(1000, 1, DEVICE, kernel_type, 16, program=9, cores=mask_of([CoreRange(0, 0, 3, 3)]))
    assert kernels(heard) == 17500
    tracker.track_kernel_unload(1, DEVICE)
    assert kernels(heard) == 1500
    tracker.track_kernel_unload(1, DEVICE)
    tracker.track_kernel_unload(77, DEVICE)
    assert kernels(heard) == 1500
    assert not heard.ledger.anomalies


def test_a_kernel_of_an_unknown_type_is_refused(heard: Heard, tracker: GraphTracker) -> None:
    assert tracker.track_kernel_load(1000, 1, DEVICE, 3) == 1000
    assert heard.events == []
    assert heard.rejected == 1


def test_a_load_on_a_mesh_is_on_each_device(heard: Heard, tracker: GraphTracker) -> None:
    tracker.track_kernel_load(1000, 1, MESH, num_cores=2)
    assert [kernels(heard, f"assumed:{number}") for number in range(3)] == [2000] * 3
    tracker.track_kernel_load(1000, 1, MESH.chips[1])
    tracker.track_kernel_unload(1, MESH)
    assert [kernels(heard, f"assumed:{number}") for number in range(3)] == [0, 1000, 0]


# -- the backtrace of a load -----------------------------------------------------------------------------------------


def loads_fabric(tracker: GraphTracker, device: Chip | Mesh) -> None:
    tracker.track_kernel_load(57344, 0x7F00DEAD, device, 1, 16)


def test_the_backtrace_of_a_load(heard: Heard) -> None:
    stream = io.StringIO()
    loads_fabric(GraphTracker(heard.client, backtrace=True, stream=stream), DEVICE)
    first, *stack = stream.getvalue().splitlines()
    assert first == (
        "🔍 KERNEL_LOAD Backtrace (Device 0, Type: Fabric, Binary Size: 56 KB, Cores: 16, Total L1: 896 KB, "
        "ID: 0x7f00dead)"
    )
    assert stack[-2].endswith("in loads_fabric"), "the last frame is the caller's"
    assert any("in test_the_backtrace_of_a_load" in line for line in stack)
    assert not any("graph_tracker.py" in line and "test_" not in line for line in stack)


@pytest.mark.parametrize(("kernel_type", "name"), [(0, "Application"), (2, "Dispatch"), (3, "3"), (-1, "-1")])
def test_the_type_in_the_backtrace(heard: Heard, kernel_type: int, name: str) -> None:
    stream = io.StringIO()
    GraphTracker(heard.client, backtrace=True, stream=stream).track_kernel_load(1536, 1, DEVICE, kernel_type, 3)
    assert f"Type: {name}, Binary Size: 1.5 KB, Cores: 3, Total L1: 4.5 KB, ID: 0x1)" in stream.getvalue()


def test_every_load_on_every_device_is_printed(heard: Heard) -> None:
    stream = io.StringIO()
    tracker = GraphTracker(heard.client, backtrace=True, stream=stream)
    loads_fabric(tracker, MESH)
    loads_fabric(tracker, DEVICE)
    assert re.findall(r"KERNEL_LOAD Backtrace \(Device (\d)", stream.getvalue()) == ["0", "1", "2", "0"]


@pytest.mark.parametrize(("value", "printed"), [("1", True), ("0", False), (None, False)])
def test_the_variable_that_asks_for_it(
    heard: Heard, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], value: str | None, printed: bool
) -> None:
    if value is None:
        monkeypatch.delenv(BACKTRACE_VARIABLE, raising=False)
    else:
        monkeypatch.setenv(BACKTRACE_VARIABLE, value)
    loads_fabric(GraphTracker(heard.client), DEVICE)
    assert ("KERNEL_LOAD" in capsys.readouterr().err) is printed


# -- buffers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Kind.L1, 1, "l1", "L1"])
def test_a_buffer_comes_and_goes(heard: Heard, tracker: GraphTracker, kind: Kind | int | str) -> None:
    buffer = Buffer(DEVICE, 0x1000, 4096, kind)
    tracker.track_allocate(buffer)
    assert heard.used(CHIP, Kind.L1) == 4096
    tracker.track_deallocate(buffer)
    assert heard.used(CHIP, Kind.L1) == 0


def test_what_a_buffer_says_of_itself_is_passed_on(heard: Heard, tracker: GraphTracker) -> None:
    told = Told(DEVICE, 0x1000, 100, Kind.DRAM, reserved=384, allocator_id=5, system=True)
    tracker.track_allocate(told)
    (allocation,) = heard.allocations(Kind.DRAM)
    assert allocation.extra is not None
    assert (allocation.extra.reserved, allocation.extra.allocator, allocation.extra.tag, allocation.extra.system) == (
        384,
        5,
        "weights",
        True,
    )
    tracker.track_deallocate(told._replace(allocator_id=4))
    assert heard.used(CHIP, Kind.DRAM) == 100, "another allocator's buffer at the same address"
    tracker.track_deallocate(told)
    assert heard.used(CHIP, Kind.DRAM) == 0


def test_a_mesh_buffer_is_on_each_device_and_its_views_are_nowhere(heard: Heard, tracker: GraphTracker) -> None:
    backing = Told(MESH, 0x1000, 4096, Kind.DRAM)
    views = [Told(chip, 0x1000, 4096, Kind.DRAM, owns_data=False) for chip in MESH.chips]
    for buffer in (backing, *views):
        tracker.track_allocate(buffer)
    assert [(event.device, event.size) for event in heard.events if isinstance(event, Allocated)] == [
        ((0, 1, 2), 4096),
    ]
    for buffer in (*views, backing):
        tracker.track_deallocate(buffer)
    assert sum(isinstance(event, Freed) for event in heard.events) == 1
    assert heard.ledger.live_count() == 0
    assert not heard.ledger.anomalies


def test_a_mesh_is_closed_with_one_of_its_chips(heard: Heard, tracker: GraphTracker) -> None:
    """What is on one of its chips alone stays until that chip is closed."""
    tracker.track_allocate(Buffer(MESH, 0x1000, 64, Kind.DRAM))
    tracker.track_allocate(Buffer(MESH.chips[1], 0x9000, 32, Kind.DRAM))
    tracker.track_device_close(MESH.chips[0])
    assert [heard.used(f"assumed:{number}", Kind.DRAM) for number in range(3)] == [0, 32, 0]
    tracker.track_device_close(MESH.chips[1])
    assert heard.ledger.live_count() == 0
    assert not heard.ledger.anomalies


# -- programs --------------------------------------------------------------------------------------------------------


def test_a_circular_buffer_counts_on_each_of_its_cores(heard: Heard, tracker: GraphTracker) -> None:
    tracker.track_allocate_cb([GRID], 105824, 4096, MESH, program=1)
    tracker.track_allocate_cb("{[0-0 - 3-7]}", 109920, 100, MESH, program=1, globally_allocated=True)
    for number in range(3):
        assert heard.used(f"assumed:{number}", Kind.CB) == 4096 * 64
    assert len(heard.allocations(Kind.CB)) == 2, "each is one allocation on three chips"


def test_a_free_before_every_launch_frees_nothing_that_programs_hold(heard: Heard, tracker: GraphTracker) -> None:
    """tt-metal reports "all circular buffers are gone" before each program, cached or not."""
    tracker.track_allocate_cb([GRID], 105824, 1000, DEVICE, program=1)
    tracker.track_allocate_cb([GRID], 105824, 2000, DEVICE)
    tracker.track_deallocate_cb(DEVICE)
    assert heard.used(CHIP, Kind.CB) == 1000 * 64
    tracker.track_deallocate_cb(DEVICE)
    assert heard.used(CHIP, Kind.CB) == 1000 * 64
    tracker.track_deallocate_cb(DEVICE, program=1)
    assert heard.used(CHIP, Kind.CB) == 0
    assert not heard.ledger.anomalies


def test_two_circular_buffers_at_one_address_on_other_cores(heard: Heard, tracker: GraphTracker) -> None:
    right = CoreRange(4, 0, 7, 7)
    for one in (LEFT, right):
        tracker.track_allocate_cb(one, 105824, 1000, DEVICE, program=1)
    assert heard.used(CHIP, Kind.CB) == 1000 * 64
    tracker.track_deallocate_cb(DEVICE, program=1)
    assert heard.used(CHIP, Kind.CB) == 0
    assert not heard.ledger.anomalies


def test_a_program_takes_everything_with_it(heard: Heard, tracker: GraphTracker) -> None:
    cores = mask_of([LEFT])
    for program in (1, 2):
        tracker.track_program_compiled(program, MESH, ring=5000, tag="matmul")
        tracker.track_allocate_cb(LEFT, 105824, 100, MESH, program=program)
        tracker.track_allocate_dataflow_buffer(LEFT, 0x30000, 200, MESH, program=program)
        tracker.track_allocate_dataflow_buffer(LEFT, 0x40000, 300, MESH, program=program, borrows_memory=True)
        tracker.track_allocate_scratchpad(LEFT, 0x50000, 400, MESH, program=program)
        tracker.track_kernel_load(500, program, MESH, num_cores=32, program=program, cores=cores)
    each = (100 + 200 + 400 + 500) * 32
    kinds = (Kind.CB, Kind.DFB, Kind.SCRATCHPAD, Kind.KERNEL)
    assert [heard.used(f"assumed:{number}", *kinds) for number in range(3)] == [2 * each] * 3
    tracker.track_program_destroyed(1, MESH)
    assert [heard.used(f"assumed:{number}", *kinds) for number in range(3)] == [each] * 3
    events = len(heard.events)
    tracker.track_deallocate_cb(MESH, program=1)
    tracker.track_kernel_unload(1, MESH)
    assert len(heard.events) == events, "what is gone is not freed again"
    tracker.track_kernel_load(500, 1, MESH, num_cores=32, program=1, cores=cores)
    assert heard.used(CHIP, Kind.KERNEL) == 2 * 500 * 32, "but it may be loaded again"


def test_a_launch_makes_it_the_resident_one(heard: Heard, tracker: GraphTracker) -> None:
    tracker.track_allocate_cb(GRID, 105824, 100, DEVICE, program=1)
    tracker.track_program(1, MESH, LEFT)
    assert heard.events[1:] == [ProgramRun((0, 1, 2), 1, mask_of([LEFT]))]


# -- cores -----------------------------------------------------------------------------------------------------------


def opened(tracker: GraphTracker) -> str:
    tracker.track_device_open(DEVICE, ChipInfo("chip-a", geometry=BOARDS["n150"]))
    return "chip-a"


def test_a_write_to_one_core_has_an_id_of_its_own(heard: Heard, tracker: GraphTracker) -> None:
    """Core (5, 3) at 0x20000: the example of the proof of concept."""
    tracker.track_core_write(DEVICE, (5, 3), 0x20000, 64)
    (written,) = heard.events
    assert isinstance(written, Allocated)
    assert written.address == 0x0005000300020000


@pytest.mark.parametrize(("address", "kind"), [(0, Kind.FIRMWARE), (20_000, Kind.FIRMWARE), (40_000, Kind.KERNEL)])
def test_what_was_written_follows_from_the_address(
    heard: Heard, tracker: GraphTracker, address: int, kind: Kind
) -> None:
    chip_id = opened(tracker)
    tracker.track_core_write(DEVICE, (1, 2), address, 1000, "something")
    tracker.track_core_write(DEVICE, (2, 1), address, 1000, "something")
    assert heard.used(chip_id, kind) == 2000


def test_a_write_again_is_the_same_and_in_another_size_replaces(heard: Heard, tracker: GraphTracker) -> None:
    chip_id = opened(tracker)
    for size in (1000, 1000, 1500):
        tracker.track_core_write(DEVICE, (1, 2), 20_000, size)
    assert heard.used(chip_id, Kind.FIRMWARE) == 1500
    assert [type(event) for event in heard.events[1:]] == [Allocated, Freed, Allocated]
    assert not heard.ledger.anomalies


def test_a_closed_device_is_forgotten(heard: Heard, tracker: GraphTracker) -> None:
    """A device that is opened again is empty, and a kernel that is loaded then is loaded for the first time."""
    opened(tracker)
    for _ in range(2):
        tracker.track_core_write(DEVICE, (1, 2), 20_000, 1000)
        tracker.track_kernel_load(1000, 1, DEVICE)
        tracker.track_allocate_cb(LEFT, 105824, 100, DEVICE, program=1)
        assert heard.used("chip-a", Kind.FIRMWARE, Kind.KERNEL, Kind.CB) == 2000 + 3200
        tracker.track_device_close(DEVICE)
        assert heard.ledger.live_count() == 0
        opened(tracker)
    before = len(heard.events)
    tracker.track_deallocate_cb(DEVICE, program=1)
    tracker.track_kernel_unload(1, DEVICE)
    assert len(heard.events) == before


# -- invalid values --------------------------------------------------------------------------------------------------

NONSENSE = [
    "",
    "{}",
    "no cores at all",
    [CoreRange(5, 5, 1, 1)],
    CoreRange(-1, 0, 0, 0),
    CoreRange(0, 0, 64, 0),
    [(1, 2, 3)],
    [None],
    None,
    3.5,
    [],
    0,
    -1,
    1 << 4096,
]


@pytest.mark.parametrize("cores", NONSENSE, ids=lambda cores: repr(cores)[:30])
def test_cores_that_make_no_sense_never_raise_and_are_counted(
    heard: Heard, tracker: GraphTracker, cores: object
) -> None:
    tracker.track_allocate_cb(cores, 105824, 4096, DEVICE, program=1)  # type: ignore[arg-type]
    tracker.track_allocate_dataflow_buffer(cores, 105824, 4096, DEVICE, program=1)  # type: ignore[arg-type]
    tracker.track_allocate_scratchpad(cores, 105824, 4096, DEVICE, program=1)  # type: ignore[arg-type]
    assert heard.events == []
    assert heard.rejected == 3


def test_what_was_refused_is_not_freed(heard: Heard, tracker: GraphTracker) -> None:
    tracker.track_allocate_cb("no cores at all", 105824, 4096, DEVICE, program=1)
    tracker.track_deallocate_cb(DEVICE, program=1)
    assert heard.events == []
    assert not heard.ledger.anomalies


@pytest.mark.parametrize(
    "cores",
    [mask_of([LEFT]), LEFT, [LEFT], (LEFT,), "{[0-0 - 3-7]}", "[(x=0,y=0) - (x=3,y=7)]"],
    ids=lambda cores: repr(cores)[:30],
)
def test_cores_by_any_name(heard: Heard, tracker: GraphTracker, cores: object) -> None:
    tracker.track_allocate_cb(cores, 105824, 4096, DEVICE, program=1)  # type: ignore[arg-type]
    (allocation,) = heard.allocations(Kind.CB)
    assert allocation.extra is not None
    assert (allocation.size, allocation.extra.cores) == (4096 * 32, mask_of([LEFT]))


def test_there_is_one_for_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GraphTracker, "_instance", None)
    monkeypatch.delenv("TT_ALLOC_TRACKING_ENABLED", raising=False)
    assert GraphTracker.instance() is GraphTracker.instance()
    assert not GraphTracker.instance().client.is_enabled()


# -- reported twice --------------------------------------------------------------------------------------------------


def test_a_circular_buffer_told_twice_is_one(heard: Heard, tracker: GraphTracker) -> None:
    for size in (100, 100, 300):
        tracker.track_allocate_cb(LEFT, 105824, size, DEVICE, program=1)
    (allocation,) = heard.allocations(Kind.CB)
    assert (allocation.size, allocation.refs) == (300 * 32, 1)
    tracker.track_deallocate_cb(DEVICE, program=1)
    assert not heard.allocations(Kind.CB)
    assert not heard.ledger.anomalies


def test_a_kernel_loaded_again_elsewhere_is_still_one(heard: Heard, tracker: GraphTracker) -> None:
    tracker.track_kernel_load(1000, 7, DEVICE, 0, 1, cores=1)
    tracker.track_kernel_load(1000, 7, DEVICE, 0, 2, cores=3)
    assert [allocation.size for allocation in heard.allocations(Kind.KERNEL)] == [2000]
    tracker.track_kernel_unload(7, DEVICE)
    assert not heard.allocations(Kind.KERNEL)
    assert not heard.ledger.anomalies


def test_one_kernel_in_two_programs(heard: Heard, tracker: GraphTracker) -> None:
    for program in (1, 2):
        tracker.track_kernel_load(1000, 7, DEVICE, 0, 1, program=program)
    tracker.track_program_destroyed(1, DEVICE)
    assert [allocation.program for allocation in heard.allocations(Kind.KERNEL)] == [2]
    tracker.track_program_destroyed(2, DEVICE)
    assert not heard.allocations(Kind.KERNEL)
    assert not heard.ledger.anomalies


def test_a_load_that_was_refused_is_not_unloaded(heard: Heard, tracker: GraphTracker) -> None:
    tracker.track_kernel_load(-1000, 7, DEVICE)
    tracker.track_kernel_load(1000, 8, DEVICE, 9)
    for kernel in (7, 8):
        tracker.track_kernel_unload(kernel, DEVICE)
    assert heard.events == []
    assert heard.rejected == 2


def test_nonsense_never_reaches_the_runtime(tracker: GraphTracker) -> None:
    tracker.track_allocate(object())  # type: ignore[arg-type]
    tracker.track_kernel_load(1, 2, None)  # type: ignore[arg-type]
    tracker.track_program_compiled(1, object())  # type: ignore[arg-type]
    assert tracker.rejected == 3


def test_threads_that_make_and_destroy_programs(heard: Heard, tracker: GraphTracker) -> None:
    def work(first: int) -> None:
        for program in range(first, first + 300):
            tracker.track_allocate_cb(LEFT, 105824, 64, DEVICE, program=program)
            tracker.track_kernel_load(1000, program, DEVICE, 0, 4, program=program)
            tracker.track_program_destroyed(program, DEVICE)

    threads = [threading.Thread(target=work, args=(1000 * number,)) for number in range(1, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert tracker.rejected == 0
    assert not heard.allocations(Kind.CB) + heard.allocations(Kind.KERNEL)

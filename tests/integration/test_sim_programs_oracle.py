# SPDX-License-Identifier: Apache-2.0
"""Simulated programs, rings and meshes, compared with ttnn's own: new random programs in each test run."""

from __future__ import annotations

import re
import secrets
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.mock.program import Program
from tests.mock.wheel import wheel
from ttmem.collect.client import AllocationClient
from ttmem.collect.graph_tracker import GraphTracker
from ttmem.model.core_sets import CoreRange
from ttmem.model.kinds import Kind
from ttmem.sim.buffer import Buffer, allocate_tensor
from ttmem.sim.device import AnyDevice, create_device
from ttmem.sim.errors import Clash, SimError
from ttmem.sim.kernels import Kernel, text_size
from ttmem.sim.mesh import create_mesh_device
from ttmem.sim.placement import Tracks, rectangles
from ttmem.sim.program import CircularBuffer, SimProgram
from ttmem.sim.tensors import MemoryConfig, MemoryLayout, TensorSpec

STEPS = 150
RINGS = 60
TINY_RING = 64  # the least that both architectures align to
CAUSES = {"clash": "clash with L1 buffers", "beyond L1": "beyond max L1 size", "ring": "too large for kernel config"}
PROGRAM = re.compile(r"in program \d+ ")  # tt-metal numbers them by itself


def unheard() -> GraphTracker:
    return GraphTracker(AllocationClient(enabled=False))


def ranges_of(corners: Iterable[list[int]]) -> tuple[CoreRange, ...]:
    return tuple(CoreRange(*four) for four in corners)


def open_like(board: str, header: dict[str, Any]) -> AnyDevice:
    opened = {"l1_small_size": header["l1_small_size"], "worker_l1_size": header["worker_l1_size"]}
    if board == "t3k":
        return create_mesh_device(board, tracker=unheard(), **opened)
    return create_device(0, board, tracker=unheard(), **opened)


class Replay:
    """A simulated device that runs the programs of a real one."""

    def __init__(self, board: str, header: dict[str, Any]) -> None:
        self.device = open_like(board, header)
        self.places_told = board != "t3k"  # a capture on a mesh of several chips has none; errors are compared instead
        self.seen = Counter[str]()
        self._tensors: dict[int, Buffer] = {}
        self._tied = False  # several groups of cores of the last program have the same number of kernel bytes

    def step(self, record: dict[str, Any]) -> None:
        what = record["op"]
        self.seen[what] += 1
        error: str | None = None
        try:
            if what == "alloc":
                self._allocate(record)
            elif what == "free":
                self._tensors.pop(record["of_step"]).deallocate()
            elif what == "again":
                assert not record["placed"]  # it is placed
                self.device.run(record["of_step"], lambda: pytest.fail("ttnn had it in its cache"))
            else:
                self._run(record)
        except SimError as refusal:
            error = str(refusal)
        ours, theirs = _unnumbered(error), _unnumbered(record.get("error"))
        if ours and theirs and self._tied:
            self.seen["tied"] += 1
            ours, theirs = _without_group(ours), _without_group(theirs)
        assert ours == theirs, record
        if error is not None:
            self.seen[f"{what} refused"] += 1
            for cause, words in CAUSES.items():
                self.seen[cause] += words in error
        if "cached" in record:
            assert len(self.device.program_cache) == record["cached"], record

    def _allocate(self, record: dict[str, Any]) -> None:
        tiles, (x, y) = record["tiles"], record["cores"]
        memory = MemoryConfig(MemoryLayout.HEIGHT_SHARDED, (32 * tiles, 32), x * y)
        tensor = allocate_tensor(self.device, TensorSpec((32 * tiles * x * y, 32), memory=memory), Kind.L1)
        self._tensors[record["step"]] = tensor
        assert tensor.address == record["address"], record

    def build(self, record: dict[str, Any]) -> SimProgram:
        program = SimProgram()
        built = {(Path(one["name"]).stem, tuple(sorted(one["sizes"]))): one["sizes"] for one in record["built"]}
        for one in record["kernels"]:
            processors = ("trisc0", "trisc1", "trisc2") if one["processor"] == "compute" else (one["processor"],)
            sizes = built[one["name"], processors]
            kernel = Kernel(one["name"], tuple(sizes.items()), one["args"], one["common_args"])
            program.add_kernel(kernel, ranges_of(one["ranges"]))
        for _ in range(max(record["semaphores"], default=-1) + 1):
            program.create_semaphore()
        for one in record["cbs"]:
            assert rectangles(ranges_of(one["ranges"])) == list(ranges_of(one["merged"])), record
            backing = self._tensors[one["tensor"]] if "tensor" in one else None
            program.add_circular_buffer(
                CircularBuffer(ranges_of(one["ranges"]), one["size"], one["index"], backing, one.get("offset", 0))
            )
        return program

    def _run(self, record: dict[str, Any]) -> None:
        program = self.build(record)
        sizes = sorted(map(text_size, program.groups()))
        self._tied = len(sizes) > 1 and sizes[-1] == sizes[-2]
        try:
            self.device.run(record["step"], lambda: program)
        finally:
            if self.places_told:
                self._compare(program, record["placed"])

    def _compare(self, program: SimProgram, placed: list[dict[str, Any]]) -> None:
        ours = [
            (address, one.size, one.ranges, one.backing is not None)
            for one, address in zip(program.circular_buffers, program.addresses(self.device))
        ]
        theirs = [(one["address"], one["size"], ranges_of(one["ranges"]), one["shared"]) for one in placed]
        if all(one.backing for one in program.circular_buffers):
            ours = []  # without buffers of its own, nothing is placed, and ttnn reports nothing about the others
        assert ours == theirs
        self.seen["circular buffers"] += len(ours)
        self.seen["globally allocated"] += sum(one["shared"] for one in placed)


def _unnumbered(text: str | None) -> str | None:
    return None if text is None else PROGRAM.sub("in a program ", text)


def _without_group(text: str) -> str:
    """Without the rows of the group of cores with the most kernel bytes."""
    return "\n".join(line for line in text.splitlines() if not line.startswith("    "))


def replayed(board: str, folder: Path, steps: int, *arguments: str) -> Counter[str]:
    seed = secrets.randbits(32)
    print(f"--board {board} --seed {seed}")  # pytest shows it when the test fails
    arguments = ("--seed", str(seed), "--steps", str(steps), *arguments)
    with Program(wheel("3.12"), "ttnn_descriptors", board, folder, *arguments) as program:
        records = program.records()
        replay = Replay(board, next(records)["header"])
        for record in records:
            replay.step(record)
    assert sum(replay.seen[what] for what in ("alloc", "free", "program", "again")) == steps
    return replay.seen


@pytest.mark.parametrize("board", ["n150", "p150", "t3k"])
def test_random_programs(board: str, folder: Path) -> None:
    wanted = ("again", "clash", "beyond L1")
    seen = Counter[str]()
    for _ in range(5):  # an unlucky sequence does not contain all of them
        seen += replayed(board, folder, STEPS)
        if all(seen[what] for what in wanted):
            break
    assert seen["program"] > 60
    assert min(seen[what] for what in wanted) > 0
    if board != "t3k":
        assert seen["circular buffers"] > 150
        assert seen["globally allocated"] > 0


@pytest.mark.parametrize("board", ["n150", "p150"])
def test_tables_of_the_kernel_ring(board: str, folder: Path) -> None:
    """With a ring that is too small for any program, ttnn's error lists the parts of each."""
    seen = replayed(board, folder, RINGS, "--ring-size", str(TINY_RING))
    assert seen["program refused"] == seen["program"]
    assert seen["ring"] > 10  # how many depends on the random sequence


def refusal(device: AnyDevice, buffers: list[dict[str, Any]], lowest: int) -> str | None:
    """The simulator's error for a program with these buffers if L1 buffers begin there."""
    geometry = device.allocator.geometry
    tracks = Tracks(geometry.l1_base, device.unit, [ranges_of(one["ranges"]) for one in buffers])
    for one in sorted(buffers, key=lambda one: one["kind"] == "scratchpad"):
        if not one["borrowed"]:
            place = tracks.place_above if one["kind"] == "scratchpad" else tracks.place
            place(ranges_of(one["ranges"]), one["size"])
    circular = any(one["kind"] == "circular_buffer" for one in buffers)
    try:
        tracks.check("circular" if circular else "dataflow", 1, geometry.l1_size, lowest)
    except Clash as clash:
        return str(clash)
    return None


@pytest.mark.parametrize("board", ["n150", "p150"])
def test_how_far_the_buffers_of_operations_reach(board: str, folder: Path) -> None:
    """Dataflow buffers and scratchpads: ttnn reports no address, but what they would overlap."""
    device = create_device(0, board, tracker=unheard())
    kinds = Counter[str]()
    with Program(wheel("3.12"), "ttnn_full_l1", board, folder) as program:
        for record in program.records():
            refusals = [refusal(device, buffers, record["lowest"]) for buffers in record["programs"]]
            first = next((words for words in refusals if words is not None), None)
            assert _unnumbered(first) == _unnumbered(record["error"]), record
            if first is not None:
                kinds.update({one["kind"] for one in record["programs"][refusals.index(first)]})
    assert min(kinds[kind] for kind in ("circular_buffer", "dataflow_buffer", "scratchpad")) > 0


def test_a_mesh_and_its_parts(folder: Path) -> None:
    """Each has its own, independent allocator, which is closed with its submesh."""
    seed = secrets.randbits(32)
    print(f"--seed {seed}")
    with Program(wheel("3.12"), "ttnn_meshes", "t3k", folder, "--seed", str(seed), "--steps", "200") as program:
        records = program.records()
        header = next(records)["header"]
        whole = create_mesh_device("t3k", l1_small_size=header["l1_small_size"], tracker=unheard())
        meshes = [whole, *(whole.create_submesh(tuple(shape), tuple(offset)) for shape, offset in header["parts"])]
        # The position of a chip depends on the wiring of the machine; the position of a submesh in its mesh does not.
        places = {chip: number for number, chip in enumerate(header["chips"][0])}
        assert [[chip.id for chip in mesh.get_devices()] for mesh in meshes] == [
            [places[chip] for chip in chips] for chips in header["chips"]
        ]
        assert whole.grid == [CoreRange(0, 0, header["compute_grid"][0] - 1, header["compute_grid"][1] - 1)]
        tensors: dict[int, Buffer] = {}
        seen = Counter[str]()
        for record in records:
            seen[record["op"]] += 1
            if record["op"] == "alloc":
                spec = TensorSpec(tuple(record["shape"]))
                tensor = allocate_tensor(meshes[record["mesh"]], spec, Kind[record["kind"]])
                assert tensor.address == record["address"], record
                tensors[record["step"]] = tensor
            elif record["op"] == "free":
                tensors.pop(record["of_step"]).deallocate()
            else:
                meshes.pop(record["mesh"]).close()
            ours = [
                {kind: mesh.allocator.view(Kind[kind]).total_bytes_allocated_per_bank for kind in ("DRAM", "L1")}
                for mesh in meshes
            ]
            assert ours == record["allocated"], record
    assert seen["close"] == 1
    assert min(seen["alloc"], seen["free"]) > 50

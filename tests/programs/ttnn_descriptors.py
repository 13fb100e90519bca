# SPDX-License-Identifier: Apache-2.0
"""Random programs given to ttnn as descriptors, among sharded tensors in L1 that come and go; each record is a step.

A program's record has all it is made of, the circular buffers as ttnn placed them, and the error if there was one. A
program that ran may run again later, from the cache. Cores are rectangles (x0, y0, x1, y1), in the order given.
"""

from __future__ import annotations

import random
import sys
import types
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import ttnn
from ttnn_bench import L1_SMALL_SIZE, Reporter, close_board, open_board, parser
from ttnn_capture import RANGE, Kernels
from ttnn_sequence import rectangles

CONFIGS = {
    "brisc": ttnn.WriterConfigDescriptor,
    "ncrisc": ttnn.ReaderConfigDescriptor,
    "compute": ttnn.ComputeConfigDescriptor,
}
KERNELS = 5
INDEXES = 32
FIRST_INDEXES = (0, 17)  # few, because kernels are rebuilt for every other set of indexes
TILE_BYTES = 2048
Rectangle = tuple[int, int, int, int]


def meet(a: Rectangle, b: Rectangle) -> bool:
    return a[0] <= b[2] and b[0] <= a[2] and a[1] <= b[3] and b[1] <= a[3]


def apart(some: Iterable[Rectangle], others: Iterable[Rectangle]) -> bool:
    others = list(others)
    return not any(meet(a, b) for a in some for b in others)


def merged(ranges: list[Rectangle]) -> list[list[int]]:
    """The same cores as the functions that build a program step by step would cut them again."""
    found = rectangles(*ranges).merge(rectangles(ranges[0])).ranges()
    return [[one.start.x, one.start.y, one.end.x, one.end.y] for one in found]


class Programs:
    """Makes and runs them; knows the tensors that are alive by the step that made them, and what may run again."""

    def __init__(self, device: Any, seed: int) -> None:
        self.device = device
        self.random = random.Random(seed)
        grid = device.compute_with_storage_grid_size()
        self.grid = (grid.x, grid.y)
        self.live: dict[int, tuple[Any, dict[str, Any]]] = {}
        self.ran: dict[int, Any] = {}
        self.kernels = Kernels()
        self.operands = [
            ttnn.zeros([32, 32], dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device) for _ in range(2)
        ]
        for number in range(KERNELS):
            Path(f"kernel_{number}.cpp").write_text("void kernel_main() {}\n")

    def step(self, number: int) -> dict[str, Any]:
        chance = self.random.random()
        if chance < 0.15 and len(self.live) < 6:
            return self.allocate(number)
        if chance < 0.3 and self.live:
            of = self.random.choice(list(self.live))
            del self.live[of]
            return {"op": "free", "of_step": of}
        if chance < 0.4 and self.ran:
            of = self.random.choice(list(self.ran))
            return {"op": "again", "of_step": of, **self.run(self.ran[of])}
        return self.program(number)

    # -- tensors -------------------------------------------------------------------------------------------------

    def allocate(self, number: int) -> dict[str, Any]:
        """A tensor of one tile's width, in equal pieces on the cores of a rectangle at the corner."""
        x, y = self.random.randint(1, self.grid[0]), self.random.randint(1, self.grid[1])
        tiles = self.random.randint(1, 250)
        grid = rectangles((0, 0, x - 1, y - 1))
        shards = ttnn.ShardSpec(grid, [32 * tiles, 32], ttnn.ShardOrientation.ROW_MAJOR)
        spec = ttnn.TensorSpec(
            ttnn.Shape([32 * tiles * x * y, 32]), ttnn.bfloat16, ttnn.TILE_LAYOUT,
            ttnn.TensorMemoryLayout.HEIGHT_SHARDED, shards, buffer_type=ttnn.BufferType.L1,
        )  # fmt: skip
        record: dict[str, Any] = {"op": "alloc", "tiles": tiles, "cores": [x, y], "error": None}
        try:
            tensor = ttnn.allocate_tensor_on_device(spec, self.device)
        except RuntimeError as error:
            return {**record, "error": message(error)}
        self.live[number] = tensor, record
        return {**record, "address": tensor.buffer_address()}

    # -- programs ------------------------------------------------------------------------------------------------

    def rectangle(self) -> Rectangle:
        (x0, x1), (y0, y1) = (sorted(self.random.randrange(side) for _ in range(2)) for side in self.grid)
        return x0, y0, x1, y1

    def area(self, known: list[Rectangle]) -> list[Rectangle]:
        """Up to three rectangles that do not meet; some were used before."""
        found: list[Rectangle] = []
        for _ in range(self.random.choice((1, 1, 2, 3))):
            one = self.random.choice(known) if known and self.random.random() < 0.5 else self.rectangle()
            if apart([one], found):
                found.append(one)
        known += found
        return found

    def program(self, number: int) -> dict[str, Any]:
        cbs, kernels = self.circular_buffers(), self.some_kernels()
        semaphores = sorted(self.random.sample(range(6), self.random.choice((0, 0, 1, 3))))
        descriptor = ttnn.ProgramDescriptor(
            kernels=[self.kernel(one) for one in kernels],
            semaphores=[
                ttnn.SemaphoreDescriptor(id=ident, core_ranges=rectangles(self.rectangle()), initial_value=0)
                for ident in semaphores
            ],
            cbs=[self.circular_buffer(one) for one in cbs],
        )
        self.kernels.new()
        done = self.run(descriptor)
        if done["error"] is None and not any("tensor" in one for one in cbs):
            self.ran[number] = descriptor
        built = [
            {"name": kernel["name"], "sizes": {elf["core"]: elf["packed"] for elf in kernel["elfs"]}}
            for kernel in self.kernels.new()
        ]
        return {"op": "program", "cbs": cbs, "kernels": kernels, "semaphores": semaphores, "built": built, **done}

    def circular_buffers(self) -> list[dict[str, Any]]:
        known: list[Rectangle] = []
        made: list[dict[str, Any]] = []
        largest = self.random.choice((4096, 65536, 400_000, 800_000))
        first = self.random.choice(FIRST_INDEXES)
        for _ in range(self.random.randint(0, 8)):
            ranges = self.area(known)
            one: dict[str, Any] = {"ranges": ranges, "size": self.random.randint(1, largest)}
            free = [
                i for i in range(first, INDEXES) if all(i != o["index"] or apart(ranges, o["ranges"]) for o in made)
            ]
            one["index"] = free[0]
            inside = [n for n, (_, spec) in self.live.items() if spec["tiles"] > 1]
            if inside and self.random.random() < 0.2:
                of = self.random.choice(inside)
                _, spec = self.live[of]
                right, bottom = (side - 1 for side in spec["cores"])
                tiles = self.random.randint(1, spec["tiles"] - 1)
                one.update(tensor=of, size=tiles * TILE_BYTES, ranges=[(0, 0, right, bottom)])
                one["offset"] = 16 * self.random.randint(0, (spec["tiles"] - tiles) * TILE_BYTES // 16)
                if not all(one["index"] != o["index"] or apart(one["ranges"], o["ranges"]) for o in made):
                    continue
            made.append({**one, "merged": merged(one["ranges"])})
        return made

    def some_kernels(self) -> list[dict[str, Any]]:
        """One on every core, for ttnn crashes over a circular buffer without a kernel; no two for one processor."""
        first, *others = self.random.sample(list(CONFIGS), self.random.randint(1, 3))
        right, bottom = self.grid[0] - 1, self.grid[1] - 1
        cut = self.random.randint(0, right)
        areas = [[(0, 0, cut, bottom)]] + ([[(cut + 1, 0, right, bottom)]] if cut < right else [])
        # Names differ by processor only: the same kernel may have another size on other cores.
        made = [self.some_kernel(first, area, name) for area, name in zip(areas, self.names())]
        for processor in others:
            taken: list[Rectangle] = []
            names = self.names()
            for _ in range(self.random.randint(1, 3)):
                ranges = self.area([])
                if apart(ranges, taken):
                    taken += ranges
                    made.append(self.some_kernel(processor, ranges, names.pop()))
        self.random.shuffle(made)
        return made

    def names(self) -> list[str]:
        return self.random.sample([f"kernel_{number}" for number in range(KERNELS)], 3)

    def some_kernel(self, processor: str, ranges: list[Rectangle], name: str) -> dict[str, Any]:
        return {
            "name": name,
            "processor": processor,
            "ranges": ranges,
            "args": self.random.choice((0, 1, 5, 40)),
            "common_args": self.random.choice((0, 0, 3, 9)),
        }

    def kernel(self, one: dict[str, Any]) -> Any:
        values = list(range(one["args"]))
        cores = [(x, y) for x0, y0, x1, y1 in one["ranges"] for x in range(x0, x1 + 1) for y in range(y0, y1 + 1)]
        return ttnn.KernelDescriptor(
            kernel_source=str(Path(f"{one['name']}.cpp").absolute()),
            source_type=ttnn.KernelDescriptor.SourceType.FILE_PATH,
            core_ranges=rectangles(*one["ranges"]),
            runtime_args=[(ttnn.CoreCoord(*core), values) for core in cores] if values else [],
            common_runtime_args=list(range(one["common_args"])),
            config=CONFIGS[one["processor"]](),
        )

    def circular_buffer(self, one: dict[str, Any]) -> Any:
        cores = rectangles(*one["ranges"])
        if "tensor" in one:
            tensor, _ = self.live[one["tensor"]]
            sizes = {"address_offset": one["offset"], "total_size": one["size"]}
            return ttnn.cb_descriptor_from_sharded_tensor(one["index"], tensor, core_ranges=cores, **sizes)
        formats = ttnn.CBFormatDescriptor(buffer_index=one["index"], data_format=ttnn.bfloat16, page_size=one["size"])
        return ttnn.CBDescriptor(total_size=one["size"], core_ranges=cores, format_descriptors=[formats])

    def run(self, descriptor: Any) -> dict[str, Any]:
        """Run it, in a capture: that tells where the circular buffers went."""
        error = None
        ttnn.graph.begin_graph_capture(ttnn.graph.RunMode.NORMAL)
        try:
            ttnn.generic_op(self.operands, descriptor)
        except RuntimeError as problem:
            error = message(problem)
        finally:
            nodes = ttnn.graph.end_graph_capture()
        placed = [
            {
                "address": int(node["params"]["address"]),
                "size": int(node["params"]["size"]),
                "ranges": [[int(n) for n in found] for found in RANGE.findall(node["params"]["core_range_set"])],
                "shared": bool(int(node["params"]["globally_allocated"])),
                "device": int(node["params"]["device_id"]),
            }
            for node in nodes
            if node["node_type"] == "circular_buffer_allocate"
        ]
        return {"placed": placed, "error": error, "cached": self.device.num_program_cache_entries()}


def message(error: RuntimeError) -> str:
    """ttnn's own words, without the place in its source before and the backtrace after them."""
    return str(error).partition("info:\n")[2].partition("\nbacktrace:")[0].rstrip()


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--steps", type=int, default=100)
    options.add_argument("--seed", type=int, default=0)
    arguments = options.parse_args()
    # Captures look for torch's tensors; the wheel does not bring torch, and after `import ttnn` nothing else wants it.
    sys.modules.setdefault("torch", types.SimpleNamespace(Tensor=type("Tensor", (), {})))  # type: ignore[arg-type]
    report = Reporter(arguments.report_fd, arguments.ack_fd)
    device = open_board(arguments)
    programs = Programs(device, arguments.seed)
    largest = ttnn._ttnn.device.get_max_worker_l1_unreserved_size()
    report(
        header={
            "l1_small_size": L1_SMALL_SIZE,
            "worker_l1_size": largest - arguments.ring_size if arguments.ring_size else None,
        }
    )
    for number in range(arguments.steps):
        report(step=number, **programs.step(number))
    programs.live.clear()
    programs.operands.clear()
    close_board(arguments, device)


if __name__ == "__main__":
    main()

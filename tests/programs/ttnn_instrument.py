# SPDX-License-Identifier: Apache-2.0
"""Steps in which `ttmem.instrument()` follows ttnn; after each, what it has reported is with the server.

A record has ttnn's own account. Where `exact` is false the tracking knows of buffers whose sizes it could not see.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import ttnn
from ttnn_bench import CONVOLUTION, MESHES, Reporter, account, close_board, first_line, open_board, parser

from ttmem.collect.instrument import instrument
from ttmem.collect.program_descriptor import descriptor_sizes
from ttmem.model.core_sets import format_ranges, ranges_of

DRAM, L1 = ttnn.DRAM_MEMORY_CONFIG, ttnn.L1_MEMORY_CONFIG
TILE, ROW_MAJOR = ttnn.TILE_LAYOUT, ttnn.ROW_MAJOR_LAYOUT
Step = tuple[str, Callable[[], Any]]


@ttnn.register_python_operation(name="ttnn.twice")  # type: ignore[untyped-decorator]
def twice(tensor: Any) -> Any:
    return ttnn.silu(ttnn.gelu(tensor))


def cores(x0: int, y0: int, x1: int, y1: int) -> Any:
    return ttnn.CoreRange(ttnn.CoreCoord(x0, y0), ttnn.CoreCoord(x1, y1))


def own_program(tensor: Any, size: int) -> Any:
    """A program of one kernel that does nothing, with circular buffers on some cores and, if given, inside a tensor."""
    some = ttnn.CoreRangeSet({cores(0, 0, 1, 1), cores(4, 4, 4, 5)})
    kernel = ttnn.KernelDescriptor(
        kernel_source="void kernel_main() {}",
        source_type=ttnn.KernelDescriptor.SourceType.SOURCE_CODE,
        core_ranges=some,
        config=ttnn.ReaderConfigDescriptor(),
    )
    formats = [
        ttnn.CBFormatDescriptor(buffer_index=index, data_format=ttnn.bfloat16, page_size=16) for index in range(3)
    ]
    buffers = [
        ttnn.CBDescriptor(total_size=size, core_ranges=some, format_descriptors=formats[:1]),
        ttnn.CBDescriptor(
            total_size=6144, core_ranges=ttnn.CoreRangeSet({cores(1, 1, 1, 1)}), format_descriptors=formats[1:]
        ),
        *([] if tensor is None else [ttnn.cb_descriptor_from_sharded_tensor(7, tensor)]),
    ]
    return ttnn.ProgramDescriptor(kernels=[kernel], semaphores=[], cbs=buffers)


class Show:
    """The device, what lives on it, and the steps."""

    def __init__(self, device: Any, several: bool) -> None:
        self.device = device
        self.several = several
        self.kept: dict[str, Any] = {}
        self.described: list[Any] = []  # the circular buffers of a program of our own, before it ran
        grid = ttnn.CoreGrid(y=1, x=4)
        self.sharded = ttnn.create_sharded_memory_config(
            [1, 1, 256, 512], core_grid=grid, strategy=ttnn.ShardStrategy.HEIGHT
        )

    def new(self, *shape: int, layout: Any = TILE, memory: Any = DRAM, device: Any = None) -> Any:
        return ttnn.zeros(
            list(shape), dtype=ttnn.bfloat16, layout=layout, device=device or self.device, memory_config=memory
        )

    def keep(self, name: str, make: Callable[[], Any]) -> Step:
        def step() -> None:
            self.kept[name] = make()

        return f"keep {name}", step

    def drop(self, *names: str) -> Step:
        return f"drop {' '.join(names)}", lambda: [self.kept.pop(name) for name in names] and None

    def steps(self) -> Iterator[Step]:
        kept, device = self.kept, self.device
        image = lambda: self.new(1, 1, 256, 32, layout=ROW_MAJOR)  # noqa: E731
        weights = ttnn.zeros([32, 32, 3, 3], dtype=ttnn.bfloat16, layout=ROW_MAJOR)

        def convolve(image: Any, **more: Any) -> Any:
            return ttnn.conv2d(input_tensor=image, weight_tensor=weights, device=device, **CONVOLUTION, **more)

        yield self.keep("a", lambda: self.new(1, 1, 256, 512))
        yield self.keep("b", lambda: self.new(1, 1, 512, 128))
        yield self.keep("same", lambda: self.new(1, 1, 256, 512, memory=L1))
        yield self.keep("pieces", lambda: self.new(1, 1, 256, 512, memory=self.sharded))
        yield self.keep("sum", lambda: ttnn.add(kept["a"], kept["same"]))
        yield self.keep("sum", lambda: ttnn.add(kept["a"], kept["same"]))
        yield self.keep("relu", lambda: ttnn.relu(kept["a"]))
        yield self.keep("again", lambda: ttnn.relu(kept["a"]))
        yield self.keep("product", lambda: ttnn.matmul(kept["a"], kept["b"]))
        yield self.keep("softmax", lambda: ttnn.softmax(kept["a"], dim=-1))
        yield self.keep("norm", lambda: ttnn.layer_norm(kept["a"]))
        yield self.keep("in pieces", lambda: ttnn.add(kept["pieces"], kept["pieces"], memory_config=self.sharded))
        yield self.keep("to pieces", lambda: ttnn.to_memory_config(kept["a"], self.sharded))
        yield self.drop("relu", "softmax", "in pieces")
        yield "transpose", lambda: ttnn.transpose(kept["a"], -2, -1) and None
        yield "concat", lambda: ttnn.concat([kept["a"], kept["same"]], dim=2) and None
        yield self.keep("twice", lambda: ttnn.twice(kept["a"]))
        yield self.keep("image", image)
        yield self.keep("convolved", lambda: convolve(kept["image"]))
        yield self.keep("convolved again", lambda: convolve(kept["image"]))
        yield (
            "convolved, image freed",
            lambda: convolve(kept["image"], conv_config=ttnn.Conv2dConfig(deallocate_activation=True)) and None,
        )
        yield "deallocate", lambda: ttnn.deallocate(kept["again"])
        yield self.keep("moved", lambda: ttnn.reallocate(kept.pop("same")))
        yield "own program", lambda: self.run_own(4112)
        yield (
            "carried over",
            lambda: kept.update(
                carried=ttnn.Tensor([1.0] * 1024, [1, 1, 32, 32], ttnn.bfloat16, TILE).to(device),
                room=ttnn.allocate_tensor_on_device(ttnn.Shape([1, 1, 64, 64]), ttnn.bfloat16, TILE, device, L1),
                semaphore=ttnn.create_global_semaphore(device, ttnn.CoreRangeSet({cores(0, 0, 3, 3)}), 0),
            ),
        )
        yield self.drop("carried", "room", "semaphore")
        yield "no memory for a buffer", lambda: self.new(1, 1, 8192, 16384, memory=L1)
        yield "filled", self.fill
        yield "no memory for circular buffers", lambda: self.run_own(65536)
        yield "no memory for dataflow buffers", lambda: ttnn.softmax(kept["product"], dim=-1)
        yield "emptied", lambda: kept.pop("filling").clear()
        yield "threads", self.in_threads
        yield "gone with the threads", lambda: kept.pop("by threads") and None
        yield "cache cleared", device.clear_program_cache
        yield self.keep("relu", lambda: ttnn.relu(kept["a"]))
        yield "cache off", device.disable_and_clear_program_cache
        yield "not cached", lambda: ttnn.relu(kept["a"]) and None
        yield "cache on", device.enable_program_cache
        yield "all gone", kept.clear

    def run_own(self, size: int) -> None:
        # Each chip has its own program, and circular buffers inside tensors are not reported then.
        inside = None if self.several else self.kept["pieces"]
        program = own_program(inside, size)
        base = ttnn._ttnn.reports.get_device_info(self.device).address_at_first_l1_cb_buffer
        sizes = descriptor_sizes(program)
        parts = [
            [part.address, part.total, format_ranges(ranges_of(part.cores)), False]
            for part in sizes.placed(base, ttnn.get_dram_alignment())
        ]
        parts += [
            [buffer.address, buffer.total, format_ranges(ranges_of(buffer.cores)), True]
            for buffer in sizes.circular_buffers
            if buffer.shared
        ]
        self.described = parts
        ttnn.generic_op([self.kept["a"], self.kept["norm"]], program)

    def fill(self) -> None:
        """Leave so little of L1 that a program does not fit below."""
        filling = self.kept["filling"] = []
        try:
            while True:
                filling.append(self.new(1, 1, 1024, 1024, memory=L1))
        except RuntimeError:
            pass

    def part_steps(self) -> Iterator[Step]:
        """A part of the device, which has an allocator of its own; ttnn closes it only if the whole ran nothing."""
        kept = self.kept
        yield self.keep("whole", lambda: self.new(1, 1, 64, 64, memory=L1))
        yield "a part", self.a_part
        yield self.keep("there", lambda: self.new(1, 1, 64, 64, memory=L1, device=kept["part"]))
        yield self.keep("relu", lambda: ttnn.relu(kept["there"]))
        yield "part closed", lambda: ttnn.close_mesh_device(kept.pop("part"))
        yield self.drop("there", "relu")

    def a_part(self) -> None:
        rows, columns = self.device.shape
        corner = ttnn.MeshCoordinate(rows - 1, columns - 1)
        self.kept["part"] = self.device.create_submesh(ttnn.MeshShape(1, 1), corner)

    def in_threads(self) -> None:
        """Two threads that run operations at the same time."""
        made: list[Any] = []
        a = self.kept["a"]
        ready = threading.Barrier(2)

        def run(operation: Any) -> None:
            ready.wait()
            made.extend(operation(a) for _ in range(10))

        threads = [threading.Thread(target=run, args=[operation]) for operation in (ttnn.tanh, ttnn.abs)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.kept["by threads"] = made


def main() -> None:
    chosen = parser(__doc__).parse_args()
    report = Reporter(chosen.report_fd, chosen.ack_fd)
    tracking = instrument()
    device = open_board(chosen)
    show = Show(device, chosen.board in MESHES)

    def tell(what: str, error: str | None = None, exact: bool = True, meshes: list[Any] | None = None) -> None:
        described, show.described = show.described, []
        tracking.poll()
        flushed = tracking.client.flush(60.0)
        meshes = [device, *filter(None, [show.kept.get("part")])] if meshes is None else meshes
        accounts = [account(mesh) for mesh in meshes]
        report(
            what=what, error=error, exact=exact, flushed=flushed, meshes=accounts, stats=tracking.stats(),
            described=described,
        )  # fmt: skip

    def take(steps: Iterator[Step]) -> None:
        for what, step in steps:
            error = None
            try:
                step()
            except RuntimeError as problem:
                error = first_line(problem)
            tell(what, error)

    tell("open")
    take(show.steps())
    x = show.new(1, 1, 256, 512)
    tell("before a capture")
    ttnn._ttnn.graph.begin_graph_capture(ttnn._ttnn.graph.RunMode.NORMAL)
    y = ttnn.exp(x)
    captured = [node["node_type"] for node in ttnn._ttnn.graph.end_graph_capture()]
    tell("captured" if "buffer_allocate" in captured else "not captured", exact=False)
    del y
    device.clear_program_cache()
    tell("what the capture hid is gone")
    close_board(chosen, device)
    del x
    tell("closed", meshes=[])
    device = open_board(chosen)
    show = Show(device, chosen.board in MESHES)
    tell("open again")
    if show.several:
        take(show.part_steps())
    tracking.stop()
    kept = ttnn.relu(show.new(1, 1, 64, 64))
    stats = tracking.stats()
    report(what="stopped", error=None, exact=True, flushed=True, meshes=[account(device)], stats=stats, described=[])
    del kept
    show.kept.clear()
    close_board(chosen, device)


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""A random ttnn program that reports ttnn's own account after every step; the same seed gives the same program."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import Any

import ttnn
from ttnn_bench import Reporter, account, close_board, first_line, open_board, parser

SIDES = (32, 64, 128, 256, 512)
MAX_LIVE = 24
DRAM, L1 = ttnn.DRAM_MEMORY_CONFIG, ttnn.L1_MEMORY_CONFIG
TILE, ROW_MAJOR = ttnn.TILE_LAYOUT, ttnn.ROW_MAJOR_LAYOUT
Step = Callable[["Program"], Any]
STEPS: dict[str, tuple[Step, int]] = {}


def step(weight: int = 2) -> Callable[[Step], Step]:
    """Registers a kind of step; the tensors it returns stay alive."""

    def register(function: Step) -> Step:
        STEPS[function.__name__.rstrip("_")] = (function, weight)
        return function

    return register


class Program:
    """The tensors that are alive, and ways to get at some."""

    def __init__(self, device: Any, seed: int, threads: int, trace_region_size: int) -> None:
        self.device = device
        self.random = random.Random(seed)
        self.threads = threads
        self.live: list[Any] = []
        possible = {"threads": threads, "trace": trace_region_size}
        self.kinds = [kind for kind in STEPS if possible.get(kind, True)]
        self.weights = [STEPS[kind][1] for kind in self.kinds]

    def run(self) -> tuple[str, str | None]:
        kind = self.random.choices(self.kinds, self.weights)[0]
        try:
            made = STEPS[kind][0](self)
            self.live += made if isinstance(made, list) else [] if made is None else [made]
            error = None
        except Exception as problem:
            error = first_line(problem)
        while len(self.live) > MAX_LIVE:
            self.live.pop(self.random.randrange(len(self.live)))
        return kind, error

    def repeat(self, rounds: int) -> None:
        """Run the same operations again and again; each frees what the one before it made."""
        if not rounds:
            return
        a, b = self.new(64, 64, memory=DRAM), self.new(64, 64, memory=L1)
        for _ in range(rounds):
            c = ttnn.add(a, b, memory_config=DRAM)
            ttnn.deallocate(ttnn.relu(c, memory_config=L1))

    def side(self) -> int:
        return self.random.choice(SIDES)

    def memory(self) -> Any:
        return self.random.choice((DRAM, L1))

    def new(self, *shape: int, layout: Any = TILE, memory: Any = None, dtype: Any = ttnn.bfloat16) -> Any:
        """A new tensor; neither shape nor memory means any."""
        make = self.random.choice((ttnn.zeros, ttnn.ones))
        return make(
            [1, 1, *(shape or (self.side(), self.side()))],
            dtype=dtype,
            layout=layout,
            device=self.device,
            memory_config=memory or self.memory(),
        )

    def matrix(self) -> Any:
        """A live tensor that every operation takes, or a new one."""
        fit = [t for t in self.live if t.is_allocated() and _plain(t)]
        return self.random.choice(fit) if fit else self.new()

    def pop(self) -> Any:
        return self.live.pop(self.random.randrange(len(self.live))) if self.live else None

    def like(self, tensor: Any) -> Any:
        return self.new(tensor.shape[-2], tensor.shape[-1])

    def sharded(self, strategy: Any, rows: int, columns: int) -> Any:
        """A memory layout of 64x64 pieces on a grid of cores."""
        height, width = (1, rows * columns) if strategy == ttnn.ShardStrategy.WIDTH else (rows * columns, 1)
        if strategy == ttnn.ShardStrategy.BLOCK:
            height, width = rows, columns
        config = ttnn.create_sharded_memory_config(
            [1, 1, 64 * height, 64 * width], core_grid=ttnn.CoreGrid(y=rows, x=columns), strategy=strategy
        )
        return self.new(64 * height, 64 * width, memory=config)


def _plain(tensor: Any) -> bool:
    shape = list(tensor.shape)
    return (
        len(shape) == 4
        and shape[:2] == [1, 1]
        and tensor.dtype == ttnn.bfloat16
        and tensor.layout == TILE
        and not tensor.is_sharded()
        and tensor.memory_config().buffer_type in (ttnn.BufferType.DRAM, ttnn.BufferType.L1)
        and all(side in SIDES for side in shape[2:])
    )


@step(4)
def dram(p: Program) -> Any:
    return p.new(memory=DRAM)


@step(4)
def l1(p: Program) -> Any:
    return p.new(memory=L1)


@step()
def row_major(p: Program) -> Any:
    return p.new(p.side() + p.random.randrange(32), p.side(), layout=ROW_MAJOR)


@step()
def narrow(p: Program) -> Any:
    """Rows of no round number of bytes: what the allocator takes is not what was asked for."""
    return p.new(p.side(), 8 * p.random.randint(1, 7), layout=ROW_MAJOR)


@step()
def trace(p: Program) -> Any:
    """In the region for traces, where on mock nothing else is ever allocated."""
    return p.new(32, p.side(), memory=ttnn.MemoryConfig(ttnn.TensorMemoryLayout.INTERLEAVED, ttnn.BufferType.TRACE))


@step()
def height_sharded(p: Program) -> Any:
    return p.sharded(ttnn.ShardStrategy.HEIGHT, p.random.randint(1, 4), p.random.randint(1, 4))


@step()
def width_sharded(p: Program) -> Any:
    return p.sharded(ttnn.ShardStrategy.WIDTH, p.random.randint(1, 4), p.random.randint(1, 4))


@step()
def block_sharded(p: Program) -> Any:
    return p.sharded(ttnn.ShardStrategy.BLOCK, p.random.randint(1, 4), p.random.randint(1, 4))


@step()
def l1_small(p: Program) -> Any:
    """Only sharded tensors may be there."""
    cores = p.random.randint(1, 8)
    grid = ttnn.CoreRangeSet({ttnn.CoreRange(ttnn.CoreCoord(0, 0), ttnn.CoreCoord(cores - 1, 0))})
    shard = ttnn.ShardSpec(grid, [32, 32], ttnn.ShardOrientation.ROW_MAJOR)
    kind = ttnn.TensorMemoryLayout.HEIGHT_SHARDED
    return p.new(32 * cores, 32, memory=ttnn.MemoryConfig(kind, ttnn.BufferType.L1_SMALL, shard))


@step(4)
def matmul(p: Program) -> Any:
    a = p.matrix()
    return ttnn.matmul(a, p.new(a.shape[-1], p.side()), memory_config=p.memory())


@step(4)
def add(p: Program) -> Any:
    a = p.matrix()
    return ttnn.add(a, p.like(a), memory_config=p.memory())


@step()
def add_in_place(p: Program) -> None:
    a = p.matrix()
    ttnn.add(a, p.like(a), output_tensor=a)


@step()
def relu(p: Program) -> Any:
    return ttnn.relu(p.matrix(), memory_config=p.memory())


@step()
def gelu(p: Program) -> Any:
    return ttnn.gelu(p.matrix(), memory_config=p.memory())


@step()
def softmax(p: Program) -> Any:
    return ttnn.softmax(p.matrix(), dim=-1)


@step()
def layer_norm(p: Program) -> Any:
    return ttnn.layer_norm(p.matrix(), memory_config=p.memory())


@step()
def reshape(p: Program) -> Any:
    a = p.matrix()
    return ttnn.reshape(a, [1, 1, a.shape[-1], a.shape[-2]])


@step()
def reshape_row_major(p: Program) -> Any:
    return ttnn.reshape(p.new(64, 128, layout=ROW_MAJOR), [1, 1, 32, 256])


@step()
def view(p: Program) -> Any:
    """Another tensor on the same buffer."""
    a = p.matrix()
    return ttnn.view(a, [1, a.shape[-2] // 32, 32, a.shape[-1]])


@step()
def slice_(p: Program) -> Any:
    a = p.matrix()
    return ttnn.slice(a, [0, 0, 0, 0], [1, 1, 32, a.shape[-1]])


@step()
def concat(p: Program) -> Any:
    a = p.matrix()
    return ttnn.concat([a, p.like(a)], dim=p.random.choice((2, 3)))


@step()
def to_layout(p: Program) -> Any:
    return ttnn.to_layout(p.matrix(), ROW_MAJOR)


@step()
def clone(p: Program) -> Any:
    return ttnn.clone(p.matrix(), memory_config=p.memory())


@step()
def to_memory_config(p: Program) -> Any:
    return ttnn.to_memory_config(p.matrix(), p.memory())


@step()
def reshard(p: Program) -> Any:
    """From a row of cores to a column of twice as few."""
    a = p.sharded(ttnn.ShardStrategy.HEIGHT, 1, 4)
    target = ttnn.create_sharded_memory_config(
        list(a.shape), core_grid=ttnn.CoreGrid(y=2, x=1), strategy=ttnn.ShardStrategy.HEIGHT
    )
    return ttnn.to_memory_config(a, target)


@step()
def sum_(p: Program) -> Any:
    return ttnn.sum(p.matrix(), dim=-1, keepdim=True)


@step()
def transpose(p: Program) -> Any:
    return ttnn.transpose(p.matrix(), -2, -1)


@step()
def pad(p: Program) -> Any:
    return ttnn.pad(p.matrix(), [(0, 0), (0, 0), (0, 32), (0, 32)], value=0.0)


@step()
def typecast(p: Program) -> Any:
    return ttnn.typecast(p.matrix(), p.random.choice((ttnn.float32, ttnn.bfloat8_b)))


@step()
def embedding(p: Program) -> Any:
    words = ttnn.zeros([1, 32], dtype=ttnn.uint32, layout=ROW_MAJOR, device=p.device)
    table = ttnn.zeros([64, 128], dtype=ttnn.bfloat16, layout=ROW_MAJOR, device=p.device)
    return ttnn.embedding(words, table)


@step()
def conv2d(p: Program) -> Any:
    """Its configuration stays in L1_SMALL until the program cache is cleared."""
    side, channels = p.random.choice((8, 16)), p.random.choice((32, 64))
    return ttnn.conv2d(
        input_tensor=p.new(side * side, channels, layout=ROW_MAJOR, memory=DRAM),
        weight_tensor=ttnn.zeros([32, channels, 3, 3], dtype=ttnn.bfloat16, layout=ROW_MAJOR),
        device=p.device,
        in_channels=channels,
        out_channels=32,
        batch_size=1,
        input_height=side,
        input_width=side,
        kernel_size=(3, 3),
        stride=(1, 1),
        padding=(1, 1),
    )


@step()
def max_pool2d(p: Program) -> Any:
    side = p.random.choice((8, 16))
    return ttnn.max_pool2d(
        input_tensor=p.new(side * side, 32, layout=ROW_MAJOR, memory=DRAM),
        batch_size=1,
        input_h=side,
        input_w=side,
        channels=32,
        kernel_size=[2, 2],
        stride=[2, 2],
        padding=[0, 0],
        dilation=[1, 1],
    )


@step()
def round_trip(p: Program) -> Any:
    """To the host and back; the tensor on the device is let go in between."""
    a = p.pop()
    if a is None or not a.is_allocated():  # ttnn dereferences nothing if its buffer went with a view of it
        a = p.new()
    host, memory = ttnn.from_device(a), a.memory_config()
    del a
    return ttnn.to_device(host, p.device, memory_config=memory)


@step()
def reallocate(p: Program) -> Any:
    """Moved as far up as there is room, the old buffer given back."""
    return ttnn.reallocate(p.new(memory=L1))


@step()
def copy(p: Program) -> Any:
    a = p.matrix()
    b = p.like(a)
    ttnn.copy(a, b)
    return b


@step(4)
def deallocate(p: Program) -> None:
    a = p.pop()
    if a is not None:
        ttnn.deallocate(a, force=True)


@step()
def deallocate_unless_shared(p: Program) -> None:
    a = p.pop()
    if a is not None:
        ttnn.deallocate(a, force=False)


@step(4)
def delete(p: Program) -> None:
    for _ in range(p.random.randint(1, 4)):
        p.pop()


@step(1)
def clear_program_cache(p: Program) -> None:
    p.device.clear_program_cache()


@step()
def out_of_memory(p: Program) -> None:
    """One that must fail and leave nothing behind."""
    memory, side = p.random.choice(((DRAM, 1 << 18), (L1, 1 << 15)))
    try:
        ttnn.empty([1, 1, side, side], ttnn.bfloat16, TILE, p.device, memory)
    except RuntimeError as error:
        if "Out of Memory" not in str(error):
            raise
    else:
        raise AssertionError("too large a tensor was allocated")


@step(1)
def threads(p: Program) -> list[Any]:
    """Allocations and operations from several threads at once."""
    kept: list[Any] = []
    errors: list[str] = []

    def work() -> None:
        try:
            for _ in range(5):
                a = ttnn.zeros([1, 1, 64, 64], dtype=ttnn.bfloat16, layout=TILE, device=p.device, memory_config=L1)
                b = ttnn.relu(a)
            kept.append(b)
        except Exception as problem:
            errors.append(first_line(problem))

    workers = [threading.Thread(target=work) for _ in range(p.threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if errors:
        raise RuntimeError("; ".join(errors))
    return kept


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--steps", type=int, default=100)
    options.add_argument("--repeat", type=int, default=0, help="rounds of cached operations after each step")
    options.add_argument("--threads", type=int, default=4, help="threads of the threaded step; 0 leaves it out")
    chosen = options.parse_args()
    report = Reporter(chosen.report_fd, chosen.ack_fd)
    device = open_board(chosen)
    report(step=0, what="open", error=None, **account(device))
    program = Program(device, chosen.seed, chosen.threads, chosen.trace_region_size)
    for number in range(1, chosen.steps + 1):
        what, error = program.run()
        program.repeat(chosen.repeat)
        report(step=number, what=what, error=error, **account(device))
    close_board(chosen, device)
    report(step=chosen.steps + 1, what="close", error=None, chips=[], views={}, buffers=[], program_cache=0)


if __name__ == "__main__":
    main()

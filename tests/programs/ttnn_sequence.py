# SPDX-License-Identifier: Apache-2.0
"""Random tensors made and dropped, with all that ttnn says of each: the first line is the device, each other a step.

The lines are what tests/sequences.py replays on a simulated device. Addresses are absolute, those in blocks relative
to the bank's base; a free names the step that allocated. Cores of shards are counted row by row from (0, 0).
tests/data/allocator_p150.jsonl is --board p150 --seed 150 --steps 600 --blocks-every 10 --trace-region-size 50000000.
"""

from __future__ import annotations

import math
import os
import random
from pathlib import Path
from typing import Any

import ttnn
from ttnn_bench import BUFFER_TYPES, L1_SMALL_SIZE, Reporter, close_board, open_board, parser

DTYPES = ("bfloat16", "float32", "uint32", "int32", "uint16", "uint8", "bfloat8_b", "bfloat4_b")
ROW_MAJOR_DTYPES = DTYPES[:6]
SHARDED = ("HEIGHT_SHARDED", "WIDTH_SHARDED", "BLOCK_SHARDED", "ND_SHARDED")
TILES = ((32, 32), (16, 32), (32, 16), (16, 16), (8, 32), (4, 32), (1, 32))
MAX_LIVE = 60
MOST_ROWS = {"DRAM": 1 << 18, "TRACE": 1024, "L1": 8192, "L1_SMALL": 512}
MOST_COLUMNS = {"DRAM": 1 << 14, "TRACE": 512, "L1": 2048, "L1_SMALL": 128}
TOO_LARGE = {"DRAM": [1 << 22, 1 << 14], "TRACE": [1 << 16, 512], "L1": [1 << 18, 2048]}  # in any type, on any board


def up(value: int, step: int) -> int:
    return -(-value // step) * step


class Sequence:
    """The tensors that are alive, by the step that made them."""

    def __init__(self, device: Any, seed: int) -> None:
        self.device = device
        self.random = random.Random(seed)
        grid = device.compute_with_storage_grid_size()
        self.grid = (grid.x, grid.y)
        self.dram_banks = ttnn.get_memory_view(device, ttnn.BufferType.DRAM).num_banks
        self.live: dict[int, tuple[Any, str]] = {}

    def step(self, number: int) -> dict[str, Any]:
        if len(self.live) >= MAX_LIVE or (self.live and self.random.random() < 0.42):
            return self.free()
        return self.allocate(number)

    def free(self) -> dict[str, Any]:
        of = self.random.choice(list(self.live))
        tensor, kind = self.live.pop(of)
        address = tensor.buffer_address()
        del tensor
        return {"op": "free", "of_step": of, "buffer_type": kind, "address": address}

    def allocate(self, number: int) -> dict[str, Any]:
        spec = self.spec()
        kind = spec["memory_config"]["buffer_type"]
        try:
            tensor = self.make(spec)
        except RuntimeError as error:
            text = str(error).partition("info:\n")[2].partition("\nbacktrace:")[0].strip()
            return {"op": "oom" if "Out of Memory" in text else "refused", **spec, "error": text}
        self.live[number] = tensor, kind
        address = tensor.buffer_address()
        record = {"op": "alloc", **spec, "address": address}
        if 0 in spec["shape"]:
            return record
        record["page_size"] = tensor.buffer_page_size()
        record["aligned_page_size"] = tensor.buffer_aligned_page_size()
        if kind == "L1" and spec["memory_config"]["memory_layout"] == "INTERLEAVED":
            record["pages"] = self.pages(address)
        return record

    def pages(self, address: int) -> list[list[int]]:
        """Number, core and address of some pages of an L1 buffer."""
        pages = [page for page in ttnn._ttnn.reports.get_buffer_pages([self.device]) if page.address == address]
        some = self.random.sample(pages, min(4, len(pages)))
        return sorted([page.page_index, page.core_x, page.core_y, page.page_address] for page in some)

    def spec(self) -> dict[str, Any]:
        kind = self.random.choices(BUFFER_TYPES, (3, 5, 3, 1))[0]
        tiled = self.random.random() < 0.5
        too_large = kind in TOO_LARGE and self.random.random() < 0.06
        sharded = kind != "TRACE" and not too_large and self.random.random() < (0.5 if kind != "L1_SMALL" else 0.95)
        tile = self.random.choice(TILES) if tiled and self.random.random() < 0.3 else TILES[0]
        while True:
            shape = TOO_LARGE[kind] if too_large else self.shape(kind)
            memory: dict[str, Any] | None = {"memory_layout": "INTERLEAVED"}
            if sharded:
                memory = self.shards(kind, shape, tile if tiled else None)
            if memory is not None:
                break
        return {
            "shape": shape,
            "dtype": self.random.choice(DTYPES if tiled else ROW_MAJOR_DTYPES),
            "layout": "TILE" if tiled else "ROW_MAJOR",
            "tile": tile,
            "memory_config": {"buffer_type": kind, **memory},
        }

    def side(self, most: int) -> int:
        return round(math.exp(self.random.uniform(0, math.log(most))))

    def shape(self, kind: str) -> list[int]:
        if self.random.random() < 0.01:
            return [self.random.randrange(4), 0, 32]
        columns, rows = self.side(MOST_COLUMNS[kind]), self.side(MOST_ROWS[kind])
        rank = self.random.randrange(1, 6)
        if rank == 1:
            return [columns]
        outer = [self.random.choice((1, 1, 2, 3, 5)) for _ in range(rank - 2)]
        return [*outer, -(-rows // math.prod(outer)), columns]

    def shards(self, kind: str, shape: list[int], tile: tuple[int, int] | None) -> dict[str, Any] | None:
        """A way to shard the shape; None if it does not fit on the cores there are."""
        if 0 in shape:
            return None
        layout = self.random.choice(SHARDED)
        cores = self.dram_banks if kind == "DRAM" else math.prod(self.grid)
        step_y, step_x = tile or (1, 1)
        if layout == "ND_SHARDED":
            return self.nd_shards(kind, shape, cores, tile)
        rows = math.prod(shape[:-2]) * up(shape[-2] if len(shape) > 1 else 1, step_y)
        columns = up(shape[-1], step_x)
        high, wide = up(self.side(rows), step_y), up(self.side(columns), step_x)
        orientation = self.random.choice(("ROW_MAJOR", "COL_MAJOR"))
        memory: dict[str, Any] = {"memory_layout": layout, "orientation": orientation}
        if layout == "BLOCK_SHARDED":
            across, down = -(-columns // wide), -(-rows // high)
            if orientation == "COL_MAJOR":
                across, down = down, across
            grid_x, grid_y = (self.dram_banks, 1) if kind == "DRAM" else self.grid
            if across > grid_x or down > grid_y:
                return None
            grid = [self.random.randint(across, grid_x), self.random.randint(down, grid_y)]
            return {**memory, "shard_shape": [high, wide], "num_cores": math.prod(grid), "grid": grid}
        if layout == "HEIGHT_SHARDED":
            shards, wide = -(-rows // high), columns
        else:
            shards, high = -(-columns // wide), rows
        if shards > cores and self.random.random() < 0.9:
            return None
        number = self.random.randint(min(shards, cores), cores)
        return {**memory, "shard_shape": [high, wide], "num_cores": number}

    def nd_shards(self, kind: str, shape: list[int], cores: int, tile: tuple[int, int] | None) -> dict[str, Any]:
        # With uneven CONTIGUOUS_1D shards in L1, ttnn's list of pages is an error, even those of other buffers.
        strategies = ("ROUND_ROBIN_1D", "CONTIGUOUS_1D") if kind == "DRAM" else ("ROUND_ROBIN_1D",)
        step_y, step_x = tile or (1, 1)
        rank = self.random.randint(2 if tile else 1, max(len(shape), 2 if tile else 1))
        shard = [self.side(max(side, 1)) for side in shape[-rank:]]
        shard = [1] * (rank - len(shard)) + shard
        shard[-1] = up(shard[-1], step_x)
        if rank > 1:
            shard[-2] = up(shard[-2], step_y)
        return {
            "memory_layout": "ND_SHARDED",
            "shard_shape": shard,
            "num_cores": self.random.randint(1, cores),
            "orientation": self.random.choice(("ROW_MAJOR", "COL_MAJOR")),
            "strategy": self.random.choice(strategies),
        }

    def make(self, spec: dict[str, Any]) -> Any:
        memory = spec["memory_config"]
        sides = ttnn.Shape(spec["shape"]), getattr(ttnn, spec["dtype"]), getattr(ttnn, f"{spec['layout']}_LAYOUT")
        others = {"buffer_type": getattr(ttnn.BufferType, memory["buffer_type"]), "tile": ttnn.Tile(spec["tile"])}
        layout = getattr(ttnn.TensorMemoryLayout, memory["memory_layout"])
        if memory["memory_layout"] == "INTERLEAVED":
            made = ttnn.TensorSpec(*sides, **others)
        else:
            orientation = getattr(ttnn.ShardOrientation, memory["orientation"])
            grid = self.cores(memory)
            if memory["memory_layout"] == "ND_SHARDED":
                strategy = getattr(ttnn.ShardDistributionStrategy, memory["strategy"])
                shards = ttnn.NdShardSpec(ttnn.Shape(memory["shard_shape"]), grid, orientation, strategy)
                made = ttnn.TensorSpec(*sides, shards, **others)
            else:
                shards = ttnn.ShardSpec(grid, memory["shard_shape"], orientation)
                made = ttnn.TensorSpec(*sides, layout, shards, **others)
        return ttnn.allocate_tensor_on_device(made, self.device)

    def cores(self, memory: dict[str, Any]) -> Any:
        """The first cores row by row, or a rectangle; DRAM's banks are a single row."""
        wide = self.dram_banks if memory["buffer_type"] == "DRAM" else self.grid[0]
        if "grid" in memory:
            return rectangles((0, 0, memory["grid"][0] - 1, memory["grid"][1] - 1))
        rows, rest = divmod(memory["num_cores"], wide)
        whole = [(0, 0, wide - 1, rows - 1)] if rows else []
        return rectangles(*whole, *([(0, rows, rest - 1, rows)] if rest else []))

    def bank(self, kind: str, whole: bool) -> dict[str, Any]:
        """One bank's figures and, if whole, its blocks in the order of addresses."""
        view = ttnn.get_memory_view(self.device, getattr(ttnn.BufferType, kind))
        table = sorted(view.block_table, key=lambda block: int(block["address"]))
        record: dict[str, Any] = {
            "bank": {
                "size": view.total_bytes_per_bank,
                "allocated": view.total_bytes_allocated_per_bank,
                "free": view.total_bytes_free_per_bank,
                "largest_free": view.largest_contiguous_bytes_free_per_bank,
                "blocks": len(table),
            }
        }
        if whole:
            fields = ("blockID", "address", "size")
            record["blocks"] = [[*(int(b[f]) for f in fields), int(b["allocated"] == "yes")] for b in table]
        return record


def rectangles(*corners: tuple[int, int, int, int]) -> Any:
    return ttnn.CoreRangeSet(
        [ttnn.CoreRange(ttnn.CoreCoord(x0, y0), ttnn.CoreCoord(x1, y1)) for x0, y0, x1, y1 in corners]
    )


def reports(device: Any, number: int) -> dict[str, str]:
    """The CSV reports that ttnn writes."""
    prefix = f"{number}_"
    ttnn._ttnn.device.DumpDeviceMemoryState(device, prefix)
    folder = Path(os.environ.get("TT_METAL_LOGS_PATH", "."), "generated", "reports")
    paths = folder.glob(f"{prefix}*.csv")
    return {path.name.removeprefix(prefix): path.read_text() for path in paths}


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--steps", type=int, default=100)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--blocks-every", type=int, default=1, help="steps between whole tables of blocks")
    options.add_argument("--reports-every", type=int, default=0, help="steps between ttnn's CSV reports")
    arguments = options.parse_args()
    report = Reporter(arguments.report_fd, arguments.ack_fd)
    device = open_board(arguments)
    sequence = Sequence(device, arguments.seed)
    report(
        header={
            "board": arguments.board,
            "l1_small_size": L1_SMALL_SIZE,
            "trace_region_size": arguments.trace_region_size,
            "compute_grid": sequence.grid,
            "bases": {
                name: ttnn._ttnn.device.GetAllocatorBaseAddress(device, getattr(ttnn.BufferType, name))
                for name in ("DRAM", "L1")
            },
            "banks": {
                name: ttnn.get_memory_view(device, getattr(ttnn.BufferType, name)).num_banks for name in BUFFER_TYPES
            },
        }
    )
    for number in range(arguments.steps):
        record = sequence.step(number)
        kind = record["buffer_type"] if record["op"] == "free" else record["memory_config"]["buffer_type"]
        record.update(sequence.bank(kind, number % arguments.blocks_every == 0))
        if arguments.reports_every and number % arguments.reports_every == 0:
            record["reports"] = reports(device, number)
        report(step=number, **record)
    sequence.live.clear()
    close_board(arguments, device)


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""Random buffers and operations, and after each what ttnn itself knows of every core's L1.

That is: the blocks its allocators have taken, the pages of each buffer on each core, and where the circular buffers of
the program that ran last lie. At the end L1 is filled beside cached programs, until ttnn refuses them and says at which
addresses they clash.
"""

from __future__ import annotations

import sys
import types
from typing import Any

import ttnn
from ttnn_bench import Reporter, close_board, first_line, open_board, parser
from ttnn_capture import RANGE, operations
from ttnn_random import Program

OPERATIONS = (
    *(
        "matmul",
        "add",
        "relu",
        "add_sharded",
        "softmax",
        "layer_norm",
        "relu_sharded",
        "concat",
        "transpose",
        "to_sharded",
    ),
    *("embedding", "conv2d", "gelu", "typecast", "reshape_row_major"),
)
REFUSED = ("add", "relu", "softmax", "transpose", "typecast")  # they do the same however much L1 is free
BUFFERS = ("l1", "l1", "row_major", "narrow", "height_sharded", "width_sharded", "block_sharded", "l1_small")
TILE_BYTES = 2048


def blocks(device: Any) -> list[list[int]]:
    """Kind, address and bytes of every block in a bank of L1 or L1_SMALL."""
    l1, small = (ttnn.get_memory_view(device, kind) for kind in (ttnn.BufferType.L1, ttnn.BufferType.L1_SMALL))
    base = ttnn._ttnn.reports.get_device_info(device).address_at_first_l1_cb_buffer
    places = ((ttnn.BufferType.L1, l1, base), (ttnn.BufferType.L1_SMALL, small, base + l1.total_bytes_per_bank))
    return sorted(
        [kind.value, start + int(block["address"]), int(block["size"])]
        for kind, view, start in places
        for block in view.block_table
        if block["allocated"] == "yes"
    )


def pages(device: Any) -> list[list[int]]:
    """Kind and address of a buffer, a core, and the stretch that the buffer's pages cover there."""
    found: dict[tuple[int, int, int, int], list[int]] = {}
    for page in ttnn._ttnn.reports.get_buffer_pages([device]):
        key = page.buffer_type.value, page.address, page.core_x, page.core_y
        start, end = page.page_address, page.page_address + page.page_size
        low, high = found.setdefault(key, [start, end])
        found[key] = [min(low, start), max(high, end)]
    return sorted([*key, *stretch] for key, stretch in found.items())


def captured(operation: Any) -> tuple[Any, list[list[int]] | None, str | None]:
    """Runs it for real; address, bytes on a core and ranges of the circular buffers of its last program."""
    result = error = None
    ttnn.graph.begin_graph_capture(ttnn.graph.RunMode.NORMAL)
    try:
        result = operation()
    except RuntimeError as problem:
        error = first_line(problem)
    nodes = ttnn.graph.end_graph_capture()
    placed: list[Any] | None = None
    for node in nodes:
        params = node["params"]
        if node["node_type"] == "circular_buffer_deallocate_all":
            placed = []
        elif node["node_type"] == "circular_buffer_allocate" and placed is not None:
            ranges = [[int(n) for n in found] for found in RANGE.findall(params["core_range_set"])]
            shared = bool(int(params["globally_allocated"]))
            placed.append([int(params["address"]), int(params["size"]), ranges, shared])
    return result, placed, error


def tiles(device: Any, count: int) -> Any:
    """So many of them, in L1."""
    return ttnn.zeros(
        [32, 32 * count],
        dtype=ttnn.bfloat16,
        layout=ttnn.TILE_LAYOUT,
        device=device,
        memory_config=ttnn.L1_MEMORY_CONFIG,
    )


def fill(device: Any) -> list[Any]:
    """Tensors that leave no room for a tile in any bank of L1."""
    filling: list[Any] = []
    while True:
        view = ttnn.get_memory_view(device, ttnn.BufferType.L1)
        count = view.largest_contiguous_bytes_free_per_bank // TILE_BYTES
        if not count:
            return filling
        filling.append(tiles(device, count * view.num_banks))


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--steps", type=int, default=40)
    chosen = options.parse_args()
    # Captures look for torch's tensors; the wheel does not bring torch, and after `import ttnn` nothing else wants it.
    sys.modules.setdefault("torch", types.SimpleNamespace(Tensor=type("Tensor", (), {})))  # type: ignore[arg-type]
    report = Reporter(chosen.report_fd, chosen.ack_fd)
    device = open_board(chosen)
    program = Program(device, chosen.seed, 0, 0)
    program.kinds, program.weights = [*BUFFERS], [1] * len(BUFFERS)
    known = operations(device, fabric=False)
    kept: list[Any] = []
    everywhere = tiles(device, ttnn.get_memory_view(device, ttnn.BufferType.L1).num_banks)
    for step in range(chosen.steps):
        placed = error = None
        if step % 2:
            what = OPERATIONS[step // 2 % len(OPERATIONS)]
            device.clear_program_cache()  # so that the capture tells of its buffers
            result, placed, error = captured(known[what])
            kept = [*kept[-3:], result]
        else:
            what, error = program.run()
        report(what=what, error=error, blocks=blocks(device), pages=pages(device), placed=placed)
    kept.clear()
    for what in REFUSED:
        device.clear_program_cache()
        known[what]()  # it fits, and is cached
        filling = fill(device)
        report(what=f"{what} cached", error=None, blocks=blocks(device), pages=[], placed=None)
        _, placed, error = captured(known[what])
        report(what=f"{what} refused", error=error, blocks=blocks(device), pages=[], placed=placed)
        del filling
    del known, kept, everywhere
    program.live.clear()
    close_board(chosen, device)


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""Runs operations one by one and reports what ttnn itself knows of their programs: kernels, and buffers in L1.

Each operation gives two records. The first comes after it ran for real in an emptied program cache and names its
kernels; the second comes after a capture without dispatch, the only place where ttnn tells dataflow buffers and
scratchpads, and has the buffers of each program the operation executed.
"""

from __future__ import annotations

import os
import re
import struct
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ttnn
from ttnn_bench import CONVOLUTION, Reporter, close_board, first_line, open_board, parser

TILE, ROW_MAJOR = ttnn.TILE_LAYOUT, ttnn.ROW_MAJOR_LAYOUT
KINDS = {
    "circular_buffer_allocate": ("circular_buffer", "globally_allocated"),
    "dataflow_buffer_allocate": ("dataflow_buffer", "borrows_memory"),
    "scratchpad_allocate": ("scratchpad", None),
}
RANGE = re.compile(r"\[(\d+)-(\d+) - (\d+)-(\d+)\]")
Operation = Callable[[], Any]


def operations(device: Any, fabric: bool) -> dict[str, Operation]:
    """The operations; their inputs are made here, once, so that only the operation itself runs later."""

    def new(*shape: int, layout: Any = TILE, dtype: Any = ttnn.bfloat16, memory: Any = None) -> Any:
        memory = memory or ttnn.DRAM_MEMORY_CONFIG
        return ttnn.zeros(list(shape), dtype=dtype, layout=layout, device=device, memory_config=memory)

    a, b = new(1, 1, 256, 512), new(1, 1, 512, 128)
    same, small = new(1, 1, 256, 512, memory=ttnn.L1_MEMORY_CONFIG), new(1, 1, 64, 64)
    rows, image = new(1, 1, 64, 128, layout=ROW_MAJOR), new(1, 1, 256, 32, layout=ROW_MAJOR)
    words, table = new(1, 32, layout=ROW_MAJOR, dtype=ttnn.uint32), new(64, 128, layout=ROW_MAJOR)
    weights = ttnn.zeros([32, 32, 3, 3], dtype=ttnn.bfloat16, layout=ROW_MAJOR)
    grid = ttnn.CoreGrid(y=1, x=4)
    sharded = ttnn.create_sharded_memory_config([1, 1, 256, 512], core_grid=grid, strategy=ttnn.ShardStrategy.HEIGHT)
    pieces = new(1, 1, 256, 512, memory=sharded)
    across = {"all_gather": lambda: ttnn.all_gather(a, dim=3, cluster_axis=1)} if fabric else {}
    return {
        **across,  # each chip has a program of its own
        "matmul": lambda: ttnn.matmul(a, b),
        "add": lambda: ttnn.add(a, same),
        "add_sharded": lambda: ttnn.add(pieces, pieces, memory_config=sharded),
        "relu": lambda: ttnn.relu(a),
        "relu_sharded": lambda: ttnn.relu(pieces, memory_config=sharded),
        "gelu": lambda: ttnn.gelu(same, memory_config=ttnn.L1_MEMORY_CONFIG),
        "softmax": lambda: ttnn.softmax(a, dim=-1),
        "layer_norm": lambda: ttnn.layer_norm(a),
        "reshape": lambda: ttnn.reshape(a, [1, 1, 512, 256]),
        "reshape_row_major": lambda: ttnn.reshape(rows, [1, 1, 32, 256]),
        "slice": lambda: ttnn.slice(a, [0, 0, 0, 0], [1, 1, 64, 512]),
        "concat": lambda: ttnn.concat([a, same], dim=2),
        "sum": lambda: ttnn.sum(a, dim=-1, keepdim=True),
        "pad": lambda: ttnn.pad(a, [(0, 0), (0, 0), (0, 32), (0, 32)], value=0.0),
        "embedding": lambda: ttnn.embedding(words, table),
        "conv2d": lambda: ttnn.conv2d(input_tensor=image, weight_tensor=weights, device=device, **CONVOLUTION),
        "transpose": lambda: ttnn.transpose(a, -2, -1),
        "typecast": lambda: ttnn.typecast(a, ttnn.float32),
        "to_layout": lambda: ttnn.to_layout(a, ROW_MAJOR),
        "clone": lambda: ttnn.clone(small),
        "to_sharded": lambda: ttnn.to_memory_config(a, sharded),
    }


class Kernels:
    """The list of kernels that ttnn keeps among its logs: one line for each kernel of each program it built."""

    def __init__(self) -> None:
        folder = Path(os.environ.get("TT_METAL_LOGS_PATH", ".")) / "generated" / "watcher"
        self._names, self._elfs = folder / "kernel_names.txt", folder / "kernel_elf_paths.txt"
        for path in (self._names, self._elfs):
            path.unlink(missing_ok=True)  # of an earlier process
        self._seen: set[int] = set()

    def new(self) -> list[dict[str, Any]]:
        """Those since the last call."""
        names = self._read(self._names)
        elfs = {kernel: paths for kernel, paths in self._read(self._elfs).items() if kernel not in self._seen}
        self._seen.update(elfs)
        return [
            {"name": names[kernel], "elfs": [_elf(path) for path in paths.split(":")]}
            for kernel, paths in elfs.items()
            if paths != "blank"
        ]

    @staticmethod
    def _read(path: Path) -> dict[int, str]:
        if not path.exists():
            return {}
        lines = (line.split(": ", 1) for line in path.read_text().splitlines())
        return {int(number): text for number, text in lines}


def _elf(path: str) -> dict[str, Any]:
    path = os.path.normpath(path)
    return {"path": path, "core": os.path.basename(os.path.dirname(path)), "packed": packed_size(Path(path))}


def packed_size(path: Path) -> int:
    """What tt-metal calls a binary's packed size: the words of its loaded segments that the file holds, in bytes."""
    content = path.read_bytes()
    offset, size, count = (*struct.unpack_from("<I", content, 28), *struct.unpack_from("<HH", content, 42))
    packed = 0
    for number in range(count):
        kind, _, _, _, in_file = struct.unpack_from("<5I", content, offset + number * size)
        if kind == 1:  # PT_LOAD
            packed += (in_file + 3) // 4 * 4
    return packed


def capture(operation: Operation) -> list[list[dict[str, Any]]]:
    """The buffers of each program that the operation would execute; nothing is."""
    ttnn.graph.begin_graph_capture(ttnn.graph.RunMode.NO_DISPATCH)
    try:
        operation()
    finally:
        nodes = ttnn.graph.end_graph_capture()
    programs: list[list[dict[str, Any]]] = []
    for node in nodes:
        kind, params = node["node_type"], node["params"]
        if kind == "circular_buffer_deallocate_all":  # comes before each program
            programs.append([])
        elif kind in KINDS:
            name, borrowed = KINDS[kind]
            programs[-1].append(
                {
                    "kind": name,
                    "size": int(params["size"]),
                    "core_range_set": params["core_range_set"],
                    "ranges": [[int(n) for n in found] for found in RANGE.findall(params["core_range_set"])],
                    "borrowed": borrowed is not None and bool(int(params[borrowed])),
                }
            )
    return [program for program in programs if program]


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--ops", help="only these, separated by commas")
    chosen = options.parse_args()
    # Captures look for torch's tensors; the wheel does not bring torch, and after `import ttnn` nothing else wants it.
    sys.modules.setdefault("torch", types.SimpleNamespace(Tensor=type("Tensor", (), {})))  # type: ignore[arg-type]
    report = Reporter(chosen.report_fd, chosen.ack_fd)
    kernels = Kernels()
    device = open_board(chosen)
    report(op="open", phase="ran", error=None, kernels=kernels.new(), program_cache=0)
    known = operations(device, chosen.fabric)
    for name in chosen.ops.split(",") if chosen.ops else known:
        device.clear_program_cache()
        kernels.new()
        result = error = None
        try:
            result = known[name]()
        except Exception as problem:
            error = first_line(problem)
        cached = device.num_program_cache_entries()
        report(op=name, phase="ran", error=error, kernels=kernels.new(), program_cache=cached)
        del result
        programs: list[list[dict[str, Any]]] = []
        try:
            programs = capture(known[name])
        except Exception as problem:
            error = first_line(problem)
        report(op=name, phase="captured", error=error, programs=programs)
    del known
    close_board(chosen, device)
    report(op="close", phase="ran", error=None, kernels=[], program_cache=0)


if __name__ == "__main__":
    main()

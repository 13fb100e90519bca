# SPDX-License-Identifier: Apache-2.0
"""Operations with L1 filled to the brim: ttnn refuses each, and says how far the buffers of its program would reach.

A capture does not tell where dataflow buffers and scratchpads lie; that refusal does. The buffers themselves are those
of a capture with L1 empty, so only operations that do the same however much L1 is free are of use.
"""

from __future__ import annotations

import sys
import types

import ttnn
from ttnn_bench import Reporter, close_board, open_board, parser
from ttnn_capture import capture, operations
from ttnn_descriptors import TILE_BYTES, message

STEADY = (
    "add", "relu", "softmax", "reshape", "reshape_row_major", "slice", "concat", "sum", "pad", "embedding", "transpose",
    "typecast", "clone",
)  # fmt: skip


def main() -> None:
    options = parser(__doc__).parse_args()
    # Captures look for torch's tensors; the wheel does not bring torch, and after `import ttnn` nothing else wants it.
    sys.modules.setdefault("torch", types.SimpleNamespace(Tensor=type("Tensor", (), {})))  # type: ignore[arg-type]
    report = Reporter(options.report_fd, options.ack_fd)
    device = open_board(options)
    known = operations(device, fabric=False)
    programs = {name: capture(known[name]) for name in STEADY}
    filling = []
    while True:
        view = ttnn.get_memory_view(device, ttnn.BufferType.L1)
        tiles = view.largest_contiguous_bytes_free_per_bank // TILE_BYTES
        if not tiles:
            break
        shape = [32, 32 * tiles * view.num_banks]
        memory = ttnn.L1_MEMORY_CONFIG
        filling.append(
            ttnn.zeros(shape, dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device, memory_config=memory)
        )
    lowest = min(tensor.buffer_address() for tensor in filling)
    for name in STEADY:
        error = None
        try:
            known[name]()
        except RuntimeError as problem:
            error = message(problem)
        report(op=name, lowest=lowest, programs=programs[name], error=error)
    del known, filling
    close_board(options, device)


if __name__ == "__main__":
    main()

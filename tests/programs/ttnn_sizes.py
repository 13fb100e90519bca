# SPDX-License-Identifier: Apache-2.0
"""A convolution and an addition whose sizes ttnn itself tells: what L1_SMALL is opened with is asked for.

Its record has where the L1 buffers of the addition lie, and where its circular buffers end by ttnn's own capture.
"""

from __future__ import annotations

import sys
import types

import ttnn
from ttnn_bench import CONVOLUTION, Reporter, parser


def main() -> int:
    options = parser(__doc__)
    options.add_argument("--l1-small-size", type=int, default=16384)
    arguments = options.parse_args()
    report = Reporter(arguments.report_fd, arguments.ack_fd)
    # Captures look for torch's tensors; the wheel does not bring torch, and after `import ttnn` nothing else wants it.
    sys.modules.setdefault("torch", types.SimpleNamespace(Tensor=type("Tensor", (), {})))  # type: ignore[arg-type]
    device = ttnn.open_device(device_id=0, l1_small_size=arguments.l1_small_size)
    image = ttnn.zeros([1, 1, 256, 32], dtype=ttnn.bfloat16, layout=ttnn.ROW_MAJOR_LAYOUT, device=device)
    weight = ttnn.zeros([32, 32, 3, 3], dtype=ttnn.bfloat16, layout=ttnn.ROW_MAJOR_LAYOUT)
    made = ttnn.conv2d(input_tensor=image, weight_tensor=weight, device=device, **CONVOLUTION)
    ttnn.deallocate(made)
    shape = [1, 1, 2048, 4096]  # large: no program comes closer to a buffer than the one that is captured
    held = [
        ttnn.zeros(
            shape, dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device, memory_config=ttnn.L1_MEMORY_CONFIG
        )
        for _ in range(4)
    ]
    small = ttnn.zeros([1, 1, 64, 64], dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)
    ttnn.graph.begin_graph_capture(ttnn.graph.RunMode.NORMAL)
    ttnn.add(small, small)
    nodes = ttnn.graph.end_graph_capture()
    ends = [
        int(node["params"]["address"]) + int(node["params"]["size"])
        for node in nodes
        if node["node_type"] == "circular_buffer_allocate"
    ]
    report(what="sizes", floor=min(tensor.buffer_address() for tensor in held), end=max(ends))
    ttnn.close_device(device)
    return 0


if __name__ == "__main__":
    sys.exit(main())

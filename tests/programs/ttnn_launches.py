# SPDX-License-Identifier: Apache-2.0
"""Launches cached workloads on a whole mesh, with the fabric: again and again, in turn, and beside L1 buffers.

After each step it reports which operation ran last, and how often something was launched since the step before.
"""

from __future__ import annotations

from typing import Any

import ttnn
from ttnn_bench import Reporter, close_board, open_board, parser

MESHES = {"galaxy": (8, 4)}  # beside those of ttnn_bench
TIMES = 5


def open_mesh(options: Any) -> Any:
    if options.board not in MESHES:
        return open_board(options)
    ttnn.set_fabric_config(ttnn.FabricConfig.FABRIC_1D)
    return ttnn.open_mesh_device(ttnn.MeshShape(*MESHES[options.board]))


def main() -> None:
    options = parser(__doc__).parse_args()
    report = Reporter(options.report_fd, options.ack_fd)
    device = open_mesh(options)

    def new(memory: Any = ttnn.DRAM_MEMORY_CONFIG) -> Any:
        shape, kind = [1, 1, 64, 64], {"dtype": ttnn.bfloat16, "layout": ttnn.TILE_LAYOUT}
        return ttnn.empty(shape, **kind, device=device, memory_config=memory)

    a, b = new(), new()
    operations = {
        "all_gather": lambda: ttnn.all_gather(a, dim=3, cluster_axis=1),  # each chip has a program of its own
        "add": lambda: ttnn.add(a, b),
    }

    def run(what: str, *names: str) -> None:
        for name in names:
            operations[name]()
        report(what=what, last=names[-1], launches=len(names), chips=list(device.get_device_ids()))

    for name in operations:
        run("first", name)
    run("again", *["add"] * TIMES)
    run("again", *["all_gather"] * TIMES)
    run("in turn", *["add", "all_gather"] * TIMES)
    held = new(ttnn.L1_MEMORY_CONFIG)
    run("beside an L1 buffer", *["all_gather"] * TIMES)
    del held
    held = new(ttnn.L1_MEMORY_CONFIG)
    run("beside one at the same address", *["all_gather"] * TIMES)
    lower = new(ttnn.L1_MEMORY_CONFIG)
    run("beside a lower one", *["all_gather"] * TIMES)
    del held, lower
    (close_board if options.board not in MESHES else lambda _, mesh: ttnn.close_mesh_device(mesh))(options, device)


if __name__ == "__main__":
    main()

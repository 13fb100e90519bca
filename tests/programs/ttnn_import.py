# SPDX-License-Identifier: Apache-2.0
"""A workload that ttnn's own graph capture records, in all the forms in which it can be kept.

Some tensors are made before the capture begins and one of those is freed in it. Records: "before" it, "captured" when
it has ended, with ttnn's own account of that moment. Then capture.json (the bare nodes), report.json (with all that
ttnn can add) and db/db.sqlite are in the folder named by --into. With --virtual nothing of the workload is executed.
tests/data/imports/README.md says how its files were made with this.
"""

from __future__ import annotations

import json
import sys
import time
import types
from pathlib import Path
from typing import Any

import ttnn
from ttnn_bench import CONVOLUTION, Reporter, account, close_board, open_board, parser

DRAM, L1 = ttnn.DRAM_MEMORY_CONFIG, ttnn.L1_MEMORY_CONFIG


def new(device: Any, *shape: int, memory: Any = DRAM, layout: Any = ttnn.TILE_LAYOUT) -> Any:
    return ttnn.zeros(list(shape), dtype=ttnn.bfloat16, layout=layout, device=device, memory_config=memory)


def workload(device: Any, made: dict[str, Any], short: bool) -> dict[str, Any]:
    """Interleaved and sharded buffers, circular buffers of their own and inside tensors, a program that runs again."""
    a, b = made["a"], made["b"]
    kept = {"added": ttnn.add(a, b, memory_config=L1)}
    del made["b"], b  # from before the capture
    kept["product"] = ttnn.matmul(a, made["weights"], memory_config=L1)
    if short:
        return kept
    grid = ttnn.CoreGrid(y=1, x=4)
    sharded = ttnn.create_sharded_memory_config([1, 1, 256, 128], core_grid=grid, strategy=ttnn.ShardStrategy.HEIGHT)
    kept["pieces"] = ttnn.to_memory_config(a, sharded)
    gone = [ttnn.relu(a, memory_config=L1) for _ in range(2)]
    kept["again"] = ttnn.add(gone[0], gone[1], memory_config=L1)
    gone.clear()
    kept["convolved"] = ttnn.conv2d(
        input_tensor=made["image"], weight_tensor=made["filter"], device=device, **CONVOLUTION
    )
    return kept


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--into", type=Path, default=Path("."))
    options.add_argument("--short", action="store_true", help="two operations only")
    options.add_argument("--virtual", action="store_true", help="capture without executing")
    options.add_argument("--detailed", action="store_true", help="with every page of every buffer")
    chosen = options.parse_args()
    # Captures look for torch's tensors; the wheel does not bring torch, and after `import ttnn` nothing else wants it.
    sys.modules.setdefault("torch", types.SimpleNamespace(Tensor=type("Tensor", (), {})))  # type: ignore[arg-type]
    report = Reporter(chosen.report_fd, chosen.ack_fd)
    device = open_board(chosen)
    made = {
        "a": new(device, 1, 1, 256, 128),
        "b": new(device, 1, 1, 256, 128, memory=L1),
        "weights": new(device, 1, 1, 128, 256),
        "image": new(device, 1, 1, 256, 32, layout=ttnn.ROW_MAJOR_LAYOUT),
        "untouched": new(device, 1, 1, 32, 96, memory=L1),
        "filter": ttnn.zeros([32, 32, 3, 3], dtype=ttnn.bfloat16, layout=ttnn.ROW_MAJOR_LAYOUT),
    }
    report(what="before", account=account(device), time=time.time())
    mode = ttnn.graph.RunMode.NO_DISPATCH if chosen.virtual else ttnn.graph.RunMode.NORMAL
    if chosen.detailed:
        ttnn.graph.enable_detailed_buffer_tracing()
    ttnn.graph.enable_python_stack_traces()
    ttnn.graph.begin_graph_capture(mode)
    kept = workload(device, made, chosen.short)
    ended = account(device, listed=not chosen.virtual)  # to list what is only virtual crashes
    chosen.into.mkdir(parents=True, exist_ok=True)
    ttnn.graph.end_graph_capture_to_file(str(chosen.into / "report.json"))
    nodes = json.loads((chosen.into / "report.json").read_text())["graph"]
    (chosen.into / "capture.json").write_text(json.dumps(nodes))
    ttnn.graph.import_report(str(chosen.into / "report.json"), str(chosen.into / "db"))
    report(what="captured", account=ended, time=time.time())
    del kept
    made.clear()
    close_board(chosen, device)


if __name__ == "__main__":
    main()

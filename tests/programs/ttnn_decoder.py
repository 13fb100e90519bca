# SPDX-License-Identifier: Apache-2.0
"""A small decoder with phases: weights in DRAM, activations in L1. It can leak, run out of L1, or use a mesh."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import ttnn

sys.path.insert(0, str(Path(__file__).parents[2] / "src"))

import ttmem

_L1 = ttnn.L1_MEMORY_CONFIG


class Layer:
    def __init__(self, model: Model) -> None:
        self.up = model.weight(model.hidden, 4 * model.hidden)
        self.down = model.weight(4 * model.hidden, model.hidden)

    def forward(self, hidden: Any) -> Any:
        wide = ttnn.matmul(hidden, self.up, memory_config=_L1)
        active = ttnn.relu(wide, memory_config=_L1)
        return ttnn.matmul(active, self.down, memory_config=_L1)


class Model:
    def __init__(self, device: Any, layers: int, hidden: int) -> None:
        self.device, self.hidden = device, hidden
        self.kept: list[Any] = []
        self.layers = [Layer(self) for _ in range(layers)]

    def weight(self, rows: int, columns: int) -> Any:
        return ttnn.zeros([1, 1, rows, columns], ttnn.bfloat16, ttnn.TILE_LAYOUT, self.device)

    def forward(self, tokens: int) -> Any:
        hidden = ttnn.zeros([1, 1, tokens, self.hidden], ttnn.bfloat16, ttnn.TILE_LAYOUT, self.device, _L1)
        for layer in self.layers:
            hidden = ttnn.add(hidden, layer.forward(hidden), memory_config=_L1)
        return hidden


def fill_l1(device: Any) -> None:
    kept = []
    try:
        while True:
            kept.append(ttnn.empty([1, 1, 1024, 2048], ttnn.bfloat16, ttnn.TILE_LAYOUT, device, _L1))
    except RuntimeError as error:
        print(str(error).splitlines()[0][:80])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--leak", action="store_true")
    parser.add_argument("--fill", action="store_true", help="allocate L1 until there is none")
    parser.add_argument("--mesh", help="rows and columns, such as 4x8")
    options = parser.parse_args()
    if options.mesh:
        rows, columns = map(int, options.mesh.split("x"))
        device = ttnn.open_mesh_device(ttnn.MeshShape(rows, columns))
    else:
        device = ttnn.open_device(device_id=0)
    with ttmem.phase("load"):
        model = Model(device, options.layers, options.hidden)
    with ttmem.phase("prefill"):
        model.forward(128)
    for _ in range(options.steps):
        with ttmem.phase("decode"):
            result = model.forward(32)
            if options.leak:
                model.kept.append(result)
    if options.fill:
        with ttmem.phase("fill"):
            fill_l1(device)
    if options.mesh:
        ttnn.close_mesh_device(device)
    else:
        ttnn.close_device(device)


main()

# SPDX-License-Identifier: Apache-2.0
"""Weights in every format, with every mesh mapper, made from values on the host as `ttnn.from_torch` makes them.

`ttnn.from_torch` needs torch; it calls `ttnn.Tensor` with the same arguments, which also takes a numpy array. With
--torch TYPE it is called itself, with torch tensors of this type.
Usage: ttnn_weights.py ROWS COLUMNS [--torch TYPE]
"""

from __future__ import annotations

import argparse
import importlib
from typing import Any

import numpy as np
import ttnn

SHAPES = ([1, 8, 256, 512], [2, 8, 256, 160], [1, 8, 250, 300])  # the last one is padded
FORMATS = (ttnn.bfloat16, ttnn.float32, ttnn.bfloat8_b, ttnn.bfloat4_b)
DRAM, L1 = ttnn.DRAM_MEMORY_CONFIG, ttnn.L1_MEMORY_CONFIG


def make(values: Any, dtype: Any, device: Any, mapper: Any, layout: Any = ttnn.TILE_LAYOUT, memory: Any = DRAM) -> Any:
    if not isinstance(values, np.ndarray):
        return ttnn.from_torch(
            values, dtype=dtype, layout=layout, device=device, memory_config=memory, mesh_mapper=mapper
        )
    if isinstance(mapper, ttnn.ReplicateTensorToMeshWrapper):
        mapper = mapper.unwrap()
    return ttnn.Tensor(
        tensor=values, data_type=dtype, device=device, layout=layout, mem_config=memory, mesh_mapper=mapper
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("rows", type=int)
    parser.add_argument("columns", type=int)
    parser.add_argument("--torch", metavar="TYPE")
    options = parser.parse_args()

    def source(shape: list[int]) -> Any:
        if options.torch is None:
            return np.ones(shape, dtype=np.float32)
        torch = importlib.import_module("torch")
        return torch.ones(shape, dtype=getattr(torch, options.torch))

    device = ttnn.open_mesh_device(ttnn.MeshShape(options.rows, options.columns))
    mappers = [None, ttnn.ReplicateTensorToMesh(device), ttnn.ShardTensorToMesh(device, dim=1)]
    kept = []
    for shape in SHAPES:
        values = source(shape)
        for dtype in FORMATS:
            for mapper in mappers:
                kept.append(make(values, dtype, device, mapper))
                if shape is SHAPES[0]:
                    made = make(values, dtype, None, mapper)  # on the host first
                    kept.append(made.to(device, DRAM))
                    make(values, dtype, device, mapper, memory=L1)
        del kept[::2]
    kept.append(make(source([512, 512]), ttnn.bfloat16, device, None, layout=ttnn.ROW_MAJOR_LAYOUT))
    ttnn.matmul(kept[0], kept[0], transpose_b=True)
    ttnn.close_mesh_device(device)


main()

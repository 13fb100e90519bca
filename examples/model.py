# SPDX-License-Identifier: Apache-2.0
"""A small ttnn model, without any ttmem code.

ttmem run -- python examples/model.py                its memory, at the peak and at the end
ttmem run --stacks -- python examples/model.py       the same with the line of Python behind each byte
python examples/model.py                             the same model without ttmem
"""

import ttnn

device = ttnn.open_device(device_id=0)


def tensor(rows: int, columns: int, memory: ttnn.MemoryConfig) -> ttnn.Tensor:
    return ttnn.empty([1, 1, rows, columns], ttnn.bfloat16, ttnn.TILE_LAYOUT, device, memory)


weights = [tensor(1024, 1024, ttnn.DRAM_MEMORY_CONFIG) for _ in range(4)]
hidden = tensor(128, 1024, ttnn.L1_MEMORY_CONFIG)
for layer in weights:
    hidden = ttnn.relu(ttnn.matmul(hidden, layer, memory_config=ttnn.L1_MEMORY_CONFIG))
print("result:", list(hidden.shape))

del weights, layer, hidden
ttnn.close_device(device)

# SPDX-License-Identifier: Apache-2.0
"""One operation, the first that a tracker sees, on a device that was opened before; prints what it holds then."""

from __future__ import annotations

import json
import sys

import ttnn

import ttmem

device = ttnn.open_device(device_id=0)
operand = ttnn.zeros([1, 1, 256, 256], dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)
name, tracker = sys.argv[1:]
if tracker == "instrument":
    ttmem.instrument()
result = getattr(ttnn, name)(operand, operand)
kinds = ("cb", "dfb", "scratchpad")
print(json.dumps({kind: ttmem.memory_allocated(device=0, kind=kind) for kind in kinds}), flush=True)

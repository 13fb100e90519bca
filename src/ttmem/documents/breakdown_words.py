# SPDX-License-Identifier: Apache-2.0
"""What pools are called in text, and groups without a key."""

from __future__ import annotations

POOLS = {
    "dram": "DRAM",
    "l1_buffers": "L1 buffers",
    "programs": "cached programs",
    "host": "host memory",
    "system": "the runtime's own",
}
NO_KEY = {
    "op": "no ttnn operation",
    "line": "no line is known",
    "stack": "no stack is known",
    "shape": "no shape is known",
    "program": "no program",
    "kind": "",
}

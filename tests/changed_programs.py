# SPDX-License-Identifier: Apache-2.0
"""A small ttnn program, and variants of it with one change each."""

from __future__ import annotations

from typing import NamedTuple

BASE = """\
import ttnn


def tensor(device, rows, columns, dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, memory=ttnn.DRAM_MEMORY_CONFIG):
    return ttnn.zeros([1, 1, rows, columns], dtype=dtype, layout=layout, device=device, memory_config=memory)


def load(device):
    w1 = tensor(device, 256, 512)
    w2 = tensor(device, 256, 512)
    w3 = tensor(device, 256, 512)
    return w1, w2, w3


def mlp(x, w1, w2, w3):
    gate = ttnn.add(w1, x)
    up = ttnn.multiply(w2, x)
    both = ttnn.subtract(gate, up)
    ttnn.deallocate(gate)
    ttnn.deallocate(up)
    out = ttnn.add(both, w3)
    ttnn.deallocate(both)
    return out


kept = []


def main():
    device = OPEN
    weights = load(device)
    x = tensor(device, 256, 512)
    for step in range(4):
        out = mlp(x, *weights)
        ttnn.deallocate(out)
    CLOSE


main()
"""
OPEN = {
    "n150": ("ttnn.open_device(device_id=0)", "ttnn.close_device(device)"),
    "n300": ("ttnn.open_mesh_device(ttnn.MeshShape(1, 2))", "ttnn.close_mesh_device(device)"),
}
SIZE = 256 * 512 * 2  # of every tensor


class Change(NamedTuple):
    """One change of the program, and what it does to the buffers at the peak."""

    old: str
    new: str
    dram: int = 0  # bytes more of DRAM
    l1: int = 0  # bytes more of L1 buffers
    words: tuple[str, ...] = ()  # that the text contains


CHANGES = {
    "nothing but moved lines": Change("import ttnn\n", "import ttnn\n\n# A comment.\n\n"),
    "a function is moved": Change(
        "def main():", "def other():\n    pass\n\n\ndef main():\n    print('moved')", words=("No difference",)
    ),
    "a function is renamed": Change("mlp(x", "feed_forward(x", words=("No difference",)),
    "a weight has another shape": Change(
        "w3 = tensor(device, 256, 512)", "w3 = tensor(device, 1, 512)", -(SIZE - 32 * 512 * 2),
        words=("[1, 1, 256, 512] bfloat16 tile → [1, 1, 1, 512] bfloat16 tile: another shape", "load)"),
    ),
    "a weight has another type": Change(
        "w3 = tensor(device, 256, 512)", "w3 = tensor(device, 256, 512, dtype=ttnn.float32)", SIZE,
        words=("bfloat16 tile → [1, 1, 256, 512] float32 tile: another shape",),
    ),
    "a tensor has another layout": Change(
        "x = tensor(device, 256, 512)\n",
        "x = tensor(device, 256, 512)\n    y = tensor(device, 8, 512, layout=ttnn.ROW_MAJOR_LAYOUT)\n",
        8 * 512 * 2, words=("row_major: appeared",),
    ),
    "a weight is in L1": Change(
        "w3 = tensor(device, 256, 512)", "w3 = tensor(device, 256, 512, memory=ttnn.L1_MEMORY_CONFIG)", -SIZE, SIZE,
        words=("gone", "appeared"),
    ),
    "another order": Change(
        "    gate = ttnn.add(w1, x)\n    up = ttnn.multiply(w2, x)\n",
        "    up = ttnn.multiply(w2, x)\n    gate = ttnn.add(w1, x)\n", words=("No difference",),
    ),
    "a forgotten deallocate": Change(
        "    ttnn.deallocate(up)\n", "", words=("ttnn.multiply", "lives longer: until after", "mlp.py:20 mlp"),
    ),
    "what is kept for ever": Change(
        "        ttnn.deallocate(out)\n", "        kept.append(out)\n", 3 * SIZE,
        words=("ttnn.add", "is no longer freed by the program", "(0 → 3)"),
    ),
    "a later deallocate": Change(
        "    ttnn.deallocate(gate)\n    ttnn.deallocate(up)\n    out = ttnn.add(both, w3)\n",
        "    out = ttnn.add(both, w3)\n    ttnn.deallocate(gate)\n    ttnn.deallocate(up)\n", SIZE,
        words=("lives longer",),
    ),
    "an earlier deallocate": Change(
        "    both = ttnn.subtract(gate, up)\n    ttnn.deallocate(gate)\n",
        "    both = ttnn.subtract(gate, up, output_tensor=gate)\n", -SIZE, words=("ttnn.subtract", "gone"),
    ),
    "another operation": Change(
        "up = ttnn.multiply(w2, x)", "up = ttnn.maximum(w2, x)",
        words=("ttnn.multiply → ttnn.maximum", "another operation"),
    ),
    "one more operation": Change(
        "    out = ttnn.add(both, w3)\n", "    out = ttnn.add(both, w3)\n    out = ttnn.relu(out)\n",
        words=("buffers allocated",),
    ),
    "one more weight": Change(
        "    return w1, w2, w3", "    global w4\n    w4 = tensor(device, 256, 512)\n    return w1, w2, w3", SIZE,
        words=("appeared",),
    ),
    "one weight less": Change(
        "    w3 = tensor(device, 256, 512)\n", "    w3 = w2\n", -SIZE, words=("gone",),
    ),
    "another batch": Change(
        "256, 512", "512, 512", 7 * SIZE,
        words=("[1, 1, 256, 512] bfloat16 tile → [1, 1, 512, 512] bfloat16 tile: another shape",),
    ),
    "more steps": Change("range(4)", "range(9)", words=("buffers allocated: 20 → 40",)),
    "a helper in between": Change(
"        out = mlp(x, *weights)",
        "        out = (lambda *all: mlp(*all))(x, *weights)", words=("No difference",),
    ),
    "a program of another shape": Change(
        "    CLOSE", "    small = ttnn.add(weights[0][:, :, :32, :32], 1.0)\n    CLOSE", words=("programs compiled",),
    ),
}  # fmt: skip

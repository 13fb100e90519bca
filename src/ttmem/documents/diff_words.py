# SPDX-License-Identifier: Apache-2.0
"""Words of a comparison of two runs, for its document and its text."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ttmem.model import schema

# Figures of a whole run, in the order in which they are shown. None of them is a sum over pools.
FIGURES = {
    "dram": "DRAM reserved at its peak, on the fullest chip",
    "l1": "L1 reserved for buffers at its peak, on the fullest chip, all cores",
    "l1_small": "L1_SMALL at its peak",
    "trace": "traces at their peak",
    "programs": "cached programs at their peak, all cores",
    "ring": "kernel ring of a core, largest program",
    "headroom": "least headroom in L1 at the moment, on a core",
    "dram_block": "lowest value of the largest free block of DRAM, in a bank",
    "l1_block": "lowest value of the largest free block of L1, in a bank",
    "allocations": "buffers allocated",
    "compiled": "programs compiled",
    "failed": "failed allocations",
}
COUNTS = ("allocations", "compiled", "failed")  # numbers of things, not of bytes
MORE_IS_BETTER = ("headroom", "dram_block", "l1_block")


def life_text(row: schema.DiffLife) -> str:
    """How the life of a group changed, in words."""
    if not row["new_freed"]:
        return f"{row['key']} is no longer freed by the program"
    if not row["old_freed"]:
        return f"{row['key']} is now freed by the program"
    what = "lives longer" if row["longer"] else "is freed earlier"
    return f"{row['key']} {what}: until after {row['new_until']}, not {row['old_until']}"

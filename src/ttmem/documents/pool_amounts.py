# SPDX-License-Identifier: Apache-2.0
"""Amounts of memory for each breakdown pool, as data and as text: sizes of different pools may not be added up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ttmem.model.kinds import BREAKDOWN_POOL_OF, KIND_BY_LABEL, BreakdownPool
from ttmem.model.units import human

if TYPE_CHECKING:
    from ttmem.model.schema import CountAndBytes

_WORDS = {
    "dram": "of DRAM",
    "l1_buffers": "of L1 (sum over all cores)",
    "programs": "of programs that take turns in L1 (sum over all cores)",
    "host": "of host memory",
    "system": "of the runtime's own L1 (sum over all cores)",
}


def pool_amounts(amounts: Iterable[tuple[int, int, int]]) -> dict[str, CountAndBytes]:
    """Sum up amounts by pool; each is a kind, a number of allocations and their bytes. Empty pools are left out.

    >>> from ttmem.model.kinds import Kind
    >>> pool_amounts([(Kind.DRAM, 1, 100), (Kind.L1, 0, 0), (Kind.TRACE, 2, 20)])
    {'dram': {'count': 3, 'bytes': 120}}
    """
    counts, sizes = [0] * len(BreakdownPool), [0] * len(BreakdownPool)
    for kind, count, size in amounts:
        pool = BREAKDOWN_POOL_OF[kind]
        counts[pool] += count
        sizes[pool] += size
    return {
        pool.label: {"count": count, "bytes": size} for pool, count, size in zip(BreakdownPool, counts, sizes) if count
    }


def merged(one: Mapping[str, CountAndBytes], other: Mapping[str, CountAndBytes]) -> dict[str, CountAndBytes]:
    """Both, pool by pool."""
    found: dict[str, CountAndBytes] = {}
    for pool in BreakdownPool:
        both = [amounts[pool.label] for amounts in (one, other) if pool.label in amounts]
        if both:
            found[pool.label] = {
                "count": sum(amount["count"] for amount in both),
                "bytes": sum(amount["bytes"] for amount in both),
            }
    return found


def amounts_text(pools: Mapping[str, CountAndBytes], noun: str = "allocation") -> str:
    """The amount of each pool, in one line. A pool that only a newer server knows has its label.

    >>> amounts_text({"dram": {"count": 3, "bytes": 2048}, "l1_buffers": {"count": 1, "bytes": 64}}, "buffer")
    '2.0 KiB of DRAM in 3 buffers, 64 B of L1 (sum over all cores) in 1 buffer'
    """
    found = []
    for pool, amount in pools.items():
        counted = f"{amount['count']:,} {noun}{'s' * (amount['count'] != 1)}"
        found.append(f"{human(amount['bytes'])} {_WORDS.get(pool, f'of {pool}')} in {counted}")
    return ", ".join(found) or "nothing"


def sizes_text(sizes: Iterable[tuple[str, int]]) -> str:
    """The bytes of each pool in one line, where allocations are not counted; ``sizes`` are labels of kinds and bytes.

    >>> sizes_text([("dram", 1024), ("trace", 1024), ("l1", 64), ("cb", 0)]), sizes_text([])
    ('2.0 KiB of DRAM, 64 B of L1 (sum over all cores)', 'nothing')
    """
    pools = pool_amounts((KIND_BY_LABEL[kind], 1, size) for kind, size in sizes if size)
    return ", ".join(f"{human(amount['bytes'])} {_WORDS[pool]}" for pool, amount in pools.items()) or "nothing"

# SPDX-License-Identifier: Apache-2.0
"""Amounts of memory for each breakdown pool, as data and as text: sizes of different pools may not be added up."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import TYPE_CHECKING

from ttmem.analyze.chip_sums import ChipSums
from ttmem.model.kinds import BREAKDOWN_POOL_OF, KIND_BY_LABEL, BreakdownPool
from ttmem.model.units import human

if TYPE_CHECKING:
    from ttmem.model.schema import CountAndBytes, CountOverChips

_WORDS = {
    "dram": "of DRAM",
    "l1_buffers": "of L1 (sum over all cores)",
    "programs": "of programs that use L1 in turn (sum over all cores)",
    "host": "of host memory",
    "system": "of the runtime's own L1 (sum over all cores)",
}


def pool_amounts(amounts: Iterable[tuple[int, tuple[Hashable, ...], int, int]]) -> dict[str, CountOverChips]:
    """Sum up amounts by pool; empty pools are left out.

    Each amount is a kind, the chips, a number of allocations on these chips, and their bytes on each chip.

    >>> from ttmem.model.kinds import Kind
    >>> pool_amounts([(Kind.DRAM, (0, 1), 1, 100), (Kind.L1, (0,), 0, 0), (Kind.TRACE, (0,), 2, 20)])
    {'dram': {'count': 3, 'bytes': 220, 'per_chip': 120, 'chips': 2}}
    """
    pools: list[ChipSums[Hashable]] = [ChipSums() for _ in BreakdownPool]
    for kind, chips, count, size in amounts:
        if count:
            pools[BREAKDOWN_POOL_OF[kind]].add(chips, size, count)
    return {pool.label: sums.counted() for pool, sums in zip(BreakdownPool, pools) if sums.count}


def added(pools: Iterable[Mapping[str, CountAndBytes | CountOverChips]]) -> dict[str, CountAndBytes]:
    """Sums of sums, pool by pool. The bytes on one chip cannot be computed from sums."""
    listed = list(pools)
    found: dict[str, CountAndBytes] = {}
    for pool in BreakdownPool:
        amounts = [one[pool.label] for one in listed if pool.label in one]
        if amounts:
            found[pool.label] = {
                "count": sum(amount["count"] for amount in amounts),
                "bytes": sum(amount["bytes"] for amount in amounts),
            }
    return found


def amounts_text(pools: Mapping[str, CountAndBytes | CountOverChips], noun: str = "allocation") -> str:
    """The amount of each pool, in one line. A pool that only a newer server knows has its label.

    >>> amounts_text({"dram": {"count": 3, "bytes": 2048}, "l1_buffers": {"count": 1, "bytes": 64}}, "buffer")
    '2.0 KiB of DRAM in 3 buffers, 64 B of L1 (sum over all cores) in 1 buffer'
    >>> amounts_text({"dram": {"count": 3, "bytes": 2048, "per_chip": 512, "chips": 4}})
    '2.0 KiB of DRAM on 4 chips (512 B per chip) in 3 allocations'
    """
    found = []
    for pool, amount in pools.items():
        counted = f"{amount['count']:,} {noun}{'s' * (amount['count'] != 1)}"
        found.append(f"{human(amount['bytes'])} {_WORDS.get(pool, f'of {pool}')}{over_chips(amount)} in {counted}")
    return ", ".join(found) or "nothing"


def over_chips(amount: Mapping[str, object]) -> str:
    """What follows a sum over chips in a sentence; nothing if it is of one chip, or if its chips are not known.

    >>> over_chips({"bytes": 2048, "per_chip": 1536, "chips": 2}), over_chips({"bytes": 2048})
    (' on 2 chips (up to 1.5 KiB per chip)', '')
    """
    size, each, chips = amount["bytes"], amount.get("per_chip"), amount.get("chips")
    if not (isinstance(size, int) and isinstance(each, int) and isinstance(chips, int)) or chips < 2:
        return ""
    return f" on {chips} chips ({'' if each * chips == size else 'up to '}{human(each)} per chip)"


def sizes_text(sizes: Iterable[tuple[str, int]]) -> str:
    """The bytes of each pool in one line, where allocations are not counted; ``sizes`` are labels of kinds and bytes.

    >>> sizes_text([("dram", 1024), ("trace", 1024), ("l1", 64), ("cb", 0)]), sizes_text([])
    ('2.0 KiB of DRAM, 64 B of L1 (sum over all cores)', 'nothing')
    """
    pools = pool_amounts((KIND_BY_LABEL[kind], (0,), 1, size) for kind, size in sizes if size)
    return ", ".join(f"{human(amount['bytes'])} {_WORDS[pool]}" for pool, amount in pools.items()) or "nothing"

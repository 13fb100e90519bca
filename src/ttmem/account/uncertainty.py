# SPDX-License-Identifier: Apache-2.0
"""Sums of the counters that make the numbers of processes uncertain."""

from __future__ import annotations

from ttmem.model.uncertain_reasons import listed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ttmem.account.entities import Chip, Process
    from ttmem.model.schema import ChipUncertainRow, UncertainRow


def added(processes: Iterable[Process]) -> list[UncertainRow]:
    """The sums of the counters over these processes."""
    counts: dict[str, int] = {}
    for process in processes:
        for reason, count in process.uncertain.items():
            counts[reason] = counts.get(reason, 0) + count
    return listed(counts)


def of_chip(chip: Chip) -> list[ChipUncertainRow]:
    """The counters of the processes on a chip, process by process."""
    found = {holding.source.process: None for holding in chip.holdings if holding.source.process.uncertain}
    return [{"pid": process.info.pid or None, **one} for process in found for one in listed(process.uncertain)]

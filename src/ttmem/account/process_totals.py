# SPDX-License-Identifier: Apache-2.0
"""What the totals of a process contribute to a total of a chip."""

from __future__ import annotations

from collections.abc import Iterator

from ttmem.account.entities import Chip, Process
from ttmem.account.totals import HighBounds, Total
from ttmem.model.kinds import Kind, Pool


def total_of(chip: Chip, which: Kind | Pool) -> Total:
    return chip.kinds[which] if isinstance(which, Kind) else chip.pools[which]


class ProcessTotals:
    """Finds the totals of processes. Use a new object after device numbers have changed: it remembers them."""

    def __init__(self) -> None:
        self._numbers_of: dict[Process, dict[Chip, list[int]]] = {}

    def highs_on(self, process: Process, chip: Chip, which: Kind | Pool) -> Iterator[HighBounds]:
        """How high the totals of a process were that are part of a total of a chip.

        The process has one total for a kind on a device, also if the device was believed to be another chip before.
        What it held then is in the upper limits only.
        """
        share = process.shares.get(chip.id)
        if share is None:
            return
        if isinstance(which, Pool):
            yield share.pools[which].highs
            return
        source = share.voices[which]
        if source is not None:
            for number in self._numbers(process).get(chip, ()):
                if (number, which) in source.totals:
                    yield source.totals[number, which].highs_since(share.moved_in[which])

    def _numbers(self, process: Process) -> dict[Chip, list[int]]:
        if process not in self._numbers_of:
            found = self._numbers_of[process] = {}
            for number, chip in process.numbers.items():
                found.setdefault(chip, []).append(number)
        return self._numbers_of[process]


def process_left(process: Process) -> None:
    """A process exits. What it held raised no peak of a chip in a gap, so it is noted for the end of the gap."""
    totals = ProcessTotals()
    done: set[Total] = set()  # chips share totals
    for share in process.shares.values():
        for which in (*Kind, *Pool):
            of_chip = total_of(share.chip, which)
            if of_chip.gaps and of_chip not in done:
                done.add(of_chip)
                for highs in totals.highs_on(process, share.chip, which):
                    of_chip.left_in_gap(highs)

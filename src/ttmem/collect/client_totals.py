# SPDX-License-Identifier: Apache-2.0
"""Running totals of a client's reports, by kind and by pool, for each device and for all, with their peaks."""

from __future__ import annotations

from ttmem.collect.meters import DRAM_POOL, L1_POOL, Reading
from ttmem.model.kinds import KINDS, POOL_OF, Pool

_POOLS = {Pool.DRAM: DRAM_POOL, Pool.L1: L1_POOL, Pool.PROGRAM: L1_POOL}
# A cell is a plain list, because four are written for every event: used, reserved, their two peaks. The cell of a kind
# on a device also counts the live allocations without a reserved size, and notes if there was one since the last reset.
_USED, _RESERVED, _PEAK, _RESERVED_PEAK, _UNKNOWN, _DOUBT = range(6)
_Cell = list[int]
_Key = tuple[int | None, str]


class ClientTotals:
    """Live bytes now, and the highest since the last reset.

    >>> totals = ClientTotals()
    >>> totals.add(0, 0, 4096, 8192)
    >>> totals.remove(0, 0, 4096, 8192)
    >>> totals.read()[0, "dram"]
    Reading(used=0, reserved=0, peak=4096, reserved_peak=8192)
    """

    def __init__(self) -> None:
        self._cells: dict[_Key, _Cell] = {}
        self._chains: dict[tuple[int, int], tuple[_Cell, ...]] = {}

    def add(self, device: int, kind: int, size: int, reserved: int | None) -> None:
        chain = self._chains.get((device, kind)) or self._chain(device, kind)
        for cell in chain:
            used = cell[0] = cell[0] + size
            if used > cell[2]:
                cell[2] = used
        if reserved:
            for cell in chain:
                taken = cell[1] = cell[1] + reserved
                if taken > cell[3]:
                    cell[3] = taken
        elif reserved is None:
            chain[0][4] += 1
            chain[0][5] = 1

    def remove(self, device: int, kind: int, size: int, reserved: int | None) -> None:
        chain = self._chains[device, kind]
        for cell in chain:
            cell[0] -= size
        if reserved:
            for cell in chain:
                cell[1] -= reserved
        elif reserved is None:
            chain[0][4] -= 1

    def read(self) -> dict[_Key, Reading]:
        chains = list(self._chains.values())  # a reader may run without the lock, while another thread adds
        unknown = {id(cell) for chain in chains if chain[0][_UNKNOWN] for cell in chain}
        doubtful = {id(cell) for chain in chains if chain[0][_DOUBT] for cell in chain}
        return {
            key: Reading(
                cell[_USED],
                None if id(cell) in unknown else cell[_RESERVED],
                cell[_PEAK],
                None if id(cell) in doubtful else cell[_RESERVED_PEAK],
            )
            for key, cell in list(self._cells.items())
        }

    def reset_peaks(self) -> None:
        for cell in self._cells.values():
            cell[_PEAK], cell[_RESERVED_PEAK], cell[_DOUBT] = cell[_USED], cell[_RESERVED], int(cell[_UNKNOWN] > 0)

    def _chain(self, device: int, kind: int) -> tuple[_Cell, ...]:
        """The totals that include a kind on a device. Memory of the host or outside the grid is in no pool."""
        labels = [KINDS[kind].label, _POOLS.get(POOL_OF[kind])]
        keys: list[_Key] = [(where, label) for where in (device, None) for label in labels if label is not None]
        chain = tuple(self._cells.setdefault(key, [0] * 6) for key in keys)
        self._chains[device, kind] = chain
        return chain

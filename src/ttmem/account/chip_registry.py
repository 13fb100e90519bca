# SPDX-License-Identifier: Apache-2.0
"""All known chips by id: chips of the machine, chips that processes reported, and assumed chips."""

from __future__ import annotations

from ttmem.account.entities import Chip, EmptyTotals
from ttmem.account.totals import TotalWithContents
from ttmem.model.geometry import board_geometry
from ttmem.model.identity import ChipInfo, assumed_chip_id


class Chips(dict[str, Chip]):
    """Chips by id, up to a limit."""

    def __init__(self, limit: int, all_chips: TotalWithContents | None) -> None:
        """``all_chips`` is a total in which the buffers of every chip are counted."""
        super().__init__()
        self._limit = limit
        self.all_chips = all_chips
        self.nothing = EmptyTotals()

    def has_room_for(self, chip_id: str) -> bool:
        return chip_id in self or len(self) < self._limit

    @property
    def crowded(self) -> bool:
        """Whether chips that no process uses any more should be removed."""
        return 2 * len(self) > self._limit

    def named_by(self, user: int | None) -> int:
        """The number of chips that processes of this user reported first, and that are not in the machine."""
        return sum(chip.named_by == user and not chip.found for chip in self.values())

    def assumed(self, number: int, user: int | None = None) -> Chip:
        """The assumed chip for device N of a process that did not report its chip.

        It has the properties of the machine's chip N, if there is one.
        """
        chip_id = assumed_chip_id(number)
        here = next((chip.info for chip in self.values() if chip.info.kmd == number and not chip.assumed), None)
        return self._named(ChipInfo(chip_id) if here is None else here._replace(id=chip_id), user)

    def described(self, info: ChipInfo, *, user: int | None = None, believed: bool = True) -> Chip:
        """The chip with this id. ``info`` replaces what is known about it; if not ``believed``, it only fills gaps."""
        chip = self._named(info, user)
        first, second = (info, chip.info) if believed else (chip.info, info)
        chip.info = ChipInfo(
            info.id,
            first.pci or second.pci,
            second.kmd if first.kmd is None else first.kmd,
            first.arch or second.arch,
            first.board or second.board,
            second.remote if first.remote is None else first.remote,
            first.geometry or second.geometry,
        )
        chip.geometry = chip.info.geometry or board_geometry(chip.info.board, chip.info.arch)
        return chip

    def forget(self, chip: Chip) -> None:
        """Remove a chip, unless a process still has a holding there."""
        if not chip.holdings and self.get(chip.id) is chip:
            del self[chip.id]
            for total in chip.totals():
                total.chips -= {chip}

    def _named(self, info: ChipInfo, user: int | None) -> Chip:
        chip = self.get(info.id)
        if chip is None:
            chip = self[info.id] = Chip(info, self.nothing, self.all_chips)
            chip.named_by = user
        return chip

# SPDX-License-Identifier: Apache-2.0
"""Matches tt-metal's unique ids with the driver's PCI addresses of the same chips.

A unique id is not in sysfs, so it must be found in another way. In order of strength:

* ``id``: on Blackhole the unique id is made from the serial number and the place on the board, or it is the asic id; on
  a Wormhole whose Ethernet is not trained it is the serial number; and tt-umd, if requested, reports it for any chip. A
serial number is that of the board: it identifies a chip only if the board has one chip on PCIe. * ``holder``: a process
uses one chip and holds one device open, or all but one of each are known. Not if that device may be an n300, because
its remote chip is used through the same device. * ``order``: a process uses as many chips as it holds devices open (or
twice as many, if each is an n300 with a remote chip): tt-metal numbers local chips in driver order, remote ones after
them. This is an assumption, and marked as such.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ttmem.model.machine_rows import DriverChip

    Join = tuple[str, str]  # place, how it was matched
    Card = tuple[str | None, str | None]  # asic id and serial number
    Memory = tuple[str, str, Card]  # a join, and the card at that time
    Traits = Mapping[str, tuple[str | None, bool | None]]  # by unique id: family, and whether it is a remote chip
    Uses = list[tuple[dict[str, int | None], set[str]]]  # for each process: unique ids with Metal's number, places held

_ONE_CHIP = ("n150", "p100", "p150")  # boards with one chip; boards with one chip on PCIe:
_ONE_ON_PCIE = (*_ONE_CHIP, "n300")


def place_of(chip: DriverChip) -> str:
    """The place of a chip: a remote chip, which the driver does not list, is its own place."""
    return chip["pci"] or (chip.get("unique_id") if chip["kmd"] is None else None) or f"kmd:{chip['kmd']}"


def remember(before: dict[str, Memory], found: Mapping[str, Join], chips: list[DriverChip]) -> None:
    """Remember the matches for later, when the processes that proved them have exited."""
    cards = {place_of(chip): _card(chip) for chip in chips}
    before.update({chip_id: (place, how, cards[place]) for chip_id, (place, how) in found.items()})


def find(
    chip_ids: Iterable[str],
    chips: list[DriverChip],
    uses: Uses,
    before: Mapping[str, Memory],
    traits: Traits | None = None,
) -> dict[str, Join]:
    """The place of each unique id, as far as known. ``chips`` are the driver's, in its order.

    Earlier matches are kept, because a process that has ended can no longer prove them, until a process proves another
    match or the card changes.
    """
    return _Search(chip_ids, chips, before, traits or {}).run(uses)


class _Search:
    """Searches from the strongest evidence to the weakest; a match is kept, and its place is taken."""

    def __init__(
        self, chip_ids: Iterable[str], chips: list[DriverChip], before: Mapping[str, Memory], traits: Traits
    ) -> None:
        self._wanted = dict.fromkeys(chip_ids)
        self._chips = {place_of(chip): chip for chip in chips}
        self._order = {place: number for number, place in enumerate(self._chips)}
        self._before = before
        self._traits = traits
        self._found: dict[str, Join] = {}
        self._taken: set[str] = set()
        self._disputed: set[str] = set()  # unique ids and places for which two processes prove different matches

    def run(self, uses: Uses) -> dict[str, Join]:
        mine = [(self._used(numbers), self._held(holds)) for numbers, holds in uses]
        self._by_id()
        self._by_holder(mine)
        self._by_memory(("id", "holder"))
        self._by_elimination(sorted(mine, key=lambda use: len(use[1])))  # with fewer chips it is more certain
        self._by_memory(("order",))
        for numbers, places in mine:
            self._by_order(numbers, places)
        return self._found

    def _used(self, numbers: dict[str, int | None]) -> dict[str, int | None]:
        return {chip_id: number for chip_id, number in numbers.items() if chip_id in self._wanted}

    def _held(self, holds: set[str]) -> list[str]:
        return sorted((place for place in holds if place in self._order), key=self._order.__getitem__)

    def _join(self, chip_id: str, place: str, how: str) -> None:
        if chip_id in self._found or place in self._taken or not self._disputed.isdisjoint((chip_id, place)):
            return
        arch, there = self._traits.get(chip_id, (None, None))[0], self._chips[place]["arch"]
        if None in (arch, there) or arch == there:
            self._found[chip_id] = place, how
            self._taken.add(place)

    def _by_id(self) -> None:
        ids = _Ids(self._chips)
        for chip_id in self._wanted:
            places = ids.of(int(chip_id)) if chip_id.isdecimal() else []
            if len(places) == 1:
                self._found[chip_id] = places[0], "id"
        self._taken |= {place for place, _ in self._found.values()}

    def _by_holder(self, uses: list[tuple[dict[str, int | None], list[str]]]) -> None:
        """Processes that use one chip and hold one. If two of them contradict each other, neither counts."""
        shown = {(*numbers, *places) for numbers, places in uses if len(numbers) == len(places) == 1}
        sure = [(chip_id, place) for chip_id, place in shown if self._is_local(chip_id, [place])]
        for side in zip(*sure):
            self._disputed |= {name for name in side if side.count(name) > 1}
        for chip_id, place in sure:
            self._join(chip_id, place, "holder")

    def _by_memory(self, hows: tuple[str, ...]) -> None:
        for chip_id, (place, how, card) in self._before.items():
            if chip_id in self._wanted and how in hows and place in self._chips:
                now = _card(self._chips[place])
                if all(None in pair or pair[0] == pair[1] for pair in zip(card, now)):
                    self._join(chip_id, place, how)

    def _by_elimination(self, uses: list[tuple[dict[str, int | None], list[str]]]) -> None:
        """All but one of the chips that a process uses and holds are known. No match so far is an assumption."""
        for numbers, places in uses:
            left = [chip_id for chip_id in numbers if chip_id not in self._found]
            free = [place for place in places if place not in self._taken]
            if len(left) == len(free) == 1 and len(places) > 1 and self._is_local(left[0], places):
                self._join(left[0], free[0], "holder")

    def _by_order(self, numbers: dict[str, int | None], places: list[str]) -> None:
        known = {number: chip_id for chip_id, number in numbers.items() if number is not None}
        pairs = len(numbers) == 2 * len(places) and all(self._chips[place]["board"] == "n300" for place in places)
        if len(known) == len(numbers) and (pairs or len(numbers) == len(places)):
            for number, place in enumerate(places):
                if number in known:
                    self._join(known[number], place, "order")

    def _is_local(self, chip_id: str, places: list[str]) -> bool:
        """Whether it is certainly one of these, and not a remote chip of one."""
        chips = [self._chips[place] for place in places]
        return self._traits.get(chip_id, (None, None))[1] is False or all(
            chip["arch"] == "blackhole" or chip["board"] not in (None, "n300") for chip in chips
        )


class _Ids:
    """The unique ids that follow from the driver's files, and their chips."""

    def __init__(self, chips: Mapping[str, DriverChip]) -> None:
        self._told: dict[int, list[str]] = {}
        self._exact: dict[int, list[str]] = {}
        self._boards: dict[int, list[str]] = {}
        for place, chip in chips.items():
            serial, board = _hex(chip["serial"]), (chip["board"] or "").rstrip("abc")
            blackhole = chip["arch"] == "blackhole"
            told = chip.get("unique_id")
            for index, chip_id in (
                (self._told, int(told) if told and told.isdecimal() else None),
                (self._exact, _hex(chip["asic_id"])),
                (self._exact, serial if not blackhole and board in _ONE_ON_PCIE else None),
                (self._boards, serial if blackhole and board in _ONE_CHIP else None),
            ):
                if chip_id is not None and place not in index.setdefault(chip_id, []):
                    index[chip_id].append(place)

    def of(self, chip_id: int) -> list[str]:
        return self._told.get(chip_id) or self._exact.get(chip_id) or self._boards.get(chip_id >> 5) or []


def _card(chip: DriverChip) -> Card:
    return chip["asic_id"], chip["serial"]


def _hex(text: str | None) -> int | None:
    try:
        return int(text, 16) or None if text else None
    except ValueError:
        return None

# SPDX-License-Identifier: Apache-2.0
"""Which names mean the same chip: tt-metal's unique ids on one side, the driver's PCI addresses on the other.

A unique id is not in sysfs, so the two must be brought together. In order of strength:

* ``id``: on Blackhole the unique id is made from the serial number and the place on the board, or it is the asic id; on
  a Wormhole whose Ethernet is not trained it is the serial number; and tt-umd, if asked, says it of any chip.
* ``holder``: a process uses one chip and holds one device open.
* ``order``: a process uses as many chips as it holds devices open (or twice as many, if each is an n300 with a remote
  chip): tt-metal numbers local chips in driver order, remote ones after them. This is an assumption, and says so.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    Json = dict[str, Any]
    Join = tuple[str, str]  # place, how it was found
    Uses = list[tuple[dict[str, int | None], set[str]]]  # for each process: unique ids with Metal's number, places held


def place_of(chip: Json) -> str:
    """The name of a chip that was seen: a remote one, which the driver does not list, is nowhere but in itself."""
    name: str = chip["pci"] or (chip["unique_id"] if chip["kmd"] is None else f"kmd:{chip['kmd']}")
    return name


def find(uids: Iterable[str], chips: list[Json], uses: Uses, before: Mapping[str, Join]) -> dict[str, Join]:
    """The place of each unique id, as far as it can be told. ``chips`` are the driver's, in its order.

    What was found earlier holds on: a process that has ended can no longer show what it held.
    """
    wanted = list(dict.fromkeys(uids))
    order = {place_of(chip): number for number, chip in enumerate(chips)}
    found: dict[str, Join] = {}
    for uid in wanted:
        places = _by_id(int(uid), chips) if uid.isdecimal() else []
        if len(places) == 1:
            found[uid] = (places[0], "id")
    taken = {place for place, _ in found.values()}
    for uid, join in before.items():
        if uid in wanted and uid not in found and join[0] in order and join[0] not in taken:
            found[uid] = join
            taken.add(join[0])
    boards = {place_of(chip): chip["board"] for chip in chips}
    for numbers, holds in sorted(uses, key=lambda use: len(use[1])):  # who holds one device leaves the least doubt
        open_uids = {uid: number for uid, number in numbers.items() if uid in wanted and uid not in found}
        free = sorted((place for place in holds if place in order and place not in taken), key=order.__getitem__)
        for uid, join in _by_use(open_uids, free, boards).items():
            found[uid] = join
            taken.add(join[0])
    return found


def _by_id(uid: int, chips: list[Json]) -> list[str]:
    """Places whose ids, as the driver shows them, make up this unique id."""
    told = [place_of(c) for c in chips if c.get("unique_id") == str(uid)]
    if told:
        return told
    exact = [place_of(c) for c in chips if uid in (_hex(c["asic_id"]), _hex(c["serial"]))]
    return exact or [place_of(c) for c in chips if c["arch"] == "blackhole" and uid >> 5 == _hex(c["serial"])]


def _hex(text: str | None) -> int | None:
    try:
        return int(text, 16) or None if text else None
    except ValueError:
        return None


def _by_use(numbers: dict[str, int | None], places: list[str], boards: Mapping[str, str | None]) -> dict[str, Join]:
    """By what one process uses and holds."""
    if not places or not numbers:
        return {}
    if len(numbers) == len(places) == 1:
        return dict.fromkeys(numbers, (places[0], "holder"))
    pairs = len(numbers) == 2 * len(places) and all(boards[place] == "n300" for place in places)
    known = [number for number in numbers.values() if number is not None]
    if len(set(known)) != len(numbers) or not (pairs or len(numbers) == len(places)):
        return {}
    by_number = sorted(numbers, key=lambda uid: numbers[uid] or 0)
    return {uid: (place, "order") for uid, place in zip(by_number, places)}

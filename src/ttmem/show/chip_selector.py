# SPDX-License-Identifier: Apache-2.0
"""Finds the chips that a user named: by number, PCI address or id, or as the screens name them."""

from __future__ import annotations

import re

from ttmem.documents.common_text import chip_numbers, chip_title

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ttmem.model.schema import ChipRow, ProcessRow, Snapshot


_ENDING_CHARACTERS = 4  # characters of an id's end that may stand for it
_LISTED = 8
_TITLE = re.compile(r"(?:(?P<board>\S+) )?chip (?P<name>\S+)(?: \(id \S+\))?", re.IGNORECASE)


class UnknownChip(ValueError):
    """There is no such chip, or there are several; the text is for the user."""


def only(snapshot: Snapshot, wanted: list[str]) -> Snapshot:
    """A snapshot of these chips, the processes on them, and the notes about either."""
    chip_ids = {find_chip(name, snapshot)["chip"] for name in wanted}
    processes: list[ProcessRow] = []
    for process in snapshot["processes"]:
        shares = [share for share in process["chips"] if share["chip"] in chip_ids]
        holds = [chip_id for chip_id in process.get("holds", []) if chip_id in chip_ids]
        if shares or holds:
            processes.append({**process, "chips": shares, "holds": holds})
    pids = {process["pid"] for process in processes}
    notes = [
        n
        for n in snapshot.get("notes", [])
        if n["chip"] in chip_ids or (n["chip"] is None and n["pid"] in {None, *pids})
    ]
    chips = [chip for chip in snapshot["chips"] if chip["chip"] in chip_ids]
    return {**snapshot, "chips": chips, "processes": processes, "notes": notes}


def find_chip(name: str, snapshot: Snapshot) -> ChipRow:
    """The chip of that name: its number, PCI address or id, the end of a long id, or its title on a screen."""
    chips, numbers = snapshot["chips"], chip_numbers(snapshot)
    title = _TITLE.fullmatch(name)
    asked, board = (title["name"], title["board"]) if title else (name, None)
    asked = asked.lower()
    known = [
        (chip, _names_of(chip, numbers.get(chip["chip"]))) for chip in chips if board is None or board == chip["board"]
    ]
    found = [chip for chip, names in known if asked in names]
    if not found and len(end := asked.lstrip("~….")) >= _ENDING_CHARACTERS:  # long ids are shown by their ends
        found = [chip for chip, names in known if any(one.endswith(end) for one in names)]
    if len(found) == 1:
        return found[0]
    if found:
        raise UnknownChip(
            f"{name!r} is the name of {len(found)} chips; use another name of it: {_listed(chips, numbers)}"
        )
    there = f"there are {_listed(chips, numbers)}" if len(chips) > 1 else f"there is {_listed(chips, numbers)}"
    raise UnknownChip(f"there is no chip {name!r}; {there if chips else 'no chip is known'}")


def _names_of(chip: ChipRow, number: int | None) -> set[str]:
    """All names by which a chip may be asked for."""
    names = [chip["chip"], chip.get("unique_id"), chip["pci"], (chip["pci"] or "").removeprefix("0000:")]
    if number is not None:
        names.append(str(number))
    if chip["kmd"] is not None and chip["identity"] == "known":
        names += [str(chip["kmd"]), f"kmd:{chip['kmd']}"]
    return {name.lower() for name in names if name}


def _listed(chips: list[ChipRow], numbers: dict[str, int]) -> str:
    """Every chip by its title."""
    titles = [chip_title(chip["chip"], numbers.get(chip["chip"]), chip["board"]) for chip in chips]
    more = f" and {len(titles) - _LISTED} more" if len(titles) > _LISTED else ""
    return ", ".join(titles[:_LISTED]) + more

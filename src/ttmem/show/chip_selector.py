# SPDX-License-Identifier: Apache-2.0
"""Finds chips by the names that a user may give: number, PCI address, id, or the name on a screen."""

from __future__ import annotations

import re

from ttmem.documents.common_text import chip_number_claims, chip_numbers, chip_title

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ttmem.model.schema import ChipRow, ProcessRow, Snapshot


_ENDING_CHARACTERS = 4  # minimum length of the end of an id as a name
_LISTED = 8
_PROCESSES = 2  # listed with each chip of an ambiguous name
_TITLE = re.compile(r"(?:(?P<board>\S+) )?chip (?P<name>\S+)(?: \(id \S+\))?", re.IGNORECASE)


class UnknownChip(ValueError):
    """No chip, or several chips, have this name; the text is for the user."""


def only(snapshot: Snapshot, wanted: list[str]) -> Snapshot:
    """The snapshot with only these chips, the processes on them, and the notes on both."""
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
    """The chip with this name: its number, PCI address or id, the end of a long id, or its title on a screen."""
    chips, numbers = snapshot["chips"], chip_numbers(snapshot)
    title = _TITLE.fullmatch(name)
    asked, board = (title["name"], title["board"]) if title else (name, None)
    asked = asked.lower()
    known = [
        (chip, _names_of(chip, numbers.get(chip["chip"]))) for chip in chips if board is None or board == chip["board"]
    ]
    found = [chip for chip, names in known if asked in names]
    if not found and len(end := asked.lstrip("~….")) >= _ENDING_CHARACTERS:  # screens show only the ends of long ids
        found = [chip for chip, names in known if any(one.endswith(end) for one in names)]
    if len(found) == 1:
        return found[0]
    if not found and asked.isdecimal():  # a number that is not unique, or that only some processes use for a chip
        claims = {chip_id for chip_id, number in chip_number_claims(snapshot) if str(number) == asked}
        found = [chip for chip, _ in known if chip["chip"] in claims]
    if found:
        reason = "not all processes use this number" if len(found) == 1 else f"{len(found)} chips have this name"
        raise UnknownChip(f"{name!r} is ambiguous, {reason}; use {_candidates(found, known, snapshot)}")
    there = f"there are {_listed(chips, numbers)}" if len(chips) > 1 else f"there is {_listed(chips, numbers)}"
    raise UnknownChip(f"there is no chip {name!r}; {there if chips else 'no chip is known'}")


def _names_of(chip: ChipRow, number: int | None) -> set[str]:
    """All names of a chip."""
    names = [chip["chip"], chip.get("unique_id"), chip["pci"], (chip["pci"] or "").removeprefix("0000:")]
    if number is not None:
        names.append(str(number))
    if chip["kmd"] is not None and chip["identity"] == "known":
        names += [str(chip["kmd"]), f"kmd:{chip['kmd']}"]
    return {name.lower() for name in names if name}


def _candidates(found: list[ChipRow], known: list[tuple[ChipRow, set[str]]], snapshot: Snapshot) -> str:
    """A unique name of each of these chips, with its board and the processes that use it."""
    words = []
    for chip in found[:_LISTED]:
        names = [chip["chip"], chip["pci"], f"kmd:{chip['kmd']}"]
        unique = (name for name in names if name and sum(name.lower() in other for _, other in known) == 1)
        users = [
            f"device {number} of process {process['pid']}"
            for process in snapshot["processes"]
            for share in process["chips"]
            if share["chip"] == chip["chip"] and process["pid"] is not None
            for number in share["metal_ids"]
        ]
        about = ", ".join([*([chip["board"]] if chip["board"] else []), *users[:_PROCESSES]])
        words.append(f"-d {next(unique, chip['chip'])}{f' ({about})' if about else ''}")
    more = [f"{len(found) - _LISTED} more, which `ttmem smi` lists"] if len(found) > _LISTED else []
    return " or ".join([*words, *more])


def _listed(chips: list[ChipRow], numbers: dict[str, int]) -> str:
    """The titles of all chips."""
    titles = [chip_title(chip["chip"], numbers.get(chip["chip"]), chip["board"]) for chip in chips]
    more = f" and {len(titles) - _LISTED} more" if len(titles) > _LISTED else ""
    return ", ".join(titles[:_LISTED]) + more

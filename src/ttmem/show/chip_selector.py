# SPDX-License-Identifier: Apache-2.0
"""Finds the chips that a user named: by the number of the driver, the PCI address or the id."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ttmem.model.schema import ChipRow, ProcessRow, Snapshot


_ENDING_CHARACTERS = 4  # characters of an id's end that may stand for it


class UnknownChip(ValueError):
    """There is no such chip, or there are several; the text is for the user."""


def only(snapshot: Snapshot, wanted: list[str]) -> Snapshot:
    """A snapshot of these chips, the processes on them, and the notes about either."""
    chip_ids = {_find(name, snapshot["chips"]) for name in wanted}
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


def names_of(chip: ChipRow) -> list[str]:
    """All names by which a chip may be asked for, the handiest first."""
    numbers = [] if chip["kmd"] is None else [str(chip["kmd"]), f"kmd:{chip['kmd']}"]
    pci = [chip["pci"], chip["pci"].removeprefix("0000:")] if chip["pci"] else []
    return list(dict.fromkeys(name.lower() for name in (*numbers, *pci, chip["chip"], chip.get("unique_id")) if name))


def _find(name: str, chips: list[ChipRow]) -> str:
    found = [chip["chip"] for chip in chips if name.lower() in names_of(chip)]
    if not found and len(end := name.lower().lstrip("….")) >= _ENDING_CHARACTERS:  # long ids are shown by their ends
        found = [chip["chip"] for chip in chips if any(known.endswith(end) for known in names_of(chip))]
    if len(found) == 1:
        return str(found[0])
    if found:
        raise UnknownChip(f"{name!r} is the name of {len(found)} chips; use another name of it: {_listed(chips)}")
    raise UnknownChip(
        f"there is no chip {name!r}; there are {_listed(chips)}"
        if chips
        else f"there is no chip {name!r}, nor any other"
    )


def _listed(chips: list[ChipRow]) -> str:
    """Each chip by its number and what tells it apart."""
    return ", ".join(" = ".join(dict.fromkeys((names_of(chip)[0], chip["pci"] or chip["chip"]))) for chip in chips)

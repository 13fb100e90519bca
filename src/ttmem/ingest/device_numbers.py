# SPDX-License-Identifier: Apache-2.0
"""Maps the device numbers of a process to chips."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ttmem.model.identity import ChipInfo, ProcessInfo

if TYPE_CHECKING:
    from ttmem.model.machine_rows import CounterFile


def chips_of_visible(visible: list[str], machine: list[ChipInfo]) -> list[tuple[int, ChipInfo]]:
    """Returns (device number, chip) for a TT_VISIBLE_DEVICES setting.

    The runtime numbers the chips it sees from 0, in driver order. Entries are driver indices or PCI addresses. An
    index without a listed chip still distinguishes the chips of two processes.

    >>> chips_of_visible(["3"], [])
    [(0, ChipInfo(id='kmd:3', pci=None, kmd=3, arch=<Arch.UNKNOWN: 0>, board=None, remote=None, geometry=None))]
    """
    by_index = {chip.kmd: chip for chip in machine}
    by_pci = {chip.pci: chip for chip in machine if chip.pci}
    chosen: dict[tuple[int, str], ChipInfo] = {}
    for entry in visible:
        if entry.isascii() and entry.isdigit() and len(entry) < 6:
            index = int(entry)
            chip = by_index.get(index) or ChipInfo(f"kmd:{index}", kmd=index)
        elif ":" in entry:
            pci = entry.lower() if entry.count(":") > 1 else f"0000:{entry.lower()}"
            chip = by_pci.get(pci) or ChipInfo(pci, pci=pci)
        else:
            return []  # an unknown form: an assumed chip is better than a wrong one
        chosen[(1 << 30 if chip.kmd is None else chip.kmd, chip.id)] = chip
    return list(enumerate(chip for _, chip in sorted(chosen.items())))


def chips_of_slots(process: ProcessInfo, numbers: set[int], files: list[CounterFile]) -> list[tuple[int, ChipInfo]]:
    """Returns (device number, chip) for device numbers of a process, from its slots in tt-metal's counter files.

    The number in a file is that of the process that attached last. It belongs to this process only if no other process
    is attached, which cannot be determined after a crash, and if no other file of the process has the same number.
    """
    found: dict[int, list[str]] = {}
    for file in files:
        live = [slot for slot in file["slots"] if slot["state"] == "live"]
        if not any((slot["process"], slot["start"]) == (process.pid, process.start) for slot in live):
            continue
        alone = len(live) == 1 and file["attached"] == 1 and file["chip"] != str(file["metal_id"])
        if file["metal_id"] is not None:
            found.setdefault(file["metal_id"], []).append(file["chip"] if alone else "")
    sure = {number: chip_ids[0] for number, chip_ids in found.items() if len(chip_ids) == 1 and chip_ids[0]}
    return [(number, ChipInfo(chip_id)) for number, chip_id in sure.items() if number in numbers]

# SPDX-License-Identifier: Apache-2.0
"""Which chips a process means by its device numbers, when it restricted itself to some of them."""

from __future__ import annotations

from ttmem.account.identity import ChipInfo


def chips_of_visible(visible: list[str], machine: list[ChipInfo]) -> list[tuple[int, ChipInfo]]:
    """(device number, chip) for a TT_VISIBLE_DEVICES setting.

    The runtime numbers the chips it sees from 0, in driver order. Entries are driver indices or PCI addresses; an
    index whose chip the machine does not list still tells two processes' chips apart.

    >>> chips_of_visible(["3"], [])
    [(0, ChipInfo(uid='kmd:3', pci=None, kmd=3, arch=<Arch.UNKNOWN: 0>, board=None, remote=None, geometry=None))]
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
            return []  # not a form we know: better assumed than wrong
        chosen[(1 << 30 if chip.kmd is None else chip.kmd, chip.uid)] = chip
    return list(enumerate(chip for _, chip in sorted(chosen.items())))

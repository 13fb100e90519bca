# SPDX-License-Identifier: Apache-2.0
"""The chips the driver knows, from sysfs; ``root`` lets tests lay out a machine in a folder."""

from __future__ import annotations

import os
import re

from ttmem.account.geometry import Arch
from ttmem.account.identity import ChipInfo

_ENTRY = re.compile(r"^tenstorrent!(\d+)$")
_ARCH_BY_PCI_DEVICE = {0x401E: Arch.WORMHOLE_B0, 0xB140: Arch.BLACKHOLE, 0xFACA: Arch.GRAYSKULL}


def _read(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(4096).strip() or None
    except OSError:
        return None


def _pci_arch(folder: str) -> Arch:
    text = _read(os.path.join(folder, "device", "device"))
    try:
        return _ARCH_BY_PCI_DEVICE.get(int(text or "0", 16), Arch.UNKNOWN)
    except ValueError:
        return Arch.UNKNOWN


def chips(root: str = "/") -> list[ChipInfo]:
    """The PCIe chips in driver order; chips behind another chip do not appear here."""
    base = os.path.join(root, "sys/class/tenstorrent")
    try:
        names = os.listdir(base)
    except OSError:
        return []
    found = []
    for name in names:
        match = _ENTRY.match(name)
        if match is None:
            continue
        folder = os.path.join(base, name)
        number = int(match[1])
        device = os.path.join(folder, "device")
        pci = os.path.basename(os.path.realpath(device)) if os.path.exists(device) else None
        found.append(
            ChipInfo(
                uid=pci or f"kmd:{number}",
                pci=pci,
                kmd=number,
                arch=_pci_arch(folder),
                board=_read(os.path.join(folder, "tt_card_type")),
                remote=False,
            )
        )
    return sorted(found, key=lambda chip: chip.kmd or 0)

# SPDX-License-Identifier: Apache-2.0
"""Chips as the driver shows them, in a machine laid out in a folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from ttmem.account.geometry import Arch
from ttmem.account.identity import ChipInfo
from ttmem.sources import sysfs


def lay_out(root: Path, number: int, pci: str | None, device: str | None, card: str | None) -> Path:
    """One chip's folder, with the link into the PCI tree that the kernel makes."""
    entry = root / "sys/class/tenstorrent" / f"tenstorrent!{number}"
    entry.mkdir(parents=True)
    if pci is not None:
        folder = root / "sys/devices/pci0000:00" / pci
        folder.mkdir(parents=True)
        if device is not None:
            (folder / "device").write_text(f"{device}\n")
        (entry / "device").symlink_to(folder)
    if card is not None:
        (entry / "tt_card_type").write_text(f"{card}\n")
    return entry


def test_a_machine(folder: Path) -> None:
    lay_out(folder, 10, "0000:c1:00.0", "0x401e", "n300")
    lay_out(folder, 2, "0000:41:00.0", "0xb140", "p150a")
    lay_out(folder, 0, "0000:01:00.0", "0xfaca", "unknown")
    assert sysfs.chips(str(folder)) == [
        ChipInfo("0000:01:00.0", "0000:01:00.0", 0, Arch.GRAYSKULL, "unknown", False),
        ChipInfo("0000:41:00.0", "0000:41:00.0", 2, Arch.BLACKHOLE, "p150a", False),
        ChipInfo("0000:c1:00.0", "0000:c1:00.0", 10, Arch.WORMHOLE_B0, "n300", False),
    ], "in driver order, by number and not by spelling"


def test_no_driver(folder: Path) -> None:
    assert sysfs.chips(str(folder)) == []
    (folder / "sys/class/tenstorrent").mkdir(parents=True)
    assert sysfs.chips(str(folder)) == []


def test_other_entries_are_not_chips(folder: Path) -> None:
    base = folder / "sys/class/tenstorrent"
    for name in ("tenstorrent", "tenstorrent!", "tenstorrent!x", "tenstorrent!1!2", "version", "xtenstorrent!1"):
        (base / name).mkdir(parents=True)
    assert sysfs.chips(str(folder)) == []


def test_what_cannot_be_read_is_unknown(folder: Path) -> None:
    lay_out(folder, 0, None, None, None)
    lay_out(folder, 1, "0000:02:00.0", None, None)
    assert sysfs.chips(str(folder)) == [
        ChipInfo("kmd:0", None, 0, Arch.UNKNOWN, None, False),
        ChipInfo("0000:02:00.0", "0000:02:00.0", 1, Arch.UNKNOWN, None, False),
    ]


@pytest.mark.parametrize("device", ["0x9999", "zzz", "", "0x"])
def test_odd_pci_devices(folder: Path, device: str) -> None:
    lay_out(folder, 0, "0000:02:00.0", device, "p100a")
    (chip,) = sysfs.chips(str(folder))
    assert chip.arch is Arch.UNKNOWN
    assert chip.board == "p100a"


def test_an_empty_card_type_is_unknown(folder: Path) -> None:
    lay_out(folder, 0, "0000:02:00.0", "0x401e", "")
    assert sysfs.chips(str(folder))[0].board is None


def test_a_broken_link_is_no_pci_address(folder: Path) -> None:
    entry = lay_out(folder, 4, None, None, "n150")
    (entry / "device").symlink_to(folder / "gone")
    (chip,) = sysfs.chips(str(folder))
    assert (chip.uid, chip.pci) == ("kmd:4", None)

# SPDX-License-Identifier: Apache-2.0
"""Chips as shown by the driver, on a machine in a folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from ttmem.model.geometry import Arch
from ttmem.model.identity import ChipInfo
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
        ChipInfo("0000:01:00.0", "0000:01:00.0", 0, Arch.GRAYSKULL, None, False),
        ChipInfo("0000:41:00.0", "0000:41:00.0", 2, Arch.BLACKHOLE, "p150a", False),
        ChipInfo("0000:c1:00.0", "0000:c1:00.0", 10, Arch.WORMHOLE_B0, "n300", False),
    ], "in driver order, by number and not by spelling; of an unknown card the type is unknown"


def test_no_driver(folder: Path) -> None:
    assert sysfs.chips(str(folder)) == []
    (folder / "sys/class/tenstorrent").mkdir(parents=True)
    assert sysfs.chips(str(folder)) == []


def test_other_entries_are_not_chips(folder: Path) -> None:
    base = folder / "sys/class/tenstorrent"
    for name in (
        "tenstorrent",
        "tenstorrent!",
        "tenstorrent!x",
        "tenstorrent!1!2",
        "tenstorrent!-1",
        "tenstorrent!\u0661",
        "version",
        "xtenstorrent!1",
    ):
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
    assert (chip.id, chip.pci) == ("kmd:4", None)


@pytest.mark.parametrize("name", ["x", "0000:01:00", "0000:01:00.00", "0000:01:0g.0", "virtual"])
def test_a_link_to_elsewhere_is_no_pci_address(folder: Path, name: str) -> None:
    lay_out(folder, 4, name, "0x401e", "n150")
    (chip,) = sysfs.chips(str(folder))
    assert (chip.id, chip.pci, chip.arch) == ("kmd:4", None, Arch.WORMHOLE_B0)


def test_a_bus_of_a_large_domain(folder: Path) -> None:
    lay_out(folder, 0, "10000:e1:00.0", "0xb140", "p150a")
    assert sysfs.chips(str(folder))[0].pci == "10000:e1:00.0"


@pytest.mark.parametrize(
    ("text", "speed"),
    [
        ("16.0 GT/s PCIe", 16.0), ("2.5 GT/s PCIe", 2.5), ("8 GT/s", 8.0), ("64.0 GT/s PCIe", 64.0), ("Unknown", None),
        ("Unknown speed", None), ("", None), (None, None), ("16.0", 16.0), ("17 GT/s", None), ("nan GT/s", None),
        ("inf GT/s", None), ("-16 GT/s", None),
    ],
)  # fmt: skip
def test_link_speed(text: str | None, speed: float | None) -> None:
    assert sysfs.link_speed(text) == speed


@pytest.mark.parametrize(
    ("text", "width"), [("16", 16), ("1", 1), ("63", None), ("0", None), ("x16", None), ("", None), (None, None)]
)
def test_link_width(text: str | None, width: int | None) -> None:
    assert sysfs.link_width(text) == width


def test_facts_that_are_none(folder: Path) -> None:
    """Ones and zeros are no serial, and a version has three or four numbers."""
    entry = lay_out(folder, 0, "0000:02:00.0", "0x401e", "n150 or so, with a name that never ends")
    for name, text in {
        "tt_serial": "F" * 16,
        "tt_asic_id": "0" * 16,
        "tt_fw_bundle_ver": "255.255.255.255",
        "tt_eth_fw_ver": "255.15.4095",
        "tt_arc_fw_ver": "2.36",
        "tt_m3app_fw_ver": "a.b.c.d",
        "tt_m3bl_fw_ver": "129.2.0.0",
        "device/numa_node": "-1",
        "device/max_link_width": "255",
    }.items():
        (entry / name).write_text(text + "\n")
    assert sysfs.facts(str(entry)) == {
        "pci": "0000:02:00.0",
        "arch": "wormhole_b0",
        "board": None,
        "serial": None,
        "asic_id": None,
        "firmware": {"m3bl": "129.2.0.0"},
        "pcie": {"max_speed_gts": None, "max_width": None, "numa": None},
    }


@pytest.mark.parametrize("serial", ["0100014511703012", "0100014511703abc"])
def test_a_serial_is_in_upper_case(folder: Path, serial: str) -> None:
    entry = lay_out(folder, 0, "0000:02:00.0", "0x401e", "n300")
    (entry / "tt_serial").write_text(serial + "\n")
    assert sysfs.facts(str(entry))["serial"] == serial.upper()

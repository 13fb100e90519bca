# SPDX-License-Identifier: Apache-2.0
"""The chips of the driver, read from sysfs; tests use ``root`` to create a machine in a folder."""

from __future__ import annotations

import os

from ttmem.model.printable import printable_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ttmem.model.identity import ChipInfo
    from ttmem.model.machine_rows import ChipFiles

_ENTRY = "tenstorrent!"
_ARCH_BY_PCI_DEVICE = {0x401E: "wormhole_b0", 0xB140: "blackhole", 0xFACA: "grayskull"}
_VERSIONS_OF_ONES = ("255.255.255.255", "255.15.4095")
_FIRMWARE = {
    "bundle": "tt_fw_bundle_ver",
    "m3app": "tt_m3app_fw_ver",
    "m3bl": "tt_m3bl_fw_ver",
    "arc": "tt_arc_fw_ver",
    "eth": "tt_eth_fw_ver",
    "ttflash": "tt_ttflash_ver",
}
_LINK_SPEEDS_GT_S = (2.5, 5.0, 8.0, 16.0, 32.0, 64.0, 128.0)
_LINK_WIDTHS_LANES = (1, 2, 4, 8, 12, 16, 32)
_HEX = set("0123456789ABCDEF")
_MAX_FILE_BYTES = 4096  # a file in sysfs has at most one page


def read_at(descriptor: int) -> bytes:
    """The current contents of an open file."""
    return os.pread(descriptor, _MAX_FILE_BYTES, 0)


def read(path: str) -> str | None:
    """The text of a small file without the space around it; None if there is none, or it cannot be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return text_of(read_at(descriptor)) or None
        finally:
            os.close(descriptor)
    except OSError:
        return None


def text_of(raw: bytes) -> str:
    """The contents of a driver's file, on one line.

    >>> text_of(b"n150\\n"), text_of(b"\\x1b[2J\\xff")
    ('n150', '\\\\x1b[2J\\\\xff')
    """
    return printable_bytes(raw.strip())


def number(text: str | None) -> int | None:
    """A decimal number as the kernel writes it; None for anything else.

    >>> number("51187"), number("-1"), number("0x10"), number("1_000"), number("")
    (51187, -1, None, None, None)
    """
    if not text or len(text) > 20 or not text.isascii() or not text.removeprefix("-").isdigit():
        return None
    return int(text)


def folders(root: str = "/") -> dict[int, str] | None:
    """The folder of every chip on PCIe, by the driver's number and in its order; None if there is no driver."""
    base = os.path.join(root, "sys/class/tenstorrent")
    try:
        names = os.listdir(base)
    except OSError:
        return None
    numbers = {name: number(name[len(_ENTRY) :]) for name in names if name.startswith(_ENTRY)}
    found = sorted((value, name) for name, value in numbers.items() if value is not None and value >= 0)
    return {value: f"{base}/{name}" for value, name in found}


def pci_address(folder: str) -> str | None:
    """The PCI address of the chip, such as 0000:01:00.0."""
    device = os.path.join(folder, "device")
    try:
        address = os.path.basename(os.readlink(device))
    except OSError:
        return None
    bus, _, function = address.rpartition(".")
    parts = [*bus.split(":"), function]
    if [len(part) for part in parts[1:]] != [2, 2, 1] or not set("".join(parts).upper()) <= _HEX:
        return None
    return address if os.path.exists(device) else None


def arch(folder: str) -> str | None:
    """The chip's family by its PCI id, which is available even if nothing else can be read."""
    try:
        return _ARCH_BY_PCI_DEVICE.get(int(read(os.path.join(folder, "device/device")) or "", 16))
    except ValueError:
        return None


def board(folder: str) -> str | None:
    """The type of the card, such as n150; None also if the driver reports it as unknown."""
    name = read(os.path.join(folder, "tt_card_type"))
    return name if name and name != "unknown" and name.isascii() and len(name) <= 32 else None


def facts(folder: str) -> ChipFiles:
    """Properties that do not change while a chip runs: identity, firmware, and the maximum of its link."""
    versions = {key: read(f"{folder}/{file}") for key, file in _FIRMWARE.items()}
    firmware: Any = {key: text for key, text in versions.items() if text and _is_version(text)}
    numa = number(read(f"{folder}/device/numa_node"))
    return {
        "pci": pci_address(folder),
        "arch": arch(folder),
        "board": board(folder),
        "serial": _serial(read(f"{folder}/tt_serial")),
        "asic_id": _serial(read(f"{folder}/tt_asic_id")),
        "firmware": firmware,
        "pcie": {
            "max_speed_gts": link_speed(read(f"{folder}/device/max_link_speed")),
            "max_width": link_width(read(f"{folder}/device/max_link_width")),
            "numa": numa if numa is not None and 0 <= numa < 4096 else None,  # the kernel's -1 means no node
        },
    }


def link_speed(text: str | None) -> float | None:
    """In GT/s, of a text such as "16.0 GT/s PCIe"."""
    try:
        speed = float((text or "").partition(" GT/s")[0])
    except ValueError:
        return None
    return speed if speed in _LINK_SPEEDS_GT_S else None


def link_width(text: str | None) -> int | None:
    """In lanes."""
    width = number(text)
    return width if width in _LINK_WIDTHS_LANES else None


def _serial(text: str | None) -> str | None:
    text = (text or "").upper()
    return text if len(text) == 16 and set(text) <= _HEX and set(text) not in ({"0"}, {"F"}) else None


def _is_version(text: str) -> bool:
    parts = text.split(".")
    return len(parts) in (3, 4) and all(map(str.isdigit, parts)) and text.isascii() and text not in _VERSIONS_OF_ONES


def chips(root: str = "/") -> list[ChipInfo]:
    """The PCIe chips in driver order; chips behind another chip do not appear here."""
    # Imported here because only the server needs them; screens start often.
    from ttmem.model.geometry import Arch
    from ttmem.model.identity import ChipInfo

    found = []
    for number, folder in (folders(root) or {}).items():
        pci, family = pci_address(folder), arch(folder)
        found.append(
            ChipInfo(
                id=pci or f"kmd:{number}",
                pci=pci,
                kmd=number,
                arch=Arch[family.upper()] if family else Arch.UNKNOWN,
                board=board(folder),
                remote=False,
            )
        )
    return found

# SPDX-License-Identifier: Apache-2.0
"""Checks of the machine: driver, chips, device files, hugepages. No device is ever opened."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ttmem.doctor.context import DoctorContext
from ttmem.doctor.findings import Message, broken, count, ok, some, unknown, warning
from ttmem.documents.chip_matching import place_of
from ttmem.documents.common_text import chip_title

if TYPE_CHECKING:
    from ttmem.model.machine_rows import DriverChip

_TENSTORRENT = "0x1e52"
# What older drivers lack, oldest first.
_SINCE = (
    ((1, 28), "the telemetry files: temperatures, power and clocks are not known"),
    ((2, 5), "the list of processes that hold a chip: /proc/*/fd is read instead, completely only by root"),
    ((2, 7), "the heartbeat of the firmware, and lists processes of containers with other pids"),
)
_HUGEPAGES = "/sys/kernel/mm/hugepages/hugepages-1048576kB"
_MOUNT = "/dev/hugepages-1G"
_STATES = {
    "in reset": "is in reset or not initialised",
    "off the bus": "answers with all ones: it is off the PCIe bus, or dead",
    "gone": "is no longer in the machine",
    "hangs": "does not answer: reading its telemetry hangs",
}


def driver(context: DoctorContext) -> Iterator[Message]:
    """Whether the driver is loaded, and new enough for all data that ttmem reads."""
    where = "/sys/module/tenstorrent"
    if not context.listed("/sys"):
        yield unknown(
            "/sys", "there is no /sys here, as in a container without it",
            "run `ttmem doctor` on the host, or start the container with /sys",
        )  # fmt: skip
        return
    version = context.read(f"{where}/version")
    if not os.path.isdir(context.path(where)):
        yield _no_driver(context)
        return
    chips = context.machine["chips"]
    if not chips:
        yield broken(
            where, f"tt-kmd {version or 'of an unknown version'} is loaded, but lists no chip",
            "check `lspci -d 1e52:` and `dmesg | grep tenstorrent`; reseat the card or reset it with `tt-smi -r`",
        )  # fmt: skip
        return
    found = f"tt-kmd {version or '(version not known)'} with {count(len(chips), 'chip')}"
    numbers = _numbers(version)
    lacking = next((text for since, text in _SINCE if numbers is not None and numbers < since), None)
    if lacking is None:
        yield ok(where, found)
    else:
        yield warning(f"{where}/version", f"{found} lacks {lacking}", "update tt-kmd to 2.7.0 or later")


def _no_driver(context: DoctorContext) -> Message:
    slots = context.listed("/sys/bus/pci/devices") or []
    cards = [slot for slot in slots if context.read(f"/sys/bus/pci/devices/{slot}/vendor") == _TENSTORRENT]
    if cards:
        return broken(
            "/sys/module/tenstorrent and /sys/bus/pci/devices",
            f"{count(len(cards), 'Tenstorrent card')} on the PCI bus ({some(cards)}), but the driver is not loaded",
            "`sudo modprobe tenstorrent`; if there is no such module, install tt-kmd (tt-installer does this)",
        )
    return warning(
        "/sys/module/tenstorrent and /sys/bus/pci/devices",
        "no driver and no Tenstorrent card",
        "nothing on a machine for simulated or mock devices; otherwise check whether `lspci -d 1e52:` lists the card",
    )


def _numbers(version: str | None) -> tuple[int, ...] | None:
    match = re.match(r"(\d+)\.(\d+)", version or "")
    return (int(match[1]), int(match[2])) if match else None


def chips(context: DoctorContext) -> Iterator[Message]:
    """Whether the chips answer."""
    found = context.machine["chips"]
    bad = [chip for chip in found if chip["telemetry"]["state"] in _STATES]
    for chip in bad:
        yield broken(
            f"the telemetry files of chip {chip['kmd']}",
            f"{chip_title(place_of(chip), chip['kmd'], chip['board'])} {_STATES[chip['telemetry']['state']]}",
            "reset it with `tt-smi -r` when no process uses it; if that does not help, power the machine off and on",
        )
    if not bad:
        yield ok(
            "/sys/class/tenstorrent", f"{count(len(found), 'chip answers', 'chips answer')}" if found else "no chip"
        )


def device_files(context: DoctorContext) -> Iterator[Message]:
    """Whether every chip has a usable file in /dev, and every file has a chip."""
    folder = "/dev/tenstorrent"
    listed = [chip["kmd"] for chip in context.machine["chips"] if chip["telemetry"]["state"] != "gone"]
    expected = {kmd for kmd in listed if kmd is not None}
    present = {int(name) for name in context.listed(folder) or [] if name.isdecimal()}
    missing, extra = sorted(expected - present), sorted(present - expected)
    if missing:
        yield broken(
            folder, f"no file for chip {some([str(number) for number in missing])}, which the driver lists",
            "in a container: start it with `--device /dev/tenstorrent`; else `sudo udevadm trigger` creates them again",
        )  # fmt: skip
    if extra:
        yield warning(
            folder, f"a file without a chip in /sys: {some([str(number) for number in extra])}",
            "in a container: mount /sys; else the chip was removed: `dmesg | grep tenstorrent` shows when and why",
        )  # fmt: skip
    modes: dict[tuple[bool, int], list[str]] = {}
    for number in sorted(expected & present):
        access = _access(context, f"{folder}/{number}")
        if access != (True, 0o666):
            modes.setdefault(access, []).append(f"{folder}/{number}")
    for (ours, mode), paths in modes.items():
        judge, others = (warning, "you may use it, others may not") if ours else (broken, "you may not use it")
        yield judge(
            some(paths), f"its mode is {mode:04o}: {others}",
            "restore the driver's udev rule (mode 0666; installing tt-kmd adds it), then `sudo udevadm trigger`",
        )  # fmt: skip
    if not (missing or extra or modes):
        files = f"{count(len(expected), 'file')}, usable by all users"
        yield ok(folder, files if expected else "none, and no chip that needs one")


def _access(context: DoctorContext, path: str) -> tuple[bool, int]:
    """Whether we may use the file, and its mode. It is not opened: that would wake the chip and make us a holder."""
    where = context.path(path)
    return os.access(where, os.R_OK | os.W_OK), stat.S_IMODE(os.stat(where).st_mode) & 0o666


def hugepages(context: DoctorContext) -> Iterator[Message]:
    """Whether there are enough pages of 1 GiB: without an IOMMU, tt-metal needs at least one for each chip."""
    bare = [chip for chip in context.machine["chips"] if not _translated(context, chip)]
    if not bare:
        chips = len(context.machine["chips"])
        why = f"the IOMMU translates for {count(chips, 'chip')}" if chips else "there is no chip"
        yield ok("iommu_group/type of each chip", f"{why}, so none are needed")
        return
    setup = (
        "install tenstorrent-tools (tt-system-tools), whose service creates 4 pages for each chip and mounts them; or "
        "switch the IOMMU on (intel_iommu=on, amd_iommu=on), which needs none"
    )
    total, free = context.number(f"{_HUGEPAGES}/nr_hugepages"), context.number(f"{_HUGEPAGES}/free_hugepages")
    have = f"{count(len(bare), 'chip')} without IOMMU, {count(total or 0, 'page')} of 1 GiB"
    mounted = _mounted(context)
    if total is None:
        yield broken(_HUGEPAGES, "this kernel has no pages of 1 GiB, and the IOMMU is off", setup)
    elif total == 0:
        yield broken(f"{_HUGEPAGES}/nr_hugepages", have, setup)
    elif total < len(bare):
        yield warning(f"{_HUGEPAGES}/nr_hugepages", f"{have}: some chips cannot be opened", setup)
    if total and not mounted:
        yield broken(
            "/proc/mounts", f"no hugetlbfs with pages of 1 GiB on {_MOUNT}, where tt-metal expects it",
            f"`sudo mkdir -p {_MOUNT} && sudo mount -t hugetlbfs hugetlbfs {_MOUNT} -o mode=777,pagesize=1024M`",
        )  # fmt: skip
    if mounted and total is not None and total >= len(bare):
        yield ok(_HUGEPAGES, f"{have}, {'?' if free is None else free} of them free, mounted on {_MOUNT}")


def _translated(context: DoctorContext, chip: DriverChip) -> bool:
    """Whether the IOMMU translates, as UMD determines it: DMA or DMA-FQ; an identity mapping does not count."""
    kind = context.read(f"/sys/class/tenstorrent/tenstorrent!{chip['kmd']}/device/iommu_group/type")
    return kind is not None and kind.startswith("DMA")


def _mounted(context: DoctorContext) -> bool:
    for line in (context.read("/proc/mounts") or "").splitlines():
        fields = line.split()
        if len(fields) >= 4 and fields[1] == _MOUNT and fields[2] == "hugetlbfs":
            return bool({"pagesize=1024M", "pagesize=1G"} & set(fields[3].split(",")))
    return False

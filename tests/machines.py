# SPDX-License-Identifier: Apache-2.0
"""Creates machines in a folder: the files that tt-kmd, the kernel and tt-metal would create there.

    machine = machines.n300(folder)
    machine.process(4711, name="python", command="python model.py", holds=[0])
    Telemetry(root=str(machine.root)).look()

Files of sysfs have plain names, wherever the driver puts them: ``machine.chip(0, "n150", temp1_input=99000)``,
``machine.set(0, tt_aiclk=None)`` takes a file away, ``machine.file(0, "tt_aiclk")`` says where it is. What a plain file
cannot do is a read that fails: for that ``machine.fail(0, errno.ENODATA)`` and ``with failing_reads(machine)``.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from ttmem.sources import sysfs

ALL_ONES = "4294967295"
BOOTED = 1_794_700_000  # seconds since 1970; a process that started at tick 100 did so one second later
TICKS = os.sysconf("SC_CLK_TCK")

_PCI = {
    "vendor": "0x1e52",
    "current_link_speed": "16.0 GT/s PCIe",
    "current_link_width": 16,
    "max_link_speed": "16.0 GT/s PCIe",
    "max_link_width": 16,
    "numa_node": 0,
}
_WORMHOLE = {
    **_PCI, "device": "0x401e", "name": "wormhole",
    "temp1_label": "asic1_temp", "in0_label": "vcore1", "curr1_label": "current1", "power1_label": "power1",
    "temp1_input": 51187, "temp1_max": 75000, "in0_input": 730, "in0_max": 900,
    "curr1_input": 21000, "curr1_max": 160000, "power1_input": 18000000, "power1_max": 160000000,
    "tt_aiclk": 1000, "tt_axiclk": 900, "tt_arcclk": 540, "tt_heartbeat": 12345,
    "tt_fw_bundle_ver": "18.10.0.0", "tt_m3app_fw_ver": "5.12.0.0", "tt_m3bl_fw_ver": "129.2.0.0",
    "tt_arc_fw_ver": "2.36.0.0", "tt_eth_fw_ver": "6.15.0", "tt_ttflash_ver": "3.1.1.0",
}  # fmt: skip
_BLACKHOLE = {
    **_PCI, "device": "0xb140", "name": "blackhole", "current_link_speed": "32.0 GT/s PCIe",
    "max_link_speed": "32.0 GT/s PCIe",
    "temp1_label": "asic_temp", "in0_label": "vcore", "curr1_label": "current", "power1_label": "power",
    "fan1_label": "fan_rpm",
    "temp1_input": 58437, "temp1_max": 90000, "in0_input": 764, "in0_max": 900,
    "curr1_input": 48000, "curr1_max": 300000, "power1_input": 37000000, "power1_max": 300000000, "fan1_input": 2100,
    "tt_aiclk": 1350, "tt_axiclk": 960, "tt_arcclk": 800, "tt_heartbeat": 98765, "tt_therm_trip_count": 0,
    "tt_fw_bundle_ver": "18.10.0.0", "tt_m3app_fw_ver": "0.22.0.0",
}  # fmt: skip
BOARDS: dict[str, dict[str, Any]] = {
    "n150": {**_WORMHOLE, "tt_serial": "0100018511703012"},
    "n300": {
        **_WORMHOLE,
        "tt_serial": "0100014511703012",
        "power1_max": 110000000,
        "curr1_max": 154000,
        "in0_max": 950,
    },
    "galaxy-wormhole": {**_WORMHOLE, "tt_serial": "0100035100000000", "temp1_input": 43625, "power1_input": 22000000},
    "p150a": {**_BLACKHOLE, "tt_serial": "0000040331914100"},
    "p300a": {**_BLACKHOLE, "tt_serial": "0000045331915100"},
    "galaxy-blackhole": {**_BLACKHOLE, "tt_serial": "0000047331916100", "fan1_input": None, "fan1_label": None},
}


def _text(value: object) -> bytes:
    return value if isinstance(value, bytes) else f"{value}\n".encode()


def _write(path: Path, value: object) -> None:
    """Write in place, so that an open descriptor gets the new value, as in sysfs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(_text(value))


def _link(path: Path, target: Path) -> None:
    """Relative, as the kernel does it: the folder may be moved, and a link never leads out of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(os.path.join(os.path.relpath(target.parent, path.parent), target.name))


class Machine:
    """A machine in a folder. At first, no driver is loaded and only init runs."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.failing: dict[str, int] = {}
        for name in ("sys/class/hwmon", "dev/shm", "proc"):
            (root / name).mkdir(parents=True, exist_ok=True)
        _write(root / "proc/stat", f"cpu  1 2 3 4\nbtime {BOOTED}\nprocesses 4711")
        _write(root / "proc/uptime", "86400.00 172800.00")
        self.hugepages(total=0, free=0)
        self.process(1, name="systemd", command="/sbin/init", start=3)

    def hugepages(self, *, total: int, free: int) -> None:
        """Pages of 1 GiB. tt-metal's tools mount them on /dev/hugepages-1G."""
        pages = self.root / "sys/kernel/mm/hugepages/hugepages-1048576kB"
        _write(pages / "nr_hugepages", total)
        _write(pages / "free_hugepages", free)
        if total:
            (self.root / "dev/hugepages-1G").mkdir(exist_ok=True)

    def driver(self, version: str = "2.10.0", *, pids: bool = True) -> None:
        """The driver is loaded; before 2.5.0 it had no ``pids``."""
        _write(self.root / "sys/module/tenstorrent/version", version)
        (self.root / "sys/class/tenstorrent").mkdir(parents=True, exist_ok=True)
        (self.root / "dev/tenstorrent/by-id").mkdir(parents=True, exist_ok=True)
        if pids:
            (self.root / "proc/driver/tenstorrent").mkdir(parents=True, exist_ok=True)

    def chip(self, number: int, board: str = "n150", *, pci: str | None = None, **files: object) -> None:
        """A chip on PCIe, with the files of its board; each can be given another value, or None for "not there"."""
        serial = int(BOARDS[board]["tt_serial"], 16) + number
        values = {
            **BOARDS[board],
            "tt_card_type": board,
            "tt_serial": f"{serial:016X}",
            "tt_asic_id": f"{serial * 0x9E3779B97F4A7C15 % (1 << 64):016X}",
            **files,
        }
        device = self.root / "sys/devices/pci0000:00" / (pci or f"0000:{number + 1:02x}:00.0")
        entry = device / f"tenstorrent/tenstorrent!{number}"
        entry.mkdir(parents=True)
        _link(entry / "device", device)
        _link(self._entry(number), entry)
        self._write_files(number, values)
        _write(self.root / f"dev/tenstorrent/{number}", b"")
        family = {"0x401e": "wormhole", "0xb140": "blackhole"}.get(str(values["device"]), "grayskull")
        by_id = self.root / f"dev/tenstorrent/by-id/{family}-{str(values['tt_asic_id']).lower()}"
        if not by_id.is_symlink():
            by_id.symlink_to(f"../{number}")
        if (self.root / "proc/driver/tenstorrent").is_dir():
            _write(self.root / f"proc/driver/tenstorrent/{number}/pids", b"")

    def set(self, number: int, **files: object) -> None:
        """Other values in a chip's files; None takes one away."""
        self._write_files(number, files)

    def file(self, number: int, name: str) -> Path:
        """Where a file of a chip is, without links on the way."""
        return self._folder(self._entry(number).resolve(), name) / name

    def hang(self, number: int, name: str) -> Path:
        """Opening this file of the chip blocks until it is opened for writing.

        The file is replaced, as after a reset.
        """
        path = self.file(number, name)
        path.unlink(missing_ok=True)
        os.mkfifo(path)
        return path

    def fail(self, number: int, error: int | None) -> None:
        """Every file that the driver asks this chip for fails so, inside ``failing_reads``; None: it answers again."""
        hwmon = self.file(number, "name").parent
        paths = [*self.file(number, "tt_serial").parent.glob("tt_*"), *hwmon.glob("*_input"), *hwmon.glob("*_max")]
        for path in map(str, paths):
            self.failing.pop(path, None)
            if error is not None:
                self.failing[path] = error

    def remove(self, number: int) -> None:
        """The chip vanishes, as when it falls off the bus and the kernel takes it away."""
        device = (self._entry(number) / "device").resolve()
        for hwmon in (device / "hwmon").glob("hwmon*"):
            (self.root / "sys/class/hwmon" / hwmon.name).unlink()
        self._entry(number).unlink()
        shutil.rmtree(device)
        for link in (self.root / "dev/tenstorrent/by-id").iterdir():
            if os.readlink(link) == f"../{number}":
                link.unlink()
        (self.root / f"dev/tenstorrent/{number}").unlink()
        shutil.rmtree(self.root / f"proc/driver/tenstorrent/{number}", ignore_errors=True)

    def process(
        self,
        pid: int,
        *,
        name: str = "python",
        command: str | Sequence[str] = "python model.py",
        user_id: int = 0,
        holds: Sequence[int] = (),
        start: int = 100_000,
        state: str = "S",
        container: str | None = None,
        inner_pid: int | None = None,
        environ: Mapping[str, str] = {},
        maps: str = "",
        rss_pages: int = 131_072,
    ) -> Path:
        """A process, and its folder in /proc. ``start`` is in ticks since boot, ``container`` the path in its cgroup.

        A number that stands twice in ``holds`` is a device opened twice. The folder belongs to ``user_id`` if we may
        give it away; what other users could not read there has a mode that says so.
        """
        folder = self.root / f"proc/{pid}"
        words = command.split() if isinstance(command, str) else command
        rest = " ".join(["0", str(rss_pages), *["0"] * 28])
        _write(folder / "stat", f"{pid} ({name[:15]}) {state} 1 {pid} {pid} 0 -1 {' '.join(['0'] * 13)} {start} {rest}")
        inner = f"{pid}\t{inner_pid}" if inner_pid is not None else f"{pid}"
        ids = f"{user_id}\t{user_id}\t{user_id}\t{user_id}"
        _write(
            folder / "status",
            f"Name:\t{name[:15]}\nState:\t{state} (sleeping)\nTgid:\t{pid}\nNgid:\t0\nPid:\t{pid}\nPPid:\t1\n"
            f"Uid:\t{ids}\nGid:\t{ids}\nNStgid:\t{inner}\nNSpid:\t{inner}\nThreads:\t1",
        )
        _write(folder / "comm", name[:15])
        _write(folder / "cmdline", b"".join(word.encode() + b"\0" for word in words))
        _write(folder / "cgroup", f"0::{container or '/user.slice'}")
        _write(folder / "environ", b"".join(f"{key}={value}\0".encode() for key, value in environ.items()))
        _write(folder / "maps", maps.encode())
        descriptors = folder / "fd"
        descriptors.mkdir()
        (descriptors / "0").symlink_to("/dev/null")
        for place, number in enumerate(holds, start=3):
            (descriptors / str(place)).symlink_to(f"/dev/tenstorrent/{number}")
            self.holder(number, pid)
        self._give(folder, user_id)
        return folder

    def holder(self, number: int, pid: int) -> None:
        """A line in the driver's list; pid 0 is a process outside our pid namespace."""
        pids = self.root / f"proc/driver/tenstorrent/{number}/pids"
        if pids.exists():
            with pids.open("a") as file:
                file.write(f"{pid}\n")

    def end(self, pid: int) -> None:
        """A process ends, and lets go of its devices."""
        shutil.rmtree(self.root / f"proc/{pid}")
        for pids in (self.root / "proc/driver/tenstorrent").glob("*/pids"):
            pids.write_text("".join(f"{line}\n" for line in pids.read_text().split() if line != str(pid)))

    def shm_file(self, chip_id: int | str, content: bytes, *, mode: int = 0o600, owner: int | None = None) -> Path:
        """tt-metal's counters of one chip; ``chip_id`` is the chip's unique id."""
        path = self.root / f"dev/shm/tt_device_{chip_id}_memory"
        path.write_bytes(content)
        path.chmod(mode)
        if owner is not None:
            os.chown(path, owner, -1)
        return path

    def _entry(self, number: int) -> Path:
        return self.root / f"sys/class/tenstorrent/tenstorrent!{number}"

    def _folder(self, entry: Path, name: str) -> Path:
        if name.startswith("tt_"):
            return entry
        device = entry.parent.parent
        return device if name in _PCI or name == "device" else self._hwmon(device)

    def _hwmon(self, device: Path) -> Path:
        for name in os.listdir(device / "hwmon") if (device / "hwmon").is_dir() else ():
            return device / "hwmon" / name
        links = self.root / "sys/class/hwmon"
        taken = os.listdir(links)
        folder = device / "hwmon" / next(name for n in range(1000) if (name := f"hwmon{n}") not in taken)
        folder.mkdir(parents=True)
        _link(folder / "device", device)
        _link(links / folder.name, folder)
        return folder

    def _write_files(self, number: int, files: Mapping[str, object]) -> None:
        entry = self._entry(number).resolve()
        hwmon = None
        for name, value in files.items():
            if name.startswith("tt_") or name in _PCI or name == "device":
                path = self._folder(entry, name) / name
            elif value is None and hwmon is None and not (entry.parent.parent / "hwmon").is_dir():
                continue
            else:
                hwmon = hwmon or self._hwmon(entry.parent.parent)
                path = hwmon / name
            if value is None:
                path.unlink(missing_ok=True)
            else:
                path.write_bytes(_text(value))

    @staticmethod
    def _give(folder: Path, user_id: int) -> None:
        """As the kernel has it: environ, maps and fd are for the owner alone. Where we may not give, for nobody."""
        ours = user_id == os.geteuid()
        private = {"environ": 0o400, "maps": 0o400, "fd": 0o500}
        for path in (folder, *folder.iterdir()):
            if not ours:
                try:
                    os.chown(path, user_id, user_id)
                except PermissionError:
                    if path.name in private:
                        path.chmod(0)
                    continue
            if path.name in private:
                path.chmod(private[path.name])


def no_driver(root: Path) -> Machine:
    return Machine(root)


def n150(root: Path) -> Machine:
    machine = Machine(root)
    machine.driver()
    machine.chip(0, "n150")
    return machine


def n300(root: Path) -> Machine:
    """One card, two chips; the driver knows only the one on PCIe."""
    machine = Machine(root)
    machine.driver()
    machine.chip(0, "n300")
    return machine


def t3k(root: Path) -> Machine:
    """Four n300."""
    machine = Machine(root)
    machine.driver()
    machine.hugepages(total=4, free=4)
    for number in range(4):
        machine.chip(number, "n300", numa_node=number // 2)
    return machine


def galaxy(root: Path) -> Machine:
    """32 chips in four trays."""
    machine = Machine(root)
    machine.driver()
    machine.hugepages(total=32, free=32)
    for number in range(32):
        tray, place = divmod(number, 8)
        machine.chip(number, "galaxy-wormhole", pci=f"0000:{tray * 0x40 + place + 1:02x}:00.0", numa_node=tray // 2)
    return machine


def p150(root: Path) -> Machine:
    machine = Machine(root)
    machine.driver()
    machine.chip(0, "p150a")
    return machine


# What tt-kmd 2.10 makes of registers that read all ones: it scales in 32 bits. The PCI ids the kernel knows by heart.
FALLEN_OFF: dict[str, Any] = {
    **dict.fromkeys(["tt_aiclk", "tt_axiclk", "tt_arcclk", "tt_heartbeat", "in0_input"], ALL_ONES),
    "temp1_input": "65535999",
    **dict.fromkeys(["temp1_max", "curr1_input", "curr1_max"], (1 << 32) - 1000),
    **dict.fromkeys(["power1_input", "power1_max"], (1 << 32) - 1000000),
    "in0_max": 65535,
    **dict.fromkeys(["tt_serial", "tt_asic_id"], "F" * 16),
    **{name: "255.255.255.255" for name in BOARDS["n150"] if name.endswith("_ver")},
    "tt_eth_fw_ver": "255.15.4095",
    "tt_card_type": "unknown",
    "current_link_speed": "Unknown",
    "current_link_width": 63,
}


def dead_chip(root: Path) -> Machine:
    """Two n150, of which the second is off the bus."""
    machine = n150(root)
    machine.chip(1, "n150", **FALLEN_OFF)
    return machine


def in_reset(root: Path) -> Machine:
    """Two n150, of which the second is in reset: so inside ``failing_reads``."""
    machine = n150(root)
    machine.chip(1, "n150")
    machine.fail(1, errno.ENODATA)
    return machine


def old_driver(root: Path) -> Machine:
    """tt-kmd 1.27: chips, but no tt_* files, no hwmon on Wormhole and no list of holders."""
    machine = Machine(root)
    machine.driver("1.27", pids=False)
    none = {name: None for name in (*BOARDS["n150"], "tt_card_type", "tt_asic_id") if name not in (*_PCI, "device")}
    machine.chip(0, "n150", **none)
    shutil.rmtree(root / "sys/devices/pci0000:00/0000:01:00.0/hwmon", ignore_errors=True)
    for link in (root / "sys/class/hwmon").iterdir():
        link.unlink()
    return machine


def foreign_user(root: Path) -> Machine:
    """Another user works on the chip."""
    machine = n150(root)
    machine.process(4711, name="python3", command="python3 train.py --epochs 3", user_id=1234, holds=[0, 0])
    return machine


DOCKER = "/system.slice/docker-" + "3f2a91c0b7de" + "0" * 52 + ".scope"
KUBERNETES = (
    "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod12345678_90ab_cdef_1234_567890abcdef.slice/"
    "cri-containerd-" + "ab" * 32 + ".scope"
)


def containers(root: Path) -> Machine:
    """Two chips: a process of a Docker container and one of a pod hold them, and somebody outside our namespace."""
    machine = n150(root)
    machine.chip(1, "n150")
    machine.process(4711, name="python", command="python serve.py", holds=[0], container=DOCKER, inner_pid=17)
    machine.process(4712, name="vllm", command="vllm serve", user_id=1000, holds=[1], container=KUBERNETES, inner_pid=1)
    machine.holder(1, 0)
    return machine


@contextlib.contextmanager
def failing_reads(machine: Machine) -> Iterator[None]:
    """In this process the reads fail that ``machine.failing`` says, which may change meanwhile.

    No plain file fails with ENODATA or ENODEV, so this one function stands before ``sysfs.read_at``, through which
    every such read goes. A file is known by what its descriptor really leads to.
    """
    real = sysfs.read_at

    def read_at(descriptor: int) -> bytes:
        error = machine.failing.get(os.readlink(f"/proc/self/fd/{descriptor}"))
        if error is not None:
            raise OSError(error, os.strerror(error))
        return real(descriptor)

    with mock.patch.object(sysfs, "read_at", read_at):
        yield

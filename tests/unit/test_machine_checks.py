# SPDX-License-Identifier: Apache-2.0
"""Checks of driver, chips, device files, hugepages, /dev/shm and container: where each passes and where it fails."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests import machines
from tests.counters import content, mapping, slot
from ttmem.doctor import container_checks as container
from ttmem.doctor import machine_checks as machine
from ttmem.doctor import shm_checks as memory
from ttmem.doctor.context import DoctorContext
from ttmem.doctor.findings import Message

pytestmark = pytest.mark.usefixtures("patient_doctor")

HOST = {"pid": "pid:[4026531836]", "ipc": "ipc:[4026531839]"}
GIB = 1 << 30


def look(
    check: Callable[[DoctorContext], Iterator[Message]], root: Path, env: dict[str, str] | None = None, **more: Any
) -> list[Message]:
    return list(check(DoctorContext(str(root), env or {}, **more)))


def only(said: list[Message]) -> Message:
    (one,) = said
    return one


def mount(root: Path, *lines: str) -> None:
    (root / "proc/mounts").write_text("".join(f"{line}\n" for line in ("/dev/sda1 / ext4 rw 0 0", *lines)))


# Driver and chips


def test_driver(folder: Path) -> None:
    machines.t3k(folder)
    said = only(look(machine.driver, folder))
    assert (said.level, said.todo) == ("ok", None)
    assert said.found == "tt-kmd 2.10.0 with 4 chips"


@pytest.mark.parametrize(
    ("version", "lacks"),
    [
        ("1.27", "telemetry"),
        ("2.4.1", "processes that hold"),
        ("2.6.0", "heartbeat"),
        ("2.7.0", None),
        ("2.10.0-rc1", None),
    ],
)
def test_old_drivers(folder: Path, version: str, lacks: str | None) -> None:
    machines.n150(folder).driver(version)
    said = only(look(machine.driver, folder))
    assert said.level == ("warning" if lacks else "ok")
    assert lacks is None or (lacks in said.found and version in said.found)


def test_a_machine_without_a_card(folder: Path) -> None:
    machines.no_driver(folder)
    said = only(look(machine.driver, folder))
    assert (said.level, said.found) == ("warning", "no driver and no Tenstorrent card")
    assert "simulated" in (said.todo or "")


def test_a_card_without_a_driver(folder: Path) -> None:
    machines.no_driver(folder)
    for slot_name, vendor in ("0000:00:02.0", "0x8086"), ("0000:01:00.0", "0x1e52"):
        (folder / f"sys/bus/pci/devices/{slot_name}").mkdir(parents=True)
        (folder / f"sys/bus/pci/devices/{slot_name}/vendor").write_text(f"{vendor}\n")
    said = only(look(machine.driver, folder))
    assert said.level == "broken"
    assert "1 Tenstorrent card" in said.found
    assert "0000:01:00.0" in said.found
    assert "modprobe" in (said.todo or "")


def test_a_driver_without_a_chip(folder: Path) -> None:
    machines.Machine(folder).driver()
    assert only(look(machine.driver, folder)).level == "broken"


def test_no_sys_at_all(folder: Path) -> None:
    said = only(look(machine.driver, folder))
    assert (said.level, said.looked_at) == ("unknown", "/sys")


def test_chips(folder: Path) -> None:
    machines.n150(folder)
    assert only(look(machine.chips, folder))[:1] == ("ok",)


def test_a_dead_chip(folder: Path) -> None:
    machines.dead_chip(folder)
    said = only(look(machine.chips, folder))
    assert said.level == "broken"
    assert "chip 1 (id 0000:02:00.0)" in said.found


def test_a_chip_in_reset(folder: Path) -> None:
    laid_out = machines.in_reset(folder)
    with machines.failing_reads(laid_out):
        said = only(look(machine.chips, folder))
    assert said.level == "broken"
    assert "chip 1" in said.found
    assert "reset" in said.found


# Device files


def opened_to_all(root: Path) -> Path:
    for node in (root / "dev/tenstorrent").iterdir():
        if node.is_file():
            node.chmod(0o666)
    return root / "dev/tenstorrent"


def test_device_files(folder: Path) -> None:
    machines.t3k(folder)
    opened_to_all(folder)
    said = only(look(machine.device_files, folder))
    assert (said.level, said.found) == ("ok", "4 files, usable by all users")


def test_a_chip_without_a_file_and_a_file_without_a_chip(folder: Path) -> None:
    machines.t3k(folder)
    nodes = opened_to_all(folder)
    (nodes / "2").rename(nodes / "7")
    missing, extra = look(machine.device_files, folder)
    assert (missing.level, extra.level) == ("broken", "warning")
    assert "chip 2" in missing.found
    assert "in /sys: 7" in extra.found


def test_a_file_that_only_its_owner_may_use(folder: Path) -> None:
    machines.n150(folder)
    (folder / "dev/tenstorrent/0").chmod(0o600)
    said = only(look(machine.device_files, folder))
    assert said.level == "warning"
    assert "0600" in said.found
    assert "udev" in (said.todo or "")


def test_many_files_of_one_mode_are_one_finding(folder: Path) -> None:
    machines.galaxy(folder)
    nodes = opened_to_all(folder)
    for number in range(0, 32, 2):
        (nodes / str(number)).chmod(0o640)
    assert only(look(machine.device_files, folder)).looked_at.endswith("and 12 more")


def test_a_file_that_we_may_not_use(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may use any file, so the kernel's answer is replaced. test_doctor.py runs as another user."""
    machines.n150(folder)
    (folder / "dev/tenstorrent/0").chmod(0o600)
    monkeypatch.setattr(os, "access", lambda path, mode: not str(path).endswith("tenstorrent/0"))
    said = only(look(machine.device_files, folder))
    assert said.level == "broken"
    assert "you may not use it" in said.found


def test_no_device_is_opened(folder: Path) -> None:
    """A device file that is a pipe without a writer: opening it for reading would block forever."""
    machines.n150(folder)
    node = folder / "dev/tenstorrent/0"
    node.unlink()
    os.mkfifo(node)
    node.chmod(0o666)
    assert only(look(machine.device_files, folder)).level == "ok"


# Hugepages


def test_hugepages_are_not_needed_with_an_iommu(folder: Path) -> None:
    machines.n150(folder)
    group = folder / "sys/devices/pci0000:00/0000:01:00.0/iommu_group"
    group.mkdir()
    (group / "type").write_text("DMA-FQ\n")
    said = only(look(machine.hugepages, folder))
    assert said.level == "ok"
    assert "IOMMU" in said.found
    (group / "type").write_text("identity\n")
    assert only(look(machine.hugepages, folder)).level == "broken"


def test_hugepages(folder: Path) -> None:
    machines.t3k(folder)
    mount(folder, "hugetlbfs /dev/hugepages-1G hugetlbfs rw,nosuid,nodev,relatime,mode=777,pagesize=1024M 0 0")
    said = only(look(machine.hugepages, folder))
    assert (said.level, "4 of them free" in said.found) == ("ok", True)


def test_too_few_hugepages(folder: Path) -> None:
    machines.t3k(folder).hugepages(total=3, free=0)
    mount(folder, "nodev /dev/hugepages-1G hugetlbfs rw,pagesize=1G 0 0")
    said = only(look(machine.hugepages, folder))
    assert said.level == "warning"
    assert "4 chips without IOMMU, 3 pages" in said.found


def test_no_hugepages(folder: Path) -> None:
    machines.n150(folder)
    said = only(look(machine.hugepages, folder))
    assert said.level == "broken"
    assert "0 pages" in said.found


@pytest.mark.parametrize("line", ["", "hugetlbfs /dev/hugepages-1G hugetlbfs rw,pagesize=2M 0 0",
                                  "hugetlbfs /mnt/huge hugetlbfs rw,pagesize=1024M 0 0"])  # fmt: skip
def test_hugepages_that_are_not_mounted(folder: Path, line: str) -> None:
    machines.t3k(folder)
    mount(folder, line)
    said = only(look(machine.hugepages, folder))
    assert said.level == "broken"
    assert "mount -t hugetlbfs" in (said.todo or "")


# /dev/shm


def room(total: int, free: int) -> Callable[[str], Any]:
    return lambda path: SimpleNamespace(f_frsize=4096, f_blocks=total // 4096, f_bavail=free // 4096)


def test_shm(folder: Path) -> None:
    machines.n150(folder)
    mount(folder, "tmpfs /dev/shm tmpfs rw,nosuid,nodev,size=8388608k 0 0")
    said = only(look(memory.shm, folder, statvfs=room(8 * GIB, 7 * GIB)))
    assert (said.level, said.found) == ("ok", "a tmpfs, writable, 7.0 GiB of 8.0 GiB are free")


def test_the_shm_of_docker_is_small(folder: Path) -> None:
    machines.n150(folder)
    mount(folder, "shm /dev/shm tmpfs rw,nosuid,nodev,noexec,relatime,size=65536k 0 0")
    said = only(look(memory.shm, folder, statvfs=room(64 << 20, 63 << 20)))
    assert said.level == "warning"
    assert "64.0 MiB" in said.found
    assert "--shm-size" in (said.todo or "")


def test_a_full_shm(folder: Path) -> None:
    machines.n150(folder)
    said = only(look(memory.shm, folder, statvfs=room(8 * GIB, 4096)))
    assert said.level == "broken"
    assert "4.0 KiB of 8.0 GiB" in said.found


def test_no_shm_and_one_on_a_disk(folder: Path) -> None:
    machines.n150(folder)
    mount(folder, "/dev/sdb1 /dev/shm ext4 rw 0 0")
    said = only(look(memory.shm, folder, statvfs=room(8 * GIB, 8 * GIB)))
    assert (said.level, "ext4" in said.found) == ("warning", True)
    (folder / "dev/shm").rmdir()
    assert only(look(memory.shm, folder)).level == "broken"


def test_a_shm_that_may_not_be_written(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machines.n150(folder)
    monkeypatch.setattr(os, "access", lambda path, mode: not str(path).endswith("/dev/shm"))
    said = only(look(memory.shm, folder, statvfs=room(8 * GIB, 8 * GIB)))
    assert (said.level, said.todo) == ("broken", "`sudo chmod 1777 /dev/shm`")


# tt-metal's counters


def test_no_counters_and_good_ones(folder: Path) -> None:
    laid_out = machines.n150(folder)
    assert only(look(memory.shm_files, folder)).found.startswith("none")
    path = laid_out.shm_file(880001, content(slot(4711, 4096)))
    laid_out.process(4711, holds=[0], maps=mapping(path))
    said = only(look(memory.shm_files, folder))
    assert (said.level, said.found) == ("ok", "1 file, without bytes of dead processes")


def test_counters_of_the_dead(folder: Path) -> None:
    laid_out = machines.n150(folder)
    path = laid_out.shm_file(880001, content(slot(4711, 4096), slot(4712, 1 << 20, 1 << 20)))
    laid_out.process(4711, holds=[0], maps=mapping(path))
    said = only(look(memory.shm_files, folder))
    assert said.level == "warning"
    sizes = "1.0 MiB of DRAM, 1.0 MiB of L1 (sum over all cores)"
    assert said.found == f"{sizes} of processes that are dead (pid 4712) are still in it"
    assert "rm /dev/shm/tt_device_880001_memory" in (said.todo or "")


def test_a_slot_of_the_dead_that_outlived_the_totals(folder: Path) -> None:
    machines.n150(folder).shm_file(880001, content(slot(4712, 2 << 20), totals=(0, 0, 0, 0, 0)))
    assert "2.0 MiB of DRAM of processes that are dead (pid 4712)" in only(look(memory.shm_files, folder)).found


def test_what_one_job_left_on_many_chips_is_one_finding(folder: Path) -> None:
    laid_out = machines.t3k(folder)
    for chip_id in range(4):
        laid_out.shm_file(880001 + chip_id, content(slot(4712, 1 << 20)))
    laid_out.shm_file(880009, content(slot(4713, 1 << 20)))
    first, second = look(memory.shm_files, folder)
    assert first.found == "4.0 MiB of DRAM of processes that are dead (pid 4712) are still in these 4 files"
    assert "880001" in first.looked_at
    assert second.found == "1.0 MiB of DRAM of processes that are dead (pid 4713) are still in it"


def test_counters_with_no_slot_left(folder: Path) -> None:
    """Bytes that are only in the totals may be in use: it is not known that they belong to dead processes."""
    laid_out = machines.n150(folder)
    path = laid_out.shm_file(880001, content(*(slot(pid, 1) for pid in range(5000, 5064)), totals=(1 << 20,)))
    for pid in range(5000, 5064):
        laid_out.process(pid, maps=mapping(path))
    said = only(look(memory.shm_files, folder))
    assert (said.level, said.looked_at) == ("warning", "/dev/shm/tt_device_880001_memory")
    assert said.found.startswith("all 64 slots are taken")


def test_a_total_beyond_all_slots(folder: Path) -> None:
    machines.n150(folder).shm_file(880001, content(totals=(1 << 20,)))
    said = only(look(memory.shm_files, folder))
    assert said.found == "1.0 MiB of DRAM of processes that are dead, or that have no slot there, are still in it"


def test_counters_of_who_cannot_be_seen_from_a_container(folder: Path) -> None:
    machines.n150(folder).shm_file(880001, content(slot(4712, 1 << 20)))
    namespaces(folder, pid="pid:[4026532000]")
    said = only(look(memory.shm_files, folder))
    assert "are dead, or not visible from here (pid 4712)" in said.found
    assert "rm " not in (said.todo or "")


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file away and become another user")
def test_counters_of_another_user(folder: Path) -> None:
    laid_out = machines.n150(folder)
    folder.chmod(0o755)
    laid_out.shm_file(880001, content(slot(4712, 1 << 20)), owner=65533)
    os.seteuid(65534)
    try:
        said = only(look(memory.shm_files, folder))
    finally:
        os.seteuid(0)
    assert said.found == "1 file of uid 65533 cannot be read: only their owners may"
    assert "as root" in (said.todo or "")


def test_counters_that_are_not_understood(folder: Path) -> None:
    machines.n150(folder).shm_file(880001, content(slot(4711, 4096), version=9))
    said = only(look(memory.shm_files, folder))
    assert (said.level, said.looked_at) == ("warning", "/dev/shm/tt_device_880001_memory")


# Container


def namespaces(root: Path, **changed: str) -> None:
    folder = root / "proc/self/ns"
    folder.mkdir(parents=True)
    for kind, number in {**HOST, **changed}.items():
        (folder / kind).symlink_to(number)


def test_not_in_a_container(folder: Path) -> None:
    machines.n150(folder)
    namespaces(folder)
    assert only(look(container.container, folder)).found == "not in a container"


@pytest.mark.parametrize("sign", [".dockerenv", "run/.containerenv", "cgroup", "variable"])
def test_in_a_container_that_shares_everything_but_the_socket(folder: Path, sign: str) -> None:
    machines.n150(folder)
    namespaces(folder)
    env = {"container": "podman"} if sign == "variable" else {}
    if sign == "cgroup":
        (folder / "proc/self/cgroup").write_text("0::/kubepods.slice/pod1\n")
    elif sign != "variable":
        (folder / sign).parent.mkdir(exist_ok=True)
        (folder / sign).touch()
    said = only(look(container.container, folder, env))
    assert said.level == "warning"
    assert "no socket of a server is mounted" in said.found
    assert "ttmem env --format docker" in (said.todo or "")


def test_in_a_container_with_walls(folder: Path) -> None:
    machines.n150(folder)
    namespaces(folder, pid="pid:[4026532201]", ipc="ipc:[4026532200]")
    (folder / ".dockerenv").touch()
    pids, shm, _ = look(container.container, folder)
    assert (pids.level, shm.level) == ("warning", "warning")
    assert "--pid=host" in (pids.todo or "")
    assert "--ipc=host" in (shm.todo or "")


def test_a_holder_outside(folder: Path) -> None:
    """A pid namespace without any other sign of a container, where the driver lists a 0."""
    laid_out = machines.n150(folder)
    laid_out.holder(0, 0)
    namespaces(folder)
    said = only(look(container.container, folder))
    assert said.level == "warning"
    assert "chip 0 is held by a process outside" in said.found

# SPDX-License-Identifier: Apache-2.0
"""Which processes have a device file open, on machines in a folder and among real processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests import machines
from ttmem.sources import open_files

HOLD = "import os, sys; held = [os.open(path, os.O_RDONLY) for path in sys.argv[1:]]; print('ready', flush=True); "
WAIT = "sys.stdin.read()"


@contextmanager
def running(*command: str, **keywords: Any) -> Iterator[subprocess.Popen[str]]:
    """A process that has reported that it is ready, and ends when its input is closed."""
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes, **keywords) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        try:
            yield process
        finally:
            assert process.stdin is not None
            process.stdin.close()


def show(root: Path, *pids: int) -> None:
    """Adds real processes to a machine in a folder."""
    (root / "proc").mkdir(exist_ok=True)
    for pid in pids:
        (root / f"proc/{pid}").symlink_to(f"/proc/{pid}")


def device(root: Path, number: int) -> str:
    path = root / f"dev/tenstorrent/{number}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return str(path)


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_who_holds_what(folder: Path) -> None:
    machine = machines.old_driver(folder)
    machine.process(50, holds=[0, 0, 3])
    machine.process(51, holds=[3])
    machine.process(52)
    assert open_files.scan([0, 3], str(folder)) == ({50: {0, 3}, 51: {3}}, None)
    assert open_files.scan([3], str(folder)) == ({50: {3}, 51: {3}}, None)


@pytest.mark.parametrize(
    "target",
    [
        "/dev/tenstorrent/0 (deleted)",
        "/dev/tenstorrent/",
        "/dev/tenstorrent/0x",
        "/dev/tenstorrent/00/1",
        "/dev/tenstorrent/\u0660",
        "/dev/tenstorrent/4",
        "/dev/tenstorrent/99999999999999999999",
        "/dev/tenstorrent0",
        "/users/ann/dev/tenstorrent/0",
        "socket:[4711]",
    ],
)
def test_what_is_no_chip(folder: Path, target: str) -> None:
    machine = machines.old_driver(folder)
    (machine.process(50) / "fd/3").symlink_to(target)
    assert open_files.scan([0], str(folder)) == ({}, None)


def test_what_vanishes_meanwhile(folder: Path) -> None:
    """A process without its folder of descriptors has ended while it was read."""
    machine = machines.old_driver(folder)
    (machine.process(50, holds=[0]) / "fd").rename(folder / "elsewhere")
    (folder / "proc/51").mkdir()
    machine.process(52, holds=[0])
    assert open_files.scan([0], str(folder)) == ({52: {0}}, None)


@pytest.mark.parametrize(
    ("state", "flags", "threads", "counts"),
    [("S", 0, 1, True), ("Z", 0, 1, False), ("Z", 0, 2, True), ("I", 0x00208040, 1, False), ("S", 0x00400040, 1, True)],
)
def test_who_could_hold_one(folder: Path, state: str, flags: int, threads: int, counts: bool) -> None:
    """Of the processes that cannot be read, kernel threads and dead processes hold nothing."""
    machine = machines.old_driver(folder)
    machine.process(52, holds=[0])
    for pid in (50, 51):
        process = machine.process(pid)
        (process / "fd/3").write_bytes(b"")  # not a link, so reading it as one fails for any user
        zeros = "0 " * 30
        (process / "stat").write_text(f"{pid} (x) {state} 1 1 1 0 -1 {flags} {'0 ' * 10}{threads} 0 100 {zeros}")
    told = "2 processes could not be examined" if counts else None
    assert open_files.scan([0], str(folder)) == ({52: {0}}, told)
    machine.end(51)
    assert open_files.scan([0], str(folder)) == ({52: {0}}, "1 process could not be examined" if counts else None)
    (folder / "proc/50/stat").unlink()  # as with hidepid=noaccess
    assert open_files.scan([0], str(folder)) == ({52: {0}}, "1 process could not be examined")


def test_no_proc(folder: Path) -> None:
    with pytest.raises(FileNotFoundError):
        open_files.scan([0], str(folder))


@pytest.mark.parametrize(
    ("mounts", "hidden"),
    [
        ("proc /proc proc rw,nosuid,relatime,hidepid=invisible 0 0\n", True),
        ("tmpfs / tmpfs rw 0 0\nproc /proc proc rw,hidepid=2,gid=5 0 0\n", True),
        ("proc /proc proc rw,relatime 0 0\n", False),
        ("proc /srv/proc proc rw,hidepid=2 0 0\nproc /proc\n\n", False),
    ],
)
def test_processes_that_are_hidden(folder: Path, mounts: str, hidden: bool) -> None:
    machine = machines.old_driver(folder)
    machine.process(50, holds=[0])
    (folder / "proc/self").mkdir()
    (folder / "proc/self/mounts").write_text(mounts)
    assert open_files.scan([0], str(folder)) == ({50: {0}}, None)  # init is visible, so others are, too
    machine.end(1)
    held, unseen = open_files.scan([0], str(folder))
    assert held == {50: {0}}
    assert ("hidepid" in (unseen or "")) is hidden


def test_a_real_process_and_what_it_started(folder: Path) -> None:
    """The child has the descriptors that were left open for it, not those that are closed on exec."""
    program = (
        "import os, subprocess, sys; held = [os.open(path, os.O_RDONLY) for path in sys.argv[1:]];"
        "os.set_inheritable(held[0], True);"
        "child = \"import sys; print('ready', flush=True); sys.stdin.read()\";"
        "subprocess.run([sys.executable, '-c', child], close_fds=False)"
    )
    first, second = device(folder, 0), device(folder, 7)
    with running(sys.executable, "-c", program, first, second, second) as parent:
        (child,) = children(parent.pid)
        show(folder, parent.pid, child)
        assert open_files.scan([0, 7], str(folder)) == ({parent.pid: {0, 7}, child: {0}}, None)
    assert open_files.scan([0, 7], str(folder)) == ({}, None)


def test_a_fork_holds_too(folder: Path) -> None:
    program = HOLD.replace("print", "pid = os.fork(); pid and print") + WAIT
    with running(sys.executable, "-c", program, device(folder, 0)) as parent:
        (child,) = children(parent.pid)
        show(folder, parent.pid, child)
        assert open_files.scan([0], str(folder)) == ({parent.pid: {0}, child: {0}}, None)


def test_a_process_whose_first_thread_has_ended(folder: Path) -> None:
    """Its descriptors are visible only through the remaining threads."""
    wait = "import threading, ctypes; threading.Thread(target=sys.stdin.read).start(); ctypes.CDLL(None).syscall(60, 0)"
    with running(sys.executable, "-c", HOLD + wait, device(folder, 0)) as process:
        stat = Path(f"/proc/{process.pid}/stat")
        while stat.read_text().rpartition(")")[2].split()[0] != "Z":
            os.sched_yield()
        assert os.listdir(f"/proc/{process.pid}/fd") == []
        show(folder, process.pid)
        assert open_files.scan([0], str(folder)) == ({process.pid: {0}}, None)


def kernel_threads() -> list[int]:
    """Those of this machine. In a container, none are visible."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            flags = int((process / "stat").read_text().rpartition(")")[2].split()[6])
        except FileNotFoundError:
            continue
        if flags & 0x00200000:
            found.append(int(process.name))
    return found


def test_as_an_ordinary_user(folder: Path) -> None:
    """A process of root cannot be read, which is reported. Kernel threads cannot be read either, which is not."""
    folder.chmod(0o755)
    look = (
        "import os, sys; from ttmem.sources import open_files;"
        "os.getuid() or (os.setgroups([]), os.setgid(65534), os.setuid(65534));"
        "print(open_files.scan([0], sys.argv[1]))"
    )
    with running(sys.executable, "-c", HOLD + WAIT, device(folder, 0)) as mine:
        show(folder, mine.pid, *kernel_threads(), *([] if os.getuid() == 0 else [1]))
        command = [sys.executable, "-c", look, str(folder)]
        told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    held = {} if os.getuid() == 0 else {mine.pid: {0}}
    assert told == f"({held}, '1 process could not be examined')\n"


@contextmanager
def with_other_devices(folder: Path, numbers: dict[int, str], program: str) -> Iterator[int]:
    """A process in a mount and pid namespace where /dev/tenstorrent/N is a harmless device. Its pid here."""
    names = " ".join(str(number) for number in numbers)
    binds = "; ".join(f"mount --bind {source} $d/tenstorrent/{number}" for number, source in numbers.items())
    script = (
        f"set -e; d={folder}/inside; mkdir $d; mount -t tmpfs none $d; mkdir $d/tenstorrent; cd $d/tenstorrent; touch "
        f'{names} $d/null; cd /; mount --bind /dev/null $d/null; {binds}; mount --rbind $d /dev; exec "$@"'
    )
    paths = [f"/dev/tenstorrent/{number}" for number in numbers]
    unshare = ["unshare", "-mpf", "--kill-child", *([] if os.getuid() == 0 else ["-r"])]
    with running(*unshare, "sh", "-c", script, "sh", sys.executable, "-c", program, *paths) as process:
        (inside,) = children(process.pid)
        yield inside


def test_a_container_that_has_chips_under_other_names(folder: Path) -> None:
    """As with `docker run --device /dev/tenstorrent/5:/dev/tenstorrent/0`: the device counts, not the path."""
    with with_other_devices(folder, {0: "/dev/null", 1: "/dev/zero"}, HOLD + WAIT) as pid:
        assert sorted(os.readlink(f"/proc/{pid}/fd/{n}") for n in os.listdir(f"/proc/{pid}/fd"))[:2] == [
            "/dev/tenstorrent/0",
            "/dev/tenstorrent/1",
        ]
        show(folder, pid)
        assert open_files.scan([0, 1, 5], str(folder)) == ({pid: {0, 1}}, None)
        entry = folder / "sys/class/tenstorrent/tenstorrent!5"
        entry.mkdir(parents=True)
        null = os.stat("/dev/null").st_rdev
        (entry / "dev").write_text(f"{os.major(null)}:{os.minor(null)}\n")
        assert open_files.scan([0, 1, 5], str(folder)) == ({pid: {5, 1}}, None)
        (entry / "dev").write_text("garbage\n")
        assert open_files.scan([0, 1, 5], str(folder)) == ({pid: {0, 1}}, None)

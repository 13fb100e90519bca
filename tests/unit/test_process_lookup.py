# SPDX-License-Identifier: Apache-2.0
"""Data of /proc, read from a folder with the same layout and from the real /proc."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import ttmem
from ttmem.model.identity import ProcessInfo
from ttmem.sources import process_lookup as processes


def lay_out(root: Path, pid: int, **files: bytes) -> None:
    folder = root / "proc" / str(pid)
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)


def stat_line(name: str, state: str = "S", start: int = 8675309) -> bytes:
    """Field 2 is the name, 3 the state, 22 the start. The others contain their numbers: a wrong field is noticed."""
    return f"42 ({name}) {state} {' '.join(str(n) for n in range(4, 22))} {start} 23 24\n".encode()


@pytest.mark.parametrize("name", ["python3", "a b", "(sd-pam)", "x) S 1 2 (y", ")", "", "new\nline"])
def test_start_and_state(folder: Path, name: str) -> None:
    lay_out(folder, 42, stat=stat_line(name, "D"))
    assert processes.start_and_state(42, str(folder)) == (8675309, "D")


@pytest.mark.parametrize("content", [b"", b"42", b"42 (x) S 1 2 3", b"42 (x) S " + b"z " * 40])
def test_a_cut_stat_is_no_process(folder: Path, content: bytes) -> None:
    lay_out(folder, 42, stat=content)
    assert processes.start_and_state(42, str(folder)) is None
    assert processes.describe(42, 5, str(folder)) == ProcessInfo(42, None, 5)


def test_nobody(folder: Path) -> None:
    assert processes.start_and_state(42, str(folder)) is None
    assert processes.describe(42, None, str(folder)) == ProcessInfo(42)
    assert processes.visible_devices(42, str(folder)) is None


def test_describe(folder: Path) -> None:
    lay_out(folder, 42, stat=stat_line("python3"), comm=b"python3\n", cmdline=b"python3\0model.py\0--batch\0008\0")
    assert processes.describe(42, 1000, str(folder)) == ProcessInfo(
        42, 8675309, 1000, "python3", "python3 model.py --batch 8"
    )


def test_a_zombie_has_no_command(folder: Path) -> None:
    lay_out(folder, 42, stat=stat_line("python3", "Z"), comm=b"python3\n", cmdline=b"")
    assert processes.describe(42, 1000, str(folder)) == ProcessInfo(42, 8675309, 1000, "python3", None)


def test_files_we_may_not_read(folder: Path) -> None:
    lay_out(folder, 42, stat=stat_line("python3"))
    assert processes.describe(42, 1000, str(folder)) == ProcessInfo(42, 8675309, 1000, None, None)


def test_names_cannot_upset_a_terminal(folder: Path) -> None:
    evil = "a\x1b]0;x\x07b\u202ec\xff"
    lay_out(folder, 42, stat=stat_line("x"), comm=evil.encode() + b"\n", cmdline=b"run\0\x1b[2J\xff\xfe\nrm\0")
    info = processes.describe(42, 0, str(folder))
    assert info.name == "a\\x1b]0;x\\x07b\\u202ec\xff"
    assert info.command == "run \\x1b[2J\\xff\\xfe\\nrm"
    assert (info.name + info.command).isprintable()


def test_a_long_command_is_cut(folder: Path) -> None:
    lay_out(folder, 42, stat=stat_line("x"), cmdline=b"x" * 100_000)
    command = processes.describe(42, 0, str(folder)).command
    assert command == "x" * 4096


@pytest.mark.parametrize(
    ("environ", "visible"),
    [
        (b"", None),
        (b"PATH=/bin\0HOME=/\0", None),
        (b"TT_VISIBLE_DEVICES=3\0", ["3"]),
        (b"A=1\0TT_VISIBLE_DEVICES=0, 2 ,3\0B=2\0", ["0", "2", "3"]),
        (b"TT_VISIBLE_DEVICES=0000:01:00.0\0", ["0000:01:00.0"]),
        (b"TT_VISIBLE_DEVICES=\0", None),
        (b"TT_VISIBLE_DEVICES=,\0", None),
        (b"TT_VISIBLE_DEVICES\0", None),
        (b"XTT_VISIBLE_DEVICES=3\0TT_VISIBLE_DEVICES_X=4\0", None),
        (b"X=TT_VISIBLE_DEVICES=3\0", None),
        (b"TT_VISIBLE_DEVICES=\xff\0", ["\ufffd"]),
    ],
)
def test_visible_devices(folder: Path, environ: bytes, visible: list[str] | None) -> None:
    lay_out(folder, 42, environ=environ)
    assert processes.visible_devices(42, str(folder)) == visible


def test_a_real_process() -> None:
    environment = {**os.environ, "TT_VISIBLE_DEVICES": "2,1"}
    with subprocess.Popen(["cat", "-"], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        # Popen may return before the kernel has set the new name. An answer proves that the program is running.
        child.stdin.write(b"ready\n")
        child.stdin.flush()
        assert child.stdout.readline() == b"ready\n"
        info = processes.describe(child.pid, os.getuid())
        me = processes.describe(os.getpid(), os.getuid())
        assert info.start is not None
        assert me.start is not None
        assert info.start >= me.start
        assert (info.name, info.command) == ("cat", "cat -")
        assert processes.visible_devices(child.pid) == ["2", "1"]
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert processes.start_and_state(child.pid) == (info.start, "Z")
    assert processes.start_and_state(child.pid) is None


ENV = {"PYTHONPATH": str(Path(ttmem.__file__).parent.parent)}
HEX = "3f2a91c0b7de" + "0" * 52


@pytest.mark.parametrize(
    ("cgroup", "container"),
    [
        ("0::/", None),
        ("0::/user.slice/user-1000.slice/session-3.scope", None),
        ("", None),
        ("garbage", None),
        (f"0::/system.slice/docker-{HEX}.scope", "docker 3f2a91c0b7de"),
        (f"9:cpu:/\n8:devices:/docker/{HEX}\n0::/", "docker 3f2a91c0b7de"),
        (f"0::/../docker-{HEX}.scope", "docker 3f2a91c0b7de"),
        (f"0::/machine.slice/libpod-{HEX}.scope/container", "podman 3f2a91c0b7de"),
        (f"0::/machine.slice/libpod-conmon-{HEX}.scope", None),
        (f"4:devices:/libpod_parent/libpod-{HEX}", "podman 3f2a91c0b7de"),
        (f"0::/system.slice/nerdctl-{HEX}.scope", "containerd 3f2a91c0b7de"),
        (f"0::/default/{HEX}", "containerd 3f2a91c0b7de"),
        (f"0::/ecs/task/{HEX}", "container 3f2a91c0b7de"),
        (f"0::/kubepods/burstable/pod12345678-90ab-cdef-1234-567890abcdef/{HEX}", "kubernetes pod 12345678-90a"),
        (
            "0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod12345678_90ab_cdef_1234_567890abcdef"
            f".slice/crio-{HEX}.scope",
            "kubernetes pod 12345678-90a",
        ),
        (f"0::/docker/{HEX}/kubelet/kubepods/pod{'ab' * 16}/{HEX}", "kubernetes pod abababababab"),
        ("0::/lxc.payload.web-1/system.slice/x.service", "lxc web-1"),
        ("0::/lxc/101/ns/init.scope", "lxc 101"),
        ("0::/lxc.monitor.web-1", None),
        ("0::/machine.slice/systemd-nspawn@deb\\x2d12.service/payload/init.scope", "systemd-nspawn deb-12"),
        ("0::/machine.slice/machine-deb\\x2d12.scope/payload", "systemd-nspawn deb-12"),
        ("0::/machine.slice/machine-qemu\\x2d1\\x2dwin.scope/libvirt/vcpu0", None),
        ("0::/user.slice/machine-learning.service", None),
        ("0::/user.slice/pod-tools.slice", None),
        ("0::/lxc/\x1b[2J", "lxc \\x1b[2J"),
    ],
)
def test_container(folder: Path, cgroup: str, container: str | None) -> None:
    lay_out(folder, 42, cgroup=f"{cgroup}\n".encode())
    assert processes.container(42, str(folder)) == container


@pytest.mark.parametrize(
    ("status", "owner"),
    [
        (b"Name:\tx\nUid:\t1000\t1001\t1002\t1003\nNSpid:\t42\n", (1001, None)),
        (b"Name:\tx\nUid:\t0\t0\t0\t0\nNSpid:\t42\t17\t3\n", (0, 3)),
        (b"Name:\tUid:\\n\nUid:\tx y z w\nNSpid:\t42\tx\n", (None, None)),
        (b"Uid:\t5\n", (None, None)),
        (b"", (None, None)),
    ],
)
def test_owner(folder: Path, status: bytes, owner: tuple[int | None, int | None]) -> None:
    lay_out(folder, 42, status=status)
    assert processes.owner(42, str(folder)) == owner


def test_stat(folder: Path) -> None:
    lay_out(folder, 42, stat=stat_line("a) (b"))
    assert processes.stat(42, str(folder)) == ("a) (b", "S", 9, 20, 8675309)


@pytest.mark.parametrize(
    ("letter", "threads", "dead"), [("S", 1, False), ("Z", 1, True), ("Z", 0, True), ("Z", 2, False)]
)
def test_the_dead(letter: str, threads: int, dead: bool) -> None:
    assert processes.is_dead(("x", letter, 0, threads, 5)) is dead


def test_what_a_screen_can_spare_is_not_imported() -> None:
    """`ttmem smi` without a server loads these modules first, and must start quickly."""
    heavy = "{'typing', 'dataclasses', 'threading', 'subprocess', 'pathlib', 'shutil', 'ttmem.model.identity'}"
    program = (
        "import sys; old = set(sys.modules); import ttmem.sources.device_holders;"
        f"print({heavy} & (set(sys.modules) - old))"
    )
    run = subprocess.run([sys.executable, "-S", "-c", program], env=ENV, check=True, capture_output=True, text=True)
    assert run.stdout == "set()\n"

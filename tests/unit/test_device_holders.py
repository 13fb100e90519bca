# SPDX-License-Identifier: Apache-2.0
"""Which processes hold which chips, on machines in a folder and with real processes."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests import machines
from tests.support import not_none
from tests.unit.test_open_files import HOLD, WAIT, device, running, show, with_other_devices
from ttmem.model.machine_rows import HoldersLook
from ttmem.sources.device_holders import Holders

Json = dict[str, Any]


def look(machine: machines.Machine, *kmds: int) -> HoldersLook:
    return Holders(str(machine.root)).look(list(kmds or (0,)))


def pids(answer: HoldersLook) -> dict[int, list[int]]:
    return {row["pid"]: row["holds"] for row in answer["processes"]}


def until(come_true: Callable[[], bool], patience: float = 20) -> bool:
    end = time.monotonic() + patience
    while not come_true():
        if time.monotonic() > end:
            return False
        os.sched_yield()
    return True


def raw(machine: machines.Machine, pid: int, *, name: bytes = b"x", command: bytes = b"x\0") -> None:
    """Names that are not text."""
    folder = machine.root / f"proc/{pid}"
    stat = (folder / "stat").read_bytes()
    (folder / "stat").write_bytes(stat[: stat.index(b"(") + 1] + name + stat[stat.rindex(b")") :])
    (folder / "cmdline").write_bytes(command)


def test_all_that_is_known(folder: Path) -> None:
    machine = machines.containers(folder)
    answer = look(machine, 0, 1)
    root = pwd.getpwuid(0).pw_name
    docker, pod = answer["processes"]
    rest = {name: value for name, value in answer.items() if name != "processes"}
    assert rest == {"state": "ok", "why": None, "via": "driver", "foreign": {1: 1}}
    assert docker == {
        "pid": 4711, "start": 100_000, "user_id": 0, "user": root, "name": "python", "command": "python serve.py",
        "container": "docker 3f2a91c0b7de", "job": {"id": "session 4711", "name": "python"}, "inner_pid": 17,
        "letter": "S", "holds": [0],
    }  # fmt: skip
    assert (pod["pid"], pod["holds"], pod["inner_pid"]) == (4712, [1], 1)
    assert pod["container"] == "kubernetes pod 12345678-90a"


def test_a_user_without_a_name(folder: Path) -> None:
    (row,) = look(machines.foreign_user(folder))["processes"]
    assert (row["user_id"], row["user"], row["container"], row["inner_pid"]) == (1234, None, None, None)


def test_a_descriptor_a_line(folder: Path) -> None:
    machine = machines.t3k(folder)
    machine.process(50, holds=[0, 0, 0, 3, 1])
    machine.process(40, holds=[3])
    for _ in range(3):
        machine.holder(2, 0)
    answer = look(machine, 0, 1, 2, 3)
    assert pids(answer) == {40: [3], 50: [0, 1, 3]}
    assert list(pids(answer)) == [40, 50]
    assert answer["foreign"] == {2: 3}
    assert pids(look(machine, 0)) == {50: [0]}


def test_nobody(folder: Path) -> None:
    assert look(machines.n150(folder)) == {
        "state": "ok", "why": None, "via": "driver", "processes": [], "foreign": {},
    }  # fmt: skip


@pytest.mark.parametrize("line", ["x", "-1", "4711 x", "99999999999999999999", "4194304", "0x10", "\u0664", "\x00"])
def test_lines_that_make_no_sense(folder: Path, line: str) -> None:
    machine = machines.n150(folder)
    machine.process(4711, holds=[0])
    with (folder / "proc/driver/tenstorrent/0/pids").open("a") as file:
        file.write(f"{line}\n\n")
    answer = look(machine)
    assert pids(answer) == {4711: [0]}
    assert answer["state"] == "incomplete"
    assert "chip 0: invalid lines in its list of holders: 1" in not_none(answer["why"])


def test_a_list_that_cannot_be_read(folder: Path) -> None:
    """One is a folder, one is missing as after the removal of a chip, one blocks: the others are read."""
    machine = machines.t3k(folder)
    machine.process(50, holds=[3])
    lists = folder / "proc/driver/tenstorrent"
    (lists / "0/pids").unlink()
    (lists / "0/pids").mkdir()
    (lists / "1/pids").unlink()
    (lists / "2/pids").unlink()
    os.mkfifo(lists / "2/pids")
    holders = Holders(str(folder), patience=1.0)
    answer = holders.look([0, 1, 2, 3])
    assert (answer["state"], answer["via"], pids(answer)) == ("incomplete", "driver", {50: [3]})
    assert "chip 0: its list of holders cannot be read (Is a directory)" in not_none(answer["why"])
    assert "chip 1: its list of holders cannot be read (No such file or directory)" in not_none(answer["why"])
    assert "chip 2: its list of holders cannot be read (the driver does not answer)" in not_none(answer["why"])
    assert "chip 3" not in not_none(answer["why"])
    with (lists / "2/pids").open("w") as file:
        file.write("50\n")
    assert until(lambda: pids(holders.look([2, 3])) == {50: [2, 3]})


def test_an_old_driver_keeps_no_list(folder: Path) -> None:
    machine = machines.old_driver(folder)
    machine.process(50, holds=[0, 0], command="python a.py")
    machine.process(51)
    answer = look(machine)
    assert (answer["state"], answer["why"], answer["via"]) == ("ok", None, "descriptors")
    assert pids(answer) == {50: [0]}
    assert answer["processes"][0]["command"] == "python a.py"


def test_what_an_old_driver_does_not_tell_us(folder: Path) -> None:
    machine = machines.old_driver(folder)
    machine.process(50, holds=[0])
    (machine.process(51) / "fd/3").write_bytes(b"")  # not a link, so it cannot be read as one
    answer = look(machine)
    assert (answer["state"], pids(answer)) == ("incomplete", {50: [0]})
    assert not_none(answer["why"]).startswith("1 process could not be examined; ")
    assert "tt-kmd 2.7" in not_none(answer["why"])


def test_no_chips_and_no_proc(folder: Path) -> None:
    nothing: dict[str, object] = {"via": None, "processes": [], "foreign": {}, "state": "absent"}
    assert Holders(str(folder)).look([]) == {**nothing, "why": "there is no chip"}
    assert Holders(str(folder)).look([0]) == {**nothing, "why": f"{folder}/proc: No such file or directory"}


def test_we_are_no_holder(folder: Path) -> None:
    machine = machines.n150(folder)
    machine.process(50, holds=[0])
    machine.process(51, holds=[0])
    (folder / "proc/self").symlink_to("51")
    assert pids(look(machine)) == {50: [0]}


def test_ourselves_for_real(folder: Path) -> None:
    (folder / "proc").symlink_to("/proc")
    with open(device(folder, 0), "rb"), running(sys.executable, "-c", HOLD + WAIT, device(folder, 0)) as other:
        answer = Holders(str(folder)).look([0])
        assert answer["via"] == "descriptors"
        assert pids(answer) == {other.pid: [0]}


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        (b"a b", "a b"),
        (b"(sd-pam)", "(sd-pam)"),
        (b"x) S 1 (y", "x) S 1 (y"),
        (b"two\nlines", "two\\nlines"),
        (b"\x1b[2J", "\\x1b[2J"),
        (b"\xff\xfe", "\\xff\\xfe"),
        ("\u202eevil".encode(), "\\u202eevil"),
        ("größe".encode(), "größe"),
        (b"", ""),
    ],
)
def test_names(folder: Path, name: bytes, shown: str) -> None:
    machine = machines.n150(folder)
    machine.process(50, holds=[0])
    raw(machine, 50, name=name, command=name + b"\0arg\0")
    (row,) = look(machine)["processes"]
    assert row["name"] == shown
    assert row["command"] == f"{shown} arg"
    assert (row["start"], row["letter"]) == (100_000, "S")


def test_no_command(folder: Path) -> None:
    machine = machines.n150(folder)
    machine.process(50, holds=[0], command="")
    (row,) = look(machine)["processes"]
    assert row["command"] is None


def test_the_dead_hold_nothing(folder: Path) -> None:
    machine = machines.n150(folder)
    machine.process(50, state="Z")
    machine.holder(0, 50)
    answer = look(machine)
    assert answer["processes"] == []
    assert "opened by process 50, which has exited" in not_none(answer["why"])


def test_who_let_go_while_we_looked(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Listed, but gone when it is examined. The second reading of the list does not contain it."""
    machine = machines.n150(folder)
    machine.process(51)  # its open files would not explain which process holds the chip
    machine.holder(0, 50)
    machine.holder(0, 51)
    holders = Holders(str(folder))
    read = holders._lists

    def read_and_let_go(kmds: list[int]) -> Any:
        found = read(kmds)
        (folder / "proc/driver/tenstorrent/0/pids").write_text("51\n")
        return found

    monkeypatch.setattr(holders, "_lists", read_and_let_go)
    answer = holders.look([0])
    assert (answer["state"], answer["why"], pids(answer)) == ("ok", None, {51: [0]})


def test_an_heir_holds_what_the_gone_opened(folder: Path) -> None:
    machine = machines.t3k(folder)
    machine.process(50, holds=[0, 1])
    machine.process(51, holds=[1])
    machine.process(52, holds=[2])
    (machine.process(60) / "fd/9").symlink_to("/dev/tenstorrent/0")
    (folder / "proc/60/fd/8").symlink_to("/dev/tenstorrent/1")
    (folder / "proc/60/fd/7").symlink_to("/dev/tenstorrent/2")
    assert pids(look(machine, 0, 1, 2)) == {50: [0, 1], 51: [1], 52: [2]}
    (folder / "proc/50").rename(folder / "gone")
    answer = look(machine, 0, 1, 2)
    assert (answer["state"], answer["why"]) == ("ok", None)
    assert pids(answer) == {51: [1], 52: [2], 60: [0, 1]}
    (folder / "proc/60/fd/9").unlink()
    answer = look(machine, 0, 1, 2)
    assert answer["state"] == "incomplete"
    assert not_none(answer["why"]).startswith(
        "chip 0, 1: opened by process 50, which has exited, and inherited by another; "
    )


@pytest.mark.parametrize("version", ["2.5.0", "2.6.0-rc1"])
def test_numbers_of_another_namespace(folder: Path, version: str) -> None:
    """These drivers list 17 for a process that has pid 17 in its container and 50 here. Here, 17 is another process."""
    machine = machines.n150(folder)
    machine.driver(version)
    machine.process(17, name="innocent")
    inside = machine.process(50, container=machines.DOCKER, inner_pid=17)
    (inside / "fd/3").symlink_to("/dev/tenstorrent/0")
    machine.holder(0, 17)
    answer = look(machine)
    assert (answer["state"], pids(answer)) == ("ok", {50: [0]})
    (inside / "fd/3").unlink()
    answer = look(machine)
    assert (answer["state"], pids(answer)) == ("incomplete", {17: [0]})
    assert "tt-kmd before 2.7 may list a process of a container with the pid of another" in not_none(answer["why"])
    machine.end(17)
    machine.process(17, state="Z")
    machine.holder(0, 17)
    assert pids(look(machine)) == {}


def test_only_the_number_is_shown(folder: Path) -> None:
    """/proc may hide the processes of other users, but the driver lists them."""
    machine = machines.n150(folder)
    (folder / "proc/self").mkdir()
    (folder / "proc/self/mounts").write_text("proc /proc proc rw,hidepid=invisible 0 0\n")
    machine.end(1)
    machine.process(50, holds=[0])
    machine.holder(0, 4711)
    answer = look(machine)
    assert (answer["state"], pids(answer)) == ("incomplete", {50: [0], 4711: [0]})
    assert "of 1 only the pid is shown" in not_none(answer["why"])
    hidden = answer["processes"][1]
    assert {key for key, value in hidden.items() if value is not None} == {"pid", "holds"}
    assert hidden.keys() == answer["processes"][0].keys()


def test_a_process_is_described_once(folder: Path) -> None:
    """It is read again if its name changes, or if another process has the same pid."""
    machine = machines.n150(folder)
    process = machine.process(50, holds=[0], name="sh", command="sh run.sh")
    holders = Holders(str(folder))

    def row() -> Json:
        (found,) = holders.look([0])["processes"]
        return dict(found)

    first = row()
    (process / "cmdline").unlink()
    (process / "cgroup").unlink()
    (process / "status").unlink()
    assert row() == first
    (process / "stat").write_text((process / "stat").read_text().replace(") S", ") D"))
    assert row() == {**first, "letter": "D"}
    machine.end(50)
    machine.process(50, holds=[0], name="python", command="python a.py", user_id=first["user_id"])
    assert row() == {**first, "name": "python", "command": "python a.py"}
    machine.end(50)
    machine.process(50, holds=[0], name="python", command="python b.py", container=machines.DOCKER, start=200_000)
    again = row()
    assert (again["start"], again["command"], again["container"]) == (200_000, "python b.py", "docker 3f2a91c0b7de")


def test_a_real_process_that_becomes_another(folder: Path) -> None:
    (folder / "proc").mkdir()
    script = "exec 3<$0; echo ready; read x; exec cat - 3<$0"
    with running("sh", "-c", script, device(folder, 0)) as process:
        show(folder, process.pid)
        holders = Holders(str(folder))
        (row,) = holders.look([0])["processes"]
        assert (row["name"], row["command"]) == ("sh", f"sh -c {script} {device(folder, 0)}")
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("go\nanswer\n")
        process.stdin.flush()
        assert process.stdout.readline() == "answer\n"
        (after,) = holders.look([0])["processes"]
        assert after == {**row, "name": "cat", "command": "cat -", "letter": after["letter"]}


def test_a_command_that_hangs(folder: Path) -> None:
    machine = machines.n150(folder)
    process = machine.process(50, holds=[0], container=machines.DOCKER)
    machine.process(51, holds=[0])
    (process / "cmdline").unlink()
    os.mkfifo(process / "cmdline")
    holders = Holders(str(folder), patience=1.0)
    for _ in range(3):
        answer = holders.look([0])
        stuck, other = answer["processes"]
        assert (answer["state"], answer["why"]) == ("ok", "the command of process 50 could not be read in time")
        assert (stuck["command"], stuck["name"], stuck["container"]) == (None, "python", "docker 3f2a91c0b7de")
        assert (stuck["user_id"], stuck["user"]) == (0, pwd.getpwuid(0).pw_name)
        assert other["command"] == "python model.py"
    (process / "cmdline").write_bytes(b"late\0")
    assert until(lambda: holders.look([0])["processes"][0]["command"] == "late")
    assert holders.look([0])["why"] is None


def test_a_real_container(folder: Path) -> None:
    """A process in its own namespaces: its pid inside, and its data outside."""
    with with_other_devices(folder, {0: "/dev/null"}, HOLD + WAIT) as pid:
        show(folder, pid)
        (row,) = Holders(str(folder)).look([0])["processes"]
        assert (row["pid"], row["inner_pid"], row["user_id"]) == (pid, 1, os.getuid())
        assert not_none(row["command"]).endswith("/dev/tenstorrent/0")


def test_a_real_process_that_may_not_be_dumped(folder: Path) -> None:
    """Its folder in /proc belongs to root, although the process does not."""
    undumpable = "ctypes.CDLL(None).prctl(4, 0, 0, 0, 0); "
    drop = "import ctypes; os.getuid() or (os.setgid(65534), os.setuid(65534)); "
    program = HOLD.replace("print", drop + undumpable + "print") + WAIT
    with running(sys.executable, "-c", program, device(folder, 0)) as process:
        assert os.stat(f"/proc/{process.pid}/cmdline").st_uid == 0
        machine = machines.n150(folder / "machine")
        show(machine.root, process.pid)
        machine.holder(0, process.pid)
        (row,) = look(machine)["processes"]
        assert row["user_id"] == (os.getuid() or 65534)
        assert row["user"] == pwd.getpwuid(row["user_id"]).pw_name


def test_the_child_of_a_real_opener_that_is_gone(folder: Path) -> None:
    """The driver still lists the process that opened the chip, but its child holds it."""
    machine = machines.n150(folder)
    program = (
        "import os, sys; held = os.open(sys.argv[1], os.O_RDONLY); out = os.fork();"
        "out and (print(out, flush=True), os._exit(0)); sys.stdin.read()"
    )
    command = [sys.executable, "-c", program, device(folder, 0)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as opener:
        assert opener.stdout is not None
        child = int(opener.stdout.readline())
        assert os.waitid(os.P_PID, opener.pid, os.WEXITED | os.WNOWAIT)
        show(folder, opener.pid, child)
        machine.holder(0, opener.pid)
        answer = look(machine)
        assert (answer["state"], answer["via"], pids(answer)) == ("ok", "driver", {child: [0]})
        opener.wait(20)
        assert pids(look(machine)) == {child: [0]}

# SPDX-License-Identifier: Apache-2.0
"""The environment of a run, the detection of processes without the agent, and the start of a command."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from ttmem.agent import AgentMissing
from ttmem.run import launch
from ttmem.run.environment import RUN_SOCKET, preload, variables
from ttmem.run.session import Session
from ttmem.sources import process_lookup as processes

METAL = b"7f00-7f01 r-xp 00000000 00:1 1 /opt/ttnn/lib/libtt_metal.so\n"
DEVICE = b"7f02-7f03 rw-s 00000000 00:5 2 /dev/tenstorrent/0\n"
STATISTICS = b"7f02-7f03 rw-s 00000000 00:5 2 /dev/shm/tt_device_4711_memory\n"
OTHER = b"7f04-7f05 r-xp 00000000 00:1 3 /lib/libc.so.6\n"


def process(root: Path, pid: int, maps: bytes = OTHER, children: dict[int, list[int]] | None = None) -> None:
    """A process in a folder laid out like /proc; ``children`` are those of each of its threads."""
    folder = root / "proc" / str(pid)
    folder.mkdir(parents=True)
    (folder / "maps").write_bytes(maps)
    (folder / "comm").write_text(f"name{pid}\n")
    (folder / "cmdline").write_text("")
    (folder / "stat").write_text(f"{pid} (name{pid}) S {' '.join(['0'] * 18)} 99 0\n")
    for thread, found in (children or {pid: []}).items():
        task = folder / "task" / str(thread)
        task.mkdir(parents=True)
        (task / "children").write_text("".join(f"{child} " for child in found))


# -- who uses a device ----------------------------------------------------------------------------------------------


def test_descendants_of_all_threads(folder: Path) -> None:
    process(folder, 1, children={1: [2], 9: [3, 4]})
    process(folder, 2, children={2: [5]})
    for pid in (3, 4, 5, 6):
        process(folder, pid)
    assert sorted(processes.descendants(1, str(folder))) == [1, 2, 3, 4, 5]


def test_a_process_that_is_gone_has_no_descendants(folder: Path) -> None:
    process(folder, 1, children={1: [2]})  # 2 ended meanwhile
    assert sorted(processes.descendants(1, str(folder))) == [1, 2]
    assert processes.device_users(1, str(folder)) == {}
    assert processes.descendants(77, str(folder)) == [77]


@pytest.mark.parametrize(
    ("maps", "uses"),
    [
        *((METAL + DEVICE, True), (METAL + STATISTICS, True), (DEVICE + OTHER + METAL, True)),
        *((METAL, False), (DEVICE, False), (STATISTICS, False), (OTHER, False), (b"", False)),
    ],
)
def test_who_uses_a_device(folder: Path, maps: bytes, uses: bool) -> None:
    """The library alone is only an import; the device alone may be held by tt-smi."""
    process(folder, 1, children={1: [2]})
    process(folder, 2, maps)
    assert processes.device_users(1, str(folder)) == ({2: "name2"} if uses else {})


def test_a_forest_without_end_is_cut(folder: Path) -> None:
    process(folder, 1, children={1: [1]})
    assert len(processes.descendants(1, str(folder))) <= 4096


@pytest.fixture
def collector() -> Iterator[Session]:
    with Session(lambda text: None) as made:
        yield made


def test_unseen_is_who_used_a_device_and_was_not_heard(
    collector: Session, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process in the folder replaces the command; none of its processes reports."""
    process(folder, 1, children={1: [2, 3]})
    process(folder, 2, METAL + DEVICE)
    process(folder, 3, METAL)
    real = processes.device_users
    looked = folder / "looked"

    def look(pid: int, known: object) -> object:
        found = real(1, str(folder), known)  # type: ignore[arg-type]
        looked.touch()
        return found

    monkeypatch.setattr(processes, "device_users", look)
    command = ["sh", "-c", f"until [ -e {looked} ]; do sleep 0.01; done"]  # it must not end before it was examined
    ended = launch.run(command, collector, os.environ, None)
    assert (ended.exit_code, ended.unseen) == (0, {2: "name2"})


def test_handlers_are_put_back(collector: Session) -> None:
    numbers = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)
    before = [signal.getsignal(number) for number in numbers]
    assert launch.run(["sh", "-c", "exit 3"], collector, os.environ, None).exit_code == 3
    assert [signal.getsignal(number) for number in numbers] == before


def test_handlers_are_put_back_if_there_is_no_such_command(collector: Session) -> None:
    before = signal.getsignal(signal.SIGINT)
    try:
        with pytest.raises(launch.LaunchError, match="cannot run no-such-allocation: No such file or directory"):
            launch.run(["no-such-allocation"], collector, os.environ, None)
        assert signal.getsignal(signal.SIGINT) is before
    finally:
        signal.signal(signal.SIGINT, before)


# -- the environment ------------------------------------------------------------------------------------------------


@pytest.fixture
def library(folder: Path) -> str:
    path = folder / "agent.so"
    path.touch()
    return str(path)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        *((None, "{}"), ("", "{}"), ("/a.so", "/a.so:{}"), ("/a.so /b.so", "/a.so:/b.so:{}")),
        *(("/a.so::/b.so:", "/a.so:/b.so:{}"), ("{}", "{}"), ("{}:/a.so", "{}:/a.so")),
    ],
)
def test_preload(library: str, before: str | None, after: str) -> None:
    environment = {"TTMEM_AGENT_LIBRARY": library}
    if before is not None:
        environment["LD_PRELOAD"] = before.format(library)
    assert preload(environment) == after.format(library)


@pytest.mark.parametrize("mark", [" ", ":"])
def test_a_path_the_loader_would_split(folder: Path, mark: str) -> None:
    path = folder / f"a{mark}b.so"
    path.touch()
    with pytest.raises(AgentMissing, match="splits LD_PRELOAD at spaces and colons"):
        preload({"TTMEM_AGENT_LIBRARY": str(path)})


def test_variables(library: str) -> None:
    environment = {"TTMEM_AGENT_LIBRARY": library, "PATH": "/bin"}
    assert variables(environment, socket=None) == {"LD_PRELOAD": library}
    assert variables(environment, socket="/s", run_socket="/r") == {
        "LD_PRELOAD": library,
        "TTMEM_SOCKET": "/s",
        RUN_SOCKET: "/r",
    }

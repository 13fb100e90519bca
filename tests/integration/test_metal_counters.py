# SPDX-License-Identifier: Apache-2.0
"""tt-metal's counters of real programs on mock devices, compared with ttnn's own figures."""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import secrets
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.mock.program import Program
from tests.mock.wheel import Wheel, wheel
from tests.support import wait_until
from ttmem.sources.metal_counters import Counters

Json = Any
Start = Callable[..., Program]
PYTHON = "3.12"
KINDS = {"dram": "DRAM", "l1": "L1", "l1_small": "L1_SMALL", "trace": "TRACE"}
TILE = 32 * 32 * 2
TENSOR = 1344 * TILE  # in DRAM and in L1
CB = 3 * 2 * TILE * 64  # ttnn.add: three buffers of two tiles on every core
NOTHING = dict.fromkeys((*KINDS, "cb"), 0)


@pytest.fixture
def start(folder: Path) -> Iterator[Start]:
    """Starts programs on the same board, or on another one if requested."""
    programs: list[Program] = []

    def run(*acts: str, board: str = "n150", using: Wheel | None = None) -> Program:
        own = folder / str(len(programs))
        own.mkdir()
        program = Program(
            *(using or wheel(PYTHON), "ttnn_counters", board, own, "--acts", ",".join(acts)),
            *("--trace-region-size", str(12 * 65536)),
            chip_id_seed=programs[0].chip_id_seed if programs else None,
        )
        programs.append(program)
        return program

    yield run
    for program in programs:
        program.__exit__(None, None, None)


def files(program: Program, counters: Counters | None = None, holders: tuple[Json, ...] = ()) -> list[Json]:
    """The counters of the program's chips, in the order of the chips."""
    found = {file["chip"]: file for file in (counters or Counters()).look(holders)["files"]}
    return [found[str(chip_id)] for chip_id in program.chip_ids.values()]


def said(record: Json) -> Json:
    """Allocated bytes on each chip, according to ttnn."""
    views = {kind: record["views"][name] for kind, name in KINDS.items()}
    return {kind: view["banks"] * view["allocated_per_bank"] for kind, view in views.items()}


def without_cb(sums: Json) -> Json:
    return {kind: sums[kind] for kind in KINDS}


def until(records: Iterator[Json], act: str) -> Json:
    return next(record for record in records if record["act"] == act)


def test_the_counters_agree_with_ttnn(start: Start) -> None:
    program = start("DRAM", "L1", "L1_SMALL", "TRACE", "add", "DRAM", "free")
    counters = Counters()
    most = dict(NOTHING)
    for record in program.records():
        (file,) = files(program, counters)
        assert (file["state"], file["version"], file["owner"], file["why"]) == ("ok", 3, os.getuid(), None)
        assert file["stale"] == {**NOTHING, "cb": None}
        if record["act"] in ("open", "close"):
            assert (file["slots"], file["live"]) == ([], NOTHING)
            assert file["attached"] == (record["act"] == "open")
            continue
        assert without_cb(file["live"]) == said(record), record["act"]
        (slot,) = file["slots"]
        assert (slot["state"], slot["pid"], slot["process"], slot["user_id"]) == (
            "live",
            program.pid,
            program.pid,
            os.getuid(),
        )
        assert (slot["name"], slot["why"]) == (Path(f"/proc/{program.pid}/comm").read_text().strip(), None)
        assert 0 <= time.time() - slot["updated"] < 60
        assert without_cb(slot) == said(record)
        most = {kind: max(most[kind], file["live"][kind]) for kind in most}
    assert most == {"dram": 2 * TENSOR, "l1": 2 * TENSOR, "l1_small": 64 * TILE, "trace": 12 * TILE, "cb": CB}


def test_each_chip_of_an_n300_has_a_file(start: Start) -> None:
    program = start("DRAM", "L1", board="n300")
    records = program.records()
    record = until(records, "L1")
    assert sorted(record["chips"]) == [0, 1]
    near, far = files(program)
    assert (near["metal_id"], far["metal_id"]) == (0, 1)
    assert near["chip"] != far["chip"]
    for file in (near, far):
        assert without_cb(file["live"]) == said(record) == {"dram": TENSOR, "l1": TENSOR, "l1_small": 0, "trace": 0}
        assert [slot["process"] for slot in file["slots"]] == [program.pid]
    until(records, "close")
    assert [file["live"] for file in files(program)] == [NOTHING, NOTHING]


def test_a_killed_process_and_the_next_one(start: Start) -> None:
    """What the first process held stays in the totals forever. The second adds to it, and is still read correctly."""
    counters = Counters()
    first = start("DRAM", "L1", "add")
    held = said(until(first.records(), "add"))
    assert without_cb(files(first, counters)[0]["live"]) == held
    assert {kind: bytes_ for kind, bytes_ in held.items() if bytes_} == {"dram": TENSOR, "l1": 2 * TENSOR}
    first.process.kill()
    os.waitid(os.P_PID, first.pid, os.WEXITED | os.WNOWAIT)
    for expected in ("has ended", "no process"):
        (file,) = files(first, counters)
        (slot,) = file["slots"]
        assert (slot["state"], slot["process"], without_cb(slot)) == ("dead", None, held)
        assert expected in slot["why"]
        assert file["live"] == NOTHING
        assert file["stale"] == {**held, "cb": None}
        first.process.wait()  # until then it was a zombie
    second = start("L1", "DRAM")
    records = second.records()
    for act in ("L1", "DRAM"):
        record = until(records, act)
        (file,) = files(second, counters)
        assert [(slot["pid"], slot["state"]) for slot in file["slots"]] == [(first.pid, "dead"), (second.pid, "live")]
        assert without_cb(file["live"]) == said(record)
        assert file["stale"] == {**held, "cb": None}
        assert file["totals"]["l1"] == held["l1"] + said(record)["l1"]
    until(records, "close")
    (file,) = files(second, counters)
    assert (file["live"], without_cb(file["stale"])) == (NOTHING, held)


def test_a_process_that_became_another_program(start: Start) -> None:
    """The pid and the start are those of the writer; only the mappings show that it is gone."""
    program = start("DRAM", "exec")
    now = 0.0
    watching = Counters(clock=lambda: now)
    records = program.records()
    until(records, "DRAM")
    (before,) = files(program, watching)[0]["slots"]
    assert before["state"] == "live"
    until(records, "exec")
    now += 60
    for counters in (watching, Counters()):
        (file,) = files(program, counters)
        (slot,) = file["slots"]
        assert (slot["state"], slot["pid"], file["live"]) == ("reused", program.pid, NOTHING)
        assert file["stale"]["dram"] == TENSOR


def test_a_forked_child(start: Start) -> None:
    """It counts under its own pid, in inherited memory, and never subtracts its bytes."""
    program = start("L1", "fork")
    records = program.records()
    until(records, "L1")
    child = until(records, "child")["pid"]
    (file,) = files(program)
    assert {slot["process"]: (slot["dram"], slot["l1"]) for slot in file["slots"]} == {
        program.pid: (0, TENSOR),
        child: (TENSOR, 0),
    }
    until(records, "fork")
    (file,) = files(program)
    assert [(slot["pid"], slot["state"]) for slot in file["slots"]] == [(program.pid, "live"), (child, "dead")]
    assert (file["live"]["dram"], file["stale"]["dram"]) == (0, TENSOR)
    until(records, "close")
    (file,) = files(program)
    assert (file["live"], file["totals"]) == (NOTHING, NOTHING), "the last one out set the totals to nothing"
    assert [(slot["pid"], slot["state"], slot["dram"]) for slot in file["slots"]] == [(child, "dead", TENSOR)]


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to act as another user")
def test_another_user_is_told_whose_the_file_is(start: Start) -> None:
    program = start("DRAM")
    until(program.records(), "DRAM")
    answer, telling = os.pipe()
    reader = os.fork()
    if reader == 0:
        try:
            os.setgroups([])
            os.setresgid(65534, 65534, 65534)
            os.setresuid(65534, 65534, 65534)
            os.write(telling, json.dumps(files(program)).encode())
        finally:
            os._exit(0)
    os.close(telling)
    with os.fdopen(answer, "rb") as text:
        (file,) = json.loads(text.read())
    os.waitpid(reader, 0)
    assert (file["state"], file["owner"], file["slots"], file["live"]) == ("unreadable", 0, [], None)
    assert f"/dev/shm/tt_device_{program.chip_ids[0]}_memory is readable only by root (uid 0)" in file["why"]


def test_a_pid_namespace(start: Start, folder: Path) -> None:
    """As in a container with the host's /dev/shm: the slot has the pid inside the container, which is 1."""
    outside = wheel(PYTHON)
    inside = folder / "python"
    unshare = f"unshare {'' if os.getuid() == 0 else '--map-root-user '}--pid --fork --kill-child --mount-proc"
    inside.write_text(f'#!/bin/sh\nexec {unshare} {outside.python} "$@"\n')
    inside.chmod(0o755)
    program = start("DRAM", using=Wheel(str(inside), outside.package))
    records = program.records()
    assert until(records, "DRAM")["pid"] == 1
    (pid,) = map(int, Path(f"/proc/{program.pid}/task/{program.pid}/children").read_text().split())
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    outer, inner = map(int, status["NSpid"].split())
    assert (outer, inner) == (pid, 1)
    counters = Counters()
    (file,) = files(program, counters)
    (slot,) = file["slots"]
    assert (slot["pid"], slot["state"], file["live"]["dram"]) == (1, "reused", 0), "by its number it would be init's"
    holder = {"pid": outer, "start": None, "user_id": os.getuid(), "inner_pid": inner}
    (file,) = files(program, counters, (holder,))
    (slot,) = file["slots"]
    assert (slot["pid"], slot["process"], slot["state"], slot["user_id"]) == (1, outer, "live", os.getuid())
    assert (file["live"]["dram"], file["stale"]["dram"]) == (TENSOR, 0)
    program.process.kill()
    program.process.wait()
    wait_until(lambda: not os.path.exists(f"/proc/{outer}"), "its end")
    (file,) = files(program, counters, (holder,))
    assert (file["live"]["dram"], file["stale"]["dram"]) == (0, TENSOR)


# A process of the kernel, with counters that the test writes


@contextlib.contextmanager
def own_file() -> Iterator[Path]:
    path = Path(f"/dev/shm/tt_device_{secrets.randbits(64)}_memory")
    try:
        path.write_bytes(struct.pack("<I", 3).ljust(8576, b"\0"))
        yield path
    finally:
        path.unlink()


def claim(path: Path, pid: int, updated: float) -> None:
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
        struct.pack_into("<i4x6Q64s", memory, 856, pid, 5, 0, 0, 0, 0, round(updated * 1e9), b"python")


def slot_of(path: Path) -> Json:
    for file in Counters().look()["files"]:
        if file["path"] == str(path):
            (slot,) = file["slots"]
            return slot
    raise AssertionError(f"{path} is not listed")


MAPS = "import mmap, os, sys; file = mmap.mmap(os.open(sys.argv[1], os.O_RDWR), 0);"


@contextlib.contextmanager
def mapper(path: Path, code: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that has the file mapped."""
    command = [sys.executable, "-c", f"{MAPS}{code}", str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == b"ready\n"
            yield child
        finally:
            child.kill()


def test_the_start_of_a_real_process() -> None:
    with own_file() as path:
        before = time.time()
        with mapper(path, "print('ready', flush=True); sys.stdin.read()") as child:
            claim(path, child.pid, time.time())
            assert (slot_of(path)["state"], slot_of(path)["process"]) == ("live", child.pid)
            # The time of boot is known to the second below.
            claim(path, child.pid, before - 2)
            assert slot_of(path)["state"] == "reused"


def test_a_process_whose_first_thread_has_ended() -> None:
    """Its state letter is that of a zombie, but it is alive."""
    code = """
import ctypes, threading
def rest():
    while open('/proc/self/stat').read().rpartition(') ')[2][0] != 'Z':
        pass
    print('ready', flush=True)
    sys.stdin.read()
threading.Thread(target=rest).start()
ctypes.CDLL(None).pthread_exit(None)
"""
    with own_file() as path, mapper(path, code) as child:
        claim(path, child.pid, time.time())
        assert (slot_of(path)["state"], slot_of(path)["process"]) == ("live", child.pid)
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert slot_of(path)["state"] == "dead"


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to act as two users")
def test_mappings_of_another_user() -> None:
    """The file is ours, the process is root's: an ordinary user may see that it lives, and nothing more."""
    with own_file() as path:
        os.chown(path, 65534, 65534)
        with mapper(path, "print('ready', flush=True); sys.stdin.read()") as child:
            name = Path(f"/proc/{child.pid}/comm").read_text().strip()
            for told, state in ((name, "live"), ("another", "reused")):
                claim(path, child.pid, time.time())
                with path.open("r+b") as file:
                    file.seek(856 + 56)
                    file.write(told.encode() + b"\0")
                code = f"""
import os, sys
sys.path[:0] = {sys.path!r}
from ttmem.sources.metal_counters import Counters
os.setgroups([]); os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534)
(slot,) = [file for file in Counters().look()["files"] if file["path"] == {str(path)!r}][0]["slots"]
print(slot["state"], "mappings" in slot["why"])
"""
                done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
                assert done.stdout.split() == [state, "True"]

# SPDX-License-Identifier: Apache-2.0
"""Runs the native agent inside a workload on a replacement for tt-metal, and compares its memory with the workload's.

The workload (native/tests/workload.cpp) keeps its own account and prints it.
"""

from __future__ import annotations

import ctypes
import json
import os
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from native.tests.build import Build, build

from tests.support import PATIENCE, wait_until
from ttmem.wire.agent_ring import BINARY, NO_MESH_ID, PROGRAM_FRAME, RAN, SHARED, Record, Ring, RingEvent
from ttmem.wire.table_copy import copy_table

DRAM, L1, L1_SMALL, TRACE, CB, DFB, SCRATCHPAD, KERNEL, FABRIC_KERNEL, DISPATCH_KERNEL = 0, 1, 3, 4, 5, 6, 7, 8, 9, 10
BUFFERS = {DRAM, L1, L1_SMALL, TRACE}
ALL_KINDS = {DRAM, L1, L1_SMALL, TRACE, CB, DFB, SCRATCHPAD, KERNEL, FABRIC_KERNEL, DISPATCH_KERNEL}
L1_BASE = 105824
SLOW = 4  # a sanitizer's runtime, on a busy machine


# -- the server's end of the agent's socket -------------------------------------------------------------------------


class Hello(NamedTuple):
    """One connection of an agent: the process, its message, and the memory that it passed."""

    pid: int
    text: bytes
    memory: int | None
    connection: socket.socket


class Reader:
    """Listens on the socket of `ttmem run`."""

    def __init__(self, folder: Path) -> None:
        self.path = str(folder / "run.sock")
        self.hellos: list[Hello] = []
        self._asked = threading.Event()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(self.path)
        self._listener.listen()
        self._thread = threading.Thread(target=self._accept)
        self._thread.start()

    def _accept(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
            text, fds, _, _ = socket.recv_fds(connection, 4096, 4)
            if text == b"who came before?":  # connections are accepted in their order
                self._asked.set()
                connection.close()
                continue
            if text == b"that is all":
                connection.close()
                return
            pid = int.from_bytes(raw[:4], "little")
            self.hellos.append(Hello(pid, text, fds[0] if fds else None, connection))

    def all_hellos(self) -> list[Hello]:
        """Those of all processes that have connected by now."""
        self._asked.clear()
        self._say(b"who came before?")
        assert self._asked.wait(PATIENCE)
        return self.hellos

    def _say(self, text: bytes) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as own:
            own.connect(self.path)
            own.sendall(text)

    def close(self) -> None:
        self._say(b"that is all")
        self._thread.join(PATIENCE)
        self._listener.close()
        for hello in self.hellos:
            hello.connection.close()


class Outcome(NamedTuple):
    """How a workload ended."""

    pid: int
    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def devices(self) -> dict[str, dict[str, Any]]:
        return {line["device"]: line for line in self.lines if "device" in line}


def steady() -> None:
    """Older thread sanitizers do not start if addresses are randomised more than they expect."""
    ctypes.CDLL(None).personality(0x0040000)  # ADDR_NO_RANDOMIZE; if that is refused, it may still work


class Stage:
    """Starts workloads, with the agent or without."""

    def __init__(self, built: Build, folder: Path) -> None:
        self.built = built
        self.folder = folder
        self.reader = Reader(folder)
        self.rings: list[Ring] = []
        self.running: list[subprocess.Popen[str]] = []

    def environment(self, agent: bool, **more: str) -> dict[str, str]:
        runtime = self.built.runtime
        preload = [runtime] if runtime else []
        if agent:
            preload.append(str(self.built.agent))
        environment = {
            "PATH": os.environ["PATH"],
            "LD_PRELOAD": " ".join(preload),
            "TTMEM_SOCKET": str(self.folder / "nobody.sock"),
            "TTMEM_RUN_SOCKET": self.reader.path,
            "FAKE_METAL": self.built.fake(),
            "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=0:exitcode=99",
            "TSAN_OPTIONS": "exitcode=99:halt_on_error=0:die_after_fork=0",
        }
        return environment | more

    def start(self, *command: str, agent: bool = True, program: str = "workload", **more: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [self.built.program(program), *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, env=self.environment(agent, **more),
            preexec_fn=steady if self.built.variant == "thread" else None,
        )  # fmt: skip
        self.running.append(process)
        return process

    def run(self, *command: str, agent: bool = True, program: str = "workload", **more: str) -> Outcome:
        return self.end(self.start(*command, agent=agent, program=program, **more))

    def end(self, process: subprocess.Popen[str]) -> Outcome:
        out, err = process.communicate(timeout=PATIENCE * SLOW)
        return Outcome(process.pid, process.returncode, out, err)

    def ring(self, pid: int | None = None, other_than: int | None = None) -> Ring:
        """The memory of one process."""

        def found() -> Hello | None:
            for hello in self.reader.hellos:
                if hello.pid == pid or (pid is None and hello.pid != other_than):
                    return hello
            return None

        hello = wait_until(found, "the agent's hello")
        assert hello.text[:3] == b"\xf7T\x10"
        assert hello.text[10:16] == b"\x03agent"
        assert hello.memory is not None, "the agent handed no memory over"
        ring = Ring(os.dup(hello.memory))
        self.rings.append(ring)
        return ring

    def close(self) -> None:
        for process in self.running:
            process.kill()
            process.wait(PATIENCE)
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()
        self.reader.close()
        for ring in self.rings:
            ring.close()
        for hello in self.reader.hellos:
            if hello.memory is not None:
                os.close(hello.memory)


@pytest.fixture
def stage_of(folder: Path) -> Iterator[Callable[[str], Stage]]:
    stages: list[Stage] = []

    def make(variant: str) -> Stage:
        stages.append(Stage(build(variant), folder))
        return stages[-1]

    yield make
    for stage in stages:
        stage.close()


@pytest.fixture
def stage(stage_of: Callable[[str], Stage]) -> Stage:
    return stage_of("plain")


# -- comparing ------------------------------------------------------------------------------------------------------


def fold(ring: Ring) -> dict[int, Record]:
    """The live allocations from the ring alone. Checks that a free matches the allocation that it frees."""
    ring.cursor = 0
    table: dict[int, Record] = {}
    while True:
        lost, records = ring.read(1000)
        assert lost == 0
        if not records:
            return table
        for record in map(Record._make, records):
            if record.event in (RingEvent.ALLOCATED, RingEvent.PROGRAM):
                known = table.get(record.slot)
                if record.event == RingEvent.PROGRAM and known is not None:
                    assert known.program == record.program
                else:
                    assert known is None, f"slot {record.slot} is taken"
                table[record.slot] = record
            elif record.event == RingEvent.FREED:
                gone = table.pop(record.slot)
                assert (gone.kind, gone.address, gone.size, gone.mesh) == (
                    record.kind, record.address, record.size, record.mesh,
                )  # fmt: skip
            elif record.event == RingEvent.RUN:
                frame = table[record.slot]
                assert (frame.program, frame.per_bank) == (record.program, record.per_bank)
                assert record.per_bank > 0
                table[record.slot] = frame._replace(time=record.time, flags=frame.flags | RAN)
            elif record.event == RingEvent.DESTROYED:
                table = {slot: allocation for slot, allocation in table.items() if allocation.program != record.program}
            elif record.event == RingEvent.CLOSED:
                assert not [t for t in table.values() if t.mesh == record.mesh and t.kind in BUFFERS]


def allocations_of(ring: Ring) -> list[Record]:
    """The live allocations: the table and the fold of the ring are equal."""
    live = copy_table(ring).records()
    assert live == sorted(fold(ring).values())
    return live


def label(ring: Ring, mesh: int) -> str:
    """The workload's name of a mesh."""
    described = ring.mesh(mesh)
    parent = ring.mesh(described.parent)
    if parent.mesh_id == NO_MESH_ID:
        return f"chip {ring.chips_of(parent)[0].number}"
    return f"mesh {parent.mesh_id}"


def cores_in(ring: Ring, blob: int) -> set[tuple[int, int]]:
    mask = int.from_bytes(ring.blob(blob), "little")
    return {(i % 64, i // 64) for i in range(mask.bit_length()) if mask >> i & 1}


def seen_buffers(ring: Ring, device: str) -> list[list[int]]:
    return sorted(
        [t.kind, t.address, t.size, t.per_bank, t.layout, t.core_count, t.flags & BINARY != 0]
        for t in allocations_of(ring)
        if t.kind in BUFFERS and label(ring, t.mesh) == device
    )


def seen_programs(ring: Ring, device: str) -> dict[int, Any]:
    """By tt-metal's number: the frame, and the parts."""
    seen: dict[int, Any] = {}
    allocations = [
        allocation
        for allocation in allocations_of(ring)
        if allocation.program and label(ring, allocation.mesh) == device
    ]
    frames = [allocation for allocation in allocations if allocation.kind == PROGRAM_FRAME]
    numbers = {frame.program: frame.address for frame in frames}
    launched = {frame.per_bank for frame in frames if frame.flags & RAN}  # one frame of a workload is marked
    for allocation in allocations:
        mine = seen.setdefault(numbers[allocation.program], {"parts": []})
        chips = ring.mesh(allocation.mesh).chip_count
        cores = frozenset(cores_in(ring, allocation.cores))
        if allocation.kind == PROGRAM_FRAME:
            mine |= {"ring": allocation.size, "ran": allocation.per_bank in launched, "chips": chips, "cores": cores}
        else:
            assert allocation.size == allocation.per_bank * len(cores)
            assert allocation.core_count == len(cores)
            mine["parts"].append(
                (allocation.kind, allocation.address, allocation.per_bank, cores, allocation.flags & SHARED != 0, chips)
            )
    for mine in seen.values():
        mine["parts"].sort(key=repr)
    return seen


def expected_programs(device: dict[str, Any], kinds: set[int]) -> dict[int, Any]:
    """The expected program of the replacement library, from its description."""
    expected: dict[int, Any] = {}
    for program in device["programs"]:
        if not program["compiled"]:
            continue
        x, y, x_end, y_end = program["cores"]
        cores = frozenset((i, j) for i in range(x, x_end + 1) for j in range(y, y_end + 1))
        chips = program["chips"]
        parts: list[tuple[Any, ...]] = []
        for i in range(program["kernels"]):
            kind, address = (FABRIC_KERNEL, 1 << 32 | i) if i % 3 == 2 else (KERNEL, i)
            size = sum(1000 + 16 * i + binary for binary in range(3 if i % 3 == 0 else 1))
            parts.append((kind, address, size, cores, False, chips))
        if program["laid_out"]:
            at = L1_BASE
            for i in range(program["cbs"]):
                shared = bool(program["global"]) and i == 0
                parts.append((CB, 1000000 if shared else at, 2048 * (i + 1), cores, shared, chips))
                at += 0 if shared else 2048 * (i + 1)
            at = L1_BASE + 100000
            for i in range(program["dfbs"]):
                parts.append((DFB, at, 512 * (i + 1), cores, False, chips))
                at += 512 * (i + 1)
            parts += [
                (SCRATCHPAD, L1_BASE + 200000 + 1024 * i, 128 * (i + 1), cores, False, chips)
                for i in range(program["scratchpads"])
            ]
        expected[program["id"]] = {
            "parts": sorted((part for part in parts if part[0] in kinds), key=repr),
            "ring": 192 + 4096 * program["kernels"] if program["ran"] else 0,
            "ran": bool(program["ran"]), "chips": chips, "cores": cores,
        }  # fmt: skip
    return expected


def coverage(ring: Ring) -> set[int]:
    return {kind for kind in range(64) if ring.field("coverage") >> kind & 1}


def compare(ring: Ring, devices: dict[str, dict[str, Any]], kinds: set[int] = ALL_KINDS) -> None:
    """Everything that the workload counted is in the memory, and nothing else."""
    assert ring.field("table_full") == ring.field("blobs_full") == ring.field("replaced") == 0
    for name, device in devices.items():
        wanted = sorted([*buffer[:6], bool(buffer[6])] for buffer in device["buffers"])
        assert seen_buffers(ring, name) == (wanted if kinds >= BUFFERS else [])
        assert seen_programs(ring, name) == (expected_programs(device, kinds) if kinds - BUFFERS else {})
    assert {label(ring, allocation.mesh) for allocation in allocations_of(ring)} <= set(devices)


def agrees_with_itself(ring: Ring) -> None:
    """The audit against the allocator's own numbers ran and found nothing."""
    audited = [mesh for mesh in ring.meshes() if mesh.audits]
    assert audited
    for mesh in audited:
        assert mesh.mismatches == 0, mesh


def clean(outcome: Outcome, code: int = 0) -> None:
    assert outcome.err == ""
    assert outcome.code == code

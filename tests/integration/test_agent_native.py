# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: F811
"""The native agent inside a workload on a replacement for tt-metal: its records equal the workload's own account.

The workload (native/tests/workload.cpp) keeps its own account and prints it. Three things must agree with it: the
agent's live table, the account built from the agent's ring, and the allocator's own figures.
"""

from __future__ import annotations

import json
import platform
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from native.tests.build import build

from tests.mock.wheel import PYTHONS, ROOT, remove_statistics, wheel
from tests.native_stage import (
    ALL_KINDS,
    BUFFERS,
    DFB,
    L1_BASE,
    Outcome,
    Stage,
    agrees_with_itself,
    allocations_of,
    clean,
    compare,
    cores_in,
    coverage,
    label,
    seen_buffers,
    stage,  # noqa: F401 - a fixture
    stage_of,  # noqa: F401 - a fixture
)
from tests.support import PATIENCE
from ttmem.doctor.required_symbols import required_symbols
from ttmem.wire.agent_ring import PER_CORE, PROGRAM_FRAME, Record, Ring, RingEvent
from ttmem.wire.ring_meters import meters


def test_the_stand_in_has_every_function_the_agent_knows(stage: Stage) -> None:
    wanted = required_symbols()
    names = {*wanted.hooks.values(), *wanted.calls.values(), *wanted.older.values()}
    nm = subprocess.run(["nm", "-D", "--defined-only", stage.built.fake()], capture_output=True, text=True, check=True)
    assert names - {line.split()[-1] for line in nm.stdout.splitlines()} == set()


# -- exactness ------------------------------------------------------------------------------------------------------

VARIANTS = ["plain", "address", "thread"]


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("program", ["workload", "workload_open"])
def test_one_thread_is_exact_and_nothing_changes_for_the_workload(
    stage_of: Callable[[str], Stage], variant: str, program: str
) -> None:
    stage = stage_of(variant)
    for seed in ("1", "2", "3") if variant == "plain" else ("1",):  # with a sanitizer, one takes as long as the three
        alone = stage.run("life", seed, "1", "400", agent=False, program=program)
        clean(alone)
        outcome = stage.run("life", seed, "1", "400", program=program)
        clean(outcome)
        assert outcome.out == alone.out
        ring = stage.ring(outcome.pid)
        assert ring.field("pid") == outcome.pid
        assert ring.text("wheel").endswith("/metal/libtt_metal.so")
        assert ring.text("trouble") == ""
        assert coverage(ring) == ALL_KINDS
        assert sum(len(device["buffers"]) for device in outcome.devices.values()) > 20
        compare(ring, outcome.devices)
        agrees_with_itself(ring)
        # Nothing was freed in bulk without the agent: only those whose memory had already been freed are unknown.
        assert ring.field("unknown_frees") < 40


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("threads", ["4", "8"])
def test_many_threads_are_exact_at_the_end(stage_of: Callable[[str], Stage], variant: str, threads: str) -> None:
    stage = stage_of(variant)
    outcome = stage.run("life", "5", threads, "300")
    clean(outcome)
    ring = stage.ring(outcome.pid)
    compare(ring, outcome.devices)
    agrees_with_itself(ring)
    counted = next(line["allocator says"] for line in outcome.lines if "allocator says" in line)
    assert counted == [len(outcome.devices[f"mesh {i}"]["buffers"]) for i in (4, 5)]


@pytest.mark.parametrize("variant", VARIANTS)
def test_an_address_is_never_told_to_be_taken_twice(stage_of: Callable[[str], Stage], variant: str) -> None:
    """A free is reported before it happens, an allocation after it, so threads may pass an address on at any time."""
    stage = stage_of(variant)
    outcome = stage.run("tug_of_war", "1", "8", "3500")
    clean(outcome)
    ring = stage.ring(outcome.pid)
    compare(ring, outcome.devices)
    assert ring.field("replaced") == ring.field("unknown_frees") == 0


@pytest.mark.parametrize("variant", VARIANTS)
def test_buffers_with_an_address_of_their_own_on_each_core(stage_of: Callable[[str], Stage], variant: str) -> None:
    """Many have the same first address at a time. The Buffer identifies them, also when the heap reuses its address."""
    stage = stage_of(variant)
    for threads in ("1", "4"):
        outcome = stage.run("per_core", "1", threads, "600")
        clean(outcome)
        ring = stage.ring(outcome.pid)
        compare(ring, outcome.devices)
        own = outcome.devices["chip 0"]["buffers"]
        assert len({address for _, address, *_ in own}) < len(own) - 10
        assert [line["allocator says"] for line in outcome.lines if "allocator says" in line] == [len(own)]
        flags = {label(ring, allocation.mesh): allocation.flags & PER_CORE for allocation in allocations_of(ring)}
        assert flags == {"chip 0": PER_CORE, "mesh 0": 0}
        assert ring.field("replaced") == ring.field("unknown_frees") == ring.field("earlier_frees") == 0
        l1 = meters(ring)[None, "l1"]
        assert l1.used == sum(size for _, _, size, *_ in own) + 6400
        assert l1.reserved == sum(per_bank * cores for _, _, _, per_bank, _, cores, _ in own) + 64 * 128


@pytest.mark.parametrize("variant", VARIANTS)
def test_buffers_from_before_the_agent_could_see(stage_of: Callable[[str], Stage], variant: str) -> None:
    """Their frees are counted separately, and the audit leaves out the rest of them."""
    stage = stage_of(variant)
    outcome = stage.run("late", "1", "1", "200")
    clean(outcome)
    ring = stage.ring(outcome.pid)
    compare(ring, outcome.devices)
    (earlier,) = [line["earlier"] for line in outcome.lines if "earlier" in line]
    assert earlier > 20
    assert (ring.field("earlier_frees"), ring.field("unknown_frees")) == (earlier, 0)
    agrees_with_itself(ring)


def test_meshes_describe_chips_banks_and_grid(stage: Stage) -> None:
    outcome = stage.run("life", "1", "1", "100")
    clean(outcome)
    ring = stage.ring(outcome.pid)
    mesh = next(mesh for mesh in ring.meshes() if mesh.mesh_id == 4 and mesh.chip_count == 4)
    assert (mesh.arch, mesh.map_end, mesh.l1_base, mesh.dram_base) == (2, 35168, L1_BASE, 32)
    assert [(bank.banks, bank.size, bank.unit) for bank in mesh.banks] == [
        (12, 1 << 30, 32), (64, 1360544, 32), (0, 0, 0), (64, 32768, 32), (12, 90112, 32),
    ]  # fmt: skip
    assert mesh.l1_size == L1_BASE + 1360544 + 32768
    assert cores_in(ring, mesh.cores) == {(x, y) for x in range(8) for y in range(8)}
    chips = ring.chips_of(mesh)
    assert [(chip.number, chip.unique_id, chip.remote) for chip in chips] == [(i, 0x1000 + i, i % 2) for i in range(4)]
    assert {mesh.state for mesh in ring.meshes() if mesh.mesh_id < 4} == {2}


def test_every_open_is_closed_in_the_ring(stage: Stage) -> None:
    outcome = stage.run("life", "1", "2", "100")
    clean(outcome)
    ring = stage.ring(outcome.pid)
    _, records = ring.read(1 << 16)
    story: dict[int, list[str]] = {}
    for record in map(Record._make, records):
        if record.event in (RingEvent.OPENED, RingEvent.CLOSING, RingEvent.CLOSED, RingEvent.CACHE_CLEARED):
            story.setdefault(record.mesh, []).append(RingEvent(record.event).name)
    parts = {number for number, mesh in enumerate(ring.meshes()) if mesh.parent != number}
    assert {tuple(story.pop(part)) for part in parts} == {("OPENED",)}  # closed together with their parent mesh
    stories = {label(ring, mesh): told for mesh, told in story.items()}
    assert stories["mesh 0"] == stories["mesh 1"] == stories["mesh 3"] == ["OPENED", "CLOSING", "CLOSED"]
    assert stories["mesh 2"] == ["OPENED", "CACHE_CLEARED", "CLOSING", "CLOSED"]
    assert stories["mesh 4"] == stories["mesh 5"] == stories["chip 1"] == ["OPENED"]


def test_a_process_may_open_and_close_without_end(stage: Stage) -> None:
    """A test suite opens a device for each of its tests."""
    outcome = stage.run("many_lives", "1", "1", "600")
    clean(outcome)
    compare(stage.ring(outcome.pid), outcome.devices)


# -- fork, ends, copies ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", ["plain", "address"])
@pytest.mark.parametrize("threads", ["1", "4"])
def test_fork_gives_the_child_a_memory_of_its_own(stage_of: Callable[[str], Stage], variant: str, threads: str) -> None:
    stage = stage_of(variant)
    outcome = stage.run("fork", "3", threads, "200")
    clean(outcome)
    devices = outcome.devices
    parent = stage.ring(outcome.pid)
    child = stage.ring(None, other_than=outcome.pid)
    assert parent.field("pid") == outcome.pid
    assert child.field("pid") != outcome.pid
    assert len(stage.reader.all_hellos()) == 2
    compare(parent, {"mesh 0": devices["mesh 0"]})
    compare(child, {"mesh 0": devices["child's mesh 0"]})
    threads_of_parent = {Record._make(r).thread for r in _all(parent)}
    threads_of_child = {Record._make(r).thread for r in _all(child)}
    assert outcome.pid in threads_of_parent
    assert child.field("pid") in threads_of_child
    assert not threads_of_parent & threads_of_child
    agrees_with_itself(parent)


def test_the_audit_of_a_forked_child_leaves_out_what_it_inherited(stage: Stage) -> None:
    outcome = stage.run("fork", "3", "1", "200")
    clean(outcome)
    agrees_with_itself(stage.ring(None, other_than=outcome.pid))


def _all(ring: Ring) -> list[tuple[int, ...]]:
    ring.cursor = 0
    return ring.read(1 << 16)[1]


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_process_that_ends_at_once_leaves_everything_readable(stage_of: Callable[[str], Stage], variant: str) -> None:
    stage = stage_of(variant)
    outcome = stage.run("exit", "2", "2", "200")
    clean(outcome, 5)
    compare(stage.ring(outcome.pid), outcome.devices)


def test_a_killed_process_leaves_everything_readable(stage: Stage) -> None:
    process = stage.start("wait", "2", "1", "200")
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(5)]
    process.kill()
    outcome = stage.end(process)
    assert outcome.code == -9
    devices = {line["device"]: line for line in map(json.loads, lines) if "device" in line}
    compare(stage.ring(outcome.pid), devices)


@pytest.mark.parametrize("variant", VARIANTS)
def test_two_copies_of_the_library_are_kept_apart(stage_of: Callable[[str], Stage], variant: str) -> None:
    stage = stage_of(variant)
    copy = stage.folder / "copy" / "libtt_metal.so"
    copy.parent.mkdir()
    shutil.copy(stage.built.fake(), copy)
    outcome = stage.run("two", "4", "2", "200", program="workload_open", FAKE_METAL_TOO=str(copy))
    clean(outcome)
    ring = stage.ring(outcome.pid)
    devices = outcome.devices
    # Both number their meshes from 0, so meshes with the same id are identified by their contents.
    for number in (4, 5):
        wanted = sorted(
            [*buffer[:6], bool(buffer[6])]
            for which in ("first", "second")
            for buffer in devices[f"{which} mesh {number}"]["buffers"]
        )
        assert seen_buffers(ring, f"mesh {number}") == wanted
        meshes = [i for i, mesh in enumerate(ring.meshes()) if mesh.mesh_id == number and mesh.parent == i]
        assert len(meshes) == 2
        each = [sorted(t.address for t in allocations_of(ring) if t.mesh == i and t.kind in BUFFERS) for i in meshes]
        assert sorted(each) == sorted(
            sorted(b[1] for b in devices[f"{which} mesh {number}"]["buffers"]) for which in ("first", "second")
        )
    assert ring.field("replaced") == 0


# -- when something is missing --------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", ["plain", "address"])
def test_out_of_descriptors_the_memory_becomes_visible_later(stage_of: Callable[[str], Stage], variant: str) -> None:
    stage = stage_of(variant)
    alone = stage.start("descriptors", "6", "1", "300", agent=False)
    assert alone.stdin is not None
    alone.stdin.write("x")
    without = stage.end(alone)
    clean(without)
    process = stage.start("descriptors", "6", "1", "300")
    ring = stage.ring(process.pid)  # sent when the limit is raised
    before = ring.head
    assert before > 100
    assert process.stdin is not None
    process.stdin.write("x")
    outcome = stage.end(process)
    clean(outcome)
    assert outcome.out == without.out
    assert ring.head > before
    compare(ring, outcome.devices)
    agrees_with_itself(ring)


def test_memfd_refused_disturbs_nobody(stage: Stage) -> None:
    alone = stage.run("seccomp", "1", "1", "200", agent=False)
    outcome = stage.run("seccomp", "1", "1", "200")
    clean(alone)
    clean(outcome)
    assert outcome.out == alone.out
    assert all(hello.memory is None for hello in stage.reader.all_hellos())


def test_a_limit_on_file_sizes_disturbs_nobody(stage: Stage) -> None:
    """A process that exceeds RLIMIT_FSIZE gets SIGXFSZ, also for a file in memory."""
    alone = stage.run("small_files", "1", "1", "200", agent=False)
    outcome = stage.run("small_files", "1", "1", "200")
    clean(alone)
    clean(outcome)
    assert outcome.out == alone.out


def test_deepbind_bypasses_the_agent_unharmed(stage: Stage) -> None:
    alone = stage.run("deepbind", "1", "1", "200", agent=False, program="workload_open")
    outcome = stage.run("deepbind", "1", "1", "200", program="workload_open")
    clean(alone)
    clean(outcome)
    assert outcome.out == alone.out
    assert stage.reader.all_hellos() == []


@pytest.mark.parametrize("variant", VARIANTS)
def test_switched_off(stage_of: Callable[[str], Stage], variant: str) -> None:
    stage = stage_of(variant)
    alone = stage.run("threads", "1", "1", "200", agent=False)
    outcome = stage.run("threads", "1", "1", "200", TTMEM_AGENT="0")
    clean(outcome)
    assert outcome.out == alone.out  # the count of threads at the end, too
    clean(stage.run("life", "1", "4", "200", TTMEM_AGENT="0"))
    assert stage.reader.all_hellos() == []


def test_the_agent_has_one_thread(stage: Stage) -> None:
    counts = [
        next(line["threads"] for line in stage.run("threads", "1", "1", "50", agent=agent).lines if "threads" in line)
        for agent in (False, True)
    ]
    assert counts == [1, 2]


@pytest.mark.parametrize(
    "command", [["/bin/true"], ["bash", "-c", "echo hi; grep Threads /proc/self/status"], ["g++", "--version"]]
)
def test_a_process_without_tt_metal_is_left_alone(stage: Stage, command: list[str]) -> None:
    ends = [
        subprocess.run(command, env=stage.environment(agent), capture_output=True, timeout=PATIENCE)
        for agent in (False, True)
    ]
    assert (ends[0].returncode, ends[0].stdout, ends[0].stderr) == (ends[1].returncode, ends[1].stdout, ends[1].stderr)
    assert b"Threads:\t1" in ends[1].stdout or command[0] != "bash"
    assert stage.reader.all_hellos() == []


# -- unknown wheels -------------------------------------------------------------------------------------------------


def unknown_wheel(stage: Stage, name: str) -> tuple[Outcome, Ring | None]:
    fake = stage.built.fake(name)
    alone = stage.run("life", "2", "1", "200", agent=False, program="workload_open", FAKE_METAL=fake)
    outcome = stage.run("life", "2", "1", "200", program="workload_open", FAKE_METAL=fake)
    clean(alone)
    clean(outcome)
    assert outcome.out == alone.out
    return outcome, stage.ring(outcome.pid) if stage.reader.all_hellos() else None


def test_a_wheel_without_statistics_has_no_audit(stage: Stage) -> None:
    outcome, ring = unknown_wheel(stage, "no_statistics")
    assert ring is not None
    compare(ring, outcome.devices)
    assert coverage(ring) == ALL_KINDS
    assert all(mesh.audits == 0 for mesh in ring.meshes())


def test_a_wheel_without_mark_address_has_no_dataflow_buffers(stage: Stage) -> None:
    outcome, ring = unknown_wheel(stage, "no_mark_address")
    assert ring is not None
    assert coverage(ring) == ALL_KINDS - {DFB}
    assert "dataflow buffers" in ring.text("trouble")
    assert "dfb_placed" in ring.text("trouble")
    compare(ring, outcome.devices, ALL_KINDS - {DFB})
    agrees_with_itself(ring)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(("name", "kinds"), [("before_79", ALL_KINDS), ("before_75", BUFFERS)])
def test_an_older_wheel(stage_of: Callable[[str], Stage], variant: str, name: str, kinds: set[int]) -> None:
    """What it lacks is read directly, with the same result; nothing that it returns is leaked."""
    stage = stage_of(variant)
    outcome, ring = unknown_wheel(stage, name)
    assert ring is not None
    assert coverage(ring) == kinds
    assert ("programs are not tracked: this libtt_metal is older than 0.75" in ring.text("trouble")) == (
        kinds == BUFFERS
    )
    compare(ring, outcome.devices, kinds)
    if kinds == ALL_KINDS:
        agrees_with_itself(ring)
    mesh = next(mesh for mesh in ring.meshes() if mesh.mesh_id == 4 and mesh.chip_count == 4)
    assert cores_in(ring, mesh.cores) == {(x, y) for x in range(8) for y in range(8)}
    assert any(mesh.audits for mesh in ring.meshes())
    assert {mesh.mismatches for mesh in ring.meshes()} == {0}


def test_fields_that_are_not_where_they_were_are_not_believed(stage: Stage) -> None:
    _, ring = unknown_wheel(stage, "moved_fields")
    assert ring is not None
    assert coverage(ring) == set()
    assert ring.text("trouble") == "buffers are not tracked: this libtt_metal has no buffer_size"
    assert allocations_of(ring) == []


@pytest.mark.parametrize(
    "name", ["no_buffer_size", "no_allocate_buffer", "no_mesh_allocator", "other_slots", "symbolic"]
)
def test_a_wheel_whose_buffers_cannot_be_seen_runs_as_ever(stage: Stage, name: str) -> None:
    """If there is a memory at all, it reports that buffers are not tracked, and why, and contains none."""
    _, ring = unknown_wheel(stage, name)
    if ring is not None:
        if name != "no_mesh_allocator":
            assert not coverage(ring) & BUFFERS
        assert ring.text("trouble")
        assert not [
            allocation for allocation in allocations_of(ring) if allocation.kind not in coverage(ring) | {PROGRAM_FRAME}
        ]


# -- fields of a Buffer ---------------------------------------------------------------------------------------------

GETTERS = ("Buffer4sizeEv", "Buffer11buffer_typeEv", "Buffer13buffer_layoutEv", "Buffer7addressEv")
PRINT_CODE = """
import ctypes, ttnn
(path,) = {line.split()[-1] for line in open("/proc/self/maps") if line.rstrip().endswith("/libtt_metal.so")}
library = ctypes.CDLL(path)
for name in %r:
    getter = ctypes.cast(getattr(library, "_ZNK2tt8tt_metal6" + name), ctypes.c_void_p)
    print("code", ctypes.string_at(getter.value, %d).hex())
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the code of the functions is read on x86-64 only")
@pytest.mark.parametrize("python", PYTHONS)
def test_the_fields_of_a_buffer_are_found_in_a_real_wheel(python: str, folder: Path) -> None:
    """Otherwise the agent calls the functions: correct, but slower. docs/new-wheel.md describes what to do then."""
    code_bytes = re.search(r"kCodeBytes = (\d+);", (ROOT / "native" / "src" / "buffer_fields.h").read_text())
    assert code_bytes is not None
    command = [str(wheel(python).python), "-c", PRINT_CODE % (GETTERS, int(code_bytes[1]))]
    environment = wheel(python).environment("n150", folder, 99)
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    lines = "\n".join(line.split()[1] for line in ran.stdout.splitlines() if line.startswith("code "))
    decoder = [build().program("test_buffer_fields"), str(len(GETTERS))]
    found = subprocess.run(decoder, input=lines, capture_output=True, text=True, check=True).stdout.splitlines()
    assert "-" not in found, found
    size, kind, layout, address = ([int(word) for word in line.split()] for line in found)
    assert {pointer for pointer, *_ in (size, kind, layout, address)} == {size[0]}
    assert (size[2], kind[2], layout[2]) == (8, 4, 4)
    assert address[2] in (4, 8)


OPEN_AND_ALLOCATE = """
import ctypes, ttnn
device = ttnn.open_device(device_id=0)
tensor = ttnn.zeros([64, 64], dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)
print("reads fields", ctypes.CDLL(None).ttmem_agent_reads_fields())
ttnn.close_device(device)
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the code of the functions is read on x86-64 only")
@pytest.mark.parametrize("python", PYTHONS)
def test_the_agent_loads_the_fields_itself_in_a_real_wheel(python: str, stage: Stage) -> None:
    """They are found, and blank objects confirm them."""
    seed = 100 + PYTHONS.index(python)
    environment = wheel(python).environment("n150", stage.folder, seed)
    environment |= {"LD_PRELOAD": str(stage.built.agent), "TTMEM_RUN_SOCKET": stage.reader.path}
    command = [str(wheel(python).python), "-c", OPEN_AND_ALLOCATE]
    try:
        ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    finally:
        remove_statistics("n150", seed)
    assert [line for line in ran.stdout.splitlines() if line.startswith("reads fields")] == ["reads fields 1"]


class Account(NamedTuple):
    """All records of a workload, and its live allocations at the end: without times and threads."""

    records: list[Record]
    live: list[Record]


def account_of(stage: Stage, name: str) -> tuple[int, Account]:
    """Whether the agent loads the fields itself, and its account of the same workload each time."""
    outcome = stage.run("fields", "2", "1", "400", program="workload_open", FAKE_METAL=stage.built.fake(name))
    clean(outcome)
    ring = stage.ring(outcome.pid)
    assert coverage(ring) == ALL_KINDS
    compare(ring, outcome.devices)
    agrees_with_itself(ring)
    (reads_fields,) = [line["reads fields"] for line in outcome.lines if "reads fields" in line]
    every, live = (
        [record._replace(time=0, thread=0) for record in records]
        for records in (map(Record._make, _all(ring)), allocations_of(ring))
    )
    return reads_fields, Account(every, live)


@pytest.mark.parametrize(
    ("name", "trusted"), [("metal", 1), ("inner_fields", 1), ("computed_size", 0), ("odd_guard", 0)]
)
def test_the_account_is_the_same_whether_fields_can_be_loaded_or_not(name: str, trusted: int, stage: Stage) -> None:
    """If one of the functions does more than load a field, the agent calls all of them."""
    reads_fields, account = account_of(stage, name)
    assert reads_fields == (trusted if platform.machine() == "x86_64" else 0)
    assert len(account.records) > 1000
    assert len(account.live) > 100
    _, ordinary = account_of(stage, "metal")
    assert account == ordinary

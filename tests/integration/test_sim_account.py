# SPDX-License-Identifier: Apache-2.0
"""The account of simulated workloads over the socket, compared with the simulator's own allocators."""

from __future__ import annotations

import re
import signal
import subprocess
from collections import Counter
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest

from tests.sims import (
    Simulation,
    Sizes,
    Step,
    allocations,
    assert_account,
    assert_cores,
    kinds_of,
    program,
    reserved_of,
    used_of,
    workload,
)
from tests.support import Server, wait_until
from ttmem.sim.workloads import HELD, WORKLOADS

Serve = Callable[..., Server]

# The KV cache of decode grows at the 32nd token. The second image of a net compiles and takes the same as the first.
ROUNDS = {"decode": 33, "conv": 3}
# The cache of 32 chips grows like that of 8, and each of their steps takes a tenth of a second.
ROUNDS_OF_MANY = {**ROUNDS, "decode": 2}
# Steps of decode that repeat earlier ones.
REPEATED = re.compile(r"loaded layers\.(?!0\.)|decoded token (?!(1|31|32|33)$)")
EXACT_PEAKS = ("matmul", "fragmentation")  # nothing is allocated and freed within one of their steps


def wait_for_end(server: Server, running: Simulation) -> dict[str, Any]:
    """The snapshot after the server noticed that they have exited."""
    pids = {process.pid for process in running.processes}

    def gone() -> dict[str, Any] | None:
        snapshot = server.snapshot()
        return snapshot if {p["pid"] for p in snapshot["processes"] if p["state"] == "exited"} == pids else None

    snapshot: dict[str, Any] = wait_until(gone, "the end of the processes")
    return snapshot


def peaks_of(server: Server) -> dict[str, Sizes]:
    """The highest bytes of each kind on each chip."""
    peaks: dict[str, Sizes] = {}
    for peak in server.get("/peaks")["peaks"]:
        if "kind" in peak:
            for chip in peak["chips"]:
                peaks.setdefault(chip, {})[peak["kind"]] = peak["per_chip"]
    return peaks


@pytest.mark.parametrize("machine", ["n150", "t3k", "p150", "galaxy"])
@pytest.mark.parametrize("name", WORKLOADS)
def test_every_step(name: str, machine: str, server: Server, folder: Path) -> None:
    """Bytes used and reserved on every chip, of every process and on every core; peaks; and nothing at the end."""
    highest: dict[str, Counter[str]] = {}
    rounds = ROUNDS_OF_MANY if machine == "galaxy" else ROUNDS
    with workload(server, name, machine, folder, rounds=rounds.get(name)) as running:
        large = running.machine.chips > 4
        for number, step in enumerate(running.steps()):
            repeated = REPEATED.match(step.did)
            if not (large and repeated):
                assert_account(server, step)
            if not repeated and (not large or step.held or number % 3 == 0):
                assert_cores(server, running.machine, step)
            for chip_id, truth in step.chips.items():
                highest[chip_id] = highest.get(chip_id, Counter[str]()) | Counter[str](truth["used"])
        assert running.codes == [-signal.SIGKILL if name == "crash" else 0] * len(running.processes)
    assert highest
    snapshot = wait_for_end(server, running)
    left = {chip["chip"]: (used_of(chip["memory"]), reserved_of(chip["memory"])) for chip in snapshot["chips"]}
    assert left == {chip_id: ({}, {}) for chip_id in highest}
    assert allocations(server) == []
    assert not any(snapshot["anomalies"].values()), snapshot["anomalies"]

    peaks = peaks_of(server)
    if name in EXACT_PEAKS:
        assert peaks == highest
    for chip_id, truth in highest.items():
        assert all(peaks[chip_id][kind] >= size for kind, size in truth.items()), (peaks[chip_id], truth)


def test_a_leak_is_what_is_left(server: Server, folder: Path) -> None:
    """When everything else is freed, the leaks of each round and the runtime's own memory are left."""
    with workload(server, "leak", "n150", folder) as running:
        opened = running.step_to("opened the device")
        first = running.step_to("round 1 done")
        held = running.step_to(HELD)
        assert_account(server, held)
        for chip_id, truth in held.chips.items():
            before, once = opened.chips[chip_id], first.chips[chip_id]
            for measure in ("used", "reserved"):
                leak = once[measure]["dram"] - before[measure]["dram"]
                assert leak > 0
                left = {**before[measure], "dram": before[measure]["dram"] + WORKLOADS["leak"].rounds * leak}
                assert truth[measure] == left
            leaked = allocations(server, chip=chip_id, text="logits")
            assert len(leaked) == WORKLOADS["leak"].rounds
            assert {allocation["size"] for allocation in leaked} == {once["used"]["dram"] - before["used"]["dram"]}


def test_a_killed_process_leaves_its_picture(server: Server, folder: Path) -> None:
    with workload(server, "crash", "n150", folder) as running:
        last = running.step_to(f"round {WORKLOADS['crash'].rounds} done")
        assert_account(server, last)
        largest = server.get("/allocations?limit=20")["allocations"]
        running.go_on()
        assert running.codes == [-signal.SIGKILL]
    snapshot = wait_for_end(server, running)
    assert {chip["chip"]: used_of(chip["memory"]) for chip in snapshot["chips"]} == {
        chip_id: {} for chip_id in last.chips
    }
    pid = running.processes[0].pid
    assert kinds_of(snapshot) == {pid: {chip_id: truth["used"] for chip_id, truth in last.chips.items()}}
    kept = server.get(f"/processes/{pid}")["processes"][0]["largest"]
    names = ("chips", "kind", "address", "size", "tag")
    assert [[allocation[n] for n in names] for allocation in kept] == [
        [allocation[n] for n in names] for allocation in largest
    ]


def test_a_server_killed_in_the_middle(server: Server, folder: Path) -> None:
    """Programs are compiled, the KV cache grows and the trace is released while no server runs."""
    away = ["prefilled", "decoded token 31", HELD]
    with workload(server, "decode", "n150", folder, rounds=ROUNDS["decode"]) as running:
        for did in away:
            before = running.step_to(did)
            assert_account(server, before)
            assert server.stop(signal.SIGKILL) == -signal.SIGKILL
            running.go_on()
            server.start()
            after = running.step()
            assert after is not None
            assert after.chips != before.chips
            snapshot = assert_account(server, after)
            assert_cores(server, running.machine, after)
            odd = {name for name, count in snapshot["anomalies"].items() if count}
            assert {"resynced"} <= odd <= {"resynced", "dropped"}
        for step in running.steps():
            assert_account(server, step)
        assert running.codes == [0] * len(running.processes)


def test_a_circular_buffer_in_a_tensor_counts_once(server: Server, folder: Path) -> None:
    """The output of the last program of a net is in an L1 buffer; only the program's own buffers count as such."""
    with workload(server, "conv", "n150", folder, rounds=1) as running:
        step = running.step_to("classified image 1")
        (truth,) = step.chips.values()
        inside = [allocation["size"] for allocation in allocations(server, kind="cb") if allocation["shared"]]
        alone = [allocation["size"] for allocation in allocations(server, kind="cb") if not allocation["shared"]]
        assert min(inside) > 0
        assert sum(alone) == truth["used"]["cb"]


# -- prediction of ttnn's errors ------------------------------------------------------------------------------------


def l1_bank(memory: dict[str, Any]) -> tuple[int, int]:
    """The start and the end of the L1 allocator's part of a core, from a snapshot."""
    l1 = memory["l1"]
    base = l1["firmware"] // l1["banks"] + l1["ring"]["size"]
    return base, l1["capacity"] // l1["banks"] - l1["small"]["region"] // l1["banks"]


def test_fragmentation_is_seen_before_it_hurts(server: Server, folder: Path) -> None:
    """Free bytes and the largest block, computed from the account, equal those in the error message."""
    with workload(server, "fragmentation", "n150", folder) as running:
        running.step_to("freed piece 15")
        chip = server.snapshot()["chips"][0]
        base, end = l1_bank(chip["memory"])
        banks = chip["memory"]["l1"]["banks"]
        allocated = chip["memory"]["l1"]["reserved"] // banks
        taken = sorted(
            (t["address"], t["reserved"] // banks) for t in allocations(server, chip=chip["chip"], kind="l1")
        )
        starts = [base, *(address + size for address, size in taken)]
        ends = [*(address for address, _ in taken), end]
        holes = [after - before for before, after in zip(starts, ends)]
        floor = server.get(f"/headroom?chip={chip['chip']}")["chips"][0]["floor"]
        assert floor == taken[0][0]
        assert sum(holes) == end - base - allocated

        refusal = running.step()
        assert refusal is not None
        assert refusal.did.endswith(
            f"but bank size is {end - base} B (allocated: {allocated} B, free: {sum(holes)} B, "
            f"largest free block: {max(holes)} B)."
        )


def test_a_clash_is_foreseen(server: Server, folder: Path) -> None:
    """Each program ends higher by the same amount as the one before; headroom predicts the first that will not fit."""
    with workload(server, "clash", "p150", folder) as running:
        running.step_to("opened the device")
        placed = running.step()
        assert placed is not None
        lowest = int(placed.did.removeprefix("an L1 buffer down to "), 0)
        reaches: list[dict[str, Any]] = []
        for step in running.steps():
            if not step.did.startswith("launched"):
                break
            free = server.get("/headroom")["chips"]
            assert {chip["chip"] for chip in free} == set(step.chips)
            assert all((chip["floor"], len(chip["launched"])) == (lowest, 1) for chip in free)
            assert len({chip["launched"][0]["end"] for chip in free}) == 1
            reaches.append(free[0]["launched"][0])
            assert reaches[-1]["headroom"] == lowest - reaches[-1]["end"] >= 0
        more = reaches[-1]["end"] - reaches[-2]["end"]
        assert reaches[-1]["headroom"] < more  # known before the launch of the program that is refused
        found = re.search(r"L1 buffer allocated at (\d+) and static circular buffer region ends at (\d+)$", step.did)
        assert found is not None, step.did
        assert [int(number) for number in found.groups()] == [lowest, reaches[-1]["end"] + more]


# -- meshes ---------------------------------------------------------------------------------------------------------


LEFT = {f"sim-t3k-{number}" for number in (0, 1, 4, 5)}  # the left half of a T3K


def test_sub_meshes_have_addresses_of_their_own(server: Server, folder: Path) -> None:
    """Two live buffers at the same address of a chip both count; closing a submesh frees only its own."""
    at: dict[str, list[int]] = {}
    seen: dict[str, Step] = {}
    with program(server, "sim_submesh", "t3k", folder) as running:
        for step in running.steps():
            seen[step.did] = step
            assert_account(server, step)
            assert_cores(server, running.machine, step)
            if step.did == "programs":
                at = {
                    tag: sorted(
                        allocation["address"]
                        for allocation in allocations(server, chip="sim-t3k-0", kind="dram", text=tag)
                    )
                    for tag in ("runtime", "whole", "left", "right")
                }
            if step.did == "left closed":
                tags = Counter((chip, t["tag"]) for t in allocations(server, kind="dram") for chip in t["chips"])
                assert {chip for chip, tag in tags if tag == "right"} == set(step.chips) - LEFT
                assert {chip for chip, tag in tags if tag == "whole"} == set(step.chips)
                assert not [chip for chip, tag in tags if tag == "left"]
        assert running.codes == [0]
    assert at["left"][0] == at["runtime"][0]  # the submesh's allocator is independent of the mesh's
    assert len(at["left"]) == 2
    assert at["right"] == []  # on other chips
    for chip_id, truth in seen["programs"].chips.items():
        assert truth["reserved"]["l1"] == 2 * seen["mesh"].chips[chip_id]["reserved"]["l1"]
        assert ({"dfb", "scratchpad"} <= set(truth["used"])) == (chip_id in LEFT)
        assert set(seen["left closed"].chips[chip_id]["used"]) & {"dfb", "scratchpad"} == set()
    assert seen["right closed"].chips["sim-t3k-0"]["reserved"] == seen["mesh"].chips["sim-t3k-0"]["reserved"]
    assert not any(server.snapshot()["anomalies"].values())


# -- the log of the proof of concept --------------------------------------------------------------------------------


def test_the_log_of_four_devices(serve: Serve, folder: Path) -> None:
    """Lines and counts as in the check of the proof of concept; the launch of a cached program adds none."""
    server = serve("--log-style", "untyped")
    with workload(server, "decode", "n150", folder, rounds=2) as running:
        running.step_to(HELD)
        kinds = Counter((*allocation["devices"], allocation["kind"]) for allocation in allocations(server))
    assert server.stop() == 0
    log = server.log.read_text()
    assert "not shown" not in log
    for head in ("CB_ALLOC", "KERNEL_LOAD"):
        sizes: dict[str, list[float]] = {}
        totals: dict[str, list[float]] = {}
        for line in (line for line in log.splitlines() if head in line):
            found = re.fullmatch(rf"✓ \[{head}\] Device ([0-3]): \+(\S+) MB \(Total: (\S+) MB\)", line)
            assert found is not None, line
            sizes.setdefault(found[1], []).append(float(found[2]))
            totals.setdefault(found[1], []).append(float(found[3]))
        assert sorted(sizes) == ["0", "1", "2", "3"]
        assert totals == {device: pytest.approx(list(accumulate(one)), rel=1e-4) for device, one in sizes.items()}
    kernels = ("kernel", "fabric_kernel", "dispatch_kernel")
    for head, labels in (("CB_ALLOC", ("cb",)), ("KERNEL_LOAD", kernels)):
        held = {f"Device {device}:": sum(kinds[device, label] for label in labels) for device in range(4)}
        assert len(set(held.values())) == 1
        assert counted(server.log, head) == held


def counted(log: Path, head: str) -> dict[str, int]:
    """What the check counts: lines of each device."""
    check = f"grep -E '{head}.*Device [0-3]' {log} | cut -d' ' -f3,4 | sort | uniq -c"
    out = subprocess.run(check, shell=True, env={"LC_ALL": "C.UTF-8"}, capture_output=True, text=True, check=True)
    rows = [line.split(maxsplit=1) for line in out.stdout.splitlines()]
    return {device: int(count) for count, device in rows}

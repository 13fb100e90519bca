# SPDX-License-Identifier: Apache-2.0
"""The agent under difficult conditions: deaths, forks, floods, stopped readers, no descriptors, no memory files."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.runs import Bench, Watched, addresses, agrees, figures, memory_of, reserved, taken, wait_for_account
from tests.support import Server, process_state, wait_until

RING = 65536
FLOOD = ("ttnn_bad_days", "--day", "flood", "--cycles", str(RING // 2 + 5000))


@pytest.fixture
def bench(folder: Path) -> Iterator[Bench]:
    with Bench(folder) as made:
        yield made


def held(server: Server, pid: int) -> dict[str, int] | None:
    """What a process holds according to the server, by kind."""
    process = server.process_of(pid)
    if process is None or not process["chips"]:
        return None
    kinds: dict[str, int] = process["chips"][0]["kinds"]
    return {kind: size for kind, size in kinds.items() if size}


def wait_for_share(server: Server, pid: int, dram: int, l1: int) -> None:
    """Wait until the process holds this many bytes in buffers, according to the server."""
    wait_until(lambda: buffers(held(server, pid)) == {"dram": dram, "l1": l1}, "the account of the process")


def wait_for_word(server: Server, text: str) -> None:
    wait_until(lambda: text in server.err.read_text(), "the server's word on it")


def buffers(kinds: dict[str, int] | None) -> dict[str, int]:
    return {kind: size for kind, size in (kinds or {}).items() if kind in ("dram", "l1", "l1_small")}


# -- deaths ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("ending", "code"), [("kill", 137), ("abort", 134), ("segfault", 139), ("os_exit", 0)])
def test_a_sudden_end(bench: Bench, server: Server, ending: str, code: int) -> None:
    """Server and run both have what was held. Afterwards the server has freed it, and still lists it."""
    chip_id = bench.chip_ids[0]
    with bench.in_step("ttnn_endings", "--ending", ending, TTMEM_SOCKET=server.path) as running:
        for record in running.records():
            wait_for_account(server, record, chip_id)
            before = server.snapshot()
        ran = running.ran
    assert ran.code == code
    assert addresses(ran.data["left"]) == record["buffers"]
    assert figures(memory_of(ran.data["final"], chip_id)) == figures(memory_of(before, chip_id))
    (pid,) = (process["pid"] for process in before["processes"])
    wait_until(lambda: server.process_of(pid)["state"] == "exited", "the burial")  # type: ignore[index]
    after = server.snapshot()
    assert reserved(memory_of(after, chip_id)) == (0, 0)
    assert memory_of(after, chip_id)["l1"]["used"] == 0
    (dead,) = after["processes"]
    assert dead["allocations"] == len(ran.data["left"])
    assert dead["chips"][0]["kinds"] == before["processes"][0]["chips"][0]["kinds"]


# -- forks ----------------------------------------------------------------------------------------------------------


def test_a_fork(bench: Bench, server: Server) -> None:
    """Allocations of the child belong to the child. What it inherited, and frees of that, are not counted."""
    parents: list[dict[str, int] | None] = []
    chip_id, pids = bench.chip_ids[0], {}
    with bench.in_step("ttnn_bad_days", "--day", "fork", TTMEM_SOCKET=server.path) as running:
        for record in running.records():
            pids[record["what"]] = record["pid"]
            if record["what"] == "child":
                wait_for_share(server, record["pid"], 512 * 64 * 2, 512 * 64 * 2)
            else:
                wait_for_account(server, record, chip_id)
            parents.append(held(server, pids["before"]))
        ran = running.ran
    assert parents[0] == parents[1] == parents[2]
    assert parents[0] != parents[3]
    assert pids["child"] != pids["before"] == pids["after"]
    child = server.process_of(pids["child"])
    assert child is not None
    assert child["state"] == "exited"
    assert ran.code == 0
    left = [allocation for allocation in ran.data["left"] if allocation["pid"] == pids["before"]]
    assert addresses(left) == record["buffers"]
    of_child = [allocation for allocation in ran.data["left"] if allocation["pid"] == pids["child"]]
    assert sorted((allocation["kind"], allocation["size"]) for allocation in of_child) == [
        ("dram", 65536),
        ("l1", 65536),
    ]
    assert set(ran.data["anomalies"].values()) == {0}


def test_a_forked_childs_account_is_complete(bench: Bench) -> None:
    """The inherited allocator has more than the child allocated; the audit leaves out exactly the difference."""
    ran = bench.run("ttnn_bad_days", "--day", "fork", options=("--max-dram", "1G"))
    assert ran.data["completeness"] == 1.0
    assert ran.code == 0, ran.err


def test_a_forked_child_that_leaves_the_device_alone_is_not_unseen(bench: Bench) -> None:
    """It has all mappings of its parent. Data loaders and compilers are started in this way."""
    with Watched(bench, bench.command("ttnn_bad_days", "--day", "idle_fork", "--ack-fd", "0")) as running:
        for record in running.records():
            running.wait_for_look(record["pid"])
        ran = running.ran
    assert ran.data["unseen"] == []
    assert "the agent saw nothing of it" not in ran.err


# -- what the agent cannot see --------------------------------------------------------------------------------------


def test_libraries_bound_past_the_agent_are_told(bench: Bench) -> None:
    with Watched(bench, bench.command("ttnn_deepbind", "--ack-fd", "0")) as running:
        for record in running.records():
            running.wait_for_look(record["pid"], "user")
        ran = running.ran
    assert [process["pid"] for process in ran.data["unseen"]] == [record["pid"]]
    assert "Nothing was seen of the devices that were used." in ran.err
    assert f"pid {record['pid']} (python) used a device through tt-metal and the agent saw nothing of it" in ran.err
    assert "verdict: the run was not tracked completely" in ran.err
    assert ran.code == 5


def test_nothing_is_claimed_about_a_short_run_that_could_not_be_seen(bench: Bench) -> None:
    ran = bench.run("ttnn_deepbind", options=("--fail-on-leak",))
    assert "No process of this command opened a device." not in ran.err
    assert ran.code == 5


@pytest.mark.parametrize("tracking", [{"TT_METAL_SHM_TRACKING_DISABLED": "1"}, {"TT_METAL_SHM_TRACKING_DISABLED": "0"}])
def test_with_and_without_ttnns_own_statistics(bench: Bench, tracking: dict[str, str]) -> None:
    ran, plain = bench.run("ttnn_endings", **tracking), bench.plain("ttnn_endings", **tracking)
    peak, kept = ran.records
    assert ran.out == plain.out
    assert reserved(memory_of(ran.data["peak"], bench.chip_ids[0])) == taken(peak)
    assert addresses(ran.data["left"]) == kept["buffers"]
    assert ran.data["completeness"] == 1.0


# -- readers that are stopped ---------------------------------------------------------------------------------------


def test_a_server_that_stands_still_while_the_ring_runs_over(bench: Bench, server: Server) -> None:
    chip_id = bench.chip_ids[0]
    with bench.in_step(*FLOOD, TTMEM_SOCKET=server.path) as running:
        records = running.records()
        before = next(records)
        wait_for_account(server, before, chip_id)
        with server.stopped():
            flooded = next(records)
        wait_for_account(server, flooded, chip_id)
        assert server.process_of(flooded["pid"])["anomalies"]["dropped"] > 10000  # type: ignore[index]
        after = next(records)
        wait_for_account(server, after, chip_id)
        last = memory_of(server.snapshot(), chip_id)
        ran = running.ran
    assert ran.code == 0
    assert ran.data["dropped"] == 0
    assert figures(memory_of(ran.data["final"], chip_id)) == figures(last)


def test_a_run_that_stands_still_while_the_ring_runs_over(bench: Bench) -> None:
    """The final values are exact again. The loss is reported, and no verdict is trusted."""
    with Watched(bench, bench.command(*FLOOD, "--ack-fd", "0")) as running:
        records = running.records()
        next(records)
        running.process.send_signal(signal.SIGSTOP)
        wait_until(lambda: process_state(running.process.pid) == "T", "the stop")
        next(records)
        running.process.send_signal(signal.SIGCONT)
        running.wait_for_loss()
        after = next(records)
        ran = running.ran
    assert ran.data["dropped"] > 10000
    assert addresses(ran.data["left"]) == after["buffers"]
    assert reserved(memory_of(ran.data["final"], bench.chip_ids[0])) == taken(after)
    assert (
        len({allocation["program"] for allocation in ran.data["left"] if allocation["program"]})
        == after["program_cache"]
    )
    assert "were overwritten before they could be read: peaks may be too low." in ran.err
    assert "verdict: the run was not tracked completely" in ran.err
    assert ran.code == 5


def test_a_run_that_sees_the_end_only_after_a_loss(bench: Bench) -> None:
    """What was left when the device closed is unknown, and not reported as nothing."""
    with Watched(bench, bench.command(*FLOOD, "--ack-fd", "0")) as running:
        records = running.records()
        next(records)
        running.process.send_signal(signal.SIGSTOP)
        wait_until(lambda: process_state(running.process.pid) == "T", "the stop")
        next(records)
        next(records)
        (workload,) = children_of(running.process.pid)
        running.let_go()
        wait_until(lambda: process_state(int(workload)) == "Z", "the workload's end")
        running.process.send_signal(signal.SIGCONT)
        ran = running.ran
    assert ran.data["dropped"] > 10000
    assert ran.code == 5
    assert "left at the end: nothing" not in ran.err


def test_a_run_that_first_looks_when_the_ring_has_run_over(bench: Bench) -> None:
    """As on a busy machine: what was overwritten before the first read is also lost, and reported as lost."""
    with Watched(bench, bench.command(*FLOOD, "--ack-fd", "0")) as running:
        wait_until(lambda: children_of(running.process.pid), "the command's start")
        running.process.send_signal(signal.SIGSTOP)
        records = running.records()
        next(records)
        next(records)
        running.process.send_signal(signal.SIGCONT)
        running.wait_for_agents(1)
        after = next(records)
        ran = running.ran
    assert addresses(ran.data["left"]) == after["buffers"]
    assert ran.data["dropped"] > 10000
    assert ran.code == 5


def children_of(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


@pytest.mark.alone
def test_a_server_that_stands_still_holds_nobody_up(bench: Bench, server: Server) -> None:
    """The workload ends while the server is stopped, and takes at most a few times as long."""
    took: dict[bool, float] = {}
    for stopped in (False, True):
        with bench.in_step("ttnn_bad_days", "--day", "flood", "--cycles", "10000", TTMEM_SOCKET=server.path) as running:
            records = running.records()
            before = next(records)
            wait_for_account(server, before, bench.chip_ids[0])
            if stopped:
                with server.stopped():
                    took[stopped] = next(records)["took"]
                    assert running.ran.code == 0
                    assert process_state(server.process.pid) == "T"
            else:
                took[stopped] = next(records)["took"]
                assert running.ran.code == 0
        wait_until(lambda: reserved(server.chip(bench.chip_ids[0])) == (0, 0), "the end")
    assert took[True] < 5 * took[False] + 20  # thousands of times as long, if even a part of the events waited for it


# -- no shared memory -----------------------------------------------------------------------------------------------


def test_no_descriptors_left(bench: Bench, server: Server) -> None:
    """The agent continues in private memory. When descriptors are available again, it shares all its data."""
    chip_id = bench.chip_ids[0]
    with bench.in_step("ttnn_bad_days", "--day", "descriptors", TTMEM_SOCKET=server.path) as running:
        for record in running.records():
            if record["what"] == "before":
                wait_for_account(server, record, chip_id)
            elif record["what"] == "exhausted":
                assert held(server, record["pid"]) is None
            else:
                own = {"free again": (36864, 38912), "more": (12288, 43008)}[record["what"]]
                wait_for_share(server, record["pid"], *own)
                assert agrees(server, record, chip_id)  # parent and child together, as the child's allocator reports
        assert running.ran.code == 0
    assert set(server.snapshot()["anomalies"].values()) == {0}


def test_memory_files_are_forbidden(bench: Bench, server: Server) -> None:
    with bench.in_step("ttnn_bad_days", "--day", "no_memfd", TTMEM_SOCKET=server.path) as running:
        for record in running.records():
            text = f"(pid {record['pid']}): its agent cannot share memory"
            wait_for_word(server, text)
            assert server.snapshot()["chips"] == []
        ran = running.ran
    assert ran.code == 0
    assert text in ran.err
    assert ran.data["events"] == 0


def test_nothing_is_claimed_about_what_could_not_be_shared(bench: Bench) -> None:
    ran = bench.run("ttnn_bad_days", "--day", "no_memfd", options=("--fail-on-leak",))
    assert "No process of this command opened a device." not in ran.err
    assert ran.code == 5


# -- two processes, and the workload's own view ---------------------------------------------------------------------


def test_two_processes_call_their_chips_device_0(folder: Path, server: Server) -> None:
    with Bench(folder, "n150x2") as bench:
        done = bench.preloaded("ttnn_workers", TTMEM_SOCKET=server.path)
    assert done.code == 0
    wait_until(lambda: [p["state"] for p in server.snapshot()["processes"]] == ["exited"] * 2, "the end")
    snapshot = server.snapshot()
    processes = {process["pid"]: process for process in snapshot["processes"]}
    for number, record in enumerate(done.records):
        (chip,) = processes[record["pid"]]["chips"]
        assert (chip["chip"], chip["metal_id"]) == (bench.chip_ids[number], 0)
        rows = 1024 if number else 64
        assert (chip["peak_dram"], chip["peak_l1"]) == (rows * 64 * 2, rows * 64 * 2)
        assert memory_of(snapshot, chip["chip"])["dram"]["peak"] == rows * 64 * 2


def test_a_chip_that_is_known_is_shown_once(folder: Path, server: Server) -> None:
    """The chip to which a process restricted itself, by number, is the chip that it opens."""
    with Bench(folder, "n150x2") as bench:
        assert bench.preloaded("ttnn_endings", TT_VISIBLE_DEVICES="1", TTMEM_SOCKET=server.path).code == 0
    wait_until(lambda: server.snapshot()["processes"], "the process")
    assert [chip["chip"] for chip in server.snapshot()["chips"]] == [bench.chip_ids[1]]


@pytest.mark.parametrize("ending", ["close", "leave", "exception", "os_exit", "kill", "abort", "segfault", "thread"])
def test_an_ending_looks_the_same_with_the_agent(bench: Bench, server: Server, ending: str) -> None:
    plain = bench.plain("ttnn_endings", "--ending", ending)
    agent = bench.preloaded("ttnn_endings", "--ending", ending, TTMEM_SOCKET=server.path)
    assert agent.out == plain.out
    assert ending == "thread" or agent.code == plain.code  # ttnn may abort if a thread allocates at the end
    wait_until(lambda: server.snapshot()["processes"], "the process")


@pytest.mark.parametrize("day", ["fork", "flood", "descriptors", "no_memfd"])
def test_a_bad_day_looks_the_same_with_the_agent(bench: Bench, day: str) -> None:
    plain, agent = bench.plain("ttnn_bad_days", "--day", day), bench.preloaded("ttnn_bad_days", "--day", day)
    assert (agent.code, agent.out) == (plain.code, plain.out)
    assert plain.code == 0
    assert same_but_pid(agent.err) == same_but_pid(plain.err)


def same_but_pid(text: str) -> str:
    """Without warnings that vary: ttnn and Python warn about a fork with the pid, ttnn also about busy threads."""
    odd = ("(pid=", "fork() called while", "child = os.fork()")
    return "".join(line for line in text.splitlines(keepends=True) if not any(mark in line for mark in odd))

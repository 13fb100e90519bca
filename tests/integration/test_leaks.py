# SPDX-License-Identifier: Apache-2.0
"""`ttmem leaks` against a real server and real processes that hold allocations, free them, or are killed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support import PATIENCE, LegacyClient, Server, wait_until
from ttmem.wire.api_client import ApiError

MIB = 1 << 20
WORKER = """
import json, sys
from ttmem import AllocationClient
client = AllocationClient(enabled=True, socket_path=sys.argv[1])
for line in sys.stdin:
    for name, arguments in json.loads(line):
        getattr(client, name)(**arguments)
    print(client.flush(60), flush=True)
"""


class Worker:
    """A process that reports what it is told to."""

    def __init__(self, server: Server) -> None:
        command = [sys.executable, "-c", WORKER, server.path]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        self.pid = self.process.pid

    def tell(self, *calls: tuple[str, dict[str, Any]]) -> None:
        """Make these calls, and wait until the server has applied them."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        named = [(f"report_{name}", {"device_id": 0, **arguments}) for name, arguments in calls]
        self.process.stdin.write(json.dumps(named) + "\n")
        assert self.process.stdout.readline() == "True\n"

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate(timeout=PATIENCE)


def held(address: int, size: int, kind: str = "dram", **more: Any) -> tuple[str, dict[str, Any]]:
    return "allocation", {"buffer_id": address, "size": size, "buffer_type": kind, **more}


@pytest.fixture
def work(server: Server) -> Iterator[Callable[[], Worker]]:
    workers: list[Worker] = []

    def start() -> Worker:
        workers.append(Worker(server))
        return workers[-1]

    yield start
    for worker in workers:
        if worker.process.returncode is None:
            worker.kill()


Work = Callable[[], Worker]


def leaks(server: Server | str, *arguments: str) -> tuple[int, list[str]]:
    """Exit code and lines of the command."""
    api = server if isinstance(server, str) else server.api
    command = [sys.executable, "-m", "ttmem", "leaks", "--socket", api, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert "Traceback" not in done.stderr
    assert bool(done.stderr) == (done.returncode in (1, 2)), done.stderr
    return done.returncode, (done.stderr or done.stdout).splitlines()


def data(server: Server, *arguments: str, code: int = 0) -> Any:
    found, lines = leaks(server, "--json", *arguments)
    assert (found, len(lines)) == (code, 1)
    answer = json.loads(lines[0])
    assert answer["schema"] == "ttmem.leaks/1"
    return answer


def pools(found: Any) -> dict[str, tuple[int, int]]:
    """Allocations and bytes of each pool; the number of allocations must agree."""
    amounts = {pool: (amount["count"], amount["bytes"]) for pool, amount in found["pools"].items()}
    assert found["count"] == sum(count for count, _ in amounts.values())
    return amounts


def test_a_leak(server: Server, work: Work) -> None:
    worker = work()
    worker.tell(*(held(0x1000 * n, MIB, tag="ttnn.add") for n in range(1, 4)), held(0x9000, 512, "l1"))
    code, lines = leaks(server, "--older", "0")
    assert code == 3
    assert lines[-1] == (
        "verdict: leak: 2 groups, 3.0 MiB of DRAM in 3 buffers, 512 B of L1 (sum over all cores) in 1 buffer"
    )
    (line,) = [line for line in lines if "ttnn.add" in line]
    assert f" {worker.pid} " in line
    assert "grows" not in line  # all at once
    groups = data(server, "--older", "0", code=3)["leaks"]
    assert [(g["pid"], g["chip"], g["kind"], g["tag"], g["count"], g["bytes"]) for g in groups] == [
        (worker.pid, "assumed:0", "dram", "ttnn.add", 3, 3 * MIB),
        (worker.pid, "assumed:0", "l1", None, 1, 512),
    ]
    worker.tell(*(("deallocation", {"buffer_id": 0x1000 * n, "buffer_type": "dram"}) for n in range(1, 4)))
    verdict = leaks(server, "--older", "0")[1][-1]
    assert verdict == "verdict: leak: 1 group, 512 B of L1 (sum over all cores) in 1 buffer"
    worker.tell(("deallocation", {"buffer_id": 0x9000, "buffer_type": "l1"}))
    code, lines = leaks(server, "--older", "0")
    assert (code, lines[-1]) == (0, "verdict: no leak")


def test_young_allocations_are_counted_and_not_blamed(server: Server, work: Work) -> None:
    work().tell(held(0x1000, MIB))
    code, lines = leaks(server, "--older", "2h")
    assert (code, lines[-1]) == (0, "verdict: no leak")
    assert "young, held for less than 2.0 h: 1.0 MiB of DRAM in 1 allocation" in lines
    assert any(line.startswith("doubt: tracking began ") for line in lines)
    assert data(server)["older_s"] == 60
    assert data(server, "--older", "90s")["older_s"] == 90
    assert data(server, "--older", "5m")["older_s"] == 300


def test_the_program_cache_traces_and_the_baseline_are_no_leaks(server: Server, work: Work) -> None:
    work().tell(
        held(0x1000, 14 * MIB, system=True),
        ("kernel_load", {"size": 57344, "kernel_id": 1, "kernel_type": 1}),
        ("kernel_load", {"size": 47104, "kernel_id": 2, "kernel_type": 2}),
        ("cb_allocation", {"size": 2048, "cb_id": 0x19000, "program": 3}),
        ("cb_allocation", {"size": 999, "cb_id": 0x29000, "program": 3, "shared": True}),
        ("scratchpad_allocation", {"size": 64, "address": 0x1A000, "program": 3}),
        ("kernel_load", {"size": 1024, "kernel_id": 7, "program": 3}),
        held(0x2000, 512, "l1_small"),
        held(0x3000, 4096, "trace"),
    )
    found = data(server, "--older", "0")
    assert found["verdict"] == {"leak": False, "groups": 0, "count": 0, "pools": {}}
    assert pools(found["system"]) == {"dram": (1, 14 * MIB), "system": (2, 57344 + 47104)}
    assert pools(found["program_cache"]) == {"l1_buffers": (1, 512), "programs": (4, 2048 + 64 + 1024)}
    assert pools(found["program_cache"]["likely"]) == {"l1_buffers": (1, 512)}
    assert pools(found["trace"]) == {"dram": (1, 4096)}
    code, lines = leaks(server, "--older", "0")
    assert (code, lines[-1]) == (0, "verdict: no leak")
    assert any("clear_program_cache()" in line for line in lines)
    assert any("release_trace()" in line for line in lines)


def test_a_holder_that_is_killed_leaks_nothing_any_more(server: Server, work: Work) -> None:
    victim, clean = work(), work()
    victim.tell(held(0x1000, 3 * MIB, tag="weights"), ("cb_allocation", {"size": 64, "cb_id": 1}))
    clean.tell(held(0x1000, 64), ("deallocation", {"buffer_id": 0x1000}))
    assert pools(data(server, "--older", "0", code=3)["verdict"]) == {"dram": (1, 3 * MIB)}
    for worker in (victim, clean):
        worker.kill()
        wait_until(partial(server.has_exited, worker.pid), "the death")
    found = data(server, "--older", "0")
    (dead,) = found["dead_process"]
    assert (dead["pid"], pools(dead)) == (victim.pid, {"dram": (1, 3 * MIB), "programs": (1, 64)})
    assert [item["tag"] for item in dead["largest"]] == ["weights", None]
    code, lines = leaks(server, "--older", "0")
    assert (code, lines[-1]) == (0, "verdict: no leak")
    (line,) = [line for line in lines if line.startswith("dead process: ")]
    assert f" {victim.pid} " in line
    assert (
        "holding 3.0 MiB of DRAM in 1 allocation, 64 B of programs that take turns in L1 (sum over all cores) in 1 "
        "allocation; freed at its exit"
    ) in line


def test_processes_and_chips_are_told_apart(server: Server, work: Work) -> None:
    one, two = work(), work()
    one.tell(held(0x1000, 100))
    two.tell(held(0x1000, 200), held(0x1000, 50, device_id=1))
    both = data(server, "--older", "0", code=3)
    assert [(g["pid"], g["bytes"]) for g in both["leaks"]] == [(two.pid, 200), (one.pid, 100), (two.pid, 50)]
    for options, amount in (
        (["--pid", str(one.pid)], (1, 100)),
        (["--pid", f"{one.pid},{two.pid}"], (3, 350)),
        (["--chip", "assumed:1"], (1, 50)),
    ):
        assert pools(data(server, "--older", "0", *options, code=3)["verdict"]) == {"dram": amount}
    assert data(server, "--older", "0", "--chip", "assumed:1", "--pid", str(one.pid))["verdict"]["leak"] is False


def test_losses_make_the_verdict_doubtful(server: Server, legacy: Callable[..., LegacyClient]) -> None:
    client = legacy(server)
    client.say("free 0 0x99", "alloc 0 4096 0 0x1000")
    client.query(0)
    code, lines = leaks(server, "--older", "0")
    assert code == 3
    assert lines[-2].startswith("doubt: 1 frees were of unreported allocations")
    assert lines[-1] == "verdict: leak: 1 group, 4.0 KiB of DRAM in 1 buffer"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--older", "soon"], 2, "not a time: 'soon'"),
        (["--older=-1"], 2, "not a time: '-1'"),
        (["--older", "1.5h"], 2, "such as 5m"),
        (["--pid", "python"], 2, "'python' is not a process id"),
        (["--pid"], 2, "--pid needs a value"),
        (["--pid", "99999999"], 1, "no process 99999999 has reported"),
        (["--chip", "nowhere & more"], 1, "there is no chip 'nowhere & more'"),
        (["extra"], 2, "unknown option or argument: extra"),
    ],
)
def test_wrong_arguments(server: Server, arguments: list[str], code: int, words: str) -> None:
    found, lines = leaks(server, *arguments)
    assert (found, words in lines[-1]) == (code, True), lines


def test_no_server(folder: Path) -> None:
    code, lines = leaks(str(folder / "none.api.sock"))
    assert (code, "start one with `ttmem serve" in lines[-1]) == (1, True)


@pytest.mark.parametrize("query", ["older=-1", "older=x", "pid=1,", "pid=x", "age=3"])
def test_bad_parameters(server: Server, query: str) -> None:
    with pytest.raises(ApiError, match=r"must be a whole number|must not be negative|unknown parameter"):
        server.get(f"/leaks?{query}")


def test_many_allocations_of_one_size_are_one_group(server: Server, legacy: Callable[..., LegacyClient]) -> None:
    client = legacy(server)
    client.say("burst 50000 0 4096 0 0x100000 4096")
    client.query(0)
    (group,) = data(server, "--older", "0", code=3)["leaks"]
    assert (group["size"], group["count"], group["bytes"]) == (4096, 50000, 50000 * 4096)

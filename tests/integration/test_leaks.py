# SPDX-License-Identifier: Apache-2.0
"""`ttmem leaks` against a real server and real processes that hold allocations, free them, or are killed."""

from __future__ import annotations

import json
import re
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
LEAKER = """
import select, sys
from ttmem import AllocationClient
client = AllocationClient(enabled=True, socket_path=sys.argv[1])
for number in range(3):
    client.report_allocation(device_id=0, buffer_id=0x1000 + number, size=1 << 20, buffer_type="dram", tag="weights")
print(client.flush(60), flush=True)
sys.stdin.readline()
address = 0x100000
while not select.select([sys.stdin], [], [], 0.005)[0]:
    client.report_allocation(device_id=0, buffer_id=address, size=4096, buffer_type="dram", tag="ttnn.add")
    address += 4096
for number in range(0x100000, address, 4096):
    client.report_deallocation(device_id=0, buffer_id=number, buffer_type="dram")
print(client.flush(60), flush=True)
sys.stdin.read()
"""


class Worker:
    """A process that reports what the test requests."""

    def __init__(self, server: Server, program: str = WORKER) -> None:
        command = [sys.executable, "-c", program, server.path]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        self.pid = self.process.pid

    def tell(self, *calls: tuple[str, dict[str, Any]]) -> None:
        """Make these calls, and wait until the server has applied them."""
        named = [(f"report_{name}", {"device_id": 0, **arguments}) for name, arguments in calls]
        self.say(json.dumps(named))
        self.wait()

    def say(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")

    def wait(self) -> None:
        """Wait until the server has applied everything so far."""
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "True\n"

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate(timeout=PATIENCE)


def held(address: int, size: int, kind: str = "dram", **more: Any) -> tuple[str, dict[str, Any]]:
    return "allocation", {"buffer_id": address, "size": size, "buffer_type": kind, **more}


@pytest.fixture
def work(server: Server) -> Iterator[Callable[..., Worker]]:
    workers: list[Worker] = []

    def start(program: str = WORKER) -> Worker:
        workers.append(Worker(server, program))
        return workers[-1]

    yield start
    for worker in workers:
        if worker.process.returncode is None:
            worker.kill()


Work = Callable[..., Worker]


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


def test_a_leak(server: Server, work: Work, folder: Path) -> None:
    """Weights are held, from the first moment on; what is added again and again grows until it is freed."""
    worker = work(LEAKER)
    worker.wait()
    found = data(server)
    assert found["verdict"] == {"leak": False, "groups": 0, "count": 0, "pools": {}}
    assert [(g["pid"], *g["chips"], g["kind"], g["op"], g["size"], g["count"], g["bytes"]) for g in found["held"]] == [
        (worker.pid, "assumed:0", "dram", "weights", MIB, 3, 3 * MIB),
    ]
    baseline = folder / "baseline.json"
    baseline.write_text(json.dumps(found))
    worker.say("leak")
    wait_until(lambda: server.get("/leaks")["verdict"]["leak"], "growth")
    code, lines = leaks(server)
    assert code == 3
    text = " ".join(" ".join(lines).split())
    assert re.search(
        r" verdict: leak: \+[\d,.]+ per minute at ttnn.add, 4.0 KiB each; .* of DRAM in \d+ buffers so far$", text
    )
    assert "Doubt: growth was judged over " in text
    found = data(server, code=3)
    assert [(g["op"], g["growth"]["per_step"], g["growth"]["history"]) for g in found["growing"]] == [
        ("ttnn.add", None, None)
    ]
    assert "HELD" not in "\n".join(leaks(server, "--growing")[1])
    found = data(server, "--baseline", str(baseline), code=3)
    assert [(g["op"], g["above_baseline"]) for g in (*found["growing"], *found["held"])] == [
        ("ttnn.add", found["growing"][0]["count"]), ("weights", 0),
    ]  # fmt: skip
    assert leaks(server, "--ignore", "ttnn.*")[1][-1] == "verdict: no leak"
    assert data(server, "--since", "1h", code=3)["verdict"]["leak"] is True
    later = data(server, "--since", "2100-01-01T00:00:00Z")
    assert later["growing"] == []
    worker.say("free")
    worker.wait()
    code, lines = leaks(server)
    assert (code, lines[-1]) == (0, "verdict: no leak")
    assert [row["op"] for row in data(server)["held"]] == ["weights"]


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
    found = data(server)
    assert found["verdict"] == {"leak": False, "groups": 0, "count": 0, "pools": {}}
    assert pools(found["system"]) == {"dram": (1, 14 * MIB), "system": (2, 57344 + 47104)}
    assert pools(found["program_cache"]) == {"l1_buffers": (1, 512), "programs": (4, 2048 + 64 + 1024)}
    assert pools(found["program_cache"]["likely"]) == {"l1_buffers": (1, 512)}
    assert pools(found["trace"]) == {"dram": (1, 4096)}
    code, lines = leaks(server)
    assert (code, lines[-1]) == (0, "verdict: no leak")
    assert any("clear_program_cache()" in line for line in lines)
    assert any("release_trace()" in line for line in lines)


def test_a_holder_that_is_killed_leaks_nothing_any_more(server: Server, work: Work) -> None:
    victim, clean = work(), work()
    victim.tell(held(0x1000, 3 * MIB, tag="weights"), ("cb_allocation", {"size": 64, "cb_id": 1}))
    clean.tell(held(0x1000, 64), ("deallocation", {"buffer_id": 0x1000}))
    assert [row["bytes"] for row in data(server)["held"]] == [3 * MIB]
    for worker in (victim, clean):
        worker.kill()
        wait_until(partial(server.has_exited, worker.pid), "the death")
    found = data(server)
    (dead,) = found["dead_process"]
    assert (dead["pid"], pools(dead)) == (victim.pid, {"dram": (1, 3 * MIB), "programs": (1, 64)})
    assert [item["tag"] for item in dead["largest"]] == ["weights", None]
    code, lines = leaks(server)
    assert (code, lines[-1]) == (0, "verdict: no leak")
    (line,) = [line for line in lines if line.startswith("Dead process: ")]
    assert f" {victim.pid} " in line
    assert (
        "holding 3.0 MiB of DRAM in 1 allocation, 64 B of programs that use L1 in turn (sum over all cores) in 1 "
        "allocation; freed at its exit"
    ) in " ".join(" ".join(lines).split())


def test_processes_and_chips_are_told_apart(server: Server, work: Work) -> None:
    one, two = work(), work()
    one.tell(held(0x1000, 100))
    two.tell(held(0x1000, 200), held(0x1000, 50, device_id=1))
    everything = [(two.pid, 200), (one.pid, 100), (two.pid, 50)]
    for options, expected in (
        ([], everything),
        (["--pid", str(one.pid)], [(one.pid, 100)]),
        (["--pid", f"{one.pid},{two.pid}"], everything),
        (["--chip", "assumed:1"], [(two.pid, 50)]),
        (["--chip", "assumed:1", "--pid", str(one.pid)], []),
    ):
        assert [(row["pid"], row["bytes"]) for row in data(server, *options)["held"]] == expected


def test_losses_make_the_verdict_doubtful(server: Server, legacy: Callable[..., LegacyClient]) -> None:
    client = legacy(server)
    client.say("free 0 0x99", "alloc 0 4096 0 0x1000")
    client.query(0)
    code, lines = leaks(server)
    assert (code, lines[-1]) == (0, "verdict: no leak")
    assert any(line.startswith("Doubt: 1 frees were of unreported allocations") for line in lines)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--since", "soon"], 2, "'soon' is not a time: use 90s, 5m, 2h, phase:NAME, or a time"),
        (["--since=-1"], 2, "'-1' is not a time"),
        (["--since", "1900-01-01"], 1, "since is seconds since 1970"),
        (["--since", "phase:none"], 1, "there is no phase 'none'"),
        (["--ignore", ""], 2, "--ignore: a pattern is one line of text"),
        (["--ignore", "a\nb"], 2, "--ignore: a pattern is one line of text"),
        (["--baseline", "/nonexistent/file"], 1, "/nonexistent/file: No such file or directory"),
        (["--baseline", "/dev/null"], 1, "/dev/null is not the output of `ttmem leaks --json`"),
        (["--baseline", __file__], 1, "is not the output of `ttmem leaks --json`"),
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


@pytest.mark.parametrize("query", ["since=-1", "since=x", "pid=1,", "pid=x", "older=3"])
def test_bad_parameters(server: Server, query: str) -> None:
    with pytest.raises(ApiError, match=r"must be a whole number|since is seconds|unknown parameter"):
        server.get(f"/leaks?{query}")


def test_many_allocations_of_one_size_are_one_group(server: Server, legacy: Callable[..., LegacyClient]) -> None:
    client = legacy(server)
    client.say("burst 50000 0 4096 0 0x100000 4096")
    client.query(0)
    (group,) = data(server)["held"]
    assert (group["size"], group["count"], group["bytes"]) == (4096, 50000, 50000 * 4096)

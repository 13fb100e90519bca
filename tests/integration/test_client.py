# SPDX-License-Identifier: Apache-2.0
"""The Python client: it never blocks the workload, and is exact again after any failure of the server."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import PATIENCE, Server, not_none, wait_until
from ttmem import AllocationClient
from ttmem.collect import wrappers
from ttmem.model.core_sets import CoreRange, mask_of
from ttmem.model.identity import ChipInfo
from ttmem.model.kinds import Kind

Serve = Callable[..., Server]


@pytest.fixture
def client(server: Server) -> Iterator[AllocationClient]:
    client = AllocationClient(enabled=True, socket_path=server.path)
    yield client
    client.close(0)


def _mine(server: Server) -> dict[str, int]:
    """Bytes by kind that this process holds, over all chips."""
    process = server.process_of(os.getpid())
    assert process is not None
    sums: dict[str, int] = {}
    for chip in process["chips"]:
        for kind, size in chip["kinds"].items():
            sums[kind] = sums.get(kind, 0) + size
    return {kind: size for kind, size in sums.items() if size}


def stat(client: AllocationClient, name: str) -> int:
    value = client.stats()[name]
    assert isinstance(value, int)
    return value


def test_every_report_arrives(server: Server, client: AllocationClient) -> None:
    grid = mask_of([CoreRange(0, 0, 7, 7)])
    client.report_allocation(device_id=0, size=100, buffer_type="dram", buffer_id=0x1000, tag="weights")
    client.report_allocation(device_id=0, size=200, buffer_type=1, buffer_id=0x1000, reserved=256)
    client.report_allocation(device_id=0, size=300, buffer_type=Kind.TRACE, buffer_id=0x3000)
    client.report_cb_allocation(device_id=0, size=6400, cb_id=105824, program=5, cores=grid)
    client.report_cb_allocation(device_id=0, size=999, cb_id=105824, program=6, shared=True)
    client.report_kernel_load(device_id=0, size=50, kernel_id=1)
    client.report_kernel_load(device_id=0, size=60, kernel_id=2, kernel_type=1)
    client.report_program_run(device_id=0, program=5, cores=mask_of([CoreRange(0, 0, 7, 3)]))
    client.report_deallocation(device_id=0, buffer_id=0x3000)
    assert client.flush(PATIENCE)
    assert _mine(server) == {"dram": 100, "l1": 200, "cb": 6400, "kernel": 50, "fabric_kernel": 60}
    memory = server.chip()
    assert memory["l1"]["cb"] == {"held": 6400, "resident": 3200}
    assert memory["l1"]["reserved"] == 256
    assert server.get("/allocations?text=weights")["allocations"][0]["tag"] == "weights"
    client.report_cb_deallocation(device_id=0, cb_id=105824, program=5, cores=grid)
    client.report_kernel_unload(device_id=0, kernel_id=2)
    client.report_program_destroyed(device_id=0, program=6)
    assert client.flush(PATIENCE)
    assert _mine(server) == {"dram": 100, "l1": 200, "kernel": 50}
    client.report_device_close(device_id=0)
    assert client.flush(PATIENCE)
    assert _mine(server) == {}


def test_headroom_is_judged_program_by_program(server: Server, client: AllocationClient) -> None:
    client.report_device_open(device_id=0, chip=ChipInfo("77", board="n150"))
    grid = mask_of([CoreRange(0, 0, 7, 7)])
    for program, tiles in ((5, 24), (6, 48)):
        client.report_cb_allocation(device_id=0, size=tiles * 2048 * 64, cb_id=105824, program=program, cores=grid)
    client.report_cb_allocation(device_id=0, size=64, cb_id=1000000, program=6, cores=grid, shared=True)
    client.report_program_run(device_id=0, program=6, cores=grid)
    client.report_program_run(device_id=0, program=5, cores=grid)
    assert client.flush(PATIENCE)
    free = server.get("/headroom")["chips"][0]
    assert (free["floor"], free["floor_holder"]) == (1499136, None)  # nothing there: all of the core's L1
    client.report_allocation(device_id=0, size=4096, buffer_type="l1", buffer_id=1400000, tag="lowest")
    client.report_allocation(device_id=0, size=4096, buffer_type="l1", buffer_id=1450000)
    assert client.flush(PATIENCE)
    chip = server.get("/headroom?chip=77")["chips"][0]
    assert (chip["floor"], chip["floor_holder"]["tag"]) == (1400000, "lowest")
    end = 105824 + 24 * 2048
    assert chip["launched"] == [{"program": 5, "pid": os.getpid(), "end": end, "headroom": 1400000 - end}]
    assert chip["worst_cached"]["program"] == 6
    assert chip["worst_cached"]["headroom"] == 1400000 - 105824 - 48 * 2048


def test_two_processes_that_both_say_device_0(server: Server, client: AllocationClient) -> None:
    client.report_device_open(device_id=0, chip=ChipInfo("77", board="n150"))
    client.report_allocation(device_id=0, size=100, buffer_type="dram", buffer_id=0x1000)
    assert client.flush(PATIENCE)
    script = (
        "import sys; from ttmem import AllocationClient; from ttmem.model.identity import ChipInfo;"
        "c = AllocationClient(enabled=True, socket_path=sys.argv[1]);"
        "c.report_allocation(device_id=0, size=50, buffer_type='dram', buffer_id=0x1000);"
        "sys.argv[2:] and c.report_device_open(device_id=0, chip=ChipInfo(sys.argv[2])); assert c.flush(60)"
        "; print('sent', flush=True); sys.stdin.read()"
    )
    others = [
        subprocess.Popen([sys.executable, "-c", script, server.path, *chip_id], stdin=-1, stdout=-1, text=True)
        for chip_id in (["88"], [])
    ]
    for other in others:
        assert not_none(other.stdout).readline() == "sent\n"
    chips = {chip["chip"]: chip for chip in server.snapshot()["chips"]}
    assert {chip_id: chip["memory"]["dram"]["used"] for chip_id, chip in chips.items()} == {
        "77": 100,
        "88": 50,
        "assumed:0": 50,
    }
    assert {chip_id: chip["identity"] for chip_id, chip in chips.items()} == {
        "77": "known", "88": "known", "assumed:0": "assumed",
    }  # fmt: skip
    for other in others:
        other.kill()
        other.communicate()


def test_visible_devices_tell_two_device_0_apart(server: Server) -> None:
    script = (
        "import sys; from ttmem import AllocationClient; c = AllocationClient(enabled=True, socket_path=sys.argv[1]);"
        "c.report_allocation(device_id=0, size=50, buffer_type='dram', buffer_id=0x1000); assert c.flush(60)"
        "; print('sent', flush=True); sys.stdin.read()"
    )
    others = [
        subprocess.Popen(
            [sys.executable, "-c", script, server.path], stdin=-1, stdout=-1, text=True,
            env={**os.environ, "TT_VISIBLE_DEVICES": visible},
        )
        for visible in ("3", "0000:41:00.0")
    ]  # fmt: skip
    for other in others:
        assert not_none(other.stdout).readline() == "sent\n"
    chips = {chip["chip"]: chip["identity"] for chip in server.snapshot()["chips"]}
    assert chips == {"kmd:3": "known", "0000:41:00.0": "known"}
    for other in others:
        other.kill()
        other.communicate()


def test_bad_values_never_raise(client: AllocationClient) -> None:
    client.report_allocation(device_id=-1, size=1, buffer_type=0, buffer_id=1)
    client.report_allocation(device_id=0, size=0, buffer_type=0, buffer_id=1)
    client.report_allocation(device_id=0, size=1, buffer_type="nonsense", buffer_id=1)
    client.report_allocation(device_id=0, size=1, buffer_type=99, buffer_id=1)
    client.report_allocation(device_id=0, size="much", buffer_type=0, buffer_id=1)  # type: ignore[arg-type]
    client.report_allocation(device_id=0, size=1, buffer_type=0, buffer_id=1 << 64)
    client.report_kernel_load(device_id=0, size=1, kernel_id=1, kernel_type=7)
    client.report_deallocation(device_id=0, buffer_id=-1)
    assert client.stats()["rejected"] == 8
    client.report_cb_allocation(device_id=0, size=8, cb_id=1, program=-5)
    client.report_allocation(device_id=0, size=8, buffer_type=0, buffer_id=8)
    assert client.flush(PATIENCE)


class Odd:
    """An object whose type cannot be queried."""

    def __bool__(self) -> bool:
        raise ZeroDivisionError

    def __str__(self) -> str:
        raise ZeroDivisionError


ONE: dict[str, Any] = {"device_id": 0, "size": 64, "buffer_type": "dram", "buffer_id": 64}
PART = {"device_id": 0, "size": 64, "program": 1}


@pytest.mark.parametrize(
    ("call", "values"),
    [
        *(("report_allocation", {**ONE, name: 64.0}) for name in ONE),
        *(("report_allocation", {**ONE, name: Odd()}) for name in ("reserved", "allocator", "tag", "system", "size")),
        ("report_allocation", {**ONE, "reserved": 64.5}),
        ("report_allocation", {**ONE, "allocator": 1.0}),
        ("report_deallocation", {"device_id": 0, "buffer_id": 64.0}),
        ("report_deallocation", {"device_id": 0, "buffer_id": 64, "allocator": 1.0}),
        ("report_cb_allocation", {**PART, "cb_id": 1, "cores": 3.0}),
        ("report_cb_allocation", {**PART, "cb_id": 1, "program": float("nan")}),
        ("report_cb_deallocation", {"device_id": 0, "cb_id": 1, "cores": 3.0}),
        ("report_kernel_load", {**PART, "kernel_id": 1, "kernel_type": 1.0}),
        ("report_program_compiled", {"device_id": 0, "program": 1, "ring": float("nan")}),
        ("report_program_compiled", {"device_id": 0, "program": 1, "ring": -1}),
        ("report_program_run", {"device_id": 0, "program": 1, "cores": 3.0}),
        ("report_device_open", {"device_id": 0, "chip": ChipInfo("u", kmd="zero")}),  # type: ignore[arg-type]
        ("report_device_open", {"device_id": 0, "chip": "u"}),
        ("report_memory_view", {"device_id": 0, "buffer_type": "l1", "banks": 1.5, "size": 1, "allocated": 1,
                                "largest_free": 1}),
        ("report_memory_view", {"device_id": 0, "buffer_type": "no", "banks": 1, "size": 1, "allocated": 1,
                                "largest_free": 1}),
        ("mark", {"text": Odd()}),
    ],
)  # fmt: skip
def test_one_bad_value_is_rejected_and_harms_nothing_else(
    server: Server, client: AllocationClient, call: str, values: dict[str, Any]
) -> None:
    getattr(client, call)(**values)
    client.report_allocation(**{**ONE, "size": 100, "buffer_id": 128})
    assert client.flush(PATIENCE)
    assert client.stats()["rejected"] == 1
    assert client.stats()["resyncs"] == 0
    assert client.measure()[0, "dram"].used == 100
    assert _mine(server) == {"dram": 100}


class Number:
    """An integer type of its own, as in numpy."""

    def __init__(self, value: int) -> None:
        self._value = value

    def __index__(self) -> int:
        return self._value


def test_whole_numbers_of_any_kind(server: Server, client: AllocationClient) -> None:
    n: Any = Number
    client.report_allocation(device_id=n(0), size=n(64), buffer_type=n(1), buffer_id=n(4096), reserved=n(128))
    client.report_cb_allocation(device_id=n(0), size=n(32), cb_id=n(1), program=n(1), cores=n(1))
    client.report_program_compiled(device_id=n(0), program=n(1), ring=n(64), metal_id=n(3))
    client.report_program_run(device_id=n(0), program=n(1), cores=n(1))
    assert client.flush(PATIENCE)
    assert client.stats()["rejected"] == 0
    assert _mine(server) == {"l1": 64, "cb": 32}
    assert server.chip()["l1"]["cb"] == {"held": 32, "resident": 32}


def test_clients_of_one_name_do_not_wipe_each_other(server: Server) -> None:
    first, second = (AllocationClient(enabled=True, socket_path=server.path) for _ in range(2))
    first.report_allocation(device_id=0, size=100, buffer_type="dram", buffer_id=0x1000)
    assert first.flush(PATIENCE)
    second.report_allocation(device_id=0, size=20, buffer_type="dram", buffer_id=0x2000)
    assert second.flush(PATIENCE)
    assert _mine(server) == {"dram": 120}
    first.close()
    second.report_allocation(device_id=0, size=3, buffer_type="dram", buffer_id=0x3000)
    assert second.flush(PATIENCE)
    assert _mine(server) == {"dram": 123}
    assert second.stats()["resyncs"] == 0
    second.close()


def test_kernels_of_the_wrappers_with_and_without_sizes(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TTMEM_SOCKET", server.path)
    monkeypatch.setenv("TT_ALLOC_TRACKING_ENABLED", "1")
    monkeypatch.setattr(wrappers, "_clients", {})
    one: dict[str, Any] = {"device": 0, "cores": [(0, 0)]}
    wrappers.create_circular_buffer_with_tracking(int, **one, size=2048, index=0)
    for size in (1000, None):
        wrappers.add_kernel_with_tracking(int, **one, kernel=size or 1, size=size)
        assert all(client.flush(PATIENCE) for client in wrappers._clients.values())
    assert _mine(server) == {"cb": 2048, "kernel": 1000 + 50 * 1024}
    assert server.chip()["confidence"] == {"exact": 0, "reported": 2048, "estimated": 1000 + 50 * 1024}
    wrappers.unload_kernel_with_tracking(int, **one, kernel=1000)
    assert all(client.flush(PATIENCE) for client in wrappers._clients.values())
    assert _mine(server) == {"cb": 2048, "kernel": 50 * 1024}
    for client in wrappers._clients.values():
        client.close(0)


def test_nothing_happens_unless_enabled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TT_ALLOC_TRACKING_ENABLED", raising=False)
    before = set(os.listdir("/proc/self/task"))
    for value in (None, "0", "true", "1"):
        if value is not None:
            monkeypatch.setenv("TT_ALLOC_TRACKING_ENABLED", value)
        client = AllocationClient(socket_path="/nonexistent/socket")
        assert client.is_enabled() is (value == "1")
        if value != "1":
            client.report_allocation(device_id=0, size=1, buffer_type=0, buffer_id=1)
            assert client.flush(0.0)
            assert client.measure() == {}
            assert set(os.listdir("/proc/self/task")) <= before
    client.close(0)


def test_a_late_server_gets_the_whole_truth(serve: Serve, folder: Path) -> None:
    client = AllocationClient(enabled=True, socket_path=str(folder / "ttmem.sock"))
    for number in range(1000):
        client.report_allocation(device_id=0, size=10, buffer_type="dram", buffer_id=number + 1)
        if number % 2:
            client.report_deallocation(device_id=0, buffer_id=number + 1)
    assert client.flush(0.05) is False
    wait_until(lambda: client.stats()["unsent"] == 1500, "the client's own account")
    server = serve("--quiet")
    assert client.flush(30)
    assert _mine(server) == {"dram": 5000}
    assert (
        not_none(server.process_of(os.getpid()))["anomalies"]["dropped"] == 1500
    )  # events that the server did not receive
    client.close()


def test_server_killed_with_100k_live_allocations_and_four_busy_threads(serve: Serve) -> None:
    server = serve("--quiet")
    client = AllocationClient(enabled=True, socket_path=server.path)
    for number in range(100_000):
        client.report_allocation(device_id=number % 8, size=4096, buffer_type="dram", buffer_id=(number + 1) << 12)
    assert client.flush(60)
    assert client.stats()["unsent"] == 0
    running, turns = threading.Event(), [0] * 4
    running.set()

    def work(thread: int) -> None:
        """Allocates two and frees one, repeatedly. The number of rounds determines what remains."""
        base = (thread + 1) << 40
        while running.is_set():
            turn = turns[thread]
            client.report_allocation(device_id=thread, size=100, buffer_type="l1", buffer_id=base + 2 * turn)
            client.report_allocation(device_id=thread, size=50, buffer_type="l1", buffer_id=base + 2 * turn + 1)
            client.report_deallocation(device_id=thread, buffer_id=base + 2 * turn)
            turns[thread] += 1
            if turn % 64 == 0 or turn > 20_000:  # a workload does other things, too, and its live set does not grow
                time.sleep(0.001)  # faster than a busy machine can send it again

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    wait_until(lambda: min(turns) > 200, "the threads' work")
    server.stop(signal.SIGKILL)
    at_death = list(turns)
    wait_until(lambda: all(now > then + 200 for now, then in zip(turns, at_death)), "work without a server")
    server.start()
    wait_until(lambda: stat(client, "resyncs") >= 1, "the resync")
    at_resync = list(turns)
    wait_until(lambda: all(now > then + 200 for now, then in zip(turns, at_resync)), "work with the new server")
    running.clear()
    for thread in threads:
        thread.join()
    assert client.flush(60)
    process = server.process_of(os.getpid())
    used = {chip["metal_id"]: chip["kinds"] for chip in not_none(process)["chips"]}
    assert not_none(process)["allocations"] == 100_000 + sum(turns)
    for device in range(8):
        assert used[device]["dram"] == 100_000 // 8 * 4096
        assert used[device].get("l1", 0) == (50 * turns[device] if device < 4 else 0)
    odd = not_none(process)["anomalies"]
    assert odd["dropped"] == stat(client, "unsent") > 0
    assert odd["resynced"] >= 1
    assert odd["unknown_free"] == odd["double_free"] == odd["replaced"] == 0
    client.close()


@pytest.mark.alone
def test_a_stopped_server_does_not_slow_the_workload(serve: Serve, capsys: pytest.CaptureFixture[str]) -> None:
    server = serve("--quiet")
    client = AllocationClient(enabled=True, socket_path=server.path)

    def work(count: int) -> float:
        worst, start = 0.0, time.perf_counter()
        for number in range(count):
            before = time.perf_counter()
            client.report_allocation(device_id=0, size=100, buffer_type="dram", buffer_id=number + 1)
            client.report_deallocation(device_id=0, buffer_id=number + 1)
            worst = max(worst, time.perf_counter() - before)
        with capsys.disabled():
            took = (time.perf_counter() - start) / count / 2
            print(f"\n  {1e6 * took:.2f} us an event, the longest pair {1e3 * worst:.1f} ms", end="")
        return worst

    client.report_allocation(device_id=1, size=7, buffer_type="dram", buffer_id=7)
    assert client.flush(PATIENCE)
    work(20_000)
    assert client.flush(30)
    with server.stopped():
        assert work(150_000) < PATIENCE  # far more than the socket and the backlog hold; a blocking client would hang
        assert client.flush(0.05) is False
        wait_until(lambda: stat(client, "unsent") > 0, "falling behind")
    client.report_allocation(device_id=0, size=9, buffer_type="dram", buffer_id=9)
    assert client.flush(60)
    assert _mine(server) == {"dram": 16}
    odd = not_none(server.process_of(os.getpid()))["anomalies"]
    assert odd["dropped"] == client.stats()["unsent"]
    assert client.stats()["trouble"] is None
    client.close()


_FORKER = """
import os, sys
from ttmem import AllocationClient
client, other = (AllocationClient(enabled=True, socket_path=sys.argv[1]) for _ in range(2))
client.report_allocation(device_id=0, size=100, buffer_type="dram", buffer_id=1)
assert client.flush(60)
child = os.fork()
other.close()
client.report_allocation(device_id=0, size=10 if child else 1, buffer_type="dram", buffer_id=2)
assert client.flush(60)
print(os.getpid(), flush=True)
sys.stdin.read()
"""


_MANY_FILES = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
files = [os.open("/dev/null", os.O_RDONLY) for _ in range(1100)]
from ttmem import AllocationClient
client = AllocationClient(enabled=True, socket_path=sys.argv[1])
client.report_allocation(device_id=0, size=100, buffer_type="dram", buffer_id=1)
assert client.flush(60), client.stats()
"""


def test_a_workload_with_more_than_a_thousand_open_files(server: Server) -> None:
    done = subprocess.run([sys.executable, "-c", _MANY_FILES, server.path], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_fork(server: Server) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", _FORKER, server.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    pids = sorted(int(not_none(parent.stdout).readline()) for _ in range(2))
    used = {pid: not_none(server.process_of(pid))["chips"][0]["dram"] for pid in pids}
    child = next(pid for pid in pids if pid != parent.pid)
    assert used == {parent.pid: 110, child: 1}
    os.kill(child, signal.SIGKILL)
    wait_until(lambda: not_none(server.process_of(child))["state"] == "exited", "the child's death")
    assert not_none(server.process_of(parent.pid))["chips"][0]["dram"] == 110
    parent.kill()
    parent.communicate()


_EXITER = """
import signal, sys
from ttmem import AllocationClient
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
client = AllocationClient(enabled=True, socket_path=sys.argv[1])
for number in range(1000):
    client.report_allocation(device_id=0, size=100, buffer_type="dram", buffer_id=number + 1)
if len(sys.argv) > 2:
    assert client.flush(60)
    print("sent", flush=True)
    sys.stdin.readline()
    for number in range(1000):
        client.report_deallocation(device_id=0, buffer_id=number + 1)
    client.flush(0.3)
"""


# The work at exit may take longer on a busy machine than a workload would wait for it.
_PATIENT_EXIT = """
import atexit
at_exit = atexit.register
atexit.register = lambda call, *seconds: at_exit(call, *(60.0 for _ in seconds))
"""


def test_the_last_reports_of_a_process_that_ends_are_not_lost(server: Server) -> None:
    command = [sys.executable, "-c", _PATIENT_EXIT + _EXITER, server.path]
    process = subprocess.run(command, capture_output=True, text=True)
    assert (process.returncode, process.stderr) == (0, "")
    gone = wait_until(lambda: [p for p in server.snapshot()["processes"] if p["state"] == "exited"], "its end")
    assert gone[0]["chips"][0]["dram"] == 100_000


def test_sigpipe_does_not_kill_a_workload_whose_server_died(serve: Serve) -> None:
    server = serve("--quiet")
    workload = subprocess.Popen(
        [sys.executable, "-c", _EXITER, server.path, "stay"], stdin=-1, stdout=-1, stderr=-1, text=True
    )
    assert not_none(workload.stdout).readline() == "sent\n"
    server.stop(signal.SIGKILL)
    _, errors = workload.communicate("\n", timeout=30)
    assert (workload.returncode, errors) == (0, "")


def test_no_server_at_all_costs_no_time_at_exit(folder: Path) -> None:
    command = [sys.executable, "-c", _EXITER, str(folder / "nobody.sock")]
    process = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert (process.returncode, process.stderr) == (0, "")

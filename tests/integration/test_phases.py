# SPDX-License-Identifier: Apache-2.0
"""Phases through a real server: nested, in threads, over a restart, ended by a death, and what /phases answers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support import PATIENCE, Server, wait_until
from ttmem.collect.client import AllocationClient
from ttmem.collect.memory import phase
from ttmem.wire.api_client import ApiError


@pytest.fixture
def client(server: Server) -> Iterator[AllocationClient]:
    client = AllocationClient(enabled=True, socket_path=server.path)
    yield client
    client.close()


def allocate(client: AllocationClient, place: int, size: int, kind: str = "dram") -> None:
    client.report_allocation(device_id=0, size=size, buffer_type=kind, buffer_id=place)


def free(client: AllocationClient, place: int, kind: str = "dram") -> None:
    client.report_deallocation(device_id=0, buffer_id=place, buffer_type=kind)


def phases(server: Server, pid: int | None = None) -> dict[str, Any]:
    (found,) = server.get(f"/phases?pid={pid or os.getpid()}")["processes"]
    return dict(found)


def row(entry: Any, pool: str = "dram") -> dict[str, Any]:
    (found,) = (row for row in entry["rows"] if row.get("pool") == pool)
    return dict(found)


def ended(server: Server, path: str, pid: int | None = None) -> dict[str, Any]:
    (found,) = (entry for entry in phases(server, pid)["ended"] if entry["path"] == path)
    return dict(found)


def as_measured(one: phase, pool: str = "dram") -> dict[str, Any]:
    kind = f"{pool}_pool"
    return {"begin": one.begin(kind), "peak": one.peak(kind), "end": one.end(kind), "delta": one.delta(kind)}


def test_the_server_and_the_workload_say_the_same(server: Server, client: AllocationClient) -> None:
    allocate(client, 1, 4096)
    with phase("decode") as decode:
        allocate(client, 2, 1 << 20)
        free(client, 2)
        with phase("attention") as attention:
            allocate(client, 3, 500, "l1")
            allocate(client, 4, 300, "l1")
            free(client, 3, "l1")
        assert client.flush(PATIENCE)
        (still,) = phases(server)["open"]
        assert (still["path"], still["complete"]) == ("decode", True)
        assert row(still)["peak"] == 4096 + (1 << 20)
    assert client.flush(PATIENCE)
    assert phases(server)["open"] == []
    for path, one in (("decode", decode), ("decode/attention", attention)):
        entry = ended(server, path)
        assert (entry["runs"], entry["partial"]) == (1, 0)
        for pool in ("dram", "l1"):
            assert row(entry, pool)["last"] == as_measured(one, pool)
    assert attention.peak("l1") == 800


def test_two_threads(server: Server, client: AllocationClient) -> None:
    """Each has its own tree; both include the memory of the process."""
    ready, go = threading.Event(), threading.Event()
    made: list[phase] = []

    def other() -> None:
        with phase("prefetch") as prefetch:
            ready.set()
            assert go.wait(PATIENCE)
            with phase("copy") as copy:
                allocate(client, 2, 64)
        made.extend((prefetch, copy))

    thread = threading.Thread(target=other)
    with phase("step") as step:
        thread.start()
        assert ready.wait(PATIENCE)
        allocate(client, 1, 1000)
        go.set()
        thread.join(PATIENCE)
    assert client.flush(PATIENCE)
    for path, one in zip(("step", "prefetch", "prefetch/copy"), (step, *made)):
        assert row(ended(server, path))["last"] == as_measured(one)
    assert [one.delta() for one in (step, *made)] == [1064, 1064, 64]


def test_a_loop(server: Server, client: AllocationClient) -> None:
    for step in range(1, 51):
        with phase("token"):
            allocate(client, step, step)
    assert client.flush(PATIENCE)
    entry = ended(server, "token")
    total = sum(range(1, 51))
    assert (entry["runs"], entry["partial"]) == (50, 0)
    assert (row(entry)["delta"], row(entry)["last"]["delta"], row(entry)["peak"]) == (total, 50, total)


def test_a_server_that_is_restarted_in_a_phase(server: Server, client: AllocationClient) -> None:
    """The new server begins with the present values, and reports that it did not see the start."""
    allocate(client, 1, 1000)
    with phase("decode") as decode:
        allocate(client, 2, 100)
        with phase("attention"):
            assert client.flush(PATIENCE)
            server.stop()
            server.start()
            allocate(client, 3, 10)
            assert client.flush(PATIENCE)
            assert [(e["path"], e["complete"]) for e in phases(server)["open"]] == [
                ("decode", False), ("decode/attention", False),
            ]  # fmt: skip
    assert client.flush(PATIENCE)
    assert row(ended(server, "decode"))["last"]["end"] == decode.end() == 1110
    assert (ended(server, "decode")["partial"], decode.begin(), decode.delta()) == (1, 1000, 110)


DYING = """
import os, sys
from ttmem import AllocationClient, phase
client = AllocationClient(enabled=True, socket_path=sys.argv[1])
client.report_allocation(device_id=0, size=1000, buffer_type="dram", buffer_id=1)
with phase("decode"):
    with phase("attention"):
        client.report_allocation(device_id=0, size=500, buffer_type="dram", buffer_id=2)
        client.report_allocation(device_id=0, size=50, buffer_type="l1", buffer_id=2)
        client.report_deallocation(device_id=0, buffer_id=2, buffer_type="dram")
        assert client.flush(30)
        print("inside", flush=True)
        sys.stdin.read()
"""


def test_a_death_in_a_phase(server: Server) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", DYING, server.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == b"inside\n"
        assert [entry["path"] for entry in phases(server, program.pid)["open"]] == ["decode", "decode/attention"]
        program.send_signal(signal.SIGKILL)
        program.wait(PATIENCE)
        wait_until(lambda: phases(server, program.pid)["state"] == "exited", "the death")
        assert phases(server, program.pid)["open"] == []
        for path in ("decode", "decode/attention"):
            entry = ended(server, path, program.pid)
            assert entry["partial"] == 1
            assert row(entry)["last"] == {"begin": 1000, "peak": 1500, "end": 1000, "delta": 0}
            assert row(entry, "l1")["last"] == {"begin": 0, "peak": 50, "end": 50, "delta": 50}


def test_only_those_with_phases_are_listed(server: Server, client: AllocationClient) -> None:
    allocate(client, 1, 64)
    assert client.flush(PATIENCE)
    assert server.get("/phases") == {"schema": "ttmem.phases/1", "processes": []}
    assert phases(server)["ended"] == []
    with phase("one"):
        pass
    assert client.flush(PATIENCE)
    assert [process["pid"] for process in server.get("/phases")["processes"]] == [os.getpid()]
    with pytest.raises(ApiError, match="no process 1 has reported"):
        server.get("/phases?pid=1")


def test_a_replayed_run_has_its_phases(serve: Callable[..., Server], folder: Any) -> None:
    """The recording has enough data to restore them."""
    from ttmem.account.ledger import Ledger
    from ttmem.account.phases import phases_json
    from ttmem.recording.recording_file import Recording

    file = folder / "run.ttmem"
    server = serve("--quiet", "--record", str(file), name="recording")
    client = AllocationClient(enabled=True, socket_path=server.path)
    allocate(client, 1, 64)
    with phase("one"):
        allocate(client, 2, 36)
    assert client.flush(PATIENCE)
    said = phases(server)
    client.close()
    server.stop()
    ledger = Ledger()
    with Recording(str(file)) as recorded:
        recorded.replay(ledger)
    (process,) = (p for p in (*ledger.processes.values(), *ledger.departed) if p.info.pid == os.getpid())
    again = phases_json(process)
    assert again["ended"] == said["ended"]
    assert row(again["ended"][0])["last"] == {"begin": 64, "peak": 100, "end": 100, "delta": 36}

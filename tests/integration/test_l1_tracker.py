# SPDX-License-Identifier: Apache-2.0
"""The tracker's bytes in a real server's account, where they are labelled as estimated."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

from tests.support import PATIENCE, Server

# Two trackers, and one that reports for another device: their ids must not collide.
PROGRAM = """
import sys
from ttmem.collect.l1_tracker import L1Tracker

first, second, other = L1Tracker(client=True), L1Tracker(client=True), L1Tracker(device=1, client=True)

def step(name):
    assert first.client.flush(30)
    print(name, flush=True)
    sys.stdin.readline()

for tracker in (first, second, other):
    tracker.track_cb(8, 2048, cores=[(0, 0), (1, 0)])
    tracker.track_cb(8, 2048)
    tracker.track_kernel(3)
step("tracked")
second.free_cb(8, 2048, cores=[(0, 0), (1, 0)])
second.unload_kernel(3)
step("freed")
"""
CB, KERNEL = 8 * 2048, 3 * 50 * 1024


class Tracked:
    """The program above, step by step."""

    def __init__(self, socket_path: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            env={**os.environ, "TTMEM_SOCKET": socket_path}, stdin=-1, stdout=-1, text=True,
        )  # fmt: skip

    def until(self, step: str) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline().strip() == step

    def go_on(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def __enter__(self) -> Tracked:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.communicate("\n\n", PATIENCE)


def test_the_account_says_estimated(server: Server) -> None:
    with Tracked(server.path) as program:
        program.until("tracked")
        memory = server.chip()
        assert memory["l1"]["cb"]["held"] == 2 * 3 * CB
        assert memory["l1"]["kernels"] == 2 * KERNEL
        assert memory["confidence"] == {"exact": 0, "reported": 0, "estimated": 2 * (3 * CB + KERNEL)}
        assert server.chip("assumed:1")["confidence"] == {"exact": 0, "reported": 0, "estimated": 3 * CB + KERNEL}
        assert memory["dram"]["used"] is None, "it says nothing of buffers"
        allocations: list[dict[str, Any]] = server.get("/allocations")["allocations"]
        assert len({allocation["id"] for allocation in allocations}) == 9
        assert {(allocation["source"], allocation["confidence"]) for allocation in allocations} == {
            ("l1_tracker", "estimated")
        }
        process = server.process_of(program.process.pid)
        assert process is not None
        assert [source["name"] for source in process["sources"]] == ["l1_tracker"]

        program.go_on()
        program.until("freed")
        memory = server.chip()
        assert memory["l1"]["cb"]["held"] == 4 * CB
        assert memory["l1"]["kernels"] == KERNEL
        assert memory["confidence"]["estimated"] == 4 * CB + KERNEL
        assert not any(server.snapshot()["anomalies"].values())
        program.go_on()
        assert program.process.wait(PATIENCE) == 0


def test_what_has_no_address_gives_no_headroom(server: Server) -> None:
    """If an estimated id were used as an address, every program would seem to fit."""
    with Tracked(server.path) as program:
        program.until("tracked")
        assert all(chip["worst_cached"] is None for chip in server.get("/headroom")["chips"])


def test_a_server_that_dies_changes_nothing(server: Server) -> None:
    script = (
        "import sys; from ttmem.collect.l1_tracker import L1Tracker; t = L1Tracker(client=True);"
        "t.track_cb(8, 2048); assert t.client.flush(30); print('up', flush=True); sys.stdin.readline();"
        "[t.track_cb(8, 2048) for _ in range(999)]; t.track_kernel(); t.free_cb(8, 2048); print(t.cb, t.kern)"
    )
    program = subprocess.Popen(
        [sys.executable, "-c", script],
        env={**os.environ, "TTMEM_SOCKET": server.path}, stdin=-1, stdout=-1, stderr=-1, text=True,
    )  # fmt: skip
    assert program.stdout is not None
    assert program.stdout.readline() == "up\n"
    server.process.kill()
    server.process.wait(PATIENCE)
    out, err = program.communicate("\n", PATIENCE)
    assert (program.returncode, out, err) == (0, f"{999 * 8 * 2048} 51200\n", "")


def test_a_child_does_not_wait_for_a_thread_it_does_not_have() -> None:
    script = """
import os, signal
from ttmem.collect import l1_tracker

tracker = l1_tracker.L1Tracker()
l1_tracker._lock.acquire()  # as another thread would at the moment of the fork
if os.fork() == 0:
    signal.alarm(10)
    tracker.track_cb(2, 2048)
    os._exit(tracker.cb // 1024)
print(os.waitstatus_to_exitcode(os.wait()[1]))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=PATIENCE)
    assert (done.stdout, done.stderr) == ("4\n", "")

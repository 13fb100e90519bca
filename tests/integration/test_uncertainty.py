# SPDX-License-Identifier: Apache-2.0
"""An agent whose counters make its numbers uncertain, under a real server and a real run: screens and exit codes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.runs import Ran, ttmem
from tests.support import PATIENCE, PATIENT_DOCTOR, Server, wait_until

AGENT = [sys.executable, str(Path(__file__).parents[1] / "programs" / "counting_agent.py")]
SURE = ("blobs_full=3",)
UNSURE = ("replaced=143", "unknown_frees=2")
COUNTED = "replaced 143, unknown_frees 2"


@contextmanager
def running(server: Server, *counters: str) -> Iterator[int]:
    """An agent whose buffer and audit the server has read; returns its pid."""
    env = {**os.environ, "TTMEM_SOCKET": server.path}
    with subprocess.Popen([*AGENT, *counters], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        wait_until(lambda: (row := server.process_of(pid)) and row["allocations"] == 1, "the buffer")
        yield pid
        process.stdin.close()
        process.wait(PATIENCE)


def told(server: Server, *command: str) -> tuple[int, str]:
    ran = ttmem(*command, "--socket", server.api, env={**os.environ, "COLUMNS": "140"})
    return ran.code, " ".join((ran.out.decode() + ran.err).split())


def test_every_screen_of_a_server(server: Server) -> None:
    with running(server, *SURE):
        assert "100 % of what the allocators report" in told(server, "smi")[1]
        assert "uncertain" not in told(server, "smi")[1] + told(server, "dump")[1]
        assert told(server, "leaks")[0] == 0
    with running(server, *UNSURE) as pid:
        code, smi = told(server, "smi")
        assert (code, "100 %" in smi) == (0, False)
        assert f"uncertain: the agent counted {COUNTED}" in smi
        assert f"Note: pid {pid}: its numbers are uncertain; its agent counted replaced 143 (" in smi
        assert "uncertain: the agent counted replaced 143 (" in told(server, "dump")[1]
        assert "uncertain: the agent counted replaced 143 (" in told(server, "l1")[1]
        assert told(server, "leaks")[0] == 5
        code, leaks = told(server, "leaks")
        assert code == 5
        assert leaks.endswith(f"verdict: uncertain ({COUNTED}): no leak")
        assert 'ttmem_uncertain_total{reason="replaced"} 143.0' in server.text("/metrics")
        doctor = subprocess.run(
            [*PATIENT_DOCTOR], env={**os.environ, "TTMEM_SOCKET": server.path}, capture_output=True, text=True
        )
        assert "uncertain: its agent counted replaced 143" in " ".join(doctor.stdout.split())
    wait_until(lambda: server.process_of(pid)["state"] == "exited", "its end")  # type: ignore[index]
    smi = told(server, "smi")[1]
    assert f"{pid} " in smi
    assert "exited !" in smi
    assert f"Note: pid {pid}, which has exited: its numbers are uncertain" in smi
    assert told(server, "leaks")[0] == 0, "nobody who lives is uncertain"


def run(folder: Path, *counters: str, options: tuple[str, ...] = ()) -> Ran:
    path = folder / "run.json"
    env = {**os.environ, "TTMEM_SOCKET": str(folder / "nobody.sock")}
    done = ttmem("run", "--json", str(path), *options, "--", *AGENT, *counters, env=env)
    return done._replace(data=json.loads(path.read_text()))


@pytest.mark.parametrize("option", [("--max-l1", "1G"), ("--max-dram", "1G"), ("--max-dram", "1"), ("--fail-on-leak",)])
def test_a_run_exits_with_5(folder: Path, option: tuple[str, ...]) -> None:
    expected = 4 if option[-1] == "1" else 0
    ran = run(folder, *SURE, options=option)
    assert ran.code == expected, ran.err
    assert "; 100 % complete" in ran.err
    record = folder / "events"
    ran = run(folder, *UNSURE, options=(*option, "--record", str(record)))
    assert ran.code == 5, ran.err
    assert re.search(rf"^ttmem run: exit 0 after .*; uncertain: {COUNTED}$", ran.err, re.MULTILINE)
    assert "100 %" not in ran.err
    assert f"left at the end: 100 B of DRAM in 1 allocation (uncertain: {COUNTED})" in ran.err
    assert f"verdict: the result is uncertain: the agent counted {COUNTED}" in ran.err
    assert ran.data["completeness"] is None
    assert {one["reason"]: one["count"] for one in ran.data["uncertain"]} == {"replaced": 143, "unknown_frees": 2}
    replayed = " ".join(ttmem("replay", str(record), "--at", "end").out.decode().split())
    assert "which has exited: its numbers are uncertain; its agent counted replaced 143" in replayed


def test_without_a_verdict_the_exit_code_is_the_commands_own(folder: Path) -> None:
    ran = run(folder, *UNSURE)
    assert ran.code == 0
    assert f"uncertain: {COUNTED}" in ran.err
